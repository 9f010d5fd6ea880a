//! `ARPPrint`: ARP packets in a line each (RFC 826, RFC 903, RFC 2390).

use std::fmt::Write;
use std::net::Ipv4Addr;

use graph::class::{both, keyword, positional};
use graph::value::Ethernet;
use graph::{Class, Cx, Each, Fate, PerPacket, Refused};
use memory::Packet;
use memory::annotation::Header;

use super::output::{Active, Output};
use super::text;
use crate::ip::header::{u16_at, u32_at};

/// Bytes of a packet for Ethernet and IP.
const LEN: usize = 28;
const IP: u16 = 0x0800;
/// Trailer encapsulation (RFC 893).
const TRAILERS: u16 = 0x1000;

/// The class.
pub static CLASS: Class = Class {
    name: "ARPPrint",
    brief: "prints ARP packets for people to read",
    doc: "Prints a line for each packet whose network header was found: who asks for whose address, who has \
          it. The packets go on unchanged.",
    arguments: &[
        positional("LABEL", "begins each line; nothing"),
        keyword("TIMESTAMP", "shows when the packet came; true"),
        keyword("ETHER", "shows the Ethernet header's addresses; false"),
        keyword("ACTIVE", "whether it prints; true"),
        keyword("OUTFILE", "a file to print to; standard error"),
    ],
    handlers: &[both("active", "whether it prints")],
    drops: &["not connected"],
    example: "FromDevice(p) -> MarkMACHeader -> Strip(14) -> MarkIPHeader -> ARPPrint(in) -> Discard",
    see: &["Print", "IPPrint", "ARPQuerier"],
    make: |_, conf| {
        let print = ArpPrint {
            label: conf.positional("LABEL")?.unwrap_or_default(),
            timestamp: conf.keyword("TIMESTAMP")?.unwrap_or(true),
            ether: conf.keyword("ETHER")?.unwrap_or(false),
            active: Active::new(conf.keyword("ACTIVE")?.unwrap_or(true)),
            output: Output::new(conf.keyword("OUTFILE")?),
        };
        conf.complete()?;
        Ok(Each::boxed(print))
    },
    ..Class::BASE
};

/// See [`CLASS`].
#[derive(Debug)]
pub struct ArpPrint {
    label: String,
    timestamp: bool,
    ether: bool,
    active: Active,
    output: Output,
}

fn ethernet(bytes: &[u8], at: usize) -> Ethernet {
    Ethernet(bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or_default())
}

/// What an ARP packet says.
fn describe(out: &mut String, arp: &[u8]) {
    if arp.len() < 8 {
        let _ = write!(out, "truncated-arp ({})", arp.len());
        return;
    }
    let (hardware, protocol, operation) = (u16_at(arp, 0), u16_at(arp, 2), u16_at(arp, 6));
    let (hardware_len, protocol_len) = (arp[4], arp[5]);
    if !matches!(protocol, IP | TRAILERS) || protocol_len != 4 || hardware_len == 0 {
        let _ = write!(
            out,
            "arp-#{operation} for proto #{protocol} ({protocol_len}) hardware #{hardware} ({hardware_len})"
        );
        return;
    }
    if arp.len() < LEN {
        let _ = write!(out, "truncated-arp ({})", arp.len());
        return;
    }
    let (sender, target) = (ethernet(arp, 8), ethernet(arp, 18));
    let (sender_ip, target_ip) = (Ipv4Addr::from(u32_at(arp, 14)), Ipv4Addr::from(u32_at(arp, 24)));
    if protocol == TRAILERS {
        out.push_str("trailer-");
    }
    let _ = match operation {
        1 if target.0 == [0; 6] => write!(out, "arp who-has {target_ip} tell {sender_ip}"),
        1 => write!(out, "arp who-has {target_ip} ({target}) tell {sender_ip}"),
        2 => write!(out, "arp reply {sender_ip} is-at {sender}"),
        3 => write!(out, "rarp who-is {target} tell {sender}"),
        4 => write!(out, "rarp reply {target} at {target_ip}"),
        8 => write!(out, "invarp who-is {target} tell {sender}"),
        9 => write!(out, "invarp reply {target} at {target_ip}"),
        other => write!(out, "arp-#{other}"),
    };
    if hardware != 1 {
        let _ = write!(out, "hardware #{hardware}");
    }
}

impl ArpPrint {
    /// A packet's line; `None` where no header was found.
    fn line(&self, packet: &Packet) -> Option<String> {
        let arp = packet.header(Header::Network)?;
        let mut out = String::new();
        if !self.label.is_empty() {
            let _ = write!(out, "{}: ", self.label);
        }
        if self.timestamp {
            let _ = write!(out, "{}: ", text::time(packet.annotations().timestamp_ns));
        }
        if self.ether {
            let link = packet.header_offset(Header::Link).unwrap_or(0);
            let network = packet.header_offset(Header::Network).unwrap_or(0);
            let bytes = packet.header(Header::Link).unwrap_or(packet);
            if link + 14 <= network && bytes.len() >= 14 {
                let _ = write!(out, "{} > {}: ", ethernet(bytes, 6), ethernet(bytes, 0));
            }
        }
        describe(&mut out, arp);
        out.push('\n');
        Some(out)
    }
}

impl PerPacket for ArpPrint {
    fn init(&mut self, _: &mut Cx<'_>) -> Result<(), String> {
        self.output.open()
    }

    fn packet(&mut self, cx: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Fate {
        if self.active.is()
            && let Some(line) = self.line(packet)
        {
            self.active.set(self.output.write(cx, &line));
        }
        Fate::ON
    }

    fn read(&mut self, _: &mut Cx<'_>, _: &str, _: &str) -> Result<String, Refused> {
        Ok(self.active.is().to_string())
    }

    fn write(&mut self, _: &mut Cx<'_>, _: &str, value: &str) -> Result<(), Refused> {
        self.active.write(value)
    }

    fn replicate(&self) -> Option<ArpPrint> {
        let output = self.output.for_another()?;
        Some(ArpPrint { output, label: self.label.clone(), active: self.active.clone(), ..*self })
    }
}
