//! A lane's packet buffers: pools that grow with need.

use memory::{Batch, Dma, Packet, Pool};

use crate::lang::Problem;
use crate::plan::Planned;
use crate::plan::buffers::FIRST;
use crate::run::lane::Lane;

/// Buffers that are kept for packets on their way when no more can be had: what would
/// wait is dropped.
const KEPT: usize = 1024;
/// Buffers at hand below which receive queues are given another pool.
const LOW: usize = 64;
/// The most buffers of a further pool, unless there are many.
const SLICE: usize = 1 << 14;
/// Buffers of a further pool that are made at once. While the system provides their memory, which takes
/// some 100 µs, the lane does nothing else: with many of them rings run over, and sources fall behind.
const STEP: usize = LOW;

/// Pools of one lane. The first is the one that receive queues refill from; further
/// ones come when elements hold many packets, up to a limit.
#[derive(Debug)]
pub struct Buffers {
    pools: Vec<Pool>,
    /// The further pool that had a buffer last.
    latest: usize,
    dma: Dma,
    /// Buffers there may be in all.
    limit: usize,
    /// Buffers that were asked for in advance.
    reserved: usize,
    /// Which elements cannot do without how many of them.
    needs: Vec<(usize, usize)>,
    /// Packets that may wait in each place when buffers are scarce: all such places together
    /// take half of those that are kept, so that one that is full does not take from others
    /// what they need to hand packets on.
    few: usize,
    /// No more buffers can be had than there are.
    full: bool,
    /// Packets that were wanted and not had, and those that were not let wait.
    pub(crate) missing: u64,
    /// The element that lacked buffers first.
    lacking: Option<usize>,
    /// Whether the lack of buffers was told.
    told: bool,
}

impl Buffers {
    /// Up to `limit` buffers in memory of `dma`, for packets that wait in so many places.
    ///
    /// # Errors
    /// When memory cannot be had.
    pub fn new(dma: &Dma, limit: usize, places: usize) -> memory::Result<Buffers> {
        let first = Pool::new(dma, FIRST.min(limit.max(1)))?;
        let full = first.capacity() >= limit;
        let few = (kept(limit) / 2 / places.max(1)).max(1);
        Ok(Buffers {
            pools: vec![first],
            latest: 0,
            dma: dma.clone(),
            limit,
            reserved: 0,
            needs: vec![],
            few,
            full,
            missing: 0,
            lacking: None,
            told: false,
        })
    }

    /// The pool that receive and transmit queues use.
    #[inline(always)]
    pub fn main(&mut self) -> &mut Pool {
        if self.pools[0].is_below(LOW) {
            self.change_main();
        }
        &mut self.pools[0]
    }

    /// The main pool's packets wait somewhere: another pool takes its place, or one that has room gets
    /// buffers.
    #[cold]
    fn change_main(&mut self) {
        if size(&self.pools[0]) < 2 * LOW || self.pools[0].available() >= LOW {
            return;
        }
        let most = (1..self.pools.len()).max_by_key(|&n| self.pools[n].available());
        match most.filter(|&n| self.pools[n].available() >= LOW).or_else(|| self.grow()) {
            Some(other) => self.pools.swap(0, other),
            // The device will lack them.
            None => self.missing += u64::from(self.pools[0].available() == 0),
        }
    }

    /// Whether no packet is to wait now that need not: no more buffers can be had, and
    /// those that are left are for packets on their way.
    #[inline]
    pub fn is_scarce(&mut self) -> bool {
        self.full && self.is_below_kept()
    }

    /// How many of `count` packets a place is to take where so many wait already.
    #[inline]
    pub fn room_for(&mut self, count: usize, waiting: impl FnOnce() -> usize) -> usize {
        match self.is_scarce() {
            true => count.min(self.few.saturating_sub(waiting())),
            false => count,
        }
    }

    #[cold]
    fn is_below_kept(&mut self) -> bool {
        self.pools.iter_mut().map(|pool| pool.available() + pool.room()).sum::<usize>() < kept(self.limit)
    }

    /// Packets were not let wait.
    pub fn count_refused(&mut self, count: usize) {
        self.missing += count as u64;
    }

    /// An element made no packet for want of buffers, or its packets were not let wait.
    #[cold]
    pub fn lacks(&mut self, element: usize) {
        if self.missing > 0 {
            self.lacking.get_or_insert(element);
        }
    }

