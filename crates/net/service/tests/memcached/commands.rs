//! The text protocol of the cache: a dialogue is a request and what must be answered, and the
//! answers are the same wherever the requests are cut and however little room there is.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use proptest::prelude::*;
use service::memcached::{Limits, Session};
use service::{Buffer, Memcached, Output, Protocol};

/// Unix time at the start.
const START_S: i64 = 1_700_000_000;
const SECOND_NS: i64 = 1_000_000_000;

/// A server and one client.
struct Client {
    server: Memcached,
    session: Session,
    output: Buffer,
    has_ended: bool,
}

impl Client {
    fn with(limits: Limits) -> Client {
        let server = Memcached::servers(limits, START_S).pop().unwrap();
        Client { server, session: Session::default(), output: Buffer::default(), has_ended: false }
    }

    fn new() -> Client {
        Client::with(Limits::default())
    }

    fn wait_s(&mut self, seconds: i64) {
        self.output.now_ns += seconds * SECOND_NS;
    }

    /// Sends a request in pieces of so many bytes, with so much room for each step of the
    /// answer; the answer.
    fn ask_in(&mut self, request: &[u8], piece: usize, room: usize) -> Vec<u8> {
        for piece in request.chunks(piece.max(1)) {
            let mut rest = piece;
            loop {
                self.output.room = room;
                let taken = self.server.take(&mut self.session, rest, &mut self.output);
                rest = &rest[taken.used..];
                self.has_ended |= taken.ends;
                let is_waiting = self.server.is_answering(&self.session) || self.output.is_full();
                let is_over = rest.is_empty() && !is_waiting;
                if is_over || taken.ends {
                    break;
                }
            }
        }
        std::mem::take(&mut self.output.bytes)
    }

    fn ask(&mut self, request: impl AsRef<[u8]>) -> String {
        String::from_utf8(self.ask_in(request.as_ref(), usize::MAX, usize::MAX)).unwrap()
    }

    /// A statistic.
    fn stat(&mut self, name: &str) -> u64 {
        let all = self.ask("stats\r\n");
        let line = all.lines().find_map(|line| line.strip_prefix(&format!("STAT {name} ")));
        line.unwrap_or_else(|| panic!("no {name} in {all}")).parse().unwrap()
    }
}

/// What is asked and what is answered, line by line, of commands that have no value in front.
fn dialogue(client: &mut Client, lines: &[(&str, &str)]) {
    for (request, answer) in lines {
        assert_eq!(client.ask(format!("{request}\r\n")), *answer, "{request}");
    }
}

#[test]
fn storage_commands_store_under_their_conditions() {
    dialogue(
        &mut Client::new(),
        &[
            ("get a", "END\r\n"),
            ("replace a 1 0 1\r\nx", "NOT_STORED\r\n"),
            ("append a 1 0 1\r\nx", "NOT_STORED\r\n"),
            ("prepend a 1 0 1\r\nx", "NOT_STORED\r\n"),
            ("add a 7 0 3\r\nbcd", "STORED\r\n"),
            ("add a 1 0 1\r\nx", "NOT_STORED\r\n"),
            ("get a", "VALUE a 7 3\r\nbcd\r\nEND\r\n"),
            ("append a 9 9 1\r\ne", "STORED\r\n"),
            ("prepend a 9 9 1\r\na", "STORED\r\n"),
            ("get a", "VALUE a 7 5\r\nabcde\r\nEND\r\n"),
            ("replace a 8 0 2\r\n\r\n", "STORED\r\n"),
            ("get  a   b a ", "VALUE a 8 2\r\n\r\n\r\nVALUE a 8 2\r\n\r\n\r\nEND\r\n"),
            ("set a 4294967295 0 0\r\n", "STORED\r\n"),
            ("get a", "VALUE a 4294967295 0\r\n\r\nEND\r\n"),
            ("set b 0 0 1 noreply\r\nz", ""),
            ("add b 0 0 1 noreply\r\nz", ""),
            ("get b", "VALUE b 0 1\r\nz\r\nEND\r\n"),
            ("delete b", "DELETED\r\n"),
            ("delete b", "NOT_FOUND\r\n"),
            ("delete b 0", "NOT_FOUND\r\n"),
            ("delete a noreply", ""),
            ("get a b", "END\r\n"),
        ],
    );
}

#[test]
fn cas_stores_what_nobody_has_changed() {
    let mut client = Client::new();
    dialogue(&mut client, &[("cas a 0 0 1 5\r\nx", "NOT_FOUND\r\n"), ("set a 3 0 1\r\nx", "STORED\r\n")]);
    let unique = |client: &mut Client| -> u64 {
        let all = client.ask("gets a\r\n");
        all.lines().next().unwrap().rsplit(' ').next().unwrap().parse().unwrap()
    };
    let first = unique(&mut client);
    dialogue(
        &mut client,
        &[
            (&format!("cas a 0 0 1 {}\r\ny", first + 1), "EXISTS\r\n"),
            (&format!("cas a 0 0 1 {first}\r\ny"), "STORED\r\n"),
            (&format!("cas a 0 0 1 {first}\r\nz"), "EXISTS\r\n"),
            ("get a", "VALUE a 0 1\r\ny\r\nEND\r\n"),
        ],
    );
    assert_ne!(unique(&mut client), first);
    assert_eq!((client.stat("cas_hits"), client.stat("cas_badval"), client.stat("cas_misses")), (1, 2, 1));
}

