use std::net::{IpAddr, Ipv4Addr};

use overlay::{LocalEnd, Member, Network, Protocol, Segment};
use wire::MacAddress;

use super::*;
use crate::state::{End, Group, Several, Weighted, bits};

const MAC: MacAddress = MacAddress([2, 0, 0, 0, 0, 7]);

fn address(last: u8) -> IpAddr {
    Ipv4Addr::new(192, 0, 2, last).into()
}

fn entry(last: u8) -> Option<Value> {
    Some(Value::Entry(Far { remote: address(last), local: address(1), vni: 10, port: None }))
}

fn network() -> Change {
    Change { key: Key::Network(10), value: Some(Value::Network(End::new(address(1)))) }
}

fn remote(overlay: &Overlay) -> Option<IpAddr> {
    overlay.get(10, bits(MAC)).map(|tunnel| tunnel.remote)
}

#[test]
fn the_first_owner_has_its_way_and_the_next_one_when_it_gives_up() {
    let (mut overlay, mut program) = (Overlay::new(), Program::new());
    let key = Key::Entry(10, MAC);
    program.apply(&mut overlay, Owner::Kernel, vec![network(), Change { key, value: entry(2) }], 5);
    assert_eq!(remote(&overlay), Some(address(2)));
    assert_eq!(program.apply(&mut overlay, Owner::Api, vec![Change { key, value: entry(3) }], 6), 1);
    assert_eq!(remote(&overlay), Some(address(3)));
    assert_eq!(program.apply(&mut overlay, Owner::Kernel, vec![Change { key, value: entry(4) }], 7), 0);
    assert_eq!(remote(&overlay), Some(address(3)));
    assert_eq!(program.claim(&key).map(|(owner, claim)| (owner, claim.since_ns)), Some((Owner::Api, 6)));
    program.apply(&mut overlay, Owner::Api, vec![Change { key, value: None }], 8);
    assert_eq!(remote(&overlay), Some(address(4)));
    program.apply(&mut overlay, Owner::Kernel, vec![Change { key, value: None }], 9);
    assert_eq!(remote(&overlay), None);
}

/// The table says whose an entry is, as the claims do, also where two want the same.
#[test]
fn an_entry_is_its_owners_whoever_had_it_before() {
    let (mut overlay, mut program) = (Overlay::new(), Program::new());
    let key = Key::Entry(10, MAC);
    let owner = |overlay: &Overlay| overlay.entry(10, bits(MAC)).map(|entry| entry.owner);
    program.apply(&mut overlay, Owner::Kernel, vec![network(), Change { key, value: entry(2) }], 5);
    assert_eq!(owner(&overlay), Some(Owner::Kernel));
    let same = vec![Change { key, value: entry(2) }];
    assert_eq!(program.apply(&mut overlay, Owner::Static, same, 6), 0, "it leads where it led");
    assert_eq!(owner(&overlay), Some(Owner::Static));
    program.apply(&mut overlay, Owner::Static, vec![Change { key, value: entry(3) }], 7);
    assert_eq!((owner(&overlay), remote(&overlay)), (Some(Owner::Static), Some(address(3))));
    assert_eq!(program.compare_table(&overlay), []);
    program.apply(&mut overlay, Owner::Static, vec![Change { key, value: None }], 8);
    assert_eq!((owner(&overlay), remote(&overlay)), (Some(Owner::Kernel), Some(address(2))));
    overlay.hand_over(10, bits(MAC), Owner::Fpm).expect("a network");
    let [(_, what)] = &program.compare_table(&overlay)[..] else { panic!("it is named") };
    assert!(what.contains("told by owner kernel"), "{what}");
    program.apply(&mut overlay, Owner::Kernel, vec![Change { key, value: None }], 9);
    assert_eq!((owner(&overlay), overlay.tunnels()), (None, 0));
}

