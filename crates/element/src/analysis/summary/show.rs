//! Fields of a packet, as text.

use std::fmt::Write;

use memory::Packet;
use memory::annotation::Header;

use super::{FLAGS, Field};
use crate::analysis::text;
use crate::annotation::{AGGREGATE, EXTRA_LENGTH, EXTRA_PACKETS, FIRST_TIMESTAMP, Notes, PAINT};
use crate::ip::header::{LEN, is_first_fragment, u16_at, u32_at};

/// What is known of a packet's headers.
struct View<'a> {
    ip: Option<&'a [u8]>,
    /// The transport header of a first fragment, with what follows it.
    transport: &'a [u8],
}

fn view(packet: &Packet) -> View<'_> {
    let sound = |ip: &&[u8]| {
        let header = usize::from(ip[0] & 0xF) * 4;
        ip.len() >= 4 && ip[0] >> 4 == 4 && header >= LEN && usize::from(u16_at(ip, 2)) >= header
    };
    let ip = packet.header(Header::Network).filter(|ip| !ip.is_empty()).filter(sound);
    let transport = ip.filter(|ip| is_first_fragment(ip)).and_then(|ip| {
        let header = usize::from(ip[0] & 0xF) * 4;
        // What is behind the IP packet is no part of it.
        ip.get(header..usize::from(u16_at(ip, 2)).min(ip.len()))
    });
    View { ip, transport: transport.unwrap_or(&[]) }
}

impl View<'_> {
    /// A number in the IP header, of which `bytes` must be there.
    fn ip(&self, bytes: usize, read: impl Fn(&[u8]) -> u32) -> Option<u32> {
        self.ip.filter(|ip| ip.len() >= bytes).map(read)
    }

    /// A number behind the header of one of some protocols.
    fn behind(&self, protocols: &[u8], bytes: usize, read: impl Fn(&[u8]) -> u32) -> Option<u32> {
        let protocol = self.ip.and_then(|ip| ip.get(9))?;
        (protocols.contains(protocol) && self.transport.len() >= bytes).then(|| read(self.transport))
    }

    /// What is behind all headers, and how long it was.
    fn payload<'p>(&self, packet: &'p Packet) -> (&'p [u8], usize) {
        let Some(ip) = self.ip else { return (&packet[..], packet.total_len()) };
        let header = usize::from(ip[0] & 0xF) * 4;
        let more = match (ip.get(9), self.transport) {
            (Some(6), tcp) if tcp.len() >= 13 => usize::from(tcp[12] >> 4) * 4,
            (Some(17 | 1), behind) if behind.len() >= 8 => 8,
            _ => 0,
        };
        let total = usize::from(u16_at(ip, 2));
        let at = header + more;
        let there = packet.header(Header::Network).and_then(|ip| ip.get(at..total.min(ip.len())));
        (there.unwrap_or(&[]), total.saturating_sub(at))
    }
}