    /// What is to be told, once a router, when packets were lost for want of buffers; and at which
    /// element, where it was not a receive queue that had none.
    pub fn complaint(&mut self) -> Option<(Option<usize>, String)> {
        if self.missing == 0 || std::mem::replace(&mut self.told, true) {
            return None;
        }
        let have: usize = self.pools.iter().map(Pool::capacity).sum();
        let text = format!(
            "no packet buffers left ({have}): packets are dropped where they are made, or would wait; \
             --buffers allows more\n"
        );
        Some((self.lacking, text))
    }

    /// Asks for buffers in the main pool for an element, beside those that others ask for: receive
    /// rings keep theirs. It cannot do without so many of them.
    pub fn reserve(&mut self, element: usize, needed: usize, wanted: usize) {
        self.reserved = self.reserved.saturating_add(wanted);
        self.needs.push((element, needed));
    }

    /// Which elements cannot do without how many buffers, if that is more in all than there may be; and how
    /// many there would have to be, with some for packets on their way.
    pub fn unmet(&self) -> Option<(&[(usize, usize)], usize)> {
        let needed = self.needs.iter().fold(LOW, |sum, (_, needed)| sum.saturating_add(*needed));
        // Beside those that are kept for packets on their way, which are an eighth or fewer.
        let least = needed.saturating_add(KEPT).min(needed.saturating_mul(8).div_ceil(7));
        (least > self.limit && !self.needs.is_empty()).then_some((&self.needs[..], least))
    }

    /// How many there may be in all.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Makes the main pool as large as all asked for together, before anything is in use, but not larger
    /// than there may be in all.
    ///
    /// # Errors
    /// When memory cannot be had.
    pub fn provide(&mut self) -> memory::Result<()> {
        self.provide_main(self.reserved.min(self.limit))
    }

    /// Lets there be as many as all asked for together: where nobody set a limit.
    pub fn allow_reserved(&mut self) {
        self.limit = self.limit.max(self.reserved);
    }

    /// Makes the main pool larger by so many buffers, as far as there may be more in all.
    ///
    /// # Errors
    /// When memory cannot be had.
    pub fn add(&mut self, count: usize) -> memory::Result<()> {
        let size = self.pools[0].capacity().saturating_add(count);
        self.provide_main(size.min(self.limit))
    }

    /// Has a main pool of that size, in place of the one there is: buffers of both together could be more than
    /// there may be. One of which buffers are out stays beside it, within the limit.
    fn provide_main(&mut self, size: usize) -> memory::Result<()> {
        if self.pools[0].capacity() >= size {
            return Ok(());
        }
        let out = |pool: &mut Pool| pool.available() < pool.capacity();
        let stays = |pool: &mut Pool| if out(pool) { pool.capacity() } else { 0 };
        let beside: usize = self.pools.iter_mut().map(stays).sum();
        let size = size.min(self.limit.saturating_sub(beside));
        if size > self.pools[0].capacity() {
            let main = Pool::new(&self.dma, size)?;
            self.pools.retain_mut(out);
            self.pools.insert(0, main);
            self.latest = 0;
        }
        self.full = self.pools.iter().map(self::size).sum::<usize>() >= self.limit;
        Ok(())
    }

    /// Takes over the pools of a lane that has ended. Rings of ports still hold buffers of them, and
    /// a pool lasts as long as any of its buffers is out: with pools of its own for each of many
    /// configurations, a router whose ports move few packets would keep those of all. What is above
    /// this lane's limit stays behind, as all does if receive queues were promised more than that.
    pub fn inherit(&mut self, old: &mut Buffers) {
        let mut have = 0;
        let limit = self.limit;
        let mut fits = |pool: &Pool| {
            let fits = size(pool) <= limit - have;
            have += if fits { size(pool) } else { 0 };
            fits
        };
        let promised = self.reserved.max(FIRST).min(self.limit);
        let is_enough = old.pools[0].capacity() >= promised && fits(&old.pools[0]);
        if !is_enough || !self.dma.is_same(&old.dma) {
            return;
        }
        let further = old.pools.split_off(1);
        // The lane that has ended keeps the pools that this one began with.
        std::mem::swap(&mut self.pools, &mut old.pools);
        for pool in further {
            let owner = if fits(&pool) { &mut self.pools } else { &mut old.pools };
            owner.push(pool);
        }
        self.full = have >= self.limit;
    }

