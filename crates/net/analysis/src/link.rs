//! What packets of capture files begin with: link types by the names that Click has
//! for them, and where the IP header is behind each.

use graph::ip_header::{self, u16_at};
use memory::Packet;
use wire::ethernet::{self, EtherType};
use wire::vlan;

/// Packets begin with an Ethernet header.
pub(crate) const ETHERNET: u32 = 1;
/// IP without anything before it.
pub(crate) const RAW: u32 = 101;
/// The same, as some systems number it.
const HOST_RAW: u32 = 12;
const NULL: u32 = 0;
const PPP: u32 = 9;
const FDDI: u32 = 10;
const PPP_HDLC: u32 = 50;
const RFC1483: u32 = 100;
const C_HDLC: u32 = 104;
const WIFI: u32 = 105;
const LINUX_SLL: u32 = 113;
const PRISM: u32 = 119;
const SUNATM: u32 = 123;
const RADIOTAP: u32 = 127;

const NAMES: &[(&str, u32)] = &[
    ("NULL", NULL),
    ("IP", RAW),
    ("ETHER", ETHERNET),
    ("FDDI", FDDI),
    ("ATM", RFC1483),
    ("RFC1483", RFC1483),
    ("ATM_RFC1483", RFC1483),
    ("802_11", WIFI),
    ("802.11", WIFI),
    ("802_11_RADIO", RADIOTAP),
    ("802.11_RADIO", RADIOTAP),
    ("SLL", LINUX_SLL),
    ("AIRONET", 120),
    ("HDLC", C_HDLC),
    ("PPP_HDLC", PPP_HDLC),
    ("PPP", PPP),
    ("SUNATM", SUNATM),
    ("PRISM", PRISM),
];

/// The link type of a name, or of a number behind `#`.
pub(crate) fn parse(name: &str) -> Option<u32> {
    let known = NAMES.iter().find(|(known, _)| *known == name).map(|(_, link)| *link);
    known.or_else(|| name.strip_prefix('#')?.parse().ok().filter(|link| *link < 0x7FFF_FFFF))
}

/// A link type's name.
pub(crate) fn name(link: u32) -> String {
    let known = NAMES.iter().find(|(_, known)| *known == link).map(|(name, _)| name.to_string());
    known.unwrap_or_else(|| format!("#{link}"))
}

/// The link type, whatever number the system that wrote the file had for it.
pub(crate) fn canonical(link: u32) -> u32 {
    if link == HOST_RAW { RAW } else { link }
}

/// Whether IP headers are found behind a link type.
pub(crate) fn is_known(link: u32) -> bool {
    NAMES.iter().any(|(name, known)| *known == link && *name != "AIRONET")
}

fn is_ip(ether_type: u16) -> bool {
    matches!(EtherType(ether_type), EtherType::IPV4 | EtherType::IPV6)
}

/// Where the IP header is, by what comes before it.
fn ip_place(link: u32, bytes: &[u8], at: usize) -> Option<usize> {
    let byte = |n: usize| bytes.get(at + n).copied();
    let word = |n: usize| bytes.get(at + n + 1).map(|_| u16_at(bytes, at + n));
    match link {
        RAW => Some(at),
        ETHERNET => match EtherType(word(ethernet::offset::ETHERTYPE)?) {
            EtherType::VLAN => {
                let behind = at + ethernet::HEADER_LEN + vlan::HEADER_LEN;
                is_ip(word(vlan::TAGGED_LEN)?).then_some(behind)
            }
            EtherType(other) => is_ip(other).then_some(at + ethernet::HEADER_LEN),
        },
        FDDI => {
            byte(20)?;
            (byte(0)? & 0xF0 == 0x50).then(|| ip_place(RFC1483, bytes, at + 13)).flatten()
        }
        SUNATM => ip_place(RFC1483, bytes, at + 4),
        RFC1483 => behind_llc(bytes, at),
        LINUX_SLL => is_ip(word(14)?).then_some(at + 16),
        C_HDLC => is_ip(word(2)?).then_some(at + 4),
        PPP_HDLC => match byte(0)? {
            0xFF => matches!(word(2)?, 0x21 | 0x57).then_some(at + 4),
            0x0F | 0x8F => ip_place(C_HDLC, bytes, at),
            _ => None,
        },
        PPP => {
            let at = if word(0)? == 0xFF03 { at + 2 } else { at };
            match (bytes.get(at)?, bytes.get(at + 1)?) {
                (0x21 | 0x57, _) => Some(at + 1),
                (0, 0x21 | 0x57) => Some(at + 2),
                _ => None,
            }
        }
        PRISM => ip_place(WIFI, bytes, at + 144),
        WIFI => {
            byte(23)?;
            let address = if byte(1)? & 3 == 3 { 30 } else { 24 };
            (byte(0)? & 0x0C == 0x08).then(|| ip_place(RFC1483, bytes, at + address)).flatten()
        }
        RADIOTAP => {
            let length = usize::from(word(2)?.swap_bytes());
            (length >= 8).then(|| ip_place(WIFI, bytes, at + length)).flatten()
        }
        NULL => {
            byte(3)?;
            // The family is in the byte order of the machine that wrote the file.
            let family = match word(0)?.swap_bytes() {
                0 => word(2)?,
                family => family,
            };
            matches!(family, 2 | 24 | 28 | 30).then_some(at + 4)
        }
        _ => None,
    }
}

