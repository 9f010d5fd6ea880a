//! The small configurations: a gateway that translates addresses, a load balancer, a
//! firewall, a switch that goes by IP addresses.

use std::net::Ipv4Addr;
use std::path::Path;

use super::dual::{Host, between};
use super::frame::{ICMP, Ip4, echo, heard4, tcp4, udp4};
use super::rig::conf;

const SYN: u8 = 0x02;
const ACK: u8 = 0x10;

fn address(text: &str) -> Ipv4Addr {
    text.parse().expect("an address")
}

/// The host with another address.
fn at<'a>(host: Host<'a>, ip: &str) -> Host<'a> {
    Host { ip: address(ip), ..host }
}

#[test]
fn many_hosts_share_one_address() {
    between(&conf("nat.click"), ["IN", "OUT"], 1, |inside, outside| {
        let (inside, gateway) = (at(inside, "192.168.1.2"), at(outside, "203.0.113.254"));
        let server = ("198.51.100.7", 53);
        inside.send(&udp4(("192.168.1.2", 4000), server, b"question").bytes());
        let asked = gateway.next4();
        assert_eq!((asked.src(), asked.dst(), asked.ttl()), (address("203.0.113.1"), address(server.0), 63));
        let (port, _) = asked.ports();
        assert!(port >= 1024);
        gateway.send(&udp4(server, ("203.0.113.1", port), b"answer").bytes());
        let answer = inside.next4();
        assert_eq!((answer.src(), answer.dst()), (address(server.0), address("192.168.1.2")));
        assert_eq!((answer.ports(), &answer.payload[8..]), ((53, 4000), &b"answer"[..]));

        // Pings go out and come back; so does what is told of them.
        inside.send(&Ip4::new("192.168.1.2", "198.51.100.7", ICMP, &echo(3, b"ping")).bytes());
        let ping = gateway.next4();
        assert_eq!((ping.src(), ping.payload[0]), (address("203.0.113.1"), 8));
        let mut pong = ping.payload.clone();
        (pong[0], pong[2], pong[3]) = (0, 0, 0);
        let sum = wire::checksum::of(&pong);
        pong[2..4].copy_from_slice(&sum.to_be_bytes());
        gateway.send(&Ip4::new("198.51.100.7", "203.0.113.1", ICMP, &pong).bytes());
        let pong = inside.next4();
        assert_eq!((pong.dst(), &pong.payload[4..]), (inside.ip, &echo(3, b"ping")[4..]));

        // A router on the way says that the server is not there.
        let quoted = [&asked.header[..], &asked.payload[..8]].concat();
        let mut error = [&[3, 1, 0, 0, 0, 0, 0, 0][..], &quoted].concat();
        let sum = wire::checksum::of(&error);
        error[2..4].copy_from_slice(&sum.to_be_bytes());
        gateway.send(&Ip4::new("203.0.113.254", "203.0.113.1", ICMP, &error).bytes());
        let told = inside.next4();
        assert_eq!((told.payload[0], &told.payload[8 + 12..8 + 16]), (3, &inside.ip.octets()[..]));
        assert_eq!(told.payload[8 + 20..8 + 22], 4000u16.to_be_bytes(), "about the packet that it sent");

        // What nobody asked for stays out.
        gateway.send(&udp4(server, ("203.0.113.1", 9), b"uninvited").bytes());
        gateway.send(&tcp4(("198.51.100.7", 80), ("203.0.113.1", port), SYN).bytes());
        inside.wire.silent();
        inside.send(&Ip4::new("192.168.1.2", "192.168.1.1", ICMP, &echo(4, b"gateway")).bytes());
        assert_eq!(inside.next4().payload[8..], *b"gateway");
        let old = Ip4 { ttl: 1, ..udp4(("192.168.1.2", 4000), server, b"old") };
        inside.send(&old.bytes());
        assert_eq!(inside.next4().error_about(&old.bytes()), (11, 0, [0; 4]));
    });
}

#[test]
fn connections_are_shared_out_among_servers() {
    between(&conf("balancer.click"), ["IN", "OUT"], 1, |client, servers| {
        let mut seen = vec![];
        for port in 5000..5004 {
            let ends = ("10.0.1.2", port);
            client.send(&tcp4(ends, ("10.0.1.1", 80), SYN).bytes());
            // Each server asks and is asked for its own address.
            let mut frame = servers.wire.next();
            let mut questions = 0;
            while frame[12..14] == [8, 6] {
                questions += 1;
                assert!(questions < 1000, "every question was answered, and more come");
                let asked: [u8; 4] = frame[38..42].try_into().expect("four");
                let mut answer = vec![0, 1, 8, 0, 6, 4, 0, 2];
                answer.extend([servers.mac.to_vec(), asked.to_vec(), frame[22..32].to_vec()].concat());
                servers.wire.send(&super::frame::ethernet(servers.router, servers.mac, 0x0806, &answer));
                frame = servers.wire.next();
            }
            let heard = heard4(&frame);
            assert_eq!((heard.src(), heard.ports()), (client.ip, (port, 80)));
            let server = heard.dst().to_string();
            servers.send(&tcp4((&server, 80), ends, SYN | ACK).bytes());
            let answer = client.next4();
            assert_eq!(
                (answer.src(), answer.ports()),
                (address("10.0.1.1"), (80, port)),
                "from the one address"
            );
            // The connection stays with its server.
            client.send(&tcp4(ends, ("10.0.1.1", 80), ACK).bytes());
            assert_eq!(servers.next4().dst().to_string(), server);
            seen.push(server);
        }
        assert_eq!(seen[..2], seen[2..], "in turn");
        assert!(seen.contains(&"10.0.2.10".into()) && seen.contains(&"10.0.2.11".into()), "{seen:?}");
        client.send(&tcp4(("10.0.1.2", 5000), ("10.0.1.1", 22), SYN).bytes());
        servers.send(&tcp4(("10.0.2.10", 80), ("10.0.1.2", 999), ACK).bytes());
        client.wire.silent();
        servers.wire.silent();
    });
}

