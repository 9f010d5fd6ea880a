//! Checksums that the sender left to its device, where there is no device: a
//! packet from this machine's own stack comes over a virtual interface with only
//! the pseudo-header's sum in its field, as [`memory::TxOffload::TCP_CHECKSUM`]
//! puts it there. Sent elsewhere it would be a bad packet; so it is completed
//! here. TCP and UDP over IPv4 and IPv6, also inside the tunnels of the kernel's own
//! devices (VXLAN, Geneve, GRE, IP in IP), whose outer checksums are whole; SCTP,
//! extension headers and packets in several buffers stay as they are.

use wire::checksum;
use wire::ethernet::{self, EtherType};
use wire::ip::{Addresses, Protocol, checksum_offset};
use wire::tunnel::{geneve, gre, vxlan};
use wire::{ipv4, ipv6, udp, vlan};

/// The packets inside each other that are looked at.
const MAX_DEPTH: usize = 4;
/// The port that Linux gives VXLAN where none is asked for.
const LINUX_VXLAN: u16 = 8472;

/// A packet's transport in a frame.
struct Transport {
    protocol: Protocol,
    addresses: Addresses,
    /// Where its header begins, and where what it carries ends.
    start: usize,
    end: usize,
}

/// Completes the checksum that was left open, be it the packet's or that of one inside it;
/// `false` where none was, or it is not known how. One is open if its field holds the
/// pseudo-header's sum. If a whole packet's does by chance, completing it changes nothing.
pub(crate) fn complete(frame: &mut [u8]) -> bool {
    let mut network = behind_ethernet(frame, 0);
    for _ in 0..MAX_DEPTH {
        let Some(transport) = network.and_then(|(at, ethertype)| transport(frame, at, ethertype)) else {
            return false;
        };
        if let Some(field) = open_field(frame, &transport) {
            // For UDP zero would mean none; for TCP both are the same.
            let value = checksum::never_zero(checksum::of(&frame[transport.start..transport.end]));
            frame[field..field + 2].copy_from_slice(&value.to_be_bytes());
            return true;
        }
        network = inside(frame, &transport);
    }
    false
}

/// Where the open checksum of a transport is.
fn open_field(frame: &[u8], transport: &Transport) -> Option<usize> {
    let &Transport { protocol, addresses, start, end } = transport;
    let (Protocol::TCP | Protocol::UDP) = protocol else { return None };
    let field = start + checksum_offset(protocol)?;
    let pseudo = addresses.pseudo_header(protocol, end - start);
    (frame.get(field..end)?.first_chunk()? == &pseudo.to_be_bytes()).then_some(field)
}

/// Where the network header of a frame is that begins at `at`, and of which kind.
fn behind_ethernet(frame: &[u8], at: usize) -> Option<(usize, EtherType)> {
    let mut ethertype = ethernet::Header::of(frame.get(at..)?)?.ethertype();
    let mut network = at + ethernet::HEADER_LEN;
    for _ in 0..wire::flow::MAX_TAGS {
        if ethertype.is_tag() {
            ethertype = vlan::Header::of(frame.get(network..)?)?.ethertype();
            network += vlan::HEADER_LEN;
        }
    }
    Some((network, ethertype))
}

fn transport(frame: &[u8], network: usize, ethertype: EtherType) -> Option<Transport> {
    let packet = frame.get(network..)?;
    let (addresses, protocol, header_len, len) = match ethertype {
        EtherType::IPV4 => {
            let ip = ipv4::Header::of(packet)?;
            (ip.addresses(), ip.protocol(), ip.header_len(), ip.total_len())
        }
        EtherType::IPV6 => {
            let ip = ipv6::Header::of(packet)?;
            let len = ipv6::HEADER_LEN + ip.payload_len();
            (ip.addresses(), ip.next_header(), ipv6::HEADER_LEN, len)
        }
        _ => return None,
    };
    let (start, end) = (network + header_len, network + len);
    // Padding behind the packet is zero, if anything; strange lengths are let alone.
    let is_sound = start <= end && end <= frame.len() && frame[end..].iter().all(|&byte| byte == 0);
    is_sound.then_some(Transport { protocol, addresses, start, end })
}

/// Where the network header is of the packet that a tunnel's packet carries, and of which kind.
fn inside(frame: &[u8], transport: &Transport) -> Option<(usize, EtherType)> {
    let at = transport.start;
    let bytes = frame.get(at..transport.end)?;
    match transport.protocol {
        Protocol::IPV4 => Some((at, EtherType::IPV4)),
        Protocol::IPV6 => Some((at, EtherType::IPV6)),
        Protocol::GRE => {
            let header = gre::Header::of(bytes)?;
            behind(frame, at + header.header_len(), header.protocol())
        }
        Protocol::UDP => {
            let body = udp::HEADER_LEN;
            match udp::Header::of(bytes)?.dst_port() {
                vxlan::PORT | LINUX_VXLAN => behind_ethernet(frame, at + body + vxlan::HEADER_LEN),
                geneve::PORT => {
                    let header = geneve::Header::of(bytes.get(body..)?)?;
                    let len = body + geneve::HEADER_LEN + header.options_len();
                    behind(frame, at + len, header.protocol())
                }
                _ => None,
            }
        }
        _ => None,
    }
}

