//! Loads against services in simulated time: what is measured is what the wire and the server
//! took, every request is accounted for, and a wrong answer is found.
#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use common::{ADDRESSES, MS, Net, PORT, SECOND, US};
use service::http::Files;
use service::load::{self, Live, Load, Mix, Results, Settings, Workload};
use service::memcached::Limits;
use service::{Http, Memcached, Server};
use tcp::{Event, Io, Service, Stack};

fn settings() -> Settings {
    Settings {
        local: ADDRESSES[0],
        remote: (ADDRESSES[1], PORT),
        connections: 10,
        depth: 4,
        messages: None,
        rates: vec![None],
        step_ns: SECOND / 10,
        max_misses: 0.0,
        seed: 7,
        steering: None,
        group: None,
    }
}

/// Runs a load against a service; what it saw.
fn run<W: Workload + 'static>(
    workload: W,
    settings: Settings,
    server: impl Service + 'static,
    change: impl FnOnce(&mut Net),
) -> Results {
    let connections = settings.connections as u64;
    let results = run_with(workload, settings, server, tcp::Options::default(), change);
    assert_eq!(results.connected, connections);
    results
}

/// The same, with options of both stacks.
fn run_with<W: Workload + 'static>(
    workload: W,
    settings: Settings,
    server: impl Service + 'static,
    options: tcp::Options,
    change: impl FnOnce(&mut Net),
) -> Results {
    let (live, stop) = (Arc::new(Live::default()), Arc::new(AtomicBool::new(false)));
    let mut net = Net::with(Load::new(workload, settings, &live, &stop), server, 16_384, options);
    change(&mut net);
    net.run_to_end(100 * SECOND);
    assert!(stop.load(Ordering::Relaxed) && live.is_over.load(Ordering::Relaxed));
    live.results()
}

/// The only step, in which nothing went wrong.
fn clean(results: &Results) -> &load::Step {
    let [step] = &results.steps[..] else { panic!("{} steps", results.steps.len()) };
    assert!(results.is_whole && results.wrong == 0);
    assert_eq!((step.misses, step.wrong, step.unanswered, step.lost), (0, 0, 0, 0));
    assert_eq!(step.latency.len(), step.answers);
    step
}

#[test]
fn a_closed_loop_has_its_depth_under_way_all_the_time() {
    let results = run(load::Echo::new(100), settings(), tcp::Echo::default(), |_| {});
    let step = clean(&results);
    // Each of 40 requests takes 20 us, again and again.
    let round = 20 * US as u64;
    assert!((step.latency.max() as i64 - round as i64).abs() < 100, "{}", step.latency.max());
    let expected = 40 * (SECOND / 10) as u64 / round;
    assert!((expected - 80..=expected + 80).contains(&step.answers), "{} {expected}", step.answers);
}

/// Each connection carries so many requests, and another takes its place.
#[test]
fn connections_are_opened_anew_after_their_messages() {
    for (messages, depth, rate) in [(1, 1, None), (3, 4, None), (1, 1, Some(20_000.0)), (64, 1, None)] {
        let rates = vec![rate, rate];
        let settings = Settings { messages: Some(messages), depth, rates, ..settings() };
        let results = run(load::Echo::new(100), settings, tcp::Echo::default(), |_| {});
        assert!(results.is_whole && results.steps.len() == 2, "{messages}");
        for step in &results.steps {
            assert_eq!((step.wrong, step.unanswered, step.lost), (0, 0, 0), "{messages}");
            let opened = step.answers / messages;
            assert!(step.answers > 1000 && step.opened.abs_diff(opened) <= 10, "{messages}: {step:?}");
        }
    }
}

