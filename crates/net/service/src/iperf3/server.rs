//! The side that clients come to: one test at a time, as iperf3's own server has it. Who comes
//! during another's test is refused, and a client that does not go on is left.

use std::collections::HashMap;

use port::Counter;
use tcp::{Event, Id, Io, Report, Service, Stack};

use super::datagrams::{Datagrams, Receiver};
use super::message::StreamResult;
use super::message::{COOKIE, Parameters, State, UNIMPLEMENTED, push_text, results, take_text};
use super::stream::Stream;

const SECOND_NS: i64 = 1_000_000_000;
/// How long a client may take for each step but the measurement, in nanoseconds.
const STEP_NS: i64 = 10 * SECOND_NS;
/// How long a measurement may last beyond its time, and one without a time may move nothing.
const GRACE_NS: i64 = 30 * SECOND_NS;
/// The longest measurement, in seconds, as iperf3 has it.
const MAX_SECONDS: u32 = 86_400;
/// Connections that have not said whose they are, at most.
const MAX_UNKNOWN: usize = 256;

/// What a test waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Parameters,
    Streams,
    Running,
    Results,
    Done,
}

/// The test of one client: its connections, and how far it has come.
#[derive(Debug)]
struct Test {
    control: Id,
    cookie: [u8; COOKIE],
    /// What came on the control connection and was not taken.
    came: Vec<u8>,
    step: Step,
    parameters: Parameters,
    streams: Vec<Stream>,
    /// When the measurement began and ended, in nanoseconds.
    began_ns: i64,
    ended_ns: i64,
    /// Until when nothing counts.
    omits_until_ns: Option<i64>,
    /// When the test ends if its client does not go on.
    until_ns: i64,
}

impl Test {
    /// Whether connections are waited for that carry bytes.
    fn takes_streams(&self) -> bool {
        self.step == Step::Streams && self.parameters.wide_datagrams.is_none()
    }

    /// Something has moved: a measurement without a time has more of it.
    fn go_on(&mut self, now_ns: i64) {
        if self.step == Step::Running && self.parameters.seconds == 0 {
            self.until_ns = now_ns + GRACE_NS;
        }
    }

    /// Begins to count again when the time is over that does not.
    fn omit(&mut self, datagrams: &Datagrams, stack: &Stack, now_ns: i64) {
        if self.step == Step::Running && self.omits_until_ns.is_some_and(|at_ns| at_ns <= now_ns) {
            (self.omits_until_ns, self.began_ns) = (None, now_ns);
            self.streams.iter_mut().for_each(|stream| stream.restart(stack));
            datagrams.restart(now_ns);
        }
    }

    /// When something is due.
    fn deadline_ns(&self) -> i64 {
        self.omits_until_ns.map_or(self.until_ns, |at_ns| at_ns.min(self.until_ns))
    }
}

/// What a server counted.
#[derive(Debug, Clone, Copy, Default)]
struct Counted {
    tests: u64,
    busy: u64,
    refused: u64,
    failed: u64,
}

/// A server of one queue.
#[derive(Debug, Default)]
pub struct Server {
    test: Option<Test>,
    /// Connections whose cookie has not come, what came of it, and until when it must.
    unknown: HashMap<Id, (Vec<u8>, i64)>,
    counted: Counted,
    report: Report,
    /// The streams of a test of datagrams.
    datagrams: Datagrams,
}

impl Server {
    /// What the host's UDP hands this server's datagrams, bound to the port of its connections.
    pub fn datagrams(&self) -> Receiver {
        Receiver::new(&self.datagrams, &self.report)
    }

    /// Has the counters added to a report when the server ends.
    pub fn report_to(&mut self, report: &Report) {
        self.report = report.clone();
    }

