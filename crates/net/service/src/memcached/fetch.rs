//! `get`, `gets`, `gat` and `gats`.

use super::store::{MAX_KEY, expiry};
use super::{Memcached, Session, State, send_value};
use crate::output::Output;
use crate::text::{push_number, signed, words};

/// Keys that are answered in a turn: of those that are not there, no answer that is full would end
/// it.
const KEYS: usize = 1000;

/// What is wanted of items.
#[derive(Debug, Clone, Copy)]
pub struct Fetch {
    /// Their numbers too.
    has_cas: bool,
    /// When they expire from now on.
    expires_s: Option<i64>,
}

/// Keys of a line that are still to be answered.
#[derive(Debug, Clone, Copy)]
pub struct Keys {
    fetch: Fetch,
    /// Where they begin.
    at: usize,
}

impl Memcached {
    /// A line that asks for keys, of which `keys` are what stands behind the command.
    pub fn fetch(
        &mut self,
        session: &mut Session,
        (has_cas, touches): (bool, bool),
        mut keys: &[u8],
        output: &mut impl Output,
    ) {
        let mut expires_s = None;
        if touches {
            let Some(word) = words(keys).next() else { return self.refuse(b"ERROR\r\n", output) };
            let Some(given) = signed(word) else {
                return self.refuse(b"CLIENT_ERROR invalid exptime argument\r\n", output);
            };
            let start = keys.iter().position(|byte| *byte != b' ').unwrap_or(0);
            keys = &keys[start + word.len()..];
            expires_s = Some(expiry(given, self.now_s(output)));
        }
        // As memcached has it, whoever touches may name nothing.
        if !touches && words(keys).next().is_none() {
            return self.refuse(b"ERROR\r\n", output);
        }
        if words(keys).any(|key| key.len() > MAX_KEY) {
            return self.refuse(b"CLIENT_ERROR bad command line format\r\n", output);
        }
        let fetch = Fetch { has_cas, expires_s };
        if let Some(at) = self.keys(session, fetch, keys, output) {
            session.line = keys[at..].to_vec();
            session.state = State::Keys(Keys { fetch, at: 0 });
        }
    }

    /// Goes on with the keys of a line that is kept.
    pub fn more_keys(&mut self, session: &mut Session, output: &mut impl Output) {
        let State::Keys(Keys { fetch, at }) = session.state else { return };
        let line = std::mem::take(&mut session.line);
        match self.keys(session, fetch, &line[at..], output) {
            Some(more) => {
                session.state = State::Keys(Keys { fetch, at: at + more });
                session.line = line;
            }
            None => session.state = State::Line,
        }
    }

    /// Answers some keys while there is room, and tells of the end behind the last; how many bytes
    /// of them are done when those were not all.
    fn keys(
        &mut self,
        session: &mut Session,
        fetch: Fetch,
        keys: &[u8],
        output: &mut impl Output,
    ) -> Option<usize> {
        let (mut at, mut answered) = (0, 0);
        while let Some(start) = keys[at..].iter().position(|byte| *byte != b' ') {
            let key = keys[at + start..].split(|byte| *byte == b' ').next().unwrap_or_default();
            at += start + key.len();
            self.item(session, fetch, key, output);
            answered += 1;
            if session.sending.is_some() || output.is_full() || answered == KEYS {
                return Some(at);
            }
        }
        output.put(b"END\r\n");
        None
    }

    /// Answers with an item, if there is one.
    fn item(&mut self, session: &mut Session, fetch: Fetch, key: &[u8], output: &mut impl Output) {
        let now_s = self.now_s(output);
        let (mut shard, place) = self.shared.store.shard(key);
        shard.stats.cmd_get += 1;
        shard.stats.cmd_touch += u64::from(fetch.expires_s.is_some());
        let Some(at) = shard.find(place.hash, key, now_s) else {
            shard.stats.get_misses += 1;
            shard.stats.touch_misses += u64::from(fetch.expires_s.is_some());
            return;
        };
        shard.stats.get_hits += 1;
        shard.renew(at, now_s);
        if let Some(expires_s) = fetch.expires_s {
            shard.stats.touch_hits += 1;
            shard.get_mut(at).into_iter().for_each(|item| item.expires_s = expires_s);
        }
        let Some(item) = shard.get(at) else { return };
        let head = &mut self.scratch;
        head.clear();
        head.extend_from_slice(b"VALUE ");
        head.extend_from_slice(key);
        head.push(b' ');
        push_number(head, item.flags.into());
        head.push(b' ');
        push_number(head, item.value().len() as u64);
        if fetch.has_cas {
            head.push(b' ');
            push_number(head, item.cas);
        }
        head.extend_from_slice(b"\r\n");
        output.put(head);
        send_value(&mut shard, (place, at), b"\r\n", session, output);
    }
}
