//! Names that `IPFilter`'s language knows.

use std::sync::OnceLock;

use graph::value::{NameKind as Declared, Scope};
use wire::ip::Protocol;
use wire::names::{ICMP_TYPES, PROTOCOLS};
use wire::tcp::{self, Flags};
use wire::{icmpv4, ipv4};

use super::primitive::{ANY_TRANSPORT, Data, ICMP, PrimitiveKind, TCP, TCP_OR_UDP, UDP};

/// The first bit of the byte at an offset.
const fn bit(offset: usize) -> u16 {
    8 * offset as u16
}

/// What can be looked at.
const KINDS: &[(&str, PrimitiveKind)] = &[
    ("ce", PrimitiveKind::Congested),
    ("dscp", PrimitiveKind::Field(0, bit(ipv4::offset::TRAFFIC_CLASS), 6)),
    ("ect", PrimitiveKind::Capable),
    ("frag", PrimitiveKind::Fragment),
    ("hl", PrimitiveKind::Field(0, bit(ipv4::offset::VERSION) + 4, 4)),
    ("host", PrimitiveKind::Host),
    ("id", PrimitiveKind::Field(0, bit(ipv4::offset::IDENTIFICATION), 16)),
    ("len", PrimitiveKind::Field(0, bit(ipv4::offset::TOTAL_LEN), 16)),
    ("net", PrimitiveKind::Net),
    ("opt", PrimitiveKind::TcpOption),
    ("port", PrimitiveKind::Port),
    ("proto", PrimitiveKind::Proto),
    ("tos", TRAFFIC_CLASS),
    ("ttl", PrimitiveKind::Field(0, bit(ipv4::offset::TTL), 8)),
    ("type", ICMP_TYPE),
    ("unfrag", PrimitiveKind::Whole),
    ("vers", PrimitiveKind::Field(0, bit(ipv4::offset::VERSION), 4)),
    ("win", PrimitiveKind::Field(TCP, bit(tcp::offset::WINDOW), 16)),
];

/// The byte that was the type of service.
pub(super) const TRAFFIC_CLASS: PrimitiveKind = PrimitiveKind::Field(0, bit(ipv4::offset::TRAFFIC_CLASS), 8);

const ICMP_TYPE: PrimitiveKind = PrimitiveKind::Field(ICMP, bit(icmpv4::offset::TYPE), 8);

const IGMP: u32 = Protocol::IGMP.0 as u32;
const IPIP: u32 = Protocol::IPV4.0 as u32;

/// Words of the grammar, never names of anything.
const GRAMMAR: &[&str] = &["dest", "dst", "ether", "ip", "not", "src"];

const TCP_OPTIONS: &[(&str, Flags)] = &[
    ("ack", Flags::ACK),
    ("fin", Flags::FIN),
    ("psh", Flags::PSH),
    ("rst", Flags::RST),
    ("syn", Flags::SYN),
    ("urg", Flags::URG),
];

/// Names that the system knows: of `/etc/protocols` and `/etc/services`, each with the
/// number and, for a service, its protocol. Empty where there is no such file.
struct SystemNames {
    protocols: Vec<(String, u32)>,
    ports: Vec<(String, u32, u32)>,
}

impl SystemNames {
    /// Names as the texts of both files have them.
    fn of(protocols: &str, services: &str) -> SystemNames {
        SystemNames { protocols: read_protocols(protocols), ports: read_services(services) }
    }

    /// The number of a protocol.
    fn protocol(&self, word: &str) -> Option<u32> {
        self.protocols.iter().find(|(name, _)| name == word).map(|(_, number)| *number)
    }

    /// The number of a service of a protocol.
    fn port(&self, word: &str, protocol: u32) -> Option<u32> {
        let fits = |(name, _, of): &&(String, u32, u32)| name == word && *of == protocol;
        self.ports.iter().find(fits).map(|(_, port, _)| *port)
    }
}

/// The names that this machine knows.
fn system_names() -> &'static SystemNames {
    static NAMES: OnceLock<SystemNames> = OnceLock::new();
    let read = |file| std::fs::read(file).map(|text| String::from_utf8_lossy(&text).into_owned());
    NAMES.get_or_init(|| {
        let texts = ["/etc/protocols", "/etc/services"].map(|file| read(file).unwrap_or_default());
        SystemNames::of(&texts[0], &texts[1])
    })
}

