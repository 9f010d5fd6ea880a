//! `Queue`: where packets wait, and where one thread's part ends and another's
//! begins.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use graph::class::{both, positional, read, write};
use graph::signal::Kind;
use graph::{Class, Cx, Element, Fault, Next, Notice, Refused, Signal};
use memory::{Batch, Packet};

/// The class.
pub static CLASS: Class = Class {
    name: "Queue",
    brief: "stores packets first in, first out",
    doc: "Packets that find CAPACITY others are dropped. Who pulls sleeps while it is empty, and who \
          pushes and asks (InfiniteSource, Unqueue) waits while it is full. Any threads may push and pull: \
          a batch takes the queue's lock once.",
    processing: "h/l",
    arguments: &[positional("CAPACITY", "packets it holds; 1000")],
    handlers: &[
        read("length", "packets in it"),
        read("highwater_length", "the most there ever were"),
        both("capacity", "packets it holds"),
        read("drops", "packets dropped because it was full"),
        write("reset_counts", "sets drops and highwater_length to zero"),
        write("reset", "drops all packets in it"),
    ],
    drops: &["queue full", "reset"],
    example: "FromDevice(a) -> Queue(200) -> ToDevice(b)",
    see: &["Unqueue", "FrontDropQueue", "MixedQueue", "Pipeliner"],
    make: |_, conf| {
        let capacity = conf.positional("CAPACITY")?.unwrap_or(1000);
        conf.complete()?;
        if capacity < 1 {
            return Err(Fault::new("CAPACITY: a queue holds at least one packet"));
        }
        Ok(Box::new(Queue(Arc::new(Shared {
            inner: Mutex::new(Inner { capacity, ..Inner::default() }),
            packets: Signal::new(false),
            room: Signal::new(true),
        }))))
    },
    ..Class::BASE
};

#[derive(Debug, Default)]
struct Inner {
    packets: VecDeque<Packet>,
    capacity: usize,
    highest: usize,
    drops: u64,
}

#[derive(Debug)]
struct Shared {
    inner: Mutex<Inner>,
    /// Raised while there are packets.
    packets: Signal,
    /// Raised while there is room.
    room: Signal,
}

/// See [`CLASS`].
#[derive(Debug, Clone)]
pub struct Queue(Arc<Shared>);

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
}

impl Element for Queue {
    fn push(&mut self, cx: &mut Cx<'_>, _: usize, batch: &mut Batch) -> Next {
        let mut inner = self.lock();
        let room = inner.capacity.saturating_sub(inner.packets.len());
        inner.packets.extend(batch.drain().take(room));
        inner.highest = inner.highest.max(inner.packets.len());
        inner.drops += batch.len() as u64;
        self.tell(&inner, cx);
        drop(inner);
        if !batch.is_empty() {
            cx.drop_batch(0, batch);
        }
        Next::Done
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _: usize, batch: &mut Batch) {
        let mut inner = self.lock();
        batch.fill(|| inner.packets.pop_front());
        self.tell(&inner, cx);
    }

    fn notice(&self, kind: Kind, _: usize) -> Notice {
        Notice::Signal(match kind {
            Kind::Packets => self.0.packets.clone(),
            Kind::Room => self.0.room.clone(),
        })
    }

    fn replicate(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(self.clone()))
    }

    fn read(&mut self, _: &mut Cx<'_>, handler: &str, _: &str) -> Result<String, Refused> {
        let inner = self.lock();
        Ok(match handler {
            "length" => inner.packets.len().to_string(),
            "highwater_length" => inner.highest.to_string(),
            "drops" => inner.drops.to_string(),
            _ => inner.capacity.to_string(),
        })
    }

    fn write(&mut self, cx: &mut Cx<'_>, handler: &str, value: &str) -> Result<(), Refused> {
        let mut gone = VecDeque::new();
        {
            let mut inner = self.lock();
            match handler {
                "reset_counts" => (inner.highest, inner.drops) = (0, 0),
                "reset" => gone = std::mem::take(&mut inner.packets),
                _ => {
                    let capacity = value.trim().parse().ok().filter(|n| *n >= 1);
                    inner.capacity = capacity.ok_or("CAPACITY: expected unsigned integer of at least 1")?;
                    let capacity = inner.capacity;
                    let kept = capacity.min(inner.packets.len());
                    gone = inner.packets.split_off(kept);
                    cx.set_config(format!("CAPACITY {capacity}"));
                }
            }
            self.tell(&inner, cx);
        }
        gone.into_iter().for_each(|packet| cx.drop(1, packet));
        Ok(())
    }

    fn take_over(&mut self, cx: &mut Cx<'_>, old: &mut dyn Element) {
        let Some(old) = (old as &mut dyn std::any::Any).downcast_mut::<Queue>() else { return };
        let mut packets = std::mem::take(&mut old.lock().packets);
        let mut inner = self.lock();
        let room = inner.capacity - inner.packets.len();
        let rest = packets.split_off(room.min(packets.len()));
        inner.packets.append(&mut packets);
        self.tell(&inner, cx);
        drop(inner);
        rest.into_iter().for_each(|packet| cx.drop(0, packet));
    }
}
