//! `overlay.toml`: what is read, and what is refused with its place.
#![allow(clippy::unwrap_used)]

#[path = "config/several.rs"]
mod several;
#[path = "config/wrong.rs"]
mod wrong;

use std::collections::BTreeSet;

use overlay::{Dscp, Layer, Segment, Unknown};
use several::SEVERAL;
use vtep::{Config, Desired, Error, Held, Listen};
use wire::MacAddress;

const GOOD: &str = r#"
[[underlay]]
name = "up0"
port = "af_packet:eth1"
addresses = ["192.0.2.1/24", "2001:db8::1/64"]
mtu = 1600
vlan = 30
neighbors = { "192.0.2.2" = "02:00:00:00:00:02" }

[[route]]
to = "198.51.100.0/24"
via = "192.0.2.254"

[[network]]
number = 100
protocol = "vxlan"
inner = "tap:inner0"
dscp = "inherit"
flood = ["192.0.2.2", { remote = "198.51.100.7", identifier = 7 }]

[[network.entry]]
key = "02:00:00:00:0b:01"
remote = "192.0.2.2"
ttl = 9

[[network]]
number = 7
protocol = "ipip"
inner = "tap:inner1"
peer = "02:00:00:00:0c:01"

[[network.entry]]
remote = "2001:db8::2"
"#;

fn refused(text: &str) -> Error {
    Config::parse(text).unwrap_err()
}

/// What is wrong with the good file after a line of it is another one.
fn changed(from: &str, to: &str) -> Error {
    assert!(GOOD.contains(from), "{from}");
    refused(&GOOD.replacen(from, to, 1))
}

#[test]
fn a_file_is_what_it_says() {
    let config = Config::parse(GOOD).unwrap();
    let desired = config.desired(&[MacAddress([2, 0, 0, 0, 0, 1])]);
    assert_eq!((desired.ports[&0].mtu, desired.ports[&0].vlan), (1600, Some(30)));
    assert_eq!(desired.routes.len(), 3, "two links and a route");
    assert_eq!(desired.networks[&100].layer, Layer::Ethernet);
    assert_eq!(desired.networks[&100].unknown, Unknown::Flood);
    assert_eq!((desired.networks[&7].layer, desired.networks[&7].unknown), (Layer::Ip, Unknown::Drop));
    let entry = desired.entries[&(100, 0x0200_0000_0b01)].first().unwrap();
    assert_eq!((entry.identifier, entry.ttl, entry.dscp), (Some(100), 9, Dscp::Inherit));
    assert_eq!(desired.floods[&100][1].identifier, Some(7));
    // One end for all of a network's tunnels, where packets have an identifier.
    let ends: Vec<String> = desired.ends.keys().map(ToString::to_string).collect();
    assert_eq!(ends, ["ipip to 2001:db8::1, from 2001:db8::2", "vxlan to 192.0.2.1, identifier 100"]);
    Held::check(&desired).unwrap();
}

#[test]
fn what_is_wrong_has_its_place_and_its_fix() {
    let error = changed("mtu = 1600", "mtu = 160");
    assert_eq!((error.line, error.column), (6, 7));
    assert_eq!(error.fix, "write a number from 576 to 9600");
    let error = changed("ttl = 9", "tll = 9");
    assert_eq!((error.line, error.column), (24, 1));
    assert_eq!(error.cause, "an entry has no `tll`");
    assert!(error.fix.contains("ttl"), "{error:?}");
    let error = changed("protocol = \"vxlan\"", "protocol = \"vlxan\"");
    assert!(error.line == 16 && error.fix.contains("\"vxlan\""), "{error:?}");
    let error = changed("\"02:00:00:00:0b:01\"", "\"02:00:00:00:0b\"");
    assert_eq!((error.line, error.fix.as_str()), (22, "write \"02:00:00:00:00:02\""));
    let error = refused(&GOOD.replacen("/24\"", "\"", 1));
    assert!(error.cause.contains("without the length of its prefix"), "{error:?}");
    assert_eq!(error.fix, "write it as \"192.0.2.1/24\"");
    let error = changed("via = \"192.0.2.254\"", "via = \"203.0.113.1\"");
    assert!(error.line == 10 && error.fix.contains("via"), "{error:?}");
    let framed = GOOD.replace("protocol = \"ipip\"", "protocol = \"vxlan\"");
    let error = refused(&framed.replace("peer = \"02:00:00:00:0c:01\"\n", ""));
    assert!(error.cause.contains("needs `key`"), "{error:?}");
    // Also of a network without entries, whose packets would never come out of a tunnel.
    let without_entries = GOOD.split("[[network]]").next().unwrap();
    let network = "[[network]]\nnumber = 16777216\nprotocol = \"vxlan\"\ninner = \"tap:inner\"\n";
    let error = refused(&format!("{without_entries}{network}"));
    assert_eq!(error.cause, "the identifier 16777216 of vxlan must be below 2^24");
    assert!(error.fix.contains("identifier = "), "{error:?}");
    Config::parse(&format!("{without_entries}{network}identifier = 16777215\n")).unwrap();
    let error = refused("[[underlay\n");
    assert_eq!((error.line, error.column), (1, 11), "{error:?}");
    let error = refused("");
    assert!(error.fix.contains("[[underlay]]"), "{error:?}");
}

