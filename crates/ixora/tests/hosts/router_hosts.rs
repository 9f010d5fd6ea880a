//! `conf/dual.click` between real hosts: Linux's own stack in two network namespaces,
//! and the router in a third. Ping, traceroute, TCP and path MTU discovery, by both
//! versions of IP.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::common::host::{Host, accept, connect, ip};
use crate::common::{Done, may_make_interfaces, start_command, until};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketType, ipproto, recvfrom, sendto, socket, sockopt,
};
use rustix::process::Signal;

/// Bytes that go through the router by each version of IP.
const BULK: usize = 50_000_000;

/// Two hosts and a router between them, whose ports are `v0` and `v1`.
struct Lab {
    a: Host,
    b: Host,
    middle: Host,
}

impl Lab {
    /// `cut`: that host sends no segments larger than a frame, as a NIC without offloads.
    fn new(cut: [bool; 2]) -> Lab {
        let (a, b, middle) = (Host::new(), Host::new(), Host::new());
        for (n, host) in [&a, &b].into_iter().enumerate() {
            let (id, net, segments) = (host.id, n + 1, if cut[n] { 1 } else { 64 });
            middle.run(move || {
                let queues = "numrxqueues 2 numtxqueues 2";
                ip(&format!("link add v{n} {queues} type veth peer name host {queues} netns {id}"));
                ip(&format!("link set v{n} addrgenmode none"));
                ip(&format!("link set v{n} up"));
            });
            host.run(move || {
                ip("link set lo up");
                ip("link set host addrgenmode none");
                ip(&format!("link set host up gso_max_segs {segments}"));
                ip(&format!("addr add 10.0.{net}.2/24 dev host"));
                ip(&format!("addr add 2001:db8:{net}::2/64 dev host nodad"));
                ip(&format!("addr add fe80::{net}:2/64 dev host nodad"));
                ip(&format!("route add default via 10.0.{net}.1"));
                ip("route add default via fe80::1 dev host");
            });
        }
        Lab { a, b, middle }
    }

    /// Runs the router with these ports while `work` goes on; what it left.
    fn route(&self, ports: [&str; 2], options: &str, work: impl FnOnce(&Lab)) -> Done {
        let place = tempfile::tempdir().expect("a directory");
        let conf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conf/dual.click");
        let mut command = Command::new(crate::common::IXORA);
        command.arg("click").arg(conf).args([format!("P0={}", ports[0]), format!("P1={}", ports[1])]);
        command.args(options.split(' ')).args([
            "-h",
            "p0/c.program",
            "-h",
            "p1/frag.drops",
            "-h",
            "p1/long.drops",
        ]);
        let path = place.path().to_owned();
        let router = self.middle.run(move || start_command(&mut command, &path));
        self.a.run(|| until("answer to a ping", || probe("10.0.2.2", 64, 64).is_some()));
        work(self);
        router.signal(Signal::TERM);
        let done = router.wait(10);
        assert_eq!(done.code(), Some(0), "{done:#?}");
        done
    }
}

/// What came back for a probe: from whom, type and code.
pub type Answer = (IpAddr, u8, u8);

const ANSWERED: (u8, u8) = (0, 0);
const ANSWERED6: (u8, u8) = (129, 0);
const TIME_EXCEEDED: (u8, u8) = (11, 0);
const TIME_EXCEEDED6: (u8, u8) = (3, 0);
const NO_NETWORK: (u8, u8) = (3, 0);
const NO_ROUTE6: (u8, u8) = (1, 0);

