//! What is said to the sender of a packet that is too long for its tunnel: ICMP's
//! Fragmentation Needed (RFC 1191) or Packet Too Big (RFC 8201), made of the packet itself.
//! Ends of tunnels do not fragment, so that without it such packets would vanish.

use std::time::Duration;

use memory::Packet;
use wire::ip::{Addresses, Protocol as IpProtocol};
use wire::{ethernet, icmpv4, icmpv6, ipv4, ipv6};

use crate::hop::inspect;
use crate::network::Layer;

/// Answers of one thread in a second, at most (RFC 4443, section 2.4, and RFC 1812, section
/// 4.3.2.8, ask for a limit).
const ANSWERS_PER_SECOND: u64 = 1000;
/// Answers at once, after a time without any.
const BURST: u64 = 64;
/// Bytes of an answer with its IP header, at most (RFC 1812, section 4.3.2.3; RFC 4443,
/// section 2.4).
const LONGEST_V4: usize = 576;
const LONGEST_V6: usize = 1280;

/// What became of packets that were too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Answers {
    /// Answers that were made.
    pub sent: u64,
    /// Packets without one, because there were too many.
    pub limited: u64,
}

/// How many answers may still be made.
#[derive(Debug, Clone)]
pub(crate) struct Limit {
    left: u64,
    /// Until when what is allowed was added.
    until: Duration,
    pub(crate) answers: Answers,
}

impl Default for Limit {
    fn default() -> Limit {
        Limit { left: BURST, until: Duration::ZERO, answers: Answers::default() }
    }
}

impl Limit {
    /// Whether there may be an answer now.
    pub(crate) fn allows(&mut self, now: Duration) -> bool {
        let each = Duration::from_secs(1) / ANSWERS_PER_SECOND as u32;
        let more = (now.saturating_sub(self.until).as_nanos() / each.as_nanos()) as u64;
        if more > 0 {
            self.left = self.left.saturating_add(more).min(BURST);
            self.until = now;
        }
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                self.answers.sent += 1;
                true
            }
            None => {
                self.answers.limited += 1;
                false
            }
        }
    }
}

/// The answer to a packet that is put in its place.
struct Answer {
    /// Bytes in front of the IP header, which become the answer's.
    link_len: usize,
    addresses: Addresses,
    /// Bytes of the packet that are quoted.
    quoted: usize,
}

/// Whether a packet that is longer than `longest` bytes is due an answer, and which.
fn due(packet: &Packet, layer: Layer) -> Option<Answer> {
    let inner = inspect(packet, layer)?;
    let link_len = usize::from(inner.network_offset?);
    let bytes = packet.get(link_len..)?;
    if layer == Layer::Ethernet && ethernet::Header::of(packet)?.dst().is_multicast() {
        return None;
    }
    let header = packet.get(link_len..)?;
    if inner.is_v6 {
        let ip = ipv6::Header::of(header)?;
        let is_error = ip.next_header() == IpProtocol::ICMPV6
            && bytes.get(ipv6::HEADER_LEN).is_none_or(|kind| icmpv6::is_error(*kind));
        let is_host = !ip.src().is_unspecified() && !ip.src().is_multicast() && !ip.dst().is_multicast();
        let quoted = bytes.len().min(LONGEST_V6 - ipv6::HEADER_LEN - icmpv6::HEADER_LEN);
        (is_host && !is_error).then_some(Answer { link_len, addresses: ip.addresses(), quoted })
    } else {
        let ip = ipv4::Header::of(header)?;
        let is_error = ip.protocol() == IpProtocol::ICMP
            && bytes.get(ip.header_len()).is_none_or(|kind| icmpv4::is_error(*kind));
        let is_one = |address: std::net::Ipv4Addr| {
            !address.is_unspecified() && !address.is_multicast() && !address.is_broadcast()
        };
        let may = ip.dont_fragment() && !ip.is_later_fragment() && is_one(ip.src()) && is_one(ip.dst());
        let quoted = bytes.len().min(LONGEST_V4 - ipv4::HEADER_LEN - icmpv4::HEADER_LEN);
        (may && !is_error).then_some(Answer { link_len, addresses: ip.addresses(), quoted })
    }
}

