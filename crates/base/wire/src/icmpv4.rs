//! ICMP echo of version 4 (RFC 792). Other messages can be viewed, but have no
//! meaning here: [`Error::Unsupported`].

use std::borrow::{Borrow, BorrowMut};
use std::net::Ipv4Addr;

use crate::field::{set_slice, set_u16};
use crate::{Error, Result, checksum, ipv4};

/// Bytes of the header.
pub const HEADER_LEN: usize = 8;
/// The type of an answer.
pub const ECHO_REPLY: u8 = 0;
/// The type of an error: there is no way to the destination.
pub const UNREACHABLE: u8 = 3;
/// The code of the unreachable: the host does not know the protocol.
pub const PROTOCOL_UNREACHABLE: u8 = 2;
/// The code of the unreachable: nobody listens at the port.
pub const PORT_UNREACHABLE: u8 = 3;
/// The code of the unreachable: the packet is too long and must not be fragmented.
pub const NEEDS_FRAGMENTS: u8 = 4;
/// The type of an error: packets come too fast.
pub const SOURCE_QUENCH: u8 = 4;
/// The type of what names a better gateway.
pub const REDIRECT: u8 = 5;
/// The type of a question.
pub const ECHO_REQUEST: u8 = 8;
/// The type of a router's announcement (RFC 1256).
pub const ROUTER_ADVERTISEMENT: u8 = 9;
/// The type of a question for routers (RFC 1256).
pub const ROUTER_SOLICITATION: u8 = 10;
/// The type of an error: no hop left, or fragments came too late.
pub const TIME_EXCEEDED: u8 = 11;
/// The code of the time exceeded: fragments came too late.
pub const REASSEMBLY_TIME: u8 = 1;
/// The type of an error: a field of the header is wrong.
pub const PARAMETER_PROBLEM: u8 = 12;
/// The type of a question for the time.
pub const TIMESTAMP: u8 = 13;
/// The type of the answer with the time.
pub const TIMESTAMP_REPLY: u8 = 14;
/// The type of a question for the network's number.
pub const INFORMATION: u8 = 15;
/// The type of the answer with the network's number.
pub const INFORMATION_REPLY: u8 = 16;
/// The type of a question for the network's mask (RFC 950).
pub const MASK: u8 = 17;
/// The type of the answer with the network's mask (RFC 950).
pub const MASK_REPLY: u8 = 18;
/// Bytes of the header of a message about the time.
pub const TIMESTAMP_LEN: usize = 20;
/// Bytes of the header of a message about a mask.
pub const MASK_LEN: usize = 12;

/// Bytes that an error quotes at least: an IP header and eight bytes of its payload.
pub const LEAST_QUOTED: usize = ipv4::HEADER_LEN + 8;

/// Computes the checksum over all bytes of a message, and sets it. Panics when the
/// checksum's field is not in it.
pub fn fill_checksum(message: &mut [u8]) {
    set_u16(message, offset::CHECKSUM, 0);
    let checksum = checksum::of(message);
    set_u16(message, offset::CHECKSUM, checksum);
}

/// Whether a type is that of an error, which quotes the packet that it is about and
/// is never answered with another (RFC 1122, section 3.2.2).
pub const fn is_error(message_type: u8) -> bool {
    matches!(message_type, UNREACHABLE | SOURCE_QUENCH | REDIRECT | TIME_EXCEEDED | PARAMETER_PROBLEM)
}

/// Whether messages of a type have an identifier and a sequence number.
pub const fn is_numbered(message_type: u8) -> bool {
    matches!(
        message_type,
        ECHO_REPLY | ECHO_REQUEST | TIMESTAMP | TIMESTAMP_REPLY | INFORMATION | INFORMATION_REPLY
    )
}

/// Bytes of the header of messages of a type.
pub const fn header_len(message_type: u8) -> usize {
    match message_type {
        TIMESTAMP | TIMESTAMP_REPLY => TIMESTAMP_LEN,
        MASK | MASK_REPLY => MASK_LEN,
        _ => HEADER_LEN,
    }
}

/// Where the fields of the header are, in bytes.
pub mod offset {
    /// The type of the message.
    pub const TYPE: usize = 0;
    /// Which kind of it.
    pub const CODE: usize = 1;
    /// The checksum over header and data.
    pub const CHECKSUM: usize = 2;
    /// Of an echo: whose it is.
    pub const IDENTIFIER: usize = 4;
    /// Of an echo: which one.
    pub const SEQUENCE: usize = 6;
    /// Of the unreachable with [`super::NEEDS_FRAGMENTS`]: the longest packet.
    pub const MTU: usize = 6;
}

icmp!();

impl<T: Borrow<[u8; HEADER_LEN]>> Header<T> {
    /// The longest packet, of [`UNREACHABLE`] with [`NEEDS_FRAGMENTS`] (RFC 1191, section 4);
    /// zero from routers that do not tell.
    #[inline(always)]
    pub fn mtu(&self) -> u16 {
        self.get::<{ offset::MTU }, _>()
    }
}

impl<T: BorrowMut<[u8; HEADER_LEN]>> Header<T> {
    /// Sets the better gateway, of [`REDIRECT`].
    #[inline(always)]
    pub fn set_gateway(&mut self, gateway: Ipv4Addr) {
        self.set::<{ offset::IDENTIFIER }, _>(gateway);
    }

    /// Sets where the fault is in the packet, of [`PARAMETER_PROBLEM`].
    #[inline(always)]
    pub fn set_pointer(&mut self, pointer: u8) {
        self.set::<{ offset::IDENTIFIER }, _>(pointer);
    }

    /// Sets the longest packet, of [`UNREACHABLE`] with [`NEEDS_FRAGMENTS`] (RFC 1191,
    /// section 4).
    #[inline(always)]
    pub fn set_mtu(&mut self, mtu: u16) {
        self.set::<{ offset::MTU }, _>(mtu);
    }
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// Whether the checksum is right.
    pub fn verify_checksum(&self) -> bool {
        checksum::verify(self.as_ref())
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Computes the checksum over all bytes and sets it.
    pub fn fill_checksum(&mut self) {
        fill_checksum(self.bytes.as_mut());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_echo_reads_as_its_bytes() {
        // type 8, checksum 0xE3CB, identifier 0x1234, sequence 1, data "\x01\xFF"
        let bytes = [8, 0, 0xE3, 0xCB, 0x12, 0x34, 0, 1, 1, 0xFF];
        let packet = Packet::new_checked(&bytes[..]).expect("long enough");
        assert!(packet.verify_checksum());
        let expected = Repr { reply: false, identifier: 0x1234, sequence: 1, data: &[1, 0xFF] };
        assert_eq!(Repr::parse(&packet), Ok(expected));
        let unreachable = Packet::new_checked([3, 1, 0, 0, 0, 0, 0, 0]).expect("long enough");
        assert_eq!(Repr::parse(&unreachable), Err(Error::Unsupported));
    }
}
