//! What threads show while they run.

use std::sync::atomic::AtomicU64;

use port::Reason;

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
