//! What is not to be forwarded, through the paper's router: its sender is told, or it is
//! dropped with a reason.

use super::frame::{BROADCAST, DONT_FRAGMENT, Heard4, Ip4, UDP, ethernet, heard4, udp};
use super::rig::{Hosts, Rig, conf};

const ROUTER: [u8; 6] = [2, 0, 0, 0, 0, 1];
const SENDER: [u8; 6] = [2, 0, 0, 0, 1, 0];

/// What a router with a small MTU makes of a packet to port 0: runs `look` with the
/// hosts of all ports, then gives the rig back.
fn route(packet: Vec<u8>, look: impl FnOnce(&[Hosts]) + Send) -> Rig {
    route_frame(ethernet(ROUTER, SENDER, 0x0800, &packet), look)
}

fn route_frame(frame: Vec<u8>, look: impl FnOnce(&[Hosts]) + Send) -> Rig {
    let place = tempfile::tempdir().expect("a directory");
    let (hosts, wires) = Hosts::on(place.path(), 4);
    let config = conf("router.click").replace("$MTU 1500", "$MTU 1000");
    let mut rig = Rig::new(&config, &["P0", "P1", "P2", "P3"], 1, &wires);
    rig.run(|_| {
        hosts[0].send(&frame);
        look(&hosts);
        hosts.iter().for_each(Hosts::silent);
    });
    rig
}

/// A packet from a host on port 0 to one on port 1.
fn across(data: usize) -> Ip4 {
    let data: Vec<u8> = (0..data).map(|n| n as u8).collect();
    Ip4::new("10.0.0.5", "10.1.0.9", UDP, &udp(1024, 9, &data))
}

/// An ICMP error that came to the sender by way of port 0, whose address it has.
fn told(hosts: &[Hosts]) -> Heard4 {
    let heard = heard4(&hosts[0].next());
    assert_eq!(heard.link, (SENDER, ROUTER));
    assert_eq!(heard.src().to_string(), "10.0.0.1", "from the port that it leaves by");
    heard
}

#[test]
fn what_comes_before_the_threads_run_waits_in_the_rings() {
    let place = tempfile::tempdir().expect("a directory");
    let (hosts, wires) = Hosts::on(place.path(), 4);
    let mut rig = Rig::new(&conf("router.click"), &["P0", "P1", "P2", "P3"], 2, &wires);
    rig.router.begin();
    for n in 0..8 {
        let packet = Ip4::new("10.0.0.5", "10.1.0.9", UDP, &udp(1024, n, &[7; 40]));
        hosts[0].send(&ethernet(ROUTER, SENDER, 0x0800, &packet.bytes()));
    }
    std::thread::sleep(std::time::Duration::from_millis(100));
    let heard = rig.run(|_| std::iter::from_fn(|| hosts[1].hear(500)).count());
    assert_eq!((heard, rig.drops()), (8, Default::default()), "{:?}", rig.passed());
}

#[test]
fn a_packet_with_no_hop_left_is_told_to_its_sender() {
    for ttl in [0, 1] {
        let packet = Ip4 { ttl, ..across(40) }.bytes();
        route(packet.clone(), |hosts| {
            assert_eq!(told(hosts).error_about(&packet), (11, 0, [0; 4]));
        });
    }
}

#[test]
fn an_error_about_an_error_is_never_sent() {
    let error = [11, 0, 0, 0, 0, 0, 0, 0];
    let rig = route(Ip4 { ttl: 1, protocol: 1, payload: error.to_vec(), ..across(0) }.bytes(), |_| {});
    assert_eq!(rig.drops()["ICMPError: no answer is due"], 1);
    // Nor about a later fragment (RFC 1812, 4.3.2.7).
    let rig = route(Ip4 { ttl: 1, fragment: 7, ..across(40) }.bytes(), |_| {});
    assert_eq!(rig.drops()["ICMPError: no answer is due"], 1);
}

#[test]
fn bad_headers_are_dropped_by_name() {
    let good = across(40).bytes();
    let broken = |at: usize, with: u8| {
        let mut packet = good.clone();
        packet[at] = with;
        packet
    };
    for (packet, reason) in [
        (broken(10, 0), "bad IP checksum"),
        (broken(0, 0x65), "bad IP version"),
        (broken(0, 0x44), "bad IP header length"),
        (broken(2, 0x40), "bad IP length"),
    ] {
        let rig = route(packet, |_| {});
        let drops = rig.drops();
        let name = format!("CheckIPHeader: {reason}");
        assert_eq!((drops.get(&name), drops.len()), (Some(&1), 1), "{drops:?}");
    }
}

#[test]
fn a_broadcast_of_the_link_is_not_routed() {
    let packet = across(40).bytes();
    for dst in [BROADCAST, [1, 0, 0x5E, 0, 0, 9]] {
        let rig = route_frame(ethernet(dst, SENDER, 0x0800, &packet), |_| {});
        assert_eq!(rig.drops()["DropBroadcasts: broadcast"], 1);
    }
}

#[test]
fn frames_that_are_not_ip_go_nowhere() {
    let rig = route_frame(ethernet(BROADCAST, SENDER, 0x0806, &[0; 46]), |_| {});
    assert_eq!(rig.passed(), (1, 0));
    let rig = route_frame(ethernet(ROUTER, SENDER, 0x86DD, &[0x60; 46]), |_| {});
    assert_eq!(rig.passed(), (1, 0));
}

