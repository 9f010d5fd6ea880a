//! `Pipeliner`: packets of any thread go on in one (*Fast Userspace Packet
//! Processing*, 5.5).

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use graph::class::{Handlers, NOT_TAKEN_OVER, action, both, keyword, positional, read};
use graph::element::ThreadPlacement;
use graph::{Class, Cx, Element, Next, PerThreadCounter, Ran, Signal, TaskId};
use memory::{Batch, Packet};
use port::Reason;

pub static CLASS: Class = Class {
    name: "Pipeliner",
    brief: "hands packets over to one thread, which pushes them on",
    doc: "A full-push queue: each thread that pushes has a ring of its own, so that producers do not wait for \
          each other, and the element's thread (StaticThreadSched) takes packets from all of them in turn and \
          pushes them on. Packets of that thread itself pass straight through. A full ring drops, or with \
          BLOCKING waits a millisecond for room first.",
    processing: "h/h",
    arguments: &[
        positional("CAPACITY", "packets in each thread's ring; 1024"),
        positional("BURST", "packets taken from a ring before the next one has its turn; 32"),
        positional("BLOCKING", "whether producers wait for room for a moment; false"),
        keyword("ACTIVE", "whether packets go on; true"),
        keyword("DIRECT_TRAVERSAL", "whether packets of its own thread pass straight through; true"),
        keyword("ALWAYS_UP", "accepted; the thread is woken when there is something to do"),
        keyword("NOUSELESS", "do not warn when there is one thread only; false"),
        keyword("VERBOSE", "say when packets are dropped; true"),
        keyword("PREFETCH", "accepted; a batch is fetched as it is looked at"),
    ],
    handlers: &Handlers::<Pipeliner>(&[
        read("count", "packets handed over", |pipeliner| pipeliner.count.sum().to_string()),
        read("dropped", "packets dropped because a ring was full", |pipeliner| {
            pipeliner.dropped.sum().to_string()
        }),
        read("highwater", "the most packets there ever were in a ring", |pipeliner| {
            pipeliner.shared.rings.iter().map(|ring| ring.lock().highest).max().unwrap_or(0).to_string()
        }),
        both(
            "active",
            "whether packets go on",
            |pipeliner| pipeliner.shared.active.is_raised().to_string(),
            |pipeliner, cx, value| {
                match super::parsed(value)? {
                    true => pipeliner.shared.active.raise(cx),
                    false => pipeliner.shared.active.lower(),
                }
                Ok(())
            },
        ),
        action("reset_counts", "counts from zero", |pipeliner, _| {
            pipeliner.count.reset();
            pipeliner.dropped.reset();
        }),
    ]),
    drops: &[Reason::RingFull, NOT_TAKEN_OVER],
    example: "FromDevice(a) -> p :: Pipeliner -> ToDevice(b); StaticThreadSched(p 1)",
    see: &["Queue", "StaticThreadSched", "CPUSwitch"],
    make: |setup, conf| {
        let capacity: i64 = conf.positional("CAPACITY")?.unwrap_or(-1);
        let burst: i64 = conf.positional("BURST")?.unwrap_or(32);
        let blocking = conf.positional("BLOCKING")?.unwrap_or(false);
        let active = conf.keyword("ACTIVE")?.unwrap_or(true);
        let direct = conf.keyword("DIRECT_TRAVERSAL")?.unwrap_or(true);
        let useful = conf.keyword("NOUSELESS")?.unwrap_or(false);
        let verbose = conf.keyword("VERBOSE")?.unwrap_or(true);
        let _: (Option<bool>, Option<bool>) = (conf.keyword("ALWAYS_UP")?, conf.keyword("PREFETCH")?);
        conf.complete()?;
        let capacity = if capacity <= 0 { 1024 } else { capacity as usize };
        if capacity < 4 {
            return Err("Pipeliner ring size must be at least 4".into());
        }
        if setup.threads == 1 && !useful {
            setup.warn("useless with one thread: packets pass straight through");
        }
        setup.will_hold(capacity.saturating_mul(setup.threads));
        let rings = (0..setup.threads).map(|_| WaitingQueue::default()).collect();
        let (packets, active) = (Signal::new(false), Signal::new(active));
        let shared = Arc::new(PipelinerState { rings, packets, active, capacity, blocking, verbose });
        let (count, dropped) = (PerThreadCounter::default(), PerThreadCounter::default());
        let burst = if burst <= 0 { Batch::MAX } else { burst as usize };
        Ok(Box::new(Pipeliner { shared, burst, direct, next: 0, count, dropped, task: None }))
    },
    ..Class::BASE
};

/// How long a producer waits for room: two Pipeliners that wait for each other go on.
const WAIT: Duration = Duration::from_millis(1);
/// How many drops are told of.
const COMPLAINTS: u64 = 10;

/// What one thread hands over. Aligned so that no two share a line, or the one the
/// processor fetches with it.
#[derive(Debug, Default)]
#[repr(align(128))]
struct WaitingQueue(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    packets: VecDeque<Packet>,
    highest: usize,
}

impl WaitingQueue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
struct PipelinerState {
    /// One for each thread.
    rings: Box<[WaitingQueue]>,
    /// Raised while there may be packets.
    packets: Signal,
    /// Raised while packets go on.
    active: Signal,
    capacity: usize,
    blocking: bool,
    verbose: bool,
}

