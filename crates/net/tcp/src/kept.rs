//! How many packets all connections keep together. There are two limits, each of half of
//! [`Options::packets`](crate::Options::packets), for packets that are to be sent and for
//! received ones, so that an application that sends what it received never waits for itself.
//!
//! A connection may keep as many packets as are left of the limit (Choudhury and Hahne, 1998):
//! a few that keep much leave room for others, and the more there are the less each has. An
//! eighth of the limit is only for the first packets of connections that keep none, for those
//! that came one after the other and consume nothing would leave them no packet. What came
//! before its turn has half of the limit for received packets, for it can be sent again: many
//! gaps leave the other half to what comes in order.

use std::collections::VecDeque;

use memory::{Packet, Pool};
use port::Reason;

use crate::connection::{Connection, Deadline, NEVER, StackShared};
use crate::event::{Event, Id};
use crate::stack::Stack;

/// Connections that are told at a time that there is room again.
const TOLD: usize = 64;

/// Names of connections in an order. Those that no longer belong there are swept out before
/// there are more of them than of others.
#[derive(Debug, Default)]
pub struct Ids {
    ids: VecDeque<Id>,
    sweep_at: usize,
}

impl Ids {
    /// Appends a name; `belongs` tells which of those that are there still do.
    pub fn push(&mut self, id: Id, belongs: impl Fn(Id) -> bool) {
        if self.ids.len() >= self.sweep_at.max(64) {
            self.ids.retain(|id| belongs(*id));
            self.sweep_at = 2 * self.ids.len();
        }
        self.ids.push_back(id);
    }

    /// Takes the first name.
    pub fn pop(&mut self) -> Option<Id> {
        self.ids.pop_front()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }
}

impl StackShared {
    fn limit(&self) -> usize {
        self.options.packets as usize / 2
    }

    /// Whether a connection that keeps `own` packets to be sent may keep another one.
    #[inline]
    pub fn may_queue(&self, own: u32) -> bool {
        may_keep(own, self.nodes.packets(), self.limit())
    }

    /// Whether connections keep so many packets to be sent, three quarters of all, that others
    /// have few left.
    pub fn is_scarce(&self) -> bool {
        self.nodes.packets() > self.limit() / 4 * 3
    }

    /// Whether a connection that keeps `own` received packets may keep another one. Those
    /// that applications have not consumed count as well.
    #[inline]
    fn may_receive(&self, own: u32) -> bool {
        may_keep(own, self.received(), self.limit())
    }

    /// Whether connections keep more received packets than they may, which connections of other
    /// stacks came with.
    pub fn is_over_limit(&self) -> bool {
        self.received() > self.limit() || self.early.packets() > self.limit() / 2
    }

    /// Received packets that connections keep.
    #[inline]
    fn received(&self) -> usize {
        self.early.packets() + self.unconsumed as usize
    }
}

/// Whether a connection that keeps `own` packets may keep another one where all together keep
/// `used` of `limit`.
#[inline]
fn may_keep(own: u32, used: usize, limit: usize) -> bool {
    may_share(own, used, limit) || own == 0 && used < limit
}

/// The same, without what is only for connections that keep none.
#[inline]
fn may_share(own: u32, used: usize, limit: usize) -> bool {
    (own as usize) < (limit - limit / 8).saturating_sub(used)
}

impl Connection {
    /// Whether there is room for a packet that came in order. What came before its turn makes
    /// room for it, for it will be sent again (RFC 2018, section 8).
    pub fn has_room_in_order(&mut self, shared: &mut StackShared, pool: &mut Pool) -> bool {
        if shared.may_receive(self.unconsumed_packets + self.early.len) {
            return true;
        }
        self.drop_early(Reason::RxTcpBuffers, shared, pool);
        shared.may_receive(self.unconsumed_packets)
    }

