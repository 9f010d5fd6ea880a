//! What becomes of a segment of a connection, in the order of RFC 9293, section 3.10.7, with
//! the checks of RFC 5961 against strangers who guess numbers, and PAWS (RFC 7323).

use port::Reason as Loss;
use wire::tcp::Flags;

use crate::connection::{Connection, Deadline, Io, MaybePacket, NEVER, Next, StackShared, State};
use crate::event::{Event, Reason};
use crate::options::{MILLISECOND_NS, SECOND_NS};
use crate::queue::Sent;
use crate::reset::answer_with_reset;
use crate::segment::Segment;
use crate::sequence::is_earlier;

/// How long after one challenge another may be sent. RFC 5961, section 7, has a limit for all
/// connections together, from which strangers can learn numbers.
const CHALLENGE_NS: i64 = 100 * MILLISECOND_NS;
/// After which the other side's clock says nothing any more (RFC 7323, section 5.5).
const CLOCK_LIFE_NS: i64 = 24 * 86_400 * SECOND_NS;

impl Connection {
    /// Takes a segment. Its packet is taken where it holds new data, else it stays.
    pub fn arrive(
        &mut self,
        index: u32,
        segment: &Segment,
        packet: &mut MaybePacket,
        shared: &mut StackShared,
        io: &mut Io,
    ) -> Next {
        if self.state == State::SynSent {
            return self.arrive_syn_sent(index, segment, packet, shared, io);
        }
        if self.is_repeated_syn(segment) {
            return self.answer_again(shared);
        }
        if let Some(loss) = self.find_fault(segment, io.now_ns) {
            return self.refuse(segment, loss, shared, io);
        }
        if segment.has(Flags::RST) {
            return self.reset(segment, shared, io);
        }
        if self.is_crossed_answer(segment) {
            // Its window is not shifted, and its SYN has come before.
            self.set_window(segment);
            self.establish(index, shared, io);
            self.is.owes_ack = true;
            self.acknowledge(index, segment, shared, io);
            return self.take_rest(index, segment, packet, shared, io);
        }
        if segment.has(Flags::SYN) {
            self.challenge(shared, io);
            shared.counters.lose(Loss::RxTcpControl);
            return Next::Keep;
        }
        if !segment.has(Flags::ACK) {
            shared.counters.lose(Loss::RxTcpAcknowledgement);
            return Next::Keep;
        }
        if self.state == State::SynReceived {
            let is_ours =
                segment.acknowledgement.is_after(self.una) && !segment.acknowledgement.is_after(self.nxt);
            if !is_ours {
                shared.counters.lose(Loss::RxTcpAcknowledgement);
                return Next::Refuse;
            }
            self.set_window(segment);
            self.establish(index, shared, io);
        }
        if self.refuses_acknowledgement(segment, shared, io) {
            return Next::Keep;
        }
        self.heard_ns = io.now_ns;
        self.take_clock(segment, io.now_ns);
        self.take_congestion(segment);
        self.acknowledge(index, segment, shared, io);
        self.take_rest(index, segment, packet, shared, io)
    }

    /// Whether a segment acknowledges what it cannot, too old or never sent (RFC 5961, section 5.2);
    /// then it is counted, and challenged where it may be the other side's.
    #[inline]
    fn refuses_acknowledgement(&mut self, segment: &Segment, shared: &mut StackShared, io: &mut Io) -> bool {
        let oldest = self.una.plus(self.max_send_window.wrapping_neg());
        let is_ahead = segment.acknowledgement.is_after(self.nxt);
        if !segment.acknowledgement.is_before(oldest) && !is_ahead {
            return false;
        }
        // What was never sent is not challenged, as in Linux: nothing that is on its way can
        // acknowledge it, but for a stranger's.
        if !is_ahead {
            self.challenge(shared, io);
        }
        shared.counters.lose(Loss::RxTcpAcknowledgement);
        true
    }

