//! `conf/dual.click`, which routes IPv4 and IPv6 between two networks: what RFC 1812,
//! RFC 4443 and RFC 4861 ask of it.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::frame::{
    BROADCAST, DONT_FRAGMENT, Heard4, Heard6, ICMP, ICMP6, Ip4, Mac, UDP, echo, ethernet, heard4, heard6,
    icmp6, ip6, udp,
};
use super::rig::{Hosts, Rig, conf};

const ARP: u16 = 0x0806;
const IP4: u16 = 0x0800;
const IP6: u16 = 0x86DD;

/// A host on a cable.
pub struct Host<'a> {
    pub wire: &'a Hosts,
    pub mac: Mac,
    pub router: Mac,
    pub ip: Ipv4Addr,
    pub ip6: Ipv6Addr,
    pub link: Ipv6Addr,
}

fn v6(text: &str) -> Ipv6Addr {
    text.parse().expect("an address")
}

impl Host<'_> {
    /// Host 2 of the network at port 0 or 1.
    pub fn new(wire: &Hosts, net: u8) -> Host<'_> {
        Host {
            wire,
            mac: [2, 0, 0, 0, 0xAA, net],
            router: [2, 0, 0, 0, 0, net + 1],
            ip: Ipv4Addr::new(10, 0, net + 1, 2),
            ip6: v6(&format!("2001:db8:{}::2", net + 1)),
            link: v6(&format!("fe80::aa:{net}")),
        }
    }

    /// Sends an IP packet to the router.
    pub fn send(&self, packet: &[u8]) {
        let ethertype = if packet[0] >> 4 == 4 { IP4 } else { IP6 };
        self.wire.send(&ethernet(self.router, self.mac, ethertype, packet));
    }

    /// An ARP packet of this host's.
    fn arp(&self, operation: u8, about: (Mac, Ipv4Addr)) -> Vec<u8> {
        let mut packet = vec![0, 1, 8, 0, 6, 4, 0, operation];
        packet.extend(self.mac);
        packet.extend(self.ip.octets());
        packet.extend(about.0);
        packet.extend(about.1.octets());
        packet
    }

    /// The next packet that comes. Who asks for this host's addresses is answered.
    pub fn next(&self) -> Vec<u8> {
        let other = |_| Some(self.wire.next()).filter(|frame| !self.resolve(frame));
        let frame = (0..1000).find_map(other).expect("a packet among 1,000 questions for addresses");
        assert_eq!((&frame[..6], &frame[6..12]), (&self.mac[..], &self.router[..]), "to this host");
        frame
    }

    /// Answers one who asks for an address of this host's.
    fn resolve(&self, frame: &[u8]) -> bool {
        let asker: Mac = frame[6..12].try_into().expect("six");
        if frame[12..14] == ARP.to_be_bytes() && frame[21] == 1 && frame[38..42] == self.ip.octets() {
            let who: [u8; 4] = frame[28..32].try_into().expect("four");
            self.wire.send(&ethernet(asker, self.mac, ARP, &self.arp(2, (asker, who.into()))));
            return true;
        }
        let asked = || heard6(frame);
        if frame[12..14] == IP6.to_be_bytes() && frame[20] == ICMP6 && frame[54] == 135 {
            let target: [u8; 16] = frame[62..78].try_into().expect("sixteen");
            let target = Ipv6Addr::from(target);
            assert!([self.ip6, self.link].contains(&target), "nobody has {target}");
            let body = [&[0x60, 0, 0, 0][..], &target.octets(), &[2, 1], &self.mac].concat();
            let answer = icmp6(target, asked().src, 136, &body);
            self.wire.send(&ethernet(asker, self.mac, IP6, &ip6(target, asked().src, ICMP6, 255, &answer)));
            return true;
        }
        false
    }

    pub fn next4(&self) -> Heard4 {
        heard4(&self.next())
    }

    pub fn next6(&self) -> Heard6 {
        heard6(&self.next())
    }

    /// A UDP packet to an address, without options.
    fn to(&self, dst: &str) -> Ip4 {
        Ip4::new(&self.ip.to_string(), dst, UDP, &udp(1024, 33434, &[7; 40]))
    }

    fn to6(&self, dst: &str, hops: u8) -> Vec<u8> {
        ip6(self.ip6, v6(dst), UDP, hops, &udp(1024, 33434, &[7; 40]))
    }
}