#[test]
fn numbers_are_counted_in_64_bits() {
    dialogue(
        &mut Client::new(),
        &[
            ("incr n 1", "NOT_FOUND\r\n"),
            ("set n 5 0 2\r\n10", "STORED\r\n"),
            ("incr n 1", "11\r\n"),
            ("decr n 2", "9\r\n"),
            ("get n", "VALUE n 5 2\r\n9 \r\nEND\r\n"),
            ("decr n 20", "0\r\n"),
            ("incr n 18446744073709551615", "18446744073709551615\r\n"),
            ("incr n 2", "1\r\n"),
            ("incr n -1", "CLIENT_ERROR invalid numeric delta argument\r\n"),
            ("incr n", "ERROR\r\n"),
            ("incr n 1 noreply", ""),
            ("set t 0 0 1\r\nx", "STORED\r\n"),
            ("incr t 1", "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n"),
        ],
    );
}

#[test]
fn items_expire_and_are_touched() {
    let mut client = Client::new();
    let absolute = START_S + 100;
    dialogue(
        &mut client,
        &[
            ("set a 0 10 1\r\nx", "STORED\r\n"),
            (&format!("set b 0 {absolute} 1\r\nx"), "STORED\r\n"),
            ("set c 0 -1 1\r\nx", "STORED\r\n"),
            ("set d 0 0 1\r\nx", "STORED\r\n"),
            ("get a b c d", "VALUE a 0 1\r\nx\r\nVALUE b 0 1\r\nx\r\nVALUE d 0 1\r\nx\r\nEND\r\n"),
            ("touch a 50", "TOUCHED\r\n"),
            ("touch e 50", "NOT_FOUND\r\n"),
            ("touch a x", "CLIENT_ERROR invalid exptime argument\r\n"),
            ("gat 60 d", "VALUE d 0 1\r\nx\r\nEND\r\n"),
        ],
    );
    client.wait_s(30);
    dialogue(&mut client, &[("get a", "VALUE a 0 1\r\nx\r\nEND\r\n")]);
    client.wait_s(25);
    dialogue(&mut client, &[("get a d", "VALUE d 0 1\r\nx\r\nEND\r\n")]);
    client.wait_s(10);
    dialogue(&mut client, &[("get d b", "VALUE b 0 1\r\nx\r\nEND\r\n")]);
    client.wait_s(35);
    dialogue(&mut client, &[("get b", "END\r\n"), ("add b 0 0 1\r\ny", "STORED\r\n")]);
}

#[test]
fn flushing_hides_what_was_stored_before() {
    let mut client = Client::new();
    dialogue(
        &mut client,
        &[
            ("set a 0 0 1\r\nx", "STORED\r\n"),
            ("flush_all", "OK\r\n"),
            ("get a", "END\r\n"),
            ("set a 0 0 1\r\ny", "STORED\r\n"),
            ("get a", "VALUE a 0 1\r\ny\r\nEND\r\n"),
            ("flush_all 10 noreply", ""),
            ("flush_all x", "CLIENT_ERROR invalid exptime argument\r\n"),
            ("get a", "VALUE a 0 1\r\ny\r\nEND\r\n"),
        ],
    );
    client.wait_s(11);
    dialogue(&mut client, &[("get a", "END\r\n"), ("set a 0 0 1\r\ny", "STORED\r\n")]);
    client.wait_s(11);
    dialogue(&mut client, &[("get a", "VALUE a 0 1\r\ny\r\nEND\r\n")]);
}

#[test]
fn wrong_requests_are_refused_and_the_next_ones_are_served() {
    let long = "k".repeat(251);
    let mut client = Client::new();
    dialogue(
        &mut client,
        &[
            ("", "ERROR\r\n"),
            ("nonsense", "ERROR\r\n"),
            ("GET a", "ERROR\r\n"),
            ("get", "ERROR\r\n"),
            ("set a 0 0", "ERROR\r\n"),
            ("touch a", "ERROR\r\n"),
            ("verbosity", "ERROR\r\n"),
            ("verbosity 1", "OK\r\n"),
            ("verbosity 1 noreply", ""),
            ("verbosity x", "CLIENT_ERROR bad command line format\r\n"),
            (&format!("get {long}"), "CLIENT_ERROR bad command line format\r\n"),
            ("set a x 0 1", "CLIENT_ERROR bad command line format\r\n"),
            ("set a 0 0 -1", "CLIENT_ERROR bad command line format\r\n"),
            ("set a 18446744073709551616 0 1", "CLIENT_ERROR bad command line format\r\n"),
            ("set a 0 0 99999999999", "CLIENT_ERROR bad command line format\r\n"),
            ("delete a 5", "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]\r\n"),
            ("set a 0 0 1\r\nxyz", "CLIENT_ERROR bad data chunk\r\nERROR\r\n"),
            ("shutdown", "ERROR: shutdown not enabled\r\n"),
            ("stats nonsense", "ERROR\r\n"),
            ("version", concat!("VERSION 1.6.18-ixora-", env!("CARGO_PKG_VERSION"), "\r\n")),
        ],
    );
    assert!(client.stat("bad_requests") >= 14);
    assert!(!client.has_ended);
    client.ask("quit\r\n");
    assert!(client.has_ended);
}

