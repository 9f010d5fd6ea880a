//! Sockets of other programs: `Socket`, `RawSocket`, `KernelTun`, `ChatterSocket`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use crate::Rig;
use element::fixture::EndOnDrop;

const SOON: Option<Duration> = Some(Duration::from_secs(10));

/// Runs a router in real time while `talk` goes on; it stops when that returns.
fn with_router<R>(config: &str, talk: impl FnOnce() -> R) -> (Rig, R) {
    let mut rig = Rig::with_threads(config, 2).unwrap_or_else(|wrong| panic!("{wrong}"));
    let shared = rig.router.shared();
    let result = std::thread::scope(|scope| {
        let runs = scope.spawn(|| {
            rig.run();
        });
        let _end = EndOnDrop(shared.clone());
        let result = talk();
        shared.halt();
        runs.join().expect("a router that ends");
        result
    });
    (rig, result)
}

/// A port that is free just now.
fn free_port() -> u16 {
    UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a port").port()
}

#[test]
fn datagrams_come_and_answers_go_to_who_spoke_last() {
    let port = free_port();
    let config = format!("s :: Socket(UDP, 127.0.0.1, {port}) -> c :: Counter -> Queue -> s");
    let (mut rig, ()) = with_router(&config, || {
        let me = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        me.set_read_timeout(SOON).expect("a timeout");
        for text in [&b"one"[..], b"three"] {
            me.send_to(text, ("127.0.0.1", port)).expect("sent");
            let mut echo = [0; 16];
            let length = me.recv(&mut echo).expect("an answer");
            assert_eq!(&echo[..length], text);
        }
    });
    assert_eq!(rig.read("c.count"), "2");
}

#[test]
fn sockets_of_old_configurations_are_sockets() {
    let (mine, port) = (UdpSocket::bind("127.0.0.1:0").expect("a socket"), free_port());
    mine.set_read_timeout(SOON).expect("a timeout");
    let to = mine.local_addr().expect("an address").port();
    let config = format!(
        "FromSocket(UDP, 127.0.0.1, {port}) -> c :: Counter -> Queue -> ToSocket(UDP, 127.0.0.1, {to})"
    );
    let (mut rig, ()) = with_router(&config, || {
        mine.send_to(b"one", ("127.0.0.1", port)).expect("sent");
        let mut read = [0; 16];
        let length = mine.recv(&mut read).expect("what came");
        assert_eq!(&read[..length], b"one");
    });
    assert_eq!(rig.read("c.count"), "1");
    let warnings: Vec<String> = rig.router.warnings().iter().map(|warning| warning.message.clone()).collect();
    assert!(
        warnings.iter().any(|text| text.contains("ToSocket is deprecated, use Socket instead")),
        "{warnings:?}"
    );
}

#[test]
fn a_client_sends_what_is_pushed_over_a_stream() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let config = format!(
        "InfiniteSource(DATA \"0123456789\", LIMIT 1000) -> s :: Socket(TCP, 127.0.0.1, {port}, VERBOSE true);"
    );
    let (rig, read) = with_router(&config, || {
        let (mut stream, _) = listener.accept().expect("a client");
        stream.set_read_timeout(SOON).expect("a timeout");
        let mut all = vec![0; 10_000];
        stream.read_exact(&mut all).expect("all of it");
        all
    });
    assert!(read.chunks(10).all(|chunk| chunk == b"0123456789"));
    assert!(rig.printed().contains("s :: Socket: opened connection"), "{}", rig.printed());
}

#[test]
fn a_server_takes_one_client_after_the_other_and_denies_some() {
    let port = free_port();
    let config = format!(
        "allow :: RadixIPLookup(10.0.0.0/8 0); deny :: RadixIPLookup(0.0.0.0/0 0); Idle -> allow -> deny -> Discard;
         s :: Socket(TCP, 127.0.0.1, {port}, ALLOW allow, DENY deny, VERBOSE true) -> c :: Counter -> Discard;"
    );
    let (mut rig, ()) = with_router(&config, || {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("a server");
        stream.set_read_timeout(SOON).expect("a timeout");
        let gone = stream.read(&mut [0; 1]);
        assert!(matches!(gone, Ok(0) | Err(_)), "sent away");
    });
    assert_eq!(rig.read("c.count"), "0");
    assert!(rig.printed().contains("denied connection"), "{}", rig.printed());
    let port = free_port();
    let config = format!("s :: Socket(TCP, 127.0.0.1, {port}) -> c :: Counter -> Queue -> s");
    let (mut rig, ()) = with_router(&config, || {
        for _ in 0..2 {
            let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("a server");
            stream.set_read_timeout(SOON).expect("a timeout");
            stream.write_all(b"hello").expect("sent");
            let mut echo = [0; 5];
            stream.read_exact(&mut echo).expect("an answer");
            assert_eq!(&echo, b"hello");
        }
    });
    assert!(rig.read("c.byte_count") == "10", "{}", rig.read("c.byte_count"));
}

