//! Frames that come by a port of the underlay: which of them a lane takes out of their tunnels.
#![allow(clippy::unwrap_used)]

#[path = "common/frames.rs"]
mod frames;

use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use control::{Change, Key, Owner, Value};
use frames::Frames;
use memory::{Batch, Dma, Pool};
use neighbor::Address;
use port::{Capabilities, Reason};
use runtime::{Instant, Poller};
use vtep::{Config, Control, InnerQueues, Lane, Side, Totals, UnderlayQueues, channels};
use wire::ip::Protocol;
use wire::{MacAddress, icmpv6, ipv4, ipv6};

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
    out: Frames,
    pool: Pool,
}

impl Rig {
    fn new(vlan: Option<u16>) -> Rig {
        let vlan = vlan.map(|vlan| format!("vlan = {vlan}\n")).unwrap_or_default();
        Rig::with("", &vlan)
    }

    /// With more to say in front of all, and of the port.
    fn with(first: &str, of_port: &str) -> Rig {
        let config = Config::parse(&format!(
            "{first}[[underlay]]\nname = 'up'\nport = 'tap:x'\n\
             addresses = ['192.0.2.1/24', '2001:db8::1/64']\n{of_port}\
             [[network]]\nnumber = 100\nprotocol = 'vxlan'\ninner = 'tap:a'\nlearning = true\n\
             flood = ['192.0.2.2', '2001:db8::2']\n"
        ));
        let config = config.unwrap();
        let (channels, to_control, requests) = channels();
        let mut control =
            Control::new(&config.underlay, &[MAC], config.desired(&[MAC]), channels, 0).unwrap();
        let (inner, up, out) = (Frames::default(), Frames::default(), Frames::default());
        let can = Capabilities { max_frame: 1514, ..Capabilities::default() };
        let edge = &config.inner[0];
        let inner_queues =
            InnerQueues::new(edge, (PEER, &can), Box::new(Frames::default()), Box::new(inner.clone()));
        let (port, queues) = (&config.underlay[0], (Box::new(up.clone()), Box::new(out.clone())));
        let underlay = UnderlayQueues::new(port, (port.mac.unwrap_or(MAC), can), queues.0, queues.1);
        let queues = (vec![inner_queues], vec![underlay]);
        let (lane, counters) = Lane::new(control.table(), queues.0, queues.1, to_control, Some(requests));
        control.table().publish();
        let pool = Pool::new(&Dma::new(memory::Options::default()), 1024).unwrap();
        Rig { control, lane, counters, inner, up, out, pool }
    }

