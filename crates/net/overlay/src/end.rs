//! Ends of tunnels that are here, as received packets find them: by protocol, local address
//! and identifier.

use std::collections::BTreeMap;
use std::net::IpAddr;

use fib::exact::Key;
use wire::{ipv4, ipv6};

use crate::network::Layer;
use crate::protocol::{self, Carrier, PROTOCOLS, Protocol};
use crate::segment::Watch;
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
    /// What else is done with them than to hand them on.
    pub(crate) watch: Watch,
    /// The UDP port, where UDP carries the tunnel.
    pub(crate) port: Option<u16>,
    /// The local address: its number may have been another's when it was read.
    pub(crate) local: IpAddr,
}

/// A local address, with its number.
#[derive(Debug)]
pub(crate) struct Local {
    number: u32,
    /// Ends at this address, by the protocol's number.
    pub(crate) ends: [u32; protocol::COUNT],
    /// Ends at UDP ports that are not their protocols' own: the port, the protocol's number and
    /// how many there are.
    pub(crate) ports: BTreeMap<u16, (u8, u32)>,
}

/// A local address as receivers find it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct LocalView {
    pub(crate) number: u32,
    /// The protocols that end here, a bit for each number.
    pub(crate) protocols: u32,
    /// Whether some end has a UDP port that is not its protocol's own.
    pub(crate) has_ports: bool,
}

const _: () = assert!(protocol::COUNT <= u32::BITS as usize);

impl Local {
    pub(crate) fn new(number: u32) -> Local {
        Local { number, ends: [0; protocol::COUNT], ports: BTreeMap::new() }
    }

    /// The number by which its ends are found.
    pub(crate) const fn number(&self) -> u32 {
        self.number
    }

    pub(crate) fn view(&self) -> LocalView {
        let used = self.ends.iter().enumerate().filter(|(_, ends)| **ends > 0);
        let protocols = used.fold(0, |bits, (n, _)| bits | 1 << n);
        LocalView { number: self.number, protocols, has_ports: !self.ports.is_empty() }
    }

    /// Whether packets of a protocol could be another's that ends here: GRE's key is one
    /// number or two, and nothing says which.
    pub(crate) fn is_ambiguous(&self, protocol: &Protocol) -> bool {
        protocol.mistaken_for.is_some_and(|other| self.ends[usize::from(other)] > 0)
    }

    /// The number of the protocol whose packets come to a UDP port, if it is taken.
    pub(crate) fn protocol_at(&self, port: u16) -> Option<u8> {
        let own = self.ports.get(&port).map(|(number, _)| *number);
        own.or_else(|| {
            let is_at = |protocol: &&Protocol| protocol.udp_port() == Some(port);
            let protocol = PROTOCOLS.iter().find(is_at)?;
            (self.ends[usize::from(protocol.number)] > 0).then_some(protocol.number)
        })
    }

    /// Where a UDP port stands of the local address with this number.
    pub(crate) fn port_key(number: u32, port: u16) -> Key {
        Key::new(number, port.into())
    }

    pub(crate) fn key(address: IpAddr) -> Key {
        match address {
            IpAddr::V4(address) => Key::new(4, address.to_bits().into()),
            IpAddr::V6(address) => Key::new(6, address.to_bits()),
        }
    }
}

impl End {
    /// Whether a packet whose IP header begins at `network` can have come to this end. The
    /// number of a local address may have been another's a moment ago.
    #[inline]
    pub(crate) fn is_of(&self, packet: &[u8], network: usize) -> bool {
        let Some(bytes) = packet.get(network..) else { return false };
        match self.local {
            IpAddr::V4(local) => {
                ipv4::Header::of(bytes).is_some_and(|ip| ip.version() == 4 && ip.dst() == local)
            }
            IpAddr::V6(local) => {
                ipv6::Header::of(bytes).is_some_and(|ip| ip.version() == 6 && ip.dst() == local)
            }
        }
    }

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

    /// The protocol in a key.
    pub(crate) fn protocol_of(key: Key) -> &'static Protocol {
        &PROTOCOLS[(key.network() >> PROTOCOL_SHIFT) as usize]
    }
}
