//! UDP (RFC 768), and what IPv6 asks of its checksum (RFC 8200, section 8.1).

use crate::field::{set_u16, u16_at};
use crate::ip::{Addresses, Protocol};
use crate::{Error, Result, checksum};

/// Bytes of the header.
pub const HEADER_LEN: usize = 8;

view! {
    /// A datagram in place. Bytes behind its length are no part of the payload.
    Datagram
}

fn check_bytes(bytes: &[u8]) -> Result<()> {
    if bytes.len() < HEADER_LEN {
        return Err(Error::Truncated);
    }
    let len = usize::from(u16_at(bytes, 4));
    if len < HEADER_LEN {
        return Err(Error::Malformed);
    }
    if bytes.len() < len { Err(Error::Truncated) } else { Ok(()) }
}

impl<T: AsRef<[u8]>> Datagram<T> {
    /// From which port.
    pub fn src_port(&self) -> u16 {
        u16_at(self.as_ref(), 0)
    }

    /// To which port.
    pub fn dst_port(&self) -> u16 {
        u16_at(self.as_ref(), 2)
    }

    /// Bytes of header and payload, as the header says.
    pub fn total_len(&self) -> usize {
        u16_at(self.as_ref(), 4).into()
    }

    /// The checksum as it stands; 0 is none.
    pub fn checksum(&self) -> u16 {
        u16_at(self.as_ref(), 6)
    }

    /// What the datagram carries.
    pub fn payload(&self) -> &[u8] {
        &self.as_ref()[HEADER_LEN..self.total_len()]
    }

    /// Whether the checksum is right. None at all is right in IPv4 and wrong in IPv6.
    pub fn verify_checksum(&self, addresses: Addresses) -> bool {
        if self.checksum() == 0 {
            return matches!(addresses, Addresses::V4 { .. });
        }
        self.sum(addresses) == 0xFFFF
    }

    fn sum(&self, addresses: Addresses) -> u16 {
        let pseudo = addresses.pseudo_header(Protocol::UDP, self.total_len());
        checksum::combine(pseudo, checksum::sum(&self.as_ref()[..self.total_len()]))
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Datagram<T> {
    /// Sets from which port.
    pub fn set_src_port(&mut self, port: u16) {
        set_u16(self.bytes.as_mut(), 0, port);
    }

    /// Sets to which port.
    pub fn set_dst_port(&mut self, port: u16) {
        set_u16(self.bytes.as_mut(), 2, port);
    }

    /// Sets the bytes of header and payload.
    pub fn set_total_len(&mut self, len: u16) {
        set_u16(self.bytes.as_mut(), 4, len);
    }

    /// Sets the checksum.
    pub fn set_checksum(&mut self, checksum: u16) {
        set_u16(self.bytes.as_mut(), 6, checksum);
    }

    /// What the datagram carries.
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let end = self.total_len();
        &mut self.bytes.as_mut()[HEADER_LEN..end]
    }

    /// Computes the checksum over pseudo header, header and payload, and sets it.
    pub fn fill_checksum(&mut self, addresses: Addresses) {
        self.set_checksum(0);
        // A sum that comes out as 0 is sent as its other form, because 0 is none.
        let checksum = match !self.sum(addresses) {
            0 => 0xFFFF,
            checksum => checksum,
        };
        self.set_checksum(checksum);
    }

    /// Sets the sum of the pseudo header alone: where a NIC that makes checksums
    /// starts from.
    pub fn fill_pseudo_checksum(&mut self, addresses: Addresses) {
        let pseudo = addresses.pseudo_header(Protocol::UDP, self.total_len());
        self.set_checksum(pseudo);
    }
}

/// What a UDP header means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repr {
    /// From which port.
    pub src_port: u16,
    /// To which port.
    pub dst_port: u16,
    /// Bytes of the payload, at most 65,527.
    pub payload_len: usize,
}

impl Repr {
    /// Reads the header.
    pub fn parse<T: AsRef<[u8]>>(datagram: &Datagram<T>) -> Result<Repr> {
        datagram.check()?;
        Ok(Repr {
            src_port: datagram.src_port(),
            dst_port: datagram.dst_port(),
            payload_len: datagram.total_len() - HEADER_LEN,
        })
    }

    /// Bytes that [`Repr::emit`] writes.
    pub const fn header_len(&self) -> usize {
        HEADER_LEN
    }

    /// Writes the header; the checksum is still to be filled in.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, datagram: &mut Datagram<T>) {
        datagram.set_src_port(self.src_port);
        datagram.set_dst_port(self.dst_port);
        datagram.set_total_len((HEADER_LEN + self.payload_len) as u16);
        datagram.set_checksum(0);
    }
}
