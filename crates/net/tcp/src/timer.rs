//! What is due on a connection: sending again (RFC 6298, section 5), probes for losses at the
//! end (RFC 8985, section 7), closed windows (RFC 9293, section 3.8.6.1), acknowledgements,
//! keep-alive (RFC 9293, section 3.8.4), and the ends of states.

use port::Reason;

use crate::connection::{Connection, Deadline, Io, NEVER, Next, Recovery, StackShared, State};
use crate::event::{Event, Reason as End};
use crate::hystart::Hystart;
use crate::options::MAX_RTO_NS;
use crate::queue::{NONE, Sent};
use crate::search::Search;

impl Connection {
    /// Does what is due.
    pub fn expire(&mut self, index: u32, shared: &mut StackShared, io: &mut Io) -> Next {
        if self.is_due(Deadline::Acknowledge, io) {
            self.is.owes_ack = true;
        }
        if self.is_due(Deadline::Application, io) {
            shared.events.push(Event::Timer { connection: self.id(index) });
        }
        if self.is_due(Deadline::Reorder, io)
            && self.find_lost(shared, io.now_ns)
            && self.recovery == Recovery::Open
            && !(self.is.search == Search::Probes && self.is_path_probe_lost(shared))
        {
            self.begin_recovery(shared);
            // As if an acknowledgement of a segment had told of the loss.
            let (segment, threshold) = (self.payload_size(), self.congestion.threshold);
            self.congestion.window =
                self.reduction.window(segment, self.in_flight, threshold, segment, false);
        }
        if self.is_due(Deadline::Probe, io) {
            self.probe_end_of_data(shared, io);
        }
        if self.is_due(Deadline::Retransmit, io) {
            let next = self.retransmit(shared, io);
            if next != Next::Keep {
                return next;
            }
        }
        if self.is_due(Deadline::Gap, io) {
            self.drop_early(Reason::RxTcpGap, shared, io.pool);
        }
        if self.is_due(Deadline::Progress, io) {
            let next = self.check_progress(shared, io);
            if next != Next::Keep {
                return next;
            }
        }
        match self.is_due(Deadline::Idle, io) {
            true => self.idle(shared, io),
            false => Next::Keep,
        }
    }

    /// Whether a deadline has passed, which is no longer set then.
    fn is_due(&mut self, deadline: Deadline, io: &Io) -> bool {
        let is_due = self.deadlines[deadline as usize] <= io.now_ns;
        if is_due {
            self.set(deadline, NEVER);
        }
        is_due
    }

    /// The retransmission timer expired: nobody answered, or the window stays closed.
    fn retransmit(&mut self, shared: &mut StackShared, io: &mut Io) -> Next {
        let is_opening = !self.state.is_synchronized();
        let opening = self.syn_retries.unwrap_or(shared.options.syn_retries);
        let limit = if is_opening { opening } else { shared.options.retries };
        if self.is_over_user_timeout(io.now_ns) {
            shared.counters.timed_out += 1;
            return Next::End(End::TimedOut);
        }
        if self.nxt == self.una {
            return self.ask_about_window(shared, io);
        }
        // A window that shrank over what is on its way is asked about as a closed one is, for
        // as long as somebody answers (RFC 9293, section 3.8.6).
        let is_asking = self.send_window == 0 && !is_opening && !self.is_silent(io);
        // RFC 5482: the application's user timeout counts in place of the stack's.
        let has_own = self.user_timeout_ns > 0 && !is_opening;
        if self.attempts >= limit && !is_asking && !has_own {
            shared.counters.timed_out += 1;
            return Next::End(End::TimedOut);
        }
        self.attempts = self.attempts.saturating_add(1);
        self.rtt.doublings = self.rtt.doublings.saturating_add(1);
        shared.counters.timeouts += 1;
        self.is.is_syn_resent |= is_opening;
        if self.recovery != Recovery::Timeout || self.attempts == 1 {
            self.congestion.reduce(self.nxt.since(self.una), self.payload_size());
        }
        self.suspect_path(shared, io.now_ns);
        self.congestion.collapse(self.payload_size());
        self.hystart = Hystart::new(self.nxt);
        self.recovery = Recovery::Timeout;
        self.is.is_reducing = false;
        (self.recover, self.probe_end, self.duplicates) = (self.nxt, None, 0);
        self.lose_all(shared);
        // RFC 8985, section 6.3: a receiver may have let go of what it had told of (RFC 2018,
        // section 8).
        self.forget_blocks(shared);
        for deadline in [Deadline::Probe, Deadline::Reorder] {
            self.set(deadline, NEVER);
        }
        self.set(Deadline::Retransmit, io.now_ns + self.rtt.timeout_ns());
        self.bound_by_user_timeout();
        Next::Keep
    }

    /// Whether nothing was heard of the other side though it was asked at least twice.
    fn is_silent(&self, io: &Io) -> bool {
        io.now_ns - self.heard_ns > 2 * MAX_RTO_NS
    }

    /// Takes all for lost of which the other side told that it had come, when it would have
    /// to acknowledge the first of it: it has let go of it (RFC 2018, section 8).
    fn forget_blocks(&mut self, shared: &mut StackShared) {
        let mut at = self.queue.head;
        if shared.nodes.get(at).is_none_or(|node| node.sent != Sent::Sacked) {
            return;
        }
        while let Some(node) = shared.nodes.get_mut(at).filter(|node| node.sent != Sent::Not) {
            at = node.next;
            if node.sent == Sent::Sacked {
                node.sent = Sent::Lost;
                self.sacked -= node.len();
                self.lost += node.len();
            }
        }
    }

