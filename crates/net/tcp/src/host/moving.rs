//! A host's part when connections move between cores: it takes what other cores tell it, hands
//! connections over, passes segments on, and has segments wait until those before them have come.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use memory::Pool;
use port::{Counter, FlowTable, Reason};
use runtime::Wakeup;

use super::Host;
use crate::ahead::Arrival;
use crate::connection::Io;
use crate::elsewhere::Elsewhere;
use crate::event::Kept;
use crate::groups::HostShared;
use crate::icmp::TooBig;
use crate::mailbox::{Mail, Mailbox, SEGMENTS, WHOLE};
use crate::moved::Moved;

/// Places of connections that are looked at in a turn.
const EACH_TURN: u32 = 256;

/// A core of [`Groups`](crate::Groups), for the host on it.
pub struct Core {
    index: u16,
    shared: Arc<HostShared>,
    /// What the stack is to know of it.
    elsewhere: Option<Box<Elsewhere>>,
    /// The place of the connection that is looked at next, while groups are given away.
    giving: Option<u32>,
    /// Who got groups the last time.
    receivers: Vec<u16>,
    /// The port leads those elsewhere, of which the receivers are not told yet: how many packets
    /// the ring may still hold of them.
    draining: Option<usize>,
    /// Packets that the ring holds at most.
    ring: usize,
    /// Groups of which segments may still come by a core that gave them, and that: there are two
    /// when the port did not lead the group to the last one.
    awaited: BTreeSet<(u16, u16)>,
    /// Segments of such groups that came by the own ring.
    waiting: Vec<Arrival>,
    mail: VecDeque<Mail>,
    passed_on: u64,
    refused: u64,
    lost: u64,
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core").field("index", &self.index).finish_non_exhaustive()
    }
}

impl Core {
    pub(crate) fn new(index: u16, shared: Arc<HostShared>, table: FlowTable, ring: usize) -> Core {
        Core {
            index,
            shared,
            elsewhere: Some(Box::new(Elsewhere::new(index, table))),
            giving: None,
            receivers: Vec::new(),
            draining: None,
            ring,
            awaited: BTreeSet::new(),
            waiting: Vec::new(),
            mail: VecDeque::new(),
            passed_on: 0,
            refused: 0,
            lost: 0,
        }
    }

    fn mailbox(&self) -> &Mailbox {
        &self.shared.mailboxes[usize::from(self.index)]
    }

    /// Whether others told it something that it has not done.
    fn has_mail(&self) -> bool {
        self.mailbox().is_filled() || !self.mail.is_empty()
    }

    /// What ends the sleep of the host's thread.
    pub(super) fn wakeup(&self) -> Arc<Wakeup> {
        self.mailbox().wakeup()
    }

    /// Whether segments may have to wait for others.
    #[inline]
    pub(super) fn awaits(&self) -> bool {
        !self.awaited.is_empty()
    }

    /// Whether there is something to do at once.
    pub(super) fn is_busy(&self) -> bool {
        self.has_mail() || self.giving.is_some() || self.draining.is_some()
    }

    /// Buffers that may be kept beside those of the stack: here, by another core's mailbox, or by
    /// that core when it has taken them out and had no room for replies. Where connections stay,
    /// only segments that came in fragments are passed on.
    pub(super) fn buffers(&self, moves: bool) -> usize {
        match moves {
            true => 3 * SEGMENTS,
            // All fragments of one sender come here, and each other mailbox takes some of them.
            false => (self.shared.mailboxes.len() + 1) * WHOLE,
        }
    }

    /// What was counted, of which only the first is a loss.
    pub(super) fn counters(&self) -> [Counter; 3] {
        [
            Counter::of_loss(Reason::RxTcpMailbox, self.lost),
            Counter::of(
                "tcp_passed_on",
                self.passed_on,
                "segments came to another core than their connection's, and were passed on",
            ),
            Counter::of(
                "tcp_move_refused",
                self.refused,
                "connections were reset because the core that they moved to had no room for them",
            ),
        ]
    }

    /// Which core has which flow group: the stack knows it where connections move.
    fn table<'a>(&'a self, stack: &'a crate::Stack) -> Option<&'a Elsewhere> {
        stack.elsewhere.as_deref().or(self.elsewhere.as_deref())
    }

    /// Tells another core something.
    fn tell(&self, core: u16, mail: Mail) {
        self.shared.mailboxes[usize::from(core)].put(mail);
    }

    /// A core has nothing left of the groups that it gave; segments that waited for it alone.
    fn release(&mut self, from: u16, elsewhere: &Elsewhere) -> Vec<Arrival> {
        self.awaited.retain(|(_, giver)| *giver != from);
        let waiting = std::mem::take(&mut self.waiting);
        let (still, released) =
            waiting.into_iter().partition(|arrival| is_awaited(&self.awaited, elsewhere, arrival));
        self.waiting = still;
        released
    }