#[test]
fn who_wants_no_reply_gets_none_though_blanks_stand_behind_it() {
    let lines = [
        "set a 0 0 1 noreply \r\n1",
        "incr a 1 noreply ",
        "touch a 0 noreply  ",
        "verbosity 1 noreply ",
        "delete a noreply ",
        "delete a 0 noreply ",
        "flush_all noreply ",
        "flush_all 0 noreply ",
    ];
    let mut client = Client::new();
    lines.iter().for_each(|line| assert_eq!(client.ask(format!("{line}\r\n")), "", "{line}"));
    // It is a word of its own, behind the key.
    assert_eq!(client.ask("delete noreply\r\n"), "NOT_FOUND\r\n");
    assert_eq!(client.ask("delete anoreply\r\n"), "NOT_FOUND\r\n");
}

#[test]
fn who_wants_no_reply_is_told_of_no_error_either() {
    let mut client = Client::with(Limits { value: 1000, ..Limits::default() });
    client.ask("set t 0 0 1\r\nx\r\n");
    let value = "v".repeat(5000);
    let long = "k".repeat(251);
    dialogue(
        &mut client,
        &[
            (&format!("set t 0 0 5000 noreply\r\n{value}"), ""),
            (&format!("append t 0 0 5000 noreply\r\n{value}"), ""),
            ("get t", "END\r\n"),
            ("set t 0 0 1 noreply\r\nx", ""),
            ("incr t 1 noreply", ""),
            ("incr t x noreply", ""),
            (&format!("incr {long} 1 noreply"), ""),
            ("touch t x noreply", ""),
            ("delete t 5 noreply", ""),
            ("flush_all x noreply", ""),
            ("verbosity x noreply", ""),
            ("cache_memlimit 1 noreply", ""),
            ("set t x 0 1 noreply", ""),
            // What the data is not ended by is no word of the request.
            ("set t 0 0 1 noreply\r\nxyz", "ERROR\r\n"),
            // Meta commands tell of errors in any case.
            (&format!("ms t 5000 q\r\n{value}"), "SERVER_ERROR object too large for cache\r\n"),
            ("ms t 1 q\r\nxyz", "CLIENT_ERROR bad data chunk\r\nERROR\r\n"),
        ],
    );
    assert!(client.stat("bad_requests") >= 11);
}

/// A cache without room refuses a value that comes in pieces, and says nothing of it.
#[test]
fn who_wants_no_reply_is_not_told_that_there_is_no_room() {
    let limits = Limits { memory: 100_000, value: 60_000, threads: 1 };
    let mut client = Client::with(limits);
    client.ask_in(&[b"set a 0 0 50000\r\n".as_slice(), &[b'x'; 49_000]].concat(), 1000, usize::MAX);
    let other = std::mem::take(&mut client.session);
    let set = [b"set b 0 0 59000 noreply\r\n".as_slice(), &[b'x'; 59_000], b"\r\nget b\r\n"].concat();
    assert_eq!(client.ask_in(&set, 1000, usize::MAX), b"END\r\n");
    assert_eq!(client.stat("store_no_memory"), 1);
    client.server.forget(other);
}

#[test]
fn a_line_without_an_end_ends_the_connection() {
    let mut client = Client::new();
    assert_eq!(client.ask("x".repeat(3000)), "CLIENT_ERROR line too long\r\n");
    assert!(client.has_ended);
    // Asking for many keys may take a longer one.
    let mut client = Client::new();
    let keys: String = (0..5000).map(|n| format!(" key{n}")).collect();
    assert_eq!(client.ask_in(format!("get{keys}\r\n").as_bytes(), 1460, 4000), b"END\r\n");
    assert_eq!(client.stat("get_misses"), 5000);
}

#[test]
fn a_value_too_large_is_thrown_away_with_what_it_should_replace() {
    let mut client = Client::with(Limits { value: 1000, ..Limits::default() });
    client.ask("set a 0 0 1\r\nx\r\n");
    let answer = client.ask(format!("set a 0 0 5000\r\n{}\r\nget a\r\n", "v".repeat(5000)));
    assert_eq!(answer, "SERVER_ERROR object too large for cache\r\nEND\r\n");
    assert_eq!(client.stat("store_too_large"), 1);
}

#[test]
fn the_longest_unused_items_make_room() {
    let limits = Limits { memory: 100_000, value: 10_000, threads: 1 };
    let mut client = Client::with(limits);
    let value = "v".repeat(800);
    for n in 0..1000 {
        assert_eq!(client.ask(format!("set k{n} 0 0 800\r\n{value}\r\n")), "STORED\r\n");
        assert!(client.ask("get k0\r\n").starts_with("VALUE"), "{n}: k0 is used all the time");
    }
    let (items, bytes) = (client.stat("curr_items"), client.stat("bytes"));
    assert!((90..125).contains(&items) && bytes <= 100_000, "{items} items of {bytes} bytes");
    assert_eq!(client.stat("evictions"), 1000 - items);
    assert_eq!(client.ask("get k1 k500\r\n"), "END\r\n");
    assert!(client.ask("get k999\r\n").starts_with("VALUE"));
}

