//! Frames that come by a port of the underlay: which of them a lane takes out of their tunnels.
#![allow(clippy::unwrap_used)]

#[path = "common/frames.rs"]
mod frames;

use std::net::Ipv4Addr;

use frames::Frames;
use memory::{Batch, Dma, Pool};
use port::{Capabilities, Reason};
use runtime::{Instant, Poller};
use vtep::{Config, Control, InnerQueues, Lane, Side, Totals, UnderlayQueues, channels};
use wire::ip::Protocol;
use wire::{MacAddress, ipv4};

const MAC: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);
const PEER: MacAddress = MacAddress([2, 0, 0, 0, 0, 2]);
const VLAN: &[u8] = &[0x81, 0];
const PROVIDER: &[u8] = &[0x88, 0xA8];
const INNER: [u8; 20] = [2, 0, 0, 0, 0xB, 1, 2, 0, 0, 0, 0xB, 2, 0x88, 0xB5, 1, 2, 3, 4, 5, 6];

/// An endpoint with the network 100, whose port of the underlay is in this VLAN.
struct Rig {
    control: Control,
    lane: Lane,
    counters: std::sync::Arc<vtep::Counters>,
    inner: Frames,
    up: Frames,
    pool: Pool,
}

impl Rig {
    fn new(vlan: Option<u16>) -> Rig {
        let vlan = vlan.map(|vlan| format!("vlan = {vlan}\n")).unwrap_or_default();
        let config = Config::parse(&format!(
            "[[underlay]]\nname = 'up'\nport = 'tap:x'\naddresses = ['192.0.2.1/24']\n{vlan}\
             [[network]]\nnumber = 100\nprotocol = 'vxlan'\ninner = 'tap:a'\nlearning = true\n"
        ));
        let config = config.unwrap();
        let (channels, to_control, requests) = channels();
        let mut control =
            Control::new(&config.underlay, &[MAC], config.desired(&[MAC]), channels, 0).unwrap();
        let (inner, up) = (Frames::default(), Frames::default());
        let can = Capabilities { max_frame: 1514, ..Capabilities::default() };
        let edge = &config.inner[0];
        let inner_queues =
            InnerQueues::new(edge, (PEER, &can), Box::new(Frames::default()), Box::new(inner.clone()));
        let out = Box::new(Frames::default());
        let underlay = UnderlayQueues::new(&config.underlay[0], (MAC, can), Box::new(up.clone()), out);
        let queues = (vec![inner_queues], vec![underlay]);
        let (lane, counters) = Lane::new(control.table(), queues.0, queues.1, to_control, Some(requests));
        control.table().publish();
        let pool = Pool::new(&Dma::new(memory::Options::default()), 1024).unwrap();
        Rig { control, lane, counters, inner, up, pool }
    }

    /// Whether a frame that comes by the underlay comes out in the network.
    fn takes(&mut self, frame: &[u8]) -> bool {
        let totals = |side: &Side| {
            let mut totals = Totals::default();
            totals.add(side);
            assert!(totals.balances(), "{totals:?}");
            totals
        };
        let lost = |totals: &Totals| totals.drops.get(Reason::OverlayNotForUs.name()).copied().unwrap_or(0);
        let before = totals(&self.counters.underlay[0]);
        self.up.put(frame);
        assert_eq!(self.lane.turn(Instant::now(), &mut self.pool, &mut Batch::default()), 1);
        let after = totals(&self.counters.underlay[0]);
        let came = self.inner.take();
        assert!(came.iter().all(|inner| inner[..] == INNER), "{came:?}");
        assert_eq!(lost(&after) - lost(&before), 1 - came.len() as u64, "what is not taken has a name");
        came.len() == 1
    }
}

/// A frame of VXLAN's from the peer to a station, under tags.
fn tunneled(dst: MacAddress, tags: &[(&[u8], u16)]) -> Vec<u8> {
    let mut header = ipv4::Header::zeroed();
    let (src, to) = (Ipv4Addr::new(192, 0, 2, 2), Ipv4Addr::new(192, 0, 2, 1));
    ipv4::Repr::between(src, to, Protocol::UDP, 16 + INNER.len()).write(&mut header);
    let udp = [0xC0, 0, 0x12, 0xB5, 0, 16 + INNER.len() as u8, 0, 0];
    let tags: Vec<u8> =
        tags.iter().flat_map(|(kind, control)| [*kind, &control.to_be_bytes()[..]].concat()).collect();
    let vxlan = [8, 0, 0, 0, 0, 0, 100, 0];
    [&dst.0[..], &PEER.0, &tags, &[8, 0], &header.into_inner(), &udp, &vxlan, &INNER].concat()
}

#[test]
fn a_tunnels_frame_is_ours_in_our_vlan_alone() {
    let mut rig = Rig::new(Some(10));
    assert!(rig.takes(&tunneled(MAC, &[(VLAN, 10)])));
    assert!(rig.takes(&tunneled(MAC, &[(VLAN, 5 << 13 | 10)])), "with a priority");
    assert!(!rig.takes(&tunneled(MAC, &[])));
    assert!(!rig.takes(&tunneled(MAC, &[(VLAN, 20)])));
    assert!(!rig.takes(&tunneled(MAC, &[(PROVIDER, 99), (VLAN, 10)])));
    assert!(!rig.takes(&tunneled(MAC, &[(VLAN, 10), (VLAN, 99)])));
    let mut rig = Rig::new(None);
    assert!(rig.takes(&tunneled(MAC, &[])));
    assert!(rig.takes(&tunneled(MAC, &[(VLAN, 5 << 13)])), "a tag with a priority and no VLAN");
    assert!(!rig.takes(&tunneled(MAC, &[(VLAN, 10)])));
    assert!(!rig.takes(&tunneled(MAC, &[(VLAN, 0), (VLAN, 10)])));
}

#[test]
fn a_tunnels_frame_is_ours_when_it_is_to_our_station() {
    for vlan in [None, Some(10)] {
        let mut rig = Rig::new(vlan);
        let tags: Vec<(&[u8], u16)> = vlan.into_iter().map(|vlan| (VLAN, vlan)).collect();
        assert!(rig.takes(&tunneled(MAC, &tags)));
        for other in [PEER, MacAddress([2, 0, 0, 0, 0, 9]), MacAddress::BROADCAST, MacAddress([1; 6])] {
            assert!(!rig.takes(&tunneled(other, &tags)), "{other}");
        }
        // A port that the kernel gives another address has that one from then on.
        let other = MacAddress([2, 0, 0, 0, 0, 7]);
        let port = overlay::Port { mac: other, mtu: 1500, vlan, is_up: true };
        rig.control.table().set_port(0, Some(port));
        rig.control.table().publish();
        assert!(rig.takes(&tunneled(other, &tags)) && !rig.takes(&tunneled(MAC, &tags)));
        rig.control.table().set_port(0, None);
        rig.control.table().publish();
        assert!(!rig.takes(&tunneled(other, &tags)), "there is no such port");
    }
}