#[test]
fn files_are_taken_away_that_a_socket_was_bound_to() {
    let path = std::env::temp_dir().join(format!("ixora-socket-{}", std::process::id()));
    let config = format!("Socket(UNIX_DGRAM, \"{}\", SNAPLEN 4) -> c :: Counter -> Discard", path.display());
    let (mut rig, ()) = with_router(&config, || {
        let me = UnixDatagram::unbound().expect("a socket");
        me.send_to(b"longer than four", &path).expect("sent");
        std::thread::sleep(Duration::from_millis(200));
    });
    assert_eq!((rig.read("c.count"), rig.read("c.byte_count")), ("1".into(), "4".into()));
    assert!(!path.exists());
}

#[test]
fn what_cannot_be_is_told() {
    for (config, words) in [
        ("Idle -> Socket(TCP, 127.0.0.1, 1)", "connect: Connection refused"),
        ("Socket(SCTP, 1) -> Discard", "unknown socket type `SCTP'"),
        ("Socket(UNIX, /nonexistent/socket) -> Discard", "bind: No such file or directory"),
        ("Idle -> KernelTun(1.0.0.1/8, 2.0.0.1) -> Discard", "bad GATEWAY"),
        ("RawSocket(FOO) -> Discard", "TYPE: bad IP protocol"),
    ] {
        let said = Rig::new(config).err().unwrap_or_default();
        assert!(said.contains(words), "{config}: {said}");
    }
}

#[test]
fn a_listener_hears_what_the_router_says() {
    let path = std::env::temp_dir().join(format!("ixora-chatter-{}", std::process::id()));
    let config = format!(
        "ChatterSocket(UNIX, \"{}\"); s :: Script(TYPE PASSIVE, read c.count); c :: Counter; Idle -> c -> Discard;
         Script(wait 0.1, label l, write s.run, wait 0.05, goto l)",
        path.display()
    );
    let (_, ()) = with_router(&config, || {
        let stream = std::os::unix::net::UnixStream::connect(&path).expect("a listening socket");
        stream.set_read_timeout(SOON).expect("a timeout");
        let mut lines = BufReader::new(stream).lines().map(|line| line.expect("a line"));
        assert_eq!(lines.next().as_deref(), Some("Click::ChatterSocket/1.0"));
        assert_eq!((lines.next().as_deref(), lines.next().as_deref()), (Some("c.count:"), Some("0")));
    });
    assert!(!path.exists());
}

/// A network namespace of this thread's, if this test may make one.
fn own_network() -> bool {
    let lo_up = || std::process::Command::new("ip").args(["link", "set", "lo", "up"]).status();
    rustix::process::geteuid().is_root() && unshared() && lo_up().is_ok_and(|status| status.success())
}

// Of what may be unshared only tables of files make it unsafe.
#[allow(deprecated)]
fn unshared() -> bool {
    rustix::thread::unshare(rustix::thread::UnshareFlags::NEWNET).is_ok()
}

#[test]
fn the_host_talks_to_addresses_that_the_router_answers_for() {
    // The threads that the router starts are in the namespace of the one that starts them.
    if !own_network() {
        return println!("passed over: no network namespace without root");
    }
    let config = "tun :: KernelTun(1.0.0.1/8, DEVNAME ixtun0) -> c :: Counter -> IPClassifier(udp) -> IPMirror -> tun;
        raw :: RawSocket(UDP) -> r :: Counter -> Discard;
        tap :: KernelTap(2.0.0.1/24, ETHER 2:0:0:0:0:7, DEVNAME ixtap0) -> arp :: Classifier(12/0806 20/0001, -)
            -> ARPResponder(2.0.0.0/24 2:0:0:0:0:9) -> tap; arp[1] -> Discard";
    let (mut rig, (echo, neighbours)) = with_router(config, || {
        let me = UdpSocket::bind("1.0.0.1:0").expect("the interface's address");
        me.set_read_timeout(SOON).expect("a timeout");
        me.send_to(b"hello", "1.0.0.2:7").expect("sent");
        let mut echo = [0; 16];
        let (length, from) = me.recv_from(&mut echo).expect("an answer");
        assert_eq!(from.to_string(), "1.0.0.2:7");
        let _asked = UdpSocket::bind("2.0.0.1:0").and_then(|socket| socket.send_to(b"hello", "2.0.0.5:7"));
        std::thread::sleep(Duration::from_millis(500));
        let shown = std::process::Command::new("ip").args(["neigh", "show", "dev", "ixtap0"]).output();
        (echo[..length].to_vec(), shown.map(|out| String::from_utf8_lossy(&out.stdout).into_owned()))
    });
    assert_eq!(echo, b"hello");
    let neighbours = neighbours.expect("ip(8)");
    assert!(neighbours.contains("2.0.0.5 lladdr 02:00:00:00:00:09"), "{neighbours}");
    // The host may send something of its own accord; what the router answered it received.
    assert_ne!(rig.read("c.count"), "0");
    assert_eq!(rig.read("r.count"), "1", "{}", rig.printed());
}