/// Behind LLC and SNAP (RFC 2684, IEEE 802.2).
fn behind_llc(bytes: &[u8], at: usize) -> Option<usize> {
    let head = bytes.get(at..)?;
    if head.len() >= 8 && head.starts_with(&[0xAA, 0xAA, 3, 0, 0, 0]) && is_ip(u16_at(head, 6)) {
        return Some(at + 8);
    }
    if head.len() >= 4 && head.starts_with(&[6, 6]) {
        return Some(at + 4);
    }
    if head.len() < 8 || !head.starts_with(&[0xAA, 0xAA]) {
        return None;
    }
    match (&head[3..6], u16_at(head, 6)) {
        // An Ethernet header's last part.
        ([0, 0, 0 | 0xF8], _) if at >= 6 => ip_place(ETHERNET, bytes, at - 6),
        ([0, 0x80, 0xC2], 1 | 7) => ip_place(ETHERNET, bytes, at + 8),
        ([0, 0x80, 0xC2], 4 | 10) => ip_place(FDDI, bytes, at + 9),
        _ => None,
    }
}

/// Finds a packet's IP header; whether it has one that is all there.
pub(crate) fn mark_ip(packet: &mut Packet, link: u32) -> bool {
    ip_place(link, packet, 0).is_some_and(|at| ip_header::find_at(packet, at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ip_is_found_behind_every_link_layer() {
        let cases: &[(u32, &[u8], usize)] = &[
            (RAW, &[0x45], 0),
            (ETHERNET, &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0], 14),
            (ETHERNET, &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x81, 0, 0, 1, 0x86, 0xDD], 18),
            (LINUX_SLL, &[0, 0, 0, 1, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0], 16),
            (PPP, &[0xFF, 3, 0, 0x21], 4),
            (PPP, &[0x21, 0], 1),
            (PPP_HDLC, &[0xFF, 3, 0, 0x57], 4),
            (PPP_HDLC, &[0x0F, 0, 8, 0], 4),
            (C_HDLC, &[0, 0, 8, 0], 4),
            (NULL, &[2, 0, 0, 0], 4),
            (NULL, &[0, 0, 0, 30], 4),
            (RFC1483, &[0xAA, 0xAA, 3, 0, 0, 0, 8, 0], 8),
            (SUNATM, &[0, 0, 0, 0, 0xAA, 0xAA, 3, 0, 0, 0, 8, 0], 12),
        ];
        for (link, bytes, place) in cases {
            assert_eq!(ip_place(*link, bytes, 0), Some(*place), "{}", name(*link));
        }
        assert_eq!(ip_place(ETHERNET, &[0; 60], 0), None);
    }

    #[test]
    fn names_and_numbers_are_link_types() {
        assert_eq!((parse("ETHER"), parse("#147"), parse("nothing")), (Some(1), Some(147), None));
        assert_eq!((name(101), name(147)), ("IP".into(), "#147".into()));
    }

    #[test]
    fn any_bytes_behind_any_link_layer_are_survived() {
        for link in 0..200 {
            for length in 0..64 {
                for byte in [0, 8, 0x21, 0x45, 0x81, 0xAA, 0xFF] {
                    let _ = ip_place(link, &vec![byte; length], 0);
                }
            }
        }
    }
}
