//! What clients are told of a cache.

use std::sync::Arc;

use service::Protocol as _;
use service::memcached::{Limits, Listening};

use super::client::{Client, dialogue};

#[test]
fn statistics_have_kinds() {
    let mut client = Client::new();
    dialogue(
        &mut client,
        &[
            ("stats items", "END\r\n"),
            ("stats sizes", "STAT sizes_status disabled\r\nEND\r\n"),
            ("stats sizes_enable", "STAT sizes_status disabled\r\n"),
            ("stats sizes_disable", "STAT sizes_status disabled\r\n"),
            ("stats extstore", "END\r\n"),
            ("stats conns", "END\r\n"),
            ("stats detail on", "OK\r\n"),
            ("stats detail dump", "END\r\n"),
            ("set a 0 0 1\r\nx", "STORED\r\n"),
            ("get a b", "VALUE a 0 1\r\nx\r\nEND\r\n"),
        ],
    );
    client.wait_s(7);
    let items = client.ask("stats items\r\n");
    assert!(items.starts_with("STAT items:1:number 1\r\nSTAT items:1:number_hot 0\r\n"), "{items}");
    assert!(client.ask("stats slabs\r\n").contains("STAT 1:get_hits 1\r\n"));
    assert!(client.ask("stats settings\r\n").contains("STAT shutdown_command no\r\n"));
    dialogue(&mut client, &[("stats reset", "RESET\r\n")]);
    assert_eq!((client.stat("get_hits"), client.stat("curr_items")), (0, 1));
}

/// The value of a statistic of a kind.
fn of(client: &mut Client, kind: &str, name: &str) -> u64 {
    let all = client.ask(format!("stats {kind}\r\n"));
    let line = all.lines().find_map(|line| line.strip_prefix(&format!("STAT {name} ")));
    line.unwrap_or_else(|| panic!("no {name} in {all}")).parse().unwrap()
}

/// What went over connections is told by the counters of the threads, which go on.
#[test]
fn a_reset_takes_connections_and_their_bytes() {
    let mut client = Client::new();
    let tell = |client: &mut Client| {
        ["curr_connections", "total_connections", "bytes_read", "bytes_written"].map(|name| client.stat(name))
    };
    client.server.open();
    client.server.open();
    client.server.count_bytes(100, 200);
    assert_eq!(tell(&mut client), [2, 2, 100, 200]);
    client.ask("stats reset\r\n");
    assert_eq!(tell(&mut client), [2, 0, 0, 0]);
    client.server.open();
    client.server.count_bytes(3, 4);
    assert_eq!(tell(&mut client), [3, 1, 3, 4]);
}

#[test]
fn what_went_to_make_room_is_told_with_whether_it_would_have_expired() {
    let mut client = Client::with(Limits { memory: 30_000, value: 10_000, threads: 1 });
    let value = "v".repeat(8000);
    for (key, time) in [("a", 0), ("b", 100), ("c", 100), ("d", 0), ("e", 0), ("f", 0)] {
        client.ask(format!("set {key} 0 {time} 8000\r\n{value}\r\n"));
    }
    assert_eq!(
        ["evicted", "evicted_nonzero"].map(|name| of(&mut client, "items", &format!("items:1:{name}"))),
        [3, 2]
    );
    client.wait_s(5);
    client.ask(format!("set g 0 0 8000\r\n{value}\r\n"));
    assert_eq!(of(&mut client, "items", "items:1:evicted_time"), 5);
    client.ask("stats reset\r\n");
    assert_eq!(of(&mut client, "items", "items:1:evicted_time"), 0);
}

/// Tools draw a table of classes by these.
#[test]
fn the_class_of_all_items_has_chunks_and_pages() {
    let mut client = Client::new();
    let value = "v".repeat(100_000);
    (0..25).for_each(|n| _ = client.ask(format!("set k{n} 0 0 100000\r\n{value}\r\n")));
    let names =
        ["chunk_size", "chunks_per_page", "total_pages", "total_chunks", "used_chunks", "free_chunks"];
    let [size, per_page, pages, chunks, used, free] =
        names.map(|name| of(&mut client, "slabs", &format!("1:{name}")));
    let bytes = client.stat("bytes");
    assert_eq!((used, size), (25, bytes.div_ceil(25)));
    assert_eq!((per_page, pages), ((1 << 20) / size, bytes.div_ceil(1 << 20)));
    assert_eq!((chunks, free), (per_page * pages, chunks - used));
    for name in ["free_chunks_end", "mem_requested", "get_hits", "cmd_set", "touch_hits"] {
        of(&mut client, "slabs", &format!("1:{name}"));
    }
    assert_eq!(of(&mut client, "items", "items:1:number_cold"), 25);
    for name in [
        "number_hot",
        "number_warm",
        "age_hot",
        "age_warm",
        "tailrepairs",
        "evicted_active",
        "direct_reclaims",
    ] {
        assert_eq!(of(&mut client, "items", &format!("items:1:{name}")), 0, "{name}");
    }
}

/// Exporters ask for these.
#[test]
fn the_place_of_a_server_is_told_if_it_is_known() {
    let mut client = Client::new();
    assert!(!client.ask("stats\r\n").contains("max_connections"));
    assert!(!client.ask("stats settings\r\n").contains("maxconns"));
    client.server.tell_listening(&Arc::new(listening()));
    assert_eq!(client.stat("max_connections"), 500);
    let names = ["maxconns", "tcpport", "udpport", "tcp_backlog", "idle_timeout", "oldest", "num_threads"];
    assert_eq!(names.map(|name| of(&mut client, "settings", name)), [500, 11211, 11212, 20, 0, 0, 1]);
    let settings = client.ask("stats settings\r\n");
    for word in ["inter 10.0.0.2,fd00::2", "flush_enabled yes", "cas_enabled yes", "evictions on"] {
        assert!(settings.contains(&format!("STAT {word}\r\n")), "{word} in {settings}");
    }
}

/// What a host was given.
fn listening() -> Listening {
    Listening {
        addresses: "10.0.0.2,fd00::2".to_owned(),
        tcp_port: 11211,
        udp_port: Some(11212),
        connections: 500,
        half_open: 20,
    }
}

#[test]
fn the_time_on_processors_is_told() {
    let mut client = Client::new();
    client.server.tell_listening(&Arc::new(listening()));
    let times = |client: &mut Client| {
        let all = client.ask("stats\r\n");
        ["rusage_user", "rusage_system"].map(|name| {
            let line = all.lines().find_map(|line| line.strip_prefix(&format!("STAT {name} ")));
            let (whole, part) = line.unwrap().split_once('.').unwrap();
            assert_eq!(part.len(), 6, "{all}");
            whole.parse::<u64>().unwrap() * 1_000_000 + part.parse::<u64>().unwrap()
        })
    };
    let before: u64 = times(&mut client).iter().sum();
    while times(&mut client).iter().sum::<u64>() < before + 20_000 {
        client.ask("get a\r\n");
    }
}
