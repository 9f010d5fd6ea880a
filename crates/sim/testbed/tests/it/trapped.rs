//! A device that lets nobody map its registers: slower, and exactly as the datasheet has it.

use port::{Options, RxQueue as _, TxQueue as _};
use std::sync::Arc;

use driver::ixgbe::Ixgbe;
use memory::{Batch, Dma, Pool};
use regs::ixgbe::{QPRC, QPTC_ALIAS};
use testbed::inprocess::{InProcess, while_stepping};
use testbed::ixgbe;
use testbed::wire::{Plug, plug};

/// Receives 20 frames and sends them back; then the counters of queue 0, twice.
fn counted(trapped: bool) -> [[u32; 2]; 2] {
    let mac = ixgbe::mac(0);
    let spec = "gen:count=20+sink:check".parse().unwrap();
    let cable = plug(&[Plug { spec, mac }], &Arc::default()).unwrap().pop().unwrap();
    let mut device = ixgbe::open(&ixgbe::Options::with_mac(mac), cable).unwrap();
    if trapped {
        device.trap_all();
    }
    let (pci, handle) = InProcess::new(device);
    let dma = Dma::new(Default::default());
    let mut pool = Pool::new(&dma, 1024).unwrap();
    let handles = [handle];
    let open = || Ixgbe::open(pci.clone(), &dma, Options::default()).unwrap().split();
    let (_device, mut rx, mut tx) = while_stepping(&handles, open).unwrap();
    let (mut batch, mut sent) = (Batch::default(), 0);
    for _ in 0..1000 {
        rx[0].recv(&mut pool, &mut batch);
        sent += tx[0].send(&mut pool, &mut batch);
        handles[0].step_now();
    }
    assert_eq!(sent, 20);
    // Where the pages are polled, they show what the model found at its last look.
    for _ in 0..1000 {
        handles[0].step_now();
    }
    let bar = pci.bar(0).unwrap();
    let read = || [QPRC::at(0), QPTC_ALIAS::at(0)].map(|offset| bar.read32(offset));
    [read(), read()]
}

#[test]
fn counters_of_queues_clear_when_they_are_read() {
    assert_eq!(counted(true), [[20, 20], [0, 0]]);
}

#[test]
fn where_they_are_mapped_they_cannot() {
    let [first, second] = counted(false);
    assert_eq!(first, second);
    assert_eq!(first, [20, 20]);
}
