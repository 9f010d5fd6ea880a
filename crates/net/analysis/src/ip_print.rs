//! `IPPrint`: IP packets in a line each, much as tcpdump prints them.

use std::fmt::Write;

use graph::chain::Bytes;
use graph::class::{Handlers, both, keyword, positional};
use graph::element::kernel::Kernel;
use graph::{Action, Class, Cx, Each, PerPacket};
use memory::Packet;
use memory::annotation::Header;
use wire::ip::Protocol;
use wire::{ipv4, tcp, udp};

use super::output::{Active, LinePrinter, Output};
use super::print::bad_contents;
use super::text::{self, Contents};
use super::transport_line;
use graph::annotation::{AGGREGATE, PAINT, PacketAnnotations, VLAN_TCI};
use graph::ip_header::{LEN, is_first_fragment, u16_at};
use port::Reason;

pub static CLASS: Class = Class {
    name: "IPPrint",
    brief: "prints IP packets for people to read",
    doc: "Prints a line for each packet whose IP header was found: addresses, ports, and what TCP, UDP or \
          ICMP say. The packets go on unchanged.",
    arguments: &[
        positional("LABEL", "begins each line; nothing"),
        keyword("CONTENTS", "shows the packet's bytes, `NONE`, `HEX` or `ASCII`; NONE"),
        keyword("PAYLOAD", "shows the bytes behind the headers, `NO`, `HEX` or `ASCII`; NO"),
        keyword("MAXLENGTH", "bytes shown; 1500, -1 for all"),
        keyword("NBYTES", "the old name of MAXLENGTH"),
        keyword("ETHER", "shows the Ethernet header's addresses; false"),
        keyword("VLAN", "shows the VLAN_TCI annotation; false"),
        keyword("ID", "shows the IP identification; false"),
        keyword("TIMESTAMP", "shows when the packet came; true"),
        keyword("PAINT", "shows the colour; false"),
        keyword("TOS", "shows the type of service; false"),
        keyword("TTL", "shows the time to live; false"),
        keyword("SWAP", "swaps the bytes of ICMP echo numbers; true"),
        keyword("LENGTH", "shows the IP length; false"),
        keyword("AGGREGATE", "shows the aggregate; false"),
        keyword("ACTIVE", "whether it prints; true"),
        keyword("OUTFILE", "a file to print to; standard error"),
        keyword("CHANNEL", "whom it prints to: only `default` is read by anybody; default"),
    ],
    handlers: &Handlers::<IpPrint>(&[both(
        "active",
        "whether it prints",
        |print: &IpPrint| print.lines.active.is().to_string(),
        |print: &mut IpPrint, _, value| print.lines.active.write(value),
    )
    .marked(".c")]),
    drops: &[Reason::NotConnected],
    example: "FromDevice(p) -> MarkIPHeader(14) -> IPPrint(in) -> Discard",
    see: &["Print", "CheckIPHeader"],
    kernel: Kernel::Excluded(crate::PRINT),
    make: |_, conf| {
        let label = conf.positional("LABEL")?.unwrap_or_default();
        let word: String = conf.keyword("CONTENTS")?.unwrap_or_else(|| "NONE".into());
        let whole = Contents::parse(&word).ok_or_else(|| bad_contents(&word))?;
        let word: String = conf.keyword("PAYLOAD")?.unwrap_or_else(|| "NO".into());
        let payload = Contents::parse(&word).ok_or_else(|| {
            format!("bad payload value '{}'; should be 'false', 'hex', or 'ascii'", word.to_ascii_uppercase())
        })?;
        if payload != Contents::None && whole != Contents::None {
            return Err("specify at most one of PAYLOAD and CONTENTS".into());
        }
        let old: Option<i32> = conf.keyword("NBYTES")?;
        let channel: Option<String> = conf.keyword("CHANNEL")?;
        let lines = LinePrinter {
            label,
            timestamp: conf.keyword("TIMESTAMP")?.unwrap_or(true),
            active: Active::new(conf.keyword("ACTIVE")?.unwrap_or(true)),
            output: Output::new(conf.keyword("OUTFILE")?).on_channel(channel),
        };
        let print = IpPrint {
            lines,
            whole,
            payload,
            most: conf.keyword("MAXLENGTH")?.or(old).unwrap_or(1500),
            ether: conf.keyword("ETHER")?.unwrap_or(false),
            vlan: conf.keyword("VLAN")?.unwrap_or(false),
            id: conf.keyword("ID")?.unwrap_or(false),
            paint: conf.keyword("PAINT")?.unwrap_or(false),
            tos: conf.keyword("TOS")?.unwrap_or(false),
            ttl: conf.keyword("TTL")?.unwrap_or(false),
            swap: conf.keyword("SWAP")?.unwrap_or(true),
            length: conf.keyword("LENGTH")?.unwrap_or(false),
            aggregate: conf.keyword("AGGREGATE")?.unwrap_or(false),
        };
        conf.complete()?;
        Ok(Each::boxed(print))
    },
    ..Class::BASE
};

