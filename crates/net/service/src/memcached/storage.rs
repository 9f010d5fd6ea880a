//! `set`, `add`, `replace`, `append`, `prepend`, `cas` and `ms`, and the values behind them.

use std::borrow::Cow;

use super::binary::is_binary;
use super::command::ERROR;
use super::flags::{self, FORMAT, Flags};
use super::meta::first;
use super::operation::{Mode, Outcome, Update};
use super::store::{MAX_KEY, NEVER_S, expiry};
use super::{Memcached, Session, State};
use crate::output::Output;
use crate::text::{signed, unsigned, words};

/// What ends a value.
const END: &[u8] = b"\r\n";
/// By how much the memory of a value grows at least.
const STEP: usize = 4096;

/// A value that comes in pieces, of the request whose line the session keeps.
#[derive(Debug)]
pub struct Value {
    /// What came, with what ends it.
    bytes: Vec<u8>,
    /// How many bytes are to come in all.
    len: usize,
    /// Bytes that are counted in the shard for it.
    pub reserved: usize,
    /// The shard of its key.
    pub shard: u32,
}

impl Value {
    /// A value of so many bytes, with what ends it, of which none has come.
    pub fn new(len: usize, shard: u32) -> Value {
        Value { bytes: Vec::new(), len, reserved: 0, shard }
    }
}

/// A line that stores.
struct Line<'a> {
    key: Cow<'a, [u8]>,
    update: Update,
    /// Bytes of the value.
    len: usize,
    is_quiet: bool,
    /// The flags of a meta command.
    flags: Option<Flags<'a>>,
}

impl Line<'_> {
    /// Whether nothing at all is answered: meta commands tell of errors in any case.
    fn is_silent(&self) -> bool {
        self.is_quiet && self.flags.is_none()
    }
}

/// Whether nothing is told of what is wrong with a line: it ends as those do that want no reply,
/// and has as many words as its command.
fn wants_no_reply(line: &[u8], text: &[u8]) -> bool {
    text != ERROR && !line.starts_with(b"ms ") && words(line).last() == Some(b"noreply")
}

/// A line that cannot be carried out: what the client is told, and how many bytes of a value
/// come behind it that are no line.
struct Bad(&'static [u8], usize);

impl From<&'static [u8]> for Bad {
    fn from(text: &'static [u8]) -> Bad {
        Bad(text, 0)
    }
}

/// Reads a line that stores.
fn parse(line: &[u8], now_s: i64) -> Result<Line<'_>, Bad> {
    if let (b"ms", arguments) = first(line) {
        return parse_meta(arguments, now_s);
    }
    let mut words = words(line);
    let command = words.next().unwrap_or_default();
    let mut next = || words.next().ok_or(ERROR);
    let (key, client, exptime, len) = (next()?, next()?, next()?, next()?);
    let compare = if command == b"cas" { Some(next()?) } else { None };
    // A last word that is something else is left, as by memcached.
    let is_quiet = words.next() == Some(b"noreply");
    if words.next().is_some() {
        return Err(ERROR.into());
    }
    if key.len() > MAX_KEY {
        return Err(FORMAT.into());
    }
    // As memcached does it: of more than 32 bits the last 32 count.
    let client = unsigned(client).ok_or(FORMAT)? as u32;
    let exptime = signed(exptime).ok_or(FORMAT)?;
    let len = length(len).ok_or(FORMAT)?;
    let compare = compare.map(|compare| unsigned(compare).ok_or(FORMAT)).transpose()?;
    let mode = match command {
        b"add" => Mode::Add,
        b"replace" => Mode::Replace,
        b"append" => Mode::Append,
        b"prepend" => Mode::Prepend,
        _ => Mode::Set,
    };
    let update = Update {
        mode,
        is_binary: false,
        flags: client,
        expires_s: expiry(exptime, now_s),
        compare,
        invalidates: false,
        new_cas: None,
        vivify_s: None,
    };
    Ok(Line { key: Cow::Borrowed(key), update, len, is_quiet, flags: None })
}

/// Reads what stands behind `ms`.
fn parse_meta(arguments: &[u8], now_s: i64) -> Result<Line<'_>, Bad> {
    let (key, behind) = first(arguments);
    let (len, flags) = first(behind);
    if key.is_empty() || len.is_empty() {
        return Err(if key.is_empty() { ERROR } else { FORMAT }.into());
    }
    let len = length(len).ok_or(FORMAT)?;
    // The value is known to follow, whatever the flags are.
    let bad = |text| Bad(text, len + END.len());
    let flags = flags::parse(key, flags, &flags::SET, now_s).map_err(bad)?;
    let mode = match flags.mode {
        None | Some(b'S') => Mode::Set,
        Some(b'E' | b'e') => Mode::Add,
        Some(b'A' | b'a') => Mode::Append,
        Some(b'P' | b'p') => Mode::Prepend,
        Some(b'R' | b'r') => Mode::Replace,
        Some(_) => return Err(bad(b"CLIENT_ERROR invalid mode for ms M token\r\n")),
    };
    let update = Update {
        mode,
        is_binary: flags.is_binary,
        flags: flags.client,
        expires_s: flags.expires_s.unwrap_or(NEVER_S),
        // One that is only stored where there is none has no number to compare.
        compare: flags.compare.filter(|_| mode != Mode::Add),
        invalidates: flags.invalidates,
        new_cas: flags.new_cas,
        vivify_s: flags.vivify_s,
    };
    Ok(Line { key: flags.key.clone(), update, len, is_quiet: flags.is_quiet, flags: Some(flags) })
}

