//! The meta commands that have no value behind them: `mg`, `md`, `ma`, `me` and `mn`.

use super::command::ERROR;
use super::flags::{self, Flags, push_key};
use super::operation::{Arithmetic, Outcome};
use super::slots::Item;
use super::store::{NEVER_S, New, Shard};
use super::{Memcached, Session, send_value};
use crate::output::Output;
use crate::text::{push_number, words};

/// What an item was like before a command changed it.
#[derive(Debug, Clone, Copy)]
struct Seen {
    cas: u64,
    flags: u32,
    expires_s: i64,
    used_s: i64,
    len: usize,
    is_fetched: bool,
    is_binary: bool,
}

impl Seen {
    fn of(item: &Item) -> Seen {
        let len = item.value().len();
        let Item { cas, flags, expires_s, used_s, is_fetched, is_binary, .. } = *item;
        Seen { cas, flags, expires_s, used_s, len, is_fetched, is_binary }
    }

    /// Appends the answer to a flag.
    fn answer(&self, flag: u8, now_s: i64, to: &mut Vec<u8>) {
        let value = match flag {
            b't' => return push_left(self.expires_s, now_s, to),
            b'c' => self.cas,
            b'f' => self.flags.into(),
            b'h' => self.is_fetched.into(),
            b'l' => (now_s - self.used_s).max(0) as u64,
            b's' => self.len as u64,
            _ => return,
        };
        to.extend_from_slice(&[b' ', flag]);
        push_number(to, value);
    }
}

/// Who is to renew an item.
#[derive(Debug, Clone, Copy, Default)]
struct Renewal {
    is_won: bool,
    is_stale: bool,
    is_sent: bool,
}

impl Renewal {
    /// Decides who renews an item, and marks it.
    fn of(item: &mut Item, wanted: &Flags, now_s: i64) -> Renewal {
        let left_s = item.expires_s.saturating_sub(now_s);
        let is_due = wanted.renews_s.is_some_and(|renews_s| left_s < renews_s);
        let is_sent = item.is_won;
        let is_won = (item.is_stale || is_due) && !is_sent;
        item.is_won |= is_won;
        Renewal { is_won, is_stale: item.is_stale, is_sent }
    }

    fn answer(self, to: &mut Vec<u8>) {
        let all = [(self.is_sent, b" Z"), (self.is_stale, b" X"), (self.is_won, b" W")];
        all.iter().filter(|(is, _)| *is).for_each(|(_, text)| to.extend_from_slice(*text));
    }
}

impl Memcached {
    /// Carries out a meta command without a value; `arguments` stand behind its name.
    pub fn meta(
        &mut self,
        session: &mut Session,
        command: &[u8],
        arguments: &[u8],
        output: &mut impl Output,
    ) {
        if command == b"mn" {
            return output.put(b"MN\r\n");
        }
        let now_s = self.now_s(output);
        let known = match command {
            b"mg" => &flags::GET,
            b"md" => &flags::DELETE,
            b"ma" => &flags::COUNT,
            _ => &flags::DEBUG,
        };
        let (key, behind) = first(arguments);
        if key.is_empty() && command != b"me" {
            return self.refuse(ERROR, output);
        }
        let wanted = match flags::parse(key, behind, known, now_s) {
            Ok(wanted) => wanted,
            Err(text) => return self.refuse(text, output),
        };
        self.shared.store.shard(&wanted.key).0.stats.cmd_meta += 1;
        match command {
            b"mg" => self.meta_get(session, &wanted, now_s, output),
            b"md" => self.meta_delete(&wanted, now_s, output),
            b"ma" => self.meta_count(&wanted, now_s, output),
            _ => self.meta_debug(&wanted, now_s, output),
        }
    }

