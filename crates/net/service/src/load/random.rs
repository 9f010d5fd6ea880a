//! Numbers that a seed decides, and arrivals that are spread by them.

/// A generator of 64 bits (splitmix64).
#[derive(Debug, Clone)]
pub struct Random(pub u64);

/// Mixes the bits of a number.
pub fn mix(number: u64) -> u64 {
    let number = (number ^ number >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let number = (number ^ number >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ number >> 31
}

impl Random {
    /// The next number.
    #[allow(clippy::should_implement_trait, reason = "it has no end")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.0)
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(limit.max(1))) >> 64) as u64
    }

    /// A number above zero, up to one.
    pub fn unit(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }

    /// The time to the next arrival in nanoseconds, where `rate` arrive in a second and none
    /// knows of the others (a Poisson process).
    pub fn gap_ns(&mut self, rate: f64) -> f64 {
        -self.unit().ln() * 1e9 / rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_have_the_mean_and_the_spread_of_a_poisson_process() {
        let mut random = Random(7);
        let gaps: Vec<f64> = (0..200_000).map(|_| random.gap_ns(1e6)).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let square = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((mean - 1000.0).abs() < 10.0 && (square.sqrt() - 1000.0).abs() < 20.0, "{mean} {square}");
        assert!((0..1000).all(|_| random.below(3) < 3));
    }
}
