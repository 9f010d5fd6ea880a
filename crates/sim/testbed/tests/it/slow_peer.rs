//! A wire whose other end reads slower than a device sends: the device waits, as on a link that is
//! paused, its ring fills, and no frame that the driver has given it is lost.

use std::os::unix::net::UnixDatagram;

use memory::{Batch, Pool, TxOffload};
use port::{Options, TxQueue};
use testbed::inprocess::Handle;

use crate::common::limit::Limit;
use crate::common::virtio::{frame, model, offer, packet};
use crate::common::{Bench, i40e, virtio};

/// Frames that wait at most: in the ring, in the wire and in the socket, and some more.
const MOST: u64 = 1000;

/// The text of a wire to a socket that keeps few datagrams, and that socket.
fn wire(place: &std::path::Path) -> (String, UnixDatagram) {
    let [near, far] = ["near", "far"].map(|name| place.join(name));
    let peer = UnixDatagram::bind(&far).unwrap();
    peer.set_nonblocking(true).unwrap();
    (format!("unix:{},remote={}", near.display(), far.display()), peer)
}

/// Sends until the ring is full while nobody reads, and then lets the peer read all.
fn send_to_a_slow_peer(tx: &mut dyn TxQueue, pool: &mut Pool, handle: &Handle, peer: &UnixDatagram) {
    let (mut batch, mut given, mut now_ns) = (Batch::default(), 0, 0);
    let mut limit = Limit::rounds(MOST as u32, "the ring to be full");
    loop {
        limit.check();
        assert!(batch.push(packet(pool, &frame(given, 100), TxOffload::default())).is_none());
        if tx.send(pool, &mut batch) == 0 {
            break;
        }
        given += 1;
        for _ in 0..5 {
            now_ns += 1_000;
            handle.step(now_ns);
        }
    }
    batch.drain().for_each(|packet| pool.free(packet));
    let wire = handle.report().wire.from_host;
    assert!(wire.balances() && wire.lost.is_empty(), "{wire:#?}");
    assert!(given >= 64 && wire.offered < given as u64, "{given} given: the ring holds some: {wire:#?}");
    let (mut got, mut bytes) = (0, [0; 2048]);
    let mut limit = Limit::rounds(100_000, "all that was sent");
    while got < given {
        limit.check();
        while let Ok(len) = peer.recv(&mut bytes) {
            assert_eq!(bytes[..len], frame(got, 100), "in order, and none is missing");
            got += 1;
        }
        now_ns += 1_000;
        handle.step(now_ns);
    }
    let wire = handle.report().wire.from_host;
    assert_eq!((wire.delivered, wire.waiting, wire.lost.len()), (given as u64, 0, 0), "{wire:#?}");
}

#[test]
fn an_82599_waits_for_a_slow_peer() {
    let place = tempfile::tempdir().unwrap();
    let (wire, peer) = wire(place.path());
    let mut bench = Bench::open(&[&wire], &Options { tx_ring: 64, ..Options::default() });
    send_to_a_slow_peer(&mut bench.sides[0].tx[0], &mut bench.pool, &bench.handles[0], &peer);
    bench.finish();
}

#[test]
fn an_xl710_waits_for_a_slow_peer() {
    let place = tempfile::tempdir().unwrap();
    let (wire, peer) = wire(place.path());
    let mut bench = i40e::Bench::open(&[&wire], &Options { tx_ring: 64, ..Options::default() });
    send_to_a_slow_peer(&mut bench.sides[0].tx[0], &mut bench.pool, &bench.handles[0], &peer);
    bench.finish();
}

#[test]
fn a_virtio_device_waits_for_a_slow_peer() {
    let place = tempfile::tempdir().unwrap();
    let (wire, peer) = wire(place.path());
    let options = Options { tx_ring: 64, ..Options::default() };
    let mut bench = virtio::Bench::open(&[&wire], &model(offer(0, 0)), &options);
    send_to_a_slow_peer(&mut bench.sides[0].tx[0], &mut bench.pool, &bench.handles[0], &peer);
    bench.finish();
}
