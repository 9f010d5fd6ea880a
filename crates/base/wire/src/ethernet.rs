//! Ethernet II frames (IEEE 802.3-2022, section 3.2) without preamble and without
//! the frame check sequence, which the NIC makes and strips. 802.3 length fields
//! are read as an EtherType below 0x0600 and not followed.

use std::borrow::{Borrow, BorrowMut};

use crate::{Error, MacAddress, Result};

/// Bytes of the header.
pub const HEADER_LEN: usize = 14;
/// Bytes of the addresses in front of the EtherType, or of a VLAN tag.
pub const ADDRESSES_LEN: usize = 12;

/// What the payload is (IANA, IEEE 802 numbers).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EtherType(pub u16);

impl EtherType {
    /// Internet protocol, version 4.
    pub const IPV4: EtherType = EtherType(0x0800);
    /// IP with its header behind the data (RFC 893).
    pub const TRAILERS: EtherType = EtherType(0x1000);
    /// Address resolution (ARP, RFC 826).
    pub const ARP: EtherType = EtherType(0x0806);
    /// A customer VLAN tag (802.1Q).
    pub const VLAN: EtherType = EtherType(0x8100);
    /// Internet protocol, version 6.
    pub const IPV6: EtherType = EtherType(0x86DD);
    /// An Ethernet frame, as GRE carries one (RFC 1701, RFC 7637).
    pub const TRANSPARENT_BRIDGING: EtherType = EtherType(0x6558);
    /// A packet under MPLS labels (RFC 3032).
    pub const MPLS: EtherType = EtherType(0x8847);
    /// A packet under MPLS labels for many receivers, or with a label that the sender's
    /// neighbour assigned (RFC 5332).
    pub const MPLS_UPSTREAM: EtherType = EtherType(0x8848);
    /// A packet with a network service header (RFC 8300).
    pub const NSH: EtherType = EtherType(0x894F);
    /// MAC control, of which PAUSE is one.
    pub const MAC_CONTROL: EtherType = EtherType(0x8808);
    /// The link layer discovery protocol (802.1AB).
    pub const LLDP: EtherType = EtherType(0x88CC);
    /// A service VLAN tag (802.1ad).
    pub const SERVICE_VLAN: EtherType = EtherType(0x88A8);
    /// The precision time protocol over Ethernet (IEEE 1588).
    pub const PTP: EtherType = EtherType(0x88F7);
    /// Local experiments (IEEE 802-2014, section 9.2.4): nobody else's traffic.
    pub const LOCAL_EXPERIMENT: EtherType = EtherType(0x88B5);
    /// The second one for local experiments.
    pub const LOCAL_EXPERIMENT_2: EtherType = EtherType(0x88B6);

    /// Whether a VLAN tag follows.
    pub fn is_tag(self) -> bool {
        self == EtherType::VLAN || self == EtherType::SERVICE_VLAN
    }
}

/// Where the fields of a header are, in bytes.
pub mod offset {
    /// The destination address.
    pub const DST: usize = 0;
    /// The source address.
    pub const SRC: usize = 6;
    /// What the payload is.
    pub const ETHERTYPE: usize = 12;
}

header! {
    /// The header of a frame: both addresses and the EtherType.
    Header[HEADER_LEN]
}

impl<T: Borrow<[u8; HEADER_LEN]>> Header<T> {
    /// The destination address.
    #[inline(always)]
    pub fn dst(&self) -> MacAddress {
        self.get::<{ offset::DST }, _>()
    }

    /// The source address.
    #[inline(always)]
    pub fn src(&self) -> MacAddress {
        self.get::<{ offset::SRC }, _>()
    }

    /// What the payload is.
    #[inline(always)]
    pub fn ethertype(&self) -> EtherType {
        self.get::<{ offset::ETHERTYPE }, _>()
    }
}

impl<T: BorrowMut<[u8; HEADER_LEN]>> Header<T> {
    /// Sets the destination.
    #[inline(always)]
    pub fn set_dst(&mut self, value: MacAddress) {
        self.set::<{ offset::DST }, _>(value);
    }

    /// Sets the source.
    #[inline(always)]
    pub fn set_src(&mut self, value: MacAddress) {
        self.set::<{ offset::SRC }, _>(value);
    }

