//! Servers and clients that do not behave, in simulated time: what a server keeps of them is
//! bounded, and who takes too long is left.
#![allow(clippy::unwrap_used)]

mod common;

use std::sync::{Arc, Mutex};

use common::{ADDRESSES, Came, MS, Net, PORT, SECOND, Script};
use service::http::Files;
use service::memcached::{Limits, Session};
use service::{Buffer, Http, Memcached, Protocol, Server};
use tcp::{Event, Id, Io, Reason, Report, Service, Stack};

/// What a server counted.
fn count(report: &Report, name: &str) -> u64 {
    let report = report.lock().unwrap();
    report.iter().find(|counter| counter.name == name).expect("a counter").value
}

/// Runs a client against a protocol whose connections may keep so much; what came, and what
/// was counted.
fn run(
    protocol: impl Protocol + 'static,
    script: Script,
    limit: usize,
    buffers: usize,
) -> (Arc<Mutex<Came>>, Report) {
    let (came, report) = (script.came.clone(), Report::default());
    let mut server = Server::new(protocol, limit);
    server.report_to(&report);
    let mut net = Net::new(script, server, buffers);
    net.run_to_end(1000 * SECOND);
    (came, report)
}

fn http() -> Http {
    Http::new(Arc::new(Files::fixed(b"body".to_vec(), 0)), 1_700_000_000)
}

fn cache() -> Memcached {
    Memcached::servers(Limits::default(), 1_700_000_000).pop().unwrap()
}

fn script(sends: Vec<(i64, Vec<u8>)>) -> Script {
    Script { sends, ..Script::default() }
}

#[test]
fn half_a_request_is_waited_for_a_minute() {
    // A byte now and then does not make it longer.
    let request = b"GET / HTTP/1.1\r\nHost: a\r\nX: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy";
    let bytes = request.iter().enumerate().map(|(n, byte)| (n as i64 * 2 * SECOND, vec![*byte])).collect();
    let (came, report) = run(http(), script(bytes), 1 << 20, 4096);
    let came = came.lock().unwrap();
    let (reason, at_ns) = came.closed.unwrap();
    assert!((came.bytes.is_empty(), came.is_peer_finished, reason) == (true, true, Reason::Finished));
    assert!((60 * SECOND..63 * SECOND).contains(&at_ns), "{at_ns}");
    assert_eq!(count(&report, "service_idle"), 1);
}

#[test]
fn the_last_answer_comes_though_the_client_goes_on_sending() {
    let mut sends = vec![(0, b"nonsense\r\n\r\n".to_vec())];
    sends.extend((1..20).map(|n| (n * MS / 2, vec![b'x'; 1000])));
    let (came, _) = run(http(), script(sends), 1 << 20, 4096);
    let came = came.lock().unwrap();
    assert!(came.bytes.starts_with(b"HTTP/1.1 400 ") && came.bytes.ends_with(b"400 Bad Request\n"));
    assert!(came.is_peer_finished);
}

/// Sends requests of a few bytes in a packet each, and takes no answer.
struct Trickles {
    connection: Option<Id>,
    count: usize,
}

impl Service for Trickles {
    fn begin(&mut self, stack: &mut Stack, io: &mut Io) {
        let id = stack.connect(ADDRESSES[0], (ADDRESSES[1], PORT), io).unwrap();
        stack.set_nagle(id, false, io).unwrap();
        self.connection = Some(id);
    }

    fn serve(&mut self, events: &mut Vec<Event>, stack: &mut Stack, io: &mut Io) {
        for event in events.drain(..) {
            match event {
                Event::Received { packet, .. } => io.pool.free(packet),
                Event::Connected { connection, .. } | Event::Timer { connection } => {
                    self.count += 1;
                    assert_eq!(stack.write(connection, b"get a\r\n", io), Ok(7));
                    match self.count {
                        1..500 => stack.set_timer(connection, Some(io.now_ns + MS), io).unwrap(),
                        _ => stack.abort(connection, io).unwrap(),
                    }
                }
                _ => {}
            }
        }
    }
}

