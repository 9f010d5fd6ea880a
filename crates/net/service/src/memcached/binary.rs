//! The binary protocol (draft-stone-memcache-binary-01), as far as clients use it. A request
//! begins with a byte that no line begins with; so both protocols are spoken on one port.

use wire::memcached::{HEADER_LEN, Header, magic, opcode, status};

use super::operation::{Arithmetic, Mode, Outcome, Update};
use super::storage::Value;
use super::store::{MAX_KEY, expiry};
use super::{Memcached, Session, State, command, send_value};
use crate::output::Output;

/// The longest extras of a request: those of counting.
const MAX_EXTRAS: usize = 20;
/// The time of a count that shall make no item.
const NO_INITIAL: u32 = u32::MAX;
/// The kind of statistics that is known by the beginning of its name.
const SETTINGS: &[u8] = b"settings";

/// A request without its value.
struct Request<'a> {
    header: Header<&'a [u8; HEADER_LEN]>,
    extras: &'a [u8],
    key: &'a [u8],
    /// Bytes of the value.
    value_len: usize,
}

impl<'a> Request<'a> {
    /// The request at the start of these bytes, once they have all but its value.
    fn of(bytes: &'a [u8]) -> Option<Request<'a>> {
        let header = Header::of(bytes)?;
        let (extras_len, key_len) = (usize::from(header.extras_len()), usize::from(header.key_len()));
        let (extras, rest) = bytes.get(HEADER_LEN..)?.split_at_checked(extras_len)?;
        let key = rest.get(..key_len)?;
        let value_len = (header.body_len() as usize).checked_sub(extras_len + key_len)?;
        Some(Request { header, extras, key, value_len })
    }

    /// What is asked for without its quiet form, and whether it was that.
    fn command(&self) -> (u8, bool) {
        let opcode = self.header.opcode();
        match opcode {
            opcode::GETQ => (opcode::GET, true),
            opcode::GETKQ => (opcode::GETK, true),
            opcode::GATQ => (opcode::GAT, true),
            opcode::GATKQ => (opcode::GATK, true),
            opcode::SETQ..=opcode::REPLACEQ => (opcode - opcode::SETQ + opcode::SET, true),
            opcode::DELETEQ..=opcode::FLUSHQ => (opcode - opcode::DELETEQ + opcode::DELETE, true),
            opcode::APPENDQ | opcode::PREPENDQ => (opcode - opcode::APPENDQ + opcode::APPEND, true),
            opcode => (opcode, false),
        }
    }

    /// Whether extras, key and value are those of the command.
    fn is_sound(&self) -> bool {
        let (has_key, has_value) = (!self.key.is_empty(), self.value_len > 0);
        match self.command().0 {
            opcode::SET | opcode::ADD | opcode::REPLACE => self.extras.len() == 8 && has_key,
            opcode::APPEND | opcode::PREPEND => self.extras.is_empty() && has_key,
            opcode::GET | opcode::GETK | opcode::DELETE => self.extras.is_empty() && has_key && !has_value,
            opcode::INCREMENT | opcode::DECREMENT => self.extras.len() == MAX_EXTRAS && has_key && !has_value,
            opcode::TOUCH | opcode::GAT | opcode::GATK => self.extras.len() == 4 && has_key && !has_value,
            opcode::FLUSH | opcode::VERBOSITY => matches!(self.extras.len(), 0 | 4) && !has_key && !has_value,
            opcode::STAT => self.extras.is_empty() && !has_value,
            opcode::QUIT | opcode::NOOP | opcode::VERSION => self.extras.is_empty() && !has_key && !has_value,
            _ => true,
        }
    }

    /// What a request that stores asks for; `None` for another.
    fn update(&self, now_s: i64) -> Option<Update> {
        let compare = Some(self.header.cas()).filter(|cas| *cas != 0);
        let mode = match self.command().0 {
            opcode::SET => Mode::Set,
            // As memcached does it: an item that must have a number is there.
            opcode::ADD | opcode::REPLACE if compare.is_some() => Mode::Set,
            opcode::ADD => Mode::Add,
            opcode::REPLACE => Mode::Replace,
            opcode::APPEND => Mode::Append,
            opcode::PREPEND => Mode::Prepend,
            _ => return None,
        };
        Some(Update {
            mode,
            is_binary: false,
            flags: word(self.extras, 0),
            expires_s: expiry(time(self.extras, 1), now_s),
            compare,
            invalidates: false,
            new_cas: None,
            vivify_s: None,
        })
    }

    /// A header of an answer to it.
    fn answer(&self, code: u16, cas: u64, lens: (usize, usize, usize)) -> [u8; HEADER_LEN] {
        let mut header = Header::zeroed();
        header.set_kind(magic::RESPONSE, self.header.opcode());
        header.set_lens(lens.0 as u8, lens.1 as u16, lens.2 as u32);
        header.set_status(code);
        header.set_opaque(self.header.opaque());
        header.set_cas(cas);
        header.into_inner()
    }

    /// Tells of an error.
    fn fail(&self, code: u16, output: &mut impl Output) {
        let text = said(code);
        output.put(&self.answer(code, 0, (0, 0, text.len())));
        output.put(text);
    }
}

/// What is read behind a request whose value nobody wants.
fn behind(request: &Request) -> State {
    if request.value_len > 0 { State::Skip(request.value_len) } else { State::Line }
}

/// A word of extras by its number; zero where there is none.
fn word(extras: &[u8], number: usize) -> u32 {
    extras.as_chunks().0.get(number).map_or(0, |word| u32::from_be_bytes(*word))
}

/// A double word of extras by the number of its first word.
fn double(extras: &[u8], number: usize) -> u64 {
    u64::from(word(extras, number)) << 32 | u64::from(word(extras, number + 1))
}

/// A time in extras, which has no sign.
fn time(extras: &[u8], number: usize) -> i64 {
    word(extras, number).into()
}

/// The text of an error.
fn said(code: u16) -> &'static [u8] {
    match code {
        status::KEY_NOT_FOUND => b"Not found",
        status::KEY_EXISTS => b"Data exists for key.",
        status::VALUE_TOO_LARGE => b"Too large.",
        status::INVALID_ARGUMENTS => b"Invalid arguments",
        status::ITEM_NOT_STORED => b"Not stored.",
        status::NOT_NUMERIC => b"Non-numeric server-side value for incr or decr",
        status::UNKNOWN_COMMAND => b"Unknown command",
        status::OUT_OF_MEMORY => b"Out of memory",
        _ => b"",
    }
}

