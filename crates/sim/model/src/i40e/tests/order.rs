//! Rules about what a driver must have read, told or filled before it goes on.

use regs::i40e::admin::vsi;

use super::*;

/// A right frame for the function.
fn frame() -> Vec<u8> {
    [&MAC[..], &[0; 60]].concat()
}

/// The function is reset, and looked at with these registers; the send queue is enabled.
fn reset_and_look(guest: &mut Guest, offsets: &[u32]) {
    guest.chip.write(PFGEN_CTRL::AT, PFGEN_CTRL::PFSWR);
    guest.read_all(offsets);
    guest.chip.write(PF_ATQLEN::AT, SIZE | PF_ATQLEN::ENABLE);
}

#[test]
fn a_reset_is_awaited_and_the_device_looked_at_before_the_firmware_is_asked() {
    let all = [GLGEN_RSTAT::AT, GLNVM_ULD::AT, PFGEN_CTRL::AT];
    let mut guest = Guest::new();
    reset_and_look(&mut guest, &all);
    assert!(guest.chip.lint().is_empty(), "{}", guest.chip.lint());
    for (left_out, rule) in [
        (GLGEN_RSTAT::AT, Rule::DeviceNotReady),
        (GLNVM_ULD::AT, Rule::DeviceNotReady),
        (PFGEN_CTRL::AT, Rule::ResetNotAwaited),
    ] {
        let mut guest = Guest::new();
        reset_and_look(
            &mut guest,
            &all.map(|offset| if offset == left_out { PF_FUNC_RID::AT } else { offset }),
        );
        assert_eq!(guest.broke(rule), 1, "{left_out:#x}: {}", guest.chip.lint());
        // A queue that runs has been enabled before.
        guest.chip.write(PF_ATQLEN::AT, SIZE | PF_ATQLEN::ENABLE);
        assert_eq!(guest.broke(rule), 1);
    }
    // As DPDK's driver ends: nobody asks the firmware any more.
    let mut guest = Guest::new();
    guest.chip.write(PFGEN_CTRL::AT, PFGEN_CTRL::PFSWR);
    guest.chip.write(GLLAN_RCTL_0::AT, GLLAN_RCTL_0::PXE_MODE);
    assert!(guest.chip.lint().is_empty(), "{}", guest.chip.lint());
}

#[test]
fn a_transmit_tail_waits_for_its_queue_and_a_receive_tail_does_not() {
    let mut guest = Guest::new();
    guest.start(&[], &[]);
    guest.chip.write(QRX_ENA::at(0), 0);
    guest.read_all(&[QRX_ENA::at(0)]);
    // As Linux's driver does, which fills the ring first.
    guest.chip.write(QRX_TAIL::at(0), 8);
    guest.chip.write(QRX_ENA::at(0), QRX_ENA::QENA_REQ);
    guest.step();
    assert!(guest.chip.lint().is_empty(), "{}", guest.chip.lint());
    for (announcement, request) in
        [(GLLAN_TXPRE_QDIS::SET_QDIS, 0), (GLLAN_TXPRE_QDIS::CLEAR_QDIS, QTX_ENA::QENA_REQ)]
    {
        guest.chip.write(GLLAN_TXPRE_QDIS::at(0), announcement);
        guest.chip.write(QTX_ENA::at(0), request);
    }
    guest.step();
    assert_eq!(guest.broke(Rule::TxTailBeforeEnable), 0, "nothing was given");
    guest.transmit(&[[DATA, tx::EOP | tx::RS | tx::ICRC | 60 << tx::SIZE_SHIFT]]);
    assert_eq!(guest.broke(Rule::TxTailBeforeEnable), 1);
}

#[test]
fn memory_of_a_ring_is_taken_away_after_its_queue_was_seen_to_stop() {
    for (looked, reset, rule) in [
        (true, false, None),
        (false, false, Some(Rule::DisableNotAwaited)),
        // As Linux's and our driver do with what ran before them.
        (false, true, None),
    ] {
        let mut guest = Guest::new();
        guest.start(&[], &[]);
        guest.chip.write(QRX_ENA::at(0), 0);
        if looked {
            guest.read_all(&[QRX_ENA::at(0)]);
        }
        if reset {
            guest.chip.write(GLLAN_TXPRE_QDIS::at(0), GLLAN_TXPRE_QDIS::SET_QDIS);
            guest.chip.write(QTX_ENA::at(0), 0);
            guest.chip.write(PFGEN_CTRL::AT, PFGEN_CTRL::PFSWR);
        }
        guest.memory.map_only(RX_RING - BASE);
        guest.step();
        assert_eq!(
            guest.chip.lint().count(Rule::DisableNotAwaited),
            u64::from(rule.is_some()),
            "{looked} {reset}"
        );
    }
}

