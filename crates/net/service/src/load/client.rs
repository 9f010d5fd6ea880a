//! The client's side of a load: connections are opened, what must be there is stored, each
//! step runs for its time and is let run out, and the connections are closed.

mod phases;
mod renewal;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tcp::{Event, Id, Io, Service, Stack};

use super::Settings;
use super::random::Random;
use super::result::{LONGEST_NS, Live, Results, histogram};
use super::workload::{Came, Workload};

/// Connections that are being opened at a time.
const OPENING: usize = 256;
/// How long connections may take to open, answers to come at the end of a step, and
/// connections to close, in nanoseconds.
const LIMIT_NS: i64 = 5_000_000_000;
/// How often figures are told, in nanoseconds.
const TELL_NS: i64 = 1_000_000_000;
/// Requests that have arrived and wait for a connection, at most.
const MAX_WAITING: usize = 1 << 20;
/// How often it is looked whether others are ready for a step, in nanoseconds.
const POLL_INTERVAL_NS: i64 = 1_000_000;

/// What a load is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Connecting,
    Preparing,
    /// Others are not ready for the step of this number.
    Waiting(usize),
    /// The step of this number, until then.
    Running(usize, i64),
    /// Answers of that step may still come.
    Draining(usize),
    Closing,
    Over,
}

/// A request that was sent.
struct Sent<E> {
    /// When it was to be sent, in nanoseconds.
    since_ns: i64,
    /// It was counted as not answered at the end of its step: what comes for it now counts
    /// nowhere.
    is_given_up: bool,
    expected: E,
}

/// A connection of the load, and its requests that are not answered.
struct Connection<W: Workload> {
    id: Id,
    is_open: bool,
    /// It was asked for in a step, and nobody has answered yet.
    is_opening: bool,
    /// It was counted as connected or refused.
    is_settled: bool,
    /// Requests of steps that were sent on it.
    requests: u64,
    /// Whether it is listed among those that may have room for a request.
    is_listed: bool,
    /// What it waits for.
    expected: VecDeque<Sent<W::Expected>>,
    reader: W::Reader,
    /// Bytes of requests that found no room.
    unsent: Vec<u8>,
}

/// A load, as an application of a stack.
pub struct Load<W: Workload> {
    workload: W,
    settings: Settings,
    connections: Vec<Connection<W>>,
    /// The connections' numbers by their places in the stack.
    places: Vec<Option<usize>>,
    phase: Phase,
    /// When the phase began, and when it was called last.
    since_ns: i64,
    now_ns: i64,
    random: Random,
    /// When the next request arrives in an open loop.
    next_ns: f64,
    /// Arrivals that wait for a connection.
    waiting: VecDeque<i64>,
    /// Connections with room for what arrives in an open loop, in the order of their turns;
    /// each is there once.
    free: VecDeque<usize>,
    /// Connections that others are to take the places of, once there is room for their resets.
    to_renew: VecDeque<usize>,
    /// Connections with wrong answers, whose resets wait for room.
    to_reset: VecDeque<Id>,
    /// Connections that the stack did not even open.
    unopened: usize,
    /// Requests that are under way, and were not given up.
    under_way: usize,
    results: Results,
    /// Answers, misses among them, and latencies since figures were told.
    answers: u64,
    recent: hdrhistogram::Histogram<u64>,
    tell_ns: i64,
    /// The steps that it was ready for, and when it is looked again whether others are.
    ready: usize,
    poll_ns: i64,
    scratch: Vec<u8>,
    live: Arc<Live>,
    stop: Arc<AtomicBool>,
}

impl<W: Workload> Load<W> {
    /// A load that tells `live` what it sees, and sets `stop` at its end.
    pub fn new(workload: W, settings: Settings, live: &Arc<Live>, stop: &Arc<AtomicBool>) -> Load<W> {
        Load {
            workload,
            connections: Vec::new(),
            places: Vec::new(),
            phase: Phase::Connecting,
            since_ns: 0,
            now_ns: 0,
            random: Random(settings.seed),
            next_ns: 0.0,
            waiting: VecDeque::new(),
            free: VecDeque::new(),
            to_renew: VecDeque::new(),
            to_reset: VecDeque::new(),
            unopened: 0,
            under_way: 0,
            results: Results { max_misses: settings.max_misses, ..Results::default() },
            answers: 0,
            recent: histogram(),
            tell_ns: 0,
            ready: 0,
            poll_ns: 0,
            scratch: Vec::new(),
            live: live.clone(),
            stop: stop.clone(),
            settings,
        }
    }