/// An `IPPrint` element; [`CLASS`] says what it does.
#[derive(Debug)]
pub struct IpPrint {
    lines: LinePrinter,
    whole: Contents,
    payload: Contents,
    most: i32,
    ether: bool,
    vlan: bool,
    id: bool,
    paint: bool,
    tos: bool,
    ttl: bool,
    swap: bool,
    length: bool,
    aggregate: bool,
}

impl IpPrint {
    /// A packet's line; `None` where no header was found.
    fn line(&self, packet: &Packet) -> Option<String> {
        let ip = packet.header(Header::Network)?;
        let mut out = self.lines.begin(packet);
        if self.aggregate {
            let _ = write!(out, "#{}", packet.u32_at(AGGREGATE));
        }
        if self.vlan {
            let _ = write!(out, " VLAN:{}", u16::from_be_bytes(packet.bytes_at(VLAN_TCI)));
        }
        if self.paint {
            let _ = write!(out, "{}{}", if self.aggregate { "." } else { "paint " }, packet.u8_at(PAINT));
        }
        if self.aggregate || self.paint {
            out.push_str(": ");
        }
        if self.ether
            && let Some(link) = packet.header_offset(Header::Link)
        {
            text::link_addresses(&mut out, packet, link, packet.header(Header::Link).unwrap_or(&[]));
        }
        match ip.first_chunk::<LEN>() {
            None => out.push_str("truncated-ip"),
            Some(header) => self.describe(&mut out, packet, header, ip),
        }
        out.push('\n');
        Some(out)
    }

    fn describe(&self, out: &mut String, packet: &Packet, header: &[u8; LEN], ip: &[u8]) {
        let total = usize::from(u16_at(header, ipv4::offset::TOTAL_LEN));
        let header_len = ipv4::Header::new(header).header_len();
        for (shown, name, value) in [
            (self.id, "id", usize::from(u16_at(header, ipv4::offset::IDENTIFICATION))),
            (self.ttl, "ttl", header[ipv4::offset::TTL].into()),
            (self.tos, "tos", header[ipv4::offset::TRAFFIC_CLASS].into()),
            (self.length, "length", total),
        ] {
            if shown {
                let _ = write!(out, "{name} {value} ");
            }
        }
        let behind = ip.get(header_len..).unwrap_or(&[]);
        let transport = packet.header(Header::Transport).unwrap_or(behind);
        let there = transport.len().min(total.saturating_sub(header_len));
        let line =
            transport_line::Line { header, transport: &transport[..there], length: packet.total_len() };
        line.write(out, self.swap);
        let ip = ipv4::Header::new(header);
        if ip.is_fragment() {
            let more = if ip.more_fragments() { "+" } else { "" };
            let payload = total as i64 - header_len as i64;
            let at = ip.fragment_offset();
            let _ =
                write!(out, " (frag {}:{payload}@{at}{more})", u16_at(header, ipv4::offset::IDENTIFICATION));
        }
        self.show_bytes(out, packet, header, transport);
    }

    fn show_bytes(&self, out: &mut String, packet: &Packet, header: &[u8; LEN], transport: &[u8]) {
        let (how, bytes) = match self.payload {
            Contents::None => (self.whole, Bytes::of(packet)),
            how => {
                let skipped = match Protocol(header[ipv4::offset::PROTOCOL]) {
                    _ if !is_first_fragment(header) => 0,
                    Protocol::TCP => {
                        transport.get(tcp::offset::DATA_OFFSET).map_or(0, |b| tcp::header_len(*b))
                    }
                    Protocol::UDP => udp::HEADER_LEN,
                    _ => 0,
                };
                (how, Bytes::new(transport, packet.next()).skip(skipped))
            }
        };
        let bytes = match how {
            Contents::None => return,
            _ => bytes.front(usize::try_from(self.most).unwrap_or(usize::MAX)),
        };
        match how {
            Contents::Ascii => text::ascii(out, &bytes, Some(48)),
            _ => text::hex(out, &bytes, Some(24)),
        }
    }
}

impl PerPacket for IpPrint {
    fn init(&mut self, _: &mut Cx<'_>) -> Result<(), String> {
        self.lines.output.open()
    }

    fn packet(&mut self, cx: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        if self.lines.active.is()
            && let Some(line) = self.line(packet)
        {
            self.lines.print(cx, &line);
        }
        Action::ON
    }

    fn replicate(&self) -> Option<IpPrint> {
        Some(IpPrint { lines: self.lines.for_another()?, ..*self })
    }
}
