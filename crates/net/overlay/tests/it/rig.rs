//! Two hosts with a table each, and packets between them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use memory::{Dma, Packet, Pool};
use overlay::{Decapsulator, Encapsulator, Overlay, Port, Protocol, Received, Route, Sent, Tunnel};
use wire::MacAddress;

/// The network of all tests.
pub const NETWORK: u32 = 5;
pub const MAC: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);
pub const PEER: MacAddress = MacAddress([2, 0, 0, 0, 0, 2]);

/// The addresses of a tunnel's ends: here and there.
pub fn ends(is_v6: bool) -> (IpAddr, IpAddr) {
    let v6 = |n| Ipv6Addr::new(0x2001, 0xDB8, 0, 0, 0, 0, 0, n);
    match is_v6 {
        true => (v6(1).into(), v6(2).into()),
        false => (Ipv4Addr::new(192, 0, 2, 1).into(), Ipv4Addr::new(192, 0, 2, 2).into()),
    }
}

/// A tunnel of this protocol with the identifier 100, where it has one.
pub fn tunnel(protocol: &str, is_v6: bool) -> Tunnel {
    let (local, remote) = ends(is_v6);
    let tunnel = Tunnel::new(Protocol::named(protocol).unwrap(), local, remote);
    match tunnel.protocol.identifier_bits {
        0 => tunnel,
        _ => tunnel.with_identifier(100),
    }
}

/// The same tunnel from its other end.
pub fn reversed(tunnel: &Tunnel) -> Tunnel {
    let mut reversed = tunnel.clone();
    (reversed.local, reversed.remote) = (tunnel.remote, tunnel.local);
    if let Some(last) = tunnel.segments.last() {
        // A way ends at its last segment.
        reversed.local = (*last).into();
        reversed.segments.clear();
    }
    reversed
}

/// A port of the underlay that is up.
pub fn port() -> Port {
    Port { mac: MAC, mtu: 1600, vlan: None, is_up: true }
}

/// A table whose port 3 reaches everybody by [`PEER`].
pub fn table() -> Overlay {
    let mut table = Overlay::new();
    table.set_port(3, Some(port()));
    for is_v6 in [false, true] {
        let (_, remote) = ends(is_v6);
        let anywhere = if is_v6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
        table.set_route((anywhere, 0), Some(Route { port: 3, gateway: Some(remote) })).unwrap();
        table.set_neighbor(3, remote, Some(PEER));
    }
    table
}

/// The memory that packets are made in.
pub struct Buffers(pub Pool);

impl Buffers {
    pub fn new() -> Buffers {
        Buffers(Pool::new(&Dma::new(memory::Options::default()), 64).unwrap())
    }

    pub fn packet(&mut self, bytes: &[u8]) -> Packet {
        let mut packet = self.0.fresh(1).next().unwrap();
        packet.copy_at(memory::HEADROOM, bytes).unwrap();
        packet
    }
}

/// What becomes of one packet to send.
pub fn encapsulate(sender: &mut Encapsulator, packet: &mut Packet) -> Sent {
    let mut sent = [Sent::Punt];
    sender.encapsulate(NETWORK, std::slice::from_mut(packet), &mut sent);
    sent[0]
}

/// What becomes of one frame that came.
pub fn decapsulate(receiver: &mut Decapsulator, packet: &mut Packet) -> Received {
    let mut received = [Received::Other];
    receiver.decapsulate(std::slice::from_mut(packet), &mut received);
    received[0]
}

/// An IPv4 packet of UDP with this traffic class, from 10.0.0.1 to 10.0.0.2.
pub fn v4(class: u8, payload: &[u8]) -> Vec<u8> {
    let (src, dst) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
    let udp = [&[0x80, 1, 0, 53, 0, 8 + payload.len() as u8, 0, 0][..], payload].concat();
    let plain = wire::ipv4::Repr::between(src, dst, wire::ip::Protocol::UDP, udp.len());
    let mut packet = wire::ipv4::Packet::new_unchecked(vec![0; 20 + udp.len()]);
    wire::ipv4::Repr { traffic_class: class, ..plain }.emit(&mut packet);
    let mut bytes = packet.into_inner();
    bytes[20..].copy_from_slice(&udp);
    bytes
}

/// An IPv6 packet of UDP with this traffic class.
pub fn v6(class: u8, payload: &[u8]) -> Vec<u8> {
    let len = 8 + payload.len() as u8;
    let start = [0x60 | class >> 4, class << 4, 0, 0, 0, len, 17, 64];
    let addresses = [&[0xFD; 16][..], &[0xFE; 16]].concat();
    [&start[..], &addresses, &[0x80, 1, 0, 53, 0, len, 0, 0], payload].concat()
}

/// A frame to the station with this last byte of its address.
pub fn frame(last: u8, ethertype: u16, packet: &[u8]) -> Vec<u8> {
    let addresses = [2, 0, 0, 0, 1, last, 2, 0, 0, 0, 1, 0xFF];
    [&addresses[..], &ethertype.to_be_bytes(), packet].concat()
}
