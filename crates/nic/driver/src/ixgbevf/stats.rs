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
        let value = u64::from(bar.read32(low)) | high.map_or(0, |high| u64::from(bar.read32(high)) << 32);
        value & ((1 << bits) - 1)
    })
}

impl Totals {
    /// Counts from now on.
    pub fn begin(&mut self, bar: &Bar) {
        *self = Totals { last: read(bar), sums: [0; _] };
    }

    /// Adds what was counted since the last time, if the device turns out to be there: all ones are
    /// not counts.
    pub fn update(&mut self, bar: &Bar, is_there: impl Fn() -> bool) {
        let now = read(bar);
        if is_there() {
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
}
