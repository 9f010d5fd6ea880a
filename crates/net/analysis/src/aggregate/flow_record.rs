//! What `ToIPFlowDumps` writes of one flow, until it is written.

use std::fmt::Write;
use std::net::Ipv4Addr;

use memory::Packet;
use memory::annotation::Header;
use wire::ip::{Ports, Protocol};
use wire::tcp::Flags;
use wire::tcp_option::kind;
use wire::{icmpv4, ipv4, tcp, udp};

use crate::summary::options;
use crate::summary::show;
use crate::text;
use graph::annotation::{AGGREGATE, PAINT, PacketAnnotations};
use graph::ip_header::{LEN, u16_at, u32_at};

const TCP: u8 = Protocol::TCP.0;
const UDP: u8 = Protocol::UDP.0;
const ICMP: u8 = Protocol::ICMP.0;
/// Lines that are kept before they are written.
const MOST: usize = 512;

/// What is written of packets.
#[derive(Debug, Clone, Copy)]
pub(super) struct Style {
    pub(super) absolute_time: bool,
    pub(super) absolute_seq: bool,
    pub(super) binary: bool,
    /// Which TCP options, as [`options`] has them.
    pub(super) tcp_options: u32,
    pub(super) tcp_window: bool,
    pub(super) ip_id: bool,
}

/// What is to be written of one flow, and what is known of it so far.
#[derive(Debug)]
pub(super) struct Flow {
    pub(super) path: String,
    aggregate: u32,
    /// Addresses and ports of the first packet's direction.
    from: (Ipv4Addr, u16),
    to: (Ipv4Addr, u16),
    protocol: u8,
    /// The first sequence numbers, in the direction of the first packet and the other.
    first_seq: [Option<u32>; 2],
    first_ns: i64,
    pub(super) packets: u64,
    lines: usize,
    body: Vec<u8>,
    /// The file was begun.
    pub(super) begun: bool,
}

/// The IP header that tells the flow: the packet's own, or the one an error is about.
fn telling(packet: &Packet) -> Option<&[u8]> {
    let ip = packet.header(Header::Network).filter(|ip| ip.len() >= LEN)?;
    match ip[ipv4::offset::PROTOCOL] {
        ICMP => packet.header(Header::Transport)?.get(icmpv4::HEADER_LEN..).filter(|ip| ip.len() >= LEN),
        _ => Some(ip),
    }
}

impl Flow {
    /// The flow of a packet; `None` when the packet tells none.
    pub(super) fn new(packet: &Packet, path: String, style: Style) -> Option<Flow> {
        let ip = telling(packet)?;
        let protocol = ip[ipv4::offset::PROTOCOL];
        let transport = ip.get(ipv4::header_len(ip[0])..)?;
        let ports = Ports::of(transport)?;
        let mut from = (Ipv4Addr::from(u32_at(ip, ipv4::offset::SRC)), ports.src());
        let mut to = (Ipv4Addr::from(u32_at(ip, ipv4::offset::DST)), ports.dst());
        if !matches!(protocol, TCP | UDP) {
            return None;
        }
        if packet.u8_at(PAINT) & 1 != 0 {
            (from, to) = (to, from);
        }
        let at = packet.annotations().timestamp_ns;
        Some(Flow {
            path,
            aggregate: packet.u32_at(AGGREGATE),
            from,
            to,
            protocol,
            first_seq: if style.absolute_seq { [Some(0); 2] } else { [None; 2] },
            // The first packet's time is the shortest that is not zero.
            first_ns: if style.absolute_time { 0 } else { at.saturating_sub(1) },
            packets: 0,
            lines: 0,
            body: vec![],
            begun: false,
        })
    }

    /// Whether so much is kept that it should be written.
    pub(super) fn is_full(&self) -> bool {
        self.lines >= MOST
    }

