//! `CheckIPHeader`, `CheckIPHeader2`: lets only sound IPv4 packets pass.

use std::net::Ipv4Addr;
use std::sync::Arc;

use graph::class::{Argument, Handlers, Headers, keyword, positional, read};
use graph::element::kernel::{Code, Kernel, of_type};
use graph::value::{Prefix4, Raw, Scope, Value};
use graph::{Action, Class, Conf, ConfFault, Cx, Each, Element, PerPacket, PerThreadCounter};
use memory::Packet;
use wire::{checksum, ipv4};

use crate::kernels::each;
use graph::annotation::PacketAnnotations;
use graph::ip_header;
use port::Reason;

const ARGUMENTS: &[Argument] = &[
    positional("BADSRC", "source addresses that are wrong; the old form adds 0.0.0.0 and 255.255.255.255"),
    positional("OFFSET", "bytes in front of the IP header; 0"),
    keyword(
        "INTERFACES",
        "the router's own addresses and prefixes: their broadcast addresses are no sources",
    ),
    keyword("GOODDST", "destinations that packets from bad sources may go to"),
    keyword("CHECKSUM", "whether the header's checksum must be right"),
    keyword("VERBOSE", "whether every bad packet is told of; false: only the first"),
    keyword("DETAILS", "whether there is a `drop_details` handler; false"),
];

const HANDLERS: Handlers<CheckIpHeader> = Handlers(&[
    read("drops", "bad packets", CheckIpHeader::drops),
    read("drop_details", "bad packets for each reason", |check: &CheckIpHeader| {
        let lines = check.details.iter().flatten().zip(REASONS);
        lines.map(|(counter, reason)| format!("{}\t{reason}\n", counter.sum())).collect()
    })
    .only_if(|check| check.details.is_some()),
]);

/// Why a packet is bad: the class's reasons, in the order in which they are looked for.
const REASONS: [Reason; 6] = [
    Reason::Tiny,
    Reason::BadIpVersion,
    Reason::BadIpHeaderLength,
    Reason::BadIpLength,
    Reason::BadIpChecksum,
    Reason::BadSource,
];

pub static CLASS: Class = Class {
    name: "CheckIPHeader",
    brief: "lets only packets with a sound IPv4 header pass",
    doc: "Checks version, lengths, checksum and source address (RFC 1812, 4.2.2 and 5.3.7); says where the \
          IP and transport headers are, sets the destination annotation to the packet's destination, and \
          cuts off what is behind the IP packet. Bad packets go to output 1, or are dropped.",
    ports: "1/1-2",
    processing: "a/ah",
    arguments: ARGUMENTS,
    handlers: &HANDLERS,
    drops: &REASONS,
    example: "CheckIPHeader(14, INTERFACES 10.0.0.1/24 10.0.1.1/24)",
    see: &["CheckIPHeader2", "MarkIPHeader", "CheckTCPHeader", "CheckUDPHeader", "CheckICMPHeader"],
    headers: Headers { finds_network: true, ..Class::BASE.headers },
    kernel: Kernel::Inside(each!(CheckIpHeader).coded(code)),
    make: |_, conf| Ok(Each::boxed(CheckIpHeader::parse(conf, true)?)),
    ..Class::BASE
};

/// The class of what does not look at the checksum.
pub static WITHOUT_CHECKSUM: Class = Class {
    name: "CheckIPHeader2",
    brief: "lets only packets with a sound IPv4 header pass, whatever the checksum",
    doc: "As CheckIPHeader, but the checksum is not looked at, unless CHECKSUM says so.",
    example: "CheckIPHeader2(14)",
    see: &["CheckIPHeader", "MarkIPHeader"],
    make: |_, conf| Ok(Each::boxed(CheckIpHeader::parse(conf, false)?)),
    ..CLASS
};

/// A list of addresses with blanks between them.
pub(crate) fn addresses(text: &str, scope: &Scope<'_>) -> Result<Vec<Ipv4Addr>, String> {
    text.split_whitespace().map(|word| Ipv4Addr::parse(word, scope)).collect()
}

