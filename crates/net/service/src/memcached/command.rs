//! Lines of the text protocol, and the commands that are one line and no value.

use std::sync::atomic::Ordering::Relaxed;

use super::dump::{Dump, Form};
use super::flags::FORMAT;
use super::meta::first;
use super::operation::{Arithmetic, Outcome};
use super::store::{MAX_KEY, expiry};
use super::{Memcached, Session, State};
use crate::output::Output;
use crate::text::{push_number, signed, unsigned, words};

/// There is no such command, or it has not so many words.
pub const ERROR: &[u8] = b"ERROR\r\n";
const USAGE_DELETE: &[u8] = b"CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]\r\n";
const EXPTIME: &[u8] = b"CLIENT_ERROR invalid exptime argument\r\n";
const OK: &[u8] = b"OK\r\n";
const NOT_FOUND: &[u8] = b"NOT_FOUND\r\n";
/// What clients are told as the version: that of memcached whose protocol this is, for
/// libmemcached goes by it, and takes none that begins with zero.
pub const VERSION: &str = concat!("1.6.18-ixora-", env!("CARGO_PKG_VERSION"));

/// What a command says: an error where it could not be carried out.
type Said = Result<&'static [u8], Refusal>;

/// Why a command is refused.
#[derive(Clone, Copy)]
enum Refusal {
    /// It has too few words or too many: the last one does not say whether a reply is wanted.
    Count,
    /// By this text.
    Text(&'static [u8]),
}

impl From<&'static [u8]> for Refusal {
    fn from(text: &'static [u8]) -> Refusal {
        Refusal::Text(text)
    }
}

impl Memcached {
    /// Carries out a line; how many bytes were taken of what stands behind it.
    pub fn request(
        &mut self,
        session: &mut Session,
        line: &[u8],
        behind: &[u8],
        output: &mut impl Output,
    ) -> usize {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let (command, arguments) = first(line);
        match command {
            b"get" => self.fetch(session, (false, false), arguments, output),
            b"gets" => self.fetch(session, (true, false), arguments, output),
            b"gat" => self.fetch(session, (false, true), arguments, output),
            b"gats" => self.fetch(session, (true, true), arguments, output),
            b"mg" | b"md" | b"ma" | b"me" | b"mn" => self.meta(session, command, arguments, output),
            b"set" | b"add" | b"replace" | b"append" | b"prepend" | b"cas" | b"ms" => {
                return self.storage(session, line, behind, output);
            }
            b"incr" | b"decr" => self.arithmetic(command == b"decr", arguments, output),
            b"quit" => session.state = State::Ended,
            b"version" => {
                output.put(b"VERSION ");
                output.put(VERSION.as_bytes());
                output.put(b"\r\n");
            }
            b"stats" => self.stats(session, arguments, output),
            // A key may be named noreply.
            b"delete" => self.say(self.delete(arguments, output), first(arguments).1, output),
            b"touch" => self.say(self.touch(arguments, output), arguments, output),
            b"flush_all" => self.say(self.flush_all(arguments, output), arguments, output),
            b"verbosity" => self.say(verbosity(arguments), arguments, output),
            b"cache_memlimit" => self.limit_memory(arguments, output),
            b"lru_crawler" => self.crawl(session, arguments, output),
            b"slabs" => self.say(slabs(arguments), arguments, output),
            b"lru" => self.say(lru(arguments), arguments, output),
            b"watch" => self.refuse(b"ERROR there are no logs to watch\r\n", output),
            b"shutdown" => match &self.shutdown {
                None => self.refuse(b"ERROR: shutdown not enabled\r\n", output),
                Some(stop) => {
                    stop.store(true, Relaxed);
                    session.state = State::Ended;
                }
            },
            _ => self.refuse(ERROR, output),
        }
        0
    }

    /// Tells what came of a command, unless the client wants no reply.
    fn say(&self, said: Said, arguments: &[u8], output: &mut impl Output) {
        match said {
            Ok(text) if !is_quiet(arguments) => output.put(text),
            Ok(_) => {}
            Err(Refusal::Count) => self.refuse(ERROR, output),
            Err(Refusal::Text(text)) => self.refuse_unless(is_quiet(arguments), text, output),
        }
    }

