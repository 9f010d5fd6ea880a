//! Looking at a router that runs: `-u`, `-p`, `--metrics`, and `ixora top`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::output;

/// A router with a control socket.
struct Router {
    child: Child,
    socket: PathBuf,
    _folder: tempfile::TempDir,
}

impl Drop for Router {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const CONFIG: &str = "RatedSource(DATA \\<00 11 22 33>, RATE 2000) -> c :: Counter -> t :: Tee;
    t[0] -> s :: CheckLength(3) -> Discard; t[1] -> d :: Discard;";

impl Router {
    fn start(more: &[&str]) -> Router {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("control");
        let mut command = Command::new(env!("CARGO_BIN_EXE_ixora"));
        command.args(["click", "-e", CONFIG, "-u"]).arg(&socket).args(more).stdout(Stdio::null());
        let router = Router { child: command.spawn().expect("it runs"), socket, _folder: folder };
        let start = Instant::now();
        while UnixStream::connect(&router.socket).is_err() {
            assert!(start.elapsed() < Duration::from_secs(20), "no control socket");
            std::thread::sleep(Duration::from_millis(20));
        }
        router
    }

    fn client(&self) -> BufReader<UnixStream> {
        let stream = UnixStream::connect(&self.socket).expect("a control socket");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
        let mut client = BufReader::new(stream);
        assert_eq!(line(&mut client), "Click::ControlSocket/1.3\r\n");
        client
    }

    fn read(&self, handler: &str) -> String {
        let mut client = self.client();
        write!(client.get_mut(), "READ {handler}\r\n").expect("sent");
        assert!(line(&mut client).starts_with("200"), "{handler}");
        let length = line(&mut client).trim_start_matches("DATA ").trim().parse().expect("a length");
        let mut data = vec![0; length];
        client.read_exact(&mut data).expect("data");
        String::from_utf8(data).expect("text")
    }
}

fn line(client: &mut impl BufRead) -> String {
    let mut line = String::new();
    client.read_line(&mut line).expect("an answer");
    line
}

/// A connection whose answer has a limit.
fn connected(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).expect("metrics");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a limit");
    stream.set_write_timeout(Some(Duration::from_secs(20))).expect("a limit");
    stream
}

fn top(arguments: &[&str]) -> Output {
    let mut all = vec!["top"];
    all.extend(arguments);
    output(Command::new(env!("CARGO_BIN_EXE_ixora")).args(all))
}

fn element<'a>(all: &'a Value, name: &str) -> &'a Value {
    let elements = all["elements"].as_array().expect("elements");
    elements.iter().find(|e| e["name"] == name).unwrap_or_else(|| panic!("{name}: {all}"))
}

#[test]
fn top_tells_rates_and_drops_and_leaves_no_trace() {
    let router = Router::start(&[]);
    let socket = router.socket.to_string_lossy().into_owned();
    assert_eq!(router.read("measure"), "false");
    let out = top(&[&socket, "--once", "--json", "--interval", "700ms"]);
    let all: Value = serde_json::from_slice(&out.stdout).unwrap_or_else(|e| panic!("{e}: {out:?}"));
    let rate = element(&all, "c")["packets_per_second"].as_f64().expect("a rate");
    assert!((1500.0..2600.0).contains(&rate), "{all}");
    let dropped = element(&all, "s")["drops"]["too long"]["per_second"].as_f64().expect("drops");
    assert!((1500.0..2600.0).contains(&dropped), "{all}");
    assert!(all["measured"] == true && all["tsc_hz"].as_f64() > Some(1e6), "{all}");
    // What happens in a time is measured as such: batches, cycles, parts of a core.
    let number = |name: &str, what: &str| element(&all, name)[what].as_f64().unwrap_or(-1.0);
    for name in ["c", "t", "s"] {
        assert!((1.0..=256.0).contains(&number(name, "packets_per_batch")), "{name}: {all}");
    }
    // Where a busy machine gave it too few turns, nothing is told.
    let core = |name: &&str| element(&all, name)["core"].as_f64();
    let cores: Vec<f64> = ["c", "t", "s", "d"].iter().filter_map(core).collect();
    assert!(cores.iter().all(|core| (0.0..1.5).contains(core)), "{all}");
    let cores: f64 = cores.iter().sum();
    assert!(cores > 0.0 && cores < 2.0, "{all}");
    assert!(number("t", "cycles_per_packet") > 1.0, "a copy takes some: {all}");
    assert_eq!(router.read("measure"), "false", "as it was before");
    let out = top(&[&socket, "--once", "--interval", "200ms", "--sort", "drops"]);
    let table = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(
        table.lines().nth(2).is_some_and(|row| row.starts_with("s ") && row.contains("too long")),
        "{table}"
    );
}

