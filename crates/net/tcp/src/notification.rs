//! Congestion notification (RFC 3168): the other side echoes that a router met congestion, and
//! the window shrinks by proportional rate reduction (RFC 6937), as Linux does it, so that
//! sending goes on meanwhile.

use wire::tcp::Flags;

use crate::acknowledge::Told;
use crate::congestion::RateReduction;
use crate::connection::{Connection, Recovery};
use crate::segment::Segment;

impl Connection {
    /// The window shrinks in proportion to what arrives, until something is acknowledged that was
    /// sent after the congestion was known, as Linux has it.
    pub fn go_on_reducing(&mut self, told: &Told) {
        let (segment, threshold) = (self.payload_size(), self.congestion.threshold);
        self.is.is_reducing = !self.una.is_after(self.ecn_recover);
        self.congestion.window = match self.is.is_reducing {
            true => self.reduction.window(told.delivered, self.in_flight, threshold, segment, false),
            false => threshold,
        };
    }

    /// RFC 3168, section 6.1.2: congestion that was met counts once for each window. `flight` is
    /// what was on its way before. The window of what this acknowledgement tells of follows.
    pub fn take_echo(&mut self, segment: &Segment, flight: u32) {
        // The answer to a SYN agrees to the notification by the same bit.
        let is_echo = segment.has(Flags::ECE) && !segment.has(Flags::SYN);
        let is_known = self.is.is_reducing || self.una.is_before(self.ecn_recover);
        if !self.is.has_ecn || !is_echo || is_known {
            return;
        }
        if self.recovery == Recovery::Open {
            self.congestion.reduce(flight, self.payload_size());
            self.reduction = RateReduction::begin(flight);
            (self.is.is_reducing, self.is.owes_cwr) = (true, true);
            self.ecn_recover = self.nxt;
        }
    }
}
