//! Who has to leave when memory ends, and what is kept for clients that are slow.

use service::memcached::{Limits, Session};
use service::{Buffer, Memcached, Protocol as _};

use super::client::{Client, START_S, dialogue};

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