/// A server that goes leaves none to open.
#[test]
fn connections_that_are_not_opened_anew_are_lost() {
    /// Answers on ten connections, and resets all others.
    #[derive(Default)]
    struct Few(tcp::Echo, usize);
    impl Service for Few {
        fn serve(&mut self, events: &mut Vec<Event>, stack: &mut Stack, io: &mut Io) {
            for event in &*events {
                if let Event::Connected { connection, .. } = event {
                    self.1 += 1;
                    if self.1 > 10 {
                        let _ = stack.abort(*connection, io);
                    }
                }
            }
            self.0.serve(events, stack, io);
        }
    }
    let settings = Settings { messages: Some(1), depth: 1, ..settings() };
    let results = run(load::Echo::new(100), settings, Few::default(), |_| {});
    assert_eq!((results.steps[0].answers, results.steps[0].lost), (10, 10), "{results:?}");
}

/// A reset is sent once: without it the server keeps the connection, which is found in the end.
#[test]
fn resets_of_connections_that_had_their_messages_wait_for_room() {
    let settings = Settings { messages: Some(1), depth: 1, connections: 64, ..settings() };
    let results = run(load::Echo::new(100), settings, tcp::Echo::default(), |net| net.room[0] = 8);
    let step = &results.steps[0];
    assert!(results.is_whole && step.answers > 1000, "{step:?}");
    assert_eq!((step.wrong, step.unanswered, step.lost), (0, 0, 0), "{step:?}");
    assert!(step.opened.abs_diff(step.answers) <= 64, "{step:?}");
}

#[test]
fn an_open_loop_sends_at_its_rates_whatever_comes_back() {
    let rates = vec![Some(20_000.0), Some(50_000.0)];
    let results = run(load::Echo::new(1), Settings { rates, ..settings() }, tcp::Echo::default(), |_| {});
    assert!(results.is_whole && results.steps.len() == 2);
    for (step, expected) in results.steps.iter().zip([2_000_f64, 5_000.0]) {
        let deviation = (step.answers as f64 - expected).abs() / expected.sqrt();
        assert!(deviation < 4.0, "{} {expected}", step.answers);
        assert_eq!((step.wrong, step.unanswered, step.lost), (0, 0, 0));
        assert!((step.rate_seen() - step.rate.unwrap()).abs() < step.rate.unwrap() / 10.0);
    }
}

#[test]
fn a_server_that_stalls_is_not_spared_the_requests_of_the_meantime() {
    let rates = vec![Some(10_000.0)];
    let stalled = |net: &mut Net| net.stall = net.now + 300 * MS..net.now + 500 * MS;
    let settings = Settings { rates, step_ns: SECOND, connections: 5, depth: 1, ..settings() };
    let results = run(load::Echo::new(1), settings, tcp::Echo::default(), stalled);
    let step = clean(&results);
    let late = step.latency.count_between(100 * MS as u64, SECOND as u64);
    // All that were to be sent in its first half have waited for 100 ms: not five, but one
    // thousand.
    assert!((800..1300).contains(&late), "{late} of {}", step.answers);
}

#[test]
fn answers_behind_the_end_of_a_step_are_not_in_its_rate() {
    // A round takes 80 ms: the second ends behind the step of 100 ms.
    let slow = |net: &mut Net| net.delay_ns = 40 * MS;
    let results = run(load::Echo::new(100), settings(), tcp::Echo::default(), slow);
    let step = clean(&results);
    assert_eq!((step.answers, step.latency.len()), (80, 80));
    assert!((step.rate_seen() - 400.0).abs() < 10.0, "{}", step.rate_seen());
}

#[test]
fn requests_without_an_answer_count_with_the_time_that_they_waited() {
    let rates = vec![Some(10_000.0)];
    // From its stall on the server answers nothing until the load has given up.
    let stalled = |net: &mut Net| net.stall = net.now + 300 * MS..net.now + 8 * SECOND;
    let settings = Settings { rates, step_ns: SECOND, connections: 5, depth: 1, ..settings() };
    let results = run(load::Echo::new(1), settings, tcp::Echo::default(), stalled);
    let step = &results.steps[0];
    assert!((6_500..7_500).contains(&step.unanswered), "{}", step.unanswered);
    assert_eq!(step.latency.len(), step.answers + step.unanswered);
    assert!(step.latency.value_at_quantile(0.5) > 5 * SECOND as u64);
    assert_eq!(results.failures(), [format!("{} requests were not answered", step.unanswered)]);
}