#[test]
fn who_else_changes_the_table_is_said_with_its_place() {
    let text =
        format!("learn = \"fpm\"\n[fpm]\nhold = 5\nusers = [92]\n[api]\nlisten = \"/run/api\"\n{GOOD}");
    let config = Config::parse(&text.replace("vlan = 30", "vlan = 30\nlink = \"eth1\"")).unwrap();
    let fpm = config.follow.fpm.clone().unwrap();
    assert_eq!(
        (fpm.listen.to_string().as_str(), fpm.hold_ns, fpm.users),
        ("127.0.0.1:2620", 5_000_000_000, vec![92])
    );
    assert_eq!(config.follow.api.as_ref().unwrap().listen, Listen::Unix("/run/api".into()));
    let options = config.mirror();
    let bound = &options.ports[0];
    assert_eq!((bound.link.as_str(), bound.port, bound.vlan, bound.mtu), ("eth1", 0, Some(30), Some(1600)));
    let locals: Vec<String> = options.locals.iter().map(ToString::to_string).collect();
    assert_eq!(locals, ["192.0.2.1", "2001:db8::1"]);
    // Both ends of network 100 are there before anybody told of an entry; others' are not open.
    let ends: Vec<String> = config.desired(&[]).ends.keys().map(ToString::to_string).collect();
    assert!(ends.contains(&"vxlan to 2001:db8::1, identifier 100".to_owned()) && ends.len() == 3, "{ends:?}");
    let refused = |head: &str| refused(&format!("{head}\n{GOOD}"));
    let error = refused("learn = \"kernal\"");
    assert_eq!((error.line, error.column), (1, 10), "{error:?}");
    assert!(error.fix.contains("\"kernel\""), "{error:?}");
    let error = refused("[api]\nlisten = \"192.0.2.1:80\"");
    assert_eq!((error.line, error.column), (2, 11), "{error:?}");
    let error = refused("[api]\nport = 80");
    assert_eq!((error.line, error.cause.as_str()), (2, "the API has no `port`"));
    let error = refused("[fpm]\nhold = 5");
    assert!(error.fix.contains("learn = \"fpm\""), "{error:?}");
    let error = changed("vlan = 30", "link = \"eth1\"");
    assert_eq!((error.line, error.column, error.cause.as_str()), (7, 9, "nobody follows the kernel here"));
    let router = Config::parse_for_router("learn = \"kernel\"\n").unwrap_err();
    assert_eq!((router.line, router.fix.as_str()), (1, "leave learn out"));
}

