//! How long answers take, and when one is taken for lost (RFC 6298).

use crate::options::{MAX_RTO_NS, SECOND_NS};

/// Measured round trips of a connection, in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub struct RoundTrip {
    /// The smoothed time; zero before the first measurement.
    pub smoothed_ns: i64,
    /// By how much times differ from it, smoothed.
    pub variation_ns: i64,
    /// The shortest time seen.
    pub least_ns: i64,
    /// The timeout, without doubling.
    timeout_ns: i64,
    /// How often it has been doubled.
    pub doublings: u8,
}

/// Nothing was measured: the timeout is a second (section 2.1).
impl Default for RoundTrip {
    fn default() -> RoundTrip {
        let (smoothed_ns, variation_ns, least_ns) = (0, 0, i64::MAX);
        RoundTrip { smoothed_ns, variation_ns, least_ns, timeout_ns: SECOND_NS, doublings: 0 }
    }
}

impl RoundTrip {
    /// A segment that was sent once was answered after so long (sections 2.2 and 2.3).
    pub fn measure(&mut self, rtt_ns: i64, min_rto_ns: i64) {
        let rtt_ns = rtt_ns.max(1);
        self.least_ns = self.least_ns.min(rtt_ns);
        if self.smoothed_ns == 0 {
            (self.smoothed_ns, self.variation_ns) = (rtt_ns, rtt_ns / 2);
        } else {
            let off = (self.smoothed_ns - rtt_ns).abs();
            self.variation_ns += (off - self.variation_ns) / 4;
            self.smoothed_ns += (rtt_ns - self.smoothed_ns) / 8;
        }
        // The shortest timeout is the least margin too, as in Linux: what a peer waits with an
        // acknowledgement comes on top of the round trip.
        let timeout_ns = self.smoothed_ns + (4 * self.variation_ns).max(min_rto_ns);
        self.timeout_ns = timeout_ns.clamp(min_rto_ns, MAX_RTO_NS);
        self.doublings = 0;
    }

    /// The SYN was sent again before anything was measured: three seconds (section 5.7).
    pub fn distrust(&mut self) {
        (self.timeout_ns, self.doublings) = (3 * SECOND_NS, 0);
    }

    /// The retransmission timeout.
    pub fn timeout_ns(&self) -> i64 {
        (self.timeout_ns << self.doublings.min(16)).min(MAX_RTO_NS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    #[test]
    fn the_timeout_follows_the_rfc() {
        let mut rtt = RoundTrip::default();
        assert_eq!(rtt.timeout_ns(), SECOND_NS, "(2.1)");
        rtt.measure(100 * MS, MS);
        assert_eq!((rtt.smoothed_ns, rtt.variation_ns), (100 * MS, 50 * MS), "(2.2)");
        assert_eq!(rtt.timeout_ns(), 300 * MS);
        rtt.measure(180 * MS, MS);
        assert_eq!((rtt.variation_ns, rtt.smoothed_ns), (57_500_000, 110 * MS), "(2.3)");
        assert_eq!(rtt.timeout_ns(), 340 * MS);
        rtt.doublings = 3;
        assert_eq!(rtt.timeout_ns(), 8 * 340 * MS, "(5.5)");
        rtt.doublings = 200;
        assert_eq!(rtt.timeout_ns(), MAX_RTO_NS, "(2.5)");
        rtt.measure(110 * MS, 200 * MS);
        assert!(rtt.timeout_ns() >= 200 * MS && rtt.doublings == 0, "(2.4)");
        (0..200).for_each(|_| rtt.measure(250 * MS, 200 * MS));
        assert!(rtt.timeout_ns() > 449 * MS, "{} ns for a peer that waits 200 ms", rtt.timeout_ns());
        rtt.distrust();
        assert_eq!(rtt.timeout_ns(), 3 * SECOND_NS, "(5.7)");
        assert_eq!(rtt.least_ns, 100 * MS);
    }
}
