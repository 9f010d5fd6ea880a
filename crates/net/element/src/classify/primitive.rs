//! One condition of `IPFilter`'s language, and the tests it comes to.

use wire::ip::Protocol;
use wire::{ethernet, ipv4, tcp};

use super::expression::Expr;
use super::names;

/// Where the words of the link layer's header begin, two bytes before it.
pub(super) const LINK: u16 = 0;
/// Where those of the IP header begin.
pub(super) const NETWORK: u16 = 256;
/// Where those behind it begin.
pub(super) const TRANSPORT: u16 = 512;

/// Numbers of protocols.
pub(super) const ICMP: u32 = Protocol::ICMP.0 as u32;
pub(super) const TCP: u32 = Protocol::TCP.0 as u32;
pub(super) const UDP: u32 = Protocol::UDP.0 as u32;
const DCCP: u32 = Protocol::DCCP.0 as u32;
/// TCP or UDP, among them.
pub(super) const TCP_OR_UDP: u32 = 256;
/// Any protocol's header.
pub(super) const ANY_TRANSPORT: u32 = 257;

/// The words of four bytes that hold these fields, and the bits of them.
const FRAGMENT: u16 = word_of(ipv4::offset::FRAGMENT);
const PROTOCOL: u16 = word_of(ipv4::offset::PROTOCOL);
const SRC: u16 = word_of(ipv4::offset::SRC);
const DST: u16 = word_of(ipv4::offset::DST);
const FLAGS: u16 = word_of(tcp::offset::FLAGS);
const ETHER_SRC: u16 = word_of(2 + ethernet::offset::SRC);
const OFFSET_BITS: u32 = ipv4::FRAGMENT_OFFSET as u32;
const FRAGMENT_BITS: u32 = OFFSET_BITS | ipv4::MORE_FRAGMENTS as u32;

/// The word of four bytes that holds the byte at an offset.
const fn word_of(offset: usize) -> u16 {
    offset as u16 & !3
}

/// What is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PrimitiveKind {
    Host,
    Net,
    Proto,
    Fragment,
    Whole,
    Port,
    TcpOption,
    Ether,
    /// Congestion: whether it can be told.
    Capable,
    /// Congestion: whether there is.
    Congested,
    /// Bits of a header: the protocol, 0 for IP; where they are; how many.
    Field(u32, u16, u8),
}

/// A value that was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Data {
    None,
    Int(u32),
    /// A name: what it is one of, and its number.
    Named(PrimitiveKind, u32),
    Host(u32),
    Net(u32, u32),
    Ether([u8; 6]),
}

/// Source, destination, or which of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Source,
    Destination,
    Both,
    Either,
}

/// How values are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Relation {
    Equal,
    Greater,
    Less,
}

/// A condition as it was written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Primitive {
    pub kind: Option<PrimitiveKind>,
    pub side: Option<Side>,
    pub protocol: Option<u32>,
    pub data: Data,
    pub relation: Relation,
    pub negated: bool,
    /// Which header was named, `i` or `e`.
    pub header: Option<u8>,
    /// A mask given with `&`.
    pub mask: Option<Data>,
}

impl Primitive {
    pub(super) const EMPTY: Primitive = Primitive {
        kind: None,
        side: None,
        protocol: None,
        data: Data::None,
        relation: Relation::Equal,
        negated: false,
        header: None,
        mask: None,
    };

    /// Fills in what was left out, from what was said before.
    fn inherit(&mut self, before: &Primitive) -> Result<PrimitiveKind, String> {
        let inherits_side =
            !matches!(self.data, Data::Named(PrimitiveKind::Proto | PrimitiveKind::Field(..), _));
        let mut kind = match self.data {
            _ if self.kind.is_some() => {
                return Ok(self.header_kind(self.kind.unwrap_or(PrimitiveKind::Proto)));
            }
            Data::Host(_) => PrimitiveKind::Host,
            Data::Net(..) => PrimitiveKind::Net,
            Data::Ether(_) => PrimitiveKind::Ether,
            Data::Named(kind, _) => kind,
            Data::None if self.protocol.is_some() => PrimitiveKind::Proto,
            Data::None => return Err("partial directive".into()),
            Data::Int(_) => match before.kind {
                Some(kind @ (PrimitiveKind::Field(..) | PrimitiveKind::Proto | PrimitiveKind::Port)) => kind,
                _ => return Err("specify header field or 'port'".into()),
            },
        };
        if inherits_side
            && matches!(
                kind,
                PrimitiveKind::Host
                    | PrimitiveKind::Net
                    | PrimitiveKind::Ether
                    | PrimitiveKind::Port
                    | PrimitiveKind::TcpOption
            )
        {
            self.side = self.side.or(before.side);
        }
        match kind {
            PrimitiveKind::Port => self.protocol = self.protocol.or(before.protocol),
            PrimitiveKind::Field(protocol @ 1.., ..) => self.protocol = self.protocol.or(Some(protocol)),
            _ => {}
        }
        kind = self.header_kind(kind);
        self.kind = Some(kind);
        Ok(kind)
    }

