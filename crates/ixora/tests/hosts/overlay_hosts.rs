//! `ixora overlay run` between real hosts: Linux's own vxlan device at the far end of a
//! tunnel, and two instances with a VLAN and IPv6 between them.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::host::{Host, accept, connect, ip};
use crate::common::{Done, IXORA, Running, may_make_interfaces, start_command, until};
use crate::router_hosts::probe;
use rustix::process::Signal;

/// Joins `name` of one host to `peer` of another.
pub fn cable(host: &Host, name: &'static str, other: &Host, peer: &'static str) {
    let id = other.id;
    host.run(move || {
        ip(&format!("link add {name} type veth peer name {peer} netns {id}"));
        ip(&format!("link set {name} addrgenmode none mtu 1700"));
        ip(&format!("link set {name} up"));
    });
    other.run(move || {
        ip(&format!("link set {peer} addrgenmode none mtu 1700"));
        ip(&format!("link set {peer} up"));
    });
}

/// A host behind a tunnel endpoint.
pub fn address(host: &Host, interface: &'static str, address: &'static str) {
    host.run(move || {
        ip(&format!("link set {interface} mtu 1400"));
        ip(&format!("addr add {address} dev {interface}"));
    });
}

/// Runs an endpoint in a namespace; what it complains of goes to a file beside its own.
pub fn run(host: &Host, place: &Path, file: &Path) -> Running {
    let (place, file) = (place.to_owned(), file.to_owned());
    host.run(move || {
        let mut command = Command::new("sh");
        command.args(["-c", "exec \"$0\" overlay run --json --interrupts \"$1\" 2> \"$2\"", IXORA]);
        command.arg(&file).arg(complaints(&file));
        start_command(&mut command, &place)
    })
}

fn complaints(file: &Path) -> PathBuf {
    file.with_extension("err")
}

/// Waits until an endpoint has said something.
pub fn until_said(file: &Path, words: &str) {
    until(words, || std::fs::read_to_string(complaints(file)).is_ok_and(|said| said.contains(words)));
}

pub fn end(endpoint: Running) -> Done {
    endpoint.signal(Signal::TERM);
    let done = endpoint.wait(10);
    assert_eq!(done.code(), Some(0), "{done:#?}");
    assert_eq!(done.json()["overlay"]["balanced"], true, "{done:#?}");
    done
}

pub fn answers(host: &Host, to: &'static str, data: usize) -> bool {
    host.run(move || probe(to, 64, data).is_some())
}

#[test]
fn linux_is_at_the_far_end_of_a_tunnel() {
    if !may_make_interfaces() {
        return;
    }
    let place = tempfile::tempdir().expect("a directory");
    let (inside, middle, far) = (Host::new(), Host::new(), Host::new());
    cable(&middle, "ul0", &far, "wire");
    cable(&middle, "in0", &inside, "host");
    address(&inside, "host", "10.1.0.1/24");
    far.run(|| {
        ip("addr add 192.0.2.2/24 dev wire");
        ip("link add vx type vxlan id 100 remote 192.0.2.1 local 192.0.2.2 dstport 4789");
        ip("link set vx address 02:00:00:00:0b:01 mtu 1400");
        ip("addr add 10.1.0.2/24 dev vx");
        ip("link set vx up");
    });
    let file = place.path().join("overlay.toml");
    let text = |remote: &str, unknown: &str| {
        format!(
            "[[underlay]]\nname = \"up\"\nport = \"af_packet:ul0\"\naddresses = [\"192.0.2.1/24\"]\nmtu = 1600\n\
             [[network]]\nnumber = 100\nprotocol = \"vxlan\"\ninner = \"af_packet:in0\"\n{unknown}\n\
             [[network.entry]]\nkey = \"02:00:00:00:0b:01\"\nremote = \"{remote}\"\n"
        )
    };
    // Whom ARP goes to is not known yet.
    std::fs::write(&file, text("192.0.2.2", "unknown = \"drop\"")).expect("a file");
    let endpoint = run(&middle, place.path(), &file);
    assert!(!answers(&inside, "10.1.0.2", 56));
    // A file with a mistake changes nothing; another one is taken while packets go on.
    std::fs::write(&file, text("192.0.2.2", "flod = []")).expect("a file");
    endpoint.signal(Signal::HUP);
    until_said(&file, "a network has no `flod`");
    assert!(!answers(&inside, "10.1.0.2", 56));
    std::fs::write(&file, text("192.0.2.2", "flood = [\"192.0.2.2\"]")).expect("a file");
    endpoint.signal(Signal::HUP);
    until("answer through the tunnel", || answers(&inside, "10.1.0.2", 56));
    for data in [0, 1, 1000, 1372] {
        assert!(answers(&inside, "10.1.0.2", data), "{data}");
        assert!(answers(&far, "10.1.0.1", data), "{data}");
    }
    // Linux asks who the endpoint is, and pings it.
    assert!(answers(&far, "192.0.2.1", 56));
    let done = end(endpoint);
    until_said(&file, "is read again: 2 new or different, 0 removed");
    let overlay = &done.json()["overlay"];
    assert!(overlay["drops"]["overlay_unknown_key"].as_u64() > Some(0), "{overlay:#}");
    assert!(overlay["networks"][0]["forwarded"].as_u64() > Some(8), "{overlay:#}");
    assert_eq!(overlay["requests"], 1, "the far end is asked for once: {overlay:#}");
}

