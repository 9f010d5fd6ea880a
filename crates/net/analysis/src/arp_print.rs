//! `ARPPrint`: ARP packets in a line each (RFC 826, RFC 903, RFC 2390).

use std::fmt::Write;
use std::net::Ipv4Addr;

use graph::class::{Handlers, both, keyword, positional};
use graph::element::kernel::Kernel;
use graph::value::Ethernet;
use graph::{Action, Class, Cx, Each, PerPacket};
use memory::Packet;
use memory::annotation::Header;
use port::Reason;
use wire::MacAddress;
use wire::arp::{self, Operation};
use wire::ethernet::EtherType;

use super::output::{Active, LinePrinter, Output};
use super::text;

/// Trailer encapsulation (RFC 893).
const TRAILERS: EtherType = EtherType::TRAILERS;

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
    handlers: &Handlers::<ArpPrint>(&[both(
        "active",
        "whether it prints",
        |print| print.lines.active.is().to_string(),
        |print, _, value| print.lines.active.write(value),
    )]),
    drops: &[Reason::NotConnected],
    example: "FromDevice(p) -> MarkMACHeader -> Strip(14) -> MarkIPHeader -> ARPPrint(in) -> Discard",
    see: &["Print", "IPPrint", "ARPQuerier"],
    kernel: Kernel::Excluded(crate::PRINT),
    make: |_, conf| {
        let lines = LinePrinter {
            label: conf.positional("LABEL")?.unwrap_or_default(),
            timestamp: conf.keyword("TIMESTAMP")?.unwrap_or(true),
            active: Active::new(conf.keyword("ACTIVE")?.unwrap_or(true)),
            output: Output::new(conf.keyword("OUTFILE")?),
        };
        let print = ArpPrint { lines, ether: conf.keyword("ETHER")?.unwrap_or(false) };
        conf.complete()?;
        Ok(Each::boxed(print))
    },
    ..Class::BASE
};

/// An `ARPPrint` element; [`CLASS`] says what it does.
#[derive(Debug)]
pub struct ArpPrint {
    lines: LinePrinter,
    ether: bool,
}

/// What an ARP packet says.
fn describe(out: &mut String, arp: &[u8]) {
    let Some(header) = arp::Header::of(arp) else {
        let _ = write!(out, "truncated-arp ({})", arp.len());
        return;
    };
    let (hardware, protocol, Operation(operation)) =
        (header.hardware(), header.protocol(), header.operation());
    let (hardware_len, protocol_len) = (header.hardware_len(), header.protocol_len());
    let is_ip = matches!(protocol, EtherType::IPV4 | TRAILERS) && protocol_len == size_of::<Ipv4Addr>();
    if !is_ip || hardware_len == 0 {
        let EtherType(protocol) = protocol;
        let _ = write!(
            out,
            "arp-#{operation} for proto #{protocol} ({protocol_len}) hardware #{hardware} ({hardware_len})"
        );
        return;
    }
    if arp.len() < arp::LEN {
        let _ = write!(out, "truncated-arp ({})", arp.len());
        return;
    }
    let packet = arp::Packet::new_unchecked(arp);
    let (sender, target) = (Ethernet(packet.sender_mac().0), Ethernet(packet.target_mac().0));
    let (sender_ip, target_ip) = (packet.sender_ip(), packet.target_ip());
    if protocol == TRAILERS {
        out.push_str("trailer-");
    }
    let _ = match Operation(operation) {
        Operation::REQUEST if packet.target_mac() == MacAddress::ZERO => {
            write!(out, "arp who-has {target_ip} tell {sender_ip}")
        }
        Operation::REQUEST => write!(out, "arp who-has {target_ip} ({target}) tell {sender_ip}"),
        Operation::REPLY => write!(out, "arp reply {sender_ip} is-at {sender}"),
        Operation::REVERSE_REQUEST => write!(out, "rarp who-is {target} tell {sender}"),
        Operation::REVERSE_REPLY => write!(out, "rarp reply {target} at {target_ip}"),
        Operation::INVERSE_REQUEST => write!(out, "invarp who-is {target} tell {sender}"),
        Operation::INVERSE_REPLY => write!(out, "invarp reply {target} at {target_ip}"),
        Operation(other) => write!(out, "arp-#{other}"),
    };
    if hardware != arp::ETHERNET {
        let _ = write!(out, "hardware #{hardware}");
    }
}

impl ArpPrint {
    /// A packet's line; `None` where no header was found.
    fn line(&self, packet: &Packet) -> Option<String> {
        let arp = packet.header(Header::Network)?;
        let mut out = self.lines.begin(packet);
        if self.ether {
            let link = packet.header_offset(Header::Link).unwrap_or(0);
            text::link_addresses(&mut out, packet, link, packet.header(Header::Link).unwrap_or(packet));
        }
        describe(&mut out, arp);
        out.push('\n');
        Some(out)
    }
}

impl PerPacket for ArpPrint {
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

    fn replicate(&self) -> Option<ArpPrint> {
        Some(ArpPrint { lines: self.lines.for_another()?, ..*self })
    }
}