    fn meta_get(&mut self, session: &mut Session, wanted: &Flags, now_s: i64, output: &mut impl Output) {
        let head = &mut self.scratch;
        head.clear();
        let (mut shard, place) = self.shared.store.shard(&wanted.key);
        shard.stats.cmd_get += 1;
        let found = shard.find(place.hash, &wanted.key, now_s);
        let hit_or_miss =
            if found.is_some() { &mut shard.stats.get_hits } else { &mut shard.stats.get_misses };
        *hit_or_miss += 1;
        let found = found.map(|at| (at, false)).or_else(|| vivify(&mut shard, place.hash, wanted, now_s));
        let Some((at, is_new)) = found else {
            if !wanted.is_quiet {
                head.extend_from_slice(b"EN");
                wanted.answer(wanted.is_binary, head, |_, _| {});
                head.extend_from_slice(b"\r\n");
                output.put(head);
            }
            return;
        };
        let Some(item) = shard.get_mut(at) else { return };
        // Flags are carried out in their order: those in front of `T` see the time that was left.
        let before_s = item.expires_s;
        let after_s = wanted.expires_s.filter(|_| !is_new).unwrap_or(before_s);
        let seen_by = |flag| if wanted.stands_in_front(flag, b'T') { before_s } else { after_s };
        item.expires_s = seen_by(b'R');
        let renewal = if is_new { Renewal::default() } else { Renewal::of(item, wanted, now_s) };
        item.expires_s = after_s;
        let seen = Seen { expires_s: seen_by(b't'), ..Seen::of(item) };
        let wants_value = wanted.wants_value && wanted.compare != Some(seen.cas);
        if wants_value {
            head.extend_from_slice(b"VA ");
            push_number(head, seen.len as u64);
        } else {
            head.extend_from_slice(b"HD");
        }
        wanted.answer(seen.is_binary, head, |flag, to| seen.answer(flag, now_s, to));
        Renewal { is_won: renewal.is_won || is_new, ..renewal }.answer(head);
        head.extend_from_slice(b"\r\n");
        output.put(head);
        if !wanted.leaves_order && !is_new {
            shard.renew(at, now_s);
        }
        if wants_value {
            send_value(&mut shard, (place, at), b"\r\n", session, output);
        }
    }

    fn meta_delete(&mut self, wanted: &Flags, now_s: i64, output: &mut impl Output) {
        let outcome = match wanted.invalidates || wanted.empties {
            true => self.invalidate(wanted, now_s),
            false => self.shared.store.delete(&wanted.key, wanted.compare, now_s),
        };
        if !wanted.is_quiet || !matches!(outcome, Outcome::Done { .. }) {
            self.meta_answer(wanted, outcome, false, output);
        }
    }

    /// Leaves an item without its value, or as a stale one.
    fn invalidate(&mut self, wanted: &Flags, now_s: i64) -> Outcome {
        let (mut shard, place) = self.shared.store.shard(&wanted.key);
        let Some(mut at) = shard.find(place.hash, &wanted.key, now_s) else {
            shard.stats.delete_misses += 1;
            return Outcome::NotFound;
        };
        let Some(item) = shard.get(at) else { return Outcome::NotFound };
        if wanted.compare.is_some_and(|compare| compare != item.cas) {
            return Outcome::Exists;
        }
        let (is_stale, is_won) = (item.is_stale, item.is_won);
        let cas = wanted.new_cas;
        if wanted.empties {
            let new = New {
                key: &wanted.key,
                is_binary: item.is_binary,
                value: [&[], &[]],
                flags: 0,
                expires_s: item.expires_s,
                cas,
            };
            match shard.store(place.hash, &new, now_s) {
                Ok(new) => at = new,
                Err(no_memory) => return no_memory.into(),
            }
        }
        shard.stats.delete_hits += 1;
        let next = cas.unwrap_or_else(|| shard.next_cas());
        let Some(item) = shard.get_mut(at) else { return Outcome::NotFound };
        (item.is_stale, item.is_won) = (is_stale, is_won);
        if wanted.invalidates {
            (item.is_stale, item.is_won) = (true, false);
            item.expires_s = wanted.expires_s.unwrap_or(item.expires_s);
        }
        item.cas = next;
        Outcome::Done { cas: next, len: item.value().len() }
    }

    fn meta_count(&mut self, wanted: &Flags, now_s: i64, output: &mut impl Output) {
        let is_decrement = match wanted.mode {
            None | Some(b'I' | b'i' | b'+') => false,
            Some(b'D' | b'd' | b'-') => true,
            Some(_) => return self.refuse(b"CLIENT_ERROR invalid mode for ma M token\r\n", output),
        };
        let by = Arithmetic {
            is_binary: wanted.is_binary,
            delta: wanted.delta,
            is_decrement,
            compare: wanted.compare,
            new_cas: wanted.new_cas,
            vivify: wanted.made_s.map(|expires_s| (wanted.initial, expires_s)),
            expires_s: wanted.expires_s,
        };
        let counted = match self.shared.store.count(&wanted.key, &by, now_s) {
            Ok(counted) => counted,
            Err(outcome) => return self.meta_answer(wanted, outcome, false, output),
        };
        // One that was made is told of in any case, as by memcached.
        if wanted.is_quiet && !counted.is_new {
            return;
        }
        let mut digits = Vec::with_capacity(20);
        push_number(&mut digits, counted.value);
        let head = &mut self.scratch;
        head.clear();
        if wanted.wants_value {
            head.extend_from_slice(b"VA ");
            push_number(head, digits.len() as u64);
        } else {
            head.extend_from_slice(b"HD");
        }
        wanted.answer(wanted.is_binary, head, |flag, to| match flag {
            b't' => push_left(counted.expires_s, now_s, to),
            b'c' => {
                to.extend_from_slice(b" c");
                push_number(to, counted.cas);
            }
            _ => {}
        });
        head.extend_from_slice(b"\r\n");
        if wanted.wants_value {
            head.extend_from_slice(&digits);
            head.extend_from_slice(b"\r\n");
        }
        output.put(head);
    }

