//! `Queue` and the like: where packets wait, and where one thread's part ends and
//! another's begins.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use graph::class::{Handlers, NOT_TAKEN_OVER, action, positional, read, setting};
use graph::element::account::{Account, WaitingIn};
use graph::signal::SignalKind;
use graph::well_known::{CAPACITY, LENGTH};
use graph::{Class, Conf, ConfFault, Cx, Element, Next, Notice, Refused, Setup, Signal};
use memory::{Batch, Packet};
use port::Reason;

/// The usual one.
pub static CLASS: Class = Class {
    name: "Queue",
    brief: "stores packets first in, first out",
    doc: "Packets that find CAPACITY others go to output 1, or are dropped. Who pulls sleeps while it is \
          empty, and who pushes and asks (InfiniteSource, Unqueue) waits while it is full. Any threads may \
          push and pull: a batch takes the queue's lock once.",
    ports: "1/1-2",
    processing: "h/lh",
    arguments: &[positional("CAPACITY", "packets it holds; 1000")],
    handlers: &Handlers::<Queue>(&[
        read(LENGTH.as_str(), "packets in it", Queue::length),
        read("highwater_length", "the most there ever were", |queue| queue.lock().highest.to_string()),
        setting(CAPACITY.as_str(), "packets it holds", Queue::capacity, (0, "CAPACITY")).marked("."),
        read("drops", "packets dropped because it was full", Queue::drops),
        action("reset_counts", "sets drops and highwater_length to zero", |queue: &mut Queue, cx| {
            let mut inner = queue.lock();
            (inner.highest, inner.drops) = (inner.packets.len(), 0);
            queue.tell(&inner, cx);
        })
        .marked("b"),
        action("reset", "drops all packets in it", |queue: &mut Queue, cx| {
            let mut inner = queue.lock();
            let gone = std::mem::take(&mut inner.packets);
            queue.tell(&inner, cx);
            drop(inner);
            gone.into_iter().for_each(|packet| cx.drop(1, packet));
        })
        .marked("b"),
    ]),
    drops: &[Reason::QueueFull, Reason::Reset, Reason::NoBuffersLeft, NOT_TAKEN_OVER],
    account: Account::Keeps(&WaitingIn(Queue::waiting)),
    live: true,
    example: "FromDevice(a) -> Queue(200) -> ToDevice(b)",
    see: &["SimpleQueue", "NotifierQueue", "FrontDropQueue", "MixedQueue", "Pipeliner", "Unqueue"],
    make: |setup, conf| make(setup, conf, Order::First, (true, true)),
    ..Class::BASE
};

/// The one that tells nobody anything.
pub static SIMPLE: Class = Class {
    name: "SimpleQueue",
    brief: "stores packets, and tells nobody when it is empty or full",
    doc: "As Queue, but who pulls looks all the time, and who pushes loses packets when it is full.",
    example: "SimpleQueue(200)",
    see: &["Queue", "NotifierQueue"],
    make: |setup, conf| make(setup, conf, Order::First, (false, false)),
    ..CLASS
};

/// The one that tells only when it is empty.
pub static NOTIFIER: Class = Class {
    name: "NotifierQueue",
    brief: "stores packets, and tells when it is empty, not when it is full",
    doc: "As Queue, but who pushes loses packets when it is full.",
    example: "NotifierQueue(200)",
    see: &["Queue", "SimpleQueue"],
    make: |setup, conf| make(setup, conf, Order::First, (true, false)),
    ..CLASS
};

/// The one that loses the oldest.
pub static FRONT_DROP: Class = Class {
    name: "FrontDropQueue",
    brief: "stores packets, and drops the oldest when it is full",
    doc: "As Queue, but when it is full, the packet at the front goes to output 1, or is dropped, and the new \
          one is stored.",
    example: "FrontDropQueue(200)",
    see: &["Queue", "MixedQueue"],
    make: |setup, conf| make(setup, conf, Order::DropFirst, (true, false)),
    ..CLASS
};

