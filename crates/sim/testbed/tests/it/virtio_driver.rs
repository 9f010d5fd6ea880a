//! Our virtio driver on our virtio model: frames over every kind of ring, in
//! this process and over vfio-user.

use crate::common::contents;
use crate::common::limit::until;
use crate::common::virtio::{Bench, RINGS, Side, devices, frame, model, offer, recv, sleepy, small_rings};
use bus::Pci;
use driver::virtio::Virtio;
use memory::{Batch, Dma, Pool, TxOffload};
use port::{Options, Port as _, TxQueue as _};
use regs::virtio::feature::{self, net};
use testbed::serve::{Endpoint, Options as ServeOptions};
use testbed::vfio_user;

#[test]
fn frames_cross_every_kind_of_ring() {
    for (name, ring) in RINGS {
        for without in [0, net::MRG_RXBUF, feature::INDIRECT_DESC] {
            for model in [model(offer(ring, without)), sleepy(offer(ring, without))] {
                let mut bench = Bench::pair(&model, &small_rings());
                // Several times round the rings, both ways.
                for round in 0..60 {
                    let frames: Vec<_> = (0..24).map(|n| frame(n, 60 + (round * 24 + n) % 1400)).collect();
                    for frame in &frames {
                        bench.send(0, frame);
                        bench.send(1, frame);
                    }
                    bench.run_until_idle();
                    for at in 0..2 {
                        let got: Vec<_> = bench.recv(at).iter().map(contents).collect();
                        assert_eq!(got, frames, "{name} {without:#x} {:?}", model.notify);
                    }
                }
                bench.finish();
            }
        }
    }
}

#[test]
fn long_frames_take_several_buffers() {
    for (name, ring) in RINGS {
        let options = Options { max_frame: 9014, ..small_rings() };
        let mut bench = Bench::pair(&sleepy(offer(ring, 0)), &options);
        for round in 0..40 {
            let sent = frame(round, 5000 + 100 * round);
            assert_eq!(bench.cross_plain(&sent), [sent], "{name}");
        }
        let reports = bench.finish();
        assert!(reports[1].counters["rx_buffers"] > reports[1].counters["rx_packets"]);
    }
}

#[test]
fn flows_spread_over_queue_pairs() {
    for (name, ring) in RINGS {
        let options = Options { rx_queues: 2, ..small_rings() };
        let mut bench = Bench::pair(&model(offer(ring, 0)), &options);
        let mut seen = [0; 2];
        for port in 0..32u16 {
            let mut sent = frame(0, 80);
            sent[12..24].copy_from_slice(&[8, 0, 0x45, 0, 0, 66, 0, 0, 0, 0, 64, 17]);
            sent[34..36].copy_from_slice(&port.to_be_bytes());
            assert!(bench.try_send(0, usize::from(port % 2), &sent, TxOffload::default()));
            bench.run_until_idle();
            for (queue, count) in bench.sides[1].rx.iter_mut().zip(&mut seen) {
                let got = recv(std::slice::from_mut(queue), &mut bench.pool);
                assert!(got.iter().all(|got| contents(got) == sent), "{name}");
                *count += got.len();
            }
        }
        assert!(seen[0] > 0 && seen[1] > 0 && seen[0] + seen[1] == 32, "{name}: {seen:?}");
        bench.finish();
    }
}

#[test]
fn frames_cross_over_vfio_user() {
    let folder = tempfile::tempdir().unwrap();
    let sockets = [folder.path().join("a"), folder.path().join("b")];
    for (name, ring) in RINGS {
        let endpoints = devices(&["pair", "pair"], &sleepy(offer(ring, 0)), None).into_iter().zip(&sockets);
        let endpoints =
            endpoints.map(|(device, socket)| Endpoint { socket: socket.clone(), device }).collect();
        let serving = vfio_user::bind(endpoints).unwrap().serve(ServeOptions::default()).unwrap();
        let dma = Dma::new(Default::default());
        let mut pool = Pool::new(&dma, 4096).unwrap();
        let mut open = |at: usize| {
            let pci = Pci::connect(&sockets[at]).unwrap();
            let (device, mut rx, tx) = Virtio::open(pci, &dma, small_rings()).unwrap().split();
            recv(&mut rx, &mut pool);
            Side { device, rx, tx }
        };
        let (mut from, mut to) = (open(0), open(1));
        for n in 0..200 {
            let mut batch = Batch::default();
            let sent = frame(n, 60 + n);
            let mut packet = pool.alloc().unwrap();
            packet.copy_from(&sent).unwrap();
            assert!(batch.push(packet).is_none());
            from.tx[0].send(&mut pool, &mut batch);
            let mut got = Vec::new();
            until("a frame", || {
                got = recv(&mut to.rx, &mut pool);
                !got.is_empty()
            });
            assert_eq!(got.iter().map(contents).collect::<Vec<_>>(), [sent], "{name}");
            from.tx[0].clean(&mut pool);
        }
        from.device.health().unwrap();
        drop((from, to));
        let report = serving.stop();
        for endpoint in report.endpoints {
            assert_eq!((endpoint.device.findings, endpoint.client_faults), (Vec::new(), 0), "{name}");
        }
    }
}
