//! Neighbor discovery (RFC 4861): solicitations and advertisements of neighbors and of
//! routers, which are messages of ICMPv6, and their options with an Ethernet address, a prefix
//! or an MTU.

use std::borrow::{Borrow, BorrowMut};
use std::net::Ipv6Addr;

use crate::{MacAddress, icmpv6};

/// Bytes of a message in front of its options.
pub const HEADER_LEN: usize = 24;
/// Bytes of a redirect in front of its options.
pub const REDIRECT_LEN: usize = 40;
/// Bytes of a router solicitation in front of its options.
pub const ROUTER_SOLICITATION_LEN: usize = 8;
/// Bytes of a router advertisement in front of its options.
pub const ROUTER_ADVERTISEMENT_LEN: usize = 16;
/// Bytes of an option with a prefix.
pub const PREFIX_OPTION_LEN: usize = 32;
/// Bytes of an option with an MTU.
pub const MTU_OPTION_LEN: usize = 8;
/// Bytes of an option with an Ethernet address.
pub const ADDRESS_OPTION_LEN: usize = 8;
/// Bytes that an option's length counts (section 4.6).
pub const OPTION_UNIT: usize = 8;
/// The option with the address of whoever sends the message.
pub const SOURCE_ADDRESS: u8 = 1;
/// The option with the address of the target.
pub const TARGET_ADDRESS: u8 = 2;
/// The option with a prefix of the link.
pub const PREFIX: u8 = 3;
/// The option with the link's MTU.
pub const MTU: u8 = 5;
/// In the flags of a prefix: its addresses are on the link.
pub const ON_LINK: u8 = 0x80;
/// In the flags of a prefix: hosts make addresses of it.
pub const AUTONOMOUS: u8 = 0x40;
/// A lifetime that does not end (section 4.6.2).
pub const INFINITE: u32 = u32::MAX;
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

/// The group of all routers of a link (RFC 4291, section 2.7.1).
pub const ALL_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xFF02, 0, 0, 0, 0, 0, 0, 2);

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
    /// Of a router advertisement: for how long the router forwards.
    pub const ROUTER_LIFETIME: usize = 6;
    /// Of an option with a prefix: how many of its bits count.
    pub const PREFIX_BITS: usize = 2;
    /// Of an option with a prefix: its flags.
    pub const PREFIX_FLAGS: usize = 3;
    /// Of an option with a prefix: for how long it is valid.
    pub const VALID_LIFETIME: usize = 4;
    /// Of an option with a prefix: for how long its addresses are preferred.
    pub const PREFERRED_LIFETIME: usize = 8;
    /// Of an option with a prefix: the prefix.
    pub const PREFIX: usize = 16;
    /// Of an option with an MTU: the MTU.
    pub const MTU: usize = 4;
}

header! {
    /// A message in front of its options. Checksums are those of [`icmpv6`].
    Header[HEADER_LEN]
}

impl<T: Borrow<[u8; HEADER_LEN]>> Header<T> {
    /// The type of the message, as ICMPv6 numbers it.
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
    /// The Ethernet address that the option holds.
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

header! {
    /// A router advertisement in front of its options.
    RouterAdvertisement[ROUTER_ADVERTISEMENT_LEN]
}

impl<T: Borrow<[u8; ROUTER_ADVERTISEMENT_LEN]>> RouterAdvertisement<T> {
    /// The type of the message: [`icmpv6::ROUTER_ADVERTISEMENT`] in valid ones.
    pub fn message_type(&self) -> u8 {
        self.get::<{ icmpv6::offset::TYPE }, _>()
    }

    /// Which kind of it: 0 in valid messages.
    pub fn code(&self) -> u8 {
        self.get::<{ icmpv6::offset::CODE }, _>()
    }

