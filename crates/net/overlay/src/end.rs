//! Ends of tunnels that are here, as received packets find them: by protocol, local address
//! and identifier.

use std::net::IpAddr;

use fib::exact::Key;

use crate::network::Layer;
use crate::protocol::{Carrier, Protocol};
use crate::tunnel::Tunnel;

/// Local addresses, at most: their numbers are the lower bits of a key's network.
pub(crate) const MAX_LOCALS: usize = 1 << 20;
/// The bit of a key's network that says that the rest is an address of the far end.
const BY_REMOTE: u32 = 1 << 23;
/// Where a protocol's number begins in a key's network.
const PROTOCOL_SHIFT: u32 = 24;

/// What becomes of the packets of a tunnel that ends here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct End {
    /// The virtual network that they come out in.
    pub(crate) network: u32,
    /// What they must be.
    pub(crate) layer: Layer,
    /// Whether UDP over IPv6 may have no checksum (RFC 6935).
    pub(crate) zero_checksum: bool,
}

/// A local address, with its number.
#[derive(Debug)]
pub(crate) struct Local {
    pub(crate) number: u32,
    /// Ends at this address.
    pub(crate) ends: usize,
}

impl Local {
    pub(crate) fn key(address: IpAddr) -> Key {
        match address {
            IpAddr::V4(address) => Key::new(4, address.to_bits().into()),
            IpAddr::V6(address) => Key::new(6, address.to_bits()),
        }
    }
}

impl End {
    /// Where the end of a tunnel stands.
    pub(crate) fn key(tunnel: &Tunnel, local: u32) -> Key {
        let identifier = match tunnel.protocol.carrier {
            Carrier::Segments => Some(0),
            _ => tunnel.identifier,
        };
        Self::key_of(tunnel.protocol, local, identifier, tunnel.remote)
    }

    /// Where the end of a received packet's tunnel stands.
    #[inline]
    pub(crate) fn key_of(protocol: &Protocol, local: u32, identifier: Option<u32>, remote: IpAddr) -> Key {
        let end = u32::from(protocol.number) << PROTOCOL_SHIFT | local;
        match (identifier, remote) {
            (Some(identifier), _) => Key::new(end, identifier.into()),
            (None, IpAddr::V4(remote)) => Key::new(end | BY_REMOTE, remote.to_bits().into()),
            (None, IpAddr::V6(remote)) => Key::new(end | BY_REMOTE, remote.to_bits()),
        }
    }

    /// The number of the local address in a key.
    pub(crate) fn local_of(key: Key) -> u32 {
        key.network() & (MAX_LOCALS as u32 - 1)
    }
}
