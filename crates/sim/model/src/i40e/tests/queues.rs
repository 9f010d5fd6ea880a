//! Queues: what enables them, what their contexts and descriptors may say, and what they move.

use super::*;

#[test]
fn a_frame_is_received_and_one_is_sent() {
    let mut guest = Guest::new();
    guest.start(&[], &[]);
    assert_eq!(guest.chip.queues(), (1, 1));
    for n in 0..8 {
        guest.memory.store(RX_RING + 16 * n, DATA + 2048 * n);
    }
    guest.chip.write(QRX_TAIL::at(0), 8);
    let frame: Vec<u8> = MAC.iter().copied().chain((6..100).map(|n| n as u8)).collect();
    guest.cable.send(&frame);
    guest.step();
    let status = guest.memory.load(RX_RING + 8);
    assert_eq!(status & (rx_high::DD | rx_high::EOF), rx_high::DD | rx_high::EOF);
    assert_eq!((status & rx_high::LENGTH_MASK) >> rx_high::LENGTH_SHIFT, 100);
    assert_eq!(guest.memory.bytes(DATA, 100), frame);
    assert!(guest.memory.write(DATA + 0x8000, &frame));
    guest.transmit(&[[DATA + 0x8000, tx::EOP | tx::RS | tx::ICRC | 100 << tx::SIZE_SHIFT]]);
    assert_eq!(guest.cable.from_host, [frame]);
    assert_eq!(guest.memory.load(TX_RING + 8), tx::DTYPE_DONE);
    let packets = [GLPRT_UPRCL::at(0), GLPRT_UPTCL::at(0), GLV_UPRCL::at(OF_MAIN), GLV_UPTCL::at(OF_MAIN)];
    for _ in 0..2 {
        assert_eq!(packets.map(|offset| guest.chip.read(offset)), [1; 4], "reading does not clear");
    }
    // What no filter wants passes the port, and is none of the VSI's.
    guest.cable.send(&[&[2; 12][..], &[0; 60]].concat());
    guest.step();
    assert_eq!(packets.map(|offset| guest.chip.read(offset)), [2, 1, 1, 1]);
    assert!(guest.chip.lint().is_empty(), "{}", guest.chip.lint());
    // Without a descriptor a frame is lost, and counted.
    (0..9).for_each(|_| guest.cable.send(&[&MAC[..], &[0; 60]].concat()));
    guest.step();
    assert_eq!(guest.chip.drops().rx_no_descriptor, 2);
    assert_eq!(guest.chip.read(GLV_RDPC::at(OF_MAIN)), 2);
}

/// What a mistake in a context breaks, and whether the queue runs nevertheless.
#[test]
fn contexts_are_checked_when_a_queue_is_enabled() {
    use context::{rx, tx};
    for (field, value, rule, runs) in [
        (rx::BASE, 0, Rule::RingBaseInvalid, false),
        (rx::QLEN, 40, Rule::RingLengthInvalid, false),
        (rx::QLEN, 8191, Rule::RingLengthInvalid, false),
        (rx::DBUFF, 7, Rule::BufferSizeInvalid, false),
        (rx::RXMAX, 9729, Rule::RxMaxInvalid, true),
        (rx::SHOWIV, 1, Rule::InnerTagStripped, true),
        (rx::BASE, 1 << 40, Rule::RingUnmapped, true),
    ] {
        let mut guest = Guest::new();
        guest.start(&[(field, value)], &[]);
        assert_eq!(guest.broke(rule), 1, "{rule:?}");
        assert_eq!(guest.chip.queues(), (usize::from(runs), 1), "{rule:?}");
        let error = guest.chip.read(PFHMC_ERRORINFO::AT) & PFHMC_ERRORINFO::ERROR_DETECTED;
        assert_eq!(error == 0, runs, "{rule:?}: the error is told");
    }
    let mut guest = Guest::new();
    guest.start(&[], &[(tx::RDYLIST, 1)]);
    assert_eq!(guest.broke(Rule::QueueSetWrong), 1);
    guest.chip.write(QTX_ENA::at(0), 0);
    assert_eq!(guest.broke(Rule::TxDisableUnannounced), 1);
    guest.chip.write(QTX_ENA::at(1), QTX_ENA::QENA_REQ);
    assert_eq!(guest.broke(Rule::ContextUnreachable), 1, "there is one context");
    guest.chip.write(QRX_ENA::at(5), QRX_ENA::QENA_REQ);
    assert_eq!(guest.broke(Rule::ContextNotOfVsi), 1);
}