#[test]
fn values_on_their_way_are_counted_to_the_memory() {
    let limits = Limits { memory: 100_000, value: 60_000, threads: 1 };
    let mut client = Client::with(limits);
    client.ask_in(&[b"set a 0 0 50000\r\n".as_slice(), &[b'x'; 49_000]].concat(), 1000, usize::MAX);
    let mut other = Session::default();
    std::mem::swap(&mut other, &mut client.session);
    let answer =
        client.ask_in(&[b"set b 0 0 59000\r\n".as_slice(), &[b'x'; 59_002]].concat(), 1000, usize::MAX);
    assert_eq!(answer, b"SERVER_ERROR out of memory storing object\r\n");
    client.server.forget(other);
    assert_eq!(client.stat("bytes"), 0);
    assert_eq!(client.ask("set c 0 0 1\r\nx\r\n"), "STORED\r\n");
}

#[test]
fn values_that_are_never_whole_leave_room_for_others() {
    let limits = Limits { memory: 100_000, value: 10_000, threads: 1 };
    let mut client = Client::with(limits);
    assert_eq!(client.ask("set kept 0 0 1\r\nx\r\n"), "STORED\r\n");
    let mut others = vec![];
    let mut refused = 0;
    for n in 0..30 {
        let set = [format!("set k{n} 0 0 9000\r\n").as_bytes(), &[b'x'; 9000]].concat();
        let answer = client.ask_in(&set, 1000, usize::MAX);
        refused += usize::from(answer == b"SERVER_ERROR out of memory storing object\r\n");
        others.push(std::mem::take(&mut client.session));
    }
    assert!((20..29).contains(&refused), "{refused} of thirty were refused");
    assert_eq!(client.stat("evictions"), 0);
    let value = "v".repeat(9000);
    assert_eq!(client.ask(format!("set a 0 0 9000\r\n{value}\r\n")), "STORED\r\n");
    assert_eq!(client.ask("get kept\r\n"), "VALUE kept 0 1\r\nx\r\nEND\r\n");
    others.into_iter().for_each(|other| client.server.forget(other));
}

#[test]
fn nothing_is_evicted_for_an_item_that_finds_no_room_anyway() {
    let limits = Limits { memory: 30_000, value: 20_000, threads: 1 };
    let mut client = Client::with(limits);
    let value = "v".repeat(15_000);
    client.ask(format!("set a 0 0 15000\r\n{value}\r\nset b 0 0 1\r\nx\r\n"));
    client.output.room = 1000;
    client.server.take(&mut client.session, b"get a\r\n", &mut client.output);
    let reader = std::mem::take(&mut client.session);
    client.output.bytes.clear();
    assert_eq!(client.ask("delete a\r\n"), "DELETED\r\n");
    // The item stays until it is sent.
    let set = format!("set c 0 0 15000\r\n{value}\r\n");
    assert_eq!(client.ask(&set), "SERVER_ERROR out of memory storing object\r\n");
    assert_eq!((client.stat("evictions"), client.stat("curr_items")), (0, 1));
    client.server.forget(reader);
    assert_eq!(client.ask(&set), "STORED\r\n");
    assert_eq!(client.ask("get b\r\n"), "VALUE b 0 1\r\nx\r\nEND\r\n");
}

#[test]
fn what_is_being_sent_stays_as_it_was() {
    let limits = Limits { memory: 30_000, value: 20_000, threads: 1 };
    let mut client = Client::with(limits);
    let value = "v".repeat(15_000);
    client.ask(format!("set a 0 0 15000\r\n{value}\r\n"));
    client.output.room = 1000;
    let taken = client.server.take(&mut client.session, b"get a\r\n", &mut client.output);
    assert_eq!(taken.used, 7);
    let mut reader = Session::default();
    std::mem::swap(&mut reader, &mut client.session);
    let begun = std::mem::take(&mut client.output.bytes);
    // The item is replaced and room is made, while an answer is sent out of it.
    assert_eq!(client.ask("set a 0 0 1\r\nx\r\n"), "STORED\r\n");
    assert!(client.stat("bytes") > 15_000);
    std::mem::swap(&mut reader, &mut client.session);
    let rest = client.ask_in(b"\r\n", 1, 1000);
    let all = String::from_utf8([begun, rest].concat()).unwrap();
    assert_eq!(all, format!("VALUE a 0 15000\r\n{value}\r\nEND\r\nERROR\r\n"));
    assert!(client.stat("bytes") < 1000);
}

/// Clients that take their answers slowly keep a quarter of the memory at most; to others their
/// answers are copied.
#[test]
fn slow_readers_leave_room_for_others() {
    let limits = Limits { memory: 100_000, value: 30_000, threads: 1 };
    let mut client = Client::with(limits);
    let value = "v".repeat(20_000);
    let mut readers = vec![];
    for n in 0..4 {
        assert_eq!(client.ask(format!("set k{n} 0 0 20000\r\n{value}\r\n")), "STORED\r\n");
    }
    for n in 0..4 {
        client.output.room = 1000;
        client.server.take(&mut client.session, format!("get k{n}\r\n").as_bytes(), &mut client.output);
        readers.push((std::mem::take(&mut client.session), std::mem::take(&mut client.output.bytes)));
    }
    assert_eq!(client.stat("answers_copied"), 3);
    let large = "w".repeat(29_000);
    assert_eq!(client.ask(format!("set l 0 0 29000\r\n{large}\r\n")), "STORED\r\n");
    assert_eq!(client.stat("store_no_memory"), 0);
    for (n, (session, begun)) in readers.into_iter().enumerate() {
        client.session = session;
        let rest = client.ask_in(b"mn\r\n", usize::MAX, 1000);
        let all = String::from_utf8([begun, rest].concat()).unwrap();
        assert_eq!(all, format!("VALUE k{n} 0 20000\r\n{value}\r\nEND\r\nMN\r\n"));
    }
}

