//! Drivers that misbehave.

use super::*;
use crate::virtio::RingAddresses;
use regs::virtio::net::config;
use regs::virtio::split::descriptor::{INDIRECT, NEXT};

/// Breaks the transmit queue of each ring in a way; the rule found.
fn breaks(rings: &[u64], rule: Rule, lie: impl Fn(&mut Rig)) {
    for &ring in rings {
        let mut rig = Rig::new(ring);
        lie(&mut rig);
        rig.step();
        assert_eq!(rig.count(rule), 1, "{rule:?} {ring:#x}: {:?}", rig.function.net().lint());
        assert!(rig.needs_reset(), "{rule:?}");
        assert!(rig.raised.take().contains(&7), "it tells so");
        // The other queue goes on.
        rig.rx.offer(&[writable(BUFFERS, 2048)]);
        rig.cable.send(&frame(60));
        rig.step();
        assert!(rig.rx.take().is_some(), "{rule:?}");
        assert_eq!(rig.function.net().totals().broken_queues, 1);
    }
}

const SPLIT: &[u64] = &[0, feature::EVENT_IDX];
const PACKED: &[u64] = &[feature::RING_PACKED];
const BOTH: &[u64] = &[0, feature::RING_PACKED];

#[test]
fn what_breaks_a_ring_stops_it_and_asks_for_a_reset() {
    let piece = readable(BUFFERS, 100);
    breaks(SPLIT, Rule::AvailableIndexJumped, |rig| rig.tx.set_available_index(SIZE + 1));
    breaks(SPLIT, Rule::AvailableIndexJumped, |rig| rig.tx.set_available_index(u16::MAX));
    breaks(SPLIT, Rule::HeadOutOfRange, |rig| rig.tx.announce(SIZE));
    breaks(SPLIT, Rule::NextOutOfRange, |rig| {
        rig.tx.describe(0, piece, NEXT, SIZE);
        rig.tx.announce(0);
    });
    breaks(SPLIT, Rule::ChainLoops, |rig| {
        rig.tx.describe(0, piece, NEXT, 1);
        rig.tx.describe(1, piece, NEXT, 0);
        rig.tx.announce(0);
    });
    breaks(PACKED, Rule::ChainLoops, |rig| {
        let pieces = [piece; SIZE as usize];
        rig.tx.offer_flagged(&pieces, NEXT);
    });
    breaks(BOTH, Rule::IndirectTableUnmapped, |rig| {
        rig.tx.offer_flagged(&[readable(IOVA - 16, 16)], INDIRECT);
    });
    breaks(BOTH, Rule::IndirectTableUnmapped, |rig| {
        rig.tx.offer_flagged(&[readable(u64::MAX - 7, 32)], INDIRECT);
    });
    for len in [0, 8, 24] {
        breaks(BOTH, Rule::IndirectTableSize, |rig| {
            rig.tx.offer_flagged(&[readable(BUFFERS, len)], INDIRECT);
        });
    }
    breaks(PACKED, Rule::IndirectTableSize, |rig| {
        rig.tx.offer_flagged(&[readable(BUFFERS, 16 * (SIZE as usize + 1))], INDIRECT);
    });
    breaks(BOTH, Rule::IndirectWithNext, |rig| {
        if rig.is_packed {
            rig.tx.offer(&[piece, piece]);
            rig.tx.describe(1, piece, INDIRECT | 1 << 7, 0);
        } else {
            rig.tx.offer_flagged(&[piece, piece], INDIRECT);
        }
    });
    breaks(BOTH, Rule::IndirectNested, |rig| {
        // A table whose entry says that it is a table: flags where layouts agree.
        let at = if rig.is_packed { 14 } else { 12 };
        rig.put(BUFFERS, &[0; 16]);
        rig.put(BUFFERS + at, &INDIRECT.to_le_bytes());
        rig.tx.offer_flagged(&[readable(BUFFERS, 16)], INDIRECT);
    });
    breaks(SPLIT, Rule::ChainLoops, |rig| {
        // A table of two whose entries follow each other, for ever.
        let entry =
            |next: u16| [&BUFFERS.to_le_bytes()[..], &[4, 0, 0, 0, 1, 0], &next.to_le_bytes()].concat();
        rig.put(BUFFERS, &[entry(1), entry(0)].concat());
        rig.tx.offer_flagged(&[readable(BUFFERS, 16 * 64)], INDIRECT);
    });
}