/// What a signal ends in the middle of a stall is not the figures of the time before it.
#[test]
fn what_waits_when_a_load_is_ended_counts_with_its_time() {
    let (live, stop) = (Arc::new(Live::default()), Arc::new(AtomicBool::new(false)));
    let settings =
        Settings { rates: vec![Some(10_000.0)], step_ns: SECOND, connections: 5, depth: 1, ..settings() };
    let load = Load::new(load::Echo::new(1), settings, &live, &stop);
    let mut net = Net::new(load, tcp::Echo::default(), 16_384);
    let start = net.now;
    net.stall = start + 300 * MS..start + 8 * SECOND;
    while net.now < start + 700 * MS && net.step() {}
    drop(net);
    let results = live.results();
    let step = &results.steps[0];
    assert!((3_500..4_500).contains(&step.unanswered), "{}", step.unanswered);
    assert_eq!(step.latency.len(), step.answers + step.unanswered);
    assert!(step.latency.value_at_quantile(0.5) > 10 * MS as u64);
    assert!(step.elapsed_ns > 600 * MS && !results.is_whole);
    assert!(results.failures().is_empty(), "some are always under way: {:?}", results.failures());
}

#[test]
fn http_is_asked_and_checked() {
    let body: Vec<u8> = (0..5000).map(|n| n as u8).collect();
    let files = || Arc::new(Files::fixed(body.clone(), 0));
    let server = || Server::new(Http::new(files(), 1_700_000_000), 1 << 20);
    let workload = |body| load::Http::new("host", "/", Some(body));
    let results = run(workload(body.clone()), settings(), server(), |_| {});
    assert!(clean(&results).answers > 1000);
    // One byte is another one.
    let mut other = body.clone();
    other[4321] ^= 1;
    let results = run(workload(other), settings(), server(), |_| {});
    assert_eq!((results.steps[0].wrong, results.steps[0].answers), (10, 0));
}

#[test]
fn memcached_is_filled_asked_and_checked() {
    for (mix, updates) in [(Mix::Usr, 0.002), (Mix::Etc, 0.25)] {
        let cache = Memcached::servers(Limits::default(), 1_700_000_000).pop().unwrap();
        let workload = load::Memcached::new(mix, 1000, updates);
        let results = run(workload, settings(), Server::new(cache, 1 << 20), |_| {});
        assert!(clean(&results).answers > 5000);
    }
    // A cache that cannot hold all misses some keys, and nothing else is wrong.
    let limits = Limits { memory: 100_000, value: 10_000, threads: 1 };
    let cache = Memcached::servers(limits, 1_700_000_000).pop().unwrap();
    let results =
        run(load::Memcached::new(Mix::Etc, 2000, 0.1), settings(), Server::new(cache, 1 << 20), |_| {});
    let step = &results.steps[0];
    assert!(step.misses > 1000 && step.answers > 100 && step.wrong + step.lost == 0, "{step:?}");
    // It is told, unless so many misses are allowed.
    let [reason] = &results.failures()[..] else { panic!("{:?}", results.failures()) };
    assert!(reason.starts_with(&format!("{} keys were not there", step.misses)), "{reason}");
    // An answer that a key is not there has its latency, and is one of those in a second.
    assert_eq!(step.latency.len(), step.misses + step.answers);
    assert!(step.answers_in_time >= step.latency.len() - 100, "{step:?}");
    let share = step.misses as f64 / (step.misses + step.answers) as f64;
    let with = |max_misses| load::Results { max_misses, ..results.clone() }.failures().len();
    assert_eq!((with(share + 0.001), with(share - 0.001)), (0, 1));
}