    /// The states after an acknowledgement, the data and the FIN.
    fn take_rest(
        &mut self,
        index: u32,
        segment: &Segment,
        packet: &mut MaybePacket,
        shared: &mut StackShared,
        io: &mut Io,
    ) -> Next {
        if self.is_all_acknowledged() {
            match self.state {
                State::FinWait1 => self.enter_fin_wait_2(shared, io),
                State::Closing => return self.enter_time_wait(index, shared, io),
                State::LastAck => return Next::End(Reason::Finished),
                _ => {}
            }
        }
        if !segment.payload.is_empty() {
            if self.is.is_released && segment.end().is_after(self.receive_next) {
                shared.counters.lose(Loss::RxTcpClosed);
                answer_with_reset(segment, shared, io);
                return Next::End(Reason::DataAfterClose);
            }
            match self.state {
                State::Established | State::FinWait1 | State::FinWait2 => {
                    self.take_data(index, segment, packet, shared, io);
                }
                _ => self.is.owes_ack = true,
            }
        }
        self.take_fin(index, segment, shared, io)
    }

    /// A segment in SYN-SENT (RFC 9293, section 3.10.7.3).
    fn arrive_syn_sent(
        &mut self,
        index: u32,
        segment: &Segment,
        packet: &mut MaybePacket,
        shared: &mut StackShared,
        io: &mut Io,
    ) -> Next {
        let has_ack = segment.has(Flags::ACK);
        let is_ours =
            segment.acknowledgement.is_after(self.una) && !segment.acknowledgement.is_after(self.nxt);
        if has_ack && !is_ours {
            shared.counters.lose(Loss::RxTcpAcknowledgement);
            return if segment.has(Flags::RST) { Next::Keep } else { Next::Refuse };
        }
        if has_ack && !segment.has(Flags::RST) && self.is_foreign_echo(segment, io.now_ns) {
            shared.counters.lose(Loss::RxTcpTimestamp);
            return Next::Refuse;
        }
        if segment.has(Flags::RST) {
            if !has_ack {
                shared.counters.lose(Loss::RxTcpControl);
                return Next::Keep;
            }
            shared.counters.resets_received += 1;
            return Next::End(Reason::Reset);
        }
        if !segment.has(Flags::SYN) {
            shared.counters.lose(Loss::RxTcpControl);
            return Next::Keep;
        }
        self.heard_ns = io.now_ns;
        self.learn(segment, &shared.options, io.now_ns);
        // The SYN has told a window, in which data may have come with the answer.
        self.receive_edge = self.receive_next.plus(shared.options.receive_buffer.min(0xFFFF));
        self.set_window(segment);
        if has_ack {
            self.take_fast_answer(segment, shared, io.now_ns);
            self.establish(index, shared, io);
            self.is.owes_ack = true;
            self.acknowledge(index, segment, shared, io);
            self.lose_all(shared);
            return self.take_rest(index, segment, packet, shared, io);
        }
        if !segment.payload.is_empty() {
            shared.counters.lose(Loss::RxTcpSynData);
        }
        // Both SYNs are on their way: this one is sent again, with an acknowledgement.
        self.state = State::SynReceived;
        // What went with the SYN waits for the end of opening.
        (self.cookie, self.syn_data) = (None, 0);
        self.resend_syn(shared);
        Next::Keep
    }

    /// Whether the answer to a SYN echoes a clock that no SYN of this connection showed: it
    /// answers another one (RFC 7323, section 3.2, as Linux has it).
    fn is_foreign_echo(&self, segment: &Segment, now_ns: i64) -> bool {
        // Some peers echo nothing there.
        let echo = segment.timestamps.filter(|(_, echo)| self.is.has_timestamps && *echo != 0);
        let Some((_, echo)) = echo else { return false };
        let (first, last) = (self.clock(self.heard_ns), self.clock(now_ns));
        is_earlier(echo, first) || is_earlier(last, echo)
    }

    /// Whether a segment is the other side's answer to a SYN that crossed its own (RFC 9293,
    /// section 3.5, figure 7).
    fn is_crossed_answer(&self, segment: &Segment) -> bool {
        self.state == State::SynReceived
            && !self.is.is_passive
            && segment.has(Flags::SYN)
            && segment.has(Flags::ACK)
            && segment.data() == self.receive_next
            && segment.acknowledgement == self.nxt
    }

