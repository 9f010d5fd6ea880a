//! Frames of several buffers, in and out, and what is too long.

use crate::common::frames::{self, Sums, is_right, payload};
use crate::common::limit::Limit;
use crate::common::{Bench, contents};
use memory::{Checksum, DATA_ROOM, TxOffload};
use port::{Options, Reason, RxQueue as _, TxQueue as _};
use regs::ixgbe::{HLREG0, MAXFRS};

fn jumbo() -> Options {
    Options { max_frame: 9000, ..Options::default() }
}

#[test]
fn jumbo_frames_cross_in_as_many_buffers_as_they_take() {
    let mut bench = Bench::pair(&jumbo());
    for len in [60, 1514, DATA_ROOM, DATA_ROOM + 1, 2 * DATA_ROOM, 2 * DATA_ROOM + 1, 8999, 9000] {
        let frame = frames::udp4(&payload(len - 42), Sums::Full);
        let frame = &frame[..len];
        let packets = bench.cross(frame, TxOffload::default());
        let [packet] = &packets[..] else { panic!("{len} bytes: {} packets", packets.len()) };
        assert_eq!(contents(packet), frame);
        assert_eq!((packet.total_len(), packet.segments().count()), (len, len.div_ceil(DATA_ROOM)));
        assert_eq!(packet.l4_checksum(), Checksum::Good, "the last buffer's checksum status holds for all");
    }
    let (rx, tx) = (bench.sides[1].rx[0].stats(), bench.sides[0].tx[0].stats());
    assert_eq!((rx.packets, rx.bytes, rx.bad_descriptor), (tx.packets, tx.bytes, 0));
    bench.finish();
}

#[test]
fn a_tagged_jumbo_is_not_too_long() {
    let mut bench = Bench::pair(&Options { vlan_strip: true, ..jumbo() });
    let frame = frames::udp4(&payload(9000 - 42), Sums::Full);
    let packets = bench.cross(&frames::tagged(&frame, 77), TxOffload::default());
    assert_eq!((packets.len(), packets[0].vlan()), (1, Some(77)));
    assert_eq!(contents(&packets[0]), frame);
    drop(packets);
    bench.finish();
}

#[test]
fn a_chain_of_odd_segments_is_sent_as_one_frame() {
    let mut bench = Bench::pair(&jumbo());
    let (pseudo, full) =
        (frames::udp4(&payload(3000), Sums::Pseudo), frames::udp4(&payload(3000), Sums::Full));
    for pieces in [[42, 1, 999], [60, 1500, 7], [100, 3, 2000]] {
        let mut rest = &pseudo[..];
        let mut chain = None;
        for len in pieces.into_iter().chain([DATA_ROOM]) {
            let (piece, behind) = rest.split_at(len.min(rest.len()));
            rest = behind;
            let mut segment = bench.pool.alloc().unwrap();
            segment.copy_from(piece).unwrap();
            match &mut chain {
                None => chain = Some(segment),
                Some(first) => memory::Packet::append(first, segment),
            }
        }
        let mut packet = chain.unwrap();
        let sent = pseudo.len() - rest.len();
        assert_eq!((packet.total_len(), packet.segments().count()), (sent, 4));
        if rest.is_empty() {
            let flags = TxOffload::IP_CHECKSUM | TxOffload::UDP_CHECKSUM;
            packet.set_tx_offload(TxOffload {
                flags,
                l2_len: 14,
                l3_len: 20,
                l4_len: 8,
                ..TxOffload::default()
            });
        }
        let mut batch = memory::Batch::default();
        batch.push(packet);
        assert_eq!(bench.sides[0].tx[0].send(&mut bench.pool, &mut batch), 1);
        bench.run_until_idle();
        let packets = bench.recv(1);
        let wanted = if rest.is_empty() { &full } else { &pseudo };
        assert_eq!(contents(&packets[0]), wanted[..sent]);
        assert_eq!(is_right(&contents(&packets[0])), rest.is_empty());
    }
    bench.finish();
}