    /// A buffer with an empty packet and nothing known of it.
    #[inline]
    pub fn alloc(&mut self) -> Option<Packet> {
        let Some(mut packet) = self.pools[0].alloc().or_else(|| self.alloc_further()) else {
            self.missing += 1;
            return None;
        };
        packet.clear_annotations();
        Some(packet)
    }

    /// A buffer of another pool than the first.
    fn alloc_further(&mut self) -> Option<Packet> {
        let latest = self.pools.get_mut(self.latest).and_then(Pool::alloc);
        if latest.is_some() {
            return latest;
        }
        let found = self.pools.iter_mut().zip(0..).find_map(|(pool, n)| Some((pool.alloc()?, n)));
        let Some((packet, n)) = found else { return self.grow().and_then(|n| self.pools[n].alloc()) };
        self.latest = n;
        Some(packet)
    }

    /// Appends up to `count` empty packets to `batch`. What is known of them is
    /// whatever was known before.
    #[inline]
    pub fn alloc_batch(&mut self, batch: &mut Batch, count: usize) {
        let made = self.pools[0].alloc_batch(batch, count);
        if made < count && batch.room() > 0 {
            self.alloc_more(batch, count - made);
        }
    }

    #[cold]
    fn alloc_more(&mut self, batch: &mut Batch, count: usize) {
        let count = count.min(batch.room());
        for _ in 0..count {
            let Some(packet) = self.alloc() else { return };
            let _none = batch.push(packet); // there is room
        }
    }

    /// Some more: a [`STEP`] of the pool that has room, or of another ([`further`]), which has them then.
    /// It is not tried again once that failed.
    #[cold]
    fn grow(&mut self) -> Option<usize> {
        let n = self.pool_with_room()?;
        self.latest = n;
        match self.pools[n].extend(STEP) {
            Ok(made) => (made > 0).then_some(n),
            Err(_) => {
                self.pools[n].forgo_room();
                self.full = true;
                None
            }
        }
    }

    /// The pool that can make buffers, or a new one.
    fn pool_with_room(&mut self) -> Option<usize> {
        let found = self.pools.iter().position(|pool| pool.room() > 0);
        if found.is_some() || self.full {
            return found;
        }
        let have: usize = self.pools.iter().map(Pool::capacity).sum();
        let more = further(have).min(self.limit.saturating_sub(have)).min(Pool::MAX);
        let pool = (more > 0).then(|| Pool::sparse(&self.dma, more).ok()).flatten();
        self.full = pool.is_none() || have + more >= self.limit;
        self.pools.push(pool?);
        Some(self.pools.len() - 1)
    }

    /// Frees a packet.
    #[inline]
    pub fn free(&mut self, packet: Packet) {
        self.pools[0].free(packet);
    }

    /// Frees all packets of a batch.
    #[inline]
    pub fn free_batch(&mut self, batch: &mut Batch) {
        if !batch.is_empty() {
            self.pools[0].free_batch(batch);
        }
    }

    /// Buffers in use, and in all.
    pub fn usage(&mut self) -> (usize, usize) {
        let all: usize = self.pools.iter().map(Pool::capacity).sum();
        let free: usize = self.pools.iter_mut().map(Pool::available).sum();
        (all - free, all)
    }
}

/// What is wrong where elements of a lane cannot do with as few buffers as it may have.
pub(crate) fn too_few_buffers(lane: &Lane) -> Option<Problem> {
    let (needs, least) = lane.buffers.unmet()?;
    let elements = &lane.shared.plan.elements;
    let each = needs.iter().map(|&(index, needed)| {
        let Planned { name, class, config, .. } = &elements[index];
        format!("{name} :: {class}({config}) {needed}")
    });
    let each = each.collect::<Vec<_>>().join(", ");
    let message = format!(
        "thread {} needs {least} packet buffers for what it receives into ({each}), and may have {}: \
         --buffers {least} or more, or smaller rings",
        lane.id,
        lane.buffers.limit()
    );
    needs.first().map(|&(index, _)| Problem::error(&elements[index].place, message))
}

