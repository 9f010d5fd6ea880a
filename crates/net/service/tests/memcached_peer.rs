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

const TEXT: &str = "
    get
    gets
    get a
    get a b c
    set a 0 0 1\\nx
    set a 0 0 1 noreply\\ny
    get a
    get a a a
    set a 4294967295 0 1\\nx
    set a 4294967296 0 1\\nx
    get a
    set a 0 -1 1\\nx
    get a
    set a 0 0 -1\\nx
    set a 0 0 2\\nx
    set a 0 0 1\\nxyz
    set a 0 0
    set a 0 0 x\\n
    set a x 0 1\\nx
    set a 0 x 1\\nx
    set
    set a
    set a 0 0 0\\n
    get a
    add a 1 0 1\\nz
    add new 5 0 2\\nhi
    replace new 6 0 2\\nho
    get new
    append new 9 0 2\\n12
    prepend new 9 0 2\\n34
    get new
    append none 0 0 1\\nx
    prepend none 0 0 1\\nx
    replace none 0 0 1\\nx
    cas new 0 0 1 1\\nx
    cas new 0 0 1 99999\\nx
    cas none 0 0 1 5\\nx
    cas new 0 0 1\\nx
    cas new 0 0 1 x\\nx
    cas new 0 0 1 -1\\nx
    cas new 0 0 1 99 noreply\\nx
    cas
    set num 0 0 2\\n10
    incr num 1
    incr num 89
    decr num 1
    decr num 91
    decr num 9999
    get num
    incr num -1
    incr num x
    incr num
    incr
    decr
    incr none 1
    decr none 1
    incr num 18446744073709551615
    incr num 1
    incr num 18446744073709551616
    get num
    set num 0 0 20\\n18446744073709551615
    incr num 2
    get num
    set num 0 0 21\\n184467440737095516150
    incr num 2
    set num 0 0 3\\n1 2
    incr num 1
    set num 0 0 0\\n
    incr num 1
    set num 0 0 2\\n-1
    incr num 1
    set num 0 0 4\\n12  
    incr num 1
    set num 7 0 1\\n5
    incr num 1 noreply
    decr num 1 noreply
    get num
    touch num 0
    touch num 100
    touch num 100 noreply
    touch num x
    touch none 0
    touch num
    touch
    gat 0 num
    gat 100 num a none
    gat x num
    gat
    gats
    touch num -1
    get num
    delete num
    set d 0 0 1\\n1
    delete d 0
    set d 0 0 1\\n1
    delete d 5
    delete d noreply
    get d
    delete d 0 noreply
    delete d 0 0
    delete d x y
    delete
    delete none
    verbosity
    verbosity 0
    verbosity 1
    verbosity 1 noreply
    verbosity x
    flush_all 0 noreply
    flush_all
    get new
    flush_all x
    flush_all -1
    flush_all 0
    flush_all 0 0
    flush_all noreply
    set e 0 0 1\\n1
    get e
    flush_all 100
    get e
    unknown
    GET a
    Set a 0 0 1
    stats noreply
    stats unknown
    stats sizes
    stats detail
    stats detail on
    stats detail off
    stats detail dump
    stats detail x
    stats cachedump
    stats cachedump 1
    stats cachedump x 1
    stats cachedump 1 x
    stats reset
    cache_memlimit
    cache_memlimit x
    cache_memlimit 0
    cache_memlimit 64
    cache_memlimit 64 noreply
    shutdown
    shutdown x
    slabs
    slabs x
    slabs reassign
    slabs reassign 1
    slabs reassign x 1
    slabs automove
    slabs automove 0
    slabs automove 1
    slabs automove x
    lru
    lru x
    lru mode
    lru mode flat
    lru mode segmented
    lru mode x
    lru tune
    lru tune 10 25 0.1 2.0
    lru tune 10 95 0.1 2.0
    lru temp_ttl 5
    lru temp_ttl -1
    lru temp_ttl x
    lru_crawler
    lru_crawler x
    lru_crawler sleep
    lru_crawler sleep 100
    lru_crawler sleep 10000000
    lru_crawler tocrawl
    lru_crawler tocrawl 10
    lru_crawler crawl
    lru_crawler crawl x
    lru_crawler metadump
    extstore
    misbehave
    debugtime
    debugitem
    mn x
    set a 0 0 1 x\\ny
    get a
    add a 0 0 -1 noreply\\n
    set  a  0  0  1 \\nz
    get  a 
