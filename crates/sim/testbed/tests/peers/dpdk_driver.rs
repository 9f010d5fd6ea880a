//! Our virtio driver over vhost-user against DPDK's vhost: what both count is
//! the same, and every frame comes back in order and unchanged.

use port::{Options, Port as _, RxQueue as _, TxQueue as _, VirtioOptions};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::limit::Limit;
use driver::virtio::transport::VhostUser;
use driver::virtio::{RxQueue, TxQueue, Virtio};
use memory::{Backing, Batch, Dma, Pool};
use regs::virtio::feature;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use testbed::testpmd::{Dpdk, Setup, Testpmd};

const LIMIT: Duration = Duration::from_secs(20);

/// Our port, and a DPDK whose vhost is its device.
struct Join {
    testpmd: Testpmd,
    device: Virtio,
    rx: Vec<RxQueue>,
    tx: Vec<TxQueue>,
    pool: Pool,
    _folder: tempfile::TempDir,
}

/// Who connects to whom.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Socket {
    TheyListen,
    WeListen,
}

impl Join {
    fn open(dpdk: &Dpdk, options: Options, socket: Socket) -> Join {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("vhost");
        let (pairs, shown) = (options.rx_queues, path.display());
        let client = if socket == Socket::WeListen { ",client=1" } else { "" };
        let vdevs = vec![format!("net_vhost0,iface={shown},queues={pairs}{client}")];
        let arguments = vec![format!("--rxq={pairs}"), format!("--txq={pairs}")];
        let setup = Setup { cores: [0, 1], vdevs, ring: 256, arguments };
        let testpmd = Testpmd::start(dpdk, &setup).unwrap();
        let dma = Dma::new(memory::Options { backing: Backing::Memfd, numa_node: None });
        let pool = Pool::new(&dma, 4096).unwrap();
        let transport = match socket {
            Socket::TheyListen => VhostUser::connect(&path, None),
            Socket::WeListen => VhostUser::listen(&path, Some(LIMIT), None),
        };
        let (device, rx, tx) = Virtio::open_on(Arc::new(transport.unwrap()), &dma, options).unwrap().split();
        let mut join = Join { testpmd, device, rx, tx, pool, _folder: folder };
        let mut batch = Batch::default();
        for queue in &mut join.rx {
            assert_eq!(queue.recv(&mut join.pool, &mut batch), 0, "nothing was sent yet");
        }
        join
    }

    /// Sends `count` frames on queue `at`, each with its number, and gets them back.
    fn echo(&mut self, at: usize, count: u32) {
        let (mut out, mut back) = (Batch::with_limit(32), Batch::with_limit(32));
        let (mut sent, mut received) = (0, 0);
        let begin = Instant::now();
        while received < count {
            // No more under way than the rings hold.
            while out.room() > 0 && sent < count && sent - received < 128 {
                let mut packet = self.pool.alloc().unwrap();
                packet.copy_from(&frame(sent)).unwrap();
                assert!(out.push(packet).is_none());
                sent += 1;
            }
            self.tx[at].send(&mut self.pool, &mut out);
            self.rx[at].recv(&mut self.pool, &mut back);
            for packet in back.drain() {
                assert_eq!(packet[..], frame(received), "frame {received}");
                received += 1;
                self.pool.free(packet);
            }
            assert!(begin.elapsed() < LIMIT, "{received} of {sent}: {:?}", self.device.health());
        }
    }
}

