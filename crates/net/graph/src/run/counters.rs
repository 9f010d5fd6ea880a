//! What a lane counts for each element: packets, batches, drops and cycles.
//!
//! Packets and batches are counted each. Of a lane's turns one in [`PERIOD`] is timed,
//! at random, and stands for the others: reading the clock at every element of every
//! batch would cost more than most elements do. Within a timed turn each cycle is one
//! element's: the clock is read once when an element is done, and what passed since
//! the last reading is its own, not that of those it called.

use std::sync::OnceLock;

use smallvec::SmallVec;

/// One of so many turns is timed, on average.
pub const PERIOD: u64 = 64;

/// What is counted for an element.
#[derive(Debug, Clone, Default)]
pub struct Counters {
    /// Packets that came in, or that a source made, when measured.
    pub packets: u64,
    /// Batches that came in, when measured.
    pub batches: u64,
    /// TSC cycles spent in the element itself, when measured: those of the timed
    /// turns, [`PERIOD`] times.
    pub cycles: u64,
    /// How often it was timed.
    pub timings: u64,
    /// Packets that the element made: sources, copies, questions.
    pub made: u64,
    /// Packets that did what they were for and ended at the element, without a reason.
    pub ended: u64,
    /// Packets that still waited at the element when the router ended, and were freed then.
    pub held: u64,
    /// Packets dropped, for each of the class's reasons, of which most have two at the most.
    pub drops: SmallVec<[u64; 2]>,
}

/// What a lane measures with.
#[derive(Debug)]
pub(crate) struct Profiler {
    /// Packets and batches are counted, and some turns timed.
    pub(crate) counts: bool,
    /// This turn is timed.
    pub(crate) times: bool,
    /// The clock when it was last read.
    mark: u64,
    /// Turns until the next one that is timed.
    left: u64,
    random: u64,
}

impl Default for Profiler {
    fn default() -> Profiler {
        Profiler { counts: false, times: false, mark: 0, left: 1, random: 0x9E37_79B9_7F4A_7C15 }
    }
}

impl Profiler {
    /// A batch came to an element.
    #[inline(always)]
    pub(crate) fn count(&self, counters: &mut Counters, packets: usize) {
        if self.counts {
            counters.packets += packets as u64;
            counters.batches += 1;
        }
    }

    /// A turn begins.
    #[inline(always)]
    pub(crate) fn begin(&mut self) {
        if self.counts {
            self.left -= 1;
            if self.left == 0 {
                self.time();
            }
        }
    }

    /// A turn ends.
    #[inline(always)]
    pub(crate) fn end(&mut self) {
        self.times = false;
    }

    /// This turn is timed. When the next one is, is drawn anew each time: tasks take
    /// turns, and a fixed number would find the same one always.
    #[cold]
    fn time(&mut self) {
        // Marsaglia, Xorshift RNGs, 2003.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.left = 1 + self.random % (2 * PERIOD - 1);
        self.times = true;
        self.mark = bus::tsc::now();
    }

    /// What passed since the clock was read last was spent in an element.
    #[cold]
    pub(crate) fn charge(&mut self, counters: &mut Counters) {
        let now = bus::tsc::now();
        // A counter that is behind on another core has nothing to say of this time.
        let passed = now.saturating_sub(self.mark).saturating_sub(reading());
        counters.cycles = counters.cycles.wrapping_add(passed.wrapping_mul(PERIOD));
        counters.timings += 1;
        self.mark = now;
    }
}

/// What reading the clock takes by itself.
fn reading() -> u64 {
    static READING: OnceLock<u64> = OnceLock::new();
    *READING.get_or_init(|| {
        let once = |_| {
            let start = bus::tsc::now();
            bus::tsc::now().wrapping_sub(start)
        };
        (0..256).map(once).min().unwrap_or(0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_turn_in_so_many_is_timed() {
        let mut meter = Profiler { counts: true, ..Profiler::default() };
        let mut timed = 0;
        for _ in 0..64_000 {
            meter.begin();
            timed += u64::from(meter.times);
            meter.end();
        }
        assert!((900..1100).contains(&timed), "{timed}");
    }

    #[test]
    fn nothing_is_paid_unless_it_is_wanted() {
        let mut meter = Profiler::default();
        let mut counters = Counters::default();
        for _ in 0..1000 {
            meter.begin();
            assert!(!meter.times);
            meter.count(&mut counters, 32);
        }
        assert_eq!((counters.packets, counters.batches), (0, 0));
    }
}
