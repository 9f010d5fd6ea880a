//! Transmitting: what leaves for what the driver queued.
//!
//! 82599 datasheet rev. 3.4, section 7.2. Packets are made with right checksums
//! and taken apart again, so the model's arithmetic is not used on itself.

use regs::ixgbe::descriptor::{tx, tx_context_high, tx_context_low, tx_legacy};

use super::*;

/// A context descriptor for Ethernet, IPv4 without options and TCP or UDP.
fn context(udp: bool, tag: u16, mss: u64) -> [u64; 2] {
    let low = 20 | 14 << tx_context_low::MACLEN_SHIFT | u64::from(tag) << tx_context_low::VLAN_SHIFT;
    let l4 = if udp { tx_context_high::L4T_UDP } else { tx_context_high::L4T_TCP };
    let l4_len = if udp { 8 } else { 20 };
    let high = tx::DTYP_CONTEXT | tx::DEXT | tx_context_high::IPV4 | l4;
    [low, high | l4_len << tx_context_high::L4LEN_SHIFT | mss << tx_context_high::MSS_SHIFT]
}

/// What a driver puts in place of the transport checksum: the pseudo header's
/// sum, with or without the length.
fn prime(frame: &mut [u8], field: usize, with_length: bool) {
    let len = if with_length { (frame.len() - 34) as u16 } else { 0 };
    let pseudo = [&frame[26..34], &[0, frame[23]], &len.to_be_bytes()].concat();
    let [a, b] = checksum(&[&pseudo]);
    frame[field..field + 2].copy_from_slice(&[!a, !b]);
    frame[24..26].fill(0);
}

#[test]
fn a_packet_leaves_as_it_is() {
    let mut rig = Rig::up(1);
    let frame = udp([10, 0, 0, 1], [1, 2], 100);
    let at = rig.put_data(0, &frame, tx::RS);
    rig.ring_tx(0);
    assert_eq!(rig.sent(), [frame]);
    assert_ne!(rig.memory.load(at + 8) & tx::DD, 0);
    assert_eq!(rig.device.read(TDH::at(0)), 1);
    assert!(rig.device.lint().is_empty(), "{}", rig.device.lint());
    rig.balance();
}

#[test]
fn only_those_that_ask_are_reported() {
    let mut rig = Rig::up(1);
    let frame = udp([10, 0, 0, 1], [1, 2], 18);
    let unreported = rig.put_data(0, &frame, 0);
    let asked = rig.put_data(0, &frame, tx::RS);
    rig.ring_tx(0);
    assert_eq!(rig.sent().len(), 2);
    assert_eq!(rig.memory.load(unreported + 8) & tx::DD, 0);
    assert_ne!(rig.memory.load(asked + 8) & tx::DD, 0);
}

/// Each queue has a factor of its own, by which the link's speed is divided (7.7.2.2).
#[test]
fn a_queue_with_a_limit_sends_by_the_clock_and_others_as_they_can() {
    let mut rig = Rig::up(2);
    rig.write(RTTDQSEL::AT, 1);
    rig.write(RTTBCNRC::AT, RTTBCNRC::RS_ENA | 100 << RTTBCNRC::RF_INT_SHIFT);
    rig.write(RTTDQSEL::AT, 0);
    assert_eq!(rig.device.read(RTTBCNRC::AT), 0);
    let frame = udp([10, 0, 0, 1], [1, 2], 1184);
    assert_eq!(frame.len(), 1226, "100 us at 100 Mbit/s, with what is around it");
    for queue in [0, 1] {
        (0..4).for_each(|_| _ = rig.put_data(queue, &frame, tx::RS));
    }
    (0..2).for_each(|queue| rig.ring_tx(queue));
    let leave_after = |rig: &mut Rig, ns: u64| {
        rig.now += ns;
        rig.device.step(&mut rig.cable, rig.now);
        std::mem::take(&mut rig.cable.from_host).len()
    };
    assert_eq!(leave_after(&mut rig, 1_000_000), 5, "all of the first, and one of the second");
    for _ in 0..3 {
        assert_eq!([50_000, 50_000].map(|ns| leave_after(&mut rig, ns)), [0, 1]);
    }
    rig.write(RTTDQSEL::AT, 1);
    assert_ne!(rig.device.read(RTTBCNRC::AT), 0);
    assert!(rig.device.lint().is_empty(), "{}", rig.device.lint());
    rig.balance();
}

#[test]
fn many_packets_leave_in_order() {
    let mut rig = Rig::up(2);
    let mut sent = Vec::new();
    for n in 0..500u16 {
        let queue = usize::from(n % 2);
        let frame = udp([10, 0, 0, 1], [n, 2], usize::from(n));
        rig.put_data(queue, &frame, tx::RS);
        rig.ring_tx(queue);
        sent.push(frame);
        if n % 40 == 39 {
            let mut seen = rig.sent();
            seen.sort_by_key(|frame| u16::from_be_bytes([frame[34], frame[35]]));
            assert_eq!(seen, sent);
            sent.clear();
        }
    }
    rig.step();
    rig.balance();
}

