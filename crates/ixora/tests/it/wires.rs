//! Wires between the program and others: what goes in at one end comes out at
//! the other.

use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::common::{
    Done, IXORA, captured, captured_so_far, may_make_interfaces, model, run, start, start_command, until,
};
use rustix::process::Signal;

/// What was delivered from the host, by a served model's JSON.
fn device(done: &Done, index: usize) -> serde_json::Value {
    assert_eq!(done.code(), Some(0), "{done:#?}");
    done.json()["endpoints"][index]["device"].clone()
}

#[test]
fn a_capture_has_exactly_what_the_port_received() {
    let place = tempfile::tempdir().expect("a directory");
    let (model, port) = model(place.path(), "--wire gen:rate=5k,count=1000,size=64");
    let file = place.path().join("out.pcapng");
    let done = run(place.path(), &format!("pcap {port} {} --duration 3s --json", file.display()));
    assert_eq!(done.code(), Some(0), "{done:#?}");
    let packets = captured(&file);
    assert!(!packets.is_empty(), "{done:#?}");
    assert_eq!(done.json()["packets"], packets.len());
    assert_eq!(done.json()["rx_packets"], packets.len());
    assert!(packets.iter().all(|packet| packet.len() == 60));
    model.signal(Signal::TERM);
    let device = device(&model.wait(10), 0);
    let lost: u64 = device["drops"].as_object().expect("a map").values().filter_map(|n| n.as_u64()).sum();
    assert_eq!(device["wire"]["to_host"]["delivered"], packets.len() as u64 + lost, "{device:#}");
}

#[test]
fn the_internet_mix_is_on_the_wire() {
    let place = tempfile::tempdir().expect("a directory");
    let file = place.path().join("sent.pcapng");
    let port = format!("model:82599,wire=record:{}", file.display());
    let done =
        run(place.path(), &format!("pktgen {port} --size imix --count 120 --rate 50k --allow-short --json"));
    assert_eq!(done.code(), Some(0), "{done:#?}");
    let packets = captured(&file);
    let of = |len: usize| packets.iter().filter(|packet| packet.len() == len).count();
    assert_eq!((packets.len(), of(60), of(590), of(1514)), (120, 70, 40, 10));
    for packet in &packets {
        let flow = wire::Flow::of(packet).expect("a whole UDP packet");
        assert_eq!((flow.end, flow.ports), (packet.len(), Some((1024, 9))));
        let header = wire::ipv4::Packet::new_checked(&packet[14..]).expect("an IPv4 packet");
        assert!(header.verify_checksum());
    }
}

#[test]
fn a_pair_carries_packets_to_the_other_device() {
    let place = tempfile::tempdir().expect("a directory");
    let (a, b) = (place.path().join("a"), place.path().join("b"));
    let sockets = format!("--socket {} --socket {}", a.display(), b.display());
    let model = start(place.path(), &format!("model 82599 --json --wire pair {sockets}"));
    until("sockets", || a.exists() && b.exists());
    let file = place.path().join("out.pcapng");
    let capture =
        start(place.path(), &format!("pcap vfio-user:{} {} --count 100 --json", b.display(), file.display()));
    // The file is made when the port is open.
    until("capture", || file.exists());
    let sender = start(
        place.path(),
        &format!("pktgen vfio-user:{} --rate 5k --allow-short --flows 3 --to 02:00:5e:10:00:01", a.display()),
    );
    let done = capture.wait(15);
    assert_eq!(done.code(), Some(0), "{done:#?}");
    let packets = captured(&file);
    assert_eq!(packets.len(), 100);
    assert!(packets.iter().all(|packet| packet[..6] == [2, 0, 0x5E, 0x10, 0, 1]));
    // Destination, then the number that each packet carries behind its headers.
    let number = |packet: &[u8]| u64::from_be_bytes(packet[42..50].try_into().expect("eight bytes"));
    assert!(packets.windows(2).all(|two| number(&two[1]) == number(&two[0]) + 1), "in order, none missing");
    sender.signal(Signal::INT);
    let sent = sender.wait(10);
    assert_eq!(sent.code(), Some(0), "{sent:#?}");
    assert!(sent.stdout.starts_with("pktgen: "), "{sent:#?}");
    model.signal(Signal::TERM);
    assert_eq!(device(&model.wait(10), 1)["wire"]["wire"], "pair");
}

