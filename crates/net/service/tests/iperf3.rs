//! Our client of iperf3 and our server, in simulated time, and clients that do not behave.
#![allow(clippy::unwrap_used)]

mod common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use common::{ADDRESSES, Came, MS, Net, PORT, SECOND, Script};
use proptest::prelude::*;
use service::iperf3::{Client, Outcome, Server, Wanted};
use tcp::{Event, Id, Io, Reason, Report, Service, Stack};

/// Buffers of each host: more than four streams keep in their queues.
const BUFFERS: usize = 4096;

fn wanted() -> Wanted {
    Wanted {
        local: ADDRESSES[0],
        remote: (ADDRESSES[1], PORT),
        time_ns: SECOND,
        omit_s: 0,
        bytes: None,
        streams: 1,
        reverse: false,
        seed: 7,
    }
}

/// What a client saw of a server.
fn run(wanted: Wanted) -> Outcome {
    run_with(wanted, Server::default(), MS)
}

/// The same, with a server and with as many nanoseconds between them.
fn run_with(wanted: Wanted, server: impl Service + 'static, delay_ns: i64) -> Outcome {
    let (shown, stop) = (Arc::new(Mutex::new(Outcome::default())), Arc::new(AtomicBool::new(false)));
    let mut net = Net::new(Client::new(wanted, &shown, &stop), server, BUFFERS);
    net.delay_ns = delay_ns;
    net.run_to_end(300 * SECOND);
    assert!(stop.load(Ordering::Relaxed));
    shown.lock().unwrap().clone()
}

fn bytes(streams: &[service::iperf3::StreamResult]) -> u64 {
    streams.iter().map(|stream| stream.bytes).sum()
}

#[test]
fn both_ends_see_what_was_moved() {
    for (streams, reverse) in [(1, false), (1, true), (4, false), (4, true)] {
        let outcome = run(Wanted { streams, reverse, ..wanted() });
        assert_eq!((outcome.failure, outcome.is_whole), (None, true), "{streams} {reverse}");
        assert_eq!((outcome.own.len(), outcome.other.len()), (streams as usize, streams as usize));
        let (sender, receiver) =
            if reverse { (&outcome.other, &outcome.own) } else { (&outcome.own, &outcome.other) };
        let (sent, received) = (bytes(sender), bytes(receiver));
        // What is under way at the end is not received: a send buffer of each stream, and what
        // another one carries in the time that the word of the end takes.
        assert!(received > 10_000_000 && received <= sent, "{received} of {sent}");
        assert!(sent - received <= u64::from(streams) * (512 << 10), "{received} of {sent}");
        assert!(sender.iter().all(|stream| stream.retransmits == Some(0)));
        assert!(receiver.iter().all(|stream| stream.retransmits.is_none()));
        assert!(outcome.own.iter().all(|stream| (stream.seconds - 1.0).abs() < 0.01));
    }
}

/// What moves in the seconds that are left out counts at neither end, nor do they.
#[test]
fn the_first_seconds_may_be_left_out() {
    for (reverse, bytes) in [(false, None), (true, None), (false, Some(3_000_000)), (true, Some(3_000_000))] {
        let outcome = run(Wanted { reverse, bytes, omit_s: 3, ..wanted() });
        assert_eq!((outcome.failure, outcome.is_whole), (None, true), "{reverse} {bytes:?}");
        for end in [outcome.own[0], outcome.other[0]] {
            assert!(end.seconds < 1.01, "{end:?}");
            // 256 KiB in each round trip, and what was under way when counting began.
            let most = bytes.map_or(135_000_000, |bytes| bytes + 1_000_000);
            assert!((2_000_000..most).contains(&end.bytes), "{reverse} {bytes:?} {end:?}");
        }
    }
}

#[test]
fn so_many_bytes_are_moved_as_are_asked_for() {
    for reverse in [false, true] {
        let outcome = run(Wanted { streams: 3, bytes: Some(5_000_000), reverse, ..wanted() });
        assert_eq!((outcome.failure, outcome.is_whole), (None, true));
        let sender = if reverse { &outcome.other } else { &outcome.own };
        assert_eq!(bytes(sender), 5_000_000);
    }
}

