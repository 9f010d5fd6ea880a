//! Names of protocols, and of ICMP's types and codes, as Click's configurations and
//! tcpdump's expressions have them.

use crate::icmpv4;
use crate::ip::Protocol;

/// Names of IP protocols.
pub const PROTOCOLS: &[(&str, Protocol)] = &[
    ("icmp", Protocol::ICMP),
    ("igmp", Protocol::IGMP),
    ("ipip", Protocol::IPV4),
    ("tcp", Protocol::TCP),
    ("udp", Protocol::UDP),
    ("dccp", Protocol::DCCP),
    ("gre", Protocol::GRE),
    ("sctp", Protocol::SCTP),
];

/// Names of ICMP types.
pub const ICMP_TYPES: &[(&str, u8)] = &[
    ("echo-reply", icmpv4::ECHO_REPLY),
    ("unreachable", icmpv4::UNREACHABLE),
    ("sourcequench", icmpv4::SOURCE_QUENCH),
    ("redirect", icmpv4::REDIRECT),
    ("echo", icmpv4::ECHO_REQUEST),
    ("routeradvert", icmpv4::ROUTER_ADVERTISEMENT),
    ("routersolicit", icmpv4::ROUTER_SOLICITATION),
    ("timeexceeded", icmpv4::TIME_EXCEEDED),
    ("parameterproblem", icmpv4::PARAMETER_PROBLEM),
    ("timestamp", icmpv4::TIMESTAMP),
    ("timestamp-reply", icmpv4::TIMESTAMP_REPLY),
    ("inforeq", icmpv4::INFORMATION),
    ("inforeq-reply", icmpv4::INFORMATION_REPLY),
    ("maskreq", icmpv4::MASK),
    ("maskreq-reply", icmpv4::MASK_REPLY),
];

/// Names of ICMP codes, with their types.
const ICMP_CODES: &[(&str, u8, u8)] = &[
    ("net", icmpv4::UNREACHABLE, 0),
    ("host", icmpv4::UNREACHABLE, 1),
    ("protocol", icmpv4::UNREACHABLE, icmpv4::PROTOCOL_UNREACHABLE),
    ("port", icmpv4::UNREACHABLE, icmpv4::PORT_UNREACHABLE),
    ("needfrag", icmpv4::UNREACHABLE, icmpv4::NEEDS_FRAGMENTS),
    ("srcroutefail", icmpv4::UNREACHABLE, 5),
    ("netunknown", icmpv4::UNREACHABLE, 6),
    ("hostunknown", icmpv4::UNREACHABLE, 7),
    ("isolated", icmpv4::UNREACHABLE, 8),
    ("netprohibited", icmpv4::UNREACHABLE, 9),
    ("hostprohibited", icmpv4::UNREACHABLE, 10),
    ("tosnet", icmpv4::UNREACHABLE, 11),
    ("toshost", icmpv4::UNREACHABLE, 12),
    ("filterprohibited", icmpv4::UNREACHABLE, 13),
    ("hostprecedence", icmpv4::UNREACHABLE, 14),
    ("precedencecutoff", icmpv4::UNREACHABLE, 15),
    ("net", icmpv4::REDIRECT, 0),
    ("host", icmpv4::REDIRECT, 1),
    ("tosnet", icmpv4::REDIRECT, 2),
    ("toshost", icmpv4::REDIRECT, 3),
    ("transit", icmpv4::TIME_EXCEEDED, 0),
    ("reassembly", icmpv4::TIME_EXCEEDED, 1),
    ("erroratptr", icmpv4::PARAMETER_PROBLEM, 0),
    ("missingopt", icmpv4::PARAMETER_PROBLEM, 1),
    ("length", icmpv4::PARAMETER_PROBLEM, 2),
];

/// The name of an ICMP type.
pub fn type_name(kind: u8) -> Option<&'static str> {
    ICMP_TYPES.iter().find(|(_, k)| *k == kind).map(|(name, _)| *name)
}

/// The ICMP type of a name.
pub fn type_number(name: &str) -> Option<u8> {
    ICMP_TYPES.iter().find(|(n, _)| *n == name).map(|(_, kind)| *kind)
}

/// The name of an ICMP code of a type.
pub fn code_name(kind: u8, code: u8) -> Option<&'static str> {
    ICMP_CODES.iter().find(|(_, k, c)| (*k, *c) == (kind, code)).map(|(name, ..)| *name)
}

/// The ICMP code of a name, for a type.
pub fn code_number(kind: u8, name: &str) -> Option<u8> {
    ICMP_CODES.iter().find(|(n, k, _)| (*n, *k) == (name, kind)).map(|(.., code)| *code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_of_icmp_belong_together() {
        assert_eq!(type_name(11), Some("timeexceeded"));
        assert_eq!(type_number("maskreq-reply"), Some(18));
        assert_eq!((type_name(1), type_number("nothing")), (None, None));
        // A code's name belongs to its type.
        assert_eq!(
            (code_number(3, "net"), code_number(5, "tosnet"), code_number(11, "net")),
            (Some(0), Some(2), None)
        );
        assert_eq!(
            (code_name(3, 11), code_name(5, 2), code_name(8, 0)),
            (Some("tosnet"), Some("tosnet"), None)
        );
        for (name, kind) in ICMP_TYPES {
            assert_eq!((type_name(*kind), type_number(name)), (Some(*name), Some(*kind)));
        }
        for (name, kind, code) in ICMP_CODES {
            assert_eq!((code_name(*kind, *code), code_number(*kind, name)), (Some(*name), Some(*code)));
        }
    }
}
