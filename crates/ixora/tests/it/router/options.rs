//! What elements ask of their ports, seen on the wire.

use testbed::i40e;

use super::frame::{ethernet, udp4};
use super::rig::{Hosts, Rig};

const TAG: [u8; 4] = [0x81, 0x00, 0x60, 0x05];

/// What comes out of the second port when these frames go into the first.
fn through(path: &str, frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let place = tempfile::tempdir().expect("a directory");
    let (hosts, wires) = Hosts::on(place.path(), 2);
    let mut rig = Rig::new(path, &["P0", "P1"], 1, &wires);
    let heard = rig.run(|_| {
        let one = |frame: &Vec<u8>| {
            hosts[0].send(frame);
            hosts[1].next()
        };
        frames.iter().map(one).collect()
    });
    assert!(rig.findings().is_empty(), "{:#?}", rig.findings());
    heard
}

#[test]
fn a_port_takes_tags_off_into_the_annotation() {
    let plain = ethernet([2, 0, 0, 0, 0, 1], [2; 6], 0x0800, &[7; 80]);
    let tagged = [&plain[..12], &TAG, &plain[12..]].concat();
    let frames = [tagged.clone(), plain.clone()];
    let kept = through("FromDevice($P0) -> ToDevice($P1)", &frames);
    assert_eq!(kept, frames);
    let off = through("FromDevice($P0, VLAN_STRIP true) -> ToDevice($P1)", &frames);
    assert_eq!(off, [plain.clone(), plain]);
    let on_again = through("FromDevice($P0, VLAN_STRIP true) -> VLANEncap(ANNO) -> ToDevice($P1)", &frames);
    assert_eq!(on_again, frames);
}

#[test]
fn frames_as_long_as_the_mtu_pass() {
    for mtu in [1900, 9000] {
        let frame = ethernet([2, 0, 0, 0, 0, 1], [2; 6], 0x0800, &vec![7; mtu]);
        let config = format!("FromDevice($P0, MTU {mtu}) -> ToDevice($P1, MTU {mtu})");
        assert_eq!(through(&config, std::slice::from_ref(&frame)), [frame], "{mtu}");
    }
}

/// Which of these frames come through a router that was told `handlers` first.
fn passes(config: &str, handlers: &[(&str, &str)], frames: &[Vec<u8>]) -> Vec<bool> {
    told(|wires| Rig::new(config, &["P0", "P1"], 1, wires), handlers, frames)
}

fn told(rig: impl Fn(&[String]) -> Rig, handlers: &[(&str, &str)], frames: &[Vec<u8>]) -> Vec<bool> {
    let place = tempfile::tempdir().expect("a directory");
    let (hosts, wires) = Hosts::on(place.path(), 2);
    let mut rig = rig(&wires);
    for (handler, value) in handlers {
        rig.router.write(handler, value).unwrap_or_else(|refused| panic!("{handler} {value}: {refused}"));
    }
    rig.run(|_| {
        let one = |frame: &Vec<u8>| {
            hosts[0].send(frame);
            hosts[1].hear(300).is_some_and(|heard| heard == *frame)
        };
        frames.iter().map(one).collect()
    })
}

#[test]
fn handlers_change_the_filters_of_a_port() {
    let to = |last: u8| ethernet([2, 0, 0, 0, 9, last], [2; 6], 0x0800, &[7; 80]);
    let frames = [to(1), to(2)];
    let config = "f :: FromDevice($P0, PROMISC false) -> ToDevice($P1)";
    let add = ("f.add_mac", "02-00-00-00-09-02");
    assert_eq!(passes(config, &[], &frames), [false, false]);
    assert_eq!(passes(config, &[add], &frames), [false, true]);
    assert_eq!(passes(config, &[add, ("f.remove_mac", add.1)], &frames), [false, false]);
    assert_eq!(passes(config, &[add, add, ("f.remove_mac", add.1)], &frames), [false, false], "it was there");
    let plain = to(1);
    let tagged = |vlan: u8| [&plain[..12], &[0x81, 0, 0, vlan], &plain[12..]].concat();
    let frames = [plain.clone(), tagged(5), tagged(6)];
    let config = "f :: FromDevice($P0, VLAN_FILTER true) -> ToDevice($P1)";
    assert_eq!(passes(config, &[("f.add_vlan", "6")], &frames), [true, false, true]);
    let both = [("f.add_vlan", "5"), ("f.add_vlan", "6"), ("f.remove_vlan", "6")];
    assert_eq!(passes(config, &both, &frames), [true, true, false]);
}

#[test]
fn rules_for_flows_are_those_of_the_port() {
    const CONFIG: &str = "f :: FromDevice($P0, N_QUEUES 2, PAINT_QUEUE true)
        -> p :: PaintSwitch -> ToDevice($P1); p[1] -> Discard";
    let from = |port| {
        let packet = udp4(("10.0.0.1", port), ("10.0.0.2", 9), &[7; 80]);
        ethernet([2, 0, 0, 0, 0, 1], [2; 6], 0x0800, &packet.bytes())
    };
    let frames = [from(7), from(8)];
    let rule = |port: u16, actions: &str| {
        format!(
            "ingress pattern eth / ipv4 src is 10.0.0.1 dst is 10.0.0.2 / udp src is {port} dst is 9 / end {actions}"
        )
    };
    let open = |mac, cable| i40e::open(&i40e::Options::with_mac(mac), cable);
    let passes = |handlers: &[(&str, String)]| {
        let handlers: Vec<_> = handlers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        told(|wires| Rig::on(open, CONFIG, &["P0", "P1"], 2, wires), &handlers, &frames)
    };
    let add = |port, action: &str| ("f.rule_add", rule(port, &format!("actions {action} / end")));
    let both = [add(7, "queue index 0"), add(8, "queue index 0")];
    assert_eq!(passes(&both), [true, true]);
    assert_eq!(passes(&[add(7, "queue index 1"), add(8, "queue index 0")]), [false, true]);
    assert_eq!(passes(&[add(7, "queue index 0"), add(8, "drop")]), [true, false]);
    let changed = [add(7, "drop"), add(8, "queue index 0"), add(7, "queue index 0")];
    assert_eq!(passes(&changed), [true, true]);
    let removed = [add(7, "drop"), ("f.rule_remove", rule(7, "")), add(7, "queue index 0"), add(8, "drop")];
    assert_eq!(passes(&removed), [true, false]);
}

/// What a port cannot do, and what is no rule, is refused in words.
#[test]
fn rules_that_cannot_be_are_refused() {
    let rule = "pattern ipv4 src is 10.0.0.1 dst is 10.0.0.2 / end";
    let place = tempfile::tempdir().expect("a directory");
    let (_hosts, wires) = Hosts::on(place.path(), 2);
    let mut rig = Rig::new("f :: FromDevice($P0) -> ToDevice($P1)", &["P0", "P1"], 1, &wires);
    let mut refused = |handler: &str, value: &str| {
        rig.router.write(handler, value).expect_err("it cannot be done").to_string()
    };
    let unable = refused("f.rule_add", &format!("{rule} actions drop / end"));
    assert!(unable.contains("a filter for a flow"), "{unable}");
    let nothing = refused("f.rule_add", rule);
    assert!(nothing.contains("expected 'actions queue index N / end'"), "{nothing}");
    let absent = refused("f.rule_remove", rule);
    assert!(absent.contains("was not added"), "{absent}");
}
