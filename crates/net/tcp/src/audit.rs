//! What must be so of every connection at any time, in builds with debug assertions: for
//! tests and for the fuzzer, which look after each step.

use crate::connection::{Connection, StackShared, State};
use crate::queue::{NONE, Sent};
use crate::search::Search;
use crate::stack::Stack;

impl Stack {
    /// Looks at all connections.
    ///
    /// # Panics
    /// When something is not as it must be.
    pub fn assert_sound(&self) {
        let (mut kept, mut early, mut unconsumed) = (0, 0, 0);
        let (mut half_open, mut fast_half_open, mut in_time_wait) = (0, 0, 0);
        for index in 0..self.connections.end() {
            let Some(connection) = self.connections.get(index) else { continue };
            connection.assert_sent(&self.shared);
            connection.assert_received(&self.shared);
            kept += connection.queue.len as usize;
            early += connection.early.len as usize;
            unconsumed += connection.unconsumed_packets;
            half_open += u32::from(connection.state == State::SynReceived);
            fast_half_open += u32::from(connection.is_fast_open());
            in_time_wait += u32::from(connection.state == State::TimeWait);
        }
        assert_eq!((half_open, fast_half_open), (self.half_open, self.fast_half_open));
        assert_eq!(in_time_wait, self.in_time_wait);
        let places = fast_half_open as usize + self.fast_resets.len();
        assert!(places <= self.shared.options.half_open as usize, "of fast open");
        let shared = &self.shared;
        assert_eq!(
            (kept, early),
            (shared.nodes.used(), shared.early.used()),
            "of connections that are no more"
        );
        assert_eq!(unconsumed, shared.unconsumed);
        let limit = shared.options.packets as usize / 2;
        // What applications of other stacks had not consumed came with their connections.
        let is_own = shared.counters.moved_here == 0;
        assert!(early + unconsumed as usize <= limit || !is_own);
        assert!(early <= limit / 2);
    }
}

impl Connection {
    /// The queue has all numbers from the first unacknowledged one, in order and once, and the
    /// sums are those of its nodes.
    fn assert_sent(&self, shared: &StackShared) {
        assert!(!self.nxt.is_before(self.una) && !self.end.is_before(self.nxt), "{self:?}");
        let (mut next, mut count, mut unsent) = (self.una, 0, NONE);
        let (mut in_flight, mut lost, mut sacked) = (0, 0, 0);
        for (at, node) in shared.nodes.iter(self.queue) {
            assert!(node.sequence == next && node.len() > 0, "{node:?} at {next:?} of {self:?}");
            match node.sent {
                Sent::InFlight => in_flight += node.len(),
                Sent::Lost => lost += node.len(),
                Sent::Sacked => sacked += node.len(),
                Sent::Not if unsent == NONE => unsent = at,
                Sent::Not => {}
            }
            assert_eq!(node.sent == Sent::Not, unsent != NONE, "{self:?}");
            assert_eq!(node.sent == Sent::Not, !node.sequence.is_before(self.nxt), "{self:?}");
            (next, count) = (node.end(), count + 1);
        }
        let is_kept = self.state != State::TimeWait;
        assert!(next == self.end || !is_kept, "{self:?}");
        assert_eq!((count, unsent), (self.queue.len, self.unsent), "{self:?}");
        assert_eq!((in_flight, lost, sacked), (self.in_flight, self.lost, self.sacked), "{self:?}");
        assert!(self.congestion.window > 0, "{self:?}");
        assert!(self.segment.max(self.path.ceiling) <= self.path.agreed, "{self:?}");
        let is_behind = self.una.is_before(self.path.probe_end);
        assert!(self.is.search != Search::Probes || is_behind, "{self:?}");
        assert!(self.is.to_arm || self.armed_ns <= self.next_deadline_ns(), "{self:?}");
    }

    /// What waits is behind what is expected, in the window, in order and without overlaps.
    fn assert_received(&self, shared: &StackShared) {
        assert!(!self.receive_edge.is_before(self.receive_next), "{self:?}");
        let (mut next, mut count) = (self.receive_next.plus(1), 0);
        for (_, node) in shared.early.iter(self.early) {
            assert!(!node.sequence.is_before(next) && node.len() > 0, "{node:?} of {self:?}");
            assert!(!node.end().is_after(self.receive_edge), "{node:?} of {self:?}");
            (next, count) = (node.end(), count + 1);
        }
        assert_eq!(count, self.early.len, "{self:?}");
        assert!(count <= shared.options.out_of_order);
        let window = self.receive_edge.since(self.receive_next);
        let buffer = shared.options.receive_buffer.max(crate::cookie::WINDOW.into());
        assert!(u64::from(window) + u64::from(self.unconsumed) <= u64::from(buffer), "{self:?}");
    }
}