";

const META: &str = "
    mn
    mn x
    mg foo
    mg foo v
    mg foo v k q
    mg foo k q
    mg foo s t c f h l t
    ms foo 2\\nhi
    mg foo
    mg foo v
    mg foo v v
    mg foo k s t f
    mg foo h l t
    mg foo h v
    mg foo u h v
    mg foo T30 t v
    mg foo t
    mg foo q v
    mg foo !
    mg foo z
    mg foo T
    mg foo Tx
    mg foo N
    mg foo R
    mg foo Z
    mg foo I
    ms foo
    ms foo x
    ms foo -1
    ms foo 2 T0\\nhi
    ms foo 2 Tx\\nhi
    ms foo 2 F5\\nhi
    mg foo f
    ms foo 2 Fx\\nhi
    ms foo 2 F\\nhi
    ms foo 2 q\\nhi
    ms foo 2 k O1 q\\nhi
    ms foo 2 k O1 c b\\nhi
    ms foo 2 ME\\nhi
    ms bar 2 ME k\\nhi
    ms bar 2 MA k\\nyo
    mg bar v
    ms bar 2 MP\\nab
    mg bar v
    ms bar 2 MR\\nab
    ms none 2 MR\\nab
    ms none 2 MA\\nab
    ms none 2 MX\\nab
    ms none 2 M\\nab
    ms none 2 MSS\\nab
    ms none 2 MS\\nab
    ms none 2 Ms\\nab
    ms none 3 S\\nab
    ms none 2 S2\\nabc
    ms none 2 I\\nab
    ms none 2 C1\\nab
    ms none 2 C1 q\\nab
    ms absent 2 C1\\nab
    ms none 2 C1 I\\nab
    ms none 2 Cx\\nab
    md none C5
    mg none v
    mg none k
    md none q
    md none q
    md none
    md none k O1
    md none T30
    mg viv N30 v t
    mg viv N30 v t
    mg viv N30 v k O9
    ms viv 1\\nx
    mg viv v s t
    mg viv R30 v t
    ms ren 1 T20\\nx
    mg ren R30 v t
    mg ren R30 v t
    mg ren v
    md ren I
    mg ren v s
    mg ren v s
    ms ren 1\\ny
    mg ren v s
    ms del 1\\nx
    ma cnt
    ma cnt N0
    ma cnt N0 v
    ma cnt v
    ma cnt v D10
    ma cnt v MD D3
    ma cnt v MI D3
    ma cnt v MX
    ma cnt v M+
    ma cnt v M-
    ma cnt v D-1
    ma cnt v Dx
    ma cnt v J5 N0
    ma cnt2 v J5 N0
    ma cnt2 v J5 N0
    ma cnt3 v J13 N30 t
    ma cnt3 q
    ma cnt4 q
    ma cnt4
    ma cnt3 v T50 t
    ma cnt3 v C1
    ma cnt3 MD D1000 v
    ms word 2\\nab
    ma word
    ma word q
    ma word v N0
    ma foo z
    me
    me none
    mg Zm9v b
    mg Zm9v b k v
    mg ??? b
    ms Zm9v 2 b k\\nzz
    mg foo v k
    md Zm9v b k
    md Zm9v b k
    ma Y250 b k v
    mg foo bv
    mg foo O
    mg foo k O
    mg foo k Oa/b=c
    mg a b c d e f
    mg a S
    mg a v S10
    mg a P L
    mg a Px Ly v
    mx foo
    mgx foo
    m
    ms foo 2 noreply\\nhi
    ms foo 2 b b\\nhi
    ms foo abc\\n
    ms foo 2 T-1\\nhi
    mg foo v
    ms foo 2 T-1 I\\nhi
";

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