/// Buffers that a pool has or can make.
fn size(pool: &Pool) -> usize {
    pool.capacity() + pool.room()
}

/// How many buffers come to so many: as many again while they are few, and a sixteenth while they
/// are many, so that there are some hundred pools at most.
fn further(have: usize) -> usize {
    have.min(SLICE.max(have / 16))
}

/// Of so many buffers, those that are kept for packets on their way.
fn kept(limit: usize) -> usize {
    KEPT.min(limit / 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn receive_queues_are_given_another_pool_when_packets_wait() {
        let dma = Dma::new(memory::Options { backing: memory::Backing::Memfd, ..Default::default() });
        let mut buffers = Buffers::new(&dma, 2 * FIRST, 4).expect("memory");
        let waiting: Vec<Packet> = (0..FIRST).filter_map(|_| buffers.main().alloc()).collect();
        assert_eq!(waiting.len(), FIRST);
        assert!(buffers.main().available() > LOW && !buffers.is_scarce());
        let more: Vec<Packet> = (0..FIRST - 4 * LOW).filter_map(|_| buffers.main().alloc()).collect();
        assert!(buffers.is_scarce() && buffers.complaint().is_none());
        let few = 2 * FIRST / 8 / 2 / 4;
        assert_eq!([few, few - 1, 0].map(|waiting| buffers.room_for(32, || waiting)), [0, 1, 32]);
        buffers.count_refused(3);
        assert!(buffers.complaint().is_some() && buffers.complaint().is_none(), "told once");
        drop((waiting, more));
        assert!(!buffers.is_scarce());
    }

    #[test]
    fn memory_comes_in_slices_and_not_in_many() {
        let (mut have, mut pools) = (FIRST, 1);
        while have < 1 << 24 {
            let more = further(have);
            assert!(more <= SLICE.max(have / 16) && more > 0);
            (have, pools) = (have + more, pools + 1);
        }
        assert!(pools < 100, "{pools}");
        let dma = Dma::new(memory::Options { backing: memory::Backing::Memfd, ..Default::default() });
        let mut buffers = Buffers::new(&dma, 1 << 20, 1).expect("memory");
        let mut held: Vec<Packet> = Vec::new();
        while held.len() < 3 * SLICE {
            let before = buffers.usage().1;
            held.extend(buffers.alloc());
            assert!(buffers.usage().1 - before <= 64, "made at once, after {before}");
        }
        let largest = buffers.pools.iter().map(Pool::capacity).max();
        assert_eq!((held.len(), largest), (3 * SLICE, Some(SLICE)));
        drop(held);
        assert_eq!(buffers.usage(), (0, 3 * SLICE));
    }

    #[test]
    fn receive_queues_that_lack_buffers_are_told_of() {
        let dma = Dma::new(memory::Options { backing: memory::Backing::Memfd, ..Default::default() });
        let mut buffers = Buffers::new(&dma, FIRST, 1).expect("memory");
        let mut waiting: Vec<Packet> = (0..FIRST - LOW + 1).filter_map(|_| buffers.alloc()).collect();
        assert_eq!(buffers.main().available(), LOW - 1);
        assert!(
            waiting.len() > FIRST - LOW && buffers.complaint().is_none(),
            "few are left, none was missed"
        );
        waiting.extend((1..LOW).filter_map(|_| buffers.alloc()));
        assert_eq!((buffers.main().available(), waiting.len()), (0, FIRST));
        assert!(buffers.complaint().is_some(), "a receive queue finds none");
    }

    #[test]
    fn what_several_ask_for_adds_up() {
        let dma = Dma::new(memory::Options { backing: memory::Backing::Memfd, ..Default::default() });
        let mut buffers = Buffers::new(&dma, 1 << 16, 1).expect("memory");
        buffers.reserve(0, 512, FIRST - 1);
        buffers.provide().expect("memory");
        assert_eq!(buffers.main().capacity(), FIRST, "there is enough");
        // Two receive rings on one lane: the second must not find the first's buffers gone.
        buffers.reserve(1, 512, 4096);
        buffers.provide().expect("memory");
        assert!(buffers.main().capacity() >= FIRST - 1 + 4096);
        assert_eq!(buffers.unmet(), None);
    }

    /// Whatever is asked for, and whatever elements have taken by then.
    #[test]
    fn all_pools_together_stay_within_the_limit() {
        let dma = Dma::new(memory::Options { backing: memory::Backing::Memfd, ..Default::default() });
        let all = |buffers: &mut Buffers| (0..).map_while(|_| buffers.alloc()).collect::<Vec<_>>().len();
        for (asked, added, taken, limit) in [
            (0, 0, 0, 64),
            (3000, 0, 0, 4096),
            (4096, 0, 0, 4096),
            (5000, 0, 0, 4096),
            (3000, 0, 1, 4096),
            (3000, 16384, 0, 8000),
            (0, 16384, 10, 4096),
            (10_000, 16384, 0, 100_000),
        ] {
            let mut buffers = Buffers::new(&dma, limit, 1).expect("memory");
            let held: Vec<Packet> = (0..taken).filter_map(|_| buffers.alloc()).collect();
            buffers.reserve(0, 512, asked);
            assert_eq!(buffers.unmet().map(|(_, least)| least), (limit < 659).then_some(659));
            buffers.provide().expect("memory");
            buffers.add(added).expect("memory");
            let promised = buffers.main().capacity();
            assert!(taken > 0 || promised >= (asked + added).min(limit), "{promised} of {asked} + {added}");
            assert_eq!(all(&mut buffers) + held.len(), limit, "asked {asked}, added {added}, limit {limit}");
        }
        // A limit that nobody promised gives way.
        let mut buffers = Buffers::new(&dma, 2 * FIRST, 1).expect("memory");
        buffers.reserve(0, FIRST, 3 * FIRST);
        buffers.allow_reserved();
        buffers.provide().expect("memory");
        assert_eq!((buffers.main().capacity(), all(&mut buffers)), (3 * FIRST, 3 * FIRST));
    }

    /// What is left beside the rings of as many as are asked for is enough that packets may wait.
    #[test]
    fn as_many_as_are_asked_for_are_not_scarce() {
        let dma = Dma::new(memory::Options { backing: memory::Backing::Memfd, ..Default::default() });
        for ring in [64, 512, 1024] {
            let mut buffers = Buffers::new(&dma, 1, 1).expect("memory");
            buffers.reserve(0, ring, ring);
            let (_, least) = buffers.unmet().expect("one is too few");
            for (limit, scarce) in [(least, false), (ring + LOW, ring > LOW)] {
                let mut buffers = Buffers::new(&dma, limit, 1).expect("memory");
                let held: Vec<Packet> = (0..ring).filter_map(|_| buffers.alloc()).collect();
                assert_eq!(
                    (held.len(), buffers.is_scarce()),
                    (ring, scarce),
                    "{limit} with a ring of {ring}"
                );
            }
        }
    }

    #[test]
    fn pools_are_inherited_up_to_the_limit() {
        let dma = Dma::new(memory::Options { backing: memory::Backing::Memfd, ..Default::default() });
        let capacities = |buffers: &Buffers| buffers.pools.iter().map(size).collect::<Vec<_>>();
        let mut old = Buffers::new(&dma, 1 << 16, 1).expect("memory");
        let held: Vec<Packet> = (0..3 * FIRST).filter_map(|_| old.alloc()).collect();
        assert_eq!(capacities(&old), [FIRST, FIRST, 2 * FIRST]);
        let mut next = Buffers::new(&dma, 2 * FIRST, 1).expect("memory");
        next.inherit(&mut old);
        assert_eq!((capacities(&next), capacities(&old)), (vec![FIRST; 2], vec![FIRST, 2 * FIRST]));
        assert!(next.alloc().is_none(), "all are out, and the limit is reached");
        drop(held);
        assert_eq!((next.usage(), old.usage()), ((0, 2 * FIRST), (0, 2 * FIRST)));
        // One that has promised more keeps its own, and so does one in other memory.
        let mut more = Buffers::new(&dma, 1 << 16, 1).expect("memory");
        more.reserve(0, FIRST, 2 * FIRST);
        more.provide().expect("memory");
        more.inherit(&mut next);
        assert_eq!(capacities(&next), [FIRST; 2]);
        let other = Dma::new(memory::Options { backing: memory::Backing::Memfd, ..Default::default() });
        Buffers::new(&other, 1 << 16, 1).expect("memory").inherit(&mut next);
        assert_eq!(capacities(&next), [FIRST; 2]);
    }
}
