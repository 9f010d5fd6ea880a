//! The side that asks for a test.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tcp::{Event, Id, Io, Service, Stack};

use super::message::{COOKIE, Parameters, State, StreamResult, push_text, read_results, results, take_text};
use super::stream::Stream;
use crate::load::Random;

const SECOND_NS: i64 = 1_000_000_000;
/// How long the server may take for each step but the measurement, in nanoseconds.
const STEP_NS: i64 = 10 * SECOND_NS;
/// How long a measurement of a number of bytes may move nothing, in nanoseconds.
const STANDSTILL_NS: i64 = 30 * SECOND_NS;
/// How long connections have at the end, so that the last word goes out, in nanoseconds.
const LAST_NS: i64 = SECOND_NS / 5;

/// What a client wants to know.
#[derive(Debug, Clone, Copy)]
pub struct Wanted {
    /// An address of this host.
    pub local: IpAddr,
    /// The server's address and port.
    pub remote: (IpAddr, u16),
    /// How long it is measured, in nanoseconds; told to the server in whole seconds.
    pub time_ns: i64,
    /// How long it is moved before anything counts, in seconds.
    pub omit_s: u32,
    /// How many bytes are sent instead, in all streams together.
    pub bytes: Option<u64>,
    /// Streams beside each other, 1 to 128.
    pub streams: u32,
    /// Whether the server sends.
    pub reverse: bool,
    /// What the cookie follows from.
    pub seed: u64,
}

/// What came of it.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// What this side saw, stream by stream.
    pub own: Vec<StreamResult>,
    /// What the other side saw.
    pub other: Vec<StreamResult>,
    /// Why there are no results, in a sentence.
    pub failure: Option<String>,
    /// It came to its end.
    pub is_whole: bool,
}

/// How far a test has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// The server asks for parameters, and then for streams.
    Begin,
    /// Streams are opened, until the measurement begins.
    Streams,
    Running,
    /// The measurement is over; the server asks for results.
    Ended,
    /// The server's results come.
    Results,
    /// They have come.
    Whole,
    /// The two numbers of an error come.
    Error,
    Over,
}

/// A test, as an application of a stack.
#[derive(Debug)]
pub struct Client {
    wanted: Wanted,
    cookie: [u8; COOKIE],
    control: Option<Id>,
    came: Vec<u8>,
    step: Step,
    streams: Vec<Stream>,
    began_ns: i64,
    /// Until when nothing counts.
    omits_until_ns: Option<i64>,
    seconds: f64,
    until_ns: i64,
    outcome: Outcome,
    shown: Arc<Mutex<Outcome>>,
    stop: Arc<AtomicBool>,
}

impl Client {
    /// A test that shows what came of it, and sets `stop` at its end.
    pub fn new(wanted: Wanted, shown: &Arc<Mutex<Outcome>>, stop: &Arc<AtomicBool>) -> Client {
        // The characters that iperf3's own cookies are of.
        let letters = b"abcdefghijklmnopqrstuvwxyz234567";
        let mut random = Random(wanted.seed);
        let mut cookie = [0; COOKIE];
        cookie[..COOKIE - 1].fill_with(|| letters[random.below(32) as usize]);
        Client {
            wanted,
            cookie,
            control: None,
            came: Vec::new(),
            step: Step::Begin,
            streams: Vec::new(),
            began_ns: 0,
            omits_until_ns: None,
            seconds: 0.0,
            until_ns: 0,
            outcome: Outcome::default(),
            shown: shown.clone(),
            stop: stop.clone(),
        }
    }

    fn connect(&self, stack: &mut Stack, io: &mut Io) -> Result<Id, String> {
        let refused = |refusal| format!("a connection cannot be opened: {refusal}");
        stack.connect(self.wanted.local, self.wanted.remote, io).map_err(refused)
    }

    fn parameters(&self) -> Parameters {
        let seconds = match self.wanted.bytes {
            Some(_) => 0,
            None => (self.wanted.time_ns.max(1) as u64).div_ceil(SECOND_NS as u64) as u32,
        };
        Parameters {
            seconds,
            omit: self.wanted.omit_s,
            bytes: self.wanted.bytes.unwrap_or(0),
            streams: self.wanted.streams,
            reverse: self.wanted.reverse,
            ..Parameters::default()
        }
    }

