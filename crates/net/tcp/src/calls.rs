//! What an application may ask of a stack. Nothing is sent before [`Stack::output`].

use std::net::IpAddr;

use memory::Packet;

use crate::choices::Mark;
use crate::connection::{Connection, Deadline, Io, NEVER, Next, StackShared, State};
use crate::event::Id;
use crate::kept::append;
use crate::key::Key;
use crate::options::MILLISECOND_NS;
use crate::queue::{NONE, Node, Sent};
use crate::stack::Stack;

/// The first of the ports that are chosen for connections (RFC 6335, section 6).
const FIRST_PORT: u16 = 49_152;

/// Why a call was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The connection is no more; the event that says so may not have been looked at yet.
    #[error("the connection is no more")]
    Gone,
    /// The application has ended its side.
    #[error("the connection was finished")]
    Finished,
    /// There is no room for more to send until the other side acknowledges some.
    #[error("too much waits to be sent")]
    Full,
    /// There are as many connections as there may be.
    #[error("there are as many connections as there may be")]
    TooMany,
    /// All ports to that address and port are in use.
    #[error("no port is left to that address and port")]
    NoPort,
    /// The addresses are of different versions of IP.
    #[error("the addresses are of different versions of IP")]
    Addresses,
}

impl Connection {
    /// Queues a SYN or a FIN.
    pub fn queue_control(&mut self, shared: &mut StackShared, now_ns: i64) {
        self.queue_node(Node::to_send(None, self.end), shared, now_ns);
    }

    /// Copies a packet into the last one of the queue, if that has not been sent and both are
    /// no more than a segment; whether it did.
    fn extend_last(&mut self, packet: &Packet, shared: &mut StackShared) -> bool {
        let size = self.payload_size() as usize;
        let last = shared.nodes.get_mut(self.queue.tail);
        let last = last.filter(|last| last.sent == Sent::Not && !last.is_record_end);
        let fits = |last: &Packet| last.len() + packet.len() <= size;
        let joined = last.and_then(|last| last.change(|last| fits(last) && append(last, packet)));
        let is_joined = joined.unwrap_or(false);
        if is_joined {
            self.end = self.end.plus(packet.len() as u32);
        }
        is_joined
    }

    fn queue_node(&mut self, node: Node, shared: &mut StackShared, now_ns: i64) {
        self.end = self.end.plus(node.len());
        let at = shared.nodes.push_back(&mut self.queue, node);
        if self.unsent == NONE {
            self.unsent = at;
        }
        if self.state.is_synchronized() {
            self.watch_progress(now_ns);
        }
    }
}

impl Stack {
    /// A connection that the application may speak of, and what all share.
    pub(crate) fn known(&mut self, id: Id) -> Result<(&mut Connection, &mut StackShared), Refusal> {
        let connection = self.connections.get_mut(id.index).filter(|it| it.generation == id.generation);
        let connection = connection.filter(|it| it.state != State::TimeWait).ok_or(Refusal::Gone)?;
        Ok((connection, &mut self.shared))
    }

    /// Opens a connection from `local`, an address of this host, to a port of another. A port
    /// of this side is chosen (RFC 6056, section 3.3.3), of a flow group of this core.
    ///
    /// # Errors
    /// [`Refusal::TooMany`], [`Refusal::NoPort`] and [`Refusal::Addresses`].
    pub fn connect(&mut self, local: IpAddr, remote: (IpAddr, u16), io: &mut Io) -> Result<Id, Refusal> {
        self.connect_where(local, remote, |_| true, io)
    }

    /// As [`connect`](Stack::connect), by one of the ports of this side that fit: of a host with
    /// several cores, one whose answers come to this core.
    ///
    /// # Errors
    /// As there; [`Refusal::NoPort`] also when none fits.
    pub fn connect_where(
        &mut self,
        local: IpAddr,
        remote: (IpAddr, u16),
        fits: impl Fn(u16) -> bool,
        io: &mut Io,
    ) -> Result<Id, Refusal> {
        let mut key = Key { local, remote: remote.0, local_port: 0, remote_port: remote.1 };
        let count = u16::MAX - FIRST_PORT + 1;
        let clock = self.shared.counters.connected as u16 ^ (io.now_ns / MILLISECOND_NS) as u16;
        let start = (key.seen_hash(self.shared.options.key, 3) as u16).wrapping_add(clock);
        let free = (0..count).find(|n| {
            key.local_port = FIRST_PORT + start.wrapping_add(*n) % count;
            fits(key.local_port) && self.find(&key).is_none() && self.owner_elsewhere(&key).is_none()
        });
        free.ok_or(Refusal::NoPort)?;
        self.connect_from((local, key.local_port), remote, io)
    }

