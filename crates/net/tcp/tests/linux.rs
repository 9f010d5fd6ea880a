//! A host of ours and Linux's own TCP at the two ends of a TAP interface, in a network
//! namespace of its own: needs root, and never touches the machine's interfaces.
#![allow(clippy::unwrap_used)]

#[path = "linux/ping.rs"]
mod ping;

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use interface::tap::TapPort;
use memory::{Backing, Batch, Dma, Packet, Pool};
use nix::sched::{CloneFlags, unshare};
use port::Port;
use runtime::{Instant, Poller};
use tcp::{Addresses, Echo, Event, Host, Id, Io, Neighbors, Options, Reason, Refusal, Service, Stack};

const LINUX: Ipv4Addr = Ipv4Addr::new(10, 66, 0, 1);
const OURS: Ipv4Addr = Ipv4Addr::new(10, 66, 0, 2);
const LINUX_V6: Ipv6Addr = Ipv6Addr::new(0xFD66, 0, 0, 0, 0, 0, 0, 1);
const OURS_V6: Ipv6Addr = Ipv6Addr::new(0xFD66, 0, 0, 0, 0, 0, 0, 2);
/// A server behind a router, which is this machine's Linux.
const FAR: Ipv4Addr = Ipv4Addr::new(10, 67, 0, 2);
const FAR_V6: Ipv6Addr = Ipv6Addr::new(0xFD67, 0, 0, 0, 0, 0, 0, 2);
const ROUTER: Ipv4Addr = Ipv4Addr::new(10, 67, 0, 1);
const ROUTER_V6: Ipv6Addr = Ipv6Addr::new(0xFD67, 0, 0, 0, 0, 0, 0, 1);
const ECHO: u16 = 7;
const LIMIT: Duration = Duration::from_secs(60);

fn ip(arguments: &str) {
    let status = Command::new("ip").args(arguments.split(' ')).status().expect("iproute2 is installed");
    assert!(status.success(), "ip {arguments}");
}

/// What a host counted, and whether all its buffers came back.
struct Ended {
    counters: Vec<port::Counter>,
    missing: usize,
}

impl Ended {
    fn count(&self, name: &str) -> u64 {
        self.counters.iter().find(|counter| counter.name == name).expect("a counter").value
    }

    /// Prints the counters that are not zero.
    fn print(&self) {
        let counters = self.counters.iter().filter(|counter| counter.value > 0);
        counters.for_each(|counter| eprintln!("{} {}", counter.name, counter.value));
    }
}

