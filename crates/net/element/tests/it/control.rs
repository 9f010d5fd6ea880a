//! Control from outside: sockets, metrics, and elements that only say something.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::Rig;
use element::control::protocol::{MAX_DATA, MAX_LINE, Parsed, Request, parse};
use element::fixture::EndOnDrop;
use proptest::prelude::*;

fn client(port: &str) -> BufReader<TcpStream> {
    let stream = TcpStream::connect(format!("127.0.0.1:{port}")).expect("a listening socket");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    BufReader::new(stream)
}

fn line(client: &mut BufReader<TcpStream>) -> String {
    let mut line = String::new();
    client.read_line(&mut line).expect("an answer");
    line
}

fn ask(client: &mut BufReader<TcpStream>, request: &str) -> String {
    client.get_mut().write_all(request.as_bytes()).expect("a client is listened to");
    line(client)
}

/// Runs a router with a control socket `cs` while `talk` goes on, then stops it.
fn with_router(config: &str, talk: impl FnOnce(&str)) -> Rig {
    let mut rig = Rig::with_threads(config, 2).expect("a configuration");
    let (port, shared) = (rig.read("cs.port"), rig.router.shared());
    std::thread::scope(|scope| {
        let runs = scope.spawn(|| {
            rig.run();
        });
        let _end = EndOnDrop(shared);
        talk(&port);
        let mut last = client(&port);
        line(&mut last);
        assert!(ask(&mut last, "WRITE stop\r\n").starts_with("200"));
        runs.join().expect("a router that ends");
    });
    rig
}

const CONFIG: &str = "cs :: ControlSocket(TCP, 0); i :: Idle -> c :: Counter -> q :: Queue(7) -> Discard;";

#[test]
fn a_sockets_name_that_is_too_long_is_named_with_its_length() {
    let path = format!("/tmp/{}", "n".repeat(103));
    let problems = Rig::new(&format!("ControlSocket(UNIX, {path})")).err().unwrap_or_default();
    assert!(problems.contains("filename too long: 108 bytes"), "{problems}");
}

#[test]
fn a_client_reads_writes_and_is_told_what_is_wrong() {
    with_router(CONFIG, |port| {
        let mut c = client(port);
        assert_eq!(line(&mut c), "Click::ControlSocket/1.3\r\n");
        assert_eq!(ask(&mut c, "READ c.class\r\n"), "200 Read handler 'c.class' OK\r\n");
        assert_eq!(line(&mut c), "DATA 7\r\n");
        let mut data = [0; 7];
        c.read_exact(&mut data).expect("data");
        assert_eq!(&data, b"Counter");
        assert_eq!(ask(&mut c, "read 3.name\n"), "200 Read handler '3.name' OK\r\n");
        assert_eq!(line(&mut c), "DATA 1\r\n");
        c.read_exact(&mut data[..1]).expect("data");
        assert_eq!(data[0], b'c');
        assert_eq!(ask(&mut c, "READ cs.port\r\n"), "200 Read handler 'cs.port' OK\r\n");
        assert_eq!(line(&mut c), format!("DATA {}\r\n", port.len()));
        c.read_exact(&mut vec![0; port.len()]).expect("data");
        for (request, answer) in [
            ("READ nobody.count\r\n", "510 No element named 'nobody'\r\n"),
            ("READ c.nothing\r\n", "511 No handler named 'c.nothing'\r\n"),
            ("READ c.reset\r\n", "530 Handler 'c.reset' write-only\r\n"),
            ("WRITE c.count 1\r\n", "530 Handler 'c.count' read-only\r\n"),
            ("WRITE c.reset\r\n", "200 Write handler 'c.reset' OK\r\n"),
            ("WRITEDATA c.reset 3\r\nabc", "200 Write handler 'c.reset' OK\r\n"),
            ("WRITEUNTIL c.reset END\r\na\r\nb\r\nEND \r\n", "200 Write handler 'c.reset' OK\r\n"),
            ("CHECKREAD c.count\r\n", "200 Read handler 'c.count' OK\r\n"),
            ("CHECKWRITE c.count\r\n", "511 Handler 'c.count' not writable\r\n"),
            ("LLRPC c#1\r\n", "501 Cannot call LLRPC 'c#1' remotely\r\n"),
            ("FROB\r\n", "501 Command 'FROB' unimplemented\r\n"),
            ("READ\r\n", "500 Wrong number of arguments\r\n"),
            ("QUIT\r\n", "200 Goodbye!\r\n"),
        ] {
            assert_eq!(ask(&mut c, request), answer, "{request:?}");
        }
        assert_eq!(line(&mut c), "", "the connection ends");
    });
}

