//! What a device finds in a frame: tags, network and transport header, and whether their
//! checksums are right. Each model tells its driver of it in its own bits. Tunnels are not
//! looked into; SCTP is named but not checked.

use wire::ethernet::{self, EtherType};
use wire::ip::{self, Protocol};
use wire::{ipv4, ipv6, tcp, udp, vlan};

use crate::checksum::{RIGHT, add, fold, pseudo, sum};

/// IPv6 extension headers that are followed, at most.
const MAX_EXTENSIONS: usize = 8;

/// The network header of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Network {
    /// None, or not all of it.
    #[default]
    None,
    /// IPv4, with options or without.
    V4 { options: bool },
    /// IPv6, with extension headers or without.
    V6 { extensions: bool },
}

/// A frame's headers.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Headers {
    /// The first tag's control information.
    pub tag: Option<u16>,
    /// The type behind the tags.
    pub ethertype: u16,
    pub network: Network,
    /// Where the network header is; 0 when there is no IP.
    pub l3: u16,
    /// Where the TCP, UDP or SCTP header is; 0 when there is none, or not all of it.
    pub l4: u16,
    /// IP protocol of the last header.
    pub protocol: u8,
    /// Whether the IPv4 header's checksum is right.
    pub ip_checksum: Option<bool>,
    /// Whether TCP's or UDP's is; `None` too where UDP has none.
    pub l4_checksum: Option<bool>,
}

fn be16(frame: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*frame.get(at..)?.first_chunk()?))
}

/// Looks at a frame's headers, behind up to `most_tags` tags of the types that `is_tag` takes
/// for one.
pub(crate) fn parse(frame: &[u8], most_tags: usize, is_tag: impl Fn(EtherType) -> bool) -> Headers {
    let mut headers = Headers::default();
    let mut at = ethernet::offset::ETHERTYPE;
    let mut ethertype = be16(frame, at).unwrap_or(0);
    for _ in 0..most_tags {
        if !is_tag(EtherType(ethertype)) {
            break;
        }
        headers.tag = headers.tag.or(be16(frame, at + 2));
        at += vlan::HEADER_LEN;
        ethertype = be16(frame, at).unwrap_or(0);
    }
    headers.ethertype = ethertype;
    match EtherType(ethertype) {
        EtherType::IPV4 => ipv4(frame, at + 2, &mut headers),
        EtherType::IPV6 => ipv6(frame, at + 2, &mut headers),
        _ => None,
    };
    headers
}

fn ipv4(frame: &[u8], at: usize, headers: &mut Headers) -> Option<()> {
    let fixed = ipv4::Header::of(frame.get(at..)?)?;
    let len = fixed.header_len();
    if fixed.version() != 4 || len < ipv4::HEADER_LEN {
        return None;
    }
    let whole = frame.get(at..at + len)?;
    headers.l3 = at as u16;
    headers.network = Network::V4 { options: len > ipv4::HEADER_LEN };
    headers.ip_checksum = Some(fold(sum(whole)) == RIGHT);
    headers.protocol = fixed.protocol().0;
    if fixed.is_fragment() {
        return None;
    }
    let l4 = frame.get(at + len..at + fixed.total_len())?;
    transport(l4, at + len, sum(&whole[ipv4::offset::SRC..ipv4::HEADER_LEN]), headers)
}

fn ipv6(frame: &[u8], at: usize, headers: &mut Headers) -> Option<()> {
    let fixed = ipv6::Header::of(frame.get(at..)?)?;
    if fixed.version() != 6 {
        return None;
    }
    headers.l3 = at as u16;
    headers.network = Network::V6 { extensions: false };
    let mut l4 = at + ipv6::HEADER_LEN;
    let end = l4 + fixed.payload_len();
    let mut next = fixed.next_header();
    for _ in 0..MAX_EXTENSIONS {
        headers.protocol = next.0;
        match next {
            Protocol::HOP_BY_HOP | Protocol::ROUTING | Protocol::DESTINATION => {
                headers.network = Network::V6 { extensions: true };
                let extension = ipv6::Extension::of(frame.get(l4..)?)?;
                (next, l4) = (extension.next_header(), l4 + extension.header_len());
            }
            Protocol::FRAGMENT => {
                headers.network = Network::V6 { extensions: true };
                return None;
            }
            _ => {
                let addresses = &fixed.into_inner()[ipv6::offset::SRC..];
                return transport(frame.get(l4..end)?, l4, sum(addresses), headers);
            }
        }
    }
    None
}

fn transport(l4: &[u8], at: usize, addresses: u64, headers: &mut Headers) -> Option<()> {
    let protocol = Protocol(headers.protocol);
    let least = match protocol {
        Protocol::TCP => tcp::HEADER_LEN,
        Protocol::UDP => udp::HEADER_LEN,
        Protocol::SCTP => ip::SCTP_HEADER_LEN,
        _ => return None,
    };
    if l4.len() < least {
        return None;
    }
    headers.l4 = at as u16;
    let absent = protocol == Protocol::UDP && be16(l4, udp::offset::CHECKSUM) == Some(0);
    if protocol != Protocol::SCTP && !absent {
        let pseudo = pseudo(protocol.0, l4.len() as u32);
        headers.l4_checksum = Some(fold(add(add(addresses, pseudo), sum(l4))) == RIGHT);
    }
    Some(())
}
