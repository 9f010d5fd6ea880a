//! Groups of tunnels: which flows go where, and what a member's coming and going moves.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};

use overlay::{
    Encapsulator, Error, Layer, MAX_MEMBERS, MAX_WEIGHT, Member, Network, Overlay, Owner, Sent, Target,
    Tunnel,
};
use port::Reason;
use proptest::prelude::*;
use wire::ipv4;

use crate::rig::{Buffers, NETWORK, PEER, encapsulate, frame, port, table, tunnel, v4};

const GROUP: u64 = 77;
const FLOWS: u16 = 512;

fn end(n: u8) -> IpAddr {
    Ipv4Addr::new(192, 0, 2, 100 + n).into()
}

fn member(n: u8) -> Tunnel {
    Tunnel { remote: end(n), ..tunnel("vxlan", false) }
}

fn members(of: &[u8]) -> Vec<Tunnel> {
    of.iter().map(|n| member(*n)).collect()
}

/// A table whose entry leads to a group.
fn with_group(of: &[u8]) -> (Overlay, Encapsulator) {
    let mut here = table();
    here.add_network(NETWORK, Network::bridged()).unwrap();
    here.set_group(GROUP, &members(of)).unwrap();
    here.insert_as(Owner::Kernel, NETWORK, 0x0200_0000_0101, Target::Group(GROUP)).unwrap();
    let sender = here.encapsulator();
    here.publish();
    (here, sender)
}

fn packet_of(flow: u16) -> Vec<u8> {
    let mut packet = v4(0, b"flow");
    packet[20..22].copy_from_slice(&flow.to_be_bytes());
    frame(1, 0x0800, &packet)
}

/// The last byte of the member's address by which each flow goes.
fn ways(sender: &mut Encapsulator) -> Vec<u8> {
    let mut buffers = Buffers::new();
    let way = |flow| {
        let mut packet = buffers.packet(&packet_of(flow));
        assert_eq!(encapsulate(sender, &mut packet), Sent::Port(3));
        let IpAddr::V4(dst) = ipv4::Header::of(&packet[14..]).unwrap().addresses().dst() else {
            unreachable!()
        };
        dst.octets()[3] - 100
    };
    (0..FLOWS).map(way).collect()
}

fn shares(ways: &[u8]) -> HashMap<u8, usize> {
    ways.iter().fold(HashMap::new(), |mut shares, way| {
        *shares.entry(*way).or_default() += 1;
        shares
    })
}

/// RFC 2992 asks for little disruption; a table of buckets gives the least.
#[test]
fn a_member_that_leaves_moves_only_its_own_flows() {
    let (mut here, mut sender) = with_group(&[1, 2, 3, 4]);
    let before = ways(&mut sender);
    assert!(shares(&before).values().all(|share| (FLOWS as usize / 8..FLOWS as usize / 2).contains(share)));
    here.set_group(GROUP, &members(&[1, 2, 4])).unwrap();
    here.publish();
    let after = ways(&mut sender);
    assert!(before.iter().zip(&after).all(|(before, after)| before == after || *before == 3));
    assert!(!after.contains(&3));
    assert!(shares(&after).values().all(|share| *share > FLOWS as usize / 5), "{:?}", shares(&after));
    // One that comes takes its share and no flow goes between those that were there.
    here.set_group(GROUP, &members(&[5, 1, 2, 4])).unwrap();
    here.publish();
    let with_another = ways(&mut sender);
    assert!(after.iter().zip(&with_another).all(|(before, now)| before == now || *now == 5));
    assert!(shares(&with_another)[&5] > FLOWS as usize / 6);
}

