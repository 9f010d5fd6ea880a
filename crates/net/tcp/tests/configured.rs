//! Hosts that are told their addresses: two cores of one, and whoever else is on the link.
#![allow(clippy::unwrap_used)]

mod common;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use common::dma;
use common::ring::FrameRing;
use memory::{Batch, Pool};
use neighbor::{Address, nd};
use port::{RxQueue, TxQueue};
use runtime::{Instant, Poller};
use tcp::{Addresses, Configuration, Echo, Host, Neighbors, Options, Origin, Sources};
use wire::dhcp::{self, MessageType, option};
use wire::ethernet::{self, EtherType};
use wire::ip::{self, Protocol};
use wire::{Flow, MacAddress, arp, icmpv6, ipv4, ipv6, ndp, tcp as segment, udp};

const OWN: MacAddress = MacAddress([2, 0, 0, 0, 0, 9]);
const OTHER: MacAddress = MacAddress([2, 0, 0, 0, 0, 7]);
const LEASED: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 50);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);

/// A host of two cores, which listens for echoes, and the time.
struct Rig {
    hosts: [Host; 2],
    to: [FrameRing; 2],
    sent: FrameRing,
    configuration: Configuration,
    pool: Pool,
    began: Instant,
    after: Duration,
}

impl Rig {
    fn new(sources: Sources) -> Rig {
        let fixed = Addresses { mac: OWN, v4: None, v6: None, gateways: (None, None) };
        let configuration = Configuration::new(fixed.clone(), sources, [1, 2]);
        let (to, sent, neighbors) = (<[FrameRing; 2]>::default(), FrameRing::default(), Neighbors::default());
        let hosts = [0, 1].map(|n| {
            let queues: (Box<dyn RxQueue>, Box<dyn TxQueue>) =
                (Box::new(to[n].clone()), Box::new(sent.clone()));
            let service = Box::new(Echo::default());
            let mut host = Host::new(queues, fixed.clone(), &neighbors, Options::default(), service, 128);
            host.stack().listen(7);
            host.configure_by(&configuration, n == 0);
            host
        });
        let pool = Pool::new(&dma(), 2 * hosts[0].buffers()).unwrap();
        Rig { hosts, to, sent, configuration, pool, began: Instant::now(), after: Duration::ZERO }
    }

    /// A turn of each core, after a time; what they sent. A clock of ticks may be a nanosecond behind
    /// a sum of times: who waits for a deadline waits for a millisecond more.
    fn turn(&mut self, wait: Duration) -> Vec<Vec<u8>> {
        self.after += wait;
        let now = self.began + self.after;
        let mut batch = Batch::with_limit(64);
        for host in &mut self.hosts {
            host.turn(now, &mut self.pool, &mut batch);
        }
        self.sent.take().into()
    }

    /// Gives a core a frame, and what both sent within two turns.
    fn give(&mut self, core: usize, frame: Vec<u8>) -> Vec<Vec<u8>> {
        self.to[core].put(frame);
        let first = self.turn(Duration::ZERO);
        [first, self.turn(Duration::ZERO)].concat()
    }

    fn count(&self, name: &str) -> u64 {
        let all = self.hosts.iter().flat_map(Host::counters);
        all.filter(|counter| counter.name == name).map(|counter| counter.value).sum()
    }

    fn assigned(&self) -> Vec<IpAddr> {
        self.configuration.assigned().iter().map(|it| it.address).collect()
    }
}

fn link(dst: MacAddress, ethertype: EtherType, packet: &[u8]) -> Vec<u8> {
    [&ethernet::Header::between(dst, OTHER, ethertype).into_inner()[..], packet].concat()
}

/// A server's message to a client that has no address, as a frame.
fn of_server(kind: MessageType, exchange: u32, seconds: u32, to: MacAddress) -> Vec<u8> {
    let mut header = dhcp::Header::zeroed();
    header.set_kind(true);
    header.set_exchange(exchange);
    header.set_your_address(LEASED);
    header.set_client_mac(OWN);
    let mut message = header.into_inner().to_vec();
    message.extend([option::MESSAGE_TYPE, 1, kind.0, option::SERVER, 4, 10, 0, 0, 1]);
    message.extend([option::SUBNET_MASK, 4, 255, 255, 255, 0, option::MTU, 2, 4, 0, option::LEASE_TIME, 4]);
    message.extend(seconds.to_be_bytes());
    message.push(option::END);
    let header = udp::Repr { src_port: 67, dst_port: 68, payload_len: message.len() };
    let mut datagram = [&header.header().into_inner()[..], &message].concat();
    let dst = if to == OWN { LEASED } else { Ipv4Addr::BROADCAST };
    let addresses = ip::Addresses::V4 { src: SERVER, dst };
    udp::Datagram::new_unchecked(&mut datagram[..]).fill_checksum(addresses);
    link(to, EtherType::IPV4, &[&v4(dst, Protocol::UDP, datagram.len())[..], &datagram].concat())
}

