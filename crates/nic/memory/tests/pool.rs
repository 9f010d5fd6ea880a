//! Pools, packets and batches from outside: no buffer is lost, used twice, or
//! handed out with another's bytes.

use memory::{Backing, Batch, DATA_ROOM, Dma, HEADROOM, Options, Packet, Pool};
use proptest::prelude::*;

fn dma() -> Dma {
    Dma::new(Options { backing: Backing::Memfd, numa_node: None })
}

fn pool(count: usize) -> Pool {
    Pool::new(&dma(), count).expect("plain memory is always there")
}

#[test]
fn every_buffer_goes_out_once() {
    let mut pool = pool(2000); // more than one hugepage's worth
    let packets: Vec<Packet> = std::iter::from_fn(|| pool.alloc()).collect();
    assert_eq!(packets.len(), 2000);
    let mut iovas: Vec<u64> = packets.iter().map(Packet::iova).collect();
    iovas.sort_unstable();
    assert!(iovas.windows(2).all(|w| w[1] - w[0] >= (HEADROOM + DATA_ROOM) as u64), "buffers overlap");
    assert!(iovas.iter().all(|i| i % (2 << 20) + DATA_ROOM as u64 <= 2 << 20), "a buffer crosses a hugepage");
    drop(packets);
    assert_eq!(pool.available(), 2000);
}

#[test]
fn a_sparse_pool_makes_its_buffers_by_and_by() {
    let mut pool = Pool::sparse(&dma(), 2000).expect("plain memory is always there");
    assert_eq!((pool.capacity(), pool.room(), pool.available()), (0, 2000, 0));
    assert!(pool.alloc().is_none());
    let mut packets: Vec<Packet> = Vec::new();
    while pool.room() > 0 {
        let (before, room) = (pool.capacity(), pool.room());
        assert_eq!(pool.extend(300).expect("memory"), room.min(300));
        assert_eq!((pool.capacity(), pool.available()), (before + room.min(300), room.min(300)));
        let made = std::iter::from_fn(|| pool.alloc());
        packets.extend(made.inspect(|packet| assert!(packet.is_empty())));
    }
    assert_eq!((packets.len(), pool.extend(1).expect("nothing to do")), (2000, 0));
    assert!(packets.windows(2).all(|two| two[0].iova() < two[1].iova()), "the first goes out first");
    packets.iter_mut().for_each(|packet| packet.copy_from(&[7; DATA_ROOM]).expect("it has the room"));
    let other = packets.split_off(1000);
    packets.into_iter().for_each(|packet| pool.free(packet));
    assert!(!pool.is_below(1000), "it knows its own");
    drop(other);
    assert_eq!(pool.available(), 2000);
    // One that gets no more of its buffers.
    let mut short = Pool::sparse(&dma(), 2000).expect("memory");
    short.extend(2).expect("memory");
    let held = short.alloc();
    short.forgo_room();
    assert_eq!((short.room(), short.extend(1).expect("nothing to do"), short.capacity()), (0, 0, 2));
    drop(held);
    assert_eq!((short.available(), [(); 3].map(|()| short.alloc()).iter().flatten().count()), (2, 2));
    // One that goes before its last packet, and before all its buffers are made.
    let mut early = Pool::sparse(&dma(), 2000).expect("memory");
    early.extend(2).expect("memory");
    let packet = early.alloc();
    drop(early);
    drop(packet);
}

#[test]
fn the_buffer_freed_last_goes_out_first() {
    let mut pool = pool(8);
    let a = pool.alloc().expect("fresh pool");
    let b = pool.alloc().expect("fresh pool");
    let address = b.iova();
    pool.free(a);
    pool.free(b);
    assert_eq!(pool.alloc().expect("two are free").iova(), address);
}

#[test]
fn an_exhausted_pool_says_so_and_recovers() {
    let mut pool = pool(2);
    let (a, b) = (pool.alloc(), pool.alloc());
    assert!(pool.alloc().is_none());
    drop(a);
    assert!(pool.alloc().is_some(), "a dropped packet can be had again");
    drop(b);
}

