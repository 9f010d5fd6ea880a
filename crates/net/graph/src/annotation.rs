//! Annotations by their names and places in Click: what elements tell each other
//! about a packet beside its bytes.
//!
//! Addresses stand in network byte order, numbers in the machine's own, as Click
//! has them: a configuration may name any byte of the area.

use std::net::Ipv4Addr;

use crate::value::{Scope, Value};
use memory::Packet;
use memory::annotation::AREA;

/// The next hop's IPv4 address; four bytes.
pub const DST_IP: usize = 0;
/// The next hop's IPv6 address; sixteen bytes.
pub const DST_IP6: usize = 0;
/// A colour; one byte.
pub const PAINT: usize = 16;
/// Which byte of the IP header is wrong; one byte.
pub const ICMP_PARAMETER_PROBLEM: usize = 17;
/// Whether the source address is still to be set; one byte.
pub const FIX_IP_SRC: usize = 19;
/// A VLAN tag; two bytes, in network byte order.
pub const VLAN_TCI: usize = 20;
/// Which aggregate the packet belongs to; four bytes.
pub const AGGREGATE: usize = 20;
/// An address of no fixed meaning; four bytes.
pub const MISC_IP: usize = 20;
/// How many more packets this one stands for; four bytes.
pub const EXTRA_PACKETS: usize = 24;
/// How many more bytes the packet had; four bytes.
pub const EXTRA_LENGTH: usize = 28;
/// When the first of several packets came; eight bytes.
pub const FIRST_TIMESTAMP: usize = 32;

/// How much comes from a packet's address, and how much goes to it, in a second; four bytes each.
pub const FWD_RATE: usize = 20;
/// The rates of the other direction, as [`FWD_RATE`]; four bytes each.
pub const REV_RATE: usize = 24;
/// A packet's number; four bytes.
pub const PACKET_NUMBER: usize = 32;

const NAMES: &[(&str, usize, usize)] = &[
    ("DST_IP", DST_IP, 4),
    ("DST_IP6", DST_IP6, 16),
    ("PAINT", PAINT, 1),
    ("ICMP_PARAMPROB", ICMP_PARAMETER_PROBLEM, 1),
    ("FIX_IP_SRC", FIX_IP_SRC, 1),
    ("VLAN_TCI", VLAN_TCI, 2),
    ("VLAN", VLAN_TCI, 2),
    ("AGGREGATE", AGGREGATE, 4),
    ("FWD_RATE", FWD_RATE, 4),
    ("MISC_IP", MISC_IP, 4),
    ("EXTRA_PACKETS", EXTRA_PACKETS, 4),
    ("PACKET_NUMBER", PACKET_NUMBER, 4),
    ("REV_RATE", REV_RATE, 4),
    ("SEND_ERR", 26, 1),
    ("SEQUENCE_NUMBER", 36, 4),
    ("IPREASSEMBLER", 28, 4),
    ("EXTRA_LENGTH", EXTRA_LENGTH, 4),
    ("FIRST_TIMESTAMP", FIRST_TIMESTAMP, 8),
];

/// The place of an annotation of `SIZE` bytes, as configurations name it: `PAINT`,
/// or the number of its first byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnnotationOffset<const SIZE: usize>(pub usize);

impl<const SIZE: usize> Value for AnnotationOffset<SIZE> {
    fn parse(text: &str, _: &Scope<'_>) -> Result<Self, String> {
        let text = text.trim();
        let named = NAMES.iter().find(|(name, _, size)| *name == text && *size == SIZE);
        let numbered = || crate::value::unsigned(text).and_then(|at| usize::try_from(at).ok());
        let at = named.map(|(_, at, _)| *at).or_else(numbered);
        // Any byte may begin an annotation: nothing here minds how it is aligned.
        at.filter(|at| at.checked_add(SIZE).is_some_and(|end| end <= AREA))
            .map(AnnotationOffset)
            .ok_or_else(|| "expected annotation".into())
    }
}

/// Annotations of a packet, by their places. Places that the area does not have read
/// as zero, and writing them does nothing.
pub trait PacketAnnotations {
    /// The `SIZE` bytes from the place `at` on.
    fn bytes_at<const SIZE: usize>(&self, at: usize) -> [u8; SIZE];
    /// Sets `SIZE` bytes.
    fn set_bytes_at<const SIZE: usize>(&mut self, at: usize, bytes: [u8; SIZE]);

    /// The byte at the place `at`.
    #[inline(always)]
    fn u8_at(&self, at: usize) -> u8 {
        u8::from_ne_bytes(self.bytes_at(at))
    }

    /// Sets a byte.
    #[inline(always)]
    fn set_u8_at(&mut self, at: usize, value: u8) {
        self.set_bytes_at(at, [value]);
    }

    /// A number of two bytes.
    #[inline(always)]
    fn u16_at(&self, at: usize) -> u16 {
        u16::from_ne_bytes(self.bytes_at(at))
    }

    /// Sets a number of two bytes.
    #[inline(always)]
    fn set_u16_at(&mut self, at: usize, value: u16) {
        self.set_bytes_at(at, value.to_ne_bytes());
    }

    /// A number of four bytes.
    #[inline(always)]
    fn u32_at(&self, at: usize) -> u32 {
        u32::from_ne_bytes(self.bytes_at(at))
    }

    /// Sets a number of four bytes.
    #[inline(always)]
    fn set_u32_at(&mut self, at: usize, value: u32) {
        self.set_bytes_at(at, value.to_ne_bytes());
    }

    /// An IPv4 address.
    #[inline(always)]
    fn ip_at(&self, at: usize) -> Ipv4Addr {
        Ipv4Addr::from(self.bytes_at::<4>(at))
    }

    /// Sets an IPv4 address.
    #[inline(always)]
    fn set_ip_at(&mut self, at: usize, address: Ipv4Addr) {
        self.set_bytes_at(at, address.octets());
    }

    /// When the first of several packets came, in nanoseconds since 1970.
    #[inline(always)]
    fn first_ns(&self) -> i64 {
        i64::from_ne_bytes(self.bytes_at(FIRST_TIMESTAMP))
    }

    /// Sets when the first of several packets came.
    #[inline(always)]
    fn set_first_ns(&mut self, at: i64) {
        self.set_bytes_at(FIRST_TIMESTAMP, at.to_ne_bytes());
    }

    /// The next hop's address.
    #[inline(always)]
    fn dst_ip(&self) -> Ipv4Addr {
        self.ip_at(DST_IP)
    }

    /// Sets the next hop's address.
    #[inline(always)]
    fn set_dst_ip(&mut self, address: Ipv4Addr) {
        self.set_ip_at(DST_IP, address);
    }
}

impl PacketAnnotations for Packet {
    #[inline(always)]
    fn bytes_at<const SIZE: usize>(&self, at: usize) -> [u8; SIZE] {
        let area = &self.annotations().area;
        area.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; SIZE])
    }

    #[inline(always)]
    fn set_bytes_at<const SIZE: usize>(&mut self, at: usize, bytes: [u8; SIZE]) {
        let area = &mut self.annotations_mut().area;
        if let Some(place) = area.get_mut(at..).and_then(|rest| rest.first_chunk_mut()) {
            *place = bytes;
        }
    }
}
