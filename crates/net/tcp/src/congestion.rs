//! How much may be on its way at a time: slow start and congestion avoidance (RFC 5681, with
//! the initial window of RFC 6928), CUBIC (RFC 9438), and how recovery is paced (PRR, RFC
//! 6937). All in bytes.

use crate::options::{Algorithm, SECOND_NS};

/// CUBIC's constant C, in segments for each second cubed (RFC 9438, section 5.1).
const C: f32 = 0.4;
/// CUBIC's factor after a loss (RFC 9438, section 4.6).
const BETA: f32 = 0.7;
/// The most that a window grows to.
const MAX_WINDOW: u32 = 1 << 30;

/// A congestion window.
#[derive(Debug, Clone, Copy, Default)]
pub struct Congestion {
    /// How it grows.
    pub algorithm: Algorithm,
    /// The window in bytes.
    pub window: u32,
    /// Above it the window grows slowly.
    pub threshold: u32,
    /// Bytes acknowledged since the window grew by a segment.
    acknowledged: u32,
    /// Where CUBIC's curve is flat, in segments; zero before the first loss.
    flat: f32,
    /// Seconds from the curve's start until there.
    until_flat_s: f32,
    /// What Reno's window would be, in segments.
    estimate: f32,
    /// When the curve began; zero when none has.
    epoch_ns: i64,
}

impl Congestion {
    /// The window of a new connection (RFC 6928, section 2).
    pub fn new(algorithm: Algorithm, segment: u32) -> Congestion {
        Congestion {
            algorithm,
            window: initial(segment),
            threshold: u32::MAX,
            acknowledged: 0,
            flat: 0.0,
            until_flat_s: 0.0,
            estimate: 0.0,
            epoch_ns: 0,
        }
    }

    /// So many bytes were acknowledged, outside of recovery, by a connection that had used the
    /// whole window.
    pub fn grow(&mut self, bytes: u32, segment: u32, rtt_ns: i64, now_ns: i64) {
        if self.window < self.threshold {
            // RFC 3465, without its limit of two segments, as in Linux: receivers acknowledge
            // whole batches.
            self.window = self.window.saturating_add(bytes).min(MAX_WINDOW);
            return;
        }
        match self.algorithm {
            Algorithm::Reno => self.add(bytes, self.window, segment),
            Algorithm::Cubic => self.grow_cubic(bytes, segment, rtt_ns, now_ns),
        }
    }

    /// One segment more for each `each` bytes.
    fn add(&mut self, bytes: u32, each: u32, segment: u32) {
        self.acknowledged = self.acknowledged.saturating_add(bytes);
        if self.acknowledged >= each {
            self.acknowledged -= each;
            self.window = (self.window + segment).min(MAX_WINDOW);
        }
    }

    /// RFC 9438, sections 4.2 to 4.5.
    #[inline(never)]
    fn grow_cubic(&mut self, bytes: u32, segment: u32, rtt_ns: i64, now_ns: i64) {
        let window = self.window as f32 / segment as f32;
        if self.epoch_ns == 0 {
            self.epoch_ns = now_ns.max(1);
            self.estimate = window;
            self.flat = self.flat.max(window);
            self.until_flat_s = ((self.flat - window) / C).cbrt();
        }
        let at_s = (now_ns - self.epoch_ns + rtt_ns) as f32 / SECOND_NS as f32;
        let target = (C * (at_s - self.until_flat_s).powi(3) + self.flat).clamp(window, 1.5 * window);
        // Reno's rate with CUBIC's factor, and with its own once it is where the loss was.
        let alpha = if self.estimate < self.flat { 3.0 * (1.0 - BETA) / (1.0 + BETA) } else { 1.0 };
        self.estimate += alpha * bytes as f32 / self.window as f32;
        let target = target.max(self.estimate);
        if target > window {
            let each = window / (target - window) * segment as f32;
            self.add(bytes, (each as u32).max(segment), segment);
        }
    }

    /// Something was lost or congestion was met, with so many bytes on their way: the
    /// threshold of what follows (RFC 5681, section 3.1; RFC 9438, sections 4.6 and 4.7).
    pub fn reduce(&mut self, in_flight: u32, segment: u32) {
        let threshold = match self.algorithm {
            Algorithm::Reno => in_flight / 2,
            Algorithm::Cubic => {
                let window = self.window as f32 / segment as f32;
                self.flat = if window < self.flat { window * (1.0 + BETA) / 2.0 } else { window };
                (self.window as f32 * BETA) as u32
            }
        };
        self.threshold = threshold.max(2 * segment);
        (self.epoch_ns, self.acknowledged) = (0, 0);
    }

    /// A retransmission timer expired (RFC 5681, section 3.1): slow start from one segment.
    pub fn collapse(&mut self, segment: u32) {
        self.window = segment;
        (self.epoch_ns, self.acknowledged) = (0, 0);
    }

    /// Nothing was sent for longer than a retransmission timeout (RFC 5681, section 4.1).
    pub fn restart(&mut self, segment: u32) {
        self.window = self.window.min(initial(segment));
        self.epoch_ns = 0;
    }
}

fn initial(segment: u32) -> u32 {
    (10 * segment).min((2 * segment).max(14_600))
}

/// Proportional rate reduction (RFC 6937): during recovery as much is sent as arrives, less
/// what the window is to shrink by.
#[derive(Debug, Clone, Copy, Default)]
pub struct RateReduction {
    /// Bytes on their way when recovery began.
    at_start: u32,
    delivered: u32,
    sent: u32,
}