#[test]
fn tables_need_to_be_negotiated() {
    for ring in [0, feature::RING_PACKED] {
        let mut rig = Rig::new(ring);
        rig.write8(common::DEVICE_STATUS, 0);
        rig.read(common::DEVICE_STATUS, 1);
        rig.bring_up((BASE | ring) & !feature::INDIRECT_DESC);
        rig.tx.offer_table(BUFFERS + 0x1000, &[readable(BUFFERS, 80)]);
        rig.step();
        assert_eq!(rig.count(Rule::IndirectNotNegotiated), 1);
    }
}

#[test]
fn receive_buffers_that_make_no_sense() {
    for ring in RINGS {
        let mut rig = Rig::new(ring | net::MRG_RXBUF);
        rig.cable.send(&frame(60));
        let small = rig.rx.offer(&[writable(BUFFERS, 11)]);
        let none = rig.rx.offer(&[readable(BUFFERS, 100)]);
        let good = rig.rx.offer(&[writable(BUFFERS, 100)]);
        rig.step();
        let used: Vec<_> = std::iter::from_fn(|| rig.rx.take()).collect();
        assert_eq!(used, [(small, 0), (none, 0), (good, 72)], "{ring:#x}");
        assert!(rig.count(Rule::RxBufferTooSmall) == 2 && rig.count(Rule::ReadableInReceive) == 1);
        // Unmapped: the packet is lost, the buffer comes back empty.
        let lost = rig.rx.offer(&[writable(IOVA + BYTES as u64 - 40, 100)]);
        rig.cable.send(&frame(60));
        rig.step();
        assert_eq!(rig.rx.take(), Some((lost, 0)));
        assert_eq!(rig.function.net().drops().rx_dma_fault, 1);
        let mixed = rig.rx.offer(&[writable(BUFFERS, 50), readable(BUFFERS, 5), writable(BUFFERS, 50)]);
        rig.cable.send(&frame(60));
        rig.step();
        assert_eq!(rig.rx.take().map(|used| used.0), Some(mixed));
        assert_eq!(rig.count(Rule::ReadableAfterWritable), 1);
        assert!(!rig.needs_reset());
    }
}

#[test]
fn a_frame_larger_than_the_ring_is_lost() {
    for ring in RINGS {
        let mut rig = Rig::new(ring | net::MRG_RXBUF);
        for _ in 0..SIZE {
            rig.rx.offer(&[writable(BUFFERS, 20)]);
        }
        rig.cable.send(&frame(1000));
        rig.step();
        assert_eq!(rig.function.net().drops().rx_buffer_too_small, 1);
        assert!(rig.rx.take().is_none(), "nothing is used for it");
        rig.cable.send(&frame(60));
        rig.step();
        let lens: Vec<u32> = std::iter::from_fn(|| rig.rx.take()).map(|used| used.1).collect();
        assert_eq!(lens, [20, 20, 20, 12]);
    }
}