/// What there is to look at in a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checks {
    /// Bytes in front of it.
    pub offset: usize,
    /// Whether its checksum must be right.
    pub checksum: bool,
    /// Whether there are source addresses that are wrong.
    pub sources: bool,
}

/// A `CheckIPHeader` or `CheckIPHeader2` element; [`CLASS`] says what it does.
#[derive(Debug)]
pub struct CheckIpHeader {
    offset: usize,
    checksum: bool,
    verbose: bool,
    bad_src: Arc<[Ipv4Addr]>,
    good_dst: Arc<[Ipv4Addr]>,
    drops: PerThreadCounter,
    details: Option<[PerThreadCounter; 6]>,
}

impl CheckIpHeader {
    pub(super) fn parse(conf: &mut Conf<'_>, checksum: bool) -> Result<CheckIpHeader, ConfFault> {
        let scope = *conf.scope();
        let fault = |what: &str, error: String| ConfFault::new(format!("{what}: {error}"));
        let listed = |conf: &mut Conf<'_>, key: &str| -> Result<Vec<Ipv4Addr>, ConfFault> {
            let raw = conf.keyword::<Raw>(key)?.unwrap_or(Raw(String::new()));
            addresses(&raw.0, &scope).map_err(|error| fault(key, error))
        };
        let (mut bad_src, mut good_dst) = (vec![], vec![]);
        if let Some(Raw(text)) = conf.keyword("INTERFACES")? {
            for word in text.split_whitespace() {
                let prefix = Prefix4::parse(word, &scope).map_err(|error| fault("INTERFACES", error))?;
                bad_src.push(prefix.address | !prefix.mask);
                good_dst.push(prefix.address);
            }
            bad_src.extend([Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST]);
        }
        bad_src.extend(listed(conf, "BADSRC")?);
        good_dst.extend(listed(conf, "GOODDST")?);
        let mut offset: Option<usize> = conf.keyword("OFFSET")?;
        let checksum = conf.keyword("CHECKSUM")?.unwrap_or(checksum);
        let verbose = conf.keyword("VERBOSE")?.unwrap_or(false);
        let details = conf.keyword("DETAILS")?.unwrap_or(false);
        let old_form: Vec<String> = conf.rest();
        let number = |text: &String| graph::value::unsigned(text).and_then(|n| usize::try_from(n).ok());
        match &old_form[..] {
            [] => {}
            [only] if number(only).is_some() => offset = number(only),
            [bad, rest @ ..] if rest.len() < 2 && !old_form.iter().any(String::is_empty) => {
                let bad = String::parse(bad, &scope)?;
                bad_src.extend(addresses(&bad, &scope).map_err(|error| fault("BADSRC", error))?);
                bad_src.extend([Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST]);
                if let Some(text) = rest.first() {
                    offset = Some(number(text).ok_or("OFFSET: expected unsigned integer")?);
                }
            }
            _ => return Err("too many arguments".into()),
        }
        Ok(CheckIpHeader {
            offset: offset.unwrap_or(0),
            checksum,
            verbose,
            bad_src: bad_src.into(),
            good_dst: good_dst.into(),
            drops: PerThreadCounter::default(),
            details: details.then(Default::default),
        })
    }

    /// Counts a bad packet, and says what is wrong with it.
    #[cold]
    fn bad(&mut self, cx: &mut Cx<'_>, reason: usize) -> Action {
        if self.drops.own() == 0 || self.verbose {
            cx.say(&format!("{}: IP header check failed: {}\n", cx.name(), REASONS[reason]));
        }
        self.drops.add(1);
        if let Some(details) = &mut self.details {
            details[reason].add(1);
        }
        Action::out_or_drop(1, reason)
    }

    #[inline]
    fn is_bad_source(&self, src: Ipv4Addr, dst: Ipv4Addr) -> bool {
        self.bad_src.contains(&src) && !self.good_dst.contains(&dst)
    }

    /// What it looks at.
    pub fn checks(&self) -> Checks {
        Checks { offset: self.offset, checksum: self.checksum, sources: !self.bad_src.is_empty() }
    }

    /// Deals with a packet of one segment whose header is right and has no options, as most are:
    /// whether it is one. `checks` are its own: known beforehand they cost nothing.
    #[inline(always)]
    pub fn passes_plain(&self, packet: &mut Packet, checks: Checks) -> bool {
        let offset = checks.offset;
        let Some(bytes) = packet.get(offset..) else { return false };
        let Some(header) = ipv4::Header::of(bytes) else { return false };
        let (dst, len) = (header.dst(), header.total_len());
        let is_plain = header.is_without_options()
            && packet.next().is_none()
            && (ip_header::LEN..=bytes.len()).contains(&len);
        if !is_plain
            || checks.checksum && !checksum::verify_header(header.into_inner())
            || checks.sources && self.is_bad_source(header.src(), dst)
        {
            return false;
        }
        ip_header::shorten(packet, offset + len);
        packet.set_headers_within(offset, offset + ip_header::LEN);
        packet.set_dst_ip(dst);
        true
    }

    /// Looks at any packet.
    #[cold]
    pub fn check_any(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Action {
        let checks = self.checks();
        let offset = checks.offset;
        let Some(bytes) = packet.get(offset..) else { return self.bad(cx, 0) };
        let Some(fixed) = ipv4::Header::of(bytes) else { return self.bad(cx, 0) };
        if fixed.version() != 4 {
            return self.bad(cx, 1);
        }
        let header_len = fixed.header_len();
        if header_len < ip_header::LEN {
            return self.bad(cx, 2);
        }
        let len = fixed.total_len();
        let chained = packet.next().is_some();
        let there = if chained { packet.total_len() - offset } else { bytes.len() };
        if len > there || len < header_len || bytes.len() < header_len {
            return self.bad(cx, 3);
        }
        if checks.checksum && !checksum::verify(&bytes[..header_len]) {
            return self.bad(cx, 4);
        }
        let (src, dst) = (fixed.src(), fixed.dst());
        if checks.sources && self.is_bad_source(src, dst) {
            return self.bad(cx, 5);
        }
        ip_header::mark(packet, offset, header_len);
        ip_header::cut(packet, offset + len);
        packet.set_dst_ip(dst);
        Action::ON
    }

    /// How many bad packets there were.
    pub(super) fn drops(&self) -> String {
        self.drops.sum().to_string()
    }
}

