//! Both ends of a connection, and secret hashes of them.

use std::net::{IpAddr, Ipv4Addr};

use siphasher::sip::SipHasher24;
use wire::ip::Addresses;
use wire::siphash::hash_words;

use crate::emit;
use crate::segment::Segment;

/// Both ends of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// The address of this side.
    pub local: IpAddr,
    /// The address of the other side.
    pub remote: IpAddr,
    /// The port of this side.
    pub local_port: u16,
    /// The port of the other side.
    pub remote_port: u16,
}

/// Both ends unspecified: of no connection.
impl Default for Key {
    fn default() -> Key {
        let unspecified = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        Key { local: unspecified, remote: unspecified, local_port: 0, remote_port: 0 }
    }
}

impl Key {
    /// The connection that a received segment belongs to.
    #[inline]
    pub(crate) fn of(segment: &Segment) -> Key {
        Key::between(segment.addresses, (segment.src_port, segment.dst_port))
    }

    /// The connection of a received segment from and to these addresses and ports.
    #[inline]
    pub(crate) fn between(addresses: Addresses, (src_port, dst_port): (u16, u16)) -> Key {
        let (local, remote) = (addresses.dst(), addresses.src());
        Key { local, remote, local_port: dst_port, remote_port: src_port }
    }

    /// The addresses of packets that are sent; `None` when they are of different versions.
    pub(crate) fn addresses(&self) -> Option<Addresses> {
        emit::addresses(self.local, self.remote)
    }

    /// A hash under a secret that nobody else sees (SipHash-1-3): strangers choose addresses and
    /// ports, and must not find those that fall into one place of a table.
    #[inline]
    pub(crate) fn hash(&self, key: [u64; 2]) -> u32 {
        let ports = u32::from(self.local_port) << 16 | u32::from(self.remote_port);
        let hash = match (self.local, self.remote) {
            (IpAddr::V4(local), IpAddr::V4(remote)) => {
                let addresses = u64::from(local.to_bits()) << 32 | u64::from(remote.to_bits());
                hash_words(key, &[addresses], ports)
            }
            (local, remote) => {
                let [local, remote] = [local, remote].map(|address| match address {
                    IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
                    IpAddr::V6(address) => address.to_bits(),
                });
                let words = [local as u64, (local >> 64) as u64, remote as u64, (remote >> 64) as u64];
                hash_words(key, &words, ports)
            }
        };
        hash as u32
    }

    /// A hash of the key and a word more under a secret, which others see a part of
    /// (SipHash-2-4).
    pub(crate) fn seen_hash(&self, key: [u64; 2], more: u64) -> u32 {
        let (bytes, len) = self.bytes(more);
        SipHasher24::new_with_keys(key[0], key[1]).hash(&bytes[..len]) as u32
    }

    /// The key and a word as bytes, and how many there are.
    fn bytes(&self, more: u64) -> ([u8; 44], usize) {
        let mut bytes = [0; 44];
        let mut len = 0;
        let mut push = |part: &[u8]| {
            bytes[len..len + part.len()].copy_from_slice(part);
            len += part.len();
        };
        for address in [self.local, self.remote] {
            match address {
                IpAddr::V4(address) => push(&address.octets()),
                IpAddr::V6(address) => push(&address.octets()),
            }
        }
        push(&self.local_port.to_ne_bytes());
        push(&self.remote_port.to_ne_bytes());
        push(&more.to_ne_bytes());
        (bytes, len)
    }
}
