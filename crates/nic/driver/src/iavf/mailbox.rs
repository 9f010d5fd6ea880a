//! The mailbox: messages to the physical function, one at a time, each with a limit of time for its
//! answer; and what it sends unsolicited. The queues are those of the XL710's admin queue.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bus::Bar;
use memory::Dma;
use port::{Counter, Link};
use regs::i40e::admin::{Descriptor, opcode};
use regs::iavf::*;
use regs::virtchnl::message::Event;
use regs::virtchnl::{self, SPEEDS, event, op, status};

use super::VfFault;
use crate::Result;
use crate::i40e::admin::{AdminQueue, Registers};
use crate::wait::{Late, poll};

/// How long the physical function may take to answer.
const LIMIT: Duration = Duration::from_secs(2);
/// How long an answer is expected that was not waited for any longer: then it was lost on the way.
const OWED: Duration = Duration::from_secs(10);
/// How often the answer is looked for.
const PAUSE: Duration = Duration::from_micros(100);

const REGISTERS: Registers = Registers {
    send: [VF_ATQBAL1::AT, VF_ATQBAH1::AT, VF_ATQLEN1::AT, VF_ATQH1::AT, VF_ATQT1::AT],
    receive: [VF_ARQBAL1::AT, VF_ARQBAH1::AT, VF_ARQLEN1::AT, VF_ARQH1::AT, VF_ARQT1::AT],
};

/// The counter of messages that nobody had asked for.
pub(super) const STRAYS: &str = "mailbox_strays";

/// An answer: kind, status, bytes.
type Answer = (u32, i32, Vec<u8>);

/// The mailbox, enabled.
pub(super) struct Mailbox {
    queue: AdminQueue,
    device: String,
    /// What was told of the link last.
    pub link: Link,
    /// A reset was announced, or has come.
    reset: bool,
    /// Answers that were not waited for any longer, by their kind: they may come yet, and belong to
    /// no later message. With each kind is told since when the last of them is owed.
    owed: BTreeMap<u32, (u32, Instant)>,
    /// Messages that nobody had asked for.
    strays: u64,
}

impl Mailbox {
    /// Enables both queues.
    pub fn new(bar: &Bar, device: &str, dma: &Dma) -> Result<Mailbox> {
        let queue = AdminQueue::new(bar, REGISTERS, device, dma)?;
        Ok(Mailbox {
            queue,
            device: device.to_owned(),
            link: Link::DOWN,
            reset: false,
            owed: BTreeMap::new(),
            strays: 0,
        })
    }

    /// Whether the physical function has reset this one since, or says that it will.
    pub fn is_reset(&mut self) -> bool {
        self.reset |= !self.queue.is_enabled();
        self.reset
    }

    /// Whether a reset has taken the queues away.
    pub fn is_disabled(&self) -> bool {
        !self.queue.is_enabled()
    }

    /// Takes what was told; answers to `wanted` among it.
    fn take(&mut self, wanted: u32) -> Option<Answer> {
        let Mailbox { queue, link, reset, owed, strays, .. } = self;
        let mut answer = None;
        queue.events(|event, bytes| {
            let (kind, status) = (event.cookie as u32, (event.cookie >> 32) as i32);
            match kind {
                _ if event.opcode != opcode::SEND_MSG_TO_VF => *strays += 1,
                op::EVENT => match Event::decode(&bytes) {
                    Some(told) if told.event == event::LINK_CHANGE => *link = link_of(told.link),
                    Some(told) if told.event == event::RESET_IMPENDING => *reset = true,
                    Some(told) if told.event == event::PF_DRIVER_CLOSE => *reset = true,
                    _ => *strays += 1,
                },
                _ if is_owed(owed, kind) => {}
                _ if kind == wanted && answer.is_none() => answer = Some((kind, status, bytes)),
                _ => *strays += 1,
            }
        });
        answer
    }

    /// What came and was of no use.
    pub fn counters(&self) -> [Counter; 2] {
        let what = "messages of the physical function that nobody had asked for";
        let strays = Counter { name: STRAYS, value: self.strays, loss: None, what };
        [strays, self.queue.forged_counter()]
    }

    /// Takes what came unsolicited.
    pub fn take_events(&mut self) {
        let _ = self.take(op::EVENT);
    }