    fn receive(&mut self, id: Id, bytes: &[u8], stack: &mut Stack, io: &mut Io) -> Result<(), String> {
        let _ = stack.consume(id, bytes.len(), io);
        if self.step == Step::Over {
            return Ok(());
        }
        if self.control == Some(id) {
            self.came.extend_from_slice(bytes);
            return self.control(stack, io);
        }
        // The first bytes may come in front of the word that it runs; those behind the end come in a
        // time that is not counted.
        let counts = matches!(self.step, Step::Streams | Step::Running);
        if let Some(stream) = self.streams.iter_mut().find(|stream| counts && stream.id == id) {
            stream.bytes += bytes.len() as u64;
            self.go_on(stack, io);
        }
        Ok(())
    }

    /// Whether all bytes that were asked for have been moved.
    fn is_enough(&self) -> bool {
        if self.omits_until_ns.is_some() {
            return false;
        }
        let moved: u64 = self.streams.iter().map(|stream| stream.bytes).sum();
        self.wanted.bytes.is_some_and(|bytes| moved >= bytes)
    }

    /// Something has moved: all of it, or there is more time.
    fn go_on(&mut self, stack: &mut Stack, io: &mut Io) {
        if self.step != Step::Running {
            return;
        }
        if self.wanted.bytes.is_some() {
            self.until_ns = io.now_ns + STANDSTILL_NS;
        }
        if self.is_enough() {
            self.end_measurement(stack, io);
        }
    }

    /// Takes what came on the control connection.
    fn control(&mut self, stack: &mut Stack, io: &mut Io) -> Result<(), String> {
        loop {
            match self.step {
                Step::Results => {
                    let Some(text) = take_text(&mut self.came)? else { return Ok(()) };
                    self.outcome.other = read_results(&text);
                    if self.outcome.other.len() != self.streams.len() {
                        return Err("the server's results are of other streams".to_owned());
                    }
                    self.step = Step::Whole;
                }
                Step::Error => {
                    // Its own number and the system's.
                    let Some((number, [_, _, _, _, ..])) = self.came.split_first_chunk() else {
                        return Ok(());
                    };
                    let number = u32::from_be_bytes(*number);
                    return Err(format!("the server refuses the test with iperf3's error {number}"));
                }
                _ => {
                    if self.came.is_empty() {
                        return Ok(());
                    }
                    let byte = self.came.remove(0);
                    let state = State::of(byte)
                        .ok_or_else(|| format!("the server said {byte}, which is no state"))?;
                    self.state(state, stack, io)?;
                }
            }
        }
    }

    /// Does what the server says.
    fn state(&mut self, state: State, stack: &mut Stack, io: &mut Io) -> Result<(), String> {
        let Some(control) = self.control else { return Ok(()) };
        let (mut text, before) = (vec![], self.step);
        match (state, self.step) {
            (State::ParamExchange, Step::Begin) => push_text(&self.parameters().text(), &mut text),
            (State::CreateStreams, Step::Begin) => {
                self.step = Step::Streams;
                for _ in 0..self.wanted.streams {
                    let id = self.connect(stack, io)?;
                    self.streams.push(Stream::new(id));
                }
            }
            (State::TestStart, Step::Streams) => {}
            (State::TestRunning, Step::Streams) => self.begin_measurement(stack, io),
            (State::ExchangeResults, Step::Ended) => {
                let is_sender = !self.wanted.reverse;
                let seen = self.streams.iter().map(|stream| stream.result(is_sender, self.seconds));
                self.outcome.own = seen.collect();
                push_text(&results(&self.outcome.own), &mut text);
                self.step = Step::Results;
            }
            (State::DisplayResults, Step::Whole) => {
                text.push(State::Done as u8);
                self.outcome.is_whole = true;
            }
            (State::AccessDenied, _) => return Err("the server is busy with another test".to_owned()),
            (State::ServerError, _) => self.step = Step::Error,
            (State::ServerTerminate, _) => return Err("the server has ended the test".to_owned()),
            (state, _) => return Err(format!("the server said {state:?} out of its turn")),
        }
        // A server that says the same again and again has no more time for it.
        if self.step != before && self.step != Step::Running {
            self.until_ns = io.now_ns + STEP_NS;
        }
        if !text.is_empty() && stack.write(control, &text, io) != Ok(text.len()) {
            return Err("a message finds no room on the control connection".to_owned());
        }
        if self.outcome.is_whole {
            self.end(None, stack, io);
        }
        Ok(())
    }

    fn begin_measurement(&mut self, stack: &mut Stack, io: &mut Io) {
        (self.step, self.began_ns) = (Step::Running, io.now_ns);
        let omit_ns = i64::from(self.wanted.omit_s) * SECOND_NS;
        self.omits_until_ns = (omit_ns > 0).then_some(io.now_ns + omit_ns);
        self.until_ns = io.now_ns + omit_ns + self.wanted.time_ns;
        self.fill(None, stack, io);
        // All of it may have come in front of this word.
        self.go_on(stack, io);
    }