/// The length of a value.
fn length(word: &[u8]) -> Option<usize> {
    unsigned(word).filter(|len| *len < i32::MAX as u64 - END.len() as u64).map(|len| len as usize)
}

impl Memcached {
    /// A line that stores. A value that is whole in `behind` is stored from there; how many
    /// bytes of that were taken.
    pub fn storage(
        &mut self,
        session: &mut Session,
        line: &[u8],
        behind: &[u8],
        output: &mut impl Output,
    ) -> usize {
        let now_s = self.now_s(output);
        let wanted = match parse(line, now_s) {
            Ok(wanted) => wanted,
            Err(Bad(text, skip)) => {
                self.refuse_unless(wants_no_reply(line, text), text, output);
                if skip > 0 {
                    session.state = State::Skip(skip);
                }
                return 0;
            }
        };
        let len = wanted.len + END.len();
        if !self.shared.store.fits(&wanted.key, wanted.len) {
            self.refuse_value(&wanted, Outcome::TooLarge, output);
            session.state = State::Skip(len);
            return 0;
        }
        if let Some(value) = behind.get(..len) {
            self.store(&wanted, value, output);
            return len;
        }
        let shard = self.shared.store.shard(&wanted.key).1.shard;
        session.state = State::Value(Value::new(len, shard));
        session.line = line.to_vec();
        0
    }

    /// Bytes of a value came; how many were taken.
    pub fn value(&mut self, session: &mut Session, input: &[u8], output: &mut impl Output) -> usize {
        let now_s = self.now_s(output);
        let State::Value(value) = &mut session.state else { return 0 };
        let count = input.len().min(value.len - value.bytes.len());
        let wanted = value.bytes.len() + count;
        if wanted > value.reserved {
            // By doubling, so that each byte is moved a few times at most.
            let larger = wanted.max(2 * value.reserved).max(STEP).min(value.len);
            let more = larger - value.reserved;
            if self.shared.store.reserve(value.shard, more, now_s).is_err() {
                let left = value.len - value.bytes.len();
                self.give_up(session, left, output);
                return 0;
            }
            value.bytes.reserve_exact(larger - value.bytes.len());
            value.reserved = larger;
        }
        value.bytes.extend_from_slice(&input[..count]);
        if value.bytes.len() == value.len {
            let line = std::mem::take(&mut session.line);
            if let State::Value(value) = std::mem::take(&mut session.state) {
                self.shared.store.release(value.shard, value.reserved);
                if is_binary(line.first()) {
                    self.binary_value(&line, Some(&value.bytes), output);
                } else if let Ok(wanted) = parse(&line, now_s) {
                    self.store(&wanted, &value.bytes, output);
                }
            }
        }
        count
    }

    /// There is no room for a value that is coming: the rest of it is discarded.
    fn give_up(&mut self, session: &mut Session, left: usize, output: &mut impl Output) {
        let now_s = self.now_s(output);
        let line = std::mem::take(&mut session.line);
        if let State::Value(value) = std::mem::replace(&mut session.state, State::Skip(left)) {
            self.shared.store.release(value.shard, value.reserved);
        }
        if is_binary(line.first()) {
            self.binary_value(&line, None, output);
        } else if let Ok(wanted) = parse(&line, now_s) {
            self.refuse_value(&wanted, Outcome::NoMemory, output);
        }
    }

    fn refuse_value(&mut self, wanted: &Line, outcome: Outcome, output: &mut impl Output) {
        self.shared.store.refuse(&wanted.key, &wanted.update, outcome, self.now_s(output));
        if !wanted.is_silent() {
            output.put(said(outcome));
        }
    }

    /// Stores a value with what ends it.
    fn store(&mut self, wanted: &Line, value: &[u8], output: &mut impl Output) {
        let Some(value) = value.strip_suffix(END) else {
            return self.refuse_unless(wanted.is_silent(), b"CLIENT_ERROR bad data chunk\r\n", output);
        };
        let now_s = self.now_s(output);
        let outcome = self.shared.store.update(&wanted.key, &wanted.update, value, now_s);
        match &wanted.flags {
            Some(_) if wanted.is_quiet && matches!(outcome, Outcome::Done { .. }) => {}
            Some(flags) => self.meta_answer(flags, outcome, true, output),
            None if wanted.is_quiet => {}
            None => output.put(said(outcome)),
        }
    }
}

/// How a client is told what came of its request.
fn said(outcome: Outcome) -> &'static [u8] {
    match outcome {
        Outcome::Done { .. } => b"STORED\r\n",
        Outcome::NotStored => b"NOT_STORED\r\n",
        Outcome::Exists => b"EXISTS\r\n",
        Outcome::NotFound => b"NOT_FOUND\r\n",
        Outcome::TooLarge => b"SERVER_ERROR object too large for cache\r\n",
        Outcome::NoMemory | Outcome::NotNumeric => b"SERVER_ERROR out of memory storing object\r\n",
    }
}