/// Puts in a packet's place what its sender is to be told: that packets of no more than
/// `longest` bytes, all headers counted, would have gone. False, and the packet as it was, when
/// nobody is to be told, as of a packet that routers may fragment or of an error, or when
/// there is no room or no permission.
pub(crate) fn too_long(
    packet: &mut Packet,
    layer: Layer,
    longest: usize,
    allows: impl FnOnce() -> bool,
) -> bool {
    let Some(answer) = due(packet, layer) else { return false };
    let Answer { link_len, addresses, quoted } = answer;
    let headers = match addresses {
        Addresses::V4 { .. } => ipv4::HEADER_LEN + icmpv4::HEADER_LEN,
        Addresses::V6 { .. } => ipv6::HEADER_LEN + icmpv6::HEADER_LEN,
    };
    // The link's header is at most Ethernet's and tags.
    let mut link = [0; ethernet::HEADER_LEN + 4 * wire::vlan::HEADER_LEN];
    let (Some(link), Some(there)) = (link.get_mut(..link_len), packet.get(..link_len)) else { return false };
    link.copy_from_slice(there);
    if packet.headroom() < headers || !allows() {
        return false;
    }
    drop(packet.split_next());
    let is_made = packet.set_len(link_len + quoted).is_ok() && packet.push_front(headers).is_ok();
    debug_assert!(is_made, "shorter than it was, and there is headroom");
    if let Some(front) = packet.get_mut(..link_len) {
        front.copy_from_slice(link);
        if let Some(mut header) = ethernet::Header::of_mut(front) {
            let (dst, src) = (header.dst(), header.src());
            header.set_dst(src);
            header.set_src(dst);
        }
    }
    let mtu = longest - link_len;
    match addresses {
        Addresses::V4 { src, dst } => fragmentation_needed(&mut packet[link_len..], (dst, src), mtu),
        Addresses::V6 { src, dst } => packet_too_big(&mut packet[link_len..], (dst, src), mtu),
    }
    packet.set_tx_offload(memory::TxOffload::default());
    packet.clear_annotations();
    true
}

fn fragmentation_needed(bytes: &mut [u8], ends: (std::net::Ipv4Addr, std::net::Ipv4Addr), mtu: usize) {
    let (header, message) = bytes.split_at_mut(ipv4::HEADER_LEN);
    ipv4::Repr::between(ends.0, ends.1, IpProtocol::ICMP, message.len())
        .emit(&mut ipv4::Packet::new_unchecked(header));
    if let Some(mut icmp) = icmpv4::Header::of_mut(message) {
        icmp.set_message_type(icmpv4::UNREACHABLE);
        icmp.set_code(icmpv4::NEEDS_FRAGMENTS);
        icmp.set_identifier(0);
        icmp.set_mtu(u16::try_from(mtu).unwrap_or(u16::MAX));
    }
    icmpv4::fill_checksum(message);
}

fn packet_too_big(bytes: &mut [u8], ends: (std::net::Ipv6Addr, std::net::Ipv6Addr), mtu: usize) {
    let (header, message) = bytes.split_at_mut(ipv6::HEADER_LEN);
    let (src, dst) = ends;
    let repr = ipv6::Repr {
        src,
        dst,
        next_header: IpProtocol::ICMPV6,
        hop_limit: crate::tunnel::DEFAULT_TTL,
        traffic_class: 0,
        flow_label: 0,
        payload_len: message.len(),
    };
    repr.emit(&mut ipv6::Packet::new_unchecked(header));
    if let Some(mut icmp) = icmpv6::Header::of_mut(message) {
        icmp.set_message_type(icmpv6::TOO_BIG);
        icmp.set_code(0);
        // Less is no link of IPv6's (RFC 8200, section 5).
        icmp.set_mtu((mtu as u32).max(LONGEST_V6 as u32));
    }
    icmpv6::Packet::new_unchecked(message).fill_checksum(Addresses::V6 { src, dst });
}
