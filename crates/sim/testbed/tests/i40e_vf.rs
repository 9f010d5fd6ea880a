//! Our driver of virtual functions on our model of them, behind our XL710 driver as their host, on our
//! model: bring-up, frames between them, the physical function and the wire, spreading, resets, and what
//! the host refuses. The models are stepped by a thread, the host is polled by another.
#![allow(clippy::unwrap_used)]

mod common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use bus::Pci;
use common::contents;
use common::frames::{self, Sums, ethernet, payload, tagged};
use common::limit::Limit;
use driver::i40e::I40e;
use driver::i40e::host::{Host, Policy};
use driver::iavf::{self, Fault, Iavf};
use memory::{Batch, Dma, Packet, Pool, TxOffload};
use port::{Filters as _, Options, Port as _, RxQueue as _, TxQueue as _};
use testbed::inprocess::{Handle, InProcess, spawn};
use testbed::wire::{Plug, plug};
use testbed::{Idle, Stepper, i40e, ixgbe};

/// A station on the wire, of which nobody here knows.
const OTHER: [u8; 6] = [2, 0xEE, 0, 0, 0, 9];

/// Polls a host until it is dropped.
struct Polling {
    host: Arc<Mutex<Option<Host>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Polling {
    fn of(host: Host) -> Polling {
        let (host, stop) = (Arc::new(Mutex::new(Some(host))), Arc::new(AtomicBool::new(false)));
        let (shared, end) = (host.clone(), stop.clone());
        let thread = thread::spawn(move || {
            while !end.load(Ordering::Relaxed) {
                if let Some(host) = &mut *shared.lock().unwrap() {
                    host.poll().unwrap();
                }
                thread::yield_now();
            }
        });
        Polling { host, stop, thread: Some(thread) }
    }

    fn with<T>(&self, work: impl FnOnce(&mut Host) -> T) -> T {
        work(self.host.lock().unwrap().as_mut().unwrap())
    }
}

impl Drop for Polling {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        if !thread::panicking() {
            ended.unwrap().unwrap();
        }
        self.host.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
    }
}

struct Side<P, R, T> {
    device: P,
    rx: Vec<R>,
    tx: Vec<T>,
}

type PfSide = Side<I40e, driver::i40e::RxQueue, driver::i40e::TxQueue>;
type VfSide = Side<Iavf, iavf::RxQueue, iavf::TxQueue>;

/// Sends one frame.
fn send(queue: &mut impl port::TxQueue, pool: &mut Pool, bytes: &[u8], offload: TxOffload) {
    let mut batch = Batch::default();
    assert!(batch.push(common::virtio::packet(pool, bytes, offload)).is_none());
    assert_eq!(queue.send(pool, &mut batch), 1, "the ring has room");
}

/// What queues have received by now, by queue.
fn receive<R: port::RxQueue>(queues: &mut [R], pool: &mut Pool) -> Vec<(usize, Packet)> {
    let mut packets = Vec::new();
    for (n, queue) in queues.iter_mut().enumerate() {
        let mut batch = Batch::default();
        queue.recv(pool, &mut batch);
        packets.extend(batch.drain().map(|packet| (n, packet)));
    }
    packets
}

/// Receives until `count` packets have come.
fn expect<R: port::RxQueue>(queues: &mut [R], pool: &mut Pool, count: usize) -> Vec<(usize, Vec<u8>)> {
    let mut limit = Limit::time("frames to come");
    let mut got = Vec::new();
    while got.len() < count {
        limit.check();
        got.extend(receive(queues, pool).into_iter().map(|(n, packet)| (n, contents(&packet))));
        thread::yield_now();
    }
    assert_eq!(got.len(), count);
    got
}

/// A card with virtual functions, hosted, and a second card at the other end of the wire.
struct Card {
    pf: Option<PfSide>,
    peer: Option<PfSide>,
    polling: Option<Polling>,
    vfs: Vec<Pci>,
    handles: Vec<Handle>,
    stepper: Option<Stepper>,
    pcis: Vec<Pci>,
    dma: Dma,
    pool: Pool,
}

fn options() -> Options {
    Options { promiscuous: false, ..Options::default() }
}

impl Card {
    fn open(policies: &[Policy]) -> Card {
        let plugs: Vec<Plug> =
            (0..2).map(|n| Plug { spec: "pair".parse().unwrap(), mac: ixgbe::mac(n) }).collect();
        let mut cables = plug(&plugs, &Default::default()).unwrap().into_iter();
        let with_mac = |n| i40e::Options::with_mac(ixgbe::mac(n));
        let (card, vfs) = i40e::open_with_vfs(&with_mac(0), cables.next().unwrap(), policies.len()).unwrap();
        let peer = i40e::open(&with_mac(1), cables.next().unwrap()).unwrap();
        let all = [card, peer].into_iter().chain(vfs).map(InProcess::new);
        let (mut pcis, handles): (Vec<Pci>, Vec<Handle>) = all.unzip();
        let vfs = pcis.split_off(2);
        let stepper = spawn(&handles, None, Idle::Yield).unwrap();
        let dma = Dma::new(Default::default());
        let mut pool = Pool::new(&dma, 8192).unwrap();
        let mut open = |pci: &Pci| {
            let (device, mut rx, tx) = I40e::open(pci.clone(), &dma, options()).unwrap().split();
            receive(&mut rx, &mut pool);
            Side { device, rx, tx }
        };
        let (pf, peer) = (open(&pcis[0]), open(&pcis[1]));
        let polling = Polling::of(Host::new(&pf.device, policies).unwrap());
        Card {
            pf: Some(pf),
            peer: Some(peer),
            polling: Some(polling),
            vfs,
            handles,
            stepper: Some(stepper),
            pcis,
            dma,
            pool,
        }
    }

