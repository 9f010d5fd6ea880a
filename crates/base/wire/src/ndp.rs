//! Neighbor discovery (RFC 4861): solicitations and
//! advertisements, which are messages of ICMPv6, and their options with an Ethernet
//! address. Router discovery is not read here.

use std::borrow::{Borrow, BorrowMut};
use std::net::Ipv6Addr;

use crate::{MacAddress, icmpv6};

/// Bytes of a message in front of its options.
pub const HEADER_LEN: usize = 24;
/// Bytes of a redirect in front of its options.
pub const REDIRECT_LEN: usize = 40;
/// Bytes of an option with an Ethernet address.
pub const ADDRESS_OPTION_LEN: usize = 8;
/// Bytes that an option's length counts (section 4.6).
pub const OPTION_UNIT: usize = 8;
/// The option with the address of whoever sends the message.
pub const SOURCE_ADDRESS: u8 = 1;
/// The option with the address of the target.
pub const TARGET_ADDRESS: u8 = 2;
/// The hop limit of valid messages: nobody forwarded them (section 7.1).
pub const HOP_LIMIT: u8 = 255;
/// In the flags of an advertisement: from a router.
pub const ROUTER: u8 = 0x80;
/// In the flags of an advertisement: an answer.
pub const SOLICITED: u8 = 0x40;
/// In the flags of an advertisement: it counts more than what was known.
pub const OVERRIDE: u8 = 0x20;
/// The group of all nodes of a link (RFC 4291, section 2.7.1).
pub const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xFF02, 0, 0, 0, 0, 0, 0, 1);

/// The group of all nodes whose address ends like this one (RFC 4291, section 2.7.1).
pub fn solicited_group(address: Ipv6Addr) -> Ipv6Addr {
    let [.., a, b, c] = address.octets();
    Ipv6Addr::new(0xFF02, 0, 0, 0, 0, 1, u16::from_be_bytes([0xFF, a]), u16::from_be_bytes([b, c]))
}

/// Whether this is a group that [`solicited_group`] gives for some address.
pub fn is_solicited_group(group: Ipv6Addr) -> bool {
    group == solicited_group(group)
}

/// Where the fields of a message are, in bytes.
pub mod offset {
    /// The flags of an advertisement.
    pub const FLAGS: usize = 4;
    /// Whom it is about.
    pub const TARGET: usize = 8;
    /// The destination of redirected packets.
    pub const DESTINATION: usize = 24;
}

header! {
    /// A message in front of its options. Checksums are those of [`icmpv6`].
    Header[HEADER_LEN]
}

impl<T: Borrow<[u8; HEADER_LEN]>> Header<T> {
    /// Which message.
    #[inline(always)]
    pub fn message_type(&self) -> u8 {
        self.get::<{ icmpv6::offset::TYPE }, _>()
    }

    /// Which kind of it: 0 in valid messages.
    #[inline(always)]
    pub fn code(&self) -> u8 {
        self.get::<{ icmpv6::offset::CODE }, _>()
    }

    /// The flags of an advertisement.
    #[inline(always)]
    pub fn flags(&self) -> u8 {
        self.get::<{ offset::FLAGS }, _>()
    }

    /// Whom it is about.
    #[inline(always)]
    pub fn target(&self) -> Ipv6Addr {
        self.get::<{ offset::TARGET }, _>()
    }
}

impl<T: BorrowMut<[u8; HEADER_LEN]>> Header<T> {
    /// Sets which message.
    #[inline(always)]
    pub fn set_message_type(&mut self, message_type: u8) {
        self.set::<{ icmpv6::offset::TYPE }, _>(message_type);
    }

    /// Sets the flags of an advertisement.
    #[inline(always)]
    pub fn set_flags(&mut self, flags: u8) {
        self.set::<{ offset::FLAGS }, _>(flags);
    }

    /// Sets whom it is about.
    #[inline(always)]
    pub fn set_target(&mut self, target: Ipv6Addr) {
        self.set::<{ offset::TARGET }, _>(target);
    }
}

header! {
    /// A redirect in front of its options.
    Redirect[REDIRECT_LEN]
}

impl<T: BorrowMut<[u8; REDIRECT_LEN]>> Redirect<T> {
    /// Sets the better next hop.
    #[inline(always)]
    pub fn set_target(&mut self, target: Ipv6Addr) {
        self.set::<{ offset::TARGET }, _>(target);
    }

    /// Sets whom packets are for that should go there.
    #[inline(always)]
    pub fn set_destination(&mut self, destination: Ipv6Addr) {
        self.set::<{ offset::DESTINATION }, _>(destination);
    }
}

header! {
    /// An option with an Ethernet address.
    AddressOption[ADDRESS_OPTION_LEN]
}

impl<T: Borrow<[u8; ADDRESS_OPTION_LEN]>> AddressOption<T> {
    /// The address.
    #[inline(always)]
    pub fn mac(&self) -> MacAddress {
        self.get::<2, _>()
    }
}

impl<T: BorrowMut<[u8; ADDRESS_OPTION_LEN]>> AddressOption<T> {
    /// Sets whose address this is, and the option's length.
    #[inline(always)]
    pub fn set_kind(&mut self, kind: u8) {
        self.set::<0, u8>(kind);
        self.set::<1, u8>((ADDRESS_OPTION_LEN / OPTION_UNIT) as u8);
    }

    /// Sets the address.
    #[inline(always)]
    pub fn set_mac(&mut self, mac: MacAddress) {
        self.set::<2, _>(mac);
    }
}

/// The first option, and those behind it; `None` when there is none, when it is cut short,
/// or when it has no length, which makes the whole message invalid (section 4.6).
fn split_option(options: &[u8]) -> Option<(&[u8], &[u8])> {
    let units = usize::from(*options.get(1)?);
    options.split_at_checked(units * OPTION_UNIT).filter(|_| units > 0)
}

/// Whether these are whole options, each of some length, as a valid message has them
/// (sections 7.1.1 and 7.1.2).
pub fn are_options_whole(mut options: &[u8]) -> bool {
    while let Some((_, rest)) = split_option(options) {
        options = rest;
    }
    options.is_empty()
}

/// The Ethernet address in the first option of this kind. Options behind one that is not
/// whole are not looked at.
pub fn address_in(mut options: &[u8], wanted: u8) -> Option<MacAddress> {
    while let Some((option, rest)) = split_option(options) {
        if option.first() == Some(&wanted) {
            return Some(AddressOption::of(option)?.mac());
        }
        options = rest;
    }
    None
}
