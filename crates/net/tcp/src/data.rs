//! What segments carry: bytes in order go to the application as they are, others wait
//! (RFC 9293, section 3.10.7.4; RFC 2018), and the window is told (RFC 9293, section 3.8.6.2).

use memory::Packet;
use port::Reason;

use crate::connection::{Connection, Deadline, Io, MaybePacket, NEVER, StackShared};
use crate::event::Event;
use crate::kept::append;
use crate::queue::{NONE, Node};
use crate::segment::{Blocks, Segment};
use crate::sequence::Sequence;

impl Connection {
    /// Takes the bytes of an acceptable segment. The packet stays with the caller when nothing
    /// of it was new.
    pub fn take_data(
        &mut self,
        index: u32,
        segment: &Segment,
        packet: &mut MaybePacket,
        shared: &mut StackShared,
        io: &mut Io,
    ) {
        let len = segment.payload.len() as u32;
        let (start, end) = (segment.data(), segment.data().plus(len));
        if !end.is_after(self.receive_next) {
            self.duplicate = Some((start, end));
            self.is.owes_ack = true;
            shared.counters.lose(Reason::RxTcpDuplicate);
            return;
        }
        let front = start.max(self.receive_next);
        let back = end.min(self.receive_edge);
        if !front.is_before(back) {
            self.is.owes_ack = true; // the window is closed
            shared.counters.lose(Reason::RxTcpSequence);
            return;
        }
        let from = segment.payload.start + front.since(start) as usize;
        let count = back.since(front) as usize;
        let Some(mut bytes) = packet.take_if(|packet| cut(packet, from, count)) else { return };
        bytes.forget_rx_words();
        if front == self.receive_next {
            self.take_in_order(index, bytes, len, shared, io);
        } else {
            // RFC 5681, section 4.2: at once, for it tells of a gap.
            self.is.owes_ack = true;
            self.keep(front, bytes, shared, io);
        }
    }

    /// Takes bytes in order, of a segment of `len` bytes.
    #[inline]
    fn take_in_order(&mut self, index: u32, bytes: Packet, len: u32, shared: &mut StackShared, io: &mut Io) {
        if !self.has_room_in_order(shared, io.pool) {
            shared.counters.lose(Reason::RxTcpBuffers);
            return io.pool.free(bytes);
        }
        self.deliver(index, bytes, shared);
        if self.early.len > 0 {
            self.deliver_early(index, shared, io);
        }
        self.received_ns = io.now_ns;
        self.receive_segment = self.receive_segment.max(len.min(0xFFFF) as u16);
        self.delay_acknowledgement(shared, io.now_ns);
    }

    /// Takes the bytes of a segment that begins with what is expected and ends in the window.
    #[inline]
    pub fn take_expected_data(
        &mut self,
        index: u32,
        segment: &Segment,
        packet: &mut MaybePacket,
        shared: &mut StackShared,
        io: &mut Io,
    ) {
        let (from, count) = (segment.payload.start, segment.payload.len());
        let Some(mut bytes) = packet.take_if(|packet| cut(packet, from, count)) else { return };
        bytes.forget_rx_words();
        self.take_in_order(index, bytes, count as u32, shared, io);
    }

    /// Gives bytes to the application.
    #[inline]
    fn deliver(&mut self, index: u32, packet: Packet, shared: &mut StackShared) {
        let len = packet.len() as u32;
        self.receive_next = self.receive_next.plus(len);
        self.count_delivered(len, shared);
        shared.counters.bytes_received += u64::from(len);
        shared.events.push(Event::Received { connection: self.id(index), packet });
    }

    /// Gives what waited to the application, as far as it is in order now.
    fn deliver_early(&mut self, index: u32, shared: &mut StackShared, io: &mut Io) {
        while let Some(node) = shared.early.get(self.early.head) {
            if node.sequence.is_after(self.receive_next) {
                break;
            }
            self.is.owes_ack = true; // RFC 5681, section 4.2: a gap is filled
            let old = self.receive_next.since(node.sequence) as usize;
            let Some(Some(mut packet)) = shared.early.pop_front(&mut self.early) else { break };
            match packet.len() > old && packet.pull_front(old).is_ok() {
                true => self.deliver(index, packet, shared),
                false => io.pool.free(packet),
            }
            self.await_gap(shared, io.now_ns);
        }
    }

    /// What came before its turn waits for some time for what stands in front of it.
    fn await_gap(&mut self, shared: &StackShared, now_ns: i64) {
        let is_any = self.early.len > 0;
        self.set(Deadline::Gap, if is_any { now_ns + shared.options.out_of_order_ns } else { NEVER });
    }

