//! How fast the core runs by the time stamp counter, which ticks at one rate whatever the
//! core does: a chain of multiplications of which each waits for the one before it takes as
//! many ticks as the core's clock and its other users make of it. Measured before and after a
//! figure, it says whether the machine was the same all the while.

/// Multiplications in one measurement, and measurements of which the middle one counts.
const STEPS: u64 = 100_000;
const ROUNDS: usize = 9;

/// Before and after may differ so much, as a share of the smaller one.
pub const STEADY: f64 = 0.1;

/// TSC ticks for each step of the chain.
pub fn measure() -> f64 {
    let mut ticks = [0; ROUNDS];
    for (round, ticks) in (1..).zip(&mut ticks) {
        let start = bus::tsc::now();
        std::hint::black_box(chain(std::hint::black_box(round)));
        *ticks = bus::tsc::now() - start;
    }
    ticks.sort_unstable();
    ticks[ROUNDS / 2] as f64 / STEPS as f64
}

/// Not inlined, so that the loop is the same wherever it is measured.
#[inline(never)]
fn chain(start: u64) -> u64 {
    (0..STEPS).fold(start, |value, _| value.rotate_left(5).wrapping_mul(0x9E37_79B9_7F4A_7C15))
}

/// Whether a core ran as fast after a figure as before it.
pub fn is_steady([before, after]: [f64; 2]) -> bool {
    (before - after).abs() <= STEADY * before.min(after)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenth_is_steady_and_more_is_not() {
        assert!(is_steady([4.0, 4.0]) && is_steady([4.0, 4.39]) && is_steady([4.39, 4.0]));
        assert!(!is_steady([4.0, 4.5]) && !is_steady([4.5, 4.0]));
    }

    #[test]
    fn every_step_takes_time() {
        assert!(measure() > 0.0);
    }
}