    fn open_vf(&mut self, n: usize, options: &Options) -> VfSide {
        let (device, mut rx, tx) =
            Iavf::open(self.vfs[n].clone(), &self.dma, options.clone()).unwrap().split();
        receive(&mut rx, &mut self.pool);
        Side { device, rx, tx }
    }

    fn host<T>(&self, work: impl FnOnce(&mut Host) -> T) -> T {
        self.polling.as_ref().unwrap().with(work)
    }

    fn pf(&mut self) -> (&mut PfSide, &mut Pool) {
        (self.pf.as_mut().unwrap(), &mut self.pool)
    }

    fn peer(&mut self) -> (&mut PfSide, &mut Pool) {
        (self.peer.as_mut().unwrap(), &mut self.pool)
    }

    /// Closes all, virtual functions first; nothing is mapped, every buffer is back, and the linter is
    /// content but for `expected`.
    fn finish(mut self, vfs: Vec<VfSide>, expected: &[&str]) {
        drop(vfs);
        self.polling = None;
        (self.pf, self.peer) = (None, None);
        self.stepper.take().unwrap().stop();
        assert_eq!(self.pool.available(), self.pool.capacity(), "every buffer is back");
        for handle in &self.handles {
            let report = handle.report();
            let rules: Vec<_> = report.findings.iter().map(|finding| finding.rule.clone()).collect();
            let unexpected: Vec<_> = rules.iter().filter(|rule| !expected.contains(&rule.as_str())).collect();
            assert!(unexpected.is_empty(), "{report:#?}");
            assert_eq!(report.mapped, (0, 0), "nothing is mapped");
        }
        drop(self.pcis);
    }
}

fn to(destination: [u8; 6], source: [u8; 6], text: &[u8]) -> Vec<u8> {
    let mut frame = ethernet(destination, 0x88B5, &payload(60 + text.len()));
    frame[6..12].copy_from_slice(&source);
    frame[14..14 + text.len()].copy_from_slice(text);
    frame
}

#[test]
fn frames_go_between_virtual_functions_the_port_and_the_wire() {
    let mut card = Card::open(&[Policy::default(); 2]);
    let mut a = card.open_vf(0, &options());
    let mut b = card.open_vf(1, &options());
    let (mac_a, mac_b) = (a.device.mac(), b.device.mac());
    assert_eq!([Some(mac_a), Some(mac_b)], [0, 1].map(|n| card.host(|host| host.mac(n))));
    let (pf, peer) = (ixgbe::mac(0), ixgbe::mac(1));
    let none = TxOffload::default();

    // From one to the other: it does not leave the card.
    let frame = to(mac_b, mac_a, b"a to b");
    send(&mut a.tx[0], &mut card.pool, &frame, none);
    assert_eq!(expect(&mut b.rx, &mut card.pool, 1), [(0, frame)]);
    // To the port and back.
    let frame = to(pf, mac_a, b"a to pf");
    send(&mut a.tx[0], &mut card.pool, &frame, none);
    let (side, pool) = card.pf();
    assert_eq!(expect(&mut side.rx, pool, 1), [(0, frame)]);
    let frame = to(mac_a, pf, b"pf to a");
    send(&mut side.tx[0], pool, &frame, none);
    assert_eq!(expect(&mut a.rx, &mut card.pool, 1), [(0, frame)]);
    // To the wire and back. That the frames before did not go there is seen by this one's being alone.
    let frame = to(peer, mac_b, b"b to wire");
    send(&mut b.tx[0], &mut card.pool, &frame, none);
    let (side, pool) = card.peer();
    assert_eq!(expect(&mut side.rx, pool, 1), [(0, frame)]);
    let frame = to(mac_b, peer, b"wire to b");
    send(&mut side.tx[0], pool, &frame, none);
    assert_eq!(expect(&mut b.rx, &mut card.pool, 1), [(0, frame)]);
    // A broadcast of one comes to all others, and to the wire.
    let frame = to([0xFF; 6], mac_a, b"to all");
    send(&mut a.tx[0], &mut card.pool, &frame, none);
    assert_eq!(expect(&mut b.rx, &mut card.pool, 1), [(0, frame.clone())]);
    let (side, pool) = card.pf();
    assert_eq!(expect(&mut side.rx, pool, 1), [(0, frame.clone())]);
    let (side, pool) = card.peer();
    assert_eq!(expect(&mut side.rx, pool, 1), [(0, frame)]);
    assert!(receive(&mut a.rx, &mut card.pool).is_empty(), "it does not come back");

    let stats = a.device.stats();
    assert_eq!((stats.rx_packets, stats.tx_packets), (1, 3));
    assert_eq!((stats.counter("BPTC"), stats.counter("UPRC")), (1, 1));
    assert_eq!(a.device.link(), port::Link::up(40_000));
    card.finish(vec![a, b], &[]);
}
