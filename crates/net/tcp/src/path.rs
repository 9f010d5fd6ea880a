//! How long the packets may be that the path to the other side takes: routers tell it (RFC
//! 1191 and 8201), and where they do not, segments that do not arrive while shorter ones might
//! are made shorter (RFC 4821, section 7.7), and [`search`](crate::search) finds how long they may
//! be. Segments never become longer than the two sides agreed on. What a router told is forgotten
//! after ten minutes (RFC 1191, section 6.3), and what was found is searched for again.

use crate::connection::{Connection, Io, NEVER, Next, StackShared, State};
use crate::emit;
use crate::key::Key;
use crate::options::SECOND_NS;
use crate::queue::Sent;
use crate::search::Search;
use crate::sequence::Sequence;
use crate::stack::Stack;

/// The shortest packet that a path is taken to carry over IPv4, which all hosts take
/// (RFC 1122, section 3.3.2): a stranger's message makes segments no smaller.
const LEAST_V4: u32 = 576;
/// The shortest over IPv6 (RFC 8200, section 5).
const LEAST_V6: u32 = 1280;
/// After how many timeouts in a row the path is taken for a black hole for long packets (RFC 2923).
const TIMEOUTS: u8 = 2;
/// Lengths of packets that are tried then, one after the other.
const STEPS: [u32; 4] = [1400, 1280, 1024, 576];
/// After which time longer segments are sent or tried again.
const AGE_NS: i64 = 600 * SECOND_NS;

/// What is known of a connection's path.
#[derive(Debug, Clone, Copy, Default)]
pub struct Path {
    /// The largest segment that the two sides agreed on, options included.
    pub agreed: u16,
    /// The largest that may arrive on a path that drops longer ones without a word; 0 as long as no
    /// path of the connection did, and where a length cannot be tried.
    pub ceiling: u16,
    /// The number behind the segment that [tries](crate::search) a length, while it is on its way.
    pub probe_end: Sequence,
    /// When longer segments may be sent or tried again.
    raise_ns: i64,
}

impl Path {
    /// Nothing is known of it yet.
    pub fn new(agreed: u16) -> Path {
        Path { agreed, raise_ns: NEVER, ..Path::default() }
    }
}

impl Connection {
    /// The largest segment in packets of so many bytes, within the limits.
    pub fn segment_for(&self, mtu: u32, shared: &StackShared) -> Option<u16> {
        let least = if self.key.remote.is_ipv4() { LEAST_V4 } else { LEAST_V6 };
        let mtu = mtu.max(least).min(shared.options.mtu.into());
        Some(emit::max_segment(&self.key.addresses()?, mtu as u16))
    }

    /// Takes the longest packet for `mtu` bytes if that is less than before; whether it is.
    fn shorten(&mut self, mtu: u32, shared: &mut StackShared) -> bool {
        let Some(segment) = self.segment_for(mtu, shared) else { return false };
        let is_less = segment < self.segment;
        if is_less {
            self.segment = segment;
            shared.counters.path_mtu_reduced += 1;
        }
        is_less
    }

    /// A router told that a segment of number `sequence` was too long. That counts only for
    /// what is on its way (RFC 5927, section 7.2).
    fn take_too_big(&mut self, sequence: Sequence, mtu: u32, shared: &mut StackShared, io: &Io) -> bool {
        if self.state == State::SynSent && self.syn_data > 0 && sequence == self.initial {
            return self.shorten_syn(mtu, shared, io.now_ns);
        }
        let is_sent = !sequence.is_before(self.una) && sequence.is_before(self.nxt);
        if !is_sent || !self.state.is_synchronized() {
            return false;
        }
        if self.shorten(mtu, shared) {
            self.is.search = Search::Rests;
            self.path.raise_ns = io.now_ns + AGE_NS;
        } else if !self.is_path_probe_told(sequence, mtu, shared) {
            return false;
        }
        // All that was too long is sent again at once, which says nothing of congestion.
        let size = self.payload_size();
        let mut at = self.queue.head;
        while let Some(node) = shared.nodes.get_mut(at).filter(|node| node.sent != Sent::Not) {
            at = node.next;
            if node.sent == Sent::InFlight && node.payload_len() > size {
                node.sent = Sent::Lost;
                self.in_flight -= node.len();
                self.lost += node.len();
            }
        }
        true
    }