    /// Adds a packet.
    pub(super) fn add(&mut self, packet: &Packet, style: Style) {
        let Some(ip) = packet.header(Header::Network).filter(|ip| ip.len() >= LEN) else { return };
        let colour = packet.u8_at(PAINT);
        self.packets += 1;
        if colour >= 2 || ip[ipv4::offset::PROTOCOL] != self.protocol {
            let direction = if colour & 1 != 0 { '>' } else { '<' };
            let note = format!("#{} {direction} ICMP_error\n", text::time(packet.annotations().timestamp_ns));
            return self.note(&note, style);
        }
        self.lines += 1;
        let transport = packet.header(Header::Transport).unwrap_or(&[]);
        let at = packet.annotations().timestamp_ns.saturating_sub(self.first_ns);
        let headers = ipv4::header_len(ip[0]);
        let direction = usize::from(colour & 1);
        let line = Line {
            at,
            direction,
            ip,
            transport,
            length: usize::from(u16_at(ip, ipv4::offset::TOTAL_LEN)).saturating_sub(headers),
        };
        match self.protocol {
            TCP => self.add_tcp(&line, style),
            _ => self.add_udp(
                &line,
                u16_at(ip, ipv4::offset::TOTAL_LEN).wrapping_sub(udp::HEADER_LEN as u16),
                style,
            ),
        }
    }

    fn note(&mut self, note: &str, style: Style) {
        self.lines += 1;
        if style.binary {
            self.body.extend(((note.len() as u32 + 4) | 0x8000_0000).to_be_bytes());
        }
        self.body.extend(note.as_bytes());
    }

    /// What Click calls the payload has the IP header in it.
    fn add_udp(&mut self, line: &Line<'_>, length: u16, style: Style) {
        let length = u32::from(length);
        if style.binary {
            let id = style.ip_id.then(|| u16_at(line.ip, ipv4::offset::IDENTIFICATION));
            return self.record(line.at, &[length], [id, None], &[line.direction as u8]);
        }
        let mut out = line.start(style);
        let _ = writeln!(out, "{length}");
        self.body.extend(out.as_bytes());
    }

    fn add_tcp(&mut self, line: &Line<'_>, style: Style) {
        let tcp = line.transport;
        let (forth, back) = (line.direction, 1 - line.direction);
        let (seq, flags) =
            (u32_at(tcp, tcp::offset::SEQUENCE), tcp.get(tcp::offset::FLAGS).copied().unwrap_or(0));
        let first = *self.first_seq[forth].get_or_insert(seq);
        let ack = match Flags(flags).contains(Flags::ACK) {
            false => self.first_seq[back].unwrap_or(0),
            true => {
                let ack = u32_at(tcp, tcp::offset::ACKNOWLEDGEMENT);
                self.first_seq[back].get_or_insert(ack);
                ack
            }
        };
        let other = self.first_seq[back].unwrap_or(0);
        let (seq, ack) = (seq.wrapping_sub(first), ack.wrapping_sub(other));
        let header = tcp::header_len(tcp.get(tcp::offset::DATA_OFFSET).copied().unwrap_or(0));
        let length = line.length.saturating_sub(header) as u32;
        let found = self.options(tcp.get(tcp::HEADER_LEN..header).unwrap_or(&[]), back, style.tcp_options);
        let window = style.tcp_window.then(|| u16_at(tcp, tcp::offset::WINDOW));
        if style.binary {
            let id = style.ip_id.then(|| u16_at(line.ip, ipv4::offset::IDENTIFICATION));
            let mut tail = vec![flags, line.direction as u8];
            // A record that ends here has none.
            if !found.is_empty() {
                tail.push(found.len() as u8);
                tail.extend(&found);
            }
            return self.record(line.at, &[seq, length, ack], [id, window], &tail);
        }
        let mut out = line.start(style);
        show::flags((flags & 0x7F).into(), &mut out);
        let _ = write!(out, " {seq} {length} {ack}");
        if let Some(window) = window {
            let _ = write!(out, " {window}");
        }
        if !found.is_empty() {
            out.push(' ');
            options::show_tcp(&found, style.tcp_options, &mut out);
        }
        out.push('\n');
        self.body.extend(out.as_bytes());
    }