    fn header_kind(&self, kind: PrimitiveKind) -> PrimitiveKind {
        let ether = self.header == Some(b'e') || self.header.is_none() && matches!(self.data, Data::Ether(_));
        if ether && kind == PrimitiveKind::Host { PrimitiveKind::Ether } else { kind }
    }

    /// The tests of it; fills in what was left out. What is odd about it goes to `warnings`.
    ///
    /// # Errors
    /// What is wrong with it, as Click says it.
    pub(super) fn compile(&mut self, before: &Primitive, warnings: &mut Vec<String>) -> Result<Expr, String> {
        let said_side = self.side.is_some();
        let kind = self.inherit(before)?;
        self.kind = Some(kind);
        let of_addresses = matches!(kind, PrimitiveKind::Host | PrimitiveKind::Net | PrimitiveKind::Ether);
        let of_ether = self.header.map_or(matches!(self.data, Data::Ether(_)), |header| header == b'e');
        if of_ether && !of_addresses {
            return self.wrong("ip only");
        }
        let always = self.always();
        let expr = match kind {
            PrimitiveKind::Host | PrimitiveKind::Net => self.host()?,
            PrimitiveKind::Ether => self.ether()?,
            PrimitiveKind::Proto => self.protocol()?,
            PrimitiveKind::Port => self.port()?,
            PrimitiveKind::TcpOption => self.option()?,
            PrimitiveKind::Fragment | PrimitiveKind::Whole => {
                self.has_no_value()?;
                let whole = Expr::test(NETWORK + FRAGMENT, FRAGMENT_BITS, 0);
                if kind == PrimitiveKind::Whole { whole } else { whole.negated() }
            }
            PrimitiveKind::Capable => self.congestion()?,
            PrimitiveKind::Congested => {
                self.has_no_value()?;
                self.word(NETWORK, 16, 0x3, 3)?
            }
            PrimitiveKind::Field(protocol, at, bits) => {
                let (Data::Int(value) | Data::Named(PrimitiveKind::Field(..), value)) = self.data else {
                    return self.wrong("value missing");
                };
                let full = u32::MAX >> (32 - u32::from(bits));
                let base = if protocol == 0 { NETWORK } else { TRANSPORT };
                let shift = 32 - (u32::from(at & 31) + u32::from(bits));
                self.word(base + ((at / 8) & !3), shift, full, value)?
            }
        };
        warnings.extend(always);
        // A number that comes next is one of the whole field.
        if kind != tested(kind) {
            self.kind = Some(tested(kind));
        }
        if said_side && !of_addresses && kind != PrimitiveKind::Port {
            warnings.push(format!("'{}': 'src' or 'dst' ignored", self.named(tested(kind))));
        }
        Ok(if kind == PrimitiveKind::Proto { expr } else { self.behind_protocol(kind, expr) })
    }

    /// What Click calls it: `src ip host`, `tcp[...]`.
    fn named(&self, kind: PrimitiveKind) -> String {
        let side = match self.side {
            Some(Side::Source) => "src ",
            Some(Side::Destination) => "dst ",
            Some(Side::Both) => "src and dst ",
            Some(Side::Either) => "src or dst ",
            None => "",
        };
        format!("{side}{}", names::name(kind))
    }

    fn wrong<T>(&self, what: &str) -> Result<T, String> {
        let name = self.kind.map_or_else(String::new, |kind| self.named(kind));
        Err(format!("'{name}': {what}"))
    }

    fn has_no_value(&self) -> Result<(), String> {
        match self.data == Data::None && self.mask.is_none() {
            true => Ok(()),
            false => self.wrong("value not supported"),
        }
    }

    /// That a comparison of a number holds always, or never.
    fn always(&self) -> Option<String> {
        let full = match self.kind? {
            PrimitiveKind::Proto => 0xFF,
            PrimitiveKind::Port => 0xFFFF,
            PrimitiveKind::Capable => 0x3,
            PrimitiveKind::Field(_, _, bits) => u32::MAX >> (32 - u32::from(bits)),
            _ => return None,
        };
        let (Data::Int(value) | Data::Named(_, value)) = self.data else { return None };
        let range = match self.mask {
            None => full,
            Some(Data::Int(mask)) if mask & full == mask => mask,
            Some(_) => return None,
        };
        let (word, holds) = match (self.relation, self.negated) {
            (Relation::Less, negated) if value == 0 || value > range => {
                (if negated { ">=" } else { "<" }, (value > range) != negated)
            }
            (Relation::Greater, negated) if value >= range => (if negated { "<=" } else { ">" }, negated),
            _ => return None,
        };
        Some(format!("relation '{word} {value}' is always {holds} (range 0-{range})"))
    }

