//! `ixora serve` beside a client of Linux's, in a network namespace of their own.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::path::Path;

use crate::common::host::{Host, connect, ip};
use crate::common::{Running, may_make_interfaces, names, run, start, until};
use interface::pcap::Reader;
use rustix::process::Signal;
use wire::tcp::{self, Flags};
use wire::{ethernet, ipv4};

/// Where metrics are served.
const METRICS: u16 = 9464;
const OURS: Ipv4Addr = Ipv4Addr::new(10, 77, 1, 2);

/// An echo server that listens, with these options, on a TAP `t0` in the namespace of a host.
fn serve(host: &Host, place: &Path, options: &str) -> Running {
    let (folder, control) = (place.to_owned(), place.join("control"));
    let command =
        format!("serve echo --port tap:t0 --addr {OURS}/24 --control {} {options}", control.display());
    let server = host.run(move || start(&folder, command.trim_end()));
    until("socket", || control.exists());
    server
}

/// A connection to an echo server that has sent five bytes and got them back.
fn greeted(server: SocketAddrV4) -> TcpStream {
    let mut stream = connect(server);
    stream.write_all(b"hello").expect("a connection");
    let mut echo = [0; 5];
    stream.read_exact(&mut echo).expect("an echo");
    assert_eq!(&echo, b"hello");
    stream
}

