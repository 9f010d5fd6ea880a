//! HyStart (Ha and Rhee, *Taming the elephants*, 2011), as CUBIC has it in Linux: slow start ends
//! before anything is lost, when round trips become longer, or when the acknowledgements of a
//! round come in one train that is as long as half of the shortest round trip.

use crate::connection::{Connection, Recovery};
use crate::options::{Algorithm, MILLISECOND_NS, SECOND_NS};
use crate::sequence::Sequence;

/// Below so many segments nothing is looked for.
const LEAST_SEGMENTS: u32 = 16;
/// Acknowledgements of a train follow each other within this time.
const TRAIN_GAP_NS: i64 = 2 * MILLISECOND_NS;
/// Round trips of a round that are looked at before it counts as a slower one.
const SAMPLES: u8 = 8;
/// A round is slower by an eighth of the shortest round trip, and by these times at least and at
/// most.
const SLOWER_NS: (i64, i64) = (4 * MILLISECOND_NS, 16 * MILLISECOND_NS);
/// What a sender may put on the wire at a time, of which a train's end may be late, in bytes, and
/// the most that it may be late by.
const BURST: i64 = 4 * 65_536;
const MOST_LATE_NS: i64 = MILLISECOND_NS;

/// What is known of the round.
#[derive(Debug, Clone, Copy, Default)]
pub struct Hystart {
    /// When the round began.
    round_ns: i64,
    /// When an acknowledgement of the train came last.
    train_ns: i64,
    /// The shortest round trip of all.
    least_ns: i64,
    /// And of the round.
    round_least_ns: i64,
    /// The round ends behind this number.
    end: Sequence,
    /// Round trips of the round that were looked at.
    samples: u8,
    /// Slow start was ended: how much the path holds is known until a timer expires, and what is slow
    /// start again after a pause goes as far.
    is_found: bool,
}

impl Hystart {
    /// Nothing is known.
    pub fn new(initial: Sequence) -> Hystart {
        let (least_ns, round_least_ns) = (i64::MAX, i64::MAX);
        Hystart {
            round_ns: 0,
            train_ns: 0,
            least_ns,
            round_least_ns,
            end: initial,
            samples: 0,
            is_found: false,
        }
    }
}

impl Connection {
    /// Ends slow start where a round trip tells that the path is full. A window that is small because
    /// it is being reduced, after a loss or a mark, is no slow start.
    pub fn look_for_full_path(&mut self, rtt_ns: i64, now_ns: i64) {
        let is_reduced = self.recovery == Recovery::Fast || self.is.is_reducing;
        let is_slow_start = self.congestion.window < self.congestion.threshold && !is_reduced;
        if self.congestion.algorithm != Algorithm::Cubic || !is_slow_start || self.hystart.is_found {
            return;
        }
        let least = LEAST_SEGMENTS * self.payload_size();
        let hystart = &mut self.hystart;
        hystart.least_ns = hystart.least_ns.min(rtt_ns);
        if self.una.is_after(hystart.end) {
            (hystart.round_ns, hystart.train_ns) = (now_ns, now_ns);
            (hystart.end, hystart.round_least_ns, hystart.samples) = (self.nxt, i64::MAX, 0);
        }
        if self.congestion.window < least {
            return;
        }
        let late_ns = self.late_ns();
        let hystart = &mut self.hystart;
        let mut is_full = false;
        if now_ns - hystart.train_ns <= TRAIN_GAP_NS {
            hystart.train_ns = now_ns;
            is_full = now_ns - hystart.round_ns > (hystart.least_ns + late_ns) / 2;
        }
        hystart.round_least_ns = hystart.round_least_ns.min(rtt_ns);
        if hystart.samples < SAMPLES {
            hystart.samples += 1;
        } else {
            let slower_ns = (hystart.least_ns / 8).clamp(SLOWER_NS.0, SLOWER_NS.1);
            is_full |= hystart.round_least_ns > hystart.least_ns + slower_ns;
        }
        if is_full {
            hystart.is_found = true;
            self.congestion.threshold = self.congestion.window;
        }
    }

    /// How late the end of a train may be because of what is sent at a time: twice the window in
    /// each round trip is what Linux lets out.
    fn late_ns(&self) -> i64 {
        let rate = 2 * i64::from(self.congestion.window) * SECOND_NS / self.rtt.smoothed_ns.max(1);
        (BURST * SECOND_NS / rate.max(1)).min(MOST_LATE_NS)
    }
}
