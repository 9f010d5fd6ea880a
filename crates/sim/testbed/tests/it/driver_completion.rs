//! How sent packets are reported, and what a full ring leaves behind.

use crate::common::frames::{self, Sums, payload};
use crate::common::{Bench, contents};
use memory::{Batch, TxOffload};
use port::{Completion, Options, TxQueue as _};

const BOTH: [Completion; 2] = [Completion::Report, Completion::Head];

fn options(completion: Completion) -> Options {
    Options { completion, tx_ring: 64, ..Options::default() }
}

/// Everything a side sends, of all kinds, and what came: bytes and counters.
fn exchange(completion: Completion) -> (Vec<Vec<u8>>, port::TxStats) {
    let mut bench = Bench::pair(&options(completion));
    let checksums = TxOffload::IP_CHECKSUM | TxOffload::UDP_CHECKSUM;
    let mut received = Vec::new();
    for round in 0..300 {
        let flags = if round % 3 == 0 { checksums } else { 0 };
        let sums = if flags != 0 { Sums::Pseudo } else { Sums::Full };
        let offload = TxOffload { flags, l2_len: 14, l3_len: 20, l4_len: 8, ..TxOffload::default() };
        for n in 0..round % 7 {
            bench.send(0, &frames::udp4(&payload(20 + round + n), sums), offload);
        }
        bench.run_until_idle();
        received.extend(bench.recv(1).iter().map(contents));
    }
    let stats = bench.sides[0].tx[0].stats();
    bench.finish();
    (received, stats)
}

#[test]
fn head_write_back_gives_the_same_results_as_reports() {
    let (reports, head) = (exchange(Completion::Report), exchange(Completion::Head));
    assert_eq!(reports.0.len(), 897);
    assert!(reports.0.iter().all(|frame| frames::is_right(frame)));
    assert!(reports == head);
}

/// A batch of frames, numbered in their last two bytes.
fn numbered(bench: &mut Bench, numbers: std::ops::Range<u16>) -> Batch {
    let mut batch = Batch::with_limit(Batch::MAX);
    for n in numbers {
        let packet = bench.packet(&[&payload(58)[..], &n.to_be_bytes()].concat(), TxOffload::default());
        assert!(batch.push(packet).is_none());
    }
    batch
}

fn numbers<'a>(packets: impl IntoIterator<Item = &'a memory::Packet>) -> Vec<u16> {
    packets.into_iter().map(|packet| u16::from_be_bytes([packet[58], packet[59]])).collect()
}

#[test]
fn a_full_ring_leaves_packets_in_the_batch_in_order() {
    for completion in BOTH {
        let mut bench = Bench::pair(&options(completion));
        let mut batch = numbered(&mut bench, 0..200);
        let mut arrived = Vec::new();
        let mut sent = 0;
        while !batch.is_empty() {
            let Bench { sides, pool, .. } = &mut bench;
            // 63 of 64 descriptors: one stays empty.
            let taken = sides[0].tx[0].send(pool, &mut batch);
            assert_eq!(taken, 63.min(200 - sent));
            sent += taken;
            assert_eq!(numbers(&batch[..]), (sent as u16..200).collect::<Vec<_>>());
            assert_eq!(sides[0].tx[0].send(pool, &mut batch), 0, "{completion:?}: still full");
            bench.run_until_idle();
            arrived.extend(numbers(&bench.recv(1)));
        }
        assert_eq!(arrived, (0..200).collect::<Vec<_>>());
        let stats = bench.sides[0].tx[0].stats();
        assert_eq!((stats.packets, stats.bytes, stats.unsendable), (200, 200 * 60, 0));
        assert_eq!(stats.ring_full, 2 * (137 + 74 + 11));
        bench.finish();
    }
}

#[test]
fn a_context_and_its_packet_go_in_together_or_not_at_all() {
    for completion in BOTH {
        let mut bench = Bench::pair(&options(completion));
        let mut batch = numbered(&mut bench, 0..62);
        let with_context = TxOffload { flags: TxOffload::VLAN, l2_len: 14, vlan: 1, ..TxOffload::default() };
        batch.push(bench.packet(&payload(60), with_context));
        let Bench { sides, pool, .. } = &mut bench;
        assert_eq!(sides[0].tx[0].send(pool, &mut batch), 62);
        assert_eq!(batch.len(), 1, "one descriptor is left, two are needed");
        bench.run_until_idle();
        assert_eq!(bench.recv(1).len(), 62);
        let Bench { sides, pool, .. } = &mut bench;
        assert_eq!(sides[0].tx[0].send(pool, &mut batch), 1);
        bench.run_until_idle();
        assert_eq!(contents(&bench.recv(1)[0]), frames::tagged(&payload(60), 1));
        bench.finish();
    }
}

#[test]
fn single_packets_are_cleaned_and_none_stays_behind() {
    for completion in BOTH {
        let mut bench = Bench::pair(&options(completion));
        let free = bench.pool.available();
        for _ in 0..1000 {
            let mut batch = numbered(&mut bench, 0..1);
            let Bench { sides, pool, .. } = &mut bench;
            assert_eq!(sides[0].tx[0].send(pool, &mut batch), 1);
            assert_eq!(sides[0].tx[0].clean(pool), 1, "not sent yet");
            bench.run_until_idle();
            let Bench { sides, pool, .. } = &mut bench;
            assert_eq!(sides[0].tx[0].clean(pool), 0, "{completion:?}: sent and returned");
            assert_eq!(bench.recv(1).len(), 1);
        }
        // The receiver refills in portions, so it may be short of some.
        assert!(bench.pool.available() - free < 32);
        bench.finish();
    }
}

#[test]
fn buffers_of_another_pool_go_back_to_it() {
    let mut bench = Bench::pair(&Options::default());
    let mut other = memory::Pool::new(&bench.dma, 64).unwrap();
    for round in 0..5 {
        let mut batch = Batch::with_limit(64);
        assert_eq!(other.alloc_batch(&mut batch, 64), 64);
        batch.iter_mut().for_each(|packet| packet.copy_from(&payload(60 + round)).unwrap());
        let Bench { sides, pool, .. } = &mut bench;
        assert_eq!(sides[0].tx[0].send(pool, &mut batch), 64);
        bench.run_until_idle();
        assert_eq!(bench.recv(1).len(), 64);
        let Bench { sides, pool, .. } = &mut bench;
        sides[0].tx[0].clean(pool);
        assert_eq!(other.available(), 64);
    }
    bench.finish();
}