    fn meta_debug(&mut self, wanted: &Flags, now_s: i64, output: &mut impl Output) {
        let (mut shard, place) = self.shared.store.shard(&wanted.key);
        let found = shard.find(place.hash, &wanted.key, now_s);
        let Some(item) = found.and_then(|at| shard.get(at)) else { return output.put(b"EN\r\n") };
        let head = &mut self.scratch;
        head.clear();
        head.extend_from_slice(b"ME ");
        push_key(&wanted.key, wanted.is_binary, head);
        let seen = Seen::of(item);
        let left = if seen.expires_s == NEVER_S { -1 } else { seen.expires_s - now_s };
        let (used, cas, size) = (now_s - seen.used_s, seen.cas, item.size());
        let fetched = if seen.is_fetched { "yes" } else { "no" };
        let text = format!(" exp={left} la={used} cas={cas} fetch={fetched} cls=1 size={size}\r\n");
        head.extend_from_slice(text.as_bytes());
        output.put(head);
    }

    /// Tells what came of a meta command that changes an item, with those flags that only tell what
    /// came; and, of one that stores, its number and length.
    pub fn meta_answer(
        &mut self,
        wanted: &Flags,
        outcome: Outcome,
        tells_item: bool,
        output: &mut impl Output,
    ) {
        let (code, cas, len): (&[u8], u64, usize) = match outcome {
            Outcome::Done { cas, len } => (b"HD", cas, len),
            Outcome::NotStored => (b"NS", 0, 0),
            Outcome::Exists => (b"EX", 0, 0),
            Outcome::NotFound => (b"NF", 0, 0),
            Outcome::TooLarge => return output.put(b"SERVER_ERROR object too large for cache\r\n"),
            Outcome::NoMemory => return output.put(b"SERVER_ERROR out of memory storing object\r\n"),
            Outcome::NotNumeric => {
                let text = b"CLIENT_ERROR cannot increment or decrement non-numeric value\r\n";
                return self.refuse(text, output);
            }
        };
        let head = &mut self.scratch;
        head.clear();
        head.extend_from_slice(code);
        wanted.answer(wanted.is_binary, head, |flag, to| match flag {
            b'c' if tells_item => {
                to.extend_from_slice(b" c");
                push_number(to, cas);
            }
            b's' if tells_item => {
                to.extend_from_slice(b" s");
                push_number(to, len as u64);
            }
            _ => {}
        });
        head.extend_from_slice(b"\r\n");
        output.put(head);
    }
}

/// Appends how many seconds an item has left.
fn push_left(expires_s: i64, now_s: i64, to: &mut Vec<u8>) {
    if expires_s == NEVER_S {
        return to.extend_from_slice(b" t-1");
    }
    to.extend_from_slice(b" t");
    push_number(to, expires_s.saturating_sub(now_s).max(0) as u64);
}

/// The first word of a text, and what stands behind it.
pub fn first(text: &[u8]) -> (&[u8], &[u8]) {
    let word = words(text).next().unwrap_or_default();
    let start = text.iter().position(|byte| *byte != b' ').unwrap_or(0);
    (word, &text[start + word.len()..])
}

/// An empty item in place of one that is not there, where the client wants that.
fn vivify(shard: &mut Shard, hash: u32, wanted: &Flags, now_s: i64) -> Option<(u32, bool)> {
    let new = New {
        key: &wanted.key,
        is_binary: wanted.is_binary,
        value: [&[], &[]],
        flags: 0,
        expires_s: wanted.made_s?,
        cas: wanted.new_cas,
    };
    let at = shard.store(hash, &new, now_s).ok()?;
    shard.get_mut(at)?.is_won = true;
    Some((at, true))
}
