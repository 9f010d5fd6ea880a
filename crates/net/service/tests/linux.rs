//! A host of ours with a service, and Linux's own clients at the other end of a TAP interface,
//! in a network namespace of its own: needs root, and never touches the machine's interfaces.
#![allow(clippy::unwrap_used)]

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use interface::tap::TapPort;
use memory::{Backing, Batch, Dma, Pool};
use nix::sched::{CloneFlags, unshare};
use port::{Counter, Port};
use runtime::{Instant, Poller};
use service::http::Files;
use service::memcached::Limits;
use service::{Http, Memcached, Protocol, Server};
use tcp::{Addresses, Host, Neighbors, Options};

const LINUX: Ipv4Addr = Ipv4Addr::new(10, 67, 0, 1);
const OURS: Ipv4Addr = Ipv4Addr::new(10, 67, 0, 2);
const PORT: u16 = 8080;
const LIMIT: Duration = Duration::from_secs(60);

/// What a host counted.
struct Ended(Vec<Counter>);

impl Ended {
    fn count(&self, name: &str) -> u64 {
        self.0.iter().find(|counter| counter.name == name).expect("a counter").value
    }
}

/// Runs `test` beside a host of ours with a protocol, in a namespace of its own.
fn beside(protocol: impl Protocol + 'static, test: impl FnOnce() + Send + 'static) -> Option<Ended> {
    let run = move || {
        if let Err(errno) = unshare(CloneFlags::CLONE_NEWNET) {
            let must = std::env::var("CI").is_ok_and(|ci| ci == "true" || ci == "1");
            assert!(!must, "CI is set, but a network namespace needs CAP_SYS_ADMIN: {errno}");
            println!("passed over: a network namespace needs CAP_SYS_ADMIN ({errno})");
            return None;
        }
        let mut port = TapPort::open("t0", &port::Options::default()).expect("a TAP interface");
        let address = ["addr", "add", &format!("{LINUX}/24"), "dev", "t0"];
        assert!(Command::new("ip").args(address).status().expect("iproute2 is installed").success());
        let stop = Arc::new(AtomicBool::new(false));
        let ends = stop.clone();
        let queues = (port.rx_queue(0).unwrap(), port.tx_queue(0).unwrap());
        let mac = wire::MacAddress(port.mac());
        let addresses = Addresses { mac, v4: Some((OURS, 24)), v6: None, gateways: (None, None) };
        let host = thread::spawn(move || {
            let options = Options { key: [1, 2], ..Options::default() };
            let mut server = Server::new(protocol, 16 << 20);
            let report = tcp::Report::default();
            server.report_to(&report);
            let server = Box::new(server);
            let mut host = Host::new(queues, addresses, &Neighbors::default(), options, server, 8192);
            host.report_to(&report);
            host.stack().listen(PORT);
            let dma = Dma::new(memory::Options { backing: Backing::Memfd, numa_node: None });
            let mut pool = Pool::new(&dma, 16_384).expect("memory");
            let mut batch = Batch::with_limit(64);
            while !ends.load(Ordering::Relaxed) {
                if host.turn(Instant::now(), &mut pool, &mut batch) == 0 {
                    thread::yield_now();
                }
            }
            drop(host);
            assert_eq!(pool.capacity(), pool.available(), "buffers that did not come back");
            Ended(std::mem::take(&mut *report.lock().unwrap()))
        });
        let tested = std::panic::catch_unwind(std::panic::AssertUnwindSafe(test));
        stop.store(true, Ordering::Relaxed);
        let ended = host.join().expect("the host does not panic");
        if let Err(panic) = tested {
            ended.0.iter().filter(|it| it.value > 0).for_each(|it| eprintln!("{} {}", it.name, it.value));
            std::panic::resume_unwind(panic);
        }
        Some(ended)
    };
    match thread::spawn(run).join() {
        Ok(ended) => ended,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

fn connect() -> TcpStream {
    let stream = TcpStream::connect_timeout(&(OURS, PORT).into(), LIMIT).expect("a connection");
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream.set_write_timeout(Some(LIMIT)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// Sends a request, and expects an answer of the same length, and the same.
fn ask(stream: &mut TcpStream, request: &[u8], answer: &[u8]) {
    stream.write_all(request).expect("taken");
    let mut came = vec![0; answer.len()];
    stream.read_exact(&mut came).expect("an answer");
    assert!(came == answer, "{:?}", String::from_utf8_lossy(&came[..came.len().min(200)]));
}

fn cache() -> Memcached {
    Memcached::servers(Limits::default(), 1_700_000_000).pop().unwrap()
}

#[test]
fn a_cache_answers_a_client_of_linux() {
    let ended = beside(cache(), || {
        let mut one = connect();
        let mut other = connect();
        ask(&mut one, b"set a 5 0 3\r\nxyz\r\n", b"STORED\r\n");
        ask(&mut other, b"get a b\r\n", b"VALUE a 5 3\r\nxyz\r\nEND\r\n");
        // Cut in the middle of a line and of a value.
        one.write_all(b"set b 0 0 6\r").unwrap();
        ask(&mut other, b"incr c 1\r\n", b"NOT_FOUND\r\n");
        one.write_all(b"\n123").unwrap();
        ask(&mut other, b"set c 0 0 1\r\n1\r\nincr c 1\r\n", b"STORED\r\n2\r\n");
        ask(&mut one, b"456\r\nget b\r\n", b"STORED\r\nVALUE b 0 6\r\n123456\r\nEND\r\n");
        one.write_all(b"quit\r\n").unwrap();
        assert_eq!(one.read(&mut [0; 8]).unwrap(), 0);
    });
    let Some(ended) = ended else { return };
    assert_eq!((ended.count("memcached_get_hits"), ended.count("memcached_get_misses")), (2, 1));
    assert_eq!((ended.count("tcp_accepted"), ended.count("tcp_resets_sent")), (2, 0));
}

#[test]
fn a_client_that_asks_for_much_and_reads_late_gets_all_of_it() {
    const LEN: usize = 900_000;
    const ANSWERS: usize = 60;
    let ended = beside(cache(), || {
        let value: Vec<u8> = (0..LEN).map(|n| ((n * 31) >> 3) as u8).collect();
        let mut one = connect();
        let head = format!("set big 0 0 {LEN}\r\n");
        ask(&mut one, &[head.as_bytes(), &value, b"\r\n"].concat(), b"STORED\r\n");
        // Far more than buffers hold, asked for at once, while another replaces it.
        let requests = "get big\r\n".repeat(ANSWERS);
        one.write_all(requests.as_bytes()).unwrap();
        thread::sleep(Duration::from_millis(200));
        ask(
            &mut connect(),
            b"version\r\nset other 0 0 1\r\nx\r\n",
            b"VERSION 1.6.18-ixora-0.1.0\r\nSTORED\r\n",
        );
        let answer = [format!("VALUE big 0 {LEN}\r\n").as_bytes(), &value, b"\r\nEND\r\n"].concat();
        (0..ANSWERS).for_each(|_| ask(&mut one, b"", &answer));
    });
    let Some(ended) = ended else { return };
    assert_eq!((ended.count("memcached_get_hits"), ended.count("service_aborted")), (ANSWERS as u64, 0));
}

/// What `curl` wrote for these arguments.
fn curl(arguments: &[&str]) -> String {
    let output = Command::new("curl").args(["-sS", "--max-time", "30"]).args(arguments).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "curl {arguments:?}: {error}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn files_are_served_to_curl() {
    if Command::new("curl").arg("--version").output().is_err() {
        println!("passed over: there is no curl");
        return;
    }
    let root = tempfile::tempdir().unwrap();
    let large: Vec<u8> = (0..3_000_000).map(|n: u32| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    std::fs::write(root.path().join("large.bin"), &large).unwrap();
    std::fs::write(root.path().join("index.html"), "hello").unwrap();
    let files = Arc::new(Files::read(root.path(), 1 << 30).unwrap());
    let ended = beside(Http::new(files, 1_700_000_000), move || {
        let url = |path: &str| format!("http://{OURS}:{PORT}{path}");
        let to = root.path().join("fetched");
        let told =
            curl(&[&url("/large.bin"), "-o", to.to_str().unwrap(), "-w", "%{http_code} %{num_connects}"]);
        assert_eq!(told, "200 1");
        assert!(std::fs::read(&to).unwrap() == large);
        // Two files on one connection, a range, a condition, and what there is not.
        let two = curl(&[&url("/"), &url("/index.html"), "-w", " %{num_connects} "]);
        assert_eq!(two, "hello 1 hello 0 ");
        assert_eq!(curl(&[&url("/"), "-r", "1-2", "-w", " %{http_code}"]), "el 206");
        let tag =
            curl(&["-I", &url("/")]).lines().find_map(|line| line.strip_prefix("ETag: ").map(str::to_owned));
        let known = format!("If-None-Match: {}", tag.unwrap());
        assert_eq!(curl(&[&url("/"), "-H", &known, "-w", "%{http_code}"]), "304");
        assert_eq!(curl(&[&url("/nothing"), "-w", "%{http_code}"]), "404 Not Found\n404");
        assert_eq!(curl(&[&url("/"), "-0", "-w", " %{http_version}"]), "hello 1.1");
        // Refused before any of it is sent, and while it is being sent.
        let upload = ["-T", to.to_str().unwrap(), &url("/x"), "-o", "/dev/null", "-w", "%{http_code}"];
        assert_eq!(curl(&upload), "405");
        assert_eq!(curl(&[&upload[..], &["-H", "Expect:"]].concat()), "413");
        // Many requests in a row before any answer is read.
        let mut stream = connect();
        let requests = "GET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(500) + "GET / HTTP/1.0\r\n\r\n";
        stream.write_all(requests.as_bytes()).unwrap();
        let mut all = String::new();
        stream.read_to_string(&mut all).unwrap();
        assert_eq!(all.matches("HTTP/1.1 200 OK").count(), 501);
    });
    let Some(ended) = ended else { return };
    assert_eq!((ended.count("http_not_modified"), ended.count("http_refused")), (1, 1));
}
