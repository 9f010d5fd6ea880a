//! Where a PCI function sits: domain, bus, device, function, written as Linux
//! writes it (`0000:03:00.0`). Parsing is strict; only the domain may be left out.

use std::fmt;
use std::str::FromStr;

use crate::{Error, Result};

/// A PCI function's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    /// Segment group, 0 on most machines.
    pub domain: u16,
    /// Bus number, 0 to 255.
    pub bus: u8,
    /// Device on the bus, 0 to 31.
    pub device: u8,
    /// Function of the device, 0 to 7.
    pub function: u8,
}

/// A hexadecimal number of exactly `digits` digits, up to `max`.
fn hex(text: &str, digits: usize, max: u32) -> Option<u32> {
    let plain = text.len() == digits && text.bytes().all(|b| b.is_ascii_hexdigit());
    let value = plain.then(|| u32::from_str_radix(text, 16).ok())??;
    (value <= max).then_some(value)
}

fn parse(text: &str) -> Option<Address> {
    let (rest, function) = text.rsplit_once('.')?;
    let (rest, device) = rest.rsplit_once(':')?;
    let (domain, bus) = rest.split_once(':').unwrap_or(("0000", rest));
    Some(Address {
        domain: hex(domain, 4, 0xFFFF)? as u16,
        bus: hex(bus, 2, 0xFF)? as u8,
        device: hex(device, 2, 0x1F)? as u8,
        function: hex(function, 1, 7)? as u8,
    })
}

impl FromStr for Address {
    type Err = Error;

    fn from_str(text: &str) -> Result<Address> {
        parse(text).ok_or_else(|| Error::BadAddress(text.to_owned()))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Address { domain, bus, device, function } = self;
        write!(f, "{domain:04x}:{bus:02x}:{device:02x}.{function:x}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_round_trip() {
        let long: Address = "0000:03:1f.7".parse().unwrap();
        assert_eq!(long, Address { domain: 0, bus: 3, device: 31, function: 7 });
        assert_eq!("03:1f.7".parse::<Address>().unwrap(), long);
        assert_eq!(long.to_string(), "0000:03:1f.7");
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in
            ["", "3:0.0", "0000:03:20.0", "03:00.8", "03:00", "+3:00.0", "x:03:00.0", "0:0:0:0.0", "é:00.0"]
        {
            assert_eq!(text.parse::<Address>(), Err(Error::BadAddress(text.into())), "{text}");
        }
    }
}
