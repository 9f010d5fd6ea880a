//! What is asked and what must be answered, of echo, HTTP and memcached.

use super::random::{Random, mix};
use crate::text::{number, push_number, words};

/// The requests of a load, and a check of their answers.
pub trait Workload: Send {
    /// What is known of the answer that a connection waits for.
    type Expected: Send;
    /// How far the answers of a connection have come.
    type Reader: Default + Send;

    /// Appends a request of connection `connection`; what must be answered.
    fn request(&mut self, connection: usize, random: &mut Random, to: &mut Vec<u8>) -> Self::Expected;

    /// Appends a request that must be made once, in front of all others, if there is one left.
    fn prepare(&mut self, to: &mut Vec<u8>) -> Option<Self::Expected> {
        let _ = to;
        None
    }

    /// Takes bytes of the answer to what is expected; how many, and what came of it.
    fn answer(&mut self, reader: &mut Self::Reader, expected: &Self::Expected, bytes: &[u8])
    -> (usize, Came);
}

/// What came of bytes of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Came {
    /// More must come.
    Part,
    /// The answer, and the right one.
    Right,
    /// There was nothing under a key.
    Miss,
    /// Another answer: the connection cannot go on.
    Wrong,
}

/// Messages of one size, which come back as they were sent.
#[derive(Debug)]
pub struct Echo {
    size: usize,
    sent: Vec<u64>,
}

/// A byte of the stream of a connection.
fn byte(connection: usize, at: u64) -> u8 {
    (mix((at / 8) ^ ((connection as u64) << 40)) >> (at % 8 * 8)) as u8
}

impl Echo {
    /// Messages of `size` bytes.
    pub fn new(size: usize) -> Echo {
        Echo { size: size.max(1), sent: Vec::new() }
    }
}

impl Workload for Echo {
    /// The connection, and where its message begins in the stream of it.
    type Expected = (usize, u64);
    /// Bytes of the message that came.
    type Reader = usize;

    fn request(&mut self, connection: usize, _: &mut Random, to: &mut Vec<u8>) -> (usize, u64) {
        if self.sent.len() <= connection {
            self.sent.resize(connection + 1, 0);
        }
        let from = self.sent[connection];
        self.sent[connection] += self.size as u64;
        to.extend((from..from + self.size as u64).map(|at| byte(connection, at)));
        (connection, from)
    }

    fn answer(&mut self, came: &mut usize, expected: &(usize, u64), bytes: &[u8]) -> (usize, Came) {
        let (connection, from) = *expected;
        let count = bytes.len().min(self.size - *came);
        let first = from + *came as u64;
        let mut all = bytes[..count].iter().zip(first..);
        if !all.all(|(got, at)| *got == byte(connection, at)) {
            return (count, Came::Wrong);
        }
        *came += count;
        if *came < self.size {
            return (count, Came::Part);
        }
        *came = 0;
        (count, Came::Right)
    }
}

/// One path, again and again.
#[derive(Debug, Clone)]
pub struct Http {
    request: Vec<u8>,
    /// What the body must be, if that is known.
    body: Option<Vec<u8>>,
}

/// How far an answer of HTTP has come.
#[derive(Debug, Default)]
pub struct HttpReader {
    head: Vec<u8>,
    /// Bytes of the body that came, and how many there are.
    body: Option<(usize, usize)>,
}

/// The longest head of an answer.
const MAX_HEAD: usize = 16_384;

impl Http {
    /// Requests for a path of a host, whose body must be this one, if it is known.
    pub fn new(host: &str, path: &str, body: Option<Vec<u8>>) -> Http {
        let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: ixora\r\n\r\n");
        Http { request: request.into_bytes(), body }
    }

    fn body(&self, came: usize, bytes: &[u8]) -> bool {
        self.body.as_ref().is_none_or(|body| body.get(came..came + bytes.len()) == Some(bytes))
    }
}

