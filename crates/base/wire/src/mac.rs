//! Ethernet addresses (IEEE 802-2014, section 8).

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// An Ethernet address, first byte on the wire first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct MacAddress(pub [u8; 6]);

/// A text that is no Ethernet address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidMac(String);

impl fmt::Display for InvalidMac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is no Ethernet address: write six bytes as 02:00:5e:10:00:01", self.0)
    }
}

impl std::error::Error for InvalidMac {}

impl MacAddress {
    /// The address of everyone on the link.
    pub const BROADCAST: MacAddress = MacAddress([0xFF; 6]);
    /// No station's address, which stands where none is known.
    pub const ZERO: MacAddress = MacAddress([0; 6]);
    /// The bit of the first byte that makes an address that of a group (I/G, IEEE 802-2014,
    /// section 8.2.2).
    pub const GROUP: u8 = 0x01;

    /// The address of a group of IPv4 (RFC 1112, section 6.4).
    pub fn of_ipv4_group(group: Ipv4Addr) -> MacAddress {
        let [_, a, b, c] = group.octets();
        MacAddress([1, 0, 0x5E, a & 0x7F, b, c])
    }

    /// The address of a group of IPv6 (RFC 2464, section 7).
    pub fn of_ipv6_group(group: Ipv6Addr) -> MacAddress {
        let [.., a, b, c, d] = group.octets();
        MacAddress([0x33, 0x33, a, b, c, d])
    }

    /// Whether the address names a group.
    #[inline]
    pub fn is_multicast(self) -> bool {
        self.0[0] & Self::GROUP != 0
    }

    /// Whether a station can have the address: it names no group, and is not zero.
    #[inline]
    pub fn is_station(self) -> bool {
        !self.is_multicast() && self != Self::ZERO
    }
}

impl FromStr for MacAddress {
    type Err = InvalidMac;

    fn from_str(text: &str) -> Result<MacAddress, InvalidMac> {
        let invalid = || InvalidMac(text.to_owned());
        let mut bytes = [0; 6];
        let mut parts = text.split([':', '-']);
        for byte in &mut bytes {
            let part = parts.next().filter(|part| part.len() == 2).ok_or_else(invalid)?;
            *byte = u8::from_str_radix(part, 16).map_err(|_| invalid())?;
        }
        if parts.next().is_some() { Err(invalid()) } else { Ok(MacAddress(bytes)) }
    }
}

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_read_as_written() {
        let mac: MacAddress = "02:00:5e:10:00:ff".parse().expect("valid");
        assert_eq!(mac.to_string(), "02:00:5e:10:00:ff");
        for bad in ["", "02:00:5e:10:00", "02:00:5e:10:00:ff:00", "02:00:5e:10:00:gg", "2:0:5e:10:0:ff"] {
            assert!(bad.parse::<MacAddress>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_station_has_neither_a_group_s_address_nor_zero() {
        for (first, rest, station) in [
            (0x02, 0, true),
            (0x00, 1, true), // not all of it is zero
            (0xFE, 0xFF, true),
            (0x00, 0, false),
            (0x01, 0, false),
            (0x33, 0x33, false),
            (0xFF, 0xFF, false),
        ] {
            let mac = MacAddress([first, rest, rest, rest, rest, rest]);
            assert_eq!(mac.is_station(), station, "{mac}");
        }
    }
}
