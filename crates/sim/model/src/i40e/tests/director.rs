//! Flow Director under a driver played by hand: what filters match, what is told of them, and
//! what the linter says of those that are programmed wrongly.

use std::net::{Ipv4Addr, Ipv6Addr};

use regs::i40e::admin::{element, link, veb, vsi};
use regs::i40e::descriptor::{filter, rx_program};
use wire::ethernet::EtherType;
use wire::ip::Protocol;
use wire::{ipv4, ipv6};

use super::*;
use crate::i40e::director::{BEST_EFFORT, GUARANTEED};
use crate::i40e::switch::{DIRECTOR_SEID, VEB_SEID};

const A: (Ipv4Addr, u16) = (Ipv4Addr::new(10, 0, 0, 1), 1000);
const B: (Ipv4Addr, u16) = (Ipv4Addr::new(10, 0, 0, 2), 2000);
/// Where the packets lie that program filters.
const PACKETS: u64 = DATA + 0x4_0000;
/// The counter of the filters here.
const COUNTER: usize = 5;

/// A frame to the chip, of so many bytes behind the network header; lengths as they should be.
fn frame(protocol: Protocol, from: (Ipv4Addr, u16), to: (Ipv4Addr, u16)) -> Vec<u8> {
    let mut header = ipv4::Header::zeroed();
    ipv4::Repr::between(from.0, to.0, protocol, 40).write(&mut header);
    ethernet(EtherType::IPV4, &header.into_inner(), from.1, to.1)
}

fn frame6(protocol: Protocol, from: (Ipv6Addr, u16), to: (Ipv6Addr, u16)) -> Vec<u8> {
    let (src, dst) = (from.0, to.0);
    let (hop_limit, traffic_class, flow_label, payload_len) = (64, 0, 0, 40);
    let header =
        ipv6::Repr { src, dst, next_header: protocol, hop_limit, traffic_class, flow_label, payload_len }
            .header();
    ethernet(EtherType::IPV6, &header.into_inner(), from.1, to.1)
}

fn ethernet(kind: EtherType, header: &[u8], src: u16, dst: u16) -> Vec<u8> {
    let mut rest = [0; 40];
    rest[..2].copy_from_slice(&src.to_be_bytes());
    rest[2..4].copy_from_slice(&dst.to_be_bytes());
    [&MAC[..], &[2; 6], &kind.0.to_be_bytes(), header, &rest].concat()
}

/// A descriptor that adds a filter of a class.
fn add(class: u32, target: u64) -> [u64; 2] {
    let low = u64::from(class) << filter::PCTYPE_SHIFT;
    let counter = filter::CNT_ENA | (COUNTER as u64) << filter::CNTINDEX_SHIFT;
    [low, tx::DTYPE_FILTER | filter::PCMD_ADD | target | counter | 77 << filter::FD_ID_SHIFT]
}

fn remove([low, high]: [u64; 2]) -> [u64; 2] {
    [low, high & !filter::PCMD_MASK | filter::PCMD_REMOVE]
}

/// A packet that programs a filter, and one that the filter matches.
pub fn answer() -> Vec<u8> {
    frame(Protocol::UDP, B, A)
}

pub fn answered() -> Vec<u8> {
    frame(Protocol::UDP, A, B)
}

/// A word of a pair of descriptors, `at` of four: of a filter with the packet behind it, or without,
/// half of the time.
pub fn descriptor_word(at: u64, word: u64) -> Option<u64> {
    let size = (answer().len() as u64) << tx::SIZE_SHIFT;
    match at {
        _ if word & 1 == 0 => None,
        0 => Some(DATA),
        1 => Some(tx::EOP | word & (tx::DUMMY | tx::RS) | size),
        2 if word & 2 != 0 => Some(u64::from(class::IPV4_UDP) << filter::PCTYPE_SHIFT),
        2 => Some(word),
        _ => Some(word & !tx::DTYPE_MASK | tx::DTYPE_FILTER),
    }
}