#[test]
fn one_thing_has_one_owner() {
    let twice =
        "[[network.entry]]\nkey = \"02-00-00-00-0b-01\"\nremote = \"192.0.2.3\"\n\n[[network]]\nnumber = 7";
    let error = changed("[[network]]\nnumber = 7", twice);
    assert_eq!((error.line, error.column), (27, 8), "{error:?}");
    assert!(error.cause.contains("entry 02:00:00:00:0b:01 of network 100 is there already, from line 22"));
    let error = changed("tap:inner1", "tap:inner0");
    assert!(error.cause.contains("from line 17"), "{error:?}");
    let error = changed("number = 7", "number = 100");
    assert!(error.cause.contains("network 100 is there already"), "{error:?}");
    // Packets of one VNI cannot come out in two networks.
    let two =
        GOOD.replace("number = 7\nprotocol = \"ipip\"", "number = 8\nprotocol = \"vxlan\"\nidentifier = 100");
    let two = two.replace("peer = \"02:00:00:00:0c:01\"\n", "");
    let error = refused(&two.replace("remote = \"2001:db8::2\"", "key = 9\nremote = \"192.0.2.2\""));
    assert!(error.cause.contains("come out in network 100 already"), "{error:?}");
}

#[test]
fn a_change_is_as_small_as_what_is_different() {
    let macs = [MacAddress([2, 0, 0, 0, 0, 1])];
    let before = Config::parse(GOOD).unwrap().desired(&macs);
    let mut held = Held::default();
    let apply = |held: &mut Held, desired: &Desired| {
        let changes = held.apply(desired.clone(), 0).unwrap();
        (changes.set, changes.removed)
    };
    apply(&mut held, &before);
    assert_eq!(apply(&mut held, &before), (0, 0));
    let text = GOOD.replace("ttl = 9", "ttl = 10").replace("198.51.100.0/24", "198.51.100.0/25");
    let after = Config::parse(&text).unwrap().desired(&macs);
    assert_eq!(apply(&mut held, &after), (2, 1), "an entry and a route; the old route");
    assert_eq!(held.table.get(100, 0x0200_0000_0b01).unwrap().ttl, 10);
    // What is gone from the file is gone from the table.
    let entry = "[[network.entry]]\nkey = \"02:00:00:00:0b:01\"\nremote = \"192.0.2.2\"\nttl = 10\n";
    let without = Config::parse(&text.replace(entry, "")).unwrap().desired(&macs);
    assert_eq!((apply(&mut held, &without), held.table.entries(100)), ((0, 1), 0));
    apply(&mut held, &after);
    // A network that is another one takes its entries and ends with it, and they come back.
    let text = GOOD.replace("protocol = \"vxlan\"", "protocol = \"geneve\"\nkey = { offset = 6, bits = 48 }");
    let other = Config::parse(&text).unwrap().desired(&macs);
    apply(&mut held, &other);
    assert_eq!(held.table.get(100, 0x0200_0000_0b01).unwrap().protocol.name, "geneve");
    apply(&mut held, &before);
    assert_eq!(held.table.entries(100), 1);
    assert_eq!(held.table.tunnels(), 4);
    assert_eq!(held.program().compare_table(&held.table), []);
}

#[test]
fn the_example_is_a_configuration() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../conf/overlay.toml");
    let config = Config::parse(&std::fs::read_to_string(path).unwrap()).unwrap();
    Held::check(&config.desired(&[MacAddress([2, 0, 0, 0, 0, 1])])).unwrap();
    assert_eq!(config.inner.len(), 2);
}

#[test]
fn the_page_about_overlays_has_all_protocols() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/overlays.md");
    let page = std::fs::read_to_string(path).unwrap();
    for protocol in overlay::PROTOCOLS {
        assert!(page.contains(&format!("`{}`", protocol.name)), "{}", protocol.name);
    }
}

/// The keys in the tables below a heading of a page: what stands in quotes in the first column.
fn keys_below<'a>(page: &'a str, heading: &str) -> BTreeSet<&'a str> {
    let (_, rest) = page.split_once(&format!("\n### {heading}")).unwrap_or_else(|| panic!("{heading}"));
    let end = rest.find("\n#").unwrap_or(rest.len());
    let cells = rest[..end].lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect()
}

