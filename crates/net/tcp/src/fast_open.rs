//! Fast open (RFC 7413): data come with the SYN, and the application may answer them before the
//! handshake has ended. A cookie shows that the other side has received something at its
//! address before: strangers with wrong addresses cannot make a server work.
//!
//! A cookie is a secret hash (SipHash-2-4) of both addresses, as that of Linux is: hosts that
//! share a name and the key take each other's cookies.

use std::hash::Hasher;
use std::net::IpAddr;

use siphasher::sip::SipHasher24;
use wire::tcp_option::{FastOpen, MAX_COOKIE_LEN};

use crate::choices::Listener;
use crate::connection::{Connection, Io, MaybePacket, Shared, State};
use crate::event::Event;
use crate::key::Key;
use crate::segment::Segment;

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
pub enum Verdict {
    /// It is one like others.
    Usual,
    /// Its data are taken, and the application is told at once.
    Open,
    /// It is one like others, whose answer carries a cookie for later ones.
    Give(Cookie),
}

/// Looks at a SYN to a listener that takes data, with so many connections half open whose SYN's
/// data were taken, on all ports.
pub fn judge(key: &Key, segment: &Segment, listener: &Listener, half_open: u32) -> Verdict {
    let chosen = listener.fast_open.filter(|chosen| half_open < chosen.most);
    let Some(chosen) = chosen else { return Verdict::Usual };
    let is_free = !chosen.is_cookie_needed && !segment.payload.is_empty();
    match segment.fast_open {
        _ if is_free => Verdict::Open,
        None => Verdict::Usual,
        Some(told) => {
            let given = Cookie::given(key, &chosen.key, told.is_experiment);
            if told.option().cookie == given.option().cookie { Verdict::Open } else { Verdict::Give(given) }
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
        shared: &mut Shared,
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
