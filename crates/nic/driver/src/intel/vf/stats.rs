//! A virtual function's own counters (82599 datasheet 8.3.5.7, 82576 datasheet 8.26): most do not clear,
//! and wrap with their width.

use bus::Bar;
use port::{Counter, Reason};

/// A counter of the device's, and where it is read.
pub struct Source {
    /// The counter's name in statistics.
    pub name: &'static str,
    /// Its register, or the lower of both.
    pub low: u32,
    /// The upper one.
    pub high: Option<u32>,
    /// How many bits it has.
    pub bits: u32,
    /// It clears when it is read.
    pub clears: bool,
    /// What is lost, where it counts losses.
    pub loss: Option<Reason>,
    /// What it counts.
    pub what: &'static str,
}

impl Source {
    /// One of 32 bits that does not clear.
    pub const fn one(name: &'static str, low: u32, what: &'static str) -> Source {
        Source { name, low, high: None, bits: 32, clears: false, loss: None, what }
    }

    /// The counter as it stands.
    fn read(&self, bar: &Bar) -> u64 {
        let value = match self.high {
            Some(high) => read_wide(|register| bar.read32(register), self.low, high),
            None => bar.read32(self.low).into(),
        };
        value & self.mask()
    }

    fn mask(&self) -> u64 {
        (1 << self.bits) - 1
    }
}

/// What was counted since the device was opened.
pub(super) struct Totals {
    sources: &'static [Source],
    last: Vec<u64>,
    sums: Vec<u64>,
}

/// A counter in two registers, which may carry into the upper one between two reads: the lower one
/// counts in whichever of both it belongs to.
pub(crate) fn read_wide(read32: impl Fn(u32) -> u32, low: u32, high: u32) -> u64 {
    let (before, first, after) = (read32(high), read32(low), read32(high));
    let low = if before == after { first } else { read32(low) };
    u64::from(after) << 32 | u64::from(low)
}

impl Totals {
    /// Of counters that were not read yet.
    pub fn new(sources: &'static [Source]) -> Totals {
        Totals { sources, last: vec![0; sources.len()], sums: vec![0; sources.len()] }
    }

    fn read(&self, bar: &Bar) -> Vec<u64> {
        self.sources.iter().map(|source| source.read(bar)).collect()
    }

    /// Counts from now on.
    pub fn begin(&mut self, bar: &Bar) {
        self.last = self.read(bar);
        self.sums.fill(0);
    }

    /// Adds what was counted since the last time, if the device turns out to go on: all ones of one
    /// that is gone are not counts, nor is what begins anew behind a reset.
    pub fn update(&mut self, bar: &Bar, goes_on: impl FnOnce() -> bool) {
        let now = self.read(bar);
        if goes_on() {
            self.add(now);
        }
    }

    fn add(&mut self, now: Vec<u64>) {
        for (n, source) in self.sources.iter().enumerate() {
            let before = if source.clears { 0 } else { self.last[n] };
            let since = now[n].wrapping_sub(before) & source.mask();
            self.sums[n] = self.sums[n].wrapping_add(since);
        }
        self.last = now;
    }

    /// All counters with their sums, in the table's order.
    pub fn counters(&self) -> Vec<Counter> {
        let counter = |(source, value): (&Source, &u64)| {
            let &Source { name, loss, what, .. } = source;
            Counter { name, value: *value, loss, what }
        };
        self.sources.iter().zip(&self.sums).map(counter).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static SOURCES: [Source; 3] = [
        Source::one("narrow", 0, ""),
        Source { high: Some(8), bits: 36, ..Source::one("wide", 4, "") },
        Source { clears: true, bits: 16, ..Source::one("clears", 12, "") },
    ];

    #[test]
    fn counters_begin_with_zero_and_wrap_with_their_width() {
        let mut totals = Totals::new(&SOURCES);
        totals.last = vec![u64::from(u32::MAX), (1 << 36) - 2, 5];
        totals.add(vec![2, 8, 6]);
        totals.add(vec![3, 8, 2]);
        let values: Vec<u64> = totals.counters().iter().map(|counter| counter.value).collect();
        assert_eq!(values, [4, 10, 8]);
    }

    #[test]
    fn a_carry_between_two_reads_is_seen() {
        for carries_before in 0..4 {
            let reads = std::cell::Cell::new(0);
            let read32 = |register| {
                let value: u64 = if reads.get() < carries_before { 0xFFFF_FFFF } else { 1 << 32 | 5 };
                reads.set(reads.get() + 1);
                (if register == 4 { value >> 32 } else { value }) as u32
            };
            let value = read_wide(read32, 0, 4);
            assert!([0xFFFF_FFFF, 1 << 32 | 5].contains(&value), "{value:#x}, {carries_before} reads before");
        }
    }
}
