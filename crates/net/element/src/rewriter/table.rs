//! Flows by number, and found by either direction's addresses and ports: a hash table whose
//! buckets' lists go through the flows themselves.
//!
//! A packet of a known flow touches a line of the directory and the flow's own, and now and then
//! that of another flow in its bucket: there are two buckets for each entry. Nothing is moved
//! when flows come: memory is taken in pieces, and the directory grows by a bucket at a time.
//! Neither shrinks. The hash has a secret of its own, for strangers choose addresses and ports.

use std::hash::{BuildHasher, RandomState};

use runtime::Directory;
use wire::siphash::hash_words;

use super::flow::{Entry, Flow, Rare};
use super::flow_id::FlowId;

/// The index that means that a list ends here.
const NONE: u32 = Directory::NONE;
/// Flows of a piece.
const PIECE: usize = 1024;
/// Buckets for each entry.
const BUCKETS_EACH: usize = 2;

/// A flow's place in a list of flows by time, whose ends are not flows (`order`).
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Link {
    pub previous: u32,
    pub next: u32,
}

/// What a number of flows in a row have.
#[derive(Debug)]
struct Piece {
    flows: Box<[Option<Flow>; PIECE]>,
    rare: Box<[Rare; PIECE]>,
    links: Box<[Link; PIECE]>,
}

/// The flows of a table, found by number, or by the identity of either direction.
#[derive(Debug)]
pub(crate) struct Table {
    pieces: Vec<Piece>,
    free: Vec<u32>,
    len: usize,
    directory: Directory,
    /// Entries in the buckets: two of most flows.
    entries: usize,
    secret: [u64; 2],
}

/// Something for each of a piece, which is never on the stack.
fn piece<T>(make: impl FnMut() -> T) -> Box<[T; PIECE]> {
    let all: Vec<T> = std::iter::repeat_with(make).take(PIECE).collect();
    all.into_boxed_slice().try_into().unwrap_or_else(|_| unreachable!("it is as long as a piece"))
}

impl Entry {
    fn code(self) -> u32 {
        self.flow << 1 | u32::from(self.back)
    }

    fn of(code: u32) -> Entry {
        Entry { flow: code >> 1, back: code & 1 != 0 }
    }
}

impl Table {
    pub(crate) fn new() -> Table {
        let random = RandomState::new();
        Table {
            pieces: vec![],
            free: vec![],
            len: 0,
            directory: Directory::default(),
            entries: 0,
            secret: [random.hash_one(0), random.hash_one(1)],
        }
    }

    /// How many flows there are.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// A flow that exists.
    #[inline]
    pub(crate) fn flow(&self, id: u32) -> &Flow {
        let flow = &self.pieces[id as usize / PIECE].flows[id as usize % PIECE];
        flow.as_ref().expect("entries and lists name flows that exist")
    }

    /// A flow that exists, to change it.
    #[inline]
    pub(crate) fn flow_mut(&mut self, id: u32) -> &mut Flow {
        self.parts(id).0
    }

    /// A flow that exists, to change it, and what few packets need of it.
    #[inline]
    pub(crate) fn parts(&mut self, id: u32) -> (&mut Flow, &mut Rare) {
        let Piece { flows, rare, .. } = &mut self.pieces[id as usize / PIECE];
        let flow = flows[id as usize % PIECE].as_mut();
        (flow.expect("entries and lists name flows that exist"), &mut rare[id as usize % PIECE])
    }

    /// What few packets need of a flow.
    pub(crate) fn rare(&self, id: u32) -> &Rare {
        &self.pieces[id as usize / PIECE].rare[id as usize % PIECE]
    }

    /// A flow's place in the list of flows in which it stands.
    pub(crate) fn link(&self, id: u32) -> Link {
        self.pieces[id as usize / PIECE].links[id as usize % PIECE]
    }

    /// As [`link`](Self::link), to change it.
    pub(crate) fn link_mut(&mut self, id: u32) -> &mut Link {
        &mut self.pieces[id as usize / PIECE].links[id as usize % PIECE]
    }

    /// Brings a flow towards the cache.
    pub(crate) fn prefetch(&self, id: u32) {
        if let Some(piece) = self.pieces.get(id as usize / PIECE) {
            memory::prefetch(&piece.flows[id as usize % PIECE]);
            memory::prefetch(&piece.links[id as usize % PIECE]);
        }
    }