    /// `cache_memlimit`, in mebibytes.
    fn limit_memory(&self, arguments: &[u8], output: &mut impl Output) {
        if words(arguments).count() > 2 {
            return self.refuse(ERROR, output);
        }
        let is_quiet = is_quiet(arguments);
        let mebibytes = words(arguments).next().and_then(unsigned).and_then(|n| usize::try_from(n).ok());
        let Some(bytes) = mebibytes.and_then(|n| n.checked_mul(1 << 20)) else {
            return self.refuse_unless(is_quiet, ERROR, output);
        };
        match self.shared.store.set_memory(bytes) {
            Ok(()) if is_quiet => {}
            Ok(()) => output.put(OK),
            Err((least, _)) if bytes < least => {
                let least = least.div_ceil(1 << 20);
                let text = format!("MEMLIMIT_TOO_SMALL cannot set maxbytes to less than {least}m\r\n");
                self.refuse_unless(is_quiet, text.as_bytes(), output);
            }
            Err((_, most)) => {
                let text = format!("SERVER_ERROR the server was started with {}m, the most\r\n", most >> 20);
                self.refuse_unless(is_quiet, text.as_bytes(), output);
            }
        }
    }

    /// `lru_crawler`: items can be listed. There is no thread that looks for expired ones, for
    /// they make room first.
    fn crawl(&mut self, session: &mut Session, arguments: &[u8], output: &mut impl Output) {
        let mut words = words(arguments);
        let form = match (words.next(), words.next()) {
            (Some(b"metadump"), Some(classes)) => (Form::Metadump, classes),
            (Some(b"mgdump"), Some(classes)) => (Form::Mgdump, classes),
            (Some(b"sleep" | b"tocrawl"), Some(count)) if unsigned(count).is_none() => {
                return self.refuse(FORMAT, output);
            }
            (Some(b"sleep"), Some(us)) if unsigned(us).is_some_and(|us| us > MOST_SLEEP_US) => {
                return self.refuse(b"CLIENT_ERROR sleep must be one second or less\r\n", output);
            }
            (Some(b"crawl"), Some(classes)) if !are_classes(classes) => {
                return self.refuse(b"BADCLASS invalid class id\r\n", output);
            }
            (Some(b"enable" | b"disable"), None) | (Some(b"sleep" | b"tocrawl" | b"crawl"), Some(_)) => {
                return output.put(OK);
            }
            _ => return self.refuse(ERROR, output),
        };
        let is_class = |class: &[u8]| class == b"1";
        let is_any = matches!(form.1, b"all" | b"hash") || form.1.split(|byte| *byte == b',').any(is_class);
        if !is_any {
            return self.refuse(b"BADCLASS invalid class id\r\n", output);
        }
        match Dump::begin(form.0, &self.shared) {
            Some(dump) => session.state = State::Dump(dump),
            None => output.put(b"BUSY currently processing crawler request\r\n"),
        }
    }

    fn delete(&self, arguments: &[u8], output: &impl Output) -> Said {
        let mut words = words(arguments);
        let key = words.next().ok_or(Refusal::Count)?;
        // Older clients give a time, which must be zero.
        match (words.next(), words.next(), words.next()) {
            (.., Some(_)) => return Err(Refusal::Count),
            (None, ..) | (Some(b"0" | b"noreply"), None, _) | (Some(b"0"), Some(b"noreply"), _) => {}
            _ => return Err(USAGE_DELETE.into()),
        }
        if key.len() > MAX_KEY {
            return Err(FORMAT.into());
        }
        match self.shared.store.delete(key, None, self.now_s(output)) {
            Outcome::Done { .. } => Ok(b"DELETED\r\n"),
            _ => Ok(NOT_FOUND),
        }
    }

    fn touch(&self, arguments: &[u8], output: &impl Output) -> Said {
        let mut words = words(arguments);
        let (key, exptime) = words.next().zip(words.next()).ok_or(Refusal::Count)?;
        if words.nth(1).is_some() {
            return Err(Refusal::Count);
        }
        if key.len() > MAX_KEY {
            return Err(FORMAT.into());
        }
        let exptime = signed(exptime).ok_or(EXPTIME)?;
        let now_s = self.now_s(output);
        match self.shared.store.touch(key, expiry(exptime, now_s), now_s) {
            Ok(_) => Ok(b"TOUCHED\r\n"),
            Err(_) => Ok(NOT_FOUND),
        }
    }

    fn flush_all(&self, arguments: &[u8], output: &impl Output) -> Said {
        let mut words = words(arguments);
        let delay = words.next().filter(|word| *word != b"noreply");
        if words.nth(1).is_some() {
            return Err(Refusal::Count);
        }
        let delay = delay.map(|delay| signed(delay).ok_or(EXPTIME)).transpose()?;
        self.flush(delay.unwrap_or(0), output);
        Ok(OK)
    }

    /// All items are gone after a time as clients give it.
    pub fn flush(&self, delay: i64, output: &impl Output) {
        let now_s = self.now_s(output);
        self.shared.store.shard(b"").0.stats.cmd_flush += 1;
        self.shared.store.flush((delay > 0).then(|| expiry(delay, now_s)));
    }