/// Each change has a number of its own, and who made it is told that one and no other.
#[test]
fn counting_tells_the_number_of_its_own_change() {
    const COUNTS: usize = 200_000;
    let servers = Memcached::servers(Limits { threads: 2, ..Limits::default() }, START_S);
    let clients = servers.into_iter().map(|server| Client { server, ..Client::new() });
    let threads: Vec<_> = clients
        .map(|mut client| {
            std::thread::spawn(move || {
                let count = |_| client.ask("ma n N0 J1 c v\r\n");
                (0..COUNTS).map(count).collect::<Vec<String>>()
            })
        })
        .collect();
    let mut all: Vec<(u64, u64)> = vec![];
    for answer in threads.into_iter().flat_map(|thread| thread.join().unwrap()) {
        let (head, value) = answer.trim_end().split_once("\r\n").unwrap();
        let cas = head.rsplit_once(" c").unwrap().1;
        all.push((value.parse().unwrap(), cas.parse().unwrap()));
    }
    all.sort_unstable();
    assert!(all.iter().map(|(value, _)| *value).eq(1..=2 * COUNTS as u64));
    assert!(all.is_sorted_by(|one, next| one.1 < next.1), "two changes have one number");
}

#[test]
fn items_are_listed() {
    let mut client = Client::new();
    dialogue(
        &mut client,
        &[
            ("lru_crawler metadump all", "END\r\n"),
            ("set a 0 0 3\r\nabc", "STORED\r\n"),
            ("set b%/c 0 90 2\r\nde", "STORED\r\n"),
            ("set gone 0 -1 2\r\nde", "STORED\r\n"),
            ("ms AAEC 2 b\r\nhi", "HD\r\n"),
            ("delete a", "DELETED\r\n"),
            ("lru_crawler mgdump 3,1", "mg b%/c\r\nmg AAEC b\r\nEN\r\n"),
            ("stats cachedump 1 0", "ITEM b%/c [2 b; 1700000090 s]\r\nITEM AAEC [2 b; 0 s]\r\nEND\r\n"),
            ("stats cachedump 1 1", "ITEM b%/c [2 b; 1700000090 s]\r\nEND\r\n"),
            ("stats cachedump 2 0", "END\r\n"),
            ("stats cachedump", "CLIENT_ERROR bad command line\r\n"),
            ("lru_crawler metadump 2", "BADCLASS invalid class id\r\n"),
            ("lru_crawler", "ERROR\r\n"),
            ("lru_crawler sleep x", "CLIENT_ERROR bad command line format\r\n"),
            ("lru_crawler crawl all", "OK\r\n"),
        ],
    );
    let all = client.ask("lru_crawler metadump all\r\n");
    let lines: Vec<&str> = all.lines().collect();
    assert!(lines[0].starts_with("key=b%25%2Fc exp=1700000090 la=1700000000 cas=2 fetch=no cls=1 size="));
    assert!(lines[1].starts_with("key=%00%01%02 exp=-1 la=1700000000 cas=4 fetch=no "), "{all}");
    assert_eq!(lines[2..], ["END"]);
    // However little room there is, and however many there are.
    for n in 0..3000 {
        client.ask(format!("set key{n} 0 0 1\r\nx\r\n"));
    }
    let some = client.ask_in(b"lru_crawler mgdump all\r\nmn\r\n", 7, 50);
    let some = String::from_utf8(some).unwrap();
    assert_eq!(some.lines().filter(|line| line.starts_with("mg key")).count(), 3000);
    assert!(some.ends_with("EN\r\nMN\r\n"));
}

/// Many clients that list what is gone do not keep all others waiting.
#[test]
fn one_list_is_sent_at_a_time() {
    let limits = Limits { threads: 2, ..Limits::default() };
    let client =
        |server| Client { server, session: Session::default(), output: Buffer::default(), has_ended: false };
    let mut servers = Memcached::servers(limits, START_S).into_iter().map(client);
    let [mut lists, mut waits] = [servers.next().unwrap(), servers.next().unwrap()];
    (0..3000).for_each(|n| _ = lists.ask(format!("set key{n} 0 0 1\r\nx\r\n")));
    lists.output.room = 100;
    lists.server.take(&mut lists.session, b"lru_crawler mgdump all\r\n", &mut lists.output);
    assert!(lists.server.is_answering(&lists.session));
    let refused = [
        ("lru_crawler metadump all", "BUSY currently processing crawler request\r\n"),
        ("stats cachedump 1 0", "SERVER_ERROR another list is being sent: ask again\r\n"),
    ];
    dialogue(&mut waits, &refused);
    // Its client has gone.
    lists.server.forget(std::mem::take(&mut lists.session));
    assert_eq!(waits.ask("lru_crawler mgdump all\r\n").lines().count(), 3001);
    assert_eq!(waits.ask("stats cachedump 1 0\r\n").lines().count(), 3001, "the first one has ended");
}

