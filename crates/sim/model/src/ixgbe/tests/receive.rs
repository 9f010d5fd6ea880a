//! Receiving: what the driver finds in its descriptors for what the wire gave.
//!
//! 82599 datasheet rev. 3.4, section 7.1. Hashes and checksums are computed
//! here by plainer means than the model's.

use regs::ixgbe::descriptor::{rx_high, rx_low};

use super::*;
use crate::FrameError;

#[test]
fn a_frame_arrives_as_it_was_sent() {
    let mut rig = Rig::up(1);
    let frame = udp([10, 0, 0, 1], [1, 2], 18);
    rig.cable.send(&frame);
    rig.step();
    let got = rig.receive(0).expect("received");
    assert_eq!(got.data, frame);
    assert_eq!(got.high & 0xFFFF_FFFF, rx_high::DD | rx_high::EOP | rx_high::IPCS | rx_high::L4I);
    assert_eq!(got.low, rx_low::PACKET_IPV4 | rx_low::PACKET_UDP);
    assert_eq!(rig.receive(0), None);
    assert_eq!(rig.device.read(RDH::at(0)), 1);
    assert!(rig.device.lint().is_empty(), "{}", rig.device.lint());
    rig.balance();
}

#[test]
fn many_rings_worth_arrive_in_order() {
    let mut rig = Rig::up(1);
    for n in 0..1000u16 {
        rig.cable.send(&udp([10, 0, 0, 1], [n, 2], 40));
    }
    let mut seen = 0u16;
    while seen < 1000 {
        rig.step();
        let before = seen;
        while let Some(got) = rig.receive(0) {
            assert_eq!(got.data[34..36], seen.to_be_bytes());
            seen += 1;
        }
        assert!(seen > before, "stalled at {seen}");
    }
    rig.balance();
    assert_eq!(rig.device.drops().rx(), 0);
}

#[test]
fn addresses_are_filtered() {
    let mut rig = Rig::up_with(
        1,
        &[
            (RAL::at(5), 0x3322_1102),
            (RAH::at(5), 0x5544 | RAH::AV),
            (MCSTCTRL::AT, MCSTCTRL::MFE),
            // 01:00:5e:00:00:fb: bits 47:36 of the address.
            (MTA::at(0xFB0 >> 5), 1 << (0xFB0 & 31)),
        ],
    );
    let to = |address: [u8; 6]| {
        let mut frame = udp([10, 0, 0, 1], [1, 2], 18);
        frame[..6].copy_from_slice(&address);
        frame
    };
    for (address, wanted) in [
        (MAC, true),
        ([2, 0x11, 0x22, 0x33, 0x44, 0x55], true),
        ([2, 0x11, 0x22, 0x33, 0x44, 0x56], false),
        ([0xFF; 6], true),
        ([1, 0, 0x5E, 0, 0, 0xFB], true),
        ([1, 0, 0x5E, 0, 0, 0xFA], false),
    ] {
        rig.cable.send(&to(address));
        rig.step();
        let got = rig.receive(0);
        assert_eq!(got.is_some(), wanted, "{address:x?}");
        let inexact = got.is_some_and(|got| got.high & rx_high::PIF != 0);
        assert_eq!(inexact, address == [1, 0, 0x5E, 0, 0, 0xFB]);
    }
    assert_eq!(rig.device.drops().rx_filtered_mac, 2);
    rig.write(FCTRL::AT, FCTRL::UPE | FCTRL::MPE);
    assert!(rig.linted(Rule::FilterChangedWhileReceiving));
    rig.cable.send(&to([2, 9, 9, 9, 9, 9]));
    rig.cable.send(&to([1, 9, 9, 9, 9, 9]));
    rig.step();
    assert!(rig.receive(0).is_some() && rig.receive(0).is_some());
    rig.balance();
}