    fn counters(&self) -> [Counter; 4] {
        let Counted { tests, busy, refused, failed } = self.counted;
        [
            Counter::of("iperf3_tests", tests, "tests came to their end"),
            Counter::of("iperf3_busy", busy, "clients were refused, because another one's test ran"),
            Counter::of(
                "iperf3_refused",
                refused,
                "tests were refused, because they ask for what is not there",
            ),
            Counter::of(
                "iperf3_failed",
                failed,
                "tests ended early, or connections did not say whose they are",
            ),
        ]
    }

    fn open(&mut self, id: Id, stack: &mut Stack, io: &mut Io) {
        if self.unknown.len() >= MAX_UNKNOWN {
            self.counted.failed += 1;
            let _ = stack.abort(id, io);
            return;
        }
        self.unknown.insert(id, (Vec::with_capacity(COOKIE), io.now_ns + STEP_NS));
    }

    fn receive(&mut self, id: Id, bytes: &[u8], stack: &mut Stack, io: &mut Io) {
        let _ = stack.consume(id, bytes.len(), io);
        let mut rest = bytes;
        if let Some((cookie, _)) = self.unknown.get_mut(&id) {
            let (part, behind) = rest.split_at(rest.len().min(COOKIE - cookie.len()));
            cookie.extend_from_slice(part);
            rest = behind;
            let Ok(cookie) = <[u8; COOKIE]>::try_from(&cookie[..]) else { return };
            self.unknown.remove(&id);
            self.introduce(id, cookie, stack, io);
        }
        let Some(test) = &mut self.test else { return };
        if test.control == id {
            test.came.extend_from_slice(rest);
            self.control(stack, io);
        } else if test.step != Step::Running {
            // It came in a time that is not counted.
        } else if let Some(stream) = test.streams.iter_mut().find(|stream| stream.id == id) {
            stream.bytes += rest.len() as u64;
            test.go_on(io.now_ns);
        }
    }

    /// A connection has said whose it is.
    fn introduce(&mut self, id: Id, cookie: [u8; COOKIE], stack: &mut Stack, io: &mut Io) {
        match &mut self.test {
            None => {
                self.test = Some(Test {
                    control: id,
                    cookie,
                    came: Vec::new(),
                    step: Step::Parameters,
                    parameters: Parameters::default(),
                    streams: Vec::new(),
                    began_ns: 0,
                    ended_ns: 0,
                    omits_until_ns: None,
                    until_ns: io.now_ns + STEP_NS,
                });
                // One word must not wait for the one in front of it.
                let _ = stack.set_nagle(id, false, io);
                if !say(id, State::ParamExchange, stack, io) {
                    self.fail(stack, io);
                }
            }
            Some(test) if test.takes_streams() && test.cookie == cookie => {
                test.streams.push(Stream::new(id));
                if test.streams.len() == test.parameters.streams as usize {
                    self.start(stack, io);
                }
            }
            Some(_) => {
                self.counted.busy += 1;
                let _ = say(id, State::AccessDenied, stack, io);
                let _ = stack.close(id, io);
            }
        }
    }

    /// All streams are there: the measurement begins.
    fn start(&mut self, stack: &mut Stack, io: &mut Io) {
        let Some(test) = &mut self.test else { return };
        test.step = Step::Running;
        test.began_ns = io.now_ns;
        let omit = test.parameters.omit.min(MAX_SECONDS);
        let seconds = test.parameters.seconds.min(MAX_SECONDS) + omit;
        test.until_ns = io.now_ns + i64::from(seconds) * SECOND_NS + GRACE_NS;
        test.omits_until_ns = (omit > 0).then(|| io.now_ns + i64::from(omit) * SECOND_NS);
        let control = test.control;
        self.datagrams.set_counting(true);
        match [State::TestStart, State::TestRunning].into_iter().all(|state| say(control, state, stack, io)) {
            true => self.fill(None, stack, io),
            false => self.fail(stack, io),
        }
    }

