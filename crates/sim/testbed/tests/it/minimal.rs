//! The minimal devices under their drivers: what is sent and received agrees.

use crate::common::limit::Limit;
use bus::Pci;
use driver::i40e::I40e;
use driver::ixgbe::Ixgbe;
use memory::{Batch, Dma, Pool};
use port::{Options, Port, RxQueue, TxQueue};
use testbed::Device;
use testbed::inprocess::{self, Handle, InProcess};
use testbed::wire::Cable;

const MAC: [u8; 6] = [2, 0, 0, 0, 0, 9];

fn cable() -> Cable {
    Cable::open(&"sink".parse().expect("a wire")).expect("a cable")
}

fn options(queues: usize) -> Options {
    let (rx_queues, tx_queues) = (queues, queues);
    Options { rx_ring: 64, tx_ring: 64, rx_queues, tx_queues, link_wait_ms: 0, ..Options::default() }
}

/// Opens the port of a device.
fn open<P>(device: Device, open: impl FnOnce(Pci, &Dma) -> P) -> (P, Handle, Dma) {
    let (pci, handle) = InProcess::new(device);
    let dma = Dma::new(memory::Options::default());
    let opened = inprocess::while_stepping(std::slice::from_ref(&handle), || open(pci, &dma));
    (opened.expect("a thread"), handle, dma)
}

/// Forwards 10,000 packets from a queue to the other of its pair, and closes the port.
fn counts_agree<P: Port, R: RxQueue, T: TxQueue>(
    (port, mut rx, mut tx): (P, Vec<R>, Vec<T>),
    handle: Handle,
    dma: &Dma,
) {
    assert_eq!(port.mac(), MAC);
    let mut pool = Pool::new(dma, 512).expect("memory");
    let mut batch = Batch::with_limit(32);
    let (mut now, mut forwarded) = (1_000_000_000, 0);
    // A round moves up to 32 packets, and the device gives what the ring takes.
    let mut limit = Limit::rounds(50_000, "10,000 packets to be forwarded");
    while forwarded < 10_000 {
        limit.check();
        now += 1000;
        handle.step(now);
        let received = rx[0].recv(&mut pool, &mut batch);
        assert!(batch.iter().all(|packet| packet.len() == 60 && packet[..6] == [0xFF; 6]));
        forwarded += received as u64;
        let mut limit = Limit::rounds(10_000, "room in the transmit ring");
        while !batch.is_empty() {
            limit.check();
            tx[0].send(&mut pool, &mut batch);
            now += 1000;
            handle.step(now);
        }
    }
    let report = handle.report();
    assert_eq!(report.counters["tx_packets"], forwarded);
    assert!(report.counters["rx_packets"] >= forwarded);
    assert!(report.drops.is_empty(), "{report:?}");
    inprocess::while_stepping(std::slice::from_ref(&handle), || drop((port, rx, tx))).expect("a thread");
    assert_eq!(pool.available(), pool.capacity());
}

#[test]
fn counts_agree_on_both_sides() {
    let device = testbed::minimal::open(MAC, vec![], cable()).expect("a device");
    let (port, handle, dma) = open(device, |pci, dma| Ixgbe::open(pci, dma, options(1)));
    counts_agree(port.expect("it comes up").split(), handle, &dma);
}

#[test]
fn counts_agree_on_both_sides_of_an_xl710() {
    let device = testbed::minimal::xl710::open(MAC, vec![], cable()).expect("a device");
    let (port, handle, dma) = open(device, |pci, dma| I40e::open(pci, dma, options(1)));
    counts_agree(port.expect("it comes up").split(), handle, &dma);
}

/// A queue gets packets in the steps of its own pair alone.
fn queues_step_apart<R: RxQueue>(rx: &mut [R], handle: &Handle, dma: &Dma) {
    let mut pool = Pool::new(dma, 1024).expect("memory");
    let mut batch = Batch::with_limit(64);
    let mut limit = Limit::time("both queues to be lent buffers and to be followed");
    // The device looks for queues now and then.
    while handle.step_now() < 2 * 32 {
        limit.check();
        rx.iter_mut().for_each(|queue| _ = queue.recv(&mut pool, &mut batch));
        pool.free_batch(&mut batch);
    }
    for other in [1, 0, 1] {
        let mut limit = Limit::rounds(1000, "the rings to be emptied");
        while rx.iter_mut().map(|queue| queue.recv(&mut pool, &mut batch)).sum::<usize>() > 0 {
            limit.check();
            pool.free_batch(&mut batch);
        }
        assert!(handle.step_queue_now(other) > 0);
        let got: Vec<usize> = rx
            .iter_mut()
            .map(|queue| {
                let got = queue.recv(&mut pool, &mut batch);
                pool.free_batch(&mut batch);
                got
            })
            .collect();
        assert!(got[other] > 0 && got[1 - other] == 0, "{got:?}");
    }
}

#[test]
fn a_pair_of_queues_steps_alone() {
    let device = testbed::minimal::open(MAC, vec![], cable()).expect("a device");
    let (port, handle, dma) = open(device, |pci, dma| Ixgbe::open(pci, dma, options(2)));
    let (_port, mut rx, _tx) = port.expect("it comes up").split();
    queues_step_apart(&mut rx, &handle, &dma);

    let device = testbed::minimal::xl710::open(MAC, vec![], cable()).expect("a device");
    let (port, handle, dma) = open(device, |pci, dma| I40e::open(pci, dma, options(2)));
    let (_port, mut rx, _tx) = port.expect("it comes up").split();
    queues_step_apart(&mut rx, &handle, &dma);
}