#[test]
fn a_long_frame_is_scattered() {
    let mut rig = Rig::up_with(
        1,
        &[
            (HLREG0::AT, HLREG0::JUMBOEN | HLREG0::RXCRCSTRP | HLREG0::TXCRCEN | HLREG0::TXPADEN),
            (MAXFRS::AT, 9018 << MAXFRS::MFS_SHIFT),
        ],
    );
    let frame = udp([10, 0, 0, 1], [1, 2], 9014 - 42);
    for _ in 0..20 {
        rig.cable.send(&frame);
        rig.step();
        let mut data = Vec::new();
        for piece in 0..5 {
            let got = rig.receive(0).expect("a piece");
            assert_eq!(got.high & rx_high::EOP != 0, piece == 4);
            data.extend(got.data);
        }
        assert_eq!(data, frame);
    }
    rig.cable.send(&vec![2; 9019]);
    rig.step();
    assert_eq!(rig.device.drops().rx_oversize, 1);
    assert_eq!(rig.device.read(ROC::AT), 1);
    rig.balance();
}

#[test]
fn checksums_that_are_right_wrong_and_not_checked() {
    let mut rig = Rig::up(1);
    let good = udp([10, 0, 0, 1], [1, 2], 33);
    let with = |at: usize, flip: u8| {
        let mut frame = good.clone();
        frame[at] ^= flip;
        frame
    };
    let mut no_sum = good.clone();
    no_sum[40..42].fill(0);
    let checked = rx_high::IPCS | rx_high::L4I;
    let status = checked | rx_high::IPE | rx_high::L4E;
    for (frame, wanted) in [
        (good.clone(), checked),
        (with(70, 1), checked | rx_high::L4E),
        (with(22, 1), checked | rx_high::IPE),
        (no_sum, rx_high::IPCS),
        (tcp(100), checked),
        (tagged(&good, 5), checked),
        (tagged(&with(70, 1), 5), checked | rx_high::L4E),
    ] {
        rig.cable.send(&frame);
        rig.step();
        let got = rig.receive(0).expect("received");
        assert_eq!(got.high & status, wanted, "{frame:x?}");
        assert_eq!(got.data, frame);
    }
    assert_eq!(rig.device.read(XEC::AT), 3);
}

#[test]
fn tags_are_stripped_and_filtered() {
    let mut rig = Rig::up_with(1, &[(VLNCTRL::AT, 0x8100 | VLNCTRL::VFE), (VFTA::at(3), 1 << 4)]);
    let control = rig.device.read(RXDCTL::at(0));
    rig.write(RXDCTL::at(0), control | RXDCTL::VME);
    let frame = udp([10, 0, 0, 1], [1, 2], 30);
    rig.cable.send(&tagged(&frame, 0x6000 | 100));
    rig.cable.send(&tagged(&frame, 101));
    rig.cable.send(&frame);
    rig.step();
    let got = rig.receive(0).expect("tagged");
    assert_eq!((got.data, got.high >> 48), (frame.clone(), 0x6000 | 100));
    assert_ne!(got.high & rx_high::VP, 0);
    let got = rig.receive(0).expect("plain");
    assert_eq!((got.data, got.high & rx_high::VP), (frame, 0));
    assert_eq!(rig.receive(0), None);
    assert_eq!(rig.device.drops().rx_filtered_vlan, 1);
    rig.balance();
}

/// The hash bit by bit, as Microsoft's specification tells it.
fn toeplitz(key: &[u8], input: &[u8]) -> u32 {
    let bit = |n: usize| key[n / 8] >> (7 - n % 8) & 1;
    let mut hash = 0;
    for n in (0..input.len() * 8).filter(|n| input[n / 8] >> (7 - n % 8) & 1 != 0) {
        hash ^= (0..32).fold(0u32, |window, k| window << 1 | u32::from(bit(n + k)));
    }
    hash
}

