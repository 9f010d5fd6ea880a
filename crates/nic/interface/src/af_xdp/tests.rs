//! Rings whose kernel is the test, and lies: no buffer is lost or given out twice,
//! and nothing is reached that was not the kernel's.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use memory::{Backing, Batch, Dma, Pool};

use super::ring::{Offsets, XdpRing};
use super::rx::{Rx, Traits};
use super::socket::{RxRings, TxRings, XdpSocket};
use super::tx::Tx;
use super::umem::{self, Umem};
use crate::counters::{RxCounters, TxCounters};
use crate::frame::Longest;
use crate::mapping::{Mapping, tests::Random};
use port::TxQueue;

const SIZE: usize = 64;

fn file() -> OwnedFd {
    let file = rustix::fs::memfd_create(c"ring", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    rustix::fs::ftruncate(&file, 8192).unwrap();
    file
}

/// A ring from both sides; they see each other's index as theirs.
fn ring(width: usize) -> (XdpRing, XdpRing) {
    let file = file();
    let side = |ours, theirs| {
        let offsets = Offsets { ours, theirs, flags: 128, entries: 192 };
        XdpRing::new(Mapping::map(&file, 8192, 0).unwrap(), offsets, SIZE, width)
    };
    (side(0, 64), side(64, 0))
}

fn memory() -> (Dma, Umem, Pool, Vec<memory::Packet>) {
    let dma = Dma::new(memory::Options { backing: Backing::Memfd, numa_node: None });
    let (umem, pool, staging) = umem::of(&dma, SIZE, SIZE).unwrap();
    (dma, umem, pool, staging)
}

struct Receiver {
    rx: Rx,
    /// The kernel's ends.
    fill: XdpRing,
    ring: XdpRing,
    counters: Arc<RxCounters>,
    pool: Pool,
    _staging: Vec<memory::Packet>,
}

fn receiver() -> Receiver {
    let (dma, umem, pool, staging) = memory();
    let ((fill, kernel_fill), (rx, ring)) = (ring(8), ring(16));
    let counters = Arc::new(RxCounters::default());
    let socket = Arc::new(XdpSocket::stand_in(file()));
    let traits = Traits { max_frame: 1514, open_checksums: true };
    let rx = Rx::new((0, socket), RxRings { rx, fill }, umem, pool, traits, counters.clone());
    let pool = Pool::new(&dma, 256).unwrap();
    Receiver { rx, fill: kernel_fill, ring, counters, pool, _staging: staging }
}

impl Receiver {
    /// The kernel takes a buffer, if there is one.
    fn take(&mut self) -> Option<u64> {
        (self.fill.filled() > 0).then(|| {
            let (address, _) = self.fill.peek();
            self.fill.advance();
            self.fill.publish();
            address
        })
    }

    fn put(&mut self, address: u64, len: usize) {
        if self.ring.room() > 0 {
            self.ring.put(address, len);
            self.ring.publish();
        }
    }
}

#[test]
fn a_buffer_goes_round() {
    let mut it = receiver();
    let mut batch = Batch::default();
    assert_eq!(it.fill.filled(), SIZE as u32);
    for round in 0..1000 {
        let address = it.take().expect("the fill ring is refilled");
        it.put(address + 256, 60 + round % 1400);
        assert_eq!(it.rx.recv(&mut it.pool, &mut batch), 1);
        assert_eq!(batch[0].len(), 60 + round % 1400);
        it.pool.free_batch(&mut batch);
        it.rx.recv(&mut it.pool, &mut batch);
    }
    assert_eq!((it.counters.stats().bad_descriptor, it.fill.filled()), (0, SIZE as u32));
}

#[test]
fn descriptors_that_make_no_sense_are_counted() {
    let mut it = receiver();
    let mut batch = Batch::default();
    let good = it.take().unwrap();
    let behind = it.rx.memory.len as u64;
    for address in [behind, 1 << 47, u64::MAX, good + 4096 * 4096] {
        it.put(address, 60);
        assert_eq!(it.rx.recv(&mut it.pool, &mut batch), 0, "{address:#x}");
    }
    assert_eq!(it.counters.malformed.read(), 4);
    it.put(good + 256, umem::DATA_ROOM + 1);
    assert_eq!(it.rx.recv(&mut it.pool, &mut batch), 0, "longer than the buffer");
    assert_eq!(it.counters.malformed.read(), 5);
    let second = it.take().unwrap();
    it.put(second + 255, 60);
    assert_eq!(it.rx.recv(&mut it.pool, &mut batch), 0, "not where data begin");
    let third = it.take().unwrap();
    it.put(third + 256, 1515);
    assert_eq!(it.rx.recv(&mut it.pool, &mut batch), 0);
    assert_eq!((it.counters.malformed.read(), it.counters.oversize.read()), (6, 1));
    assert_eq!(it.fill.filled(), SIZE as u32, "all are back with the kernel");
}

#[test]
fn no_kernel_loses_or_doubles_a_buffer() {
    let (mut it, mut random) = (receiver(), Random(3));
    let (mut batch, mut held, mut taken) = (Batch::with_limit(16), VecDeque::new(), Vec::new());
    for _ in 0..50_000 {
        match random.below(6) {
            0 | 1 => taken.extend(it.take()),
            2 | 3 if !taken.is_empty() => {
                let address = taken.swap_remove(random.below(taken.len()));
                it.put(address + 256, random.below(1514));
            }
            4 => it.put(random.next() >> random.below(64), random.next() as usize),
            _ => {
                it.rx.recv(&mut it.pool, &mut batch);
                held.extend(batch.drain());
                for _ in 0..random.below(24).min(held.len()) {
                    it.pool.free(held.pop_front().unwrap());
                }
            }
        }
        let mut places: Vec<_> = held.iter().map(|packet: &memory::Packet| packet.as_ptr()).collect();
        places.sort_unstable();
        places.dedup();
        assert_eq!(places.len(), held.len(), "one buffer, two packets");
    }
    held.clear();
    let Receiver { mut rx, mut pool, .. } = it;
    rx.check();
    drop(rx);
    assert_eq!(pool.available(), pool.capacity());
}

#[test]
fn sent_buffers_come_back_once_whatever_the_kernel_says() {
    let (dma, umem, mut own, staging) = memory();
    let ((tx, mut kernel), (completion, mut done)) = (ring(16), ring(8));
    let counters = Arc::new(TxCounters::default());
    let socket = Arc::new(XdpSocket::stand_in(file()));
    let mut queue =
        Tx::new(socket, TxRings { tx, completion }, umem, staging, Longest::new(1514), counters.clone());
    let (mut pool, mut random) = (Pool::new(&dma, 128).unwrap(), Random(5));
    let (mut batch, mut taken, mut sent) = (Batch::with_limit(16), Vec::new(), 0);
    for _ in 0..50_000 {
        match random.below(5) {
            0 => {
                // Some from the queue's own memory, some from elsewhere.
                let from = if random.below(2) == 0 { &mut own } else { &mut pool };
                from.alloc_batch(&mut batch, random.below(8));
                for packet in batch.iter_mut() {
                    packet.copy_from(&[7; 1500][..14 + random.below(1400)]).unwrap();
                }
                sent += queue.send(&mut pool, &mut batch);
                pool.free_batch(&mut batch);
            }
            1 if kernel.filled() > 0 => {
                let (address, len) = kernel.peek();
                assert!(umem.find(address).is_some() && (14..=1514).contains(&len));
                kernel.advance();
                kernel.publish();
                taken.push(address);
            }
            2 if !taken.is_empty() && done.room() > 0 => {
                done.put(taken.swap_remove(random.below(taken.len())), 0);
                done.publish();
            }
            3 if random.below(8) == 0 && done.room() > 0 => {
                done.put(random.next() >> random.below(64), 0); // a lie
                done.publish();
            }
            _ => _ = queue.clean(&mut pool),
        }
        assert!(pool.available() <= pool.capacity());
    }
    assert!(sent > 5_000 && counters.stats().packets == sent as u64, "{sent}");
    drop(queue);
    assert_eq!(pool.available(), pool.capacity());
    assert_eq!(own.available(), own.capacity(), "the copies' buffers as well");
}

#[test]
fn an_index_that_jumps_is_bounded() {
    let (ours, _) = ring(8);
    let file = file();
    let offsets = Offsets { ours: 0, theirs: 64, flags: 128, entries: 192 };
    let bad = XdpRing::new(Mapping::map(&file, 8192, 0).unwrap(), offsets, SIZE, 8);
    let kernel = Mapping::map(&file, 8192, 0).unwrap();
    for index in [0, 1, 63, 64, 65, 1 << 31, u32::MAX] {
        kernel.word(64).store(index, Relaxed);
        assert!(bad.filled() <= SIZE as u32 && bad.waiting() <= SIZE as u32 && bad.room() <= SIZE as u32);
    }
    assert_eq!((ours.filled(), ours.room()), (0, SIZE as u32));
}

#[test]
fn interfaces_that_count_what_a_socket_refused_are_known() {
    for (kind, driver, twice) in [
        ("veth", None, true),
        ("tun", Some("tun"), true),
        ("", Some("virtio_net"), true),
        ("", Some("ixgbe"), false),
        ("", None, false),
    ] {
        assert_eq!(super::counts_failed_redirects(kind, driver), twice, "{kind} {driver:?}");
    }
}
