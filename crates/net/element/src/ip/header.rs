//! Where a packet's IP header is, and what elements do with it together.

use memory::Packet;
use memory::annotation::Header;
use wire::checksum;

/// Bytes of an IPv4 header without options.
pub(crate) const LEN: usize = wire::ipv4::HEADER_LEN;

/// Says that an IP header of `length` bytes begins at `at`.
#[inline(always)]
pub(crate) fn mark(packet: &mut Packet, at: usize, length: usize) {
    packet.set_header(Header::Network, at);
    packet.set_header(Header::Transport, at + length);
}

/// The IPv4 header that was found, with its options, and what follows it: `None`
/// when nobody found one, when it is not all there, or contradicts itself.
#[inline]
pub(crate) fn split(packet: &Packet) -> Option<(&[u8], &[u8])> {
    let bytes = packet.header(Header::Network)?;
    let length = usize::from(bytes.first()? & 0xF) * 4;
    (length >= LEN && bytes.len() >= length).then(|| bytes.split_at(length))
}

/// As [`split`], to change it.
#[inline]
pub(crate) fn split_mut(packet: &mut Packet) -> Option<(&mut [u8], &mut [u8])> {
    let bytes = packet.header_mut(Header::Network)?;
    let length = usize::from(bytes.first()? & 0xF) * 4;
    (length >= LEN && bytes.len() >= length).then(|| bytes.split_at_mut(length))
}

/// Makes a header's checksum right.
pub(crate) fn fill_checksum(header: &mut [u8]) {
    if let Some(field) = header.get_mut(10..12) {
        field.copy_from_slice(&[0, 0]);
        let sum = checksum::of(header);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
    }
}

/// A number of two bytes; zero where there are none.
#[inline(always)]
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |word| u16::from_be_bytes(*word))
}

/// A number of four bytes; zero where there are none.
#[inline(always)]
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |word| u32::from_be_bytes(*word))
}

/// Changes a header's 16-bit word at an even place, and its checksum with it.
pub(crate) fn replace_u16(header: &mut [u8], at: usize, value: u16) {
    let (from, sum) = (u16_at(header, at), u16_at(header, 10));
    header[at..at + 2].copy_from_slice(&value.to_be_bytes());
    header[10..12].copy_from_slice(&checksum::update(sum, from, value).to_be_bytes());
}

/// Whether this is a whole packet or the first fragment: the transport header is
/// there.
#[inline(always)]
pub(crate) fn is_first_fragment(header: &[u8]) -> bool {
    u16_at(header, 6) & 0x1FFF == 0
}

/// Cuts off what is behind the first `length` bytes, in a packet of one segment.
#[inline(always)]
pub(crate) fn shorten(packet: &mut Packet, length: usize) {
    if length < packet.len() {
        let shorter = packet.set_len(length);
        debug_assert!(shorter.is_ok());
    }
}

/// Moves the start of the data to a place in the buffer, `by` bytes onwards (or
/// back); whether the packet reaches that far.
#[inline(always)]
pub(crate) fn advance(packet: &mut Packet, by: isize) -> bool {
    match usize::try_from(by) {
        Ok(onwards) => packet.pull_front(onwards).is_ok(),
        Err(_) => packet.push_front(by.unsigned_abs()).is_ok(),
    }
}