/// Answers nothing on the connections that were opened first, and the others at once.
struct Silent {
    echo: tcp::Echo,
    unanswered: Vec<tcp::Id>,
    count: usize,
}

impl Service for Silent {
    fn serve(&mut self, events: &mut Vec<Event>, stack: &mut Stack, io: &mut Io) {
        let mut heard = vec![];
        for event in events.drain(..) {
            match event {
                Event::Connected { connection, .. } if self.unanswered.len() < self.count => {
                    self.unanswered.push(connection)
                }
                Event::Received { connection, packet } if self.unanswered.contains(&connection) => {
                    io.pool.free(packet)
                }
                event => heard.push(event),
            }
        }
        *events = heard;
        self.echo.serve(events, stack, io);
    }
}

#[test]
fn what_arrives_goes_to_any_connection_that_is_free() {
    // A hundred connections never have room again; the others are enough for what arrives.
    let rates = vec![Some(20_000.0)];
    let settings = Settings { rates, step_ns: SECOND / 2, connections: 110, depth: 1, ..settings() };
    let server = Silent { echo: tcp::Echo::default(), unanswered: vec![], count: 100 };
    let results = run(load::Echo::new(1), settings, server, |_| {});
    let step = &results.steps[0];
    assert_eq!(step.unanswered, 100, "one on each connection that is not answered");
    assert!((9_500..10_500).contains(&step.answers), "{}", step.answers);
}

#[test]
fn late_answers_of_a_step_do_not_count_into_the_next_one() {
    let rates = vec![Some(200.0), Some(200.0)];
    let settings = Settings { rates, step_ns: SECOND, connections: 10, depth: 1, ..settings() };
    // The server stalls from the middle of the first step into the second one.
    let stalled = |net: &mut Net| net.stall = net.now + 500 * MS..net.now + 6_500 * MS;
    let results = run(load::Echo::new(1), settings, tcp::Echo::default(), stalled);
    let [first, second] = &results.steps[..] else { panic!("{} steps", results.steps.len()) };
    assert!(first.unanswered > 70, "{}", first.unanswered);
    assert_eq!(first.latency.len(), first.answers + first.unanswered);
    // What was sent in the first step had waited for six seconds.
    assert!(second.latency.max() < SECOND as u64, "{}", second.latency.max());
    assert!((140..260).contains(&(second.answers + second.unanswered)), "{second:?}");
}

/// Ends the first connections of a load before the others are open.
struct Ends(tcp::Echo, usize);

impl Service for Ends {
    fn serve(&mut self, events: &mut Vec<Event>, stack: &mut Stack, io: &mut Io) {
        for event in events.iter() {
            if let Event::Connected { connection, .. } = event
                && self.1 > 0
            {
                self.1 -= 1;
                stack.abort(*connection, io).unwrap();
            }
        }
        self.0.serve(events, stack, io);
    }
}

#[test]
fn connections_that_end_in_front_of_the_first_step_are_told() {
    let settings = Settings { connections: 600, step_ns: SECOND / 1000, ..settings() };
    let results = run(load::Echo::new(1), settings, Ends(tcp::Echo::default(), 30), |_| {});
    assert_eq!((results.connected, results.refused, results.lost), (600, 0, 30));
    assert_eq!(results.failures(), ["30 connections ended before their time"]);
}

#[test]
fn connections_that_the_stack_refuses_count_as_refused() {
    // The server takes as many as its table holds, and the client's table has fewer places.
    let settings = Settings { connections: 400, step_ns: SECOND / 1000, ..settings() };
    let connections = tcp::Options { connections: 300, ..tcp::Options::default() };
    let results = run_with(load::Echo::new(1), settings, tcp::Echo::default(), connections, |_| {});
    assert_eq!((results.connected, results.refused), (300, 100));
    assert!(results.is_whole && results.steps[0].answers > 100);
}

