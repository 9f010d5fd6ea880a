//! `TCPReflector`: answers TCP segments as a server might, without any state.

use graph::class::Headers;
use graph::{Action, Class, Cx, Each, PerPacket, random};
use memory::Packet;
use wire::ip::Protocol;
use wire::tcp::Flags;
use wire::{ipv4, tcp};

use super::checksum::fill_tcp;
use graph::annotation::PacketAnnotations;
use graph::ip_header::{self, Parts};
use port::Reason;

pub static CLASS: Class = Class {
    name: "TCPReflector",
    brief: "answers TCP segments as a server might, without any state",
    doc: "Packets begin with their IPv4 header. A SYN becomes a SYN with an acknowledgement and a random \
          sequence number; a segment with data or a FIN becomes their acknowledgement, the bytes behind the \
          header as they were. Addresses and ports are exchanged, the TTL is 250, the window 61,440, and both \
          checksums are filled in. Other packets are dropped.",
    drops: &[Reason::NotTcp, Reason::BadLengths, Reason::NoAnswerDue],
    example: "FromDevice(p) -> Strip(14) -> CheckIPHeader -> IPFilter(allow tcp && dst port 99) -> TCPReflector \
              -> EtherEncap(0x0800, 0:0:0:0:0:1, 0:0:0:0:0:2) -> ToDevice(p)",
    see: &["TCPIPSend", "ICMPPingResponder"],
    headers: Headers { finds_network: true, ..Class::BASE.headers },
    make: |_, conf| {
        conf.complete()?;
        Ok(Each::boxed(TcpReflector))
    },
    ..Class::BASE
};

/// The window of an answer.
const WINDOW: u16 = 60 * 1024;
/// The hops that an answer may take.
const TTL: u8 = 250;

/// A `TCPReflector` element; [`CLASS`] says what it does.
#[derive(Debug, Clone)]
pub struct TcpReflector;

/// Makes a packet its answer; the place of the reason when there is none.
fn answer(packet: &mut Packet) -> Result<usize, usize> {
    let length = u16::try_from(packet.total_len()).map_err(|_| 1_usize)?;
    let (bytes, behind) = packet.first_and_next();
    let mut ip = ipv4::Header::of_mut(bytes).ok_or(1_usize)?;
    let header_len = ip.header_len();
    if ip.version() != 4 || ip.protocol() != Protocol::TCP {
        return Err(0);
    }
    if header_len < ip_header::LEN {
        return Err(1);
    }
    ip.swap_addresses();
    ip.set_ttl(TTL);
    ip.set_total_len(length);
    let (header, payload) = bytes.split_at_mut_checked(header_len).ok_or(1_usize)?;
    let segment_len = usize::from(length) - header_len;
    let mut tcp = tcp::Header::of_mut(payload).ok_or(1_usize)?;
    let data = segment_len.checked_sub(tcp.header_len()).ok_or(1_usize)? as u32;
    let flags = tcp.flags().without(Flags::PSH);
    let next = tcp.sequence().wrapping_add(data);
    let (sequence, acknowledgement, flags) = match flags {
        Flags::SYN => (random::next() as u32, tcp.sequence().wrapping_add(1), Flags::SYN | Flags::ACK),
        flags if flags.contains(Flags::SYN) || flags.contains(Flags::RST) => return Err(2),
        flags if flags.contains(Flags::FIN) => {
            (tcp.acknowledgement(), next.wrapping_add(1), Flags::FIN | Flags::ACK)
        }
        _ if data > 0 => (tcp.acknowledgement(), next, Flags::ACK),
        _ => return Err(2),
    };
    let (src, dst) = (tcp.src_port(), tcp.dst_port());
    tcp.set_src_port(dst);
    tcp.set_dst_port(src);
    tcp.set_sequence(sequence);
    tcp.set_acknowledgement(acknowledgement);
    tcp.set_flags(flags);
    tcp.set_window(WINDOW);
    fill_tcp(&mut Parts { header, payload, behind }, segment_len).ok_or(1_usize)?;
    ipv4::fill_checksum(header);
    Ok(header_len)
}

impl PerPacket for TcpReflector {
    fn packet(&mut self, _: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        match answer(packet) {
            Ok(header_len) => {
                ip_header::mark(packet, 0, header_len);
                let dst = ip_header::ends(packet).1;
                packet.set_dst_ip(dst);
                Action::ON
            }
            Err(reason) => Action::drop(reason),
        }
    }

    fn replicate(&self) -> Option<TcpReflector> {
        Some(self.clone())
    }
}