    /// Whether a segment is the SYN again that has not been answered yet as far as the other
    /// side knows. It touches the window, so that it would count as a stranger's.
    fn is_repeated_syn(&self, segment: &Segment) -> bool {
        self.state == State::SynReceived
            && segment.has(Flags::SYN)
            && !segment.has(Flags::ACK)
            && !segment.has(Flags::RST)
            && segment.sequence.plus(1) == self.receive_next.plus((self.bytes_received as u32).wrapping_neg())
    }

    /// Takes a SYN that came again, because the answer was lost or late.
    fn answer_again(&mut self, shared: &mut StackShared) -> Next {
        self.resend_syn(shared);
        shared.counters.lose(Loss::RxTcpDuplicate);
        Next::Keep
    }

    /// Has the SYN sent again at once.
    pub fn resend_syn(&mut self, shared: &mut StackShared) {
        let first = shared.nodes.get_mut(self.queue.head).filter(|node| node.sent == Sent::InFlight);
        if let Some(node) = first {
            node.sent = Sent::Lost;
            self.in_flight -= node.len();
            self.lost += node.len();
        }
    }

    /// Why a segment is not acceptable: PAWS (RFC 7323, section 5.3), or its numbers (RFC
    /// 9293, section 3.4). Segments that touch the window from both sides are let through, for
    /// what they acknowledge.
    fn find_fault(&mut self, segment: &Segment, now_ns: i64) -> Option<Loss> {
        // RFC 7323, section 3.2, would drop a segment without a clock. As in Linux it is taken,
        // for there are boxes on the way that take options off.
        let clock = segment.timestamps.filter(|_| self.is.has_timestamps && !segment.has(Flags::RST));
        if let Some((clock, _)) = clock {
            let is_known = now_ns - self.peer_clock_ns < CLOCK_LIFE_NS;
            if is_known && is_earlier(clock, self.peer_clock) {
                return Some(Loss::RxTcpTimestamp);
            }
        }
        let is_old = segment.end().is_before(self.receive_next);
        (is_old || segment.sequence.is_after(self.receive_edge)).then_some(Loss::RxTcpSequence)
    }

    /// Answers a segment that is not acceptable.
    fn refuse(&mut self, segment: &Segment, loss: Loss, shared: &mut StackShared, io: &mut Io) -> Next {
        shared.counters.lose(loss);
        if segment.has(Flags::RST) {
            return Next::Keep;
        }
        if segment.payload.is_empty() && !segment.has(Flags::FIN) {
            self.challenge(shared, io);
        } else if loss == Loss::RxTcpSequence || segment.timestamps.is_some() {
            // What was sent again must be acknowledged again.
            let end = segment.sequence.plus(segment.payload.len() as u32);
            if !end.is_after(self.receive_next) && segment.sequence.is_before(end) {
                self.duplicate = Some((segment.sequence, end));
            }
            self.repeat_acknowledgement(shared, io);
        }
        Next::Keep
    }

    /// Acknowledges once more what was sent once more; TIME-WAIT begins anew (RFC 9293,
    /// section 3.10.7.4).
    fn repeat_acknowledgement(&mut self, shared: &StackShared, io: &Io) {
        self.is.owes_ack = true;
        if self.state == State::TimeWait {
            self.set(Deadline::Idle, io.now_ns + shared.options.time_wait_ns);
        }
    }

    /// A reset in the window: it counts with the very number that is expected (RFC 5961,
    /// section 3.2), and not in TIME-WAIT (RFC 1337).
    fn reset(&mut self, segment: &Segment, shared: &mut StackShared, io: &mut Io) -> Next {
        if self.state == State::TimeWait {
            shared.counters.lose(Loss::RxTcpControl);
            return Next::Keep;
        }
        if segment.sequence != self.receive_next {
            self.challenge(shared, io);
            shared.counters.lose(Loss::RxTcpControl);
            return Next::Keep;
        }
        shared.counters.resets_received += 1;
        match self.state {
            State::SynReceived if self.is.is_passive && !self.is.is_known => Next::Forget,
            _ => Next::End(Reason::Reset),
        }
    }

