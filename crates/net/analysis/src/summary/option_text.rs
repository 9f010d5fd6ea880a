//! Options of IP and TCP from text, as [`options`](super::options) writes them.

use wire::ipv4_option::offset::{FLAGS, POINTER};
use wire::ipv4_option::{self as option, WORD_LEN, timestamp};
use wire::option_list::LENGTH;
use wire::tcp_option::kind;

use super::options::{MSS, OTHERS, PADDING, SACK, TIME, WSCALE};

/// Bytes that options may take in a header.
const ROOM: usize = 40;
/// Places that may be left open in an option.
const MOST_OPEN: u32 = 64;

/// What is left of a text.
struct Text<'a>(&'a [u8]);

impl Text<'_> {
    /// Goes on behind `word`, if it comes next and more comes after it.
    fn word(&mut self, word: &str) -> bool {
        let found = self.0.len() > word.len() && self.0.starts_with(word.as_bytes());
        if found {
            self.0 = &self.0[word.len()..];
        }
        found
    }

    /// Goes on behind `word`, if it comes next.
    fn last_word(&mut self, word: &str) -> bool {
        let found = self.0.starts_with(word.as_bytes());
        if found {
            self.0 = &self.0[word.len()..];
        }
        found
    }

    fn peek(&self, at: usize) -> u8 {
        self.0.get(at).copied().unwrap_or(0)
    }

    fn byte(&mut self, byte: u8) -> bool {
        let found = self.0.first() == Some(&byte);
        if found {
            self.0 = &self.0[1..];
        }
        found
    }

    /// A number: decimal, hexadecimal or octal as in C.
    fn number(&mut self) -> Option<u32> {
        let hex = self.0.starts_with(b"0x") || self.0.starts_with(b"0X");
        let digit = |b: &u8| if hex { b.is_ascii_hexdigit() } else { b.is_ascii_digit() };
        let start = if hex { 2 } else { 0 };
        let length = start + self.0[start..].iter().take_while(|b| digit(b)).count();
        let (number, rest) = self.0.split_at(length);
        let value = graph::value::unsigned(std::str::from_utf8(number).ok()?)?;
        self.0 = rest;
        u32::try_from(value).ok()
    }

    fn number_below(&mut self, bound: u32) -> Option<u32> {
        self.number().filter(|n| *n < bound)
    }

    /// An address of four decimal numbers.
    fn address(&mut self) -> Option<[u8; 4]> {
        let mut address = [0; 4];
        for (n, to) in address.iter_mut().enumerate() {
            if n > 0 && !self.byte(b'.') {
                return None;
            }
            let length = self.0.iter().take_while(|b| b.is_ascii_digit()).count();
            *to = std::str::from_utf8(&self.0[..length]).ok()?.parse().ok()?;
            self.0 = &self.0[length..];
        }
        Some(address)
    }
}

