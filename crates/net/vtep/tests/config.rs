//! `overlay.toml`: what is read, and what is refused with its place.
#![allow(clippy::unwrap_used)]

use overlay::{Dscp, Layer, Unknown};
use vtep::{Config, Error, Listen};
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
    let entry = &desired.entries[&(100, 0x0200_0000_0b01)];
    assert_eq!((entry.identifier, entry.ttl, entry.dscp), (Some(100), 9, Dscp::Inherit));
    assert_eq!(desired.floods[&100][1].identifier, Some(7));
    // One end for all of a network's tunnels, where packets have an identifier.
    let ends: Vec<String> = desired.ends.keys().map(ToString::to_string).collect();
    assert_eq!(ends, ["ipip to 2001:db8::1, from 2001:db8::2", "vxlan to 192.0.2.1, identifier 100"]);
    desired.check().unwrap();
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
    let error = changed("via = \"192.0.2.254\"", "via = \"203.0.113.1\"");
    assert!(error.line == 10 && error.fix.contains("via"), "{error:?}");
    let error = changed("protocol = \"ipip\"", "protocol = \"vxlan\"");
    assert!(error.cause.contains("needs `key`"), "{error:?}");
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
    assert_eq!(options.local, Some("192.0.2.1".parse().unwrap()));
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
    assert!(error.cause.contains("entry 0x20000000b01 of network 100 is there already, from line 22"));
    let error = changed("tap:inner1", "tap:inner0");
    assert!(error.cause.contains("from line 17"), "{error:?}");
    let error = changed("number = 7", "number = 100");
    assert!(error.cause.contains("network 100 is there already"), "{error:?}");
    // Packets of one VNI cannot come out in two networks.
    let two =
        GOOD.replace("number = 7\nprotocol = \"ipip\"", "number = 8\nprotocol = \"vxlan\"\nidentifier = 100");
    let error = refused(&two.replace("remote = \"2001:db8::2\"", "key = 9\nremote = \"192.0.2.2\""));
    assert!(error.cause.contains("come out in network 100 already"), "{error:?}");
}

#[test]
fn a_change_is_as_small_as_what_is_different() {
    let macs = [MacAddress([2, 0, 0, 0, 0, 1])];
    let before = Config::parse(GOOD).unwrap().desired(&macs);
    let mut table = overlay::Overlay::new();
    before.apply(&mut table, &vtep::Desired::default()).unwrap();
    let same = before.apply(&mut table, &before).unwrap();
    assert_eq!((same.set, same.removed), (0, 0));
    let text = GOOD.replace("ttl = 9", "ttl = 10").replace("198.51.100.0/24", "198.51.100.0/25");
    let after = Config::parse(&text).unwrap().desired(&macs);
    let changes = after.apply(&mut table, &before).unwrap();
    assert_eq!((changes.set, changes.removed), (2, 1), "an entry and a route; the old route");
    assert_eq!(table.get(100, 0x0200_0000_0b01).unwrap().ttl, 10);
    // What is gone from the file is gone from the table.
    let entry = "[[network.entry]]\nkey = \"02:00:00:00:0b:01\"\nremote = \"192.0.2.2\"\nttl = 10\n";
    let without = Config::parse(&text.replace(entry, "")).unwrap().desired(&macs);
    let changes = without.apply(&mut table, &after).unwrap();
    assert_eq!((changes.set, changes.removed, table.entries(100)), (0, 1, 0));
    after.apply(&mut table, &without).unwrap();
    // A network that is another one takes its entries and ends with it, and they come back.
    let text = GOOD.replace("protocol = \"vxlan\"", "protocol = \"geneve\"\nkey = { offset = 6, bits = 48 }");
    let other = Config::parse(&text).unwrap().desired(&macs);
    other.apply(&mut table, &after).unwrap();
    assert_eq!(table.get(100, 0x0200_0000_0b01).unwrap().protocol.name, "geneve");
    before.apply(&mut table, &other).unwrap();
    assert_eq!(table.entries(100), 1);
    assert_eq!(table.tunnels(), 4);
}

#[test]
fn the_example_is_a_configuration() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../conf/overlay.toml");
    let config = Config::parse(&std::fs::read_to_string(path).unwrap()).unwrap();
    config.desired(&[MacAddress([2, 0, 0, 0, 0, 1])]).check().unwrap();
    assert_eq!(config.inner.len(), 2);
}

#[test]
fn the_page_about_overlays_has_all_losses() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/overlays.md");
    let page = std::fs::read_to_string(path).unwrap();
    for loss in vtep::Loss::ALL {
        let row = format!("| `{}` | {} |", loss.name(), loss.what());
        assert!(page.contains(&row), "{row}");
    }
    for protocol in overlay::PROTOCOLS {
        assert!(page.contains(&format!("`{}`", protocol.name)), "{}", protocol.name);
    }
}

#[test]
fn no_file_harms_the_reader() {
    // Cut off at every byte, and with every line twice, gone, or with another byte in it.
    for end in 0..GOOD.len() {
        let _ = Config::parse(&GOOD[..end]);
    }
    let lines: Vec<&str> = GOOD.lines().collect();
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