/// A ping with so many hops to live and bytes of data; what came back within a second.
pub fn probe(to: &str, hops: u8, data: usize) -> Option<Answer> {
    static NUMBER: std::sync::atomic::AtomicU16 = std::sync::atomic::AtomicU16::new(1);
    let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed).to_be_bytes();
    let to: SocketAddr =
        format!("[{to}]:0").parse().or_else(|_| format!("{to}:0").parse()).expect("an address");
    let is_6 = to.is_ipv6();
    let (family, protocol) =
        if is_6 { (AddressFamily::INET6, ipproto::ICMPV6) } else { (AddressFamily::INET, ipproto::ICMP) };
    let socket = socket(family, SocketType::RAW, Some(protocol)).expect("root may");
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(Duration::from_secs(1)))
        .expect("a limit");
    match is_6 {
        true => sockopt::set_ipv6_unicast_hops(&socket, Some(hops)).expect("hops"),
        false => sockopt::set_ip_ttl(&socket, hops.into()).expect("hops"),
    }
    let mut message = vec![if is_6 { 128 } else { 8 }, 0, 0, 0, 0x49, 0x58, number[0], number[1]];
    message.extend((0..data).map(|n| n as u8));
    if !is_6 {
        let checksum = wire::checksum::of(&message);
        message[2..4].copy_from_slice(&checksum.to_be_bytes());
    }
    sendto(&socket, &message, SendFlags::empty(), &to).ok()?;
    let end = Instant::now() + Duration::from_secs(1);
    let mut buffer = vec![0; 1 << 16];
    while Instant::now() < end {
        let (len, _, from) = recvfrom(&socket, &mut buffer[..], RecvFlags::empty()).ok()?;
        let from = SocketAddr::try_from(from?).ok()?.ip();
        // A raw socket of version 4 gives the IP header as well.
        let icmp = if is_6 { &buffer[..len] } else { &buffer[20..len] };
        let about = match icmp[0] {
            0 | 129 => icmp[4..8] == [0x49, 0x58, number[0], number[1]] && icmp[8..] == message[8..],
            _ => icmp.windows(4).any(|four| four == [0x49, 0x58, number[0], number[1]]) && icmp.len() > 36,
        };
        if about && ![8, 128, 135, 136].contains(&icmp[0]) {
            return Some((from, icmp[0], icmp[1]));
        }
    }
    None
}

/// What a probe from a host brings.
fn asked(host: &Host, to: &'static str, hops: u8, data: usize) -> Option<Answer> {
    host.run(move || probe(to, hops, data))
}

fn answer(from: &str, (kind, code): (u8, u8)) -> Option<Answer> {
    Some((from.parse().expect("an address"), kind, code))
}

/// Byte `at` of what is sent.
fn pattern(at: usize) -> Vec<u8> {
    (0..1 << 16).map(|n| ((n + at) * 7 + (at >> 16) * 131 + n / 251) as u8).collect()
}

/// Sends [`BULK`] bytes to a host by TCP, which looks at each of them.
fn bulk(lab: &Lab, to: &'static str) {
    let listener = lab.b.run(move || TcpListener::bind((to, 7)).expect("a port"));
    let taken = lab.b.begin(move || {
        let mut stream = accept(&listener);
        let (mut block, mut all) = (vec![0; 1 << 16], 0);
        while all < BULK {
            stream.read_exact(&mut block).expect("bytes");
            assert!(block == pattern(all), "others at {all}");
            all += block.len();
        }
        stream.write_all(b"all").expect("taken");
        all
    });
    let started = Instant::now();
    let said = lab.a.run(move || {
        let to: IpAddr = to.parse().expect("an address");
        let mut stream = connect((to, 7));
        let mut sent = 0;
        while sent < BULK {
            let block = pattern(sent);
            stream.write_all(&block).expect("taken");
            sent += block.len();
        }
        let mut said = [0; 3];
        stream.read_exact(&mut said).expect("an answer");
        said
    });
    assert_eq!((&said, taken.recv()), (b"all", Ok(BULK.next_multiple_of(1 << 16))));
    println!("{to}: {:.0} MB/s", BULK as f64 / started.elapsed().as_secs_f64() / 1e6);
}

/// What a host's stack says of a UDP packet that nobody takes.
fn refused(host: &Host, from: &'static str, to: &'static str) -> ErrorKind {
    host.run(move || {
        let socket = UdpSocket::bind((from, 0)).expect("a port");
        socket.set_read_timeout(Some(Duration::from_secs(2))).expect("a limit");
        socket.connect((to, 9)).expect("an address");
        socket.send(b"hello?").expect("sent");
        socket.recv(&mut [0; 10]).expect_err("nobody answers").kind()
    })
}

/// What `ip` prints in a host's namespace.
fn says(host: &Host, arguments: &'static str) -> String {
    host.run(move || {
        let out = Command::new("ip").args(arguments.split(' ')).output().expect("iproute2");
        String::from_utf8_lossy(&out.stdout).into_owned()
    })
}