/// A network of the configuration's in which the longest prefix decides, and its prefixes: one
/// far end, a named group for two, and far ends of one's own.
#[test]
fn prefixes_lead_to_tunnels_and_groups() {
    let (mut overlay, mut program) = (Overlay::new(), Program::new());
    let lisp = |last| {
        let protocol = Protocol::named("lisp").expect("a row of the table");
        Tunnel::new(protocol, address(1), address(last)).with_identifier(7)
    };
    let several = |name: Option<&str>, remotes: &[u8]| {
        let member = |last: &u8| Member { tunnel: lisp(*last), weight: (*last).into() };
        let members = remotes.iter().map(member).collect();
        Some(Value::Several(Several { name: name.map(str::to_owned), members }.into()))
    };
    let at = |n| Key::Prefix(7, (Ipv4Addr::new(10, n, 0, 0).into(), 16));
    let settings = Settings { network: Network::routed(), ends: vec![] };
    let all = [
        (Key::Network(7), Some(Value::network(7, settings))),
        (at(1), Some(Value::tunnel(lisp(2)))),
        (at(2), several(Some("both"), &[2, 3])),
        (at(3), several(Some("both"), &[2, 3])),
        (at(4), several(None, &[3, 4])),
    ];
    let mut want = |overlay: &mut Overlay, changes: &[(Key, Option<Value>)]| {
        let changes = changes.iter().cloned().map(|(key, value)| Change { key, value });
        program.apply(overlay, Owner::Static, changes.collect(), 0);
        (program.compare_table(overlay), program.refused().len())
    };
    assert_eq!(want(&mut overlay, &all), (vec![], 0));
    let group = |overlay: &Overlay, n| {
        let Key::Prefix(_, prefix) = at(n) else { unreachable!("a prefix") };
        match overlay.prefix_entry(7, prefix)?.target {
            Target::Group(number) => Some(*number),
            Target::Tunnel(_) => None,
        }
    };
    assert_eq!((group(&overlay, 1), overlay.entries(7)), (None, 4));
    let both = group(&overlay, 2).expect("a group");
    assert_eq!((group(&overlay, 3), overlay.group(both).expect("it is there")[1].weight), (Some(both), 3));
    assert_ne!(group(&overlay, 4), Some(both));
    // What is said for the first of a group's entries is so for all.
    let changed = [(at(2), several(Some("both"), &[3])), (at(3), several(Some("both"), &[3]))];
    assert_eq!(want(&mut overlay, &changed), (vec![], 0));
    assert_eq!((group(&overlay, 2), overlay.group(both).map(<[Member]>::len)), (Some(both), Some(1)));
    // Another kind of network has no place for prefixes, and they come back with the first kind.
    let bridged = Settings { network: Network::bridged(), ends: vec![] };
    let (named, refused) = want(&mut overlay, &[(Key::Network(7), Some(Value::network(7, bridged)))]);
    assert_eq!((refused, named.len(), overlay.entries(7)), (4, 4, 0), "{named:?}");
    let gone = [(at(1), None), (at(2), None), (at(3), None), (at(4), None)];
    assert_eq!(want(&mut overlay, &gone), (vec![], 0));
    assert_eq!(overlay.group(both), None);
    assert_eq!(want(&mut overlay, &all), (vec![], 0));
    assert_eq!(overlay.entries(7), 4);
}

#[test]
fn an_end_is_in_the_overlay_as_it_is_asked_for_and_as_it_changes() {
    let (mut overlay, mut program) = (Overlay::new(), Program::new());
    let local: IpAddr = "2001:db8::1".parse().expect("an address");
    let (at, _) = Settings::bridged(10, End::new(local)).ends.remove(0);
    for (port, zero_checksum) in [(None, false), (Some(8472), true), (Some(8473), false), (None, true)] {
        let end = End { local, port, zero_checksum };
        let change = Change { key: Key::Network(10), value: Some(Value::Network(end)) };
        program.apply(&mut overlay, Owner::Kernel, vec![change], 0);
        let is = LocalEnd { network: 10, port: port.or(Some(4789)), zero_checksum };
        assert_eq!(overlay.end(&at), Some(is));
    }
    program.apply(&mut overlay, Owner::Kernel, vec![Change { key: Key::Network(10), value: None }], 0);
    assert_eq!(overlay.end(&at), None);
}

#[test]
fn entries_wait_for_their_network_whoever_has_it() {
    let (mut overlay, mut program) = (Overlay::new(), Program::new());
    let key = Key::Entry(10, MAC);
    program.apply(&mut overlay, Owner::Api, vec![Change { key, value: entry(2) }], 0);
    assert_eq!(program.waiting().collect::<Vec<_>>(), [key]);
    program.apply(&mut overlay, Owner::Kernel, vec![network()], 0);
    assert_eq!((remote(&overlay), program.waiting().count()), (Some(address(2)), 0));
    let gone = Change { key: Key::Network(10), value: None };
    program.apply(&mut overlay, Owner::Kernel, vec![gone], 0);
    assert_eq!((remote(&overlay), program.waiting().count()), (None, 1));
    program.apply(&mut overlay, Owner::Kernel, vec![network()], 0);
    assert_eq!(remote(&overlay), Some(address(2)));
}

