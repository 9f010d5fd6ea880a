//! UDP (RFC 768), and what IPv6 asks of its checksum (RFC 8200, section 8.1).

use std::borrow::{Borrow, BorrowMut};

use crate::ip::{Addresses, LONGEST, Protocol};
use crate::{Error, Result, checksum};

/// Bytes of the header.
pub const HEADER_LEN: usize = 8;

/// Where the fields of the header are, in bytes.
pub mod offset {
    /// From which port.
    pub const SRC_PORT: usize = 0;
    /// To which port.
    pub const DST_PORT: usize = 2;
    /// Bytes of header and payload.
    pub const LEN: usize = 4;
    /// The checksum over pseudo-header, header and payload; zero where IPv4's sender made none.
    pub const CHECKSUM: usize = 6;
}

header! {
    /// The header of a datagram, eight bytes.
    Header[HEADER_LEN]
}

ports! { Header[HEADER_LEN] }

impl<T: Borrow<[u8; HEADER_LEN]>> Header<T> {
    /// The checksum as it stands; 0 is none.
    #[inline(always)]
    pub fn checksum(&self) -> u16 {
        self.get::<{ offset::CHECKSUM }, _>()
    }

    /// Bytes of header and payload, as the header says.
    #[inline(always)]
    pub fn total_len(&self) -> usize {
        self.get::<{ offset::LEN }, u16>().into()
    }
}

impl<T: BorrowMut<[u8; HEADER_LEN]>> Header<T> {
    /// Sets from which port.
    #[inline(always)]
    pub fn set_src_port(&mut self, value: u16) {
        self.set::<{ offset::SRC_PORT }, _>(value);
    }

    /// Sets to which port.
    #[inline(always)]
    pub fn set_dst_port(&mut self, value: u16) {
        self.set::<{ offset::DST_PORT }, _>(value);
    }

    /// Sets the checksum.
    #[inline(always)]
    pub fn set_checksum(&mut self, value: u16) {
        self.set::<{ offset::CHECKSUM }, _>(value);
    }

    /// Sets the bytes of header and payload.
    #[inline(always)]
    pub fn set_total_len(&mut self, len: u16) {
        self.set::<{ offset::LEN }, _>(len);
    }
}

view! {
    /// A datagram in place. Bytes behind its length are no part of the payload.
    Datagram
}

fn check_bytes(bytes: &[u8]) -> Result<()> {
    let Some(header) = Header::of(bytes) else { return Err(Error::Truncated) };
    let len = header.total_len();
    if len < HEADER_LEN {
        return Err(Error::Malformed);
    }
    if bytes.len() < len { Err(Error::Truncated) } else { Ok(()) }
}

forward! {
    Datagram to Header[HEADER_LEN]:
    src_port -> u16, dst_port -> u16, total_len -> usize, checksum -> u16;
    set_src_port(u16), set_dst_port(u16), set_total_len(u16), set_checksum(u16)
}

impl<T: AsRef<[u8]>> Datagram<T> {
    /// What the datagram carries.
    pub fn payload(&self) -> &[u8] {
        &self.as_ref()[HEADER_LEN..self.total_len()]
    }

    /// Whether the checksum is right. None at all is right in IPv4 and wrong in IPv6.
    pub fn verify_checksum(&self, addresses: Addresses) -> bool {
        if self.checksum() == 0 {
            return matches!(addresses, Addresses::V4 { .. });
        }
        checksum::is_right(self.sum(addresses))
    }

    fn sum(&self, addresses: Addresses) -> u16 {
        let pseudo = addresses.pseudo_header(Protocol::UDP, self.total_len());
        checksum::combine(pseudo, checksum::sum(&self.as_ref()[..self.total_len()]))
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Datagram<T> {
    /// What the datagram carries.
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let end = self.total_len();
        &mut self.bytes.as_mut()[HEADER_LEN..end]
    }

    /// Computes the checksum over pseudo header, header and payload, and sets it.
    pub fn fill_checksum(&mut self, addresses: Addresses) {
        self.set_checksum(0);
        let checksum = checksum::never_zero(!self.sum(addresses));
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

    /// Writes the header over an array; the checksum is still to be filled in. A length that 16 bits do
    /// not hold is the largest that they do: it does not begin anew at zero.
    #[inline(always)]
    pub fn write<T: BorrowMut<[u8; HEADER_LEN]>>(&self, header: &mut Header<T>) {
        header.set_src_port(self.src_port);
        header.set_dst_port(self.dst_port);
        header.set_total_len((HEADER_LEN + self.payload_len.min(LONGEST - HEADER_LEN)) as u16);
        header.set_checksum(0);
    }

    /// The header as bytes, without a checksum.
    pub fn header(&self) -> Header<[u8; HEADER_LEN]> {
        let mut header = Header::zeroed();
        self.write(&mut header);
        header
    }

    /// Writes the header; the checksum is still to be filled in.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, datagram: &mut Datagram<T>) {
        self.write(&mut datagram.header_mut());
    }
}
