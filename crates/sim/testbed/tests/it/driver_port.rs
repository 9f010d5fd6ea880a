//! The driver behind the trait that applications see: what it says of itself
//! is so, and its counters and the model's agree.

use crate::common::devices;
use driver::ixgbe::Ixgbe;
use memory::{Batch, Dma, Pool};
use port::{Feature, Link, Options, Port, RxQueue, Support, TxQueue};
use testbed::inprocess::{Handle, while_stepping};
use testbed::ixgbe;

struct Opened {
    port: Ixgbe,
    rx: Box<dyn RxQueue>,
    tx: Box<dyn TxQueue>,
    handles: Vec<Handle>,
    pool: Pool,
}

fn open(wire: &str, options: &Options) -> Opened {
    let (mut pcis, handles) = devices(&[wire]);
    let dma = Dma::new(Default::default());
    let pool = Pool::new(&dma, 2048).unwrap();
    let open = || Ixgbe::open(pcis.remove(0), &dma, options.clone()).unwrap();
    let mut port = while_stepping(&handles, open).unwrap();
    let (rx, tx) = (port.rx_queue(0).unwrap(), port.tx_queue(0).unwrap());
    Opened { port, rx, tx, handles, pool }
}

impl Opened {
    /// Forwards in step for so many rounds; packets received.
    fn forward(&mut self, rounds: usize) -> u64 {
        let (mut batch, mut received) = (Batch::default(), 0);
        for _ in 0..rounds {
            self.handles[0].step_now();
            received += self.rx.recv(&mut self.pool, &mut batch) as u64;
            self.tx.send(&mut self.pool, &mut batch);
        }
        assert!(batch.is_empty());
        received
    }

    fn close(self) {
        let Opened { port, rx, tx, handles, mut pool } = self;
        while_stepping(&handles, || drop((port, rx, tx))).unwrap();
        assert_eq!(pool.available(), pool.capacity());
        crate::common::sound(&handles[0].report());
    }
}

#[test]
fn a_port_says_what_it_is_and_gives_each_queue_once() {
    let mut opened = open("loop", &Options { interrupts: true, ..Options::default() });
    let port = &mut opened.port;
    let can = port.capabilities();
    assert_eq!((can.driver.as_str(), can.rx_queues, can.tx_queues, can.max_frame), ("ixgbe", 1, 1, 1514));
    for on in [Feature::Interrupts, Feature::VlanInsert, Feature::RxChecksum, Feature::TxChecksum] {
        assert_eq!(can.support(on), Support::On, "{}", on.name());
    }
    for off in [Feature::Rss, Feature::Scatter, Feature::VlanStrip, Feature::HeadWriteback] {
        assert_eq!(can.support(off), Support::Off, "{}", off.name());
    }
    assert_eq!(can.support(Feature::Timestamps), Support::No);
    assert_eq!((port.mac(), port.link()), (ixgbe::mac(0), Link::up(10_000)));
    for taken in [0, 1, usize::MAX] {
        assert!(port.rx_queue(taken).is_none() && port.tx_queue(taken).is_none(), "{taken}");
    }
    assert!(port.health().is_ok());
    opened.close();
}

#[test]
fn driver_device_and_model_count_the_same() {
    let wire = "gen:size=imix,flows=3,count=20000+sink:check+fault:crc=0.01,truncate=0.01";
    let mut opened = open(wire, &Options::default());
    let mut received = 0;
    let mut before = opened.port.stats();
    for _ in 0..20 {
        received += opened.forward(100);
        // Device counters clear when read; what is told never goes back.
        let now = opened.port.stats();
        let grows = before.counters.iter().zip(&now.counters).all(|(old, new)| old.value <= new.value);
        assert!(grows, "{before:?} {now:?}");
        before = now;
    }
    let report = opened.handles[0].report();
    let stats = opened.port.stats();
    let (rx, tx) = (opened.rx.stats(), opened.tx.stats());
    assert_eq!((received, rx.packets, rx.bad_descriptor), (report.counters["rx_packets"], received, 0));
    assert_eq!((stats.rx_packets, stats.tx_packets), (rx.packets, tx.packets));
    // The device counts the CRC, the driver has never seen it.
    assert_eq!((stats.rx_bytes, stats.tx_bytes), (rx.bytes + 4 * rx.packets, tx.bytes + 4 * tx.packets));
    let sizes = ["PRC64", "PRC127", "PRC255", "PRC511", "PRC1023", "PRC1522"];
    assert_eq!(sizes.iter().map(|name| stats.counter(name)).sum::<u64>(), received);
    let losses: u64 = stats.losses().map(|(_, count)| count).sum();
    assert_eq!(losses, report.drops.values().sum::<u64>(), "{:?}", report.drops);
    assert!(stats.counter("CRCERRS") > 100 && stats.counter("RUC") > 10, "{:?}", report.drops);
    assert_eq!(received + losses, 20_000);
    opened.close();
}

#[test]
fn a_stopped_port_receives_nothing_new() {
    let mut opened = open("gen", &Options::default());
    assert!(opened.forward(100) > 1_000);
    let handles = opened.handles.clone();
    while_stepping(&handles, || opened.port.stop().unwrap()).unwrap();
    // What was in the rings before is handed out, and then no more.
    opened.forward(100);
    assert_eq!(opened.forward(100), 0);
    opened.close();
}
