//! What `IPPrint` says of TCP, UDP and ICMP.

use graph::ip_header::{LEN, is_first_fragment, u16_at, u32_at};
use std::fmt::Write;
use std::net::Ipv4Addr;
use wire::ip::{Ports, Protocol};
use wire::names::{PROTOCOLS, code_name, type_name};
use wire::tcp::Flags;
use wire::{icmpv4, ipv4, tcp, udp};

/// A packet to be described.
pub(crate) struct Line<'a> {
    /// Its IP header, without options.
    pub header: &'a [u8; LEN],
    /// What is behind it, as far as it is there.
    pub transport: &'a [u8],
    /// Bytes in the packet.
    pub length: usize,
}

fn address(bytes: &[u8], at: usize) -> Ipv4Addr {
    Ipv4Addr::from(u32_at(bytes, at))
}

fn protocol(number: u8, with_word: bool) -> String {
    let name = PROTOCOLS.iter().find(|(_, n)| n.0 == number).map(|(name, _)| name.to_string());
    name.unwrap_or_else(|| format!("{}{number}", if with_word { "protocol " } else { "" }))
}

impl Line<'_> {
    /// Appends the description; `swap` as `IPPrint` has it.
    pub(crate) fn write(&self, out: &mut String, swap: bool) {
        match Protocol(self.header[ipv4::offset::PROTOCOL]) {
            Protocol::TCP if self.ports(out, "tcp") => self.tcp(out),
            Protocol::UDP if self.ports(out, "udp") => self.udp(out),
            Protocol::TCP | Protocol::UDP => {}
            Protocol::ICMP => {
                let (source, destination) =
                    (address(self.header, ipv4::offset::SRC), address(self.header, ipv4::offset::DST));
                let _ = write!(out, "{source} > {destination}: ");
                if self.icmp(out, swap).is_none() {
                    out.push_str("truncated-icmp");
                }
            }
            Protocol(other) => {
                let (source, destination) =
                    (address(self.header, ipv4::offset::SRC), address(self.header, ipv4::offset::DST));
                let _ = write!(out, "{source} > {destination}: ip-proto-{other}");
            }
        }
    }

    /// Addresses and ports; whether the ports are there, and more may be said.
    fn ports(&self, out: &mut String, name: &str) -> bool {
        let (source, destination) =
            (address(self.header, ipv4::offset::SRC), address(self.header, ipv4::offset::DST));
        let first = is_first_fragment(self.header);
        let Some(ports) = Ports::of(self.transport).filter(|_| first) else {
            let truncated = if first { "truncated-" } else { "" };
            let _ = write!(out, "{source} > {destination}: {truncated}{name}");
            return false;
        };
        let (from, to) = (ports.src(), ports.dst());
        let _ = write!(out, "{source}.{from} > {destination}.{to}: ");
        true
    }

    fn tcp(&self, out: &mut String) {
        let tcp = self.transport;
        if tcp.len() < tcp::offset::WINDOW {
            return out.push_str("truncated-tcp");
        }
        let total = i64::from(u16_at(self.header, ipv4::offset::TOTAL_LEN));
        let flags = Flags(tcp[tcp::offset::FLAGS]);
        let header_len = tcp::header_len(tcp[tcp::offset::DATA_OFFSET]);
        let headers = (ipv4::Header::new(self.header).header_len() + header_len) as i64;
        // SYN and FIN take a sequence number each.
        let numbered = [Flags::SYN, Flags::FIN].into_iter().filter(|flag| flags.contains(*flag)).count();
        let length = total - headers + numbered as i64;
        let mut shown = false;
        for (flag, letter) in [(Flags::SYN, 'S'), (Flags::FIN, 'F'), (Flags::RST, 'R'), (Flags::PSH, 'P')] {
            if flags.contains(flag) {
                out.push(letter);
                shown = true;
            }
        }
        if !shown {
            out.push('.');
        }
        let start = u32_at(tcp, tcp::offset::SEQUENCE);
        let _ =
            write!(out, " {start}:{}({length},{},{total})", start.wrapping_add(length as u32), self.length);
        if flags.contains(Flags::ACK) {
            let _ = write!(out, " ack {}", u32_at(tcp, tcp::offset::ACKNOWLEDGEMENT));
        }
        match tcp.len() {
            ..tcp::offset::CHECKSUM => out.push_str("truncated-tcp"),
            _ => {
                let _ = write!(out, " win {}", u16_at(tcp, tcp::offset::WINDOW));
            }
        }
    }

    fn udp(&self, out: &mut String) {
        match self.transport.len() {
            ..udp::HEADER_LEN => out.push_str("truncated-udp"),
            _ => {
                let _ = write!(out, "udp {}", u16_at(self.transport, udp::offset::LEN));
            }
        }
    }

    /// `None` when it ends too early.
    fn icmp(&self, out: &mut String, swap: bool) -> Option<()> {
        if !is_first_fragment(self.header) {
            out.push_str("icmp");
            return Some(());
        }
        let icmp = self.transport;
        let &[kind, code] = icmp.first_chunk()?;
        match kind {
            icmpv4::ECHO_REPLY | icmpv4::ECHO_REQUEST => {
                let reply = kind == icmpv4::ECHO_REPLY;
                out.push_str(if reply { "icmp echo-reply " } else { "icmp echo " });
                let icmp = icmpv4::Header::of(icmp)?;
                // The fields are printed as a little-endian machine has them; SWAP
                // turns them round once.
                let number = |value: u16| if swap { value } else { value.swap_bytes() };
                let _ = write!(out, "({}, {})", number(icmp.identifier()), number(icmp.sequence()));
            }
            icmpv4::UNREACHABLE => return self.unreachable(out, code),
            _ => {
                let name = type_name(kind).map(str::to_string);
                let _ = write!(out, "icmp {}", name.unwrap_or_else(|| format!("type {kind}")));
                match code_name(kind, code) {
                    Some(name) => {
                        let _ = write!(out, " {name}");
                    }
                    None if code != 0 => {
                        let _ = write!(out, " code {code}");
                    }
                    None => {}
                }
            }
        }
        Some(())
    }

    fn unreachable(&self, out: &mut String, code: u8) -> Option<()> {
        let name =
            code_name(icmpv4::UNREACHABLE, code).map_or_else(|| format!("code {code}"), str::to_string);
        let inner = self.transport.get(icmpv4::HEADER_LEN..).unwrap_or(&[]);
        if inner.len() < LEN {
            let _ = write!(out, "icmp unreachable {name} ");
            return None;
        }
        let _ = write!(out, "icmp {} unreachable {name}", address(inner, ipv4::offset::DST));
        match code {
            icmpv4::PROTOCOL_UNREACHABLE => {
                let _ = write!(out, " {}", protocol(inner[ipv4::offset::PROTOCOL], false));
            }
            icmpv4::PORT_UNREACHABLE => {
                let _ = write!(out, " {}", protocol(inner[ipv4::offset::PROTOCOL], true));
                let transport = inner.get(ipv4::header_len(inner[0])..)?;
                let _ = write!(out, "/{}", Ports::of(transport)?.dst());
            }
            icmpv4::NEEDS_FRAGMENTS if u16_at(self.transport, icmpv4::offset::MTU) != 0 => {
                let _ = write!(out, " (mtu {})", u16_at(self.transport, icmpv4::offset::MTU));
            }
            _ => {}
        }
        Some(())
    }
}