#[test]
fn queues_are_seen_to_stop_before_the_firmware_is_told_that_the_driver_goes() {
    for looked in [true, false] {
        let mut guest = Guest::new();
        guest.start(&[], &[]);
        guest.chip.write(QRX_ENA::at(0), 0);
        if looked {
            guest.read_all(&[QRX_ENA::at(0)]);
        }
        guest.plain(opcode::QUEUE_SHUTDOWN);
        assert_eq!(guest.broke(Rule::DisableNotAwaited), u64::from(!looked));
    }
}

#[test]
fn a_tail_that_rests_on_filled_descriptors_is_reported() {
    // All; what a driver keeps back until it tells of it, being left without buffers meanwhile; none.
    for (filled, reported) in [(64, 1), (20, 0), (8, 0)] {
        let mut guest = Guest::new();
        guest.start(&[], &[]);
        for n in 0..filled {
            guest.memory.store(RX_RING + 16 * n, DATA + 2048 * n);
        }
        guest.chip.write(QRX_TAIL::at(0), 8);
        for _ in 0..10 {
            guest.cable.send(&frame());
            guest.step();
        }
        assert_eq!(guest.broke(Rule::RxTailRests), 0, "a moment proves nothing");
        for _ in 0..40 {
            guest.now_ns += 100_000_000;
            guest.cable.send(&frame());
            guest.step();
        }
        assert_eq!(guest.broke(Rule::RxTailRests), reported, "{}", guest.chip.lint());
    }
}

#[test]
fn a_ring_of_descriptors_without_a_report_is_reported() {
    for (with_head, bits, reported) in [(0, 0, 1), (0, tx::RS, 0), (1, 0, 0)] {
        let mut guest = Guest::new();
        let head = [(context::tx::HEAD_WB_ENA, with_head), (context::tx::HEAD_WB_ADDR, DATA + 0x8000)];
        guest.start(&[], &head);
        let one = [DATA, tx::EOP | bits | tx::ICRC | 60 << tx::SIZE_SHIFT];
        guest.transmit(&[one; 62]);
        assert_eq!(guest.broke(Rule::ReportsTooRare), 0);
        guest.transmit(&[one; 63]);
        assert_eq!(guest.broke(Rule::ReportsTooRare), reported, "{}", guest.chip.lint());
    }
}

/// Queue 0 of either kind runs; vector 1 has a list of both, as Linux's driver makes it.
fn listed(guest: &mut Guest, first: u32, rx: u32, tx: u32) {
    let of_vector = 1 | QINT_RQCTL::CAUSE_ENA;
    guest.chip.write(PFINT_LNKLSTN::at(0), first);
    guest.chip.write(QINT_RQCTL::at(0), of_vector | rx);
    guest.chip.write(QINT_TQCTL::at(0), of_vector | tx);
    guest.chip.write(PFINT_DYN_CTLN::at(0), PFINT_DYN_CTLN::INTENA | PFINT_DYN_CTLN::ITR_INDX_NONE);
}

#[test]
fn a_vectors_list_has_its_queues_and_ends() {
    let next = |n: u32, kind: u32| n << QINT_RQCTL::NEXTQ_INDX_SHIFT | kind << QINT_RQCTL::NEXTQ_TYPE_SHIFT;
    let end = next(0x7FF, 0);
    for (what, first, rx, tx, reported) in [
        ("both in a list", 0, next(0, 1), end, 0),
        ("no list", 0x7FF, next(0, 1), end, 1),
        ("the second is left out", 0, end, end, 1),
        ("a list that goes round", 0, next(0, 1), next(0, 0), 1),
        ("a list that leads to no queue", 0, next(0, 1), next(900, 0), 1),
        ("a list of a kind that is none", 3 << PFINT_LNKLSTN::FIRSTQ_TYPE_SHIFT, next(0, 1), end, 1),
    ] {
        let mut guest = Guest::new();
        guest.start(&[], &[]);
        listed(&mut guest, first, rx, tx);
        assert_eq!(guest.broke(Rule::InterruptListBroken), reported, "{what}");
        // A queue that does not run raises nothing, whatever is left of its list.
        let mut idle = Guest::new();
        listed(&mut idle, first, rx, tx);
        assert!(idle.chip.lint().is_empty(), "{what}: {}", idle.chip.lint());
    }
}