/// What has no answer that fills a packet is done in pieces: others have their turns meanwhile.
#[test]
fn much_that_is_not_there_takes_several_turns() {
    const COUNT: usize = 20_000;
    let mut client = Client::new();
    (0..COUNT).for_each(|n| _ = client.ask(format!("set key{n} 0 0 1\r\nx\r\n")));
    client.ask("flush_all\r\n");
    let keys: String = (0..COUNT).map(|n| format!(" key{n}")).collect();
    for request in ["lru_crawler metadump all\r\n", "stats cachedump 1 0\r\n", &format!("get{keys}\r\n")] {
        client.output.room = usize::MAX;
        let mut taken = client.server.take(&mut client.session, request.as_bytes(), &mut client.output);
        let mut turns = 1;
        while taken.is_paused {
            assert!(client.output.bytes.is_empty() && client.server.is_answering(&client.session));
            taken = client.server.take(&mut client.session, &[], &mut client.output);
            turns += 1;
        }
        assert!((COUNT / 1000..=COUNT).contains(&turns), "{turns} turns");
        assert_eq!(std::mem::take(&mut client.output.bytes), b"END\r\n");
    }
}

/// A flush that is due has taken place, whoever looks first: a list, or one who stores.
#[test]
fn a_flush_that_is_due_takes_what_was_stored_before() {
    for first in ["lru_crawler mgdump all", "set b 0 0 1\r\ny"] {
        let mut client = Client::new();
        client.ask("set a 0 0 1\r\nx\r\nflush_all 10\r\n");
        client.wait_s(11);
        let answer = client.ask(format!("{first}\r\n"));
        assert!(["EN\r\n", "STORED\r\n"].contains(&&answer[..]), "{answer}");
        let b = if first.starts_with("set") { "VALUE b 0 1\r\ny\r\n" } else { "" };
        dialogue(&mut client, &[("get a", "END\r\n"), ("get b", &format!("{b}END\r\n"))]);
    }
}

#[test]
fn the_memory_can_be_bounded_anew() {
    let mut client = Client::with(Limits { memory: 32 << 20, value: 1 << 20, threads: 1 });
    let value = "v".repeat(100_000);
    let fill = |client: &mut Client| {
        (0..400).for_each(|n| {
            assert_eq!(client.ask(format!("set k{n} 0 0 100000\r\n{value}\r\n")), "STORED\r\n");
        })
    };
    fill(&mut client);
    assert!(client.stat("bytes") > 30 << 20);
    dialogue(
        &mut client,
        &[
            ("cache_memlimit", "ERROR\r\n"),
            ("cache_memlimit x", "ERROR\r\n"),
            ("cache_memlimit 7", "MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m\r\n"),
            ("cache_memlimit 33", "SERVER_ERROR the server was started with 32m, the most\r\n"),
            ("cache_memlimit 10", "OK\r\n"),
        ],
    );
    assert_eq!(client.stat("limit_maxbytes"), 10 << 20);
    fill(&mut client);
    assert!((9 << 20..=10 << 20).contains(&client.stat("bytes")));
    dialogue(&mut client, &[("cache_memlimit 32 noreply", "")]);
    fill(&mut client);
    assert!(client.stat("bytes") > 30 << 20);
}

#[test]
fn statistics_have_kinds() {
    let mut client = Client::new();
    dialogue(
        &mut client,
        &[
            ("stats items", "END\r\n"),
            ("stats sizes", "STAT sizes_status disabled\r\nEND\r\n"),
            ("stats conns", "END\r\n"),
            ("stats detail on", "OK\r\n"),
            ("stats detail dump", "END\r\n"),
            ("set a 0 0 1\r\nx", "STORED\r\n"),
            ("get a b", "VALUE a 0 1\r\nx\r\nEND\r\n"),
        ],
    );
    client.wait_s(7);
    let items = client.ask("stats items\r\n");
    assert!(items.starts_with("STAT items:1:number 1\r\nSTAT items:1:age 7\r\n"), "{items}");
    assert!(client.ask("stats slabs\r\n").contains("STAT 1:get_hits 1\r\n"));
    assert!(client.ask("stats settings\r\n").contains("STAT shutdown_command no\r\n"));
    dialogue(&mut client, &[("stats reset", "RESET\r\n")]);
    assert_eq!((client.stat("get_hits"), client.stat("curr_items")), (0, 1));
}

#[test]
fn what_slabs_are_tuned_with_is_answered() {
    dialogue(
        &mut Client::new(),
        &[
            ("slabs automove 1", "OK\r\n"),
            ("slabs automove x", "CLIENT_ERROR bad command line format\r\n"),
            ("slabs reassign 1 1", "SAME src and dst class are identical\r\n"),
            ("slabs reassign 1 2", "BADCLASS there are no slab classes\r\n"),
            ("slabs", "ERROR\r\n"),
            ("lru mode flat", "OK\r\n"),
            ("lru", "ERROR\r\n"),
            ("lru mode segmented", "OK\r\n"),
            ("lru tune 10 95 0.1 2.0", "ERROR hot and warm pcts must not exceed 80\r\n"),
            ("watch fetchers", "ERROR there are no logs to watch\r\n"),
        ],
    );
}

