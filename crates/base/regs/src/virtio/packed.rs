//! Packed virtqueues (2.8): one ring of descriptors that both sides write, and
//! two small event suppression areas.

/// The most entries of a packed virtqueue; any size up to it is valid (2.8.10.1).
pub const MAX_SIZE: u16 = 32768;

/// A descriptor's fields (2.8.13).
pub mod descriptor {
    /// Address, 64 bits.
    pub const ADDR: usize = 0;
    /// Length, 32 bits; in a used descriptor the bytes the device wrote.
    pub const LEN: usize = 8;
    /// The driver's id of the buffer, 16 bits.
    pub const ID: usize = 12;
    /// Flags, 16 bits: written last.
    pub const FLAGS: usize = 14;
    /// Length of a descriptor.
    pub const BYTES: usize = 16;
    /// Alignment of the ring.
    pub const ALIGN: usize = 16;

    /// Flag: the chain goes on in the next descriptor.
    pub const NEXT: u16 = 1;
    /// Flag: the device writes the buffer. In a used descriptor: it wrote, and
    /// the length is valid (2.8.5).
    pub const WRITE: u16 = 2;
    /// Flag: the buffer holds descriptors (2.8.7).
    pub const INDIRECT: u16 = 4;
    /// Flag: available when it equals the driver's wrap counter (2.8.1).
    pub const AVAIL: u16 = 1 << 7;
    /// Flag: used when it equals [`AVAIL`] and the wrap counter (2.8.1).
    pub const USED: u16 = 1 << 15;
}

/// An event suppression area (2.8.14).
pub mod event {
    /// Descriptor offset (bits 14:0) and wrap counter (bit 15), 16 bits.
    pub const OFF_WRAP: usize = 0;
    /// Flags (bits 1:0), 16 bits.
    pub const FLAGS: usize = 2;
    /// Length of an area.
    pub const BYTES: usize = 4;
    /// Alignment of an area.
    pub const ALIGN: usize = 4;
    /// Bit of the wrap counter.
    pub const WRAP: u16 = 1 << 15;

    /// Flags: notifications are wanted.
    pub const ENABLE: u16 = 0;
    /// Flags: none are wanted.
    pub const DISABLE: u16 = 1;
    /// Flags: one is wanted at the descriptor named (with EVENT_IDX).
    pub const DESC: u16 = 2;
    /// Mask of the flags.
    pub const FLAGS_MASK: u16 = 3;
}

/// Length of the ring.
pub const fn ring_bytes(size: u16) -> usize {
    descriptor::BYTES * size as usize
}
