//! Entries of `overlay.toml` that are prefixes, and those that lead to several far ends.

use std::sync::Arc;

use control::{Key, Several, Value};
use overlay::{Dscp, Layer, Match, Prefix, Target, Tunnel};
use vtep::{At, Config, EntryTarget, Held};
use wire::MacAddress;

use crate::refused;

/// Networks whose entries are prefixes, and entries that lead to several far ends.
pub const SEVERAL: &str = r#"
[[underlay]]
name = "up0"
port = "af_packet:eth1"
addresses = ["192.0.2.1/24"]

[[group]]
name = "segment1"
remotes = ["192.0.2.2", { remote = "192.0.2.3", weight = 3, ttl = 7 }]

[[network]]
number = 7
protocol = "lisp"
key = "lpm"

[[network.entry]]
key = "10.1.0.0/16"
remote = "192.0.2.4"

[[network.entry]]
key = "fd00::/8"
group = "segment1"

[[network]]
number = 100
protocol = "vxlan"

[[network.entry]]
key = "02:00:00:00:0b:01"
group = "segment1"

[[network.entry]]
key = "02:00:00:00:0b:02"
remotes = ["192.0.2.5", { remote = "192.0.2.6", identifier = 9 }]
"#;

#[test]
fn entries_are_prefixes_and_lead_to_several_far_ends() {
    let desired = Config::parse(SEVERAL).unwrap().desired(&[MacAddress([2, 0, 0, 0, 0, 1])]);
    assert_eq!(
        (desired.networks[&7].layer, desired.networks[&7].matching),
        (Layer::Ip, Match::LongestPrefix)
    );
    let prefix: Prefix = ("10.1.0.0".parse().unwrap(), 16);
    assert!(
        matches!(&desired.prefixes[&(7, prefix)], EntryTarget::Tunnel(tunnel) if tunnel.identifier == Some(7))
    );
    let several = |way: &EntryTarget| match way {
        EntryTarget::Several(several) => {
            let Several { name, members } = &**several;
            let member = |tunnel: &Tunnel| {
                (tunnel.remote.to_string(), tunnel.identifier.unwrap(), tunnel.ttl, tunnel.dscp)
            };
            let members = members.iter().map(|it| (member(&it.tunnel), it.weight)).collect::<Vec<_>>();
            (name.clone(), members)
        }
        EntryTarget::Tunnel(_) => panic!("several"),
    };
    let is = |last: u8, identifier, ttl, dscp, weight| {
        ((format!("192.0.2.{last}"), identifier, ttl, Dscp::Fixed(dscp)), weight)
    };
    let name = Some("segment1".to_owned());
    let members = several(&desired.prefixes[&(7, ("fd00::".parse().unwrap(), 8))]);
    assert_eq!(members, (name.clone(), vec![is(2, 7, 64, 0, 1), is(3, 7, 7, 0, 3)]));
    let members = several(&desired.entries[&(100, 0x0200_0000_0b01)]);
    assert_eq!(members, (name, vec![is(2, 100, 64, 0, 1), is(3, 100, 7, 0, 3)]));
    let members = several(&desired.entries[&(100, 0x0200_0000_0b02)]);
    assert_eq!(members, (None, vec![is(5, 100, 64, 0, 1), is(6, 9, 64, 0, 1)]));
    let mut held = Held::default();
    held.apply(desired, 0).unwrap();
    assert_eq!((held.table.entries(7), held.table.entries(100)), (2, 2));
    assert_eq!(held.program().compare_table(&held.table), []);
    let Target::Group(number) = held.table.entry(100, 0x0200_0000_0b01).unwrap().target else {
        panic!("a group")
    };
    let weights: Vec<u16> = held.table.group(*number).unwrap().iter().map(|member| member.weight).collect();
    assert_eq!(weights, [1, 3]);
    // A host that leaves its segment leaves all entries of it, and nothing else changes.
    let gone = SEVERAL.replace("\"192.0.2.2\", ", "");
    let without = Config::parse(&gone).unwrap().desired(&[MacAddress([2, 0, 0, 0, 0, 1])]);
    let changes = held.apply(without, 1).unwrap();
    assert_eq!((changes.set, changes.removed), (2, 0));
    // An entry that is said to lead elsewhere does, and what a table refuses changes nothing.
    let way = || segment(&gone);
    let at = At::Prefix(7, prefix);
    assert_eq!(held.set_entry(at, Some(way()), 2), Ok(true));
    let wrong = At::Prefix(7, ("10.1.0.1".parse().unwrap(), 16));
    assert!(held.set_entry(wrong, Some(way()), 2).is_err());
    assert!(held.set_entry(At::Bits(7, 5), Some(way()), 2).is_err());
    assert_eq!((held.set_entry(at, None, 3), held.table.entries(7)), (Ok(true), 1));
    assert_eq!(held.set_entry(at, None, 3), Ok(false));
    assert_eq!(held.program().compare_table(&held.table), []);
}