    fn option(&mut self) -> Result<Expr, String> {
        let (Data::Int(bits) | Data::Named(_, bits)) = self.data else {
            return self.wrong("value missing");
        };
        if let Some(other) = self.protocol.filter(|protocol| *protocol != TCP) {
            return Err(format!("'tcp opt': bad protocol {other}"));
        }
        if self.relation != Relation::Equal || self.negated || self.mask.is_some() {
            return self.wrong("operator or mask not supported");
        }
        if bits > 255 {
            return Err(format!("'tcp opt': value {bits} out of range"));
        }
        self.protocol = Some(TCP);
        Ok(Expr::test(TRANSPORT + FLAGS, bits << 16, bits << 16))
    }

    /// The protocol's test, and that there is a transport header, before others.
    fn behind_protocol(&self, kind: PrimitiveKind, expr: Expr) -> Expr {
        let mut all = vec![];
        all.extend(self.protocol.and_then(protocol_test));
        if matches!(kind, PrimitiveKind::Port | PrimitiveKind::TcpOption | PrimitiveKind::Field(1.., ..)) {
            all.push(Expr::test(NETWORK + FRAGMENT, OFFSET_BITS, 0));
        }
        all.push(expr);
        Expr::All(all)
    }

    fn congestion(&mut self) -> Result<Expr, String> {
        let value = match self.data {
            Data::None => {
                self.negated = true;
                0
            }
            Data::Int(value) => value,
            _ => return self.wrong("value missing"),
        };
        self.word(NETWORK, 16, 0x3, value)
    }

    fn protocol(&mut self) -> Result<Expr, String> {
        let given = match self.data {
            Data::Int(value) | Data::Named(PrimitiveKind::Proto, value) => Some(value),
            Data::None => None,
            _ => return self.wrong("value missing"),
        };
        if given.is_some() && self.protocol.is_some_and(|p| Some(p) != given) {
            return self.wrong("specified twice");
        }
        let Some(value) = given.or(self.protocol) else { return self.wrong("value missing") };
        self.protocol = None;
        if value >= 256 {
            if self.relation != Relation::Equal || self.negated || self.mask.is_some() {
                return Err(format!("'{}': operator or mask not supported", names::protocol_name(value)));
            }
            self.protocol = Some(value);
            return Ok(protocol_test(value).unwrap_or(Expr::TRUE));
        }
        if self.relation == Relation::Equal && !self.negated && self.mask.is_none() {
            self.protocol = Some(value);
        }
        self.word(NETWORK + PROTOCOL, 16, 0xFF, value)
    }

    fn port(&mut self) -> Result<Expr, String> {
        let (Data::Int(value) | Data::Named(PrimitiveKind::Port, value)) = self.data else {
            return self.wrong("value missing");
        };
        let protocol = *self.protocol.get_or_insert(TCP_OR_UDP);
        if ![TCP, UDP, DCCP, TCP_OR_UDP].contains(&protocol) {
            return Err(format!("'port': bad protocol {protocol}"));
        }
        let mut plain = Primitive { negated: false, ..*self };
        // What is less is not more: so it is said of both ports (`port < 1024` as
        // `not port > 1023`), as Click has it.
        let (said, mut value) = (self.negated, value);
        if self.relation == Relation::Less && value > 0 {
            (plain.relation, value) = (Relation::Greater, value - 1);
            self.negated = !said;
        }
        let (from, to) =
            (plain.word(TRANSPORT, 16, 0xFFFF, value)?, plain.word(TRANSPORT, 0, 0xFFFF, value)?);
        let expr = self.sides(from, to);
        self.negated = said;
        Ok(expr)
    }

    fn host(&mut self) -> Result<Expr, String> {
        let (address, mut mask) = match self.data {
            _ if self.header == Some(b'e') => return self.wrong("address missing"),
            Data::Host(address) if self.kind == Some(PrimitiveKind::Host) => (address, u32::MAX),
            Data::Net(address, mask) if self.kind == Some(PrimitiveKind::Net) => (address, mask),
            _ => return self.wrong("address missing"),
        };
        if self.relation != Relation::Equal {
            return self.wrong("operator not supported");
        }
        // What is said without a number after it means the same side again.
        self.kind = Some(PrimitiveKind::Host);
        match self.mask {
            Some(Data::Int(given) | Data::Host(given)) => mask = given,
            Some(_) => return self.wrong("bad mask"),
            None => {}
        }
        let (from, to) = (Expr::test(NETWORK + SRC, mask, address), Expr::test(NETWORK + DST, mask, address));
        Ok(self.sides(from, to))
    }

