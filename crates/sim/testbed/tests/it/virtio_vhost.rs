//! Our virtio driver as a front end of vhost-user, our virtio model behind our
//! back end: packets both ways, restarts, and a back end that goes away.

use port::{Options, Port as _, RxQueue as _, TxQueue as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::contents;
use crate::common::limit::until;
use crate::common::virtio::{
    RINGS, Side, counter, devices, frame, model, offer, packet, recv, sleepy, small_rings,
};
use driver::virtio::Virtio;
use driver::virtio::transport::VhostUser;
use memory::{Batch, Dma, Pool, TxOffload};
use model::virtio::Options as ModelOptions;
use regs::virtio::feature::{self, net};
use testbed::serve::{Endpoint, Options as ServeOptions, Serving};
use testbed::vhost_user;

/// A front end of its own and what it sends comes back.
struct Joined {
    serving: Option<Serving>,
    side: Option<Side>,
    dma: Dma,
    pool: Pool,
    socket: PathBuf,
    _folder: tempfile::TempDir,
}

fn open(socket: &Path, dma: &Dma, pool: &mut Pool, options: &Options) -> Side {
    let transport = VhostUser::connect(socket, Some([2, 0, 0, 0, 0, 9])).unwrap();
    let (device, mut rx, tx) = Virtio::open_on(Arc::new(transport), dma, options.clone()).unwrap().split();
    assert!(recv(&mut rx, pool).is_empty());
    Side { device, rx, tx }
}

impl Joined {
    fn new(model: &ModelOptions, options: &Options) -> Joined {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("s");
        let device = devices(&["loop"], model, None).remove(0);
        let endpoint = Endpoint { socket: socket.clone(), device };
        let serving = Some(vhost_user::bind(vec![endpoint]).unwrap().serve(ServeOptions::default()).unwrap());
        let dma = Dma::new(Default::default());
        let mut pool = Pool::new(&dma, 4096).unwrap();
        let side = Some(open(&socket, &dma, &mut pool, options));
        Joined { serving, side, dma, pool, socket, _folder: folder }
    }

    fn side(&mut self) -> &mut Side {
        self.side.as_mut().unwrap()
    }

    fn send(&mut self, queue: usize, bytes: &[u8]) {
        let mut batch = Batch::default();
        batch.push(packet(&mut self.pool, bytes, TxOffload::default()));
        let side = self.side.as_mut().unwrap();
        assert_eq!(side.tx[queue].send(&mut self.pool, &mut batch), 1);
    }

    /// The next frames, `wanted` of them.
    fn recv(&mut self, wanted: usize) -> Vec<Vec<u8>> {
        let mut got = Vec::new();
        until(&format!("{wanted} frames"), || {
            let side = self.side.as_mut().unwrap();
            got.extend(recv(&mut side.rx, &mut self.pool).iter().map(contents));
            got.len() >= wanted
        });
        got
    }

    fn finish(mut self) {
        self.side().device.health().unwrap();
        drop(self.side.take());
        let report = self.serving.take().unwrap().stop().endpoints.remove(0);
        assert_eq!((report.device.findings, report.client_faults), (Vec::new(), 0));
        assert_eq!(report.device.mapped, (0, 0), "nothing is mapped");
        assert_eq!(self.pool.available(), self.pool.capacity(), "every buffer is back");
    }
}

#[test]
fn frames_come_back_over_every_kind_of_ring() {
    for (name, ring) in RINGS {
        for max_frame in [1514, 9014] {
            let options = Options { max_frame, ..small_rings() };
            let mut joined = Joined::new(&sleepy(offer(ring, 0)), &options);
            let agreed = joined.side().device.features();
            assert_eq!(agreed & (net::CTRL_VQ | net::RSS | net::HASH_REPORT), 0, "not without commands");
            assert_eq!(agreed & feature::RING_PACKED, ring & feature::RING_PACKED, "{name}");
            for round in 0..60 {
                let frames: Vec<_> =
                    (0..10).map(|n| frame(n, 60 + (round * 10 + n) * 31 % (max_frame - 59))).collect();
                frames.iter().for_each(|frame| joined.send(0, frame));
                assert_eq!(joined.recv(10), frames, "{name}");
            }
            joined.finish();
        }
    }
}

#[test]
fn a_restart_keeps_buffers_and_counters() {
    for (name, ring) in RINGS {
        let options = Options { rx_queues: 2, ..small_rings() };
        let mut joined = Joined::new(&sleepy(offer(ring, 0)), &options);
        for round in 1..4 {
            for n in 0..30 {
                joined.send(n % 2, &frame(n, 100));
            }
            joined.recv(30);
            joined.side().device.health().unwrap();
            let Side { device, rx, tx } = joined.side.take().unwrap();
            let (device, mut rx, tx) = device.restart(rx, tx).unwrap().split();
            assert!(recv(&mut rx, &mut joined.pool).is_empty(), "{name}");
            assert_eq!(counter(&device, "rx_packets"), 30 * round, "{name}");
            assert_eq!(counter(&device, "tx_packets"), 30 * round, "{name}");
            joined.side = Some(Side { device, rx, tx });
        }
        joined.finish();
    }
}

#[test]
fn a_back_end_that_goes_away_is_told_and_another_can_be_joined() {
    for (name, ring) in RINGS {
        let mut joined = Joined::new(&model(offer(ring, 0)), &small_rings());
        joined.send(0, &frame(1, 100));
        joined.recv(1);
        drop(joined.serving.take().unwrap().stop());
        until("the driver to see that its back end is gone", || joined.side().device.health().is_err());
        assert!(!joined.side().device.link().up, "{name}");
        // Nobody takes what is sent; nothing hangs.
        let begin = Instant::now();
        let Joined { side, pool, .. } = &mut joined;
        let Side { rx, tx, .. } = side.as_mut().unwrap();
        for n in 0..600 {
            let mut batch = Batch::default();
            batch.push(packet(pool, &frame(n, 100), TxOffload::default()));
            tx[0].send(pool, &mut batch);
            pool.free_batch(&mut batch);
            assert!(recv(rx, pool).is_empty());
        }
        drop(joined.side.take());
        assert!(begin.elapsed() < Duration::from_secs(5), "{name}");
        assert_eq!(joined.pool.available(), joined.pool.capacity(), "{name}: every buffer is back");
        let device = devices(&["loop"], &model(offer(ring, 0)), None).remove(0);
        let endpoint = Endpoint { socket: joined.socket.clone(), device };
        joined.serving =
            Some(vhost_user::bind(vec![endpoint]).unwrap().serve(ServeOptions::default()).unwrap());
        joined.side = Some(open(&joined.socket, &joined.dma, &mut joined.pool, &small_rings()));
        joined.send(0, &frame(2, 100));
        assert_eq!(joined.recv(1), [frame(2, 100)], "{name}");
        joined.finish();
    }
}

#[test]
fn a_sleeper_is_woken_by_an_eventfd() {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    for (name, ring) in RINGS {
        let options = Options { interrupts: true, ..small_rings() };
        let mut joined = Joined::new(&sleepy(offer(ring, 0)), &options);
        for n in 0..300 {
            joined.side().rx[0].arm().unwrap();
            joined.send(0, &frame(n, 100));
            let event = joined.side().rx[0].arm().unwrap();
            let limit = Timespec { tv_sec: 10, tv_nsec: 0 };
            // Either it came before the second arming, or it signals.
            let woken = poll(&mut [PollFd::new(&event, PollFlags::IN)], Some(&limit)).unwrap();
            assert_eq!(woken, 1, "{name}: {n}");
            joined.side().rx[0].disarm();
            assert_eq!(joined.recv(1).len(), 1);
        }
        joined.finish();
    }
}