/// The status of an outcome.
fn code(outcome: Outcome, mode: Option<Mode>) -> u16 {
    match (outcome, mode) {
        (Outcome::Done { .. }, _) => status::NO_ERROR,
        (Outcome::NotStored, Some(Mode::Add)) | (Outcome::Exists, _) => status::KEY_EXISTS,
        (Outcome::NotStored, Some(Mode::Replace)) | (Outcome::NotFound, _) => status::KEY_NOT_FOUND,
        (Outcome::NotStored, _) => status::ITEM_NOT_STORED,
        (Outcome::TooLarge, _) => status::VALUE_TOO_LARGE,
        (Outcome::NoMemory, _) => status::OUT_OF_MEMORY,
        (Outcome::NotNumeric, _) => status::NOT_NUMERIC,
    }
}

/// Whether bytes are of a request of this protocol.
pub fn is_binary(first: Option<&u8>) -> bool {
    first == Some(&magic::REQUEST)
}

impl Memcached {
    /// Takes bytes of a request, and carries it out or has its value come; how many.
    pub fn binary(&mut self, session: &mut Session, input: &[u8], output: &mut impl Output) -> usize {
        let mut used = 0;
        loop {
            let wanted = match Header::of(&session.line) {
                Some(header) => HEADER_LEN + usize::from(header.extras_len()) + usize::from(header.key_len()),
                None => HEADER_LEN,
            };
            let count = (wanted - session.line.len()).min(input.len() - used);
            session.line.extend_from_slice(&input[used..used + count]);
            used += count;
            if session.line.len() < wanted {
                return used;
            }
            let is_head = wanted == HEADER_LEN && session.line.len() == HEADER_LEN;
            if is_head && !self.is_bounded(session, output) {
                return used;
            }
            if Request::of(&session.line).is_some() {
                let mut line = std::mem::take(&mut session.line);
                if let Some(request) = Request::of(&line) {
                    self.binary_request(session, &request, output);
                }
                if !matches!(session.state, State::Value(_)) {
                    line.clear(); // the next request is read into it
                }
                session.line = line;
                return used;
            }
        }
    }

