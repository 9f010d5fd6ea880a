//! Data frames of Wi-Fi (IEEE 802.11-2020, 9.2 and 9.3.2), and the LLC and SNAP headers
//! (RFC 1042) in front of what they carry. Nothing is encrypted or authenticated here.

use std::borrow::{Borrow, BorrowMut};

use crate::MacAddress;
use crate::ethernet::EtherType;

/// Bytes of the header of a frame with three addresses.
pub const HEADER_LEN: usize = 24;
/// Bytes of a fourth address.
const FOURTH_LEN: usize = 6;
/// Bytes of the field about quality of service.
const QOS_LEN: usize = 2;
/// Bytes of LLC and SNAP.
pub const SNAP_LEN: usize = 8;

/// The frame control of a data frame: version 0, type 2, subtype 0.
const DATA: u8 = 0x08;
/// The same of a control frame, but for its subtype.
const CONTROL: u8 = 0x04;
/// The bits of the type, and of subtypes with a field about quality of service.
const TYPE: u8 = 0x0C;
const QOS: u8 = 0x80;
/// The bits of the direction, in the second byte of the frame control.
const DIRECTION: u8 = 0x03;
/// The frame was sent before.
const RETRY: u8 = 0x08;
/// More fragments follow.
const MORE_FRAGMENTS: u8 = 0x04;
/// The body is encrypted.
const PROTECTED: u8 = 0x40;
/// What SNAP has in front of the Ethernet type.
const SNAP: [u8; 6] = [0xAA, 0xAA, 0x03, 0, 0, 0];

/// Which way a frame goes, to or from the distribution system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From a station to a station.
    Neither,
    /// From a station to an access point.
    To,
    /// From an access point to a station.
    From,
    /// From an access point to an access point.
    Both,
}

impl Direction {
    /// The direction of a number, as the frame control has it.
    pub const fn of(number: u8) -> Direction {
        match number & DIRECTION {
            0 => Direction::Neither,
            1 => Direction::To,
            2 => Direction::From,
            _ => Direction::Both,
        }
    }
}

header! {
    /// The header of a data frame, its first three addresses.
    Header[HEADER_LEN]
}

/// Where the fields are, in bytes.
mod offset {
    pub(super) const CONTROL: usize = 0;
    pub(super) const FLAGS: usize = 1;
    pub(super) const ADDRESSES: [usize; 3] = [4, 10, 16];
    pub(super) const SEQUENCE: usize = 22;
}

impl<T: Borrow<[u8; HEADER_LEN]>> Header<T> {
    /// Which way it goes.
    pub fn direction(&self) -> Direction {
        Direction::of(self.get::<{ offset::FLAGS }, _>())
    }

    /// Whether it is a data frame, of whichever subtype.
    pub fn is_data(&self) -> bool {
        self.get::<{ offset::CONTROL }, u8>() & TYPE == DATA
    }

    /// Whether it is a control frame.
    pub fn is_control(&self) -> bool {
        self.get::<{ offset::CONTROL }, u8>() & TYPE == CONTROL
    }

    /// Whether it was sent before.
    pub fn is_retry(&self) -> bool {
        self.get::<{ offset::FLAGS }, u8>() & RETRY != 0
    }

    /// Whether more fragments follow.
    pub fn more_fragments(&self) -> bool {
        self.get::<{ offset::FLAGS }, u8>() & MORE_FRAGMENTS != 0
    }

    /// Whether its body is encrypted.
    pub fn is_protected(&self) -> bool {
        self.get::<{ offset::FLAGS }, u8>() & PROTECTED != 0
    }

    /// Bytes of the header, a fourth address and quality of service among them.
    pub fn header_len(&self) -> usize {
        let is_qos = self.get::<{ offset::CONTROL }, u8>() & (TYPE | QOS) == DATA | QOS;
        let fourth = if self.direction() == Direction::Both { FOURTH_LEN } else { 0 };
        HEADER_LEN + fourth + if is_qos { QOS_LEN } else { 0 }
    }

    /// The three addresses: receiver, transmitter, and the third.
    pub fn addresses(&self) -> [MacAddress; 3] {
        [
            self.get::<{ offset::ADDRESSES[0] }, _>(),
            self.get::<{ offset::ADDRESSES[1] }, _>(),
            self.get::<{ offset::ADDRESSES[2] }, _>(),
        ]
    }