/// Lines of words: a name, a number, further names; without what stands behind `#`.
fn lines(text: &str) -> impl Iterator<Item = (&str, impl Iterator<Item = &str> + Clone)> {
    text.lines().filter_map(|line| {
        let mut words = line.split('#').next()?.split_whitespace();
        let (name, number) = (words.next()?, words.next()?);
        Some((number, std::iter::once(name).chain(words)))
    })
}

/// The names of `/etc/protocols` (protocols(5)).
fn read_protocols(text: &str) -> Vec<(String, u32)> {
    let known = lines(text).filter_map(|(number, names)| Some((number.parse::<u8>().ok()?, names)));
    known.flat_map(|(number, names)| names.map(move |name| (name.to_string(), u32::from(number)))).collect()
}

/// The names of `/etc/services` (services(5)).
fn read_services(text: &str) -> Vec<(String, u32, u32)> {
    let known = lines(text).filter_map(|(place, names)| {
        let (port, protocol) = place.split_once('/')?;
        let protocol = match protocol {
            "tcp" => TCP,
            "udp" => UDP,
            _ => return None,
        };
        Some((u32::from(port.parse::<u16>().ok()?), protocol, names))
    });
    known
        .flat_map(|(port, protocol, names)| names.map(move |name| (name.to_string(), port, protocol)))
        .collect()
}

/// Ports of services, with the protocol where it is but one.
const PORTS: &[(&str, u32, u32)] = &[
    ("auth", 113, TCP_OR_UDP),
    ("bgp", 179, TCP),
    ("bootpc", 68, TCP_OR_UDP),
    ("bootps", 67, TCP_OR_UDP),
    ("chargen", 19, TCP_OR_UDP),
    ("daytime", 13, TCP_OR_UDP),
    ("discard", 9, TCP_OR_UDP),
    ("dns", 53, TCP_OR_UDP),
    ("domain", 53, TCP_OR_UDP),
    ("echo", 7, TCP_OR_UDP),
    ("finger", 79, TCP_OR_UDP),
    ("ftp", 21, TCP_OR_UDP),
    ("ftp-data", 20, TCP_OR_UDP),
    ("gopher", 70, TCP),
    ("http", 80, TCP),
    ("https", 443, TCP_OR_UDP),
    ("imap", 143, TCP),
    ("imap2", 143, TCP),
    ("imap3", 220, TCP_OR_UDP),
    ("imaps", 993, TCP_OR_UDP),
    ("irc", 194, TCP_OR_UDP),
    ("isakmp", 500, UDP),
    ("kerberos", 88, TCP_OR_UDP),
    ("ldap", 389, TCP_OR_UDP),
    ("ldaps", 636, TCP_OR_UDP),
    ("mysql", 3306, TCP),
    ("netbios-dgm", 138, TCP_OR_UDP),
    ("netbios-ns", 137, TCP_OR_UDP),
    ("netbios-ssn", 139, TCP_OR_UDP),
    ("nfs", 2049, TCP_OR_UDP),
    ("nntp", 119, TCP_OR_UDP),
    ("ntp", 123, TCP_OR_UDP),
    ("pop3", 110, TCP_OR_UDP),
    ("pop3s", 995, TCP_OR_UDP),
    ("postgresql", 5432, TCP),
    ("pptp", 1723, TCP_OR_UDP),
    ("printer", 515, TCP),
    ("rip", 520, TCP_OR_UDP),
    ("route", 520, TCP_OR_UDP),
    ("rtsp", 554, TCP_OR_UDP),
    ("sip", 5060, TCP_OR_UDP),
    ("smtp", 25, TCP_OR_UDP),
    ("snmp", 161, TCP_OR_UDP),
    ("snmp-trap", 162, TCP_OR_UDP),
    ("snmptrap", 162, TCP_OR_UDP),
    ("socks", 1080, TCP_OR_UDP),
    ("ssh", 22, TCP_OR_UDP),
    ("sunrpc", 111, TCP_OR_UDP),
    ("syslog", 514, UDP),
    ("telnet", 23, TCP_OR_UDP),
    ("tftp", 69, TCP_OR_UDP),
    ("time", 37, TCP_OR_UDP),
    ("whois", 43, TCP),
    ("www", 80, TCP_OR_UDP),
    ("www-http", 80, TCP_OR_UDP),
    ("xdmcp", 177, UDP),
];