#[test]
fn only_what_was_begun_inside_comes_in() {
    between(&conf("firewall.click"), ["IN", "OUT"], 1, |inside, outside| {
        // A cable: frames are each other's, not the firewall's.
        let inside = Host { router: outside.mac, ..inside };
        let outside = Host { router: inside.mac, ip: address("10.0.1.3"), ..outside };
        let (here, there) = (("10.0.1.2", 4000), ("10.0.1.3", 53));
        inside.send(&udp4(here, there, b"question").bytes());
        assert_eq!(outside.next4().payload[8..], *b"question");
        outside.send(&udp4(there, here, b"answer").bytes());
        assert_eq!(inside.next4().payload[8..], *b"answer");
        outside.send(&udp4(("10.0.1.3", 53), ("10.0.1.2", 4001), b"uninvited").bytes());
        outside.send(&tcp4(("10.0.1.3", 4000), ("10.0.1.2", 22), SYN).bytes());
        outside.send(&Ip4::new("10.0.1.3", "10.0.1.2", ICMP, &echo(1, b"knock")).bytes());
        inside.wire.silent();
        // Rules hold inside as well.
        inside.send(&tcp4(("10.0.1.2", 4000), ("10.0.1.3", 25), SYN).bytes());
        outside.wire.silent();
        inside.send(&Ip4::new("10.0.1.2", "10.0.1.3", ICMP, &echo(1, b"ping")).bytes());
        assert_eq!(outside.next4().payload[8..], *b"ping");
        // The web server's clients come in, to its port only, and are answered.
        let (client, web) = (("10.0.1.3", 6000), ("10.0.1.80", 80));
        outside.send(&tcp4(client, web, SYN).bytes());
        assert_eq!(inside.next4().ports(), (6000, 80));
        inside.send(&tcp4(web, client, SYN | ACK).bytes());
        assert_eq!(outside.next4().ports(), (80, 6000));
        outside.send(&tcp4(client, ("10.0.1.80", 22), SYN).bytes());
        inside.wire.silent();
    });
}

#[test]
fn a_network_on_two_cables_is_one() {
    between(&conf("proxy-arp.click"), ["P0", "P1"], 1, |a, b| {
        let (a, b) = (at(a, "10.0.0.2"), at(b, "10.0.0.130"));
        let ask = |target: &str| {
            let mut request = vec![0, 1, 8, 0, 6, 4, 0, 1];
            request.extend([&a.mac[..], &a.ip.octets(), &[0; 6], &address(target).octets()].concat());
            a.wire.send(&super::frame::ethernet(super::frame::BROADCAST, a.mac, 0x0806, &request));
        };
        ask("10.0.0.130");
        assert_eq!(a.wire.next()[22..32], [&a.router[..], &[10, 0, 0, 130]].concat());
        ask("10.0.0.3"); // on this side: it answers itself
        a.wire.silent();
        a.send(&udp4(("10.0.0.2", 1), ("10.0.0.130", 2), b"hello").bytes());
        let heard = b.next4();
        assert_eq!((heard.ttl(), &heard.payload[8..]), (64, &b"hello"[..]), "no hop: it is one network");
        b.send(&udp4(("10.0.0.130", 2), ("10.0.0.2", 1), b"hello back").bytes());
        assert_eq!(a.next4().payload[8..], *b"hello back");
        a.send(&Ip4::new("10.0.0.2", "10.0.0.126", ICMP, &echo(1, b"switch")).bytes());
        assert_eq!(a.next4().payload[8..], *b"switch");
    });
}

#[test]
fn every_configuration_passes_the_check() {
    let place = tempfile::tempdir().expect("a directory");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conf");
    let mut names = crate::common::names(&folder);
    names.retain(|name| name.ends_with(".click"));
    assert!(names.len() >= 7, "{names:?}");
    for name in names {
        // Some name interfaces of their authors', the others demand names; nobody opens one.
        let ports = ["A", "B", "INNER", "UP", "P0", "P1", "P2", "P3", "IN", "OUT"];
        let ports = ports.map(|name| format!("{name}=tap:{name}")).join(" ");
        let check = format!("click --check {} {ports}", folder.join(&name).display());
        let done = crate::common::run(place.path(), &check);
        assert_eq!((done.code(), done.stderr.as_str()), (Some(0), ""), "{name}: {done:#?}");
    }
}
