//! VLAN tags (IEEE 802.1Q-2022, section 9.6): the four bytes behind an EtherType of
//! 0x8100 or 0x88A8, which are the tag control information and the next EtherType.

use crate::ethernet::EtherType;
use crate::field::{set_u16, u16_at};
use crate::{Error, Result};

/// Bytes of the header.
pub const HEADER_LEN: usize = 4;

const DROP_ELIGIBLE: u16 = 1 << 12;
const ID: u16 = 0xFFF;

view! {
    /// A tag in place, with what follows it.
    Tag
}

fn check_bytes(bytes: &[u8]) -> Result<()> {
    if bytes.len() < HEADER_LEN { Err(Error::Truncated) } else { Ok(()) }
}

impl<T: AsRef<[u8]>> Tag<T> {
    /// The tag control information as one number, as NICs deliver and take it.
    pub fn control(&self) -> u16 {
        u16_at(self.as_ref(), 0)
    }

    /// The priority code point, 0 to 7.
    pub fn priority(&self) -> u8 {
        (self.control() >> 13) as u8
    }

    /// Whether the frame goes first when something must.
    pub fn drop_eligible(&self) -> bool {
        self.control() & DROP_ELIGIBLE != 0
    }

    /// The VLAN, 0 to 4095; 0 carries only a priority.
    pub fn id(&self) -> u16 {
        self.control() & ID
    }

    /// What follows the tag.
    pub fn ethertype(&self) -> EtherType {
        EtherType(u16_at(self.as_ref(), 2))
    }

    /// All behind the tag.
    pub fn payload(&self) -> &[u8] {
        &self.as_ref()[HEADER_LEN..]
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Tag<T> {
    /// Sets the tag control information.
    pub fn set_control(&mut self, control: u16) {
        set_u16(self.bytes.as_mut(), 0, control);
    }

    /// Sets what follows the tag.
    pub fn set_ethertype(&mut self, ethertype: EtherType) {
        set_u16(self.bytes.as_mut(), 2, ethertype.0);
    }

    /// All behind the tag.
    pub fn payload_mut(&mut self) -> &mut [u8] {
        &mut self.bytes.as_mut()[HEADER_LEN..]
    }
}

/// Puts a tag into a frame: `bytes` are [`HEADER_LEN`] bytes of room and the frame
/// behind them, which afterwards begins at the first byte. A frame without both
/// addresses is left alone, and whether it was long enough is returned.
pub fn insert(bytes: &mut [u8], control: u16) -> bool {
    const ADDRESSES: usize = 12;
    if bytes.len() < HEADER_LEN + ADDRESSES {
        return false;
    }
    bytes.copy_within(HEADER_LEN..HEADER_LEN + ADDRESSES, 0);
    set_u16(bytes, ADDRESSES, EtherType::VLAN.0);
    set_u16(bytes, ADDRESSES + 2, control);
    true
}

/// What a tag means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repr {
    /// The priority code point, 0 to 7.
    pub priority: u8,
    /// Whether the frame goes first when something must.
    pub drop_eligible: bool,
    /// The VLAN, 0 to 4095.
    pub id: u16,
    /// What follows the tag.
    pub ethertype: EtherType,
}

impl Repr {
    /// Reads the tag.
    pub fn parse<T: AsRef<[u8]>>(tag: &Tag<T>) -> Result<Repr> {
        tag.check()?;
        Ok(Repr {
            priority: tag.priority(),
            drop_eligible: tag.drop_eligible(),
            id: tag.id(),
            ethertype: tag.ethertype(),
        })
    }

    /// Bytes that [`Repr::emit`] writes.
    pub const fn header_len(&self) -> usize {
        HEADER_LEN
    }

    /// The tag control information as one number; excess bits of the parts are cut.
    pub fn control(&self) -> u16 {
        let drop_eligible = if self.drop_eligible { DROP_ELIGIBLE } else { 0 };
        u16::from(self.priority & 7) << 13 | drop_eligible | (self.id & ID)
    }

    /// Writes the tag.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, tag: &mut Tag<T>) {
        tag.set_control(self.control());
        tag.set_ethertype(self.ethertype);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_reads_as_its_bytes() {
        let tag = Tag::new_checked([0xB1, 0x23, 0x86, 0xDD]).expect("long enough");
        assert_eq!((tag.priority(), tag.drop_eligible(), tag.id()), (5, true, 0x123));
        assert_eq!(tag.ethertype(), EtherType::IPV6);
        assert_eq!(Repr::parse(&tag).expect("valid").control(), 0xB123);
        assert_eq!(Tag::new_checked([0; 3]), Err(Error::Truncated));
    }
}