#[test]
fn rss_spreads_as_the_hash_says() {
    let key: Vec<u8> = (0..40).map(|n| (n * 37 + 11) as u8).collect();
    let mut registers = vec![(MRQC::AT, MRQC::MRQE_RSS | MRQC::RSS_FIELD_IPV4 | MRQC::RSS_FIELD_IPV4_UDP)];
    for n in 0..10 {
        let word = u32::from_le_bytes([key[4 * n], key[4 * n + 1], key[4 * n + 2], key[4 * n + 3]]);
        registers.push((RSSRK::at(n), word));
    }
    registers.extend((0..32).map(|n| (RETA::at(n), 0x0302_0100)));
    let mut rig = Rig::up_with(4, &registers);
    let mut used = [0; 4];
    for n in 0..100u16 {
        let frame = udp([10, 1, 2, n as u8], [1000 + n, 53], 20);
        let other = tcp(usize::from(n));
        for (frame, input, kind) in [
            (&frame, [&frame[26..34], &frame[34..38]].concat(), rx_low::RSS_TYPE_IPV4_UDP),
            (&other, other[26..34].to_vec(), rx_low::RSS_TYPE_IPV4),
        ] {
            rig.cable.send(frame);
            rig.step();
            let hash = toeplitz(&key, &input);
            let queue = (hash & 3) as usize;
            let got = rig.receive(queue).expect("in its queue");
            assert_eq!(got.low >> 32, u64::from(hash));
            assert_eq!(got.low & rx_low::RSS_TYPE_MASK, kind);
            used[queue] += 1;
        }
    }
    assert!(used.iter().all(|&count| count > 0), "{used:?}");
    rig.balance();
}

#[test]
fn filters_choose_queues() {
    let mut rig = Rig::up_with(
        4,
        &[
            (ETQF::at(2), 0x88F7 | ETQF::ENABLE),
            (ETQS::at(2), 2 << ETQS::QUEUE_SHIFT | ETQS::QUEUE_ENABLE),
            (
                FTQF::at(0),
                FTQF::PROTOCOL_UDP | 1 << FTQF::PRIORITY_SHIFT | 0b0111 << FTQF::MASK_SHIFT | FTQF::ENABLE,
            ),
            (SDPQF::at(0), u32::from(53u16.to_be()) << 16),
            (L34TIMIR::at(0), 3 << L34TIMIR::QUEUE_SHIFT),
        ],
    );
    let mut time = udp([10, 0, 0, 1], [1, 2], 30);
    time[12..14].copy_from_slice(&[0x88, 0xF7]);
    rig.cable.send(&time);
    rig.cable.send(&udp([10, 0, 0, 1], [7, 53], 30));
    rig.cable.send(&udp([10, 0, 0, 1], [7, 54], 30));
    rig.step();
    let got = rig.receive(2).expect("by its type");
    assert_eq!(got.low & 0x1_FFF0, rx_low::PACKET_ETQF | 2 << rx_low::PACKET_TYPE_SHIFT);
    assert_eq!(rig.receive(3).expect("by its port").data[37], 53);
    assert_eq!(rig.receive(0).expect("the rest").data[37], 54);
}

#[test]
fn a_full_ring_holds_frames_back_then_loses_them() {
    let mut rig = Rig::up(1);
    rig.cable.backpressure = false;
    for _ in 0..4000 {
        rig.cable.send(&udp([10, 0, 0, 1], [1, 2], 200));
    }
    rig.step();
    assert_eq!(rig.device.totals().rx_packets, RING - 1);
    assert!(rig.device.waiting() > 1000);
    let lost = rig.device.drops().rx_fifo_full;
    assert!(lost > 1000);
    rig.balance();
    assert_eq!(u64::from(rig.device.read(RXMPC::at(0))), lost);
    // Once there are buffers, what waited arrives.
    let waiting = rig.device.waiting() as u64;
    for _ in 0..RING - 1 + waiting {
        rig.receive(0).expect("waiting");
        rig.step();
    }
    assert_eq!(rig.device.waiting(), 0);
    rig.balance();
}

