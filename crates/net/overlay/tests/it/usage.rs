//! What went by each entry, whoever sent it, and when it was used last.

use std::time::Duration;

use overlay::{Count, Encapsulator, Network, Overlay, Sent, Usage};

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
