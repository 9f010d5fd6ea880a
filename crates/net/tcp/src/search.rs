//! How long segments may be on a path that drops long ones without a word: each length is tried by
//! one segment, behind which others follow, so that its loss is found without a timer. If it
//! arrives, all are as long from then on; if it alone is lost, that says nothing of congestion,
//! and its bytes go again in shorter ones (RFC 4821, sections 7.3 to 7.6).

use crate::connection::{Connection, Io, Recovery, StackShared};
use crate::queue::{NONE, Node, Sent};
use crate::sequence::Sequence;

/// Lengths of packets that links and tunnels take, which are tried from the first on that is more
/// than what is known to arrive.
const LENGTHS: [u32; 11] = [576, 1024, 1280, 1400, 1420, 1440, 1450, 1480, 1492, 1500, 2002];
/// Full segments that follow one that tries a length, each of which may tell of its loss.
const FOLLOWING: u32 = 3;

/// Whether longer segments are tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Search {
    /// They are not.
    #[default]
    Rests,
    /// The next one goes when the time is right for it.
    Waits,
    /// One is on its way.
    Probes,
}

impl Connection {
    /// Tries the next length, if one is left and the time is right for it. Whether new data wait
    /// until the windows have room for it.
    #[cold]
    pub fn search_path(&mut self, shared: &mut StackShared, io: &mut Io) -> bool {
        if self.is.search == Search::Probes {
            return false;
        }
        let Some(segment) = self.next_length() else {
            self.rest_search(io.now_ns);
            return false;
        };
        let len = self.payload_size() + u32::from(segment - self.segment);
        if !self.may_probe(len, shared) {
            return false;
        }
        let all = len + FOLLOWING * self.payload_size();
        let edge = self.una.plus(self.send_window);
        if self.in_flight + len > self.congestion.window || edge.is_before(self.nxt.plus(all)) {
            return self.in_flight > 0;
        }
        let at = self.unsent;
        if !self.gather(at, len, shared, io) {
            return false;
        }
        if shared.options.restart_after_idle {
            self.restart_after_idle(io.now_ns);
        }
        if self.transmit_new(at, shared, io) {
            self.is.search = Search::Probes;
            self.path.probe_end = self.nxt;
            shared.counters.path_mtu_probes += 1;
        }
        false
    }

    /// The next length of segments that is tried.
    fn next_length(&self) -> Option<u16> {
        let headers = self.header_len();
        let known = LENGTHS.iter().map(|len| (len - headers) as u16);
        let mut all = known.chain([self.path.agreed]);
        all.find(|segment| *segment > self.segment && *segment <= self.path.ceiling)
    }

    /// Whether a segment of so many bytes can be sent, with others behind it.
    fn may_probe(&self, len: u32, shared: &StackShared) -> bool {
        let all = len + FOLLOWING * self.payload_size();
        let is_calm = self.recovery == Recovery::Open && self.lost == 0 && self.sacked == 0;
        let is_much = self.unsent != NONE && self.end.since(self.nxt) >= all;
        let fits = self.send_window.min(self.congestion.window) >= all;
        self.is.has_sack
            && self.state.is_synchronized()
            && is_calm
            && is_much
            && fits
            && self.may_split(shared)
    }

    /// Has a node that was not sent carry exactly so many bytes; whether it does.
    fn gather(&mut self, at: u32, len: u32, shared: &mut StackShared, io: &mut Io) -> bool {
        self.join(at, len, shared, io);
        let Some(node) = shared.nodes.get(at).filter(|node| !node.is_control) else { return false };
        let (has, next) = (node.len(), node.next);
        if has < len && node.is_record_end {
            return false;
        }
        if has < len {
            let is_longer =
                |node: &Node| !node.is_control && node.sent == Sent::Not && node.len() > len - has;
            if !shared.nodes.get(next).is_some_and(is_longer) || !self.split(next, len - has, shared, io) {
                return false;
            }
            self.join(at, len, shared, io);
        } else if has > len && !self.split(at, len, shared, io) {
            return false;
        }
        shared.nodes.get(at).is_some_and(|node| node.len() == len)
    }

    /// Looks whether the segment that tries a length has arrived.
    #[cold]
    pub fn look_for_path_probe(&mut self, shared: &mut StackShared, now_ns: i64) {
        let has_come = !self.una.is_before(self.path.probe_end)
            || self.path_probe(shared).is_some_and(|node| node.sent == Sent::Sacked);
        if !has_come {
            return;
        }
        self.is.search = Search::Waits;
        if let Some(segment) = self.next_length() {
            self.segment = segment;
            self.wait_search(now_ns);
            shared.counters.path_mtu_raised += 1;
        }
    }

    /// The segment that tries a length.
    fn path_probe<'a>(&self, shared: &'a StackShared) -> Option<&'a Node> {
        let mut sent = shared.nodes.iter(self.queue).map(|(_, node)| node);
        sent.find(|node| node.end() == self.path.probe_end && node.payload_len() > self.payload_size())
    }

    /// Whether nothing was lost but the segment that tries a length, which is too long then.
    #[cold]
    pub fn is_path_probe_lost(&mut self, shared: &StackShared) -> bool {
        let Some(node) = self.path_probe(shared) else { return false };
        if node.sent != Sent::Lost {
            return false;
        }
        let is_alone = self.lost == node.len();
        if is_alone {
            self.path.ceiling = self.next_length().map_or(self.segment, |tried| tried - 1);
        }
        // With others it may have been lost by congestion: it is tried again.
        self.is.search = Search::Waits;
        is_alone
    }

    /// Bytes up to a number go again, in segments that arrive: those of one that tries a length tell
    /// nothing of it any more.
    pub fn resend_path_probe(&mut self, end: Sequence) {
        if self.is.search == Search::Probes && end == self.path.probe_end {
            self.is.search = Search::Waits;
        }
    }

    /// A timer expired: the length that was tried is not tried again soon.
    pub fn give_path_probe_up(&mut self) {
        if self.is.search == Search::Probes {
            self.path.ceiling = self.next_length().map_or(self.segment, |tried| tried - 1);
            self.is.search = Search::Waits;
        }
    }

    /// Whether a router told that the segment was too long that tries a length.
    pub fn is_path_probe_told(&mut self, sequence: Sequence, mtu: u32, shared: &StackShared) -> bool {
        let is_probe = self.is.search == Search::Probes
            && self.path_probe(shared).is_some_and(|node| node.sequence == sequence);
        let Some(tried) = self.next_length().filter(|_| is_probe) else { return false };
        let Some(told) = self.segment_for(mtu, shared) else { return false };
        if told < tried {
            (self.path.ceiling, self.is.search) = (told.max(self.segment), Search::Waits);
        }
        told < tried
    }
}
