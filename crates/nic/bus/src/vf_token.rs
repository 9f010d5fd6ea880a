//! The token of a card whose physical function is in VFIO's hands (`linux/vfio.h`,
//! VFIO_DEVICE_FEATURE_PCI_VF_TOKEN): a UUID that whoever opens the physical function chooses, and
//! that the kernel asks of whoever opens a virtual one, for the former's driver can do to the latter
//! what the kernel's own would not. It stands behind the device's name when that is opened.

use std::fmt;
use std::str::FromStr;

use crate::Error;

/// Where the groups of digits end, each with a dash behind it but the last (RFC 9562, section 4).
const GROUPS: [usize; 5] = [4, 6, 8, 10, 16];

/// A UUID that a physical function and its virtual ones are opened with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VfToken([u8; 16]);

impl FromStr for VfToken {
    type Err = Error;

    fn from_str(text: &str) -> Result<VfToken, Error> {
        let wrong = || Error::BadVfToken(text.to_owned());
        let (mut bytes, mut from) = ([0; 16], 0);
        let mut groups = text.split('-');
        for to in GROUPS {
            let group = groups.next().filter(|group| group.len() == 2 * (to - from)).ok_or_else(wrong)?;
            let hexadecimal = group.bytes().all(|digit| digit.is_ascii_hexdigit());
            let number = u64::from_str_radix(group, 16).ok().filter(|_| hexadecimal).ok_or_else(wrong)?;
            bytes[from..to].copy_from_slice(&number.to_be_bytes()[8 - (to - from)..]);
            from = to;
        }
        groups.next().map_or(Ok(VfToken(bytes)), |_| Err(wrong()))
    }
}

impl fmt::Display for VfToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut from = 0;
        for to in GROUPS {
            f.write_str(if from == 0 { "" } else { "-" })?;
            self.0[from..to].iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
            from = to;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_a_uuid_and_nothing_else() {
        let text = "14d63f20-8445-11ea-8900-1F9CE7d5650d";
        let token: VfToken = text.parse().unwrap();
        assert_eq!(token.to_string(), text.to_lowercase());
        assert_eq!(token.0[..4], [0x14, 0xD6, 0x3F, 0x20]);
        for wrong in [
            "",
            "14d63f20",
            "14d63f20-8445-11ea-8900-1f9ce7d5650",
            "14d63f20-8445-11ea-8900-1f9ce7d5650d-",
            "14d63f208445-11ea-8900-1f9ce7d5650d",
            "+4d63f20-8445-11ea-8900-1f9ce7d5650d",
            "14d63f20-8445-11ea-8900-1f9ce7d5650g",
        ] {
            assert_eq!(wrong.parse::<VfToken>(), Err(Error::BadVfToken(wrong.to_owned())), "{wrong}");
        }
    }
}