    /// Counts what the ring gave; whether nothing is left in it of the groups given away. Of a
    /// ring that is never empty, as under a flood, all has come that was in it when it gave as
    /// many packets as it holds.
    fn is_drained(&mut self, received: usize) -> bool {
        let Some(left) = self.draining else { return false };
        self.draining = left.checked_sub(received).filter(|left| received > 0 && *left > 0);
        self.draining.is_none()
    }

    /// Has done what it was told.
    fn done(&self) {
        // Who was late the last time is not counted: zero stays zero.
        let less = |busy: usize| busy.checked_sub(1);
        let _ = self.shared.busy.fetch_update(Ordering::AcqRel, Ordering::Acquire, less);
    }

    /// Gives groups to other cores: who gets them knows first.
    fn begin_giving(&mut self, given: &[(u16, u16)], owners: &mut [u16]) {
        self.receivers = given.iter().map(|(_, to)| *to).collect();
        self.receivers.sort_unstable();
        self.receivers.dedup();
        for to in &self.receivers {
            let to_it = given.iter().filter(|(_, receiver)| receiver == to);
            self.tell(*to, Mail::Take(to_it.map(|(group, _)| *group).collect(), self.index));
        }
        given.iter().for_each(|(group, to)| owners[usize::from(*group)] = *to);
        self.giving = Some(0);
    }
}

/// Whether segments of an arrival's group may still come by another core.
fn is_awaited(awaited: &BTreeSet<(u16, u16)>, elsewhere: &Elsewhere, arrival: &Arrival) -> bool {
    arrival.key().is_some_and(|key| {
        let group = elsewhere.group(&key);
        awaited.range((group, 0)..=(group, u16::MAX)).next().is_some()
    })
}

impl Drop for Core {
    fn drop(&mut self) {
        self.mailbox().close();
    }
}

impl Host {
    /// Lets its connections move between this core and others; false when those of its
    /// application cannot ([`Service::can_move`](crate::Service::can_move)), or it has a wake-up.
    /// Then they stay, as with [`tell_others`](Host::tell_others).
    pub fn share(&mut self, core: Core) -> bool {
        // The thread is woken by the mailbox from now on, and by nothing else.
        let can = self.service.can_move() && self.service.wakeup().is_none();
        match can {
            true => self.pass_on(core),
            false => self.tell_others(core),
        }
        can
    }

    /// Has it pass segments of other cores' flow groups on, as on a port that does not
    /// [keep flows](port::Port::keeps_flows), and take those that others pass on.
    pub fn pass_on(&mut self, mut core: Core) {
        self.stack.elsewhere = core.elsewhere.take();
        self.tell_others(core);
    }

    /// Has it tell other cores what routers say of connections that are theirs, give them segments
    /// that came in fragments, and hear of its own. Its thread is woken for that, unless its
    /// application has a wake-up: then it hears of it in its next turn.
    pub fn tell_others(&mut self, core: Core) {
        self.core = Some(Box::new(core));
    }

    /// Says that hosts on other queues have the same addresses, and that it is not known which flows
    /// come to which: there is no [`Core`] for it. A segment that came in fragments, which the
    /// port leads by their addresses alone, is dropped when its connection is not here.
    pub fn stand_beside_others(&mut self) {
        self.has_others = true;
    }

    /// Whether its connections move.
    pub(super) fn moves(&self) -> bool {
        self.stack.elsewhere.is_some()
    }

    /// Takes what a router told of a segment that was too long. The port leads it by the router's
    /// address, so that the connection may be another core's, which is told.
    pub(super) fn take_too_big(&mut self, told: TooBig, now_ns: i64, pool: &mut Pool) {
        let is_here = self.stack.find(&told.key).is_some();
        let core = self.core.as_ref().filter(|_| !is_here);
        let is_passed_on = core.is_some_and(|core| {
            let owner = core.table(&self.stack).and_then(|table| table.owner(&told.key));
            let mailbox = owner.and_then(|owner| core.shared.mailboxes.get(usize::from(owner)));
            mailbox.is_some_and(|mailbox| mailbox.put_too_big(told))
        });
        if !is_passed_on {
            let mut io = Io { now_ns, pool, out: &mut self.segments };
            let is_news = self.stack.too_big(&told.key, told.sequence, told.mtu, &mut io);
            self.lost.errors += u64::from(!is_news);
        }
    }

    /// Passes a segment that came in fragments on to the core that has its connection, if that is
    /// another one: the port leads fragments by their addresses alone, also where it keeps flows.
    pub(super) fn pass_whole_on(&mut self, arrival: Arrival, pool: &mut Pool) -> Option<Arrival> {
        if self.moves() {
            return Some(arrival); // the stack does it
        }
        let here = |key: &crate::Key| self.stack.find(key).is_some();
        let Some(key) = arrival.key().filter(|key| !here(key)) else { return Some(arrival) };
        let Some(core) = self.core.as_mut() else {
            if !self.has_others {
                return Some(arrival);
            }
            // A reset from here would end a sound connection of another core.
            self.long.fragments.lose_whole(Reason::RxIpFragmentCore);
            arrival.free(pool);
            return None;
        };
        let Some(owner) = core.table(&self.stack).and_then(|table| table.owner(&key)) else {
            return Some(arrival);
        };
        match core.shared.mailboxes[usize::from(owner)].put_segment(arrival, WHOLE) {
            None => core.passed_on += 1,
            Some(arrival) => {
                core.lost += 1;
                arrival.free(pool);
            }
        }
        None
    }

