//! Lines of the text protocol, and the commands that are one line and no value.

use std::sync::atomic::Ordering::Relaxed;

use super::flags::FORMAT;
use super::meta::first;
use super::operation::{Arithmetic, Outcome};
use super::store::{MAX_KEY, expiry};
use super::{Memcached, Session, State};
use crate::output::Output;
use crate::text::{number, push_number, signed, words};

const ERROR: &[u8] = b"ERROR\r\n";
const USAGE_DELETE: &[u8] = b"CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]\r\n";
const NOT_FOUND: &[u8] = b"NOT_FOUND\r\n";
/// What clients are told as the version.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What a command says, and whether it says it even to one who wants no reply.
type Said = Result<&'static [u8], &'static [u8]>;

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
            b"stats" => self.stats(arguments, output),
            // A key may be named noreply.
            b"delete" => self.say(self.delete(arguments, output), first(arguments).1, output),
            b"touch" => self.say(self.touch(arguments, output), arguments, output),
            b"flush_all" => self.say(self.flush_all(arguments, output), arguments, output),
            b"verbosity" => {
                let said =
                    if words(arguments).next().is_some() { Ok(b"OK\r\n".as_slice()) } else { Err(ERROR) };
                self.say(said, arguments, output);
            }
            b"shutdown" => self.refuse(b"ERROR: shutdown not enabled\r\n", output),
            _ => self.refuse(ERROR, output),
        }
        0
    }

    /// Tells what came of a command; errors also to one who wants no reply.
    fn say(&self, said: Said, arguments: &[u8], output: &mut impl Output) {
        match said {
            Ok(text) if !is_quiet(arguments) => output.put(text),
            Ok(_) => {}
            Err(text) => self.refuse(text, output),
        }
    }

    fn delete(&self, arguments: &[u8], output: &impl Output) -> Said {
        let mut words = words(arguments);
        let key = words.next().ok_or(ERROR)?;
        // Older clients give a time, which must be zero.
        match (words.next(), words.next(), words.next()) {
            (None, ..) | (Some(b"0" | b"noreply"), None, _) | (Some(b"0"), Some(b"noreply"), None) => {}
            _ => return Err(USAGE_DELETE),
        }
        if key.len() > MAX_KEY {
            return Err(FORMAT);
        }
        match self.shared.store.delete(key, None, self.now_s(output)) {
            Outcome::Done { .. } => Ok(b"DELETED\r\n"),
            _ => Ok(NOT_FOUND),
        }
    }

    fn touch(&self, arguments: &[u8], output: &impl Output) -> Said {
        let mut words = words(arguments);
        let (key, exptime) = words.next().zip(words.next()).ok_or(ERROR)?;
        if key.len() > MAX_KEY {
            return Err(FORMAT);
        }
        let exptime = signed(exptime).ok_or(b"CLIENT_ERROR invalid exptime argument\r\n".as_slice())?;
        let now_s = self.now_s(output);
        match self.shared.store.touch(key, expiry(exptime, now_s), now_s) {
            Outcome::Done { .. } => Ok(b"TOUCHED\r\n"),
            _ => Ok(NOT_FOUND),
        }
    }

    fn flush_all(&self, arguments: &[u8], output: &impl Output) -> Said {
        let delay = words(arguments).next().filter(|word| *word != b"noreply");
        let delay = delay.map(|delay| signed(delay).ok_or(FORMAT)).transpose()?;
        self.flush(delay.unwrap_or(0), output);
        Ok(b"OK\r\n")
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
        if key.len() > MAX_KEY {
            return self.refuse(FORMAT, output);
        }
        let Some(delta) = number(delta) else {
            return self.refuse(b"CLIENT_ERROR invalid numeric delta argument\r\n", output);
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
        let is_quiet = is_quiet(arguments);
        match self.shared.store.count(key, &by, self.now_s(output)) {
            Ok(_) | Err(Outcome::NotFound) if is_quiet => {}
            Ok((value, _)) => {
                self.scratch.clear();
                push_number(&mut self.scratch, value);
                self.scratch.extend_from_slice(b"\r\n");
                output.put(&self.scratch);
            }
            Err(Outcome::NotFound) => output.put(NOT_FOUND),
            Err(Outcome::NotNumeric) => {
                let text = b"CLIENT_ERROR cannot increment or decrement non-numeric value\r\n";
                self.refuse(text, output);
            }
            Err(_) => output.put(b"SERVER_ERROR out of memory in incr\r\n"),
        }
    }

    fn stats(&mut self, arguments: &[u8], output: &mut impl Output) {
        match words(arguments).next() {
            None => {
                let stats = self.general_stats(output);
                stats.iter().for_each(|(name, value)| put_stat(name, value, output));
            }
            Some(b"reset") => {
                self.shared.store.reset_stats();
                return output.put(b"RESET\r\n");
            }
            Some(b"settings") => {
                let limits = self.shared.store.limits();
                put_stat("maxbytes", &limits.memory.to_string(), output);
                put_stat("item_size_max", &limits.value.to_string(), output);
                put_stat("num_threads", &limits.threads.to_string(), output);
                put_stat("evictions", "on", output);
                put_stat("cas_enabled", "yes", output);
            }
            Some(b"sizes") => put_stat("sizes_status", "disabled", output),
            // There are no slab classes.
            Some(b"items" | b"slabs" | b"conns") => {}
            Some(_) => return self.refuse(ERROR, output),
        }
        output.put(b"END\r\n");
    }

    /// The general-purpose statistics: names and values.
    pub fn general_stats(&self, output: &impl Output) -> Vec<(&'static str, String)> {
        let shared = &self.shared;
        let now_s = self.now_s(output);
        let (stats, items, bytes) = shared.store.stats();
        let sum = |of: fn(&super::Traffic) -> &std::sync::atomic::AtomicU64| {
            let each = shared.traffic.iter().map(|traffic| of(traffic).load(Relaxed));
            each.fold(0, u64::wrapping_add).to_string()
        };
        let limits = shared.store.limits();
        let mut all = vec![
            ("pid", std::process::id().to_string()),
            ("uptime", (now_s - shared.started_s).to_string()),
            ("time", now_s.to_string()),
            ("version", VERSION.to_owned()),
            ("pointer_size", usize::BITS.to_string()),
            ("curr_connections", sum(|traffic| &traffic.connections)),
            ("total_connections", sum(|traffic| &traffic.opened)),
            ("bytes_read", sum(|traffic| &traffic.bytes_read)),
            ("bytes_written", sum(|traffic| &traffic.bytes_written)),
            ("curr_items", items.to_string()),
            ("bytes", bytes.to_string()),
            ("limit_maxbytes", limits.memory.to_string()),
            ("threads", limits.threads.to_string()),
            ("accepting_conns", "1".to_owned()),
        ];
        all.extend(stats.all().map(|(name, value)| (name, value.to_string())));
        all
    }
}

fn is_quiet(arguments: &[u8]) -> bool {
    words(arguments).last() == Some(b"noreply")
}

fn put_stat(name: &str, value: &str, output: &mut impl Output) {
    for part in ["STAT ", name, " ", value, "\r\n"] {
        output.put(part.as_bytes());
    }
}