    /// All flows, with their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Flow)> {
        let all = self.pieces.iter().flat_map(|piece| piece.flows.iter());
        all.enumerate().filter_map(|(id, flow)| Some((id as u32, flow.as_ref()?)))
    }

    /// Adds a flow, which is not found yet: its number.
    pub(crate) fn add(&mut self, flow: Flow, rare: Rare) -> u32 {
        if self.free.is_empty() {
            let start = (self.pieces.len() * PIECE) as u32;
            self.free.extend((start..start + PIECE as u32).rev());
            let (flows, rare, links) = (piece(|| None), piece(Rare::default), piece(Link::default));
            self.pieces.push(Piece { flows, rare, links });
        }
        let id = self.free.pop().expect("a piece was added when none was free");
        let piece = &mut self.pieces[id as usize / PIECE];
        piece.flows[id as usize % PIECE] = Some(flow);
        piece.rare[id as usize % PIECE] = rare;
        self.len += 1;
        id
    }

    /// Takes out a flow, whose entries have left.
    pub(crate) fn remove(&mut self, id: u32) -> Option<(Flow, Rare)> {
        let piece = &mut self.pieces[id as usize / PIECE];
        let flow = piece.flows[id as usize % PIECE].take()?;
        self.free.push(id);
        self.len -= 1;
        Some((flow, std::mem::take(&mut piece.rare[id as usize % PIECE])))
    }

    /// The hash by which packets of this identity are found.
    #[inline]
    pub(crate) fn hash(&self, id: FlowId) -> u32 {
        let addresses = u64::from(id.src) << 32 | u64::from(id.dst);
        let ports = u32::from(id.src_port) << 16 | u32::from(id.dst_port);
        hash_words(self.secret, &[addresses], ports) as u32
    }

    /// Brings the bucket of a hash towards the cache.
    #[inline]
    pub(crate) fn prefetch_bucket(&self, hash: u32) {
        self.directory.prefetch(hash);
    }

    /// Brings the flow towards the cache that is looked at first for a hash.
    #[inline]
    pub(crate) fn prefetch_first(&self, hash: u32) {
        let first = Entry::of(self.directory.first(hash)).flow as usize;
        if let Some(piece) = self.pieces.get(first / PIECE) {
            memory::prefetch(&piece.flows[first % PIECE]);
        }
    }

    /// The entry of an identity in a map, which has this hash.
    #[inline]
    pub(crate) fn find(&self, hash: u32, (member, map): (usize, usize), id: FlowId) -> Option<Entry> {
        let mut at = self.directory.first(hash);
        while at != NONE {
            let entry = Entry::of(at);
            let flow = self.flow(entry.flow);
            let is_in_map = (flow.member as usize, usize::from(flow.map)) == (member, map);
            if flow.ids[usize::from(entry.back)] == id && is_in_map {
                return Some(entry);
            }
            at = flow.next[usize::from(entry.back)];
        }
        None
    }

    /// From now on a flow is found by the identity of one of its directions. It is the only one
    /// that is.
    pub(crate) fn enter(&mut self, entry: Entry) {
        self.entries += 1;
        while self.directory.buckets() < self.entries * BUCKETS_EACH {
            self.grow();
        }
        self.push(entry);
    }

    /// A flow is no longer found by one of its directions; whether it was.
    pub(crate) fn leave(&mut self, entry: Entry) -> bool {
        let Entry { flow, back } = entry;
        let next = self.flow(flow).next[usize::from(back)];
        let hash = self.hash(self.flow(flow).ids[usize::from(back)]);
        let mut before = None;
        let mut at = self.directory.first(hash);
        while at != entry.code() {
            if at == NONE {
                return false;
            }
            let here = Entry::of(at);
            before = Some(here);
            at = self.flow(here.flow).next[usize::from(here.back)];
        }
        match before {
            Some(before) => self.flow_mut(before.flow).next[usize::from(before.back)] = next,
            None => *self.directory.first_mut(hash) = next,
        }
        self.entries -= 1;
        true
    }

    /// Adds a bucket, and moves there what belongs there of the one that it is split from.
    fn grow(&mut self) {
        let mut at = self.directory.grow();
        while at != NONE {
            let entry = Entry::of(at);
            at = self.flow(entry.flow).next[usize::from(entry.back)];
            self.push(entry);
        }
    }

    fn push(&mut self, entry: Entry) {
        let Entry { flow, back } = entry;
        let hash = self.hash(self.flow(flow).ids[usize::from(back)]);
        let next = std::mem::replace(self.directory.first_mut(hash), entry.code());
        self.flow_mut(flow).next[usize::from(back)] = next;
    }
}
