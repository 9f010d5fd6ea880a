//! Averages that forget: each new value counts for a 2^-STABILITY of it.

/// An exponentially weighted moving average, with ten bits behind the point.
#[derive(Debug, Clone)]
pub(super) struct Ewma {
    stability: u32,
    average: u64,
}

impl Ewma {
    /// Bits behind the point.
    pub(super) const SCALE: u32 = 10;
    /// The number one, with [`Ewma::SCALE`] bits behind the point.
    pub(super) const ONE: u64 = 1 << Ewma::SCALE;

    pub(super) fn new(stability: u32) -> Ewma {
        Ewma { stability, average: 0 }
    }

    pub(super) fn stability(&self) -> u32 {
        self.stability
    }

    pub(super) fn set_stability(&mut self, stability: u32) {
        self.stability = stability;
    }

    /// Takes a value in.
    pub(super) fn update(&mut self, value: u64) {
        let value = value << Ewma::SCALE;
        let half = if self.stability == 0 { 0 } else { 1 << (self.stability - 1) };
        // Rounded to the nearest, or a small average would never change.
        self.average = match value >= self.average {
            true => self.average + ((value - self.average + half) >> self.stability),
            false => self.average - (self.average - value + half.saturating_sub(1)) / (1 << self.stability),
        };
    }

    /// Takes the same value in so many times.
    pub(super) fn update_n(&mut self, value: u64, times: u64) {
        if times >= 100 {
            self.average = value << Ewma::SCALE;
        } else {
            (0..times).for_each(|_| self.update(value));
        }
    }

    /// The average, times [`ONE`](Self::ONE).
    pub(super) fn scaled(&self) -> u64 {
        self.average
    }

    /// The average, without what is behind the point.
    pub(super) fn whole(&self) -> u64 {
        self.average >> Ewma::SCALE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_average_comes_near_and_forgets() {
        let mut average = Ewma::new(4);
        (0..1000).for_each(|_| average.update(10));
        assert!((9..=10).contains(&average.whole()), "{}", average.whole());
        average.update_n(0, 1_000_000);
        assert_eq!(average.scaled(), 0);
        let mut now = Ewma::new(0);
        now.update(7);
        assert_eq!(now.whole(), 7);
    }
}