/// A path on which a measurement lasts for longer than it may stand still.
#[test]
fn bytes_that_take_long_are_moved_as_long_as_they_move() {
    for reverse in [false, true] {
        let outcome =
            run_with(Wanted { bytes: Some(8_000_000), reverse, ..wanted() }, Server::default(), SECOND);
        assert_eq!((outcome.failure, outcome.is_whole), (None, true));
        let seconds = outcome.own[0].seconds;
        assert!(seconds > 35.0, "{seconds}");
    }
}

/// A server that says what it is told to, and takes what comes.
struct Says(Vec<u8>);

impl Service for Says {
    fn serve(&mut self, events: &mut Vec<Event>, stack: &mut Stack, io: &mut Io) {
        for event in events.drain(..) {
            match event {
                Event::Connected { connection, .. } => {
                    _ = stack.write(connection, &std::mem::take(&mut self.0), io);
                }
                Event::Received { connection, packet } => {
                    let _ = stack.consume(connection, packet.len(), io);
                    io.pool.free(packet);
                }
                Event::PeerFinished { connection } => _ = stack.finish(connection, io),
                _ => {}
            }
        }
    }
}

#[test]
fn servers_that_do_not_behave_are_left_with_a_reason() {
    let results = b"{\"streams\":[]}";
    let empty = [&[9, 10, 1, 2, 4, 13][..], &(results.len() as u32).to_be_bytes(), results, &[14]].concat();
    for (says, why) in [
        (&[][..], "does not go on"),
        (&[9], "does not go on"),
        (&[14], "DisplayResults out of its turn"),
        (&[9, 13], "ExchangeResults out of its turn"),
        (&[9, 10, 10], "CreateStreams out of its turn"),
        (&[9, 77], "said 77"),
        (&[0xFF], "busy"),
        (&[9, 0xFE, 0, 0, 0, 13, 0, 0, 0, 0], "error 13"),
        (&empty, "TestEnd out of its turn"),
        (&[9, 11, 10], "ended the test"),
    ] {
        let outcome = run_with(wanted(), Says(says.to_vec()), MS);
        let failure = outcome.failure.unwrap_or_default();
        assert!(failure.contains(why) && !outcome.is_whole, "{says:?}: {failure}");
    }
    // The streams are open, and nothing moves.
    for (reverse, bytes) in [(true, Some(1000)), (true, None), (false, None)] {
        let wanted = Wanted { reverse, bytes, ..wanted() };
        let outcome = run_with(wanted, Says(vec![9, 10, 1, 2]), MS);
        assert!(outcome.failure.unwrap_or_default().contains("does not go on"), "{reverse} {bytes:?}");
    }
}

/// A server that says the same again and again.
struct Repeats {
    word: u8,
    connection: Option<Id>,
}

impl Service for Repeats {
    fn serve(&mut self, events: &mut Vec<Event>, stack: &mut Stack, io: &mut Io) {
        for event in events.drain(..) {
            match event {
                Event::Connected { connection, .. } if self.connection.is_none() => {
                    self.connection = Some(connection);
                    let _ = stack.write(connection, &[9, 10][..if self.word == 9 { 0 } else { 2 }], io);
                    let _ = stack.set_timer(connection, Some(io.now_ns + SECOND), io);
                }
                Event::Timer { connection } => {
                    let _ = stack.write(connection, &[self.word], io);
                    let _ = stack.set_timer(connection, Some(io.now_ns + SECOND), io);
                }
                Event::Received { connection, packet } => {
                    let _ = stack.consume(connection, packet.len(), io);
                    io.pool.free(packet);
                }
                Event::PeerFinished { connection } => _ = stack.finish(connection, io),
                _ => {}
            }
        }
    }
}