/// What a word says to look at.
pub(super) fn kind(word: &str) -> Option<PrimitiveKind> {
    KINDS.iter().find(|(name, _)| *name == word).map(|(_, kind)| *kind)
}

/// The word for bits of a header.
pub(super) fn field(kind: PrimitiveKind) -> Option<&'static str> {
    KINDS.iter().find(|(_, known)| *known == kind).map(|(name, _)| *name)
}

/// Whether it is a word of the grammar.
pub(super) fn is_grammar(word: &str) -> bool {
    GRAMMAR.contains(&word)
}

fn declared(scope: &Scope<'_>, what: &'static str, word: &str) -> Option<u32> {
    scope.lookup(Declared::Number(what), word)?.parse().ok()
}

/// The number of a protocol's name.
pub(super) fn protocol(word: &str, scope: &Scope<'_>) -> Option<u32> {
    let special = match word {
        "tcpudp" => Some(TCP_OR_UDP),
        "transp" => Some(ANY_TRANSPORT),
        _ => None,
    };
    let known = || PROTOCOLS.iter().find(|(name, _)| *name == word).map(|(_, n)| u32::from(n.0));
    special.or_else(|| declared(scope, "proto", word)).or_else(known)
}

/// The number of a port's name.
pub(crate) fn port(word: &str, protocol: u32, scope: &Scope<'_>) -> Option<u32> {
    let what = if protocol == TCP { "tcp port" } else { "udp port" };
    let known = || {
        let fits =
            |(name, _, of): &&(&str, u32, u32)| *name == word && (*of == protocol || *of == TCP_OR_UDP);
        PORTS.iter().find(fits).map(|(_, port, _)| *port)
    };
    declared(scope, what, word).or_else(known)
}

/// A value's name: `None` when it is none.
///
/// # Errors
/// When it stands for several things, or for none that fits.
pub(super) fn value(
    word: &str,
    asked: Option<PrimitiveKind>,
    of: Option<u32>,
    scope: &Scope<'_>,
) -> Result<Option<Data>, String> {
    value_among(word, asked, of, scope, system_names)
}

/// As [`value`], with the names that `system` gives, which is asked for words that are nothing
/// else.
fn value_among<'a>(
    word: &str,
    asked: Option<PrimitiveKind>,
    of: Option<u32>,
    scope: &Scope<'_>,
    system: impl FnOnce() -> &'a SystemNames,
) -> Result<Option<Data>, String> {
    let option = TCP_OPTIONS.iter().find(|(name, _)| *name == word).map(|(_, flag)| u32::from(flag.0));
    let icmp = declared(scope, "icmp type", word)
        .or_else(|| ICMP_TYPES.iter().find(|(name, _)| *name == word).map(|(_, n)| u32::from(*n)));
    // What it may be, and the protocols for which it is that.
    let mut found: [(PrimitiveKind, Option<u32>, &[u32]); 5] = [
        (PrimitiveKind::Proto, protocol(word, scope), &[]),
        (PrimitiveKind::Port, port(word, TCP, scope), &[TCP, TCP_OR_UDP]),
        (PrimitiveKind::Port, port(word, UDP, scope), &[UDP, TCP_OR_UDP]),
        (PrimitiveKind::TcpOption, option, &[TCP, TCP_OR_UDP]),
        (ICMP_TYPE, icmp, &[ICMP]),
    ];
    if found.iter().all(|(_, number, _)| number.is_none()) {
        let names = system();
        found[0].1 = names.protocol(word);
        found[1].1 = names.port(word, TCP);
        found[2].1 = names.port(word, UDP);
    }
    if found.iter().all(|(_, number, _)| number.is_none()) {
        return Ok(None);
    }
    let fits = |kind: PrimitiveKind, protocols: &[u32]| {
        asked.is_none_or(|asked| asked == kind)
            && (protocols.is_empty() || of.is_none_or(|of| protocols.contains(&of)))
    };
    let mut fitting: Vec<(PrimitiveKind, u32)> = found
        .iter()
        .filter_map(|(kind, number, protocols)| fits(*kind, protocols).then_some((*kind, (*number)?)))
        .collect();
    fitting.dedup();
    match fitting[..] {
        [(kind, number)] => Ok(Some(Data::Named(kind, number))),
        ref fitting => {
            let said = |kind| format!("'{}'", qualified(kind, of, word));
            let known = found.iter().filter(|(_, number, _)| number.is_some());
            let known: Vec<String> = known.map(|(kind, ..)| said(Some(*kind))).collect();
            let what = if fitting.is_empty() { "meaningless" } else { "ambiguous" };
            Err(format!("{} is {what}; try {}", said(asked), known.join(", ")))
        }
    }
}