/// The length of the body behind a head; `None` when it is no success or has no length.
fn body_len(head: &[u8]) -> Option<usize> {
    let mut fields = [httparse::EMPTY_HEADER; 64];
    let mut response = httparse::Response::new(&mut fields);
    let is_whole = response.parse(head).is_ok_and(|status| status.is_complete());
    if !is_whole || response.code != Some(200) {
        return None;
    }
    let length = response.headers.iter().find(|field| field.name.eq_ignore_ascii_case("content-length"))?;
    usize::try_from(number(length.value)?).ok()
}

impl Workload for Http {
    type Expected = ();
    type Reader = HttpReader;

    fn request(&mut self, _: usize, _: &mut Random, to: &mut Vec<u8>) {
        to.extend_from_slice(&self.request);
    }

    fn answer(&mut self, reader: &mut HttpReader, (): &(), bytes: &[u8]) -> (usize, Came) {
        let mut used = 0;
        let (came, len) = match reader.body {
            Some(body) => body,
            None => {
                let before = reader.head.len();
                reader.head.extend_from_slice(bytes);
                let from = before.saturating_sub(3);
                let Some(end) = reader.head[from..].windows(4).position(|four| four == b"\r\n\r\n") else {
                    let is_long = reader.head.len() > MAX_HEAD;
                    return (bytes.len(), if is_long { Came::Wrong } else { Came::Part });
                };
                used = from + end + 4 - before;
                let Some(len) = body_len(&reader.head) else { return (used, Came::Wrong) };
                reader.head.clear();
                (0, len)
            }
        };
        let count = (bytes.len() - used).min(len - came);
        if !self.body(came, &bytes[used..used + count]) {
            return (used + count, Came::Wrong);
        }
        let is_over = came + count == len;
        reader.body = (!is_over).then_some((came + count, len));
        let is_right = self.body.as_ref().is_none_or(|body| body.len() == len);
        let came = if is_right { Came::Right } else { Came::Wrong };
        (used + count, if is_over { came } else { Came::Part })
    }
}

/// What keys and values are like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mix {
    /// Keys of 19 bytes and values of 2, as Facebook's pool USR has them.
    Usr,
    /// Keys of 20 to 70 bytes and values of 1 to 1,024, most of them short, like those of
    /// Facebook's pool ETC.
    Etc,
}

/// Keys that are asked for and stored. Key and value follow from the key's number, so that
/// whoever fetches one knows what must come.
#[derive(Debug, Clone)]
pub struct Memcached {
    mix: Mix,
    keys: u64,
    /// Of so many requests, as a share of 2^32, is a value stored.
    updates: u64,
    /// How many keys have been stored at first.
    prepared: u64,
}

/// What a connection waits for.
#[derive(Debug, Clone, Copy)]
pub enum Expected {
    /// The value of the key of a number.
    Value(u64),
    /// Word that it was stored.
    Stored,
}

/// How far an answer of memcached has come.
#[derive(Debug, Default)]
pub struct MemcachedReader {
    line: Vec<u8>,
    /// Bytes of the value that are still to come, with those that end it.
    value: Option<(Vec<u8>, usize)>,
    has_value: bool,
}

/// The longest line of an answer.
const MAX_LINE: usize = 512;

impl Memcached {
    /// So many keys of a mix, of which a share is stored and not asked for.
    pub fn new(mix: Mix, keys: u64, updates: f64) -> Memcached {
        let updates = (updates.clamp(0.0, 1.0) * (1_u64 << 32) as f64) as u64;
        Memcached { mix, keys: keys.max(1), updates, prepared: 0 }
    }

    fn push_key(&self, number: u64, to: &mut Vec<u8>) {
        let start = to.len();
        let len = match self.mix {
            Mix::Usr => 19,
            Mix::Etc => 20 + (mix(number) % 51) as usize,
        };
        push_number(to, number);
        to.resize(start + len, b'k');
    }