    fn arithmetic(&mut self, is_decrement: bool, arguments: &[u8], output: &mut impl Output) {
        let mut words = words(arguments);
        let Some((key, delta)) = words.next().zip(words.next()) else { return self.refuse(ERROR, output) };
        let is_quiet = words.next().unwrap_or(delta) == b"noreply";
        if words.next().is_some() {
            return self.refuse(ERROR, output);
        }
        if key.len() > MAX_KEY {
            return self.refuse_unless(is_quiet, FORMAT, output);
        }
        let Some(delta) = unsigned(delta) else {
            let text = b"CLIENT_ERROR invalid numeric delta argument\r\n";
            return self.refuse_unless(is_quiet, text, output);
        };
        let by = Arithmetic {
            is_binary: false,
            delta,
            is_decrement,
            compare: None,
            new_cas: None,
            vivify: None,
            expires_s: None,
        };
        match self.shared.store.count(key, &by, self.now_s(output)) {
            Ok(_) | Err(Outcome::NotFound) if is_quiet => {}
            Ok(counted) => {
                self.scratch.clear();
                push_number(&mut self.scratch, counted.value);
                self.scratch.extend_from_slice(b"\r\n");
                output.put(&self.scratch);
            }
            Err(Outcome::NotFound) => output.put(NOT_FOUND),
            Err(Outcome::NotNumeric) => {
                let text = b"CLIENT_ERROR cannot increment or decrement non-numeric value\r\n";
                self.refuse_unless(is_quiet, text, output);
            }
            Err(_) if is_quiet => {}
            Err(_) => output.put(b"SERVER_ERROR out of memory in incr\r\n"),
        }
    }
}

fn is_quiet(arguments: &[u8]) -> bool {
    words(arguments).last() == Some(b"noreply")
}

/// `verbosity`, which changes nothing: what is logged is the operator's choice.
fn verbosity(arguments: &[u8]) -> Said {
    let mut words = words(arguments);
    match (words.next(), words.nth(1)) {
        (None, _) | (_, Some(_)) => Err(Refusal::Count),
        (Some(level), None) if level == b"noreply" || unsigned(level).is_some() => Ok(OK),
        (Some(_), None) => Err(FORMAT.into()),
    }
}

/// `slabs`, of which there are none: nothing can be moved between them.
fn slabs(arguments: &[u8]) -> Said {
    let mut words = words(arguments);
    match (words.next(), words.next(), words.next()) {
        (Some(b"automove"), Some(b"ratio"), ratio) => {
            let ratio = ratio.and_then(|ratio| std::str::from_utf8(ratio).ok()?.parse::<f64>().ok());
            ratio.map(|_| OK).ok_or(ERROR.into())
        }
        (Some(b"automove"), Some(mode), _) => match unsigned(mode) {
            Some(0..=2) => Ok(OK),
            Some(_) => Err(ERROR.into()),
            None => Err(FORMAT.into()),
        },
        (Some(b"reassign"), Some(from), Some(to)) if signed(from).is_none() || signed(to).is_none() => {
            Err(FORMAT.into())
        }
        (Some(b"reassign"), Some(from), Some(to)) if from == to => {
            Err(Refusal::Text(b"SAME src and dst class are identical\r\n"))
        }
        (Some(b"reassign"), Some(_), Some(_)) => {
            Err(Refusal::Text(b"BADCLASS there are no slab classes\r\n"))
        }
        _ => Err(Refusal::Count),
    }
}

/// Whether classes of items are named as memcached names them.
fn are_classes(classes: &[u8]) -> bool {
    let is_class = |class: &[u8]| unsigned(class).is_some_and(|class| (1..=MOST_CLASSES).contains(&class));
    classes == b"all" || classes.split(|byte| *byte == b',').all(is_class)
}

/// The most classes of items, and the longest rest of the thread that looks for expired ones in
/// microseconds, both of memcached.
pub const MOST_CLASSES: u64 = 63;
const MOST_SLEEP_US: u64 = 1_000_000;

/// `lru`: items are in one list, in the order of their use, and no tuning changes anything.
fn lru(arguments: &[u8]) -> Said {
    let mut words = words(arguments);
    match (words.next(), words.next()) {
        (Some(b"mode"), Some(b"flat" | b"segmented")) => Ok(OK),
        (Some(b"temp_ttl"), Some(seconds)) if signed(seconds).is_some() => Ok(OK),
        (Some(b"tune"), Some(hot)) => match (unsigned(hot), words.next().and_then(unsigned), words.count()) {
            (Some(hot), Some(warm), 2..) if hot.saturating_add(warm) <= 80 => Ok(OK),
            (Some(_), Some(_), 2..) => Err(Refusal::Text(b"ERROR hot and warm pcts must not exceed 80\r\n")),
            _ => Err(ERROR.into()),
        },
        _ => Err(ERROR.into()),
    }
}
