//! The network service header (RFC 8300): a service path (24 bits) and a place on it (8
//! bits), with metadata of fixed length (MD type 1) or as options (MD type 2). It lies over
//! whatever names it: VXLAN's generic protocol extension, GRE or Ethernet.

use std::borrow::{Borrow, BorrowMut};

use super::{upper_24, with_upper_24};
use crate::{Error, Result};

/// Bytes of the base header and the service path header.
pub const HEADER_LEN: usize = 8;
/// Bytes of all with MD type 1.
pub const TYPE_1_LEN: usize = 24;
/// Where the service path and its index stand: 32 bits, by which packets are forwarded.
pub const SERVICE_PATH: usize = 4;
/// How the metadata stand: 16 bytes.
pub const MD_TYPE_1: u8 = 1;
/// How the metadata stand: options, or none.
pub const MD_TYPE_2: u8 = 2;
/// The time to live of who does not know a better one (RFC 8300, section 2.2).
pub const DEFAULT_TTL: u8 = 63;

/// What is carried (IANA, NSH next protocol).
pub mod next_protocol {
    /// An IPv4 packet.
    pub const IPV4: u8 = 1;
    /// An IPv6 packet.
    pub const IPV6: u8 = 2;
    /// An Ethernet frame.
    pub const ETHERNET: u8 = 3;
    /// Another network service header.
    pub const NSH: u8 = 4;
    /// A packet with MPLS labels.
    pub const MPLS: u8 = 5;
}

const VERSION_SHIFT: u32 = 14;
const OAM: u16 = 1 << 13;
const TTL_SHIFT: u32 = 6;
const TTL: u16 = 0x3F;
/// The length's bits, in units of four bytes.
const LEN: u16 = 0x3F;

header! {
    /// The base header and the service path header.
    Header[HEADER_LEN]
}

impl<T: Borrow<[u8; HEADER_LEN]>> Header<T> {
    #[inline(always)]
    fn base(&self) -> u16 {
        self.get::<0, _>()
    }

    /// The version, which is 0.
    #[inline(always)]
    pub fn version(&self) -> u8 {
        (self.base() >> VERSION_SHIFT) as u8
    }

    /// Whether the packet is for operation and maintenance.
    #[inline(always)]
    pub fn is_oam(&self) -> bool {
        self.base() & OAM != 0
    }

    /// Service functions that may still come: 6 bits.
    #[inline(always)]
    pub fn ttl(&self) -> u8 {
        (self.base() >> TTL_SHIFT & TTL) as u8
    }

    /// Bytes of all with the metadata.
    #[inline(always)]
    pub fn header_len(&self) -> usize {
        usize::from(self.base() & LEN) * 4
    }

    /// How the metadata stand: [`MD_TYPE_1`] or [`MD_TYPE_2`].
    #[inline(always)]
    pub fn md_type(&self) -> u8 {
        self.get::<2, u8>() & 0xF
    }

    /// What is carried: see [`next_protocol`].
    #[inline(always)]
    pub fn next_protocol(&self) -> u8 {
        self.get::<3, _>()
    }

    /// The service path: 24 bits.
    #[inline(always)]
    pub fn service_path(&self) -> u32 {
        upper_24(self.get::<SERVICE_PATH, _>())
    }

    /// Where on the service path the packet is, counted down.
    #[inline(always)]
    pub fn service_index(&self) -> u8 {
        self.get::<SERVICE_PATH, u32>() as u8
    }
}

impl<T: BorrowMut<[u8; HEADER_LEN]>> Header<T> {
    /// Sets version 0, no OAM, the service functions that may still come (6 bits) and the
    /// bytes of all with the metadata (a multiple of four below 256).
    #[inline(always)]
    pub fn set_base(&mut self, ttl: u8, len: usize) {
        self.set::<0, _>((u16::from(ttl) & TTL) << TTL_SHIFT | (len / 4) as u16 & LEN);
    }

    /// Sets the service functions that may still come (6 bits).
    #[inline(always)]
    pub fn set_ttl(&mut self, ttl: u8) {
        let word = self.base() & !(TTL << TTL_SHIFT);
        self.set::<0, _>(word | (u16::from(ttl) & TTL) << TTL_SHIFT);
    }

    /// Sets how the metadata stand.
    #[inline(always)]
    pub fn set_md_type(&mut self, md_type: u8) {
        self.set::<2, _>(md_type & 0xF);
    }

    /// Sets what is carried.
    #[inline(always)]
    pub fn set_next_protocol(&mut self, protocol: u8) {
        self.set::<3, _>(protocol);
    }

    /// Sets the service path (24 bits) and the place on it.
    #[inline(always)]
    pub fn set_service_path(&mut self, path: u32, index: u8) {
        self.set::<SERVICE_PATH, _>(with_upper_24(index.into(), path));
    }
}

view! {
    /// A header with its metadata, and the payload behind it.
    Packet
}

fn check_bytes(bytes: &[u8]) -> Result<()> {
    let Some(header) = Header::of(bytes) else { return Err(Error::Truncated) };
    if header.version() != 0 {
        return Err(Error::Unsupported);
    }
    let len = header.header_len();
    // RFC 8300, section 2.2: six words of MD type 1, two or more of MD type 2.
    match header.md_type() {
        MD_TYPE_1 if len != TYPE_1_LEN => return Err(Error::Malformed),
        MD_TYPE_2 if len < HEADER_LEN => return Err(Error::Malformed),
        MD_TYPE_1 | MD_TYPE_2 => {}
        _ => return Err(Error::Unsupported),
    }
    if bytes.len() < len { Err(Error::Truncated) } else { Ok(()) }
}

forward! {
    Packet to Header[HEADER_LEN]:
    version -> u8, is_oam -> bool, ttl -> u8, header_len -> usize, md_type -> u8,
    next_protocol -> u8, service_path -> u32, service_index -> u8;
    set_ttl(u8), set_next_protocol(u8)
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// The metadata: 16 bytes of MD type 1, options of MD type 2.
    pub fn metadata(&self) -> &[u8] {
        &self.as_ref()[HEADER_LEN..self.header_len()]
    }

    /// What is carried.
    pub fn payload(&self) -> &[u8] {
        &self.as_ref()[self.header_len()..]
    }
}

/// A header of MD type 1 with metadata of zeros: the service path (24 bits), the place on
/// it, and what is carried.
pub fn type_1(path: u32, index: u8, protocol: u8) -> [u8; TYPE_1_LEN] {
    let mut bytes = [0; TYPE_1_LEN];
    if let Some(mut header) = Header::of_mut(&mut bytes) {
        header.set_base(DEFAULT_TTL, TYPE_1_LEN);
        header.set_md_type(MD_TYPE_1);
        header.set_next_protocol(protocol);
        header.set_service_path(path, index);
    }
    bytes
}
