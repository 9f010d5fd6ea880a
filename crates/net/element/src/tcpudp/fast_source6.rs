//! `FastUDPSourceIP6`: `FastUDPSource` over IPv6.

use std::net::Ipv6Addr;

use graph::Class;
use graph::class::{Handlers, mandatory, positional};
use memory::Packet;
use memory::annotation::Header;
use wire::ethernet::{self, EtherType};
use wire::ip::Protocol;
use wire::outer::{Outer, PerPacket};
use wire::{MacAddress, ipv6, udp};

use super::fast_source::{self, Address, ETHER, End, FastUdpSource};
use crate::ip::ip6;
use graph::annotation::{DST_IP6, PacketAnnotations};

pub static CLASS: Class = Class {
    name: "FastUDPSourceIP6",
    brief: "makes UDP datagrams over IPv6 in Ethernet frames, all alike",
    arguments: &[
        mandatory("RATE", "frames a second, 0 for no limit"),
        mandatory("LIMIT", "frames in all, -1 for no limit"),
        mandatory("LENGTH", "bytes in a frame; at least 62"),
        mandatory("SRCETH", "the source's Ethernet address"),
        mandatory("SRCIP6", "its IPv6 address"),
        mandatory("SPORT", "its port"),
        mandatory("DSTETH", "the destination's Ethernet address"),
        mandatory("DSTIP6", "its IPv6 address"),
        mandatory("DPORT", "its port"),
        positional("CHECKSUM", "whether there is a UDP checksum; true"),
        positional("INTERVAL", "after how many frames both ports are the next ones; 0 for never"),
        positional("ACTIVE", "whether it sends; true"),
    ],
    handlers: &Handlers::<FastUdpSource<Ipv6Addr>>(&fast_source::handlers()),
    example: "FastUDPSourceIP6(100000, -1, 62, 0:0:0:0:0:1, 2001:db8::1, 1234, 0:0:0:0:0:2, 2001:db8::2, 1234) -> ToDevice(p)",
    see: &["FastUDPSource", "UDPIP6Encap"],
    make: fast_source::make::<Ipv6Addr>,
    ..fast_source::CLASS
};

const HEADERS: usize = ETHER + ip6::LEN + udp::HEADER_LEN;

impl Address for Ipv6Addr {
    const KEYS: [&'static str; 2] = ["SRCIP6", "DSTIP6"];
    const SHORTEST: usize = HEADERS;

    fn lay_out(length: usize, src: End<Self>, dst: End<Self>, with_checksum: bool) -> Vec<u8> {
        let mut bytes = vec![0; length];
        let link =
            ethernet::Repr { dst: MacAddress(dst.0.0), src: MacAddress(src.0.0), ethertype: EtherType::IPV6 };
        let ip = ipv6::Repr {
            src: src.1,
            dst: dst.1,
            next_header: Protocol::UDP,
            hop_limit: 250,
            traffic_class: 0,
            flow_label: 0,
            payload_len: 0,
        };
        let headers = Outer::<HEADERS>::new().ethernet(&link).and_then(|outer| outer.ipv6(&ip));
        let headers = headers.and_then(|outer| outer.udp(src.2, dst.2)).expect("they are so long");
        headers.write(&mut bytes, length - HEADERS, PerPacket::default());
        if with_checksum {
            headers.fill_udp_checksum(&mut bytes);
        }
        bytes
    }

    fn fill(self, packet: &mut Packet, frame: &[u8]) {
        let fits = packet.copy_from(frame);
        debug_assert!(fits.is_ok(), "a frame is as long as a buffer at most");
        packet.set_header(Header::Link, 0);
        packet.set_headers_within(ETHER, ETHER + ip6::LEN);
        packet.set_bytes_at(DST_IP6, self.octets());
    }
}