#[test]
fn short_packets_are_padded_unless_told_not_to() {
    let mut rig = Rig::up(1);
    let frame = udp([10, 0, 0, 1], [1, 2], 18);
    rig.put_data(0, &frame[..42], 0);
    rig.ring_tx(0);
    let padded = [&frame[..42], &[0; 18]].concat();
    assert_eq!(rig.sent(), [padded]);
    rig.write(HLREG0::AT, HLREG0::TXCRCEN | HLREG0::RXCRCSTRP);
    rig.put_data(0, &frame[..42], 0);
    rig.put_data(0, &frame[..10], 0);
    rig.ring_tx(0);
    assert_eq!(rig.sent(), [frame[..42].to_vec()]);
    assert!(rig.linted(Rule::TxTooShort));
    rig.balance();
}

#[test]
fn several_buffers_make_one_packet() {
    let mut rig = Rig::up(1);
    let frame = udp([10, 0, 0, 1], [1, 2], 1400);
    let paylen = (frame.len() as u64) << tx::PAYLEN_SHIFT;
    for (n, piece) in frame.chunks(500).enumerate() {
        let buffer = tx_buffer(0, rig.tx_tail[0]);
        assert!(crate::Dma::write(&rig.memory, buffer, piece));
        let mut command = tx::DTYP_DATA | tx::DEXT | tx::IFCS | paylen | piece.len() as u64;
        if n == 2 {
            command |= tx::EOP | tx::RS;
        }
        rig.put(0, [buffer, command]);
        // Each with a doorbell of its own: the device waits for the last.
        rig.ring_tx(0);
        assert_eq!(rig.sent().len(), usize::from(n == 2));
    }
    rig.balance();
    assert!(rig.device.lint().is_empty(), "{}", rig.device.lint());
}

#[test]
fn checksums_are_inserted() {
    let mut rig = Rig::up(1);
    for (good, field, is_udp) in [(udp([10, 0, 0, 1], [1, 2], 111), 40, true), (tcp(200), 50, false)] {
        let mut raw = good.clone();
        prime(&mut raw, field, true);
        assert_ne!(raw, good);
        rig.put(0, context(is_udp, 0, 0));
        rig.put_data(0, &raw, tx::IXSM | tx::TXSM);
        rig.ring_tx(0);
        assert_eq!(rig.sent(), [good]);
    }
    assert!(rig.device.lint().is_empty(), "{}", rig.device.lint());
}

#[test]
fn tags_are_inserted() {
    let mut rig = Rig::up(1);
    let frame = udp([10, 0, 0, 1], [1, 2], 100);
    rig.put(0, context(true, 0x2064, 0));
    rig.put_data(0, &frame, tx::VLE);
    rig.ring_tx(0);
    assert_eq!(rig.sent(), [tagged(&frame, 0x2064)]);
}

#[test]
fn a_large_packet_is_cut() {
    let mut rig = Rig::up(1);
    let whole = tcp(3000);
    let mut raw = whole.clone();
    prime(&mut raw, 50, false);
    rig.put(0, context(false, 0, 1000));
    let command = tx::TSE | tx::IXSM | tx::TXSM | 3000 << tx::PAYLEN_SHIFT;
    rig.put_data(0, &raw, command);
    rig.ring_tx(0);
    let segments = rig.sent();
    assert_eq!(segments.len(), 3);
    let mut payload = Vec::new();
    for (n, segment) in segments.iter().enumerate() {
        assert_eq!(segment.len(), 54 + 1000);
        assert_eq!(segment[16..18], 1040u16.to_be_bytes(), "total length");
        assert_eq!(segment[18..20], (0x1234 + n as u16).to_be_bytes(), "identification");
        assert_eq!(checksum(&[&segment[14..34]]), [0, 0], "header checksum");
        assert_eq!(segment[38..42], (0x1000 + 1000 * n as u32).to_be_bytes(), "sequence");
        let flags = if n == 2 { 0x19 } else { 0x10 };
        assert_eq!(segment[47], flags, "FIN and PSH on the last only");
        let pseudo = [&segment[26..34], &[0, 6], &1020u16.to_be_bytes()].concat();
        assert_eq!(checksum(&[&pseudo, &segment[34..]]), [0, 0], "checksum");
        payload.extend_from_slice(&segment[54..]);
    }
    assert_eq!(payload, whole[54..]);
    assert!(rig.device.lint().is_empty(), "{}", rig.device.lint());
    rig.balance();
}

