//! Servers and clients that do not behave, in simulated time: what a server keeps of them is
//! bounded, and who takes too long is left.
#![allow(clippy::unwrap_used)]

mod common;

use std::sync::{Arc, Mutex};

use common::{Came, MS, Net, SECOND, Script};
use service::http::Files;
use service::memcached::Limits;
use service::{Http, Memcached, Protocol, Server};
use tcp::{Reason, Report};

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
