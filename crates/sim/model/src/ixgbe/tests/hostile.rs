//! Drivers that break the rules, one by one and at random.
//!
//! Whatever they do: no panic, bounded work, a finding of the linter where a
//! rule is broken, and that all frames are accounted for.

use proptest::prelude::*;
use regs::ixgbe::descriptor::{tx, tx_context_high, tx_context_low};

use super::*;
use crate::Pages;

#[test]
fn rings_that_are_none() {
    for (base, len, rule) in [
        (rx_ring(0), 0, Rule::RingLengthInvalid),
        (rx_ring(0), 100, Rule::RingLengthInvalid),
        (rx_ring(0), 0xFFFF_FFFF, Rule::RingLengthInvalid),
        (rx_ring(0) + 64, 1024, Rule::RingBaseUnaligned),
        (0, 1024, Rule::RingUnmapped),
        (u64::MAX - 1023, 1024, Rule::RingUnmapped),
        (IOVA + 16 * SHARE - 512, 1024, Rule::RingUnmapped),
    ] {
        let mut rig = Rig::up(0);
        for (low, high, length, tail, control) in [
            (RDBAL::at(0), RDBAH::at(0), RDLEN::at(0), RDT::at(0), RXDCTL::at(0)),
            (TDBAL::at(0), TDBAH::at(0), TDLEN::at(0), TDT::at(0), TXDCTL::at(0)),
        ] {
            rig.write(low, base as u32);
            rig.write(high, (base >> 32) as u32);
            rig.write(length, len);
            rig.write(control, 1 << 25);
            rig.bar.store(tail, 63);
        }
        rig.cable.backpressure = false;
        rig.cable.send(&udp([10, 0, 0, 1], [1, 2], 18));
        rig.step();
        assert!(rig.linted(rule), "{base:#x} {len:#x}: {}", rig.device.lint());
        rig.balance();
    }
}

#[test]
fn tails_out_of_range_are_passed_over() {
    let mut rig = Rig::up(1);
    rig.bar.store(RDT::at(0), 64);
    rig.bar.store(TDT::at(0), u32::MAX);
    rig.cable.send(&udp([10, 0, 0, 1], [1, 2], 18));
    rig.step();
    assert!(rig.linted(Rule::TailOutOfRange));
    rig.ring_rx(0);
    rig.bar.store(TDT::at(0), 0);
    rig.step();
    assert!(rig.receive(0).is_some());
    rig.balance();
}

#[test]
fn a_tail_before_the_queue() {
    let mut rig = Rig::cold();
    rig.write(RDT::at(2), 5);
    assert!(rig.linted(Rule::TailBeforeEnable));
    let mut rig = Rig::cold();
    rig.bar.store(TDT::at(2), 5);
    rig.step();
    assert!(rig.linted(Rule::TailBeforeEnable));
}

#[test]
fn a_ring_moved_while_enabled() {
    let mut rig = Rig::up(1);
    rig.bar.store(RDBAL::at(0), 0);
    rig.step();
    assert!(rig.linted(Rule::RingBaseChangedWhileEnabled));
    rig.bar.store(RDH::at(0), 7);
    rig.step();
    assert!(rig.linted(Rule::HeadWrittenWhileEnabled));
}

#[test]
fn a_descriptor_changed_under_the_device() {
    let mut rig = Rig::up(1);
    rig.cable.send(&udp([10, 0, 0, 1], [1, 2], 18));
    rig.step();
    // The next was fetched together with the first.
    rig.memory.store(rx_ring(0) + 16, rx_buffer(0, 9));
    rig.cable.send(&udp([10, 0, 0, 1], [1, 2], 18));
    rig.step();
    assert!(rig.linted(Rule::DescriptorReusedWhileOwned));
}

