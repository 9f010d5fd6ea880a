//! `ixora serve iperf3` and `ixora load iperf3` beside Debian's iperf3, in a network namespace.

use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::process::{Command, Stdio};

use crate::common::host::{Host, connect, ip};
use crate::common::{may_make_interfaces, output, run, start, start_command, until};
use lab::packages::{Packages, Suite, Tree};
use rustix::process::Signal;
use serde_json::Value;

const OURS: Ipv4Addr = Ipv4Addr::new(10, 77, 1, 2);
const LINUX: Ipv4Addr = Ipv4Addr::new(10, 77, 1, 1);
/// What is measured, by the words that both programs have: numbers of bytes, so that a slow machine
/// takes longer and moves no less.
const TESTS: [&str; 4] = ["-n 20M", "-n 20M -R", "-n 20M -P 4", "-n 20M -P 3 -R"];
const BYTES: u64 = 20 << 20;
/// The same of datagrams, in both directions; of those that the server sends a number that must all
/// come would last for ever if one were lost.
const DATAGRAMS: [&str; 4] = [
    "-u -b 20M -n 5M -l 1400",
    "-u -b 5M -t 1 -P 3 --udp-counters-64bit",
    "-u -R -b 20M -t 1 -l 1400",
    "-u -R -b 5M -t 1 -P 3 --udp-counters-64bit",
];

/// Debian's package, unpacked beside the system.
fn iperf3() -> Option<Tree> {
    Packages::of_test(&["iperf3"], Suite::BOOKWORM)
}

fn command(tree: &Tree, words: &str) -> Command {
    let mut command = tree.command("usr/bin/iperf3").expect("the package has it");
    command.args(words.split(' '));
    command
}

/// What Debian's client says, which ends with success and an `error` when a test is refused.
fn client(tree: &Tree, words: &str) -> Value {
    let done = output(&mut command(tree, &format!("-J -c {OURS} {words}")));
    serde_json::from_slice(&done.stdout).expect("JSON")
}

/// Whether the TAP interface is in this thread's namespace.
fn has_interface() -> bool {
    let mut show = Command::new("ip");
    let show = show.args(["link", "show", "t0"]).stderr(Stdio::null()).stdout(Stdio::null());
    show.status().is_ok_and(|status| status.success())
}

#[test]
fn clients_of_iperf3_measure_a_server_of_ours() {
    if !may_make_interfaces() {
        return;
    }
    let Some(tree) = iperf3() else { return };
    let (place, host) = (tempfile::tempdir().expect("a directory"), Host::new());
    let server = {
        let place = place.path().to_owned();
        host.run(move || start(&place, &format!("serve iperf3 --port tap:t0 --addr {OURS}/24 --json")))
    };
    host.run(move || {
        until("interface", has_interface);
        ip(&format!("addr add {LINUX}/24 dev t0"));
        // It is there when it answers.
        drop(connect(SocketAddrV4::new(OURS, wire::ip::port::IPERF3)));
        for words in TESTS {
            let figures = client(&tree, words);
            assert!(figures["error"].is_null(), "{words}: {}", figures["error"]);
            let (sent, received) = (&figures["end"]["sum_sent"], &figures["end"]["sum_received"]);
            assert!(sent["bytes"].as_u64() >= Some(BYTES), "{words}: {sent}");
            let received = received["bytes"].as_u64();
            assert!(received > Some(0) && received <= sent["bytes"].as_u64(), "{words}: {received:?}");
        }
        let figures = client(&tree, "-t 1");
        assert!(figures["end"]["sum_received"]["bytes"].as_u64() > Some(0), "{figures:#}");
        for words in DATAGRAMS {
            let figures = client(&tree, words);
            let sum = &figures["end"]["sum"];
            assert!(figures["error"].is_null(), "{words}: {}", figures["error"]);
            let packets = sum["packets"].as_u64().unwrap_or(0);
            let lost = sum["lost_packets"].as_u64().unwrap_or(u64::MAX);
            assert!(packets > 100 && lost < packets, "{words}: {sum}");
            assert!(sum["jitter_ms"].as_f64() > Some(0.0), "{words}: {sum}");
        }
        for words in ["-u -R -t 1 -l 4000", "--bidir -t 1"] {
            let error = client(&tree, words)["error"].to_string();
            assert!(error.contains("not implemented"), "{words}: {error}");
        }
    });
    server.signal(Signal::TERM);
    let done = server.wait(10);
    assert_eq!(done.code(), Some(0), "{done:#?}");
    assert_eq!(done.json()["notes"]["iperf3_tests"], TESTS.len() + 1 + DATAGRAMS.len(), "{done:#?}");
}

#[test]
fn a_client_of_ours_measures_with_servers_of_iperf3() {
    if !may_make_interfaces() {
        return;
    }
    let Some(tree) = iperf3() else { return };
    let (place, host) = (tempfile::tempdir().expect("a directory"), Host::new());
    let place = place.path().to_owned();
    host.run(move || {
        ip("link set lo up");
        ip("tuntap add t0 mode tap");
        ip("link set t0 addrgenmode none");
        ip(&format!("addr add {LINUX}/24 dev t0"));
        ip("link set t0 up");
        let _server = start_command(&mut command(&tree, "-s"), &place);
        let to = SocketAddrV4::new(LINUX, wire::ip::port::IPERF3);
        until("server", || TcpStream::connect(to).is_ok());
        let load = |words: &str| {
            let ends = format!("--addr {OURS}/24 --to {LINUX}");
            start(&place, &format!("load iperf3 --port tap:t0 {ends} --json {words}")).wait(60)
        };
        for words in TESTS {
            let done = load(words);
            assert_eq!(done.code(), Some(0), "{words}: {done:#?}");
            let figures = &done.json()["iperf3"];
            let (sent, received) = (&figures["sender"]["bytes"], &figures["receiver"]["bytes"]);
            assert!(sent.as_u64() >= Some(BYTES), "{words}: {figures:#}");
            assert!(received.as_u64() > Some(0) && received.as_u64() <= sent.as_u64(), "{figures:#}");
            assert!(figures["receiver"]["streams"][0]["retransmits"].is_null(), "{words}: {figures:#}");
        }
        let done = load("--duration 1s");
        assert!(done.json()["iperf3"]["receiver"]["bytes"].as_u64() > Some(0), "{done:#?}");
        // Nobody listens there.
        let done = run(&place, &format!("load iperf3 --port tap:t0 --addr {OURS}/24 --to {LINUX}:5202"));
        assert_eq!(done.code(), Some(1), "{done:#?}");
        assert!(done.stderr.contains("nobody listens there"), "{done:#?}");
    });
}
