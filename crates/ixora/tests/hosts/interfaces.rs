//! The program on interfaces of Linux's: two hosts, each in a network namespace of
//! its own, and between them a third with `ixora` in it. The machine's own
//! interfaces are never touched.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use crate::common::host::{Host, accept, connect, ip};
use crate::common::{Running, may_make_interfaces, start, until};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, ipproto, recv, sendto, socket};
use rustix::process::Signal;
use serde_json::json;

const HERE: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
const THERE: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);

/// Two hosts, one cable from each to a third place: `v0` and `v1` are there.
struct Lab {
    a: Host,
    b: Host,
    middle: Host,
}

impl Lab {
    /// Where `cut` says so, a host sends no segments larger than a frame.
    fn new(cut: [bool; 2]) -> Lab {
        let (a, b, middle) = (Host::new(), Host::new(), Host::new());
        for (name, host, address, cut) in [("v0", &a, HERE, cut[0]), ("v1", &b, THERE, cut[1])] {
            let id = host.id;
            middle.run(move || {
                let queues = "numrxqueues 2 numtxqueues 2";
                ip(&format!("link add {name} {queues} type veth peer name host {queues} netns {id}"));
                ip(&format!("link set {name} addrgenmode none"));
                ip(&format!("link set {name} up"));
            });
            host.run(move || {
                ip("link set host addrgenmode none");
                ip(&format!("addr add {address}/24 dev host"));
                ip(&format!("link set host up gso_max_segs {}", if cut { 1 } else { 64 }));
            });
        }
        Lab { a, b, middle }
    }

    /// Runs `ixora` in the middle until it is told to end.
    fn ixora(&self, place: &Path, arguments: String) -> Running {
        let place = place.to_owned();
        self.middle.run(move || start(&place, &arguments))
    }

    /// Sends pings until so many in a row were answered.
    fn ping(&self, times: u16) {
        self.a.run(move || {
            let mut number = 0;
            until("answer to a ping", || ping(THERE, 0) == Some(()));
            while number < times {
                assert_eq!(ping(THERE, number), Some(()), "ping {number}");
                number += 1;
            }
        });
    }
}

/// One ping of 200 bytes, answered within a second or not (RFC 792).
fn ping(host: Ipv4Addr, number: u16) -> Option<()> {
    let socket = socket(AddressFamily::INET, SocketType::RAW, Some(ipproto::ICMP)).expect("root may");
    let limit = Some(Duration::from_secs(1));
    rustix::net::sockopt::set_socket_timeout(&socket, rustix::net::sockopt::Timeout::Recv, limit)
        .expect("a limit");
    let mut message = vec![8, 0, 0, 0, 0x12, 0x34];
    message.extend(number.to_be_bytes());
    message.extend((0..192).map(|n| n as u8));
    let checksum = wire::checksum::of(&message);
    message[2..4].copy_from_slice(&checksum.to_be_bytes());
    sendto(&socket, &message, SendFlags::empty(), &SocketAddrV4::new(host, 0)).ok()?;
    let end = Instant::now() + Duration::from_secs(1);
    let mut answer = [0; 1500];
    while Instant::now() < end {
        let (len, _) = recv(&socket, &mut answer[..], RecvFlags::empty()).ok()?;
        if len == 220 && answer[20] == 0 && answer[24..len] == message[4..] {
            return Some(());
        }
    }
    None
}

/// Sends `len` bytes to the other host's port 7 by TCP, and has them sent back.
fn echo_comes_back(len: usize) {
    let mut stream = connect((THERE, 7));
    let data: Vec<u8> = (0..len).map(|n| (n * 7 + n / 251) as u8).collect();
    let (mut writer, sent) = (stream.try_clone().expect("a descriptor"), data.clone());
    let sender = thread::spawn(move || {
        writer.write_all(&sent).expect("taken");
        writer.shutdown(std::net::Shutdown::Write).expect("it ends");
    });
    let mut back = Vec::new();
    stream.read_to_end(&mut back).expect("all of it");
    sender.join().expect("no panic");
    assert!(back == data, "{} of {len} bytes, or others", back.len());
}

