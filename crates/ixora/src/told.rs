//! What another program tells when it is asked: it is bounded in length and time, however it comes, and
//! a terminal takes nothing of it for a command. Whoever answers may be controlled by an intruder who
//! has nothing left in his own process; who asks is a person with a shell.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// The longest answer.
pub const LONGEST: u64 = 256 << 20;
/// How long a whole answer may take, however many parts it comes in.
const ANSWER: Duration = Duration::from_secs(60);

/// A connection of either kind.
pub trait Stream: Read + Write {
    /// Reads and writes fail when nothing has come or gone for so long.
    fn set_limit(&self, limit: Duration) -> io::Result<()>;
}

macro_rules! streams {
    ($($stream:ty),*) => {$(
        impl Stream for $stream {
            fn set_limit(&self, limit: Duration) -> io::Result<()> {
                self.set_read_timeout(Some(limit))?;
                self.set_write_timeout(Some(limit))
            }
        }
    )*};
}

streams!(TcpStream, UnixStream);

impl Stream for Box<dyn Stream> {
    fn set_limit(&self, limit: Duration) -> io::Result<()> {
        (**self).set_limit(limit)
    }
}

/// A connection whose answers end in time.
pub struct Bounded<S> {
    stream: S,
    /// How long the next part of an answer may take.
    stall: Duration,
    /// How long a whole one may, and when this one is over.
    whole: Duration,
    end: Instant,
}

impl<S: Stream> Bounded<S> {
    /// A connection of which each part of an answer may take so long.
    pub fn new(stream: S, stall: Duration) -> Bounded<S> {
        Bounded::within(stream, stall, ANSWER)
    }

    fn within(stream: S, stall: Duration, whole: Duration) -> Bounded<S> {
        Bounded { stream, stall, whole, end: Instant::now() + whole }
    }

    /// Asks; what is read from now on is the answer.
    pub fn ask(&mut self, request: &[u8]) -> io::Result<()> {
        self.end = Instant::now() + self.whole;
        self.stream.set_limit(self.stall)?;
        self.stream.write_all(request)
    }

    /// All that there is to read up to the end.
    pub fn rest(&mut self) -> io::Result<Vec<u8>> {
        let mut answer = Vec::new();
        let count = self.take(LONGEST + 1).read_to_end(&mut answer)?;
        match count as u64 > LONGEST {
            true => Err(io::Error::other("the answer has no end")),
            false => Ok(answer),
        }
    }
}

impl<S: Stream> Read for Bounded<S> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let left = self.end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        self.stream.set_limit(left.min(self.stall))?;
        self.stream.read(bytes)
    }
}

/// Text without control characters but ends of lines and tabs: for each stands a question mark.
pub fn printable(bytes: &[u8]) -> String {
    let shown = |c: char| if c.is_control() && !matches!(c, '\n' | '\t') { '?' } else { c };
    // Ends of lines as HTTP and Click's protocol have them are no more than ends of lines.
    String::from_utf8_lossy(bytes).replace("\r\n", "\n").chars().map(shown).collect()
}

/// Digits of a character's number in a string of JSON.
const HEX_DIGITS: usize = 4;

/// The same of JSON, where control characters are written as numbers, too.
pub fn printable_json(bytes: &[u8]) -> String {
    let text = printable(bytes);
    let (mut out, mut rest) = (String::with_capacity(text.len()), &text[..]);
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        let digits = escape.strip_prefix("\\u").and_then(|digits| digits.get(..HEX_DIGITS));
        let number = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
        let len = match (number, escape.chars().nth(1)) {
            (Some(_), _) => "\\u".len() + HEX_DIGITS,
            (None, second) => 1 + second.map_or(0, char::len_utf8),
        };
        let is_control = number.and_then(char::from_u32).is_some_and(char::is_control)
            || matches!(escape.as_bytes().get(1), Some(b'b' | b'f' | b'r'));
        out += before;
        out += if is_control { "?" } else { &escape[..len] };
        rest = &escape[len..];
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn who_trickles_for_ever_is_given_up() {
        let (ours, mut theirs) = UnixStream::pair().expect("a pair");
        let whole = Duration::from_millis(200);
        let mut answer = Bounded::within(ours, Duration::from_secs(60), whole);
        answer.ask(b"what\n").expect("there is room");
        let trickle = thread::spawn(move || {
            while theirs.write_all(b"x").is_ok() {
                thread::sleep(Duration::from_millis(5));
            }
        });
        let error = answer.rest().expect_err("it has no end");
        assert!(matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock), "{error}");
        drop(answer);
        trickle.join().expect("it ends when nobody reads");
    }

    #[test]
    fn who_says_nothing_is_given_up_before() {
        let (ours, _theirs) = UnixStream::pair().expect("a pair");
        let mut answer = Bounded::new(ours, Duration::from_millis(20));
        answer.ask(b"what\n").expect("there is room");
        assert!(answer.rest().is_err());
    }

    #[test]
    fn a_terminal_is_told_nothing() {
        assert_eq!(printable(b"a\tb\r\nc\x1b]0;title\x07\rd\xC2\x9b"), "a\tb\nc?]0;title??d?");
        let json = br#"{"a":"x\u001b[2J\u009b\b\r\n\t\"\\u001b\u00e4\\","b":1}"#;
        let text = printable_json(json);
        assert_eq!(text, r#"{"a":"x?[2J???\n\t\"\\u001b\u00e4\\","b":1}"#);
        let value: serde_json::Value = serde_json::from_str(&text).expect("it is still JSON");
        assert_eq!(value["a"], "x?[2J???\n\t\"\\u001b\u{e4}\\");
        for odd in [&b"\\"[..], b"\\u", b"\\u12", b"\\\xC3\xA4", b"\\ud800", b"\\u+01b", b"\\u\xC3\xA400"] {
            let text = printable_json(odd);
            assert!(!text.contains(char::is_control), "{text}");
        }
    }
}
