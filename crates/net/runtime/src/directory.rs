//! The directory of a hash table that grows without a pause: linear hashing (Litwin, 1980).
//!
//! It has the first entry of each bucket, as a number; what an entry is, and which one is behind
//! it in the list of its bucket, is the table's business. It grows by one bucket at a time, and
//! the table moves the entries of one bucket for it: nothing waits until all have been moved. It
//! does not shrink.

/// The first entries of buckets.
#[derive(Debug)]
pub struct Directory {
    /// Pieces never move.
    pieces: Vec<Box<[u32; PIECE]>>,
    /// Buckets in use.
    buckets: usize,
}

/// Buckets of a piece.
const PIECE: usize = 1024;

impl Default for Directory {
    fn default() -> Directory {
        Directory::new(1)
    }
}

impl Directory {
    /// The number of no entry.
    pub const NONE: u32 = u32::MAX;

    /// One bucket, which is empty, and place to note the pieces of so many without moving them.
    pub fn new(capacity: usize) -> Directory {
        let mut pieces = Vec::with_capacity(capacity.div_ceil(PIECE).max(1));
        pieces.push(Box::new([Directory::NONE; PIECE]));
        Directory { pieces, buckets: 1 }
    }

    /// How many buckets there are.
    pub fn buckets(&self) -> usize {
        self.buckets
    }

    /// The first entry of a hash's bucket, or [`NONE`](Directory::NONE).
    #[inline(always)]
    pub fn first(&self, hash: u32) -> u32 {
        *self.place(self.bucket(hash))
    }

    /// The same, to be changed.
    #[inline(always)]
    pub fn first_mut(&mut self, hash: u32) -> &mut u32 {
        let bucket = self.bucket(hash);
        &mut self.pieces[bucket / PIECE][bucket % PIECE]
    }

    /// Brings a hash's bucket towards the cache.
    #[inline(always)]
    pub fn prefetch(&self, hash: u32) {
        memory::prefetch(self.place(self.bucket(hash)));
    }

    /// Adds a bucket, and empties the one that it is split from: the first of the entries that
    /// were there. The caller puts all of them back, each where its hash says now.
    pub fn grow(&mut self) -> u32 {
        let added = self.buckets;
        if added / PIECE >= self.pieces.len() {
            self.pieces.push(Box::new([Directory::NONE; PIECE]));
        }
        let split = added - (1 << added.ilog2());
        self.buckets += 1;
        std::mem::replace(&mut self.pieces[split / PIECE][split % PIECE], Directory::NONE)
    }

    /// The bucket of a hash: of its lowest bits as many as the buckets' number has, or one less
    /// where there is no such bucket yet.
    #[inline(always)]
    fn bucket(&self, hash: u32) -> usize {
        let half = 1 << self.buckets.ilog2();
        let bucket = hash as usize & (2 * half - 1);
        if bucket < self.buckets { bucket } else { bucket & (half - 1) }
    }

    #[inline(always)]
    fn place(&self, bucket: usize) -> &u32 {
        &self.pieces[bucket / PIECE][bucket % PIECE]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table without more: the hash of an entry is its number.
    #[test]
    fn each_hash_has_one_bucket_while_the_directory_grows() {
        let mut directory = Directory::default();
        let mut next = vec![Directory::NONE; 5000];
        let push = |directory: &mut Directory, next: &mut [u32], entry: u32| {
            next[entry as usize] = std::mem::replace(directory.first_mut(entry), entry);
        };
        for entry in 0..5000 {
            if entry > 0 {
                let mut at = directory.grow();
                while at != Directory::NONE {
                    let behind = next[at as usize];
                    push(&mut directory, &mut next, at);
                    at = behind;
                }
            }
            push(&mut directory, &mut next, entry);
            assert_eq!(directory.buckets(), entry as usize + 1);
        }
        // As many buckets as numbers: each has its own.
        for entry in 0..5000 {
            assert_eq!((directory.first(entry), next[entry as usize]), (entry, Directory::NONE));
        }
    }
}