/// Sends `len` bytes to the other host by TCP, which sends them back.
fn tcp(lab: &Lab, len: usize) {
    let listener = lab.b.run(|| TcpListener::bind((THERE, 7)).expect("a port"));
    let echo = lab.b.begin(move || {
        let mut stream = accept(&listener);
        let (mut block, mut all) = (vec![0; 1 << 16], 0);
        loop {
            match stream.read(&mut block).expect("bytes") {
                0 => return all,
                len => stream.write_all(&block[..len]).expect("taken"),
            }
            all += block.len();
        }
    });
    lab.a.run(move || echo_comes_back(len));
    echo.recv().expect("it ended");
}

fn end(running: Running) -> serde_json::Value {
    running.signal(Signal::TERM);
    let done = running.wait(10);
    assert_eq!(done.code(), Some(0), "{done:#?}");
    done.json()
}

/// Forwards between the hosts; what ended it says.
fn forwards(ports: &str, drivers: [&str; 2]) {
    if !may_make_interfaces() {
        return;
    }
    // Native XDP has the kernel cut what comes across the cable.
    let cut = drivers.map(|driver| !driver.contains("native"));
    let (place, lab) = (tempfile::tempdir().expect("a directory"), Lab::new(cut));
    let ixora = lab.ixora(place.path(), format!("fwd {ports} --json"));
    lab.ping(100);
    tcp(&lab, 2_000_000);
    let json = end(ixora);
    for (n, driver) in drivers.iter().enumerate() {
        assert_eq!(json["ports"][n]["driver"], *driver, "{json:#}");
    }
    assert!(json["packets"].as_u64().is_some_and(|n| n > 2 * 2_000_000 / 1500), "{json:#}");
    assert_eq!(json["missing_buffers"], 0);
}

#[test]
fn hosts_talk_through_packet_sockets_and_xdp() {
    forwards("af_packet:v0 af_xdp:v1", ["af_packet (TPACKET_V3)", "af_xdp (native, copy)"]);
}

#[test]
fn hosts_talk_through_packet_sockets() {
    forwards("af_packet:v0 af_packet:v1 --interrupts", ["af_packet (TPACKET_V3)"; 2]);
}

#[test]
fn hosts_talk_through_several_queues_and_threads() {
    let ports = "af_packet:v0 af_xdp:v1 --queues 2 --threads 2";
    forwards(ports, ["af_packet (TPACKET_V3)", "af_xdp (native, copy)"]);
}

#[test]
fn hosts_talk_through_xdp_in_both_modes() {
    forwards("af_xdp:v0 af_xdp:v1,generic --interrupts", ["af_xdp (native, copy)", "af_xdp (generic, copy)"]);
}

#[test]
fn an_echo_on_a_tap_is_a_host_beside_this_one() {
    if !may_make_interfaces() {
        return;
    }
    let (place, lab) = (tempfile::tempdir().expect("a directory"), Lab::new([true; 2]));
    // On a TAP interface our end is a host beside its kernel.
    let command = format!("echo tap:t0 --ip {THERE} --json --max-frame 3000");
    let path = place.path().to_owned();
    let echo = lab.a.run(move || {
        ip("link del host");
        start(&path, &command)
    });
    lab.a.run(|| {
        until("interface", || {
            Command::new("ip").args(["link", "show", "t0"]).output().is_ok_and(|o| o.status.success())
        });
        ip(&format!("addr add {HERE}/24 dev t0"));
    });
    lab.ping(20);
    assert_eq!(end(echo)["ports"][0]["driver"], "tap");
}

