//! The device's own counters (datasheet 8.2.3.23). They clear when read, so they
//! are summed here; losses are marked, so that the books can be balanced.

use bus::Bar;
use regs::ixgbe as r;

use crate::Counter;

/// A counter of the device, and the registers that hold it.
struct Source {
    name: &'static str,
    what: &'static str,
    loss: bool,
    place: Place,
}

enum Place {
    /// One register.
    One(u32),
    /// A low and a high register; the low one is read first and latches.
    Pair(u32, u32),
    /// The sum of several registers: first, stride, count.
    Sum(u32, u32, usize),
    /// Likewise, on the pages of the receive queues' registers.
    Queue(u32, u32, usize),
}
use Place::{One, Pair, Queue, Sum};

macro_rules! counters {
    ($($name:ident $place:expr, $loss:ident, $what:literal;)*) => {
        /// All counters, in the datasheet's order.
        const SOURCES: &[Source] = &[
            $(Source { name: stringify!($name), what: $what, loss: counters!(@ $loss), place: $place }),*
        ];
    };
    (@ loss) => { true };
    (@ info) => { false };
}

counters! {
    CRCERRS One(r::CRCERRS::AT), loss, "frames with a wrong CRC";
    ILLERRC One(r::ILLERRC::AT), info, "illegal symbols";
    ERRBC One(r::ERRBC::AT), info, "error bytes";
    MLFC One(r::MLFC::AT), info, "faults of this MAC";
    MRFC One(r::MRFC::AT), info, "faults of the other MAC";
    RXMPC Sum(r::RXMPC::at(0), 4, 8), loss, "frames missed because the packet buffer was full";
    RLEC One(r::RLEC::AT), loss, "frames whose length field is wrong";
    LXONTXC One(r::LXONTXC::AT), info, "XON frames sent";
    LXONRXCNT One(r::LXONRXCNT::AT), info, "XON frames received";
    LXOFFTXC One(r::LXOFFTXC::AT), info, "XOFF frames sent";
    LXOFFRXCNT One(r::LXOFFRXCNT::AT), info, "XOFF frames received";
    PRC64 One(r::PRC64::AT), info, "frames received of 64 bytes";
    PRC127 One(r::PRC127::AT), info, "frames received of 65 to 127 bytes";
    PRC255 One(r::PRC255::AT), info, "frames received of 128 to 255 bytes";
    PRC511 One(r::PRC511::AT), info, "frames received of 256 to 511 bytes";
    PRC1023 One(r::PRC1023::AT), info, "frames received of 512 to 1023 bytes";
    PRC1522 One(r::PRC1522::AT), info, "frames received of 1024 bytes and more";
    BPRC One(r::BPRC::AT), info, "broadcast frames received";
    MPRC One(r::MPRC::AT), info, "multicast frames received";
    GPRC One(r::GPRC::AT), info, "good frames received";
    GORC Pair(r::GORCL::AT, r::GORCH::AT), info, "bytes of good frames received";
    GPTC One(r::GPTC::AT), info, "good frames sent";
    GOTC Pair(r::GOTCL::AT, r::GOTCH::AT), info, "bytes of good frames sent";
    RNBC Sum(r::RNBC::at(0), 4, 8), info, "times a frame found no descriptor";
    RUC One(r::RUC::AT), loss, "frames too short";
    RFC One(r::RFC::AT), loss, "fragments";
    ROC One(r::ROC::AT), loss, "frames too long";
    RJC One(r::RJC::AT), loss, "jabber";
    TOR Pair(r::TORL::AT, r::TORH::AT), info, "bytes of all frames received";
    TPR One(r::TPR::AT), info, "all frames received";
    TPT One(r::TPT::AT), info, "all frames sent";
    PTC64 One(r::PTC64::AT), info, "frames sent of 64 bytes";
    PTC127 One(r::PTC127::AT), info, "frames sent of 65 to 127 bytes";
    PTC255 One(r::PTC255::AT), info, "frames sent of 128 to 255 bytes";
    PTC511 One(r::PTC511::AT), info, "frames sent of 256 to 511 bytes";
    PTC1023 One(r::PTC1023::AT), info, "frames sent of 512 to 1023 bytes";
    PTC1522 One(r::PTC1522::AT), info, "frames sent of 1024 bytes and more";
    MPTC One(r::MPTC::AT), info, "multicast frames sent";
    BPTC One(r::BPTC::AT), info, "broadcast frames sent";
    XEC One(r::XEC::AT), info, "frames with a wrong checksum, delivered";
    QPRC Queue(r::QPRC::at(0), 0x40, 16), info, "frames received into queues";
    QPRDC Queue(r::QPRDC::at(0), 0x40, 16), loss, "frames dropped because a queue had no descriptor";
    QPTC Sum(r::QPTC::at(0), 4, 16), info, "frames sent from queues";
}

impl Source {
    /// Reads the counter, which thereby starts again at zero.
    fn read(&self, bar: &Bar) -> u64 {
        match self.place {
            One(at) => u64::from(bar.read32(at)),
            Pair(low, high) => u64::from(bar.read32(low)) | u64::from(bar.read32(high)) << 32,
            Sum(first, stride, count) | Queue(first, stride, count) => {
                (0..count as u32).map(|n| u64::from(bar.read32(first + n * stride))).sum()
            }
        }
    }

    /// Whether reading leaves the counter as it is. A device model cannot see a
    /// read of pages that it shares with us; it traps the rest of the statistics.
    /// Real devices map all, and all counters clear.
    fn stays(&self, bar: &Bar) -> bool {
        let mapped = |at: u32| {
            bar.mapped().iter().any(|area| (area.offset()..area.offset() + area.len()).contains(&at))
        };
        matches!(self.place, Queue(at, ..) if mapped(at) && !mapped(r::GPRC::AT))
    }
}

/// Sums since the device was opened, in the order of `SOURCES`.
#[derive(Debug, Clone)]
pub(super) struct Sums([u64; SOURCES.len()]);

impl Sums {
    pub(super) fn new() -> Sums {
        Sums([0; SOURCES.len()])
    }

    /// Adds what the device counted since the last time.
    pub(super) fn update(&mut self, bar: &Bar) {
        for (sum, source) in self.0.iter_mut().zip(SOURCES) {
            let counted = source.read(bar);
            *sum = if source.stays(bar) { counted } else { sum.wrapping_add(counted) };
        }
    }

    pub(super) fn counters(&self) -> Vec<Counter> {
        let counter =
            |(s, &value): (&Source, &u64)| Counter { name: s.name, value, loss: s.loss, what: s.what };
        SOURCES.iter().zip(&self.0).map(counter).collect()
    }
}
