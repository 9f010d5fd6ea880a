//! What lanes count: frames and bytes of each port, and each frame that goes no further, by
//! name. A lane is the only writer of its counters; anybody may read them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use port::Reason;
use serde::Serialize;

/// A way through a lane: from the port of a network, or from one of the underlay.
#[derive(Debug)]
pub struct Side {
    /// Frames that came by the port.
    received: AtomicU64,
    /// Bytes of the frames that came.
    received_bytes: AtomicU64,
    /// Frames that went on: into a tunnel or out of one.
    forwarded: AtomicU64,
    /// Copies that were made beside them for a flood list.
    copies: AtomicU64,
    /// Requests that were answered.
    answered: AtomicU64,
    /// Answers of neighbours, which the control took.
    taken: AtomicU64,
    /// Packets of networks that a NIC gave back; they were counted as forwarded before.
    returned: AtomicU64,
    /// Those packets as frames of the underlay.
    given_back: AtomicU64,
    /// Dropped frames, by reason.
    drops: Vec<AtomicU64>,
}

impl Default for Side {
    fn default() -> Side {
        let drops = Reason::ALL.iter().map(|_| AtomicU64::new(0)).collect();
        Side {
            received: AtomicU64::new(0),
            received_bytes: AtomicU64::new(0),
            forwarded: AtomicU64::new(0),
            copies: AtomicU64::new(0),
            answered: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            returned: AtomicU64::new(0),
            given_back: AtomicU64::new(0),
            drops,
        }
    }
}

/// One more, by the only writer.
#[inline]
fn add(counter: &AtomicU64, count: u64) {
    // Nobody else writes it, and nothing is read that another write must come before.
    counter.store(counter.load(Ordering::Relaxed) + count, Ordering::Relaxed);
}

impl Side {
    pub(crate) fn receive(&self, frames: usize, bytes: usize) {
        add(&self.received, frames as u64);
        add(&self.received_bytes, bytes as u64);
    }

    pub(crate) fn forward(&self) {
        add(&self.forwarded, 1);
    }

    pub(crate) fn copy(&self) {
        add(&self.copies, 1);
    }

    pub(crate) fn answer(&self) {
        add(&self.answered, 1);
    }

    pub(crate) fn take(&self) {
        add(&self.taken, 1);
    }

    pub(crate) fn return_one(&self) {
        add(&self.returned, 1);
    }

    pub(crate) fn give_back(&self) {
        add(&self.given_back, 1);
    }

    pub(crate) fn lose(&self, reason: Reason) {
        add(&self.drops[reason as usize], 1);
    }
}

/// The counters of one lane.
#[derive(Debug, Default)]
pub struct Counters {
    /// By port of a network, in the order of the configuration.
    pub inner: Vec<Side>,
    /// By port of the underlay.
    pub underlay: Vec<Side>,
    /// Requests that the control had sent.
    pub(crate) requests: AtomicU64,
}

impl Counters {
    /// Counters for so many ports.
    pub fn new(inner: usize, underlay: usize) -> Counters {
        let sides = |count| (0..count).map(|_| Side::default()).collect();
        Counters { inner: sides(inner), underlay: sides(underlay), requests: AtomicU64::new(0) }
    }

    pub(crate) fn request(&self) {
        add(&self.requests, 1);
    }

    /// Requests for neighbours that were sent.
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }
}

/// What one side of all lanes counted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// Frames that came by the port.
    pub received: u64,
    /// Bytes of the frames that came.
    pub received_bytes: u64,
    /// Frames that went on.
    pub forwarded: u64,
    /// Copies beside them.
    pub copies: u64,
    /// Requests that were answered.
    pub answered: u64,
    /// Answers of neighbours.
    pub taken: u64,
    /// Packets that a NIC gave back, which had been forwarded to it and are sent by software.
    pub returned: u64,
    /// The same as frames that came from the NIC.
    pub given_back: u64,
    /// Frames dropped, by name.
    pub drops: BTreeMap<&'static str, u64>,
}

impl Totals {
    /// Adds what a lane counted.
    pub fn add(&mut self, side: &Side) {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        self.received += load(&side.received);
        self.received_bytes += load(&side.received_bytes);
        self.forwarded += load(&side.forwarded);
        self.copies += load(&side.copies);
        self.answered += load(&side.answered);
        self.taken += load(&side.taken);
        self.returned += load(&side.returned);
        self.given_back += load(&side.given_back);
        for (reason, count) in Reason::ALL.iter().zip(&side.drops) {
            let count = load(count);
            if count > 0 {
                *self.drops.entry(reason.name()).or_default() += count;
            }
        }
    }

    /// Frames that went no further.
    pub fn dropped(&self) -> u64 {
        self.drops.values().sum()
    }

    /// Whether every received frame, and every copy, went on, was answered, taken or is lost by
    /// name. Requests that were not sent were not received either.
    pub fn balances(&self) -> bool {
        let not_asked = self.drops.get(Reason::OverlayNotAsked.name()).copied().unwrap_or(0);
        let ended = self.forwarded + self.answered + self.taken + self.given_back + self.dropped();
        self.received + self.copies + self.returned + not_asked == ended
    }
}
