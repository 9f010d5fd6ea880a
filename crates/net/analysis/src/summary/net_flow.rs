//! `FromNetFlowSummaryDump`: packets from lines about flows, as routers' NetFlow data are
//! written in ASCII.

use std::net::Ipv4Addr;

use graph::class::{Handlers, Headers, SystemUse, keyword, mandatory};
use graph::element::Account;
use graph::value::{Raw, unsigned};
use graph::{Class, Cx};
use port::Reason;
use wire::ip::Protocol;
use wire::{ipv4, udp};

use super::Field;
use super::builder::{Defaults, PacketBuilder};
use super::source::{self, Descriptions, FromLines};
use super::text_file::TextFile;
use super::value::Said;
use crate::file::say_packed;
use graph::ip_header::LEN;

pub static CLASS: Class = Class {
    name: "FromNetFlowSummaryDump",
    brief: "makes packets of lines about NetFlow's flows",
    doc: "A line has at least 15 fields with `|` between them: 0 and 1 the addresses of source and \
          destination, 3 and 4 the interfaces the flow came in and went out at, 5 its packets, 6 its bytes, 7 \
          and 8 the seconds of its first and last packet, 9 and 10 its ports, 12 the TCP flags of all its \
          packets, 13 the protocol, 14 the type of service. What is in the others is not looked at. A line \
          becomes one packet with the headers of IP and of TCP or UDP, which stands for the flow's packets \
          (the annotations of extra packets and extra length, of first and last time), or, with MULTIPACKET, \
          as many packets. The paint annotation is an interface. Lines that begin with `!` or `#` are passed \
          over. Files may be compressed.",
    ports: "0/1",
    processing: "a",
    arguments: &[
        mandatory("FILENAME", "the file; `-` for standard input"),
        keyword("STOP", "stop the router at the end; false"),
        keyword("ACTIVE", "whether it reads; true"),
        keyword("ZERO", "taken for compatibility: bytes of which nothing is said are always zero"),
        keyword("MULTIPACKET", "makes as many packets as the flow had; false"),
        keyword("LINK", "the paint: `input` or `output` interface, or `both`, input times 16; input"),
        keyword("TIMING", "packets come when their timestamps say, from the first on; false"),
    ],
    handlers: &Handlers::<FromLines<NetFlow>>(&[
        source::active(),
        source::encap(),
        source::filename(),
        source::filesize(),
        source::filepos(),
    ]),
    drops: &[Reason::NoBuffers, Reason::NotUnderstood],
    account: Account::Unknown, // lines that are dropped never are packets
    system: &[SystemUse::ProgramsAtStart],
    example: "FromNetFlowSummaryDump(flows.txt, STOP true) -> AggregateIP(ip src) -> AggregateCounter -> Discard",
    see: &["FromIPSummaryDump", "FromTcpdump", "ToIPSummaryDump"],
    headers: Headers { finds_network: true, ..Class::BASE.headers },
    make: |setup, conf| {
        let path: String = conf.mandatory("FILENAME")?;
        let (stop, active) = source::stop_and_active(conf)?;
        let several = conf.keyword("MULTIPACKET")?.unwrap_or(false);
        let link = conf.keyword::<Raw>("LINK")?.map(|link| link.0.to_ascii_lowercase());
        let timing = conf.keyword("TIMING")?.unwrap_or(false);
        conf.complete()?;
        let paint = match link.as_deref() {
            None | Some("input") => Paint::Input,
            Some("output") => Paint::Output,
            Some("both") => Paint::Both,
            Some(_) => return Err("'LINK' should be 'input', 'output', or 'both'".into()),
        };
        say_packed(&path, setup);
        let lines = NetFlow { file: TextFile { path, ..TextFile::default() }, paint };
        Ok(Box::new(FromLines { stop, active, timing, several, ..FromLines::new(lines) }))
    },
    ..Class::BASE
};

/// Fields that a line has at least.
const FIELDS: usize = 15;
/// How many of those that are looked at must be understood.
const ENOUGH: usize = 10;

/// Which interface the paint annotation tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Paint {
    Input,
    Output,
    Both,
}

impl Paint {
    /// The annotation for a flow between two interfaces; numbers too high for it are the highest.
    fn of(self, input: Option<u32>, output: Option<u32>) -> Option<u8> {
        let most = |number: u32, most: u8| u8::try_from(number).unwrap_or(most).min(most);
        match self {
            Paint::Input => input.map(|input| most(input, 255)),
            Paint::Output => output.map(|output| most(output, 255)),
            Paint::Both => Some(most(input?, 15) << 4 | most(output?, 15)),
        }
    }
}

