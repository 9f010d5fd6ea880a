//! What the queues counted, where the port can read it: a virtio device counts
//! little itself. Each queue writes its own line, once for a batch.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use port::{Counter, Reason};

macro_rules! queue_counters {
    ($($field:ident $loss:expr, $what:literal;)*) => {
        /// Counters of one queue, written by the thread that holds it.
        #[derive(Debug, Default)]
        #[repr(align(64))]
        pub(super) struct QueueCounters { $(pub(super) $field: AtomicU64),* }

        impl QueueCounters {
            /// Adds what another line counted.
            pub(super) fn take_over(&self, other: &QueueCounters) {
                $(add(&self.$field, other.$field.load(Relaxed));)*
            }

            /// The sums over several queues, by name.
            pub(super) fn sums<'a>(all_counters: impl Iterator<Item = &'a QueueCounters> + Clone) -> Vec<Counter> {
                vec![$({
                    let value = all_counters.clone().map(|t| t.$field.load(Relaxed)).sum();
                    Counter { name: stringify!($field), value, loss: $loss, what: $what }
                }),*]
            }
        }
    };
}

queue_counters! {
    rx_packets None, "packets received";
    rx_bytes None, "their bytes";
    rx_bad_descriptor Some(Reason::RxBadDescriptor), "packets whose length, header or number of buffers made no sense";
    rx_no_buffer None, "times a buffer was wanted from an empty pool";
    rx_stopped None, "packets that came after the port was stopped";
    rx_checksum_filled None, "packets whose checksum the driver filled in";
    rx_kicks None, "notifications of receive queues";
    tx_packets None, "packets handed to the device";
    tx_bytes None, "their bytes";
    tx_unsendable Some(Reason::TxUnsendable), "packets that cannot be sent";
    tx_offload Some(Reason::TxOffload), "packets that ask for what neither device nor driver does";
    tx_unsent Some(Reason::TxUnsent), "packets that the device still had when their queue was closed";
    tx_kicks None, "notifications of transmit queues";
}

/// Stores a count; the line has one writer.
#[inline(always)]
pub(super) fn set(counter: &AtomicU64, value: u64) {
    counter.store(value, Relaxed);
}

/// Adds to a count; the line has one writer, so no atomic addition is needed.
#[inline(always)]
pub(super) fn add(counter: &AtomicU64, value: u64) {
    counter.store(counter.load(Relaxed).wrapping_add(value), Relaxed);
}