#[test]
fn descriptors_that_make_no_sense_are_reported_and_their_packet_lost() {
    let data = |len: u64, bits: u64| [DATA, len << tx::SIZE_SHIFT | tx::ICRC | bits];
    let cut = |mss: u64, len: u64| {
        let bits = tx::DTYPE_CONTEXT | tx_context::TSO;
        [0, bits | mss << tx_context::MSS_SHIFT | len << tx_context::TSO_LEN_SHIFT]
    };
    let lengths = 7 << tx::MACLEN_SHIFT | 5 << tx::IPLEN_SHIFT | 5 << tx::L4LEN_SHIFT;
    let udp_of_20 = tx::L4T_UDP | tx::IIPT_IPV4_CSUM | lengths;
    let end = tx::EOP | tx::RS;
    let nine: Vec<[u64; 2]> = (0..9).map(|n| data(20, if n == 8 { end } else { 0 })).collect();
    for (descriptors, rule, stops, lost) in [
        (vec![data(0, end)], Rule::ZeroLengthDescriptor, true, 1),
        (vec![data(16, end)], Rule::TxLengthInvalid, true, 1),
        (vec![data(9725, end)], Rule::TxLengthInvalid, true, 1),
        (vec![data(60, end | 5)], Rule::UnsupportedDescriptor, true, 1),
        (vec![data(60, tx::RS), data(60, end)], Rule::ReportWithoutEnd, true, 1),
        (vec![data(60, 0), cut(100, 1), data(60, end)], Rule::ContextInsidePacket, true, 1),
        (nine, Rule::TooManyBuffers, true, 1),
        (vec![cut(63, 6), data(60, end)], Rule::TsoInvalid, true, 1),
        (vec![[1 << 50, 60 << tx::SIZE_SHIFT | end]], Rule::BufferUnmapped, false, 1),
        (vec![data(60, end | tx::L4T_UDP | tx::IIPT_IPV4)], Rule::HeaderLengthsWrong, false, 0),
        // UDP's header has no options.
        (vec![cut(100, 6), data(60, end | udp_of_20)], Rule::HeaderLengthsWrong, false, 1),
        (vec![data(60, end | tx::L4T_UDP | tx::IIPT_IPV4)], Rule::TransportLengthWrong, false, 0),
    ] {
        let mut guest = Guest::new();
        guest.start(&[], &[]);
        guest.transmit(&descriptors);
        assert!(guest.broke(rule) >= 1, "{rule:?}: {}", guest.chip.lint());
        let drops = guest.chip.drops();
        assert_eq!(drops.tx(), lost, "{rule:?}");
        // A queue that was stopped sends nothing until it is enabled anew; others go on.
        let sent = guest.cable.from_host.len();
        let tail = descriptors.len() as u32;
        guest.memory.store(TX_RING + 16 * u64::from(tail), DATA);
        guest.memory.store(TX_RING + 16 * u64::from(tail) + 8, 60 << tx::SIZE_SHIFT | end);
        guest.chip.write(QTX_TAIL::at(0), tail + 1);
        guest.step();
        assert_eq!(guest.cable.from_host.len(), sent + usize::from(!stops), "{rule:?}");
        let told = |guest: &mut Guest| guest.chip.read(PF_MDET_TX::AT);
        assert_eq!(told(&mut guest), u32::from(stops), "{rule:?}");
        let causes = guest.chip.read(PFINT_ICR0::AT);
        assert_eq!(causes & PFINT_ICR0::MAL_DETECT != 0, stops, "{rule:?}");
        guest.chip.write(PF_MDET_TX::AT, PF_MDET_TX::VALID);
        assert_eq!(told(&mut guest), 0, "{rule:?}");
        for (announcement, request) in
            [(GLLAN_TXPRE_QDIS::SET_QDIS, 0), (GLLAN_TXPRE_QDIS::CLEAR_QDIS, QTX_ENA::QENA_REQ)]
        {
            guest.chip.write(GLLAN_TXPRE_QDIS::at(0), announcement);
            guest.chip.write(QTX_ENA::at(0), request);
        }
        guest.chip.write(QTX_TAIL::at(0), 0);
        let sent = guest.cable.from_host.len();
        guest.transmit(&[data(60, end)]);
        assert_eq!(guest.cable.from_host.len(), sent + 1, "{rule:?}");
    }
}