/// The router is found, answers, and shows on the way to the other host.
fn is_a_hop(lab: &Lab) {
    for (near, far) in [("10.0.1.1", "10.0.2.1"), ("2001:db8:1::1", "2001:db8:2::1")] {
        let (answered, exceeded) =
            if near.contains(':') { (ANSWERED6, TIME_EXCEEDED6) } else { (ANSWERED, TIME_EXCEEDED) };
        let host = if near.contains(':') { "2001:db8:2::2" } else { "10.0.2.2" };
        assert_eq!(asked(&lab.a, near, 64, 56), answer(near, answered));
        assert_eq!(asked(&lab.a, far, 1, 56), answer(far, answered), "one hop, for it is the router's");
        assert_eq!(asked(&lab.a, host, 1, 56), answer(near, exceeded), "the first hop of traceroute");
        assert_eq!(asked(&lab.a, host, 2, 56), answer(host, answered), "the second");
        assert_eq!(asked(&lab.a, host, 64, 1300), answer(host, answered));
    }
    let neighbours = says(&lab.a, "neigh show dev host");
    for address in ["10.0.1.1", "fe80::1"] {
        let line = neighbours.lines().find(|line| line.starts_with(&format!("{address} ")));
        assert!(line.is_some_and(|line| line.contains("02:00:00:00:00:01")), "{address}: {neighbours}");
    }
}

/// Nobody listens, or there is no way: what the hosts' own stacks make of it.
fn tells_what_is_wrong(lab: &Lab) {
    for (from, router, host) in
        [("10.0.1.2", "10.0.1.1", "10.0.2.2"), ("2001:db8:1::2", "2001:db8:1::1", "2001:db8:2::2")]
    {
        assert_eq!(refused(&lab.a, from, router), ErrorKind::ConnectionRefused);
        assert_eq!(refused(&lab.a, from, host), ErrorKind::ConnectionRefused, "the host's own error");
    }
    assert_eq!(asked(&lab.a, "192.0.2.9", 64, 56), answer("10.0.1.1", NO_NETWORK));
    assert_eq!(asked(&lab.a, "2001:db8:9::9", 64, 56), answer("2001:db8:1::1", NO_ROUTE6));
}

/// Pings longer than any frame: fragments, to the router and through it.
fn takes_fragments(lab: &Lab) {
    assert_eq!(asked(&lab.a, "10.0.2.2", 64, 4000), answer("10.0.2.2", ANSWERED));
    assert_eq!(asked(&lab.a, "10.0.1.1", 64, 4000), answer("10.0.1.1", ANSWERED));
    assert_eq!(asked(&lab.a, "2001:db8:2::2", 64, 4000), answer("2001:db8:2::2", ANSWERED6));
}

/// Whether the hosts' NICs send segments larger than a frame across to this port: native
/// XDP has the kernel cut them.
fn must_cut(port: &str) -> bool {
    port.starts_with("af_packet") || port.contains("generic")
}

