//! The field vector: the words of a packet that filters compare (datasheet 332464, chapter 7).
//! The words of tunnels and of the payload are not modelled; they are zero.

use regs::i40e::{Family, class, vector};
use wire::ethernet::ADDRESSES_LEN;
use wire::ip::Protocol;
use wire::{ipv4, ipv6};

use crate::headers::{Headers, Network};
use crate::i40e::family::ipv4_words;

/// A packet's words, each of which is in network order.
pub type Vector = [u16; vector::WORDS];

/// Bytes of both ports.
const PORTS: usize = 4;

/// The transport protocol of a packet class whose ports can be compared.
fn transport(class: u32) -> Option<Protocol> {
    match class {
        class::IPV4_TCP | class::IPV6_TCP => Some(Protocol::TCP),
        class::IPV4_UDP | class::IPV6_UDP => Some(Protocol::UDP),
        class::IPV4_SCTP | class::IPV6_SCTP => Some(Protocol::SCTP),
        _ => None,
    }
}

/// Whether filters can be of this class.
pub fn is_known(class: u32) -> bool {
    is_ipv4(class) || is_ipv6(class) || class == class::L2
}

fn is_ipv4(class: u32) -> bool {
    use class::*;
    matches!(class, IPV4_UDP | IPV4_TCP | IPV4_SCTP | IPV4_OTHER | IPV4_FRAGMENT)
}

fn is_ipv6(class: u32) -> bool {
    use class::*;
    matches!(class, IPV6_UDP | IPV6_TCP | IPV6_SCTP | IPV6_OTHER | IPV6_FRAGMENT)
}

/// The words of a packet of this class; `None` when it has not the headers for them. What is
/// `sent` programs a filter: its source and destination are those of the answers to what the
/// filter shall match.
pub fn words(family: Family, frame: &[u8], headers: &Headers, class: u32, sent: bool) -> Option<Vector> {
    let mut words = [0; vector::WORDS];
    let mut put = |first: usize, at: usize, count: usize| {
        let bytes = frame.get(at..at + 2 * count)?;
        let pairs = bytes.as_chunks::<2>().0;
        words[first..].iter_mut().zip(pairs).for_each(|(word, pair)| *word = u16::from_be_bytes(*pair));
        Some(())
    };
    put(vector::MAC_DST, 0, ADDRESSES_LEN / 2)?;
    let l3 = usize::from(headers.l3);
    let turned = |src: usize, dst: usize| if sent { (dst, src) } else { (src, dst) };
    let l4 = match headers.network {
        Network::V4 { .. } if is_ipv4(class) => {
            let (src, dst) = turned(ipv4::offset::SRC, ipv4::offset::DST);
            put(vector::IP_CLASS, l3, 1)?;
            let [protocol_at, src_at, dst_at] = ipv4_words(family);
            put(protocol_at, l3 + ipv4::offset::TTL, 1)?;
            put(src_at, l3 + src, 2)?;
            put(dst_at, l3 + dst, 2)?;
            l3 + ipv4::Header::of(frame.get(l3..)?)?.header_len()
        }
        Network::V6 { .. } if is_ipv6(class) => {
            let (src, dst) = turned(ipv6::offset::SRC, ipv6::offset::DST);
            put(vector::IP_CLASS, l3, 1)?;
            put(vector::IPV6_NEXT, l3 + ipv6::offset::NEXT_HEADER, 1)?;
            put(vector::IPV6_SRC, l3 + src, 8)?;
            put(vector::IPV6_DST, l3 + dst, 8)?;
            l3 + ipv6::HEADER_LEN
        }
        _ if class == class::L2 => 0,
        _ => return None,
    };
    if let Some(protocol) = transport(class) {
        // What programs a filter may lack lengths, without which its transport header was not found.
        let l4 = if headers.l4 != 0 { usize::from(headers.l4) } else { l4 };
        let (src, dst) = turned(0, PORTS / 2);
        put(vector::SRC_PORT, l4 + src, 1)?;
        put(vector::DST_PORT, l4 + dst, 1)?;
        if protocol == Protocol::SCTP {
            put(vector::SCTP_TAG, l4 + PORTS, 2)?;
        }
        if Protocol(headers.protocol) != protocol {
            return None;
        }
    }
    words[vector::VLAN] = headers.tag.unwrap_or(0);
    words[vector::ETHERTYPE] = headers.ethertype;
    Some(words)
}

/// What of the words is compared: those that `selected` names, without the bits that either of
/// `left_out` has for its word.
pub fn masked(mut words: Vector, selected: u64, left_out: [u32; 2]) -> Vector {
    use regs::i40e::GLQF_FD_MSK;
    for left_out in left_out {
        let at = (left_out & GLQF_FD_MSK::OFFSET_MASK) >> GLQF_FD_MSK::OFFSET_SHIFT;
        words[at as usize] &= !(left_out & GLQF_FD_MSK::MASK_MASK) as u16;
    }
    for (n, word) in words.iter_mut().enumerate() {
        if selected & vector::bits(n, 1) == 0 {
            *word = 0;
        }
    }
    words
}
