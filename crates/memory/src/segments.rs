//! Packets of several buffers: a chain, owned by its first segment.

use std::fmt;

use crate::packet::Packet;

impl Packet {
    /// The next segment, which is a packet of its own.
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
