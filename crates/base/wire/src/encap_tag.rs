//! The tag in front of a packet that a device model is to encapsulate by its own table, and of one
//! that it gives back (decision 30). It is no standard: an Ethernet header with an EtherType
//! for experiments (IEEE 802, section 9.2.4), so that any NIC's way of sending takes it, and eight
//! bytes that name the network and tell how long the packet is, as short frames are padded.

use std::borrow::{Borrow, BorrowMut};

use crate::ethernet::{self, EtherType};
use crate::{Error, MacAddress, Result};

/// What the Ethernet header in front of the tag has.
pub const ETHERTYPE: EtherType = EtherType::LOCAL_EXPERIMENT_2;
/// Bytes of the tag behind the Ethernet header.
pub const TAG_LEN: usize = 8;
/// Bytes in front of the packet: the Ethernet header and the tag.
pub const HEADER_LEN: usize = ethernet::HEADER_LEN + TAG_LEN;

/// Where the fields of the tag are, in bytes from its start.
pub mod offset {
    /// The place of the network in the device's table.
    pub const NETWORK: usize = 0;
    /// Bytes of the packet behind the tag.
    pub const LEN: usize = 2;
    /// Why the device gives the packet back: see [`reason`](super::reason).
    pub const REASON: usize = 4;
}

/// Why a device gives a packet back.
pub mod reason {
    /// It does not: the packet is to be sent.
    pub const NONE: u8 = 0;
    /// The table has no such network.
    pub const NETWORK: u8 = 1;
    /// No entry has the packet's identifier.
    pub const KEY: u8 = 2;
    /// The packet ends before its identifier, or is no IP packet where it must be one.
    pub const SHORT: u8 = 3;
    /// The packet is too long for where its entry leads.
    pub const LONG: u8 = 4;
}

header! {
    /// The tag behind the Ethernet header, eight bytes.
    Tag[TAG_LEN]
}

impl<T: Borrow<[u8; TAG_LEN]>> Tag<T> {
    /// The place of the network in the device's table.
    #[inline(always)]
    pub fn network(&self) -> u16 {
        self.get::<{ offset::NETWORK }, _>()
    }

    /// Bytes of the packet behind the tag.
    #[inline(always)]
    pub fn packet_len(&self) -> u16 {
        self.get::<{ offset::LEN }, _>()
    }

    /// Why the device gives the packet back: see [`reason`].
    #[inline(always)]
    pub fn reason(&self) -> u8 {
        self.get::<{ offset::REASON }, _>()
    }
}

impl<T: BorrowMut<[u8; TAG_LEN]>> Tag<T> {
    /// Sets the place of the network.
    #[inline(always)]
    pub fn set_network(&mut self, network: u16) {
        self.set::<{ offset::NETWORK }, _>(network);
    }

    /// Sets how long the packet is.
    #[inline(always)]
    pub fn set_packet_len(&mut self, len: u16) {
        self.set::<{ offset::LEN }, _>(len);
    }

    /// Sets why the packet is given back.
    #[inline(always)]
    pub fn set_reason(&mut self, reason: u8) {
        self.set::<{ offset::REASON }, _>(reason);
    }
}

/// The Ethernet header and the tag of packets of a network, from a port to itself; the packet's
/// length is to be set ([`set_packet_len`]).
pub fn header(port: MacAddress, network: u16) -> [u8; HEADER_LEN] {
    let mut tag = Tag::zeroed();
    tag.set_network(network);
    let mut bytes = [0; HEADER_LEN];
    let (front, behind) = bytes.split_at_mut(ethernet::HEADER_LEN);
    front.copy_from_slice(&ethernet::Header::between(port, port, ETHERTYPE).into_inner());
    behind.copy_from_slice(&tag.into_inner());
    bytes
}

/// Sets how long the packet behind a [`header`] is.
#[inline]
pub fn set_packet_len(header: &mut [u8; HEADER_LEN], len: u16) {
    if let Some(mut tag) = Tag::of_mut(&mut header[ethernet::HEADER_LEN..]) {
        tag.set_packet_len(len);
    }
}

/// Sets why a frame that [has a tag](is_tagged) is given back.
pub fn set_reason(frame: &mut [u8], reason: u8) {
    if let Some(mut tag) = frame.get_mut(ethernet::HEADER_LEN..).and_then(Tag::of_mut) {
        tag.set_reason(reason);
    }
}

/// Whether a frame has a tag.
#[inline(always)]
pub fn is_tagged(frame: &[u8]) -> bool {
    ethernet::Header::of(frame).is_some_and(|header| header.ethertype() == ETHERTYPE)
}

/// The tag of a frame that [has one](is_tagged), and the packet behind it.
///
/// # Errors
/// [`Error::Truncated`] when the frame ends before the tag or the packet does.
pub fn split(frame: &[u8]) -> Result<(Tag<[u8; TAG_LEN]>, &[u8])> {
    let behind = frame.get(ethernet::HEADER_LEN..).ok_or(Error::Truncated)?;
    let (tag, packet) = behind.split_first_chunk::<TAG_LEN>().ok_or(Error::Truncated)?;
    let tag = Tag::new(*tag);
    let packet = packet.get(..tag.packet_len().into()).ok_or(Error::Truncated)?;
    Ok((tag, packet))
}
