//! A virtqueue in use, split or packed: buffers in, used entries out.
//!
//! virtio 1.3, sections 2.7 and 2.8. Nothing here is trusted that the driver
//! wrote, and no walk is longer than the ring has entries.

mod packed;
mod split;

use packed::Packed;
use split::Split;

use super::chain::{Breach, Chain};
use crate::{Dma, Window};

/// Size and addresses of a virtqueue, as the driver set it up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RingAddresses {
    /// How many descriptors it has.
    pub size: u16,
    /// Address of the descriptor area.
    pub descriptors: u64,
    /// Address of the driver area.
    pub driver: u64,
    /// Address of the device area.
    pub device: u64,
}

/// What was negotiated, as far as a ring cares.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Rules {
    pub packed: bool,
    pub indirect: bool,
    pub event_index: bool,
    pub in_order: bool,
}

/// Where both positions of a packed ring begin: entry 0, wrap counters set.
pub const PACKED_START: u32 = 0x8000_8000;

/// A virtqueue's ring, in one of two layouts.
#[derive(Debug)]
pub(super) enum VirtqueueRing<W> {
    Split(Split<W>),
    Packed(Packed<W>),
}

macro_rules! either {
    ($self:expr, $ring:ident => $call:expr) => {
        match $self {
            VirtqueueRing::Split($ring) => $call,
            VirtqueueRing::Packed($ring) => $call,
        }
    };
}

impl<W: Window> VirtqueueRing<W> {
    /// `None` when it does not lie in memory that is mapped.
    pub fn open<D: Dma<Window = W>>(
        dma: &D,
        place: &RingAddresses,
        rules: Rules,
        base: u32,
    ) -> Option<VirtqueueRing<W>> {
        Some(if rules.packed {
            VirtqueueRing::Packed(Packed::open(dma, place, rules, base)?)
        } else {
            VirtqueueRing::Split(Split::open(dma, place, rules, base as u16)?)
        })
    }

    /// Where to go on, as vhost-user has it.
    pub fn base(&self) -> u32 {
        either!(self, ring => ring.base())
    }

    /// Buffers known to be at hand, `wanted` at most; a packed ring tells of one
    /// only, whatever there are.
    #[inline(always)]
    pub fn at_hand(&mut self, wanted: u16) -> Result<u16, Breach> {
        match self {
            VirtqueueRing::Split(ring) => Ok(ring.at_hand(wanted)?.min(wanted)),
            VirtqueueRing::Packed(ring) => Ok(if ring.has_one() { wanted } else { 0 }),
        }
    }

    /// Takes the next available buffer; `false` when there is none.
    #[inline(always)]
    pub fn take<D: Dma>(&mut self, dma: &D, chain: &mut Chain) -> Result<bool, Breach> {
        either!(self, ring => ring.take(dma, chain))
    }

    /// Gives back the last buffer taken and not put.
    pub fn untake(&mut self, span: u16) {
        either!(self, ring => ring.untake(span));
    }

    /// Has used a buffer and wrote `len` bytes to it. In the order of taking.
    #[inline(always)]
    pub fn put(&mut self, id: u16, span: u16, len: u32) {
        either!(self, ring => ring.put(id, span, len));
    }

    /// Has used a buffer up that there was nothing to write to.
    #[inline(always)]
    pub fn put_read(&mut self, id: u16, span: u16) {
        either!(self, ring => ring.put_read(id, span));
    }

    /// Shows the driver what was used; whether it wants to be interrupted.
    #[inline(always)]
    pub fn publish(&mut self) -> bool {
        either!(self, ring => ring.publish())
    }

    /// Asks for a notification with the next buffer, or for none.
    pub fn want_kick(&self, wanted: bool) {
        either!(self, ring => ring.want_kick(wanted));
    }
}
