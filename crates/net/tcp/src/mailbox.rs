//! What the cores of a host tell each other: each has a mailbox, into which the others put and
//! from which it takes, in order. Nothing is put there but while connections move, and for
//! segments and words of routers that came to another core than their connection's.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use runtime::Wakeup;

use crate::ahead::Arrival;
use crate::event::Kept;
use crate::icmp::TooBig;
use crate::moved::Moved;

/// Segments that a mailbox holds.
pub const SEGMENTS: usize = 1024;
/// Segments that came in fragments, where no others are passed on.
pub const WHOLE: usize = 64;
/// Words of routers that it holds, which anybody can forge.
const WORDS: usize = 64;

/// What one core tells another.
#[derive(Debug)]
pub enum Mail {
    /// A segment that came to the sender, of a group that is the receiver's.
    Segment(Arrival),
    /// What a router told of a segment of the receiver's.
    TooBig(TooBig),
    /// A connection, and what its service keeps of it.
    Connection(Moved, Option<Kept>),
    /// Groups are the receiver's from now on; who had them.
    Take(Vec<u16>, u16),
    /// Groups are to be given to other cores, each with its new one.
    Give(Vec<(u16, u16)>),
    /// The port leads the groups that the receiver gave away to their new cores.
    Led,
    /// Nothing is left in the ring of that core of the groups that it gave to the receiver.
    Drained(u16),
}

#[derive(Debug, Default)]
struct Held {
    mail: VecDeque<Mail>,
    segments: usize,
    words: usize,
    /// The core is no more: what comes is dropped.
    is_closed: bool,
}

/// The mailbox of a core.
#[derive(Debug)]
pub struct Mailbox {
    held: Mutex<Held>,
    /// Something is there. What is told is ordered by the lock, under which this changes; a core
    /// that looks without the lock sees it a turn later at worst, and before it sleeps, for the
    /// wake-up's system calls order it.
    is_filled: AtomicBool,
    wakeup: Arc<Wakeup>,
}

impl Mailbox {
    /// An empty mailbox.
    ///
    /// # Errors
    /// When the process has no file descriptors left.
    pub fn new() -> std::io::Result<Mailbox> {
        let wakeup = Arc::new(Wakeup::new()?);
        Ok(Mailbox { held: Mutex::default(), is_filled: AtomicBool::new(false), wakeup })
    }

    /// What ends the sleep of the core's thread.
    pub fn wakeup(&self) -> Arc<Wakeup> {
        self.wakeup.clone()
    }

    /// Whether something is there.
    #[inline]
    pub fn is_filled(&self) -> bool {
        self.is_filled.load(Ordering::Acquire)
    }

    /// Puts a message there.
    pub fn put(&self, mail: Mail) {
        self.put_held(self.lock(), mail);
    }

    /// Puts a message there, under the lock that is held.
    fn put_held(&self, mut held: MutexGuard<'_, Held>, mail: Mail) {
        if held.is_closed {
            return;
        }
        held.segments += usize::from(matches!(mail, Mail::Segment(_)));
        held.words += usize::from(matches!(mail, Mail::TooBig(_)));
        held.mail.push_back(mail);
        // Whoever takes it clears the flag while it holds the lock.
        let was_filled = self.is_filled.swap(true, Ordering::AcqRel);
        drop(held);
        if !was_filled {
            self.wakeup.wake();
        }
    }

    /// Puts a segment there, unless there are `most` of them: then it is given back.
    pub fn put_segment(&self, arrival: Arrival, most: usize) -> Option<Arrival> {
        let held = self.lock();
        if held.segments >= most {
            return Some(arrival);
        }
        self.put_held(held, Mail::Segment(arrival));
        None
    }

    /// Puts what a router told there, unless there is too much; whether it did.
    pub fn put_too_big(&self, told: TooBig) -> bool {
        let held = self.lock();
        let has_room = !held.is_closed && held.words < WORDS;
        if has_room {
            self.put_held(held, Mail::TooBig(told));
        }
        has_room
    }

    /// Takes all that is there, in place of an empty list.
    pub fn take(&self, mail: &mut VecDeque<Mail>) {
        let mut held = self.lock();
        self.is_filled.store(false, Ordering::Release);
        (held.segments, held.words) = (0, 0);
        std::mem::swap(&mut held.mail, mail);
    }

    /// Drops all that is there, and what comes from now on.
    pub fn close(&self) {
        let mut held = self.lock();
        held.is_closed = true;
        held.mail.clear();
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