/// The one with two inputs.
pub static MIXED: Class = Class {
    name: "MixedQueue",
    brief: "stores packets: of input 0 first in, first out, of input 1 last in, first out",
    doc: "Packets of input 0 are put at the end; those that find the queue full are dropped. Packets of \
          input 1 are put at the front; when the queue is full the last one is dropped for them.",
    ports: "2/1-2",
    example: "MixedQueue(200)",
    see: &["Queue", "FrontDropQueue"],
    make: |setup, conf| make(setup, conf, Order::First, (true, false)),
    ..CLASS
};

fn make(
    setup: &mut Setup<'_>,
    conf: &mut Conf<'_>,
    order: Order,
    tells: (bool, bool),
) -> Result<Box<dyn Element>, ConfFault> {
    let capacity = conf.positional("CAPACITY")?.unwrap_or(1000);
    hold(setup, conf, capacity, order, tells)
}

/// A queue that all threads push into and few pull from.
pub(super) fn make_for_threads(
    setup: &mut Setup<'_>,
    conf: &mut Conf<'_>,
) -> Result<Box<dyn Element>, ConfFault> {
    let capacity = conf.positional("CAPACITY")?.unwrap_or(128);
    hold(setup, conf, capacity, Order::First, (true, false))
}

fn hold(
    setup: &mut Setup<'_>,
    conf: &mut Conf<'_>,
    capacity: usize,
    order: Order,
    (tells_packets, tells_room): (bool, bool),
) -> Result<Box<dyn Element>, ConfFault> {
    conf.complete()?;
    setup.will_hold(capacity);
    Ok(Box::new(Queue(Arc::new(QueueState {
        inner: Mutex::new(Inner { capacity, ..Inner::default() }),
        order,
        packets: Signal::new(false),
        room: Signal::new(capacity > 0),
        tells_packets,
        tells_room,
    }))))
}

/// Who goes when it is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    /// The new one.
    First,
    /// The packet that waits the longest, for the new one.
    DropFirst,
}

#[derive(Debug, Default)]
struct Inner {
    packets: VecDeque<Packet>,
    capacity: usize,
    highest: usize,
    drops: u64,
}

#[derive(Debug)]
struct QueueState {
    inner: Mutex<Inner>,
    order: Order,
    /// Raised while there are packets.
    packets: Signal,
    /// Raised while there is room.
    room: Signal,
    tells_packets: bool,
    tells_room: bool,
}

/// An element of [`CLASS`] or of one of the queues that differ from it by what they drop and what
/// they tell.
#[derive(Debug, Clone)]
pub struct Queue(Arc<QueueState>);

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the signals as they should be; the lock is held.
    fn tell(&self, inner: &Inner, cx: &mut Cx<'_>) {
        match inner.packets.is_empty() {
            true => self.0.packets.lower(),
            false => self.0.packets.raise(cx),
        }
        match inner.packets.len() < inner.capacity {
            true => self.0.room.raise(cx),
            false => self.0.room.lower(),
        }
    }

    /// Puts packets in front, the last one first; what has no room stays in `batch`.
    fn push_front(inner: &mut Inner, batch: &mut Batch) {
        let mut gone = VecDeque::new();
        while let Some(packet) = batch.pop_front() {
            if inner.packets.len() >= inner.capacity {
                gone.extend(inner.packets.pop_back());
            }
            if inner.capacity > 0 { inner.packets.push_front(packet) } else { gone.push_back(packet) }
        }
        batch.fill(|| gone.pop_front()); // as many as came at most
    }

    /// Puts packets at the end, for the oldest; those that go are in `batch`.
    fn push_for_oldest(inner: &mut Inner, batch: &mut Batch) {
        let mut gone = VecDeque::new();
        while let Some(packet) = batch.pop_front() {
            inner.packets.push_back(packet);
            if inner.packets.len() > inner.capacity {
                gone.extend(inner.packets.pop_front());
            }
        }
        batch.fill(|| gone.pop_front()); // as many as came at most
    }

    /// Packets that had no room.
    #[cold]
    fn overflow(cx: &mut Cx<'_>, first: bool) -> Next {
        if first {
            cx.say(&format!("{} :: {}: overflow\n", cx.name(), cx.class()));
        }
        Next::Push(1)
    }

    pub(super) fn length(&self) -> String {
        self.waiting().to_string()
    }

    /// Packets in it.
    fn waiting(&self) -> usize {
        self.lock().packets.len()
    }

    pub(super) fn capacity(&self) -> String {
        self.lock().capacity.to_string()
    }

    pub(super) fn drops(&self) -> String {
        self.lock().drops.to_string()
    }
}