/// Appends a field; whether the packet has it.
pub(crate) fn show(field: Field, packet: &Packet, extra: bool, out: &mut String) -> bool {
    let view = view(packet);
    let stamp = packet.annotations().timestamp_ns;
    let extra = if extra { packet.u32_at(EXTRA_LENGTH) } else { 0 };
    let text = match field {
        Field::Timestamp => Some(text::time(stamp)),
        Field::FirstTimestamp => Some(text::time(i64::from_ne_bytes(packet.bytes_at(FIRST_TIMESTAMP)))),
        Field::Seconds => Some(stamp.div_euclid(1_000_000_000).to_string()),
        Field::Microseconds => Some((stamp.rem_euclid(1_000_000_000) / 1000).to_string()),
        Field::Direction => Some(match packet.u8_at(PAINT) {
            0 => ">".into(),
            1 => "<".into(),
            other => other.to_string(),
        }),
        Field::IpSrc | Field::IpDst => {
            let at = if field == Field::IpSrc { 12 } else { 16 };
            view.ip(at + 4, |ip| u32_at(ip, at)).map(|a| std::net::Ipv4Addr::from(a).to_string())
        }
        Field::IpEcn => {
            view.ip(2, |ip| u32::from(ip[1] & 3)).map(|n| ["no", "ect1", "ect2", "ce"][n as usize & 3].into())
        }
        Field::IpFrag => view.ip(8, |ip| u16_at(ip, 6).into()).map(|n| {
            let fragment = n & 0x3FFF != 0;
            match (fragment, n & 0x1FFF == 0, n & 0x4000 != 0) {
                (true, true, _) => "F",
                (true, false, _) => "f",
                (false, _, true) => "!",
                _ => ".",
            }
            .into()
        }),
        Field::IpFragOff => view.ip(8, |ip| u16_at(ip, 6).into()).map(|n| {
            let (more, whole) =
                (if n & 0x2000 != 0 { "+" } else { "" }, if n & 0x4000 != 0 { "!" } else { "" });
            format!("{}{more}{whole}", (n & 0x1FFF) << 3)
        }),
        Field::IpProto => view.ip(10, |ip| ip[9].into()).map(|n| match n {
            6 => "T".into(),
            17 => "U".into(),
            1 => "I".into(),
            other => other.to_string(),
        }),
        Field::TcpFlags => view.behind(&[6], 14, |tcp| u32::from(u16_at(tcp, 12) & 0x1FF)).map(flags),
        Field::Payload => Some(graph::lang::args::quote(view.payload(packet).0)),
        _ => number(field, &view, packet, extra).map(|n| n.to_string()),
    };
    let _ = write!(out, "{}", text.as_deref().unwrap_or("-"));
    text.is_some()
}

fn number(field: Field, view: &View<'_>, packet: &Packet, extra: u32) -> Option<u32> {
    const PORTS: &[u8] = &[6, 17, 33, 136];
    match field {
        Field::Count => Some(packet.u32_at(EXTRA_PACKETS).wrapping_add(1)),
        Field::Link => Some(packet.u8_at(PAINT).into()),
        Field::Aggregate => Some(packet.u32_at(AGGREGATE)),
        Field::WireLen => Some(packet.total_len() as u32),
        Field::IpTos => view.ip(2, |ip| ip[1].into()),
        Field::IpDscp => view.ip(2, |ip| u32::from(ip[1] >> 2)),
        Field::IpTtl => view.ip(9, |ip| ip[8].into()),
        Field::IpId => view.ip(6, |ip| u16_at(ip, 4).into()),
        Field::IpSum => view.ip(12, |ip| u16_at(ip, 10).into()),
        Field::IpHl => view.ip(1, |ip| u32::from(ip[0] & 0xF) * 4),
        Field::IpLen => match view.ip {
            Some(ip) => Some(u16_at(ip, 2).into()),
            None => Some((packet.total_len() as u32).saturating_add(extra)),
        },
        Field::IpCaptureLen => match view.ip {
            Some(ip) => Some((ip.len() as u32).min(u16_at(ip, 2).into())),
            None => Some(packet.total_len() as u32),
        },
        Field::SPort => view.behind(PORTS, 2, |t| u16_at(t, 0).into()),
        Field::DPort => view.behind(PORTS, 4, |t| u16_at(t, 2).into()),
        Field::TcpSeq => view.behind(&[6], 8, |t| u32_at(t, 4)),
        Field::TcpAck => view.behind(&[6], 12, |t| u32_at(t, 8)),
        Field::TcpOff => view.behind(&[6], 13, |t| u32::from(t[12] >> 4) * 4),
        Field::TcpWindow => view.behind(&[6], 16, |t| u16_at(t, 14).into()),
        Field::TcpUrp => view.behind(&[6], 20, |t| u16_at(t, 18).into()),
        Field::UdpLen => view.behind(&[17], 6, |t| u16_at(t, 4).into()),
        Field::IcmpType => view.behind(&[1], 1, |t| t[0].into()),
        Field::IcmpCode => view.behind(&[1], 2, |t| t[1].into()),
        Field::PayloadLen => Some(view.payload(packet).1 as u32),
        _ => None,
    }
}

fn flags(bits: u32) -> String {
    match bits {
        0 => ".".into(),
        0x18 => "PA".into(),
        _ => FLAGS
            .iter()
            .enumerate()
            .filter(|(n, _)| bits >> n & 1 != 0)
            .map(|(_, c)| char::from(*c))
            .collect(),
    }
}
