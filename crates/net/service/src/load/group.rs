//! Loads of one client that run on several queues: each has a share of the connections and of the
//! rate, and all begin each step together.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use port::FlowTable;

/// Loads that go from step to step together.
#[derive(Debug)]
pub struct Group {
    members: usize,
    /// How many are ready for each step, or never will be again.
    ready: Box<[AtomicUsize]>,
    /// How many have come to their end.
    over: AtomicUsize,
}

impl Group {
    /// A group of so many loads with so many steps.
    pub fn new(members: usize, steps: usize) -> Group {
        let ready = (0..steps).map(|_| AtomicUsize::new(0)).collect();
        Group { members, ready, over: AtomicUsize::new(0) }
    }

    /// A load is ready for the steps of these numbers. Relaxed, as below: nothing but the number
    /// goes from one to another.
    pub(super) fn arrive(&self, steps: std::ops::Range<usize>) {
        let steps = self.ready.get(steps.start..steps.end.min(self.ready.len())).unwrap_or_default();
        steps.iter().for_each(|ready| _ = ready.fetch_add(1, Ordering::Relaxed));
    }

    /// Whether all are ready for a step.
    pub(super) fn is_open(&self, step: usize) -> bool {
        self.ready.get(step).is_none_or(|ready| ready.load(Ordering::Relaxed) >= self.members)
    }

    /// A load has come to its end; whether it was the last one.
    pub(super) fn end(&self) -> bool {
        self.over.fetch_add(1, Ordering::Relaxed) + 1 >= self.members
    }
}

/// The queue that answers must come to, and how the device spreads them.
#[derive(Clone)]
pub struct Steering {
    /// Which queue a flow comes to.
    pub flows: Arc<FlowTable>,
    /// That of this load.
    pub queue: usize,
}

impl Steering {
    /// Whether answers to a port of this side come to the queue.
    pub(super) fn fits(&self, own: (IpAddr, u16), remote: (IpAddr, u16)) -> bool {
        let ports = Some([remote.1.to_be_bytes(), own.1.to_be_bytes()]);
        let hash = match (remote.0, own.0) {
            (IpAddr::V4(from), IpAddr::V4(to)) => self.flows.hash(&from.octets(), &to.octets(), ports),
            (IpAddr::V6(from), IpAddr::V6(to)) => self.flows.hash(&from.octets(), &to.octets(), ports),
            _ => return false,
        };
        self.flows.queue(hash) == self.queue
    }
}
