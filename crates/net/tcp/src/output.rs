//! What a connection sends: what was lost first, then what is new, as far as the windows
//! permit, and an acknowledgement where nothing else carries it.

use wire::tcp::Flags;

use crate::connection::{Connection, Deadline, Io, NEVER, Recovery, StackShared, State};
use crate::kept::append;
use crate::queue::{NONE, Node, Sent};
use crate::search::Search;
use crate::sequence::Sequence;

/// Why a connection stops sending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// It has sent all that it may.
    Done,
    /// There is no room for packets, or no buffer: it goes on later.
    NoRoom,
}

/// How far the windows let a node go.
pub enum May {
    /// All bytes of the node may be sent.
    Send,
    /// So many bytes of it.
    SendPart(u32),
    /// Nothing of it yet.
    Wait,
}

impl Connection {
    /// Sends what may be sent.
    pub fn output(&mut self, shared: &mut StackShared, io: &mut Io) -> Stop {
        let stop = self.send_all(shared, io);
        if stop == Stop::Done && self.is.owes_ack && self.may_speak() {
            return self.send_acknowledgement(shared, io);
        }
        stop
    }

    fn send_all(&mut self, shared: &mut StackShared, io: &mut Io) -> Stop {
        // Full segments have no room for blocks.
        let has_gap = self.early.len > 0 || self.duplicate.is_some();
        if self.is.owes_ack
            && has_gap
            && self.unsent != NONE
            && self.state.is_synchronized()
            && self.send_acknowledgement(shared, io) == Stop::NoRoom
        {
            return Stop::NoRoom;
        }
        if self.lost > 0 && self.send_lost(shared, io) == Stop::NoRoom {
            return Stop::NoRoom;
        }
        self.raise_segment(io.now_ns);
        let sent = self.nxt;
        let is_held = self.is.search != Search::Rests && self.search_path(shared, io);
        while self.unsent != NONE && !is_held {
            let at = self.unsent;
            if shared.nodes.get(at).is_some_and(|node| node.next != NONE) {
                self.join(at, self.room(), shared, io);
                self.join_end(at, shared);
            }
            let Some(node) = shared.nodes.get(at) else { break };
            match self.may_send(node, shared.options.send_packets) {
                May::Send => {}
                May::Wait => break,
                May::SendPart(_) if !self.may_split(shared) => break,
                May::SendPart(len) => {
                    if !self.split(at, len, shared, io) {
                        return Stop::NoRoom;
                    }
                    continue;
                }
            }
            if shared.options.restart_after_idle {
                self.restart_after_idle(io.now_ns);
            }
            if !self.transmit_new(at, shared, io) {
                return Stop::NoRoom;
            }
        }
        if self.nxt != sent {
            self.note_usage();
        }
        self.await_window(shared, io.now_ns);
        Stop::Done
    }

    /// Sends the first node that was not sent, and more in the same packet where the port cuts
    /// it; false when there is no room or no buffer.
    pub fn transmit_new(&mut self, at: u32, shared: &mut StackShared, io: &mut Io) -> bool {
        let Some(node) = shared.nodes.get(at) else { return false };
        let (len, next, is_control) = (node.len(), node.next, node.is_control);
        let (owed_cwr, owed_ack) = (self.is.owes_cwr, self.is.owes_ack);
        let Some(mut packet) = self.build(at, shared, io) else { return false };
        self.last_new = at;
        self.advance(len, next, io.now_ns);
        if is_control && self.state == State::SynSent {
            self.advance_with_syn(shared, io.now_ns);
        }
        if !is_control {
            self.note_interaction(owed_ack, shared, io.now_ns);
        }
        // CWR is told in one segment (RFC 3168, section 6.1.2), and ports may copy it into all.
        let has_cwr = owed_cwr && !self.is.owes_cwr;
        if shared.options.offload.buffers > 1 && !is_control && !has_cwr {
            self.extend(&mut packet, len, shared, io);
        }
        let refused = io.out.push(packet);
        debug_assert!(refused.is_none(), "there was room");
        true
    }

    /// Data go out soon after data came: what this side sends carries acknowledgements.
    fn note_interaction(&mut self, owed_ack: bool, shared: &StackShared, now_ns: i64) {
        let answers_syn = owed_ack && self.received_ns == 0;
        let answers_data = now_ns - self.received_ns < shared.options.delayed_ack_ns;
        self.is.is_interactive |= answers_syn || answers_data && self.received_ns != 0;
    }

