//! A port's table of tunnels' headers, by which the device sends packets into tunnels itself: as
//! Nakamura et al. place their overlay FIB in NICs (*Protocol-Independent FIB Architecture for
//! Network Overlays*, 2016, section 3.2). No NIC that can be bought has one; our device models do
//! when they are told to (decision 30).
//!
//! Whoever sends puts a tag in front of a packet (`wire::encap_tag`), which names the network. The
//! device reads the packet's identifier, puts the headers of its entry in front and patches what
//! differs between packets. What it has no entry for it gives back: as a received frame with the tag.

use crate::Result;

/// What a table has room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EncapLimits {
    /// Places for networks.
    pub networks: usize,
    /// Places for headers.
    pub places: usize,
    /// Entries of all networks together.
    pub entries: usize,
}

/// What packets of a network are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EncapLayer {
    /// They are Ethernet frames.
    Ethernet,
    /// IP packets of both versions.
    Ip,
    /// Packets with a network service header.
    Service,
}

/// How packets of a network are looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EncapNetwork {
    /// Where the identifier stands, in bytes from the packet's start.
    pub offset: u16,
    /// How many bits it has.
    pub bits: u8,
    /// What packets are.
    pub layer: EncapLayer,
    /// Whether packets without an entry are dropped; else they are given back.
    pub drops_unknown: bool,
}

/// What is done to headers in front of a packet. Places are bytes from the headers' start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EncapPatch {
    /// Writes the packet's bytes and `more` as 16 bits.
    Length {
        /// Where it is written.
        at: u8,
        /// What the length counts beside the packet.
        more: u16,
    },
    /// Writes how many packets were sent, 16 bits.
    Number {
        /// Where it is written.
        at: u8,
    },
    /// Sets those bits of the packet's traffic class that are in the mask, in a byte.
    Class {
        /// Where it is written.
        at: u8,
        /// The bits that it may set.
        mask: u8,
    },
    /// Likewise in the first 16 bits of an IPv6 header.
    ClassV6 {
        /// Where the IPv6 header begins.
        at: u8,
        /// The bits that it may set.
        mask: u8,
    },
    /// Writes the flow's number as a UDP source port.
    Port {
        /// Where it is written.
        at: u8,
    },
    /// Writes the flow's number as the label of an IPv6 header.
    Label {
        /// Where the IPv6 header begins.
        at: u8,
    },
    /// Writes the Internet checksum of bytes of the headers.
    Checksum {
        /// Where it is written.
        at: u8,
        /// Where the bytes begin.
        from: u8,
        /// How many there are.
        count: u8,
    },
    /// Writes the checksum of a UDP header and of all that follows.
    UdpChecksum {
        /// Where it is written.
        at: u8,
        /// The sum of the pseudo header without the length.
        pseudo: u16,
    },
}

/// Finished headers of a tunnel.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EncapHeaders {
    /// Their bytes, [`EncapHeaders::MOST_BYTES`] at most.
    pub bytes: Vec<u8>,
    /// What is patched, in this order, [`EncapHeaders::MOST_PATCHES`] at most.
    pub patches: Vec<EncapPatch>,
    /// Bytes of a packet, at most.
    pub max_len: u16,
}

impl EncapHeaders {
    /// Bytes of headers, at most.
    pub const MOST_BYTES: usize = 128;
    /// Patches of headers, at most.
    pub const MOST_PATCHES: usize = 8;
}

/// The table of a port; [`crate::Port::encap_offload`] gives it once. All that it is told holds for
/// packets that are sent later, each change in one step.
pub trait EncapOffload: Send {
    /// What there is room for.
    fn limits(&self) -> EncapLimits;

    /// A number that is another one when the table was emptied by somebody else, as by a reset of
    /// the device.
    ///
    /// # Errors
    /// When the device does not answer.
    fn generation(&self) -> Result<u32>;

    /// Empties the table.
    ///
    /// # Errors
    /// When the device does not do it.
    fn reset(&mut self) -> Result<()>;

    /// Makes a network in a place, or removes it with its entries. One that has the same
    /// identifiers as before keeps them.
    ///
    /// # Errors
    /// When the device does not do it.
    fn set_network(&mut self, place: u16, network: Option<&EncapNetwork>) -> Result<()>;

    /// Puts headers into a place, for all entries that lead there: for IPv6 packets of a network of
    /// IP packets, or for all others.
    ///
    /// # Errors
    /// When the device does not take them.
    fn set_headers(&mut self, place: u32, is_v6: bool, headers: &EncapHeaders) -> Result<()>;

    /// Lets packets with this identifier, right-aligned, have the headers of a place, whatever they
    /// had before.
    ///
    /// # Errors
    /// [`crate::Error::TableFull`] when there is no room; when the device does not do it.
    fn insert(&mut self, network: u16, identifier: u128, place: u32) -> Result<()>;

    /// Removes an entry; whether it was there.
    ///
    /// # Errors
    /// When the device does not do it.
    fn remove(&mut self, network: u16, identifier: u128) -> Result<bool>;
}
