//! Whether the congestion window is what limits a connection: one that has less to send learns
//! nothing of the network, and its window does not grow (RFC 7661; as Linux has it, with the
//! most that was on its way in the last round trip).

use crate::connection::Connection;
use crate::sequence::Sequence;

/// How much of the congestion window was used.
#[derive(Debug, Clone, Copy, Default)]
pub struct Usage {
    /// The most bytes that were on their way, in the round that ends at `end`.
    most: u32,
    /// What was sent last when `most` was.
    end: Sequence,
    /// The window was full then.
    is_full: bool,
}

impl Connection {
    /// Looks at what is on its way, after something was sent or could not be.
    pub fn note_usage(&mut self) {
        let out = self.nxt.since(self.una);
        let is_full = self.in_flight + self.payload_size() > self.congestion.window;
        let is_over = !self.una.is_before(self.usage.end);
        if is_over || is_full || !self.usage.is_full && out > self.usage.most {
            self.usage = Usage { most: out, end: self.nxt, is_full };
        }
    }

    /// Whether the window may grow: it was full, or half full in slow start.
    pub fn is_limited_by_congestion(&self) -> bool {
        let is_slow_start = self.congestion.window < self.congestion.threshold;
        self.usage.is_full || is_slow_start && self.congestion.window < 2 * self.usage.most
    }
}
