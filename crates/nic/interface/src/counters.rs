//! Counters of queues, written by the thread that owns the queue and read by the
//! one that owns the port. One writer each, so an addition is a load and a store
//! and never a locked instruction.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use port::{Counter, PortStats, Reason, RxStats, TxStats};

/// A counter with one writer.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    #[inline(always)]
    pub(crate) fn add(&self, n: u64) {
        // Relaxed: a count stands for itself alone.
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }

    pub(crate) fn read(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// A receive queue's.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct RxCounters {
    pub(crate) packets: Count,
    pub(crate) bytes: Count,
    pub(crate) bursts: Count,
    pub(crate) empty_polls: Count,
    pub(crate) no_buffer: Count,
    /// Frames longer than the port was opened for.
    pub(crate) oversize: Count,
    /// Frames or ring entries that made no sense, or that could not be read.
    pub(crate) malformed: Count,
}

/// A transmit queue's.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct TxCounters {
    pub(crate) packets: Count,
    pub(crate) bytes: Count,
    pub(crate) bursts: Count,
    pub(crate) ring_full: Count,
    /// Frames longer than the interface sends.
    pub(crate) oversize: Count,
    /// Frames shorter than an Ethernet header.
    pub(crate) runt: Count,
    /// Packets that ask the device for something this one cannot do.
    pub(crate) offload: Count,
    /// Frames the kernel refused.
    pub(crate) refused: Count,
}

impl RxCounters {
    /// Ends a call that received `packets` with `bytes`.
    #[inline(always)]
    pub(crate) fn burst(&self, packets: usize, bytes: usize) {
        if packets == 0 {
            return self.empty_polls.add(1);
        }
        self.bursts.add(1);
        self.packets.add(packets as u64);
        self.bytes.add(bytes as u64);
    }

    pub(crate) fn stats(&self) -> RxStats {
        RxStats {
            packets: self.packets.read(),
            bytes: self.bytes.read(),
            bursts: self.bursts.read(),
            empty_polls: self.empty_polls.read(),
            no_buffer: self.no_buffer.read(),
            bad_descriptor: self.oversize.read() + self.malformed.read(),
        }
    }
}

impl TxCounters {
    /// Ends a call that sent `packets` with `bytes` and left `refused`.
    #[inline(always)]
    pub(crate) fn burst(&self, packets: usize, bytes: usize, left: usize) {
        if left > 0 {
            self.ring_full.add(left as u64);
        }
        if packets > 0 {
            self.bursts.add(1);
            self.packets.add(packets as u64);
            self.bytes.add(bytes as u64);
        }
    }

    pub(crate) fn stats(&self) -> TxStats {
        let unsendable = [&self.oversize, &self.runt, &self.offload, &self.refused];
        TxStats {
            packets: self.packets.read(),
            bytes: self.bytes.read(),
            bursts: self.bursts.read(),
            ring_full: self.ring_full.read(),
            unsendable: unsendable.map(Count::read).iter().sum(),
        }
    }
}

/// What all queues of a port counted, and whatever else it counts.
pub(crate) fn port_stats<'a>(
    rx: impl Iterator<Item = &'a RxCounters>,
    tx: impl Iterator<Item = &'a TxCounters>,
    others: impl IntoIterator<Item = Counter>,
) -> PortStats {
    let (mut stats, mut lost) = (PortStats::default(), [0; 6]);
    for counters in rx {
        stats.rx_packets += counters.packets.read();
        stats.rx_bytes += counters.bytes.read();
        lost[0] += counters.oversize.read();
        lost[1] += counters.malformed.read();
    }
    for counters in tx {
        stats.tx_packets += counters.packets.read();
        stats.tx_bytes += counters.bytes.read();
        for (lost, count) in lost[2..].iter_mut().zip([
            &counters.oversize,
            &counters.runt,
            &counters.offload,
            &counters.refused,
        ]) {
            *lost += count.read();
        }
    }
    let plain = [
        ("rx_packets", stats.rx_packets, "packets received"),
        ("rx_bytes", stats.rx_bytes, "their bytes"),
        ("tx_packets", stats.tx_packets, "packets handed to the kernel"),
        ("tx_bytes", stats.tx_bytes, "their bytes"),
    ];
    stats.counters.extend(plain.map(|(name, value, what)| Counter::of(name, value, what)));
    let reasons = [
        Reason::RxOversize,
        Reason::RxMalformed,
        Reason::TxOversize,
        Reason::TxRunt,
        Reason::TxOffload,
        Reason::TxRefused,
    ];
    stats.counters.extend(reasons.iter().zip(lost).map(|(&reason, lost)| Counter::of_loss(reason, lost)));
    stats.counters.extend(others);
    stats
}