    /// A router told that a SYN with data was too long: it goes without them at once.
    fn shorten_syn(&mut self, mtu: u32, shared: &mut StackShared, now_ns: i64) -> bool {
        let is_less = self.shorten(mtu, shared);
        if is_less {
            self.refuse_fast(shared, now_ns);
            self.advertised = self.segment;
            (self.cookie, self.syn_data) = (None, 0);
            self.resend_syn(shared);
        }
        is_less
    }

    /// A timer expired: segments become shorter if the first one may be too long.
    pub fn suspect_path(&mut self, shared: &mut StackShared, now_ns: i64) {
        self.give_path_probe_up();
        let before = self.segment;
        let longest = u32::from(before) + self.header_len();
        let len = shared.nodes.get(self.queue.head).map_or(0, |node| node.len());
        let is_full = len >= self.payload_size().min(STEPS[STEPS.len() - 1]);
        if self.attempts < TIMEOUTS || !is_full || !self.state.is_synchronized() || self.send_window == 0 {
            return;
        }
        if let Some(step) = STEPS.into_iter().find(|step| *step < longest)
            && self.shorten(step, shared)
        {
            // Of several in a row the path may only have been silent, whatever the length.
            let ceiling = if self.attempts > TIMEOUTS { self.path.ceiling } else { 0 };
            self.path.ceiling = if self.is.has_sack { ceiling.max(before - 1) } else { 0 };
            self.wait_search(now_ns);
        }
    }

    /// Bytes of a packet in front of a segment and its options.
    pub fn header_len(&self) -> u32 {
        let most = self.key.addresses().map_or(0, |addresses| emit::max_segment(&addresses, u16::MAX));
        u32::from(u16::MAX - most)
    }

    /// Longer segments are sent again when what a router told is old, and tried again when what was
    /// found is, for the path may have become another one.
    #[inline]
    pub fn raise_segment(&mut self, now_ns: i64) {
        if now_ns >= self.path.raise_ns {
            self.raise(now_ns);
        }
    }

    #[cold]
    fn raise(&mut self, now_ns: i64) {
        if self.path.ceiling == 0 || self.is.search == Search::Waits {
            // No length was tried, for what is sent is too little or the windows are.
            (self.segment, self.path.raise_ns, self.is.search) = (self.path.agreed, NEVER, Search::Rests);
        } else {
            self.path.ceiling = self.path.agreed;
            self.wait_search(now_ns);
        }
    }

    /// Longer segments are tried from now on, where their loss would be noticed.
    pub fn wait_search(&mut self, now_ns: i64) {
        self.is.search = if self.path.ceiling > 0 { Search::Waits } else { Search::Rests };
        self.path.raise_ns = now_ns + AGE_NS;
    }

    /// No longer segments are tried for ten minutes (RFC 4821, section 7.7).
    pub fn rest_search(&mut self, now_ns: i64) {
        self.is.search = Search::Rests;
        self.path.raise_ns = if self.segment < self.path.agreed { now_ns + AGE_NS } else { NEVER };
    }
}

impl Stack {
    /// A router told that a segment with the number `sequence` of a connection is longer than
    /// the path takes, which is packets of `mtu` bytes (RFC 1191 and 8201). Whether that fits
    /// a connection, and is news.
    pub fn too_big(&mut self, key: &Key, sequence: u32, mtu: u32, io: &mut crate::Io) -> bool {
        let Some(index) = self.find(key) else { return false };
        let Some(connection) = self.connections.get_mut(index) else { return false };
        let is_news = connection.take_too_big(Sequence(sequence), mtu, &mut self.shared, io);
        self.follow_up(index, Next::Keep, io);
        is_news
    }
}
