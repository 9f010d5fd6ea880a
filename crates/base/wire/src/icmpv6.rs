//! ICMP echo of version 6 (RFC 4443, section 4). Other messages, neighbour discovery
//! among them, can be viewed, but have no meaning here: [`Error::Unsupported`].

use std::borrow::{Borrow, BorrowMut};

use crate::field::set_slice;
use crate::ip::{Addresses, Protocol};
use crate::{Error, Result, checksum};

/// Bytes of the header.
pub const HEADER_LEN: usize = 8;
/// The type of an error: there is no way to the destination.
pub const UNREACHABLE: u8 = 1;
/// The code of the unreachable: nobody listens at the port.
pub const PORT_UNREACHABLE: u8 = 4;
/// The type of an error: the packet is longer than the next link takes.
pub const TOO_BIG: u8 = 2;
/// The type of an error: no hop left, or fragments came too late.
pub const TIME_EXCEEDED: u8 = 3;
/// The code of the time exceeded: fragments came too late.
pub const REASSEMBLY_TIME: u8 = 1;
/// The type of an error: a field of the packet is wrong.
pub const PARAMETER_PROBLEM: u8 = 4;
/// The code of a parameter problem: an option that is not known.
pub const UNKNOWN_OPTION: u8 = 2;
/// The type of a question.
pub const ECHO_REQUEST: u8 = 128;
/// The type of an answer.
pub const ECHO_REPLY: u8 = 129;
/// The type of a host's question for routers (RFC 4861).
pub const ROUTER_SOLICITATION: u8 = 133;
/// The type of what routers tell hosts (RFC 4861).
pub const ROUTER_ADVERTISEMENT: u8 = 134;
/// The type of neighbor discovery's question (RFC 4861).
pub const NEIGHBOR_SOLICITATION: u8 = 135;
/// The type of neighbor discovery's answer (RFC 4861).
pub const NEIGHBOR_ADVERTISEMENT: u8 = 136;
/// The type of what names a better gateway (RFC 4861).
pub const REDIRECT: u8 = 137;

/// Whether a type is that of an error: those below 128 are (section 2.1).
pub const fn is_error(message_type: u8) -> bool {
    message_type < ECHO_REQUEST
}

/// Where the fields of the header are, in bytes.
pub mod offset {
    /// The type of the message.
    pub const TYPE: usize = 0;
    /// Which kind of it.
    pub const CODE: usize = 1;
    /// The checksum over pseudo-header, header and data.
    pub const CHECKSUM: usize = 2;
    /// Of an echo: whose it is.
    pub const IDENTIFIER: usize = 4;
    /// Of an echo: which one.
    pub const SEQUENCE: usize = 6;
}

icmp!();

impl<T: Borrow<[u8; HEADER_LEN]>> Header<T> {
    /// The longest packet, of [`TOO_BIG`].
    #[inline(always)]
    pub fn mtu(&self) -> u32 {
        self.get::<{ offset::IDENTIFIER }, _>()
    }

    /// Where the fault is in the packet, of [`PARAMETER_PROBLEM`].
    #[inline(always)]
    pub fn pointer(&self) -> u32 {
        self.get::<{ offset::IDENTIFIER }, _>()
    }
}

impl<T: BorrowMut<[u8; HEADER_LEN]>> Header<T> {
    /// Sets the longest packet, of [`TOO_BIG`].
    #[inline(always)]
    pub fn set_mtu(&mut self, mtu: u32) {
        self.set::<{ offset::IDENTIFIER }, _>(mtu);
    }

    /// Sets where the fault is in the packet, of [`PARAMETER_PROBLEM`].
    #[inline(always)]
    pub fn set_pointer(&mut self, pointer: u32) {
        self.set::<{ offset::IDENTIFIER }, _>(pointer);
    }
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// Whether the checksum is right, which covers the pseudo header too.
    pub fn verify_checksum(&self, addresses: Addresses) -> bool {
        let pseudo = addresses.pseudo_header(Protocol::ICMPV6, self.as_ref().len());
        checksum::is_right(checksum::combine(pseudo, checksum::sum(self.as_ref())))
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Computes the checksum over pseudo header and all bytes, and sets it.
    pub fn fill_checksum(&mut self, addresses: Addresses) {
        self.set_checksum(0);
        let pseudo = addresses.pseudo_header(Protocol::ICMPV6, self.as_ref().len());
        let checksum = !checksum::combine(pseudo, checksum::sum(self.as_ref()));
        self.set_checksum(checksum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_echo_reads_as_its_bytes() {
        // From ::1 to ::1: the pseudo header is 1 + 1 + 10 bytes + protocol 58.
        let bytes = [128, 0, 0x6B, 0x85, 0x12, 0x34, 0, 1, 1, 0xFF];
        let packet = Packet::new_checked(&bytes[..]).expect("long enough");
        let loopback = std::net::Ipv6Addr::LOCALHOST;
        assert!(packet.verify_checksum(Addresses::V6 { src: loopback, dst: loopback }));
        let expected = Repr { reply: false, identifier: 0x1234, sequence: 1, data: &[1, 0xFF] };
        assert_eq!(Repr::parse(&packet), Ok(expected));
        let solicitation = Packet::new_checked([135, 0, 0, 0, 0, 0, 0, 0]).expect("long enough");
        assert_eq!(Repr::parse(&solicitation), Err(Error::Unsupported));
    }
}