    fn push_value(&self, number: u64, to: &mut Vec<u8>) {
        let mut random = Random(mix(!number));
        let len = match self.mix {
            Mix::Usr => 2,
            // The quantiles of a generalized Pareto distribution, as it was fitted to ETC.
            Mix::Etc => (214.476 * (random.unit().powf(-0.348_238) - 1.0) / 0.348_238) as usize,
        };
        to.extend((0..len.clamp(1, 1024)).map(|_| random.next() as u8));
    }

    fn push_set(&self, number: u64, to: &mut Vec<u8>) -> Expected {
        let mut value = Vec::with_capacity(1024);
        self.push_value(number, &mut value);
        to.extend_from_slice(b"set ");
        self.push_key(number, to);
        to.extend_from_slice(b" 0 0 ");
        push_number(to, value.len() as u64);
        to.extend_from_slice(b"\r\n");
        to.extend_from_slice(&value);
        to.extend_from_slice(b"\r\n");
        Expected::Stored
    }

    /// A whole line of an answer.
    fn line(&self, reader: &mut MemcachedReader, expected: &Expected) -> Came {
        let line = std::mem::take(&mut reader.line);
        let number = match (expected, &line[..]) {
            (Expected::Stored, b"STORED\r") => return Came::Right,
            (Expected::Value(_), b"END\r") => {
                return if std::mem::take(&mut reader.has_value) { Came::Right } else { Came::Miss };
            }
            (Expected::Value(number), _) => *number,
            _ => return Came::Wrong,
        };
        let mut head = Vec::with_capacity(128);
        let mut value = Vec::with_capacity(1024);
        self.push_value(number, &mut value);
        head.extend_from_slice(b"VALUE ");
        self.push_key(number, &mut head);
        head.extend_from_slice(b" 0 ");
        push_number(&mut head, value.len() as u64);
        head.push(b'\r');
        if head != line || reader.has_value || words(&line).count() != 4 {
            return Came::Wrong;
        }
        value.extend_from_slice(b"\r\n");
        reader.value = Some((value, 0));
        reader.has_value = true;
        Came::Part
    }
}

impl Workload for Memcached {
    type Expected = Expected;
    type Reader = MemcachedReader;

    fn request(&mut self, _: usize, random: &mut Random, to: &mut Vec<u8>) -> Expected {
        let number = random.below(self.keys);
        if random.next() >> 32 < self.updates {
            return self.push_set(number, to);
        }
        to.extend_from_slice(b"get ");
        self.push_key(number, to);
        to.extend_from_slice(b"\r\n");
        Expected::Value(number)
    }

    fn prepare(&mut self, to: &mut Vec<u8>) -> Option<Expected> {
        let number = self.prepared;
        self.prepared += 1;
        (number < self.keys).then(|| self.push_set(number, to))
    }

    fn answer(&mut self, reader: &mut MemcachedReader, expected: &Expected, bytes: &[u8]) -> (usize, Came) {
        let mut used = 0;
        while used < bytes.len() {
            let rest = &bytes[used..];
            if let Some((value, at)) = &mut reader.value {
                let count = rest.len().min(value.len() - *at);
                used += count;
                if rest[..count] != value[*at..*at + count] {
                    return (used, Came::Wrong);
                }
                *at += count;
                if *at == value.len() {
                    reader.value = None;
                }
                continue;
            }
            let end = rest.iter().position(|byte| *byte == b'\n');
            reader.line.extend_from_slice(&rest[..end.unwrap_or(rest.len())]);
            used += end.map_or(rest.len(), |end| end + 1);
            if end.is_none() {
                return (used, if reader.line.len() > MAX_LINE { Came::Wrong } else { Came::Part });
            }
            match self.line(reader, expected) {
                Came::Part => {}
                came => return (used, came),
            }
        }
        (used, Came::Part)
    }
}