    /// Sends a message that nobody answers.
    pub fn tell(&mut self, kind: u32, bytes: &[u8]) -> Result<()> {
        let mut command = Descriptor::new(opcode::SEND_MSG_TO_PF);
        command.cookie = kind.into();
        match bytes {
            [] => self.queue.command(command),
            bytes => self.queue.write(command, bytes),
        }
        .map(|_| ())
    }

    /// Sends a message; the bytes of its answer.
    pub fn ask(&mut self, kind: u32, bytes: &[u8]) -> Result<Vec<u8>> {
        let (device, message) = (self.device.clone(), virtchnl::name(kind));
        // What came before it is no answer to this.
        self.take_events();
        give_up_owed(&mut self.owed, Instant::now());
        if self.is_reset() {
            return Err(VfFault::Reset { device }.into());
        }
        self.tell(kind, bytes)?;
        let answered = poll(LIMIT, PAUSE, || match self.take(kind) {
            Some(answer) => Ok(Some(answer)),
            None if self.is_reset() => Err(VfFault::Reset { device: device.clone() }.into()),
            None => Ok(None),
        })?;
        match answered {
            Ok((_, status::SUCCESS, bytes)) => Ok(bytes),
            Ok((_, other, _)) => {
                let known = status::TABLE.iter().find(|(value, ..)| *value == other);
                let (status, meaning) =
                    known.map_or(("no status", "and nothing known"), |(_, name, what)| (*name, *what));
                Err(VfFault::Refused { device, message, opcode: kind, status, meaning }.into())
            }
            Err(Late(waited_ms)) => {
                let now = Instant::now();
                let (count, since) = self.owed.entry(kind).or_insert((0, now));
                (*count, *since) = (*count + 1, now);
                Err(VfFault::NoAnswer { device, message, opcode: kind, waited_ms }.into())
            }
        }
    }

    /// Whether all messages of a kind were answered so far.
    pub fn answers(&mut self, kind: u32) -> Result<()> {
        self.take_events();
        give_up_owed(&mut self.owed, Instant::now());
        match self.owed.contains_key(&kind) {
            false => Ok(()),
            true => {
                let (device, message) = (self.device.clone(), virtchnl::name(kind));
                Err(VfFault::NoAnswer { device, message, opcode: kind, waited_ms: 0 }.into())
            }
        }
    }

    /// An answer that is not what was asked for.
    pub fn nonsense(&self, kind: u32, why: &'static str) -> crate::Error {
        VfFault::Nonsense { device: self.device.clone(), message: virtchnl::name(kind), why }.into()
    }

    /// Disables it: late messages find no memory. What it had is kept for ever, for the device may be
    /// at it just now.
    pub fn give_up(&self) {
        self.queue.disable();
        self.queue.leak();
    }
}

/// Whether an answer of a kind is owed to an earlier message; then it is not any more.
fn is_owed(owed: &mut BTreeMap<u32, (u32, Instant)>, kind: u32) -> bool {
    let Some((count, _)) = owed.get_mut(&kind) else { return false };
    *count -= 1;
    if *count == 0 {
        owed.remove(&kind);
    }
    true
}

/// Expects no longer what was owed for long, or each later answer of its kind would be taken for it. But
/// memory of queues is freed by what DISABLE_QUEUES is answered, which must be the answer to this one.
fn give_up_owed(owed: &mut BTreeMap<u32, (u32, Instant)>, now: Instant) {
    owed.retain(|kind, (_, since)| *kind == op::DISABLE_QUEUES || now.duration_since(*since) < OWED);
}

/// What an event tells of the link.
fn link_of((speed, up): (u32, bool)) -> Link {
    let known = SPEEDS.iter().find(|(value, _)| *value == speed);
    match up {
        true => Link::up(known.map_or(0, |(_, mbps)| *mbps)),
        false => Link::DOWN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_was_lost_is_not_expected_for_ever() {
        let (then, stats) = (Instant::now(), op::GET_STATS);
        let mut owed = BTreeMap::from([(stats, (2, then)), (op::DISABLE_QUEUES, (1, then))]);
        give_up_owed(&mut owed, then + OWED / 2);
        assert!(is_owed(&mut owed, stats) && owed.contains_key(&stats), "one may come yet");
        give_up_owed(&mut owed, then + OWED);
        assert!(!is_owed(&mut owed, stats), "what comes now is the answer to the latest");
        assert!(is_owed(&mut owed, op::DISABLE_QUEUES) && !is_owed(&mut owed, op::DISABLE_QUEUES));
    }
}