/// Runs `test` beside a host of ours with an application, in a namespace of its own.
fn beside(
    options: Options,
    service: impl Service + 'static,
    test: impl FnOnce() + Send + 'static,
) -> Option<Ended> {
    let run = move || {
        if let Err(errno) = unshare(CloneFlags::CLONE_NEWNET) {
            let must = std::env::var("CI").is_ok_and(|ci| ci == "true" || ci == "1");
            assert!(!must, "CI is set, but a network namespace needs CAP_SYS_ADMIN: {errno}");
            println!("passed over: a network namespace needs CAP_SYS_ADMIN ({errno})");
            return None;
        }
        let mut port = TapPort::open("t0", &port::Options::default()).expect("a TAP interface");
        for address in [format!("{LINUX}/24"), format!("{LINUX_V6}/64 nodad")] {
            ip(&format!("addr add {address} dev t0"));
        }
        let stop = Arc::new(AtomicBool::new(false));
        let ends = stop.clone();
        let queues = (port.rx_queue(0).unwrap(), port.tx_queue(0).unwrap());
        let addresses = Addresses {
            mac: wire::MacAddress(port.mac()),
            v4: Some((OURS, 24)),
            v6: Some((OURS_V6, 64)),
            gateways: (Some(LINUX), Some(LINUX_V6)),
        };
        let host = thread::spawn(move || {
            let options = Options { key: [1, 2], ..options };
            let mut host =
                Host::new(queues, addresses, &Neighbors::default(), options, Box::new(service), 8192);
            host.stack().listen(ECHO);
            host.speak_udp(Box::new(Echo::default())).bind(ECHO);
            let dma = Dma::new(memory::Options { backing: Backing::Memfd, numa_node: None });
            let mut pool = Pool::new(&dma, 16_384).expect("memory");
            let mut batch = Batch::with_limit(64);
            while !ends.load(Ordering::Relaxed) {
                if host.turn(Instant::now(), &mut pool, &mut batch) == 0 {
                    thread::yield_now();
                }
            }
            let counters = host.counters();
            drop(host);
            let missing = pool.capacity() - pool.available();
            Ended { counters, missing }
        });
        let tested = std::panic::catch_unwind(std::panic::AssertUnwindSafe(test));
        stop.store(true, Ordering::Relaxed);
        let ended = host.join().expect("the host does not panic");
        if let Err(panic) = tested {
            ended.print();
            std::panic::resume_unwind(panic);
        }
        assert_eq!(ended.missing, 0, "buffers that did not come back");
        Some(ended)
    };
    match thread::spawn(run).join() {
        Ok(ended) => ended,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

fn data(len: usize) -> Vec<u8> {
    (0..len as u64).map(|n| (n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8).collect()
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect_timeout(&address, LIMIT).expect("a connection");
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream.set_write_timeout(Some(LIMIT)).unwrap();
    stream
}

/// Sends `len` bytes, has them sent back, and ends.
fn echo(address: SocketAddr, len: usize) {
    let mut stream = connect(address);
    let sent = data(len);
    let mut writer = stream.try_clone().unwrap();
    let bytes = sent.clone();
    let sender = thread::spawn(move || {
        writer.write_all(&bytes).expect("taken");
        writer.shutdown(Shutdown::Write).expect("it ends");
    });
    let mut back = Vec::with_capacity(len);
    stream.read_to_end(&mut back).expect("all of it");
    sender.join().unwrap();
    assert!(back == sent, "{} of {len} bytes, or others", back.len());
}

#[test]
fn fifty_megabytes_from_linux_come_back_over_both_versions_of_ip() {
    let ended = beside(Options::default(), Echo::default(), || {
        echo((OURS, ECHO).into(), 50_000_000);
        echo((OURS_V6, ECHO).into(), 5_000_000);
    });
    let Some(ended) = ended else { return };
    assert_eq!(ended.count("tcp_bytes_received"), 55_000_000);
    assert_eq!((ended.count("tcp_accepted"), ended.count("tcp_resets_received")), (2, 0));
}

#[test]
fn a_thousand_short_connections() {
    let ended = beside(Options::default(), Echo::default(), || {
        for n in 0..1000 {
            echo((OURS, ECHO).into(), n % 100 + 1);
        }
    });
    let Some(ended) = ended else { return };
    assert_eq!((ended.count("tcp_accepted"), ended.count("tcp_timed_out")), (1000, 0));
}

#[test]
fn plain_tcp_without_options_works_as_well() {
    let plain =
        Options { sack: false, timestamps: false, window_scale: false, ecn: false, ..Options::default() };
    beside(plain, Echo::default(), || echo((OURS, ECHO).into(), 5_000_000));
}

#[test]
fn syn_cookies_open_connections_that_linux_knows() {
    let flooded = Options { half_open: 0, ..Options::default() };
    let ended = beside(flooded, Echo::default(), || echo((OURS, ECHO).into(), 2_000_000));
    let Some(ended) = ended else { return };
    assert_eq!((ended.count("tcp_cookies_accepted"), ended.count("tcp_accepted")), (1, 1));
}

#[test]
fn datagrams_come_back_and_ports_that_nobody_has_are_told() {
    let ended = beside(Options::default(), Echo::default(), || {
        for (any, to) in
            [(SocketAddr::from((LINUX, 0)), IpAddr::from(OURS)), ((LINUX_V6, 0).into(), OURS_V6.into())]
        {
            let socket = UdpSocket::bind(any).unwrap();
            socket.set_read_timeout(Some(LIMIT)).unwrap();
            socket.connect((to, ECHO)).unwrap();
            let mut back = [0; 2000];
            for len in [0, 1, 100, 1400] {
                socket.send(&data(len)).unwrap();
                let got = socket.recv(&mut back).unwrap();
                assert_eq!(back[..got], data(len));
            }
            socket.connect((to, ECHO + 1)).unwrap();
            socket.send(b"nobody").unwrap();
            assert_eq!(socket.recv(&mut back).unwrap_err().kind(), ErrorKind::ConnectionRefused);
        }
    });
    let Some(ended) = ended else { return };
    assert_eq!((ended.count("udp_received"), ended.count("udp_sent")), (8, 8));
    assert_eq!((ended.count("rx_udp_no_port"), ended.count("tx_icmp_limit")), (2, 0));
}

/// What is longer than the link takes goes in fragments both ways, as `ping -s 4000` sends it.
#[test]
fn long_datagrams_and_pings_come_back() {
    let ended = beside(Options::default(), Echo::default(), || {
        for (any, to) in
            [(SocketAddr::from((LINUX, 0)), IpAddr::from(OURS)), ((LINUX_V6, 0).into(), OURS_V6.into())]
        {
            let socket = UdpSocket::bind(any).unwrap();
            socket.set_read_timeout(Some(LIMIT)).unwrap();
            socket.connect((to, ECHO)).unwrap();
            let mut back = vec![0; 66_000];
            for len in [1473, 8000, 65_507] {
                socket.send(&data(len)).unwrap();
                let got = socket.recv(&mut back).unwrap();
                assert!(back[..got] == data(len), "{got} of {len} bytes, or others");
            }
            for len in [56, 4000, 65_000] {
                ping::ping(to, &data(len), &mut back);
            }
        }
    });
    let Some(ended) = ended else { return };
    assert_eq!((ended.count("udp_received"), ended.count("ip_reassembled")), (6, 10));
    let lost = ended.counters.iter().filter(|counter| counter.name.starts_with("rx_ip_fragment"));
    assert_eq!(lost.map(|counter| counter.value).sum::<u64>(), 0);
}

/// Whatever an application is told of the ends of connections.
#[derive(Clone, Default)]
struct Ends {
    reasons: Arc<Mutex<Vec<Reason>>>,
    echo: Arc<Mutex<Echo>>,
}

impl Service for Ends {
    fn serve(&mut self, events: &mut Vec<Event>, stack: &mut Stack, io: &mut Io) {
        for event in events.iter() {
            if let Event::Closed { reason, .. } = event {
                self.reasons.lock().unwrap_or_else(PoisonError::into_inner).push(*reason);
            }
        }
        self.echo.lock().unwrap_or_else(PoisonError::into_inner).serve(events, stack, io);
    }
}

#[test]
fn resets_go_both_ways_and_half_closed_connections_go_on() {
    let ends = Ends::default();
    let seen = ends.reasons.clone();
    let ended = beside(Options::default(), ends, move || {
        let closed = TcpStream::connect_timeout(&(OURS, 9).into(), LIMIT).unwrap_err();
        assert_eq!(closed.kind(), ErrorKind::ConnectionRefused);
        // Linux resets what it closes with data that nobody read.
        let mut stream = connect((OURS, ECHO).into());
        stream.write_all(b"nobody reads what comes back").unwrap();
        while stream.peek(&mut [0; 8]).unwrap() == 0 {}
        drop(stream);
        // Half closed: the other half still carries what was sent before.
        let mut stream = connect((OURS, ECHO).into());
        stream.write_all(&data(100_000)).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut back = vec![];
        stream.read_to_end(&mut back).unwrap();
        assert_eq!(back.len(), 100_000);
        let begin = std::time::Instant::now();
        while seen.lock().unwrap().len() < 2 && begin.elapsed() < LIMIT {
            thread::yield_now();
        }
        assert_eq!(*seen.lock().unwrap(), [Reason::Reset, Reason::Finished]);
    });
    let Some(ended) = ended else { return };
    // Linux may reset once more what comes after its first reset.
    assert_eq!(ended.count("tcp_resets_sent"), 1);
    assert!(ended.count("tcp_resets_received") >= 1);
}

fn wait_for(is_over: &AtomicBool) {
    let begin = std::time::Instant::now();
    while !is_over.load(Ordering::Relaxed) && begin.elapsed() < LIMIT {
        thread::yield_now();
    }
}

/// Echoes what one connection to an address sends; in how many blocks it came.
fn echo_one(at: SocketAddr) -> usize {
    let (mut stream, _) = TcpListener::bind(at).unwrap().accept().unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    let (mut block, mut blocks) = (vec![0; 1 << 16], 0);
    loop {
        match stream.read(&mut block).unwrap() {
            0 => return blocks,
            len => stream.write_all(&block[..len]).unwrap(),
        }
        blocks += 1;
    }
}

/// Has bytes go to a server behind a router and come back. The router, which is Linux, and the server
/// take these commands, whose ends of the link between them are `v0` and `v1`.
fn through_router(far: SocketAddr, len: usize, router: &[String], server: &[String]) -> Option<Ended> {
    let ended = Arc::new(AtomicBool::new(false));
    let is_over = ended.clone();
    let client = Client::new(far, len, ended);
    let begins = client.begins.clone();
    begins.store(false, Ordering::Relaxed);
    let (router, server) = (router.to_vec(), server.to_vec());
    beside(Options::default(), client, move || {
        let (ready, is_ready) = std::sync::mpsc::channel();
        let (go, goes) = std::sync::mpsc::channel();
        let server = thread::spawn(move || {
            unshare(CloneFlags::CLONE_NEWNET).expect("a network namespace of the server's");
            ready.send(nix::unistd::gettid()).unwrap();
            goes.recv_timeout(LIMIT).unwrap();
            for command in [
                format!("addr add {FAR}/24 dev v1"),
                format!("addr add {FAR_V6}/64 dev v1 nodad"),
                "link set v1 up".to_owned(),
            ] {
                ip(&command);
            }
            server.iter().for_each(|command| ip(command));
            begins.store(true, Ordering::Relaxed);
            let all = echo_one(far);
            // The namespace, and what is on its way in it, ends with this thread.
            wait_for(&is_over);
            all
        });
        let server_is = is_ready.recv_timeout(LIMIT).unwrap();
        for command in [
            "link add v0 type veth peer name v1".to_owned(),
            format!("link set v1 netns /proc/{server_is}/ns/net"),
            format!("addr add {ROUTER}/24 dev v0"),
            format!("addr add {ROUTER_V6}/64 dev v0 nodad"),
            "link set v0 up".to_owned(),
        ] {
            ip(&command);
        }
        router.iter().for_each(|command| ip(command));
        for file in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
            // This thread's namespace is meant.
            std::fs::write(format!("/proc/sys/net/{file}"), "1").expect("this namespace forwards");
        }
        go.send(()).unwrap();
        assert!(server.join().expect("the server ends") > 0);
    })
}

/// A router between us and a server, whose route takes no more than 1,300 bytes: Linux tells us
/// so (RFC 1191 and 8201), for our packets must not be fragmented.
#[test]
fn a_path_that_takes_less_than_both_ends_is_found_by_what_linux_tells() {
    // Towards the server only: a device would drop long answers without a word.
    let router =
        [format!("route add {FAR}/32 dev v0 mtu 1300"), format!("-6 route add {FAR_V6}/128 dev v0 mtu 1300")];
    let server = [format!("route add default via {ROUTER}"), format!("-6 route add default via {ROUTER_V6}")];
    for far in [SocketAddr::from((FAR, 9000)), (FAR_V6, 9000).into()] {
        let Some(ended) = through_router(far, 3_000_000, &router, &server) else { return };
        assert_eq!(ended.count("tcp_bytes_received"), 3_000_000);
        assert_eq!(ended.count("tcp_path_mtu_reduced"), 1, "it was told, not guessed step by step");
    }
}

/// The server's device takes 1,430 bytes and drops longer packets without a word, and the server says
/// that it takes 1,500: 1,400 bytes arrive, 1,420 are tried, and 1,440 in vain (RFC 4821).
#[test]
fn a_path_that_drops_long_packets_without_a_word_is_searched() {
    let server = ["link set v1 mtu 1430".to_owned(), format!("route add default via {ROUTER} advmss 1460")];
    let Some(ended) = through_router((FAR, 9000).into(), 3_000_000, &[], &server) else { return };
    assert_eq!(ended.count("tcp_bytes_received"), 3_000_000);
    let [probes, raised] = ["probes", "raised"].map(|name| ended.count(&format!("tcp_path_mtu_{name}")));
    assert!(raised >= 1 && probes > raised, "{probes} were tried, {raised} arrived");
}

/// Opens a connection, sends, and checks that it comes back.
struct Client {
    to: SocketAddr,
    data: Vec<u8>,
    sent: usize,
    back: usize,
    connection: Option<Id>,
    /// Whether it may connect.
    begins: Arc<AtomicBool>,
    ended: Arc<AtomicBool>,
}

impl Client {
    fn new(to: SocketAddr, len: usize, ended: Arc<AtomicBool>) -> Client {
        let begins = Arc::new(AtomicBool::new(true));
        Client { to, data: data(len), sent: 0, back: 0, connection: None, begins, ended }
    }

    fn fill(&mut self, stack: &mut Stack, io: &mut Io) {
        let Some(id) = self.connection else { return };
        match stack.write(id, &self.data[self.sent..], io) {
            Ok(written) => self.sent += written,
            // It may have ended in the same batch.
            Err(refusal) => assert!(matches!(refusal, Refusal::Finished | Refusal::Gone)),
        }
        if self.sent == self.data.len() {
            let _ = stack.finish(id, io);
        }
    }

    fn check(&mut self, packet: Packet, stack: &mut Stack, io: &mut Io) {
        assert!(packet[..] == self.data[self.back..self.back + packet.len()], "at {}", self.back);
        self.back += packet.len();
        let id = self.connection.expect("it is open");
        // It may have ended in the same batch.
        assert!(matches!(stack.consume(id, packet.len(), io), Ok(()) | Err(Refusal::Gone)));
        io.pool.free(packet);
    }
}

impl Service for Client {
    fn begin(&mut self, stack: &mut Stack, io: &mut Io) {
        if !self.begins.load(Ordering::Relaxed) {
            return;
        }
        let own = if self.to.is_ipv4() { OURS.into() } else { OURS_V6.into() };
        self.connection = Some(stack.connect(own, (self.to.ip(), self.to.port()), io).expect("room"));
    }

    fn deadline_ns(&self) -> Option<i64> {
        self.connection.is_none().then_some(0)
    }

    fn serve(&mut self, events: &mut Vec<Event>, stack: &mut Stack, io: &mut Io) {
        if self.connection.is_none() {
            self.begin(stack, io);
        }
        for event in events.drain(..) {
            match event {
                Event::Received { packet, .. } => self.check(packet, stack, io),
                Event::Connected { .. } | Event::Sent { .. } => self.fill(stack, io),
                Event::PeerFinished { .. } => assert_eq!(self.back, self.data.len()),
                // Nobody listens yet.
                Event::Closed { reason: Reason::Reset, .. } if self.sent == 0 => self.begin(stack, io),
                Event::Closed { reason, .. } => {
                    assert_eq!(reason, Reason::Finished);
                    self.ended.store(true, Ordering::Relaxed);
                }
                Event::Timer { .. } => {}
            }
        }
    }
}

#[test]
fn we_connect_to_linux_which_sends_back_what_we_send() {
    for (own, len) in [(SocketAddr::from((LINUX, 9000)), 50_000_000), ((LINUX_V6, 9000).into(), 3_000_000)] {
        let ended = Arc::new(AtomicBool::new(false));
        let is_over = ended.clone();
        let client = Client::new(own, len, ended);
        let ended = beside(Options::default(), client, move || {
            let listener = TcpListener::bind(own).unwrap();
            let (mut stream, _) = listener.accept().unwrap();
            stream.set_read_timeout(Some(LIMIT)).unwrap();
            let (mut block, mut all) = (vec![0; 1 << 16], 0);
            loop {
                match stream.read(&mut block).unwrap() {
                    0 => break,
                    len => stream.write_all(&block[..len]).unwrap(),
                }
                all += 1;
            }
            assert!(all > 0);
            drop(stream);
            wait_for(&is_over);
        });
        let Some(ended) = ended else { return };
        assert_eq!(ended.count("tcp_bytes_acknowledged"), len as u64);
        assert_eq!((ended.count("tcp_connected"), ended.count("tcp_bytes_received")), (1, len as u64));
    }
}