impl Guest {
    /// A guest whose first queues run and may program filters, with descriptors to receive into.
    fn directed() -> Guest {
        let mut guest = Guest::new();
        guest.chip.write(PFQF_CTL_0::AT, PFQF_CTL_0::FD_ENA);
        guest.start(&[], &[(context::tx::FD_ENA, 1)]);
        for n in 0..63 {
            guest.memory.store(RX_RING + 16 * n, DATA + 2048 * n);
        }
        guest.chip.write(QRX_TAIL::at(0), 63);
        guest
    }

    /// Puts descriptors behind those that were put before, round the ring.
    fn put(&mut self, descriptors: &[[u64; 2]]) {
        let mut tail = self.chip.read(QTX_TAIL::at(0));
        for words in descriptors {
            let at = TX_RING + 16 * u64::from(tail);
            self.memory.store(at, words[0]);
            self.memory.store(at + 8, words[1]);
            tail = (tail + 1) % 64;
        }
        self.chip.write(QTX_TAIL::at(0), tail);
        self.step();
    }

    /// Programs a filter with the fields of a packet, which is not sent.
    fn program(&mut self, words: [u64; 2], packet: &[u8]) {
        assert!(self.memory.write(PACKETS, packet));
        let size = (packet.len() as u64) << tx::SIZE_SHIFT;
        self.put(&[words, [PACKETS, tx::EOP | tx::RS | tx::DUMMY | size]]);
    }

    /// Whether the host receives a frame: the second word of its descriptor.
    fn receives(&mut self, frame: &[u8]) -> Option<u64> {
        let before = self.chip.rx.queues[0].ring.head;
        self.cable.send(frame);
        self.step();
        let after = self.chip.rx.queues[0].ring.head;
        (after != before).then(|| self.memory.load(RX_RING + 16 * u64::from(before) + 8))
    }

    fn filters(&mut self) -> (u32, u32) {
        let count = self.chip.read(PFQF_FDSTAT::AT);
        (
            count & PFQF_FDSTAT::GUARANT_CNT_MASK,
            (count & PFQF_FDSTAT::BEST_CNT_MASK) >> PFQF_FDSTAT::BEST_CNT_SHIFT,
        )
    }
}

#[test]
fn a_filter_drops_its_flow_and_no_other_until_it_is_removed() {
    let mut guest = Guest::directed();
    let drop = add(class::IPV4_UDP, filter::DEST_DROP);
    // The packet is an answer to those that it shall match.
    guest.program(drop, &frame(Protocol::UDP, B, A));
    assert_eq!((guest.filters(), guest.cable.from_host.len()), ((1, 0), 0), "not sent");
    assert_eq!(guest.memory.load(TX_RING + 16 + 8), tx::DTYPE_DONE);
    assert_eq!(guest.receives(&frame(Protocol::UDP, A, B)), None);
    for other in [
        frame(Protocol::UDP, B, A),
        frame(Protocol::UDP, A, (B.0, 2001)),
        frame(Protocol::UDP, (Ipv4Addr::new(10, 0, 0, 3), 1000), B),
        frame(Protocol::TCP, A, B),
    ] {
        let status = guest.receives(&other).expect("another flow");
        assert_eq!(status & rx_high::FLM, 0, "no filter");
    }
    assert_eq!(guest.chip.drops().rx_filtered_flow, 1);
    assert_eq!(guest.chip.read(GLQF_PCNT::at(COUNTER)), 1);
    guest.chip.write(GLQF_PCNT::at(COUNTER), 1);
    assert_eq!(guest.chip.read(GLQF_PCNT::at(COUNTER)), 0);
    guest.program(remove(drop), &frame(Protocol::UDP, B, A));
    assert_eq!(guest.filters(), (0, 0));
    assert!(guest.receives(&frame(Protocol::UDP, A, B)).is_some());
    assert!(guest.chip.lint().is_empty(), "{}", guest.chip.lint());
}

