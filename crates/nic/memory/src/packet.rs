//! A packet: a unique handle to one buffer, or to a chain of them.
//!
//! A buffer is [`HEADROOM`] bytes in which headers can grow, and [`DATA_ROOM`] bytes for
//! the device to fill; these the device can write at any time. Its metadata, a line for
//! drivers and a line of [`annotation`](crate::annotation)s that drivers never touch, lie
//! in memory that no device has, and know where the buffer is:
//!
//! ```text
//! our own:  | metadata 64 | … | annotations 64 |
//!                  v
//! shared:   | headroom 192 | data room 2048 |   = 35 cache lines
//! ```
//!
//! The odd number of lines spreads neighbouring buffers over all cache sets; at
//! 2 KiB apart their first lines would all fall into one set in 32.

use std::mem::{ManuallyDrop, transmute};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use crate::offload::TxOffload;

/// Bytes in front of a received packet, free for headers to be pushed.
pub const HEADROOM: usize = 192;
/// Bytes a device may write into one buffer.
pub const DATA_ROOM: usize = 2048;
/// Bytes from one buffer to the next.
pub(crate) const STRIDE: usize = HEADROOM + DATA_ROOM;

/// What is known of a buffer beside its bytes and annotations: one cache line.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Meta {
    /// The device's word on a received packet, as the 82599 writes it back.
    pub(crate) rx: RxWords,
    pub(crate) tx: TxOffload,
    /// Left to applications; zero in a packet fresh from a pool or a port.
    pub(crate) user: u64,
    /// Where the data starts, from the end of the headroom: below zero once it grew there.
    pub(crate) start: i32,
    /// Bytes from the pool's core to here.
    pub(crate) from_core: u32,
    /// The next segment; in the pool's return stack, the next buffer.
    pub(crate) next: *mut Meta,
    /// The first byte of the data room, and the device's address of it.
    data_room: NonNull<u8>,
    rx_iova: u64,
}

/// A received packet's metadata in the 82599's order (datasheet 7.1.6.2).
#[derive(Debug, Clone, Copy, Default)]
#[repr(C, align(16))]
pub(crate) struct RxWords {
    /// RSS type in bits 3:0, packet type from bit 4.
    pub(crate) kind: u32,
    pub(crate) hash: u32,
    pub(crate) flags: u32,
    pub(crate) len: u16,
    pub(crate) vlan: u16,
}

const _: () = assert!(size_of::<Meta>() == 64);
const _: () = assert!(STRIDE / 64 % 2 == 1, "an odd number of lines spreads over all cache sets");

impl Meta {
    pub(crate) fn new(data_room: NonNull<u8>, rx_iova: u64, from_core: u32) -> Meta {
        Meta {
            rx: RxWords::default(),
            tx: TxOffload::default(),
            user: 0,
            start: 0,
            from_core,
            next: std::ptr::null_mut(),
            data_room,
            rx_iova,
        }
    }
}

/// A packet, owned. Dereferences to the bytes of its first segment. Dropping it
/// returns its buffers to their pool from any thread; the pool's owner is
/// quicker with [`Pool::free`](crate::Pool::free).
#[repr(transparent)]
pub struct Packet(pub(crate) NonNull<Meta>);

// SAFETY: a packet is the only handle to its buffers, and returning them is an
// atomic push.
unsafe impl Send for Packet {}
// SAFETY: `&Packet` only reads.
unsafe impl Sync for Packet {}

impl Packet {
    /// Takes over a buffer.
    ///
    /// # Safety
    /// `meta` must come from [`Packet::into_raw`] and be used once.
    #[inline(always)]
    pub(crate) unsafe fn from_raw(meta: NonNull<Meta>) -> Packet {
        Packet(meta)
    }

    /// The buffer, which the caller now owns.
    #[inline(always)]
    pub(crate) fn into_raw(self) -> NonNull<Meta> {
        ManuallyDrop::new(self).0
    }

    #[inline(always)]
    pub(crate) fn meta(&self) -> &Meta {
        // SAFETY: the packet owns the buffer, whose metadata is initialised and
        // lives at least as long.
        unsafe { self.0.as_ref() }
    }

    #[inline(always)]
    pub(crate) fn meta_mut(&mut self) -> &mut Meta {
        // SAFETY: as above, and `&mut self` is exclusive.
        unsafe { self.0.as_mut() }
    }

    /// The first byte of the data room.
    #[inline(always)]
    pub(crate) fn data_room(&self) -> *mut u8 {
        self.meta().data_room.as_ptr()
    }

    /// The packet's first byte.
    #[inline(always)]
    fn start(&self) -> *mut u8 {
        self.data_room().wrapping_offset(self.meta().start as isize)
    }

    /// Bytes in the first segment.
    #[inline(always)]
    pub fn len(&self) -> usize {
        usize::from(self.meta().rx.len)
    }

    /// What the device is asked to do when the packet is sent.
    #[inline(always)]
    pub fn tx_offload(&self) -> TxOffload {
        self.meta().tx
    }

    /// Whether this is one segment for which the device is asked nothing.
    #[inline(always)]
    pub fn is_plain(&self) -> bool {
        let meta = self.meta();
        meta.tx.is_empty() && meta.next.is_null()
    }

    /// The device's address of the first byte.
    #[inline(always)]
    pub fn iova(&self) -> u64 {
        let meta = self.meta();
        meta.rx_iova.wrapping_add_signed(meta.start.into())
    }

    /// The device's address at which a received packet shall start: behind the
    /// whole headroom, whatever the packet held before.
    #[inline(always)]
    pub fn rx_iova(&self) -> u64 {
        self.meta().rx_iova
    }

    /// Makes this a packet just received at [`Packet::rx_iova`]: two words in
    /// the order of the 82599's write-back descriptor (datasheet 7.1.6.2):
    /// RSS and packet type, hash; status and error, length, VLAN tag.
    /// A length beyond the data room is cut to it.
    #[inline(always)]
    pub fn set_received(&mut self, low: u64, high: u64) {
        let meta = self.meta_mut();
        // SAFETY: both are 16 bytes, and any bits make the integers of RxWords;
        // its fields stand in the words' order (little-endian, as checked).
        meta.rx = unsafe { transmute::<[u64; 2], RxWords>([low, high]) };
        if (high >> 32) as u16 > DATA_ROOM as u16 {
            meta.rx.len = DATA_ROOM as u16;
        }
        meta.tx = TxOffload::default();
        (meta.start, meta.user) = (0, 0);
    }
}

impl Deref for Packet {
    type Target = [u8];

    #[inline(always)]
    fn deref(&self) -> &[u8] {
        // SAFETY: start and len stay within the buffer (every setter sees to it),
        // and the packet owns it: no code of ours writes to it while it is lent.
        unsafe { std::slice::from_raw_parts(self.start(), self.len()) }
    }
}

impl DerefMut for Packet {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `&mut self` is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.start(), self.len()) }
    }
}
