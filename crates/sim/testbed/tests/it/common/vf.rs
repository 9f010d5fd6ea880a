//! A card with virtual functions, hosted by our driver, and a second card at the other end of the wire:
//! the models are stepped by a thread, the host is polled by another.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use bus::Pci;
use driver::i40e::I40e;
use driver::i40e::host::{Host, Policy};
use driver::iavf::{self, Iavf};
use driver::vf_host::Hosting;
use memory::{Batch, Dma, Packet, Pool, TxOffload};
use port::{Options, Port as _};
use testbed::inprocess::{Handle, InProcess, spawn, while_stepping};
use testbed::wire::{Plug, plug};
use testbed::{Idle, Stepper, i40e, ixgbe};

use super::frames::{self, Sums, ethernet, payload};
use super::i40e::model;
use super::limit::Limit;
use super::{contents, run_until_idle};

/// Polls a host until it is dropped.
pub struct Polling<H = Host> {
    pub host: Arc<Mutex<Option<H>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl<H: Hosting + Send + 'static> Polling<H> {
    pub fn of(host: H) -> Polling<H> {
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

    pub fn with<T>(&self, work: impl FnOnce(&mut H) -> T) -> T {
        work(self.host.lock().unwrap().as_mut().unwrap())
    }
}

impl<H> Drop for Polling<H> {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        if !thread::panicking() {
            ended.unwrap().unwrap();
        }
        self.host.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
    }
}

pub struct Side<P, R, T> {
    pub device: P,
    pub rx: Vec<R>,
    pub tx: Vec<T>,
}

pub type PfSide = Side<I40e, driver::i40e::RxQueue, driver::i40e::TxQueue>;
pub type VfSide = Side<Iavf, iavf::RxQueue, iavf::TxQueue>;

/// Sends one frame.
pub fn send(queue: &mut impl port::TxQueue, pool: &mut Pool, bytes: &[u8], offload: TxOffload) {
    let mut batch = Batch::default();
    assert!(batch.push(super::virtio::packet(pool, bytes, offload)).is_none());
    assert_eq!(queue.send(pool, &mut batch), 1, "the ring has room");
}

/// What queues have received by now, by queue.
pub fn receive<R: port::RxQueue>(queues: &mut [R], pool: &mut Pool) -> Vec<(usize, Packet)> {
    let mut packets = Vec::new();
    for (n, queue) in queues.iter_mut().enumerate() {
        let mut batch = Batch::default();
        queue.recv(pool, &mut batch);
        packets.extend(batch.drain().map(|packet| (n, packet)));
    }
    packets
}

