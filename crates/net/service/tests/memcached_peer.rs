//! Debian's memcached beside ours: the same requests, the same answers. Its package is fetched;
//! `IXORA_OFFLINE=1` leaves the tests out where no registry is to be asked.
#![allow(clippy::unwrap_used)]

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use lab::packages::{Packages, Suite, Tree};
use service::memcached::{Limits, Session};
use service::{Buffer, Memcached, Output, Protocol};

/// How long memcached may take to start, and to answer.
const LIMIT: Duration = Duration::from_secs(20);
/// What is asked behind each request: the first may be taken for the rest of a value, the second
/// tells where the answer ends.
const MARK: &[u8] = b"mn\r\nversion\r\n";
const MARKED: &[u8] = b"VERSION ";

/// Debian's package, unpacked beside the system; `None` where the user said that no registry is to
/// be asked.
fn memcached() -> Option<Tree> {
    match Packages::open().and_then(|packages| packages.tree(&["memcached"], Suite::BOOKWORM)) {
        Ok(tree) => Some(tree),
        Err(why) if std::env::var_os("IXORA_OFFLINE").is_some() => {
            println!("passed over: {why}");
            None
        }
        Err(why) => panic!("no memcached: {why}; IXORA_OFFLINE=1 leaves this test out"),
    }
}

/// A running memcached.
struct Peer {
    child: Child,
    address: SocketAddr,
    stream: Option<TcpStream>,
}

impl Drop for Peer {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Peer {
    /// Starts one; `None` where no registry is to be asked.
    fn start(options: &[&str]) -> Option<Peer> {
        let tree = memcached()?;
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let port = address.port().to_string();
        let mut command = tree.command("usr/bin/memcached").unwrap();
        command.args(["-p", &port, "-U", "0", "-l", "127.0.0.1", "-u", "root", "-t", "1"]).args(options);
        let child = command.stderr(Stdio::null()).spawn().unwrap();
        Some(Peer { child, address, stream: None })
    }

    fn connect(&mut self) -> TcpStream {
        let begin = Instant::now();
        loop {
            match TcpStream::connect(self.address) {
                Ok(stream) => {
                    stream.set_read_timeout(Some(LIMIT)).unwrap();
                    return stream;
                }
                Err(error) => assert!(begin.elapsed() < LIMIT, "memcached takes no connection: {error}"),
            }
            thread::yield_now();
        }
    }

    /// The answer to a request with a mark behind it, and whether the connection has ended.
    fn ask(&mut self, request: &[u8]) -> (Vec<u8>, bool) {
        let mut stream = self.stream.take().unwrap_or_else(|| self.connect());
        // Who has ended the connection takes no more.
        drop(stream.write_all(request));
        let mut answer = Vec::new();
        let mut bytes = [0; 4096];
        while !is_marked(&answer) {
            match stream.read(&mut bytes) {
                Ok(0) => return (answer, true),
                Ok(count) => answer.extend_from_slice(&bytes[..count]),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return (answer, true),
                Err(error) => panic!("{:?}: {error}, {:?}", text(request), text(&answer)),
            }
        }
        self.stream = Some(stream);
        (unmarked(answer), false)
    }
}

/// Our own server, asked in the same process.
struct Ours {
    server: Memcached,
    session: Session,
}

impl Ours {
    fn start() -> Ours {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let server = Memcached::servers(Limits::default(), now.as_secs().cast_signed()).pop().unwrap();
        Ours { server, session: Session::default() }
    }

    fn ask(&mut self, request: &[u8]) -> (Vec<u8>, bool) {
        let (mut rest, mut output) = (request, Buffer::default());
        loop {
            output.room = usize::MAX;
            let taken = self.server.take(&mut self.session, rest, &mut output);
            rest = &rest[taken.used..];
            if taken.ends {
                self.session = Session::default();
                return (output.bytes, true);
            }
            if rest.is_empty() && !self.server.is_answering(&self.session) && !output.is_full() {
                return (unmarked(output.bytes), false);
            }
        }
    }
}

/// Whether an answer is whole, with that to the mark at its end.
fn is_marked(answer: &[u8]) -> bool {
    let Some(lines) = answer.strip_suffix(b"\r\n") else { return false };
    lines.rsplit(|byte| *byte == b'\n').next().is_some_and(|last| last.starts_with(MARKED))
}

/// An answer without that to the mark, which tells a version.
fn unmarked(mut answer: Vec<u8>) -> Vec<u8> {
    if is_marked(&answer) {
        let end = answer[..answer.len() - 1].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        answer.truncate(end);
    }
    answer
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(300)]).replace('\r', "\\r").replace('\n', "\\n")
}

/// Asks both the same, one request after the other; each request whose answers differ.
fn differences(requests: Vec<Vec<u8>>, options: &[&str]) -> Option<Vec<String>> {
    let mut peer = Peer::start(options)?;
    let mut ours = Ours::start();
    let mut all = Vec::new();
    for request in requests {
        let marked = [&request[..], MARK].concat();
        let (theirs, own) = (peer.ask(&marked), ours.ask(&marked));
        if theirs != own {
            let tell = |(answer, ends): &(Vec<u8>, bool)| {
                format!("{}{}", text(answer), if *ends { " END" } else { "" })
            };
            all.push(format!(
                "{}\n  memcached: {}\n  ours:      {}",
                text(&request),
                tell(&theirs),
                tell(&own)
            ));
        }
    }
    Some(all)
}

