//! Which connection a segment belongs to: a hash table that grows by one bucket for each
//! connection that comes, and does not shrink.

use runtime::Directory;

/// The number of no connection.
const NONE: u32 = Directory::NONE;

/// A connection's place in the list of its bucket.
#[derive(Debug, Clone, Copy)]
struct Link {
    hash: u32,
    next: u32,
}

/// Connections by the hash of their addresses and ports.
#[derive(Debug)]
pub struct Demux {
    directory: Directory,
    links: Vec<Link>,
    len: usize,
}

impl Demux {
    /// An empty table for connections whose numbers are below `capacity`.
    pub fn new(capacity: usize) -> Demux {
        Demux { directory: Directory::new(capacity), links: Vec::with_capacity(capacity), len: 0 }
    }

    /// The connection with a hash for which `is` says yes.
    #[inline]
    pub fn find(&self, hash: u32, is: impl Fn(u32) -> bool) -> Option<u32> {
        let mut at = self.directory.first(hash);
        while at != NONE {
            let link = self.links[at as usize];
            if link.hash == hash && is(at) {
                return Some(at);
            }
            at = link.next;
        }
        None
    }

    /// Brings the bucket of a hash towards the cache.
    #[inline]
    pub fn prefetch(&self, hash: u32) {
        self.directory.prefetch(hash);
    }

    /// The connection that is looked at first for a hash, whose place in its list is brought
    /// towards the cache.
    #[inline]
    pub fn first(&self, hash: u32) -> Option<u32> {
        let first = self.directory.first(hash);
        memory::prefetch(self.links.get(first as usize)?);
        Some(first)
    }

    /// Enters a connection that is not in the table.
    pub fn insert(&mut self, connection: u32, hash: u32) {
        if self.len >= self.directory.buckets() {
            self.grow();
        }
        if connection as usize >= self.links.len() {
            self.links.resize(connection as usize + 1, Link { hash: 0, next: NONE });
        }
        self.push(connection, hash);
        self.len += 1;
    }

    /// Takes a connection out, if it is in the table.
    pub fn remove(&mut self, connection: u32) {
        let Some(Link { hash, next }) = self.links.get(connection as usize).copied() else { return };
        let first = self.directory.first_mut(hash);
        let mut at = *first;
        if at == connection {
            *first = next;
            self.len -= 1;
            return;
        }
        while at != NONE {
            let link = &mut self.links[at as usize];
            if link.next == connection {
                link.next = next;
                self.len -= 1;
                return;
            }
            at = link.next;
        }
    }

    /// Adds a bucket, and moves there what belongs there of the one that it is split from.
    fn grow(&mut self) {
        let mut at = self.directory.grow();
        while at != NONE {
            let Link { hash, next } = self.links[at as usize];
            self.push(at, hash);
            at = next;
        }
    }

    fn push(&mut self, connection: u32, hash: u32) {
        let next = std::mem::replace(self.directory.first_mut(hash), connection);
        self.links[connection as usize] = Link { hash, next };
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn mixed(n: u32) -> u32 {
        siphasher::sip::SipHasher13::new_with_keys(1, 2).hash(&n.to_le_bytes()) as u32
    }

    #[test]
    fn what_was_entered_is_found_until_it_is_taken_out() {
        const COUNT: u32 = 20_000;
        let mut demux = Demux::new(COUNT as usize);
        let mut model = BTreeMap::new();
        for n in 0..COUNT {
            // Every third has the hash of another.
            let hash = mixed(n - n % 3);
            demux.insert(n, hash);
            model.insert(n, hash);
            if n % 5 == 4 {
                demux.remove(n - 3);
                model.remove(&(n - 3));
            }
        }
        for n in 0..COUNT {
            let hash = mixed(n - n % 3);
            let found = demux.find(hash, |connection| connection == n);
            assert_eq!(found, model.contains_key(&n).then_some(n), "{n}");
        }
        demux.remove(1);
        assert_eq!(demux.len, model.len(), "what is not there is not taken out");
    }

    #[test]
    fn lists_stay_short_while_the_table_grows() {
        let mut demux = Demux::new(50_000);
        let mut longest = 0;
        for n in 0..50_000 {
            demux.insert(n, mixed(n));
            longest = longest.max(list_len(&demux, mixed(n)));
        }
        assert!(longest < 12, "{longest} connections in one bucket");
        assert_eq!(demux.directory.buckets(), 50_000);
    }

    fn list_len(demux: &Demux, hash: u32) -> usize {
        let mut at = demux.directory.first(hash);
        let mut len = 0;
        while at != NONE {
            at = demux.links[at as usize].next;
            len += 1;
        }
        len
    }
}