#[test]
#[cfg_attr(miri, ignore = "100,000 packets")]
fn packets_come_home_from_other_threads() {
    let mut pool = pool(4096);
    let mut batch = Batch::with_limit(256);
    let (to, from) = std::sync::mpsc::sync_channel::<Packet>(512);
    let consumer = std::thread::spawn(move || from.into_iter().map(|p| p.len()).sum::<usize>());
    let mut sent = 0;
    while sent < 100_000 {
        // The consumer and the channel hold far fewer than the pool has.
        assert_eq!(pool.alloc_batch(&mut batch, 256), 256);
        for mut packet in batch.drain() {
            packet.set_len(60).expect("fits");
            to.send(packet).expect("the consumer lives");
            sent += 1;
        }
    }
    drop(to);
    assert_eq!(consumer.join().expect("no panic"), sent * 60);
    assert_eq!(pool.available(), 4096);
}

#[test]
fn packets_outlive_their_pool() {
    let mut pool = pool(64);
    let mut packets: Vec<Packet> = (0..32).filter_map(|_| pool.alloc()).collect();
    drop(packets.split_off(16));
    drop(pool);
    packets[0].copy_from(b"still mapped").expect("fits");
    assert_eq!(&packets[0][..], b"still mapped");
    let other = std::thread::spawn(move || drop(packets));
    other.join().expect("the last packet frees the pool's memory");
}

#[test]
fn a_packet_of_another_pool_goes_to_its_own() {
    let dma = dma();
    let mut a = Pool::new(&dma, 4).expect("memory");
    let mut b = Pool::new(&dma, 4).expect("memory");
    let packet = a.alloc().expect("fresh pool");
    b.free(packet);
    assert_eq!((a.available(), b.available()), (4, 4));
}

#[test]
fn chains_are_freed_whole() {
    let mut pool = pool(8);
    let mut head = pool.alloc().expect("fresh pool");
    for n in 1..=3 {
        let mut tail = pool.alloc().expect("fresh pool");
        tail.set_len(n).expect("fits");
        head.append(tail);
    }
    assert_eq!(head.total_len(), 6);
    assert_eq!(head.segments().count(), 4);
    assert!(!head.is_plain());
    pool.free(head);
    assert_eq!(pool.available(), 8);
    let mut head = pool.alloc().expect("free again");
    head.append(pool.alloc().expect("free again"));
    drop(head);
    assert_eq!(pool.available(), 8);
    assert!(pool.alloc().expect("free again").next().is_none(), "links do not survive");
}

#[test]
fn a_fresh_packet_carries_nothing_of_the_last() {
    let mut pool = pool(1);
    let mut packet = pool.alloc().expect("fresh pool");
    packet.set_received(0xDEAD_BEEF_0000_0001, 0x0123_0040_0000_0069);
    packet.set_user(7);
    assert_eq!((packet.len(), packet.hash(), packet.vlan()), (64, Some(0xDEAD_BEEF), Some(0x123)));
    pool.free(packet);
    let packet = pool.alloc().expect("free again");
    assert_eq!((packet.len(), packet.hash(), packet.vlan(), packet.user()), (0, None, None, 0));
    assert!(packet.tx_offload().is_empty());
}

