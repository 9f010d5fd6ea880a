//! A batch of segments: what each of them needs is brought towards the cache while those before it
//! are worked on. Of many connections hardly one is in the cache when its segment comes; one
//! after the other, each would be waited for in turn.

use memory::{Packet, Pool};
use wire::Flow;

use crate::connection::Io;
use crate::key::Key;
use crate::stack::Stack;

/// Segments between one look ahead and the next, of which there are three for each.
const STEP: usize = 6;
/// Up to so many connections the cache has all of them.
const NEAR: usize = 512;

/// A segment that came, in a frame or a packet.
#[derive(Debug)]
pub struct Arrival {
    /// The frame or the packet; `None` once it is the stack's.
    packet: Option<Packet>,
    /// Where the packet's headers are, and whose it is.
    flow: Flow,
    /// The traffic class of its IP header.
    class: u8,
    /// The hash of its connection, once it was looked ahead at.
    hash: Option<u32>,
    /// The connection that it is probably of.
    first: u32,
}

impl Arrival {
    /// A segment in a frame or a packet whose layers are `flow` and whose IP header has the
    /// traffic class `class`.
    pub fn new(packet: Packet, flow: Flow, class: u8) -> Arrival {
        Arrival { packet: Some(packet), flow, class, hash: None, first: u32::MAX }
    }
}

impl Arrival {
    /// Frees what it holds.
    pub(crate) fn free(self, pool: &mut Pool) {
        self.packet.into_iter().for_each(|packet| pool.free(packet));
    }

    /// The same in a buffer of another pool, if that has one: a core that passes much on keeps its
    /// buffers.
    pub(crate) fn moved_to(mut self, pool: &mut Pool) -> Arrival {
        if let Some(packet) = self.packet.take() {
            let copy = packet.copy_with(0, || pool.alloc());
            self.packet = Some(match copy {
                Some(copy) => {
                    pool.free(packet);
                    copy
                }
                None => packet,
            });
        }
        self
    }

    /// The connection that the segment belongs to, if it has ports.
    pub(crate) fn key(&self) -> Option<Key> {
        Some(Key::between(self.flow.addresses, self.flow.ports?))
    }
}

impl Stack {
    /// Takes a segment.
    pub(crate) fn receive_arrival(&mut self, arrival: Arrival, io: &mut Io) {
        if let Some(packet) = arrival.packet {
            self.receive(packet, &arrival.flow, arrival.class, io);
        }
    }

    /// Takes the segments of a batch in order, as [`Stack::receive`] takes each.
    pub fn receive_batch(&mut self, arrivals: &mut Vec<Arrival>, io: &mut Io) {
        if self.len() <= NEAR || arrivals.len() < STEP {
            for now in arrivals.iter_mut() {
                if let Some(packet) = now.packet.take() {
                    self.receive(packet, &now.flow, now.class, io);
                }
            }
            return arrivals.clear();
        }
        for n in 0..arrivals.len() + 3 * STEP {
            self.look_ahead(arrivals, n);
            let Some(now) = n.checked_sub(3 * STEP).and_then(|n| arrivals.get_mut(n)) else { continue };
            if let Some(packet) = now.packet.take() {
                self.receive_hashed(packet, &now.flow, now.class, now.hash, io);
            }
        }
        arrivals.clear();
    }

    /// Prefetches the bucket for one segment, the connection for one before it, and what that has
    /// sent last for one before that: each look needs what the one before it fetched.
    #[inline]
    fn look_ahead(&self, arrivals: &mut [Arrival], n: usize) {
        if let Some(Arrival { flow, hash, .. }) = arrivals.get_mut(n)
            && let Some(ports) = flow.ports
        {
            let of_flow = Key::between(flow.addresses, ports).hash(self.options().key);
            self.demux.prefetch(of_flow);
            *hash = Some(of_flow);
        }
        if let Some(Arrival { hash, first, .. }) = n.checked_sub(STEP).and_then(|n| arrivals.get_mut(n))
            && let Some(probable) = hash.and_then(|hash| self.demux.first(hash))
        {
            self.connections.prefetch(probable);
            *first = probable;
        }
        if let Some(Arrival { first, .. }) = n.checked_sub(2 * STEP).and_then(|n| arrivals.get(n))
            && let Some(connection) = self.connections.get(*first)
        {
            self.shared.nodes.prefetch(connection.queue.head);
        }
    }
}