#[test]
fn an_echo_comes_back() {
    let place = tempfile::tempdir().expect("a directory");
    let (model, port) = model(place.path(), "--wire gen:rate=20k,flows=8+sink:check");
    let done = run(place.path(), &format!("echo {port} --duration 500ms --json"));
    assert_eq!(done.code(), Some(0), "{done:#?}");
    let sent = done.json()["tx_packets"].as_u64().expect("a number");
    assert!(sent > 1000, "{done:#?}");
    model.signal(Signal::TERM);
    let device = device(&model.wait(10), 0);
    assert_eq!(device["wire"]["from_host"]["delivered"], sent);
    assert_eq!(device["wire"]["check"]["corrupt"], 0, "{device:#}");
    assert_eq!(device["wire"]["check"]["received"], sent, "the generator's frames, all of them");
}

#[test]
fn faults_are_injected_and_counted() {
    let place = tempfile::tempdir().expect("a directory");
    let (model, port) = model(place.path(), "--wire gen:rate=20k+sink --fault length=0.2,seed=7");
    let done = run(place.path(), &format!("echo {port} --duration 500ms --json"));
    assert_eq!(done.code(), Some(0), "{done:#?}");
    assert_eq!(done.json()["missing_buffers"], 0);
    model.signal(Signal::TERM);
    let device = device(&model.wait(10), 0);
    assert!(device["faults"]["length"].as_u64().is_some_and(|n| n > 0), "{device:#}");
}

#[test]
fn frames_come_and_go_as_datagrams() {
    let place = tempfile::tempdir().expect("a directory");
    let (local, remote) = (place.path().join("local"), place.path().join("remote"));
    let peer = UnixDatagram::bind(&remote).expect("a socket");
    peer.set_read_timeout(Some(Duration::from_millis(100))).expect("a socket");
    let wire = format!("unix:{},remote={}", local.display(), remote.display());
    let (model, port) = model(place.path(), &format!("--wire {wire}"));
    let echo = start(place.path(), &format!("echo {port}"));
    let mut frame = [0x55; 60];
    frame[..12].copy_from_slice(&[2, 0, 0, 0, 0, 0xA, 2, 0, 0, 0, 0, 0xB]);
    let mut answer = [0; 2000];
    until("answer", || {
        peer.send_to(&frame, &local).expect("the wire listens");
        peer.recv(&mut answer).is_ok_and(|len| len == 60)
    });
    assert_eq!(answer[..12], [2, 0, 0, 0, 0, 0xB, 2, 0, 0, 0, 0, 0xA]);
    assert_eq!(answer[12..60], frame[12..]);
    echo.signal(Signal::TERM);
    let done = echo.wait(10);
    assert_eq!(done.code(), Some(0), "{done:#?}");
    model.signal(Signal::TERM);
    assert_eq!(model.wait(10).code(), Some(0));
    assert!(!local.exists(), "the wire's socket goes with it");
}

fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time after 1970");
    u64::try_from(since.as_nanos()).expect("a time before 2554")
}

