//! What becomes of frames that come by networks' ports: as lanes have it, loss by loss.
#![allow(clippy::unwrap_used)]

use std::net::Ipv4Addr;

use memory::{Backing, Dma, Options, Pool};
use neighbor::Resolver;
use overlay::Overlay;
use port::Reason;
use vtep::{Config, Explanation, FrameExplainer, Held};
use wire::ethernet::{self, EtherType};
use wire::ip::Protocol;
use wire::{MacAddress, ipv4};

const TEXT: &str = "[[underlay]]\nname = 'up'\nport = 'tap:x'\naddresses = ['192.0.2.1/24']\n\
    neighbors = { '192.0.2.2' = '02:00:00:00:00:02' }\n\
    [[network]]\nnumber = 5\nprotocol = 'ipip'\ninner = 'tap:a'\ngateway = ['10.0.0.1']\n\
    peer = '02:00:00:00:0d:01'\n[[network.entry]]\nremote = '192.0.2.2'\n\
    [[network]]\nnumber = 6\nprotocol = 'vxlan'\ninner = 'tap:b'\nflood = ['192.0.2.2', '192.0.2.3']\n\
    [[network]]\nnumber = 7\nprotocol = 'vxlan'\ninner = 'tap:c'\nunknown = 'punt'\n\
    [[network]]\nnumber = 8\nprotocol = 'vxlan'\ninner = 'tap:d'\nunknown = 'flood'\ngateway = ['10.0.0.1']\n";

const PORT: MacAddress = MacAddress([2, 0, 0, 0, 0, 9]);
const OTHER: MacAddress = MacAddress([2, 0, 0, 0, 0, 8]);
const HOST: MacAddress = MacAddress([2, 0, 0, 0, 0xD, 1]);

struct Rig {
    table: Overlay,
    explainer: FrameExplainer,
    pool: Pool,
}

impl Rig {
    /// Networks whose ports have this address.
    fn new(mac: Option<MacAddress>) -> Rig {
        let config = Config::parse(TEXT).unwrap();
        let mut held = Held::default();
        held.apply(config.desired(&[MacAddress([2, 0, 0, 0, 0, 1])]), 0).unwrap();
        let explainer = FrameExplainer::new(&mut held.table, config.inner.iter().map(|inner| (inner, mac)));
        let dma = Dma::new(Options { backing: Backing::Memfd, ..Options::default() });
        Rig { table: held.table, explainer, pool: Pool::new(&dma, 4).unwrap() }
    }

    fn explain(&mut self, network: u32, frame: &[u8]) -> Explanation {
        let mut packet = self.pool.alloc().unwrap();
        packet.copy_from(frame).unwrap();
        let explained = self.explainer.explain(&self.table, network, &mut packet);
        self.pool.free(packet);
        explained
    }

    fn outcome(&mut self, network: u32, frame: &[u8]) -> String {
        self.explain(network, frame).outcome
    }
}

/// An IPv4 packet in a frame to a station.
fn frame(dst: MacAddress) -> Vec<u8> {
    let mut header = ipv4::Header::zeroed();
    let (src, to) = (Ipv4Addr::new(10, 0, 0, 2), Ipv4Addr::new(10, 0, 1, 2));
    ipv4::Repr::between(src, to, Protocol::UDP, 40).write(&mut header);
    let link = ethernet::Header::between(dst, HOST, EtherType::IPV4);
    [&link.into_inner()[..], &header.into_inner(), &[7; 40]].concat()
}

#[test]
fn what_a_port_does_not_route_or_answers_itself_is_told_as_that() {
    let mut rig = Rig::new(Some(PORT));
    let sent = rig.explain(5, &frame(PORT));
    assert_eq!((sent.outcome.as_str(), sent.port), ("sent", Some(0)), "{sent}");
    assert_eq!(rig.outcome(5, &frame(OTHER)), Reason::OverlayNotRouted.name());
    let asks = |address| Resolver::new(HOST, Ipv4Addr::new(10, 0, 0, 2)).request(address, None).to_vec();
    assert_eq!(rig.outcome(5, &asks(Ipv4Addr::new(10, 0, 0, 1))), "answered");
    assert_eq!(rig.outcome(5, &asks(Ipv4Addr::new(10, 0, 0, 3))), Reason::OverlayNotRouted.name());
    // A network of frames has a gateway, too; what is not for that is the table's to say.
    assert_eq!(rig.outcome(8, &asks(Ipv4Addr::new(10, 0, 0, 1))), "answered");
    assert_eq!(rig.outcome(8, &asks(Ipv4Addr::new(10, 0, 0, 3))), Reason::OverlayNoCopy.name());
    // Without a port's address any one station is taken for it, and no group of stations.
    let mut rig = Rig::new(None);
    assert_eq!(rig.outcome(5, &frame(OTHER)), "sent");
    assert_eq!(rig.outcome(5, &frame(MacAddress::BROADCAST)), Reason::OverlayNotRouted.name());
    assert_eq!(rig.outcome(5, &asks(Ipv4Addr::new(10, 0, 0, 1))), "answered");
}

#[test]
fn packets_that_no_entry_has_end_as_in_a_lane() {
    let mut rig = Rig::new(Some(PORT));
    assert_eq!(rig.outcome(7, &frame(OTHER)), Reason::OverlayPunted.name());
    let told = rig.explain(6, &frame(OTHER));
    let copies: Vec<_> = told.copies.iter().map(|copy| (copy.outcome.as_str(), copy.port)).collect();
    assert_eq!(
        (told.outcome.as_str(), &copies[..]),
        ("flooded", &[("sent", Some(0)), ("overlay_no_neighbor", None)][..])
    );
    let text = told.to_string();
    assert!(text.contains("> 192.0.2.2, identifier 6, by port 0"), "{text}");
    assert!(text.contains("> 192.0.2.3, identifier 6: overlay_no_neighbor: "), "{text}");
    assert_eq!(rig.outcome(8, &frame(OTHER)), Reason::OverlayNoCopy.name());
    // A copy that left is no part of the next one, nor of the next packet.
    assert_eq!(rig.explain(6, &frame(OTHER)), told);
}