#[test]
fn clients_that_misbehave_are_bounded_and_others_are_served() {
    with_router(CONFIG, |port| {
        let mut half = client(port);
        half.get_mut().write_all(b"READ c.cla").expect("sent");
        // Garbage: dropped after a while.
        let mut garbage = client(port);
        let noise: Vec<u8> = (0..200_000u32).map(|i| (i.wrapping_mul(2654435761) >> 24) as u8).collect();
        let _ = garbage.get_mut().write_all(&noise);
        let _ = garbage.get_mut().shutdown(std::net::Shutdown::Write);
        let mut answers = vec![];
        let _ = garbage.read_to_end(&mut answers); // a reset is an end as well
        // More data than anybody may send.
        let mut big = client(port);
        line(&mut big);
        assert!(ask(&mut big, "WRITEDATA c.reset 99999999999\r\n").starts_with("521"));
        assert_eq!(line(&mut big), "");
        // Asks and never listens.
        let mut stalled = client(port);
        stalled.get_mut().set_nonblocking(true).expect("a socket");
        for _ in 0..20_000 {
            if stalled.get_mut().write_all(b"READ handlers\r\n").is_err() {
                break;
            }
        }
        let crowd: Vec<_> = (0..100).map(|_| client(port)).collect();
        let mut good = client(port);
        line(&mut good);
        assert_eq!(ask(&mut good, "READ c.class\r\n"), "200 Read handler 'c.class' OK\r\n");
        drop((crowd, stalled));
    });
}

#[test]
fn nothing_is_written_through_a_socket_that_only_reads() {
    let mut rig = Rig::with_threads(
        "cs :: ControlSocket(TCP, 0, READONLY true); Idle -> c :: Counter -> Discard; \
        Script(wait 2s, stop)",
        2,
    )
    .expect("a configuration");
    let (port, shared) = (rig.read("cs.port"), rig.router.shared());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            rig.run();
        });
        let _end = EndOnDrop(shared);
        let mut c = client(&port);
        line(&mut c);
        assert_eq!(ask(&mut c, "WRITE c.reset\r\n"), "530 Permission denied for 'c.reset'\r\n");
        assert_eq!(ask(&mut c, "WRITE stop\r\n"), "530 Permission denied for 'stop'\r\n");
    });
}

#[test]
fn metrics_sum_drops_by_reason() {
    let config = "cs :: ControlSocket(TCP, 0); m :: Metrics(0);
        InfiniteSource(LENGTH 5, LIMIT 10, STOP false) -> s :: Strip(6) -> Discard;";
    let mut rig = Rig::with_threads(config, 2).expect("a configuration");
    let port = rig.read("m.port");
    drop(rig.read("m.text"));
    let (control, shared) = (rig.read("cs.port"), rig.router.shared());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            rig.run();
        });
        let _end = EndOnDrop(shared);
        std::thread::sleep(Duration::from_millis(200));
        let mut c = client(&port);
        c.get_mut().write_all(b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").expect("sent");
        let mut text = String::new();
        c.read_to_string(&mut text).expect("an answer");
        assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
        assert!(text.contains("ixora_element_drops_total{element=\"s\",class=\"Strip\",reason="), "{text}");
        assert!(text.contains("\"} 10\n"), "{text}");
        let mut c = client(&port);
        c.get_mut().write_all(b"GET /else HTTP/1.1\r\n\r\n").expect("sent");
        assert!(line(&mut c).starts_with("HTTP/1.1 404"));
        let mut last = client(&control);
        line(&mut last);
        ask(&mut last, "WRITE stop\r\n");
    });
}