#[test]
fn a_served_echo_talks_tcp_with_the_kernel_beside_it() {
    if !may_make_interfaces() {
        return;
    }
    for options in ["", " --interrupts"] {
        let (place, lab) = (tempfile::tempdir().expect("a directory"), Lab::new([true; 2]));
        let command = format!("serve echo --port tap:t0 --addr {THERE}/24 --json{options}");
        let path = place.path().to_owned();
        let echo = lab.a.run(move || {
            ip("link del host");
            start(&path, &command)
        });
        lab.a.run(|| {
            until("interface", || {
                Command::new("ip").args(["link", "show", "t0"]).output().is_ok_and(|o| o.status.success())
            });
            ip(&format!("addr add {HERE}/24 dev t0"));
        });
        lab.ping(5);
        lab.a.run(|| {
            echo_comes_back(2_000_000);
            assert!(
                TcpStream::connect_timeout(&(THERE, 9).into(), Duration::from_secs(10)).is_err(),
                "nobody listens there"
            );
        });
        let json = end(echo);
        let notes = &json["notes"];
        assert_eq!((&notes["tcp_bytes_received"], &notes["tcp_accepted"]), (&2_000_000.into(), &1.into()));
        assert_eq!(json["losses"]["rx_tcp_no_connection"], 1, "{json:#}");
        assert_eq!(json["missing_buffers"], 0);
    }
}

/// The other end's interface takes 1,500 bytes, and cannot know that ours takes less: the SYN's answer
/// says so, and what we send is no longer either.
#[test]
fn a_served_echo_has_segments_that_its_interface_takes() {
    if !may_make_interfaces() {
        return;
    }
    for port in ["af_packet:v0", "af_xdp:v0"] {
        let (place, lab) = (tempfile::tempdir().expect("a directory"), Lab::new([true; 2]));
        lab.middle.run(|| ip("link set v0 mtu 1400"));
        let echo = lab.ixora(place.path(), format!("serve echo --port {port} --addr {THERE}/24 --json"));
        lab.ping(5);
        lab.a.run(|| echo_comes_back(300_000));
        let json = end(echo);
        assert_eq!(json["notes"]["tcp_bytes_received"], 300_000, "{json:#}");
        assert_eq!(json["ports"][0]["losses"], json!({}), "{json:#}");
        assert!(json["notes"].get("tcp_path_mtu_reduced").is_none(), "{json:#}");
    }
}

#[test]
fn an_interface_that_goes_ends_the_run_with_its_name() {
    if !may_make_interfaces() {
        return;
    }
    for port in ["af_packet:v0", "af_xdp:v0"] {
        let (place, lab) = (tempfile::tempdir().expect("a directory"), Lab::new([true; 2]));
        let ixora = lab.ixora(place.path(), format!("fwd {port} af_packet:v1"));
        lab.ping(1);
        lab.middle.run(|| ip("link del v0"));
        let done = ixora.wait(10);
        assert_eq!(done.code(), Some(1), "{done:#?}");
        assert!(done.stderr.contains(&format!("error: {port}: the interface is gone")), "{done:#?}");
    }
}

#[test]
fn what_is_wrong_with_an_interface_is_told_with_its_fix() {
    if !may_make_interfaces() {
        return;
    }
    let (place, lab) = (tempfile::tempdir().expect("a directory"), Lab::new([true; 2]));
    let said = |arguments: &str| {
        let done = lab.ixora(place.path(), arguments.to_owned()).wait(10);
        assert_ne!(done.code(), Some(0), "{done:#?}");
        done.stderr
    };
    let missing = said("echo af_xdp:nothere");
    assert!(missing.contains("no interface nothere") && missing.contains("fix: ip -brief link"), "{missing}");
    lab.middle.run(|| ip("link set v1 down"));
    let down = said("echo af_packet:v1");
    assert!(down.contains("the interface is down\nfix: ip link set v1 up"), "{down}");
    assert!(said("echo af_xdp:").contains("is no port"));
    assert!(said("fwd af_xdp:v0 af_xdp:v0").contains("given twice"));
    let queues = said("echo af_xdp:v0 --queues 99");
    assert!(queues.contains("queues, not 99\nfix: ask for at most"), "{queues}");
}
