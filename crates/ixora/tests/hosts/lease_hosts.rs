//! `ixora serve --addr dhcp --addr auto` beside Debian's dnsmasq, in a network namespace.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpStream};
use std::path::Path;

use crate::common::host::{Host, connect, ip};
use crate::common::{Running, may_make_interfaces, output, run, start, start_command, until};
use lab::packages::{Packages, Suite, Tree};
use rustix::process::Signal;
use serde_json::Value;

/// Debian's packages, unpacked beside the system; `None` where the user said that no registry is to
/// be asked.
fn packages() -> Option<Tree> {
    match Packages::open().and_then(|all| all.tree(&["dnsmasq-base", "iputils-ping"], Suite::BOOKWORM)) {
        Ok(tree) => Some(tree),
        Err(why) if std::env::var_os("IXORA_OFFLINE").is_some() => {
            println!("passed over: {why}");
            None
        }
        Err(why) => panic!("no dnsmasq: {why}; IXORA_OFFLINE=1 leaves this test out"),
    }
}

/// The address that came one way, of a prefix.
fn address(shown: &Value, origin: &str, prefix: &str) -> Option<IpAddr> {
    let all = shown["addresses"].as_array()?;
    let texts = all.iter().filter(|it| it["origin"] == origin).filter_map(|it| it["address"].as_str());
    texts.filter(|text| text.starts_with(prefix)).find_map(|text| text.parse().ok())
}

/// The server, and a TAP interface of this namespace to give leases at.
fn start_dnsmasq(tree: &Tree, at: &Path) -> Running {
    ip("link set lo up");
    ip("tuntap add t0 mode tap");
    ip("link set t0 addrgenmode none");
    for address in ["10.77.3.1/24", "fd00:77::1/64 nodad", "fe80::1/64 nodad"] {
        ip(&format!("addr add {address} dev t0"));
    }
    ip("link set t0 up");
    let mut dnsmasq = tree.command("usr/sbin/dnsmasq").expect("the package has it");
    dnsmasq.args(["--keep-in-foreground", "--conf-file=/dev/null", "--port=0", "--user=root", "--pid-file="]);
    dnsmasq.args(["--interface=t0", "--no-ping", "--dhcp-option=option:mtu,1400", "--enable-ra"]);
    dnsmasq.args(["--dhcp-range=10.77.3.100,10.77.3.150,255.255.255.0,1h"]);
    dnsmasq.args(["--dhcp-range=fd00:77::,ra-only,64,2h", "--log-facility=-", "--log-dhcp"]);
    start_command(dnsmasq.arg(format!("--dhcp-leasefile={}", at.join("leases").display())), at)
}

/// A connection to an echo server that answers `ping` too.
fn connected(tree: &Tree, to: IpAddr) -> TcpStream {
    let mut ping = tree.command("usr/bin/ping").or_else(|_| tree.command("bin/ping")).expect("ping");
    let done = output(ping.args(["-c", "1", "-W", "30", &to.to_string()]));
    assert!(done.status.success(), "{to}: {done:#?}");
    let mut stream = connect(SocketAddr::new(to, 7));
    stream.write_all(b"hello").expect("a connection");
    let mut echo = [0; 5];
    stream.read_exact(&mut echo).expect("an echo");
    assert_eq!(&echo, b"hello");
    stream
}

#[test]
fn a_host_is_given_its_addresses_by_dnsmasq() {
    if !may_make_interfaces() {
        return;
    }
    let Some(tree) = packages() else { return };
    let (place, host) = (tempfile::tempdir().expect("a directory"), Host::new());
    let at = place.path().to_owned();
    host.run(move || {
        let dnsmasq = start_dnsmasq(&tree, &at);
        let control = at.join("control");
        let server = start(
            &at,
            &format!("serve echo --port tap:t0 --addr dhcp --addr auto --control {}", control.display()),
        );
        until("socket", || control.exists());
        let mut shown = Value::Null;
        let asked = |words: &str| run(&at, &format!("tcp show {}{words}", control.display()));
        until("address of each version", || {
            shown = asked(" --json").json();
            address(&shown, "dhcp", "10.77.3.").is_some() && address(&shown, "auto", "fd00:77:").is_some()
        });
        let v4 = address(&shown, "dhcp", "10.77.3.").expect("found");
        let v6 = address(&shown, "auto", "fd00:77:").expect("found");
        let local: Ipv6Addr = "fe80::1".parse().expect("an address");
        let it = &shown["addresses"][0];
        assert_eq!((&it["server"], &it["gateway"]), (&"10.77.3.1".into(), &"10.77.3.1".into()), "{it:#}");
        assert!(it["valid_s"].as_i64().is_some_and(|left| (3000..=3600).contains(&left)), "{it:#}");
        let by_router =
            shown["addresses"].as_array().expect("a list").iter().find(|it| it["address"] == v6.to_string());
        assert_eq!(by_router.expect("found")["gateway"], local.to_string());
        let text = asked("").stdout;
        assert!(
            text.contains(&format!("addr {v4}/24 dhcp server 10.77.3.1 via 10.77.3.1 valid_lft ")),
            "{text}"
        );
        let metrics = asked(" --metrics").stdout;
        assert!(
            metrics.contains(&format!("_valid_seconds{{address=\"{v4}/24\",origin=\"dhcp\"")),
            "{metrics}"
        );
        for to in [v4, v6] {
            let _stream = connected(&tree, to);
            if to.is_ipv4() {
                let shown = asked(" --json").json();
                let size = shown["connections"][0]["segment_size"].as_u64();
                assert!(size.is_some_and(|size| size <= 1360), "the server's MTU is 1400: {size:?}");
            }
        }
        server.signal(Signal::TERM);
        let done = server.wait(10);
        assert_eq!(done.code(), Some(0), "{done:#?}");
        assert!(done.stderr.contains(&format!("{v4}/24 dhcp server 10.77.3.1\n")), "{done:#?}");
        dnsmasq.signal(Signal::TERM);
        let done = dnsmasq.wait(10);
        assert!(done.stderr.contains(&format!("DHCPACK(t0) {v4}")), "{done:#?}");
    });
}
