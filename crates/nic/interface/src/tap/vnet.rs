//! The header in front of frames of an interface that gives segments longer than a frame: the
//! one of virtio's network device in its legacy form, in this machine's byte order
//! (linux/virtio_net.h; Virtio 1.2, 5.1.6.1).

use memory::{Packet, TxOffload};
use regs::virtio::net::header;
use wire::ethernet::{self, EtherType};
use wire::ip::Protocol;
use wire::{ipv4, ipv6, tcp, udp, vlan};

/// Bytes of it.
pub(super) const LEN: usize = header::BYTES_LEGACY;
/// Tags of a frame, at most.
const MAX_TAGS: usize = 2;

/// Lets a frame ask for what its header says. `None` when that is nothing that can be done to
/// such a frame.
pub(super) fn apply(bytes: &[u8; LEN], packet: &mut Packet) -> Option<()> {
    let word = |at: usize| usize::from(u16::from_ne_bytes([bytes[at], bytes[at + 1]]));
    let (needs_sum, kind) = (bytes[header::FLAGS] & header::NEEDS_CSUM != 0, bytes[header::GSO_TYPE]);
    let kind = kind & !header::GSO_ECN;
    if !needs_sum {
        return (kind == header::GSO_NONE).then_some(());
    }
    let (l2_len, is_v6) = network(packet)?;
    let l3_len = word(header::CSUM_START).checked_sub(l2_len)?;
    let mut asked = TxOffload {
        flags: match word(header::CSUM_OFFSET) {
            tcp::offset::CHECKSUM => TxOffload::TCP_CHECKSUM,
            udp::offset::CHECKSUM => TxOffload::UDP_CHECKSUM,
            _ => return None,
        },
        l2_len: u8::try_from(l2_len).ok()?,
        l3_len: u8::try_from(l3_len).ok()?,
        ..TxOffload::default()
    };
    if is_v6 {
        asked.flags |= TxOffload::IPV6;
    }
    match (kind, is_v6) {
        (header::GSO_NONE, _) => {}
        (header::GSO_TCPV4, false) | (header::GSO_TCPV6, true) => {
            if !asked.has(TxOffload::TCP_CHECKSUM) {
                return None;
            }
            let l4_len = tcp::Header::of(packet.get(l2_len + l3_len..)?)?.header_len();
            asked.flags |= TxOffload::SEGMENT | if is_v6 { 0 } else { TxOffload::IP_CHECKSUM };
            asked.l4_len = u8::try_from(l4_len).ok()?;
            asked.segment_size = u16::try_from(word(header::GSO_SIZE)).ok().filter(|size| *size > 0)?;
            leave_length_out(packet, (l2_len, l3_len), is_v6)?;
        }
        _ => return None,
    }
    packet.set_tx_offload(asked);
    Some(())
}

/// Where the IP header begins, and whether it is one of IPv6.
fn network(frame: &[u8]) -> Option<(usize, bool)> {
    let (mut at, mut ethertype) = (ethernet::HEADER_LEN, ethernet::Header::of(frame)?.ethertype());
    for _ in 0..MAX_TAGS {
        if !ethertype.is_tag() {
            break;
        }
        ethertype = vlan::Header::of(frame.get(at..)?)?.ethertype();
        at += vlan::HEADER_LEN;
    }
    match ethertype {
        EtherType::IPV4 => Some((at, false)),
        EtherType::IPV6 => Some((at, true)),
        _ => None,
    }
}

/// Lets TCP's checksum hold the sum of the pseudo header without the length, which differs
/// between the pieces ([`TxOffload::SEGMENT`]); the kernel's has it.
fn leave_length_out(packet: &mut Packet, (l2_len, l3_len): (usize, usize), is_v6: bool) -> Option<()> {
    let ip = packet.get(l2_len..)?;
    let ends = match is_v6 {
        true => ipv6::Header::of(ip)?.addresses(),
        false => ipv4::Header::of(ip)?.addresses(),
    };
    let sum = ends.pseudo_header(Protocol::TCP, 0);
    tcp::Header::of_mut(packet.get_mut(l2_len + l3_len..)?)?.set_checksum(sum);
    Some(())
}