/// RFC 7432, section 8.2: a host whose way is lost is left out at once, by the change of the
/// underlay alone.
#[test]
fn a_member_without_a_way_moves_only_its_own_flows_and_gets_them_back() {
    let (mut here, mut sender) = with_group(&[1, 2, 3]);
    let before = ways(&mut sender);
    for lost in [2, 3] {
        here.set_port(9, Some(port()));
        here.set_route((end(lost), 32), Some(overlay::Route { port: 9, gateway: None })).unwrap();
        here.publish();
        let after = ways(&mut sender);
        assert!(
            before.iter().zip(&after).all(|(before, after)| before == after || (2..=lost).contains(before))
        );
        assert!(!after.contains(&lost));
    }
    assert_eq!(shares(&ways(&mut sender)).len(), 1, "the last one carries all");
    here.set_route((end(1), 32), Some(overlay::Route { port: 9, gateway: None })).unwrap();
    here.publish();
    let mut packet = Buffers::new().packet(&packet_of(0));
    assert_eq!(encapsulate(&mut sender, &mut packet), Sent::Drop(Reason::OverlayNoNeighbor));
    assert_eq!(here.problem(NETWORK, 0x0200_0000_0101), Some(Reason::OverlayNoNeighbor));
    for back in [1, 2, 3] {
        here.set_neighbor(9, end(back), Some(PEER));
        here.set_route((end(back), 32), None).unwrap();
    }
    here.publish();
    assert_eq!(ways(&mut sender), before);
}

fn weighed(of: &[(u8, u16)]) -> Vec<Member> {
    of.iter().map(|(n, weight)| Member { tunnel: member(*n), weight: *weight }).collect()
}

/// Flows are shared by weight, also those of a member that is lost, and the least weight has some.
#[test]
fn a_member_has_flows_by_its_weight() {
    let (mut here, mut sender) = with_group(&[1, 2, 3]);
    let equal = ways(&mut sender);
    here.set_group(GROUP, &weighed(&[(1, 1), (2, 2), (3, 5)])).unwrap();
    here.publish();
    let before = ways(&mut sender);
    assert!(equal.iter().zip(&before).all(|(was, is)| was == is || *is == 3), "only one weighs more");
    let is_near = |ways: &[u8], n: u8, eighths: usize| {
        let (share, due) = (shares(ways)[&n], FLOWS as usize * eighths / 8);
        assert!(share.abs_diff(due) < FLOWS as usize / 10, "{n} has {share}, not {due}");
    };
    (1..=3).for_each(|n| is_near(&before, n, [1, 2, 5][usize::from(n) - 1]));
    // Of what the third had the second gets twice as much as the first.
    here.set_port(9, Some(port()));
    here.set_route((end(3), 32), Some(overlay::Route { port: 9, gateway: None })).unwrap();
    here.publish();
    let without = ways(&mut sender);
    assert!(before.iter().zip(&without).all(|(was, is)| was == is || *was == 3));
    let share = shares(&without)[&2];
    assert!(share.abs_diff(FLOWS as usize * 2 / 3) < FLOWS as usize / 8, "{share}");
    let mut light: Vec<(u8, u16)> = (1..40).map(|n| (n, MAX_WEIGHT)).collect();
    light.push((40, 1));
    here.set_route((end(3), 32), None).unwrap();
    here.set_group(GROUP, &weighed(&light)).unwrap();
    here.publish();
    let shares = shares(&ways(&mut sender));
    assert!(shares.len() > 30 && shares.contains_key(&40), "{shares:?}");
}

/// What a lost member's flows went by stays when another member leaves.
#[test]
fn a_member_that_leaves_moves_no_flows_of_one_that_is_lost() {
    let (mut here, mut sender) = with_group(&[1, 2, 3, 4]);
    here.set_port(9, Some(port()));
    here.set_route((end(1), 32), Some(overlay::Route { port: 9, gateway: None })).unwrap();
    here.publish();
    let before = ways(&mut sender);
    here.set_group(GROUP, &members(&[1, 3, 4])).unwrap();
    here.publish();
    let after = ways(&mut sender);
    assert!(before.contains(&2) && !after.contains(&2));
    assert!(before.iter().zip(&after).all(|(was, is)| was == is || *was == 2));
}