/// Runs a configuration with a host at each of two ports.
pub fn between(
    config: &str,
    names: [&str; 2],
    threads: usize,
    work: impl FnOnce(Host<'_>, Host<'_>) + Send,
) -> Rig {
    let place = tempfile::tempdir().expect("a directory");
    let (hosts, wires) = Hosts::on(place.path(), 2);
    let mut rig = Rig::new(config, &names, threads, &wires);
    rig.run(|_| work(Host::new(&hosts[0], 0), Host::new(&hosts[1], 1)));
    rig
}

fn dual(work: impl FnOnce(Host<'_>, Host<'_>) + Send) -> Rig {
    between(&conf("dual.click"), ["P0", "P1"], 1, work)
}

#[test]
fn whoever_asks_for_the_routers_address_gets_it() {
    dual(|a, _| {
        let ask = |address: &str| {
            let request = a.arp(1, ([0; 6], address.parse().expect("an address")));
            a.wire.send(&ethernet(BROADCAST, a.mac, ARP, &request));
        };
        ask("10.0.1.1");
        let answer = a.wire.next();
        assert_eq!(answer[..22], ethernet(a.mac, a.router, ARP, &[0, 1, 8, 0, 6, 4, 0, 2]));
        assert_eq!(answer[22..32], [&a.router[..], &[10, 0, 1, 1]].concat());
        assert_eq!(answer[32..42], [&a.mac[..], &a.ip.octets()].concat());
        ask("10.0.1.7"); // another's
        ask("10.0.2.1"); // the other port's
        a.wire.silent();
    });
}

#[test]
fn hosts_of_both_networks_talk_by_both_protocols() {
    for threads in [1, 2] {
        between(&conf("dual.click"), ["P0", "P1"], threads, |a, b| {
            for round in 0..3 {
                let packet = a.to("10.0.2.2");
                a.send(&packet.bytes());
                let heard = b.next4();
                assert_eq!((heard.ttl(), heard.payload), (63, packet.payload), "round {round}");
                let packet = b.to("10.0.1.2");
                b.send(&packet.bytes());
                assert_eq!(a.next4().payload, packet.payload);
                a.send(&a.to6("2001:db8:2::2", 64));
                assert_eq!((b.next6().hops, threads), (63, threads));
                b.send(&b.to6("2001:db8:1::2", 2));
                assert_eq!(a.next6().hops, 1);
            }
        });
    }
}

#[test]
fn the_router_answers_pings_to_all_its_addresses() {
    dual(|a, _| {
        for dst in ["10.0.1.1", "10.0.2.1"] {
            let ping = Ip4 { ttl: 1, ..Ip4::new("10.0.1.2", dst, ICMP, &echo(7, b"hello")) };
            a.send(&ping.bytes());
            let heard = a.next4();
            assert_eq!((heard.src().to_string(), heard.payload[0]), (dst.to_string(), 0));
            assert_eq!(heard.payload[4..], ping.payload[4..]);
        }
        for (src, dst) in [(a.ip6, "2001:db8:1::1"), (a.ip6, "2001:db8:2::1"), (a.link, "fe80::1")] {
            let ping = icmp6(src, v6(dst), 128, b"\x12\x34\0\x01hello");
            a.send(&ip6(src, v6(dst), ICMP6, 1, &ping));
            let heard = a.next6();
            assert_eq!((heard.src, heard.dst, heard.payload[0]), (v6(dst), src, 129));
            assert_eq!(heard.payload[4..], ping[4..]);
        }
        a.wire.silent(); // no redirect: the answers are the router's own
    });
}

#[test]
fn a_ping_in_fragments_is_put_together_and_answered_in_fragments() {
    dual(|a, _| {
        let data: Vec<u8> = (0..3000).map(|n| (n / 7) as u8).collect();
        let message = echo(1, &data);
        let pieces: Vec<&[u8]> = message.chunks(1480).collect();
        for (n, piece) in pieces.iter().enumerate().rev() {
            let more = if n + 1 < pieces.len() { 0x2000 } else { 0 };
            let fragment = more | (n * 1480 / 8) as u16;
            a.send(&Ip4 { fragment, ..Ip4::new("10.0.1.2", "10.0.1.1", ICMP, piece) }.bytes());
        }
        let mut answer = vec![0; message.len()];
        for _ in 0..pieces.len() {
            let heard = a.next4();
            let at = usize::from(heard.fragment() & 0x1FFF) * 8;
            answer[at..at + heard.payload.len()].copy_from_slice(&heard.payload);
        }
        assert_eq!(wire::checksum::sum(&answer), 0xFFFF);
        assert_eq!((answer[0], &answer[8..]), (0, &data[..]));
    });
}

