//! Receiving: which buffers a frame goes into, and what its header says.

use super::*;

fn received(rig: &Rig, at: u64, len: u32) -> (Vec<u8>, Vec<u8>) {
    let bytes = rig.memory.bytes(at, len as usize);
    (bytes[..12].to_vec(), bytes[12..].to_vec())
}

#[test]
fn frames_arrive_whole_in_every_ring() {
    for ring in RINGS {
        let mut rig = Rig::new(ring | net::MRG_RXBUF);
        // Several times round, in bursts that do not divide the ring.
        for round in 0..40 {
            let ids: Vec<u16> =
                (0..5).map(|n| rig.rx.offer(&[writable(BUFFERS + 0x1000 * n, 2048)])).collect();
            for n in 0..5 {
                rig.cable.send(&frame(60 + round * 5 + n));
            }
            rig.step();
            for (n, id) in ids.into_iter().enumerate() {
                let len = 60 + round * 5 + n;
                assert_eq!(rig.rx.take(), Some((id, 12 + len as u32)), "{ring:#x}");
                let (head, data) = received(&rig, BUFFERS + 0x1000 * n as u64, 12 + len as u32);
                assert_eq!(data, frame(len));
                assert_eq!(head, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0]);
            }
        }
        assert!(rig.is_clean());
        assert_eq!(rig.function.net().totals().rx_packets, 200);
    }
}

#[test]
fn a_frame_may_take_several_buffers() {
    for ring in RINGS {
        let mut rig = Rig::with(Options { mtu: 9000, ..Rig::options() }, ring | net::MRG_RXBUF);
        let at = |n: u64| BUFFERS + 0x1000 * n;
        for round in 0..10 {
            let ids: Vec<u16> =
                (0..4).map(|n| rig.rx.offer(&[writable(at(n), 8), writable(at(n) + 8, 992)])).collect();
            rig.cable.send(&frame(2500 + round));
            rig.step();
            let mut whole = Vec::new();
            for (n, len) in [1000, 1000, 512 + round].into_iter().enumerate() {
                assert_eq!(rig.rx.take(), Some((ids[n], len as u32)), "{ring:#x}");
                whole.extend(rig.memory.bytes(at(n as u64), len));
            }
            assert_eq!(whole[10..12], [3, 0], "buffers are counted");
            assert_eq!(whole[12..], frame(2500 + round));
            rig.cable.send(&frame(60));
            rig.step();
            assert_eq!(rig.rx.take(), Some((ids[3], 72)));
        }
        assert!(rig.is_clean());
    }
}

#[test]
fn a_frame_waits_for_enough_buffers() {
    for ring in RINGS {
        let mut rig = Rig::new(ring | net::MRG_RXBUF);
        rig.cable.send(&frame(1500));
        rig.cable.send(&frame(61));
        rig.rx.offer(&[writable(BUFFERS, 1000)]);
        rig.step();
        assert!(rig.rx.take().is_none());
        assert_eq!(rig.function.net().waiting(), 2);
        rig.rx.offer(&[writable(BUFFERS + 0x1000, 1000)]);
        rig.rx.offer(&[writable(BUFFERS + 0x2000, 1000)]);
        rig.step();
        let lens: Vec<u32> = std::iter::from_fn(|| rig.rx.take()).map(|used| used.1).collect();
        assert_eq!(lens, [1000, 512, 73], "{ring:#x}");
    }
}

#[test]
fn every_loss_has_a_name() {
    let mut rig = Rig::with(Options { mtu: 1500, ..Rig::options() }, net::CTRL_VQ | net::CTRL_RX);
    for _ in 0..300 {
        rig.cable.send(&frame(60));
    }
    for _ in 0..8 {
        rig.step();
    }
    assert_eq!(rig.function.net().drops().rx_no_buffer, 300 - 256);
    rig.cable.send(&frame(1600));
    rig.cable.to_host.push_back((frame(60), crate::FrameError::Crc));
    rig.cable.to_host.push_back((frame(59), crate::FrameError::Symbol));
    rig.step();
    let drops = *rig.function.net().drops();
    assert_eq!((drops.rx_oversize, drops.rx_crc), (1, 2));
    assert_eq!(rig.function.net().totals().rx_offered, 303);
    assert_eq!(drops.rx() + rig.function.net().waiting() as u64, 303);
    rig.write8(common::DEVICE_STATUS, 0);
    assert_eq!(rig.function.net().drops().rx_reset, 256);
}

#[test]
fn without_merging_a_buffer_is_long_enough_or_the_packet_lost() {
    for ring in [0, feature::RING_PACKED] {
        let mut rig = Rig::new(ring);
        // Header and frame in descriptors of their own, as drivers did once.
        let id = rig.rx.offer(&[writable(BUFFERS, 12), writable(BUFFERS + 0x100, 1000)]);
        rig.cable.send(&frame(1200));
        rig.cable.send(&frame(900));
        rig.step();
        assert_eq!(rig.rx.take(), Some((id, 912)));
        assert_eq!(rig.memory.bytes(BUFFERS + 0x100, 900), frame(900));
        assert_eq!(rig.function.net().drops().rx_buffer_too_small, 1);
        assert_eq!(rig.count(Rule::RxBufferShort), 1);
    }
}

#[test]
fn checksums_are_checked_when_the_driver_wants() {
    let udp = |sum: u16| {
        let mut frame = frame(60);
        frame[12..14].copy_from_slice(&[8, 0]);
        frame[14..34].copy_from_slice(&[0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        frame[34..42].copy_from_slice(&[0, 1, 0, 2, 0, 26, 0, 0]);
        let covered = [&frame[26..34], &[0, 17, 0, 26][..], &frame[34..60]].concat();
        let right = wire::checksum::of(&covered);
        let sum = if sum == 0 { 0 } else { right ^ (sum - 1) };
        frame[40..42].copy_from_slice(&sum.to_be_bytes());
        frame
    };
    for (features, frame, flag) in [
        (net::GUEST_CSUM, udp(1), 2),
        (net::GUEST_CSUM, udp(2), 0),
        (net::GUEST_CSUM, udp(0), 0),
        (0, udp(1), 0),
    ] {
        let mut rig = Rig::new(features);
        rig.rx.offer(&[writable(BUFFERS, 2048)]);
        rig.cable.send(&frame);
        rig.step();
        assert_eq!(rig.memory.bytes(BUFFERS, 1), [flag]);
        assert_eq!(rig.memory.bytes(BUFFERS + 12, 60), frame);
    }
}