#[test]
fn members_are_counted_each() {
    let (mut here, mut sender) = with_group(&[1, 2]);
    let (mut trial, mut tried) = (here.trial_encapsulator(), Buffers::new());
    here.publish();
    let ways = ways(&mut sender);
    let len = packet_of(0).len() as u64;
    let mut total = 0;
    for flow in 0..FLOWS {
        let told = here.explain(&mut trial, NETWORK, &mut tried.packet(&packet_of(flow)));
        let (id, tunnel) = told.tunnel.unwrap();
        assert_eq!(tunnel.remote, end(ways[usize::from(flow)]), "as it was sent");
        let count = here.count(id);
        assert_eq!(count.bytes, count.packets * len);
        if flow < 2 {
            total += count.packets;
        }
    }
    assert!(total > 0);
    let per_member: HashMap<_, _> = (0..FLOWS)
        .map(|flow| {
            let mut packet = tried.packet(&packet_of(flow));
            here.explain(&mut trial, NETWORK, &mut packet).tunnel.unwrap().0
        })
        .map(|id| (id, here.count(id).packets))
        .collect();
    assert_eq!(per_member.values().sum::<u64>(), u64::from(FLOWS));
}

#[test]
fn groups_that_cannot_be() {
    let mut here = table();
    here.add_network(NETWORK, Network::bridged()).unwrap();
    here.add_network(9, Network::point_to_point(Layer::Ip)).unwrap();
    assert_eq!(here.set_group::<Tunnel>(1, &[]), Err(Error::Members));
    for weight in [0, MAX_WEIGHT + 1] {
        assert_eq!(here.set_group(1, &[Member { tunnel: member(1), weight }]), Err(Error::Members));
    }
    assert_eq!(here.set_group(1, &members(&[1, 2, 1])), Err(Error::Members));
    let many: Vec<Tunnel> = (0..=MAX_MEMBERS as u32).map(|n| member(1).with_identifier(n)).collect();
    assert_eq!(here.set_group(1, &many), Err(Error::Members));
    here.set_group(1, &many[..MAX_MEMBERS]).unwrap();
    let group = || Target::Group(1);
    assert_eq!(here.insert_as(Owner::Fpm, NETWORK, 7, Target::Group(2)), Err(Error::NoGroup(2)));
    let payload = Err(Error::Payload { protocol: "vxlan", network: 9 });
    assert_eq!(here.insert_as(Owner::Fpm, 9, 0, group()), payload);
    here.insert_as(Owner::Fpm, NETWORK, 7, group()).unwrap();
    assert_eq!(here.tunnels(), MAX_MEMBERS + 1);
    let wrong = [member(1), tunnel("gtpu", false)];
    assert_eq!(here.set_group(1, &wrong), Err(Error::Member { protocol: "gtpu", group: 1 }));
    assert_eq!(here.group(1).map(<[Member]>::len), Some(MAX_MEMBERS));
    assert_eq!((here.remove_group(1), here.remove_group(2)), (Err(Error::GroupUsed(1)), Ok(false)));
    assert_eq!(here.remove_as(Owner::Fpm, NETWORK, 7), Ok(true));
    assert_eq!((here.tunnels(), here.remove_group(1), here.remove_group(1)), (0, Ok(true), Ok(false)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Whatever members come and go: a flow moves only from a member that left, or to one that
    /// came, and none is used much more than the others.
    #[test]
    fn flows_move_no_more_than_they_must(steps in prop::collection::vec(prop::collection::btree_set(0..20u8, 1..9), 1..12)) {
        let first: Vec<u8> = steps[0].iter().copied().collect();
        let (mut here, mut sender) = with_group(&first);
        let mut before = (first, ways(&mut sender));
        for step in steps {
            let now: Vec<u8> = step.into_iter().collect();
            here.set_group(GROUP, &members(&now)).unwrap();
            here.publish();
            let after = ways(&mut sender);
            for (old, new) in before.1.iter().zip(&after) {
                let is_due = old == new || !now.contains(old) || !before.0.contains(new);
                // Shares that are not whole let a few buckets of 256 move between those that stay.
                prop_assert!(is_due, "from {old} to {new}, {:?} to {now:?}", before.0);
            }
            prop_assert!(after.iter().all(|way| now.contains(way)));
            prop_assert_eq!(here.tunnels(), now.len() + 1);
            before = (now, after);
        }
    }
}