#[test]
fn what_a_filter_matches_is_told_with_its_number() {
    let mut guest = Guest::directed();
    let [low, high] = add(class::IPV4_TCP, filter::DEST_QUEUE);
    guest.program([low, high | filter::FD_STATUS_FD_ID], &frame(Protocol::TCP, B, A));
    let at = RX_RING + 16 * u64::from(guest.chip.rx.queues[0].ring.head);
    let status = guest.receives(&frame(Protocol::TCP, A, B)).expect("received");
    assert_eq!(status & (rx_high::FLM | rx_high::FLTSTAT_MASK), rx_high::FLM | rx_high::FLTSTAT_FD_ID);
    assert_eq!(guest.memory.load(at) >> 32, 77);
    // A packet that is sent programs a filter, too: the next one changes this filter.
    let sent = frame(Protocol::TCP, B, A);
    assert!(guest.memory.write(PACKETS, &sent));
    let size = (sent.len() as u64) << tx::SIZE_SHIFT;
    guest.put(&[add(class::IPV4_TCP, filter::DEST_DROP), [PACKETS, tx::EOP | tx::RS | size]]);
    assert_eq!((guest.cable.from_host.len(), guest.filters()), (1, (1, 0)));
    assert_eq!(guest.receives(&frame(Protocol::TCP, A, B)), None);
    // Without the bit of the function no filter matches; and all can be forgotten at once.
    guest.chip.write(PFQF_CTL_0::AT, 0);
    assert!(guest.receives(&frame(Protocol::TCP, A, B)).is_some());
    guest.chip.write(PFQF_CTL_0::AT, PFQF_CTL_0::FD_ENA);
    assert_eq!(guest.receives(&frame(Protocol::TCP, A, B)), None);
    guest.chip.write(PFQF_CTL_1::AT, PFQF_CTL_1::CLEARFDTABLE);
    assert_eq!((guest.filters(), guest.chip.read(PFQF_CTL_1::AT)), ((0, 0), 0));
    assert!(guest.receives(&frame(Protocol::TCP, A, B)).is_some());
    assert!(guest.chip.lint().is_empty(), "{}", guest.chip.lint());
}

/// Each class has fields of its own, and Linux's driver programs with packets without lengths.
#[test]
fn filters_are_of_every_class() {
    let six = |last: u16, port| (Ipv6Addr::new(0xFD00, 0, 0, 0, 0, 0, 0, last), port);
    let v4 = |protocol| (frame(protocol, B, A), frame(protocol, A, B), frame(protocol, A, (A.0, B.1)));
    let v6 = |protocol| {
        let (a, b) = (six(1, 1000), six(2, 2000));
        (frame6(protocol, b, a), frame6(protocol, a, b), frame6(protocol, a, six(3, 2000)))
    };
    let l2 = |kind: u16| ethernet(EtherType(kind), &[0; 20], 0, 0);
    for (class, (packet, matches, other)) in [
        (class::IPV4_UDP, v4(Protocol::UDP)),
        (class::IPV4_TCP, v4(Protocol::TCP)),
        (class::IPV4_SCTP, v4(Protocol::SCTP)),
        (class::IPV4_OTHER, v4(Protocol::ICMP)),
        (class::IPV6_UDP, v6(Protocol::UDP)),
        (class::IPV6_TCP, v6(Protocol::TCP)),
        (class::IPV6_SCTP, v6(Protocol::SCTP)),
        (class::IPV6_OTHER, v6(Protocol::ICMPV6)),
        (class::L2, (l2(0x88B5), l2(0x88B5), l2(0x88B6))),
    ] {
        let mut guest = Guest::directed();
        let mut packet = packet;
        // No total length, no payload length.
        if class != class::L2 {
            let at = 14 + if class < class::IPV6_UDP { ipv4::offset::TOTAL_LEN } else { 4 };
            packet[at..at + 2].fill(0);
        }
        guest.program(add(class, filter::DEST_DROP), &packet);
        assert_eq!(guest.filters(), (1, 0), "{class}: {}", guest.chip.lint());
        assert_eq!(guest.receives(&matches), None, "{class}");
        assert!(guest.receives(&other).is_some(), "{class}");
        assert!(guest.chip.lint().is_empty(), "{class}: {}", guest.chip.lint());
    }
}

