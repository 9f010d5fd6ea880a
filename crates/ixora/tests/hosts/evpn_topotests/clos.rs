//! bgp_evpn_three_tier_clos_topo1: spines, leaves of two pods, and the racks' switches below them, of
//! which each is the end of tunnels.

use super::*;

const NETWORK: u32 = 111;

/// A router of the fabric that is no end of tunnels, by its number: spines are 1 and 2, leaves of the
/// first pod 3 and 4, of the second 5 and 6. The racks' switches follow.
struct Node {
    host: Host,
    router: Option<Router>,
}

const SPINES: [usize; 2] = [1, 2];
const PODS: [[usize; 2]; 2] = [[3, 4], [5, 6]];
/// The pod of each rack's switch.
const RACKS: [usize; 3] = [0, 1, 1];
const FIRST_RACK: usize = 7;

/// All cables, from the lower end.
fn cables() -> Vec<(usize, usize)> {
    let leaves = PODS.into_iter().flatten().flat_map(|leaf| SPINES.map(|spine| (leaf, spine)));
    let racks = RACKS.iter().enumerate().flat_map(|(n, pod)| PODS[*pod].map(|leaf| (FIRST_RACK + n, leaf)));
    leaves.chain(racks).collect()
}

/// The system of a router: spines have one, and so have the leaves of a pod.
fn system(node: usize) -> u32 {
    match node {
        1 | 2 => 652_000,
        3 | 4 => 651_001,
        5 | 6 => 651_004,
        rack => 650_000 + rack as u32,
    }
}

/// The address of a router on its cable to another one.
fn address_to(node: usize, other: usize) -> String {
    let end = if node > other { 1 } else { 2 };
    format!("10.{}.{}.{end}", 20 + node.max(other), node.min(other))
}

/// The name of a router's interface to another one.
fn interface(other: usize) -> &'static str {
    ["e1", "e2", "e3", "e4", "e5", "e6", "e7", "e8", "e9"][other - 1]
}

fn local(rack: usize) -> String {
    format!("10.9.1.{rack}")
}

fn bgp_of(node: usize) -> String {
    let others = cables().into_iter().filter_map(|(a, b)| match (a == node, b == node) {
        (true, _) => Some(b),
        (_, true) => Some(a),
        _ => None,
    });
    let peers: Vec<_> = others.map(|other| (address_to(other, node), system(other))).collect();
    let (networks, evpn) = match node.checked_sub(FIRST_RACK) {
        Some(rack) => (format!("  network {}/32\n", local(rack + 1)), "  advertise-all-vni\n"),
        None => (String::new(), ""),
    };
    bgp("node", (system(node), &format!("10.9.2.{node}")), &peers, &networks, evpn)
}

/// Lays all cables, with addresses at both ends.
fn join(racks: &[Edge], nodes: &[Node]) {
    for (lower, upper) in cables() {
        let host = match lower.checked_sub(FIRST_RACK) {
            Some(rack) => &racks[rack].host,
            None => &nodes[lower - 1].host,
        };
        cable(host, interface(upper), &nodes[upper - 1].host, interface(lower));
        for (host, node, other) in [(host, lower, upper), (&nodes[upper - 1].host, upper, lower)] {
            let command = format!("addr add {}/24 dev {}", address_to(node, other), interface(other));
            host.run(move || ip(&command));
        }
    }
}

/// Machines of all racks reach each other over up to three tiers; a rack that loses all its uplinks
/// is gone from the others' tables, and is back with them.
#[test]
fn bgp_evpn_three_tier_clos_topo1() {
    let Some(tree) = packages() else { return };
    let place = tempfile::tempdir().expect("a directory");
    let mut racks: Vec<Edge> =
        (1..=RACKS.len()).map(|rack| Edge::new(rack, &local(rack), &[NETWORK], place.path())).collect();
    let mut nodes: Vec<Node> = (1..FIRST_RACK).map(|_| Node { host: Host::new(), router: None }).collect();
    join(&racks, &nodes);
    for (node, number) in nodes.iter_mut().zip(1..) {
        let (tree, directory, text) =
            (tree.clone(), place.path().join(format!("node{number}")), bgp_of(number));
        node.router = Some(node.host.run(move || {
            std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").expect("root may");
            started(tree, directory, &text)
        }));
    }
    for (n, rack) in racks.iter_mut().enumerate() {
        let command = format!("addr add {}/32 dev lo", rack.local);
        rack.host.run(move || ip(&command));
        rack.start_router(&tree, bgp_of(FIRST_RACK + n));
        let up = |leaf| (interface(leaf), format!("{}/24", address_to(FIRST_RACK + n, leaf)));
        rack.start_endpoint(&PODS[RACKS[n]].map(up));
    }
    for (at, others) in [(0, [1, 2]), (1, [0, 2]), (2, [0, 1])] {
        racks[at].until_floods(NETWORK, &others.map(|other| &racks[other]));
        others.iter().for_each(|other| racks[at].until_answers(NETWORK, &racks[*other]));
        others.iter().for_each(|other| racks[at].until_leads(NETWORK, &racks[*other], true));
    }
    let flap = |leaves: &[usize], state: &'static str| {
        for leaf in leaves.iter().copied() {
            racks[1].host.run(move || ip(&format!("link set {} {state}", interface(leaf))));
        }
    };
    // One uplink is enough.
    flap(&PODS[1][..1], "down");
    racks[0].until_answers(NETWORK, &racks[1]);
    racks[1].until_answers(NETWORK, &racks[2]);
    flap(&PODS[1][1..], "down");
    for (at, other) in [(0, 2), (2, 0)] {
        racks[at].until_floods(NETWORK, &[&racks[other]]);
        racks[at].until_leads(NETWORK, &racks[1], false);
        racks[at].until_answers(NETWORK, &racks[other]);
    }
    assert!(!racks[0].answers(NETWORK, &racks[1]), "it has no uplink");
    flap(&PODS[1], "up");
    for (at, other) in [(0, 2), (2, 0)] {
        racks[at].until_floods(NETWORK, &[&racks[1], &racks[other]]);
        racks[at].until_leads(NETWORK, &racks[1], true);
        racks[at].until_answers(NETWORK, &racks[1]);
    }
    racks.iter_mut().for_each(Edge::end);
}