#[test]
fn intervals_have_twelve_bits() {
    let mut guest = Guest::new();
    guest.chip.write(PFINT_ITRN::at(3), 0xFFF);
    assert!(guest.chip.lint().is_empty());
    guest.chip.write(PFINT_ITRN::at(3), 0x1000);
    assert_eq!(guest.broke(Rule::IntervalInvalid), 1);
}

/// A packet comes, for which all entries of the table name this queue.
fn hashed_to(guest: &mut Guest, entry: u32) {
    (0..PFQF_HKEY::COUNT).for_each(|n| guest.chip.write(PFQF_HKEY::at(n), 0x6D5A_56DA));
    guest.chip.write(PFQF_HENA::at(1), 1 << (class::IPV4_OTHER - 32));
    (0..PFQF_HLUT::COUNT).for_each(|n| guest.chip.write(PFQF_HLUT::at(n), entry * 0x0101_0101));
    let ip =
        [&[8, 0, 0x45, 0, 0, 20, 0, 0, 0, 0, 64, 1, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2][..], &[0; 40]].concat();
    guest.cable.send(&[&MAC[..], &[2; 6], &ip].concat());
    guest.step();
}

#[test]
fn the_table_of_the_hash_names_queues_of_the_vsi() {
    for (entry, reported) in [(0, 0), (1, 1)] {
        let mut guest = Guest::new();
        guest.start(&[], &[]);
        hashed_to(&mut guest, entry);
        assert_eq!(guest.broke(Rule::RssQueueInvalid), reported, "{}", guest.chip.lint());
    }
}

#[test]
fn the_table_of_the_hash_may_name_queues_of_any_traffic_class() {
    for (entry, reported) in [(1, 0), (2, 1)] {
        let mut guest = Guest::new();
        guest.start(&[], &[]);
        // One queue of traffic class 0, two of class 1 behind it.
        let mut properties = [0; vsi::LEN];
        properties[vsi::VALID_SECTIONS] = vsi::QUEUE_MAP_VALID as u8;
        let second = (1 | 1u16 << vsi::TC_NUMBER_SHIFT).to_le_bytes();
        properties[vsi::TC_MAPPING + 2..vsi::TC_MAPPING + 4].copy_from_slice(&second);
        let mut update = Descriptor::new(opcode::UPDATE_VSI);
        update.set_param(0, &VSI_SEID.to_le_bytes());
        assert_eq!(guest.command(update, &properties, flag::BUF | flag::RD).retval, 0);
        hashed_to(&mut guest, entry);
        assert_eq!(guest.broke(Rule::RssQueueInvalid), reported, "{}", guest.chip.lint());
    }
}

#[test]
fn a_queue_of_commands_without_bus_mastering_is_named_as_such() {
    let mut guest = Guest::new();
    guest.chip.set_bus_master(false);
    guest.chip.write(PF_ATQT::AT, 1);
    assert_eq!((guest.broke(Rule::BusMasterOff), guest.broke(Rule::AdminRingUnmapped)), (1, 0));
}

#[test]
fn reserved_bits_are_found_by_the_table() {
    // A queue's number where the field of the function ends; a vector whose interval begins a bit too
    // high; an entry of the hash's table beyond 64 queues; the length of an admin queue in bytes.
    for (offset, value) in [
        (QTX_CTL::at(3), QTX_CTL::PFVF_Q_PF | 1 << 6),
        (PFINT_DYN_CTLN::at(0), PFINT_DYN_CTLN::INTENA | 1 << 17),
        (PFQF_HLUT::at(0), 0x40),
        (PF_ATQLEN::AT, 32 * SIZE),
    ] {
        let mut guest = Guest::new();
        guest.chip.write(offset, value & !reserved_at(offset));
        assert_eq!(guest.broke(Rule::ReservedBitsWritten), 0, "{}", guest.chip.lint());
        guest.chip.write(offset, value);
        assert_eq!(guest.broke(Rule::ReservedBitsWritten), 1, "{offset:#x}: {}", guest.chip.lint());
    }
}

/// The reserved bits of the register at `offset`.
fn reserved_at(offset: u32) -> u32 {
    lookup(offset).map_or(0, |(id, _)| id.reserved)
}