#[test]
fn a_network_of_which_nobody_wants_anything_is_not_waited_for() {
    let (mut overlay, mut program) = (Overlay::new(), Program::new());
    let (entries, flood) = ([Key::Entry(10, MAC), Key::Entry(10, MacAddress([2; 6]))], Key::Flood(10));
    let all = [entries[0], entries[1], flood].map(|key| Change { key, value: entry(2) });
    program.apply(&mut overlay, Owner::Api, all.to_vec(), 0);
    let gone = |key| vec![Change { key, value: None }];
    for key in [flood, entries[0]] {
        program.apply(&mut overlay, Owner::Api, gone(key), 0);
        assert_eq!(program.waiting.len(), 1);
    }
    program.apply(&mut overlay, Owner::Api, gone(entries[1]), 0);
    assert!(program.waiting.is_empty());
    // And by the way of a network that comes and goes.
    program.apply(
        &mut overlay,
        Owner::Kernel,
        vec![Change { key: entries[0], value: entry(2) }, network()],
        0,
    );
    program.apply(&mut overlay, Owner::Kernel, gone(Key::Network(10)), 0);
    assert_eq!(program.waiting.len(), 1);
    program.apply(&mut overlay, Owner::Kernel, gone(entries[0]), 0);
    assert!(program.waiting.is_empty());
}

#[test]
fn what_the_overlay_refuses_is_named_and_leaves_nothing_stale() {
    let (mut overlay, mut program) = (Overlay::new(), Program::new());
    let key = Key::Entry(10, MAC);
    program.apply(&mut overlay, Owner::Kernel, vec![network(), Change { key, value: entry(2) }], 0);
    let mixed =
        Far { remote: address(2), local: "2001:db8::1".parse().expect("an address"), vni: 10, port: None };
    let change = Change { key, value: Some(Value::Entry(mixed)) };
    program.apply(&mut overlay, Owner::Kernel, vec![change], 0);
    assert!(program.refused().contains_key(&key));
    assert_eq!(remote(&overlay), None, "the far end before is not wanted any more");
    program.apply(&mut overlay, Owner::Kernel, vec![Change { key, value: entry(3) }], 0);
    assert!(program.refused().is_empty());
    assert_eq!(remote(&overlay), Some(address(3)));
}

/// A claim for a station behind the hosts of a segment.
fn behind(last: u8, id: u32, remotes: &[u8]) -> Change {
    let far = |remote: &u8| Far { remote: address(*remote), local: address(1), vni: 10, port: None };
    let fars = remotes.iter().map(|remote| Weighted { far: far(remote), weight: 1 });
    let group = Group { id, fars: fars.collect() };
    Change { key: Key::Entry(10, MacAddress([2, 0, 0, 0, 0, last])), value: Some(Value::Group(group)) }
}

fn members(overlay: &Overlay, last: u8) -> Vec<IpAddr> {
    let entry = overlay.entry(10, bits(MacAddress([2, 0, 0, 0, 0, last])));
    match entry.map(|entry| entry.target) {
        Some(Target::Group(number)) => {
            overlay.group(*number).into_iter().flatten().map(|member| member.tunnel.remote).collect()
        }
        Some(Target::Tunnel(tunnel)) => vec![tunnel.remote],
        None => vec![],
    }
}

#[test]
fn stations_of_a_segment_share_a_group_that_goes_with_the_last_of_them() {
    let (mut overlay, mut program) = (Overlay::new(), Program::new());
    let mut want = |overlay: &mut Overlay, changes| program.apply(overlay, Owner::Kernel, changes, 0);
    want(&mut overlay, vec![network(), behind(1, 500, &[2, 3]), behind(2, 500, &[2, 3])]);
    assert_eq!((members(&overlay, 1), overlay.tunnels()), (vec![address(2), address(3)], 3));
    // A far end that leaves is left out for all of them by the first that is changed.
    want(&mut overlay, vec![behind(1, 500, &[3])]);
    assert_eq!((members(&overlay, 1), members(&overlay, 2)), (vec![address(3)], vec![address(3)]));
    assert_eq!(want(&mut overlay, vec![behind(2, 500, &[3])]), 1);
    // Another segment, and one far end alone.
    want(&mut overlay, vec![behind(1, 501, &[2, 4])]);
    assert_eq!(
        (members(&overlay, 1), members(&overlay, 2)),
        (vec![address(2), address(4)], vec![address(3)])
    );
    let single = Change { key: Key::Entry(10, MacAddress([2, 0, 0, 0, 0, 2])), value: entry(9) };
    want(&mut overlay, vec![single]);
    assert_eq!((members(&overlay, 2), overlay.group(1)), (vec![address(9)], None));
    want(&mut overlay, vec![Change { key: Key::Network(10), value: None }]);
    assert_eq!((overlay.group(2), overlay.tunnels()), (None, 0));
    want(&mut overlay, vec![network()]);
    assert_eq!(members(&overlay, 1), [address(2), address(4)]);
}

