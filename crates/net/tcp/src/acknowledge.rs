//! What acknowledgements say: which bytes have arrived (RFC 2018), which are lost (RACK-TLP,
//! RFC 8985, and duplicates where there are no selective acknowledgements, RFC 5681 and 6582),
//! and how much may be sent because of it.

use crate::congestion::RateReduction;
use crate::connection::{Connection, Deadline, Io, NEVER, Recovery, StackShared};
use crate::event::Event;
use crate::queue::{NONE, Node, Sent};
use crate::search::Search;
use crate::segment::{Blocks, Segment};
use crate::sequence::{Sequence, is_earlier};

/// Duplicates that tell of a loss (RFC 5681, section 3.2).
const DUPLICATES: u8 = 3;
/// Recoveries for which a wider tolerance lasts (RFC 8985, section 6.2).
const PERSIST: u8 = 16;

/// What an acknowledgement said.
#[derive(Debug, Default)]
pub struct Told {
    /// Bytes that are known to have arrived since.
    pub delivered: u32,
    /// Bytes of them that are acknowledged, SYN and FIN left out.
    pub acknowledged: u32,
    /// Whether the first number that is not acknowledged is another.
    pub is_advance: bool,
    /// The round trip of what was sent last.
    pub rtt_ns: Option<i64>,
    /// Whether something came twice there (RFC 2883).
    pub is_duplicate: bool,
    /// Whether anything in it was news to RACK.
    pub is_news: bool,
    /// Whether something arrived behind what was sent later.
    pub is_reordered: bool,
}

impl Connection {
    /// Takes what an acceptable segment acknowledges.
    pub fn acknowledge(&mut self, index: u32, segment: &Segment, shared: &mut StackShared, io: &mut Io) {
        let flight = self.nxt.since(self.una);
        let was_full = self.is_limited_by_congestion();
        let was_closed = self.send_window == 0;
        let has_window_changed = self.take_window(segment);
        if self.nxt == self.una {
            self.attempts = 0; // somebody answers, though the window may be closed
            if has_window_changed {
                self.rtt.doublings = 0;
                self.set(Deadline::Retransmit, NEVER);
                self.waits_since_ns = NEVER;
            }
        }
        if was_closed && has_window_changed && self.nxt != self.una {
            // It opens over what is on its way, which may go out again soon.
            (self.attempts, self.rtt.doublings) = (0, 0);
            self.restart_retransmission(io.now_ns);
        }
        self.is.waits_for_more = false;
        let mut told = Told::default();
        self.take_cumulative(segment, &mut told, shared, io);
        if self.is.has_sack && !segment.sack.as_slice().is_empty() {
            self.take_blocks(segment, &mut told, shared, io.now_ns);
        }
        if self.is.search == Search::Probes {
            self.look_for_path_probe(shared, io.now_ns);
        }
        self.take_round_trip(&told, shared, io.now_ns);
        if told.is_advance {
            // Each duplicate told of a segment that had arrived.
            let told_before = u32::from(self.duplicates) * self.payload_size();
            told.delivered = told.delivered.saturating_sub(if self.is.has_sack { 0 } else { told_before });
            self.count_acknowledged(index, &told, shared);
        }
        let is_probe_lost = self.end_probe(segment, &told);
        self.widen_tolerance(segment, &told);
        // What tells nothing new does not put off what is looked at later.
        let is_looked_at = told.is_news || self.recovery != Recovery::Open;
        let mut is_lost = is_looked_at && self.find_lost(shared, io.now_ns);
        if self.in_flight == 0 {
            self.set(Deadline::Reorder, NEVER);
        }
        if !self.is.has_sack {
            is_lost |= self.count_duplicate(segment, &mut told, has_window_changed, shared);
        }
        self.take_echo(segment, flight);
        self.set_congestion(&told, was_full, is_lost, is_probe_lost, shared, io.now_ns);
        if told.is_advance {
            self.waits_since_ns = if self.nxt == self.una { NEVER } else { io.now_ns };
            self.restart_retransmission(io.now_ns);
        }
        if told.is_advance || told.delivered > 0 {
            self.arm_probe(io.now_ns);
        }
    }

