//! Split virtqueues (2.7): a descriptor table, an available ring that the driver
//! writes, a used ring that the device writes.

/// The most entries of a split virtqueue; sizes are powers of two (2.7).
pub const MAX_SIZE: u16 = 32768;

/// A descriptor's fields (2.7.5).
pub mod descriptor {
    /// Address, 64 bits.
    pub const ADDR: usize = 0;
    /// Length, 32 bits.
    pub const LEN: usize = 8;
    /// Flags, 16 bits.
    pub const FLAGS: usize = 12;
    /// The next descriptor of the chain, 16 bits.
    pub const NEXT_INDEX: usize = 14;
    /// Length of a descriptor.
    pub const BYTES: usize = 16;
    /// Alignment of the table.
    pub const ALIGN: usize = 16;

    /// Flag: the chain goes on at the next field.
    pub const NEXT: u16 = 1;
    /// Flag: the device writes the buffer; else it reads it.
    pub const WRITE: u16 = 2;
    /// Flag: the buffer holds descriptors (2.7.5.3).
    pub const INDIRECT: u16 = 4;
}

/// The available ring (2.7.6).
pub mod available {
    /// Flags, 16 bits.
    pub const FLAGS: usize = 0;
    /// Where the driver puts the next entry, free-running, 16 bits.
    pub const INDEX: usize = 2;
    /// The entries: the first descriptor of each chain, 16 bits each.
    pub const RING: usize = 4;
    /// Length of an entry.
    pub const ENTRY: usize = 2;
    /// Alignment of the ring.
    pub const ALIGN: usize = 2;
    /// Flag: the driver wants no interrupt (2.7.7).
    pub const NO_INTERRUPT: u16 = 1;

    /// `used_event`, 16 bits, behind the entries (2.7.7).
    pub const fn used_event(size: u16) -> usize {
        RING + ENTRY * size as usize
    }

    /// Length of the ring with `used_event`.
    pub const fn bytes(size: u16) -> usize {
        used_event(size) + 2
    }
}

/// The used ring (2.7.8).
pub mod used {
    /// Flags, 16 bits.
    pub const FLAGS: usize = 0;
    /// Where the device puts the next entry, free-running, 16 bits.
    pub const INDEX: usize = 2;
    /// The entries, of [`ENTRY`] bytes each.
    pub const RING: usize = 4;
    /// Within an entry: the first descriptor of the chain, 32 bits.
    pub const ENTRY_ID: usize = 0;
    /// Within an entry: bytes the device wrote, 32 bits.
    pub const ENTRY_LEN: usize = 4;
    /// Length of an entry.
    pub const ENTRY: usize = 8;
    /// Alignment of the ring; the legacy interface wants a page.
    pub const ALIGN: usize = 4;
    /// Flag: the device wants no notification (2.7.10).
    pub const NO_NOTIFY: u16 = 1;

    /// `avail_event`, 16 bits, behind the entries (2.7.10).
    pub const fn avail_event(size: u16) -> usize {
        RING + ENTRY * size as usize
    }

    /// Length of the ring with `avail_event`.
    pub const fn bytes(size: u16) -> usize {
        avail_event(size) + 2
    }
}

/// Length of the descriptor table.
pub const fn table_bytes(size: u16) -> usize {
    descriptor::BYTES * size as usize
}

/// Where the available ring starts in the one contiguous range of memory that the legacy
/// interface wants (2.7.2).
pub const fn legacy_available(size: u16) -> usize {
    table_bytes(size)
}

/// Where the used ring starts in it: at the next page.
pub const fn legacy_used(size: u16) -> usize {
    (legacy_available(size) + available::bytes(size)).next_multiple_of(super::pci::legacy::PAGE)
}

/// Length of that range.
pub const fn legacy_bytes(size: u16) -> usize {
    (legacy_used(size) + used::bytes(size)).next_multiple_of(super::pci::legacy::PAGE)
}

/// Whether the other side wants to know: `event` is the index behind which it
/// asked for a notification, entries `old..new` were just published (2.7.7.1,
/// 2.7.10.1).
#[inline(always)]
pub const fn needs_event(event: u16, new: u16, old: u16) -> bool {
    new.wrapping_sub(event).wrapping_sub(1) < new.wrapping_sub(old)
}