/// A file of many entries and few groups is as large in memory as its entries.
#[test]
fn entries_that_name_a_group_share_its_far_ends() {
    let entry =
        |last| format!("[[network.entry]]\nkey = \"02:00:00:00:0c:{last:02x}\"\ngroup = \"segment1\"\n");
    let text = [SEVERAL.to_owned(), (0..9).map(entry).collect()].concat();
    let mut held = Held::default();
    held.apply(Config::parse(&text).unwrap().desired(&[MacAddress([2, 0, 0, 0, 0, 1])]), 0).unwrap();
    let said = held.desired().entries.iter().filter_map(|((_, bits), way)| match way {
        EntryTarget::Several(several) if several.name.is_some() => Some((*bits, several.clone())),
        _ => None,
    });
    let said: Vec<(u128, Arc<Several>)> = said.collect();
    assert_eq!(said.len(), 10);
    for (bits, several) in &said {
        assert!(Arc::ptr_eq(several, &said[0].1), "{bits:x}");
        let wanted = held.program().value(&Key::of(100, *bits));
        assert!(matches!(wanted, Some(Value::Several(wanted)) if Arc::ptr_eq(wanted, several)), "{bits:x}");
    }
    // Those of another network have other tunnels.
    assert!(matches!(segment(&text), EntryTarget::Several(other) if other.members != said[0].1.members));
}

/// Where the prefix of IPv6 leads in a file.
fn segment(text: &str) -> EntryTarget {
    let desired = Config::parse(text).unwrap().desired(&[]);
    desired.prefixes[&(7, ("fd00::".parse().unwrap(), 8))].clone()
}

#[test]
fn what_is_wrong_with_prefixes_and_groups_has_its_place() {
    let changed = |from: &str, to: &str| {
        assert!(SEVERAL.contains(from), "{from}");
        let error = refused(&SEVERAL.replacen(from, to, 1));
        ((error.line, error.column), error.cause, error.fix)
    };
    let (place, cause, fix) = changed("\"10.1.0.0/16\"", "\"10.1.2.0/16\"");
    assert_eq!((place, fix.as_str()), ((17, 8), "write \"10.1.0.0/16\""), "{cause}");
    let (place, cause, _) = changed("\"10.1.0.0/16\"", "\"10.1.0.0/33\"");
    assert_eq!((place, cause.as_str()), ((17, 8), "/33 is no length"));
    let (place, cause, fix) = changed("key = \"lpm\"", "key = \"lpm\"\nlayer = \"ethernet\"");
    assert_eq!((place, fix.as_str()), ((14, 8), "write layer = \"ip\""), "{cause}");
    let (place, cause, _) = changed("protocol = \"lisp\"", "protocol = \"vxlan\"");
    assert_eq!((place.0, cause.as_str()), (18, "vxlan does not carry such packets"));
    let (place, cause, fix) = changed("group = \"segment1\"", "group = \"segment2\"");
    assert_eq!((place, fix.as_str()), ((22, 10), "name one of segment1"), "{cause}");
    let entry = "key = \"02:00:00:00:0b:01\"\ngroup = \"segment1\"";
    let (place, cause, fix) = changed(entry, &format!("{entry}\nremote = \"192.0.2.2\""));
    assert_eq!((place, fix.as_str()), ((30, 10), "leave group out"), "{cause}");
    let (place, cause, _) = changed(entry, &format!("{entry}\nidentifier = 200"));
    assert_eq!(place, (31, 14), "{cause}");
    assert!(cause.contains("identifier is this one's"), "{cause}");
    let (place, _, fix) = changed("af_packet:eth1", "tap:up,gso");
    assert_eq!((place, fix.as_str()), ((4, 9), "write \"tap:up\""));
    let (place, cause, _) = changed("weight = 3", "weight = 257");
    assert_eq!((place, cause.as_str()), ((9, 58), "257 is not possible here"));
    let (place, cause, _) = changed("{ remote = \"192.0.2.3\", weight = 3, ttl = 7 }", "\"192.0.2.2\"");
    assert_eq!((place, cause.as_str()), ((9, 26), "192.0.2.2 is in the list already"));
    let (place, cause, _) = changed("\"192.0.2.2\", {", "\"2001:db8::2\", {");
    assert_eq!(place, (9, 13), "{cause}");
    assert!(cause.starts_with("for network 7: no port of the underlay"), "{cause}");
    let (place, cause, _) = changed("[\"192.0.2.5\", { remote = \"192.0.2.6\", identifier = 9 }]", "[]");
    assert_eq!((place, cause.as_str()), ((34, 11), "0 far ends cannot share flows"));
    let (place, cause, _) = changed("name = \"segment1\"", "name = \"segment1\"\nwieght = 1");
    assert_eq!((place, cause.as_str()), ((9, 1), "a group has no `wieght`"));
    let twice = format!("{SEVERAL}[[group]]\nname = \"segment1\"\nremotes = [\"192.0.2.9\"]\n");
    let error = refused(&twice);
    assert_eq!((error.line, error.column), (36, 9), "{error:?}");
    assert!(error.cause.contains("from line 8"), "{error:?}");
}