    /// Opens a connection from an address and a port of this host.
    ///
    /// # Errors
    /// [`Refusal::TooMany`], [`Refusal::Addresses`], and [`Refusal::NoPort`] when there is a
    /// connection between the two ends, or another core has its flow group.
    pub fn connect_from(
        &mut self,
        local: (IpAddr, u16),
        remote: (IpAddr, u16),
        io: &mut Io,
    ) -> Result<Id, Refusal> {
        let key = Key { local: local.0, remote: remote.0, local_port: local.1, remote_port: remote.1 };
        key.addresses().ok_or(Refusal::Addresses)?;
        if self.find(&key).is_some() || self.owner_elsewhere(&key).is_some() {
            return Err(Refusal::NoPort);
        }
        let initial = self.initial(&key, io.now_ns);
        let index = self.open(key, initial, io).ok_or(Refusal::TooMany)?;
        let Some(connection) = self.connections.get_mut(index) else { return Err(Refusal::TooMany) };
        let options = &self.shared.options;
        connection.state = State::SynSent;
        connection.is.is_known = true;
        connection.is.has_sack = options.sack;
        connection.is.has_timestamps = options.timestamps;
        connection.is.has_scale = options.window_scale;
        connection.is.has_ecn = options.ecn && options.ecn_offer;
        connection.heard_ns = io.now_ns;
        connection.queue_control(&mut self.shared, io.now_ns);
        let id = connection.id(index);
        self.go_on(index);
        Ok(id)
    }

    /// Hands bytes over to be sent, which are all that the packet holds.
    ///
    /// # Errors
    /// The packet again, and why: [`Refusal::Full`] until an [`Event::Sent`](crate::Event::Sent) comes,
    /// [`Refusal::Finished`] and [`Refusal::Gone`].
    pub fn send(&mut self, id: Id, packet: Packet, io: &mut Io) -> Result<(), (Packet, Refusal)> {
        let (connection, shared) = match self.known(id) {
            Ok(known) => known,
            Err(refusal) => return Err((packet, refusal)),
        };
        if connection.is.is_finished {
            return Err((packet, Refusal::Finished));
        }
        let queued = connection.end.since(connection.una) as usize;
        let options = &shared.options;
        // A packet that is longer than the whole buffer goes alone: no event would tell of room.
        let is_over = queued > 0 && queued + packet.len() > options.send_buffer as usize;
        if is_over || packet.next().is_some() {
            return Err((packet, Refusal::Full));
        }
        if packet.is_empty() || connection.extend_last(&packet, shared) {
            io.pool.free(packet);
            // The last one may have become full, which need not wait any longer.
            self.go_on(id.index);
            return Ok(());
        }
        let own = connection.queue.len;
        if !shared.may_queue(own) {
            shared.counters.buffers_full += 1;
            if own == 0 {
                self.starve(id);
            }
            return Err((packet, Refusal::Full));
        }
        if own >= shared.options.send_packets {
            return Err((packet, Refusal::Full));
        }
        connection.queue_node(Node::to_send(Some(packet), connection.end), shared, io.now_ns);
        self.go_on(id.index);
        Ok(())
    }

    /// Copies as many bytes as there is room and buffers for, to be sent; how many.
    ///
    /// # Errors
    /// [`Refusal::Finished`] and [`Refusal::Gone`].
    pub fn write(&mut self, id: Id, bytes: &[u8], io: &mut Io) -> Result<usize, Refusal> {
        self.write_marked(id, bytes, Mark::default(), io)
    }

    /// The same, of bytes of which more is said.
    ///
    /// # Errors
    /// [`Refusal::Finished`] and [`Refusal::Gone`].
    pub fn write_marked(&mut self, id: Id, bytes: &[u8], mark: Mark, io: &mut Io) -> Result<usize, Refusal> {
        let connection = self.known(id)?.0;
        connection.is.waits_for_more = mark.is_more_to_come;
        let written = self.copy(id, bytes, io)?;
        let (connection, shared) = self.known(id)?;
        if let Some(last) = shared.nodes.get_mut(connection.queue.tail).filter(|_| written > 0) {
            last.is_more = mark.is_more_to_come;
            last.is_record_end |= mark.is_record_end && written == bytes.len();
        }
        Ok(written)
    }

