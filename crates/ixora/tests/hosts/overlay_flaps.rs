//! `ixora overlay run` while the interface of its own underlay is taken down and up again.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::common::host::{Host, ip};
use crate::common::{may_make_interfaces, until};
use crate::overlay_hosts::{address, answers, cable, end, run, until_said};

/// Takes an interface down and up so many times, as fast as the kernel does it: hundreds of times
/// a second on a machine that does nothing else.
fn flap(host: &Host, interface: &'static str, times: usize) {
    let done = host.run(move || {
        let mut ip = Command::new("ip");
        let mut ip = ip.args(["-batch", "-"]).stdin(Stdio::piped()).spawn().expect("iproute2");
        let lines = format!("link set {interface} down\nlink set {interface} up\n").repeat(times);
        ip.stdin.take().expect("a pipe").write_all(lines.as_bytes()).expect("it reads");
        ip.wait().expect("a child of ours")
    });
    assert!(done.success(), "{times} flaps");
}

/// What goes while it is down is lost by name, that it is down is said, and all goes on when it is
/// back, however often that was.
#[test]
fn an_underlays_interface_that_flaps_ends_nothing() {
    if !may_make_interfaces() {
        return;
    }
    for port in ["af_packet:ul0", "af_xdp:ul0"] {
        let place = tempfile::tempdir().expect("a directory");
        let (inside, middle, far) = (Host::new(), Host::new(), Host::new());
        cable(&middle, "ul0", &far, "wire");
        cable(&middle, "in0", &inside, "host");
        address(&inside, "host", "10.1.0.1/24");
        inside.run(|| ip("neigh add 10.1.0.2 lladdr 02:00:00:00:0b:01 dev host nud permanent"));
        far.run(|| {
            ip("addr add 192.0.2.2/24 dev wire");
            ip("link add vx type vxlan id 100 remote 192.0.2.1 local 192.0.2.2 dstport 4789");
            ip("link set vx address 02:00:00:00:0b:01 mtu 1400");
            ip("addr add 10.1.0.2/24 dev vx");
            ip("link set vx up");
        });
        let file = place.path().join("overlay.toml");
        let text = format!(
            "[[underlay]]\nname = \"up\"\nport = \"{port}\"\naddresses = [\"192.0.2.1/24\"]\nmtu = 1600\n\
             [[network]]\nnumber = 100\nprotocol = \"vxlan\"\ninner = \"af_packet:in0\"\n\
             [[network.entry]]\nkey = \"02:00:00:00:0b:01\"\nremote = \"192.0.2.2\"\n"
        );
        std::fs::write(&file, text).expect("a file");
        let endpoint = run(&middle, place.path(), &file);
        until("answer through the tunnel", || answers(&inside, "10.1.0.2", 56));
        for _ in 0..10 {
            flap(&middle, "ul0", 10);
            until("answer between the flaps", || answers(&inside, "10.1.0.2", 56));
        }
        middle.run(|| ip("link set ul0 down"));
        until_said(&file, "the link of port up is down");
        assert!(!answers(&inside, "10.1.0.2", 56), "{port}");
        middle.run(|| ip("link set ul0 up"));
        until("answer when the link is back", || answers(&inside, "10.1.0.2", 56));
        until_said(&file, "the link of port up is up again");
        let overlay = end(endpoint).json()["overlay"].clone();
        assert!(overlay["drops"]["overlay_link_down"].as_u64() > Some(0), "{port}: {overlay:#}");
    }
}