#[test]
fn queues_that_cannot_be_are_not_enabled() {
    let good = Side::new(&Memory::new(IOVA, 0x1000), IOVA, 16, false).place;
    for (packed, place, rule) in [
        (false, RingAddresses { size: 0, ..good }, Rule::QueueSizeInvalid),
        (false, RingAddresses { size: 12, ..good }, Rule::QueueSizeInvalid),
        (false, RingAddresses { size: 128, ..good }, Rule::QueueSizeInvalid),
        (true, RingAddresses { size: 0, ..good }, Rule::QueueSizeInvalid),
        (true, RingAddresses { size: 65, ..good }, Rule::QueueSizeInvalid),
        (false, RingAddresses { descriptors: IOVA + 8, ..good }, Rule::QueueMisaligned),
        (false, RingAddresses { driver: IOVA + 1, ..good }, Rule::QueueMisaligned),
        (false, RingAddresses { device: IOVA + 2, ..good }, Rule::QueueMisaligned),
        (true, RingAddresses { driver: IOVA + 2, ..good }, Rule::QueueMisaligned),
    ] {
        let mut rig = Rig::new(if packed { feature::RING_PACKED } else { 0 });
        let mut side = rig.rx.clone();
        side.place = place;
        rig.set_up(2, &side);
        assert_eq!(rig.read(common::QUEUE_ENABLE, 2), 0, "{place:?}");
        assert_eq!(rig.count(rule), 1, "{place:?}");
    }
    // A packed ring needs no power of two.
    let mut rig = Rig::new(feature::RING_PACKED);
    let mut side = rig.rx.clone();
    side.place.size = 13;
    rig.set_up(2, &side);
    assert_eq!(rig.read(common::QUEUE_ENABLE, 2), 1);
    // Outside of memory: it never runs, and that is said.
    let mut rig = Rig::new(0);
    let mut side = rig.rx.clone();
    side.place.descriptors = IOVA + BYTES as u64;
    rig.set_up(2, &side);
    rig.step();
    assert_eq!(rig.count(Rule::RingUnmapped), 1);
    rig.tx.announce(0);
    rig.memory.map_only(0x100);
    rig.step();
    assert!(!rig.needs_reset());
}

#[test]
fn a_packed_ring_of_any_size_goes_round() {
    let mut rig = Rig::new(feature::RING_PACKED | net::MQ | net::CTRL_VQ);
    rig.write8(common::DEVICE_STATUS, 0);
    rig.read(common::DEVICE_STATUS, 1);
    rig.put(IOVA, &[0; 0x4000]);
    rig.tx = Side::new(&rig.memory, IOVA + 0x1000, 13, true);
    rig.bring_up(BASE | feature::RING_PACKED);
    for round in 0..100 {
        let len = rig.packet(BUFFERS, &frame(60 + round));
        rig.tx.offer(&[readable(BUFFERS, 12), readable(BUFFERS + 12, len - 12)]);
        rig.step();
        assert_eq!(rig.tx.take_batch(), 1);
        assert_eq!(rig.cable.from_host.pop(), Some(frame(60 + round)));
    }
}

#[test]
fn the_order_of_things_is_watched() {
    let mut rig = Rig::new(0);
    rig.write8(common::DEVICE_STATUS, 0);
    rig.write16(common::QUEUE_SELECT, 0);
    assert_eq!(rig.count(Rule::ResetNotAwaited), 1);
    rig.kick(0);
    assert_eq!(rig.count(Rule::NotifyBeforeDriverOk), 1);
    rig.write8(common::DEVICE_STATUS, status::DRIVER);
    assert_eq!(rig.count(Rule::StatusOutOfOrder), 1);
    rig.write16(common::QUEUE_ENABLE, 1);
    assert_eq!(rig.count(Rule::QueueEnabledBeforeFeaturesOk), 1);
    rig.write8(common::DEVICE_STATUS, status::ACKNOWLEDGE | status::DRIVER | status::DRIVER_OK);
    assert_eq!(rig.count(Rule::DriverOkWithoutFeaturesOk), 1);
    rig.write32(common::DRIVER_FEATURE_SELECT, 0);
    rig.write32(common::DRIVER_FEATURE, 1 << 9);
    rig.write8(common::DEVICE_STATUS, 15);
    assert_eq!(rig.read(common::DEVICE_STATUS, 1) & 8, 0, "no VERSION_1");
    assert_eq!(rig.count(Rule::Version1NotAccepted), 1);
    rig.write32(common::DRIVER_FEATURE_SELECT, 1);
    rig.write32(common::DRIVER_FEATURE, 3);
    rig.write8(common::DEVICE_STATUS, 15);
    assert_eq!(rig.count(Rule::FeatureNotOffered), 1, "GUEST_ECN is not offered");
    rig.write32(common::DRIVER_FEATURE_SELECT, 0);
    rig.write32(common::DRIVER_FEATURE, net::HOST_TSO4 as u32);
    rig.write8(common::DEVICE_STATUS, 15);
    assert_eq!(rig.count(Rule::FeatureLacksAnother), 1);
    rig.write32(common::DRIVER_FEATURE, 0);
    rig.write8(common::DEVICE_STATUS, 15);
    assert_eq!(rig.read(common::DEVICE_STATUS, 1), 15);
    rig.write32(common::DRIVER_FEATURE, 1);
    assert_eq!(rig.count(Rule::FeaturesAfterFeaturesOk), 1);
    rig.write8(common::DEVICE_STATUS, 1);
    assert_eq!(rig.count(Rule::StatusBitCleared), 1);
}