    /// Counts the first node that was not sent as sent.
    pub fn advance(&mut self, len: u32, next: u32, now_ns: i64) {
        self.nxt = self.nxt.plus(len);
        if len < self.payload_size() && self.state.is_synchronized() {
            self.small_end = self.nxt;
        }
        self.unsent = next;
        self.in_flight += len;
        self.after_send(now_ns);
    }

    /// Sends again what was lost.
    fn send_lost(&mut self, shared: &mut StackShared, io: &mut Io) -> Stop {
        let mut at = self.queue.head;
        while let Some(node) = shared.nodes.get(at) {
            // Data that went with the SYN wait for its answer.
            let is_early = !self.may_speak() && node.sequence != self.initial;
            if node.sent == Sent::Not || self.lost == 0 || is_early {
                break;
            }
            let here = at;
            at = node.next;
            if node.sent != Sent::Lost {
                continue;
            }
            self.join(here, self.payload_size(), shared, io);
            let Some(node) = shared.nodes.get(here) else { break };
            let len = node.payload_len();
            if self.in_flight > 0 && self.in_flight + len > self.congestion.window {
                break;
            }
            if len > self.payload_size() {
                if !self.may_split(shared) {
                    break; // what is on its way makes room, or a timer goes on
                }
                let end = node.end();
                if !self.split(here, self.payload_size(), shared, io) {
                    return Stop::NoRoom;
                }
                self.resend_path_probe(end);
            }
            let Some(node) = shared.nodes.get_mut(here) else { break };
            at = node.next;
            let len = node.len();
            node.is_resent = true;
            if !self.transmit(here, shared, io) {
                return Stop::NoRoom;
            }
            shared.counters.segments_resent += 1;
            self.resent = self.resent.saturating_add(1);
            self.lost -= len;
            self.in_flight += len;
            self.after_send(io.now_ns);
        }
        Stop::Done
    }

    /// How far the windows let the first node go that was not sent (RFC 9293, section
    /// 3.8.6.2.1). The segments on their way are no more than
    /// `most` full ones, for each is a packet, however small the other side wants them.
    #[inline]
    pub fn may_send(&self, node: &Node, most: u32) -> May {
        if !self.may_speak() {
            let is_syn = node.sequence == self.initial;
            return if is_syn { May::Send } else { May::Wait };
        }
        let len = node.payload_len().max(1);
        // An answer to a SYN that data may follow is no segment of the window.
        let syn = u32::from(self.is_fast_open() && self.una == self.initial);
        let in_flight = self.in_flight.saturating_sub(syn);
        let is_first = in_flight == 0;
        // As in Linux, a FIN alone does not wait for the congestion window.
        let is_end = node.is_control && node.payload_len() == 0;
        if !is_first
            && !is_end
            && in_flight + len.min(self.payload_size()) > self.congestion.window + self.limited()
        {
            return May::Wait;
        }
        let behind = self.nxt.since(self.una);
        if behind > 0 && behind + len.min(self.payload_size()) > most.saturating_mul(self.payload_size()) {
            return May::Wait;
        }
        let most = self.room();
        if len <= most {
            return if self.is_held(node) { May::Wait } else { May::Send };
        }
        if most == self.payload_size() {
            return May::SendPart(most);
        }
        // A part only when it is much of the window, or nothing else happened for long.
        let is_much = most > 0 && most >= self.max_send_window / 2;
        if node.payload_len() > 0 && most > 0 && is_first && (is_much || self.is.may_cut) {
            return May::SendPart(most);
        }
        May::Wait
    }

    /// Bytes that may go out beyond the congestion window because of duplicates that may tell of
    /// a loss (RFC 3042); selective acknowledgements make room by themselves.
    fn limited(&self) -> u32 {
        let is_open = self.recovery == Recovery::Open && !self.is.has_sack;
        if is_open { u32::from(self.duplicates.min(2)) * self.payload_size() } else { 0 }
    }

    /// Whether Nagle's algorithm holds a small segment back (RFC 9293, section 3.7.4): while
    /// another small one is on its way, as Minshall proposed, so that the end of much does not
    /// wait for a delayed acknowledgement.
    pub fn is_held(&self, node: &Node) -> bool {
        let is_last = node.next == NONE && !node.is_control; // what is behind it would not fit
        let is_small = is_last && node.len() < self.payload_size();
        let is_urged = self.is.may_cut || self.is.is_pushing;
        let waits = self.is.is_corked || self.is.waits_for_more;
        is_small && !is_urged && (waits || self.is.has_nagle && self.small_end.is_after(self.una))
    }

