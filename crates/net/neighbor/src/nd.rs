//! Neighbour solicitations and advertisements (RFC 4861, sections 4.3, 4.4 and 7) and router
//! advertisements (sections 4.2 and 6.1.2) as Ethernet frames (RFC 2464).

use std::net::Ipv6Addr;

use wire::ethernet::{self, EtherType};
use wire::ip::Protocol;
use wire::{MacAddress, icmpv6, ipv6, ndp};

use crate::resolver::Address;

/// A message of either kind: its fixed part, and one option.
const MESSAGE_LEN: usize = ndp::HEADER_LEN + ndp::ADDRESS_OPTION_LEN;

/// Bytes of a frame with a message that has one option with an Ethernet address.
pub const FRAME_LEN: usize = ethernet::HEADER_LEN + ipv6::HEADER_LEN + MESSAGE_LEN;

/// A message of ICMPv6 from this link.
struct OfLink<'a> {
    message: &'a [u8],
    ip: ipv6::Header<&'a [u8; ipv6::HEADER_LEN]>,
    src_mac: MacAddress,
}

/// The message in a frame, if nobody has forwarded it.
fn of_link(frame: &[u8]) -> Option<OfLink<'_>> {
    let link = ethernet::Frame::new_checked(frame).ok().filter(|f| f.ethertype() == EtherType::IPV6)?;
    let src_mac = link.src();
    let (fixed, rest) = link.into_payload().split_first_chunk()?;
    let ip = ipv6::Header::new(fixed);
    if ip.version() != 6 || ip.next_header() != Protocol::ICMPV6 || ip.hop_limit() != ndp::HOP_LIMIT {
        return None;
    }
    Some(OfLink { message: rest.get(..ip.payload_len())?, ip, src_mac })
}

/// A valid neighbour message, which is what section 7.1 lets pass.
struct Message<'a> {
    head: ndp::Header<&'a [u8; ndp::HEADER_LEN]>,
    options: &'a [u8],
    ip: ipv6::Header<&'a [u8; ipv6::HEADER_LEN]>,
    src_mac: MacAddress,
}

/// The message in a frame, if it passes the checks that both kinds have in common.
fn parse(frame: &[u8], message_type: u8) -> Option<Message<'_>> {
    let OfLink { message, ip, src_mac } = of_link(frame)?;
    let (head, options) = message.split_first_chunk()?;
    let head = ndp::Header::new(head);
    let is_valid = head.message_type() == message_type
        && head.code() == 0
        && !head.target().is_multicast()
        && ndp::are_options_whole(options)
        && icmpv6::Packet::new_unchecked(message).verify_checksum(ip.addresses());
    is_valid.then_some(Message { head, options, ip, src_mac })
}

/// A question for an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Solicitation {
    /// From whom; the unspecified address when it checks whether its own is taken (RFC
    /// 4862, section 5.4).
    pub src: Ipv6Addr,
    /// To whom: the target, or the group of all whose address ends like it.
    pub dst: Ipv6Addr,
    /// For which address.
    pub target: Ipv6Addr,
    /// From which Ethernet address.
    pub src_mac: MacAddress,
    /// The Ethernet address that the sender says it has.
    pub told_mac: Option<MacAddress>,
}

/// The neighbour solicitation in a frame, if there is one, it is valid (section 7.1.1), to
/// the target or its group, and from one host: its answer goes to nobody else.
pub fn solicitation(frame: &[u8]) -> Option<Solicitation> {
    let Message { head, options, ip, src_mac } = parse(frame, icmpv6::NEIGHBOR_SOLICITATION)?;
    let (src, dst, target) = (ip.src(), ip.dst(), head.target());
    let told_mac = ndp::address_in(options, ndp::SOURCE_ADDRESS);
    let is_valid = !src.is_unspecified() || ndp::is_solicited_group(dst) && told_mac.is_none();
    let is_for_target = dst == target || dst == ndp::solicited_group(target);
    let is_of_host = !(src.is_multicast() || src_mac.is_multicast());
    (is_valid && is_for_target && is_of_host).then_some(Solicitation { src, dst, target, src_mac, told_mac })
}

/// An answer that names an Ethernet address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Advertisement {
    /// Whose address is told.
    pub target: Ipv6Addr,
    /// Its Ethernet address.
    pub mac: MacAddress,
}

/// The neighbour advertisement in a frame, if there is one, it is valid (section 7.1.2)
/// and names the Ethernet address of one host.
pub fn advertisement(frame: &[u8]) -> Option<Advertisement> {
    let Message { head, options, ip, .. } = parse(frame, icmpv6::NEIGHBOR_ADVERTISEMENT)?;
    if ip.dst().is_multicast() && head.flags() & ndp::SOLICITED != 0 {
        return None;
    }
    let mac = ndp::address_in(options, ndp::TARGET_ADDRESS).filter(|mac| mac.is_station())?;
    (!head.target().is_unspecified()).then_some(Advertisement { target: head.target(), mac })
}

