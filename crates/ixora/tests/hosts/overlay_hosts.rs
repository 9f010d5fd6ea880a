//! `ixora overlay run` between real hosts: Linux's own vxlan device at the far end of a
//! tunnel, and two instances with a VLAN and IPv6 between them.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::host::{Host, ip};
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
fn until_said(file: &Path, words: &str) {
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
