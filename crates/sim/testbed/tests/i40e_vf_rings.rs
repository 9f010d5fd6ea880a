//! Rings of our driver of the XL710's virtual functions on our model: small ones, heads that are written
//! back, queues that are armed, full rings, and all queues.
#![allow(clippy::unwrap_used)]

mod common;

use common::frames::{self, Sums, payload};
use common::hasty::hasty;
use common::i40e_vf::{Pair, models, pair};
use common::vf::{options, receive, send};
use common::{contents, run_until_idle};
use memory::{Batch, TxOffload};
use port::{Completion, Options, TxQueue as _};

/// Small rings, so that they are lapped.
fn small() -> Options {
    Options { rx_ring: 64, tx_ring: 64, ..options() }
}

/// Frames from one virtual function to another, one after the other.
fn laps(options: &Options) {
    pair(models(2), options).laps();
}

#[test]
fn many_frames_go_round_small_rings() {
    laps(&small());
}

#[test]
fn heads_that_are_written_back_free_what_was_sent() {
    laps(&Options { completion: Completion::Head, ..small() });
}

#[test]
fn queues_that_are_armed_break_no_rule() {
    laps(&Options { interrupts: true, rx_queues: 2, ..small() });
}

#[test]
fn a_device_that_acts_at_once_finds_all_in_order() {
    let (mut pcis, handles) = models(2);
    for (pci, handle) in pcis.iter_mut().zip(&handles).skip(1) {
        *pci = hasty(pci.clone(), handle);
    }
    pair((pcis, handles), &small()).laps();
}

#[test]
fn bursts_are_sent_and_freed() {
    pair(models(2), &small()).bursts();
}

#[test]
fn a_full_ring_leaves_packets_in_the_batch_until_some_are_sent() {
    let mut pair = pair(models(2), &small());
    let mut batch = Batch::with_limit(100);
    for _ in 0..100 {
        let packet = pair.packet(&frames::udp4(&payload(60), Sums::Full), TxOffload::default());
        batch.push(packet);
    }
    let mut send = |pair: &mut Pair| pair.sides[0].tx[0].send(&mut pair.pool, &mut batch);
    // 63 of 64 descriptors: one stays empty.
    assert_eq!((send(&mut pair), send(&mut pair)), (63, 0));
    run_until_idle(&pair.handles);
    assert_eq!(send(&mut pair), 37);
    run_until_idle(&pair.handles);
    receive(&mut pair.sides[1].rx, &mut pair.pool);
    pair.finish();
}

#[test]
fn every_queue_sends_and_receives() {
    let mut pair = pair(models(2), &Options { rx_queues: 4, tx_queues: 4, interrupts: true, ..small() });
    let mut used = [0; 4];
    for n in 0..64u8 {
        let mut frame = frames::udp4(&payload(100), Sums::Full);
        frame[29] = n; // the address
        send(&mut pair.sides[0].tx[usize::from(n) % 4], &mut pair.pool, &frame, TxOffload::default());
        run_until_idle(&pair.handles);
        let got = receive(&mut pair.sides[1].rx, &mut pair.pool);
        assert_eq!(got.iter().map(|(_, packet)| contents(packet)).collect::<Vec<_>>(), [frame], "{n}");
        got.iter().for_each(|(queue, _)| used[*queue] += 1);
    }
    assert!(used.iter().all(|count| *count > 5), "{used:?}");
    pair.finish();
}