/// Frame `number`: its size and bytes follow from the number.
fn frame(number: u32) -> Vec<u8> {
    let len = 60 + number as usize * 7 % 1455;
    let mut frame: Vec<u8> = (0..len).map(|at| (at as u32 ^ number) as u8).collect();
    frame[..6].fill(0xFF);
    frame[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
    frame[12..14].copy_from_slice(&[0x88, 0xB5]);
    frame[14..18].copy_from_slice(&number.to_be_bytes());
    frame
}

/// As the device's rings are.
fn small_rings() -> Options {
    Options { rx_ring: 256, tx_ring: 256, ..Options::default() }
}

fn rings() -> [(&'static str, Options); 4] {
    let without = |bits: u64| Options {
        virtio: VirtioOptions { features: !bits, ..VirtioOptions::default() },
        ..small_rings()
    };
    [
        ("packed", small_rings()),
        ("packed, not in order", without(feature::IN_ORDER)),
        ("split", without(feature::RING_PACKED)),
        ("split, not in order", without(feature::RING_PACKED | feature::IN_ORDER)),
    ]
}

#[test]
fn frames_come_back_in_order_and_unchanged() {
    let Some(dpdk) = crate::dpdk::find() else { return };
    for (name, options) in rings() {
        let mut join = Join::open(&dpdk, options, Socket::TheyListen);
        let packed = join.device.features() & feature::RING_PACKED != 0;
        assert_eq!(packed, name.starts_with("packed"), "{name}");
        join.testpmd.say("start").unwrap();
        join.echo(0, 20_000);
        let port = join.testpmd.port().unwrap();
        let (rx, tx) = (join.rx[0].stats(), join.tx[0].stats());
        assert_eq!((port.rx_packets, port.tx_packets), (20_000, 20_000), "{name}");
        assert_eq!((rx.packets, tx.packets), (20_000, 20_000), "{name}");
        assert_eq!((rx.bytes, tx.bytes), (port.tx_bytes, port.rx_bytes), "{name}");
        join.device.health().unwrap();
    }
}

#[test]
fn what_dpdk_sends_is_received() {
    let Some(dpdk) = crate::dpdk::find() else { return };
    for (name, options) in rings() {
        let mut join = Join::open(&dpdk, options, Socket::TheyListen);
        join.testpmd.say("set fwd txonly").unwrap();
        join.testpmd.say("start").unwrap();
        let (begin, mut batch) = (Instant::now(), Batch::default());
        while join.rx[0].stats().packets < 100_000 {
            join.rx[0].recv(&mut join.pool, &mut batch);
            join.pool.free_batch(&mut batch);
            assert!(begin.elapsed() < LIMIT, "{name}: {:?}", join.device.health());
        }
        join.testpmd.say("stop").unwrap();
        let mut limit = Limit::rounds(100_000, "nothing left to receive");
        while join.rx[0].recv(&mut join.pool, &mut batch) > 0 {
            limit.check();
            join.pool.free_batch(&mut batch);
        }
        let (port, rx) = (join.testpmd.port().unwrap(), join.rx[0].stats());
        assert_eq!((rx.packets, rx.bytes), (port.tx_packets, port.tx_bytes), "{name}");
    }
}

#[test]
fn several_pairs_and_a_back_end_that_connects_to_us() {
    let Some(dpdk) = crate::dpdk::find() else { return };
    let options = Options { rx_queues: 2, ..small_rings() };
    let mut join = Join::open(&dpdk, options, Socket::WeListen);
    join.testpmd.say("start").unwrap();
    join.echo(0, 2_000);
    join.echo(1, 3_000);
    assert_eq!((join.rx[0].stats().packets, join.rx[1].stats().packets), (2_000, 3_000));
    let port = join.testpmd.port().unwrap();
    assert_eq!((port.rx_packets, port.tx_packets), (5_000, 5_000));
}

#[test]
fn an_interrupt_ends_the_wait() {
    let Some(dpdk) = crate::dpdk::find() else { return };
    let (_, packed) = (0, Options { interrupts: true, ..small_rings() });
    let split = Options {
        virtio: VirtioOptions { features: !feature::RING_PACKED, ..VirtioOptions::default() },
        ..packed.clone()
    };
    for options in [packed, split] {
        let mut join = Join::open(&dpdk, options, Socket::TheyListen);
        let mut batch = Batch::default();
        let waited = |join: &mut Join, seconds| {
            let event = join.rx[0].arm().unwrap();
            let mut fds = [PollFd::from_borrowed_fd(event, PollFlags::IN)];
            poll(&mut fds, Some(&Timespec { tv_sec: seconds, tv_nsec: 1000 })).unwrap()
        };
        assert_eq!(waited(&mut join, 0), 0, "nothing came yet");
        join.testpmd.say("set fwd txonly").unwrap();
        join.testpmd.say("start").unwrap();
        assert_eq!(waited(&mut join, 5), 1, "woken");
        join.rx[0].disarm();
        assert!(join.rx[0].recv(&mut join.pool, &mut batch) > 0);
        join.pool.free_batch(&mut batch);
    }
}

#[test]
fn a_back_end_that_goes_is_named() {
    let Some(dpdk) = crate::dpdk::find() else { return };
    let mut join = Join::open(&dpdk, small_rings(), Socket::TheyListen);
    join.testpmd.say("start").unwrap();
    join.echo(0, 100);
    join.testpmd.quit();
    let error = join.device.health().unwrap_err();
    assert!(error.to_string().contains("hung up"), "{error}");
    assert!(!join.device.link().up);
    let mut batch = Batch::default();
    assert_eq!(join.rx[0].recv(&mut join.pool, &mut batch), 0);
}
