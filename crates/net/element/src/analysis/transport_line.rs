//! What `IPPrint` says of TCP, UDP and ICMP.

use std::fmt::Write;
use std::net::Ipv4Addr;

use crate::ip::header::{LEN, is_first_fragment, u16_at, u32_at};

/// Names of IP protocols.
pub(crate) const PROTOCOLS: &[(&str, u8)] = &[
    ("icmp", 1),
    ("igmp", 2),
    ("ipip", 4),
    ("tcp", 6),
    ("udp", 17),
    ("dccp", 33),
    ("gre", 47),
    ("sctp", 132),
];

/// Names of ICMP types.
pub(crate) const ICMP_TYPES: &[(&str, u8)] = &[
    ("echo-reply", 0),
    ("unreachable", 3),
    ("sourcequench", 4),
    ("redirect", 5),
    ("echo", 8),
    ("routeradvert", 9),
    ("routersolicit", 10),
    ("timeexceeded", 11),
    ("parameterproblem", 12),
    ("timestamp", 13),
    ("timestamp-reply", 14),
    ("inforeq", 15),
    ("inforeq-reply", 16),
    ("maskreq", 17),
    ("maskreq-reply", 18),
];

/// Names of ICMP codes, with their types.
const ICMP_CODES: &[(&str, u8, u8)] = &[
    ("net", 3, 0),
    ("host", 3, 1),
    ("protocol", 3, 2),
    ("port", 3, 3),
    ("needfrag", 3, 4),
    ("srcroutefail", 3, 5),
    ("netunknown", 3, 6),
    ("hostunknown", 3, 7),
    ("isolated", 3, 8),
    ("netprohibited", 3, 9),
    ("hostprohibited", 3, 10),
    ("tosnet", 3, 11),
    ("toshost", 3, 12),
    ("filterprohibited", 3, 13),
    ("hostprecedence", 3, 14),
    ("precedencecutoff", 3, 15),
    ("net", 5, 0),
    ("host", 5, 1),
    ("tosnet", 5, 2),
    ("toshost", 5, 3),
    ("transit", 11, 0),
    ("reassembly", 11, 1),
    ("erroratptr", 12, 0),
    ("missingopt", 12, 1),
    ("length", 12, 2),
];

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
    let name = PROTOCOLS.iter().find(|(_, n)| *n == number).map(|(name, _)| name.to_string());
    name.unwrap_or_else(|| format!("{}{number}", if with_word { "protocol " } else { "" }))
}

/// The name of an ICMP type.
pub(crate) fn type_name(kind: u8) -> Option<&'static str> {
    ICMP_TYPES.iter().find(|(_, k)| *k == kind).map(|(name, _)| *name)
}

/// The ICMP type of a name.
pub(crate) fn type_number(name: &str) -> Option<u8> {
    ICMP_TYPES.iter().find(|(n, _)| *n == name).map(|(_, kind)| *kind)
}

/// The name of an ICMP code of a type.
pub(crate) fn code_name(kind: u8, code: u8) -> Option<&'static str> {
    ICMP_CODES.iter().find(|(_, k, c)| (*k, *c) == (kind, code)).map(|(name, ..)| *name)
}

/// The ICMP code of a name, for a type.
pub(crate) fn code_number(kind: u8, name: &str) -> Option<u8> {
    ICMP_CODES.iter().find(|(n, k, _)| (*n, *k) == (name, kind)).map(|(.., code)| *code)
}