/// Which words are compared stands in registers, and which bits of them are not.
#[test]
fn fewer_fields_match_more() {
    let mut guest = Guest::directed();
    let only = |guest: &mut Guest, fields: u64, left_out: u32| {
        let at = 2 * class::IPV4_UDP as usize;
        guest.chip.write(PRTQF_FD_INSET::at(at), fields as u32);
        guest.chip.write(PRTQF_FD_INSET::at(at + 1), (fields >> 32) as u32);
        guest.chip.write(GLQF_FD_MSK::at(at), left_out);
    };
    only(&mut guest, inset::DST_PORT, (vector::DST_PORT as u32) << GLQF_FD_MSK::OFFSET_SHIFT | 0xF);
    guest.program(add(class::IPV4_UDP, filter::DEST_DROP), &frame(Protocol::UDP, B, A));
    let to = |port| frame(Protocol::UDP, (Ipv4Addr::new(9, 9, 9, 9), 7), (B.0, port));
    assert_eq!(guest.receives(&to(2000)), None);
    assert_eq!(guest.receives(&to(2000 ^ 0xF)), None, "bits that are left out");
    assert!(guest.receives(&to(2000 ^ 0x10)).is_some());
    assert!(guest.chip.lint().is_empty(), "{}", guest.chip.lint());
    only(&mut guest, inset::SRC_PORT, 0);
    assert!(guest.receives(&to(2000)).is_some());
    assert!(guest.broke(Rule::FilterFieldsChanged) > 0);
}

#[test]
fn a_full_table_and_a_filter_that_is_not_there_are_told_on_the_first_queue() {
    let mut guest = Guest::directed();
    let one = add(class::IPV4_UDP, filter::DEST_DROP);
    let told = |guest: &mut Guest, words: [u64; 2], packet: &[u8]| {
        let before = guest.chip.rx.queues[0].ring.head;
        guest.program(words, packet);
        let at = RX_RING + 16 * u64::from(before);
        let told = guest.chip.rx.queues[0].ring.head != before;
        told.then(|| [guest.memory.load(at), guest.memory.load(at + 8)])
    };
    let status = |error| {
        let high = rx_high::DD | rx_high::PROGRAM | rx_program::PROGID_FD | error;
        Some([77 << rx_program::FD_ID_SHIFT, high])
    };
    let absent = told(&mut guest, remove(one), &frame(Protocol::UDP, B, A));
    assert_eq!(absent, status(rx_program::NO_FD_ENTRY));
    let all = GUARANTEED + BEST_EFFORT;
    let flow = |n: u32| frame(Protocol::UDP, (B.0, n as u16), A);
    for n in 0..all {
        assert_eq!(told(&mut guest, one, &flow(n)), None, "{n}");
    }
    assert_eq!(guest.filters(), (GUARANTEED, BEST_EFFORT));
    assert_eq!(told(&mut guest, one, &flow(all)), status(rx_program::FD_TABLE_FULL));
    assert_eq!(told(&mut guest, one, &flow(0)), None, "one that is there is changed");
    assert_eq!(told(&mut guest, remove(one), &flow(0)), None);
    assert_eq!(told(&mut guest, one, &flow(all)), None, "there is room again");
    // What finds no descriptor is counted.
    while guest.receives(&frame(Protocol::TCP, A, B)).is_some() {}
    assert_eq!(told(&mut guest, remove(one), &flow(all + 1)), None);
    assert_eq!(guest.chip.director.untold, 1);
    guest.chip.write(PFGEN_CTRL::AT, PFGEN_CTRL::PFSWR);
    assert_eq!(guest.filters(), (0, 0), "a reset of the function forgets them");
}