    /// Takes the round trip that an acknowledgement told.
    #[inline]
    pub fn take_round_trip(&mut self, told: &Told, shared: &StackShared, now_ns: i64) {
        if let Some(rtt_ns) = told.rtt_ns {
            self.rtt.measure(rtt_ns, shared.options.min_rto_ns);
            if self.state.is_synchronized() {
                self.look_for_full_path(rtt_ns, now_ns);
            }
        }
        if told.is_reordered {
            self.rack.reorderings = self.rack.reorderings.wrapping_add(1);
        }
    }

    /// Somebody answers: counts what was acknowledged, and tells the application.
    #[inline]
    pub fn count_acknowledged(&mut self, index: u32, told: &Told, shared: &mut StackShared) {
        (self.attempts, self.duplicates) = (0, 0);
        self.rtt.doublings = 0;
        if told.acknowledged > 0 {
            shared.counters.bytes_acknowledged += u64::from(told.acknowledged);
            self.bytes_acknowledged += u64::from(told.acknowledged);
            let (connection, bytes) = (self.id(index), told.acknowledged);
            shared.events.push(Event::Sent { connection, bytes });
        }
    }

    /// RFC 9293, section 3.10.7.4: the window of the latest segment counts.
    #[inline]
    pub fn take_window(&mut self, segment: &Segment) -> bool {
        let (sequence, acknowledgement) = self.window_update;
        let is_newer = sequence.is_before(segment.sequence)
            || sequence == segment.sequence && !segment.acknowledgement.is_before(acknowledgement);
        let before = self.send_window;
        if is_newer {
            self.set_window(segment);
        }
        before != self.send_window
    }

    /// Takes what is acknowledged off the queue.
    fn take_cumulative(&mut self, segment: &Segment, told: &mut Told, shared: &mut StackShared, io: &mut Io) {
        let ack = segment.acknowledgement;
        if !ack.is_after(self.una) {
            return;
        }
        told.is_advance = true;
        self.una = ack;
        self.drag_marks();
        while self.take_first(segment, told, shared, io) {}
    }

    /// Takes the first node off the queue if it is acknowledged, or as much of it as is; whether
    /// the next one may be as well.
    #[inline(never)]
    pub fn take_first(
        &mut self,
        segment: &Segment,
        told: &mut Told,
        shared: &mut StackShared,
        io: &mut Io,
    ) -> bool {
        let ack = segment.acknowledgement;
        let Some(node) = shared.nodes.get_mut(self.queue.head) else { return false };
        if !node.sequence.is_before(ack) || node.sent == Sent::Not {
            return false;
        }
        let len = node.len().min(ack.since(node.sequence));
        let is_whole = !node.end().is_after(ack);
        told.acknowledged += len.min(node.payload_len());
        self.delivered = self.delivered.wrapping_add(u32::from(is_whole && node.sent != Sent::Sacked));
        match node.sent {
            Sent::InFlight => self.in_flight -= len,
            Sent::Lost => self.lost -= len,
            Sent::Sacked => self.sacked -= len,
            Sent::Not => {}
        }
        if node.sent != Sent::Sacked {
            told.delivered += len;
            let (sent_ns, is_resent) = (node.sent_ns, node.is_resent);
            let (start, end) = (node.sequence, node.end());
            self.measure(segment, told, sent_ns, (start, end.min(ack)), is_resent, io.now_ns);
        }
        if is_whole {
            if let Some(Some(packet)) = shared.nodes.pop_front(&mut self.queue) {
                io.pool.free_segment(packet);
            }
        } else if let Some(node) = shared.nodes.get_mut(self.queue.head) {
            node.sequence = ack;
            let _ = node.change(|packet| packet.pull_front(len as usize));
        }
        is_whole && self.queue.head != NONE
    }

    /// Brings marks along that lie behind what is acknowledged: numbers compare within 2 GiB
    /// only.
    #[inline]
    pub fn drag_marks(&mut self) {
        self.recover = self.recover.max(self.una.plus(1_u32.wrapping_neg()));
        if !self.is.is_reducing {
            self.ecn_recover = self.ecn_recover.max(self.una);
        }
        self.small_end = self.small_end.max(self.una);
    }