impl Line<'_> {
    /// Appends the description; `swap` as `IPPrint` has it.
    pub(crate) fn write(&self, out: &mut String, swap: bool) {
        match self.header[9] {
            6 if self.ports(out, "tcp") => self.tcp(out),
            17 if self.ports(out, "udp") => self.udp(out),
            6 | 17 => {}
            1 => {
                let (source, destination) = (address(self.header, 12), address(self.header, 16));
                let _ = write!(out, "{source} > {destination}: ");
                if self.icmp(out, swap).is_none() {
                    out.push_str("truncated-icmp");
                }
            }
            other => {
                let (source, destination) = (address(self.header, 12), address(self.header, 16));
                let _ = write!(out, "{source} > {destination}: ip-proto-{other}");
            }
        }
    }

    /// Addresses and ports; whether the ports are there, and more may be said.
    fn ports(&self, out: &mut String, name: &str) -> bool {
        let (source, destination) = (address(self.header, 12), address(self.header, 16));
        let first = is_first_fragment(self.header);
        if !first || self.transport.len() < 4 {
            let truncated = if first { "truncated-" } else { "" };
            let _ = write!(out, "{source} > {destination}: {truncated}{name}");
            return false;
        }
        let (from, to) = (u16_at(self.transport, 0), u16_at(self.transport, 2));
        let _ = write!(out, "{source}.{from} > {destination}.{to}: ");
        true
    }

    fn tcp(&self, out: &mut String) {
        let tcp = self.transport;
        if tcp.len() < 14 {
            return out.push_str("truncated-tcp");
        }
        let total = i64::from(u16_at(self.header, 2));
        let flags = tcp[13];
        let headers = i64::from(self.header[0] & 0xF) * 4 + i64::from(tcp[12] >> 4) * 4;
        // SYN and FIN take a sequence number each.
        let length = total - headers + i64::from(flags >> 1 & 1) + i64::from(flags & 1);
        for (bit, letter) in [(0x02, 'S'), (0x01, 'F'), (0x04, 'R'), (0x08, 'P')] {
            if flags & bit != 0 {
                out.push(letter);
            }
        }
        if flags & 0x0F == 0 {
            out.push('.');
        }
        let start = u32_at(tcp, 4);
        let _ =
            write!(out, " {start}:{}({length},{},{total})", start.wrapping_add(length as u32), self.length);
        if flags & 0x10 != 0 {
            let _ = write!(out, " ack {}", u32_at(tcp, 8));
        }
        match tcp.len() {
            ..16 => out.push_str("truncated-tcp"),
            _ => {
                let _ = write!(out, " win {}", u16_at(tcp, 14));
            }
        }
    }

    fn udp(&self, out: &mut String) {
        match self.transport.len() {
            ..8 => out.push_str("truncated-udp"),
            _ => {
                let _ = write!(out, "udp {}", u16_at(self.transport, 4));
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
            0 | 8 => {
                out.push_str(if kind == 0 { "icmp echo-reply " } else { "icmp echo " });
                icmp.get(..8)?;
                // The fields are printed as a little-endian machine has them; SWAP
                // turns them round once.
                let number = |at| if swap { u16_at(icmp, at) } else { u16_at(icmp, at).swap_bytes() };
                let _ = write!(out, "({}, {})", number(4), number(6));
            }
            3 => return self.unreachable(out, code),
            _ => {
                let name = ICMP_TYPES.iter().find(|(_, n)| *n == kind).map(|(name, _)| name.to_string());
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
        let name = code_name(3, code).map_or_else(|| format!("code {code}"), str::to_string);
        let inner = self.transport.get(8..).unwrap_or(&[]);
        if inner.len() < LEN {
            let _ = write!(out, "icmp unreachable {name} ");
            return None;
        }
        let _ = write!(out, "icmp {} unreachable {name}", address(inner, 16));
        match code {
            2 => {
                let _ = write!(out, " {}", protocol(inner[9], false));
            }
            3 => {
                let _ = write!(out, " {}", protocol(inner[9], true));
                let transport = inner.get(usize::from(inner[0] & 0xF) * 4..)?;
                transport.get(..4)?;
                let _ = write!(out, "/{}", u16_at(transport, 2));
            }
            4 if u16_at(self.transport, 6) != 0 => {
                let _ = write!(out, " (mtu {})", u16_at(self.transport, 6));
            }
            _ => {}
        }
        Some(())
    }
}
