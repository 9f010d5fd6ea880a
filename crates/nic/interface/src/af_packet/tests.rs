//! A ring whose kernel lies: nothing is read outside of it, nothing panics, and
//! no call goes on for ever.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use memory::{Backing, Batch, Dma, Pool};

use super::rx::{BLOCK, Rx};
use super::socket::PacketSocket;
use crate::counters::RxCounters;
use crate::mapping::{Mapping, tests::Random};
use port::RxQueue;

/// A ring of `blocks` blocks: the queue's view of it, and the kernel's.
fn ring(blocks: usize) -> (Rx, Mapping, Arc<RxCounters>) {
    let file = rustix::fs::memfd_create(c"ring", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    rustix::fs::ftruncate(&file, (blocks * BLOCK) as u64).unwrap();
    let (ours, kernels) = [(); 2].map(|()| Mapping::map(&file, blocks * BLOCK, 0).unwrap()).into();
    let counters = Arc::new(RxCounters::default());
    let socket = Arc::new(PacketSocket::stand_in(file));
    (Rx::over(ours, socket, blocks, 1514, counters.clone()), kernels, counters)
}

fn pool() -> Pool {
    let dma = Dma::new(memory::Options { backing: Backing::Memfd, numa_node: None });
    Pool::new(&dma, 512).unwrap()
}

/// Where in its block a frame is, how much of it was captured, and its length.
type Frame = (usize, u32, u32);

/// A block with frames at these offsets from its start: captured, length.
fn put(kernel: &Mapping, block: usize, frames: &[Frame]) {
    let start = block * BLOCK;
    let word = |at: usize, value: u32| kernel.word(at).store(value, Relaxed);
    word(start + 12, frames.len() as u32);
    word(start + 16, frames.first().map_or(48, |frame| frame.0 as u32));
    for (n, &(at, captured, len)) in frames.iter().enumerate() {
        let next = frames.get(n + 1).map_or(0, |next| next.0.wrapping_sub(at) as u32);
        for (place, value) in [(0, next), (12, captured), (16, len), (20, 1), (24, 82)] {
            word(start + at + place, value);
        }
        if start + at + 82 + captured as usize <= (block + 1) * BLOCK {
            kernel.write(start + at + 82, &vec![n as u8 + 1; captured as usize]);
        }
    }
    word(start + 8, 1);
}

#[test]
fn packets_carry_the_kernels_time_where_that_is_asked_for() {
    for stamps in [true, false] {
        let (mut rx, kernel, _) = ring(4);
        rx.stamps = stamps;
        let (mut pool, mut batch) = (pool(), Batch::with_limit(3));
        put(&kernel, 0, &[(48, 60, 60), (208, 61, 61)]);
        for (frame, seconds, nanoseconds) in [(48, 1_700_000_000, 5), (208, 1_700_000_001, 999_999_999)] {
            kernel.word(frame + 4).store(seconds, Relaxed);
            kernel.word(frame + 8).store(nanoseconds, Relaxed);
        }
        assert_eq!(rx.recv(&mut pool, &mut batch), 2);
        let times: Vec<i64> = batch.iter().map(|packet| packet.annotations().timestamp_ns).collect();
        let kernels = [1_700_000_000_000_000_005, 1_700_000_001_999_999_999];
        assert_eq!(times == kernels, stamps, "{times:?}");
        pool.free_batch(&mut batch);
    }
}

#[test]
fn blocks_are_read_in_turn_and_given_back() {
    let (mut rx, kernel, counters) = ring(4);
    let (mut pool, mut batch) = (pool(), Batch::with_limit(3));
    for turn in 0..9 {
        let block = turn % 4;
        assert_eq!(rx.recv(&mut pool, &mut batch), 0);
        put(&kernel, block, &[(48, 60, 60), (208, 1514, 1514), (2048, 100, 100), (4096, 61, 61)]);
        assert_eq!(rx.recv(&mut pool, &mut batch), 3);
        assert_eq!(batch.iter().map(|packet| packet.len()).collect::<Vec<_>>(), [60, 1514, 100]);
        assert_eq!(kernel.word(block * BLOCK + 8).load(Relaxed), 1, "one frame is left in it");
        pool.free_batch(&mut batch);
        assert_eq!(rx.recv(&mut pool, &mut batch), 1);
        assert!(batch[0].len() == 61 && batch[0].iter().all(|&byte| byte == 4));
        assert_eq!(kernel.word(block * BLOCK + 8).load(Relaxed), 0, "the kernel's again");
        pool.free_batch(&mut batch);
    }
    put(&kernel, 1, &[]);
    put(&kernel, 2, &[(48, 60, 60)]);
    assert_eq!(rx.recv(&mut pool, &mut batch), 1, "an empty block is passed over");
    assert_eq!(counters.stats().bad_descriptor, 0);
}

#[test]
fn frames_that_make_no_sense_are_counted() {
    let (mut rx, kernel, counters) = ring(1);
    let (mut pool, mut batch) = (pool(), Batch::with_limit(8));
    let cases: [(&[Frame], u64, u64); 8] = [
        (&[(48, 60, 3), (208, 60, 60)], 1, 0),  // shorter than what was captured
        (&[(48, 60, 61), (208, 60, 60)], 0, 1), // cut
        (&[(48, 1515, 1515), (2048, 60, 60)], 0, 1), // too long
        (&[(48, 13, 13), (208, 60, 60)], 1, 0), // shorter than a header
        (&[(48, 60, 60), (BLOCK - 64, 60, 60)], 1, 0), // beyond the block
        (&[(48, 60, 60), (BLOCK, 0, 0)], 1, 0), // behind it
        (&[(48, 60, 60), (52, 60, 60)], 1, 0),  // where none can be
        (&[(48, 60, 60), (48, 60, 60)], 1, 0),  // the same again
    ];
    for (n, (frames, malformed, oversize)) in cases.into_iter().enumerate() {
        let before = (counters.malformed.read(), counters.oversize.read());
        // The block behind the last one is memory, too, in this test.
        if frames.iter().all(|frame| frame.0 + 48 <= BLOCK) {
            put(&kernel, 0, frames);
        } else {
            put(&kernel, 0, &frames[..1]);
            kernel.word(48).store(BLOCK as u32, Relaxed);
            kernel.word(12).store(2, Relaxed);
        }
        assert_eq!(rx.recv(&mut pool, &mut batch), 1, "case {n}");
        let after = (counters.malformed.read() - before.0, counters.oversize.read() - before.1);
        assert_eq!(after, (malformed, oversize), "case {n}");
        assert_eq!(kernel.word(8).load(Relaxed), 0, "case {n}: the block went back");
        pool.free_batch(&mut batch);
    }
}

#[test]
fn no_kernel_leads_astray() {
    let (mut rx, kernel, _) = ring(2);
    let (mut pool, mut batch, mut random) = (pool(), Batch::with_limit(64), Random(7));
    for _ in 0..20_000 {
        for _ in 0..random.below(12) {
            // Mostly where headers are; values mostly small.
            let words = if random.below(4) > 0 { 64 } else { BLOCK / 4 };
            let at = random.below(2) * BLOCK + random.below(words) * 4;
            let value = match random.below(4) {
                0 => random.next() as u32,
                1 => random.below(BLOCK) as u32,
                _ => random.below(128) as u32,
            };
            kernel.word(at).store(value, Relaxed);
        }
        kernel.word(random.below(2) * BLOCK + 8).store(1, Relaxed);
        rx.recv(&mut pool, &mut batch);
        assert!(batch.iter().all(|packet| packet.total_len() <= 1518));
        pool.free_batch(&mut batch);
    }
    assert_eq!(pool.available(), pool.capacity());
}
