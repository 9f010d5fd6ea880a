//! What ICMP messages of one version of IP are in the other (stateless IP/ICMP translation,
//! RFC 2765, sections 3.3 and 4.2; the MTU as RFC 7915 has it). The header of eight bytes is
//! changed in place; the packet that an error quotes stays as it is, and so do the lengths.
//! Checksums are to be filled in anew: version 6 covers a pseudo header.

use crate::{icmpv4, icmpv6, ipv4, ipv6};

/// By how much a packet grows when it becomes one of version 6.
const GROWTH: u16 = (ipv6::HEADER_LEN - ipv4::HEADER_LEN) as u16;
/// The pointer of a parameter problem about a field that the other version does not have.
const NO_FIELD: u32 = u32::MAX;

/// A field of the IPv4 header by the byte it begins at, and what stands for it in IPv6.
const FIELDS: &[(u32, u32)] = &[
    (0, 0),
    (ipv4::offset::TOTAL_LEN as u32, ipv6::offset::PAYLOAD_LEN as u32),
    (ipv4::offset::TTL as u32, ipv6::offset::HOP_LIMIT as u32),
    (ipv4::offset::PROTOCOL as u32, ipv6::offset::NEXT_HEADER as u32),
    (ipv4::offset::SRC as u32, ipv6::offset::SRC as u32),
    (ipv4::offset::DST as u32, ipv6::offset::DST as u32),
];

/// Codes of unreachables of version 4 that are others than "no route" in version 6.
const UNREACHABLE_CODES: &[(u8, u8)] = &[(icmpv4::PORT_UNREACHABLE, 4), (5, 2), (9, 1), (10, 1)];

/// Codes of unreachables of version 6, in order, and those of version 4.
const UNREACHABLE_CODES_V4: [u8; 5] = [0, 10, 5, 1, icmpv4::PORT_UNREACHABLE];

/// The code of a parameter problem: a next header that nobody knows.
const UNKNOWN_NEXT_HEADER: u8 = 1;

/// Makes a message of version 4 one of version 6, apart from its checksum. False, and nothing
/// changed, where version 6 has no such message or the bytes end within the header.
pub fn icmp_to_v6(message: &mut [u8]) -> bool {
    let Some(old) = message.first_chunk::<{ icmpv4::HEADER_LEN }>().copied() else { return false };
    let old = icmpv4::Header::new(old);
    let Some(mut new) = icmpv6::Header::of_mut(message) else { return false };
    let (kind, code) = (old.message_type(), old.code());
    match (kind, code) {
        (icmpv4::ECHO_REQUEST, _) => new.set_message_type(icmpv6::ECHO_REQUEST),
        (icmpv4::ECHO_REPLY, _) => new.set_message_type(icmpv6::ECHO_REPLY),
        (icmpv4::UNREACHABLE, icmpv4::PROTOCOL_UNREACHABLE) => {
            new.set_message_type(icmpv6::PARAMETER_PROBLEM);
            new.set_code(UNKNOWN_NEXT_HEADER);
            new.set_pointer(ipv6::offset::NEXT_HEADER as u32);
        }
        (icmpv4::UNREACHABLE, icmpv4::NEEDS_FRAGMENTS) => {
            new.set_message_type(icmpv6::TOO_BIG);
            new.set_code(0);
            new.set_mtu(old.mtu().saturating_add(GROWTH).into());
        }
        (icmpv4::UNREACHABLE, _) => {
            let known = UNREACHABLE_CODES.iter().find(|(own, _)| *own == code);
            new.set_message_type(icmpv6::UNREACHABLE);
            new.set_code(known.map_or(0, |(_, other)| *other));
            new.set_pointer(0);
        }
        (icmpv4::TIME_EXCEEDED, _) => {
            new.set_message_type(icmpv6::TIME_EXCEEDED);
            new.set_pointer(0);
        }
        (icmpv4::PARAMETER_PROBLEM, _) => {
            let pointer = u32::from(old.into_inner()[icmpv4::offset::IDENTIFIER]);
            let known = FIELDS.iter().find(|(own, _)| *own == pointer);
            new.set_message_type(icmpv6::PARAMETER_PROBLEM);
            new.set_code(0);
            new.set_pointer(known.map_or(NO_FIELD, |(_, other)| *other));
        }
        _ => return false,
    }
    true
}