    /// What leaves by the underlay when a frame comes there.
    fn answers(&mut self, frame: &[u8]) -> Vec<Vec<u8>> {
        self.out.take();
        self.up.put(frame);
        self.lane.turn(Instant::now(), &mut self.pool, &mut Batch::default());
        self.out.take()
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

/// Tags as they stand in a frame.
fn tag_bytes(tags: &[(&[u8], u16)]) -> Vec<u8> {
    tags.iter().flat_map(|(kind, control)| [*kind, &control.to_be_bytes()[..]].concat()).collect()
}

/// A frame of VXLAN's from the peer to a station, under tags.
fn tunneled(dst: MacAddress, tags: &[(&[u8], u16)]) -> Vec<u8> {
    let mut header = ipv4::Header::zeroed();
    let (src, to) = (Ipv4Addr::new(192, 0, 2, 2), Ipv4Addr::new(192, 0, 2, 1));
    ipv4::Repr::between(src, to, Protocol::UDP, 16 + INNER.len()).write(&mut header);
    let udp = [0xC0, 0, 0x12, 0xB5, 0, 16 + INNER.len() as u8, 0, 0];
    let tags = tag_bytes(tags);
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
    }
}

/// Neighbours send to the Ethernet address that they are told: that of the configuration, or of the port.
/// What address the kernel's device has, and whether it is there, is of no weight to what they send.
#[test]
fn a_port_that_the_kernel_tells_of_takes_what_is_to_the_address_that_neighbours_are_told() {
    let told = MacAddress([2, 0, 0, 0, 0, 9]);
    for (of_port, told) in [("mac = '02:00:00:00:00:09'\n", told), ("", MAC)] {
        let mut rig = Rig::with("learn = 'kernel'\n", &format!("link = 'eth1'\n{of_port}"));
        let kernels = MacAddress([2, 0, 0, 0, 0, 7]);
        let port = |mac| overlay::Port { mac, mtu: 1500, vlan: None, is_up: true };
        for value in [None, Some(Value::Port(port(MAC))), Some(Value::Port(port(kernels))), None] {
            rig.control.change(Owner::Kernel, vec![Change { key: Key::Port(0), value }], 1);
            rig.control.table().publish();
            assert!(rig.takes(&tunneled(told, &[])));
            assert!(!rig.takes(&tunneled(kernels, &[])));
            let asked = neighbor::Resolver::new(PEER, Ipv4Addr::new(192, 0, 2, 2));
            let answers = rig.answers(&asked.request(Ipv4Addr::new(192, 0, 2, 1), None));
            let answer = Ipv4Addr::answer(&answers[0]).unwrap();
            assert_eq!(answer, (Ipv4Addr::new(192, 0, 2, 1), told));
        }
    }
}

/// A request for our address, under tags.
fn asked(tags: &[(&[u8], u16)]) -> Vec<u8> {
    let peer = neighbor::Resolver::new(PEER, Ipv4Addr::new(192, 0, 2, 2));
    let mut frame = peer.request(Ipv4Addr::new(192, 0, 2, 1), None).to_vec();
    frame.splice(12..12, tag_bytes(tags));
    frame
}

/// A tag that has a priority and no VLAN is none, and one of a provider's is another VLAN.
#[test]
fn neighbours_are_answered_in_our_vlan_alone() {
    let mut rig = Rig::new(None);
    let length = |frames: Vec<Vec<u8>>| frames.iter().map(Vec::len).collect::<Vec<_>>();
    assert_eq!(length(rig.answers(&asked(&[]))), [42]);
    assert_eq!(length(rig.answers(&asked(&[(VLAN, 5 << 13)]))), [42]);
    assert_eq!(length(rig.answers(&asked(&[(VLAN, 10)]))), [0; 0]);
    assert_eq!(length(rig.answers(&asked(&[(PROVIDER, 0)]))), [0; 0]);
    let mut rig = Rig::new(Some(10));
    assert_eq!(length(rig.answers(&asked(&[(VLAN, 10)]))), [46]);
    assert_eq!(length(rig.answers(&asked(&[(PROVIDER, 10)]))), [0; 0]);
    assert!(!rig.takes(&tunneled(MAC, &[(PROVIDER, 10)])));
}

/// All hosts of a link get requests for any of them: they take no room from the answers that somebody
/// waits for.
#[test]
fn requests_leave_room_for_answers() {
    let mut rig = Rig::new(None);
    rig.control.turn(Duration::from_millis(1), || 0);
    rig.answers(&asked(&[])); // what the control asks for leaves as well
    for last in 0..600_u16 {
        let [high, low] = last.to_be_bytes();
        let stranger = neighbor::Resolver::new(PEER, Ipv4Addr::new(192, 0, 3 + high, low.max(1)));
        assert!(rig.answers(&stranger.request(Ipv4Addr::new(192, 0, 2, 77), None)).is_empty());
    }
    let peer = Ipv4Addr::new(192, 0, 2, 2);
    let own = neighbor::Resolver::new(MAC, Ipv4Addr::new(192, 0, 2, 1));
    let asked = neighbor::arp::parse(&own.request(peer, None)).unwrap();
    rig.answers(&neighbor::arp::frame(&asked.reply(PEER), MAC));
    rig.control.turn(Duration::from_millis(1), || 1);
    assert_eq!(rig.control.neighbors().collect::<Vec<_>>(), [(0, peer.into(), PEER)]);
}

/// RFC 4861, section 4.3: a solicitation may have options beside its sender's address.
#[test]
fn a_solicitation_with_more_options_says_where_its_sender_is() {
    let mut rig = Rig::new(None);
    rig.control.turn(Duration::from_millis(1), || 0);
    let (peer, own): (Ipv6Addr, Ipv6Addr) = ("2001:db8::2".parse().unwrap(), "2001:db8::1".parse().unwrap());
    let mut frame = neighbor::Resolver::new(PEER, peer).request(own, None).to_vec();
    frame.extend([14, 1, 1, 2, 3, 4, 5, 6]); // a nonce (RFC 3971, section 5.3.2)
    let mut packet = ipv6::Packet::new_unchecked(&mut frame[14..]);
    let (src, dst) = (packet.header().src(), packet.header().dst());
    let addresses = packet.header_mut().fill(src, dst, Protocol::ICMPV6, 40, 255);
    icmpv6::Packet::new_unchecked(packet.payload_mut()).fill_checksum(addresses);
    rig.answers(&frame);
    rig.control.turn(Duration::from_millis(1), || 1);
    assert_eq!(rig.control.neighbors().collect::<Vec<_>>(), [(0, peer.into(), PEER)]);
}
