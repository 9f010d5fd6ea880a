//! The places of connections: pieces that never move, so that one more connection never
//! waits until all others have been copied.

use crate::connection::Connection;
use crate::key::Key;
use crate::options::Options;
use crate::sequence::Sequence;

/// Places of a piece.
const PIECE: usize = 32;

/// A place: its connection, if there is one, and the generation of the next.
#[derive(Debug, Default)]
struct Place {
    connection: Option<Connection>,
    generation: u32,
}

/// Connections by number.
#[derive(Debug)]
pub struct Slab {
    pieces: Vec<Box<[Place]>>,
    free: Vec<u32>,
    limit: u32,
    len: usize,
}

impl Slab {
    /// Room for `limit` connections, whose memory is taken when they come.
    pub fn new(limit: u32) -> Slab {
        Slab { pieces: Vec::new(), free: Vec::new(), limit, len: 0 }
    }

    /// A connection.
    #[inline]
    pub fn get(&self, index: u32) -> Option<&Connection> {
        self.pieces.get(index as usize / PIECE)?[index as usize % PIECE].connection.as_ref()
    }

    /// A connection, to change it.
    #[inline]
    pub fn get_mut(&mut self, index: u32) -> Option<&mut Connection> {
        self.pieces.get_mut(index as usize / PIECE)?[index as usize % PIECE].connection.as_mut()
    }

    /// Makes a connection; `None` when there are too many.
    pub fn insert(&mut self, key: Key, initial: Sequence, options: &Options) -> Option<u32> {
        if self.is_full() {
            return None;
        }
        if self.free.is_empty() {
            let start = self.end();
            self.pieces.push((0..PIECE).map(|_| Place::default()).collect());
            let end = self.end().min(self.limit);
            self.free.extend((start..end).rev());
        }
        let index = self.free.pop()?;
        let place = &mut self.pieces[index as usize / PIECE][index as usize % PIECE];
        place.connection = Some(Connection::new(key, place.generation, initial, options));
        self.len += 1;
        Some(index)
    }

    /// Forgets a connection.
    pub fn remove(&mut self, index: u32) {
        let Some(piece) = self.pieces.get_mut(index as usize / PIECE) else { return };
        let place = &mut piece[index as usize % PIECE];
        if place.connection.take().is_some() {
            place.generation = place.generation.wrapping_add(1);
            self.free.push(index);
            self.len -= 1;
        }
    }

    /// The number behind all that connections may have so far.
    pub fn end(&self) -> u32 {
        (self.pieces.len() * PIECE) as u32
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are as many as there may be.
    pub fn is_full(&self) -> bool {
        self.len >= self.limit as usize
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn an_idle_connection_takes_less_than_a_kibibyte() {
        // Beside its place: a timer of 24 bytes, a link and a bucket of the table.
        let all = size_of::<Place>() + 24 + 8 + 4 + size_of::<u32>();
        assert!(all < 1024, "{all} bytes");
    }

    #[test]
    fn places_are_used_again_under_another_generation() {
        let any = std::net::IpAddr::V4(Ipv4Addr::LOCALHOST);
        let key = Key { local: any, remote: any, local_port: 1, remote_port: 2 };
        let mut slab = Slab::new(300);
        let insert = |slab: &mut Slab| slab.insert(key, Sequence(0), &Options::default());
        let all: Vec<_> = std::iter::from_fn(|| insert(&mut slab)).collect();
        assert_eq!((all.len(), slab.len()), (300, 300));
        slab.remove(7);
        slab.remove(7);
        assert_eq!((insert(&mut slab), slab.len()), (Some(7), 300));
        assert_eq!(slab.get(7).map(|connection| connection.generation), Some(1));
        assert!(slab.get(100_000).is_none() && slab.get(300).is_none());
    }
}
