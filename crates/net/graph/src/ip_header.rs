//! Where a packet's IP header is, and what elements do with it together.

use std::net::Ipv4Addr;

use memory::Packet;
use memory::annotation::Header;
use wire::ip::Protocol;
use wire::{ipv4, ipv6};

use crate::annotation::PacketAnnotations;
use crate::chain::Bytes;

/// Bytes of an IPv4 header without options.
pub const LEN: usize = ipv4::HEADER_LEN;

/// Says that an IP header of `length` bytes begins at `at`.
#[inline(always)]
pub fn mark(packet: &mut Packet, at: usize, length: usize) {
    packet.set_header(Header::Network, at);
    packet.set_header(Header::Transport, at + length);
}

/// Says where the IP header that begins at `at` is, and its destination; whether one of
/// either version is there with all its options.
pub fn find_at(packet: &mut Packet, at: usize) -> bool {
    let Some(ip) = packet.get(at..) else { return false };
    let first = ip.first().copied().unwrap_or(0);
    let (length, destination) = match ipv4::version(first) {
        4 => match ipv4::header_len(first) {
            length @ LEN.. => (length, ipv4::Header::of(ip).map(|ip| ip.dst())),
            _ => return false,
        },
        6 => (ipv6::HEADER_LEN, None),
        _ => return false,
    };
    if ip.len() < length {
        return false;
    }
    mark(packet, at, length);
    packet.set_header(Header::Link, 0);
    if let Some(destination) = destination {
        packet.set_dst_ip(destination);
    }
    true
}

/// Whether bytes that begin with a header of `length` bytes hold all of it.
#[inline(always)]
fn is_whole(bytes: &[u8], length: usize) -> bool {
    length >= LEN && bytes.len() >= length
}

/// The fixed part of the IPv4 header that was found; `None` when nobody found one, or
/// it is not there. Its lengths may still be wrong.
#[inline(always)]
pub fn fixed(packet: &Packet) -> Option<ipv4::Header<&[u8; LEN]>> {
    ipv4::Header::of(packet.header(Header::Network)?)
}

/// As [`fixed`], to change it.
#[inline(always)]
pub fn fixed_mut(packet: &mut Packet) -> Option<ipv4::Header<&mut [u8; LEN]>> {
    ipv4::Header::of_mut(packet.header_mut(Header::Network)?)
}

/// The IPv4 header that was found, with its options, and what follows it: `None`
/// when nobody found one, when it is not all there, or contradicts itself.
#[inline]
pub fn split(packet: &Packet) -> Option<(&[u8], &[u8])> {
    let bytes = packet.header(Header::Network)?;
    let length = ipv4::header_len(*bytes.first()?);
    is_whole(bytes, length).then(|| bytes.split_at(length))
}

/// As [`split`], to change it.
#[inline]
pub fn split_mut(packet: &mut Packet) -> Option<(&mut [u8], &mut [u8])> {
    let bytes = packet.header_mut(Header::Network)?;
    let length = ipv4::header_len(*bytes.first()?);
    is_whole(bytes, length).then(|| bytes.split_at_mut(length))
}

/// As [`split`], with what follows the header in all buffers of the packet.
#[inline]
pub fn split_all(packet: &Packet) -> Option<(&[u8], Bytes<'_>)> {
    let (header, payload) = split(packet)?;
    Some((header, Bytes::new(payload, packet.next())))
}

/// The IPv4 header that was found, and what follows it.
#[derive(Debug)]
pub struct Parts<'p> {
    /// The header, with its options.
    pub header: &'p mut [u8],
    /// What follows in the same buffer: the next header is whole in there.
    pub payload: &'p mut [u8],
    /// In which buffers the payload goes on.
    pub behind: Option<&'p Packet>,
}

impl Parts<'_> {
    /// What follows the header, in all buffers.
    #[inline(always)]
    pub fn bytes(&self) -> Bytes<'_> {
        Bytes::new(self.payload, self.behind)
    }
}

/// As [`split_all`], to change headers.
#[inline]
pub fn parts(packet: &mut Packet) -> Option<Parts<'_>> {
    let (bytes, behind) = packet.header_and_next(Header::Network)?;
    let length = ipv4::header_len(*bytes.first()?);
    let (header, payload) = is_whole(bytes, length).then(|| bytes.split_at_mut(length))?;
    Some(Parts { header, payload, behind })
}

/// A number of two bytes; zero where there are none.
#[inline(always)]
pub fn u16_at(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |word| u16::from_be_bytes(*word))
}

/// A number of four bytes; zero where there are none.
#[inline(always)]
pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |word| u32::from_be_bytes(*word))
}

/// Whether this is a whole packet or the first fragment: the transport header is
/// there.
#[inline(always)]
pub fn is_first_fragment(header: &[u8]) -> bool {
    u16_at(header, ipv4::offset::FRAGMENT) & ipv4::FRAGMENT_OFFSET == 0
}

/// Whether this is a fragment, first ones included.
#[inline(always)]
pub fn is_fragment(header: &[u8]) -> bool {
    u16_at(header, ipv4::offset::FRAGMENT) & (ipv4::MORE_FRAGMENTS | ipv4::FRAGMENT_OFFSET) != 0
}

/// What a header says of the packet's length.
#[inline(always)]
pub fn total_len(header: &[u8]) -> usize {
    u16_at(header, ipv4::offset::TOTAL_LEN).into()
}

/// What a header says that its packet carries; [`Protocol::HOP_BY_HOP`], which no IPv4
/// packet does, where it is too short.
#[inline(always)]
pub fn protocol(header: &[u8]) -> Protocol {
    Protocol(header.get(ipv4::offset::PROTOCOL).copied().unwrap_or(0))
}

/// From whom and to whom a header says that its packet is; 0.0.0.0 where it is too
/// short.
#[inline(always)]
pub fn ends(header: &[u8]) -> (Ipv4Addr, Ipv4Addr) {
    let [src, dst] = [ipv4::offset::SRC, ipv4::offset::DST].map(|at| u32_at(header, at).into());
    (src, dst)
}

/// Cuts off what is behind the first `length` bytes.
#[inline]
pub fn cut(packet: &mut Packet, length: usize) {
    match packet.next() {
        None => shorten(packet, length),
        Some(_) => packet.truncate(length),
    }
}

/// Cuts off what is behind the first `length` bytes, in a packet of one segment.
#[inline(always)]
pub fn shorten(packet: &mut Packet, length: usize) {
    if length < packet.len() {
        let shorter = packet.set_len(length);
        debug_assert!(shorter.is_ok());
    }
}
