//! Both kinds of ring against a small device side on the same memory, honest and
//! wrong, over many laps; and received buffers whose headers are wrong.
#![allow(clippy::unwrap_used)]

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64};

use memory::{Backing, Batch, DATA_ROOM, Dma, Packet, Pool, Region};
use proptest::prelude::*;
use regs::virtio::net::header;
use regs::virtio::{packed as p, split as s};

use super::header::Header;
use super::merge::{Merge, Outcome};
use super::packed::Packed;
use super::ring::{Part, RingViolation, Shape, Used, Virtqueue};
use super::split::Split;
use crate::words::Words;

const SIZE: u16 = 16;

fn dma() -> Dma {
    Dma::new(memory::Options { backing: Backing::Memfd, numa_node: None })
}

fn shape(in_order: bool) -> Shape {
    Shape { size: SIZE, parts: 1, event_idx: false, in_order, indirect: false }
}

/// The other side of a ring.
trait Device {
    fn over(region: &Region) -> Self;
    /// The next available buffer: its id, its address and its length.
    fn take(&mut self) -> Option<(u16, u64, u32)>;
    /// Returns a buffer; with `batch`, for so many before and with it.
    fn give(&mut self, id: u16, len: u32, batch: u16);
}

struct SplitDevice {
    table: Words<[AtomicU64; 2]>,
    available: Words<AtomicU16>,
    available_index: Words<AtomicU16>,
    used: Words<[AtomicU32; 2]>,
    used_index: Words<AtomicU16>,
    seen: u16,
}

impl Device for SplitDevice {
    fn over(region: &Region) -> SplitDevice {
        let (available, used) = (s::legacy_available(SIZE), s::legacy_used(SIZE));
        SplitDevice {
            table: Words::new(region, 0, SIZE.into()),
            available: Words::new(region, available + s::available::RING, SIZE.into()),
            available_index: Words::new(region, available + s::available::INDEX, 1),
            used: Words::new(region, used + s::used::RING, SIZE.into()),
            used_index: Words::new(region, used + s::used::INDEX, 1),
            seen: 0,
        }
    }

    fn take(&mut self) -> Option<(u16, u64, u32)> {
        if self.available_index.at(0).load(Relaxed) == self.seen {
            return None;
        }
        let id = self.available.at(self.seen.into()).load(Relaxed);
        self.seen = self.seen.wrapping_add(1);
        let [address, rest] = self.table.at(id.into());
        Some((id, address.load(Relaxed), rest.load(Relaxed) as u32))
    }

    fn give(&mut self, id: u16, len: u32, batch: u16) {
        let index = self.used_index.at(0).load(Relaxed);
        let [at, length] = self.used.at(index.into());
        at.store(id.into(), Relaxed);
        length.store(len, Relaxed);
        self.used_index.at(0).store(index.wrapping_add(batch), Relaxed);
    }
}

struct PackedDevice {
    ring: Words<[AtomicU64; 2]>,
    taken: u32,
    given: u32,
}

impl PackedDevice {
    fn wrap(count: u32) -> bool {
        (count / u32::from(SIZE)).is_multiple_of(2)
    }
}

impl Device for PackedDevice {
    fn over(region: &Region) -> PackedDevice {
        PackedDevice { ring: Words::new(region, 0, SIZE.into()), taken: 0, given: 0 }
    }

    fn take(&mut self) -> Option<(u16, u64, u32)> {
        let [address, rest] = self.ring.at(self.taken);
        let rest = rest.load(Relaxed);
        let flags = (rest >> 48) as u16;
        let (available, used) = (flags & p::descriptor::AVAIL != 0, flags & p::descriptor::USED != 0);
        if available != Self::wrap(self.taken) || used == available {
            return None;
        }
        self.taken += 1;
        Some(((rest >> 32) as u16, address.load(Relaxed), rest as u32))
    }

    fn give(&mut self, id: u16, len: u32, batch: u16) {
        let both = p::descriptor::AVAIL | p::descriptor::USED;
        let flags = if Self::wrap(self.given) { both } else { 0 };
        let word = u64::from(len) | u64::from(id) << 32 | u64::from(flags) << 48;
        self.ring.at(self.given)[1].store(word, Relaxed);
        self.given += u32::from(batch);
    }
}