    /// Whether the lengths in a header are such as requests have; else the connection ends,
    /// for where the next request begins is not known.
    fn is_bounded(&mut self, session: &mut Session, output: &mut impl Output) -> bool {
        let Some(header) = Header::of(&session.line) else { return true };
        let (extras, key) = (usize::from(header.extras_len()), usize::from(header.key_len()));
        let is_sound = extras <= MAX_EXTRAS && key <= MAX_KEY && extras + key <= header.body_len() as usize;
        if !is_sound || header.body_len() > i32::MAX as u32 {
            self.shared.store.shard(b"").0.stats.bad_requests += 1;
            let request = Request { header, extras: &[], key: &[], value_len: 0 };
            request.fail(status::INVALID_ARGUMENTS, output);
            (session.state, session.line) = (State::Ended, Vec::new());
            return false;
        }
        true
    }

    /// A request came, but for its value.
    fn binary_request(&mut self, session: &mut Session, request: &Request, output: &mut impl Output) {
        // Who sends such a one may send something else behind it than its lengths tell.
        if !request.is_sound() {
            self.shared.store.shard(b"").0.stats.bad_requests += 1;
            session.state = State::Ended;
            return request.fail(status::INVALID_ARGUMENTS, output);
        }
        let now_s = self.now_s(output);
        let Some(update) = request.update(now_s) else {
            session.state = behind(request);
            return self.binary_command(session, request, now_s, output);
        };
        let len = request.value_len;
        if !self.shared.store.fits(request.key, len) {
            self.shared.store.refuse(request.key, &update, Outcome::TooLarge, now_s);
            session.state = State::Skip(len);
            return request.fail(status::VALUE_TOO_LARGE, output);
        }
        match len {
            0 => self.binary_store(request, &update, &[], output),
            len => {
                session.state = State::Value(Value::new(len, self.shared.store.shard(request.key).1.shard))
            }
        }
    }

    /// The value of a request came, or there is no room for it (`None`); `line` is the
    /// request.
    pub fn binary_value(&mut self, line: &[u8], value: Option<&[u8]>, output: &mut impl Output) {
        let now_s = self.now_s(output);
        let Some(request) = Request::of(line) else { return };
        let Some(update) = request.update(now_s) else { return };
        match value {
            Some(value) => self.binary_store(&request, &update, value, output),
            None => {
                self.shared.store.refuse(request.key, &update, Outcome::NoMemory, now_s);
                request.fail(status::OUT_OF_MEMORY, output);
            }
        }
    }

    fn binary_store(&mut self, request: &Request, update: &Update, value: &[u8], output: &mut impl Output) {
        let outcome = self.shared.store.update(request.key, update, value, self.now_s(output));
        self.binary_answer(request, outcome, Some(update.mode), output);
    }

    /// Tells what came of a request that changes an item.
    fn binary_answer(
        &self,
        request: &Request,
        outcome: Outcome,
        mode: Option<Mode>,
        output: &mut impl Output,
    ) {
        match outcome {
            Outcome::Done { .. } if request.command().1 => {}
            Outcome::Done { cas, .. } => output.put(&request.answer(status::NO_ERROR, cas, (0, 0, 0))),
            outcome => request.fail(code(outcome, mode), output),
        }
    }

    /// Carries out a request without a value.
    fn binary_command(
        &mut self,
        session: &mut Session,
        request: &Request,
        now_s: i64,
        output: &mut impl Output,
    ) {
        let (opcode, is_quiet) = request.command();
        let store = &self.shared.store;
        let compare = Some(request.header.cas()).filter(|cas| *cas != 0);
        let mut done = true;
        match opcode {
            opcode::GET | opcode::GETK | opcode::GAT | opcode::GATK => {
                return self.binary_get(session, request, now_s, output);
            }
            opcode::INCREMENT | opcode::DECREMENT => return self.binary_count(request, now_s, output),
            opcode::STAT => return self.binary_stat(request, output),
            opcode::DELETE => {
                let outcome = match store.delete(request.key, compare, now_s) {
                    // What is gone has no number.
                    Outcome::Done { .. } => Outcome::Done { cas: 0, len: 0 },
                    outcome => outcome,
                };
                return self.binary_answer(request, outcome, None, output);
            }
            opcode::TOUCH => {
                let expires_s = expiry(time(request.extras, 0), now_s);
                match store.touch(request.key, expires_s, now_s) {
                    Ok((cas, flags)) => {
                        let flags = flags.to_be_bytes();
                        output.put(&request.answer(status::NO_ERROR, cas, (flags.len(), 0, 0)));
                        output.put(&flags);
                    }
                    Err(outcome) => request.fail(code(outcome, None), output),
                }
                return;
            }
            opcode::VERSION => {
                let version = command::VERSION.as_bytes();
                output.put(&request.answer(status::NO_ERROR, 0, (0, 0, version.len())));
                return output.put(version);
            }
            opcode::QUIT => session.state = State::Ended,
            opcode::FLUSH => self.flush(time(request.extras, 0), output),
            opcode::NOOP | opcode::VERBOSITY => {}
            _ => done = false,
        }
        match done {
            true if is_quiet => {}
            true => output.put(&request.answer(status::NO_ERROR, 0, (0, 0, 0))),
            false => request.fail(status::UNKNOWN_COMMAND, output),
        }
    }