    /// Owes an acknowledgement to whoever may be a stranger, if none has been sent for a while.
    fn challenge(&mut self, shared: &mut StackShared, io: &Io) {
        if io.now_ns >= self.challenge_ns {
            self.challenge_ns = io.now_ns + CHALLENGE_NS;
            self.is.owes_ack = true;
            shared.counters.challenges += 1;
        }
    }

    /// Takes the other side's clock, to be echoed (RFC 7323, section 4.3).
    #[inline]
    pub fn take_clock(&mut self, segment: &Segment, now_ns: i64) {
        let Some((clock, _)) = segment.timestamps.filter(|_| self.is.has_timestamps) else { return };
        if !segment.sequence.is_after(self.acknowledged) && !is_earlier(clock, self.peer_clock) {
            (self.peer_clock, self.peer_clock_ns) = (clock, now_ns);
        }
    }

    /// RFC 3168, section 6.1.3: congestion is told until the other side has answered to it.
    fn take_congestion(&mut self, segment: &Segment) {
        if !self.is.has_ecn {
            return;
        }
        if segment.has(Flags::CWR) {
            self.is.is_echoing = false;
        }
        if segment.is_congested {
            self.is.is_echoing = true;
            self.is.owes_ack = true;
        }
    }

    /// Takes the other side's FIN, once all data in front of it have come.
    fn take_fin(&mut self, index: u32, segment: &Segment, shared: &mut StackShared, io: &mut Io) -> Next {
        let end = segment.data().plus(segment.payload.len() as u32);
        if segment.has(Flags::FIN) && self.is.is_peer_finished {
            self.repeat_acknowledgement(shared, io); // which was lost
        } else if segment.has(Flags::FIN) && !end.is_after(self.receive_edge) {
            self.peer_end = Some(end);
            self.is.owes_ack = true;
        }
        if self.is.is_peer_finished || self.peer_end != Some(self.receive_next) {
            return Next::Keep;
        }
        self.is.is_peer_finished = true;
        self.receive_next = self.receive_next.plus(1);
        self.receive_edge = self.receive_edge.max(self.receive_next);
        self.is.owes_ack = true;
        shared.early.clear(&mut self.early, io.pool); // behind the end
        if !self.is.is_released {
            shared.events.push(Event::PeerFinished { connection: self.id(index) });
        }
        match self.state {
            State::Established => self.state = State::CloseWait,
            State::FinWait1 => self.state = State::Closing,
            State::FinWait2 => return self.enter_time_wait(index, shared, io),
            _ => {}
        }
        Next::Keep
    }

    fn enter_fin_wait_2(&mut self, shared: &StackShared, io: &Io) {
        self.state = State::FinWait2;
        if self.is.is_released {
            self.set(Deadline::Idle, io.now_ns + shared.options.fin_wait_ns);
        }
    }

    /// Both sides have ended: the application is told, and the place is kept for segments that
    /// are still on their way.
    fn enter_time_wait(&mut self, index: u32, shared: &mut StackShared, io: &mut Io) -> Next {
        self.state = State::TimeWait;
        self.deadlines = [NEVER; crate::connection::DEADLINES];
        self.set(Deadline::Idle, io.now_ns + shared.options.time_wait_ns);
        self.clear(shared, io.pool);
        self.is.is_starved = false; // nothing is told behind the end
        let (connection, reason) = (self.id(index), Reason::Finished);
        shared.events.push(Event::Closed { connection, reason });
        self.is.is_known = false;
        Next::Keep
    }

    /// Whether a segment opens a connection anew that is in TIME-WAIT: a SYN with a later
    /// number or clock (RFC 9293, section 3.6.1; RFC 6191).
    pub fn reopens(&self, segment: &Segment) -> bool {
        if self.state != State::TimeWait {
            return false;
        }
        let control = Flags::SYN | Flags::ACK | Flags::RST | Flags::FIN;
        let is_syn = Flags(segment.flags.0 & control.0) == Flags::SYN;
        let is_later = match segment.timestamps {
            Some((clock, _)) if self.is.has_timestamps && clock != self.peer_clock => {
                is_earlier(self.peer_clock, clock)
            }
            _ => segment.sequence.is_after(self.receive_next),
        };
        is_syn && is_later
    }
}