/// What a server copies it keeps as bytes: the packets are there for others.
#[test]
fn requests_that_wait_are_kept_as_bytes_and_not_as_packets() {
    let mut cache = cache();
    let mut output = Buffer { room: 1000, ..Buffer::default() };
    let set = [b"set a 0 0 100000\r\n".as_slice(), &[b'x'; 100_000], b"\r\n"].concat();
    cache.take(&mut Session::default(), &set, &mut output);
    assert_eq!(output.bytes, b"STORED\r\n");
    let options = tcp::Options { packets: 256, ..tcp::Options::default() };
    let client = Trickles { connection: None, count: 0 };
    let mut net = Net::with(client, Server::new(cache, 1 << 20), 4096, options);
    net.run_to_end(100 * SECOND);
    let counters = net.ends[1].stack.counters();
    assert_eq!(
        (counters.lost(port::Reason::RxTcpBuffers), counters.bytes_received),
        (0, 499 * 7),
        "but for the last"
    );
}

#[test]
fn a_connection_that_keeps_too_much_is_reset() {
    let line = [b"get ".as_slice(), &[b'x'; 100_000]].concat();
    let (came, report) = run(cache(), script(vec![(0, line.clone())]), 50_000, 4096);
    let (reason, _) = came.lock().unwrap().closed.unwrap();
    assert_eq!((reason, count(&report, "service_aborted")), (Reason::Reset, 1));
    // With room for it, it is the line that is waited for.
    let sends = vec![(0, line), (SECOND, b"\r\nquit\r\n".to_vec())];
    let (came, report) = run(cache(), script(sends), 1 << 20, 4096);
    assert_eq!(came.lock().unwrap().bytes, b"CLIENT_ERROR bad command line format\r\n");
    assert_eq!(count(&report, "service_aborted"), 0);
}

#[test]
fn answers_that_nobody_takes_hold_up_requests_and_no_more() {
    let value = vec![b'v'; 100_000];
    let set = [b"set a 0 0 100000\r\n".as_slice(), &value, b"\r\n"].concat();
    // Forty megabytes are asked for, and taken ten seconds later; buffers are few.
    let sends = vec![(0, set), (MS, b"get a\r\n".repeat(400)), (20 * SECOND, b"quit\r\n".to_vec())];
    let came = run(cache(), Script { reads_at_ns: 10 * SECOND, ..script(sends) }, 100_000, 700);
    let (came, report) = (came.0.lock().unwrap(), came.1);
    let answer = [b"VALUE a 0 100000\r\n".as_slice(), &value, b"\r\nEND\r\n"].concat();
    assert!(came.bytes == [b"STORED\r\n".to_vec(), answer.repeat(400)].concat());
    assert_eq!((count(&report, "service_aborted"), count(&report, "memcached_get_hits")), (0, 400));
    assert_eq!(came.closed.unwrap().0, Reason::Finished);
}

#[test]
fn a_client_that_takes_no_answer_is_left_after_a_minute() {
    let forever = Script { reads_at_ns: 10_000 * SECOND, ..script(vec![]) };
    let files = |len| Http::new(Arc::new(Files::fixed(vec![b'x'; len], 0)), 1_700_000_000);
    let get = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n".to_vec();
    let client = Script { sends: vec![(0, get)], came: Arc::default(), ..forever };
    let (came, report) = run(files(1_000_000), client, 1 << 20, 4096);
    let (reason, at_ns) = came.lock().unwrap().closed.unwrap();
    assert_eq!((reason, count(&report, "service_idle")), (Reason::Reset, 1));
    assert!((60 * SECOND..63 * SECOND).contains(&at_ns), "{at_ns}");
    // A cache's client likewise.
    let set = [b"set a 0 0 500000\r\n".as_slice(), &[b'v'; 500_000], b"\r\nget a\r\n"].concat();
    let (came, report) = run(cache(), Script { sends: vec![(0, set)], ..forever }, 1 << 20, 4096);
    assert_eq!((came.lock().unwrap().closed.unwrap().0, count(&report, "service_idle")), (Reason::Reset, 1));
}

