//! The data packets of LISP (RFC 9300, section 5): flags, a nonce or map versions, and
//! where the flag I is set the number of the instance (24 bits) that an inner address
//! belongs to. It lies over UDP, and carries an IP packet.

use std::borrow::{Borrow, BorrowMut};

use super::{upper_24, with_upper_24};

/// Bytes of the header.
pub const HEADER_LEN: usize = 8;
/// The UDP port of data packets (RFC 9300, section 5.3).
pub const PORT: u16 = 4341;

/// The flags of the first byte.
pub mod flag {
    /// N: there is a nonce.
    pub const NONCE: u8 = 0x80;
    /// L: the locators' status bits are meant.
    pub const LOCATOR_STATUS: u8 = 0x40;
    /// E: the nonce is to be sent back.
    pub const ECHO_NONCE: u8 = 0x20;
    /// V: there are map versions, and no nonce.
    pub const MAP_VERSION: u8 = 0x10;
    /// I: there is an instance's number.
    pub const INSTANCE: u8 = 0x08;
    /// KK: the payload is encrypted with one of three keys (RFC 8061).
    pub const KEY: u8 = 0x03;
}

/// Where the fields of the header are, in bytes.
pub mod offset {
    /// The flags: see [`flag`](super::flag).
    pub const FLAGS: usize = 0;
    /// The instance's number (24 bits) and status bits, or status bits alone.
    pub const INSTANCE: usize = 4;
}

header! {
    /// The header that lies between UDP and the inner packet, eight bytes.
    Header[HEADER_LEN]
}

impl<T: Borrow<[u8; HEADER_LEN]>> Header<T> {
    /// The flags: see [`flag`].
    #[inline(always)]
    pub fn flags(&self) -> u8 {
        self.get::<{ offset::FLAGS }, _>()
    }

    /// The instance that inner addresses belong to: 24 bits.
    #[inline(always)]
    pub fn instance(&self) -> Option<u32> {
        let word = self.get::<{ offset::INSTANCE }, _>();
        (self.flags() & flag::INSTANCE != 0).then_some(upper_24(word))
    }
}

impl<T: BorrowMut<[u8; HEADER_LEN]>> Header<T> {
    /// Sets the flags.
    #[inline(always)]
    pub fn set_flags(&mut self, flags: u8) {
        self.set::<{ offset::FLAGS }, _>(flags);
    }

    /// Sets the instance's number (24 bits); its flag is for [`Header::set_flags`].
    #[inline(always)]
    pub fn set_instance(&mut self, instance: u32) {
        let word = self.get::<{ offset::INSTANCE }, _>();
        self.set::<{ offset::INSTANCE }, _>(with_upper_24(word, instance));
    }
}

/// The header in front of a packet of an instance (24 bits).
pub fn header(instance: u32) -> Header<[u8; HEADER_LEN]> {
    let mut header = Header::zeroed();
    header.set_flags(flag::INSTANCE);
    header.set_instance(instance);
    header
}
