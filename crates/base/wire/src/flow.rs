//! Which flow a frame belongs to: where its layers begin, and the five fields that
//! name the flow. Up to [`MAX_TAGS`] VLAN tags and [`ipv6::MAX_EXTENSIONS`] extension
//! headers are skipped; tunnels are not looked into. No checksum is verified.

use crate::ethernet::{self, EtherType};
use crate::ip::{Addresses, Ports, Protocol};
use crate::{Error, Result, ipv4, ipv6, tcp, toeplitz, udp, vlan};

/// A service tag and a customer tag.
pub const MAX_TAGS: usize = 2;

/// Where a frame's layers begin, and whose frame it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flow {
    /// Bytes before the IP header: Ethernet's header and the tags.
    pub l2_len: usize,
    /// Bytes of the IP header, with options or extension headers.
    pub l3_len: usize,
    /// Bytes of the TCP or UDP header; 0 for other protocols and for fragments.
    pub l4_len: usize,
    /// Bytes from the frame's start to the end of the IP packet: what lies behind is
    /// padding.
    pub end: usize,
    /// The outer tag's control information.
    pub vlan: Option<u16>,
    /// From whom and to whom.
    pub addresses: Addresses,
    /// The protocol above IP.
    pub protocol: Protocol,
    /// Source and destination port of a TCP or UDP packet that is no fragment. First
    /// fragments do hold ports, but a flow whose packets had them only now and then
    /// would fall apart.
    pub ports: Option<(u16, u16)>,
    /// Whether the packet is a fragment, first ones included.
    pub fragment: bool,
}

impl Flow {
    /// The flow of an Ethernet frame. [`Error::Unsupported`] when it carries no IP.
    #[inline]
    pub fn of(frame: &[u8]) -> Result<Flow> {
        match Flow::of_plain_tcp(frame) {
            Some(flow) => Ok(flow),
            None => Flow::of_any(frame),
        }
    }

    /// The flow of a frame as nearly all that carry TCP over IPv4 are: without tags, options of IP
    /// and fragments. Nothing of it is looked at twice. `None` of all others.
    #[inline]
    fn of_plain_tcp(frame: &[u8]) -> Option<Flow> {
        const L4: usize = ethernet::HEADER_LEN + ipv4::HEADER_LEN;
        let front: &[u8; L4 + tcp::HEADER_LEN] = frame.first_chunk()?;
        let ethernet = ethernet::Header::of(front)?;
        let ip = ipv4::Header::of(&front[ethernet::HEADER_LEN..])?;
        let tcp = tcp::Header::of(&front[L4..])?;
        let is_plain = ethernet.ethertype() == EtherType::IPV4
            && ip.is_without_options()
            && ip.protocol() == Protocol::TCP
            && !ip.is_fragment();
        let (end, l4_len) = (ethernet::HEADER_LEN + ip.total_len(), tcp.header_len());
        if !is_plain || l4_len < tcp::HEADER_LEN || L4 + l4_len > end || end > frame.len() {
            return None;
        }
        Some(Flow {
            l2_len: ethernet::HEADER_LEN,
            l3_len: ipv4::HEADER_LEN,
            l4_len,
            end,
            vlan: None,
            addresses: ip.addresses(),
            protocol: Protocol::TCP,
            ports: Some((tcp.src_port(), tcp.dst_port())),
            fragment: false,
        })
    }

    fn of_any(frame: &[u8]) -> Result<Flow> {
        let ethernet = ethernet::Frame::new_checked(frame)?;
        let mut ethertype = ethernet.ethertype();
        let mut l2_len = ethernet::HEADER_LEN;
        let mut control = None;
        for _ in 0..MAX_TAGS {
            if !ethertype.is_tag() {
                break;
            }
            let tag = vlan::Tag::new_checked(&frame[l2_len..])?;
            control = control.or(Some(tag.control()));
            ethertype = tag.ethertype();
            l2_len += vlan::HEADER_LEN;
        }
        let packet = &frame[l2_len..];
        let flow = match ethertype {
            EtherType::IPV4 => Flow::of_ipv4(&ipv4::Packet::new_checked(packet)?),
            EtherType::IPV6 => Flow::of_ipv6(&ipv6::Packet::new_checked(packet)?)?,
            _ => return Err(Error::Unsupported),
        };
        Flow { l2_len, end: flow.end + l2_len, vlan: control, ..flow }.with_ports(frame)
    }

    fn of_ipv4(packet: &ipv4::Packet<&[u8]>) -> Flow {
        Flow {
            l2_len: 0,
            l3_len: packet.header_len(),
            l4_len: 0,
            end: packet.total_len(),
            vlan: None,
            addresses: packet.addresses(),
            protocol: packet.protocol(),
            ports: None,
            fragment: packet.is_fragment(),
        }
    }

    fn of_ipv6(packet: &ipv6::Packet<&[u8]>) -> Result<Flow> {
        let upper = packet.upper_layer()?;
        Ok(Flow {
            l2_len: 0,
            l3_len: ipv6::HEADER_LEN + upper.offset,
            l4_len: 0,
            end: ipv6::HEADER_LEN + packet.payload_len(),
            vlan: None,
            addresses: packet.addresses(),
            protocol: upper.protocol,
            ports: None,
            // One fragment that is the whole packet (RFC 6946) is none.
            fragment: upper.fragment.is_some_and(|fragment| fragment.more || fragment.offset != 0),
        })
    }