    /// Has one stream, or all, send as much as there is room for, if this side sends.
    fn fill(&mut self, id: Option<Id>, stack: &mut Stack, io: &mut Io) {
        if self.step != Step::Running || self.wanted.reverse {
            return;
        }
        let sent: u64 = self.streams.iter().map(|stream| stream.bytes).sum();
        let bytes = self.wanted.bytes.filter(|_| self.omits_until_ns.is_none());
        let mut left = bytes.map_or(u64::MAX, |bytes| bytes.saturating_sub(sent));
        for stream in self.streams.iter_mut().filter(|stream| id.is_none_or(|id| id == stream.id)) {
            left = stream.fill(left, stack, io);
        }
        self.go_on(stack, io);
    }

    /// Begins to count again when the time is over that does not.
    fn omit(&mut self, stack: &Stack, now_ns: i64) {
        if self.step == Step::Running && self.omits_until_ns.is_some_and(|at_ns| at_ns <= now_ns) {
            (self.omits_until_ns, self.began_ns) = (None, now_ns);
            self.streams.iter_mut().for_each(|stream| stream.restart(stack));
        }
    }

    fn end_measurement(&mut self, stack: &mut Stack, io: &mut Io) {
        self.seconds = (io.now_ns - self.began_ns) as f64 / 1e9;
        self.streams.iter_mut().for_each(|stream| stream.sample(stack));
        (self.step, self.until_ns, self.omits_until_ns) = (Step::Ended, io.now_ns + STEP_NS, None);
        if let Some(control) = self.control {
            let _ = stack.write(control, &[State::TestEnd as u8], io);
        }
    }

    /// The test is over, or has failed.
    fn end(&mut self, failure: Option<String>, stack: &mut Stack, io: &mut Io) {
        if self.step == Step::Over {
            return;
        }
        (self.step, self.until_ns, self.omits_until_ns) = (Step::Over, io.now_ns + LAST_NS, None);
        self.outcome.failure = failure;
        let all = self.streams.iter().map(|stream| stream.id).chain(self.control);
        all.for_each(|id| _ = stack.close(id, io));
        *self.shown.lock().unwrap_or_else(PoisonError::into_inner) = self.outcome.clone();
    }

    fn event(&mut self, event: Event, stack: &mut Stack, io: &mut Io) -> Result<(), String> {
        match event {
            Event::Connected { connection, .. } => {
                if stack.write(connection, &self.cookie, io) != Ok(COOKIE) {
                    return Err("there are no buffers for a connection's first bytes".to_owned());
                }
                if self.control == Some(connection) {
                    // One word must not wait for the one in front of it.
                    let _ = stack.set_nagle(connection, false, io);
                }
                self.until_ns = io.now_ns + STEP_NS;
                Ok(())
            }
            Event::Received { connection, packet } => {
                let received = self.receive(connection, &packet, stack, io);
                io.pool.free(packet);
                received
            }
            Event::Sent { connection, .. } | Event::Timer { connection } => {
                self.fill(Some(connection), stack, io);
                Ok(())
            }
            Event::PeerFinished { connection } | Event::Closed { connection, .. } => {
                let is_early = self.control == Some(connection) && self.step != Step::Over;
                match is_early || matches!(self.step, Step::Streams | Step::Running) {
                    true => Err("the server has ended a connection, or nobody listens there".to_owned()),
                    false => Ok(()),
                }
            }
        }
    }
}

impl Service for Client {
    fn begin(&mut self, stack: &mut Stack, io: &mut Io) {
        self.until_ns = io.now_ns + STEP_NS;
        match self.connect(stack, io) {
            Ok(id) => self.control = Some(id),
            Err(error) => self.end(Some(error), stack, io),
        }
    }

    fn serve(&mut self, events: &mut Vec<Event>, stack: &mut Stack, io: &mut Io) {
        for event in events.drain(..) {
            if let Err(failure) = self.event(event, stack, io) {
                self.end(Some(failure), stack, io);
            }
        }
        self.omit(stack, io.now_ns);
        if io.now_ns < self.until_ns {
            return;
        }
        match self.step {
            Step::Over => self.stop.store(true, Ordering::Relaxed),
            Step::Running if self.wanted.bytes.is_none() => self.end_measurement(stack, io),
            _ => self.end(Some("the server does not go on".to_owned()), stack, io),
        }
    }

    fn deadline_ns(&self) -> Option<i64> {
        let is_stopped = self.step == Step::Over && self.stop.load(Ordering::Relaxed);
        let until_ns = self.omits_until_ns.map_or(self.until_ns, |at_ns| at_ns.min(self.until_ns));
        (!is_stopped).then_some(until_ns)
    }
}
