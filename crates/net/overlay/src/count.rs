//! How many packets and bytes went into each tunnel, and by each entry. A sender alone writes
//! what it counts, in memory of its own, so that threads do not wait for each other.

use std::array;
use std::collections::HashMap;
use std::ops::AddAssign;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// Packets and their bytes, without the tunnel's headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Count {
    /// Packets that were sent.
    pub packets: u64,
    /// Bytes of the packets inside.
    pub bytes: u64,
}

impl AddAssign for Count {
    fn add_assign(&mut self, more: Count) {
        self.packets += more.packets;
        self.bytes += more.bytes;
    }
}

/// How much an entry is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// What went by it since it is there.
    pub count: Count,
    /// When the last packet did, as senders are [told](crate::Encapsulator::set_time) the time.
    pub last: Option<Duration>,
}

/// Entries or tunnels whose counters are made at once.
const CHUNK: usize = 1024;
/// So many of them are made at most: for four million entries, which a table has at most.
const CHUNKS: usize = 1 << 12;

/// Counters of an entry or of a tunnel, in one cache line.
#[derive(Debug, Default)]
#[repr(align(32))]
struct Slot {
    packets: AtomicU64,
    bytes: AtomicU64,
    last_ns: AtomicU64,
}

/// What one sender counted of entries, or of tunnels, by their numbers.
#[derive(Debug)]
pub(crate) struct OwnCounts([OnceLock<Box<[Slot; CHUNK]>>; CHUNKS]);

impl OwnCounts {
    fn new() -> Box<OwnCounts> {
        Box::new(OwnCounts([const { OnceLock::new() }; CHUNKS]))
    }

    /// Counts a packet of `bytes` bytes. Only one thread calls this.
    #[inline]
    pub(crate) fn add(&self, number: u32, bytes: u64) {
        if let Some(slot) = self.slot(number) {
            slot.add(Count { packets: 1, bytes });
        }
    }

    /// As [`add`](Self::add), with the time when that was.
    #[inline]
    pub(crate) fn add_at(&self, number: u32, bytes: u64, now_ns: u64) {
        if let Some(slot) = self.slot(number) {
            slot.add(Count { packets: 1, bytes });
            slot.last_ns.store(now_ns, Ordering::Relaxed);
        }
    }

    /// The counters of a number; `None` for one that is too large.
    #[inline]
    fn slot(&self, number: u32) -> Option<&Slot> {
        let chunk = self.0.get(number as usize / CHUNK)?;
        let chunk = match chunk.get() {
            Some(chunk) => chunk,
            None => chunk.get_or_init(begin),
        };
        Some(&chunk[number as usize % CHUNK])
    }

    /// What was counted of a number, and when that was last.
    fn get(&self, number: u32) -> (Count, u64) {
        let chunk = self.0.get(number as usize / CHUNK).and_then(OnceLock::get);
        let Some(slot) = chunk.map(|chunk| &chunk[number as usize % CHUNK]) else {
            return Default::default();
        };
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (Count { packets: load(&slot.packets), bytes: load(&slot.bytes) }, load(&slot.last_ns))
    }

    /// Adds what another counted.
    fn take(&self, other: &OwnCounts) {
        let there = (0..CHUNKS).filter(|chunk| other.0[*chunk].get().is_some());
        for number in there.flat_map(|chunk| chunk * CHUNK..(chunk + 1) * CHUNK) {
            let number = number as u32; // below CHUNKS * CHUNK
            let ((count, last), (_, own)) = (other.get(number), self.get(number));
            if let Some(slot) = self.slot(number).filter(|_| count.packets > 0) {
                slot.add(count);
                slot.last_ns.store(last.max(own), Ordering::Relaxed);
            }
        }
    }
}

impl Slot {
    #[inline]
    fn add(&self, count: Count) {
        // Nobody else writes these, and nothing is read that another write must come before.
        let add = |counter: &AtomicU64, more| {
            counter.store(counter.load(Ordering::Relaxed) + more, Ordering::Relaxed);
        };
        add(&self.packets, count.packets);
        add(&self.bytes, count.bytes);
    }
}

/// Makes room for the counters of some numbers: once for each.
#[cold]
fn begin() -> Box<[Slot; CHUNK]> {
    Box::new(array::from_fn(|_| Slot::default()))
}

/// What all senders counted of entries, or of tunnels.
#[derive(Debug, Clone)]
pub(crate) struct Usages(Arc<Mutex<All>>);

#[derive(Debug)]
struct All {
    senders: Vec<Arc<OwnCounts>>,
    /// What senders counted that are gone.
    gone: Box<OwnCounts>,
    /// What was counted of a number when the one came that has it now.
    before: HashMap<u32, Count>,
}

impl All {
    /// What was counted of a number by all, and when that was last.
    fn sum(&self, number: u32) -> (Count, u64) {
        let counts = self.senders.iter().map(|sender| sender.get(number));
        counts.fold(self.gone.get(number), |(sum, latest), (count, last)| {
            let (packets, bytes) = (sum.packets + count.packets, sum.bytes + count.bytes);
            (Count { packets, bytes }, latest.max(last))
        })
    }
}

impl Default for Usages {
    fn default() -> Usages {
        let all = All { senders: Vec::new(), gone: OwnCounts::new(), before: HashMap::new() };
        Usages(Arc::new(Mutex::new(all)))
    }
}

impl Usages {
    fn all(&self) -> MutexGuard<'_, All> {
        // Nothing that is done under the lock can panic half-way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counters for one sender more.
    fn add(&self) -> Arc<OwnCounts> {
        let own: Arc<OwnCounts> = OwnCounts::new().into();
        let mut all = self.all();
        let All { senders, gone, .. } = &mut *all;
        senders.retain_mut(|sender| match Arc::get_mut(sender) {
            None => true,
            // Nobody else has it, and `get_mut` has seen all that its thread counted before it
            // let go: a look at the number of owners alone would not have.
            Some(sender) => {
                gone.take(sender);
                false
            }
        });
        senders.push(own.clone());
        own
    }

    /// Begins anew with a number, which one has from now on that was not there.
    pub(crate) fn begin(&self, number: u32) {
        let mut all = self.all();
        match all.sum(number) {
            (Count { packets: 0, .. }, _) => drop(all.before.remove(&number)),
            (count, _) => drop(all.before.insert(number, count)),
        }
    }

    /// What was counted since the one has a number that has it now.
    pub(crate) fn of(&self, number: u32) -> Usage {
        let all = self.all();
        let ((sum, last), before) = (all.sum(number), all.before.get(&number).copied().unwrap_or_default());
        let packets = sum.packets.saturating_sub(before.packets);
        let count = Count { packets, bytes: sum.bytes.saturating_sub(before.bytes) };
        Usage { count, last: (packets > 0).then(|| Duration::from_nanos(last)) }
    }
}

/// One sender's counters of entries or of tunnels; a clone has its own.
#[derive(Debug)]
pub(crate) struct Counting {
    pub(crate) own: Arc<OwnCounts>,
    all: Usages,
}

impl Counting {
    pub(crate) fn new(all: Usages) -> Counting {
        Counting { own: all.add(), all }
    }

    /// Counters that nobody adds to those of others.
    pub(crate) fn apart() -> Counting {
        Counting::new(Usages::default())
    }
}

impl Clone for Counting {
    fn clone(&self) -> Counting {
        Counting::new(self.all.clone())
    }
}