/// Receives until `count` packets have come.
pub fn expect<R: port::RxQueue>(queues: &mut [R], pool: &mut Pool, count: usize) -> Vec<(usize, Vec<u8>)> {
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
pub struct Card {
    pub pf: Option<PfSide>,
    pub peer: Option<PfSide>,
    pub polling: Option<Polling>,
    pub vfs: Vec<Pci>,
    pub handles: Vec<Handle>,
    stepper: Option<Stepper>,
    /// Those of both cards.
    pub pcis: Vec<Pci>,
    pub dma: Dma,
    pub pool: Pool,
}

pub fn options() -> Options {
    Options { promiscuous: false, ..Options::default() }
}

impl Card {
    pub fn open(policies: &[Policy]) -> Card {
        Card::on(["pair"; 2], policies)
    }

    pub fn on(wires: [&str; 2], policies: &[Policy]) -> Card {
        Card::with(wires, policies, 0, |pci| pci)
    }

    /// A card whose first virtual function has this number, and whose host's driver meets it through
    /// `front`.
    pub fn with(
        wires: [&str; 2],
        policies: &[Policy],
        first_vf: u16,
        front: impl FnOnce(Pci) -> Pci,
    ) -> Card {
        let plug_of = |(n, wire): (u8, &str)| Plug { spec: wire.parse().unwrap(), mac: ixgbe::mac(n) };
        let plugs: Vec<Plug> = (0..).zip(wires).map(plug_of).collect();
        let mut cables = plug(&plugs, &Default::default()).unwrap().into_iter();
        let first = i40e::Options { first_vf, ..model(0) };
        let (card, vfs) = i40e::open_with_vfs(&first, cables.next().unwrap(), policies.len()).unwrap();
        let peer = i40e::open(&model(1), cables.next().unwrap()).unwrap();
        let all = [card, peer].into_iter().chain(vfs).map(InProcess::new);
        let (mut pcis, handles): (Vec<Pci>, Vec<Handle>) = all.unzip();
        let vfs = pcis.split_off(2);
        pcis[0] = front(pcis[0].clone());
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

    pub fn open_vf(&mut self, n: usize, options: &Options) -> VfSide {
        let (device, mut rx, tx) =
            Iavf::open(self.vfs[n].clone(), &self.dma, options.clone()).unwrap().split();
        receive(&mut rx, &mut self.pool);
        Side { device, rx, tx }
    }

    pub fn host<T>(&self, work: impl FnOnce(&mut Host) -> T) -> T {
        self.polling.as_ref().unwrap().with(work)
    }

    pub fn pf(&mut self) -> (&mut PfSide, &mut Pool) {
        (self.pf.as_mut().unwrap(), &mut self.pool)
    }

    pub fn peer(&mut self) -> (&mut PfSide, &mut Pool) {
        (self.peer.as_mut().unwrap(), &mut self.pool)
    }

    /// Frames go from one virtual function to the wire still.
    pub fn works_on(&mut self, vf: &mut VfSide) {
        let frame = to(ixgbe::mac(1), vf.device.mac(), b"works on");
        send(&mut vf.tx[0], &mut self.pool, &frame, TxOffload::default());
        let (side, pool) = self.peer();
        assert_eq!(expect(&mut side.rx, pool, 1), [(0, frame)]);
    }

    /// Closes all, virtual functions first; nothing is mapped, every buffer is back, and the linter is
    /// content but for `expected`.
    pub fn finish(mut self, vfs: Vec<VfSide>, expected: &[&str]) {
        drop(vfs);
        self.vfs.clear();
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

pub fn to(destination: [u8; 6], source: [u8; 6], text: &[u8]) -> Vec<u8> {
    let mut frame = ethernet(destination, 0x88B5, &payload(60 + text.len()));
    frame[6..12].copy_from_slice(&source);
    frame[14..14 + text.len()].copy_from_slice(text);
    frame
}

/// A virtual function of a pair. The host goes with the last of them.
pub struct Member<P, R, T, H> {
    pub device: P,
    pub rx: Vec<R>,
    pub tx: Vec<T>,
    pub host: Arc<H>,
}

/// Two virtual functions of one card, which send to each other, stepped by hand.
pub struct Pair<P, R, T, H> {
    pub sides: Vec<Member<P, R, T, H>>,
    pub handles: Vec<Handle>,
    pub pool: Pool,
}

impl<P, R: port::RxQueue, T: port::TxQueue, H> Pair<P, R, T, H> {
    /// Of what `open` opens.
    pub fn of(
        handles: Vec<Handle>,
        open: impl FnOnce(&Dma, &mut Pool) -> Vec<Member<P, R, T, H>>,
    ) -> Pair<P, R, T, H> {
        let dma = Dma::new(Default::default());
        let mut pool = Pool::new(&dma, 4096).unwrap();
        let sides = while_stepping(&handles, || open(&dma, &mut pool)).unwrap();
        Pair { sides, handles, pool }
    }

    pub fn packet(&mut self, bytes: &[u8], offload: TxOffload) -> Packet {
        super::virtio::packet(&mut self.pool, bytes, offload)
    }

    /// More frames than small rings have descriptors, one after the other, from one to the other; closes
    /// both then.
    pub fn laps(mut self) {
        for n in 0..100 {
            let frame = frames::udp4(&payload(60 + n), Sums::Full);
            // Armed, if it was opened with interrupts.
            self.sides[1].rx.iter_mut().for_each(|queue| _ = queue.arm());
            send(&mut self.sides[0].tx[0], &mut self.pool, &frame, TxOffload::default());
            run_until_idle(&self.handles);
            self.sides[1].rx.iter_mut().for_each(|queue| queue.disarm());
            let got = receive(&mut self.sides[1].rx, &mut self.pool);
            assert_eq!(got.iter().map(|(_, packet)| contents(packet)).collect::<Vec<_>>(), [frame], "{n}");
            assert_eq!(self.sides[0].tx[0].clean(&mut self.pool), 0, "{n}: it was sent and freed");
        }
        self.finish();
    }

    /// Bursts of 40 frames; closes both then.
    pub fn bursts(mut self) {
        for _ in 0..4 {
            let mut batch = Batch::with_limit(40);
            for n in 0..40 {
                let packet = self.packet(&frames::udp4(&payload(60 + n), Sums::Full), TxOffload::default());
                batch.push(packet);
            }
            assert_eq!(self.sides[0].tx[0].send(&mut self.pool, &mut batch), 40);
            run_until_idle(&self.handles);
            assert_eq!(self.sides[0].tx[0].clean(&mut self.pool), 0, "all were sent");
            let mut got = 0;
            while got < 40 {
                let some = receive(&mut self.sides[1].rx, &mut self.pool).len();
                assert!(some > 0, "{got} of 40 came");
                got += some;
            }
        }
        self.finish();
    }

    /// Frames of 1,250 bytes, with all that they take on the wire, that one receives within 10 ms of the
    /// models' time while the other sends as many as it can from each of its queues.
    pub fn received_in_ten_ms(&mut self) -> usize {
        let frame = frames::udp4(&payload(1184), Sums::Full);
        assert_eq!(frame.len(), 1226);
        let mut batch = Batch::with_limit(32);
        let mut received = 0;
        // Later than any clock by which they were stepped before.
        for now_ns in (1_000_000_000_000..1_000_010_000_000).step_by(1000) {
            for queue in 0..self.sides[0].tx.len() {
                while batch.len() < 32 {
                    let packet = self.packet(&frame, TxOffload::default());
                    batch.push(packet);
                }
                self.sides[0].tx[queue].send(&mut self.pool, &mut batch);
            }
            self.handles.iter().for_each(|handle| _ = handle.step(now_ns));
            received += receive(&mut self.sides[1].rx, &mut self.pool).len();
        }
        self.pool.free_batch(&mut batch);
        self.receive_the_rest();
        received
    }

    /// Takes what is still under way, however long that is at a rate: a frame that comes to a queue
    /// which was closed is a finding.
    fn receive_the_rest(&mut self) {
        let mut quiet = 0;
        for now_ns in (1_000_010_000_000_u64..).step_by(20_000_000) {
            self.handles.iter().for_each(|handle| _ = handle.step(now_ns));
            let came = receive(&mut self.sides[1].rx, &mut self.pool).len();
            quiet = if came == 0 { quiet + 1 } else { 0 };
            if quiet == 20 {
                return;
            }
        }
    }

    /// Closes both; every buffer is back, and the linter found nothing.
    pub fn finish(self) {
        let Pair { sides, handles, mut pool } = self;
        while_stepping(&handles, || drop(sides)).unwrap();
        assert_eq!(pool.available(), pool.capacity(), "every buffer is back");
        handles.iter().for_each(|handle| assert_eq!(handle.report().findings, []));
    }
}

/// The tests of rings that the drivers of both chips' virtual functions pass alike, in a file that has
/// `models` and `pair` of one of them. `$first` is the place of its first virtual function among the
/// devices.
macro_rules! ring_tests {
    ($first:expr) => {
        /// Small rings, so that they are lapped.
        fn small() -> port::Options {
            port::Options { rx_ring: 64, tx_ring: 64, ..$crate::common::vf::options() }
        }

        /// Frames from one virtual function to another, one after the other.
        fn laps(options: &port::Options) {
            pair(models(2), options).laps();
        }

        #[test]
        fn many_frames_go_round_small_rings() {
            laps(&small());
        }

        #[test]
        fn heads_that_are_written_back_free_what_was_sent() {
            laps(&port::Options { completion: port::Completion::Head, ..small() });
        }

        #[test]
        fn queues_that_are_armed_break_no_rule() {
            laps(&port::Options { interrupts: true, rx_queues: 2, ..small() });
        }

        #[test]
        fn a_device_that_acts_at_once_finds_all_in_order() {
            let (mut pcis, handles) = models(2);
            for (pci, handle) in pcis.iter_mut().zip(&handles).skip($first) {
                *pci = $crate::common::synchronous::synchronous(pci.clone(), handle);
            }
            pair((pcis, handles), &small()).laps();
        }

        #[test]
        fn bursts_are_sent_and_freed() {
            pair(models(2), &small()).bursts();
        }
    };
}
pub(crate) use ring_tests;