    /// Has a timer ask about a window into which nothing fits, when no acknowledgement is
    /// under way that could open it (RFC 9293, section 3.8.6.1). What is only held here goes out
    /// by that timer, and the other side is not waited for.
    pub fn await_window(&mut self, shared: &StackShared, now_ns: i64) {
        let is_blocked = self.unsent != NONE && self.nxt == self.una && self.state.is_synchronized();
        if is_blocked && self.deadlines[Deadline::Retransmit as usize] == NEVER {
            if !self.is_held_alone(shared) {
                self.waits_since_ns = self.waits_since_ns.min(now_ns);
            }
            self.set(Deadline::Retransmit, now_ns + self.rtt.timeout_ns());
            self.bound_by_user_timeout();
        }
    }

    /// Whether nothing but this side itself keeps the first node from going out that was not sent.
    fn is_held_alone(&self, shared: &StackShared) -> bool {
        shared.nodes.get(self.unsent).is_some_and(|node| node.len() <= self.room() && self.is_held(node))
    }

    /// Has the other side tell its window. A segment in front of the window does so without
    /// data that it would not take; RFC 9293, section 3.8.6.1, has a byte of new data there.
    fn ask_about_window(&mut self, shared: &mut StackShared, io: &mut Io) -> Next {
        if self.unsent == NONE {
            return Next::Keep;
        }
        if self.is_held_alone(shared) {
            self.is.may_cut = true;
            return Next::Keep;
        }
        if self.attempts >= shared.options.retries && self.is_silent(io) {
            shared.counters.timed_out += 1;
            return Next::End(End::TimedOut);
        }
        self.attempts = self.attempts.saturating_add(1);
        self.rtt.doublings = self.rtt.doublings.saturating_add(1);
        self.is.may_cut = true;
        if self.send_window == 0 {
            shared.counters.window_probes += 1;
            self.send_bare(self.una.plus(u32::MAX), shared, io);
        }
        self.set(Deadline::Retransmit, io.now_ns + self.rtt.timeout_ns());
        self.bound_by_user_timeout();
        Next::Keep
    }

    /// Sends new data, or else the last segment once more, so that its acknowledgement tells
    /// of a loss before the timer does (RFC 8985, section 7.3).
    fn probe_end_of_data(&mut self, shared: &mut StackShared, io: &mut Io) {
        if self.in_flight == 0 || self.recovery != Recovery::Open {
            return;
        }
        shared.counters.probes += 1;
        let edge = self.una.plus(self.send_window);
        let new = shared.nodes.get(self.unsent).filter(|node| {
            !node.end().is_after(edge) && node.len() <= self.payload_size() && !node.is_control
        });
        if let Some((len, next)) = new.map(|node| (node.len(), node.next)) {
            if self.transmit(self.unsent, shared, io) {
                self.advance(len, next, io.now_ns);
                self.is.is_probe_resent = false;
                self.probe_end = Some(self.nxt);
            }
        } else if let Some(last) = self.last_sent(shared)
            && let Some(node) = shared.nodes.get_mut(last)
        {
            node.is_resent = true;
            if self.transmit(last, shared, io) {
                shared.counters.segments_resent += 1;
                self.resent = self.resent.saturating_add(1);
                self.is.is_probe_resent = true;
                self.probe_end = Some(self.nxt);
            }
        }
        // One probe until its answer, or a timeout.
        self.set(Deadline::Probe, NEVER);
        self.set(Deadline::Retransmit, io.now_ns + self.rtt.timeout_ns());
        self.bound_by_user_timeout();
    }

    /// The last node that was sent, if it is on its way.
    fn last_sent(&self, shared: &StackShared) -> Option<u32> {
        let sent = shared.nodes.iter(self.queue).take_while(|(_, node)| node.sent != Sent::Not);
        sent.last().filter(|(_, node)| node.sent == Sent::InFlight).map(|(at, _)| at)
    }

    /// Nothing came for long, or a state has lasted long enough.
    fn idle(&mut self, shared: &mut StackShared, io: &mut Io) -> Next {
        if self.state == State::TimeWait {
            return Next::Forget;
        }
        if self.state == State::FinWait2 && self.is.is_released {
            return Next::End(End::TimedOut);
        }
        let Some(keep_alive) = self.keep_alive else { return Next::Keep };
        let silent_ns = io.now_ns - self.heard_ns;
        // What is on its way, or waits for the window, has timers that end the connection.
        if self.nxt != self.una || self.unsent != NONE {
            self.set(Deadline::Idle, io.now_ns.saturating_add(keep_alive.idle_ns));
            return Next::Keep;
        }
        if silent_ns < keep_alive.idle_ns {
            self.set(Deadline::Idle, self.heard_ns.saturating_add(keep_alive.idle_ns));
            return Next::Keep;
        }
        if self.asked.1 != self.heard_ns {
            self.asked = (0, self.heard_ns);
        }
        // As in Linux: the application's user timeout counts in place of the number of probes.
        let is_enough = match self.user_timeout_ns {
            0 => self.asked.0 >= u32::from(keep_alive.probes),
            user_timeout_ns => self.asked.0 > 0 && silent_ns >= user_timeout_ns,
        };
        if is_enough {
            shared.counters.timed_out += 1;
            self.send_reset(shared, io);
            return Next::End(End::TimedOut);
        }
        self.asked.0 = self.asked.0.saturating_add(1);
        self.send_bare(self.una.plus(u32::MAX), shared, io);
        self.set(Deadline::Idle, io.now_ns + keep_alive.interval_ns);
        Next::Keep
    }
}
