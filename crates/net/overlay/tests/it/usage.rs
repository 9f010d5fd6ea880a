//! What went by each entry, whoever sent it, and when it was used last.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use overlay::{Count, Encapsulator, Network, Overlay, Owner, Sent, Target, Tunnel, Usage};

use crate::rig::{Buffers, NETWORK, encapsulate, frame, table, tunnel, v4};

const SECOND: Duration = Duration::from_secs(1);

fn key(station: u8) -> u128 {
    0x0200_0000_0100 | u128::from(station)
}

/// A table with two stations behind one tunnel.
fn two_stations() -> Overlay {
    let mut here = table();
    here.add_network(NETWORK, Network::bridged()).unwrap();
    for station in [1, 2] {
        here.insert(NETWORK, key(station), tunnel("vxlan", false)).unwrap();
    }
    here
}

/// Sends a frame to a station; its bytes.
fn send(sender: &mut Encapsulator, station: u8, payload: &[u8]) -> u64 {
    let mut packet = Buffers::new().packet(&frame(station, 0x0800, &v4(0, payload)));
    let len = packet.total_len() as u64;
    assert_eq!(encapsulate(sender, &mut packet), Sent::Port(3));
    len
}

fn usage(packets: u64, bytes: u64, last: Option<Duration>) -> Option<Usage> {
    Some(Usage { count: Count { packets, bytes }, last })
}

#[test]
fn stations_behind_one_tunnel_are_counted_each_over_all_senders() {
    let mut here = two_stations();
    let mut sender = here.encapsulator();
    here.publish();
    let mut other = sender.clone();
    sender.set_time(SECOND);
    let first = send(&mut sender, 1, b"one");
    other.set_time(SECOND * 3);
    let second = send(&mut other, 1, b"another");
    sender.set_time(SECOND * 2);
    let third = send(&mut sender, 2, b"a third");
    assert_eq!(here.usage(NETWORK, key(1)), usage(2, first + second, Some(SECOND * 3)));
    assert_eq!(here.usage(NETWORK, key(2)), usage(1, third, Some(SECOND * 2)));
    assert_eq!(here.usage(NETWORK, key(3)), None);
    // What a sender counted stays when it is gone, and its counters are not kept for that.
    drop(other);
    drop(here.encapsulator());
    assert_eq!(here.usage(NETWORK, key(1)), usage(2, first + second, Some(SECOND * 3)));
}

#[test]
fn an_entry_that_comes_anew_begins_at_nothing_and_one_that_moves_goes_on() {
    let mut here = two_stations();
    let mut sender = here.encapsulator();
    here.publish();
    let len = send(&mut sender, 1, b"before");
    here.insert(NETWORK, key(1), tunnel("geneve", false)).unwrap();
    here.publish();
    assert_eq!(here.usage(NETWORK, key(1)), usage(1, len, Some(Duration::ZERO)));
    // The numbers of both go to others, in some order.
    for station in [1, 2] {
        assert!(here.remove(NETWORK, key(station)).unwrap());
    }
    for station in [3, 4, 1] {
        here.insert(NETWORK, key(station), tunnel("vxlan", false)).unwrap();
        assert_eq!(here.usage(NETWORK, key(station)), usage(0, 0, None), "{station}");
    }
    here.publish();
    let len = send(&mut sender, 3, b"after");
    assert_eq!(here.usage(NETWORK, key(3)), usage(1, len, Some(Duration::ZERO)));
    assert_eq!(here.usage(NETWORK, key(1)), usage(0, 0, None));
}

#[test]
fn a_packet_that_is_not_sent_is_not_counted() {
    let mut here = two_stations();
    let mut sender = here.encapsulator();
    here.set_port(3, None);
    here.publish();
    let mut packet = Buffers::new().packet(&frame(1, 0x0800, &v4(0, b"lost")));
    assert!(matches!(encapsulate(&mut sender, &mut packet), Sent::Drop(_)));
    assert_eq!(here.usage(NETWORK, key(1)), usage(0, 0, None));
}