    /// Marks what selective acknowledgements tell of, in one walk: strangers choose how many
    /// blocks there are and how far each reaches.
    fn take_blocks(&mut self, segment: &Segment, told: &mut Told, shared: &mut StackShared, now_ns: i64) {
        let blocks = self.blocks_to_mark(segment, told);
        let ends = blocks.as_slice().iter().map(|(_, end)| *end);
        let Some(last) = ends.reduce(Sequence::max) else { return };
        let mut at = self.queue.head;
        while let Some(node) = shared.nodes.get_mut(at) {
            if node.sent == Sent::Not || !node.sequence.is_before(last) {
                break;
            }
            at = node.next;
            let is_within = |&(start, end): &(Sequence, Sequence)| {
                !node.sequence.is_before(start) && !node.end().is_after(end)
            };
            if node.sent == Sent::Sacked || !blocks.as_slice().iter().any(is_within) {
                continue;
            }
            let len = node.len();
            match node.sent {
                Sent::Lost => self.lost -= len,
                _ => self.in_flight -= len,
            }
            node.sent = Sent::Sacked;
            self.sacked += len;
            self.delivered = self.delivered.wrapping_add(1);
            told.delivered += len;
            let (sent_ns, is_resent) = (node.sent_ns, node.is_resent);
            let (start, end) = (node.sequence, node.end());
            self.measure(segment, told, sent_ns, (start, end), is_resent, now_ns);
        }
    }

    /// The blocks of a segment that tell of what was sent and is not acknowledged.
    fn blocks_to_mark(&self, segment: &Segment, told: &mut Told) -> Blocks {
        let mut kept = Blocks::default();
        let blocks = segment.sack.as_slice();
        for (n, &(start, end)) in blocks.iter().enumerate() {
            if !start.is_before(end) || end.is_after(self.nxt) {
                continue; // not a block, or of what was never sent
            }
            let is_within = |&(outer, outer_end): &(Sequence, Sequence)| {
                !start.is_before(outer) && !end.is_after(outer_end)
            };
            // RFC 2883, section 4: the first block, below the acknowledgement or in the second.
            let is_repeated = blocks.get(1).is_some_and(is_within);
            if n == 0 && (!end.is_after(segment.acknowledgement) || is_repeated) {
                told.is_duplicate = true;
            } else if end.is_after(self.una) {
                kept.push(start, end);
            }
        }
        kept
    }

    /// A segment has arrived: RACK's steps 1 to 3 (RFC 8985, section 6.2), and a round trip
    /// by Karn's rule, or by timestamps (RFC 6298, section 3).
    #[inline]
    pub fn measure(
        &mut self,
        segment: &Segment,
        told: &mut Told,
        sent_ns: i64,
        (start, end): (Sequence, Sequence),
        is_resent: bool,
        now_ns: i64,
    ) {
        let rtt_ns = now_ns - sent_ns;
        let mut is_measured = !is_resent;
        if is_resent {
            // What is acknowledged may be the first one, which was only late.
            let echo = segment.timestamps.filter(|_| self.is.has_timestamps).map(|(_, echo)| echo);
            let is_first = echo.is_some_and(|echo| is_earlier(echo, self.clock(sent_ns)));
            // The clock of the last one comes back (RFC 7323, section 4.1).
            is_measured = !is_first && echo.is_some_and(|echo| !is_earlier(self.clock(now_ns), echo));
            let has_least = self.rtt.smoothed_ns > 0 || !is_measured;
            if is_first || has_least && rtt_ns < self.rtt.least_ns {
                return;
            }
        }
        if is_measured {
            let least = told.rtt_ns.unwrap_or(i64::MAX);
            told.rtt_ns = Some(least.min(rtt_ns));
        }
        told.is_news = true;
        if is_sent_after((sent_ns, end), (self.rack.sent_ns, self.rack.end)) {
            (self.rack.sent_ns, self.rack.end, self.rack.rtt_ns) = (sent_ns, end, rtt_ns);
        }
        if end.is_after(self.rack.forward) {
            self.rack.forward = end;
        } else if end.is_before(self.rack.forward) && !is_resent {
            self.rack.is_reordering = true;
            told.is_reordered = true;
            let distance = self.rack.forward.since(start) / self.payload_size().max(1);
            self.rack.reordering = self.rack.reordering.max(distance.min(300) as u16);
        }
    }