/// Its context is in memory that the device does not access.
#[test]
fn a_queue_does_not_start_without_bus_mastering() {
    let mut guest = Guest::new();
    guest.start(&[], &[]);
    guest.chip.write(QRX_ENA::at(0), 0);
    guest.chip.set_bus_master(false);
    guest.chip.write(QRX_ENA::at(0), QRX_ENA::QENA_REQ);
    assert_eq!(guest.chip.read(QRX_ENA::at(0)) & QRX_ENA::QENA_STAT, 0);
    assert!(guest.broke(Rule::BusMasterOff) > 0);
    guest.chip.set_bus_master(true);
    guest.chip.write(QRX_ENA::at(0), QRX_ENA::QENA_REQ);
    assert_ne!(guest.chip.read(QRX_ENA::at(0)) & QRX_ENA::QENA_STAT, 0);
}

#[test]
fn tails_are_checked_and_a_queue_off_is_not_looked_at() {
    let mut guest = Guest::new();
    guest.chip.write(PF_ATQLEN::AT, 0);
    guest.chip.write(PF_ATQT::AT, 3);
    assert_eq!(guest.broke(Rule::AdminQueueOff), 1);
    guest.chip.write(PF_ATQLEN::AT, SIZE | PF_ATQLEN::ENABLE);
    guest.chip.write(PF_ATQT::AT, SIZE);
    assert_eq!(guest.broke(Rule::AdminTailOutOfRange), 1);
    guest.start(&[], &[]);
    guest.chip.write(QTX_TAIL::at(0), 64);
    guest.step();
    assert_eq!(guest.broke(Rule::TailOutOfRange), 1);
    guest.chip.write(QRX_TAIL::at(0), 9);
    guest.step();
    guest.chip.write(QRX_TAIL::at(0), 8);
    guest.step();
    assert_eq!(guest.broke(Rule::TailPassedHead), 1);
    guest.chip.write(PFGEN_CTRL::AT, PFGEN_CTRL::PFSWR);
    assert_eq!((guest.broke(Rule::ResetWithQueuesEnabled), guest.chip.queues()), (1, (0, 0)));
    assert_eq!(guest.chip.read(PFGEN_CTRL::AT), 0, "the reset is done");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever is written to registers, with whatever in memory, the device goes on: frames
    /// that come are delivered or lost by a name, and packets likewise.
    #[test]
    fn no_driver_makes_the_device_fall_over(
        writes in prop::collection::vec((0..TABLE.len(), any::<prop::sample::Index>(), any::<u32>(), 0..8u32), 1..200),
        words in prop::collection::vec(any::<u64>(), 64),
        paged in any::<bool>(),
        x722 in any::<bool>(),
    ) {
        let mut guest = Guest::of(if x722 { Family::X722 } else { Family::Xl710 });
        guest.chip.write(PFQF_CTL_0::AT, PFQF_CTL_0::FD_ENA);
        guest.start(&[], &[(context::tx::FD_ENA, 1)]);
        if paged {
            guest.lend_pages(&words);
        }
        // Commands, descriptors and contexts of nonsense, some of it with real addresses.
        for (n, word) in (0..).zip(&words) {
            let address = if n % 4 == 0 { DATA + word % 4096 } else { *word };
            for place in [RX_RING, CONTEXTS, CONTEXTS + 4096, BUFFER] {
                guest.memory.store(place + 8 * n, address);
            }
            guest.memory.store(TX_RING + 8 * n, director::descriptor_word(n % 4, *word).unwrap_or(address));
            guest.memory.store(SEND + 8 * n, command_word(n % 4, *word));
        }
        assert!(guest.memory.write(DATA, &director::answer()));
        for (row, n, value, kind) in writes {
            let register = &TABLE[row];
            let offset = register.at(n.index(register.len()));
            // Small numbers are tails and lengths that could be.
            let value = if kind < 4 { value % 70 } else { value };
            guest.chip.write(offset, value);
            guest.chip.read(offset);
            guest.chip.write(QTX_TAIL::at(0), value % 64);
            guest.chip.write(PF_ATQT::AT, value % SIZE);
            // What was stopped goes on.
            if kind == 7 {
                guest.chip.write(QTX_ENA::at(0), 0);
                guest.chip.write(QTX_ENA::at(0), QTX_ENA::QENA_REQ);
            }
            guest.cable.send(&[&MAC[..], &[kind as u8; 80]].concat());
            guest.cable.send(&director::answered());
            guest.step();
        }
        guest.chip.write(PFGEN_CTRL::AT, PFGEN_CTRL::PFSWR);
        let (counters, drops) = (&guest.chip.host.counters, guest.chip.drops());
        let [received, sent] = counters.statistics.packets;
        prop_assert_eq!(counters.rx_offered, received + drops.rx());
        prop_assert_eq!(counters.tx_offered, sent + drops.tx());
    }
}