/// The program is held between a frame and the poll for it: an X550 has the time all the same.
#[test]
fn a_capture_has_the_time_at_which_a_nic_got_a_frame() {
    /// Stamps are as exact as a busy machine answers a read of a register.
    const OFF_NS: u64 = 3_000_000_000;
    const HELD: Duration = Duration::from_secs(7);
    let place = tempfile::tempdir().expect("a directory");
    let [a, b, file] = ["a", "b", "out.pcapng"].map(|name| place.path().join(name));
    let sockets = format!("--socket {} --socket {}", a.display(), b.display());
    let _model = start(place.path(), &format!("model 82599 --device-id 1563 --wire pair {sockets}"));
    until("sockets", || a.exists() && b.exists());
    let capture = start(place.path(), &format!("pcap vfio-user:{} {}", b.display(), file.display()));
    until("capture", || file.exists());
    let send = || {
        let done = run(place.path(), &format!("pktgen vfio-user:{} --count 1 --rate 1k", a.display()));
        assert_eq!(done.code(), Some(0), "{done:#?}");
    };
    send();
    until("first frame in the capture", || captured_so_far(&file).len() == 1);
    capture.signal(Signal::STOP);
    let before = now_ns();
    send();
    let after = now_ns();
    std::thread::sleep(HELD);
    capture.signal(Signal::CONT);
    until("last frame in the capture", || captured_so_far(&file).len() == 2);
    capture.signal(Signal::INT);
    let done = capture.wait(10);
    assert_eq!(done.code(), Some(0), "{done:#?}");
    let (stamp, _) = captured_so_far(&file)[1];
    assert!((before - OFF_NS..after + OFF_NS).contains(&stamp), "{before} to {after}: {stamp}");
    let text = std::fs::read(&file).expect("a file");
    assert!(text.windows(22).any(|words| words == b"time stamps by the NIC"), "the file says whose they are");
}

/// What a program sent is what the other end got, and losses that the program tells.
#[test]
fn frames_that_a_socket_never_takes_are_among_the_losses() {
    let place = tempfile::tempdir().expect("a directory");
    let (local, remote) = (place.path().join("local"), place.path().join("remote"));
    let peer = UnixDatagram::bind(&remote).expect("a socket");
    let port = format!("model:82599,wire=unix:{},remote={}", local.display(), remote.display());
    let done = run(place.path(), &format!("pktgen {port} --count 3000 --rate 3k --allow-short --json"));
    assert_eq!(done.code(), Some(0), "{done:#?}");
    let summary = done.json();
    peer.set_nonblocking(true).expect("a socket");
    let got = std::iter::from_fn(|| peer.recv(&mut [0; 2048]).ok()).count() as u64;
    let lost = |name: &str| summary["losses"][name].as_u64().unwrap_or_default();
    assert!(got > 0 && lost("tx_wire_full") > 0, "{got} came: {summary:#}");
    let lost = lost("tx_wire_full") + lost("tx_unsent");
    assert_eq!(summary["tx_packets"].as_u64(), Some(got + lost), "{got} came: {summary:#}");
}

/// A host keeps what a full ring refuses, and sends it later: that is no loss.
#[test]
fn what_a_host_keeps_for_a_full_ring_is_not_lost() {
    let place = tempfile::tempdir().expect("a directory");
    let [server, client] = ["server", "client"].map(|name| place.path().join(name));
    let port = |own: &Path, other: &Path| {
        format!("--port model:82599,wire=unix:{},remote={}", own.display(), other.display())
    };
    let words = format!("serve echo {} --addr 10.0.0.2/24 --json", port(&server, &client));
    let serving = start(place.path(), &words);
    until("socket", || server.exists());
    // More connections than a small ring holds segments.
    let ends = format!("{} --addr 10.0.0.1/24 --to 10.0.0.2 --ring 64", port(&client, &server));
    let words = format!("load echo {ends} --connections 100 --size 500 --rate max --duration 1s --json");
    let done = run(place.path(), &words);
    assert_eq!(done.code(), Some(0), "{done:#?}");
    let summary = &done.json()["summary"];
    assert!(summary["notes"]["ring_full"].as_u64() > Some(0), "{summary:#}");
    assert_eq!(summary["losses"]["tx_ring_full"], serde_json::Value::Null, "{summary:#}");
    serving.signal(Signal::TERM);
    let served = serving.wait(20);
    assert_eq!(served.code(), Some(0), "{served:#?}");
    // Each frame that the client sent came, or is among its losses.
    let count = |of: &serde_json::Value| of.as_u64().unwrap_or_default();
    let wire = ["tx_wire_full", "tx_wire_down", "tx_wire_error", "tx_unsent"];
    let lost: u64 = wire.iter().map(|name| count(&summary["losses"][*name])).sum();
    let served = served.json();
    let not_received: u64 =
        ["rx_no_descriptor", "rx_fifo_full"].iter().map(|name| count(&served["losses"][*name])).sum();
    let received = count(&served["rx_packets"]) + not_received;
    assert_eq!(count(&summary["tx_packets"]), received + lost, "{summary:#}\n{served:#}");
}