#[test]
fn a_cache_waits_a_minute_for_the_rest_of_a_request_only() {
    for half in [&b"ge"[..], b"set a 0 0 100\r\nvalue", b"set a 0 0 10000000\r\nvalue"] {
        // Nothing is begun until 200 seconds have gone; then an answer, and a part of a request.
        let version = format!("VERSION 1.6.18-ixora-{}\r\n", env!("CARGO_PKG_VERSION"));
        let sends = vec![(200 * SECOND, b"version\r\n".to_vec()), (250 * SECOND, half.to_vec())];
        let (came, report) = run(cache(), script(sends), 1 << 20, 4096);
        let came = came.lock().unwrap();
        let (reason, at_ns) = came.closed.unwrap();
        assert!(came.bytes.starts_with(version.as_bytes()));
        assert_eq!((reason, count(&report, "service_idle")), (Reason::Finished, 1), "{half:?}");
        assert!((310 * SECOND..313 * SECOND).contains(&at_ns), "{at_ns}");
    }
}

#[test]
fn requests_that_are_not_answered_are_requests() {
    // Each packet ends in the middle of one.
    let sets = b"set a 0 0 5 noreply\r\nvalue\r\n".repeat(40);
    let mut sends: Vec<_> =
        sets.chunks(40).enumerate().map(|(n, part)| (n as i64 * 10 * SECOND, part.to_vec())).collect();
    sends.push((sends.len() as i64 * 10 * SECOND, b"get a\r\nquit\r\n".to_vec()));
    let (came, report) = run(cache(), script(sends), 1 << 20, 4096);
    assert_eq!(came.lock().unwrap().bytes, b"VALUE a 0 5\r\nvalue\r\nEND\r\n");
    assert_eq!((count(&report, "service_idle"), count(&report, "memcached_cmd_set")), (0, 40));
}

/// A server that finds no buffers until some time.
struct Starved(Server<Http>, i64);

impl Service for Starved {
    fn serve(&mut self, events: &mut Vec<Event>, stack: &mut Stack, io: &mut Io) {
        let is_starved = io.now_ns < self.1;
        let taken: Vec<_> = std::iter::from_fn(|| if is_starved { io.pool.alloc() } else { None }).collect();
        self.0.serve(events, stack, io);
        taken.into_iter().for_each(|packet| io.pool.free(packet));
    }
}