#[test]
fn drop_en_loses_at_once() {
    let mut rig = Rig::up(1);
    let srrctl = rig.device.read(SRRCTL::at(0));
    rig.write(SRRCTL::at(0), srrctl | SRRCTL::DROP_EN);
    rig.step();
    rig.cable.backpressure = false;
    for _ in 0..100 {
        rig.cable.send(&udp([10, 0, 0, 1], [1, 2], 30));
    }
    rig.step();
    assert_eq!(rig.device.drops().rx_no_descriptor, 100 - (RING - 1));
    assert_eq!(rig.device.read(QPRDC::at(0)), (100 - (RING - 1)) as u32);
    assert_eq!(rig.device.waiting(), 0);
    rig.balance();
}

#[test]
fn damaged_frames_are_counted() {
    let mut rig = Rig::up(1);
    let frame = udp([10, 0, 0, 1], [1, 2], 30);
    rig.cable.to_host.push_back((frame.clone(), FrameError::Crc));
    rig.cable.to_host.push_back((frame[..40].to_vec(), FrameError::Crc));
    rig.cable.to_host.push_back((vec![0; 1600], FrameError::Crc));
    rig.cable.to_host.push_back((vec![0; 1600], FrameError::None));
    rig.cable.to_host.push_back((frame, FrameError::Symbol));
    rig.step();
    assert_eq!(rig.receive(0), None);
    for (name, offset) in [
        ("CRCERRS", CRCERRS::AT),
        ("RFC", RFC::AT),
        ("RJC", RJC::AT),
        ("ROC", ROC::AT),
        ("ILLERRC", ILLERRC::AT),
    ] {
        assert_eq!(rig.device.read(offset), 1, "{name}");
        assert_eq!(rig.device.read(offset), 0, "{name} clears when read");
    }
    rig.balance();
}

#[test]
fn a_short_frame_from_a_plain_wire_is_padded() {
    let mut rig = Rig::up(1);
    rig.cable.send(&udp([10, 0, 0, 1], [1, 2], 18)[..50]);
    rig.step();
    assert_eq!(rig.receive(0).expect("padded").data.len(), 60);
}

#[test]
fn the_crc_is_kept_on_request() {
    let mut rig = Rig::up_with(1, &[(HLREG0::AT, HLREG0::TXCRCEN | HLREG0::TXPADEN), (RDRXCTL::AT, 0)]);
    let frame = udp([10, 0, 0, 1], [1, 2], 30);
    rig.cable.send(&frame);
    rig.step();
    let got = rig.receive(0).expect("received").data;
    assert_eq!(got[..frame.len()], frame);
    assert_eq!(got[frame.len()..], crate::checksum::crc32(&frame).to_le_bytes());
}

#[test]
fn legacy_descriptors() {
    let mut rig = Rig::cold();
    rig.write(RDRXCTL::AT, RDRXCTL::CRCSTRIP);
    rig.enable_rx(0, 2, RXDCTL::VME);
    rig.write(RXCTRL::AT, RXCTRL::RXEN);
    let frame = udp([10, 0, 0, 1], [1, 2], 30);
    rig.cable.send(&tagged(&frame, 7));
    rig.step();
    let (low, high) = (rig.memory.load(rx_ring(0)), rig.memory.load(rx_ring(0) + 8));
    assert_eq!(low, rx_buffer(0, 0), "the address stays");
    assert_eq!(high & 0xFFFF, frame.len() as u64);
    assert_eq!(high >> 48, 7);
    use descriptor::rx_legacy as l;
    assert_eq!(high & 0xFFFF << 32, l::DD | l::EOP | l::VP | l::L4CS | l::IPCS);
    assert_eq!(rig.memory.bytes(low, frame.len()), frame);
}

#[test]
fn link_down_and_receive_off_are_named() {
    let mut rig = Rig::up(1);
    rig.cable.backpressure = false;
    rig.cable.unplugged = true;
    rig.cable.send(&[0; 60]);
    rig.step();
    assert_eq!(rig.device.drops().rx_link_down, 1);
    rig.cable.unplugged = false;
    rig.step();
    rig.now += LINK_NS;
    rig.step();
    rig.write(RXCTRL::AT, 0);
    rig.cable.send(&[0; 60]);
    rig.step();
    assert_eq!(rig.device.drops().rx_disabled, 1);
    rig.balance();
}
