//! The minimal device under the 82599 driver: what is sent and received agrees.

#[path = "common/limit.rs"]
mod limit;

use driver::ixgbe::Ixgbe;
use limit::Limit;
use memory::{Batch, Dma, Pool};
use port::{Options, Port as _, RxQueue as _, TxQueue as _};
use testbed::inprocess::{self, InProcess};
use testbed::wire::Cable;

#[test]
fn counts_agree_on_both_sides() {
    let cable = Cable::open(&"sink".parse().expect("a wire")).expect("a cable");
    let device = testbed::minimal::open([2, 0, 0, 0, 0, 9], vec![], cable).expect("a device");
    let (pci, handle) = InProcess::new(device);
    let dma = Dma::new(memory::Options::default());
    let options = Options { rx_ring: 64, tx_ring: 64, link_wait_ms: 0, ..Options::default() };
    let opened = inprocess::while_stepping(std::slice::from_ref(&handle), || Ixgbe::open(pci, &dma, options));
    let (port, mut rx, mut tx) = opened.expect("a thread").expect("it comes up").split();
    assert_eq!(port.mac(), [2, 0, 0, 0, 0, 9]);
    let mut pool = Pool::new(&dma, 512).expect("memory");
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
    drop((port, rx, tx));
    assert_eq!(pool.available(), pool.capacity());
}