    fn ether(&mut self) -> Result<Expr, String> {
        let Data::Ether(address) = self.data else { return self.wrong("address missing") };
        if self.relation != Relation::Equal {
            return self.wrong("operator not supported");
        }
        let mask = match self.mask {
            Some(Data::Ether(mask)) => mask,
            Some(_) => return self.wrong("bad mask"),
            None => [0xFF; 6],
        };
        let word = |bytes: [u8; 6], at: [Option<usize>; 4]| {
            u32::from_be_bytes(at.map(|at| at.map_or(0, |at| bytes[at])))
        };
        let tests = |at: u16, words: [[Option<usize>; 4]; 2]| {
            let one = |n: u16, w| Expr::test(at + 4 * n, word(mask, w), word(address, w));
            Expr::All(vec![one(0, words[0]), one(1, words[1])])
        };
        let from =
            tests(LINK + ETHER_SRC, [[Some(0), Some(1), Some(2), Some(3)], [Some(4), Some(5), None, None]]);
        let to = tests(LINK, [[None, None, Some(0), Some(1)], [Some(2), Some(3), Some(4), Some(5)]]);
        Ok(self.sides(from, to))
    }

    fn sides(&mut self, from: Expr, to: Expr) -> Expr {
        let expr = match *self.side.get_or_insert(Side::Either) {
            Side::Source => from,
            Side::Destination => to,
            Side::Both => Expr::All(vec![from, to]),
            Side::Either => Expr::Any(vec![from, to]),
        };
        if self.negated { expr.negated() } else { expr }
    }

    /// Tests of a number of `full` bits, `shift` from the right of a word.
    fn word(&self, offset: u16, shift: u32, full: u32, value: u32) -> Result<Expr, String> {
        let mask = match self.mask {
            None => full,
            Some(Data::Int(mask)) => mask,
            Some(_) => return self.wrong("bad mask"),
        };
        if mask & full != mask {
            return self.wrong(&format!("mask out of range, bound 0x{full:X}"));
        }
        let (expr, negated) = match self.relation {
            Relation::Equal if value > full => return self.wrong(&format!("out of range, bound {full}")),
            Relation::Equal => (Expr::test(offset, mask << shift, value << shift), self.negated),
            Relation::Greater => (greater(offset, shift, mask, value), self.negated),
            Relation::Less if value == 0 => (Expr::Any(vec![]), self.negated),
            Relation::Less => (greater(offset, shift, mask, value - 1), !self.negated),
        };
        Ok(if negated { expr.negated() } else { expr })
    }
}

/// That the bits of a mask are more than `value`.
pub(super) fn greater(offset: u16, shift: u32, mask: u32, value: u32) -> Expr {
    if value >= mask {
        return Expr::Any(vec![]);
    }
    // Bits that the mask has not: what is more than 2 under a mask of 5 is more than 1.
    let mut value = value;
    let missing = value & !mask;
    if missing != 0 {
        value = (value | u32::MAX >> missing.leading_zeros()) & mask;
    }
    let (mut mask, mut levels) = (mask, vec![]);
    while value < mask {
        // The bits on top that the value has all zero, or all one.
        let high = value > mask >> 1;
        let differs = if high { !value.wrapping_add(1) & mask } else { value };
        let below = 32 - differs.leading_zeros();
        let upper =
            if differs == 0 { mask } else { mask & !(1u32.checked_shl(below).unwrap_or(0).wrapping_sub(1)) };
        if upper == 0 {
            break; // none is left that could tell
        }
        let test = Expr::test(offset, upper << shift, if high { upper << shift } else { 0 });
        levels.push((high, if high { test } else { test.negated() }));
        mask &= !upper;
        value &= mask;
    }
    let mut rest: Option<Expr> = None;
    for (high, test) in levels.into_iter().rev() {
        let list: Vec<Expr> = [Some(test), rest].into_iter().flatten().collect();
        rest = Some(if high { Expr::All(list) } else { Expr::Any(list) });
    }
    rest.unwrap_or(Expr::Any(vec![]))
}

fn protocol_test(protocol: u32) -> Option<Expr> {
    let one = |number: u32| Expr::test(NETWORK + PROTOCOL, 0xFF << 16, number << 16);
    match protocol {
        TCP_OR_UDP => Some(Expr::Any(vec![one(TCP), one(UDP)])),
        0..256 => Some(one(protocol)),
        _ => None,
    }
}

/// What a condition of a kind tests, as Click has it.
fn tested(kind: PrimitiveKind) -> PrimitiveKind {
    match kind {
        PrimitiveKind::Whole => PrimitiveKind::Fragment,
        PrimitiveKind::Capable | PrimitiveKind::Congested => names::TRAFFIC_CLASS,
        other => other,
    }
}
