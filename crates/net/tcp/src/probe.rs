//! Probes for losses at the end of what is sent (RFC 8985, section 7): when one is due, and what
//! its answer tells.

use crate::acknowledge::Told;
use crate::connection::{Connection, Deadline, NEVER, Recovery};
use crate::options::MILLISECOND_NS;
use crate::segment::Segment;

impl Connection {
    /// Whether the probe for the last segments repaired a loss (RFC 8985, section 7.4.2).
    pub fn end_probe(&mut self, segment: &Segment, told: &Told) -> bool {
        let Some(end) = self.probe_end.filter(|end| !segment.acknowledgement.is_before(*end)) else {
            return false;
        };
        if !self.is.is_probe_resent || told.is_duplicate {
            self.probe_end = None;
            return false;
        }
        // The first acknowledgement may be that of the original. A second one of the same is
        // the probe's, and nothing was lost; one of more is of both, or the original was.
        let is_beyond = segment.acknowledgement.is_after(end);
        if is_beyond || !told.is_advance {
            self.probe_end = None;
        }
        is_beyond
    }

    /// Arms the probe for the last segments (RFC 8985, section 7.2).
    pub fn arm_probe(&mut self, now_ns: i64) {
        let may = self.is.has_sack
            && self.is.has_tail_probes
            && self.state.is_synchronized()
            && self.recovery == Recovery::Open
            && self.in_flight > 0
            && self.sacked == 0
            && self.probe_end.is_none();
        if !may {
            self.set(Deadline::Probe, NEVER);
            return;
        }
        let mut wait_ns =
            if self.rtt.smoothed_ns > 0 { 2 * self.rtt.smoothed_ns } else { 1_000 * MILLISECOND_NS };
        if self.in_flight <= self.payload_size() {
            wait_ns += 200 * MILLISECOND_NS; // the other side's delayed acknowledgement
        }
        let at_ns = now_ns + wait_ns.max(2 * MILLISECOND_NS);
        let retransmit_ns = self.deadlines[Deadline::Retransmit as usize];
        self.set(Deadline::Probe, at_ns.min(retransmit_ns));
    }
}