    fn rate(&self) -> Option<f64> {
        match self.phase {
            Phase::Running(step, _) => self.settings.rates.get(step).copied().flatten(),
            _ => None,
        }
    }

    /// Connections that are open, or never will be.
    fn settled(&self) -> usize {
        (self.results.connected + self.results.refused) as usize
    }

    /// Opens as many connections as may be opened now.
    fn connect(&mut self, stack: &mut Stack, io: &mut Io) {
        let wanted = self.settings.connections - self.unopened;
        while self.connections.len() < wanted
            && self.connections.len().saturating_sub(self.settled()) < OPENING
        {
            let Some(id) = self.open(self.connections.len(), stack, io) else {
                self.unopened = self.settings.connections - self.connections.len();
                break;
            };
            self.connections.push(Connection {
                id,
                is_open: false,
                is_opening: false,
                is_settled: false,
                requests: 0,
                is_listed: false,
                expected: VecDeque::new(),
                reader: W::Reader::default(),
                unsent: Vec::new(),
            });
        }
    }

    /// Opens a connection of this number.
    fn open(&mut self, number: usize, stack: &mut Stack, io: &mut Io) -> Option<Id> {
        let Settings { local, remote, steering, .. } = &self.settings;
        let fits = |port| steering.as_ref().is_none_or(|it| it.fits((*local, port), *remote));
        let id = stack.connect_where(*local, *remote, fits, io).ok()?;
        if self.places.len() <= id.index() {
            self.places.resize(id.index() + 1, None);
        }
        self.places[id.index()] = Some(number);
        Some(id)
    }

    /// Whether requests can be sent, or soon.
    fn is_some_open(&self) -> bool {
        self.connections.iter().any(|connection| connection.is_open || connection.is_opening)
    }

    fn number(&self, id: Id) -> Option<usize> {
        let number = self.places.get(id.index()).copied().flatten()?;
        self.connections.get(number).filter(|connection| connection.id == id).map(|_| number)
    }

    /// Sends a request on a connection, of which it is said when it was to be sent.
    fn request(&mut self, number: usize, intended_ns: i64, stack: &mut Stack, io: &mut Io) -> bool {
        self.scratch.clear();
        let expected = match self.phase {
            Phase::Preparing => self.workload.prepare(&mut self.scratch),
            _ => Some(self.workload.request(number, &mut self.random, &mut self.scratch)),
        };
        let (Some(expected), Some(connection)) = (expected, self.connections.get_mut(number)) else {
            return false;
        };
        connection.requests += u64::from(self.phase != Phase::Preparing);
        connection.expected.push_back(Sent { since_ns: intended_ns, is_given_up: false, expected });
        self.under_way += 1;
        let sent = match connection.unsent.is_empty() {
            true => stack.write(connection.id, &self.scratch, io).unwrap_or(self.scratch.len()),
            false => 0,
        };
        connection.unsent.extend_from_slice(&self.scratch[sent..]);
        true
    }

    /// Has a connection send as much as it may: in an open loop, what has arrived.
    fn fill(&mut self, number: usize, stack: &mut Stack, io: &mut Io) {
        let is_closed_loop = match self.phase {
            Phase::Preparing => true,
            Phase::Running(..) => self.rate().is_none(),
            Phase::Draining(_) => false,
            _ => return,
        };
        if !is_closed_loop {
            self.list(number);
            return self.deal_out(stack, io);
        }
        while self.has_room(number) && self.request(number, io.now_ns, stack, io) {}
    }

    /// Lists a connection among those with room, if it has some.
    fn list(&mut self, number: usize) {
        if self.has_room(number)
            && let Some(connection) = self.connections.get_mut(number)
            && !std::mem::replace(&mut connection.is_listed, true)
        {
            self.free.push_back(number);
        }
    }

    /// Gives what has arrived to connections with room, each in its turn. It is sent though
    /// the step may be over.
    fn deal_out(&mut self, stack: &mut Stack, io: &mut Io) {
        while !self.waiting.is_empty() {
            let Some(number) = self.free.pop_front() else { return };
            self.connections.get_mut(number).into_iter().for_each(|it| it.is_listed = false);
            if self.has_room(number)
                && let Some(intended_ns) = self.waiting.pop_front()
            {
                self.request(number, intended_ns, stack, io);
                self.list(number);
            }
        }
    }