#[test]
fn filters_that_are_programmed_wrongly_are_reported_and_not_programmed() {
    let good = frame(Protocol::UDP, B, A);
    let add = add(class::IPV4_UDP, filter::DEST_DROP);
    let with = |low: u64, high: u64| [add[0] | low, add[1] | high];
    let class = |class: u64| [class << filter::PCTYPE_SHIFT, add[1]];
    for (words, packet, rule) in [
        (with(0, filter::PCMD_REMOVE), &good[..], Rule::FilterCommandInvalid),
        (with(0, filter::DEST_MASK), &good, Rule::FilterCommandInvalid),
        (class(32), &good, Rule::FilterClassInvalid),
        (class(0), &good, Rule::FilterClassInvalid),
        (with(1 << filter::DEST_VSI_SHIFT, 0), &good, Rule::FilterVsiInvalid),
        (with(1, filter::DEST_QUEUE), &good, Rule::FilterQueueInvalid),
        (class(u64::from(class::IPV4_TCP)), &good, Rule::FilterPacketUnfit),
        (class(u64::from(class::IPV6_UDP)), &good, Rule::FilterPacketUnfit),
        (add, &good[..36], Rule::FilterPacketUnfit),
    ] {
        let mut guest = Guest::directed();
        guest.program(words, packet);
        assert_eq!((guest.broke(rule), guest.filters()), (1, (0, 0)), "{rule:?}: {}", guest.chip.lint());
    }
    let data = |bits: u64| [PACKETS, tx::EOP | bits | 60 << tx::SIZE_SHIFT];
    let dummy = data(tx::DUMMY);
    let open = [PACKETS, 60 << tx::SIZE_SHIFT];
    let context = [0, tx::DTYPE_CONTEXT];
    for (descriptors, rule, filters) in [
        (vec![add, add, dummy], Rule::FilterWithoutPacket, 1),
        (vec![add, context, dummy], Rule::FilterWithoutPacket, 0),
        (vec![open, add, dummy], Rule::FilterInsidePacket, 0),
        (vec![dummy], Rule::DummyWithoutFilter, 0),
    ] {
        let mut guest = Guest::directed();
        assert!(guest.memory.write(PACKETS, &good));
        guest.put(&descriptors);
        assert_eq!((guest.broke(rule), guest.filters().0), (1, filters), "{rule:?}: {}", guest.chip.lint());
        assert!(guest.cable.from_host.is_empty(), "{rule:?}");
    }
    let mut guest = Guest::directed();
    guest.chip.write(PFQF_CTL_0::AT, 0);
    guest.program(add, &good);
    assert_eq!(guest.broke(Rule::FilterDisabled), 1);
    let mut guest = Guest::new();
    guest.chip.write(PFQF_CTL_0::AT, PFQF_CTL_0::FD_ENA);
    guest.start(&[], &[]);
    guest.program(add, &good);
    assert_eq!((guest.broke(Rule::FilterQueueNotEnabled), guest.filters()), (1, (0, 0)));
}

/// Programming needs no link; packets that are sent wait for it, whatever queue they are on.
#[test]
fn with_the_link_down_filters_are_programmed_and_nothing_is_sent() {
    let mut guest = Guest::directed();
    let restart = |guest: &mut Guest, how: u8| {
        let mut command = Descriptor::new(opcode::RESTART_AN);
        command.set_param(0, &[link::RESTART | how]);
        assert_eq!(guest.command(command, &[], 0).retval, 0);
    };
    restart(&mut guest, 0);
    let drop = add(class::IPV4_UDP, filter::DEST_DROP);
    guest.program(drop, &frame(Protocol::UDP, B, A));
    assert_eq!(guest.filters(), (1, 0));
    // The packet behind the next filter is sent, too, in two pieces.
    let sent = frame(Protocol::TCP, B, A);
    assert!(guest.memory.write(PACKETS, &sent));
    let rest = (sent.len() as u64 - 20) << tx::SIZE_SHIFT;
    let pieces = [[PACKETS, 20 << tx::SIZE_SHIFT], [PACKETS + 20, tx::EOP | tx::RS | rest]];
    guest.put(&[add(class::IPV4_TCP, filter::DEST_DROP), pieces[0], pieces[1]]);
    assert_eq!((guest.filters(), guest.cable.from_host.len()), ((1, 0), 0));
    restart(&mut guest, link::RESTART_ENABLE);
    guest.step();
    assert_eq!((guest.filters(), &guest.cable.from_host[..]), ((2, 0), &[sent][..]));
    assert!(guest.chip.lint().is_empty(), "{}", guest.chip.lint());
}