#[test]
fn buffers_that_lead_nowhere() {
    let mut rig = Rig::up(1);
    rig.memory.store(rx_ring(0), 0);
    rig.cable.send(&udp([10, 0, 0, 1], [1, 2], 18));
    rig.cable.send(&udp([10, 0, 0, 1], [1, 2], 18));
    rig.put(0, [0xDEAD_0000, tx::DTYP_DATA | tx::DEXT | tx::EOP | tx::IFCS | 60 | 60 << tx::PAYLEN_SHIFT]);
    rig.put_data(0, &udp([10, 0, 0, 1], [1, 2], 18), 0);
    rig.ring_tx(0);
    assert_eq!(rig.sent().len(), 1);
    assert!(rig.linted(Rule::BufferAddressUnmapped));
    assert_eq!((rig.device.drops().rx_dma_fault, rig.device.drops().tx_dma_fault), (1, 1));
    rig.balance();
}

#[test]
fn memory_taken_away_while_running() {
    let mut rig = Rig::up(2);
    rig.put_data(1, &udp([10, 0, 0, 1], [1, 2], 18), 0);
    rig.memory.map_only(SHARE);
    rig.cable.send(&udp([10, 0, 0, 1], [1, 2], 18));
    rig.ring_tx(1);
    assert!(rig.sent().is_empty(), "queue 1's ring is gone");
    assert!(rig.linted(Rule::RingFreedWhileEnabled));
    rig.memory.map_only(16 * SHARE);
    assert_eq!(rig.sent().len(), 1, "and is back");
    assert!(rig.receive(0).is_some());
    rig.balance();
}

#[test]
fn transmit_descriptors_without_sense() {
    const L4T: u64 = tx_context_high::L4T_TCP;
    let frame = udp([10, 0, 0, 1], [1, 2], 100);
    let context = |low: u64, mss: u64| {
        let high = tx::DTYP_CONTEXT | tx::DEXT | tx_context_high::IPV4 | tx_context_high::L4T_TCP;
        [low, high | 20 << tx_context_high::L4LEN_SHIFT | mss << tx_context_high::MSS_SHIFT]
    };
    let sane = 20 | 14 << tx_context_low::MACLEN_SHIFT;
    let cases: &[(Option<[u64; 2]>, u64, Rule)] = &[
        (None, tx::TXSM, Rule::ContextMissing),
        (None, 1 << 20, Rule::UnsupportedDescriptorType),
        (Some(context(511 | 127 << tx_context_low::MACLEN_SHIFT, 0)), tx::IXSM, Rule::ContextLengthsInvalid),
        (Some(context(511 | 127 << tx_context_low::MACLEN_SHIFT, 100)), tx::TSE, Rule::TsoHeaderSplit),
        (Some(context(0, 100)), tx::TSE, Rule::ContextLengthsInvalid),
        (Some(context(sane, 0)), tx::TSE, Rule::TsoBadMss),
        // A UDP header of 20 bytes.
        (Some(context(sane, 100).map(|word| word & !L4T)), tx::TSE, Rule::ContextLengthsInvalid),
    ];
    for &(context, command, rule) in cases {
        let mut rig = Rig::up(1);
        if let Some(words) = context {
            rig.put(0, words);
        }
        let at = rig.put_data(0, &frame, command);
        if rule == Rule::UnsupportedDescriptorType {
            rig.memory.store(at + 8, rig.memory.load(at + 8) & !tx::DTYP_MASK | 7 << 20);
        }
        rig.put_data(0, &frame, 0);
        rig.ring_tx(0);
        assert_eq!(rig.sent(), std::slice::from_ref(&frame), "{rule:?}: only the good one");
        assert!(rig.linted(rule), "{rule:?}: {}", rig.device.lint());
        assert_eq!(rig.device.drops().tx_bad_descriptor, 1);
        rig.balance();
    }
}

