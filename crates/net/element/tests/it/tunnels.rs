//! Tunnels in a router: a table by text, packets into a tunnel and out of it on one thread
//! and on several, what becomes of those that no entry has, and the table's handlers.
#![allow(clippy::unwrap_used)]

use crate::Rig;

/// A table at 192.0.2.`here`, with a tunnel to the other one.
fn fib(name: &str, here: u8, unknown: &str, entry: &str) -> String {
    let there = 3 - here;
    format!(
        "{name} :: OverlayFIB(TEXT \"
            [[underlay]]
            name = 'up'
            mac = '02:00:00:00:00:0{here}'
            addresses = ['192.0.2.{here}/24']
            neighbors = {{ '192.0.2.{there}' = '02:00:00:00:00:0{there}' }}
            [[network]]
            number = 100
            protocol = 'vxlan'
            unknown = '{unknown}'
            flood = ['192.0.2.{there}']
            {entry}
        \");\n"
    )
}

const ENTRY: &str = "[[network.entry]]
    key = '02:00:00:00:0b:01'
    remote = '192.0.2.2'";

/// Frames to this station, from a source that stops after a hundred.
fn source(name: &str, station: &str) -> String {
    format!("{name} :: InfiniteSource(DATA \\<{station} 020000000a01 88b5 {}>, LIMIT 100)\n", "00".repeat(46))
}

fn run(config: &str, threads: usize) -> Rig {
    let mut rig = Rig::with_threads(config, threads).unwrap_or_else(|problems| panic!("{problems}"));
    rig.run();
    rig
}

#[test]
fn packets_go_in_and_come_out() {
    for threads in [1, 3] {
        let config = [
            fib("a", 1, "drop", ENTRY),
            fib("b", 2, "drop", ""),
            source("s0", "020000000b01"),
            source("s1", "020000000b01"),
            "s0 -> e :: OverlayEncap(a, 100); s1 -> e;
             e -> out :: AverageCounter -> d :: OverlayDecap(b, 100);
             d[0] -> other :: Counter -> Discard;
             d[1] -> came :: Counter(COUNT_CALL 200 stop) -> l :: CheckLength(60) -> Discard;
             l[1] -> long :: Counter -> Discard;"
                .to_owned(),
            if threads > 1 { "StaticThreadSched(s0 0, s1 1)".to_owned() } else { String::new() },
        ]
        .concat();
        let mut rig = run(&config, threads);
        assert_eq!((rig.read("came.count"), rig.read("other.count")), ("200".into(), "0".into()));
        assert_eq!(rig.read("out.count"), "200");
        assert_eq!(rig.read("long.count"), "0", "a frame came out longer than it went in");
        let bytes: u64 = rig.read("out.byte_count").parse().unwrap_or(0);
        assert!(bytes == 0 || bytes == 200 * (60 + 50), "{bytes}");
    }
}

#[test]
fn what_no_entry_has_goes_where_its_network_says() {
    let config = |unknown: &str, rest: &str| {
        let e = "s -> e :: OverlayEncap(a, 100); e[0] -> sent :: Counter -> Discard;";
        [fib("a", 1, unknown, ENTRY), source("s", "020000000c01"), format!("{e} {rest}")].concat()
    };
    let stop = "Script(wait 0.1s, stop)";
    let mut rig = run(&config("flood", stop), 1);
    assert_eq!(rig.read("sent.count"), "100", "one far end, one copy");
    let mut rig = run(&config("drop", stop), 1);
    assert_eq!(rig.read("sent.count"), "0");
    let outputs = "e[1] -> punted :: Counter -> Discard; e[2] -> dropped :: Counter -> Discard; Script(wait 0.1s, stop)";
    let mut rig = run(&config("punt", outputs), 1);
    assert_eq!((rig.read("punted.count"), rig.read("dropped.count")), ("100".into(), "0".into()));
    let mut rig = run(&config("drop", outputs), 1);
    assert_eq!((rig.read("punted.count"), rig.read("dropped.count")), ("0".into(), "100".into()));
}

#[test]
fn frames_that_are_no_tunnels_are_left_alone() {
    let config = [
        fib("a", 1, "drop", ENTRY),
        source("s", "020000000001"),
        "s -> d :: OverlayDecap(a, 100); d[0] -> other :: Counter -> Discard;
         d[1] -> came :: Counter -> Discard; Script(wait 0.1s, stop)"
            .to_owned(),
    ]
    .concat();
    let mut rig = run(&config, 1);
    assert_eq!((rig.read("other.count"), rig.read("came.count")), ("100".into(), "0".into()));
}

