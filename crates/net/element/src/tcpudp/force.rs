//! `ForceIP`, `ForceTCP`, `ForceUDP`, `ForceICMP`: any bytes made into packets that are
//! valid, or nearly so, for testing those who receive them.

use graph::class::{Headers, mandatory, positional};
use graph::value::Raw;
use graph::{Action, Class, Cx, Each, PerPacket};
use memory::Packet;
use wire::{checksum, icmpv4, ipv4, tcp, udp};

use super::words::{TcpPort, UdpPort};
use crate::icmp::kind;
use graph::chain::Bytes;
use graph::ip_header::{self, Parts};
use graph::random;
use port::Reason;

const BASE: Class = Class {
    drops: &[Reason::BadLengths],
    see: &["ForceIP", "ForceTCP", "ForceUDP", "ForceICMP"],
    headers: Headers { needs_network: true, ..Class::BASE.headers },
    ..Class::BASE
};

/// The class for IP headers.
pub static IP: Class = Class {
    name: "ForceIP",
    brief: "makes valid IP headers of the packets' first bytes",
    doc: "Version, lengths and checksum are set; of eight packets one stays the fragment it was.",
    example: "RandomSource(64) -> ForceIP -> Discard",
    headers: Headers { finds_network: true, ..Class::BASE.headers },
    make: |_, conf| {
        conf.complete()?;
        Ok(Each::boxed(ForceIp { count: 0 }))
    },
    ..BASE
};

/// The class for TCP.
pub static TCP: Class = Class {
    name: "ForceTCP",
    brief: "makes valid TCP segments of packets",
    doc: "A data offset that cannot be becomes another, and the checksum right. DPORT is the destination port; \
          without one it stays, or with RANDOM_DPORT now and then is 80 or below 1024.",
    arguments: &[
        positional("DPORT", "the destination port; 0 for none"),
        positional("RANDOM_DPORT", "whether it is any, now and then; false"),
        positional("FLAGS", "the flags; -1 for those that are there"),
    ],
    example: "RandomSource(64) -> ForceIP -> ForceTCP(80) -> Discard",
    make: |_, conf| {
        let port = conf.positional::<TcpPort>("DPORT")?.map_or(0, |port| port.0);
        let any = conf.positional("RANDOM_DPORT")?.unwrap_or(false);
        let flags = conf.positional::<i32>("FLAGS")?.filter(|flags| *flags != -1);
        conf.complete()?;
        let what = What::Tcp { port, any, flags: flags.map(|flags| flags as u8), count: 0 };
        Ok(Each::boxed(Force { name: "ForceTCP", what }))
    },
    ..BASE
};

/// The class for UDP.
pub static UDP: Class = Class {
    name: "ForceUDP",
    brief: "makes valid UDP datagrams of packets",
    doc: "Length and checksum are set, and the destination port to DPORT, or any below 1024.",
    arguments: &[positional("DPORT", "the destination port; -1 for any")],
    example: "RandomSource(64) -> ForceIP -> ForceUDP(53) -> Discard",
    make: |_, conf| {
        let port = match conf.arguments().first().map(|argument| argument.trim()) {
            Some("-1") => conf.positional::<Raw>("DPORT")?.and(None),
            _ => conf.positional::<UdpPort>("DPORT")?.map(|port| port.0),
        };
        conf.ignore("CHECKLENGTH");
        conf.complete()?;
        Ok(Each::boxed(Force { name: "ForceUDP", what: What::Udp { port } }))
    },
    ..BASE
};

/// The class for ICMP.
pub static ICMP: Class = Class {
    name: "ForceICMP",
    brief: "makes valid ICMP messages of packets",
    doc: "Type, code and checksum are set.",
    arguments: &[
        mandatory("TYPE", "the type, by name or number"),
        mandatory("CODE", "the code, by name or number"),
    ],
    example: "RandomSource(64) -> ForceIP -> ForceICMP(echo, 0) -> Discard",
    make: |_, conf| {
        let (kind, code): (String, String) = (conf.mandatory("TYPE")?, conf.mandatory("CODE")?);
        conf.complete()?;
        let kind = kind::number(&kind).ok_or("TYPE: expected ICMP type")?;
        let kind = u8::try_from(kind).map_err(|_| "ICMP type must be between 0 and 255")?;
        let code = kind::code(kind, &code).ok_or("argument 2 takes ICMP code")?;
        Ok(Each::boxed(Force { name: "ForceICMP", what: What::Icmp { kind, code } }))
    },
    ..BASE
};

/// A `ForceIP` element; [`IP`] says what it does.
#[derive(Debug, Clone)]
pub struct ForceIp {
    count: u64,
}