/// Changes one byte of what the echo service sends back.
#[derive(Default)]
struct Wrong {
    echo: tcp::Echo,
    packets: usize,
}

impl Service for Wrong {
    fn serve(&mut self, events: &mut Vec<Event>, stack: &mut Stack, io: &mut Io) {
        for event in events.iter_mut() {
            if let Event::Received { packet, .. } = event {
                self.packets += 1;
                if self.packets == 500 {
                    packet[3] ^= 0x10;
                }
            }
        }
        self.echo.serve(events, stack, io);
    }
}

#[test]
fn a_wrong_byte_is_found() {
    let results = run(load::Echo::new(64), settings(), Wrong::default(), |_| {});
    let step = &results.steps[0];
    // This side has ended the connection: it is not lost, and three more requests were under way.
    assert_eq!((step.wrong, step.lost, step.unanswered), (1, 0, 3));
    assert!(step.answers > 1000, "the other connections go on");
}

/// Answers what nobody asked for, and resets the connection behind it: both come in one turn.
#[derive(Default)]
struct WrongAndGone {
    /// It does not wait for a request.
    is_early: bool,
    /// It resets none.
    stays: bool,
    /// Connections that the other side ended.
    ended: Arc<AtomicU64>,
}

impl WrongAndGone {
    fn answer(&self, connection: tcp::Id, bytes: &[u8], stack: &mut Stack, io: &mut Io) {
        // A request may come behind the reset of an early answer.
        if stack.write(connection, bytes, io).is_ok() && !self.stays {
            stack.output(io);
            stack.abort(connection, io).unwrap();
        }
    }
}

impl Service for WrongAndGone {
    fn serve(&mut self, events: &mut Vec<Event>, stack: &mut Stack, io: &mut Io) {
        for event in events.drain(..) {
            match event {
                Event::Connected { connection, .. } if self.is_early => {
                    self.answer(connection, b"early", stack, io);
                }
                Event::Received { connection, packet } => {
                    let wrong: Vec<u8> = packet.iter().map(|byte| !byte).collect();
                    self.answer(connection, &wrong, stack, io);
                    io.pool.free(packet);
                }
                Event::Closed { .. } => _ = self.ended.fetch_add(1, Ordering::Relaxed),
                _ => {}
            }
        }
    }
}

#[test]
fn a_connection_that_was_ended_for_its_answer_is_not_lost_as_well() {
    let settings = Settings { depth: 1, ..settings() };
    let results = run(load::Echo::new(64), settings, WrongAndGone::default(), |_| {});
    let step = &results.steps[0];
    assert_eq!((step.wrong, step.lost, step.unanswered, step.answers), (10, 0, 0, 0), "{step:?}");
}

/// More connections than are opened at a time: each counts once among those that are settled.
#[test]
fn a_connection_that_was_ended_for_an_early_answer_is_not_refused_as_well() {
    let server = WrongAndGone { is_early: true, ..WrongAndGone::default() };
    let settings = Settings { connections: 600, ..settings() };
    let results = run(load::Echo::new(64), settings, server, |_| {});
    let wrong = results.wrong + results.steps.iter().map(|step| step.wrong).sum::<u64>();
    let lost = results.lost + results.steps.iter().map(|step| step.lost).sum::<u64>();
    assert_eq!((results.refused, wrong, lost), (0, 600, 0), "{results:?}");
}

/// A reset is sent once: without it the server keeps the connection.
#[test]
fn resets_of_connections_with_wrong_answers_wait_for_room() {
    let ended = Arc::new(AtomicU64::new(0));
    let server = WrongAndGone { stays: true, ended: ended.clone(), ..WrongAndGone::default() };
    let settings = Settings { depth: 1, connections: 64, ..settings() };
    let results = run(load::Echo::new(64), settings, server, |net| net.room[0] = 8);
    assert_eq!((results.steps[0].wrong, ended.load(Ordering::Relaxed)), (64, 64), "{results:?}");
}