fn between_hosts(ports: [&'static str; 2], threads: &str) {
    if !may_make_interfaces() {
        return;
    }
    let lab = Lab::new(ports.map(must_cut));
    lab.route(ports, threads, |lab| {
        is_a_hop(lab);
        tells_what_is_wrong(lab);
        takes_fragments(lab);
        bulk(lab, "10.0.2.2");
        bulk(lab, "2001:db8:2::2");
    });
}

#[test]
fn hosts_use_the_router_on_packet_sockets() {
    between_hosts(["af_packet:v0", "af_packet:v1"], "-j 1");
}

#[test]
fn hosts_use_the_router_on_xdp_sockets_and_two_threads() {
    between_hosts(["af_xdp:v0", "af_xdp:v1"], "-j 2");
}

/// The second link is narrower than the first: hosts find out how long packets may be.
#[test]
fn hosts_find_the_path_mtu() {
    if !may_make_interfaces() {
        return;
    }
    let lab = Lab::new([true, false]);
    let done = lab.route(["af_packet:v0", "af_xdp:v1"], "MTU1=1300", |lab| {
        bulk(lab, "10.0.2.2");
        bulk(lab, "2001:db8:2::2");
        for route in ["route get 10.0.2.2", "route get 2001:db8:2::2"] {
            let route = says(&lab.a, route);
            assert!(route.contains("mtu 1300"), "{route}");
        }
        takes_fragments(lab);
        // What may be sent in fragments arrives whole.
        lab.a.run(|| ip("route flush cache"));
        let (to, taken) = (lab.b.run(|| UdpSocket::bind("10.0.2.2:9").expect("a port")), vec![5; 1400]);
        let sent = taken.clone();
        lab.a.run(move || {
            let socket = UdpSocket::bind("10.0.1.2:0").expect("a port");
            sockopt::set_ip_mtu_discover(&socket, sockopt::Ipv4PathMtuDiscovery::DONT).expect("a choice");
            socket.send_to(&sent, "10.0.2.2:9").expect("sent");
        });
        lab.b.run(move || {
            to.set_read_timeout(Some(Duration::from_secs(2))).expect("a limit");
            let mut data = [0; 2000];
            let (len, _) = to.recv_from(&mut data).expect("a datagram");
            assert_eq!(data[..len], taken[..]);
        });
    });
    let dropped = |name: &str| {
        let after = done.stdout.split_once(&format!("{name}:\n")).expect("printed").1;
        after.lines().next().and_then(|line| line.parse::<u64>().ok()).expect("a number")
    };
    assert!(dropped("p1/frag.drops") > 0 && dropped("p1/long.drops") > 0, "senders were told: {done:#?}");
}

/// An interface that is not the router's is none of its affair; a broken configuration
/// is told before anything runs.
#[test]
fn a_wrong_address_is_told() {
    let conf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conf/dual.click");
    let done = crate::common::run(
        conf.parent().expect("a folder"),
        &format!("click {} P0=model:82599 P1=model:82599 NET0=10.0.1.999/24 -q", conf.display()),
    );
    assert_eq!(done.code(), Some(1), "{done:#?}");
    assert!(done.stderr.contains("10.0.1.999/24"), "{done:#?}");
}

/// The blocks of commands in `docs/router.md`.
fn pasted() -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/router.md");
    let text = std::fs::read_to_string(path).expect("the guide");
    let blocks = text.split("```sh\n").skip(1);
    blocks.map(|rest| rest.split("```").next().expect("its end").to_owned()).collect()
}

/// What the guide has its reader paste works, where the tools it names are installed;
/// namespaces are made in a mount namespace of the test's own.
#[test]
fn the_guide_can_be_pasted() {
    if !may_make_interfaces() {
        return;
    }
    let place = tempfile::tempdir().expect("a directory");
    let mut script =
        String::from("fail() { echo \"failed: $*\"; exit 1; }\nmount -t tmpfs none /run || fail no tmpfs\n");
    for (n, block) in pasted().iter().enumerate() {
        let block = block.replace("/tmp/router.sock", &place.path().join("sock").display().to_string());
        let is_tried = ["ping", "traceroute", "nc -U"].iter().any(|tool| block.contains(tool));
        let one = |line: &str| {
            let tool = ["traceroute", "ping", "nc"].iter().find(|tool| line.contains(&format!("{tool} -")));
            // Where something is to go wrong, the line says what.
            let (command, wanted) = line.split_once('#').map_or((line, None), |(c, w)| (c, Some(w.trim())));
            let check = match wanted {
                Some(wanted) => format!("{command} | grep -i '{wanted}' || fail '{command}'"),
                None => format!("{command} || fail '{}'", command.replace('\'', "")),
            };
            match tool {
                Some(tool) => format!("if command -v {tool} > /dev/null; then {check}; fi\n"),
                None => format!("{check}\n"),
            }
        };
        match is_tried {
            true => script.extend(block.lines().map(one)),
            false => script.push_str(&block),
        }
        if n == 1 {
            // It runs when a host hears from the other that nobody listens.
            script.push_str("for try in $(seq 100); do ip netns exec h1 timeout 1 bash -c 'exec 3<>/dev/tcp/10.0.2.2/9' 2>&1 | grep -q refused && break; sleep 0.1; done\n");
            script.push_str("ip netns exec h1 timeout 2 bash -c 'exec 3<>/dev/tcp/2001:db8:2::2/9' 2>&1 | grep refused || fail IPv6\n");
        }
    }
    script.push_str("wait; echo all done\n");
    let ixora = Path::new(crate::common::IXORA).parent().expect("a directory");
    let path = format!("{}:{}", ixora.display(), std::env::var("PATH").unwrap_or_default());
    let mut command = Command::new("unshare");
    command.args(["-mn", "bash", "-c", &script]).env("PATH", path);
    command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."));
    let done = start_command(&mut command, place.path()).wait(40);
    assert!(done.stdout.ends_with("all done\n"), "{}\n{}", done.stdout, done.stderr);
    println!("{}{}", done.stdout, done.stderr);
}