proptest! {
    /// Whatever is asked of a packet's bounds, it keeps to its buffer.
    #[test]
    #[cfg_attr(miri, ignore = "hundreds of cases")]
    fn a_packet_keeps_to_its_buffer(steps in prop::collection::vec((0..3u8, 0..3000usize), 0..40)) {
        let mut pool = pool(1);
        let mut packet = pool.alloc().expect("fresh pool");
        let (mut start, mut len) = (HEADROOM, 0);
        for (what, n) in steps {
            match what {
                0 => if packet.set_len(n).is_ok() { len = n },
                1 => if packet.push_front(n).is_ok() { start -= n; len += n },
                _ => if packet.pull_front(n).is_ok() { start += n; len -= n },
            }
            prop_assert_eq!((packet.headroom(), packet.len()), (start, len));
            prop_assert!(start + len <= HEADROOM + DATA_ROOM);
            prop_assert_eq!(packet.tailroom(), HEADROOM + DATA_ROOM - start - len);
            packet.fill(0xA5);
        }
    }

    /// What leaves a batch in front leaves in order, and the rest stays in order.
    #[test]
    #[cfg_attr(miri, ignore = "hundreds of cases")]
    fn a_batch_keeps_order(count in 0..256usize, most in 0..300usize, good in 0..300u64, taken in 0..300usize) {
        let mut pool = pool(256);
        let mut batch = Batch::with_limit(256);
        for n in 0..count {
            let mut packet = pool.alloc().expect("as many as the batch holds");
            packet.set_user(n as u64);
            prop_assert!(batch.push(packet).is_none());
        }
        let mut left = Vec::new();
        let given = batch.give(most, |packet| packet.user() < good, |packet| left.push(packet.user()));
        prop_assert_eq!((given, left.len()), (count.min(most).min(good as usize), given));
        left.extend(batch.drain().take(taken).map(|packet| packet.user()));
        prop_assert_eq!(left.len(), count.min(given + taken));
        let rest: Vec<u64> = batch.iter().map(Packet::user).collect();
        let all: Vec<u64> = left.into_iter().chain(rest).collect();
        prop_assert_eq!(all, (0..count as u64).collect::<Vec<_>>());
        pool.free_batch(&mut batch);
        prop_assert_eq!(pool.available(), 256);
    }

    /// A device's length never makes a packet longer than its buffer.
    #[test]
    #[cfg_attr(miri, ignore = "hundreds of cases")]
    fn a_devices_length_is_cut(low: u64, high: u64) {
        let mut pool = pool(1);
        let mut packet = pool.alloc().expect("fresh pool");
        packet.set_received(low, high);
        prop_assert!(packet.len() <= DATA_ROOM);
    }
}

#[test]
fn a_copy_has_all_segments_and_all_that_is_known_or_there_is_none() {
    let mut pool = pool(8);
    let mut packet = pool.alloc().expect("fresh pool");
    packet.copy_at(50, b"first").expect("it fits");
    packet.set_user(77);
    for (headroom, bytes) in [(HEADROOM, &b"second"[..]), (3, b"third")] {
        let mut segment = pool.alloc().expect("fresh pool");
        segment.copy_at(headroom, bytes).expect("it fits");
        packet.append(segment);
    }
    let copy = packet.copy_with(0, || pool.alloc()).expect("there are five");
    let parts = |packet: &Packet| -> Vec<(usize, Vec<u8>)> {
        packet.segments().map(|segment| (segment.headroom(), segment.to_vec())).collect()
    };
    assert_eq!((parts(&copy), copy.user()), (parts(&packet), 77));
    assert!(copy.segments().zip(packet.segments()).all(|(one, other)| one.iova() != other.iova()));
    assert!(packet.copy_with(0, || pool.alloc()).is_none(), "there are two");
    assert_eq!(pool.available(), 2, "nothing of half a copy stays");
}

#[test]
fn a_packet_is_cut_at_any_byte() {
    let mut pool = pool(8);
    for len in 0..=12 {
        let mut packet = pool.alloc().expect("they come back");
        packet.copy_from(b"abcd").expect("it fits");
        for bytes in [b"efg", b"hij"] {
            let mut segment = pool.alloc().expect("they come back");
            segment.copy_from(bytes).expect("it fits");
            packet.append(segment);
        }
        packet.truncate(len);
        let left: Vec<u8> = packet.segments().flat_map(|segment| segment.to_vec()).collect();
        assert_eq!(left, b"abcdefghij"[..len.min(10)]);
        drop(packet);
        assert_eq!(pool.available(), 8);
    }
}
