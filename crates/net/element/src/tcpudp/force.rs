//! `ForceIP`, `ForceTCP`, `ForceUDP`, `ForceICMP`: any bytes made into packets that are
//! valid, or nearly so, for testing those who receive them.

use graph::class::{Headers, mandatory, positional};
use graph::value::Raw;
use graph::{Class, Cx, Each, Fate, PerPacket};
use memory::Packet;
use wire::checksum;

use super::words::Port;
use crate::icmp::kind;
use crate::ip::{header, random};

const BASE: Class = Class {
    drops: &["bad lengths"],
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
        let port = conf.positional::<Port<6>>("DPORT")?.map_or(0, |port| port.0);
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
            _ => conf.positional::<Port<17>>("DPORT")?.map(|port| port.0),
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

/// See [`IP`].
#[derive(Debug, Clone)]
pub struct ForceIp {
    count: u64,
}

impl PerPacket for ForceIp {
    fn packet(&mut self, _: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Fate {
        let Ok(length) = u16::try_from(packet.len()) else { return Fate::drop(0) };
        if packet.len() < header::LEN || packet.next().is_some() {
            return Fate::drop(0);
        }
        packet[2..4].copy_from_slice(&length.to_be_bytes());
        if self.count % 8 != 1 {
            packet[6..8].fill(0);
        }
        self.count += 1;
        let said = usize::from(packet[0] & 0xF) * 4;
        let fits = (header::LEN..=packet.len()).contains(&said);
        let words = if fits { said / 4 } else { packet.len() / 4 % 16 };
        packet[0] = 0x40 | words as u8;
        header::fill_checksum(&mut packet[..(words * 4).max(12)]);
        if words < 3 {
            // The sum of a header that its length says is not there.
            packet[10..12].fill(0);
            let sum = checksum::of(&packet[..words * 4]);
            packet[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        let at = said.min(packet.len());
        header::mark(packet, 0, at);
        Fate::ON
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
        let (ip, rest) = header::split_mut(packet)?;
        let length = usize::from(header::u16_at(ip, 2)).checked_sub(ip.len())?;
        let payload = rest.get_mut(..length)?;
        let sum_at = match self {
            What::Tcp { port, any, flags, count } => {
                tcp(payload, *flags)?;
                match (*port, *count & 7) {
                    (0, 0 | 1) if *any => payload[2..4].copy_from_slice(&80u16.to_be_bytes()),
                    (0, 3) if *any => {
                        payload[2..4].copy_from_slice(&(random::below(1024) as u16).to_be_bytes());
                    }
                    (0, _) => {}
                    (port, _) => payload[2..4].copy_from_slice(&port.to_be_bytes()),
                }
                *count = count.wrapping_add(1);
                16
            }
            What::Udp { port } => {
                let port = port.unwrap_or_else(|| random::below(1024) as u16);
                payload.get_mut(2..4).filter(|_| length >= 8)?.copy_from_slice(&port.to_be_bytes());
                payload[4..6].copy_from_slice(&(length as u16).to_be_bytes());
                6
            }
            What::Icmp { kind, code } => {
                payload.get_mut(..2).filter(|_| length >= 8)?.copy_from_slice(&[*kind, *code]);
                payload[2..4].fill(0);
                let sum = checksum::of(payload);
                payload[2..4].copy_from_slice(&sum.to_be_bytes());
                return Some(());
            }
        };
        payload[sum_at..sum_at + 2].fill(0);
        // Options count too, as Click has it.
        let ends = [12, 16].map(|at| header::u32_at(ip, at).into());
        let pseudo = checksum::pseudo_header_v4(ends[0], ends[1], ip[9], length as u32);
        let before = checksum::combine(pseudo, checksum::sum(&ip[header::LEN..]));
        let sum = match !checksum::combine(before, checksum::sum(payload)) {
            0 if sum_at == 6 => 0xFFFF, // zero would say that there is none (RFC 768)
            sum => sum,
        };
        payload[sum_at..sum_at + 2].copy_from_slice(&sum.to_be_bytes());
        Some(())
    }
}

fn tcp(segment: &mut [u8], flags: Option<u8>) -> Option<()> {
    let length = segment.len();
    let offset = usize::from(*segment.get(12).filter(|_| length >= 20)? >> 4) * 4;
    if !(20..=length).contains(&offset) {
        let data = length - 20;
        let new = if data > 0 { random::below(data as u64) as usize } else { length };
        segment[12] = segment[12] & 0xF | ((new / 4) << 4) as u8;
    }
    segment[13] = flags.unwrap_or(segment[13]);
    Some(())
}

impl PerPacket for Force {
    fn packet(&mut self, cx: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Fate {
        if self.what.apply(packet).is_some() {
            return Fate::ON;
        }
        cx.say(&format!("{}: bad lengths\n", self.name));
        Fate::drop(0)
    }

    fn replicate(&self) -> Option<Force> {
        Some(self.clone())
    }
}