#[test]
fn the_kernel_is_at_the_end_of_a_tap() {
    if !may_make_interfaces() {
        return;
    }
    let place = tempfile::tempdir().expect("a directory");
    let socket = place.path().join("nic");
    // A network of its own: the interface and its addresses are nobody else's.
    let mut command = Command::new("unshare");
    command.args(["-n", IXORA, "model", "82599", "--json", "--wire", "tap:ixora0", "--socket"]).arg(&socket);
    let model = start_command(&mut command, place.path());
    until("socket", || socket.exists());
    let id = model.id().to_string();
    let inside = |command: &str| {
        let done = Command::new("nsenter").args(["-t", &id, "-n", "bash", "-c", command]).output();
        let done = done.expect("nsenter runs");
        assert!(done.status.success(), "{command}: {done:#?}");
    };
    inside("ip address add 10.9.9.1/24 dev ixora0");
    let port = format!("vfio-user:{}", socket.display());
    let sent = run(place.path(), &format!("pktgen {port} --count 200 --rate 10k --allow-short --json"));
    assert_eq!(sent.code(), Some(0), "{sent:#?}");
    until("packets in the kernel", || received(&id, "ixora0") >= 200);
    let file = place.path().join("out.pcapng");
    let capture = start(place.path(), &format!("pcap {port} {}", file.display()));
    until("capture", || file.exists());
    // The kernel asks who 10.9.9.2 is.
    inside("echo x > /dev/udp/10.9.9.2/9");
    let is_arp = |(_, packet): &(u64, Vec<u8>)| packet[12..14] == [0x08, 0x06];
    until("question in the capture", || captured_so_far(&file).iter().any(is_arp));
    capture.signal(Signal::INT);
    assert_eq!(capture.wait(10).code(), Some(0));
    model.signal(Signal::TERM);
    assert_eq!(model.wait(10).code(), Some(0));
}

/// Packets that an interface in another process's network received.
fn received(id: &str, interface: &str) -> u64 {
    let table = std::fs::read_to_string(format!("/proc/{id}/net/dev")).expect("a table");
    let line = table.lines().find_map(|line| line.trim().strip_prefix(interface)?.strip_prefix(':'));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok()).unwrap_or(0)
}

#[test]
fn tags_that_one_device_takes_off_come_back_in_front_of_every_other() {
    let place = tempfile::tempdir().expect("a directory");
    let path = |name: &str| place.path().join(name);
    let run = |arguments: String| {
        let done = run(place.path(), &arguments);
        assert_eq!(done.code(), Some(0), "{done:#?}");
        done
    };
    let tagged = path("tagged.pcapng");
    for chip in ["virtio-net", "82599"] {
        let port = format!("model:{chip},wire=record:{}", tagged.display());
        run(format!("pktgen {port} --vlan 7 --count 40 --rate 20k --allow-short --size 128"));
        let sent = captured(&tagged);
        assert_eq!(sent.len(), 40, "{chip}");
        assert!(sent.iter().all(|frame| frame[12..18] == [0x81, 0, 0, 7, 8, 0]), "{chip}: {:x?}", sent[0]);
    }
    let source = format!("model:82599,wire=pcap:{}", tagged.display());
    for chip in ["virtio-net", "82599"] {
        let out = path(&format!("{chip}.pcapng"));
        let sink = format!("model:{chip},wire=record:{}", out.display());
        run(format!("fwd {source} {sink} --vlan-strip --count 40 --duration 10s"));
        assert_eq!(captured(&out), captured(&tagged), "sent by {chip}");
    }
    let written = path("written.pcapng");
    run(format!("pcap {source} {} --vlan-strip --count 40 --duration 10s", written.display()));
    assert_eq!(captured(&written), captured(&tagged), "in the bytes that are written");
}