#[test]
fn two_endpoints_join_hosts_over_ipv6_in_a_vlan() {
    if !may_make_interfaces() {
        return;
    }
    let place = tempfile::tempdir().expect("a directory");
    let (a, b, left, right) = (Host::new(), Host::new(), Host::new(), Host::new());
    cable(&left, "ul0", &right, "ul0");
    cable(&left, "in0", &a, "host");
    cable(&right, "in0", &b, "host");
    address(&a, "host", "10.1.0.1/24");
    address(&b, "host", "10.1.0.2/24");
    let mut endpoints = Vec::new();
    for (host, name, here, there) in [(&left, "left", 1, 2), (&right, "right", 2, 1)] {
        let file = place.path().join(format!("{name}.toml"));
        let text = format!(
            "[[underlay]]\nname = \"up\"\nport = \"af_packet:ul0\"\naddresses = [\"2001:db8::{here}/64\"]\n\
             mtu = 1600\nvlan = 30\n[[network]]\nnumber = 100\nprotocol = \"geneve\"\n\
             inner = \"af_packet:in0\"\nflood = [\"2001:db8::{there}\"]\n"
        );
        std::fs::write(&file, text).expect("a file");
        endpoints.push(run(host, place.path(), &file));
    }
    until("answer through the tunnel", || answers(&a, "10.1.0.2", 56));
    for data in [0, 1, 1000, 1372] {
        assert!(answers(&b, "10.1.0.1", data), "{data}");
    }
    for endpoint in endpoints {
        let done = end(endpoint);
        let overlay = &done.json()["overlay"];
        assert!(
            overlay["underlay"][0]["answered"].as_u64() > Some(0),
            "a neighbour was answered: {overlay:#}"
        );
        assert_eq!(overlay["drops"].get("overlay_outer_checksum"), None, "{overlay:#}");
    }
}

/// Bytes of a stream, and of a part of it that is compared at once.
const STREAM: usize = 50 << 20;
const PART: usize = 1 << 16;

/// A part of a stream: other bytes in each.
fn part(number: usize) -> Vec<u8> {
    (0..PART).map(|n| (n * 31 + n / 251 + number * 7) as u8).collect()
}

/// A stream from one host to another at this address, of which every byte is compared.
pub fn stream(from: &Host, to: &Host, address: &'static str) {
    let listener = to.run(move || TcpListener::bind((address, 0)).expect("an address of this host's"));
    let port = listener.local_addr().expect("a socket").port();
    let arrived = to.begin(move || {
        let (mut stream, mut bytes) = (accept(&listener), vec![0; PART]);
        for number in 0..STREAM / PART {
            stream.read_exact(&mut bytes).expect("all of the stream");
            assert!(bytes == part(number), "other bytes than were sent, in part {number}");
        }
        stream.write_all(b"all").expect("a connection");
    });
    from.run(move || {
        let address: std::net::IpAddr = address.parse().expect("an address");
        let mut stream = connect((address, port));
        (0..STREAM / PART).for_each(|number| stream.write_all(&part(number)).expect("a connection"));
        stream.read_exact(&mut [0; 3]).expect("an answer");
    });
    arrived.recv().expect("it did not panic");
}