/// What a router tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RouterAdvertisement<'a> {
    /// The router's link-local address.
    pub router: Ipv6Addr,
    /// For how many seconds it forwards; 0 when it does not.
    pub lifetime_s: u16,
    /// Options, each of which is whole.
    pub options: &'a [u8],
}

/// The router advertisement in a frame, if there is one and it is valid (section 6.1.2).
pub fn router_advertisement(frame: &[u8]) -> Option<RouterAdvertisement<'_>> {
    let OfLink { message, ip, .. } = of_link(frame)?;
    let (head, options) = message.split_first_chunk()?;
    let head = ndp::RouterAdvertisement::new(head);
    let router = ip.src();
    let is_valid = head.message_type() == icmpv6::ROUTER_ADVERTISEMENT
        && head.code() == 0
        && router.is_unicast_link_local()
        && ndp::are_options_whole(options)
        && icmpv6::Packet::new_unchecked(message).verify_checksum(ip.addresses());
    is_valid.then_some(RouterAdvertisement { router, lifetime_s: head.lifetime_s(), options })
}

impl Solicitation {
    /// The answer of whoever has the target's address and `mac`: to the sender, or to all
    /// nodes when the sender has no address yet (section 7.2.4).
    pub fn advertise(&self, mac: MacAddress, is_router: bool) -> [u8; FRAME_LEN] {
        let router = if is_router { ndp::ROUTER } else { 0 };
        let (dst, dst_mac, solicited) = match self.src.is_unspecified() {
            true => (ndp::ALL_NODES, MacAddress::of_ipv6_group(ndp::ALL_NODES), 0),
            false => (self.src, self.src_mac, ndp::SOLICITED),
        };
        let told = Told {
            message_type: icmpv6::NEIGHBOR_ADVERTISEMENT,
            flags: router | solicited | ndp::OVERRIDE,
            target: self.target,
            option: ndp::TARGET_ADDRESS,
            mac,
        };
        told.frame(self.target, dst, dst_mac)
    }
}

/// What a message tells, and the Ethernet address of its sender, which its option names.
struct Told {
    message_type: u8,
    flags: u8,
    target: Ipv6Addr,
    option: u8,
    mac: MacAddress,
}

impl Told {
    fn frame(&self, src: Ipv6Addr, dst: Ipv6Addr, dst_mac: MacAddress) -> [u8; FRAME_LEN] {
        let mut bytes = [0; FRAME_LEN];
        let mut frame = ethernet::Frame::new_unchecked(&mut bytes[..]);
        ethernet::Repr { dst: dst_mac, src: self.mac, ethertype: EtherType::IPV6 }.emit(&mut frame);
        let mut packet = ipv6::Packet::new_unchecked(frame.payload_mut());
        let mut ip = packet.header_mut();
        let addresses = ip.fill(src, dst, Protocol::ICMPV6, MESSAGE_LEN as u16, ndp::HOP_LIMIT);
        let message = packet.payload_mut();
        if let Some((head, option)) = message.split_first_chunk_mut() {
            let mut head = ndp::Header::new(head);
            head.set_message_type(self.message_type);
            head.set_flags(self.flags);
            head.set_target(self.target);
            if let Some(mut option) = ndp::AddressOption::of_mut(option) {
                option.set_kind(self.option);
                option.set_mac(self.mac);
            }
        }
        icmpv6::Packet::new_unchecked(message).fill_checksum(addresses);
        bytes
    }
}

impl Address for Ipv6Addr {
    const ETHERTYPE: EtherType = EtherType::IPV6;
    type Request = [u8; FRAME_LEN];

    fn is_unspecified(self) -> bool {
        Ipv6Addr::is_unspecified(&self)
    }

    fn group_mac(self) -> Option<MacAddress> {
        self.is_multicast().then(|| MacAddress::of_ipv6_group(self))
    }

    /// Asks all whose address ends like the target's (RFC 4291, section 2.7.1), or whoever
    /// had it.
    fn request(self, mac: MacAddress, target: Ipv6Addr, known: Option<MacAddress>) -> [u8; FRAME_LEN] {
        let group = ndp::solicited_group(target);
        let (dst, dst_mac) = match known {
            Some(known) => (target, known),
            None => (group, MacAddress::of_ipv6_group(group)),
        };
        let message_type = icmpv6::NEIGHBOR_SOLICITATION;
        let told = Told { message_type, flags: 0, target, option: ndp::SOURCE_ADDRESS, mac };
        told.frame(self, dst, dst_mac)
    }

    fn answer(frame: &[u8]) -> Option<(Ipv6Addr, MacAddress)> {
        advertisement(frame).map(|told| (told.target, told.mac))
    }

    fn asker(frame: &[u8], mac: MacAddress) -> Option<(Ipv6Addr, MacAddress)> {
        let asks = solicitation(frame)?;
        let to = ethernet::Header::of(frame)?.dst();
        let told = asks.told_mac.filter(|told| told.is_station() && *told != mac);
        Some((asks.src, told.filter(|_| to == mac || to.is_multicast())?))
    }
}