#[test]
fn metrics_are_served_and_read() {
    let router = Router::start(&["--metrics=0"]);
    let port = router.read("click_driver@@Metrics.port");
    std::thread::sleep(Duration::from_millis(500)); // one turn in 64 is timed
    let mut stream = connected(&format!("127.0.0.1:{port}"));
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("sent");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    for series in ["packets", "batches", "cycles"] {
        let wanted = format!("ixora_element_{series}_total{{element=\"c\",class=\"Counter\"}} ");
        let value =
            text.lines().find_map(|line| line.strip_prefix(&wanted)).and_then(|n| n.parse::<u64>().ok());
        assert!(value > Some(0), "{series}: {text}");
    }
    let dropped = "ixora_element_drops_total{element=\"s\",class=\"CheckLength\",reason=\"too long\"} ";
    let dropped =
        text.lines().find_map(|line| line.strip_prefix(dropped)).and_then(|n| n.parse::<u64>().ok());
    assert!(dropped > Some(0), "{text}");
    assert!(
        text.contains("# TYPE ixora_element_drops_total counter") && text.contains("ixora_threads 1\n"),
        "{text}"
    );
    let out = top(&[&format!("http://127.0.0.1:{port}"), "--once", "--json", "--interval", "500ms"]);
    let all: Value = serde_json::from_slice(&out.stdout).unwrap_or_else(|e| panic!("{e}: {out:?}"));
    let rate = element(&all, "d")["packets_per_second"].as_f64().expect("a rate");
    assert!((1300.0..2800.0).contains(&rate), "{all}");
}

#[test]
fn slow_and_senseless_http_clients_are_let_go() {
    let router = Router::start(&["--metrics=0"]);
    let address = format!("127.0.0.1:{}", router.read("click_driver@@Metrics.port"));
    let mut slow = connected(&address);
    slow.write_all(b"GET /metr").expect("sent");
    let mut endless = connected(&address);
    let _ = endless.write_all(&vec![b'x'; 100_000]); // it may have been let go amid
    let mut answer = vec![];
    let _ = endless.read_to_end(&mut answer);
    assert!(String::from_utf8_lossy(&answer).starts_with("HTTP/1.1 400"), "{answer:?}");
    let crowd: Vec<_> = (0..100).map(|_| TcpStream::connect(&address)).collect();
    let mut good = connected(&address);
    good.write_all(b"HEAD /metrics HTTP/1.0\r\n\r\n").expect("sent");
    let mut text = String::new();
    good.read_to_string(&mut text).expect("an answer");
    assert!(text.starts_with("HTTP/1.1 200 OK\r\n") && text.ends_with("\r\n\r\n"), "{text}");
    assert!(
        router.read("click_driver@@Metrics.clients").contains("crowded 3"),
        "more than there is room for"
    );
    drop((crowd, slow));
}

#[test]
fn a_port_that_is_taken_is_said_and_a_near_one_will_do() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("it is bound").port();
    let run = |place: &str| {
        let config = "Idle -> Discard; Script(wait 0.1s, stop)";
        let name = "click_driver@@ControlSocket.port";
        let mut command = Command::new(env!("CARGO_BIN_EXE_ixora"));
        output(command.args(["click", "-p", place, "-e", config, "-h", name]))
    };
    let out = run(&port.to_string());
    assert_eq!(out.status.code(), Some(1));
    let said = format!("Address already in use: 127.0.0.1:{port}");
    assert!(String::from_utf8_lossy(&out.stderr).contains(&said), "{out:?}");
    let out = run(&format!("{port}+"));
    let near: u16 = String::from_utf8_lossy(&out.stdout).trim().parse().expect("a port");
    assert!(near > port && near <= port + 10, "{near} is not near {port}");
    let out = run(&format!("127.0.0.2:{port}"));
    assert_eq!(String::from_utf8_lossy(&out.stdout).trim(), port.to_string(), "another address: {out:?}");
}

#[test]
fn a_socket_is_its_owners_and_goes_with_the_router() {
    use std::os::unix::fs::PermissionsExt;
    let router = Router::start(&[]);
    let mode = std::fs::metadata(&router.socket).expect("a socket").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    // One that a killed router left is in nobody's way.
    let socket = router.socket.clone();
    let folder = router.socket.parent().expect("a folder").to_path_buf();
    let kept = folder.join("kept");
    let left = std::os::unix::net::UnixListener::bind(&kept).expect("a socket");
    drop(left);
    let run = |path: &PathBuf| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ixora"));
        command.arg("click").arg("-u").arg(path).args(["-e", "Idle -> Discard; Script(wait 0.1s, stop)"]);
        output(&mut command)
    };
    let out = run(&kept);
    assert!(!String::from_utf8_lossy(&out.stderr).contains("in use"), "{out:?}");
    assert!(!kept.exists(), "taken away in the end");
    let out = run(&socket);
    assert!(String::from_utf8_lossy(&out.stderr).contains("in use"), "somebody listens there: {out:?}");
}

#[test]
fn top_says_what_it_does_not_find() {
    let out = top(&["/nowhere/socket", "--once"]);
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.status.code() == Some(1) && said.contains("ixora click -p 7777"), "{said}");
    let long = format!("/tmp/{}", "x".repeat(116));
    let out = top(&[&long, "--once"]);
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(said.contains("at most 107 bytes, this one has 121") && !said.contains("ixora click"), "{said}");
}