/// The page has all keys that the reader knows and no others.
#[test]
fn the_page_about_overlays_has_all_keys() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/overlays.md");
    let page = std::fs::read_to_string(path).unwrap();
    let known = |text: &str| -> BTreeSet<String> {
        let error = refused(text);
        let names = error.fix.strip_prefix("it may have ").unwrap_or_else(|| panic!("{text}: {error:?}"));
        names.split(", ").map(str::to_owned).collect()
    };
    let with_wrong_key = |behind: &str| {
        assert!(GOOD.contains(behind), "{behind}");
        known(&GOOD.replacen(behind, &format!("{behind}\nwrong = 1"), 1))
    };
    let sections = ["`[[underlay]]`", "`[[route]]`", "`[[network]]`", "`[[network.entry]]`", "`[[group]]`"];
    let mut keys = sections.map(|heading| keys_below(&page, heading));
    // A network has all keys of tunnels, and tables of its own.
    let of_entries = ["key", "remote", "remotes", "group"];
    let tunnels: Vec<&str> = keys[3].iter().filter(|key| !of_entries.contains(key)).copied().collect();
    assert!(tunnels.len() > 10, "{tunnels:?}");
    keys[2].extend(tunnels.into_iter().chain(["entry", "end"]));
    let known_keys = [
        with_wrong_key("[[underlay]]"),
        with_wrong_key("[[route]]"),
        with_wrong_key("[[network]]"),
        with_wrong_key("[[network.entry]]"),
        known(&format!("[[group]]\nwrong = 1\n{GOOD}")),
    ];
    for ((heading, keys), known) in sections.into_iter().zip(keys).zip(&known_keys) {
        let known: BTreeSet<&str> = known.iter().map(String::as_str).collect();
        assert_eq!(keys, known, "{heading}");
    }
    let owners = keys_below(&page, "Who changes the table");
    let mut known_keys = BTreeSet::from(["learn".to_owned()]);
    for table in ["api", "fpm"] {
        let text = format!("learn = 'fpm'\n[{table}]\nwrong = 1\n{GOOD}");
        known_keys.extend(known(&text).into_iter().chain([format!("[{table}]")]));
    }
    assert_eq!(owners, known_keys.iter().map(String::as_str).collect());
}

#[test]
fn no_file_harms_the_reader() {
    // Cut off at every byte, and with every line twice, gone, or with another byte in it.
    for good in [GOOD, SEVERAL] {
        no_change_harms_the_reader(good);
    }
}

#[test]
fn what_is_wrong_with_learning_has_its_place() {
    let with = |learning: &str| {
        GOOD.replacen("protocol = \"vxlan\"", &format!("protocol = \"vxlan\"\n{learning}"), 1)
    };
    let desired = Config::parse(&with("learning = true")).unwrap().desired(&[]);
    let learning = &desired.learning[&100];
    assert_eq!((learning.age.as_secs(), learning.limit), (300, 4096));
    // One tunnel for each version of IP that the underlay has.
    let tunnels: Vec<_> = learning.tunnels.iter().map(|it| (it.local.to_string(), it.identifier)).collect();
    assert_eq!(tunnels, [("192.0.2.1".to_owned(), Some(100)), ("2001:db8::1".to_owned(), Some(100))]);
    // SRv6 has only IPv6.
    let srv6 = "[[underlay]]\nname = 'a'\nport = 'tap:a'\naddresses = ['192.0.2.1/24', '2001:db8::1/64']\n\
                [[network]]\nnumber = 100\nprotocol = 'srv6'\nlearning = true\n";
    let srv6 = Config::parse(srv6).unwrap().desired(&[]);
    let locals: Vec<_> = srv6.learning[&100].tunnels.iter().map(|it| it.local.to_string()).collect();
    assert_eq!(locals, ["2001:db8::1"]);
    assert_eq!(Config::parse(&with("learning = false")).unwrap().desired(&[]).learning.len(), 0);
    let cause = |learning: &str| refused(&with(learning)).cause;
    assert_eq!(cause("learning = 5"), "this is a number");
    assert_eq!(cause("learning = { ageing = 0 }"), "0 is not possible here");
    assert_eq!(cause("learning = { age = 1 }"), "learning has no `age`");
    let text = "[[underlay]]\nname = 'a'\nport = 'tap:a'\naddresses = ['192.0.2.1/24']\n\
                [[network]]\nnumber = 5\nprotocol = 'ipip'\nlearning = true\n";
    let error = refused(text);
    assert_eq!((error.line, error.column), (8, 12), "{error:?}");
    assert!(error.cause.contains("known by their destination"), "{error:?}");
    let router = text.replace("port = 'tap:a'\n", "mac = '02:00:00:00:00:01'\n").replace("ipip", "vxlan");
    let error = Config::parse_for_router(&router).unwrap_err();
    assert_eq!(error.cause, "the elements of a router do not learn");
}

