//! The end of a packet's way into tunnels: it leaves by a port of the underlay, as a copy for each
//! of a flood list, or in pieces where it is longer than a frame; or it is dropped, and the sender
//! of one that is too long for its tunnel is told (RFC 1191, RFC 8201).

use std::time::Duration;

use memory::{Packet, Pool, TxOffload};
use overlay::{Encapsulator, Sent};
use port::{Reason, software};

use super::{InnerQueues, UnderlayQueues};
use crate::counters::Side;

/// Packets of one network that have been looked up.
pub(super) struct Sending<'a> {
    pub(super) sender: &'a mut Encapsulator,
    /// The port by which they came.
    pub(super) inner: &'a mut InnerQueues,
    pub(super) underlay: &'a mut [UnderlayQueues],
    pub(super) counters: &'a Side,
    /// The time since any moment.
    pub(super) now: Duration,
}

/// By what a packet was to go.
#[derive(Clone, Copy)]
enum By {
    /// The entry of its identifier.
    Entry,
    /// A place of the flood list.
    Flood(u32),
}

impl Sending<'_> {
    /// Does with a packet what became of it.
    #[inline]
    pub(super) fn end(&mut self, packet: Packet, sent: Sent, pool: &mut Pool) {
        match sent {
            Sent::Port(port) => self.leave(port, packet, pool),
            Sent::Drop(reason) => self.refuse(By::Entry, reason, packet, pool),
            Sent::Punt => self.lose(Reason::OverlayPunted, packet, pool),
            Sent::Flood => self.flood(packet, pool),
        }
    }

    /// Lets a packet with its outer headers leave by a port of the underlay.
    #[inline]
    fn leave(&mut self, port: u16, packet: Packet, pool: &mut Pool) {
        match self.underlay.get_mut(usize::from(port)) {
            Some(port) => match packet.tx_offload().has(TxOffload::SEGMENT) {
                false => {
                    self.counters.forward();
                    port.ends.push(packet, pool);
                }
                true => leave_cut(self.counters, port, packet, pool),
            },
            None => self.lose(Reason::OverlayNoPort, packet, pool),
        }
    }

    fn lose(&self, loss: Reason, packet: Packet, pool: &mut Pool) {
        self.counters.lose(loss);
        pool.free(packet);
    }

    /// Drops what the table refused; but a long segment goes in pieces where that is possible, and
    /// who sent a packet that is too long is told.
    #[cold]
    fn refuse(&mut self, by: By, reason: Reason, mut packet: Packet, pool: &mut Pool) {
        if reason == Reason::OverlayOffload && packet.tx_offload().has(TxOffload::SEGMENT) {
            return cut(self.counters, packet, pool, |pool, piece| self.send_piece(by, piece, pool));
        }
        self.counters.lose(reason);
        if reason == Reason::OverlayTooLong && self.answer(by, &mut packet) {
            // The packet is dropped; the answer is one more that leaves.
            self.counters.copy();
            self.counters.answer();
            self.inner.ends.push(packet, pool);
        } else {
            pool.free(packet);
        }
    }

    /// Puts what its sender is to be told in a packet's place; false when nobody is.
    fn answer(&mut self, by: By, packet: &mut Packet) -> bool {
        let network = self.inner.network;
        let is_made = match by {
            By::Entry => self.sender.answer(network, packet, self.now),
            By::Flood(place) => self.sender.answer_flood(network, place, packet, self.now),
        };
        is_made && self.inner.gateway.leave(packet)
    }

    /// Sends a piece of a long segment into a tunnel whose headers are for one packet each.
    fn send_piece(&mut self, by: By, mut piece: Packet, pool: &mut Pool) {
        let mut sent = [Sent::Punt];
        match by {
            By::Entry => {
                self.sender.encapsulate(self.inner.network, std::slice::from_mut(&mut piece), &mut sent);
            }
            By::Flood(place) => sent[0] = self.sender.flood(self.inner.network, place, &mut piece),
        }
        match sent[0] {
            Sent::Port(port) => self.leave(port, piece, pool),
            Sent::Drop(reason) => {
                self.counters.lose(reason);
                pool.free(piece);
            }
            // The entry was removed a moment ago.
            Sent::Punt | Sent::Flood => self.lose(Reason::OverlayPunted, piece, pool),
        }
    }

    /// Sends copies of a packet to all of a flood list; the packet itself is the last of them.
    #[cold]
    fn flood(&mut self, packet: Packet, pool: &mut Pool) {
        let places = self.sender.flood_len(self.inner.network);
        let mut left = Some(packet);
        for place in 0..places {
            if place > 0 {
                self.counters.copy();
            }
            let copy = match place + 1 == places {
                true => left.take(),
                false => left.as_ref().and_then(|packet| packet.copy_with(0, || pool.alloc())),
            };
            let Some(mut copy) = copy else {
                self.counters.lose(Reason::OverlayNoCopy);
                continue;
            };
            match self.sender.flood(self.inner.network, place, &mut copy) {
                Sent::Port(port) => self.leave(port, copy, pool),
                Sent::Drop(reason) => self.refuse(By::Flood(place), reason, copy, pool),
                // Which a place never gives.
                Sent::Punt | Sent::Flood => self.lose(Reason::OverlayNoCopy, copy, pool),
            }
        }
        if let Some(packet) = left {
            self.lose(Reason::OverlayNoCopy, packet, pool); // an empty list
        }
    }
}

/// Lets a long segment leave in pieces.
#[cold]
fn leave_cut(counters: &Side, port: &mut UnderlayQueues, packet: Packet, pool: &mut Pool) {
    cut(counters, packet, pool, |pool, piece| {
        counters.forward();
        port.ends.push(piece, pool);
    });
}

/// Cuts a long segment; what is more than one piece is counted as copies are.
fn cut(counters: &Side, packet: Packet, pool: &mut Pool, give: impl FnMut(&mut Pool, Packet)) {
    let cut = software::cut(&packet, pool, give);
    (1..cut.pieces + usize::from(!cut.is_whole)).for_each(|_| counters.copy());
    if !cut.is_whole {
        counters.lose(Reason::OverlayNotCut);
    }
    pool.free(packet);
}