#[test]
fn a_filter_for_a_queue_that_the_vsi_lost_leads_nowhere_else() {
    let mut guest = Guest::directed();
    let queues = |guest: &mut Guest, power: u16| {
        let mut properties = [0; vsi::LEN];
        properties[vsi::VALID_SECTIONS] = vsi::QUEUE_MAP_VALID as u8;
        let mapping = (power << vsi::TC_NUMBER_SHIFT).to_le_bytes();
        properties[vsi::TC_MAPPING..vsi::TC_MAPPING + 2].copy_from_slice(&mapping);
        let mut update = Descriptor::new(opcode::UPDATE_VSI);
        update.set_param(0, &VSI_SEID.to_le_bytes());
        assert_eq!(guest.command(update, &properties, flag::BUF | flag::RD).retval, 0);
        guest.step();
    };
    queues(&mut guest, 1);
    let [low, high] = add(class::IPV4_UDP, filter::DEST_QUEUE);
    guest.program([low | 1, high], &frame(Protocol::UDP, B, A));
    assert_eq!(guest.filters(), (1, 0), "{}", guest.chip.lint());
    assert_eq!(guest.receives(&frame(Protocol::UDP, A, B)), None, "queue 1 does not run");
    assert_eq!(guest.chip.drops().rx_queue_disabled, 1);
    queues(&mut guest, 0);
    assert!(guest.receives(&frame(Protocol::UDP, A, B)).is_some(), "as without the filter");
}

#[test]
fn what_cannot_be_told_is_counted_and_a_queue_that_is_off_is_not_looked_at() {
    let mut guest = Guest::directed();
    guest.chip.write(QRX_ENA::at(0), 0);
    guest.chip.write(QRX_TAIL::at(0), 999);
    guest.program(remove(add(class::IPV4_UDP, filter::DEST_DROP)), &frame(Protocol::UDP, B, A));
    assert_eq!(guest.chip.director.untold, 1);
    assert!(guest.chip.lint().is_empty(), "{}", guest.chip.lint());
}

#[test]
fn a_bridge_and_a_vsi_for_filters_can_be_made_and_removed() {
    let mut guest = Guest::new();
    let with = |opcode: u16, halves: [u16; 4]| {
        let mut command = Descriptor::new(opcode);
        for (at, half) in (0..).step_by(2).zip(halves) {
            command.set_param(at, &half.to_le_bytes());
        }
        command
    };
    let both = flag::BUF | flag::RD;
    let mut properties = [0; vsi::LEN];
    properties[vsi::VALID_SECTIONS] = vsi::QUEUE_MAP_VALID as u8;
    properties[vsi::QUEUE_MAPPING] = 127;
    let add = with(opcode::ADD_VSI, [VEB_SEID, 1, 0, vsi::TYPE_PF]);
    assert_eq!(guest.command(add, &properties, both).retval, error::ENOENT, "there is no bridge");
    let bridge = with(opcode::ADD_VEB, [2, VSI_SEID, veb::PORT_DATA, 1]);
    let answer = guest.command(bridge, &[], 0);
    assert_eq!((answer.retval, answer.param16(veb::SEID)), (0, VEB_SEID));
    assert_eq!(guest.command(bridge, &[], 0).retval, error::ENOSPC);
    let answer = guest.command(with(opcode::GET_VEB_PARAMETERS, [VEB_SEID, 0, 0, 0]), &[], 0);
    assert_eq!((answer.retval, answer.param16(0)), (0, VEB_SEID));
    let answer = guest.command(add, &properties, both);
    assert_eq!((answer.retval, [0, 2, 4, 6].map(|at| answer.param16(at))), (0, [DIRECTOR_SEID, 1, 2, 0]));
    let set = guest.memory.load(BUFFER + vsi::QS_HANDLE as u64) as u16;
    assert_eq!((set, guest.chip.switch.director_queues()), (22, (127, 1)));
    guest.command(Descriptor::new(opcode::GET_SWITCH_CONFIG), &[0; 512], flag::BUF);
    let kinds = [1, 2, 3].map(|n| guest.memory.load(BUFFER + n * element::LEN as u64) as u8);
    assert_eq!(kinds, [element::VSI, element::VEB, element::VSI]);
    let delete =
        |guest: &mut Guest, seid| guest.command(with(opcode::DELETE_ELEMENT, [seid, 0, 0, 0]), &[], 0).retval;
    assert_eq!(delete(&mut guest, VEB_SEID), error::ENOENT, "something hangs on it");
    assert_eq!(
        [DIRECTOR_SEID, VEB_SEID, VSI_SEID].map(|seid| delete(&mut guest, seid)),
        [0, 0, error::ENOENT]
    );
}