/// A `Pipeliner` element; [`CLASS`] says what it does.
#[derive(Debug)]
pub struct Pipeliner {
    shared: Arc<PipelinerState>,
    burst: usize,
    direct: bool,
    /// Whose turn it is.
    next: usize,
    count: PerThreadCounter,
    dropped: PerThreadCounter,
    /// In the thread that takes packets out.
    task: Option<TaskId>,
}

impl Pipeliner {
    /// Puts as many packets as have room into this thread's ring.
    fn store(&mut self, ring: &WaitingQueue, batch: &mut Batch) {
        let mut waiting = ring.lock();
        let room = self.shared.capacity.saturating_sub(waiting.packets.len()).min(batch.len());
        waiting.packets.extend(batch.drain().take(room));
        waiting.highest = waiting.highest.max(waiting.packets.len());
        drop(waiting);
        self.count.add(room as u64);
    }

    /// Packets that have no room.
    #[cold]
    fn overflow(&mut self, cx: &mut Cx<'_>, ring: &WaitingQueue, batch: &mut Batch) {
        let begin = Instant::now();
        while self.shared.blocking && !batch.is_empty() && !cx.has_ended() && begin.elapsed() < WAIT {
            self.shared.packets.raise(cx);
            std::thread::yield_now();
            self.store(ring, batch);
        }
        if batch.is_empty() {
            return;
        }
        if self.shared.verbose && self.dropped.own() < COMPLAINTS {
            let (name, count) = (cx.name(), self.dropped.own() + batch.len() as u64);
            cx.say(&format!("{name} : Dropped {count} packets : have {} packets in ring\n", batch.len()));
        }
        self.dropped.add(batch.len() as u64);
        cx.drop_batch(0, batch);
    }
}

impl ThreadPlacement for Pipeliner {
    fn homes(&self, _: u64) -> u64 {
        1
    }

    fn hands_over(&self) -> bool {
        true
    }
}

impl Element for Pipeliner {
    fn thread_placement(&self) -> Option<&dyn ThreadPlacement> {
        Some(self)
    }

    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        if !cx.is_home() {
            return Ok(());
        }
        if self.shared.blocking && !self.direct && cx.lanes() == 1 << cx.lane() {
            return Err("would wait for itself: the thread that pushes is the one that takes".into());
        }
        let task = cx.new_task();
        cx.wake_on(&self.shared.packets, task);
        cx.wake_on(&self.shared.active, task);
        self.task = Some(task);
        Ok(())
    }

    fn push(&mut self, cx: &mut Cx<'_>, _: usize, batch: &mut Batch) -> Next {
        if self.direct && self.task.is_some() {
            return Next::Push(0);
        }
        let shared = self.shared.clone();
        let Some(ring) = shared.rings.get(cx.lane()) else { return Next::Push(0) };
        self.store(ring, batch);
        if !batch.is_empty() {
            self.overflow(cx, ring, batch);
        }
        shared.packets.raise(cx);
        Next::Done
    }

    fn run(&mut self, cx: &mut Cx<'_>, task: TaskId, batch: &mut Batch) -> Ran {
        if !self.shared.active.is_raised() {
            return Ran::IDLE;
        }
        // Lowered before the look: whoever brings something after it raises it again.
        self.shared.packets.lower();
        let count = self.shared.rings.len();
        for turn in 0..count {
            let mut waiting = self.shared.rings[(self.next + turn) % count].lock();
            let mut left = self.burst;
            batch.fill(|| {
                left = left.checked_sub(1)?;
                waiting.packets.pop_front()
            });
        }
        self.next = (self.next + 1) % count;
        if batch.is_empty() {
            return Ran::IDLE;
        }
        cx.schedule(task);
        Ran::push(0)
    }

    fn replicate(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(Pipeliner {
            shared: self.shared.clone(),
            count: self.count.for_another(),
            dropped: self.dropped.for_another(),
            task: None,
            ..*self
        }))
    }

    /// Each ring's packets go on in one ring, so that flows keep their order.
    fn take_over(&mut self, cx: &mut Cx<'_>, old: &mut dyn Element) {
        let Some(old) = (old as &mut dyn std::any::Any).downcast_mut::<Pipeliner>() else { return };
        self.count.add(old.count.own());
        self.dropped.add(old.dropped.own());
        let count = self.shared.rings.len();
        for (n, ring) in old.shared.rings.iter().enumerate() {
            let mut packets = std::mem::take(&mut ring.lock().packets);
            let mut waiting = self.shared.rings[n % count].lock();
            let room = self.shared.capacity.saturating_sub(waiting.packets.len());
            let rest = packets.split_off(room.min(packets.len()));
            waiting.packets.append(&mut packets);
            waiting.highest = waiting.highest.max(waiting.packets.len());
            drop(waiting);
            self.dropped.add(rest.len() as u64);
            rest.into_iter().for_each(|packet| cx.drop(0, packet));
        }
        self.shared.packets.raise(cx);
    }

    fn cleanup(&mut self, cx: &mut Cx<'_>) {
        let rings = self.shared.rings.iter();
        cx.end_waiting(rings.flat_map(|ring| std::mem::take(&mut ring.lock().packets)));
    }
}