    /// Options of the kinds that are wanted; acknowledged sequence numbers as others are.
    fn options(&mut self, bytes: &[u8], back: usize, mask: u32) -> Vec<u8> {
        if mask == 0 {
            return vec![];
        }
        let mut found = options::only(bytes, mask & !options::OTHERS);
        let mut at = 0;
        while let Some(&[kind, length]) = found.get(at..).and_then(|rest| rest.first_chunk()) {
            let end = (at + usize::from(length.max(2))).min(found.len());
            if kind == kind::SACK {
                for word in found[at + 2..end].chunks_exact_mut(4) {
                    let seq = u32_at(word, 0);
                    let first = *self.first_seq[back].get_or_insert(seq);
                    word.copy_from_slice(&seq.wrapping_sub(first).to_be_bytes());
                }
            }
            at = end;
        }
        found
    }

    fn record(&mut self, at: i64, words: &[u32], halves: [Option<u16>; 2], tail: &[u8]) {
        let mut bytes = vec![0; 4];
        bytes.extend((at.div_euclid(1_000_000_000) as u32).to_be_bytes());
        bytes.extend((at.rem_euclid(1_000_000_000) as u32).to_be_bytes());
        words.iter().for_each(|word| bytes.extend(word.to_be_bytes()));
        halves.iter().flatten().for_each(|half| bytes.extend(half.to_be_bytes()));
        bytes.extend(tail);
        let length = (bytes.len() as u32).to_be_bytes();
        bytes[..4].copy_from_slice(&length);
        self.body.extend(bytes);
    }

    /// What is to be written now; then it is forgotten.
    pub(super) fn take(&mut self, style: Style) -> Vec<u8> {
        let mut out = if self.begun { vec![] } else { self.preamble(style).into_bytes() };
        out.append(&mut self.body);
        (self.lines, self.begun) = (0, true);
        out
    }

    fn preamble(&self, style: Style) -> String {
        let tcp = self.protocol == TCP;
        let ((source, sport), (destination, dport)) = (self.from, self.to);
        let name = if tcp { 'T' } else { 'U' };
        let mut out = format!(
            "!IPSummaryDump 1.3\n!flowid {source} {sport} {destination} {dport} {name}\n!aggregate {}\n!data ntimestamp",
            self.aggregate
        );
        let id = if style.ip_id { " ip_id" } else { "" };
        let window = if style.tcp_window { " tcp_window" } else { "" };
        let options = if style.tcp_options & options::TIME != 0 { "tcp_opt" } else { "tcp_ntopt" };
        out += &match (style.binary, tcp) {
            (false, true) => {
                format!(" direction{id} tcp_flags tcp_seq payload_len tcp_ack{window} {options}\n")
            }
            (false, false) => format!(" direction{id} payload_len\n"),
            (true, true) => {
                format!(" tcp_seq payload_len tcp_ack{id}{window} tcp_flags direction {options}\n")
            }
            (true, false) => format!(" payload_len{id} direction\n"),
        };
        for (mark, first) in ['>', '<'].iter().zip(self.first_seq) {
            if let Some(first) = first.filter(|first| tcp && *first != 0) {
                let _ = writeln!(out, "!firstseq {mark} {first}");
            }
        }
        if self.first_ns != 0 {
            let _ = writeln!(out, "!firsttime {}", text::time(self.first_ns));
        }
        if style.binary {
            out += "!binary\n";
        }
        out
    }
}

/// A packet that is to be written.
struct Line<'a> {
    at: i64,
    direction: usize,
    ip: &'a [u8],
    transport: &'a [u8],
    /// Bytes behind the IP header, as the header has it.
    length: usize,
}

impl Line<'_> {
    fn start(&self, style: Style) -> String {
        let mark = if self.direction == 0 { '>' } else { '<' };
        let mut out = format!("{} {mark} ", text::time(self.at));
        if style.ip_id {
            let _ = write!(out, "{} ", u16_at(self.ip, ipv4::offset::IDENTIFICATION));
        }
        out
    }
}