#[test]
fn an_answer_for_which_there_was_no_buffer_is_sent_when_there_is_one() {
    let client = script(vec![(10 * MS, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n".to_vec())]);
    let came = client.came.clone();
    let start = 1_000 * SECOND;
    let server = Starved(Server::new(http(), 1 << 20), start + 20 * MS);
    let mut net = Net::new(client, server, 64);
    while net.now < start + 20 * MS && net.step() {}
    assert!(came.lock().unwrap().bytes.is_empty());
    while net.now < start + SECOND && net.step() {}
    assert!(came.lock().unwrap().bytes.ends_with(b"body"));
    net.run_to_end(1000 * SECOND);
}

#[test]
fn what_comes_behind_a_request_is_thrown_away_until_its_answer_has_arrived() {
    // A round trip is longer than the time for the other side's end.
    let mut sends = vec![(5 * SECOND, b"nonsense\r\n\r\n".to_vec())];
    sends.extend((1..100).map(|n| (5 * SECOND + n * 100 * MS, vec![b'x'; 100])));
    let client = script(sends);
    let came = client.came.clone();
    let mut net = Net::new(client, Server::new(http(), 1 << 20), 4096);
    net.delay_ns = 1500 * MS;
    net.run_to_end(1000 * SECOND);
    let came = came.lock().unwrap();
    assert!(came.bytes.starts_with(b"HTTP/1.1 400 "));
    assert_eq!(came.closed.unwrap().0, Reason::Finished);
}

/// Clients that begin a long line, and one that asks in two packets.
struct Crowd {
    hogs: usize,
    connections: Vec<Id>,
    answer: Arc<Mutex<Vec<u8>>>,
    resets: Arc<Mutex<usize>>,
    /// When something is sent next.
    next_ns: i64,
    steps: usize,
}

impl Service for Crowd {
    fn begin(&mut self, stack: &mut Stack, io: &mut Io) {
        let connect = |_| stack.connect(ADDRESSES[0], (ADDRESSES[1], PORT), io).unwrap();
        self.connections = (0..=self.hogs).map(connect).collect();
        self.next_ns = io.now_ns + SECOND;
    }

    fn serve(&mut self, events: &mut Vec<Event>, stack: &mut Stack, io: &mut Io) {
        let last = self.connections[self.hogs];
        for event in events.drain(..) {
            match event {
                Event::Received { packet, .. } => {
                    self.answer.lock().unwrap().extend_from_slice(&packet);
                    io.pool.free(packet);
                }
                Event::PeerFinished { connection } => drop(stack.finish(connection, io)),
                Event::Closed { reason: Reason::Reset, connection } => {
                    *self.resets.lock().unwrap() += 1;
                    assert_ne!(connection, last, "who kept little was reset");
                }
                _ => {}
            }
        }
        if io.now_ns < self.next_ns {
            return;
        }
        self.next_ns = io.now_ns + SECOND;
        self.steps += 1;
        if self.steps == 1 {
            let line = [b"get ".as_slice(), &[b'x'; 45_000]].concat();
            for hog in &self.connections[..self.hogs] {
                assert_eq!(stack.write(*hog, &line, io), Ok(line.len()));
            }
        }
        let parts = [&b""[..], b"set a 0 0 1000\r\n", &[b'v'; 1000], b"\r\nqu", b"it\r\n"];
        match parts.get(self.steps) {
            Some(part) => assert_eq!(stack.write(last, part, io), Ok(part.len())),
            None => self.next_ns = i64::MAX,
        }
    }

    fn deadline_ns(&self) -> Option<i64> {
        Some(self.next_ns).filter(|at_ns| *at_ns != i64::MAX)
    }
}

#[test]
fn those_who_keep_most_make_room_for_the_others() {
    let (answer, resets) = (Arc::default(), Arc::default());
    let (next_ns, steps) = (0, 0);
    let crowd = Crowd {
        hogs: 6,
        connections: vec![],
        answer: Arc::clone(&answer),
        resets: Arc::clone(&resets),
        next_ns,
        steps,
    };
    let report = Report::default();
    let mut server = Server::new(cache(), 270_000);
    server.report_to(&report);
    let mut net = Net::new(crowd, server, 4096);
    net.run_to_end(1000 * SECOND);
    drop(net);
    assert_eq!(*answer.lock().unwrap(), b"STORED\r\n");
    let aborted = count(&report, "service_aborted");
    assert!(aborted > 0 && *resets.lock().unwrap() as u64 == aborted, "{aborted}");
    assert_eq!(count(&report, "service_idle"), 6 - aborted, "the others were waited for in vain");
}

/// A list that goes on for many turns without an answer goes on by itself.
#[test]
fn a_list_of_what_is_gone_comes_to_its_end() {
    let sets: String = (0..3000).map(|n| format!("set key{n} 0 0 1 noreply\r\nx\r\n")).collect();
    let asks = "flush_all\r\nlru_crawler metadump all\r\nversion\r\nquit\r\n";
    let sends = vec![(0, sets.into_bytes()), (SECOND, asks.as_bytes().to_vec())];
    let (came, _) = run(cache(), script(sends), 1 << 20, 4096);
    let came = came.lock().unwrap();
    assert!(came.bytes.starts_with(b"OK\r\nEND\r\nVERSION "), "{}", came.bytes.escape_ascii());
    let (_, at_ns) = came.closed.unwrap();
    assert!(at_ns < 10 * SECOND, "nothing else has woken it for {at_ns} ns");
}