/// Segments that are longer than frames come by a TAP interface and reach Linux's device in pieces:
/// with the tunnel's headers from the start (over IPv4), and each with its own, whose checksum is
/// over all of the piece (over IPv6: RFC 6935). Where the underlay's packets are shorter than the
/// interface's, the kernel is told and makes shorter pieces (RFC 1191).
#[test]
fn long_segments_of_a_tap_interface_are_cut() {
    if !may_make_interfaces() {
        return;
    }
    let (v4, v6) = (("192.0.2.1", "192.0.2.2"), ("2001:db8::1", "2001:db8::2"));
    for ((local, remote), mtu) in [(v4, 1500), (v6, 1500), (v4, 1400)] {
        let place = tempfile::tempdir().expect("a directory");
        let (inside, far) = (Host::new(), Host::new());
        let file = place.path().join("overlay.toml");
        let is_v6 = local.contains(':');
        let length = if is_v6 { 64 } else { 24 };
        let text = format!(
            "[[underlay]]\nname = \"up\"\nport = \"tap:ul0\"\naddresses = [\"{local}/{length}\"]\n\
             mtu = {mtu}\n[[network]]\nnumber = 100\nprotocol = \"vxlan\"\ninner = \"tap:in0,gso\"\n\
             flood = [\"{remote}\"]\n\
             [[network.entry]]\nkey = \"02:00:00:00:0b:01\"\nremote = \"{remote}\"\n"
        );
        std::fs::write(&file, text).expect("a file");
        let endpoint = run(&inside, place.path(), &file);
        inside.run(|| {
            let is_there = |name: &str| {
                Command::new("ip").args(["link", "show", name]).output().is_ok_and(|it| it.status.success())
            };
            until("interfaces", || is_there("in0") && is_there("ul0"));
        });
        cable(&inside, "wire", &far, "wire");
        address(&inside, "in0", "10.1.0.1/24");
        inside.run(|| {
            // A TAP interface without offloads lets the kernel cut what comes the other way.
            ip("link add br0 type bridge");
            ip("link set ul0 master br0");
            ip("link set wire master br0");
            ["br0", "ul0"].iter().for_each(|name| ip(&format!("link set {name} addrgenmode none up")));
        });
        far.run(move || {
            let nodad = if is_v6 { " nodad" } else { "" };
            ip(&format!("addr add {remote}/{length} dev wire{nodad}"));
            ip(&format!("link add vx type vxlan id 100 remote {local} local {remote} dstport 4789"));
            ip("link set vx address 02:00:00:00:0b:01 mtu 1400 addrgenmode none");
            ip("addr add 10.1.0.2/24 dev vx");
            ip("link set vx up");
        });
        until("answer through the tunnel", || answers(&inside, "10.1.0.2", 56));
        stream(&inside, &far, "10.1.0.2");
        stream(&far, &inside, "10.1.0.1");
        let done = end(endpoint);
        let overlay = &done.json()["overlay"];
        let network = &overlay["networks"][0];
        let count = |what: &str| network[what].as_u64().expect("a number");
        // A frame has 1,348 bytes of a stream; all but the first of a segment are counted as copies.
        let frames = (STREAM / 1348) as u64;
        assert!(count("forwarded") > frames && count("copies") > frames / 2, "{overlay:#}");
        for reason in ["overlay_not_cut", "overlay_offload", "overlay_outer_checksum"] {
            assert_eq!(overlay["drops"].get(reason), None, "{overlay:#}");
        }
        let is_told = overlay["drops"]["overlay_too_long"].as_u64() > Some(0) && count("answered") > 0;
        assert_eq!(is_told, mtu < 1450, "{overlay:#}");
    }
}

/// Each port of the underlay has the link of its own interface, behind those of networks.
#[test]
fn the_port_whose_link_is_lost_is_down_and_no_other() {
    if !may_make_interfaces() {
        return;
    }
    let place = tempfile::tempdir().expect("a directory");
    let (inside, middle, far) = (Host::new(), Host::new(), Host::new());
    cable(&middle, "ul0", &far, "wire0");
    cable(&middle, "ul1", &far, "wire1");
    cable(&middle, "in0", &inside, "host");
    let (file, socket) = (place.path().join("overlay.toml"), place.path().join("control"));
    let text = "[[underlay]]\nname = \"first\"\nport = \"af_packet:ul0\"\naddresses = [\"192.0.2.1/24\"]\n\
                [[underlay]]\nname = \"second\"\nport = \"af_packet:ul1\"\naddresses = [\"198.51.100.1/24\"]\n\
                [[network]]\nnumber = 100\nprotocol = \"vxlan\"\ninner = \"af_packet:in0\"\n";
    std::fs::write(&file, text).expect("a file");
    let mut command = Command::new(IXORA);
    command.args(["overlay", "run", "--json", "--control"]).arg(&socket).arg(&file);
    let here = place.path().to_owned();
    let endpoint = middle.run(move || start_command(&mut command, &here));
    let up = || {
        let show = format!("overlay show {} --metrics", socket.display());
        let done = crate::common::run(place.path(), &show);
        ["first", "second"]
            .map(|name| done.stdout.contains(&format!("ixora_overlay_port_up{{underlay=\"{name}\"}} 1\n")))
    };
    until("both links", || up() == [true, true]);
    for (wire, are_up) in [("wire1", [true, false]), ("wire0", [false, true])] {
        far.run(move || ip(&format!("link set {wire} down")));
        until("loss of a link", || up() == are_up);
        far.run(move || ip(&format!("link set {wire} up")));
        until("both links again", || up() == [true, true]);
    }
    end(endpoint);
}
