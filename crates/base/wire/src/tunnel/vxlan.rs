//! VXLAN (RFC 7348) and its generic protocol extension (draft-ietf-nvo3-vxlan-gpe-13): a
//! virtual network's number of 24 bits in front of an Ethernet frame, or of what the
//! extension names. Both lie over UDP.

use std::borrow::{Borrow, BorrowMut};

use super::{upper_24, with_upper_24};

/// Bytes of the header.
pub const HEADER_LEN: usize = 8;
/// The UDP port of VXLAN (RFC 7348, section 5).
pub const PORT: u16 = 4789;
/// The UDP port of VXLAN with the generic protocol extension.
pub const GPE_PORT: u16 = 4790;

/// Where the fields of the header are, in bytes.
pub mod offset {
    /// The flags: see [`flag`](super::flag).
    pub const FLAGS: usize = 0;
    /// What is carried; reserved without the extension.
    pub const NEXT_PROTOCOL: usize = 3;
    /// The virtual network's number (24 bits), and a reserved byte.
    pub const VNI: usize = 4;
}

/// The flags that a header may have.
pub mod flag {
    /// I: there is a virtual network's number.
    pub const VNI: u8 = 0x08;
    /// P: the header names what it carries (extension).
    pub const NEXT_PROTOCOL: u8 = 0x04;
    /// O: the packet is the tunnel's own, for operation and maintenance (extension).
    pub const OAM: u8 = 0x01;
    /// The version's bits (extension).
    pub const VERSION: u8 = 0x30;
}

/// What the extension says that is carried.
pub mod next_protocol {
    /// An IPv4 packet.
    pub const IPV4: u8 = 1;
    /// An IPv6 packet.
    pub const IPV6: u8 = 2;
    /// An Ethernet frame.
    pub const ETHERNET: u8 = 3;
    /// A packet with a network service header.
    pub const NSH: u8 = 4;
    /// A packet with MPLS labels.
    pub const MPLS: u8 = 5;
}

header! {
    /// The header that lies between UDP and the inner packet, eight bytes.
    Header[HEADER_LEN]
}

impl<T: Borrow<[u8; HEADER_LEN]>> Header<T> {
    /// The flags as they stand: see [`flag`].
    #[inline(always)]
    pub fn flags(&self) -> u8 {
        self.get::<{ offset::FLAGS }, _>()
    }

    /// What is carried, where [`flag::NEXT_PROTOCOL`] is set: see [`next_protocol`].
    #[inline(always)]
    pub fn next_protocol(&self) -> u8 {
        self.get::<{ offset::NEXT_PROTOCOL }, _>()
    }

    /// The virtual network's number, where [`flag::VNI`] is set: 24 bits.
    #[inline(always)]
    pub fn vni(&self) -> u32 {
        upper_24(self.get::<{ offset::VNI }, _>())
    }
}

impl<T: BorrowMut<[u8; HEADER_LEN]>> Header<T> {
    /// Sets the flags.
    #[inline(always)]
    pub fn set_flags(&mut self, flags: u8) {
        self.set::<{ offset::FLAGS }, _>(flags);
    }

    /// Sets what is carried.
    #[inline(always)]
    pub fn set_next_protocol(&mut self, protocol: u8) {
        self.set::<{ offset::NEXT_PROTOCOL }, _>(protocol);
    }

    /// Sets the virtual network's number (24 bits).
    #[inline(always)]
    pub fn set_vni(&mut self, vni: u32) {
        let word = self.get::<{ offset::VNI }, _>();
        self.set::<{ offset::VNI }, _>(with_upper_24(word, vni));
    }
}

/// The header of VXLAN in front of a frame of the virtual network `vni` (24 bits).
pub fn header(vni: u32) -> Header<[u8; HEADER_LEN]> {
    let mut header = Header::zeroed();
    header.set_flags(flag::VNI);
    header.set_vni(vni);
    header
}

/// The header of the generic protocol extension in front of what `protocol` names.
pub fn gpe_header(vni: u32, protocol: u8) -> Header<[u8; HEADER_LEN]> {
    let mut header = header(vni);
    header.set_flags(flag::VNI | flag::NEXT_PROTOCOL);
    header.set_next_protocol(protocol);
    header
}