#[test]
fn a_chain_without_end() {
    let mut rig = Rig::up(1);
    let frame = udp([10, 0, 0, 1], [1, 2], 100);
    for _ in 0..5 {
        for _ in 0..60 {
            rig.put(0, [tx_buffer(0, 0), tx::DTYP_DATA | tx::DEXT | tx::IFCS | 142]);
        }
        rig.ring_tx(0);
        assert!(rig.sent().is_empty());
    }
    assert!(rig.linted(Rule::ChainWithoutEop));
    rig.put_data(0, &frame, 0);
    rig.put_data(0, &frame, 0);
    rig.put(0, [tx_buffer(0, 0), tx::DTYP_DATA | tx::DEXT | tx::IFCS | tx::EOP]);
    rig.ring_tx(0);
    assert_eq!(rig.sent(), [frame], "after the chain's end");
    assert!(rig.linted(Rule::ZeroLengthDescriptor));
    rig.balance();
}

#[test]
fn segments_of_one_byte_would_be_endless() {
    let mut rig = Rig::up(1);
    let high = tx::DTYP_CONTEXT | tx::DEXT | tx_context_high::IPV4 | tx_context_high::L4T_TCP;
    let sizes = 20 << tx_context_high::L4LEN_SHIFT | 1 << tx_context_high::MSS_SHIFT;
    rig.put(0, [20 | 14 << tx_context_low::MACLEN_SHIFT, high | sizes]);
    for _ in 0..4 {
        rig.put(0, [IOVA, tx::DTYP_DATA | tx::DEXT | tx::IFCS | tx::TSE | 0xFFFF]);
    }
    rig.put_data(0, &tcp(100), tx::TSE);
    rig.ring_tx(0);
    assert!(rig.sent().is_empty());
    rig.balance();
}

#[test]
fn a_driver_that_never_asks_how_far_the_device_is() {
    let mut rig = Rig::up(1);
    let frame = udp([10, 0, 0, 1], [1, 2], 100);
    for _ in 0..RING {
        rig.put_data(0, &frame, 0);
        rig.ring_tx(0);
        rig.step();
    }
    assert!(rig.linted(Rule::TxReportStatusMissing));
    assert!(!rig.linted(Rule::ReservedBitsWritten));
    let at = rig.put_data(0, &frame, 1 << 26);
    rig.ring_tx(0);
    rig.step();
    assert!(rig.linted(Rule::ReservedBitsWritten), "{at:#x}");
    assert_eq!(rig.cable.from_host.len() as u64, RING + 1);
}

#[test]
fn a_step_is_bounded_in_bytes() {
    let mut rig = Rig::up(2);
    let high = tx::DTYP_CONTEXT | tx::DEXT | tx_context_high::IPV4 | tx_context_high::L4T_TCP;
    let sizes = 20 << tx_context_high::L4LEN_SHIFT | 8000 << tx_context_high::MSS_SHIFT;
    let piece = tx::DTYP_DATA | tx::DEXT | tx::IFCS | tx::TSE | 60_000;
    let payload = (240_000 - 54) << tx::PAYLEN_SHIFT;
    for queue in 0..2 {
        rig.put(queue, [20 | 14 << tx_context_low::MACLEN_SHIFT, high | sizes]);
        for _ in 0..12 {
            for last in [0, 0, 0, tx::EOP] {
                rig.put(queue, [IOVA, piece | payload | last]);
            }
        }
        rig.ring_tx(queue);
    }
    let mut bytes = Vec::new();
    while rig.device.step(&mut rig.cable, rig.now) > 0 {
        bytes.push(rig.cable.from_host.drain(..).map(|frame| frame.len()).sum::<usize>());
    }
    assert!(bytes.iter().all(|&step| step < 3 << 20), "{bytes:?}");
    // Thirty segments of each packet, each with headers of 54 bytes.
    assert_eq!(bytes.iter().sum::<usize>(), 24 * (240_000 + 29 * 54));
    rig.balance();
}