/// What is served at `/metrics`, with its head.
fn scrape() -> String {
    let mut stream = connect(SocketAddrV4::new(Ipv4Addr::LOCALHOST, METRICS));
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .expect("a connection");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

/// The kernel gives what a new flow sends to any queue of a TAP, and later segments to the queue by
/// which the server answered: the first ones of a connection may come to different hosts.
#[test]
fn connections_over_several_queues_of_a_tap_are_one_hosts() {
    if !may_make_interfaces() {
        return;
    }
    let place = tempfile::tempdir().expect("a directory");
    let host = Host::new();
    let server = serve(&host, place.path(), "--queues 4 --threads 2 --json");
    let served = host.run(move || {
        // Each client is new: the server has to ask for its Ethernet address.
        let is_served = |last: &u8| {
            let client = Ipv4Addr::new(10, 77, 1, *last);
            ip(&format!("addr add {client}/24 dev t0"));
            let mut stream = connect(SocketAddrV4::new(OURS, 7));
            let mut echo = [0; 5];
            let done = stream.write_all(b"hello").and_then(|()| stream.read_exact(&mut echo));
            ip(&format!("addr del {client}/24 dev t0"));
            done.is_ok() && &echo == b"hello"
        };
        (10..40).filter(is_served).count()
    });
    assert_eq!(served, 30);
    server.signal(Signal::TERM);
    let done = server.wait(10);
    assert_eq!(done.code(), Some(0), "{done:#?}");
    let notes = &done.json()["notes"];
    assert_eq!(notes["rx_tcp_no_connection"].as_u64().unwrap_or(0), 0, "{notes:#}");
}

/// A client of another network is answered by the router that the command line names.
#[test]
fn a_client_behind_a_gateway_is_served() {
    if !may_make_interfaces() {
        return;
    }
    let place = tempfile::tempdir().expect("a directory");
    let host = Host::new();
    let server = serve(&host, place.path(), "--gateway 10.77.1.1");
    host.run(|| {
        ip("addr add 10.77.1.1/24 dev t0");
        ip("link set lo up");
        ip("addr add 10.50.0.1/32 dev lo");
        ip(&format!("route add {OURS}/32 dev t0 src 10.50.0.1"));
        let stream = greeted(SocketAddrV4::new(OURS, 7));
        assert_eq!(stream.local_addr().expect("an address").ip(), Ipv4Addr::new(10, 50, 0, 1));
    });
    server.signal(Signal::TERM);
    assert_eq!(server.wait(10).code(), Some(0));
}

/// What Wireshark opens has a connection's frames as they came and went.
#[test]
fn the_frames_of_a_connection_are_captured_while_it_is_served() {
    if !may_make_interfaces() {
        return;
    }
    let place = tempfile::tempdir().expect("a directory");
    let (host, path) = (Host::new(), place.path());
    let server = serve(&host, path, "");
    let (file, other) = (path.join("file.pcapng"), path.join("other.pcapng"));
    let capture = |peer: &str, file: &Path, options: &str| {
        format!("tcp capture {} {peer} {} {options}", path.join("control").display(), file.display())
    };
    let first = start(path, &capture("10.77.1.1", &file, "--duration 60s --count 8"));
    until("file", || file.exists());
    let done = run(path, &capture("10.77.1.9", &other, "--duration 1s"));
    assert!(done.stderr.contains("somebody captures already"), "{done:#?}");
    assert!(!other.exists());
    host.run(|| {
        ip("addr add 10.77.1.1/24 dev t0");
        (0..2).for_each(|_| drop(greeted(SocketAddrV4::new(OURS, 7))));
    });
    let done = first.wait(60);
    assert_eq!(done.code(), Some(0), "{done:#?}");
    assert!(done.stderr.contains("8 frames, 0 lost"), "{done:#?}");
    let mut reader = Reader::new(std::fs::File::open(&file).expect("a file")).expect("a capture");
    let mut frames: Vec<Vec<u8>> = Vec::new();
    while let Some(frame) = reader.next().expect("whole blocks") {
        frames.push(frame.data.to_vec());
    }
    // On a busy machine some of them are sent again.
    let flags = |frame: &Vec<u8>| {
        let segment = &frame[ethernet::HEADER_LEN + ipv4::HEADER_LEN..];
        tcp::Header::of(segment).map(|header| header.flags())
    };
    let of = |wanted| frames.iter().position(|frame| flags(frame) == Some(wanted));
    let (syn, answer) = (of(Flags::SYN), of(Flags::SYN | Flags::ACK));
    assert!(frames.len() == 8 && syn == Some(0) && answer > syn, "{syn:?} {answer:?}: {frames:x?}");
    assert!(frames.iter().filter(|frame| frame.ends_with(b"hello")).count() >= 2, "{frames:x?}");
    // When it has ended, others may.
    let done = run(path, &capture("10.77.1.9", &other, "--duration 100ms"));
    assert!(done.code() == Some(0) && done.stderr.contains("0 frames, 0 lost"), "{done:#?}");
    server.signal(Signal::TERM);
    assert_eq!(server.wait(10).code(), Some(0));
}

#[test]
fn connections_of_a_server_are_listed_while_it_runs() {
    if !may_make_interfaces() {
        return;
    }
    let place = tempfile::tempdir().expect("a directory");
    let (host, path) = (Host::new(), place.path().join("control").display().to_string());
    host.run(|| ip("link set lo up"));
    let server = serve(&host, place.path(), &format!("--metrics={METRICS}"));
    let stream = host.run(move || {
        ip("addr add 10.77.1.1/24 dev t0");
        greeted(SocketAddrV4::new(OURS, 7))
    });
    let asked = |words: &str| {
        let done = run(place.path(), &format!("tcp {words}"));
        assert_eq!(done.code(), Some(0), "{words}: {done:#?}");
        done
    };
    let mut shown = serde_json::Value::Null;
    until("acknowledgement", || {
        shown = asked(&format!("show {path} --json")).json();
        shown["connections"][0]["bytes_acknowledged"] == 5
    });
    assert_eq!(shown["connections"].as_array().map(Vec::len), Some(1), "{shown:#}");
    let it = &shown["connections"][0];
    assert_eq!((&it["state"], &it["local"]), (&"ESTAB".into(), &"10.77.1.2:7".into()), "{it:#}");
    let local = stream.local_addr().expect("an address").to_string();
    assert_eq!((&it["remote"], &it["bytes_received"]), (&local.clone().into(), &5.into()), "{it:#}");
    assert!(it["rtt_us"].as_u64() > Some(0) && it["send_queue"] == 0, "{it:#}");
    let text = asked(&format!("show {path}")).stdout;
    let line = text.lines().nth(1).unwrap_or_default();
    assert!(line.starts_with("ESTAB ") && line.contains(&local), "{text}");
    assert!(text.contains("bytes_acked:5 bytes_received:5"), "{text}");
    assert!(asked(&format!("show {path} --limit 0")).stdout.ends_with("and 1 more: --limit\n"));
    let metrics = asked(&format!("show {path} --metrics")).stdout;
    for line in ["ixora_tcp_connections{queue=\"0\"} 1\n", "ixora_tcp_bytes_received_total{queue=\"0\"} 5\n"]
    {
        assert!(metrics.contains(line), "{metrics}");
    }
    let served = host.run(scrape);
    assert!(served.starts_with("HTTP/1.1 200 OK\r\n"), "{served}");
    assert!(served.contains("\nixora_tcp_connections{queue=\"0\"} 1\n"), "{served}");
    let top = asked(&format!("top {path} --once --json --interval 10ms")).json();
    assert_eq!(top["connections"][0]["remote"], local, "{top:#}");
    drop(stream);
    server.signal(Signal::TERM);
    let done = server.wait(10);
    assert_eq!(done.code(), Some(0), "{done:#?}");
    until("end of the socket", || names(place.path()).is_empty());
    let done = run(place.path(), &format!("tcp show {path}"));
    assert_eq!(done.code(), Some(1));
    assert!(done.stderr.contains("ixora serve SERVICE --control"), "{done:#?}");
}
