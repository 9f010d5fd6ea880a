//! What is counted: by threads while they run, and by the queues of each poller.

use std::sync::atomic::AtomicU64;

use port::{Reason, RxStats, TxStats};

use crate::{Poller, Queue};

/// What the threads show while they run.
#[derive(Debug, Default)]
pub struct Progress {
    /// Packets that turns moved.
    pub packets: AtomicU64,
    /// Turns of pollers.
    pub turns: AtomicU64,
    /// Turns that moved nothing.
    pub empty: AtomicU64,
    /// TSC ticks of the turns that moved packets.
    pub busy: AtomicU64,
    /// Packets the driver dropped: see [`LOSSES`].
    pub lost: [AtomicU64; 3],
    /// Threads at work.
    pub working: AtomicU64,
}

/// The driver's own losses, in the order of [`Progress::lost`].
pub const LOSSES: [Reason; 3] = [Reason::TxRingFull, Reason::RxBadDescriptor, Reason::TxUnsendable];

/// What a poller's queues counted, in the order in which it gives them.
#[derive(Debug, Default, Clone)]
pub struct PollerStats {
    /// Its receive queues.
    pub rx: Vec<RxStats>,
    /// Its transmit queues.
    pub tx: Vec<TxStats>,
    /// Whether what a full ring of them refused was kept, and is no loss.
    pub retries: bool,
}

impl PollerStats {
    /// What they counted until now.
    pub(crate) fn of(poller: &mut dyn Poller) -> PollerStats {
        let mut stats = PollerStats { retries: poller.retries(), ..PollerStats::default() };
        poller.queues(&mut |queue| match queue {
            Queue::Rx(rx) => stats.rx.push(rx.stats()),
            Queue::Tx(tx) => stats.tx.push(tx.stats()),
        });
        stats
    }
}