    /// For how many seconds the router forwards; 0 when it does not.
    pub fn lifetime_s(&self) -> u16 {
        self.get::<{ offset::ROUTER_LIFETIME }, _>()
    }
}

impl<T: BorrowMut<[u8; ROUTER_ADVERTISEMENT_LEN]>> RouterAdvertisement<T> {
    /// Says that it is a router advertisement.
    pub fn set_kind(&mut self) {
        self.set::<{ icmpv6::offset::TYPE }, u8>(icmpv6::ROUTER_ADVERTISEMENT);
    }

    /// Sets for how many seconds the router forwards.
    pub fn set_lifetime_s(&mut self, seconds: u16) {
        self.set::<{ offset::ROUTER_LIFETIME }, _>(seconds);
    }
}

header! {
    /// An option with a prefix (section 4.6.2).
    PrefixOption[PREFIX_OPTION_LEN]
}

impl<T: Borrow<[u8; PREFIX_OPTION_LEN]>> PrefixOption<T> {
    /// How many bits of the prefix count; a sender may say more than there are.
    pub fn bits(&self) -> u8 {
        self.get::<{ offset::PREFIX_BITS }, _>()
    }

    /// [`ON_LINK`] and [`AUTONOMOUS`].
    pub fn flags(&self) -> u8 {
        self.get::<{ offset::PREFIX_FLAGS }, _>()
    }

    /// For how many seconds it is valid, or [`INFINITE`].
    pub fn valid_s(&self) -> u32 {
        self.get::<{ offset::VALID_LIFETIME }, _>()
    }

    /// For how many seconds its addresses are preferred, or [`INFINITE`].
    pub fn preferred_s(&self) -> u32 {
        self.get::<{ offset::PREFERRED_LIFETIME }, _>()
    }

    /// The prefix; bits behind it are to be ignored.
    pub fn prefix(&self) -> Ipv6Addr {
        self.get::<{ offset::PREFIX }, _>()
    }
}

impl<T: BorrowMut<[u8; PREFIX_OPTION_LEN]>> PrefixOption<T> {
    /// Sets the option's kind and length, the prefix, its bits and its flags.
    pub fn set_prefix(&mut self, prefix: Ipv6Addr, bits: u8, flags: u8) {
        self.set::<0, u8>(PREFIX);
        self.set::<1, u8>((PREFIX_OPTION_LEN / OPTION_UNIT) as u8);
        self.set::<{ offset::PREFIX_BITS }, _>(bits);
        self.set::<{ offset::PREFIX_FLAGS }, _>(flags);
        self.set::<{ offset::PREFIX }, _>(prefix);
    }

    /// Sets for how many seconds it is valid and its addresses are preferred.
    pub fn set_lifetimes_s(&mut self, valid: u32, preferred: u32) {
        self.set::<{ offset::VALID_LIFETIME }, _>(valid);
        self.set::<{ offset::PREFERRED_LIFETIME }, _>(preferred);
    }
}

header! {
    /// An option with an MTU (section 4.6.4).
    MtuOption[MTU_OPTION_LEN]
}

impl<T: Borrow<[u8; MTU_OPTION_LEN]>> MtuOption<T> {
    /// The longest IP packet of the link.
    pub fn mtu(&self) -> u32 {
        self.get::<{ offset::MTU }, _>()
    }
}

impl<T: BorrowMut<[u8; MTU_OPTION_LEN]>> MtuOption<T> {
    /// Sets the option's kind and length, and the MTU.
    pub fn set_mtu(&mut self, mtu: u32) {
        self.set::<0, u8>(MTU);
        self.set::<1, u8>((MTU_OPTION_LEN / OPTION_UNIT) as u8);
        self.set::<{ offset::MTU }, _>(mtu);
    }
}

/// The options in a row. Those behind one that is not whole are not looked at.
pub fn options(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (option, rest) = split_option(bytes)?;
        bytes = rest;
        Some(option)
    })
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
pub fn address_in(bytes: &[u8], wanted: u8) -> Option<MacAddress> {
    let option = options(bytes).find(|option| option.first() == Some(&wanted))?;
    Some(AddressOption::of(option)?.mac())
}