    /// Whether a node may be cut in two, which takes a buffer more: one may be at any time, so
    /// that something is on its way.
    pub fn may_split(&self, shared: &StackShared) -> bool {
        self.in_flight == 0 || shared.may_queue(self.queue.len)
    }

    /// Payload bytes that the other side's window takes at once.
    pub fn room(&self) -> u32 {
        self.room_of(self.payload_size())
    }

    /// Sequence numbers that the other side's window takes, `most` at most.
    fn room_of(&self, most: u32) -> u32 {
        // A SYN takes no window.
        let syn = u32::from(self.is_initial(self.una));
        let edge = self.una.plus(self.send_window.saturating_add(syn));
        let room = if edge.is_after(self.nxt) { edge.since(self.nxt) } else { 0 };
        room.min(most)
    }

    /// Whether a number is that of the SYN: after 4 GiB it is one of a byte.
    #[inline]
    pub fn is_initial(&self, sequence: Sequence) -> bool {
        !self.state.is_synchronized() && sequence == self.initial
    }

    /// Joins a short node with those behind it, up to so many bytes, if they are in the same
    /// case: all wait to be sent, or to be sent again.
    pub fn join(&mut self, at: u32, most: u32, shared: &mut StackShared, io: &mut Io) {
        loop {
            let Some(node) = shared.nodes.get(at) else { return };
            let Some(next) = shared.nodes.get(node.next) else { return };
            let is_same = node.sent == next.sent && !node.is_control && !next.is_control;
            let is_same = is_same && !node.is_record_end;
            let (is_record_end, is_more) = (next.is_record_end, next.is_more);
            let fits = node.len() + next.len() <= most
                && node.packet().is_some_and(|packet| packet.tailroom() >= next.len() as usize);
            if !is_same || !fits {
                return;
            }
            let Some(second) = shared.nodes.remove_after(&mut self.queue, at) else { return };
            if let Some(node) = shared.nodes.get_mut(at) {
                (node.is_record_end, node.is_more) = (is_record_end, is_more);
                let _ = node.change(|first| append(first, &second));
            }
            io.pool.free(second);
        }
    }

    /// Has the FIN ride on the last data, where neither was sent and the window takes both.
    fn join_end(&mut self, at: u32, shared: &mut StackShared) {
        if shared.nodes.get(at).is_some_and(|node| self.has_end_behind(node, shared)) {
            shared.nodes.remove_after(&mut self.queue, at);
            if let Some(node) = shared.nodes.get_mut(at) {
                node.is_control = true;
            }
        }
    }

    /// Whether a node that was not sent is the last data, and the FIN stands behind it.
    pub fn has_end_behind(&self, node: &Node, shared: &StackShared) -> bool {
        let next = shared.nodes.get(node.next).filter(|next| next.is_control && next.packet().is_none());
        let fits = node.len() < self.room_of(u32::MAX);
        !node.is_control && node.sent == Sent::Not && next.is_some() && fits
    }

    /// Cuts a node in two, the first of which has `len` bytes; false when there is no buffer.
    pub fn split(&mut self, at: u32, len: u32, shared: &mut StackShared, io: &mut Io) -> bool {
        let Some(mut rest) = io.pool.alloc() else {
            shared.counters.no_buffer += 1;
            return false;
        };
        let Some(node) = shared.nodes.get_mut(at) else { return false };
        let (sent, is_resent, sent_ns) = (node.sent, node.is_resent, node.sent_ns);
        let (is_control, is_record_end, is_more) = (node.is_control, node.is_record_end, node.is_more);
        let sequence = node.sequence.plus(len);
        let is_cut = node.change(|packet| {
            let (first, second) = packet.split_at(len as usize);
            let first = first.len();
            rest.copy_from(second).is_ok() && packet.set_len(first).is_ok()
        });
        if is_cut != Some(true) {
            io.pool.free(rest);
            return false;
        }
        (node.is_control, node.is_record_end, node.is_more) = (false, false, false);
        let mut rest = Node::to_send(Some(rest), sequence);
        (rest.sent, rest.is_resent, rest.sent_ns) = (sent, is_resent, sent_ns);
        (rest.is_control, rest.is_record_end, rest.is_more) = (is_control, is_record_end, is_more);
        shared.nodes.insert_after(&mut self.queue, at, rest);
        true
    }