#[test]
fn names_of_addresses_hold_where_they_are_declared() {
    let config = "AddressInfo(foo 1.2.3.4/20); rt :: LinearIPLookup(foo 0, foo:ipnet 1, foo:bcast 2);
        Idle -> rt; rt[0] -> Discard; rt[1] -> Discard; rt[2] -> Discard;";
    let table = Rig::new(config).unwrap_or_else(|e| panic!("{e}")).read("rt.table");
    for route in ["1.2.3.4/32", "1.2.0.0/20", "1.2.15.255/32"] {
        assert!(table.contains(route), "{table}");
    }
    assert!(Rig::new("AddressInfo(foo nonsense)").is_err());
    assert!(Rig::new("PortInfo(foo x)").is_err());
    let port = "Idle -> c :: IPClassifier(tcp port foo) -> Discard;";
    assert!(Rig::new(port).is_err());
    assert!(Rig::new(&format!("PortInfo(foo 8080/tcp bar # a comment\n); {port}")).is_ok());
}

#[test]
fn messages_print_and_errors_end() {
    let rig = Rig::new("Message(\"hello there\"); Idle -> Discard;").expect("a message is no error");
    assert_eq!(rig.printed(), "config:1: While configuring 'Message@1 :: Message':\n  hello there\n");
    assert!(Rig::new("Message(oh, ERROR)").is_err());
    // What is wrong with several arguments is told at once.
    let said = |config: &str| Rig::new(config).err().unwrap_or_default();
    let missing = said("Idle -> UDPIPEncap(1.0.0.1) -> Discard");
    assert!(missing.contains("SPORT: required argument missing\nDST: required argument missing\nDPORT: required argument missing"), "{missing}");
    let wrong = said("Idle -> EtherEncap(x, 0:0:0:0:0:1, 0:0:0:0:0:2, 7, FOO 1) -> Discard");
    assert!(
        wrong.contains("ETHERTYPE: expected unsigned integer\nFOO: unknown argument\ntoo many arguments"),
        "{wrong}"
    );
    let wrong = said("Idle -> Strip(x, y) -> Discard");
    assert!(wrong.contains("LENGTH: expected unsigned integer\ntoo many arguments"), "{wrong}");
    assert!(said("Idle -> Strip(4294967296) -> Discard").contains("LENGTH: out of range, bound 4294967295"));
    let wrong = said("Idle -> IPFilter(zz, allow tcp, yy) -> Discard");
    assert!(wrong.contains("pattern 0: unknown slot ID 'zz'\npattern 2: unknown slot ID 'yy'"), "{wrong}");
    assert!(Rig::new("Error(whatever)").is_err());
    assert!(Rig::new("AlignmentInfo(d 8 2); Idle -> d :: Discard;").is_ok());
    assert!(Rig::new("AlignmentInfo(d 8); Idle -> d :: Discard;").is_err());
}

proptest! {
    /// Whatever comes, parsing goes on and keeps no more than it may.
    #[test]
    fn any_bytes_are_parsed(bytes in proptest::collection::vec(any::<u8>(), 0..400), closed: bool) {
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            match parse(rest, closed) {
                Parsed::Wait => break,
                Parsed::Request(_, length) => {
                    prop_assert!(length > 0 && length <= rest.len());
                    rest = &rest[length..];
                }
            }
        }
        prop_assert!(!closed || rest.is_empty());
    }
}

#[test]
fn what_is_never_ended_is_refused() {
    let fatal =
        |input: &[u8]| matches!(parse(input, false), Parsed::Request(Request::Bad { fatal: true, .. }, _));
    assert!(fatal(&vec![b'x'; MAX_LINE + 1]));
    assert!(!fatal(&vec![b'x'; MAX_LINE]));
    let mut long = b"WRITEUNTIL a.b END\n".to_vec();
    long.resize(MAX_DATA + 100, b'y');
    assert!(fatal(&long));
}
