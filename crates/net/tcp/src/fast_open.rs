//! Fast open (RFC 7413): data come with the SYN, and the application may answer them before the
//! handshake has ended. A cookie shows that the other side has received something at its
//! address before: strangers with wrong addresses cannot make a server work.
//!
//! A cookie is a secret hash (SipHash-2-4) of both addresses, as that of Linux is: hosts that
//! share a name and the key take each other's cookies.

use std::hash::Hasher;
use std::net::IpAddr;

use port::Reason as Loss;
use siphasher::sip::SipHasher24;
use wire::tcp_option::{FastOpen, MAX_COOKIE_LEN};

use crate::choices::{FastOpenListener, Listener};
use crate::connection::{Connection, Io, MaybePacket, StackShared, State};
use crate::event::{Event, Reason};
use crate::key::Key;
use crate::options::SECOND_NS;
use crate::segment::Segment;
use crate::stack::Stack;

/// How long a connection counts that a reset ended before it was open, as in Linux.
const RESET_PLACE_NS: i64 = 60 * SECOND_NS;

/// A cookie, or a request for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cookie {
    bytes: [u8; MAX_COOKIE_LEN],
    len: usize,
    is_experiment: bool,
}

impl From<FastOpen<'_>> for Cookie {
    fn from(option: FastOpen<'_>) -> Cookie {
        let (mut bytes, len) = ([0; MAX_COOKIE_LEN], option.cookie.len());
        bytes[..len].copy_from_slice(option.cookie);
        Cookie { bytes, len, is_experiment: option.is_experiment }
    }
}

impl Cookie {
    /// The option that it stands in.
    pub fn option(&self) -> FastOpen<'_> {
        FastOpen { cookie: &self.bytes[..self.len], is_experiment: self.is_experiment }
    }

    /// The cookie that a listener gives to the other side of a connection.
    fn given(key: &Key, secret: &[u8; 16], is_experiment: bool) -> Cookie {
        let mut hasher = SipHasher24::new_with_key(secret);
        for address in [key.remote, key.local] {
            match address {
                IpAddr::V4(address) => hasher.write(&address.octets()),
                IpAddr::V6(address) => hasher.write(&address.octets()),
            }
        }
        let hash = hasher.finish().to_le_bytes();
        let mut bytes = [0; MAX_COOKIE_LEN];
        bytes[..hash.len()].copy_from_slice(&hash);
        Cookie { bytes, len: hash.len(), is_experiment }
    }
}

/// What becomes of a SYN with regard to fast open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SynHandling {
    /// It is one like others.
    Usual,
    /// Its data are taken, and the application is told at once.
    Open,
    /// It is one like others, whose answer carries a cookie for later ones.
    Give(Cookie),
}

/// Looks at a SYN to a port, with so many connections pending whose SYN's data were taken. Data
/// that are not taken are counted, for they have to be sent again.
pub fn decide(
    key: &Key,
    segment: &Segment,
    listener: &Listener,
    pending: u32,
    shared: &mut StackShared,
) -> SynHandling {
    let handling = match &listener.fast_open {
        Some(chosen) => decide_by(key, segment, chosen, pending, shared),
        None => SynHandling::Usual,
    };
    if handling != SynHandling::Open && !segment.payload.is_empty() {
        shared.counters.lose(Loss::RxTcpSynData);
    }
    handling
}

fn decide_by(
    key: &Key,
    segment: &Segment,
    chosen: &FastOpenListener,
    pending: u32,
    shared: &mut StackShared,
) -> SynHandling {
    let is_free = !chosen.is_cookie_needed && !segment.payload.is_empty();
    if segment.fast_open.is_none() && !is_free {
        return SynHandling::Usual;
    }
    if pending >= chosen.most.min(shared.options.half_open) {
        shared.counters.fast_open_full += 1;
        return SynHandling::Usual;
    }
    let Some(told) = segment.fast_open.filter(|_| !is_free) else { return SynHandling::Open };
    let given = Cookie::given(key, &chosen.key, told.is_experiment);
    if told.option().cookie == given.option().cookie {
        return SynHandling::Open;
    }
    shared.counters.fast_open_wrong += u64::from(!told.option().cookie.is_empty());
    SynHandling::Give(given)
}

impl Stack {
    /// How many connections count whose SYN's data were taken and whose end of opening has not
    /// been seen. One that ended by a reset counts for a time, as in Linux: else who sends SYNs
    /// with the addresses of others, whose resets come at once, could have as many of them
    /// worked for as it likes (RFC 7413, section 5.1).
    pub(crate) fn fast_pending(&mut self, now_ns: i64) -> u32 {
        while self.fast_resets.front().is_some_and(|until_ns| *until_ns <= now_ns) {
            self.fast_resets.pop_front();
        }
        self.fast_half_open + self.fast_resets.len() as u32
    }

    /// Has a place of fast open stay counted whose connection ends because the other side did
    /// not want it. There are no more of them than there may be half-open connections.
    pub(crate) fn keep_fast_place(&mut self, index: u32, reason: Reason, now_ns: i64) {
        let is_refused = matches!(reason, Reason::Reset | Reason::Unreachable);
        if is_refused && self.connections.get(index).is_some_and(Connection::is_fast_open) {
            self.fast_resets.push_back(now_ns + RESET_PLACE_NS);
        }
    }
}

impl Connection {
    /// Whether the application may send though the handshake has not ended (RFC 7413, section
    /// 4.2.2).
    #[inline]
    pub fn is_fast_open(&self) -> bool {
        self.state == State::SynReceived && self.is.is_passive && self.is.is_known
    }

    /// Whether data may go out.
    #[inline]
    pub fn may_speak(&self) -> bool {
        self.state.is_synchronized() || self.is_fast_open()
    }

    /// Tells the application of a connection whose SYN may carry data, and takes them.
    pub fn open_fast(
        &mut self,
        index: u32,
        segment: &Segment,
        packet: &mut MaybePacket,
        shared: &mut StackShared,
        io: &mut Io,
    ) {
        self.is.is_known = true;
        self.is.has_syn_data = !segment.payload.is_empty();
        shared.counters.fast_opened += 1;
        shared.events.push(Event::Connected { connection: self.id(index), is_passive: true });
        self.receive_edge = self.receive_next.plus(shared.options.receive_buffer.min(0xFFFF));
        self.acknowledged = self.receive_next;
        if !segment.payload.is_empty() {
            self.take_data(index, segment, packet, shared, io);
        }
        // The answer to the SYN acknowledges them.
        self.is.owes_ack = false;
    }
}