/// A word of a command, `at` of four: with an opcode that there is and lengths, elements and
/// addresses that could be, half of the time.
fn command_word(at: u64, word: u64) -> u64 {
    let (opcode, _) = opcode::TABLE[(word >> 8) as usize % opcode::TABLE.len()];
    match at {
        0 => word & 0xFFFF_0FFF_0000_FFFF | u64::from(opcode) << 16,
        2 if word & 3 == 1 => (u64::from(VSI_SEID) * 0x1_0001_0000) | word & 0xFFFF_0000_0000_000F,
        2 if word & 3 == 3 => {
            let register = &TABLE[(word >> 8) as usize % TABLE.len()];
            u64::from(register.at((word >> 24) as usize % register.len())) << 32
        }
        3 if word & 3 == 1 => BUFFER.rotate_left(32),
        3 if word & 3 == 3 => word >> 32 << 32 & (0x1F << 32),
        _ => word,
    }
}

/// What is sent counts for a step's bound, not only what is read; and a queue that had no turn is
/// the first in the next step.
#[test]
fn queues_take_turns_at_the_bytes_of_a_step() {
    const LEN: u64 = 16_000;
    let mut guest = Guest::new();
    guest.start(&[], &[]);
    // Each queue has the same ring of packets that are cut into the smallest segments.
    let headers = 7 << tx::MACLEN_SHIFT | 5 << tx::IPLEN_SHIFT | 5 << tx::L4LEN_SHIFT;
    let kind = tx::IIPT_IPV4_CSUM | tx::L4T_TCP | tx::EOP | LEN << tx::SIZE_SHIFT;
    let cut = tx::DTYPE_CONTEXT | tx_context::TSO | 64 << tx_context::MSS_SHIFT;
    let ring = [[0, cut | (LEN - 54) << tx_context::TSO_LEN_SHIFT], [DATA, headers | kind]];
    for (at, words) in (TX_RING..).step_by(16).zip(ring.iter().cycle().take(64)) {
        guest.memory.store(at, words[0]);
        guest.memory.store(at + 8, words[1]);
    }
    guest.chip.write(GLHMC_LANTXCNT::at(0), 4);
    for n in 1..4 {
        for at in (0..context::tx::LEN as u64).step_by(8) {
            let word = guest.memory.load(CONTEXTS + at);
            guest.memory.store(CONTEXTS + context::tx::LEN as u64 * n + at, word);
        }
        let n = n as usize;
        guest.chip.write(QTX_CTL::at(n), QTX_CTL::PFVF_Q_PF);
        guest.chip.write(GLLAN_TXPRE_QDIS::at(0), GLLAN_TXPRE_QDIS::CLEAR_QDIS | n as u32);
        guest.chip.write(QTX_ENA::at(n), QTX_ENA::QENA_REQ);
    }
    let served = |guest: &mut Guest| [0, 1, 2, 3].map(|n| guest.chip.read(QTX_HEAD::at(n)) != 0);
    let fill = |guest: &mut Guest| {
        for n in 0..4 {
            // All descriptors but one.
            let head = guest.chip.read(QTX_HEAD::at(n));
            guest.chip.write(QTX_TAIL::at(n), (head + 63) % 64);
        }
    };
    fill(&mut guest);
    guest.step();
    assert_eq!(served(&mut guest), [true, true, true, false], "{}", guest.chip.lint());
    fill(&mut guest);
    guest.step();
    assert!(served(&mut guest)[3]);
}