impl PerPacket for ForceIp {
    fn packet(&mut self, _: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        let there = packet.total_len();
        let Ok(length) = u16::try_from(there) else { return Action::drop(0) };
        let Some(mut ip) = ipv4::Header::of_mut(packet) else { return Action::drop(0) };
        ip.set_total_len(length);
        if self.count % 8 != 1 {
            ip.set_fragment_word(0);
        }
        self.count += 1;
        let said = ip.header_len();
        let fits = (ip_header::LEN..=there).contains(&said);
        let header_len = if fits { said } else { there / 4 % 16 * 4 };
        ip.set_header_len(header_len);
        ip.set_checksum(0);
        // Also of a header that its length says is not there.
        let sum = packet.get(..header_len).map_or(0, checksum::of);
        if let Some(mut ip) = ipv4::Header::of_mut(packet) {
            ip.set_checksum(sum);
        }
        let at = said.min(there);
        ip_header::mark(packet, 0, at);
        Action::ON
    }

    fn replicate(&self) -> Option<ForceIp> {
        Some(self.clone())
    }
}

/// What packets become.
#[derive(Debug, Clone)]
enum What {
    Tcp { port: u16, any: bool, flags: Option<u8>, count: u32 },
    Udp { port: Option<u16> },
    Icmp { kind: u8, code: u8 },
}

/// See [`TCP`], [`UDP`], [`ICMP`].
#[derive(Debug, Clone)]
pub struct Force {
    name: &'static str,
    what: What,
}

impl What {
    fn apply(&mut self, packet: &mut Packet) -> Option<()> {
        let Parts { header: ip, payload, behind } = ip_header::parts(packet)?;
        let length = ip_header::total_len(ip).checked_sub(ip.len())?;
        if Bytes::new(payload, behind).len() < length {
            return None;
        }
        let here = payload.len().min(length);
        let payload = &mut payload[..here];
        // Options count too, as Click has it.
        let pseudo = ipv4::Header::of(ip)?.pseudo_header(length);
        let before = checksum::combine(pseudo, checksum::sum(&ip[ip_header::LEN..]));
        let payload_sum = |payload: &[u8]| Bytes::new(payload, behind).sum(length);
        let sum = |payload: &[u8]| Some(!checksum::combine(before, payload_sum(payload)?));
        match self {
            What::Tcp { port, any, flags, count } => {
                force_tcp(tcp::Header::of_mut(payload)?, length, *flags, (*port, *any, *count));
                *count = count.wrapping_add(1);
                let sum = sum(payload)?;
                tcp::Header::of_mut(payload)?.set_checksum(sum);
            }
            What::Udp { port } => {
                let port = port.unwrap_or_else(|| random::below(1024) as u16);
                let mut udp = udp::Header::of_mut(payload)?;
                udp.set_dst_port(port);
                udp.set_total_len(length as u16);
                udp.set_checksum(0);
                let sum = sum(payload)?;
                udp::Header::of_mut(payload)?.set_checksum(checksum::never_zero(sum));
            }
            What::Icmp { kind, code } => {
                let mut icmp = icmpv4::Header::of_mut(payload)?;
                icmp.set_message_type(*kind);
                icmp.set_code(*code);
                icmp.set_checksum(0);
                let sum = !payload_sum(payload)?;
                icmpv4::Header::of_mut(payload)?.set_checksum(sum);
            }
        }
        Some(())
    }
}

/// Makes a header valid in a segment of `length` bytes, its checksum zero.
fn force_tcp(
    mut tcp: tcp::Header<&mut [u8; tcp::HEADER_LEN]>,
    length: usize,
    flags: Option<u8>,
    (port, any, count): (u16, bool, u32),
) {
    if !(tcp::HEADER_LEN..=length).contains(&tcp.header_len()) {
        let data = length - tcp::HEADER_LEN;
        tcp.replace_header_len(if data > 0 { random::below(data as u64) as usize } else { length });
    }
    tcp.set_flags(flags.map_or(tcp.flags(), tcp::Flags));
    match (port, count & 7) {
        (0, 0 | 1) if any => tcp.set_dst_port(80),
        (0, 3) if any => tcp.set_dst_port(random::below(1024) as u16),
        (0, _) => {}
        (port, _) => tcp.set_dst_port(port),
    }
    tcp.set_checksum(0);
}

impl PerPacket for Force {
    fn packet(&mut self, cx: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        if self.what.apply(packet).is_some() {
            return Action::ON;
        }
        cx.say(&format!("{}: bad lengths\n", self.name));
        Action::drop(0)
    }

    fn replicate(&self) -> Option<Force> {
        Some(self.clone())
    }
}