#[test]
fn senders_are_told_what_became_of_their_packets() {
    let config = conf("dual.click").replace("$MTU1 1500", "$MTU1 1300");
    between(&config, ["P0", "P1"], 1, |a, b| {
        let told = |packet: Ip4, wanted: (u8, u8, [u8; 4])| {
            a.send(&packet.bytes());
            let heard = a.next4();
            assert_eq!(heard.src(), Ipv4Addr::new(10, 0, 1, 1), "from the port that the sender sees");
            assert_eq!(heard.error_about(&packet.bytes()), wanted);
        };
        let none = [0; 4];
        told(Ip4 { ttl: 1, ..a.to("10.0.2.2") }, (11, 0, none));
        told(a.to("10.0.1.1"), (3, 3, none));
        told(a.to("10.0.2.1"), (3, 3, none));
        told(Ip4::new("10.0.1.2", "10.0.1.1", 253, &[1; 20]), (3, 2, none));
        told(a.to("192.0.2.9"), (3, 0, none));
        let long = Ip4::new("10.0.1.2", "10.0.2.2", UDP, &udp(1, 2, &[3; 1400]));
        told(Ip4 { fragment: DONT_FRAGMENT, ..long.clone() }, (3, 4, [0, 0, 0x05, 0x14]));
        told(Ip4 { options: vec![7, 9, 4, 0], ..a.to("10.0.2.2") }, (12, 0, [21, 0, 0, 0]));
        a.send(&long.bytes());
        assert_eq!(b.next4().payload.len() + b.next4().payload.len(), long.payload.len());

        let told = |packet: Vec<u8>, wanted: (u8, u8, [u8; 4])| {
            a.send(&packet);
            let heard = a.next6();
            assert_eq!(heard.src, v6("2001:db8:1::1"), "from the port that the packet came in by");
            assert_eq!(heard.error_about(&packet), wanted);
        };
        told(a.to6("2001:db8:2::2", 1), (3, 0, none));
        told(a.to6("2001:db8:2::2", 0), (3, 0, none));
        told(a.to6("2001:db8:1::1", 9), (1, 4, none));
        told(a.to6("2001:db8:2::1", 9), (1, 4, none));
        told(ip6(a.ip6, v6("2001:db8:1::1"), 253, 9, &[1; 20]), (4, 1, [0, 0, 0, 6]));
        told(a.to6("2001:db8:9::9", 9), (1, 0, none));
        let long = ip6(a.ip6, b.ip6, UDP, 9, &udp(1, 2, &[3; 1400]));
        told(long, (2, 0, [0, 0, 0x05, 0x14]));
        a.wire.silent();
    });
}

#[test]
fn what_no_router_forwards_stays() {
    let rig = dual(|a, b| {
        let from = |src: &str, dst: &str| a.send(&Ip4::new(src, dst, UDP, &udp(1, 2, &[])).bytes());
        for martian in ["127.0.0.1", "0.0.0.9", "224.0.0.9", "250.0.0.1", "10.0.1.255", "255.255.255.255"] {
            from(martian, "10.0.2.2");
        }
        for nowhere in ["127.0.0.1", "224.0.0.9", "239.1.2.3", "255.255.255.255", "10.0.2.255", "0.0.0.0"] {
            from("10.0.1.2", nowhere);
        }
        let from = |src: &str, dst: &str| a.send(&ip6(v6(src), v6(dst), UDP, 9, &udp(1, 2, &[])));
        for source in ["fe80::aa:0", "::", "::1", "ff02::1"] {
            from(source, "2001:db8:2::2");
        }
        for nowhere in ["ff02::1", "ff05::2", "fe80::9", "::1", "::"] {
            from("2001:db8:1::2", nowhere);
        }
        // Frames that are another host's, and packets in frames for all.
        let good = a.to("10.0.2.2").bytes();
        a.wire.send(&ethernet([2, 0, 0, 0, 0, 9], a.mac, IP4, &good));
        a.wire.send(&ethernet(BROADCAST, a.mac, IP4, &good));
        a.wire.send(&ethernet([0x33, 0x33, 0, 0, 0, 1], a.mac, IP6, &a.to6("2001:db8:2::2", 9)));
        a.wire.silent();
        b.wire.silent();
        a.send(&good);
        assert_eq!(b.next4().payload, a.to("10.0.2.2").payload, "it goes on");
    });
    assert_eq!(rig.drops()["HostEtherFilter: to another host"], 1, "{:?}", rig.drops());
    assert_eq!(rig.drops()["DropBroadcasts: broadcast"], 2, "{:?}", rig.drops());
}

