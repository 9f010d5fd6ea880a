//! Each example as a user runs it: on two models, where it talks to itself, and over a TAP
//! interface beside Linux's own sockets, in a network namespace, which needs root.
#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::sched::{CloneFlags, unshare};

const LIMIT: Duration = Duration::from_secs(90);
const LINUX: &str = "10.66.0.1";
const OURS: &str = "10.66.0.2";

/// An example's program, which `cargo test` builds.
fn program(name: &str) -> PathBuf {
    let here = std::env::current_exe().unwrap();
    let program = here.parent().unwrap().parent().unwrap().join("examples").join(name);
    assert!(program.exists(), "{} is not built: use `cargo test` without --test", program.display());
    program
}

/// An example that runs.
struct Example(Child);

impl Example {
    fn start(name: &str, arguments: &[&str]) -> Example {
        let mut command = Command::new(program(name));
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Example(command.spawn().unwrap())
    }

    /// Waits for a line that begins so.
    fn await_line(&mut self, begin: &str) {
        let mut lines = BufReader::new(self.0.stdout.as_mut().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().starts_with(begin)), "it says {begin:?}");
    }

    /// Ends its standard input and waits for its end, which must be a good one.
    fn passes(mut self) {
        drop(self.0.stdin.take());
        let end = Instant::now() + LIMIT;
        let status = loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < end, "it ends within {LIMIT:?}");
            thread::sleep(Duration::from_millis(10));
        };
        let (mut said, mut failed) = (String::new(), String::new());
        self.0.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        self.0.stderr.take().unwrap().read_to_string(&mut failed).unwrap();
        assert!(status.success() && said.ends_with("passed\n"), "{status}: {said}{failed}");
        assert_eq!(failed, "");
    }
}

impl Drop for Example {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// One after the other: each keeps three threads busy.
#[test]
fn each_example_passes_on_two_models() {
    for name in ["echo", "kv", "http", "proxy", "client", "tls"] {
        println!("{name}");
        Example::start(name, &[]).passes();
    }
}

/// Runs `test` beside an example at the other end of a TAP interface, in a namespace of its own,
/// where `prepare` has been before.
fn beside<T: 'static>(
    name: &'static str,
    more: &'static [&'static str],
    prepare: impl FnOnce() -> T + Send + 'static,
    test: impl FnOnce(T) + Send + 'static,
) {
    let run = move || {
        if let Err(errno) = unshare(CloneFlags::CLONE_NEWNET) {
            let must = std::env::var("CI").is_ok_and(|ci| ci == "true" || ci == "1");
            assert!(!must, "CI is set, but a network namespace needs CAP_SYS_ADMIN: {errno}");
            return println!("passed over: a network namespace needs CAP_SYS_ADMIN ({errno})");
        }
        ip("tuntap add mode tap name t0");
        ip(&format!("addr add {LINUX}/24 dev t0"));
        ip("link set t0 up");
        let prepared = prepare();
        let own = format!("{OURS}/24");
        let mut example = Example::start(name, &[&["tap:t0", &own], more].concat());
        if name != "client" {
            example.await_line("serving");
        }
        test(prepared);
        example.passes();
    };
    if let Err(panic) = thread::spawn(run).join() {
        std::panic::resume_unwind(panic);
    }
}

fn ip(arguments: &str) {
    let status = Command::new("ip").args(arguments.split(' ')).status().expect("iproute2 is installed");
    assert!(status.success(), "ip {arguments}");
}

fn connect(port: u16) -> TcpStream {
    let to: SocketAddr = format!("{OURS}:{port}").parse().unwrap();
    let stream = TcpStream::connect_timeout(&to, LIMIT).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream.set_write_timeout(Some(LIMIT)).unwrap();
    stream
}

/// Sends all of it, and what comes back until the end.
fn exchange(port: u16, sent: &[u8]) -> Vec<u8> {
    let stream = connect(port);
    let mut back = Vec::new();
    thread::scope(|scope| {
        scope.spawn(|| {
            (&stream).write_all(sent).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
        });
        (&stream).read_to_end(&mut back).unwrap();
    });
    back
}

