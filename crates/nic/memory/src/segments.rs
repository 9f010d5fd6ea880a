//! Packets of several buffers: a chain, owned by its first segment.

use std::fmt;
use std::ptr::NonNull;

use crate::core::Core;
use crate::packet::{Meta, Packet};
use crate::returns::Node;

impl Packet {
    /// Takes the chain behind the first segment off the packet.
    #[inline]
    pub fn split_next(&mut self) -> Option<Packet> {
        self.next_slot().take()
    }

    #[inline]
    pub(crate) fn next_slot(&mut self) -> &mut Option<Packet> {
        // SAFETY: Option<Packet> is a nullable pointer to Meta, as `next` is;
        // a non-null value is owned by this packet.
        unsafe { &mut *(&raw mut self.meta_mut().next).cast::<Option<Packet>>() }
    }

    /// The next segment, which is a packet of its own.
    #[inline]
    pub fn next(&self) -> Option<&Packet> {
        // SAFETY: a null pointer is the niche of Option<Packet>, and a non-null
        // one is a buffer this packet owns through the chain.
        unsafe { (*(&raw const self.meta().next).cast::<Option<Packet>>()).as_ref() }
    }

    /// The next segment, to change it.
    pub fn next_mut(&mut self) -> Option<&mut Packet> {
        self.next_slot().as_mut()
    }

    /// Appends `tail` behind the last segment. Walks the chain.
    pub fn append(&mut self, tail: Packet) {
        let mut last = self;
        while last.next().is_some() {
            last = last.next_mut().expect("just seen");
        }
        *last.next_slot() = Some(tail);
    }

    /// Takes away what is behind the first `len` bytes, with the segments that have nothing else.
    pub fn truncate(&mut self, len: usize) {
        let (mut last, mut left) = (self, len);
        while left > last.len() && last.next().is_some() {
            left -= last.len();
            last = last.next_mut().expect("just seen");
        }
        let _ = last.set_len(left.min(last.len())); // shorter always fits
        drop(last.split_next());
    }

    /// A copy of all segments with what stands beside their bytes, and with `stripped` bytes in
    /// front of the first, in buffers that `alloc` gives. `None`, and no buffer is kept, when
    /// there are not enough of them or a segment does not fit into one.
    #[inline]
    pub fn copy_with(&self, stripped: usize, mut alloc: impl FnMut() -> Option<Packet>) -> Option<Packet> {
        let mut copy = alloc()?;
        copy.copy_at(self.headroom(), self).ok()?;
        copy.copy_front(self, stripped);
        copy.copy_metadata(self);
        let mut rest = self.next();
        while let Some(segment) = rest {
            let mut more = alloc()?;
            more.copy_at(segment.headroom(), segment).ok()?;
            copy.append(more);
            rest = segment.next();
        }
        Some(copy)
    }

    /// The segments in order, this one first.
    pub fn segments(&self) -> impl Iterator<Item = &Packet> {
        std::iter::successors(Some(self), |p| p.next())
    }

    /// Bytes in all segments.
    #[inline]
    pub fn total_len(&self) -> usize {
        match self.meta().next.is_null() {
            true => self.len(),
            false => self.segments().map(Packet::len).sum(),
        }
    }
}

impl fmt::Debug for Packet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Packet").field("len", &self.total_len()).field("data", &&self[..]).finish()
    }
}

impl Drop for Packet {
    fn drop(&mut self) {
        let mut chain = self.split_next();
        Core::give_back(self.0);
        while let Some(mut segment) = chain {
            chain = segment.split_next();
            Core::give_back(segment.into_raw());
        }
    }
}

// SAFETY: `next` is a field of the node; it links segments only while a packet
// owns the buffer, and a buffer is pushed only after that packet let go of it.
unsafe impl Node for Meta {
    fn next(node: NonNull<Meta>) -> NonNull<*mut Meta> {
        // SAFETY: a field of a buffer's metadata, which lives as long as its pool.
        unsafe { NonNull::new_unchecked(&raw mut (*node.as_ptr()).next) }
    }
}

impl Meta {
    /// Ends the use of the link by the return stack.
    pub(crate) fn clear_link(&mut self) {
        self.next = std::ptr::null_mut();
    }
}

const _: () = assert!(size_of::<Option<Packet>>() == size_of::<*mut Meta>());