    fn has_room(&self, number: usize) -> bool {
        let connection = self.connections.get(number);
        let may_send = |it: &Connection<W>| self.settings.messages.is_none_or(|most| it.requests < most);
        connection.is_some_and(|it| it.is_open && it.expected.len() < self.settings.depth && may_send(it))
    }

    /// Requests that have arrived by now in an open loop go to connections in turn.
    fn arrive(&mut self, stack: &mut Stack, io: &mut Io) {
        let (Some(rate), Phase::Running(step, until_ns)) = (self.rate(), self.phase) else { return };
        while self.next_ns <= io.now_ns.min(until_ns) as f64 {
            let intended_ns = self.next_ns as i64;
            self.next_ns += self.random.gap_ns(rate);
            self.waiting.push_back(intended_ns);
            self.deal_out(stack, io);
            if self.waiting.len() > MAX_WAITING {
                // It waits until the end of the step at least.
                self.waiting.pop_back();
                self.results.steps[step].leave(until_ns - intended_ns);
            }
        }
    }

    /// Takes bytes of answers; false when one was wrong.
    fn take(&mut self, number: usize, bytes: &[u8], now_ns: i64) -> bool {
        let step = match self.phase {
            Phase::Running(step, _) | Phase::Draining(step) => Some(step),
            _ => None,
        };
        let is_running = matches!(self.phase, Phase::Running(..));
        let mut rest = bytes;
        while !rest.is_empty() {
            let Some(connection) = self.connections.get_mut(number) else { return true };
            let Some(sent) = connection.expected.front() else { return false };
            let (used, came) = self.workload.answer(&mut connection.reader, &sent.expected, rest);
            rest = &rest[used..];
            let latency_ns = (now_ns - sent.since_ns).max(1) as u64;
            let is_given_up = sent.is_given_up;
            match came {
                Came::Part => return true,
                Came::Wrong => {
                    // It is counted as wrong, not as one that was not answered.
                    connection.expected.pop_front();
                    self.under_way -= usize::from(!is_given_up);
                    return false;
                }
                Came::Right | Came::Miss => {
                    connection.expected.pop_front();
                }
            }
            if is_given_up {
                continue; // of a step before this one, which has counted it
            }
            self.under_way -= 1;
            let Some(step) = step.and_then(|step| self.results.steps.get_mut(step)) else {
                self.since_ns = now_ns; // preparing takes its time, as long as answers come
                continue;
            };
            match came {
                Came::Miss => step.misses += 1,
                _ => step.answers += 1,
            }
            step.answers_in_time += u64::from(is_running);
            self.answers += 1;
            step.latency.saturating_record(latency_ns.min(LONGEST_NS));
            self.recent.saturating_record(latency_ns.min(LONGEST_NS));
        }
        true
    }

    /// The other side has ended a connection, or never opened it.
    fn lose(&mut self, number: usize, now_ns: i64) {
        let Some(connection) = self.connections.get_mut(number) else { return };
        let was_settled = std::mem::replace(&mut connection.is_settled, true);
        // One that this side has ended is not: what the other side said of it may come behind.
        let is_awaited = connection.is_open || connection.is_opening;
        match self.phase {
            Phase::Connecting if !was_settled => self.results.refused += 1,
            Phase::Connecting | Phase::Preparing | Phase::Waiting(_) if is_awaited => self.results.lost += 1,
            Phase::Running(step, _) | Phase::Draining(step) if is_awaited => {
                self.results.steps[step].lost += 1;
            }
            _ => {}
        }
        self.abandon(number, now_ns);
    }

    /// Counts what a connection that is no more has left without an answer.
    fn abandon(&mut self, number: usize, now_ns: i64) {
        let Some(connection) = self.connections.get_mut(number) else { return };
        let is_open = std::mem::take(&mut connection.is_open);
        connection.is_opening = false;
        let mut left = std::mem::take(&mut connection.expected);
        left.retain(|sent| !sent.is_given_up);
        self.under_way -= left.len();
        if let (Phase::Running(step, _) | Phase::Draining(step), true) = (self.phase, is_open) {
            left.iter().for_each(|sent| self.results.steps[step].leave(now_ns - sent.since_ns));
        }
    }

    fn tell(&mut self, now_ns: i64) {
        if now_ns >= self.tell_ns && !self.results.steps.is_empty() {
            self.live.tell(self.answers, &self.recent);
            self.recent.reset();
            self.tell_ns = now_ns + TELL_NS;
        }
    }