#[test]
fn clients_end_the_program_if_they_may() {
    let mut client = Client::new();
    let stop = Arc::new(AtomicBool::new(false));
    client.server.enable_shutdown(&stop);
    assert_eq!(client.ask("shutdown graceful\r\n"), "");
    assert!(client.has_ended && stop.load(Ordering::Relaxed));
}

#[test]
fn meta_get_returns_what_its_flags_ask_for() {
    let mut client = Client::new();
    client.ask("set a 5 100 3\r\nxyz\r\nset b 0 0 1\r\nx\r\n");
    client.wait_s(10);
    dialogue(
        &mut client,
        &[
            ("mn", "MN\r\n"),
            ("mg nothing v", "EN\r\n"),
            ("mg nothing v q", ""),
            ("mg nothing k O77", "EN knothing O77\r\n"),
            ("mg a", "HD\r\n"),
            ("mg b h l u", "HD h0 l10\r\n"),
            ("mg a s v t f", "VA 3 s3 t90 f5\r\nxyz\r\n"),
            ("mg b k h t Oabc c", "HD kb h0 t-1 Oabc c2\r\n"),
            ("mg b h l", "HD h1 l0\r\n"),
            ("mg a T50 t v q", "VA 3 t50\r\nxyz\r\n"),
            ("mg a C1 v c", "HD c1\r\n"),
            ("mg a C7 v c", "VA 3 c1\r\nxyz\r\n"),
            ("mg a Lpath/ Pfoo s", "HD s3\r\n"),
            // In their order: what stands in front of T sees the time that was left.
            ("mg a t T30", "HD t50\r\n"),
            ("mg a T60 t", "HD t60\r\n"),
            ("mg a T300 R70", "HD\r\n"),
            ("mg a T60 R20", "HD\r\n"),
            ("mg a R70 T300", "HD W\r\n"),
        ],
    );
}

#[test]
fn meta_set_has_modes_and_conditions() {
    dialogue(
        &mut Client::new(),
        &[
            ("ms a 3 T50 F9 c k Oq1\r\nabc", "HD c1 ka Oq1\r\n"),
            ("mg a v t f", "VA 3 t50 f9\r\nabc\r\n"),
            ("ms a 1 ME\r\nx", "NS\r\n"),
            ("ms b 1 MR k\r\nx", "NS kb\r\n"),
            ("ms a 2 MA s\r\nde", "HD s5\r\n"),
            ("ms a 1 MP\r\n_", "HD\r\n"),
            ("mg a v f", "VA 6 f9\r\n_abcde\r\n"),
            ("ms b 1 MA\r\nx", "NS\r\n"),
            ("ms b 1 MA N0\r\nx", "HD\r\n"),
            ("ms b 1 C99\r\ny", "EX\r\n"),
            ("ms c 1 C99\r\ny", "NF\r\n"),
            ("ms b 1 E1000 q\r\ny", ""),
            ("mg b c v", "VA 1 c1000\r\ny\r\n"),
            ("ms b 1 C900 I q\r\nz", ""),
            ("mg b v", "VA 1 X W\r\nz\r\n"),
            ("mg b v", "VA 1 Z X\r\nz\r\n"),
            ("ms b 1 MX\r\nx", "CLIENT_ERROR invalid mode for ms M token\r\n"),
            ("ms b 1 T1 T2\r\nx", "CLIENT_ERROR duplicate flag\r\n"),
            ("ms b 1 Fx\r\nx", "CLIENT_ERROR bad command line format\r\n"),
            ("ms b 1\r\nxyz", "CLIENT_ERROR bad data chunk\r\nERROR\r\n"),
            ("ms b x", "CLIENT_ERROR bad command line format\r\n"),
            ("ms b", "CLIENT_ERROR bad command line format\r\n"),
            ("mn", "MN\r\n"),
        ],
    );
}

#[test]
fn one_client_is_told_to_renew_an_item() {
    let mut client = Client::new();
    dialogue(
        &mut client,
        &[
            ("mg a N30 v t", "VA 0 t30 W\r\n\r\n"),
            ("mg a N30 v t", "VA 0 t30 Z\r\n\r\n"),
            ("ms a 1 T60\r\nx", "HD\r\n"),
            ("mg a R30 v", "VA 1\r\nx\r\n"),
        ],
    );
    client.wait_s(40);
    dialogue(
        &mut client,
        &[
            ("mg a R30 v", "VA 1 W\r\nx\r\n"),
            ("mg a R30 v", "VA 1 Z\r\nx\r\n"),
            ("ms a 1 T60\r\ny", "HD\r\n"),
            ("md a I T20", "HD\r\n"),
            ("mg a v t", "VA 1 t20 X W\r\ny\r\n"),
            ("mg a v", "VA 1 Z X\r\ny\r\n"),
        ],
    );
}

