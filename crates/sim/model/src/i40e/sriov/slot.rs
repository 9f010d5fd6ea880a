//! What a virtual function and its physical one share: each is a device of its own, stepped by
//! itself, and reaches its own client's memory alone. So whatever passes between them, messages,
//! frames, contexts of queues, passes as bytes through a [`Slot`], within bounds.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use regs::i40e::{context, reset_state};
use regs::iavf::QUEUES;

use super::super::admin::Message;
use super::super::rss::Hash;
use super::super::statistics::Statistics;
use crate::relay::Relay;

/// Messages that wait in either direction at most. The firmware says that it is busy then.
const MESSAGES: usize = 16;
/// The words of a receive queue's context, and of a transmit queue's.
pub(in crate::i40e) type RxContext = [u64; context::rx::LEN / 8];
pub(in crate::i40e) type TxContext = [u64; context::tx::LEN / 8];

/// A queue as the physical function wants it.
#[derive(Debug, Clone, Copy)]
pub(in crate::i40e) struct Queue<C> {
    /// Its context while it is to run, and where it begins.
    pub wanted: Option<(C, u32)>,
    /// Counts what was wanted.
    pub serial: u64,
    /// Whether it runs, by the virtual function.
    pub runs: bool,
    /// Its interrupt, as QINT_RQCTL or QINT_TQCTL has it.
    pub cause: u32,
}

impl<C> Default for Queue<C> {
    fn default() -> Queue<C> {
        Queue { wanted: None, serial: 0, runs: false, cause: 0 }
    }
}

impl<C> Queue<C> {
    /// Starts or stops it.
    pub fn want(&mut self, context: Option<(C, u32)>) {
        (self.wanted, self.serial) = (context, self.serial + 1);
    }

    /// The virtual function's word on whether what was wanted at `serial` runs; `false` when
    /// something else is wanted since.
    pub fn tell(&mut self, serial: u64, runs: bool) -> bool {
        let is_current = self.serial == serial;
        if is_current {
            self.runs = runs;
        }
        is_current
    }

    /// Forgets it; what was started before stops.
    fn reset(&mut self) {
        *self = Queue { serial: self.serial + 1, ..Queue::default() };
    }
}

/// What both share.
#[derive(Debug, Default)]
pub(in crate::i40e) struct Slot {
    /// Counts resets of the virtual function.
    pub resets: u64,
    /// What VFGEN_RSTAT reads.
    pub state: u32,
    /// The virtual function was reset by its own driver, and the physical one has not cleared that.
    pub reset_by_vf: bool,
    /// Likewise, and its interrupt is not sent.
    pub tell_reset: bool,
    pub rx: [Queue<RxContext>; QUEUES],
    pub tx: [Queue<TxContext>; QUEUES],
    /// A queue's context could not be used.
    pub failed: bool,
    /// Queues that flows are spread over, a power of two, and whether tags are stripped.
    pub spread: u16,
    pub strips: bool,
    pub hash: Hash,
    /// The hash, or what stands with it, has changed.
    pub stale: bool,
    /// The device takes what the virtual function sends for malicious, and the physical one has not
    /// cleared that.
    pub malicious: bool,
    /// What the virtual function counts.
    pub statistics: Statistics,
    /// Packets that its VSI may not send.
    pub refused: u64,
    /// Control frames that are not to be sent.
    pub control: u64,
    pub frames: Relay,
    to_vf: VecDeque<Message>,
    to_pf: VecDeque<Message>,
}

impl Slot {
    /// A reset of the virtual function: its queues stop, its mailbox is empty.
    pub fn reset(&mut self) {
        self.resets += 1;
        self.state = reset_state::IN_PROGRESS;
        self.rx.iter_mut().for_each(Queue::reset);
        self.tx.iter_mut().for_each(Queue::reset);
        (self.failed, self.malicious, self.stale) = (false, false, true);
        self.to_vf.clear();
        self.to_pf.clear();
        self.frames.clear();
    }

    /// A reset by the driver of the virtual function, of which the physical one is told.
    pub fn reset_by_vf(&mut self) {
        self.reset();
        (self.reset_by_vf, self.tell_reset) = (true, true);
    }

    /// Sends a message to the virtual function; `false` while it has too many.
    pub fn tell_vf(&mut self, message: Message) -> bool {
        let room = self.to_vf.len() < MESSAGES;
        self.to_vf.extend(room.then_some(message));
        room
    }

    /// Sends a message to the physical function, likewise.
    pub fn tell_pf(&mut self, message: Message) -> bool {
        let room = self.to_pf.len() < MESSAGES;
        self.to_pf.extend(room.then_some(message));
        room
    }

    /// Whether a message waits for the physical function, or for the virtual one.
    pub fn has_messages(&self) -> (bool, bool) {
        (!self.to_pf.is_empty(), !self.to_vf.is_empty())
    }

    /// The next message for the virtual function.
    pub fn next_for_vf(&mut self) -> Option<Message> {
        self.to_vf.pop_front()
    }

    /// The next message for the physical function.
    pub fn next_for_pf(&mut self) -> Option<Message> {
        self.to_pf.pop_front()
    }
}

/// A slot, as either side has it.
#[derive(Debug, Clone, Default)]
pub struct SharedSlot(Arc<Mutex<Slot>>);

impl SharedSlot {
    /// Nobody waits for anything else while holding it.
    pub(in crate::i40e) fn lock(&self) -> MutexGuard<'_, Slot> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether somebody holds it.
    #[cfg(test)]
    pub(in crate::i40e) fn is_held(&self) -> bool {
        matches!(self.0.try_lock(), Err(std::sync::TryLockError::WouldBlock))
    }
}