    fn event(&mut self, event: Event, stack: &mut Stack, io: &mut Io) {
        match event {
            Event::Connected { connection, .. } => {
                let Some(number) = self.number(connection) else { return };
                let connection = &mut self.connections[number];
                (connection.is_open, connection.is_settled) = (true, true);
                let is_new = std::mem::take(&mut connection.is_opening);
                match self.phase {
                    Phase::Running(step, _) | Phase::Draining(step) if is_new => {
                        self.results.steps[step].opened += 1;
                        self.fill(number, stack, io);
                    }
                    Phase::Waiting(step) if is_new => {
                        // It was asked for in the step before.
                        let before = step.checked_sub(1).and_then(|step| self.results.steps.get_mut(step));
                        before.into_iter().for_each(|step| step.opened += 1);
                    }
                    _ if is_new => {}
                    _ => self.results.connected += 1,
                }
            }
            Event::Received { connection, packet } => {
                // What comes behind a wrong answer is not looked at.
                let number = self.number(connection).filter(|number| self.connections[*number].is_open);
                if let Some(number) = number {
                    let is_right = self.take(number, &packet, io.now_ns);
                    let _ = stack.consume(connection, packet.len(), io);
                    match is_right {
                        true => {
                            self.renew(number, stack, io);
                            self.fill(number, stack, io);
                        }
                        false => self.wrong(number, stack, io),
                    }
                }
                io.pool.free(packet);
            }
            Event::Sent { connection, .. } => {
                let Some(number) = self.number(connection) else { return };
                let connection = &mut self.connections[number];
                if !connection.unsent.is_empty() {
                    let sent = stack.write(connection.id, &connection.unsent, io).unwrap_or(0);
                    connection.unsent.drain(..sent);
                }
            }
            Event::PeerFinished { connection } => _ = stack.finish(connection, io),
            Event::Closed { connection, .. } => {
                if let Some(number) = self.number(connection) {
                    self.lose(number, io.now_ns);
                }
            }
            Event::Timer { .. } => {}
        }
    }

    /// An answer was not right: nothing that follows can be trusted. The reset is sent once, and waits
    /// where there is no room for it.
    fn wrong(&mut self, number: usize, stack: &mut Stack, io: &mut Io) {
        match self.phase {
            Phase::Running(step, _) | Phase::Draining(step) => self.results.steps[step].wrong += 1,
            _ => self.results.wrong += 1,
        }
        self.to_reset.push_back(self.connections[number].id);
        self.abandon(number, io.now_ns);
        self.reset_waiting(stack, io);
    }
}

impl<W: Workload> Service for Load<W> {
    fn begin(&mut self, stack: &mut Stack, io: &mut Io) {
        self.now_ns = io.now_ns;
        self.enter(Phase::Connecting, io.now_ns);
        self.advance(stack, io);
    }

    fn serve(&mut self, events: &mut Vec<Event>, stack: &mut Stack, io: &mut Io) {
        self.now_ns = io.now_ns;
        self.reset_waiting(stack, io);
        self.renew_waiting(stack, io);
        for event in events.drain(..) {
            self.event(event, stack, io);
        }
        self.arrive(stack, io);
        self.advance(stack, io);
        self.tell(io.now_ns);
    }

    fn deadline_ns(&self) -> Option<i64> {
        if !self.to_renew.is_empty() || !self.to_reset.is_empty() {
            return Some(self.now_ns);
        }
        match self.phase {
            Phase::Running(_, until_ns) if self.rate().is_some() => {
                Some(until_ns.min(self.next_ns.ceil() as i64))
            }
            Phase::Running(_, until_ns) => Some(until_ns),
            Phase::Waiting(_) => Some(self.poll_ns),
            Phase::Over => None,
            _ => Some(self.since_ns + LIMIT_NS),
        }
    }
}

impl<W: Workload> Drop for Load<W> {
    fn drop(&mut self) {
        self.be_ready(self.settings.rates.len());
        // What was seen until a signal came, and how long what has no answer has waited by then.
        if let Phase::Running(step, _) | Phase::Draining(step) = self.phase {
            if matches!(self.phase, Phase::Running(..)) {
                self.results.steps[step].elapsed_ns = self.now_ns - self.since_ns;
            }
            self.give_up(step, self.now_ns);
        }
        if self.phase != Phase::Over {
            self.live.keep(std::mem::take(&mut self.results));
        }
    }
}