fn v4(dst: Ipv4Addr, protocol: Protocol, len: usize) -> [u8; ipv4::HEADER_LEN] {
    let mut bytes = [0; ipv4::HEADER_LEN];
    ipv4::Repr::between(SERVER, dst, protocol, len).emit(&mut ipv4::Packet::new_unchecked(&mut bytes[..]));
    bytes
}

/// The exchange of the only frame, a message of a client.
fn exchange(sent: &[Vec<u8>]) -> u32 {
    let [frame] = sent else { panic!("{sent:?}") };
    let flow = Flow::of(frame).unwrap();
    assert_eq!(flow.ports, Some((68, 67)));
    dhcp::Header::of(&frame[flow.l4_offset() + 8..]).unwrap().exchange()
}

fn who_has(target: Ipv4Addr) -> Vec<u8> {
    SERVER.request(OTHER, target, None).to_vec()
}

/// A SYN to the leased address.
fn syn() -> Vec<u8> {
    let mut header = segment::Header::zeroed();
    header.set_src_port(5000);
    header.set_dst_port(7);
    header.set_header_len(segment::HEADER_LEN);
    header.set_flags(segment::Flags::SYN);
    header.set_window(1000);
    let mut bytes = header.into_inner().to_vec();
    let addresses = ip::Addresses::V4 { src: SERVER, dst: LEASED };
    segment::Segment::new_unchecked(&mut bytes[..]).fill_checksum(addresses);
    link(OWN, EtherType::IPV4, &[&v4(LEASED, Protocol::TCP, bytes.len())[..], &bytes].concat())
}

#[test]
fn two_cores_share_a_lease_and_lose_it_together() {
    let mut rig = Rig::new(Sources { dhcp: true, advertisements: false });
    let first = exchange(&rig.turn(Duration::ZERO));
    // Whichever core a message comes to takes it, and each knows afterwards.
    assert_eq!(
        exchange(&rig.give(1, of_server(MessageType::OFFER, first, 1000, MacAddress::BROADCAST))),
        first
    );
    assert!(rig.give(0, who_has(LEASED)).is_empty(), "it has no address yet");
    let probes = rig.give(0, of_server(MessageType::ACK, first, 1000, OWN));
    assert_eq!(neighbor::arp::parse(&probes[0]).unwrap().target_ip, LEASED);
    for _ in 0..3 {
        rig.turn(Duration::from_millis(301));
    }
    assert_eq!(rig.assigned(), [LEASED]);
    let told = rig.configuration.assigned().remove(0);
    assert_eq!((told.origin, told.bits, told.gateway), (Origin::Dhcp(SERVER), 24, None));
    for core in [0, 1] {
        let answer = neighbor::arp::parse(&rig.give(core, who_has(LEASED))[0]).unwrap();
        assert_eq!((answer.operation, answer.sender_mac), (arp::Operation::REPLY, OWN));
    }
    // A connection to the address is taken, with the segments that the server's MTU leaves.
    let asked = rig.give(0, syn());
    let answer = SERVER.request(OTHER, LEASED, None);
    let mut reply = neighbor::arp::parse(&answer).unwrap();
    assert_eq!(neighbor::arp::parse(&asked[0]).unwrap().target_ip, SERVER);
    reply.operation = arp::Operation::REPLY;
    let sent = rig.give(0, neighbor::arp::frame(&reply, OWN).to_vec());
    let flow = Flow::of(&sent[0]).unwrap();
    assert_eq!(flow.ports, Some((7, 5000)));
    assert_eq!(sent[0][flow.l4_offset() + 20..][..4], [2, 4, 3, 216], "1024 bytes less 40");
    // Its server says nothing more: the address is lost, and nothing is sent from it.
    rig.turn(Duration::from_secs(1001));
    let sent: Vec<_> = (0..4).flat_map(|_| rig.turn(Duration::from_millis(1001))).collect();
    assert!(!sent.is_empty() && sent.iter().all(|frame| Flow::of(frame).unwrap().ports == Some((68, 67))));
    assert_eq!(rig.assigned(), [] as [IpAddr; 0]);
    assert!(rig.give(1, who_has(LEASED)).is_empty());
    assert!(rig.count("tx_no_route") > 0, "what the connection sends again");
    assert_eq!((rig.count("dhcp_leases"), rig.count("dhcp_lost"), rig.count("rx_configuration")), (1, 1, 0));
}

