//! A connection on its way from one stack to another, as from one core to another: all that is
//! known of it, with the packets that it keeps, which are copied to the pool of the new core, or
//! stay where they are when that has no buffers. Both stacks have the same
//! [`Options`](crate::Options), the secret among them, and the same clock.
//!
//! Nothing is sent or acknowledged because of it. What comes for the connection meanwhile is to
//! be kept, or is lost as on the wire.

use memory::{Batch, Pool};
use port::Reason;

use crate::connection::{Connection, Io, NEVER, Next, State};
use crate::event::{Event, Id};
use crate::key::Key;
use crate::queue::{List, NONE, Node, Nodes};
use crate::stack::Stack;

/// Buffers that no connection is copied into: with them a receive ring is refilled.
const RESERVE: usize = Batch::MAX;

/// A connection that is in no stack.
#[derive(Debug)]
pub struct Moved {
    connection: Box<Connection>,
    sent: Vec<Node>,
    early: Vec<Node>,
    /// Places in `sent` of the nodes that the connection knows by their numbers.
    unsent: Option<usize>,
    last_new: Option<usize>,
}

impl Moved {
    /// Both its ends.
    pub fn key(&self) -> Key {
        self.connection.key
    }

    /// Has what it keeps in buffers of this pool, as far as there are some beyond
    /// a reserve.
    fn copy_to(&mut self, pool: &mut Pool) {
        for node in self.sent.iter_mut().chain(&mut self.early) {
            if pool.available() <= RESERVE {
                return;
            }
            let copied = node.packet().and_then(|packet| {
                let mut copy = pool.alloc()?;
                copy.copy_from(packet).ok()?;
                Some(copy)
            });
            if let Some(mut copy) = copied {
                node.change(|packet| std::mem::swap(packet, &mut copy));
                pool.free(copy);
            }
        }
    }
}

impl Stack {
    /// Takes a connection out of the stack, in which it is no more, without a word to anyone.
    /// `None` when there is none of that name, and while the application has not been given all
    /// events of it.
    pub fn take(&mut self, id: Id) -> Option<Moved> {
        let generation = self.connections.get(id.index)?.generation;
        let events = self.shared.events.iter();
        if generation != id.generation || events.map(Event::connection).any(|other| other == id) {
            return None;
        }
        let place = |list: List, nodes: &Nodes, at: u32| nodes.iter(list).position(|(node, _)| node == at);
        let connection = self.connections.get(id.index)?;
        let unsent = place(connection.queue, &self.shared.nodes, connection.unsent);
        let last_new = place(connection.queue, &self.shared.nodes, connection.last_new);
        let connection = self.forget(id.index)?;
        let mut connection = Box::new(connection);
        let shared = &mut self.shared;
        shared.unconsumed -= connection.unconsumed_packets;
        shared.counters.moved_away += 1;
        let nodes = |list: &mut List, nodes: &mut Nodes| {
            std::iter::from_fn(|| nodes.unlink_front(list)).collect::<Vec<Node>>()
        };
        let sent = nodes(&mut connection.queue, &mut shared.nodes);
        let early = nodes(&mut connection.early, &mut shared.early);
        Some(Moved { connection, sent, early, unsent, last_new })
    }

    /// Puts a connection of another stack into this one; its name here.
    ///
    /// # Errors
    /// The connection again, when there is no room for it, or there is one between its ends.
    pub fn put(&mut self, mut moved: Moved, io: &mut Io) -> Result<Id, Moved> {
        let (key, initial) = (moved.connection.key, moved.connection.initial);
        if self.find(&key).is_some() {
            return Err(moved);
        }
        let Some(index) = self.open(key, initial, io) else { return Err(moved) };
        let Some(place) = self.connections.get_mut(index) else { return Err(moved) };
        moved.copy_to(io.pool);
        let generation = place.generation;
        *place = *moved.connection;
        (place.generation, place.armed_ns, place.is.to_arm) = (generation, NEVER, true);
        let shared = &mut self.shared;
        let numbers = |list: &mut List, nodes: &mut Nodes, moved: Vec<Node>| {
            let push = |node| nodes.push_back(list, node);
            moved.into_iter().map(push).collect::<Vec<u32>>()
        };
        let sent = numbers(&mut place.queue, &mut shared.nodes, moved.sent);
        numbers(&mut place.early, &mut shared.early, moved.early);
        let number = |place: Option<usize>| place.map_or(NONE, |n| sent[n]);
        (place.unsent, place.last_new) = (number(moved.unsent), number(moved.last_new));
        shared.unconsumed += place.unconsumed_packets;
        shared.counters.moved_here += 1;
        if shared.is_over_limit() {
            // The other side sends it again (RFC 2018, section 8).
            place.drop_early(Reason::RxTcpBuffers, shared, io.pool);
        }
        let id = place.id(index);
        self.fast_half_open += u32::from(place.is_fast_open());
        let (state, is_starved) = (place.state, std::mem::take(&mut place.is.is_starved));
        place.is.is_ready = false;
        self.count_states(index, State::Closed, state, io);
        if is_starved {
            self.starve(id);
        }
        self.follow_up(index, Next::Keep, io);
        Ok(id)
    }

    /// Resets a connection for which there is no room.
    pub(crate) fn refuse(&mut self, mut moved: Moved, io: &mut Io) {
        if moved.connection.state != State::TimeWait {
            moved.connection.send_reset(&mut self.shared, io);
        }
        let nodes = moved.sent.iter_mut().chain(&mut moved.early);
        nodes.filter_map(Node::take).for_each(|packet| io.pool.free(packet));
    }
}