/// The shares of a segment's hosts are changed without a host that comes or goes.
#[test]
fn a_segments_hosts_have_flows_by_their_weights() {
    let (mut overlay, mut program) = (Overlay::new(), Program::new());
    let weights = |overlay: &Overlay| {
        let members = overlay.group(1).into_iter().flatten();
        members.map(|member| member.weight).collect::<Vec<u16>>()
    };
    for weight in [7, 1, 256] {
        let mut change = behind(1, 500, &[2, 3]);
        let Some(Value::Group(group)) = &mut change.value else { panic!("a group") };
        group.fars[1].weight = weight;
        assert_eq!(
            program.apply(&mut overlay, Owner::Kernel, vec![network(), change], 0),
            1 + usize::from(weight == 7)
        );
        assert_eq!((weights(&overlay), program.compare_table(&overlay)), (vec![1, weight], vec![]));
    }
}

/// Two devices of a network may send to other UDP ports by the same nexthop object.
#[test]
fn stations_of_devices_with_other_ports_share_no_group() {
    let (mut overlay, mut program) = (Overlay::new(), Program::new());
    let mut other = behind(2, 500, &[2, 3]);
    let Some(Value::Group(group)) = &mut other.value else { panic!("a group") };
    group.fars.iter_mut().for_each(|weighted| weighted.far.port = Some(8472));
    program.apply(&mut overlay, Owner::Kernel, vec![network(), behind(1, 500, &[2, 3]), other], 0);
    let port = |last: u8| match overlay.entry(10, bits(MacAddress([2, 0, 0, 0, 0, last])))?.target {
        Target::Group(number) => overlay.group(*number)?.first()?.tunnel.port,
        Target::Tunnel(_) => panic!("a group"),
    };
    assert_eq!((port(1), port(2)), (None, Some(8472)));
    assert_eq!(program.compare_table(&overlay), []);
}

#[test]
fn a_group_that_is_not_what_is_wanted_is_named_and_put_again() {
    let (mut overlay, mut program) = (Overlay::new(), Program::new());
    program.apply(&mut overlay, Owner::Kernel, vec![network(), behind(1, 500, &[2, 3])], 0);
    assert_eq!(program.compare_table(&overlay), []);
    let Some(Target::Group(number)) =
        overlay.entry(10, bits(MacAddress([2, 0, 0, 0, 0, 1]))).map(|it| it.target)
    else {
        panic!("a group")
    };
    let (number, other) = (*number, Far { remote: address(9), local: address(1), vni: 10, port: None });
    overlay.set_group(number, &[other.tunnel()]).expect("it is a tunnel");
    let found = program.compare_table(&overlay);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(program.put_again(&mut overlay, found[0].0));
    assert_eq!(
        (program.compare_table(&overlay), members(&overlay, 1)),
        (vec![], vec![address(2), address(3)])
    );
}

/// What is told of a network's segment waits for the network, and is told again of a new one.
#[test]
fn a_segment_waits_for_its_network_and_is_named_where_it_is_otherwise() {
    let (mut overlay, mut program) = (Overlay::new(), Program::new());
    let key = Key::Segment(10);
    let segment = |last| Segment { is_designated: false, peers: vec![address(last)] };
    let change = |last| Change { key, value: Some(Value::Segment(segment(last))) };
    program.apply(&mut overlay, Owner::Api, vec![change(2)], 0);
    assert_eq!((program.waiting().collect::<Vec<_>>(), overlay.segment(10)), (vec![key], None));
    program.apply(&mut overlay, Owner::Kernel, vec![network()], 0);
    assert_eq!((program.waiting().count(), overlay.segment(10)), (0, Some(&segment(2))));
    assert_eq!(program.compare_table(&overlay), []);
    // The file goes first, and what a controller said is there when it gives up.
    program.apply(&mut overlay, Owner::Static, vec![change(3)], 0);
    assert_eq!(overlay.segment(10), Some(&segment(3)));
    program.apply(&mut overlay, Owner::Static, vec![Change { key, value: None }], 0);
    assert_eq!(overlay.segment(10), Some(&segment(2)));
    overlay.set_segment(10, None).expect("a network");
    let found = program.compare_table(&overlay);
    assert_eq!((found.len(), found[0].0), (1, key), "{found:?}");
    assert!(program.put_again(&mut overlay, key));
    assert_eq!(program.compare_table(&overlay), []);
    program.apply(&mut overlay, Owner::Kernel, vec![Change { key: Key::Network(10), value: None }], 0);
    assert_eq!(overlay.segment(10), None);
    program.apply(&mut overlay, Owner::Kernel, vec![network()], 0);
    assert_eq!(overlay.segment(10), Some(&segment(2)));
    program.apply(&mut overlay, Owner::Api, vec![Change { key, value: None }], 0);
    assert_eq!((overlay.segment(10), program.compare_table(&overlay)), (None, vec![]));
}