    fn copy(&mut self, id: Id, bytes: &[u8], io: &mut Io) -> Result<usize, Refusal> {
        let (connection, shared) = self.known(id)?;
        let size = connection.payload_size() as usize;
        // The last segment becomes full first.
        let last = shared.nodes.get(connection.queue.tail).filter(|last| last.sent == Sent::Not);
        let last = last.filter(|last| !last.is_record_end && !last.is_control);
        let gap = last.map_or(0, |last| size.saturating_sub(last.len() as usize)).min(bytes.len());
        let (filling, bytes) = bytes.split_at(gap);
        let mut written = 0;
        for part in Some(filling).filter(|part| !part.is_empty()).into_iter().chain(bytes.chunks(size)) {
            let Some(mut packet) = io.pool.alloc() else { break };
            let sent = match packet.copy_from(part) {
                Ok(()) => self.send(id, packet, io),
                Err(_) => Err((packet, Refusal::Full)),
            };
            match sent {
                Ok(()) => written += part.len(),
                Err((packet, refusal)) => {
                    io.pool.free(packet);
                    match refusal {
                        Refusal::Full => break,
                        refusal => return Err(refusal),
                    }
                }
            }
        }
        Ok(written)
    }

    /// The application has done with so many bytes of what it received.
    ///
    /// # Errors
    /// [`Refusal::Gone`].
    pub fn consume(&mut self, id: Id, bytes: usize, io: &mut Io) -> Result<(), Refusal> {
        let (connection, shared) = self.known(id)?;
        connection.consume(bytes as u32, shared);
        if connection.is.owes_ack && !connection.is.is_ready {
            self.follow_up(id.index, Next::Keep, io);
        }
        Ok(())
    }

    /// The application has freed so many received packets whose bytes it has not consumed,
    /// because it copied them: they no longer count among the packets that connections keep.
    /// Packets whose bytes are consumed need not be told, for [`consume`](Stack::consume)
    /// counts them.
    ///
    /// # Errors
    /// [`Refusal::Gone`].
    pub fn release(&mut self, id: Id, packets: usize) -> Result<(), Refusal> {
        let (connection, shared) = self.known(id)?;
        connection.count_released(packets.try_into().unwrap_or(u32::MAX), shared);
        Ok(())
    }

    /// Ends this side: nothing is sent behind what is queued. The other side may go on.
    ///
    /// # Errors
    /// [`Refusal::Gone`], and [`Refusal::Finished`] when it was done before.
    pub fn finish(&mut self, id: Id, io: &mut Io) -> Result<(), Refusal> {
        let (connection, shared) = self.known(id)?;
        if connection.is.is_finished {
            return Err(Refusal::Finished);
        }
        connection.is.is_finished = true;
        connection.queue_control(shared, io.now_ns);
        connection.end_side();
        self.go_on(id.index);
        Ok(())
    }

    /// Ends both sides: what is queued is still sent, and data that come reset the connection.
    ///
    /// # Errors
    /// [`Refusal::Gone`].
    pub fn close(&mut self, id: Id, io: &mut Io) -> Result<(), Refusal> {
        let fin_wait_ns = self.shared.options.fin_wait_ns;
        let (connection, _) = self.known(id)?;
        if !std::mem::replace(&mut connection.is.is_released, true) {
            // From now on nobody waits for the other side.
            connection.progress.since_ns = io.now_ns;
        }
        if connection.state == State::SynSent {
            self.remove(id.index, io);
            return Ok(());
        }
        if connection.state == State::FinWait2 {
            connection.set(Deadline::Idle, io.now_ns + fin_wait_ns);
        }
        match self.finish(id, io) {
            Err(Refusal::Finished) => {
                self.go_on(id.index);
                Ok(())
            }
            other => other,
        }
    }

    /// Resets a connection, of which nothing is heard any more.
    ///
    /// # Errors
    /// [`Refusal::Gone`].
    pub fn abort(&mut self, id: Id, io: &mut Io) -> Result<(), Refusal> {
        let (connection, shared) = self.known(id)?;
        if connection.state != State::SynSent {
            connection.send_reset(shared, io);
        }
        self.remove(id.index, io);
        Ok(())
    }

    /// Chooses whether small segments wait for each other (Nagle's algorithm): an application
    /// that sends requests one by one, and does not wait for answers, may want none to wait.
    ///
    /// # Errors
    /// [`Refusal::Gone`].
    pub fn set_nagle(&mut self, id: Id, is_on: bool, io: &mut Io) -> Result<(), Refusal> {
        self.known(id)?.0.is.has_nagle = is_on;
        self.follow_up(id.index, Next::Keep, io);
        Ok(())
    }

    /// Has an [`Event::Timer`](crate::Event::Timer) come at a time, in place of one that was set before.
    ///
    /// # Errors
    /// [`Refusal::Gone`].
    pub fn set_timer(&mut self, id: Id, at_ns: Option<i64>, io: &mut Io) -> Result<(), Refusal> {
        self.known(id)?.0.set(Deadline::Application, at_ns.unwrap_or(NEVER));
        self.follow_up(id.index, Next::Keep, io);
        Ok(())
    }
}
