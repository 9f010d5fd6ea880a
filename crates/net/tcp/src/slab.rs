//! The places of connections: pieces that never move, so that one more connection never
//! waits until all others have been copied.

use crate::connection::{Connection, HOT_LINES};
use crate::key::Key;
use crate::options::Options;
use crate::sequence::Sequence;

/// Places of a piece.
const PIECE: usize = 32;

/// Connections by number.
#[derive(Debug)]
pub struct Slab {
    pieces: Vec<Box<[Option<Connection>; PIECE]>>,
    /// Of each place, that of its connection or of the next.
    generations: Vec<u32>,
    free: Vec<u32>,
    limit: u32,
    len: usize,
}

impl Slab {
    /// Room for `limit` connections, whose memory is taken when they come.
    pub fn new(limit: u32) -> Slab {
        Slab { pieces: Vec::new(), generations: Vec::new(), free: Vec::new(), limit, len: 0 }
    }

    /// The connection at a place, unless the place is free.
    #[inline]
    pub fn get(&self, index: u32) -> Option<&Connection> {
        self.pieces.get(index as usize / PIECE)?[index as usize % PIECE].as_ref()
    }

    /// A connection, to change it.
    #[inline]
    pub fn get_mut(&mut self, index: u32) -> Option<&mut Connection> {
        self.pieces.get_mut(index as usize / PIECE)?[index as usize % PIECE].as_mut()
    }

    /// Brings a connection towards the cache.
    #[inline]
    pub fn prefetch(&self, index: u32) {
        if let Some(piece) = self.pieces.get(index as usize / PIECE) {
            memory::prefetch_lines(&piece[index as usize % PIECE], HOT_LINES);
        }
    }

    /// Makes a connection; `None` when there are too many.
    pub fn insert(&mut self, key: Key, initial: Sequence, options: &Options) -> Option<u32> {
        if self.is_full() {
            return None;
        }
        if self.free.is_empty() {
            let start = self.end();
            self.pieces.push(Box::new([const { None }; PIECE]));
            self.generations.resize(self.pieces.len() * PIECE, 0);
            let end = self.end().min(self.limit);
            self.free.extend((start..end).rev());
        }
        let index = self.free.pop()?;
        let generation = self.generations[index as usize];
        let place = &mut self.pieces[index as usize / PIECE][index as usize % PIECE];
        *place = Some(Connection::new(key, generation, initial, options));
        self.len += 1;
        Some(index)
    }

    /// Forgets a connection, which is dropped where it is: to take one out copies all of it.
    pub fn remove(&mut self, index: u32) {
        let Some(piece) = self.pieces.get_mut(index as usize / PIECE) else { return };
        let place = &mut piece[index as usize % PIECE];
        if place.is_some() {
            *place = None;
            self.release(index);
        }
    }

    /// Takes a connection out.
    pub fn take(&mut self, index: u32) -> Option<Connection> {
        let piece = self.pieces.get_mut(index as usize / PIECE)?;
        let connection = piece[index as usize % PIECE].take()?;
        self.release(index);
        Some(connection)
    }

    /// Has a place used again, for a connection of another generation.
    fn release(&mut self, index: u32) {
        let generation = &mut self.generations[index as usize];
        *generation = generation.wrapping_add(1);
        self.free.push(index);
        self.len -= 1;
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
        // Beside its place: its generation, a timer of 24 bytes, a link and a bucket of the table.
        let all = size_of::<Option<Connection>>() + 4 + 24 + 8 + 4 + size_of::<u32>();
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
