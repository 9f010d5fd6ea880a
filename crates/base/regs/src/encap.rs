//! The table of tunnels' headers that our device models may have beside their chip: registers of a
//! page of its own, in a BAR that a vendor's capability of the PCI configuration space names. It
//! is no part of any real chip: decision 30 is all the datasheet there is.
//!
//! A command's arguments are written first, then its number into [`COMMAND`]; it is done when that
//! write is, and [`STATUS`] says how it ended. Registers have 32 bits; counters are two of them.

/// The capability of the configuration space, in bytes from its start (PCI 3.0, 6.7).
pub mod capability {
    /// The id of a vendor's capability.
    pub const ID: u8 = 0x09;
    /// How long it is.
    pub const LEN: u16 = 2;
    /// A type, which is none of virtio's, whose drivers look here.
    pub const KIND: u16 = 3;
    /// Four letters that no other capability has here.
    pub const SIGNATURE: u16 = 4;
    /// The BAR that has the registers.
    pub const BAR: u16 = 8;
    /// The version of their layout.
    pub const VERSION: u16 = 9;
    /// Where they begin in the BAR, 32 bits.
    pub const OFFSET: u16 = 12;
    /// How many bytes they are, 32 bits.
    pub const LENGTH: u16 = 16;
    /// Bytes of all that.
    pub const BYTES: u16 = 20;
    /// What [`KIND`] is.
    pub const IS_KIND: u8 = 0x45;
    /// What [`SIGNATURE`] is.
    pub const IS_SIGNATURE: [u8; 4] = *b"IXOE";
    /// What [`VERSION`] is.
    pub const IS_VERSION: u8 = 1;
}

/// Bytes of the registers.
pub const LEN: u32 = 0x1000;

/// RO: the letters of [`capability::IS_SIGNATURE`].
pub const SIGNATURE: u32 = 0x000;
/// RO: the version of the layout.
pub const VERSION: u32 = 0x004;
/// RO: places for networks.
pub const NETWORKS: u32 = 0x008;
/// RO: places for headers, each of which has two: for IPv6 packets of networks of IP packets, and
/// for all others.
pub const HEADERS: u32 = 0x00C;
/// RO: entries that there is room for.
pub const ENTRIES: u32 = 0x010;
/// RO: how often the table was emptied; whoever finds another number than before begins anew.
pub const GENERATION: u32 = 0x014;
/// RO: entries that there are.
pub const USED: u32 = 0x018;
/// WO: does a [`command`].
pub const COMMAND: u32 = 0x020;
/// RO: how the last command ended, a [`status`].
pub const STATUS: u32 = 0x024;
/// RO: how many commands ended.
pub const COMMANDS: u32 = 0x028;
/// RO: the first counter, its lower half first; they are those of [`counter`].
pub const COUNTERS: u32 = 0x040;
/// Bytes from one counter to the next.
pub const COUNTER_STRIDE: u32 = 8;

/// RW: the place of a network.
pub const NETWORK: u32 = 0x100;
/// RW: where a packet's identifier stands, see [`extractor`].
pub const EXTRACTOR: u32 = 0x104;
/// RW: what packets of a network are, and what becomes of those that no entry is for, see [`mode`].
pub const MODE: u32 = 0x108;
/// RW: an identifier, right-aligned: the least of four registers.
pub const KEY: u32 = 0x110;
/// RW: the place of headers.
pub const PLACE: u32 = 0x120;
/// RW: which of a place's two headers: 1 for IPv6 packets of networks of IP packets, else 0.
pub const WHICH: u32 = 0x124;
/// RW: bytes of a packet, at most.
pub const MAX_LEN: u32 = 0x128;
/// RW: bytes of headers.
pub const HEADERS_LEN: u32 = 0x12C;
/// RW: the first of [`MOST_PATCHES`] patches, which are done in their order, see [`patch`].
pub const PATCHES: u32 = 0x140;
/// RW: the first of the headers' bytes.
pub const BYTES: u32 = 0x180;

