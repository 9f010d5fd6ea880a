//! Signals: whether it is worth asking for packets, or offering them, and whom to
//! wake when that changes.
//!
//! A queue that runs empty lowers its signal, and those who pull from it go to
//! sleep; the next packet raises it and wakes them. Elements between pass the
//! question on.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::inbox::Inbox;
use crate::lane::Lane;
use crate::task::TaskId;

/// What a signal is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// There are packets to pull.
    Packets,
    /// There is room to push.
    Room,
}

/// What an element says to one who looks for a signal through it.
#[derive(Debug, Clone)]
pub enum Notice {
    /// Ask those beyond me.
    Continue,
    /// This is my signal.
    Signal(Signal),
    /// This is my signal; ask those beyond me as well.
    Both(Signal),
    /// Nothing will ever come of me.
    Never,
    /// I give no signals: always try.
    Always,
}

/// A task to wake, in the lane it belongs to.
#[derive(Debug, Clone)]
pub struct Waker {
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) task: TaskId,
}

/// Raised or lowered by one element, seen by any number of others.
#[derive(Debug, Clone, Default)]
pub struct Signal(Arc<Core>);

/// How many were made so far.
static NUMBERS: AtomicU64 = AtomicU64::new(1);

#[derive(Debug, Default)]
struct Core {
    number: u64,
    raised: AtomicBool,
    /// Who is woken. Looked at only when it rises, by the one who raised it.
    wakers: Mutex<Vec<Waker>>,
}

impl Signal {
    /// A signal, raised or not.
    pub fn new(raised: bool) -> Signal {
        // Relaxed: a count, which orders nothing else.
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        Signal(Arc::new(Core { number, raised: AtomicBool::new(raised), ..Core::default() }))
    }

    /// Its number: signals that were made later have higher ones.
    pub fn number(&self) -> u64 {
        self.0.number
    }

    /// Whether it is raised.
    #[inline]
    pub fn is_raised(&self) -> bool {
        // Acquire: what was done before it was raised is seen (pairs with `raise`).
        self.0.raised.load(Ordering::Acquire)
    }

    /// Lowers it. Look once more afterwards whether that is still right: another
    /// thread may just have raised it.
    #[inline]
    pub fn lower(&self) {
        // SeqCst: the look that follows must not come first.
        self.0.raised.store(false, Ordering::SeqCst);
    }

    /// Raises it, and wakes those who wait if it was lowered.
    #[inline]
    pub fn raise(&self, cx: &mut crate::Cx<'_>) {
        // The load first: a line that is only read stays with all its readers.
        if !self.is_raised() {
            self.raise_slowly(cx.lane);
        }
    }

    #[cold]
    fn raise_slowly(&self, lane: &mut Lane) {
        if self.0.raised.swap(true, Ordering::SeqCst) {
            return;
        }
        for waker in self.wakers().iter() {
            if waker.task.lane == lane.id {
                lane.tasks.schedule(waker.task);
            } else {
                waker.inbox.wake(waker.task);
            }
        }
    }

    fn wakers(&self) -> MutexGuard<'_, Vec<Waker>> {
        self.0.wakers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has `waker` woken when the signal rises from now on.
    pub(crate) fn listen(&self, waker: Waker) {
        let mut wakers = self.wakers();
        if !wakers.iter().any(|w| w.task == waker.task) {
            wakers.push(waker);
        }
    }

    /// Whether both are one.
    pub fn same(&self, other: &Signal) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// All that a task waits for.
#[derive(Debug, Clone, Default)]
pub struct Signals {
    pub(crate) list: Vec<Signal>,
    /// Someone gives no signals.
    pub(crate) always: bool,
}

impl Signals {
    /// Always worth a try.
    pub fn always() -> Signals {
        Signals { list: vec![], always: true }
    }

    /// Whether it is worth a try.
    #[inline]
    pub fn any(&self) -> bool {
        self.always || self.list.iter().any(Signal::is_raised)
    }

    /// Whether nothing will ever come.
    pub fn never(&self) -> bool {
        !self.always && self.list.is_empty()
    }

    /// The signals, when all beyond give them.
    pub fn list(&self) -> &[Signal] {
        &self.list
    }

    /// Adds what another path says.
    pub fn add(&mut self, notice: Notice) {
        match notice {
            Notice::Always => self.always = true,
            Notice::Never | Notice::Continue => {}
            Notice::Signal(signal) | Notice::Both(signal) => {
                if !self.list.iter().any(|s| s.same(&signal)) {
                    self.list.push(signal);
                }
            }
        }
    }
}
