//! The virtual function's own counters (82599 datasheet 8.3.5.7): they do not clear, and wrap with
//! their width. What had no descriptor is counted by the physical function alone.

use bus::Bar;
use port::Counter;
use regs::ixgbevf::*;

/// Name, registers, bits, and what is counted.
type Source = (&'static str, u32, Option<u32>, u32, &'static str);

const SOURCES: [Source; 5] = [
    ("VFGPRC", VFGPRC::AT, None, 32, "good frames received"),
    ("VFGORC", VFGORC_LSB::AT, Some(VFGORC_MSB::AT), 36, "bytes of good frames received"),
    ("VFMPRC", VFMPRC::AT, None, 32, "multicast frames received"),
    ("VFGPTC", VFGPTC::AT, None, 32, "good frames sent"),
    ("VFGOTC", VFGOTC_LSB::AT, Some(VFGOTC_MSB::AT), 36, "bytes of good frames sent"),
];

/// What was counted since the device was opened.
#[derive(Debug, Default)]
pub(super) struct Totals {
    last: [u64; SOURCES.len()],
    sums: [u64; SOURCES.len()],
}

/// The registers as they stand.
fn read(bar: &Bar) -> [u64; SOURCES.len()] {
    SOURCES.map(|(_, low, high, bits, _)| {
        let value = match high {
            Some(high) => read_wide(|register| bar.read32(register), low, high),
            None => bar.read32(low).into(),
        };
        value & ((1 << bits) - 1)
    })
}

/// A counter in two registers, which may carry into the upper one between two reads: the lower one
/// counts in whichever of both it belongs to.
fn read_wide(read32: impl Fn(u32) -> u32, low: u32, high: u32) -> u64 {
    let (before, first, after) = (read32(high), read32(low), read32(high));
    let low = if before == after { first } else { read32(low) };
    u64::from(after) << 32 | u64::from(low)
}

impl Totals {
    /// Counts from now on.
    pub fn begin(&mut self, bar: &Bar) {
        *self = Totals { last: read(bar), sums: [0; _] };
    }

    /// Adds what was counted since the last time, if the device turns out to go on: all ones of one
    /// that is gone are not counts, nor is what begins anew behind a reset.
    pub fn update(&mut self, bar: &Bar, goes_on: impl FnOnce() -> bool) {
        let now = read(bar);
        if goes_on() {
            self.add(now);
        }
    }

    fn add(&mut self, now: [u64; SOURCES.len()]) {
        for (n, (.., bits, _)) in SOURCES.iter().enumerate() {
            let since = now[n].wrapping_sub(self.last[n]) & ((1 << bits) - 1);
            self.sums[n] = self.sums[n].wrapping_add(since);
        }
        self.last = now;
    }

    /// Every counter.
    pub fn counters(&self) -> Vec<Counter> {
        let all = SOURCES.iter().zip(self.sums);
        all.map(|((name, .., what), value)| Counter { name, value, loss: None, what }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_begin_with_zero_and_wrap_with_their_width() {
        let mut totals = Totals { last: [u64::from(u32::MAX), (1 << 36) - 2, 5, 6, 7], sums: [0; _] };
        totals.add([2, 8, 6, 6, 9]);
        totals.add([3, 8, 6, 6, 9]);
        let values: Vec<u64> = totals.counters().iter().map(|counter| counter.value).collect();
        assert_eq!(values, [4, 10, 1, 0, 2]);
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
