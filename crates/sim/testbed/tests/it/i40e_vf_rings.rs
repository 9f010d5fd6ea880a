//! Rings of our driver of the XL710's virtual functions on our model: small ones, heads that are written
//! back, queues that are armed, full rings, and all queues.

use crate::common::frames::{self, Sums, payload};
use crate::common::i40e_vf::{Pair, models, models_on, pair, pair_at};
use crate::common::vf::{expect, receive, ring_tests, send};
use crate::common::{contents, run_until_idle};
use memory::{Batch, TxOffload};
use port::{Options, TxQueue as _};
use testbed::wire::Cable;

ring_tests!(1);

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

/// The port that hosts receives nothing: its ring was given no buffer, and a source that waits for
/// buffers does not wait for those.
#[test]
fn a_source_that_waits_does_not_wait_for_a_host_that_receives_nothing() {
    let wire = format!("gen:size=64,count=40,dst={},hold", wire::MacAddress(frames::TO));
    let mut pair = pair(models_on(&wire, 2), &small());
    pair.handles[0].with_cable(Cable::start_source);
    run_until_idle(&pair.handles);
    assert_eq!(expect(&mut pair.sides[1].rx, &mut pair.pool, 40).len(), 40);
    pair.finish();
}

#[test]
fn what_is_sent_keeps_to_the_rate_by_the_models_clock() {
    // 10 us at 1,000 Mbit/s; limits are in steps of 50 Mbit/s.
    for (rate, frames) in [(200, 200), (275, 250), (1, 50)] {
        let mut pair = pair_at(models(2), &small(), Some(rate));
        let received = pair.received_in_ten_ms();
        assert!((frames - 2..=frames + 2).contains(&received), "{rate} Mbit/s: {received}");
        pair.finish();
    }
    let mut pair = pair(models(2), &small());
    let received = pair.received_in_ten_ms();
    assert!(received > 2_000, "{received} without a limit");
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