impl RateReduction {
    /// Recovery begins with so many bytes on their way.
    pub fn begin(in_flight: u32) -> RateReduction {
        RateReduction { at_start: in_flight.max(1), delivered: 0, sent: 0 }
    }

    /// The window after an acknowledgement that says that `delivered` more bytes arrived
    /// (section 3.1, with the slow start reduction bound where `is_safe`, which says that no
    /// other loss was seen, and the conservative one where not).
    pub fn window(
        &mut self,
        delivered: u32,
        in_flight: u32,
        threshold: u32,
        segment: u32,
        is_safe: bool,
    ) -> u32 {
        self.delivered = self.delivered.saturating_add(delivered);
        let may = if in_flight > threshold {
            let share = u64::from(self.delivered) * u64::from(threshold);
            (share.div_ceil(u64::from(self.at_start)) as u32).saturating_sub(self.sent)
        } else {
            // RFC 9937, section 6.2: as much as has just arrived may go out in any case.
            let limit = self.delivered.saturating_sub(self.sent).max(delivered);
            let limit = if is_safe { limit.saturating_add(segment) } else { limit };
            limit.min(threshold - in_flight)
        };
        // The first segment that was lost goes out in any case.
        let may = if self.sent == 0 { may.max(segment) } else { may };
        in_flight.saturating_add(may).max(segment)
    }

    /// So many bytes were sent.
    pub fn count_sent(&mut self, bytes: u32) {
        self.sent = self.sent.saturating_add(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEGMENT: u32 = 1000;
    const RTT: i64 = 100_000_000;

    #[test]
    fn slow_start_doubles_and_avoidance_adds_a_segment_for_each_window() {
        let mut reno = Congestion::new(Algorithm::Reno, SEGMENT);
        assert_eq!(reno.window, 10 * SEGMENT, "RFC 6928");
        (0..10).for_each(|_| reno.grow(SEGMENT, SEGMENT, RTT, 0));
        assert_eq!(reno.window, 20 * SEGMENT);
        reno.reduce(20 * SEGMENT, SEGMENT);
        assert_eq!(reno.threshold, 10 * SEGMENT, "half of what was on its way");
        reno.window = reno.threshold;
        (0..10).for_each(|_| reno.grow(SEGMENT, SEGMENT, RTT, 0));
        assert_eq!(reno.window, 11 * SEGMENT);
        reno.collapse(SEGMENT);
        assert_eq!(reno.window, SEGMENT);
        reno.reduce(0, SEGMENT);
        assert_eq!(reno.threshold, 2 * SEGMENT, "RFC 5681, equation 4");
    }

    #[test]
    fn initial_windows_are_those_of_the_rfc() {
        for (segment, window) in [(1460, 14_600), (536, 5360), (8960, 17_920), (4000, 14_600)] {
            assert_eq!(Congestion::new(Algorithm::Reno, segment).window, window);
        }
    }

    /// RFC 9438, section 4.2: the window is back at W_max after K seconds, slow around it and
    /// quick far from it.
    #[test]
    fn cubic_comes_back_to_where_the_loss_was_after_k() {
        let mut cubic = Congestion { window: 100 * SEGMENT, ..Congestion::new(Algorithm::Cubic, SEGMENT) };
        cubic.reduce(100 * SEGMENT, SEGMENT);
        assert_eq!(cubic.threshold, 70 * SEGMENT, "beta is 0.7");
        cubic.window = cubic.threshold;
        let k = (30.0_f64 / 0.4).cbrt();
        let (mut now, mut at_k, mut at_half) = (1, 0, 0);
        while now < (2.0 * k * 1e9) as i64 {
            let mut acknowledged = 0;
            while acknowledged < cubic.window {
                cubic.grow(SEGMENT, SEGMENT, RTT, now);
                acknowledged += SEGMENT;
            }
            now += RTT;
            if now < (k * 1e9) as i64 {
                at_k = cubic.window;
            }
            if now < (k * 0.5e9) as i64 {
                at_half = cubic.window;
            }
        }
        let near = |window: u32, segments: u32| window.abs_diff(segments * SEGMENT) <= 4 * SEGMENT;
        assert!(near(at_k, 100), "{at_k} after K");
        assert!(near(at_half, 96), "{at_half} after K / 2, where the curve is at 96");
        assert!(near(cubic.window, 130), "{} after 2 K", cubic.window);
    }

    #[test]
    fn a_second_loss_below_the_first_lets_go_of_the_top() {
        let mut cubic = Congestion { window: 100 * SEGMENT, ..Congestion::new(Algorithm::Cubic, SEGMENT) };
        cubic.reduce(0, SEGMENT);
        cubic.window = 80 * SEGMENT;
        cubic.reduce(0, SEGMENT);
        assert!((cubic.flat - 68.0).abs() < 0.1, "RFC 9438, section 4.7: {}", cubic.flat);
    }

    /// RFC 6937, section 3.1: of 20 segments on their way one is lost; half of the window is
    /// to be left, so a segment goes out for each two that arrive.
    #[test]
    fn recovery_sends_a_segment_for_each_two_that_arrive() {
        let mut prr = RateReduction::begin(20 * SEGMENT);
        let (mut in_flight, mut sent) = (19 * SEGMENT, 0);
        for _ in 0..19 {
            in_flight -= SEGMENT;
            let window = prr.window(SEGMENT, in_flight, 10 * SEGMENT, SEGMENT, true);
            while in_flight + SEGMENT <= window {
                in_flight += SEGMENT;
                sent += 1;
                prr.count_sent(SEGMENT);
            }
        }
        assert_eq!((sent, in_flight), (10, 10 * SEGMENT));
    }
}