/// A word with what it is one of, as Click says it.
fn qualified(kind: Option<PrimitiveKind>, protocol: Option<u32>, word: &str) -> String {
    let kind = kind.map_or("<none>".to_owned(), name);
    let protocol = protocol.map_or(String::new(), protocol_name);
    format!("{kind} {protocol} {word}")
}

/// What Click calls a kind of condition.
pub(super) fn name(kind: PrimitiveKind) -> String {
    let name = match kind {
        PrimitiveKind::Host => "ip host",
        PrimitiveKind::Net => "ip net",
        PrimitiveKind::Proto => "proto",
        PrimitiveKind::Fragment => "ip frag",
        PrimitiveKind::Whole => "ip unfrag",
        PrimitiveKind::Port => "port",
        PrimitiveKind::TcpOption => "tcp opt",
        PrimitiveKind::Ether => "ether host",
        PrimitiveKind::Capable => "ip ect",
        PrimitiveKind::Congested => "ip ce",
        PrimitiveKind::Field(protocol, ..) => {
            let header = if protocol == 0 { "ip".to_owned() } else { protocol_name(protocol) };
            return match field(kind) {
                Some(field) => format!("{header} {field}"),
                None => format!("{header}[...]"),
            };
        }
    };
    name.to_owned()
}

/// What Click calls a protocol.
pub(super) fn protocol_name(protocol: u32) -> String {
    let name = match protocol {
        ICMP => "icmp",
        IGMP => "igmp",
        IPIP => "ipip",
        TCP => "tcp",
        UDP => "udp",
        TCP_OR_UDP => "tcpudp",
        ANY_TRANSPORT => "transp",
        other => return format!("ip proto {other}"),
    };
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_names_are_read() {
        let text = "# comment\nip\t0\tIP # internet\nesp\t50\tIPSEC-ESP\t# RFC 4303\nwrong\nbig 300 BIG\n";
        let expected = [("ip", 0), ("IP", 0), ("esp", 50), ("IPSEC-ESP", 50)];
        assert_eq!(read_protocols(text), expected.map(|(name, number)| (name.to_string(), number)));
        let text = "ssh 22/tcp # shell\nsnmp\t161/udp  agent\nother 5/sctp\nbad 99999/tcp\n";
        let expected = [("ssh", 22, TCP), ("snmp", 161, UDP), ("agent", 161, UDP)];
        assert_eq!(read_services(text), expected.map(|(name, port, of)| (name.to_string(), port, of)));
    }
    #[test]
    fn words_that_are_nothing_else_are_names_of_the_system() {
        let system = SystemNames::of("esp 50 IPSEC-ESP\ntcp 99 TCP\n", "nbd 10809/tcp\nnbd 10810/udp\n");
        let scope = Scope { element: "", names: &Default::default() };
        let of = |word: &str, kind, protocol| value_among(word, Some(kind), protocol, &scope, || &system);
        assert_eq!(of("esp", PrimitiveKind::Proto, None), Ok(Some(Data::Named(PrimitiveKind::Proto, 50))));
        assert_eq!(
            of("IPSEC-ESP", PrimitiveKind::Proto, None),
            Ok(Some(Data::Named(PrimitiveKind::Proto, 50)))
        );
        assert_eq!(
            of("nbd", PrimitiveKind::Port, Some(TCP)),
            Ok(Some(Data::Named(PrimitiveKind::Port, 10809)))
        );
        assert_eq!(
            of("nbd", PrimitiveKind::Port, Some(UDP)),
            Ok(Some(Data::Named(PrimitiveKind::Port, 10810)))
        );
        // What the language knows is not asked for.
        assert_eq!(of("tcp", PrimitiveKind::Proto, None), Ok(Some(Data::Named(PrimitiveKind::Proto, 6))));
        assert_eq!(of("nonesuch", PrimitiveKind::Proto, None), Ok(None));
        assert!(of("nbd", PrimitiveKind::Port, None).is_err(), "two services");
    }
}