/// Makes a message of version 6 one of version 4, apart from its checksum. False, and nothing
/// changed, where version 4 has no such message or the bytes end within the header.
pub fn icmp_to_v4(message: &mut [u8]) -> bool {
    let Some(old) = message.first_chunk::<{ icmpv6::HEADER_LEN }>().copied() else { return false };
    let old = icmpv6::Header::new(old);
    let Some(mut new) = icmpv4::Header::of_mut(message) else { return false };
    let (kind, code) = (old.message_type(), old.code());
    // What is behind the checksum; of echoes it stays.
    let mut error = |kind, code, pointer, mtu| {
        new.set_message_type(kind);
        new.set_code(code);
        new.set_identifier(0);
        new.set_pointer(pointer);
        new.set_mtu(mtu);
    };
    match (kind, code) {
        (icmpv6::ECHO_REQUEST, _) => new.set_message_type(icmpv4::ECHO_REQUEST),
        (icmpv6::ECHO_REPLY, _) => new.set_message_type(icmpv4::ECHO_REPLY),
        (icmpv6::UNREACHABLE, code) => {
            let code = UNREACHABLE_CODES_V4.get(usize::from(code)).copied().unwrap_or(0);
            error(icmpv4::UNREACHABLE, code, 0, 0);
        }
        (icmpv6::TOO_BIG, _) => {
            let mtu = u16::try_from(old.mtu()).unwrap_or(u16::MAX).saturating_sub(GROWTH);
            error(icmpv4::UNREACHABLE, icmpv4::NEEDS_FRAGMENTS, 0, mtu);
        }
        (icmpv6::TIME_EXCEEDED, code) => error(icmpv4::TIME_EXCEEDED, code, 0, 0),
        (icmpv6::PARAMETER_PROBLEM, UNKNOWN_NEXT_HEADER) => {
            error(icmpv4::UNREACHABLE, icmpv4::PROTOCOL_UNREACHABLE, 0, 0);
        }
        (icmpv6::PARAMETER_PROBLEM, code @ (0 | icmpv6::UNKNOWN_OPTION)) => {
            let known = FIELDS.iter().find(|(_, own)| code == 0 && *own == old.pointer());
            error(icmpv4::PARAMETER_PROBLEM, 0, known.map_or(NO_FIELD as u8, |(other, _)| *other as u8), 0);
        }
        _ => return false,
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v6(header: [u8; 8]) -> Option<[u8; 8]> {
        let mut message = header;
        icmp_to_v6(&mut message).then_some(message)
    }

    fn v4(header: [u8; 8]) -> Option<[u8; 8]> {
        let mut message = header;
        icmp_to_v4(&mut message).then_some(message)
    }

    #[test]
    fn echoes_keep_their_numbers() {
        assert_eq!(v6([8, 0, 9, 9, 1, 2, 3, 4]), Some([128, 0, 9, 9, 1, 2, 3, 4]));
        assert_eq!(v6([0, 0, 9, 9, 1, 2, 3, 4]), Some([129, 0, 9, 9, 1, 2, 3, 4]));
        assert_eq!(v4([128, 0, 9, 9, 1, 2, 3, 4]), Some([8, 0, 9, 9, 1, 2, 3, 4]));
        assert_eq!(v4([129, 0, 9, 9, 1, 2, 3, 4]), Some([0, 0, 9, 9, 1, 2, 3, 4]));
    }

    #[test]
    fn errors_have_others_numbers() {
        let codes: Vec<u8> = (0..13).filter_map(|code| Some(v6([3, code, 0, 0, 0, 0, 0, 0])?[1])).collect();
        assert_eq!(codes, [0, 0, 1, 4, 0, 2, 0, 0, 0, 1, 1, 0, 0]);
        assert_eq!(v6([3, 2, 0, 0, 0, 0, 0, 0]), Some([4, 1, 0, 0, 0, 0, 0, 6]));
        assert_eq!(v6([3, 4, 0, 0, 0, 0, 5, 0]), Some([2, 0, 0, 0, 0, 0, 5, 20]));
        assert_eq!(v6([11, 1, 0, 0, 0, 0, 0, 0]), Some([3, 1, 0, 0, 0, 0, 0, 0]));
        assert_eq!(v6([12, 0, 0, 0, 9, 0, 0, 0]), Some([4, 0, 0, 0, 0, 0, 0, 6]));
        assert_eq!(v6([12, 0, 0, 0, 1, 0, 0, 0]), Some([4, 0, 0, 0, 255, 255, 255, 255]));
        let codes: Vec<u8> = (0..6).filter_map(|code| Some(v4([1, code, 0, 0, 0, 0, 0, 0])?[1])).collect();
        assert_eq!(codes, [0, 10, 5, 1, 3, 0]);
        assert_eq!(v4([2, 0, 0, 0, 0, 0, 5, 20]), Some([3, 4, 0, 0, 0, 0, 5, 0]));
        assert_eq!(v4([2, 0, 0, 0, 0, 9, 5, 20]), Some([3, 4, 0, 0, 0, 0, 255, 235]));
        assert_eq!(v4([3, 1, 0, 0, 0, 0, 0, 0]), Some([11, 1, 0, 0, 0, 0, 0, 0]));
        assert_eq!(v4([4, 0, 0, 0, 0, 0, 0, 7]), Some([12, 0, 0, 0, 8, 0, 0, 0]));
        assert_eq!(v4([4, 2, 0, 0, 0, 0, 0, 7]), Some([12, 0, 0, 0, 255, 0, 0, 0]));
        assert_eq!(v4([4, 1, 0, 0, 0, 0, 0, 6]), Some([3, 2, 0, 0, 0, 0, 0, 0]));
    }

    #[test]
    fn what_the_other_version_does_not_have_stays() {
        assert_eq!((v6([13, 0, 0, 0, 0, 0, 0, 0]), v4([135, 0, 0, 0, 0, 0, 0, 0])), (None, None));
        assert!(!icmp_to_v6(&mut [8, 0, 0]) && !icmp_to_v4(&mut [128, 0, 0, 0, 0, 0, 0]));
    }
}