    /// Sets what the payload is.
    #[inline(always)]
    pub fn set_ethertype(&mut self, value: EtherType) {
        self.set::<{ offset::ETHERTYPE }, _>(value);
    }
}

impl Header<[u8; HEADER_LEN]> {
    /// The header of a frame to `dst`, from `src`.
    #[inline(always)]
    pub fn between(dst: MacAddress, src: MacAddress, ethertype: EtherType) -> Self {
        Repr { dst, src, ethertype }.header()
    }
}

header! {
    /// The two addresses that a frame begins with.
    Addresses[ADDRESSES_LEN]
}

impl<T: Borrow<[u8; ADDRESSES_LEN]>> Addresses<T> {
    /// The destination address.
    #[inline(always)]
    pub fn dst(&self) -> MacAddress {
        self.get::<{ offset::DST }, _>()
    }

    /// The source address.
    #[inline(always)]
    pub fn src(&self) -> MacAddress {
        self.get::<{ offset::SRC }, _>()
    }
}

impl<T: BorrowMut<[u8; ADDRESSES_LEN]>> Addresses<T> {
    /// Exchanges destination and source.
    #[inline(always)]
    pub fn swap(&mut self) {
        let (dst, src) = (self.dst(), self.src());
        self.set::<{ offset::DST }, _>(src);
        self.set::<{ offset::SRC }, _>(dst);
    }
}

view! {
    /// A frame in place.
    Frame
}

fn check_bytes(bytes: &[u8]) -> Result<()> {
    if bytes.len() < HEADER_LEN { Err(Error::Truncated) } else { Ok(()) }
}

forward! {
    Frame to Header[HEADER_LEN]:
    dst -> MacAddress, src -> MacAddress, ethertype -> EtherType;
    set_dst(MacAddress), set_src(MacAddress), set_ethertype(EtherType)
}

impl<T: AsRef<[u8]>> Frame<T> {
    /// All behind the header, padding included.
    pub fn payload(&self) -> &[u8] {
        &self.as_ref()[HEADER_LEN..]
    }
}

impl<'a> Frame<&'a [u8]> {
    /// All behind the header, for as long as the bytes live.
    pub fn into_payload(self) -> &'a [u8] {
        &self.bytes[HEADER_LEN..]
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Frame<T> {
    /// All behind the header.
    pub fn payload_mut(&mut self) -> &mut [u8] {
        &mut self.bytes.as_mut()[HEADER_LEN..]
    }
}

/// What an Ethernet header means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repr {
    /// The destination address.
    pub dst: MacAddress,
    /// The source address.
    pub src: MacAddress,
    /// What the payload is.
    pub ethertype: EtherType,
}

impl Repr {
    /// Reads the header.
    pub fn parse<T: AsRef<[u8]>>(frame: &Frame<T>) -> Result<Repr> {
        frame.check()?;
        Ok(Repr { dst: frame.dst(), src: frame.src(), ethertype: frame.ethertype() })
    }

    /// Bytes that [`Repr::emit`] writes.
    pub const fn header_len(&self) -> usize {
        HEADER_LEN
    }

    /// Writes the header over an array.
    #[inline(always)]
    pub fn write<T: BorrowMut<[u8; HEADER_LEN]>>(&self, header: &mut Header<T>) {
        header.set_dst(self.dst);
        header.set_src(self.src);
        header.set_ethertype(self.ethertype);
    }

    /// The header as bytes.
    #[inline(always)]
    pub fn header(&self) -> Header<[u8; HEADER_LEN]> {
        let mut header = Header::zeroed();
        self.write(&mut header);
        header
    }

    /// Writes the header.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, frame: &mut Frame<T>) {
        self.write(&mut frame.header_mut());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_reads_as_its_bytes() {
        let bytes = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x08, 0x06, 0xAA];
        let frame = Frame::new_checked(&bytes[..]).expect("long enough");
        assert_eq!(frame.dst().to_string(), "02:00:00:00:00:01");
        assert_eq!(frame.src().to_string(), "02:00:00:00:00:02");
        assert_eq!((frame.ethertype(), frame.payload()), (EtherType::ARP, &[0xAA][..]));
        assert_eq!(Frame::new_checked(&bytes[..13]), Err(Error::Truncated));
    }
}