#[test]
fn legacy_packets() {
    let mut rig = Rig::up(1);
    let good = udp([10, 0, 0, 1], [1, 2], 64);
    let mut raw = good.clone();
    prime(&mut raw, 40, true);
    raw[24..26].copy_from_slice(&good[24..26]);
    let buffer = tx_buffer(0, 0);
    assert!(crate::Dma::write(&rig.memory, buffer, &raw));
    let command = tx_legacy::EOP | tx_legacy::IFCS | tx_legacy::RS | tx_legacy::IC | tx_legacy::VLE;
    let sums = 40 << tx_legacy::CSO_SHIFT | 34 << tx_legacy::CSS_SHIFT;
    let at = rig.put(0, [buffer, command | sums | 9 << tx_legacy::VLAN_SHIFT | raw.len() as u64]);
    rig.ring_tx(0);
    assert_eq!(rig.sent(), [tagged(&good, 9)]);
    assert_ne!(rig.memory.load(at + 8) & tx_legacy::DD, 0);
}

#[test]
fn a_null_descriptor_between_packets_sends_nothing_and_reports() {
    let mut rig = Rig::up(1);
    let frame = udp([10, 0, 0, 1], [1, 2], 64);
    let null = tx_legacy::EOP | tx_legacy::IFCS | tx_legacy::RS;
    rig.put_data(0, &frame, 0);
    let at = rig.put(0, [tx_buffer(0, 1), null]);
    rig.put_data(0, &frame, tx::RS);
    rig.ring_tx(0);
    assert_eq!(rig.sent(), [frame.clone(), frame]);
    assert_ne!(rig.memory.load(at + 8) & tx_legacy::DD, 0);
    assert!(rig.device.lint().is_empty(), "{}", rig.device.lint());
    // Advanced, without EOP, or within a packet it is none.
    let begins = tx_legacy::IFCS | 60;
    for words in
        [&[tx::DTYP_DATA | tx::DEXT | null][..], &[null & !tx_legacy::EOP, null | 60], &[begins, null]]
    {
        let mut rig = Rig::up(1);
        words.iter().for_each(|word| _ = rig.put(0, [tx_buffer(0, 0), *word]));
        rig.ring_tx(0);
        assert!(rig.sent().is_empty() && rig.linted(Rule::ZeroLengthDescriptor), "{words:x?}");
        rig.balance();
    }
}

#[test]
fn the_head_is_written_back() {
    let mut rig = Rig::up(1);
    let place = tx_ring(0) + 0x2000;
    rig.write(TDWBAL::at(0), place as u32 | TDWBAL::HEAD_WB_EN);
    rig.write(TDWBAH::at(0), (place >> 32) as u32);
    rig.step();
    let frame = udp([10, 0, 0, 1], [1, 2], 18);
    rig.put_data(0, &frame, 0);
    let at = rig.put_data(0, &frame, tx::RS);
    rig.ring_tx(0);
    assert_eq!(rig.sent().len(), 2);
    assert_eq!(rig.memory.load(place), 2);
    assert_eq!(rig.memory.load(at + 8) & tx::DD, 0, "instead of the bit");
}

#[test]
fn looped_frames_come_back() {
    let mut rig = Rig::up_with(
        1,
        &[(HLREG0::AT, HLREG0::LPBK | HLREG0::TXCRCEN | HLREG0::RXCRCSTRP | HLREG0::TXPADEN)],
    );
    let frame = udp([10, 0, 0, 1], [1, 2], 80);
    rig.put_data(0, &frame, 0);
    rig.ring_tx(0);
    assert!(rig.sent().is_empty());
    assert_eq!(rig.receive(0).expect("looped").data, frame);
    rig.balance();
}

#[test]
fn nothing_leaves_while_the_link_is_down() {
    let mut rig = Rig::up(1);
    rig.cable.unplugged = true;
    rig.step();
    rig.put_data(0, &udp([10, 0, 0, 1], [1, 2], 18), 0);
    rig.ring_tx(0);
    assert!(rig.sent().is_empty());
    rig.cable.unplugged = false;
    rig.step();
    rig.now += LINK_NS;
    assert_eq!(rig.sent().len(), 1);
}

#[test]
fn software_may_bring_its_own_crc() {
    let mut rig = Rig::up(1);
    let frame = udp([10, 0, 0, 1], [1, 2], 80);
    let crc = crate::checksum::crc32(&frame).to_le_bytes();
    for (crc, arrives) in [(crc, true), ([0; 4], false)] {
        let data = [&frame[..], &crc].concat();
        let at = rig.put_data(0, &data, 0);
        rig.memory.store(at + 8, rig.memory.load(at + 8) & !tx::IFCS);
        rig.ring_tx(0);
        assert_eq!(rig.sent().len(), usize::from(arrives));
    }
    assert_eq!(rig.device.drops().tx_bad_crc, 1);
    rig.balance();
}
