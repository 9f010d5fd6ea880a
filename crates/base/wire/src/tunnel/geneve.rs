//! Geneve (RFC 8926): a virtual network's number of 24 bits, an EtherType that says what is
//! carried, and options as type, length and value. It lies over UDP.

use std::borrow::{Borrow, BorrowMut};

use super::{upper_24, with_upper_24};
use crate::ethernet::EtherType;
use crate::field::u16_at;
use crate::{Error, Result};

/// Bytes of the header without options.
pub const HEADER_LEN: usize = 8;
/// Bytes of an option's header.
pub const OPTION_HEADER_LEN: usize = 4;
/// Bytes of all options at most.
pub const MAX_OPTIONS_LEN: usize = 252;
/// The UDP port (RFC 8926, section 3.3).
pub const PORT: u16 = 6081;

/// The flags of the header's second byte.
pub mod flag {
    /// O: the packet is the tunnel's own, and carries no payload of the network.
    pub const CONTROL: u8 = 0x80;
    /// C: there are options that a receiver must know or drop the packet.
    pub const CRITICAL: u8 = 0x40;
}

/// An option's type has this bit when a receiver must know it.
pub const CRITICAL_OPTION: u8 = 0x80;

/// Where the fields of the header are, in bytes.
pub mod offset {
    /// The version (2 bits), and the options' length in units of four bytes.
    pub const VERSION: usize = 0;
    /// The flags for control packets and critical options, and reserved bits.
    pub const FLAGS: usize = 1;
    /// What is carried.
    pub const PROTOCOL: usize = 2;
    /// The virtual network's number (24 bits), and a reserved byte.
    pub const VNI: usize = 4;
}

header! {
    /// The header without options.
    Header[HEADER_LEN]
}

impl<T: Borrow<[u8; HEADER_LEN]>> Header<T> {
    /// The version, which is 0.
    #[inline(always)]
    pub fn version(&self) -> u8 {
        self.get::<{ offset::VERSION }, u8>() >> 6
    }

    /// Bytes of all options, as the header says.
    #[inline(always)]
    pub fn options_len(&self) -> usize {
        usize::from(self.get::<{ offset::VERSION }, u8>() & 0x3F) * 4
    }

    /// The flags: see [`flag`].
    #[inline(always)]
    pub fn flags(&self) -> u8 {
        self.get::<{ offset::FLAGS }, _>()
    }

    /// What is carried.
    #[inline(always)]
    pub fn protocol(&self) -> EtherType {
        self.get::<{ offset::PROTOCOL }, _>()
    }

    /// The virtual network's number: 24 bits.
    #[inline(always)]
    pub fn vni(&self) -> u32 {
        upper_24(self.get::<{ offset::VNI }, _>())
    }
}

impl<T: BorrowMut<[u8; HEADER_LEN]>> Header<T> {
    /// Sets version 0 and the bytes of all options, a multiple of four, at most
    /// [`MAX_OPTIONS_LEN`].
    #[inline(always)]
    pub fn set_options_len(&mut self, len: usize) {
        self.set::<{ offset::VERSION }, u8>((len / 4) as u8 & 0x3F);
    }

    /// Sets the flags.
    #[inline(always)]
    pub fn set_flags(&mut self, flags: u8) {
        self.set::<{ offset::FLAGS }, _>(flags);
    }

    /// Sets what is carried.
    #[inline(always)]
    pub fn set_protocol(&mut self, protocol: EtherType) {
        self.set::<{ offset::PROTOCOL }, _>(protocol);
    }

    /// Sets the virtual network's number (24 bits).
    #[inline(always)]
    pub fn set_vni(&mut self, vni: u32) {
        let word = self.get::<{ offset::VNI }, _>();
        self.set::<{ offset::VNI }, _>(with_upper_24(word, vni));
    }
}

view! {
    /// A header with its options, and the payload behind it.
    Packet
}

fn check_bytes(bytes: &[u8]) -> Result<()> {
    let Some(header) = Header::of(bytes) else { return Err(Error::Truncated) };
    if header.version() != 0 {
        return Err(Error::Unsupported);
    }
    let mut options = bytes[HEADER_LEN..].get(..header.options_len()).ok_or(Error::Truncated)?;
    while !options.is_empty() {
        let (_, rest) = split_option(options).ok_or(Error::Malformed)?;
        options = rest;
    }
    Ok(())
}

forward! {
    Packet to Header[HEADER_LEN]:
    version -> u8, options_len -> usize, flags -> u8, protocol -> EtherType, vni -> u32;
    set_flags(u8), set_protocol(EtherType), set_vni(u32)
}

/// One option of a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct GeneveOption<'a> {
    /// Who defines the types (IANA, Geneve option classes).
    pub class: u16,
    /// The type, with [`CRITICAL_OPTION`] in it.
    pub option_type: u8,
    /// The value: a multiple of four bytes, at most 124.
    pub data: &'a [u8],
}

impl GeneveOption<'_> {
    /// Whether a receiver that does not know the option must drop the packet.
    pub const fn is_critical(&self) -> bool {
        self.option_type & CRITICAL_OPTION != 0
    }
}

/// The first option, and what follows; `None` when it does not end within the bytes.
fn split_option(bytes: &[u8]) -> Option<(GeneveOption<'_>, &[u8])> {
    let &[_, _, option_type, len, ..] = bytes else { return None };
    let end = OPTION_HEADER_LEN + usize::from(len & 0x1F) * 4;
    let data = bytes.get(OPTION_HEADER_LEN..end)?;
    Some((GeneveOption { class: u16_at(bytes, 0), option_type, data }, &bytes[end..]))
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// Bytes in front of the payload.
    pub fn header_len(&self) -> usize {
        HEADER_LEN + self.options_len()
    }

    /// The options, in their order.
    pub fn options(&self) -> impl Iterator<Item = GeneveOption<'_>> + '_ {
        let mut rest = &self.as_ref()[HEADER_LEN..self.header_len()];
        std::iter::from_fn(move || {
            let (option, behind) = split_option(rest)?;
            rest = behind;
            Some(option)
        })
    }

    /// What is carried.
    pub fn payload(&self) -> &[u8] {
        &self.as_ref()[self.header_len()..]
    }
}

/// The header without options in front of what `protocol` names.
pub fn header(vni: u32, protocol: EtherType) -> Header<[u8; HEADER_LEN]> {
    let mut header = Header::zeroed();
    header.set_protocol(protocol);
    header.set_vni(vni);
    header
}