#[test]
fn neighbours_find_the_router() {
    dual(|a, _| {
        let ask = |src: Ipv6Addr, target: &str| {
            let target = v6(target);
            let [.., x, y, z] = target.octets();
            let group =
                Ipv6Addr::new(0xFF02, 0, 0, 0, 0, 1, 0xFF00 | u16::from(x), u16::from_be_bytes([y, z]));
            let option: &[u8] = if src.is_unspecified() { &[] } else { &[1, 1, 2, 0, 0, 0, 0xAA, 0] };
            let body = [&[0; 4][..], &target.octets(), option].concat();
            let packet = ip6(src, group, ICMP6, 255, &icmp6(src, group, 135, &body));
            a.wire.send(&ethernet([0x33, 0x33, 0xFF, x, y, z], a.mac, IP6, &packet));
        };
        for target in ["2001:db8:1::1", "fe80::1"] {
            for src in [a.ip6, a.link] {
                ask(src, target);
                let heard = heard6(&a.wire.next());
                assert_eq!((heard.link, heard.src, heard.dst), ((a.mac, a.router), v6(target), src));
                assert_eq!((heard.hops, heard.payload[0], heard.payload[4]), (255, 136, 0xE0));
                let option = [&[2, 1][..], &a.router].concat();
                assert_eq!(heard.payload[8..], [&v6(target).octets()[..], &option].concat());
            }
            // Who checks whether the address is free is told that it is not.
            ask(Ipv6Addr::UNSPECIFIED, target);
            let heard = heard6(&a.wire.next());
            assert_eq!((heard.dst, heard.payload[4] & 0x40), (v6("ff02::1"), 0));
        }
        ask(a.ip6, "2001:db8:1::77");
        ask(a.ip6, "2001:db8:2::1");
        a.wire.silent();
    });
}

#[test]
fn a_better_way_is_told_to_those_who_are_on_it() {
    dual(|a, _| {
        let packet = a.to("10.0.1.2").bytes(); // to its own network, by way of the router
        a.send(&packet);
        let both = [a.next4(), a.next4()];
        let error = both.iter().find(|heard| heard.protocol() == ICMP).expect("a redirect");
        assert_eq!(error.error_about(&packet), (5, 1, a.ip.octets()));
        // RFC 4861, 8.1: from the router's address of the link, with no hop taken.
        let packet = a.to6("2001:db8:1::2", 9);
        a.send(&packet);
        let both = [a.next6(), a.next6()];
        let error = both.iter().find(|heard| heard.next == ICMP6).expect("a redirect");
        assert_eq!((error.src, error.hops, error.payload[0]), (v6("fe80::1"), 255, 137));
        assert_eq!(
            (&error.payload[8..24], &error.payload[24..40]),
            (&a.ip6.octets()[..], &a.ip6.octets()[..])
        );
    });
}

#[test]
fn errors_are_not_answered_with_errors_and_come_at_a_measured_rate() {
    let rig = dual(|a, _| {
        let error = [3, 1, 0xFC, 0xFE, 0, 0, 0, 0];
        a.send(&Ip4 { ttl: 1, ..Ip4::new("10.0.1.2", "10.0.2.2", ICMP, &error) }.bytes());
        let error6 = icmp6(a.ip6, v6("2001:db8:2::2"), 1, &[0; 60]);
        a.send(&ip6(a.ip6, v6("2001:db8:2::2"), ICMP6, 1, &error6));
        a.wire.silent();
        for _ in 0..300 {
            a.send(&Ip4 { ttl: 1, ..a.to("10.0.2.2") }.bytes());
        }
        let heard = std::iter::from_fn(|| a.wire.hear(300)).filter(|frame| !a.resolve(frame)).count();
        assert!((10..290).contains(&heard), "{heard} errors about 300 packets sent at once");
    });
    let drops = rig.drops();
    assert!(drops["RatedSplitter: rate exceeded"] > 10, "{drops:?}");
    assert_eq!(
        (drops["ICMPError: no answer is due"], drops["ICMP6Error: no answer is due"]),
        (1, 1),
        "{drops:?}"
    );
}