#[test]
fn clients_stay_when_a_configuration_takes_the_place_of_another() {
    let router = Router::start(&["-R", "--metrics=0"]);
    let port = router.read("click_driver@@Metrics.port");
    let mut client = router.client();
    let next = "RatedSource(RATE 500) -> c :: Counter -> e :: Discard;";
    write!(client.get_mut(), "WRITEDATA hotconfig {}\r\n{next}", next.len()).expect("sent");
    assert!(line(&mut client).starts_with("200"), "it is taken");
    let start = Instant::now();
    loop {
        write!(client.get_mut(), "READ e.class\r\n").expect("the same connection");
        if line(&mut client).starts_with("200") {
            break;
        }
        assert!(start.elapsed() < Duration::from_secs(20), "the new router does not answer");
        std::thread::sleep(Duration::from_millis(20));
    }
    let mut stream = connected(&format!("127.0.0.1:{port}"));
    stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").expect("sent");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    assert!(text.contains("element=\"e\""), "at the same port: {text}");
    // A broken one is refused, and the client told what is wrong with it.
    let mut client = router.client();
    write!(client.get_mut(), "WRITE hotconfig Idle -> Cuonter -> Discard\r\n").expect("sent");
    assert!(line(&mut client).starts_with("520-"), "it is refused");
    assert!(line(&mut client).contains("Cuonter"));
}

#[test]
fn a_client_that_only_sends_costs_no_memory() {
    let router = Router::start(&[]);
    let mut client = router.client();
    client.get_mut().set_nonblocking(true).expect("a socket");
    let (start, chunk, mut sent) = (Instant::now(), [b'\n'; 1 << 16], 0);
    while start.elapsed() < Duration::from_secs(1) {
        match client.get_mut().write(&chunk) {
            Ok(length) => sent += length,
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
    // What was not answered yet waits in the socket, which is small.
    let status = std::fs::read_to_string(format!("/proc/{}/status", router.child.id())).expect("a process");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("its memory");
    let kib: u64 = peak.trim().trim_end_matches(" kB").parse().expect("a number");
    assert!(kib < 300_000, "{kib} KiB after {sent} bytes");
    assert_eq!(router.read("c.class"), "Counter", "and others are served");
}

/// A terminal that a program runs on.
struct Terminal {
    ours: std::fs::File,
    theirs: rustix::fd::OwnedFd,
    seen: Vec<u8>,
}

impl Terminal {
    fn new() -> Terminal {
        use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        grantpt(&ours).and_then(|()| unlockpt(&ours)).expect("it is ours");
        let name = ptsname(&ours, vec![]).expect("a name");
        let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY;
        let theirs = rustix::fs::open(name, flags, rustix::fs::Mode::empty()).expect("its other end");
        let size = rustix::termios::Winsize { ws_row: 10, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 };
        rustix::termios::tcsetwinsize(&theirs, size).expect("a size");
        rustix::io::ioctl_fionbio(&ours, true).expect("it does not wait");
        Terminal { ours: ours.into(), theirs, seen: vec![] }
    }

    fn stdio(&self) -> Stdio {
        self.theirs.try_clone().expect("a descriptor").into()
    }

    fn settings(&self) -> rustix::termios::LocalModes {
        rustix::termios::tcgetattr(&self.theirs).expect("its settings").local_modes
    }

    /// Reads what the program shows until it has shown this.
    fn until(&mut self, text: &str) {
        let start = Instant::now();
        while !String::from_utf8_lossy(&self.seen).contains(text) {
            assert!(
                start.elapsed() < Duration::from_secs(20),
                "{text}: {}",
                String::from_utf8_lossy(&self.seen)
            );
            let mut bytes = [0; 4096];
            match self.ours.read(&mut bytes) {
                Ok(count) => self.seen.extend(&bytes[..count]),
                Err(_) => std::thread::sleep(Duration::from_millis(10)),
            }
        }
        self.seen.clear();
    }
}

/// The live view; killed when dropped.
struct View(Child);

impl Drop for View {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_live_view_takes_keys_and_gives_the_terminal_back() {
    let router = Router::start(&[]);
    let mut terminal = Terminal::new();
    let before = terminal.settings();
    let mut command = Command::new(env!("CARGO_BIN_EXE_ixora"));
    command.arg("top").arg(&router.socket).args(["--interval", "200ms"]);
    command.stdin(terminal.stdio()).stdout(terminal.stdio()).stderr(terminal.stdio());
    let mut view = View(command.spawn().expect("it runs"));
    terminal.until("ELEMENT");
    assert_ne!(terminal.settings(), before, "keys come one by one");
    terminal.until("by graph");
    terminal.ours.write_all(b"s").expect("a key");
    terminal.until("by packets");
    terminal.ours.write_all(b"\x1b[B ").expect("keys");
    terminal.until("paused");
    terminal.ours.write_all(b"q").expect("a key");
    terminal.until("\x1b[?1049l");
    let mut status = None;
    crate::common::until("end of the view", || {
        status = view.0.try_wait().expect("a child of ours");
        status.is_some()
    });
    assert!(status.is_some_and(|status| status.success()), "{status:?}");
    assert_eq!(terminal.settings(), before);
}