fn data(len: usize) -> Vec<u8> {
    (0..len as u64).map(|n| (n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8).collect()
}

/// A server of Linux's that sends back each of so many connections, changed.
fn server(port: u16, connections: usize, change: fn(&mut [u8])) -> thread::JoinHandle<()> {
    let listener = TcpListener::bind(format!("{LINUX}:{port}")).unwrap();
    thread::spawn(move || {
        let serve = |mut stream: TcpStream| {
            let mut block = vec![0; 1 << 16];
            loop {
                match stream.read(&mut block).unwrap() {
                    0 => return,
                    len => {
                        change(&mut block[..len]);
                        stream.write_all(&block[..len]).unwrap();
                    }
                }
            }
        };
        thread::scope(|scope| {
            for _ in 0..connections {
                let (stream, _) = listener.accept().unwrap();
                scope.spawn(move || serve(stream));
            }
        });
    })
}

#[test]
fn echo_sends_back_to_linux_what_it_sends() {
    beside(
        "echo",
        &[],
        || (),
        |()| {
            for len in [1, 5_000_000] {
                assert!(exchange(7, &data(len)) == data(len));
            }
        },
    );
}

#[test]
fn kv_keeps_what_linux_stores_and_refuses_long_lines() {
    beside(
        "kv",
        &[],
        || (),
        |()| {
            assert_eq!(exchange(6400, b"SET k v\nGET k\n"), b"OK\r\nVALUE v\r\n");
            assert_eq!(exchange(6400, b"GET k\nGET v\nGET\n"), b"VALUE v\r\nNONE\r\nERROR\r\n");
            assert_eq!(exchange(6400, &[b'x'; 1025]), b"ERROR too long\r\n");
        },
    );
}

#[test]
fn http_answers_linux_and_refuses_what_is_no_request() {
    beside(
        "http",
        &[],
        || (),
        |()| {
            let answer = String::from_utf8(exchange(80, b"GET /there HTTP/1.1\r\nHost: x\r\n\r\n")).unwrap();
            assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
            assert!(answer.contains("Content-Length: 21\r\n"), "{answer}");
            assert!(answer.ends_with("\r\n\r\nyou asked for /there\n"), "{answer}");
            let answer = String::from_utf8(exchange(80, b"nonsense\r\n\r\n")).unwrap();
            assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
        },
    );
}

#[test]
fn proxy_carries_connections_of_linux_to_linux() {
    // The end of each half is carried too: the server ends when it has read the client's.
    let server = || server(9000, 4, |bytes| bytes.iter_mut().for_each(|byte| *byte ^= 0x55));
    beside("proxy", &["10.66.0.1:9000"], server, |server| {
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let back = exchange(8080, &data(1_000_000));
                    assert!(back.iter().zip(data(1_000_000)).all(|(got, sent)| *got == sent ^ 0x55));
                    assert_eq!(back.len(), 1_000_000);
                });
            }
        });
        server.join().unwrap();
    });
}

#[test]
fn client_has_its_answers_from_linux() {
    let server = || server(7000, 16, |_| {});
    beside("client", &["10.66.0.1:7000"], server, |server| server.join().unwrap());
}

/// OpenSSL is the second implementation: it checks the certificate, and has a line answered by
/// each version of TLS.
#[test]
fn tls_is_spoken_with_openssl() {
    if Command::new("openssl").arg("version").output().is_err() {
        return println!("passed over: openssl is not installed");
    }
    let certificate = tempfile::NamedTempFile::new().unwrap();
    let path: &'static str = certificate.path().to_str().unwrap().to_owned().leak();
    let more: &'static [&'static str] = vec![path].leak();
    beside(
        "tls",
        more,
        || (),
        |()| {
            for version in ["-tls1_3", "-tls1_2"] {
                speak(version, path);
            }
        },
    );
}

/// A line and its answer by OpenSSL's client.
fn speak(version: &str, certificate: &str) {
    let mut command = Command::new("openssl");
    command.args(["s_client", version, "-connect", "10.66.0.2:443", "-CAstore", certificate]);
    command.args(["-verify_return_error", "-verify_hostname", "ixora.example"]);
    let mut client =
        Example(command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    client.0.stdin.as_mut().unwrap().write_all(b"said by openssl\n").unwrap();
    let lines = BufReader::new(client.0.stdout.as_mut().unwrap()).lines().map_while(Result::ok);
    let mut said = Vec::new();
    for line in lines {
        said.push(line);
        if said.last().is_some_and(|line| line == "SAID BY OPENSSL") {
            break;
        }
    }
    drop(client.0.stdin.take()); // which ends it
    let status = client.0.wait().unwrap();
    let mut errors = String::new();
    client.0.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
    let has = |text: &str| said.iter().any(|line| line.starts_with(text));
    let name = version.trim_start_matches("-tls").replace('_', ".");
    assert!(has("SAID BY OPENSSL") && has(&format!("New, TLSv{name}, ")), "{said:#?}{errors}");
    assert!(has("Verification: OK") || has("Verify return code: 0 (ok)"), "{said:#?}{errors}");
    assert!(status.success(), "{status}: {errors}");
}
