//! The device's own counters (82599 datasheet 8.2.3.23, 82576 datasheet 8.19).
//! They clear when read, so they are summed here; those that count lost packets
//! name the reason.

use bus::Bar;
use port::{Counter, Reason};
use regs::ixgbe::GPRC;

/// A counter of the device, and the registers that hold it.
pub struct Source {
    pub name: &'static str,
    pub what: &'static str,
    pub loss: Option<Reason>,
    pub place: CounterRegisters,
}

pub enum CounterRegisters {
    /// A register of 32 bits, by its offset.
    One(u32),
    /// A low and a high register; the low one is read first and latches.
    Pair(u32, u32),
    /// The sum of several registers: first, stride, count.
    Sum(u32, u32, usize),
    /// Likewise, on the pages of the receive queues' registers.
    Queue(u32, u32, usize),
}
use CounterRegisters::{One, Pair, Queue, Sum};

macro_rules! counters {
    ($($name:ident $place:expr, $loss:ident, $what:literal;)*) => {
        /// All counters, in the datasheet's order.
        pub(super) const SOURCES: &[$crate::intel::ring_registers::counters::Source] = &[
            $($crate::intel::ring_registers::counters::Source { name: stringify!($name), what: $what, loss: $crate::intel::ring_registers::counters::counters!(@ $loss), place: $place }),*
        ];
    };
    (@ info) => { None };
    (@ $reason:ident) => { Some(port::Reason::$reason) };
}
pub(crate) use counters;

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
            bar.mapped().iter().any(|part| (part.offset()..part.offset() + part.len()).contains(&at))
        };
        matches!(self.place, Queue(at, ..) if mapped(at) && !mapped(GPRC::AT))
    }
}

/// Sums since the device was opened, in the order of its sources.
#[derive(Clone)]
pub struct Sums(Vec<(&'static Source, u64)>);

impl Sums {
    pub(crate) fn new(sources: &'static [Source]) -> Sums {
        Sums(sources.iter().map(|source| (source, 0)).collect())
    }

    /// Adds what the device counted since the last time.
    pub(crate) fn update(&mut self, bar: &Bar) {
        for (source, sum) in &mut self.0 {
            let counted = source.read(bar);
            *sum = if source.stays(bar) { counted } else { sum.wrapping_add(counted) };
        }
    }

    pub(crate) fn counters(&self) -> Vec<Counter> {
        let counter =
            |&(s, value): &(&Source, u64)| Counter { name: s.name, value, loss: s.loss, what: s.what };
        self.0.iter().map(counter).collect()
    }
}