/// Contexts may lie in single pages, whose addresses a page has.
#[test]
fn contexts_are_found_in_pages_too() {
    let mut guest = Guest::new();
    guest.start(&[], &[]);
    guest.lend_pages(&[]);
    assert_eq!((guest.chip.queues(), guest.chip.read(PFHMC_ERRORINFO::AT)), ((1, 1), 0));
    let mut guest = Guest::new();
    guest.start(&[], &[]);
    guest.lend_pages(&[0, 0]);
    assert_eq!(guest.chip.queues(), (0, 0), "pages that are none");
    assert_eq!(guest.broke(Rule::ContextUnreachable), 2);
}

/// Linux's driver asks for a report on every fourth packet, and leaves the tail where it was.
#[test]
fn a_head_is_written_without_being_asked_for_and_a_tail_of_before_does_not_count() {
    const HEAD: u64 = PAGES + 64;
    let mut guest = Guest::new();
    guest.start(&[], &[(context::tx::HEAD_WB_ENA, 1), (context::tx::HEAD_WB_ADDR, HEAD)]);
    let packet = [DATA, tx::EOP | 60 << tx::SIZE_SHIFT];
    guest.transmit(&[packet]);
    assert_eq!((guest.cable.from_host.len(), guest.memory.load(HEAD)), (1, 0), "nothing asks, nobody waits");
    guest.chip.write(QINT_TQCTL::at(0), QINT_TQCTL::CAUSE_ENA | 1);
    guest.transmit(&[packet; 3]);
    assert_eq!((guest.cable.from_host.len(), guest.memory.load(HEAD)), (3, 3), "an interrupt is due");
    for (announcement, request) in
        [(GLLAN_TXPRE_QDIS::SET_QDIS, 0), (GLLAN_TXPRE_QDIS::CLEAR_QDIS, QTX_ENA::QENA_REQ)]
    {
        // As Linux does: what was told before is not read back.
        let old = guest.chip.read(GLLAN_TXPRE_QDIS::at(0));
        guest.chip.write(GLLAN_TXPRE_QDIS::at(0), old | announcement);
        guest.chip.write(QTX_ENA::at(0), request);
    }
    guest.step();
    assert_eq!((guest.cable.from_host.len(), guest.chip.read(QTX_TAIL::at(0))), (3, 0));
    assert!(guest.chip.lint().is_empty(), "{}", guest.chip.lint());
}