    /// Has one stream, or all, send as much as there is room for, if this side sends.
    fn fill(&mut self, id: Option<Id>, stack: &mut Stack, io: &mut Io) {
        let Some(test) = &mut self.test else { return };
        if test.step != Step::Running || !test.parameters.reverse {
            return;
        }
        let sent: u64 = test.streams.iter().map(|stream| stream.bytes).sum();
        let mut left = match test.parameters.bytes {
            _ if test.omits_until_ns.is_some() => u64::MAX,
            0 => u64::MAX,
            bytes => bytes.saturating_sub(sent),
        };
        for stream in test.streams.iter_mut().filter(|stream| id.is_none_or(|id| id == stream.id)) {
            left = stream.fill(left, stack, io);
        }
        let has_moved = sent < test.streams.iter().map(|stream| stream.bytes).sum();
        if has_moved {
            test.go_on(io.now_ns);
        }
    }

    /// Takes what came on the control connection.
    fn control(&mut self, stack: &mut Stack, io: &mut Io) {
        while let Some(test) = &mut self.test {
            let went_on = match test.step {
                Step::Parameters => match take_text(&mut test.came) {
                    Ok(Some(text)) => self.agree(&Parameters::of(&text), stack, io),
                    Ok(None) => return,
                    Err(_) => self.agree(&Err(UNIMPLEMENTED), stack, io),
                },
                Step::Results => match take_text(&mut test.came) {
                    Ok(Some(_)) => self.tell(stack, io),
                    Ok(None) => return,
                    Err(_) => false,
                },
                Step::Running | Step::Done => {
                    let Some(byte) = test.came.first().copied() else { return };
                    test.came.remove(0);
                    match (State::of(byte), test.step) {
                        (Some(State::TestEnd), Step::Running) => self.end_measurement(stack, io),
                        (Some(State::Done), Step::Done) => {
                            self.counted.tests += 1;
                            return self.forget(stack, io);
                        }
                        _ => false,
                    }
                }
                // Nothing is to be said until the streams are there.
                Step::Streams => test.came.is_empty(),
            };
            if !went_on {
                return self.fail(stack, io);
            }
            let is_idle = self.test.as_ref().is_none_or(|test| test.came.is_empty());
            if is_idle {
                return;
            }
        }
    }

    /// Agrees to what is to be measured, or refuses it.
    fn agree(&mut self, wanted: &Result<Parameters, u32>, stack: &mut Stack, io: &mut Io) -> bool {
        let Some(test) = &mut self.test else { return false };
        match wanted {
            Ok(parameters) => {
                (test.parameters, test.step) = (*parameters, Step::Streams);
                test.until_ns = io.now_ns + STEP_NS;
                if parameters.wide_datagrams.is_some() {
                    let Some(control) = stack.info(test.control) else { return false };
                    self.datagrams.open(control.key.remote, parameters);
                }
                say(test.control, State::CreateStreams, stack, io)
            }
            Err(number) => {
                self.counted.refused += 1;
                let _ = say(test.control, State::ServerError, stack, io);
                // iperf3's number of the error, and none of the system's.
                let numbers = [number.to_be_bytes(), [0; 4]].concat();
                let _ = stack.write(test.control, &numbers, io);
                self.forget(stack, io);
                true
            }
        }
    }

    fn end_measurement(&mut self, stack: &mut Stack, io: &mut Io) -> bool {
        let Some(test) = &mut self.test else { return false };
        (test.step, test.ended_ns, test.omits_until_ns) = (Step::Results, io.now_ns, None);
        test.until_ns = io.now_ns + STEP_NS;
        test.streams.iter_mut().for_each(|stream| stream.sample(stack));
        self.datagrams.set_counting(false);
        say(test.control, State::ExchangeResults, stack, io)
    }

