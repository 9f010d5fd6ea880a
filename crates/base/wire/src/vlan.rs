//! VLAN tags (IEEE 802.1Q-2022, section 9.6): the four bytes behind an EtherType of
//! 0x8100 or 0x88A8, which are the tag control information and the next EtherType.

use std::borrow::{Borrow, BorrowMut};

use crate::ethernet::{self, EtherType};
use crate::{Error, Result};

/// Bytes of the header.
pub const HEADER_LEN: usize = 4;

/// Bytes of a tagged frame's start: addresses and tag.
pub const TAGGED_LEN: usize = ethernet::ADDRESSES_LEN + HEADER_LEN;
/// The bits of the control information that hold the VLAN.
pub const ID: u16 = 0xFFF;
/// Where the priority begins in the control information.
pub const PRIORITY_SHIFT: u32 = 13;

/// The bit of the control information that says which frames may be dropped first (802.1Q, 6.9.3).
pub const DROP_ELIGIBLE: u16 = 1 << 12;

header! {
    /// A tag behind its own EtherType: control information, and what follows.
    Header[HEADER_LEN]
}

impl<T: Borrow<[u8; HEADER_LEN]>> Header<T> {
    /// The tag control information as one number, as NICs deliver and take it.
    #[inline(always)]
    pub fn control(&self) -> u16 {
        self.get::<0, _>()
    }

    /// The priority code point, 0 to 7.
    #[inline(always)]
    pub fn priority(&self) -> u8 {
        (self.control() >> PRIORITY_SHIFT) as u8
    }

    /// Whether the frame goes first when something must.
    #[inline(always)]
    pub fn drop_eligible(&self) -> bool {
        self.control() & DROP_ELIGIBLE != 0
    }

    /// The VLAN, 0 to 4095; 0 carries only a priority.
    #[inline(always)]
    pub fn id(&self) -> u16 {
        self.control() & ID
    }

    /// What follows the tag.
    #[inline(always)]
    pub fn ethertype(&self) -> EtherType {
        self.get::<2, _>()
    }
}

impl<T: BorrowMut<[u8; HEADER_LEN]>> Header<T> {
    /// Sets the tag control information.
    #[inline(always)]
    pub fn set_control(&mut self, control: u16) {
        self.set::<0, _>(control);
    }

    /// Sets what follows the tag.
    #[inline(always)]
    pub fn set_ethertype(&mut self, ethertype: EtherType) {
        self.set::<2, _>(ethertype);
    }
}

header! {
    /// The start of a tagged frame: the addresses, the EtherType of the tag, and its
    /// control information. The EtherType of what the tag carries follows.
    Tagged[TAGGED_LEN]
}

impl<T: Borrow<[u8; TAGGED_LEN]>> Tagged<T> {
    /// The EtherType of the tag; of a frame without one, that of what it carries.
    #[inline(always)]
    pub fn tag_type(&self) -> EtherType {
        self.get::<{ ethernet::offset::ETHERTYPE }, _>()
    }

    /// The tag control information.
    #[inline(always)]
    pub fn control(&self) -> u16 {
        self.get::<{ ethernet::HEADER_LEN }, _>()
    }
}

impl<T: BorrowMut<[u8; TAGGED_LEN]>> Tagged<T> {
    /// Writes the addresses, as [`ethernet::Addresses`] has them.
    #[inline(always)]
    pub fn set_addresses(&mut self, addresses: [u8; ethernet::ADDRESSES_LEN]) {
        self.set::<{ ethernet::offset::DST }, _>(addresses);
    }

    /// Puts a tag behind the addresses.
    #[inline(always)]
    pub fn set_tag(&mut self, tag_type: EtherType, control: u16) {
        self.set::<{ ethernet::offset::ETHERTYPE }, _>(tag_type);
        self.set::<{ ethernet::HEADER_LEN }, _>(control);
    }

    /// Moves the addresses to the end of these bytes, over the tag: without the first
    /// [`HEADER_LEN`] bytes the frame has no tag.
    #[inline(always)]
    pub fn move_addresses_over_tag(&mut self) {
        self.bytes.borrow_mut().copy_within(..ethernet::ADDRESSES_LEN, HEADER_LEN);
    }
}

view! {
    /// A tag in place, with what follows it.
    Tag
}

fn check_bytes(bytes: &[u8]) -> Result<()> {
    if bytes.len() < HEADER_LEN { Err(Error::Truncated) } else { Ok(()) }
}

forward! {
    Tag to Header[HEADER_LEN]:
    control -> u16, priority -> u8, drop_eligible -> bool, id -> u16, ethertype -> EtherType;
    set_control(u16), set_ethertype(EtherType)
}

impl<T: AsRef<[u8]>> Tag<T> {
    /// All behind the tag.
    pub fn payload(&self) -> &[u8] {
        &self.as_ref()[HEADER_LEN..]
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Tag<T> {
    /// All behind the tag.
    pub fn payload_mut(&mut self) -> &mut [u8] {
        &mut self.bytes.as_mut()[HEADER_LEN..]
    }
}

/// Puts a tag into a frame: `bytes` are [`HEADER_LEN`] bytes of room and the frame
/// behind them, which afterwards begins at the first byte. A frame without both
/// addresses is left alone, and whether it was long enough is returned.
pub fn insert(bytes: &mut [u8], control: u16) -> bool {
    if bytes.len() < TAGGED_LEN {
        return false;
    }
    bytes.copy_within(HEADER_LEN..TAGGED_LEN, 0);
    let tag = [EtherType::VLAN.0.to_be_bytes(), control.to_be_bytes()];
    bytes[ethernet::ADDRESSES_LEN..TAGGED_LEN].copy_from_slice(tag.as_flattened());
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
        u16::from(self.priority & 7) << PRIORITY_SHIFT | drop_eligible | (self.id & ID)
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