#[test]
fn a_server_that_repeats_itself_is_left() {
    for word in [9, 1] {
        let outcome = run_with(wanted(), Repeats { word, connection: None }, MS);
        let failure = outcome.failure.unwrap_or_default();
        assert!(failure.contains("does not go on") && !outcome.is_whole, "{word}: {failure}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Whatever a server says, a client comes to an end; what is kept is given back.
    #[test]
    fn clients_end_whatever_servers_say(says in words(), reverse: bool, bytes: Option<u16>) {
        let bytes = bytes.map(u64::from);
        let outcome = run_with(Wanted { time_ns: 5 * MS, reverse, bytes, ..wanted() }, Says(says), MS);
        prop_assert!(!outcome.is_whole && outcome.failure.is_some());
    }

    /// Whatever a client says, a server leaves it.
    #[test]
    fn servers_end_whatever_clients_say(says in words(), piece in 1..64_usize) {
        let says = [COOKIE, &says].concat();
        let sends = says.chunks(piece).enumerate().map(|(n, piece)| (n as i64 * MS, piece.to_vec()));
        let (came, ..) = scripted(sends.collect());
        prop_assert!(came.lock().unwrap().closed.is_some());
    }
}

/// States and texts of both sides in any order, and bytes.
fn words() -> impl Strategy<Value = Vec<u8>> {
    let text = |text: &str| [&(text.len() as u32).to_be_bytes(), text.as_bytes()].concat();
    let texts = [
        text("{\"tcp\":true,\"time\":1,\"parallel\":1}"),
        text("{\"num\":1e300,\"parallel\":0}"),
        text("{\"streams\":[{\"id\":1,\"bytes\":-5}]}"),
        text("[[[["),
    ];
    let states = [1_u8, 2, 4, 9, 10, 12, 13, 14, 16, 0xFE].map(|state| vec![state]);
    let known = texts.into_iter().chain(states).collect::<Vec<_>>();
    let word = prop_oneof![
        4 => proptest::sample::select(known),
        1 => proptest::collection::vec(any::<u8>(), 0..12),
    ];
    proptest::collection::vec(word, 0..10).prop_map(|words| words.concat())
}

/// Runs a client that sends what it is told to; what came, and how many tests failed.
fn scripted(sends: Vec<(i64, Vec<u8>)>) -> (Arc<Mutex<Came>>, u64, u64) {
    let (report, mut server) = (Report::default(), Server::default());
    server.report_to(&report);
    let script = Script { sends, ..Script::default() };
    let came = script.came.clone();
    let mut net = Net::new(script, server, BUFFERS);
    net.run_to_end(1000 * SECOND);
    drop(net);
    let count = |name| report.lock().unwrap().iter().find(|counter| counter.name == name).unwrap().value;
    (came, count("iperf3_failed"), count("iperf3_refused"))
}

const COOKIE: &[u8] = b"abcdefghijklmnopqrstuvwxyz2345674444\0";

#[test]
fn who_does_not_go_on_is_left() {
    let text = b"{\"tcp\":true,\"parallel\":2,\"time\":1}";
    let whole = [COOKIE, &(text.len() as u32).to_be_bytes(), text].concat();
    for (sends, states) in [
        (COOKIE[..20].to_vec(), &b""[..]),
        (COOKIE.to_vec(), &[9, 11][..]),
        (whole.clone(), &[9, 10, 11]),
        ([COOKIE, &[0xFF; 4]].concat(), &[9, 0xFE, 0, 0, 0, 13, 0, 0, 0, 0]),
        ([&whole[..], &[4]].concat(), &[9, 10, 11]),
    ] {
        let (came, failed, refused) = scripted(vec![(0, sends)]);
        let came = came.lock().unwrap();
        assert_eq!((&came.bytes[..], failed + refused), (states, 1));
        let (reason, at_ns) = came.closed.unwrap();
        assert!(at_ns < 15 * SECOND, "{reason:?} after {at_ns} ns");
        assert_eq!(reason == Reason::Reset, states.is_empty());
    }
}

#[test]
fn what_is_not_there_is_refused_as_iperf3_refuses_it() {
    for text in [
        &b"{\"udp\":true,\"reverse\":true}"[..],
        b"{\"tcp\":true,\"bidirectional\":1}",
        b"{\"parallel\":1000}",
    ] {
        let sends = [COOKIE, &(text.len() as u32).to_be_bytes(), text].concat();
        let (came, failed, refused) = scripted(vec![(0, sends)]);
        assert_eq!(came.lock().unwrap().bytes, [9, 0xFE, 0, 0, 0, 13, 0, 0, 0, 0]);
        assert_eq!((failed, refused), (0, 1));
    }
}