impl PerPacket for CheckIpHeader {
    const HAS_FAST_PATH: bool = true;

    #[inline]
    fn packet(&mut self, cx: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        if self.fast_path(packet) { Action::ON } else { self.check_any(cx, packet) }
    }

    #[inline(always)]
    fn fast_path(&mut self, packet: &mut Packet) -> bool {
        self.passes_plain(packet, self.checks())
    }

    fn replicate(&self) -> Option<CheckIpHeader> {
        Some(CheckIpHeader {
            offset: self.offset,
            checksum: self.checksum,
            verbose: self.verbose,
            bad_src: self.bad_src.clone(),
            good_dst: self.good_dst.clone(),
            drops: self.drops.for_another(),
            details: self.details.as_ref().map(|all| all.each_ref().map(PerThreadCounter::for_another)),
        })
    }
}

/// Its code in programs: with its configuration in it, where that is known.
fn code(element: &dyn Element) -> Code {
    of_type(element, |Each(kernel): &Each<CheckIpHeader>| {
        let Checks { offset, checksum, sources } = kernel.checks();
        let checks =
            format!("kernels::Checks {{ offset: {offset}, checksum: {checksum}, sources: {sources} }}");
        Some(Code::Action(format!(
            "if kernel.0.passes_plain(packet, {checks}) {{ Action::ON }} \
             else {{ kernel.0.check_any(&mut cx.at(element), packet) }}"
        )))
    })
}
