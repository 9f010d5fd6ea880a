//! Who owns a descriptor, and what one says: written before the doorbell that
//! gives it away and never after, and no packet when the device reports an error.

use port::{Completion, Options, RxQueue as _, TxQueue as _};
use std::time::{Duration, Instant};

use crate::common::broken::{Broken, Faults};
use crate::common::frames::{self, Sums, payload};
use crate::common::synchronous::synchronous;
use crate::common::{Bench, contents, devices};
use driver::ixgbe::Ixgbe;
use memory::{Batch, Dma, Pool, TxOffload};
use regs::ixgbe::TXDCTL;
use testbed::fault::Spec;
use testbed::inprocess::{InProcess, while_stepping};
use testbed::ixgbe;
use testbed::wire::{Plug, plug};

/// Small rings, so that they are lapped.
fn options(completion: Completion) -> Options {
    Options { completion, rx_ring: 64, tx_ring: 64, ..Options::default() }
}

#[test]
fn descriptors_are_written_before_their_doorbell() {
    for completion in [Completion::Report, Completion::Head] {
        let (pcis, handles) = devices(&["pair", "pair"]);
        let driven = pcis.iter().zip(&handles).map(|(pci, handle)| synchronous(pci.clone(), handle));
        let mut bench = Bench::over((driven.collect(), handles), &options(completion), 1024);
        for round in 0..300 {
            let sent: Vec<_> =
                (0..round % 5).map(|n| frames::udp4(&payload(30 + round + n), Sums::Full)).collect();
            let mut batch = Batch::default();
            sent.iter().for_each(|frame| _ = batch.push(bench.packet(frame, TxOffload::default())));
            bench.sides[0].tx[0].send(&mut bench.pool, &mut batch);
            bench.run_until_idle();
            let Bench { sides, pool, .. } = &mut bench;
            assert_eq!(sides[0].tx[0].clean(pool), 0, "round {round}: each was sent and reported");
            let received: Vec<_> = bench.recv(1).iter().map(contents).collect();
            assert_eq!(received, sent, "round {round}");
        }
        bench.finish();
    }
}

#[test]
fn a_ring_that_ran_dry_is_filled_before_its_doorbell() {
    let (pcis, handles) = devices(&["gen:flows=3,count=5000+sink", "sink"]);
    let driven = pcis.iter().zip(&handles).map(|(pci, handle)| synchronous(pci.clone(), handle)).collect();
    let mut bench = Bench::over((driven, handles), &options(Completion::Report), 1024);
    let mut received = 0;
    // Frames wait: the doorbell is rung, and they are in the buffers.
    for _ in 0..500 {
        bench.run_until_idle();
        received += bench.recv(0).len();
    }
    assert_eq!(received, 5000);
    bench.finish();
}

#[test]
fn a_short_frame_is_padded() {
    let mut bench = Bench::pair(&Options::default());
    for len in [17, 40, 59] {
        let padded = [payload(len), vec![0; 60 - len]].concat();
        assert_eq!(bench.cross_one(&payload(len), TxOffload::default()), padded);
    }
    bench.finish();
}

#[test]
fn a_transmit_queue_that_never_stops_keeps_its_buffers_for_good() {
    let (mut pcis, handles) = devices(&["loop"]);
    let (pci, faults) = Broken::new(pcis.remove(0), Faults::default());
    let dma = Dma::new(Default::default());
    let mut pool = Pool::new(&dma, 256).unwrap();
    let opened = while_stepping(&handles, || Ixgbe::open(pci, &dma, Options::default())).unwrap();
    let (port, rx, mut tx) = opened.unwrap().split();
    let mut batch = Batch::default();
    let mut packet = pool.alloc().unwrap();
    packet.copy_from(&frames::udp4(&payload(100), Sums::Full)).unwrap();
    batch.push(packet);
    tx[0].send(&mut pool, &mut batch);
    faults.lock().unwrap().stuck = vec![(TXDCTL::at(0), TXDCTL::ENABLE, TXDCTL::ENABLE)];
    let begin = Instant::now();
    while_stepping(&handles, || drop((tx, rx, port))).unwrap();
    assert!(begin.elapsed() < Duration::from_secs(5));
    assert_eq!(pool.available(), pool.capacity() - 1, "the device may still read the buffer");
}

/// Bit 29 of the second word, RXE (7.1.6.2): the MAC saw an error.
const RXE: u32 = 1 << 29;

#[test]
fn a_frame_with_an_error_is_dropped_and_counted() {
    let fault: Spec = "garbage=0.5,seed=7".parse().unwrap();
    let plug_of = |n| Plug { spec: "gen:count=4000+sink".parse().unwrap(), mac: ixgbe::mac(n) };
    let cable = plug(&[plug_of(0)], &Default::default()).unwrap().remove(0);
    let device = ixgbe::Options { fault: Some(fault), ..ixgbe::Options::with_mac(ixgbe::mac(0)) };
    let (pci, handle) = InProcess::new(ixgbe::open(&device, cable).unwrap());
    let mut bench = Bench::over((vec![pci], vec![handle]), &Options::default(), 4096);
    let mut received = 0;
    for _ in 0..500 {
        bench.handles[0].step_now();
        let packets = bench.recv(0);
        assert!(packets.iter().all(|packet| packet.rx_flags().0 & RXE == 0), "an error is no packet");
        received += packets.len();
    }
    let dropped = bench.sides[0].rx[0].stats().bad_descriptor;
    assert!(received > 500 && dropped > 100, "{received} received, {dropped} dropped");
    bench.meanwhile(|bench| bench.sides.clear());
    assert_eq!(bench.pool.available(), bench.pool.capacity(), "every buffer is back");
}