#[test]
fn nobody_there_ends_the_load() {
    // Nobody listens, and nobody answers.
    for (port, stall) in [(PORT + 1, 0), (PORT, 100 * SECOND)] {
        let (live, stop) = (Arc::new(Live::default()), Arc::new(AtomicBool::new(false)));
        let settings = Settings { remote: (ADDRESSES[1], port), ..settings() };
        let load = Load::new(load::Echo::new(1), settings, &live, &stop);
        let mut net = Net::new(load, tcp::Echo::default(), 1024);
        net.stall = net.now..net.now + stall;
        while !stop.load(Ordering::Relaxed) {
            assert!(net.step(), "it waits for ever");
        }
        let results = live.results();
        assert_eq!((results.connected, results.refused, results.steps.len()), (0, 10, 0));
        assert!(!results.is_whole);
    }
}

/// Each queue's loads are merged as if they were one; steps begin when all are ready.
#[test]
fn loads_of_two_queues_go_together_and_are_added_up() {
    let group = Arc::new(load::Group::new(2, 2));
    let share = |connections| Settings {
        connections,
        rates: vec![Some(500.0), Some(1000.0)],
        step_ns: SECOND,
        group: Some(group.clone()),
        ..settings()
    };
    let (lives, stop) = ([0, 1].map(|_| Arc::new(Live::default())), Arc::new(AtomicBool::new(false)));
    let mut nets = [5, 4].map(|connections| {
        let live = &lives[usize::from(connections == 4)];
        let load = Load::new(load::Echo::new(10), share(connections), live, &stop);
        Net::with(load, tcp::Echo::default(), 4096, tcp::Options::default())
    });
    let start = nets[0].now;
    // The second one is late: the first one waits for it.
    let [first, second] = &mut nets;
    while first.now < start + 3 * SECOND && first.step() {}
    assert_eq!(lives[0].answers.load(Ordering::Relaxed), 0, "it did not begin alone");
    let mut is_over = [false; 2];
    for _ in 0..1_000_000 {
        let next = usize::from(!is_over[1] && (is_over[0] || second.now < first.now));
        let net = if next == 0 { &mut *first } else { &mut *second };
        is_over[next] = !net.step();
        if is_over == [true; 2] {
            break;
        }
        assert!(
            !stop.load(Ordering::Relaxed) || lives.iter().all(|live| live.is_over.load(Ordering::Relaxed))
        );
    }
    assert!(is_over == [true; 2] && stop.load(Ordering::Relaxed));
    let results = Results::merged(lives.iter().map(|live| live.results()));
    assert_eq!((results.connected, results.refused, results.is_whole), (9, 0, true));
    assert!(results.failures().is_empty(), "{:?}", results.failures());
    let rates: Vec<_> = results.steps.iter().map(|step| step.rate).collect();
    assert_eq!(rates, [Some(1000.0), Some(2000.0)]);
    for (step, wanted) in results.steps.iter().zip([1000.0, 2000.0]) {
        assert!((step.rate_seen() / wanted - 1.0).abs() < 0.2, "{} of {wanted}", step.rate_seen());
        assert_eq!(step.latency.len(), step.answers);
    }
}

/// Two loads of one group with two steps, each with its server.
struct Two {
    nets: [Net; 2],
    lives: [Arc<Live>; 2],
    start: i64,
}