    /// RACK's step 4 (RFC 8985, section 6.2): duplicates show that a segment was only late.
    fn widen_tolerance(&mut self, segment: &Segment, told: &Told) {
        if self.rack.duplicate_round.is_some_and(|round| !segment.acknowledgement.is_before(round)) {
            self.rack.duplicate_round = None;
        }
        if told.is_duplicate && self.rack.duplicate_round.is_none() {
            self.rack.duplicate_round = Some(self.nxt);
            self.rack.multiplier = self.rack.multiplier.saturating_add(1);
            self.rack.persist = PERSIST;
        }
    }

    /// How late a segment may be.
    fn tolerance_ns(&self) -> i64 {
        if !self.rack.is_reordering {
            let threshold = u32::from(DUPLICATES) * self.payload_size();
            if self.recovery != Recovery::Open || self.sacked >= threshold {
                return 0;
            }
        }
        let least_ns = if self.rtt.least_ns == i64::MAX { 0 } else { self.rtt.least_ns };
        (i64::from(self.rack.multiplier) * (least_ns / 4)).min(self.rtt.smoothed_ns)
    }

    /// RACK's step 5: what was sent well before something that has arrived is lost. Sets when
    /// to look again; whether anything new was found.
    pub fn find_lost(&mut self, shared: &mut StackShared, now_ns: i64) -> bool {
        self.set(Deadline::Reorder, NEVER);
        if !self.is.has_sack || self.in_flight == 0 {
            return false;
        }
        let timeout_ns = self.rack.rtt_ns + self.tolerance_ns();
        let newest = (self.rack.sent_ns, self.rack.end);
        let (mut is_any, mut wait_ns) = (false, 0);
        let mut at = self.queue.head;
        while let Some(node) = shared.nodes.get_mut(at) {
            // In the order of numbers: nothing behind the newest was sent before it, but for
            // what was sent again.
            if node.sent == Sent::Not {
                break;
            }
            at = node.next;
            if node.sent != Sent::InFlight || !is_sent_after(newest, (node.sent_ns, node.end())) {
                continue;
            }
            let left_ns = node.sent_ns + timeout_ns - now_ns;
            if left_ns <= 0 {
                lose(node, &mut self.in_flight, &mut self.lost);
                is_any = true;
            } else {
                wait_ns = wait_ns.max(left_ns);
            }
        }
        if wait_ns > 0 {
            self.set(Deadline::Reorder, now_ns + wait_ns);
        }
        is_any
    }

    /// Without selective acknowledgements three duplicates tell that the first segment is lost
    /// (RFC 5681, section 3.2), and an acknowledgement of a part during recovery that the next
    /// one is (RFC 6582, section 3.2).
    fn count_duplicate(
        &mut self,
        segment: &Segment,
        told: &mut Told,
        has_window_changed: bool,
        shared: &mut StackShared,
    ) -> bool {
        if told.is_advance {
            let is_part = self.recovery == Recovery::Fast && self.una.is_before(self.recover);
            return is_part && self.lose_first(shared);
        }
        let is_duplicate = segment.len() == 0 && !has_window_changed && self.in_flight > 0;
        if !is_duplicate || segment.acknowledgement != self.una {
            return false;
        }
        self.duplicates = self.duplicates.saturating_add(1);
        told.delivered += self.payload_size().min(self.in_flight);
        // RFC 6582, section 3.2, step 1: not for duplicates of what was sent again.
        let is_fresh = self.una.is_after(self.recover);
        let is_first = self.duplicates == DUPLICATES && self.recovery == Recovery::Open && is_fresh;
        is_first && self.lose_first(shared)
    }

    /// Takes the first segment for lost, if it is on its way.
    fn lose_first(&mut self, shared: &mut StackShared) -> bool {
        let node = shared.nodes.get_mut(self.queue.head).filter(|node| node.sent == Sent::InFlight);
        node.map(|node| lose(node, &mut self.in_flight, &mut self.lost)).is_some()
    }

    /// Takes all that is on its way for lost: a timer expired.
    pub fn lose_all(&mut self, shared: &mut StackShared) {
        let mut at = self.queue.head;
        while let Some(node) = shared.nodes.get_mut(at) {
            if node.sent == Sent::Not {
                break;
            }
            at = node.next;
            if node.sent == Sent::InFlight {
                lose(node, &mut self.in_flight, &mut self.lost);
            }
        }
    }

