//! Commands of the text protocol, and what is counted of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use service::memcached::Limits;
use service::{Memcached, Protocol as _};

use super::client::{Client, START_S, dialogue};

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

/// What has too many words is not carried out; nor does its last word hide that.
#[test]
fn words_too_many_are_refused() {
    let usage = "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]\r\n";
    dialogue(
        &mut Client::new(),
        &[
            ("set q 0 0 1 noreply x", "ERROR\r\n"),
            ("set q 0 0 1 x noreply", "ERROR\r\n"),
            ("set q 0 noreply", "ERROR\r\n"),
            ("cas q 0 0 1 1 noreply x", "ERROR\r\n"),
            ("set n 0 0 1 x\r\n5", "STORED\r\n"),
            ("cas q 0 0 1 1 x\r\n5", "NOT_FOUND\r\n"),
            ("touch n 0 1 2", "ERROR\r\n"),
            ("touch n 0 1 noreply", "ERROR\r\n"),
            ("touch n 0 1", "TOUCHED\r\n"),
            ("incr n 1 2 3", "ERROR\r\n"),
            ("decr n 1 2 noreply", "ERROR\r\n"),
            ("incr n 1 2", "6\r\n"),
            ("incr n noreply", ""),
            ("delete n b c d", "ERROR\r\n"),
            ("delete n b c noreply", "ERROR\r\n"),
            ("delete n b c", usage),
            ("delete n b noreply", ""),
            ("verbosity 1 2 3", "ERROR\r\n"),
            ("verbosity 1 2", "OK\r\n"),
            ("cache_memlimit 64 1 2", "ERROR\r\n"),
            ("cache_memlimit 64 1", "OK\r\n"),
            ("flush_all 1 2 3", "ERROR\r\n"),
            ("flush_all 0 1 noreply", "ERROR\r\n"),
            ("get n", "VALUE n 0 1\r\n6\r\nEND\r\n"),
            ("flush_all 0 1", "OK\r\n"),
            ("get n", "END\r\n"),
            ("gat 10", "END\r\n"),
            ("gats 10", "END\r\n"),
            ("gat", "ERROR\r\n"),
        ],
    );
}

#[test]
fn numbers_may_have_a_plus() {
    dialogue(
        &mut Client::new(),
        &[
            ("set n +7 +9 +2\r\n+5", "STORED\r\n"),
            ("gat +9 n", "VALUE n 7 2\r\n+5\r\nEND\r\n"),
            ("incr n +1", "6\r\n"),
            ("touch n +8", "TOUCHED\r\n"),
            ("mg n T+5 t", "HD t5\r\n"),
            ("ma n D+2 v", "VA 1\r\n8\r\n"),
            ("ms n +1 F+3 C+1\r\nx", "EX\r\n"),
            ("set n 0 0 ++1", "CLIENT_ERROR bad command line format\r\n"),
            ("set n 0 -+1 1", "CLIENT_ERROR bad command line format\r\n"),
            ("incr n +", "CLIENT_ERROR invalid numeric delta argument\r\n"),
        ],
    );
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
            ("stats cachedump 63 0", "END\r\n"),
            ("stats cachedump 64 0", "CLIENT_ERROR Illegal slab id\r\n"),
            ("stats cachedump 64 x", "CLIENT_ERROR bad command line format\r\n"),
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
fn what_slabs_are_tuned_with_is_answered() {
    dialogue(
        &mut Client::new(),
        &[
            ("slabs automove 1", "OK\r\n"),
            ("slabs automove 2 x", "OK\r\n"),
            ("slabs automove 3", "ERROR\r\n"),
            ("slabs automove ratio 0.8", "OK\r\n"),
            ("slabs automove ratio x", "ERROR\r\n"),
            ("slabs automove ratio", "ERROR\r\n"),
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
