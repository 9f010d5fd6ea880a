//! What lanes count: frames and bytes of each port, and each frame that goes no further, by
//! name. A lane is the only writer of its counters; anybody may read them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use overlay::Reason;
use serde::Serialize;

macro_rules! losses {
    ($($loss:ident $name:literal $what:literal;)*) => {
        /// Why a lane drops a frame, beside the table's own [`Reason`]s.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Loss { $(#[doc = $what] $loss),* }

        impl Loss {
            /// All of them.
            pub const ALL: &[Loss] = &[$(Loss::$loss),*];

            /// The stable name, as in `--json` and metrics.
            pub const fn name(self) -> &'static str {
                match self { $(Loss::$loss => $name),* }
            }

            /// What happened, in a sentence's words.
            pub const fn what(self) -> &'static str {
                match self { $(Loss::$loss => $what),* }
            }
        }
    };
}

losses! {
    Punted "overlay_punted" "packets to send that no entry has, of a network that gives them back: nobody takes them here";
    NoCopy "overlay_no_copy" "packets to send to all of a flood list that is empty, or for whose copies there was no buffer";
    NotForUs "overlay_not_for_us" "received frames that are no tunnel's and for nobody here";
    NoInner "overlay_no_inner" "received packets of a network that has no port here";
    NotRouted "overlay_not_routed" "frames of a network of packets that are not for its gateway, or carry something else";
    InnerMalformed "overlay_inner_malformed" "packets to send that are shorter than their IP header says, or whose IPv4 header has a wrong checksum";
    Expired "overlay_ttl_expired" "packets to send that may take no further hop";
    ControlFull "overlay_control_full" "answers of neighbours that came faster than they are looked at";
    NotAsked "overlay_not_asked" "requests for neighbours for which there was no buffer";
    NotCut "overlay_not_cut" "long segments to send that could not be cut, or not to the end, for there was no buffer";
    NoPort "overlay_no_port" "packets for a port of the underlay that is not there";
}

/// A way through a lane: from the port of a network, or from one of the underlay.
#[derive(Debug)]
pub struct Side {
    /// Frames received.
    received: AtomicU64,
    /// Their bytes.
    received_bytes: AtomicU64,
    /// Frames that went on: into a tunnel or out of one.
    forwarded: AtomicU64,
    /// Copies that were made beside them for a flood list.
    copies: AtomicU64,
    /// Requests that were answered.
    answered: AtomicU64,
    /// Answers of neighbours, which the control took.
    taken: AtomicU64,
    /// Dropped frames: the table's reasons, then the losses of lanes.
    drops: Vec<AtomicU64>,
}

impl Default for Side {
    fn default() -> Side {
        let drops = (0..Reason::ALL.len() + Loss::ALL.len()).map(|_| AtomicU64::new(0)).collect();
        Side {
            received: AtomicU64::new(0),
            received_bytes: AtomicU64::new(0),
            forwarded: AtomicU64::new(0),
            copies: AtomicU64::new(0),
            answered: AtomicU64::new(0),
            taken: AtomicU64::new(0),
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

    pub(crate) fn drop(&self, reason: Reason) {
        add(&self.drops[reason as usize], 1);
    }

    pub(crate) fn lose(&self, loss: Loss) {
        add(&self.drops[Reason::ALL.len() + loss as usize], 1);
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
    /// Frames received.
    pub received: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Frames that went on.
    pub forwarded: u64,
    /// Copies beside them.
    pub copies: u64,
    /// Requests that were answered.
    pub answered: u64,
    /// Answers of neighbours.
    pub taken: u64,
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
        let names = Reason::ALL.iter().map(|reason| reason.name());
        let names = names.chain(Loss::ALL.iter().map(|loss| loss.name()));
        for (name, count) in names.zip(&side.drops).map(|(name, count)| (name, load(count))) {
            if count > 0 {
                *self.drops.entry(name).or_default() += count;
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
        let not_asked = self.drops.get(Loss::NotAsked.name()).copied().unwrap_or(0);
        let ended = self.forwarded + self.answered + self.taken + self.dropped();
        self.received + self.copies + not_asked == ended
    }
}
