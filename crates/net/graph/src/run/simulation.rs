//! How time that jumps moves on where several threads run a router: to the first timer of
//! all lanes, as soon as no lane has anything to do.

use std::sync::{Arc, Mutex, PoisonError};

use crate::clock::Clock;
use crate::run::mailbox::Mailbox;

/// What each lane waits for; `None` while it has something to do.
#[derive(Debug)]
pub(crate) struct Simulation {
    resting: Mutex<Vec<Option<Resting>>>,
}

/// When the first timer of a lane that rests is due, if it has one.
type Resting = Option<i64>;

impl Simulation {
    /// Of so many lanes, all of which have something to do.
    pub(crate) fn new(lanes: usize) -> Simulation {
        Simulation { resting: Mutex::new(vec![None; lanes]) }
    }

    /// A lane has nothing to do until its first timer is due. When it is the last one, time
    /// moves on, and the lanes whose timers are due then are woken; whether this one is.
    ///
    /// Whoever posts a message to a lane does so before it rests itself, and a lane says
    /// that it works before it takes its messages: so no message is under way when all lanes
    /// rest and all mailboxes are empty.
    pub(crate) fn rest(&self, lane: usize, first: Option<i64>, clock: &Clock, all: &[Arc<Mailbox>]) -> bool {
        let mut resting = self.resting.lock().unwrap_or_else(PoisonError::into_inner);
        resting[lane] = Some(first);
        if resting.iter().any(Option::is_none) || all.iter().any(|mailbox| mailbox.has_messages()) {
            return false;
        }
        let Some(at) = resting.iter().flatten().flatten().min().copied() else { return false };
        clock.jump_to(at);
        for (other, due) in resting.iter_mut().enumerate() {
            if due.flatten().is_some_and(|due| due <= at) {
                *due = None;
                if other != lane {
                    all[other].wakeup.wake();
                }
            }
        }
        resting[lane].is_none()
    }

    /// All lanes have something to do: how time passes has changed.
    pub(crate) fn begin_anew(&self) {
        self.resting.lock().unwrap_or_else(PoisonError::into_inner).fill(None);
    }

    /// A lane goes on.
    pub(crate) fn work(&self, lane: usize) {
        self.resting.lock().unwrap_or_else(PoisonError::into_inner)[lane] = None;
    }
}
