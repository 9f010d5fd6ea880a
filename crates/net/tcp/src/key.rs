//! Both ends of a connection, and secret hashes of them.

use std::net::IpAddr;

use wire::ip::Addresses;

use crate::segment::Segment;
use crate::{emit, siphash};

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

impl Key {
    /// The connection that a received segment belongs to.
    pub(crate) fn of(segment: &Segment) -> Key {
        Key {
            local: segment.addresses.dst(),
            remote: segment.addresses.src(),
            local_port: segment.dst_port,
            remote_port: segment.src_port,
        }
    }

    /// The addresses of packets that are sent; `None` when they are of different versions.
    pub(crate) fn addresses(&self) -> Option<Addresses> {
        emit::addresses(self.local, self.remote)
    }

    /// A hash of the key and two words more under a secret.
    pub(crate) fn hash<const U: usize, const F: usize>(&self, key: [u64; 2], more: u64) -> u64 {
        let ports = u64::from(self.local_port) << 16 | u64::from(self.remote_port);
        let halves = |address: u128| [address as u64, (address >> 64) as u64];
        match (self.local, self.remote) {
            (IpAddr::V4(local), IpAddr::V4(remote)) => {
                let both = u64::from(local.to_bits()) << 32 | u64::from(remote.to_bits());
                siphash::hash::<U, F>(key, &[both, ports, more])
            }
            (local, remote) => {
                let bits = |address: IpAddr| match address {
                    IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
                    IpAddr::V6(address) => address.to_bits(),
                };
                let ([a, b], [c, d]) = (halves(bits(local)), halves(bits(remote)));
                siphash::hash::<U, F>(key, &[a, b, c, d, ports, more])
            }
        }
    }
}