#[test]
fn what_is_said_of_a_segment_is_read_and_what_is_wrong_has_its_place() {
    let with =
        |segment: &str| GOOD.replacen("protocol = \"vxlan\"", &format!("protocol = \"vxlan\"\n{segment}"), 1);
    let read = |segment: &str| Config::parse(&with(segment)).unwrap().desired(&[]);
    let is = |segment: &str| read(segment).segments[&100].clone();
    let peer = |last| [192, 0, 2, last].into();
    assert_eq!(is("segment = {}"), Segment { is_designated: true, peers: vec![] });
    let segment = is("segment = { designated = false, peers = ['192.0.2.3', '192.0.2.2', '192.0.2.3'] }");
    assert_eq!(segment, Segment { is_designated: false, peers: vec![peer(2), peer(3)] });
    // It comes into the table, changes there, and goes.
    let mut held = Held::new(Default::default());
    for (text, number) in [("", 0), ("segment = { designated = false }", 1), ("segment = {}", 1), ("", 0)] {
        let desired = read(text);
        held.apply(desired.clone(), 0).unwrap();
        assert_eq!(desired.segments.len(), number);
        assert_eq!(held.table.segment(100), desired.segments.get(&100));
    }
    let cause = |segment: &str| refused(&with(segment)).cause;
    assert_eq!(cause("segment = 5"), "a segment must be a table");
    assert_eq!(cause("segment = { df = true }"), "a segment has no `df`");
    assert_eq!(cause("segment = { designated = 1 }"), "this is a number");
    assert!(cause("segment = { peers = ['x'] }").contains("no IP address"));
    let many: Vec<String> = (0..65).map(|n| format!("'192.0.2.{n}'")).collect();
    let error = cause(&format!("segment = {{ peers = [{}] }}", many.join(",")));
    assert_eq!(error, "too many endpoints have the segment");
    let error = changed("peer = \"02:00:00:00:0c:01\"", "peer = \"02:00:00:00:0c:01\"\nsegment = {}");
    assert!(error.cause.contains("Ethernet frames"), "{error:?}");
}

fn no_change_harms_the_reader(good: &str) {
    for end in 0..good.len() {
        let _ = Config::parse(&good[..end]);
    }
    let lines: Vec<&str> = good.lines().collect();
    for at in 0..lines.len() {
        let with = |line: &[&str]| [&lines[..at], line, &lines[at + 1..]].concat().join("\n");
        let _ = Config::parse(&with(&[]));
        let _ = Config::parse(&with(&[lines[at], lines[at]]));
        for byte in ["\"", "[", "{", "=", "\u{0}", "é", "-9223372036854775808", "99999999999999999999"] {
            for place in 0..=lines[at].len() {
                let line = format!("{}{byte}{}", &lines[at][..place], &lines[at][place..]);
                let _ = Config::parse(&with(&[&line]));
            }
        }
    }
}

#[test]
fn one_port_of_the_underlay_may_leave_packets_to_its_nic() {
    let with = |offload: &str| GOOD.replacen("vlan = 30", &format!("vlan = 30\noffload = {offload}"), 1);
    let offload = |text: &str| Config::parse(text).unwrap().underlay[0].offload;
    assert_eq!((offload(GOOD), offload(&with("'none'")), offload(&with("'nic'"))), (false, false, true));
    assert_eq!(refused(&with("'chip'")).fix, "write \"nic\", \"none\"");
    let second = "\n[[underlay]]\nname = 'b'\nport = 'tap:b'\naddresses = ['10.0.0.1/8']\noffload = 'nic'\n";
    let error = refused(&(with("'nic'") + second));
    assert!(
        error.cause.starts_with("the port whose NIC puts packets into tunnels is there already"),
        "{error}"
    );
    let router =
        "[[underlay]]\nname = 'b'\nmac = '02:00:00:00:00:01'\naddresses = ['10.0.0.1/8']\noffload = 'nic'\n";
    let error = Config::parse_for_router(router).unwrap_err();
    assert_eq!((error.line, &error.fix[..]), (5, "leave offload out"));
}
