//! What a server gives, as far as it makes sense.

use std::net::Ipv4Addr;

use wire::dhcp::{INFINITE, Reply};

use crate::limits::SECOND_NS;

/// A lease that is shorter is no lease: who takes it does little else than to ask for more time.
const LEAST_S: u32 = 10;

/// The least MTU that is accepted of a link: what every host can receive (RFC 791, section 3.1). By less a
/// server could keep a host from sending anything.
const LEAST_MTU: u16 = 576;

/// An address for a time, and what belongs to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    /// The host's address.
    pub address: Ipv4Addr,
    /// The bits of its network.
    pub bits: u8,
    /// Who forwards to addresses outside of it.
    pub router: Option<Ipv4Addr>,
    /// Who gave it.
    pub server: Ipv4Addr,
    /// The longest IP packet of the link, if a sound one was told.
    pub mtu: Option<u16>,
    /// When it ends, in nanoseconds; `None` when it does not.
    pub until_ns: Option<i64>,
}

/// When a lease is to be renewed (RFC 2131, section 4.4.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Times {
    /// The server is asked for more time (T1).
    pub renewal_ns: i64,
    /// All servers are asked (T2).
    pub rebinding_ns: i64,
    /// The lease ends, and the address may be used no longer.
    pub end_ns: i64,
}

/// What an offer or an acknowledgement gives, counted from when it was asked for; `None` when it
/// is nothing that a host could have.
pub(super) fn lease_of(reply: &Reply, asked_ns: i64) -> Option<(Lease, Times)> {
    let (address, server) = (reply.address, reply.server?);
    let seconds = reply.lease_s.filter(|seconds| *seconds >= LEAST_S)?;
    let bits = reply.mask.map_or_else(|| Some(bits_of_class(address)), bits_of)?;
    let is_sound = is_host(address) && is_host(server) && !is_reserved(address, bits) && address != server;
    let router = reply.router.filter(|router| is_host(*router) && *router != address);
    let until_ns = (seconds != INFINITE).then(|| asked_ns + i64::from(seconds) * SECOND_NS);
    let mtu = reply.mtu.filter(|mtu| *mtu >= LEAST_MTU);
    let lease = Lease { address, bits, router, server, mtu, until_ns };
    is_sound.then(|| (lease, times(reply, seconds, asked_ns)))
}

fn times(reply: &Reply, seconds: u32, asked_ns: i64) -> Times {
    if seconds == INFINITE {
        return Times { renewal_ns: i64::MAX, rebinding_ns: i64::MAX, end_ns: i64::MAX };
    }
    let at = |seconds: i64| asked_ns + seconds * SECOND_NS;
    let seconds = i64::from(seconds);
    // Of times that do not stand in their order none is used.
    let told = reply.renewal_s.map(i64::from).zip(reply.rebinding_s.map(i64::from));
    let (renewal, rebinding) = told
        .filter(|(first, second)| 0 < *first && first < second && *second < seconds)
        .unwrap_or((seconds / 2, seconds * 7 / 8));
    Times { renewal_ns: at(renewal), rebinding_ns: at(rebinding), end_ns: at(seconds) }
}

/// Whether this can be the address of one host.
fn is_host(address: Ipv4Addr) -> bool {
    let is_nobody = address.is_unspecified() || address.is_loopback();
    // Addresses of class E, the broadcast address among them.
    !(is_nobody || address.is_multicast() || address.octets()[0] >= 240)
}

/// Whether an address is that of its network or of all its hosts (RFC 1122, section 3.2.1.3), which
/// links with two ends do not have (RFC 3021).
fn is_reserved(address: Ipv4Addr, bits: u8) -> bool {
    let host = u32::MAX.checked_shr(bits.into()).unwrap_or(0);
    let own = address.to_bits() & host;
    bits <= 30 && (own == 0 || own == host)
}

/// The bits of a mask that has no hole; some at least.
fn bits_of(mask: Ipv4Addr) -> Option<u8> {
    let bits = mask.to_bits().leading_ones();
    (bits > 0 && bits + mask.to_bits().trailing_zeros() == 32).then_some(bits as u8)
}

/// The bits of a network without a mask (RFC 791, section 3.2).
fn bits_of_class(address: Ipv4Addr) -> u8 {
    match address.octets()[0] {
        0..128 => 8,
        128..192 => 16,
        192.. => 24,
    }
}