fn pair<R: Virtqueue, D: Device>(in_order: bool) -> (R, D) {
    let ring = R::new(&dma(), shape(in_order)).unwrap();
    let device = D::over(ring.memory().last().unwrap());
    (ring, device)
}

fn put<R: Virtqueue>(ring: &mut R, tag: u64) -> u16 {
    let id = ring.ids().next();
    ring.put(Part { address: tag, len: tag as u32 % 1000, write: true });
    id
}

fn put_some<R: Virtqueue>(ring: &mut R, count: u64) {
    for tag in 0..count {
        put(ring, tag);
    }
}

fn pop<R: Virtqueue>(ring: &mut R) -> Option<Used> {
    ring.refresh_used();
    ring.pop()
}

/// Puts and returns buffers as `choices` say, and follows each by its id: none
/// may be lost, doubled or changed. Returned in order, or any of those out.
fn follow<R: Virtqueue, D: Device>(in_order: bool, choices: &[(u8, u8)]) {
    let (mut ring, mut device) = pair::<R, D>(in_order);
    let (mut with_driver, mut with_device) = (std::collections::BTreeMap::new(), Vec::new());
    let mut tag = 0;
    for &(count, pick) in choices {
        for _ in 0..u32::from(count).min(ring.ids().room()) {
            tag += 1;
            let id = put(&mut ring, tag);
            assert_eq!(with_driver.insert(id, tag), None, "slot {id} was not free");
        }
        ring.publish();
        while let Some((id, address, len)) = device.take() {
            assert_eq!(with_driver[&id], address);
            assert_eq!(len, address as u32 % 1000);
            with_device.push((id, len));
        }
        for _ in 0..(usize::from(pick) % (usize::from(SIZE) + 1)).min(with_device.len()) {
            let at = if in_order { 0 } else { usize::from(pick) % with_device.len() };
            let (id, len) = with_device.remove(at);
            device.give(id, len, 1);
            assert_eq!(pop(&mut ring), Some(Used { id, len }));
            with_driver.remove(&id);
        }
        assert_eq!(pop(&mut ring), None);
        assert_eq!(ring.ids().outstanding() as usize, with_driver.len());
        assert_eq!(ring.violation(), None);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn buffers_come_back_as_they_went(
        in_order: bool,
        choices in prop::collection::vec((0_u8..20, any::<u8>()), 1..300),
    ) {
        follow::<Split, SplitDevice>(in_order, &choices);
        follow::<Packed, PackedDevice>(in_order, &choices);
    }

    #[test]
    fn anything_in_the_ring_is_a_buffer_or_a_violation(words in prop::collection::vec(any::<(u16, u32, u16)>(), 1..40)) {
        fn feed<R: Virtqueue, D: Device>(in_order: bool, words: &[(u16, u32, u16)]) {
            let (mut ring, mut device) = pair::<R, D>(in_order);
            let mut out = [false; SIZE as usize];
            for &(id, len, batch) in words {
                while ring.ids().room() > 0 {
                    let id = usize::from(put(&mut ring, 1));
                    if std::mem::replace(&mut out[id], true) {
                        return; // an id was returned twice: the queue's slots see that
                    }
                }
                ring.publish();
                device.give(id % (2 * SIZE), len, 1 + batch % (2 * SIZE));
                let mut popped = 0;
                while let Some(used) = pop(&mut ring) {
                    out[usize::from(used.id)] = false;
                    popped += 1;
                    assert!(popped <= SIZE, "no more come back than went out");
                }
            }
        }
        for in_order in [false, true] {
            feed::<Split, SplitDevice>(in_order, &words);
            feed::<Packed, PackedDevice>(in_order, &words);
        }
    }
}

#[test]
fn counters_wrap_around() {
    let choices: Vec<(u8, u8)> = (0..20_000_u32).map(|n| (SIZE as u8, (n % 7 + 10) as u8)).collect();
    follow::<Split, SplitDevice>(false, &choices); // beyond 2^16 buffers
    follow::<Packed, PackedDevice>(false, &choices);
}

#[test]
fn one_entry_stands_for_a_batch_in_order() {
    fn batch<R: Virtqueue, D: Device>() {
        let (mut ring, mut device) = pair::<R, D>(true);
        for lap in 0..40 {
            put_some(&mut ring, 5);
            ring.publish();
            let ids: Vec<u16> = std::iter::from_fn(|| device.take()).map(|(id, ..)| id).collect();
            device.give(ids[3], 77, 4);
            let lens: Vec<(u16, u32)> =
                std::iter::from_fn(|| pop(&mut ring)).map(|used| (used.id, used.len)).collect();
            let full = |n: usize| (ids[n], Used::FULL);
            assert_eq!(lens, [full(0), full(1), full(2), (ids[3], 77)], "lap {lap}");
            device.give(ids[4], 5, 1);
            assert_eq!(pop(&mut ring), Some(Used { id: ids[4], len: 5 }));
        }
    }
    batch::<Split, SplitDevice>();
    batch::<Packed, PackedDevice>();
}

#[test]
fn violations_are_named_and_end_the_queue() {
    let (mut ring, mut device) = pair::<Split, SplitDevice>(false);
    put_some(&mut ring, 3);
    ring.publish();
    device.give(0, 1, 4);
    assert_eq!(pop(&mut ring), None);
    assert_eq!(ring.violation(), Some(RingViolation::Index { index: 4, ahead: 4, outstanding: 3 }));

    fn foreign<R: Virtqueue, D: Device>(in_order: bool) {
        let (mut ring, mut device) = pair::<R, D>(in_order);
        put_some(&mut ring, 3);
        ring.publish();
        device.give(SIZE, 1, 1);
        assert_eq!(pop(&mut ring), None);
        assert_eq!(ring.violation(), Some(RingViolation::Id(SIZE.into())));
        device.give(0, 1, 1);
        assert_eq!(pop(&mut ring), None, "nothing is believed any more");
    }
    for in_order in [false, true] {
        foreign::<Split, SplitDevice>(in_order);
        foreign::<Packed, PackedDevice>(in_order);
    }
    // Flags that are neither the driver's of this lap nor a used buffer's.
    for flags in [0, p::descriptor::USED, p::descriptor::AVAIL | p::descriptor::USED] {
        let (mut ring, device) = pair::<Packed, PackedDevice>(false);
        put_some(&mut ring, 3);
        assert_eq!((pop(&mut ring), ring.violation()), (None, None), "not used yet");
        device.ring.at(0)[1].store(u64::from(flags) << 48, Relaxed);
        let used = flags == p::descriptor::AVAIL | p::descriptor::USED;
        assert_eq!(pop(&mut ring), used.then_some(Used { id: 0, len: 0 }));
        assert_eq!(ring.violation(), (!used).then_some(RingViolation::Lap { place: 0, flags }));
    }
    // In order, an id beyond what is out is a violation, too.
    let (mut ring, mut device) = pair::<Packed, PackedDevice>(true);
    put_some(&mut ring, 3);
    ring.publish();
    device.give(9, 1, 1);
    assert_eq!((pop(&mut ring), ring.violation()), (None, Some(RingViolation::Id(9))));
}

#[test]
fn only_buffers_of_several_parts_take_a_table() {
    fn takes_tables<R: Virtqueue>(flags: impl Fn(&Region, u32) -> u64, indirect: u64) {
        let mut ring = R::new(&dma(), Shape { parts: 4, indirect: true, ..shape(false) }).unwrap();
        let part = |address| Part { address, len: 10, write: false };
        ring.put_parts(&[part(1)]);
        ring.put(part(2));
        ring.put_parts(&[part(3), part(4), part(5)]);
        let region = ring.memory().pop().unwrap();
        let tables: Vec<bool> = (0..3).map(|n| flags(&region, n) & indirect != 0).collect();
        assert_eq!(tables, [false, false, true]);
        assert_eq!(ring.ids().outstanding(), 3, "one slot each");
    }
    let word =
        |region: &Region, n| Words::<[AtomicU64; 2]>::new(region, 0, SIZE.into()).at(n)[1].load(Relaxed);
    takes_tables::<Split>(|region, n| word(region, n) >> 32, s::descriptor::INDIRECT.into());
    takes_tables::<Packed>(|region, n| word(region, n) >> 48, p::descriptor::INDIRECT.into());
}

#[test]
fn a_device_that_polls_is_not_kicked() {
    let (mut ring, _) = pair::<Split, SplitDevice>(false);
    put(&mut ring, 1);
    assert!(ring.publish(), "a fresh ring wants notifications");
    assert!(!ring.publish(), "nothing new, nothing to tell");
    let flags = s::legacy_used(SIZE) + s::used::FLAGS;
    let flags = Words::<AtomicU16>::new(ring.memory().last().unwrap(), flags, 1);
    flags.at(0).store(s::used::NO_NOTIFY, Relaxed);
    put(&mut ring, 2);
    assert!(!ring.publish());
}

/// A buffer as a device fills it: a header, then bytes.
fn filled(pool: &mut Pool, header: Header, len: usize) -> Packet {
    let mut packet = pool.alloc().unwrap();
    packet.set_len(len.min(DATA_ROOM)).unwrap();
    let bytes = header.bytes();
    let short = bytes.len().min(packet.len()).min(header::BYTES);
    packet[..short].copy_from_slice(&bytes[..short]);
    packet
}

fn take(merge: &mut Merge, pool: &mut Pool, batch: &mut Batch, header: Header, len: usize) -> Outcome {
    let packet = filled(pool, header, len);
    let used = Used { id: 0, len: len as u32 };
    merge.take(packet, used, header::BYTES, pool, batch, &mut 0)
}

#[test]
fn headers_that_are_wrong_cost_their_packet_only() {
    let mut pool = Pool::new(&dma(), 32).unwrap();
    let mut batch = Batch::with_limit(32);
    let mut merge = Merge::new(4 * DATA_ROOM, true);
    let header = |num_buffers| Header { num_buffers, ..Header::default() };
    let partial =
        Header { flags: header::NEEDS_CSUM, csum_start: 60_000, num_buffers: 1, ..Header::default() };
    let segmented = Header { gso_type: header::GSO_TCPV4, num_buffers: 1, ..Header::default() };
    let wrong = [
        (header(0), 100),
        (header(1), 0),
        (header(1), 5),
        (header(1), header::BYTES),
        (header(1), DATA_ROOM + 1),
        (partial, 100),
        (segmented, 100),
    ];
    for (header, len) in wrong {
        assert!(
            matches!(take(&mut merge, &mut pool, &mut batch, header, len), Outcome::Bad),
            "{header:?} {len}"
        );
        assert!(matches!(take(&mut merge, &mut pool, &mut batch, header_of(1), 64), Outcome::Packet(52)));
        pool.free_batch(&mut batch);
    }
    // Too many buffers: all of them are dropped, and the next packet is good.
    assert!(matches!(take(&mut merge, &mut pool, &mut batch, header(6), 100), Outcome::Bad));
    for _ in 0..5 {
        assert!(matches!(take(&mut merge, &mut pool, &mut batch, header(1), 64), Outcome::Part));
    }
    assert!(matches!(take(&mut merge, &mut pool, &mut batch, header(1), 64), Outcome::Packet(52)));
    pool.free_batch(&mut batch);
    // A segment without bytes ends its packet.
    assert!(matches!(take(&mut merge, &mut pool, &mut batch, header(3), 100), Outcome::Part));
    assert!(matches!(take(&mut merge, &mut pool, &mut batch, header(1), 0), Outcome::Bad));
    assert!(matches!(take(&mut merge, &mut pool, &mut batch, header(1), 100), Outcome::Part));
    assert!(matches!(take(&mut merge, &mut pool, &mut batch, header(1), 64), Outcome::Packet(52)));
    pool.free_batch(&mut batch);
    assert_eq!(pool.available(), pool.capacity(), "no buffer is lost");
}

fn header_of(num_buffers: u16) -> Header {
    Header { num_buffers, ..Header::default() }
}

#[test]
fn packets_in_several_buffers_are_one() {
    let mut pool = Pool::new(&dma(), 8).unwrap();
    let mut batch = Batch::with_limit(8);
    let mut merge = Merge::new(4 * DATA_ROOM, true);
    assert!(matches!(take(&mut merge, &mut pool, &mut batch, header_of(3), DATA_ROOM), Outcome::Part));
    assert!(matches!(take(&mut merge, &mut pool, &mut batch, header_of(3), DATA_ROOM), Outcome::Part));
    let bytes = 2 * DATA_ROOM - header::BYTES + 10;
    match take(&mut merge, &mut pool, &mut batch, header_of(3), 10) {
        Outcome::Packet(len) => assert_eq!(len as usize, bytes),
        _ => panic!("the third buffer ends it"),
    }
    assert_eq!((batch.len(), batch[0].segments().count(), batch[0].total_len()), (1, 3, bytes));
    assert_eq!(batch[0].headroom(), memory::HEADROOM + header::BYTES, "the header became headroom");
}