    /// After silence for longer than a retransmission timeout the window is that of a new
    /// connection (RFC 5681, section 4.1).
    pub fn restart_after_idle(&mut self, now_ns: i64) {
        let is_idle = self.in_flight == 0 && now_ns - self.sent_ns > self.rtt.timeout_ns();
        if is_idle && self.sent_ns != 0 && self.recovery == Recovery::Open {
            self.congestion.restart(self.payload_size());
        }
    }

    /// Timers after something was sent.
    #[inline]
    fn after_send(&mut self, now_ns: i64) {
        self.sent_ns = now_ns;
        (self.is.may_cut, self.is.is_pushing) = (false, false);
        if self.waits_since_ns == NEVER {
            self.waits_since_ns = now_ns;
        }
        let is_set = self.deadlines[Deadline::Retransmit as usize] != NEVER && self.in_flight + self.lost > 1;
        if !is_set || self.nxt == self.una {
            self.set(Deadline::Retransmit, now_ns + self.rtt.timeout_ns());
            self.bound_by_user_timeout();
        }
        self.arm_probe(now_ns);
    }

    /// Sends a node; false when there is no room or no buffer.
    pub fn transmit(&mut self, at: u32, shared: &mut StackShared, io: &mut Io) -> bool {
        let Some(packet) = self.build(at, shared, io) else { return false };
        let refused = io.out.push(packet);
        debug_assert!(refused.is_none(), "there was room");
        true
    }

    /// Sends an acknowledgement alone.
    fn send_acknowledgement(&mut self, shared: &mut StackShared, io: &mut Io) -> Stop {
        let sequence = self.nxt;
        match self.send_bare(sequence, shared, io) {
            true => Stop::Done,
            false => Stop::NoRoom,
        }
    }

    /// An acknowledgement went out.
    pub fn has_acknowledged(&mut self, flags: Flags) {
        if flags.contains(Flags::ACK) {
            (self.is.owes_ack, self.unacknowledged) = (false, 0);
            self.quick = self.quick.saturating_sub(u8::from(self.received_ns != 0));
            self.acknowledged = self.receive_next;
            self.set(Deadline::Acknowledge, NEVER);
        }
    }
}

#[cfg(test)]
mod tests {
    use memory::{Backing, Batch, Dma, Pool};
    use wire::tcp::Flags;
    use wire::{ipv4, tcp as segment};

    use crate::connection::{Io, State};
    use crate::key::Key;
    use crate::options::Options;
    use crate::sequence::Sequence;
    use crate::stack::Stack;

    /// Sends 1,400 bytes and the end from a connection's first number on, as behind 4 GiB, into a
    /// window: the length of each segment, and its SYN and FIN.
    fn sent_from_first_number(window: u32) -> Vec<(usize, Flags)> {
        let dma = Dma::new(memory::Options { backing: Backing::Memfd, numa_node: None });
        let mut pool = Pool::new(&dma, 16).expect("memory");
        let mut out = Batch::with_limit(16);
        let mut io = Io { now_ns: 0, pool: &mut pool, out: &mut out };
        let mut stack = Stack::new(Options::default(), 0);
        let (local, remote) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        let key = Key { local, remote, local_port: 80, remote_port: 5000 };
        let index = stack.open(key, Sequence(7), &mut io).expect("room");
        let connection = stack.connections.get_mut(index).expect("it is open");
        (connection.state, connection.send_window) = (State::Established, window);
        let id = connection.id(index);
        assert_eq!(stack.write(id, &[1; 1400], &mut io), Ok(1400));
        stack.finish(id, &mut io).expect("it is open");
        stack.output(&mut io);
        let sent = out.iter().map(|packet| {
            let ip = ipv4::Packet::new_checked(&packet[..]).expect("a packet");
            let tcp = segment::Segment::new_checked(ip.payload()).expect("a segment");
            (tcp.payload().len(), tcp.flags().without(Flags::ACK | Flags::PSH))
        });
        let sent = sent.collect();
        pool.free_batch(&mut out);
        sent
    }

    #[test]
    fn a_number_that_comes_round_to_the_first_is_no_syn() {
        assert_eq!(sent_from_first_number(5000), [(1400, Flags::FIN)]);
    }

    #[test]
    fn a_window_from_the_first_number_on_has_no_byte_more() {
        assert_eq!(sent_from_first_number(1000), [(1000, Flags(0))]);
    }
}