#[test]
fn the_entry_of_a_network_with_one_far_end_is_counted() {
    let mut here = table();
    here.add_network(NETWORK, Network::point_to_point(overlay::Layer::Ip)).unwrap();
    here.insert(NETWORK, 0, tunnel("ipip", false)).unwrap();
    let mut sender = here.encapsulator();
    here.publish();
    let mut packet = Buffers::new().packet(&v4(0, b"inside"));
    let len = packet.total_len() as u64;
    assert_eq!(encapsulate(&mut sender, &mut packet), Sent::Port(3));
    assert_eq!(here.usage(NETWORK, 0), usage(1, len, Some(Duration::ZERO)));
}

/// A tunnel to a far end of its own.
fn tunnel_to(last: u8) -> Tunnel {
    Tunnel { remote: IpAddr::from([192, 0, 2, last]), ..tunnel("vxlan", false) }
}

/// Packets by the last byte of the far end.
fn far_ends(here: &Overlay) -> Vec<(u8, u64)> {
    let last = |remote| match remote {
        IpAddr::V4(remote) => Ipv4Addr::octets(&remote)[3],
        IpAddr::V6(_) => panic!("{remote} is no far end here"),
    };
    here.far_ends().map(|far_end| (last(far_end.remote), far_end.count.packets)).collect()
}

/// What went to a far end stays with it, whoever leads there then and by whichever word.
#[test]
fn what_went_to_a_far_end_does_not_move_with_an_entry() {
    let mut here = two_stations();
    let mut sender = here.encapsulator();
    here.publish();
    for _ in 0..3 {
        send(&mut sender, 1, b"before");
    }
    assert_eq!(far_ends(&here), [(2, 3)]);
    here.insert(NETWORK, key(1), tunnel_to(9)).unwrap();
    assert_eq!(far_ends(&here), [(2, 3), (9, 0)]);
    // Senders go by what is published.
    send(&mut sender, 1, b"still");
    here.publish();
    send(&mut sender, 1, b"after");
    assert_eq!(far_ends(&here), [(2, 4), (9, 1)]);
    // Of the tunnel that the second station had by another's word nothing is left but its number.
    here.hand_over(NETWORK, key(2), Owner::Kernel).unwrap();
    send(&mut sender, 2, b"by the one before");
    here.publish();
    send(&mut sender, 2, b"by the new one");
    assert_eq!(far_ends(&here), [(2, 6), (9, 1)]);
    // Another tunnel has the number then, and begins at nothing.
    here.insert(NETWORK, key(3), tunnel_to(8)).unwrap();
    here.publish();
    assert_eq!(far_ends(&here), [(2, 6), (8, 0), (9, 1)]);
    assert!(here.remove_as(Owner::Kernel, NETWORK, key(2)).unwrap());
    here.publish();
    assert_eq!(far_ends(&here), [(8, 0), (9, 1)], "nothing leads there");
}

#[test]
fn far_ends_of_a_group_and_of_a_flood_list_are_counted_each() {
    let mut here = two_stations();
    here.set_group(7, &[tunnel_to(2), tunnel_to(3)]).unwrap();
    here.insert_as(Owner::Kernel, NETWORK, key(3), Target::Group(7)).unwrap();
    here.set_flood(NETWORK, &[tunnel_to(3), tunnel_to(4)]).unwrap();
    let mut sender = here.encapsulator();
    let mut trial = here.trial_encapsulator();
    here.publish();
    for flow in 0..40 {
        let mut inner = v4(0, b"flow");
        inner[21] = flow; // the lower byte of the source port
        let mut packet = Buffers::new().packet(&frame(3, 0x0800, &inner));
        assert_eq!(encapsulate(&mut sender, &mut packet), Sent::Port(3));
    }
    let before = far_ends(&here);
    let [(2, second), (3, third), (4, 0)] = before[..] else { panic!("{before:?}") };
    assert!(second > 0 && third > 0 && second + third == 40, "{before:?}");
    let mut packet = Buffers::new().packet(&frame(9, 0x0800, &v4(0, b"unknown")));
    for place in [0, 1] {
        let mut copy = Buffers::new().packet(&packet);
        assert_eq!(sender.flood(NETWORK, place, &mut copy), Sent::Port(3));
    }
    // What is tried counts nowhere.
    assert_eq!(trial.flood(NETWORK, 0, &mut packet), Sent::Port(3));
    let more: Vec<u64> = far_ends(&here).iter().zip(&before).map(|(is, was)| is.1 - was.1).collect();
    assert_eq!(more, [0, 1, 1]);
}