impl Element for Queue {
    fn push(&mut self, cx: &mut Cx<'_>, input: usize, batch: &mut Batch) -> Next {
        cx.let_wait(batch, 2, || self.lock().packets.len());
        if batch.is_empty() {
            return Next::Done;
        }
        let mut inner = self.lock();
        if input > 0 {
            Queue::push_front(&mut inner, batch);
        } else if self.0.order == Order::DropFirst {
            Queue::push_for_oldest(&mut inner, batch);
        } else {
            let room = inner.capacity.saturating_sub(inner.packets.len());
            inner.packets.extend(batch.drain().take(room));
        }
        inner.highest = inner.highest.max(inner.packets.len());
        let first = inner.drops == 0 && inner.capacity > 0;
        inner.drops += batch.len() as u64;
        self.tell(&inner, cx);
        drop(inner);
        if batch.is_empty() { Next::Done } else { Queue::overflow(cx, first) }
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _: usize, batch: &mut Batch) {
        let mut inner = self.lock();
        batch.fill(|| inner.packets.pop_front());
        self.tell(&inner, cx);
    }

    fn notice(&self, kind: SignalKind, _: usize) -> Notice {
        let (tells, signal) = match kind {
            SignalKind::Packets => (self.0.tells_packets, &self.0.packets),
            SignalKind::Room => (self.0.tells_room, &self.0.room),
        };
        if tells { Notice::Signal(signal.clone()) } else { Notice::Always }
    }

    fn replicate(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(self.clone()))
    }

    /// Packets that have no room any more go.
    fn reconfigure(&mut self, cx: &mut Cx<'_>, new: Box<dyn Element>) -> Result<(), Refused> {
        let new = (new as Box<dyn std::any::Any>).downcast::<Queue>();
        let capacity = new.map(|new| new.lock().capacity).map_err(|_| Refused::from("no queue"))?;
        let mut inner = self.lock();
        inner.capacity = capacity;
        let over = inner.packets.len().saturating_sub(capacity);
        let gone: Vec<Packet> = match self.0.order {
            Order::First => {
                let kept = inner.packets.len() - over;
                inner.packets.split_off(kept).into()
            }
            Order::DropFirst => inner.packets.drain(..over).collect(),
        };
        self.tell(&inner, cx);
        drop(inner);
        gone.into_iter().for_each(|packet| cx.drop(1, packet));
        Ok(())
    }

    fn take_over(&mut self, cx: &mut Cx<'_>, old: &mut dyn Element) {
        let Some(old) = (old as &mut dyn std::any::Any).downcast_mut::<Queue>() else { return };
        let Inner { mut packets, drops, highest, .. } = std::mem::take(&mut *old.lock());
        let mut inner = self.lock();
        (inner.drops, inner.highest) = (inner.drops + drops, inner.highest.max(highest));
        let room = inner.capacity.saturating_sub(inner.packets.len());
        let rest = packets.split_off(room.min(packets.len()));
        inner.packets.append(&mut packets);
        inner.drops += rest.len() as u64;
        self.tell(&inner, cx);
        drop(inner);
        rest.into_iter().for_each(|packet| cx.drop(0, packet));
    }

    /// What waits where the router that comes next has no such queue is dropped, and told of:
    /// what is counted here ends with the router.
    fn cleanup(&mut self, cx: &mut Cx<'_>) {
        if !cx.is_replaced() {
            return;
        }
        let gone = std::mem::take(&mut self.lock().packets);
        cx.end_waiting(gone);
    }
}