    /// Begins recovery from a loss that acknowledgements told of.
    #[cold]
    pub fn begin_recovery(&mut self, shared: &mut StackShared) {
        shared.counters.recoveries += 1;
        let flight = self.nxt.since(self.una);
        self.recovery = Recovery::Fast;
        self.recover = self.nxt;
        // Congestion that was met in the same window has reduced it (RFC 3168, section 6.1.2).
        if !std::mem::take(&mut self.is.is_reducing) {
            self.congestion.reduce(flight, self.payload_size());
            self.reduction = RateReduction::begin(flight);
        }
        self.set(Deadline::Probe, NEVER);
    }

    /// The congestion window after an acknowledgement.
    pub fn set_congestion(
        &mut self,
        told: &Told,
        was_full: bool,
        is_lost: bool,
        is_probe_lost: bool,
        shared: &mut StackShared,
        now_ns: i64,
    ) {
        let segment = self.payload_size();
        if self.recovery != Recovery::Open && told.is_advance && !self.una.is_before(self.recover) {
            if self.recovery == Recovery::Fast {
                self.congestion.window = self.congestion.threshold;
            }
            self.recovery = Recovery::Open;
            // RFC 8985, section 6.2, step 4.
            self.rack.persist = self.rack.persist.saturating_sub(1);
            if self.rack.persist == 0 {
                self.rack.multiplier = 1;
            }
        }
        if self.recovery == Recovery::Open
            && is_lost
            && !(self.is.search == Search::Probes && self.is_path_probe_lost(shared))
        {
            self.begin_recovery(shared);
        }
        match self.recovery {
            Recovery::Fast => {
                let is_safe = told.is_advance && !is_lost;
                let threshold = self.congestion.threshold;
                self.congestion.window =
                    self.reduction.window(told.delivered, self.in_flight, threshold, segment, is_safe);
            }
            // RFC 8985, section 7.4.2: the probe hid a loss.
            Recovery::Open if is_probe_lost => {
                self.congestion.reduce(self.nxt.since(self.una), segment);
                self.congestion.window = self.congestion.threshold;
            }
            Recovery::Open if self.is.is_reducing => self.go_on_reducing(told),
            // What was told before has counted when it was.
            Recovery::Open | Recovery::Timeout
                if told.acknowledged > 0 && (was_full || self.recovery == Recovery::Timeout) =>
            {
                self.congestion.grow(told.delivered, segment, self.rtt.smoothed_ns, now_ns);
            }
            _ => {}
        }
    }

    /// The retransmission timer after an acknowledgement (RFC 6298, section 5).
    #[inline]
    pub fn restart_retransmission(&mut self, now_ns: i64) {
        let is_any = self.nxt != self.una;
        self.set(Deadline::Retransmit, if is_any { now_ns + self.rtt.timeout_ns() } else { NEVER });
        self.bound_by_user_timeout();
    }

    /// Whether all that was to be sent, a FIN among it, has been acknowledged.
    pub fn is_all_acknowledged(&self) -> bool {
        self.is.is_finished && self.queue.head == NONE && self.una == self.end
    }
}

/// Whether a segment was sent behind another: by time, and by number where that is the same
/// (RFC 8985, section 6.2).
fn is_sent_after(a: (i64, Sequence), b: (i64, Sequence)) -> bool {
    a.0 > b.0 || a.0 == b.0 && a.1.is_after(b.1)
}

/// Takes a node for lost that was on its way.
fn lose(node: &mut Node, in_flight: &mut u32, lost: &mut u32) {
    node.sent = Sent::Lost;
    *in_flight -= node.len();
    *lost += node.len();
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::key::Key;
    use crate::options::Options;

    #[test]
    fn marks_stay_behind_however_much_is_sent() {
        let any = Ipv4Addr::LOCALHOST.into();
        let key = Key { local: any, remote: any, local_port: 1, remote_port: 2 };
        let mut connection = Connection::new(key, 0, Sequence(7), &Options::default());
        for _ in 0..9 {
            connection.una = connection.una.plus(1 << 30);
            connection.drag_marks();
            assert!(connection.una.is_after(connection.recover), "a loss counts as new");
            assert!(!connection.una.is_before(connection.ecn_recover), "congestion counts anew");
        }
        // A mark in front of what is acknowledged stays where it is.
        connection.recover = connection.una.plus(5);
        connection.drag_marks();
        assert_eq!(connection.recover, connection.una.plus(5));
    }
}