/// Requests as lines of a text, each with its end; `\n` within a line is the end of one too.
fn lines(text: &str) -> Vec<Vec<u8>> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.map(|line| format!("{}\r\n", line.replace("\\n", "\r\n")).into_bytes()).collect()
}

fn assert_same(requests: Vec<Vec<u8>>, options: &[&str]) {
    if let Some(all) = differences(requests, options) {
        let some = all.iter().take(40).map(String::as_str).collect::<Vec<_>>().join("\n");
        assert!(all.is_empty(), "{} requests are answered differently:\n{some}", all.len());
    }
}

#[test]
fn text_commands_are_answered_alike() {
    let mut requests = lines(TEXT);
    let key = "k".repeat(250);
    let long = "k".repeat(251);
    for key in [&key, &long] {
        requests.extend(lines(&format!(
            "set {key} 0 0 1\\nx
             get {key}
             add {key} 0 0 1\\nx
             touch {key} 0
             gat 0 {key}
             incr {key} 1
             delete {key}"
        )));
    }
    requests.push(
        b"set big 0 0 2000000\r\n".iter().copied().chain(vec![b'x'; 2_000_000]).chain(*b"\r\n").collect(),
    );
    requests.extend(lines("get big"));
    assert_same(requests, &[]);
}

#[test]
fn meta_commands_are_answered_alike() {
    let mut requests = lines(META);
    let opaque = "o".repeat(32);
    let long = "o".repeat(33);
    requests.extend(lines(&format!(
        "mg foo O{opaque}
         mg foo O{long}
         ms foo 1 O{long}\\nx
         md foo O{long}"
    )));
    assert_same(requests, &[]);
}

/// Requests of the text commands, one a line; `\n` stands for the end of a line in one.
const TEXT: &str = include_str!("memcached_peer/text.txt");

/// Requests of the meta commands, one a line; `\n` stands for the end of a line in one.
const META: &str = include_str!("memcached_peer/meta.txt");

/// Numbers by xorshift (Marsaglia, 2003): the same in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }

    fn of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.below(all.len())]
    }

    /// A line that is right or nearly so, on few keys, so that commands meet.
    fn text(&mut self) -> String {
        let key = self.of(&["a", "b", "c", "d"]);
        let value = self.of(&["", "0", "7", "18446744073709551615", "abc", "1 2", "-1", " 5"]);
        let len = value.len();
        let flags = self.of(&["0", "1", "65536", "4294967295"]);
        let quiet = self.of(&["", "", "", " noreply"]);
        let number = self.of(&["0", "1", "100", "18446744073709551615", "x", "-1"]);
        match self.below(10) {
            0 => format!("get {key} {}", self.of(&["a", "b", "c", "", "nothing"])),
            1 => format!("incr {key} {number}{quiet}"),
            2 => format!("decr {key} {number}{quiet}"),
            3 => format!("delete {key}{quiet}"),
            4 => format!("touch {key} {}{quiet}", self.of(&["0", "1000", "-1"])),
            5 => format!("gat {} {key} b", self.of(&["0", "1000", "-1"])),
            command => {
                let name = ["set", "add", "append", "prepend", "replace"][command.min(9) - 5];
                let exptime = self.of(&["0", "0", "1000", "-1"]);
                format!("{name} {key} {flags} {exptime} {len}{quiet}\\n{value}")
            }
        }
    }

    /// The same of meta commands. Numbers of items are left out: memcached takes some for itself.
    fn meta(&mut self) -> String {
        let key = self.of(&["a", "b", "c", "Zm9v", "foo"]);
        let value = self.of(&["", "0", "7", "abc", "18446744073709551615"]);
        let len = value.len();
        let mut flags = |all: &[&'static str]| {
            let chosen: Vec<&str> = (0..self.below(5)).map(|_| self.of(all)).collect();
            chosen.iter().map(|flag| format!(" {flag}")).collect::<String>()
        };
        let get = flags(&["v", "k", "f", "s", "q", "t", "u", "O1", "b", "N0", "R0", "T0", "z"]);
        let set = flags(&["q", "k", "b", "F7", "O2", "T0", "MS", "ME", "MA", "MP", "MR", "I", "Fx", "z"]);
        let delete = flags(&["q", "k", "b", "O3", "I", "z", "C99999"]);
        let count = flags(&["v", "q", "k", "b", "N0", "J5", "D3", "MD", "MI", "O4", "t", "T0", "z"]);
        match self.below(5) {
            0 | 1 => format!("mg {key}{get}"),
            2 => format!("ms {key} {len}{set}\\n{value}"),
            3 => format!("md {key}{delete}"),
            _ => format!("ma {key}{count}"),
        }
    }
}

#[test]
fn random_courses_are_answered_alike() {
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let texts: Vec<String> = (0..3000).map(|_| random.text()).collect();
    // Its thread would hold items for some time, whose numbers are not changed in place then.
    let options = ["-o", "no_lru_maintainer"];
    assert_same(texts.iter().flat_map(|text| lines(text)).collect(), &options);
    let metas: Vec<String> = (0..3000).map(|_| random.meta()).collect();
    assert_same(metas.iter().flat_map(|text| lines(text)).collect(), &options);
}