/// Reads options separated by `,` or `;`, with `one` for each.
fn parse(text: &str, one: impl Fn(&mut Text<'_>, &mut Vec<u8>) -> Option<()>) -> Option<Vec<u8>> {
    let mut rest = Text(text.as_bytes());
    let mut out = vec![];
    loop {
        one(&mut rest, &mut out)?;
        if rest.0.is_empty() {
            break;
        }
        if !rest.byte(b',') && !rest.byte(b';') || out.len() > 4 * ROOM {
            return None;
        }
    }
    // Fillers in front that there is no room for.
    while out.len() > ROOM && out[0] == 1 {
        out.remove(0);
    }
    (out.len() <= ROOM).then_some(out)
}

/// An option by its number, with its bytes.
fn other(text: &mut Text<'_>, out: &mut Vec<u8>) -> Option<()> {
    let kind = text.number_below(256)? as u8;
    out.push(kind);
    if text.peek(0) != b'=' && kind > 1 {
        out.push(2); // nothing but kind and length
    }
    if text.peek(0) == b'=' && text.peek(1).is_ascii_digit() {
        let at = out.len();
        out.push(0);
        while matches!(text.peek(0), b'=' | b':') && text.peek(1).is_ascii_digit() && out.len() < 256 {
            text.0 = &text.0[1..];
            out.push(text.number_below(256)? as u8);
        }
        out[at] = u8::try_from(out.len() - at + 1).ok()?;
    }
    Some(())
}

fn padding(text: &mut Text<'_>, out: &mut Vec<u8>) -> Option<()> {
    if text.last_word("nop") {
        out.push(1);
        return Some(());
    }
    (text.peek(3) != b',' && text.last_word("eol")).then(|| out.push(0))
}

/// TCP options of some kinds.
pub(super) fn tcp(text: &str, mask: u32) -> Option<Vec<u8>> {
    parse(text, |text, out| {
        if mask & MSS != 0 && text.word("mss") {
            let size = text.number_below(0x1_0000)? as u16;
            out.extend([kind::MAX_SEGMENT, 4]);
            out.extend(size.to_be_bytes());
        } else if mask & WSCALE != 0 && text.word("wscale") {
            out.extend([kind::WINDOW_SCALE, 3, text.number_below(256)? as u8]);
        } else if mask & SACK != 0 && text.last_word("sackok") {
            out.extend([kind::SACK_PERMITTED, 2]);
        } else if mask & SACK != 0 && text.word("sack") {
            sack(text, out)?;
        } else if mask & TIME != 0 && text.word("ts") {
            let value = text.number()?;
            let echo = text.byte(b':').then(|| text.number()).flatten()?;
            if out.is_empty() {
                out.extend([kind::NO_OPERATION; 2]); // where they begin at a word
            }
            out.extend([kind::TIMESTAMPS, 10]);
            out.extend(value.to_be_bytes());
            out.extend(echo.to_be_bytes());
        } else if mask & OTHERS != 0 && text.peek(0).is_ascii_digit() {
            other(text, out)?;
        } else if mask & PADDING != 0 {
            padding(text, out)?;
        } else {
            return None;
        }
        Some(())
    })
}

/// Blocks that follow each other with a comma are one option.
fn sack(text: &mut Text<'_>, out: &mut Vec<u8>) -> Option<()> {
    let at = out.len();
    out.extend([kind::SACK, 0]);
    loop {
        let first = text.number()?;
        if !text.byte(b'-') && !text.byte(b':') {
            return None;
        }
        out.extend(first.to_be_bytes());
        out.extend(text.number()?.to_be_bytes());
        if out.len() - at > 255 - 8 || !text.word(",sack") {
            break;
        }
    }
    out[at + 1] = u8::try_from(out.len() - at).ok()?;
    Some(())
}

/// Options of routers, and how they begin.
const ROUTES: [(&str, u8); 3] = [
    ("rr{", option::RECORD_ROUTE),
    ("ssrr{", option::STRICT_SOURCE_ROUTE),
    ("lsrr{", option::LOOSE_SOURCE_ROUTE),
];

/// The options of an IP header as bytes; `None` if the text is not right.
pub(super) fn ip(text: &str) -> Option<Vec<u8>> {
    parse(text, |text, out| {
        for (name, kind) in ROUTES {
            if text.word(name) {
                return route(kind, text, out);
            }
        }
        if text.word("ts{") {
            return times(None, text, out);
        }
        if text.word("ts.ip{") {
            return times(Some(timestamp::ADDRESSES), text, out);
        }
        if text.word("ts.preip{") {
            return times(Some(timestamp::NAMED), text, out);
        }
        if text.word("ts.") {
            let kind = text.number_below(16)? as u8;
            return text.byte(b'{').then(|| times(Some(kind), text, out)).flatten();
        }
        if text.peek(0).is_ascii_digit() {
            return other(text, out);
        }
        padding(text, out)
    })
}

/// How many more places there are: `+5`.
fn open(text: &mut Text<'_>, size: usize, out: &mut Vec<u8>) -> Option<()> {
    if text.peek(0) == b'+' && text.peek(1).is_ascii_digit() {
        text.0 = &text.0[1..];
        let places = text.number_below(MOST_OPEN)? as usize;
        out.resize(out.len() + places * size, 0);
    }
    Some(())
}

fn route(kind: u8, text: &mut Text<'_>, out: &mut Vec<u8>) -> Option<()> {
    let at = out.len();
    out.extend([kind, 0, 0]);
    let mut pointer = None;
    loop {
        if pointer.is_none() && text.byte(b'^') {
            pointer = Some(out.len() - at + 1);
        }
        if !text.peek(0).is_ascii_digit() || out.len() - at > 255 {
            break;
        }
        out.extend(text.address()?);
        text.byte(b',');
    }
    if !text.byte(b'}') {
        return None;
    }
    let pointer = pointer.unwrap_or(out.len() - at + 1);
    open(text, WORD_LEN, out)?;
    out[at + POINTER] = u8::try_from(pointer).ok()?;
    out[at + LENGTH] = u8::try_from(out.len() - at).ok()?;
    Some(())
}

/// Timestamps. Without a kind, addresses tell that it is one with addresses.
fn times(mut kind: Option<u8>, text: &mut Text<'_>, out: &mut Vec<u8>) -> Option<()> {
    let at = out.len();
    out.extend([option::TIMESTAMP, 0, 0, 0]);
    let mut pointer = None;
    loop {
        if pointer.is_none() && text.byte(b'^') {
            pointer = Some(out.len() - at + 1);
        }
        if !(text.peek(0).is_ascii_digit() || text.peek(0) == b'!') || out.len() - at > 255 {
            break;
        }
        if kind.is_none() {
            let dotted = text.0.iter().find(|b| !b.is_ascii_digit()) == Some(&b'.');
            kind = Some(if dotted { timestamp::ADDRESSES } else { timestamp::TIMES });
        }
        if kind.is_some_and(|kind| kind != timestamp::TIMES) {
            out.extend(text.address()?);
            if pointer.is_some() {
                kind = Some(timestamp::NAMED);
            }
            if !text.byte(b'=') || text.byte(b'?') {
                // An address that was not asked yet; only behind the pointer.
                pointer?;
                out.extend([0; WORD_LEN]);
                text.byte(b',');
                continue;
            }
        }
        let mark = if text.byte(b'!') { timestamp::NOT_STANDARD } else { 0 };
        out.extend((text.number()? | mark).to_be_bytes());
        text.byte(b',');
    }
    if !text.byte(b'}') {
        return None;
    }
    let kind = kind.unwrap_or(timestamp::TIMES);
    let pointer = pointer.unwrap_or(out.len() - at + 1);
    open(text, timestamp::entry_len(kind), out)?;
    let mut overflow = 0;
    if text.0.starts_with(b"++") && text.peek(2).is_ascii_digit() {
        text.0 = &text.0[2..];
        overflow = text.number_below(16)? as u8;
    }
    out[at + POINTER] = u8::try_from(pointer).ok()?;
    out[at + FLAGS] = (overflow * timestamp::OVERFLOW) | kind;
    out[at + LENGTH] = u8::try_from(out.len() - at).ok()?;
    Some(())
}