    /// Keeps bytes that came before what stands in front of them.
    fn keep(&mut self, start: Sequence, mut packet: Packet, shared: &mut StackShared, io: &mut Io) {
        let end = start.plus(packet.len() as u32);
        let mut after = NONE;
        // Most come behind all others.
        let last = shared.early.get(self.early.tail).filter(|last| !last.end().is_after(start));
        if last.is_some() {
            after = self.early.tail;
        } else {
            for (at, node) in shared.early.iter(self.early) {
                if node.sequence.is_after(start) {
                    break;
                }
                after = at;
            }
        }
        let mut start = start;
        if let Some(before) = shared.early.get(after).map(Node::end) {
            if !end.is_after(before) {
                self.duplicate = Some((start, end));
                shared.counters.lose(Reason::RxTcpDuplicate);
                return io.pool.free(packet);
            }
            if before.is_after(start) {
                let _ = packet.pull_front(before.since(start) as usize);
                start = before;
            }
        }
        self.remove_covered(after, end, shared, io);
        let next = shared.early.get(after).map_or(self.early.head, |node| node.next);
        if let Some(next) = shared.early.get(next).filter(|next| next.sequence.is_before(end)) {
            packet.truncate(next.sequence.since(start) as usize);
        }
        let before = shared.early.get_mut(after).filter(|before| before.end() == start);
        let is_joined =
            before.and_then(|node| node.change(|before| append(before, &packet))).unwrap_or(false);
        if is_joined {
            io.pool.free(packet);
        } else if packet.is_empty() || !self.has_room_early(shared) {
            shared.counters.lose(Reason::RxTcpNoRoom);
            return io.pool.free(packet);
        } else {
            shared.early.insert_after(&mut self.early, after, Node::received(packet, start));
        }
        if self.deadlines[Deadline::Gap as usize] == NEVER {
            self.await_gap(shared, io.now_ns);
        }
        if self.recent[0] != start {
            self.recent = [start, self.recent[0], self.recent[1]];
        }
    }

    /// Removes the packets behind a node whose bytes all come before `end`.
    fn remove_covered(&mut self, after: u32, end: Sequence, shared: &mut StackShared, io: &mut Io) {
        loop {
            let next = shared.early.get(after).map_or(self.early.head, |node| node.next);
            let is_covered = shared.early.get(next).is_some_and(|next| !next.end().is_after(end));
            if !is_covered {
                return;
            }
            if let Some(packet) = shared.early.remove_after(&mut self.early, after) {
                shared.counters.lose(Reason::RxTcpDuplicate);
                io.pool.free(packet);
            }
        }
    }

    /// Has the acknowledgement of data in order wait for the second segment, or for some time
    /// (RFC 9293, section 3.8.6.3). Which length is a full one to the other side is not known
    /// here: its link may take less than this one, so every segment counts.
    fn delay_acknowledgement(&mut self, shared: &StackShared, now_ns: i64) {
        self.unacknowledged = self.unacknowledged.saturating_add(1);
        let is_quick = self.quick > 0 && !self.is.is_interactive;
        if self.unacknowledged >= 2 || is_quick {
            self.is.owes_ack = true;
        }
        if !self.is.owes_ack && self.deadlines[Deadline::Acknowledge as usize] == NEVER {
            self.set(Deadline::Acknowledge, now_ns + shared.options.delayed_ack_ns);
        }
    }

    /// The application has done with so many bytes: the window opens, and the other side is
    /// told when it opens far enough (RFC 9293, section 3.8.6.2.2).
    pub fn consume(&mut self, bytes: u32, shared: &mut StackShared) {
        self.count_consumed(bytes, shared);
        let told = self.receive_edge.since(self.receive_next);
        let buffer = shared.options.receive_buffer;
        let opens = buffer.saturating_sub(self.unconsumed).saturating_sub(told);
        let segment = self.payload_size();
        if opens >= (buffer / 2).min(2 * segment) && (told < buffer / 2 || opens >= buffer / 4) {
            self.is.owes_ack |= self.state.is_synchronized() && !self.is.is_peer_finished;
        }
    }

    /// The window to be told, which never goes back and opens by full segments only.
    pub fn window(&mut self, shared: &StackShared, is_syn: bool) -> u16 {
        let buffer = shared.options.receive_buffer;
        let told = self.receive_edge.since(self.receive_next);
        let room = buffer.saturating_sub(self.unconsumed);
        let opens = room.saturating_sub(told);
        let may_open = opens >= (buffer / 2).min(self.payload_size());
        let window = if may_open { room } else { told };
        if is_syn {
            let window = window.min(0xFFFF);
            self.receive_edge = self.receive_edge.max(self.receive_next.plus(window));
            return window as u16;
        }
        let field = (window >> self.receive_shift).min(0xFFFF);
        let edge = self.receive_next.plus(field << self.receive_shift);
        self.receive_edge = self.receive_edge.max(edge);
        field as u16
    }

    /// The blocks of what waits, those first in which something came last (RFC 2018, section
    /// 4), and in front of them what came twice (RFC 2883).
    pub fn blocks(&mut self, shared: &StackShared) -> Blocks {
        let mut blocks = Blocks::default();
        if let Some((start, end)) = self.duplicate.take() {
            blocks.push(start, end);
        }
        // The latest by their rank, then others.
        let mut found = [None; 6];
        let mut others = 3;
        let mut run: Option<(Sequence, Sequence)> = None;
        let mut nodes = shared.early.iter(self.early).map(|(_, node)| (node.sequence, node.end()));
        loop {
            let next = nodes.next();
            if let (Some(run), Some((start, end))) = (&mut run, next)
                && run.1 == start
            {
                run.1 = end;
                continue;
            }
            let Some((start, end)) = std::mem::replace(&mut run, next) else {
                match next {
                    Some(_) => continue,
                    None => break,
                }
            };
            let is_in = |at: &Sequence| !at.is_before(start) && at.is_before(end);
            let rank = self.recent.iter().position(is_in).unwrap_or(others);
            others += usize::from(rank == others);
            if let Some(place) = found.get_mut(rank) {
                *place = Some((start, end));
            }
        }
        found.into_iter().flatten().for_each(|(start, end)| blocks.push(start, end));
        blocks
    }
}

/// Leaves `count` bytes of a packet, from `from` on; whether it has them.
fn cut(packet: &mut Packet, from: usize, count: usize) -> bool {
    let is_there = from + count <= packet.len() && packet.next().is_none();
    is_there && packet.pull_front(from).is_ok() && packet.set_len(count).is_ok()
}