#[test]
fn a_frame_larger_than_the_ring() {
    let mut rig = Rig::up_with(
        0,
        &[
            (HLREG0::AT, HLREG0::JUMBOEN | HLREG0::RXCRCSTRP | HLREG0::TXCRCEN),
            (MAXFRS::AT, 0xFFFF << MAXFRS::MFS_SHIFT),
        ],
    );
    rig.write(RDBAL::at(0), rx_ring(0) as u32);
    rig.write(RDLEN::at(0), 128);
    rig.write(SRRCTL::at(0), SRRCTL::DESCTYPE_ADV_ONE_BUFFER | 1);
    rig.write(RXDCTL::at(0), RXDCTL::ENABLE);
    rig.bar.store(RDT::at(0), 7);
    rig.cable.send(&udp([10, 0, 0, 1], [1, 2], 9000));
    rig.step();
    assert!(rig.linted(Rule::BufferBelowSrrctl));
    assert_eq!(rig.device.drops().rx_ring_too_small, 1);
    rig.balance();
}

/// What a driver gone mad does next.
#[derive(Debug, Clone)]
enum Act {
    Register(u32, u32),
    Page(u32, u32),
    Read(u32),
    Word(u64, u64),
    Frame(Vec<u8>),
    Unmap(u64),
    Step(u64),
}

/// Values that are near something.
fn value() -> impl Strategy<Value = u32> {
    prop_oneof![
        any::<u32>(),
        0u32..2048,
        Just(IOVA as u32),
        (0u32..32).prop_map(|bit| 1 << bit),
        Just(RXDCTL::ENABLE),
        Just(u32::MAX),
    ]
}

/// Registers of the first queues, and all others.
fn offset() -> impl Strategy<Value = u32> {
    let queue = (prop_oneof![Just(RDBAL::at(0)), Just(TDBAL::at(0)), Just(RDBAL::at(64))], 0u32..4, 0u32..16);
    prop_oneof![
        queue.prop_map(|(base, queue, word)| base + queue * 0x40 + word * 4),
        (0u32..0x2_0010),
        (0usize..TABLE.len()).prop_map(|n| TABLE[n].offset),
    ]
}

fn act() -> impl Strategy<Value = Act> {
    let command = (any::<u64>(), any::<bool>())
        .prop_map(|(word, sane)| if sane { word | tx::DEXT | tx::DTYP_DATA } else { word });
    prop_oneof![
        2 => (offset(), value()).prop_map(|(offset, value)| Act::Register(offset, value)),
        2 => (offset(), value()).prop_map(|(offset, value)| Act::Page(offset, value)),
        1 => offset().prop_map(Act::Read),
        3 => (0u64..256, prop_oneof![command, (0..SHARE).prop_map(|at| IOVA + at)])
            .prop_map(|(at, word)| Act::Word(IOVA + 8 * at, word)),
        2 => prop::collection::vec(any::<u8>(), 0..3000).prop_map(Act::Frame),
        1 => (0..16 * SHARE).prop_map(Act::Unmap),
        2 => (0u64..200_000).prop_map(Act::Step),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_driver_takes_it_down(acts in prop::collection::vec(act(), 1..200), started in any::<bool>(), backpressure in any::<bool>()) {
        let mut rig = if started { Rig::up(3) } else { Rig::cold() };
        rig.cable.backpressure = backpressure;
        for act in acts {
            match act {
                Act::Register(offset, value) => rig.device.write(offset, value),
                Act::Page(offset, value) => rig.bar.store(offset, value),
                Act::Read(offset) => { rig.device.read(offset); }
                Act::Word(at, word) => rig.memory.store(at, word),
                Act::Frame(frame) => rig.cable.send(&frame),
                Act::Unmap(len) => rig.memory.map_only(len),
                Act::Step(ns) => {
                    rig.now += ns;
                    rig.device.step(&mut rig.cable, rig.now);
                }
            }
        }
        rig.device.step(&mut rig.cable, rig.now);
        rig.balance();
    }
}