    /// Takes what other cores told, in order, as long as there is room for the reset of a
    /// connection that finds none.
    pub(super) fn take_mail(&mut self, now_ns: i64, pool: &mut Pool) {
        if !self.core.as_ref().is_some_and(|core| core.has_mail()) {
            return;
        }
        let Some(mut core) = self.core.take() else { return };
        let mut mail = std::mem::take(&mut core.mail);
        if mail.is_empty() {
            core.mailbox().take(&mut mail);
        }
        let mut io = Io { now_ns, pool, out: &mut self.segments };
        while let Some(next) = mail.pop_front() {
            match next {
                Mail::Connection(..) if io.out.room() == 0 => {
                    mail.push_front(next);
                    break;
                }
                Mail::Segment(arrival) => {
                    let arrival = arrival.moved_to(io.pool);
                    self.stack.receive_arrival(arrival, &mut io);
                }
                Mail::TooBig(told) => {
                    let is_news = self.stack.too_big(&told.key, told.sequence, told.mtu, &mut io);
                    self.lost.errors += u64::from(!is_news);
                }
                Mail::Connection(moved, kept) => {
                    core.refused +=
                        u64::from(!put(moved, kept, &mut self.stack, &mut *self.service, &mut io));
                }
                Mail::Take(groups, from) => {
                    // The other core may have sent some to those who connect.
                    self.stack.expect_cookies(now_ns);
                    for group in groups {
                        self.stack.own(group);
                        core.awaited.insert((group, from));
                    }
                }
                Mail::Give(given) => {
                    if let Some(elsewhere) = &mut self.stack.elsewhere {
                        core.begin_giving(&given, &mut elsewhere.owners);
                    }
                }
                Mail::Led => core.draining = Some(core.ring),
                Mail::Drained(from) => {
                    let released = self.stack.elsewhere.as_ref().map(|it| core.release(from, it));
                    self.arrivals.extend(released.into_iter().flatten());
                    self.stack.receive_batch(&mut self.arrivals, &mut io);
                }
            }
        }
        core.mail = mail;
        self.core = Some(core);
    }

    /// Has segments of the batch wait whose group may have others on their way by its old core.
    #[cold]
    pub(super) fn hold_back(&mut self) {
        let (Some(core), Some(elsewhere)) = (&mut self.core, &self.stack.elsewhere) else { return };
        let (waiting, awaited) = (&mut core.waiting, &core.awaited);
        for arrival in std::mem::take(&mut self.arrivals) {
            // Beyond the limit they may overtake others, and are not lost.
            match waiting.len() < SEGMENTS && is_awaited(awaited, elsewhere, &arrival) {
                true => waiting.push(arrival),
                false => self.arrivals.push(arrival),
            }
        }
    }

    /// Passes segments of other cores on, and hands connections over, after a turn in which
    /// the ring gave so many packets.
    pub(super) fn serve_cores(&mut self, received: usize, pool: &mut Pool) {
        let (Some(core), Some(elsewhere)) = (&mut self.core, &mut self.stack.elsewhere) else { return };
        for (owner, arrival) in elsewhere.strays.drain(..) {
            match core.shared.mailboxes[usize::from(owner)].put_segment(arrival, SEGMENTS) {
                None => core.passed_on += 1,
                Some(arrival) => {
                    core.lost += 1;
                    arrival.free(pool);
                }
            }
        }
        if let Some(place) = core.giving {
            self.give(place);
        } else if core.is_drained(received) {
            core.receivers.iter().for_each(|to| core.tell(*to, Mail::Drained(core.index)));
            core.done();
        }
    }

    /// Hands some connections over, from a place on.
    #[cold]
    fn give(&mut self, place: u32) {
        let Some(core) = &mut self.core else { return };
        let end = self.stack.places() as u32;
        let stop = end.min(place + EACH_TURN);
        for index in place..stop {
            let Some((id, to)) = self.stack.leaving(index) else { continue };
            let Some(moved) = self.stack.take(id) else {
                // The application has not seen all events of it.
                core.giving = Some(index);
                return;
            };
            core.tell(to, Mail::Connection(moved, self.service.give(id)));
        }
        core.giving = (stop < end).then_some(stop);
        if core.giving.is_none() {
            core.done();
        }
    }
}

/// Puts a connection of another core into the stack; whether there was room for it.
fn put(
    moved: Moved,
    kept: Option<Kept>,
    stack: &mut crate::Stack,
    service: &mut dyn crate::Service,
    io: &mut Io,
) -> bool {
    let id = stack.put(moved, io).map_err(|moved| stack.refuse(moved, io)).ok();
    if let Some(kept) = kept {
        service.take(id, kept, stack, io);
    }
    id.is_some()
}