    /// Whose frame it is and for whom. Between access points these are the first and second
    /// address, as Click has them.
    pub fn ends(&self) -> (MacAddress, MacAddress) {
        let [first, second, third] = self.addresses();
        match self.direction() {
            Direction::Neither | Direction::Both => (second, first),
            Direction::To => (second, third),
            Direction::From => (third, first),
        }
    }

    /// The access point's address; between access points the third one, as Click has it.
    pub fn bssid(&self) -> MacAddress {
        let [first, second, third] = self.addresses();
        match self.direction() {
            Direction::Neither | Direction::Both => third,
            Direction::To => first,
            Direction::From => second,
        }
    }

    /// The number of the frame, which its fragments share, and the number of the fragment.
    pub fn sequence(&self) -> (u16, u8) {
        let word = self.get::<{ offset::SEQUENCE }, u16>().swap_bytes();
        (word >> 4, (word & 0xF) as u8)
    }
}

impl<T: BorrowMut<[u8; HEADER_LEN]>> Header<T> {
    /// Writes a data frame's header over all of it.
    pub fn fill(&mut self, direction: Direction, src: MacAddress, dst: MacAddress, bssid: MacAddress) {
        let (addresses, number) = match direction {
            Direction::Neither => ([dst, src, bssid], 0),
            Direction::To => ([bssid, src, dst], 1),
            Direction::From => ([dst, bssid, src], 2),
            Direction::Both => ([dst, src, bssid], 3),
        };
        self.set::<0, _>([0; HEADER_LEN]);
        self.set::<{ offset::CONTROL }, _>(DATA);
        self.set::<{ offset::FLAGS }, u8>(number);
        self.set::<{ offset::ADDRESSES[0] }, _>(addresses[0]);
        self.set::<{ offset::ADDRESSES[1] }, _>(addresses[1]);
        self.set::<{ offset::ADDRESSES[2] }, _>(addresses[2]);
    }
}

/// LLC and SNAP in front of what an Ethernet type says.
pub fn snap(ethertype: EtherType) -> [u8; SNAP_LEN] {
    let [high, low] = ethertype.0.to_be_bytes();
    let [a, b, c, d, e, f] = SNAP;
    [a, b, c, d, e, f, high, low]
}

/// The Ethernet type at the end of LLC and SNAP, and whether what is in front of it is
/// SNAP's; `None` where the bytes end within.
pub fn snap_type(bytes: &[u8]) -> Option<(EtherType, bool)> {
    let [start @ .., high, low] = bytes.first_chunk::<SNAP_LEN>()?;
    Some((EtherType(u16::from_be_bytes([*high, *low])), *start == SNAP))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_stand_where_the_direction_says() {
        let [src, dst, bssid] = [1, 2, 3].map(|n| MacAddress([0, 0, 0, 0, 0, n]));
        for (direction, order) in [
            (Direction::Neither, [dst, src, bssid]),
            (Direction::To, [bssid, src, dst]),
            (Direction::From, [dst, bssid, src]),
            (Direction::Both, [dst, src, bssid]),
        ] {
            let mut header = Header::zeroed();
            header.fill(direction, src, dst, bssid);
            assert_eq!(
                (header.addresses(), header.direction(), header.ends()),
                (order, direction, (src, dst))
            );
            assert!(header.is_data() && !header.is_protected() && !header.is_retry());
            assert_eq!(header.header_len(), if direction == Direction::Both { 30 } else { 24 });
        }
        let qos = Header::new([0x88; HEADER_LEN]);
        assert_eq!((qos.header_len(), qos.is_retry(), qos.sequence()), (26, true, (0x888, 8)));
    }

    #[test]
    fn an_ethernet_type_is_in_snap() {
        assert_eq!(snap(EtherType::IPV4), [0xAA, 0xAA, 3, 0, 0, 0, 8, 0]);
        assert_eq!(snap_type(&snap(EtherType::ARP)), Some((EtherType::ARP, true)));
        assert_eq!(snap_type(&[1, 2, 3, 4, 5, 6, 8, 0, 9]), Some((EtherType::IPV4, false)));
        assert_eq!(snap_type(&[0; 7]), None);
    }
}
