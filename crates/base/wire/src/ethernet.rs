//! Ethernet II frames (IEEE 802.3-2022, section 3.2) without preamble and without
//! the frame check sequence, which the NIC makes and strips. 802.3 length fields
//! are read as an EtherType below 0x0600 and not followed.

use crate::field::{array_at, set_array, set_u16, u16_at};
use crate::{Error, MacAddress, Result};

/// Bytes of the header.
pub const HEADER_LEN: usize = 14;

/// What the payload is (IANA, IEEE 802 numbers).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EtherType(pub u16);

impl EtherType {
    /// Internet protocol, version 4.
    pub const IPV4: EtherType = EtherType(0x0800);
    /// Address resolution.
    pub const ARP: EtherType = EtherType(0x0806);
    /// A customer VLAN tag (802.1Q).
    pub const VLAN: EtherType = EtherType(0x8100);
    /// Internet protocol, version 6.
    pub const IPV6: EtherType = EtherType(0x86DD);
    /// MAC control, of which PAUSE is one.
    pub const MAC_CONTROL: EtherType = EtherType(0x8808);
    /// A service VLAN tag (802.1ad).
    pub const SERVICE_VLAN: EtherType = EtherType(0x88A8);
    /// The precision time protocol over Ethernet (IEEE 1588).
    pub const PTP: EtherType = EtherType(0x88F7);

    /// Whether a VLAN tag follows.
    pub fn is_tag(self) -> bool {
        self == EtherType::VLAN || self == EtherType::SERVICE_VLAN
    }
}

view! {
    /// A frame in place.
    Frame
}

fn check_bytes(bytes: &[u8]) -> Result<()> {
    if bytes.len() < HEADER_LEN { Err(Error::Truncated) } else { Ok(()) }
}

impl<T: AsRef<[u8]>> Frame<T> {
    /// To whom.
    pub fn dst(&self) -> MacAddress {
        MacAddress(array_at(self.as_ref(), 0))
    }

    /// From whom.
    pub fn src(&self) -> MacAddress {
        MacAddress(array_at(self.as_ref(), 6))
    }

    /// What the payload is.
    pub fn ethertype(&self) -> EtherType {
        EtherType(u16_at(self.as_ref(), 12))
    }

    /// All behind the header, padding included.
    pub fn payload(&self) -> &[u8] {
        &self.as_ref()[HEADER_LEN..]
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Frame<T> {
    /// Sets the destination.
    pub fn set_dst(&mut self, mac: MacAddress) {
        set_array(self.bytes.as_mut(), 0, &mac.0);
    }

    /// Sets the source.
    pub fn set_src(&mut self, mac: MacAddress) {
        set_array(self.bytes.as_mut(), 6, &mac.0);
    }

    /// Sets what the payload is.
    pub fn set_ethertype(&mut self, ethertype: EtherType) {
        set_u16(self.bytes.as_mut(), 12, ethertype.0);
    }

    /// All behind the header.
    pub fn payload_mut(&mut self) -> &mut [u8] {
        &mut self.bytes.as_mut()[HEADER_LEN..]
    }
}

/// What an Ethernet header means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repr {
    /// To whom.
    pub dst: MacAddress,
    /// From whom.
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

    /// Writes the header.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, frame: &mut Frame<T>) {
        frame.set_dst(self.dst);
        frame.set_src(self.src);
        frame.set_ethertype(self.ethertype);
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
