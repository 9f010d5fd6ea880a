//! The packets behind a ring's slots.

use std::mem;

use memory::Packet;

/// A packet for each buffer that the device has, by its id.
#[derive(Default)]
pub(super) struct Slots(Box<[Option<Packet>]>);

impl Slots {
    pub(super) fn new(count: u32) -> Slots {
        Slots((0..count).map(|_| None).collect())
    }

    /// Puts a packet into an empty slot.
    #[inline(always)]
    pub(super) fn put(&mut self, id: u16, packet: Packet) {
        let slot = &mut self.0[usize::from(id)];
        debug_assert!(slot.is_none());
        // Not assigned, so that no drop of an old value is compiled in.
        mem::forget(slot.replace(packet));
    }

    /// Takes the packet out of a slot; `None` when the device does not have it.
    #[inline(always)]
    pub(super) fn take(&mut self, id: u16) -> Option<Packet> {
        self.0.get_mut(usize::from(id))?.take()
    }
}