/// What begins at `at`, a frame or a packet.
fn behind(frame: &[u8], at: usize, ethertype: EtherType) -> Option<(usize, EtherType)> {
    match ethertype {
        EtherType::TRANSPARENT_BRIDGING => behind_ethernet(frame, at),
        ethertype => Some((at, ethertype)),
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const UDP: u8 = 17;

    /// A UDP packet as a stack leaves it to its device, and the whole one.
    fn udp(payload: &[u8], tags: usize) -> (Vec<u8>, u16) {
        let (src, dst) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
        let len = 8 + payload.len() as u16;
        let mut datagram = vec![0x12, 0x34, 0, 53];
        datagram.extend(len.to_be_bytes());
        datagram.extend([0, 0]);
        datagram.extend(payload);
        let pseudo = checksum::pseudo_header_v4(src, dst, UDP, u32::from(len));
        datagram[6..8].copy_from_slice(&pseudo.to_be_bytes());
        let whole = checksum::of(&datagram);
        let mut frame = vec![2; 12];
        frame.extend([0x81, 0, 0, 7].repeat(tags));
        frame.extend([8, 0, 0x45, 0]);
        frame.extend((20 + len).to_be_bytes());
        frame.extend([0, 0, 0, 0, 64, UDP, 0, 0]);
        frame.extend(src.octets());
        frame.extend(dst.octets());
        frame.extend(datagram);
        frame.resize(frame.len().max(60), 0);
        (frame, whole)
    }

    #[test]
    fn the_rest_is_added_to_the_pseudo_header() {
        for (payload, tags) in [(&b"x"[..], 0), (b"four", 1), (&[7; 1001][..], 2), (b"", 0)] {
            let (mut frame, whole) = udp(payload, tags);
            assert!(complete(&mut frame));
            let at = 14 + 4 * tags + 20 + 6;
            assert_eq!(frame[at..at + 2], whole.to_be_bytes(), "{} bytes, {tags} tags", payload.len());
        }
    }

    #[test]
    fn an_open_checksum_is_known_by_its_value() {
        let (mut open, whole) = udp(b"payload", 0);
        assert!(complete(&mut open));
        assert_eq!(open[40..42], whole.to_be_bytes());
        let before = open.clone();
        assert!(!complete(&mut open), "it is whole now");
        // None at all, and a wrong one, stay what they are.
        for value in [[0, 0], [0x12, 0x34]] {
            open[40..42].copy_from_slice(&value);
            assert!(!complete(&mut open));
            assert_eq!((&open[40..42], &open[..40], &open[42..]), (&value[..], &before[..40], &before[42..]));
        }
    }

    /// A packet of a tunnel without a UDP checksum.
    fn in_udp(port: u16, header: &[u8], frame: &[u8]) -> Vec<u8> {
        let (mut outer, _) = udp(&[header, frame].concat(), 0);
        outer[36..38].copy_from_slice(&port.to_be_bytes());
        outer[40..42].fill(0);
        outer
    }

    #[test]
    fn the_checksum_of_a_packet_in_a_tunnel_is_its_own() {
        let (open, whole) = udp(b"inside", 1);
        let mut wanted = open.clone();
        wanted[44..46].copy_from_slice(&whole.to_be_bytes());
        let vxlan = [8, 0, 0, 0, 0, 0, 100, 0];
        let geneve = [1, 0, 0x65, 0x58, 0, 0, 100, 0, 0, 1, 2, 0];
        for (port, header) in [(4789, &vxlan[..]), (8472, &vxlan), (6081, &geneve)] {
            let mut frame = in_udp(port, header, &open);
            assert!(complete(&mut frame), "{port}");
            assert_eq!(frame, in_udp(port, header, &wanted), "{port}");
            let twice = in_udp(port, header, &in_udp(port, header, &open));
            assert!(complete(&mut twice.clone()), "a tunnel in a tunnel");
        }
        let mut frame = in_udp(53, &vxlan, &open);
        assert!(!complete(&mut frame), "this is no tunnel");
        for len in 0..frame.len() {
            complete(&mut in_udp(4789, &vxlan, &open)[..len]);
        }
    }

    #[test]
    fn ipv6_is_known_as_well() {
        let mut frame = vec![2; 12];
        frame.extend([0x86, 0xDD, 0x60, 0, 0, 0, 0, 12, UDP, 64]);
        frame.extend([0xFD; 16]);
        frame.extend([0xFC; 16]);
        let pseudo = checksum::pseudo_header_v6([0xFD; 16].into(), [0xFC; 16].into(), UDP, 12);
        frame.extend([0, 7, 0, 8, 0, 12]);
        frame.extend(pseudo.to_be_bytes());
        frame.extend(b"data");
        assert!(complete(&mut frame));
        // A receiver's sum over all of it, the pseudo-header included, is all ones.
        assert_eq!(checksum::combine(pseudo, checksum::sum(&frame[54..])), 0xFFFF);
    }

    #[test]
    fn nothing_is_touched_where_it_is_not_known_how() {
        let (whole, _) = udp(&[5; 40], 0);
        for len in 0..whole.len() {
            let mut cut = whole[..len].to_vec();
            assert!(!complete(&mut cut), "{len} bytes");
            assert_eq!(cut, whole[..len]);
        }
        let (mut other, _) = udp(&[5; 40], 0);
        other[23] = 132;
        assert!(!complete(&mut other));
    }
}