#[test]
fn handlers_change_the_table_and_explain_it() {
    let config =
        [fib("a", 1, "drop", ENTRY), "Idle -> e :: OverlayEncap(a, 100) -> Discard;".to_owned()].concat();
    let mut rig = Rig::new(&config).unwrap();
    assert_eq!(rig.read("a.table"), "100 0x20000000b01 vxlan 192.0.2.1 > 192.0.2.2, identifier 100 ready\n");
    rig.write("a.add", "100 02:00:00:00:0c:01 192.0.2.9").unwrap();
    assert!(
        rig.read("a.table").contains("192.0.2.9, identifier 100 overlay_no_neighbor"),
        "{}",
        rig.read("a.table")
    );
    assert_eq!(rig.read("a.unresolved"), "0 192.0.2.9\n");
    rig.write("a.neighbor", "0 192.0.2.9 02:00:00:00:00:09").unwrap();
    assert_eq!((rig.read("a.unresolved"), rig.read("a.count")), (String::new(), "2".into()));
    let frame = format!("100 020000000c01 020000000a01 88b5 {}", "00".repeat(46));
    let explained = rig.router.read("a.explain", &frame).unwrap();
    assert!(explained.contains("identifier 0x20000000c01 of 48 bits"), "{explained}");
    assert!(explained.contains("192.0.2.1 > 192.0.2.9, TTL 64"), "{explained}");
    assert!(explained.contains("> 4789"), "{explained}");
    rig.write("a.remove", "100 02:00:00:00:0c:01").unwrap();
    assert!(rig.write("a.remove", "100 02:00:00:00:0c:01").is_err());
    let explained = rig.router.read("a.explain", &frame).unwrap();
    assert!(explained.contains("overlay_unknown_key"), "{explained}");
    for wrong in ["", "100", "7 1 192.0.2.2", "100 x 192.0.2.2", "100 1 here"] {
        assert!(rig.write("a.add", wrong).is_err(), "{wrong}");
    }
}

#[test]
fn tables_that_cannot_be_are_told_with_their_place() {
    let refused = |config: &str| Rig::new(config).err().unwrap_or_default();
    let text = fib("a", 1, "drop", "tll = 3");
    assert!(refused(&text).contains("has no `tll`"), "{}", refused(&text));
    assert!(refused("OverlayFIB()").contains("FILE or TEXT"), "{}", refused("OverlayFIB()"));
    let network = format!("{}Idle -> OverlayEncap(a, 7) -> Discard;", fib("a", 1, "drop", ENTRY));
    assert!(refused(&network).contains("no network 7"), "{}", refused(&network));
    let outputs = format!("{}Idle -> d :: OverlayDecap(a, 100) -> Discard;", fib("a", 1, "drop", ENTRY));
    assert!(refused(&outputs).contains("need 2 outputs"), "{}", refused(&outputs));
    let other = "Idle -> OverlayEncap(x, 7) -> Discard; x :: ARPTable";
    assert!(refused(other).contains("no OverlayFIB"), "{}", refused(other));
}

#[test]
fn what_handlers_said_stays_when_the_file_is_read_again() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("overlay.toml");
    let table = |entries: &[(&str, &str)], networks: &[u32]| {
        let mut text = "[[underlay]]\nname = 'up'\nmac = '02:00:00:00:00:01'\naddresses = ['192.0.2.1/24']\n\
                        neighbors = { '192.0.2.2' = '02:00:00:00:00:02', '192.0.2.3' = '02:00:00:00:00:03' }\n"
            .to_owned();
        for network in networks {
            text += &format!("[[network]]\nnumber = {network}\nprotocol = 'vxlan'\nflood = ['192.0.2.2']\n");
            for (key, remote) in entries.iter().filter(|_| *network == 100) {
                text += &format!("[[network.entry]]\nkey = '{key}'\nremote = '{remote}'\n");
            }
        }
        std::fs::write(&file, text).unwrap();
    };
    let (one, two) = (("02:00:00:00:0b:01", "192.0.2.2"), ("02:00:00:00:0b:02", "192.0.2.2"));
    table(&[one, two], &[100, 200]);
    let config =
        format!("a :: OverlayFIB(FILE {}); Idle -> e :: OverlayEncap(a, 100) -> Discard;", file.display());
    let mut rig = Rig::new(&config).unwrap();
    rig.write("a.add", "100 02:00:00:00:0c:01 192.0.2.9").unwrap();
    rig.write("a.add", "200 02:00:00:00:0c:02 192.0.2.2").unwrap();
    rig.write("a.add", "100 02:00:00:00:0b:01 192.0.2.3").unwrap();
    rig.write("a.remove", "100 02:00:00:00:0b:02").unwrap();
    rig.write("a.neighbor", "0 192.0.2.9 02:00:00:00:00:09").unwrap();
    rig.write("a.neighbor", "0 192.0.2.3").unwrap();
    let three = ("02:00:00:00:0b:03", "192.0.2.2");
    let listed = |rig: &mut Rig| -> Vec<String> {
        let short = |line: &str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            [words[0], words[1], words[5].trim_end_matches(','), words[words.len() - 1]].join(" ")
        };
        rig.read("a.table").lines().map(short).collect()
    };
    let mut expected = vec![
        "100 0x20000000b01 192.0.2.3 overlay_no_neighbor",
        "100 0x20000000b03 192.0.2.2 ready",
        "100 0x20000000c01 192.0.2.9 ready",
        "200 0x20000000c02 192.0.2.2 ready",
    ];
    table(&[one, two, three], &[100, 200]);
    for _ in 0..2 {
        rig.write("a.reload", "").unwrap();
        assert_eq!(listed(&mut rig), expected);
    }
    // What was said of a network goes with it.
    for networks in [&[100][..], &[100, 200]] {
        table(&[one, two, three], networks);
        rig.write("a.reload", "").unwrap();
        expected.truncate(3);
        assert_eq!(listed(&mut rig), expected);
    }
    // A file that cannot be changes nothing, nor what was said.
    std::fs::write(&file, "[[network]]").unwrap();
    assert!(rig.write("a.reload", "").is_err());
    assert_eq!(listed(&mut rig), expected);
}