#[test]
fn meta_delete_and_arithmetic() {
    dialogue(
        &mut Client::new(),
        &[
            ("md a k", "NF ka\r\n"),
            ("md a q", "NF\r\n"),
            ("ms a 1 F3\r\nx", "HD\r\n"),
            ("md a C99 O1", "EX O1\r\n"),
            ("md a x", "HD\r\n"),
            ("mg a v f", "VA 0 f0\r\n\r\n"),
            ("md a q", ""),
            ("mg a", "EN\r\n"),
            // Where nothing is, only those who store in place of it miss the number that it must have.
            ("ms a 1 ME C5\r\nx", "HD\r\n"),
            ("ms a 1 ME C5\r\nx", "NS\r\n"),
            ("ms b 1 MA C5\r\nx", "NS\r\n"),
            ("ms b 1 MR C5\r\nx", "NF\r\n"),
            ("ms b 1 C5\r\nx", "NF\r\n"),
            ("ma n", "NF\r\n"),
            ("ma n q", "NF\r\n"),
            ("ma made N0 T30 t", "HD t30\r\n"),
            ("mg made t", "HD t30\r\n"),
            ("ma other T30 N0 t", "HD t-1\r\n"),
            ("mg third N0 T30 t", "HD t30 W\r\n"),
            ("ma made T40 N0 t", "HD t40\r\n"),
            ("ma n N0 J10 v", "VA 2\r\n10\r\n"),
            ("ma n", "HD\r\n"),
            ("ma n D5 v t", "VA 2 t-1\r\n16\r\n"),
            ("ma n MD D9 v", "VA 1\r\n7\r\n"),
            ("ma n M- D9 v k", "VA 1 kn\r\n0\r\n"),
            ("ma n C1", "EX\r\n"),
            ("ma n E77 c T90", "HD c77\r\n"),
            ("mg n t", "HD t90\r\n"),
            ("ma n q", ""),
            ("ma n MX", "CLIENT_ERROR invalid mode for ma M token\r\n"),
            ("ma n Dx", "CLIENT_ERROR invalid or duplicate flag\r\n"),
            ("ms t 1\r\nx", "HD\r\n"),
            ("ma t", "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n"),
        ],
    );
}

#[test]
fn meta_keys_may_be_binary_and_wrong_flags_are_refused() {
    let long = "x".repeat(251);
    let mut client = Client::new();
    dialogue(
        &mut client,
        &[
            ("ms AAEC 2 b\r\nhi", "HD\r\n"),
            ("mg AAEC b k v", "VA 2 kAAEC b\r\nhi\r\n"),
            ("mg AAEC v", "EN\r\n"),
            ("mg AA=C b", "CLIENT_ERROR error decoding key\r\n"),
            ("mg", "CLIENT_ERROR bad command line format\r\n"),
            (&format!("mg {long} v"), "CLIENT_ERROR bad command line format\r\n"),
            ("mg a !", "CLIENT_ERROR invalid flag\r\n"),
            ("mg a M", "CLIENT_ERROR invalid flag\r\n"),
            ("mg a v v", "CLIENT_ERROR duplicate flag\r\n"),
            ("mg a Tx", "CLIENT_ERROR bad token in command line format\r\n"),
            ("mg a O123456789012345678901234567890123", "CLIENT_ERROR opaque token too long\r\n"),
            ("me nothing", "EN\r\n"),
        ],
    );
    let about = client.ask("me AAEC b\r\n");
    assert!(about.starts_with("ME AAEC exp=-1 la=0 cas=1 fetch=yes cls=1 size="), "{about}");
    assert_eq!(client.stat("cmd_meta"), 4);
}

/// Requests of all kinds, with values that look like requests.
fn request() -> impl Strategy<Value = Vec<u8>> {
    let key = prop::sample::select(vec!["a", "b", "key3", "d"]);
    let value = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..40),
        Just(b"get a\r\nEND\r\n".to_vec()),
        Just(b"17".to_vec()),
        Just(vec![b'x'; 3000]),
    ];
    let store = prop::sample::select(vec!["set", "add", "replace", "append", "prepend"]);
    let line = prop::sample::select(vec![
        "get a b key3",
        "gets a a a",
        "gat 5 a b",
        "incr a 3",
        "decr b 9",
        "delete key3",
        "touch a 9",
        "version",
        "nonsense",
        "",
        "verbosity 1",
        "flush_all",
        "get",
        "set a 0 0",
        "delete a noreply",
    ]);
    prop_oneof![
        (store, key, 0..9_u32, value).prop_map(|(store, key, flags, value)| {
            let head = format!("{store} {key} {flags} 0 {}\r\n", value.len());
            [head.as_bytes(), &value, b"\r\n"].concat()
        }),
        line.prop_map(|line| format!("{line}\r\n").into_bytes()),
    ]
}

proptest! {
    #[test]
    fn answers_are_the_same_wherever_requests_are_cut(
        requests in prop::collection::vec(request(), 1..20),
        piece in 1..200_usize,
        room in 1..3000_usize,
    ) {
        let all = requests.concat();
        let whole = Client::new().ask_in(&all, usize::MAX, usize::MAX);
        prop_assert_eq!(&Client::new().ask_in(&all, 1, usize::MAX), &whole);
        prop_assert_eq!(&Client::new().ask_in(&all, piece, room), &whole);
        let one_by_one: Vec<u8> = {
            let mut client = Client::new();
            requests.iter().flat_map(|request| client.ask_in(request, usize::MAX, room)).collect()
        };
        prop_assert_eq!(&one_by_one, &whole);
    }

    #[test]
    fn any_bytes_are_answered_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..500), piece in 1..50_usize) {
        let mut client = Client::with(Limits { memory: 50_000, value: 1000, threads: 1 });
        client.ask_in(&bytes, piece, 100);
        prop_assert!(client.server.held(&client.session) <= 4096);
    }
}