#[test]
fn registers_are_used_as_they_are() {
    let mut rig = Rig::new(0);
    rig.write16(common::NUM_QUEUES, 3);
    assert_eq!(rig.count(Rule::ReadOnlyWritten), 1);
    rig.read(common::QUEUE_DESC, 8);
    rig.write8(common::QUEUE_SIZE, 3);
    assert_eq!(rig.count(Rule::WrongWidth), 2);
    rig.write16(common::QUEUE_SELECT, 0);
    rig.write16(common::QUEUE_SIZE, 8);
    assert_eq!(rig.read(common::QUEUE_SIZE, 2), SIZE.into());
    assert_eq!(rig.count(Rule::QueueChangedWhileEnabled), 1);
    rig.write16(common::QUEUE_ENABLE, 0);
    assert_eq!(rig.count(Rule::QueueEnableZeroWritten), 1);
    rig.write16(common::QUEUE_MSIX_VECTOR, 8);
    assert_eq!(rig.read(common::QUEUE_MSIX_VECTOR, 2), 0xFFFF);
    rig.write16(common::QUEUE_SELECT, 9);
    rig.write16(common::QUEUE_ENABLE, 1);
    assert_eq!(rig.read(common::QUEUE_SIZE, 2), 0);
    assert_eq!(rig.count(Rule::QueueSelectOutOfRange), 1);
    rig.write16(0x3000, 1);
    assert_eq!(rig.count(Rule::NotifyWrongQueue), 1);
    rig.write16(0x3000 + 4 * 3, 3);
    assert_eq!(rig.count(Rule::NotifyDisabledQueue), 1);
    rig.write8(0x2000, 1);
    assert_eq!(rig.count(Rule::ConfigWritten), 1);
    rig.read(0x2000 + config::STATUS, 2);
    assert_eq!(rig.count(Rule::ConfigWrongWidth), 0);
    rig.read(0x2000 + config::SPEED, 1);
    rig.read(0x2000 + config::MAC, 4);
    assert_eq!(rig.count(Rule::ConfigWrongWidth), 2);
    rig.read(0x0800, 4);
    assert_eq!(rig.count(Rule::UnknownRegister), 1);
    assert_eq!(rig.read(0x3FFF, 8), 0);
    rig.function.write(0x3FFC, &[0; 9]);
}

#[test]
fn one_queue_is_reset_alone() {
    let mut rig = Rig::new(feature::RING_RESET);
    rig.tx.set_available_index(SIZE + 1);
    rig.step();
    assert!(rig.function.net().is_broken(1));
    rig.write16(common::QUEUE_SELECT, 1);
    rig.write16(common::QUEUE_RESET, 1);
    assert_eq!((rig.read(common::QUEUE_RESET, 2), rig.read(common::QUEUE_ENABLE, 2)), (0, 0));
    rig.put(IOVA + 0x1000, &[0; 0x1000]);
    rig.tx = Side::new(&rig.memory, IOVA + 0x1000, SIZE, false);
    rig.set_up(1, &rig.tx.clone());
    let len = rig.packet(BUFFERS, &frame(60));
    rig.tx.offer(&[readable(BUFFERS, len)]);
    rig.step();
    assert_eq!(rig.tx.take_batch(), 1);
}
