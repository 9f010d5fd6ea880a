//! Frames for all that come from the overlay to an Ethernet segment with several endpoints
//! (RFC 7432, section 8.5; RFC 8365, section 8.3.1).

use std::net::{IpAddr, Ipv4Addr};

use overlay::{Decapsulator, Error, Learning, MAX_PEERS, Network, Overlay, Received, Segment, Sent, Tunnel};
use port::Reason;

use crate::rig::{Buffers, NETWORK, decapsulate, encapsulate, frame, reversed, table, tunnel, v4};

const BROADCAST: [u8; 6] = [0xFF; 6];
const GROUP: [u8; 6] = [1, 0, 0x5E, 0, 0, 5];
const STATION: [u8; 6] = [2, 0, 0, 0, 1, 1];
const ON: Received = Received::Network(NETWORK);
const PEERS: Received = Received::Drop(Reason::OverlaySplitHorizon);
const OTHERS: Received = Received::Drop(Reason::OverlayNotDesignated);

fn far(n: u8) -> IpAddr {
    Ipv4Addr::new(192, 0, 2, n).into()
}

fn segment(is_designated: bool, peers: &[u8]) -> Option<Segment> {
    Some(Segment { is_designated, peers: peers.iter().map(|n| far(*n)).collect() })
}

fn receiving() -> (Overlay, Decapsulator) {
    let mut here = table();
    here.add_network(NETWORK, Network::bridged()).unwrap();
    here.add_end(NETWORK, &tunnel("vxlan", false), false).unwrap();
    let receiver = here.decapsulator();
    here.publish();
    (here, receiver)
}

/// What becomes of a frame that comes from a far end.
fn comes(receiver: &mut Decapsulator, end: u8, dst: [u8; 6]) -> Received {
    let mut there = table();
    there.add_network(NETWORK, Network::bridged()).unwrap();
    let back = Tunnel { local: far(end), ..reversed(&tunnel("vxlan", false)) };
    there.insert(NETWORK, dst.iter().fold(0, |key, byte| key << 8 | u128::from(*byte)), back).unwrap();
    let mut sender = there.encapsulator();
    there.publish();
    let mut bytes = frame(1, 0x0800, &v4(0, b"hello"));
    bytes[..6].copy_from_slice(&dst);
    let mut buffers = Buffers::new();
    let mut packet = buffers.packet(&bytes);
    assert_eq!(encapsulate(&mut sender, &mut packet), Sent::Port(3));
    let mut packet = buffers.packet(&packet);
    let received = decapsulate(receiver, &mut packet);
    assert!(received != ON || packet[..] == bytes[..], "what goes on is whole");
    received
}

/// What becomes of frames from the other endpoint of the segment, and from elsewhere.
fn all(receiver: &mut Decapsulator) -> [[Received; 3]; 2] {
    [2, 9].map(|end| [BROADCAST, GROUP, STATION].map(|dst| comes(receiver, end, dst)))
}

#[test]
fn frames_for_all_go_to_a_segment_by_one_endpoint_and_not_back() {
    let (mut here, mut receiver) = receiving();
    let mut with = |segment: Option<Segment>| {
        here.set_segment(NETWORK, segment.clone()).unwrap();
        assert_eq!(here.segment(NETWORK), segment.as_ref());
        here.publish();
        all(&mut receiver)
    };
    assert_eq!(with(None), [[ON; 3]; 2]);
    assert_eq!(with(segment(true, &[2])), [[PEERS, PEERS, ON], [ON; 3]]);
    assert_eq!(with(segment(false, &[2, 3])), [[PEERS, PEERS, ON], [OTHERS, OTHERS, ON]]);
    // Its last peer is gone: it is the forwarder for all.
    assert_eq!(with(segment(false, &[])), [[OTHERS, OTHERS, ON]; 2]);
    assert_eq!(with(segment(true, &[])), [[ON; 3]; 2]);
    assert_eq!(with(None), [[ON; 3]; 2]);
    let counted = |reason: Reason| receiver.drops().of(reason);
    assert_eq!((counted(Reason::OverlaySplitHorizon), counted(Reason::OverlayNotDesignated)), (4, 6));
}

/// An end that comes later is the segment's too, and a network that is another one has none.
#[test]
fn a_segment_is_its_networks() {
    let (mut here, mut receiver) = receiving();
    here.set_segment(NETWORK, segment(false, &[])).unwrap();
    assert!(here.remove_end(&tunnel("vxlan", false)).unwrap());
    here.add_end(NETWORK, &tunnel("vxlan", false), false).unwrap();
    here.publish();
    assert_eq!(comes(&mut receiver, 9, BROADCAST), OTHERS);
    here.remove_network(NETWORK).unwrap();
    here.add_network(NETWORK, Network::bridged()).unwrap();
    here.add_end(NETWORK, &tunnel("vxlan", false), false).unwrap();
    here.publish();
    assert_eq!((here.segment(NETWORK), comes(&mut receiver, 9, BROADCAST)), (None, ON));
}

/// Who sent a frame that came back to its own segment is not behind the other endpoint.
#[test]
fn nothing_is_learned_of_what_comes_back() {
    let (mut here, mut receiver) = receiving();
    let learning =
        Learning { tunnels: vec![tunnel("vxlan", false)], limit: 9, age: std::time::Duration::MAX };
    here.set_segment(NETWORK, segment(true, &[2])).unwrap();
    here.set_learning(NETWORK, Some(learning)).unwrap();
    here.publish();
    let observed = |receiver: &mut Decapsulator| {
        let mut observed = Vec::new();
        receiver.observed(&mut observed);
        observed.iter().map(|note| note.remote).collect::<Vec<_>>()
    };
    assert_eq!(comes(&mut receiver, 2, BROADCAST), PEERS);
    assert_eq!(observed(&mut receiver), [] as [IpAddr; 0]);
    assert_eq!(comes(&mut receiver, 9, BROADCAST), ON);
    assert_eq!(observed(&mut receiver), [far(9)]);
    here.set_segment(NETWORK, None).unwrap();
    here.publish();
    assert_eq!(comes(&mut receiver, 2, BROADCAST), ON);
    assert_eq!(observed(&mut receiver), [far(2)]);
}

#[test]
fn segments_that_cannot_be_are_refused() {
    let (mut here, _) = receiving();
    assert_eq!(here.set_segment(6, segment(true, &[])), Err(Error::NoNetwork(6)));
    here.add_network(6, Network::routed()).unwrap();
    assert_eq!(here.set_segment(6, segment(true, &[])), Err(Error::NoFrames(6)));
    assert_eq!(here.set_segment(NETWORK, segment(true, &[2; MAX_PEERS + 1])), Err(Error::Peers));
    assert_eq!(here.set_segment(NETWORK, segment(true, &[2; MAX_PEERS])), Ok(()));
}
