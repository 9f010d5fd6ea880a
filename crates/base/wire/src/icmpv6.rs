//! ICMP echo of version 6 (RFC 4443, section 4). Other messages, neighbour discovery
//! among them, can be viewed, but have no meaning here: [`Error::Unsupported`].

use crate::field::{set_array, set_u16, u16_at};
use crate::ip::{Addresses, Protocol};
use crate::{Error, Result, checksum};

/// Bytes of the header.
pub const HEADER_LEN: usize = 8;
/// The type of an answer.
pub const ECHO_REPLY: u8 = 129;
/// The type of a question.
pub const ECHO_REQUEST: u8 = 128;

view! {
    /// A message in place.
    Packet
}

fn check_bytes(bytes: &[u8]) -> Result<()> {
    if bytes.len() < HEADER_LEN { Err(Error::Truncated) } else { Ok(()) }
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// Which message.
    pub fn message_type(&self) -> u8 {
        self.as_ref()[0]
    }

    /// Which kind of it.
    pub fn code(&self) -> u8 {
        self.as_ref()[1]
    }

    /// The checksum as it stands.
    pub fn checksum(&self) -> u16 {
        u16_at(self.as_ref(), 2)
    }

    /// Of an echo: whose it is.
    pub fn identifier(&self) -> u16 {
        u16_at(self.as_ref(), 4)
    }

    /// Of an echo: which one.
    pub fn sequence(&self) -> u16 {
        u16_at(self.as_ref(), 6)
    }

    /// All behind the header.
    pub fn data(&self) -> &[u8] {
        &self.as_ref()[HEADER_LEN..]
    }

    /// Whether the checksum is right, which covers the pseudo header too.
    pub fn verify_checksum(&self, addresses: Addresses) -> bool {
        let pseudo = addresses.pseudo_header(Protocol::ICMPV6, self.as_ref().len());
        checksum::combine(pseudo, checksum::sum(self.as_ref())) == 0xFFFF
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Sets which message.
    pub fn set_message_type(&mut self, message_type: u8) {
        self.bytes.as_mut()[0] = message_type;
    }

    /// Sets which kind of it.
    pub fn set_code(&mut self, code: u8) {
        self.bytes.as_mut()[1] = code;
    }

    /// Sets the checksum.
    pub fn set_checksum(&mut self, checksum: u16) {
        set_u16(self.bytes.as_mut(), 2, checksum);
    }

    /// Sets whose the echo is.
    pub fn set_identifier(&mut self, identifier: u16) {
        set_u16(self.bytes.as_mut(), 4, identifier);
    }

    /// Sets which echo it is.
    pub fn set_sequence(&mut self, sequence: u16) {
        set_u16(self.bytes.as_mut(), 6, sequence);
    }

    /// All behind the header.
    pub fn data_mut(&mut self) -> &mut [u8] {
        &mut self.bytes.as_mut()[HEADER_LEN..]
    }

    /// Computes the checksum over pseudo header and all bytes, and sets it.
    pub fn fill_checksum(&mut self, addresses: Addresses) {
        self.set_checksum(0);
        let pseudo = addresses.pseudo_header(Protocol::ICMPV6, self.as_ref().len());
        let checksum = !checksum::combine(pseudo, checksum::sum(self.as_ref()));
        self.set_checksum(checksum);
    }
}

/// What an echo means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repr<'a> {
    /// An answer, else a question.
    pub reply: bool,
    /// Whose it is.
    pub identifier: u16,
    /// Which one.
    pub sequence: u16,
    /// What is to come back.
    pub data: &'a [u8],
}

impl<'a> Repr<'a> {
    /// Reads an echo.
    pub fn parse<T: AsRef<[u8]>>(packet: &'a Packet<T>) -> Result<Repr<'a>> {
        packet.check()?;
        let reply = match (packet.message_type(), packet.code()) {
            (ECHO_REPLY, 0) => true,
            (ECHO_REQUEST, 0) => false,
            _ => return Err(Error::Unsupported),
        };
        let (identifier, sequence) = (packet.identifier(), packet.sequence());
        Ok(Repr { reply, identifier, sequence, data: packet.data() })
    }

    /// Bytes that [`Repr::emit`] writes.
    pub const fn len(&self) -> usize {
        HEADER_LEN + self.data.len()
    }

    /// Never: there is always a header.
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// Writes the echo with its data; the checksum is still to be filled in.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, packet: &mut Packet<T>) {
        packet.set_message_type(if self.reply { ECHO_REPLY } else { ECHO_REQUEST });
        packet.set_code(0);
        packet.set_checksum(0);
        packet.set_identifier(self.identifier);
        packet.set_sequence(self.sequence);
        set_array(packet.data_mut(), 0, self.data);
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