    fn with_ports(mut self, frame: &[u8]) -> Result<Flow> {
        if self.fragment {
            return Ok(self);
        }
        let upper = &frame[self.l4_offset()..self.end];
        self.l4_len = match self.protocol {
            Protocol::TCP => tcp::Segment::new_checked(upper)?.header_len(),
            Protocol::UDP if upper.len() < udp::HEADER_LEN => return Err(Error::Truncated),
            Protocol::UDP => udp::HEADER_LEN,
            _ => return Ok(self),
        };
        let Some(ports) = Ports::of(upper) else { return Err(Error::Truncated) };
        self.ports = Some((ports.src(), ports.dst()));
        Ok(self)
    }

    /// Where the IP header begins, in bytes.
    pub fn l3_offset(&self) -> usize {
        self.l2_len
    }

    /// Where the layer above IP begins, in bytes.
    pub fn l4_offset(&self) -> usize {
        self.l2_len + self.l3_len
    }

    /// What the payload of TCP and UDP is, in a frame this flow was read from.
    pub fn payload_range(&self) -> std::ops::Range<usize> {
        self.l4_offset() + self.l4_len..self.end
    }

    /// What a NIC hashes to spread flows: addresses, then ports where there are any.
    pub fn rss_input(&self) -> RssInput {
        let mut input = RssInput { bytes: [0; toeplitz::MAX_INPUT], len: 0 };
        match self.addresses {
            Addresses::V4 { src, dst } => {
                input.push(&src.octets());
                input.push(&dst.octets());
            }
            Addresses::V6 { src, dst } => {
                input.push(&src.octets());
                input.push(&dst.octets());
            }
        }
        if let Some((src, dst)) = self.ports {
            input.push(&src.to_be_bytes());
            input.push(&dst.to_be_bytes());
        }
        input
    }
}

/// A number that is the same for all packets of a frame's flow that are no fragments, and
/// most likely another for other flows: of addresses, protocol and ports, or of the Ethernet header of what carries
/// no IP. Who knows it can find flows with equal numbers: it spreads, and keeps nobody out.
pub fn hash(frame: &[u8]) -> u32 {
    let (input, protocol) = match Flow::of(frame) {
        Ok(flow) => (flow.rss_input(), flow.protocol.0),
        Err(_) => {
            let mut input = RssInput { bytes: [0; toeplitz::MAX_INPUT], len: 0 };
            input.push(&frame[..frame.len().min(ethernet::HEADER_LEN)]);
            (input, 0)
        }
    };
    let mut state = u64::from(protocol) ^ (input.len as u64) << 8 ^ 0x9E37_79B9_7F4A_7C15;
    for word in input.as_ref().chunks(8) {
        let word = word.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        // The finish of splitmix64.
        state = (state ^ word).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        state = (state ^ state >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        state ^= state >> 31;
    }
    (state >> 32) as u32
}

/// The UDP source port by which routers tell tunnelled flows apart: 49,152 to 65,535 (RFC
/// 7348, section 5; RFC 6335, section 6).
#[inline]
pub const fn source_port(hash: u32) -> u16 {
    0xC000 | ((hash >> 16) as u16 ^ hash as u16) & 0x3FFF
}

/// The IPv6 flow label by which routers tell flows apart: 20 bits, not zero, which says that
/// there is none (RFC 6437, section 3; RFC 6438).
#[inline]
pub const fn label(hash: u32) -> u32 {
    let label = (hash >> 12 ^ hash) & 0xF_FFFF;
    if label == 0 { 1 } else { label }
}

/// What a NIC hashes, as bytes: see [`Flow::rss_input`].
#[derive(Debug, Clone, Copy)]
pub struct RssInput {
    bytes: [u8; toeplitz::MAX_INPUT],
    len: usize,
}

impl RssInput {
    fn push(&mut self, bytes: &[u8]) {
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }
}

impl AsRef<[u8]> for RssInput {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A frame of a TCP segment without data, in which some bytes are others.
    fn frame(len: usize, changes: &[(usize, u8)]) -> Vec<u8> {
        let mut frame = vec![0; len];
        ethernet::Frame::new_unchecked(&mut frame[..]).set_ethertype(EtherType::IPV4);
        let (src, dst) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        let ip = ipv4::Repr::between(src, dst, Protocol::TCP, tcp::HEADER_LEN);
        ip.emit(&mut ipv4::Packet::new_unchecked(&mut frame[ethernet::HEADER_LEN..]));
        let l4 = ethernet::HEADER_LEN + ipv4::HEADER_LEN;
        tcp::Segment::new_unchecked(&mut frame[l4..]).set_header_len(tcp::HEADER_LEN);
        changes.iter().for_each(|(at, byte)| frame[*at] = *byte);
        frame
    }

    #[test]
    fn a_plain_frame_takes_the_short_way() {
        assert!(Flow::of_plain_tcp(&frame(60, &[])).is_some());
    }

    proptest! {
        #[test]
        fn what_takes_the_short_way_is_read_as_by_the_long_one(
            len in 54_usize..70,
            changes in prop::collection::vec((0_usize..54, any::<u8>()), 0..3),
        ) {
            let frame = frame(len, &changes);
            if let Some(flow) = Flow::of_plain_tcp(&frame) {
                prop_assert_eq!(Flow::of_any(&frame), Ok(flow));
            }
        }
    }
}