#[test]
fn a_packet_without_a_route_is_dropped() {
    let lost = Ip4::new("10.0.0.5", "192.0.2.1", UDP, &udp(1, 2, &[]));
    let rig = route(lost.bytes(), |_| {});
    let drops = rig.drops();
    assert!(drops.iter().any(|(name, count)| name.contains("no route") && *count == 1), "{drops:?}");
}

#[test]
fn a_route_is_recorded_and_options_are_heeded() {
    let record = Ip4 { options: vec![7, 7, 4, 0, 0, 0, 0, 0], ..across(8) };
    route(record.bytes(), |hosts| {
        let heard = heard4(&hosts[1].next());
        assert_eq!((heard.ttl(), &heard.header[20..]), (63, &[7, 7, 8, 10, 1, 0, 1, 0][..]));
        assert_eq!(heard.payload, record.payload);
    });
    let stamp = Ip4 { options: vec![68, 12, 5, 1, 0, 0, 0, 0, 0, 0, 0, 0], ..across(8) };
    route(stamp.bytes(), |hosts| {
        let heard = heard4(&hosts[1].next());
        assert_eq!(heard.header[20..28], [68, 12, 13, 1, 10, 1, 0, 1]);
        assert_ne!(heard.header[28..32], [0; 4], "the time");
    });
    // The option says that it is longer than the header.
    let wrong = Ip4 { options: vec![7, 9, 4, 0], ..across(8) }.bytes();
    route(wrong.clone(), |hosts| {
        let (kind, code, [pointer, ..]) = told(hosts).error_about(&wrong);
        assert_eq!((kind, code), (12, 0));
        assert!((20..24).contains(&pointer), "it points into the option: {pointer}");
    });
}

#[test]
fn a_packet_too_long_is_sent_in_fragments() {
    let whole = across(1400);
    route(whole.bytes(), |hosts| {
        let fragments = [heard4(&hosts[1].next()), heard4(&hosts[1].next())];
        let mut payload: Vec<u8> = vec![];
        for (n, fragment) in fragments.iter().enumerate() {
            assert!(fragment.header.len() + fragment.payload.len() <= 1000);
            assert_eq!(fragment.ttl(), 63);
            assert_eq!(usize::from(fragment.fragment() & 0x1FFF) * 8, payload.len());
            assert_eq!(fragment.fragment() & 0x2000 != 0, n == 0, "more fragments");
            assert_eq!(fragment.header[4..6], [0x12, 0x34], "one number");
            assert_eq!(fragment.link, ([2, 0, 0, 0, 1, 1], [2, 0, 0, 0, 0, 2]));
            payload.extend(&fragment.payload);
        }
        assert_eq!(payload, whole.payload);
    });
}

#[test]
fn a_packet_too_long_that_forbids_it_is_told_the_mtu() {
    let whole = Ip4 { fragment: DONT_FRAGMENT, ..across(1400) }.bytes();
    route(whole.clone(), |hosts| {
        assert_eq!(told(hosts).error_about(&whole), (3, 4, [0, 0, 0x03, 0xE8]));
    });
    // One that just fits passes.
    let fits = Ip4 { fragment: DONT_FRAGMENT, ..across(1000 - 28) };
    route(fits.bytes(), |hosts| assert_eq!(heard4(&hosts[1].next()).payload, fits.payload));
}

#[test]
fn whoever_takes_a_detour_hears_of_it_and_gets_there() {
    let packet = Ip4 { dst: "10.0.0.77".parse().expect("one"), ..across(20) };
    let rig = route(packet.bytes(), |hosts| {
        let both = [heard4(&hosts[0].next()), heard4(&hosts[0].next())];
        let (errors, passed): (Vec<_>, Vec<_>) = both.iter().partition(|heard| heard.protocol() == 1);
        assert_eq!(errors[0].error_about(&packet.bytes()), (5, 1, [10, 0, 0, 77]));
        assert_eq!((passed[0].ttl(), &passed[0].payload), (63, &packet.payload));
    });
    assert_eq!(rig.passed(), (1, 2));
}

#[test]
fn every_cut_of_a_frame_is_survived() {
    let place = tempfile::tempdir().expect("a directory");
    let (hosts, wires) = Hosts::on(place.path(), 4);
    let mut rig = Rig::new(&conf("router.click"), &["P0", "P1", "P2", "P3"], 1, &wires);
    let options = Ip4 { options: vec![7, 11, 4, 0, 0, 0, 0, 0, 0, 0, 0, 1], ..across(30) }.bytes();
    let frame = ethernet(ROUTER, SENDER, 0x0800, &options);
    rig.run(|_| {
        for len in 14..frame.len() {
            hosts[0].send(&frame[..len]);
        }
        hosts[0].send(&ethernet(ROUTER, SENDER, 0x0800, &across(3).bytes()));
        assert_eq!(heard4(&hosts[1].next()).payload.len(), 11, "it goes on");
    });
    assert!(rig.drops()["CheckIPHeader: bad IP length"] > 10, "{:?}", rig.drops());
    assert!(rig.printed().contains("IP header check failed"));
}