    /// Tells what was seen.
    fn tell(&mut self, stack: &mut Stack, io: &mut Io) -> bool {
        let Some(test) = &mut self.test else { return false };
        let seconds = (test.ended_ns - test.began_ns) as f64 / 1e9;
        let connections = test.streams.iter().map(|stream| stream.result(test.parameters.reverse, seconds));
        let datagrams = self.datagrams.streams().into_iter().map(|stream| StreamResult {
            bytes: stream.bytes,
            retransmits: None,
            seconds,
            datagrams: Some(stream.seen),
        });
        let seen: Vec<_> = connections.chain(datagrams).collect();
        let mut text = vec![];
        push_text(&results(&seen), &mut text);
        text.push(State::DisplayResults as u8);
        (test.step, test.until_ns) = (Step::Done, io.now_ns + STEP_NS);
        stack.write(test.control, &text, io).is_ok_and(|written| written == text.len())
    }

    /// The test ends early.
    fn fail(&mut self, stack: &mut Stack, io: &mut Io) {
        self.counted.failed += 1;
        if let Some(test) = &self.test {
            let _ = say(test.control, State::ServerTerminate, stack, io);
        }
        self.forget(stack, io);
    }

    /// The test is over, and the next client may come.
    fn forget(&mut self, stack: &mut Stack, io: &mut Io) {
        let Some(test) = self.test.take() else { return };
        self.datagrams.close();
        let _ = stack.close(test.control, io);
        test.streams.iter().for_each(|stream| _ = stack.close(stream.id, io));
    }

    /// The other side ends a connection, or it is gone.
    fn end(&mut self, id: Id, stack: &mut Stack, io: &mut Io) {
        self.unknown.remove(&id);
        let _ = stack.finish(id, io);
        let Some(test) = &self.test else { return };
        let is_stream = test.streams.iter().any(|stream| stream.id == id);
        // Streams end behind the measurement, in front of its results or behind them.
        if test.control == id || is_stream && matches!(test.step, Step::Streams | Step::Running) {
            self.fail(stack, io);
        }
    }

    /// Leaves those who do not go on.
    fn expire(&mut self, stack: &mut Stack, io: &mut Io) {
        let late: Vec<Id> =
            self.unknown.iter().filter(|(_, (_, at_ns))| *at_ns <= io.now_ns).map(|(id, _)| *id).collect();
        for id in late {
            self.unknown.remove(&id);
            self.counted.failed += 1;
            let _ = stack.abort(id, io);
        }
        let Some(test) = &mut self.test else { return };
        if test.step == Step::Streams && self.datagrams.are_there() {
            return self.start(stack, io);
        }
        if test.until_ns <= io.now_ns && self.datagrams.have_moved() {
            test.go_on(io.now_ns);
        }
        if test.until_ns <= io.now_ns {
            self.fail(stack, io);
        }
    }
}

/// Says a state on a control connection, where there is a buffer for it.
fn say(id: Id, state: State, stack: &mut Stack, io: &mut Io) -> bool {
    stack.write(id, &[state as u8], io) == Ok(1)
}

impl Service for Server {
    fn serve(&mut self, events: &mut Vec<Event>, stack: &mut Stack, io: &mut Io) {
        for event in events.drain(..) {
            match event {
                Event::Connected { connection, .. } => self.open(connection, stack, io),
                Event::Received { connection, packet } => {
                    self.receive(connection, &packet, stack, io);
                    io.pool.free(packet);
                }
                Event::Sent { connection, .. } | Event::Timer { connection } => {
                    self.fill(Some(connection), stack, io);
                }
                Event::PeerFinished { connection } | Event::Closed { connection, .. } => {
                    self.end(connection, stack, io);
                }
            }
        }
        if let Some(test) = &mut self.test {
            test.omit(&self.datagrams, stack, io.now_ns);
        }
        self.expire(stack, io);
    }

    fn deadline_ns(&self) -> Option<i64> {
        let unknown = self.unknown.values().map(|(_, at_ns)| *at_ns);
        let test = self.test.as_ref().map(|test| match test.step {
            // Whoever the last of them came to does not call this service.
            Step::Streams if self.datagrams.are_there() => i64::MIN,
            _ => test.deadline_ns(),
        });
        unknown.chain(test).min()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let mut report = self.report.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        report.extend(self.counters());
    }
}
