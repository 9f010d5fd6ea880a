//! Rings of our XL710 driver on our XL710 model: who owns a descriptor, what a full ring does,
//! what is never sent, and queues that do not stop.

use crate::common::broken::{Broken, Faults};
use crate::common::frames::{self, Sums, payload};
use crate::common::i40e::{Bench, Side, devices};
use crate::common::synchronous::synchronous;
use crate::common::{contents, run_until_idle};
use memory::{Batch, TxOffload};
use port::{Completion, Options, TxQueue as _};
use regs::i40e::{PFGEN_CTRL, QRX_ENA, QTX_ENA};
use testbed::inprocess::while_stepping;

/// Small rings, so that they are lapped.
fn options(completion: Completion) -> Options {
    Options { completion, rx_ring: 64, tx_ring: 64, ..Options::default() }
}

#[test]
pub fn descriptors_are_written_before_their_doorbell() {
    for completion in [Completion::Report, Completion::Head] {
        let (pcis, handles) = devices(&["pair", "pair"]);
        let driven =
            pcis.iter().zip(&handles).map(|(pci, handle)| synchronous(pci.clone(), handle)).collect();
        let mut bench = Bench::over((driven, handles), &options(completion));
        for round in 0..100 {
            let frame = frames::udp4(&payload(30 + round), Sums::Full);
            assert_eq!(bench.cross_one(&frame, TxOffload::default()), frame, "round {round}");
            let Bench { sides, pool, .. } = &mut bench;
            assert_eq!(sides[0].tx[0].clean(pool), 0, "round {round}: it was sent and reported");
        }
        bench.finish();
    }
}

#[test]
pub fn a_full_ring_leaves_packets_in_the_batch_until_some_are_sent() {
    for completion in [Completion::Report, Completion::Head] {
        let mut bench = Bench::pair(&options(completion));
        let mut batch = Batch::with_limit(100);
        for _ in 0..100 {
            let packet = bench.packet(&payload(60), TxOffload::default());
            batch.push(packet);
        }
        let mut send = |bench: &mut Bench| bench.sides[0].tx[0].send(&mut bench.pool, &mut batch);
        // 63 of 64 descriptors: one stays empty.
        assert_eq!((send(&mut bench), send(&mut bench)), (63, 0), "{completion:?}");
        run_until_idle(&bench.handles);
        assert_eq!((bench.recv(1).len(), send(&mut bench)), (63, 37), "{completion:?}");
        run_until_idle(&bench.handles);
        assert_eq!(bench.recv(1).len(), 37, "{completion:?}");
        bench.finish();
    }
}

#[test]
pub fn chains_of_more_buffers_than_the_chip_takes_are_dropped_and_counted() {
    let mut bench = Bench::pair(&Options::default());
    for (buffers, unsendable) in [(8, 0), (9, 1), (20, 2)] {
        let mut segments = (0..buffers).map(|_| {
            let mut segment = bench.pool.alloc().unwrap();
            segment.copy_from(&payload(60)).unwrap();
            segment
        });
        let mut chain = segments.next().unwrap();
        segments.for_each(|segment| chain.append(segment));
        let mut batch = Batch::default();
        batch.push(chain);
        bench.sides[0].tx[0].send(&mut bench.pool, &mut batch);
        run_until_idle(&bench.handles);
        assert_eq!(bench.recv(1).len(), usize::from(buffers == 8), "{buffers}");
        assert_eq!(bench.sides[0].tx[0].stats().unsendable, unsendable, "{buffers}");
    }
    bench.finish();
}

#[test]
pub fn every_transmit_queue_sends() {
    let mut bench = Bench::pair(&Options { tx_queues: 4, ..Options::default() });
    for queue in 0..4 {
        let frame = frames::udp4(&payload(100 + queue), Sums::Full);
        let mut batch = Batch::default();
        batch.push(bench.packet(&frame, TxOffload::default()));
        bench.sides[0].tx[queue].send(&mut bench.pool, &mut batch);
        run_until_idle(&bench.handles);
        assert_eq!(bench.recv(1).iter().map(contents).collect::<Vec<_>>(), [frame], "{queue}");
    }
    bench.finish();
}

/// A ring that ran dry while frames came goes on when the driver is there again.
#[test]
pub fn a_ring_that_ran_dry_is_filled_again() {
    let mut bench = Bench::pair(&options(Completion::Report));
    let frame = frames::udp4(&payload(60), Sums::Full);
    for round in 0..4 {
        for _ in 0..100 {
            bench.send(0, &frame, TxOffload::default());
            run_until_idle(&bench.handles);
        }
        assert_eq!(bench.recv(1).len(), 63, "round {round}");
    }
    bench.finish();
}

#[test]
pub fn a_queue_that_never_stops_keeps_its_buffers_until_the_device_is_reset() {
    // A ring of 512 descriptors, of which the device owns all but one; and what was sent.
    for (register, kept) in [(QRX_ENA::at(0), 511), (QTX_ENA::at(0), 1)] {
        let (mut pcis, handles) = devices(&["sink"]);
        let (pci, faults) = Broken::new(pcis.remove(0), Faults::default());
        let mut bench = Bench::over((vec![pci], handles.clone()), &Options::default());
        bench.send(0, &payload(60), TxOffload::default());
        faults.lock().unwrap().stuck = vec![(register, QRX_ENA::QENA_STAT, QRX_ENA::QENA_STAT)];
        let Side { device, rx, tx } = bench.sides.remove(0);
        while_stepping(&handles, || drop((rx, tx))).unwrap();
        assert_eq!(bench.pool.available(), bench.pool.capacity() - kept, "{register:#x}");
        while_stepping(&handles, || drop(device)).unwrap();
        assert_eq!(bench.pool.available(), bench.pool.capacity(), "{register:#x}");
    }
}

#[test]
pub fn a_device_that_is_never_reset_keeps_the_buffers_of_such_a_queue_for_good() {
    let (mut pcis, handles) = devices(&["sink"]);
    let (pci, faults) = Broken::new(pcis.remove(0), Faults::default());
    let mut bench = Bench::over((vec![pci], handles.clone()), &Options::default());
    bench.send(0, &payload(60), TxOffload::default());
    let stuck = vec![
        (QRX_ENA::at(0), QRX_ENA::QENA_STAT, QRX_ENA::QENA_STAT),
        (PFGEN_CTRL::AT, PFGEN_CTRL::PFSWR, PFGEN_CTRL::PFSWR),
    ];
    *faults.lock().unwrap() = Faults { stuck, no_reset: true, ..Faults::default() };
    let side = bench.sides.remove(0);
    while_stepping(&handles, || drop(side)).unwrap();
    assert_eq!(bench.pool.available(), bench.pool.capacity() - 511);
}