/// A file of lines about flows.
pub(super) struct NetFlow {
    file: TextFile,
    paint: Paint,
}

/// A line's fields, and how many of them were understood.
struct Tally<'a> {
    words: Vec<&'a str>,
    understood: usize,
}

impl Tally<'_> {
    fn count<T>(&mut self, value: Option<T>) -> Option<T> {
        self.understood += usize::from(value.is_some());
        value
    }

    /// A number up to `most`.
    fn number(&mut self, field: usize, most: u32) -> Option<u32> {
        let value = self.peek(field).filter(|number| *number <= most);
        self.count(value)
    }

    /// A number that is not counted.
    fn peek(&self, field: usize) -> Option<u32> {
        unsigned(self.words.get(field)?).and_then(|number| u32::try_from(number).ok())
    }

    fn address(&mut self, field: usize) -> Option<u32> {
        let address = self.words.get(field).and_then(|word| word.parse::<Ipv4Addr>().ok());
        self.count(address.map(u32::from))
    }
}

impl NetFlow {
    /// A packet for a flow; `None` when too little of the line is understood.
    fn builder(&self, line: &str) -> Option<PacketBuilder> {
        let words: Vec<&str> = line.split('|').take(FIELDS).collect();
        if words.len() < FIELDS {
            return None;
        }
        let mut line = Tally { words, understood: 0 };
        let mut builder = PacketBuilder::new(Defaults::NOTHING);
        builder.make_ip(0);
        builder.inject(Field::IpTtl, Said::Number(0));
        let time = |seconds: u32| i64::from(seconds) * graph::clock::SECOND_NS;
        builder.first_ns = line.number(7, u32::MAX).map_or(0, time);
        builder.timestamp_ns = match line.number(8, u32::MAX) {
            Some(0) => builder.first_ns,
            last => last.map_or(0, time),
        };
        builder.extra_packets = line.number(5, u32::MAX).map_or(0, |packets| packets.saturating_sub(1));
        let length = line.number(6, u32::MAX).unwrap_or(0);
        let paint = self.paint.of(line.peek(3), line.peek(4));
        builder.paint = line.count(paint).unwrap_or(0);
        let number = |field: Field, value: Option<u32>, builder: &mut PacketBuilder| {
            if let Some(value) = value {
                builder.inject(field, Said::Number(value));
            }
        };
        number(Field::IpSrc, line.address(0), &mut builder);
        number(Field::IpDst, line.address(1), &mut builder);
        number(Field::IpProto, line.number(13, 0xFF), &mut builder);
        number(Field::IpTos, line.number(14, 0xFF), &mut builder);
        let (ports, flags) = ([line.number(9, 0xFFFF), line.number(10, 0xFFFF)], line.number(12, 0xFF));
        let protocol = builder.ip_protocol();
        if matches!(protocol, Protocol::TCP | Protocol::UDP) {
            number(Field::SPort, ports[0].or(Some(0)), &mut builder);
            number(Field::DPort, ports[1], &mut builder);
        }
        if protocol == Protocol::TCP {
            number(Field::TcpFlags, flags, &mut builder);
        }
        (line.understood >= ENOUGH).then(|| {
            set_lengths(&mut builder, length);
            builder
        })
    }
}

/// Says that a packet without its payload had `length` bytes.
fn set_lengths(builder: &mut PacketBuilder, length: u32) {
    let total = u16::try_from(length).unwrap_or(u16::MAX);
    builder.put(ipv4::offset::TOTAL_LEN, &total.to_be_bytes());
    if builder.ip_protocol() == Protocol::UDP {
        builder.put(LEN + udp::offset::LEN, &total.saturating_sub(LEN as u16).to_be_bytes());
    }
    builder.extra_length = length.saturating_sub(builder.bytes.len() as u32);
}

impl Descriptions for NetFlow {
    fn file(&self) -> &TextFile {
        &self.file
    }

    fn open(&mut self, _: &Cx<'_>) -> Result<(), String> {
        self.file.open().map(drop)
    }

    fn next(&mut self, cx: &mut Cx<'_>) -> Option<PacketBuilder> {
        loop {
            let line = self.file.line(cx)?;
            if matches!(line.first(), None | Some(b'!' | b'#')) {
                continue;
            }
            if let Some(builder) = self.builder(&String::from_utf8_lossy(&line)) {
                return Some(builder);
            }
            cx.count_drops(1, 1);
            if !self.file.has_complained() {
                self.file.complain(cx, "", "bad format");
            }
        }
    }
}
