//! Which connection is between two ends: one that a segment came to lately is looked for in a small
//! table first, which takes no hash that strangers cannot predict; all are found by
//! [`Demux`](crate::demux::Demux).

use std::net::IpAddr;

use crate::key::Key;
use crate::stack::Stack;

/// Places of the table: twice as many as connections of which not each is
/// [looked for ahead](crate::ahead).
const PLACES: usize = 1024;

/// Connections that segments came to lately, each the last of those that share a place. Strangers
/// can have connections share one, which are then found by their hash.
#[derive(Debug)]
pub struct Near(Box<[u32; PLACES]>);

impl Default for Near {
    fn default() -> Near {
        Near(Box::new([0; PLACES]))
    }
}

impl Near {
    /// The place of the connection between two ends.
    #[inline]
    fn place(&mut self, key: &Key) -> &mut u32 {
        let address = match key.remote {
            IpAddr::V4(address) => address.to_bits(),
            IpAddr::V6(address) => address.to_bits() as u32,
        };
        let mixed = u32::from(key.remote_port) ^ u32::from(key.local_port) << 4 ^ address << 6;
        &mut self.0[mixed as usize % PLACES]
    }
}

impl Stack {
    /// The connection of a segment, whose hash may be known. Most are found without one.
    #[inline]
    pub(crate) fn find_near(&mut self, key: &Key, hash: Option<u32>) -> Option<u32> {
        let last = *self.near.place(key);
        if hash.is_none() && self.is_between(last, key) {
            return Some(last);
        }
        let hash = hash.unwrap_or_else(|| self.hash(key));
        let found = self.demux.find(hash, |index| self.is_between(index, key))?;
        *self.near.place(key) = found;
        Some(found)
    }

    pub(crate) fn hash(&self, key: &Key) -> u32 {
        key.hash(self.shared.options.key)
    }

    pub(crate) fn find(&self, key: &Key) -> Option<u32> {
        self.demux.find(self.hash(key), |index| self.is_between(index, key))
    }

    /// Whether a connection is the one between two ends.
    #[inline]
    fn is_between(&self, index: u32, key: &Key) -> bool {
        self.connections.get(index).is_some_and(|connection| connection.key == *key)
    }
}
