//! Where the 82576 has what Intel's NICs have in common.

use regs::igb::*;
use regs::ixgbe::descriptor::rx_high as moved;

use super::stats::SOURCES;
use crate::intel::Facts;

/// The 82576.
pub(super) static FACTS: Facts = Facts {
    knows: super::knows,
    known: "this build drives Intel 82576 with copper (igb)",
    ral: RAL::REGISTER,
    rah: RAH::REGISTER,
    rdt: RDT::REGISTER,
    rxdctl: RXDCTL::REGISTER,
    tdt: TDT::REGISTER,
    reta: RETA::REGISTER,
    rssrk: RSSRK::REGISTER,
    mrqc: MRQC::REGISTER,
    rss_addresses: MRQC::ENABLE_RSS | MRQC::RSS_FIELD_IPV4 | MRQC::RSS_FIELD_IPV6,
    // TCP over IPv6 with the fields of extension headers is the same hash for a
    // packet without them, and the only one that QEMU computes.
    rss_ports: MRQC::RSS_FIELD_IPV4_TCP
        | MRQC::RSS_FIELD_IPV4_UDP
        | MRQC::RSS_FIELD_IPV6_TCP
        | MRQC::RSS_FIELD_IPV6_TCP_EX
        | MRQC::RSS_FIELD_IPV6_UDP,
    eims: EIMS::REGISTER,
    eimc: EIMC::REGISTER,
    vectors: EITR::COUNT,
    queues: 16,
    queues_limit: "the device has 1 to 16",
    longest: 9_716, // RLPML's most is 9,728, with CRC and two tags
    longest_limit: "the limit can be set from 1,514 to 9,716 bytes",
    rx_suspect: rx_high::RXE | rx_high::IPE | rx_high::L4E,
    rx_words,
    counters: SOURCES,
};

/// Moves the errors to where the 82599 has them; all else is there already.
fn rx_words([low, high]: [u64; 2]) -> [u64; 2] {
    const MOVES: [(u64, u64); 3] =
        [(rx_high::RXE, moved::RXE), (rx_high::IPE, moved::IPE), (rx_high::L4E, moved::L4E)];
    let errors = rx_high::RXE | rx_high::IPE | rx_high::L4E;
    let moved = MOVES.iter().filter(|(from, _)| high & from != 0).fold(0, |bits, (_, to)| bits | to);
    [low, high & !errors | moved]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_finds_its_place_and_nothing_else_moves() {
        let rest = 0x1234_05DC_0000_0063;
        for (from, to) in [(rx_high::RXE, moved::RXE), (rx_high::IPE, moved::IPE), (rx_high::L4E, moved::L4E)]
        {
            assert_eq!(rx_words([7, rest | from]), [7, rest | to]);
        }
        assert_eq!(rx_words([7, rest]), [7, rest]);
    }
}