impl Two {
    fn new<S: Service + 'static>(settings: Settings, servers: [S; 2]) -> Two {
        let group = Some(Arc::new(load::Group::new(2, settings.rates.len())));
        let (lives, stop) = ([0, 1].map(|_| Arc::new(Live::default())), Arc::new(AtomicBool::new(false)));
        let mut each = lives.iter();
        let nets = servers.map(|server| {
            let settings = Settings { group: group.clone(), ..settings.clone() };
            let load = Load::new(load::Echo::new(10), settings, each.next().unwrap(), &stop);
            Net::with(load, server, 4096, tcp::Options::default())
        });
        Two { start: nets[0].now, nets, lives }
    }

    /// Both go on until so long after their start.
    fn run(&mut self, end_ns: i64) {
        let mut is_over = [false; 2];
        while is_over != [true; 2] {
            let next = usize::from(!is_over[1] && (is_over[0] || self.nets[1].now < self.nets[0].now));
            is_over[next] = self.nets[next].now >= self.start + end_ns || !self.nets[next].step();
        }
    }

    /// The first goes on alone until so long after its start.
    fn run_first(&mut self, end_ns: i64) {
        while self.nets[0].now < self.start + end_ns && self.nets[0].step() {}
    }

    /// Both come to their ends; what the first saw.
    fn end(mut self) -> Results {
        self.run(100 * SECOND);
        assert!(self.lives.iter().all(|live| live.is_over.load(Ordering::Relaxed)));
        self.lives[0].results()
    }
}

/// Their last answers come when their queue waits for another one.
#[test]
fn connections_that_had_their_messages_between_two_steps_are_opened_anew() {
    let rates = vec![Some(1000.0), Some(1000.0)];
    let settings =
        Settings { messages: Some(1), depth: 1, connections: 5, rates, step_ns: SECOND, ..settings() };
    let mut two = Two::new(settings, [(); 2].map(|()| tcp::Echo::default()));
    two.nets[0].stall = two.start + 500 * MS..two.start + 7 * SECOND;
    two.run(900 * MS);
    two.run_first(8 * SECOND);
    let results = two.end();
    let [first, second] = &results.steps[..] else { panic!("{} steps", results.steps.len()) };
    assert!(first.unanswered > 400, "{}", first.unanswered);
    assert!((800..1200).contains(&second.answers), "{second:?}");
    assert_eq!((second.unanswered, second.lost, results.lost), (0, 0, 0), "{second:?}");
}

/// Counts connections, and may refuse others from the first request on.
struct Counts {
    echo: tcp::Echo,
    count: Arc<AtomicU64>,
    refuses: bool,
}

impl Service for Counts {
    fn serve(&mut self, events: &mut Vec<Event>, stack: &mut Stack, io: &mut Io) {
        for event in &*events {
            match event {
                Event::Connected { .. } => _ = self.count.fetch_add(1, Ordering::Relaxed),
                Event::Received { .. } if self.refuses => stack.unlisten(PORT),
                _ => {}
            }
        }
        self.echo.serve(events, stack, io);
    }
}

/// A round takes 80 of a step's 100 ms: connections are opened anew behind its end.
#[test]
fn connections_that_are_opened_anew_between_two_steps_are_counted() {
    for refuses in [false, true] {
        let counts = [0, 1].map(|_| Arc::new(AtomicU64::new(0)));
        let settings = Settings { messages: Some(1), depth: 1, rates: vec![None; 2], ..settings() };
        let servers = counts.clone().map(|count| Counts { echo: tcp::Echo::default(), count, refuses });
        let mut two = Two::new(settings, servers);
        two.nets.iter_mut().for_each(|net| net.delay_ns = 40 * MS);
        two.run(100 * MS);
        two.run_first(SECOND);
        let results = two.end();
        let opened: u64 = results.steps.iter().map(|step| step.opened).sum();
        assert_eq!(results.connected + opened, counts[0].load(Ordering::Relaxed), "{results:?}");
        let lost = results.lost + results.steps.iter().map(|step| step.lost).sum::<u64>();
        assert_eq!((opened, lost), if refuses { (0, 10) } else { (10, 0) }, "{results:?}");
        assert_eq!(results.is_whole, !refuses, "{results:?}");
    }
}