#[test]
fn strangers_cannot_give_a_lease_and_their_storms_are_counted() {
    let mut rig = Rig::new(Sources { dhcp: true, advertisements: true });
    let sent = rig.turn(Duration::ZERO);
    let sent: Vec<_> =
        sent.into_iter().filter(|frame| Flow::of(frame).is_ok_and(|it| it.ports.is_some())).collect();
    let own = exchange(&sent);
    let offer = |exchange| of_server(MessageType::OFFER, exchange, 1000, MacAddress::BROADCAST);
    let mut broken = offer(own);
    broken[200] ^= 1;
    let mut cut = offer(own);
    cut.truncate(100);
    let mut to_other = offer(own);
    to_other[..6].copy_from_slice(&OTHER.0);
    let zero = of_server(MessageType::OFFER, own, 0, MacAddress::BROADCAST);
    for frame in [broken, to_other, zero, offer(own.wrapping_add(1))] {
        let before = rig.count("rx_configuration");
        assert!(rig.give(0, frame).is_empty());
        assert_eq!(rig.count("rx_configuration"), before + 1);
    }
    assert!(rig.give(0, cut).is_empty());
    for n in 0..1000 {
        assert!(rig.give(0, offer(own.wrapping_add(n + 1))).is_empty());
    }
    assert!(rig.count("rx_configuration") >= 1000);
    assert_eq!(rig.count("rx_udp_no_port"), 0, "nobody is told that the port is unknown");
    // The second after it an offer is taken.
    rig.turn(Duration::from_millis(1001));
    assert!(!rig.give(0, offer(own)).is_empty());
}

/// A router advertisement with a prefix, as a frame.
fn of_router(lifetime_s: u16, valid: u32) -> Vec<u8> {
    let mut head = ndp::RouterAdvertisement::zeroed();
    head.set_kind();
    head.set_lifetime_s(lifetime_s);
    let mut option = ndp::PrefixOption::zeroed();
    option.set_prefix("2001:db8:1::".parse().unwrap(), 64, ndp::ON_LINK | ndp::AUTONOMOUS);
    option.set_lifetimes_s(valid, valid);
    let mut message = [&head.into_inner()[..], &option.into_inner()].concat();
    let mut header = ipv6::Header::zeroed();
    let src: Ipv6Addr = "fe80::1".parse().unwrap();
    let addresses = header.fill(src, ndp::ALL_NODES, Protocol::ICMPV6, message.len() as u16, 255);
    icmpv6::Packet::new_unchecked(&mut message[..]).fill_checksum(addresses);
    let dst = MacAddress::of_ipv6_group(ndp::ALL_NODES);
    link(dst, EtherType::IPV6, &[&header.into_inner()[..], &message].concat())
}

#[test]
fn both_cores_have_the_address_of_a_prefix() {
    let mut rig = Rig::new(Sources { dhcp: false, advertisements: true });
    rig.turn(Duration::ZERO);
    rig.turn(Duration::from_millis(1001));
    let local: IpAddr = "fe80::ff:fe00:9".parse().unwrap();
    assert_eq!(rig.assigned(), [local]);
    assert_eq!(rig.give(1, of_router(1800, 7200)).len(), 1, "is the address somebody's?");
    rig.turn(Duration::from_millis(1001));
    let global: Ipv6Addr = "2001:db8:1::ff:fe00:9".parse().unwrap();
    assert_eq!(rig.assigned(), [global.into(), local]);
    assert_eq!(rig.configuration.assigned()[0].gateway, Some("fe80::1".parse().unwrap()));
    let router: Ipv6Addr = "2001:db8:1::1".parse().unwrap();
    for core in [0, 1] {
        let sent = rig.give(core, router.request(OTHER, global, None).to_vec());
        assert_eq!(nd::advertisement(&sent[0]).unwrap().mac, OWN);
    }
    let mut broken = of_router(1800, 7200);
    broken[60] ^= 1;
    rig.give(0, broken);
    assert_eq!((rig.count("nd_advertisements"), rig.count("rx_configuration")), (1, 1));
    // A host that asked nobody takes none.
    let mut other = Rig::new(Sources { dhcp: true, advertisements: false });
    other.turn(Duration::ZERO);
    other.give(0, of_router(1800, 7200));
    assert_eq!((other.assigned().len(), other.count("rx_no_protocol")), (0, 1));
}