/// Patches of headers, at most; behind the last one are zeros.
pub const MOST_PATCHES: usize = 8;
/// Bytes of headers, at most.
pub const MOST_BYTES: usize = 128;
/// Bits of an identifier, at most.
pub const MOST_BITS: u8 = 128;

/// What can be done.
pub mod command {
    /// Empties the table.
    pub const RESET: u32 = 1;
    /// Makes a network in a place; one that has the same identifiers as before keeps its entries.
    pub const SET_NETWORK: u32 = 2;
    /// Removes a network with its entries.
    pub const CLEAR_NETWORK: u32 = 3;
    /// Puts headers into a place, in one step for all entries that lead there.
    pub const SET_HEADERS: u32 = 4;
    /// Lets packets of a network with this identifier have the headers of a place.
    pub const INSERT: u32 = 5;
    /// Removes the entry of an identifier.
    pub const REMOVE: u32 = 6;
}

/// How a command ended.
pub mod status {
    /// It is done.
    pub const OK: u32 = 0;
    /// There is no room for one more entry.
    pub const FULL: u32 = 1;
    /// An argument is none that can be; nothing is different.
    pub const INVALID: u32 = 2;
    /// The entry, network or place that it names is not there.
    pub const MISSING: u32 = 3;
}

/// The fields of [`EXTRACTOR`].
pub mod extractor {
    /// The offset in bytes from the packet's start.
    pub const OFFSET: u32 = 0xFFFF;
    /// Where the number of bits begins.
    pub const BITS_SHIFT: u32 = 16;
}

/// The fields of [`MODE`].
pub mod mode {
    /// Packets are Ethernet frames.
    pub const FRAMES: u32 = 0;
    /// Packets are IP packets of both versions.
    pub const IP: u32 = 1;
    /// Packets have a network service header.
    pub const SERVICE: u32 = 2;
    /// The bits of those.
    pub const LAYER: u32 = 3;
    /// Packets that no entry is for are dropped; without it they are given back.
    pub const DROP: u32 = 1 << 8;
}

/// A patch: what is done to headers once they stand in front of a packet. The bits of a register:
/// the kind in the lowest byte, the place in the headers in the next, a value in the upper 16.
pub mod patch {
    /// Nothing, and nothing behind it.
    pub const NONE: u8 = 0;
    /// Writes the packet's bytes and the value as 16 bits.
    pub const LENGTH: u8 = 1;
    /// Writes how many packets were sent, 16 bits.
    pub const NUMBER: u8 = 2;
    /// Sets the packet's traffic class and'ed with the value in a byte.
    pub const CLASS: u8 = 3;
    /// Likewise in the 16 bits of an IPv6 header's start.
    pub const CLASS_V6: u8 = 4;
    /// Writes the flow's number as 16 bits from 49152 on.
    pub const PORT: u8 = 5;
    /// Writes the flow's number into the lower 20 of 32 bits.
    pub const LABEL: u8 = 6;
    /// Writes the Internet checksum of some bytes: the value's lower byte is where they begin, the
    /// upper one how many they are. What stands there before does not count.
    pub const CHECKSUM: u8 = 7;
    /// Writes the checksum of a UDP header's start, six bytes before, and of all behind it; the
    /// value is the sum of its pseudo header without the length.
    pub const UDP_CHECKSUM: u8 = 8;
    /// Where the place begins.
    pub const AT_SHIFT: u32 = 8;
    /// Where the value begins.
    pub const VALUE_SHIFT: u32 = 16;
}

/// What is counted; the places of counters.
pub mod counter {
    /// Packets that left with their headers.
    pub const SENT: usize = 0;
    /// Packets that were given back.
    pub const GIVEN_BACK: usize = 1;
    /// Packets that no entry is for, and that were dropped for that.
    pub const UNKNOWN: usize = 2;
    /// Packets that were to be given back when as many waited as may.
    pub const NOT_GIVEN_BACK: usize = 3;
    /// Frames with a tag that makes no sense, dropped.
    pub const MALFORMED: usize = 4;
    /// Frames with a tag that came by the cable, dropped: only the driver may have packets sent.
    pub const FOREIGN: usize = 5;
    /// How many counters there are.
    pub const COUNT: usize = 6;
}
