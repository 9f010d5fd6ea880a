//! Batches and pools to the packet: limits, order, and that nothing is lost on the way.

use memory::{Backing, Batch, Dma, Error, Options, Packet, Pool};

fn pool(count: usize) -> Pool {
    Pool::new(&Dma::new(Options { backing: Backing::Memfd, numa_node: None }), count).expect("memory")
}

/// A batch of packets with these numbers.
fn numbered(pool: &mut Pool, limit: usize, numbers: std::ops::Range<u64>) -> Batch {
    let mut batch = Batch::with_limit(limit);
    for number in numbers {
        let mut packet = pool.alloc().expect("a buffer");
        packet.set_user(number);
        assert!(batch.push(packet).is_none(), "there is room");
    }
    batch
}

fn numbers(batch: &Batch) -> Vec<u64> {
    batch.iter().map(Packet::user).collect()
}

#[test]
fn a_batch_takes_as_many_as_its_limit() {
    let mut pool = pool(300);
    let mut batch = numbered(&mut pool, 5, 0..3);
    assert_eq!((batch.limit(), batch.room(), batch.len()), (5, 2, 3));
    assert_eq!(pool.alloc_batch(&mut batch, 9), 2, "as many as fit");
    assert_eq!((batch.limit(), batch.room(), batch.len()), (5, 0, 5));
    let refused = pool.alloc().expect("a buffer");
    let place = refused.iova();
    assert_eq!(batch.push(refused).expect("given back").iova(), place);
    assert_eq!(Batch::with_limit(1000).limit(), Batch::MAX);
    assert_eq!(Batch::default().limit(), 32);
    assert_eq!(Batch::with_limit(0).room(), 0);
}

#[test]
fn what_is_appended_after_some_were_taken_keeps_the_order() {
    let mut pool = pool(64);
    let mut batch = numbered(&mut pool, 8, 0..5);
    assert_eq!(batch.pop_front().map(|packet| packet.user()), Some(0));
    assert_eq!(batch.pop_front().map(|packet| packet.user()), Some(1));
    for number in 5..10 {
        let mut packet = pool.alloc().expect("a buffer");
        packet.set_user(number);
        assert!(batch.push(packet).is_none());
    }
    assert_eq!(numbers(&batch), [2, 3, 4, 5, 6, 7, 8, 9]);
    batch.pop_front();
    let mut other = numbered(&mut pool, 8, 20..23);
    assert_eq!(batch.take_from(&mut other, 2), 1, "one fits");
    assert_eq!((numbers(&batch), numbers(&other)), (vec![3, 4, 5, 6, 7, 8, 9, 20], vec![21, 22]));
    batch.drain().take(6).for_each(drop);
    assert_eq!(batch.take_from(&mut other, 1), 1, "one was asked for");
    assert_eq!(batch.take_from(&mut other, 0), 0);
    assert_eq!((numbers(&batch), numbers(&other)), (vec![9, 20, 21], vec![22]));
    batch[0].set_user(90);
    batch.iter_mut().last().expect("three").set_user(210);
    assert_eq!(numbers(&batch), [90, 20, 210]);
    drop((batch, other));
    assert_eq!(pool.available(), 64);
}

#[test]
fn a_batch_that_is_cleared_or_freed_or_dropped_gives_all_back() {
    let mut pool = pool(16);
    assert_eq!((pool.capacity(), pool.available()), (16, 16));
    let mut batch = numbered(&mut pool, 16, 0..16);
    assert_eq!(pool.available(), 0);
    batch.clear();
    assert_eq!((batch.len(), pool.available()), (0, 16), "cleared");
    assert_eq!(pool.alloc_batch(&mut batch, 16), 16);
    pool.free_batch(&mut batch);
    assert_eq!((batch.len(), pool.available()), (0, 16), "freed");
    assert_eq!(pool.alloc_batch(&mut batch, 7), 7);
    drop(batch);
    assert_eq!(pool.available(), 16, "dropped");
}

#[test]
fn a_segment_that_is_freed_is_there_again() {
    let mut pool = pool(2);
    let packet = pool.alloc().expect("a buffer");
    let place = packet.iova();
    pool.free_segment(packet);
    assert_eq!(pool.available(), 2);
    assert_eq!(pool.alloc().expect("a buffer").iova(), place, "freed last, out first");
}

#[test]
fn fresh_buffers_say_how_many_they_are_and_what_is_not_taken_comes_back() {
    let mut pool = pool(10);
    let mut fresh = pool.fresh(6);
    assert_eq!((fresh.len(), fresh.size_hint()), (6, (6, Some(6))));
    let taken = fresh.next().expect("six are there");
    assert_eq!((fresh.len(), fresh.size_hint()), (5, (5, Some(5))));
    drop(fresh);
    assert_eq!(pool.available(), 9);
    drop(taken);
    // Nothing was collected since: the pool looks for what was dropped.
    assert_eq!(pool.fresh(10).len(), 10);
    let all: Vec<Packet> = pool.fresh(11).collect();
    assert_eq!(all.len(), 10, "as many as there are");
    assert_eq!(pool.fresh(1).len(), 0);
    let kept = all.into_iter().next_back().expect("ten");
    assert_eq!(pool.fresh(9).len(), 9);
    drop(kept);
}

#[test]
fn a_pool_has_at_least_one_buffer_and_at_most_4_gib() {
    let dma = Dma::new(Options { backing: Backing::Memfd, numa_node: None });
    // 35 cache lines each.
    assert_eq!(Pool::MAX, (4 << 30) / (35 * 64));
    for count in [0, Pool::MAX + 1, usize::MAX] {
        let error = Pool::new(&dma, count).expect_err("out of range");
        assert!(
            matches!(error, Error::PoolSize { count: asked, max: Pool::MAX } if asked == count),
            "{error}"
        );
    }
    assert_eq!(Pool::new(&dma, 1).expect("memory").capacity(), 1);
}

#[test]
fn packets_and_batches_show_what_is_in_them() {
    let mut pool = pool(4);
    let mut batch = numbered(&mut pool, 4, 0..2);
    batch[0].copy_from(&[1, 2]).expect("fits");
    batch[1].copy_from(&[3]).expect("fits");
    let tail = pool.alloc().expect("a buffer");
    batch[1].append(tail);
    batch[1].next_mut().expect("a tail").copy_from(&[4; 5]).expect("fits");
    assert_eq!(format!("{batch:?}"), "[Packet { len: 2, data: [1, 2] }, Packet { len: 6, data: [3] }]");
}
