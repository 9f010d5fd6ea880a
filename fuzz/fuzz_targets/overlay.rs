//! Frames from anyone into an overlay's receiver, and packets from anyone into its sender: no
//! panic, what is refused stays as it was and is counted, and what is sent is received again.
//!
//! The first byte chooses the protocol and the version of IP outside, the second the way: raw
//! bytes to the receiver, a packet through both, or a sent frame with some bytes changed.
#![no_main]

use std::cell::RefCell;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use libfuzzer_sys::fuzz_target;
use memory::{Dma, Packet, Pool};
use overlay::{
    Decapsulator, Encapsulator, Layer, Network, Overlay, PROTOCOLS, Payload, Port, Received, Route, Sent,
    Tunnel,
};

/// Packets of IP, frames, and frames that go by bits anywhere.
const IP: u32 = 1;
const FRAMES: u32 = 2;

struct Rig {
    senders: Vec<Option<(Layer, Encapsulator)>>,
    receiver: Decapsulator,
    pool: Pool,
}

/// A tunnel from one host to the other.
fn tunnel(protocol: usize, is_v6: bool, is_back: bool) -> Tunnel {
    let v6 = |n| IpAddr::V6(Ipv6Addr::new(0x2001, 0xDB8, 0, 0, 0, 0, 0, n));
    let v4 = |n| IpAddr::V4(Ipv4Addr::new(192, 0, 2, n));
    let (a, b) = if is_v6 { (v6(1), v6(2)) } else { (v4(1), v4(2)) };
    let protocol = &PROTOCOLS[protocol];
    let tunnel = if is_back { Tunnel::new(protocol, b, a) } else { Tunnel::new(protocol, a, b) };
    if protocol.identifier_bits == 0 { tunnel } else { tunnel.with_identifier(7) }
}

fn table() -> Overlay {
    let mut table = Overlay::new();
    let mac = wire::MacAddress([2, 0, 0, 0, 0, 1]);
    table.set_port(1, Some(Port { mac, mtu: 1600, vlan: None, is_up: true }));
    for is_v6 in [false, true] {
        let remote = tunnel(0, is_v6, false).remote;
        let any = if is_v6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
        table.set_route((any, 0), Some(Route { port: 1, gateway: Some(remote) })).expect("a prefix");
        table.set_neighbor(1, remote, Some(mac));
    }
    table
}

fn sender(protocol: usize, is_v6: bool) -> Option<(Layer, Encapsulator)> {
    let tunnel = tunnel(protocol, is_v6, false);
    let is_bridge = PROTOCOLS[protocol].payloads.contains(&Payload::Ethernet);
    let layer = if is_bridge { Layer::Ethernet } else { Layer::Ip };
    let mut table = table();
    table.add_network(1, Network::point_to_point(layer)).ok()?;
    table.insert(1, 0, tunnel).ok()?;
    let sender = table.encapsulator();
    table.publish();
    Some((layer, sender))
}

impl Rig {
    fn new() -> Rig {
        let mut table = table();
        table.add_network(IP, Network::point_to_point(Layer::Ip)).expect("a network");
        table.add_network(FRAMES, Network::bridged()).expect("a network");
        for (protocol, row) in PROTOCOLS.iter().enumerate() {
            for is_v6 in [false, true] {
                let is_bridge = row.payloads.contains(&Payload::Ethernet);
                let network = if is_bridge { FRAMES } else { IP };
                // Not all are for both versions of IP, and gretap's are not told from nvgre's.
                let _ = table.add_end(network, &tunnel(protocol, is_v6, true), is_v6);
            }
        }
        let receiver = table.decapsulator();
        table.publish();
        let senders = (0..PROTOCOLS.len() * 2).map(|n| sender(n / 2, n % 2 == 1)).collect();
        Rig { senders, receiver, pool: Pool::new(&Dma::new(memory::Options::default()), 16).expect("memory") }
    }

    fn packet(&mut self, bytes: &[u8]) -> Packet {
        let mut packet = self.pool.alloc().expect("one at a time");
        packet.copy_at(memory::HEADROOM, &bytes[..bytes.len().min(memory::DATA_ROOM)]).expect("it fits");
        packet
    }

    /// What comes out of a frame; what is refused is as it was, and counted.
    fn receives(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        let mut packet = self.packet(bytes);
        let (before, was) = (self.receiver.drops().total(), packet.to_vec());
        let mut received = [Received::Other];
        self.receiver.decapsulate(std::slice::from_mut(&mut packet), &mut received);
        let is_dropped = matches!(received[0], Received::Drop(_));
        assert_eq!(self.receiver.drops().total() - before, u64::from(is_dropped));
        match received[0] {
            Received::Network(_) => Some(packet.to_vec()),
            _ => {
                assert_eq!(packet[..], was, "changed, and not taken");
                None
            }
        }
    }
}

thread_local! {
    static RIG: RefCell<Rig> = RefCell::new(Rig::new());
}

fuzz_target!(|input: &[u8]| {
    let [choice, way, rest @ ..] = input else { return };
    RIG.with_borrow_mut(|rig| {
        let choice = usize::from(*choice) % rig.senders.len();
        if way % 3 == 0 {
            rig.receives(rest);
            return;
        }
        let (changes, inner) = rest.split_at(if way % 3 == 2 { rest.len().min(8) } else { 0 });
        let mut packet = rig.packet(inner);
        let Some((layer, sender)) = &mut rig.senders[choice] else { return };
        let mut sent = [Sent::Punt];
        let whole = packet.to_vec();
        sender.encapsulate(1, std::slice::from_mut(&mut packet), &mut sent);
        let Sent::Port(_) = sent[0] else {
            assert_eq!(packet[..], whole, "changed, and not sent");
            return;
        };
        let mut frame = packet.to_vec();
        for change in changes.chunks_exact(2) {
            let at = usize::from(change[0]) % frame.len();
            frame[at] = change[1];
        }
        let is_whole = *layer == Layer::Ip || whole.len() >= 14;
        let protocol = PROTOCOLS[choice / 2].name;
        drop(packet);
        let out = rig.receives(&frame);
        if changes.is_empty() && is_whole && protocol != "gretap" {
            assert_eq!(out.as_ref(), Some(&whole), "{protocol}");
        }
    });
});