    /// Whether there is room for a packet that came before its turn.
    pub fn has_room_early(&self, shared: &StackShared) -> bool {
        let (own, limit) = (self.early.len, shared.limit());
        own < shared.options.out_of_order
            && may_keep(own, shared.early.packets(), limit / 2)
            && may_share(self.unconsumed_packets + own, shared.received(), limit)
    }

    /// Lets go of what came before its turn.
    pub fn drop_early(&mut self, loss: Reason, shared: &mut StackShared, pool: &mut Pool) {
        while let Some(packet) = shared.early.pop_front(&mut self.early) {
            shared.counters.lose(loss);
            packet.into_iter().for_each(|packet| pool.free(packet));
        }
        self.set(Deadline::Gap, NEVER);
    }

    /// Counts a packet that the application was given.
    pub fn count_delivered(&mut self, len: u32, shared: &mut StackShared) {
        self.unconsumed = self.unconsumed.saturating_add(len);
        self.bytes_received += u64::from(len);
        self.unconsumed_packets += 1;
        shared.unconsumed += 1;
    }

    /// Counts bytes that the application has consumed, and the same share of the packets.
    pub fn count_consumed(&mut self, bytes: u32, shared: &mut StackShared) {
        let (before, packets) = (self.unconsumed, self.unconsumed_packets);
        self.unconsumed = before.saturating_sub(bytes);
        self.unconsumed_packets = match self.unconsumed {
            0 => 0, // as mostly, and without a division
            left => (u64::from(packets) * u64::from(left)).div_ceil(u64::from(before)) as u32,
        };
        shared.unconsumed -= packets - self.unconsumed_packets;
    }

    /// Counts packets that the application has freed before it consumed their bytes.
    pub fn count_released(&mut self, packets: u32, shared: &mut StackShared) {
        let released = packets.min(self.unconsumed_packets);
        self.unconsumed_packets -= released;
        shared.unconsumed -= released;
    }
}

impl Stack {
    /// Remembers a connection that has nothing to send because others keep all packets.
    pub(crate) fn starve(&mut self, id: Id) {
        let Some(connection) = self.connections.get_mut(id.index) else { return };
        if !connection.is.is_starved {
            connection.is.is_starved = true;
            let connections = &self.connections;
            self.starved.push(id, |id| connections.get(id.index).is_some_and(|it| it.is_starved(id)));
        }
    }

    /// Whether connections can be told that there is room again.
    pub(crate) fn may_resume(&self) -> bool {
        !self.starved.is_empty() && self.shared.may_queue(0)
    }

    /// Tells connections that there is room again.
    pub(crate) fn resume(&mut self) {
        for _ in 0..TOLD {
            if !self.may_resume() {
                return;
            }
            let Some(id) = self.starved.pop() else { return };
            if let Some(it) = self.connections.get_mut(id.index).filter(|it| it.is_starved(id)) {
                it.is.is_starved = false;
                self.shared.events.push(Event::Sent { connection: id, bytes: 0 });
            }
        }
    }
}

impl Connection {
    fn is_starved(&self, id: Id) -> bool {
        self.generation == id.generation && self.is.is_starved
    }
}

/// Copies bytes behind those of a packet, if there is room for them; whether there was.
pub fn append(packet: &mut Packet, bytes: &[u8]) -> bool {
    let len = packet.len();
    let fits = packet.next().is_none() && packet.tailroom() >= bytes.len();
    let fits = fits && packet.set_len(len + bytes.len()).is_ok();
    if fits {
        packet[len..].copy_from_slice(bytes);
    }
    fits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_no_longer_belong_are_swept_out() {
        let mut ids = Ids::default();
        let id = |index| Id { index, generation: 0 };
        for n in 0..100_000 {
            // The first stays, so that nothing is taken off the front.
            ids.push(id(n), |id| id.index == 0 || id.index + 10 > n);
            assert!(ids.ids.len() <= 64, "{} names of 11", ids.ids.len());
        }
        assert_eq!(ids.pop(), Some(id(0)));
        assert!(!ids.is_empty());
    }
}