    fn binary_get(&mut self, session: &mut Session, request: &Request, now_s: i64, output: &mut impl Output) {
        let (opcode, is_quiet) = request.command();
        let touches = matches!(opcode, opcode::GAT | opcode::GATK);
        let key = if matches!(opcode, opcode::GETK | opcode::GATK) { request.key } else { &[] };
        let (mut shard, place) = self.shared.store.shard(request.key);
        shard.stats.cmd_get += 1;
        let Some(at) = shard.find(place.hash, request.key, now_s) else {
            shard.stats.get_misses += 1;
            if !is_quiet {
                let text = said(status::KEY_NOT_FOUND);
                // The key comes back in place of the text.
                let body = if key.is_empty() { text } else { key };
                let lens = if key.is_empty() { (0, 0, text.len()) } else { (0, key.len(), 0) };
                output.put(&request.answer(status::KEY_NOT_FOUND, 0, lens));
                output.put(body);
            }
            return;
        };
        shard.stats.get_hits += 1;
        shard.renew(at, now_s);
        if let Some(item) = shard.get_mut(at).filter(|_| touches) {
            item.expires_s = expiry(time(request.extras, 0), now_s);
        }
        let Some(item) = shard.get(at) else { return };
        let flags = item.flags.to_be_bytes();
        let lens = (flags.len(), key.len(), item.value().len());
        output.put(&request.answer(status::NO_ERROR, item.cas, lens));
        output.put(&flags);
        output.put(key);
        send_value(&mut shard, (place, at), b"", session, output);
    }

    fn binary_count(&mut self, request: &Request, now_s: i64, output: &mut impl Output) {
        let (opcode, is_quiet) = request.command();
        let extras = request.extras;
        let makes = word(extras, 4) != NO_INITIAL;
        let by = Arithmetic {
            is_binary: false,
            delta: double(extras, 0),
            is_decrement: opcode == opcode::DECREMENT,
            compare: Some(request.header.cas()).filter(|cas| *cas != 0),
            new_cas: None,
            vivify: makes.then(|| (double(extras, 2), expiry(time(extras, 4), now_s))),
            expires_s: None,
        };
        match self.shared.store.count(request.key, &by, now_s) {
            Ok(_) if is_quiet => {}
            Ok(counted) => {
                let value = counted.value.to_be_bytes();
                output.put(&request.answer(status::NO_ERROR, counted.cas, (0, 0, value.len())));
                output.put(&value);
            }
            Err(outcome) => request.fail(code(outcome, None), output),
        }
    }

    /// Statistics, an answer for each, and an empty one behind them.
    fn binary_stat(&mut self, request: &Request, output: &mut impl Output) {
        let all = match request.key {
            // As memcached has it: what stands behind these names is left.
            key if key.starts_with(b"reset") => {
                self.reset();
                vec![]
            }
            // Nothing is counted for prefixes of keys.
            b"detail on" | b"detail off" | b"detail dump" => vec![],
            key => match self.statistics(if key.starts_with(SETTINGS) { SETTINGS } else { key }, output) {
                Some(all) => all,
                None => return request.fail(status::KEY_NOT_FOUND, output),
            },
        };
        for (name, value) in all {
            output.put(&request.answer(status::NO_ERROR, 0, (0, name.len(), value.len())));
            output.put(name.as_bytes());
            output.put(value.as_bytes());
        }
        output.put(&request.answer(status::NO_ERROR, 0, (0, 0, 0)));
    }
}
