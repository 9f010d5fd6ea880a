//! What another thread sees of a host while it runs: it asks, and the host copies what it is asked
//! for in its own turns, some connections in each, so that no packet waits for whoever looks.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use port::Counter;

use crate::State;
use crate::configuration::Assigned;
use crate::event::Id;
use crate::info::Info;
use crate::stack::Stack;

/// Places of connections that are looked at in a turn, those in which there is none among them.
const EACH_TURN: usize = 256;

/// What a host was like.
#[derive(Debug, Clone, Default)]
pub struct Shown {
    /// When it was asked for the last of it, in nanoseconds of the stack's clock.
    pub now_ns: i64,
    /// Connections, as many as were asked for at most.
    pub connections: Vec<(Id, Info)>,
    /// How many connections there are.
    pub open: usize,
    /// Packets that connections keep.
    pub kept_packets: usize,
    /// What was counted, losses first.
    pub counters: Vec<Counter>,
    /// Addresses that the host was told to have.
    pub assigned: Vec<Assigned>,
}

/// A look at a host that runs on another thread ([`Host::watch`](crate::Host::watch)).
#[derive(Debug, Clone, Default)]
pub struct Watch(Arc<SharedWatch>);

#[derive(Debug, Default)]
struct SharedWatch {
    /// Somebody has asked and was not shown all. `Release` and `Acquire` have the host see the
    /// limit, and the asker what was shown.
    is_asked: AtomicBool,
    /// How many connections are wanted at most.
    limit: AtomicUsize,
    shown: Mutex<Shown>,
}

impl Watch {
    /// Asks for as many connections at most, and for all counters.
    pub fn ask(&self, limit: usize) {
        self.0.limit.store(limit, Ordering::Relaxed);
        self.0.is_asked.store(true, Ordering::Release);
    }

    /// What was asked for, once the host has shown it.
    pub fn shown(&self) -> Option<Shown> {
        if self.0.is_asked.load(Ordering::Acquire) {
            return None;
        }
        Some(std::mem::take(&mut *self.0.shown.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Whether the host is to show something.
    #[inline]
    pub(crate) fn is_asked(&self) -> bool {
        self.0.is_asked.load(Ordering::Acquire)
    }
}

/// How far a host has come with what it shows.
#[derive(Debug, Default)]
pub(crate) struct Showing {
    watch: Watch,
    /// The place of the connection that is next.
    place: usize,
    connections: Vec<(Id, Info)>,
    /// Those in TIME-WAIT, which are shown behind all others.
    waiting: Vec<(Id, Info)>,
}

impl Showing {
    /// What others ask by.
    pub fn watch(&self) -> Watch {
        self.watch.clone()
    }

    /// Whether there is something to do.
    #[inline]
    pub fn is_asked(&self) -> bool {
        self.watch.is_asked()
    }

    /// Copies some connections, and shows all behind the last.
    pub fn go_on(
        &mut self,
        stack: &Stack,
        of_host: impl FnOnce() -> (Vec<Counter>, Vec<Assigned>),
        now_ns: i64,
    ) {
        let limit = self.watch.0.limit.load(Ordering::Relaxed);
        let end = self.place.saturating_add(EACH_TURN);
        for it in stack.connections_at(self.place..end) {
            match it.1.state == State::TimeWait {
                false => self.connections.push(it),
                true if self.waiting.len() < limit => self.waiting.push(it),
                true => {}
            }
        }
        self.place = end;
        let is_over = end >= stack.places();
        if !is_over && self.connections.len() < limit {
            return;
        }
        let mut connections = std::mem::take(&mut self.connections);
        connections.append(&mut self.waiting);
        connections.truncate(limit);
        let (open, kept_packets) = (stack.len(), stack.kept_packets());
        let (counters, assigned) = of_host();
        let shown = Shown { now_ns, connections, open, kept_packets, counters, assigned };
        let shared = &self.watch.0;
        *shared.shown.lock().unwrap_or_else(PoisonError::into_inner) = shown;
        self.place = 0;
        shared.is_asked.store(false, Ordering::Release);
    }
}