#[test]
fn chains_with_too_many_or_empty_segments_are_dropped_and_counted() {
    let mut bench = Bench::pair(&jumbo());
    let mut chain = |lens: &[usize]| {
        let mut segments = lens.iter().map(|&len| {
            let mut segment = bench.pool.alloc().unwrap();
            segment.copy_from(&payload(len)).unwrap();
            segment
        });
        let mut first = segments.next().unwrap();
        segments.for_each(|segment| first.append(segment));
        first
    };
    let mut batch = memory::Batch::default();
    let all = [chain(&[60; 39]), chain(&[60, 0, 60]), chain(&[0]), chain(&[2048; 8]), chain(&[60; 38])];
    all.into_iter().for_each(|packet| _ = batch.push(packet));
    assert_eq!(bench.sides[0].tx[0].send(&mut bench.pool, &mut batch), 5);
    bench.run_until_idle();
    let packets = bench.recv(1);
    assert_eq!(packets.iter().map(|packet| packet.total_len()).collect::<Vec<_>>(), [60 * 38]);
    let stats = bench.sides[0].tx[0].stats();
    assert_eq!((stats.packets, stats.unsendable), (1, 4));
    drop(packets);
    bench.finish();
}

#[test]
fn a_frame_longer_than_allowed_is_dropped_and_counted() {
    for (options, longest) in [(Options::default(), 1514), (jumbo(), 9000)] {
        let mut bench = Bench::pair(&options);
        let long = frames::udp4(&payload(longest + 1 - 42), Sums::Full);
        assert_eq!(bench.cross(&long, TxOffload::default()).len(), 0);
        assert_eq!(bench.cross(&long[..longest], TxOffload::default()).len(), 1);
        let counters = bench.sides[1].device.counters();
        let named = |name| counters.iter().find(|counter| counter.name == name).unwrap();
        assert_eq!(
            (named("ROC").value, named("ROC").loss, named("GPRC").value),
            (1, Some(Reason::RxOversize), 1)
        );
        let reports = bench.finish();
        assert_eq!(reports[1].drops["rx_oversize"], 1);
    }
}

#[test]
fn jumbo_traffic_through_a_small_pool_keeps_every_buffer() {
    let options = Options { rx_ring: 64, tx_ring: 64, ..jumbo() };
    let mut bench = Bench::with_pool(&["gen:size=64-9004,count=3000+sink:check"], &options, 160);
    let (mut idle, mut left) = (0, memory::Batch::default());
    let mut limit = Limit::rounds(10_000, "3,000 frames to be forwarded or dropped");
    while idle < 100 {
        limit.check();
        bench.run_until_idle();
        let side = &mut bench.sides[0];
        let got = side.rx[0].recv(&mut bench.pool, &mut left);
        side.tx[0].send(&mut bench.pool, &mut left);
        idle = if got > 0 { 0 } else { idle + 1 };
    }
    assert!(left.is_empty());
    let reports = bench.finish();
    let check = reports[0].wire.check.as_ref().unwrap();
    let lost: u64 = reports[0].drops.values().sum();
    assert_eq!((check.received + lost, check.corrupt, check.reordered), (3000, 0, 0), "{:#?}", reports[0]);
}

#[test]
fn a_device_that_sends_longer_frames_than_it_was_told_is_not_believed() {
    let mut bench = Bench::pair(&Options::default());
    // Behind the driver's back: it has asked for frames of one buffer.
    let bar = bench.pcis[1].bar(0).unwrap();
    bar.write32(MAXFRS::AT, 9004 << MAXFRS::MFS_SHIFT);
    bar.set32(HLREG0::AT, HLREG0::JUMBOEN);
    let (long, short) = (frames::udp4(&payload(6000), Sums::Full), frames::udp4(&payload(600), Sums::Full));
    for n in 1..=200 {
        assert_eq!(bench.cross(&long, TxOffload::default()).len(), 0, "not even its beginning");
        assert_eq!(bench.sides[1].rx[0].stats().bad_descriptor, n);
        assert_eq!(bench.cross_one(&short, TxOffload::default()), short, "the next one is whole");
    }
    bench.meanwhile(|bench| bench.sides.clear());
    assert_eq!(bench.pool.available(), bench.pool.capacity(), "every buffer is back");
}
