//! A cache of keys and values that speaks memcached's text protocol with its meta commands, as
//! `doc/protocol.txt` of memcached 1.6 has it, and the binary protocol. Requests may be cut anywhere. A value that is
//! complete in a packet is stored from there; one that comes in several is gathered first,
//! and counted to the cache's memory meanwhile. An answer is copied out of the item into
//! packets, under the lock of its shard; one that finds no room keeps its item until it does.

mod base64;
mod binary;
mod command;
mod dump;
mod fetch;
mod flags;
mod frames;
mod meta;
mod operation;
mod report;
mod slots;
mod stats;
mod storage;
mod store;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use port::Counter;

use crate::output::Output;
use crate::server::{Protocol, Taken};
use crate::text::words;
use dump::Dump;
use fetch::Keys;
pub use frames::Frames;
pub use report::Listening;
use storage::Value;
use store::{KeyHash, Pin, Shard};
pub use store::{Limits, Store};

/// The longest line of a request but one that asks for many keys.
const MAX_LINE: usize = 2048;
/// The longest line that asks for many keys.
const MAX_KEYS_LINE: usize = 1 << 20;
const SECOND_NS: i64 = 1_000_000_000;

/// What one thread of a server carries. Only that thread writes it.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Traffic {
    connections: AtomicU64,
    opened: AtomicU64,
    bytes_read: AtomicU64,
    bytes_written: AtomicU64,
}

fn add(to: &AtomicU64, count: u64) {
    to.store(to.load(Relaxed).wrapping_add(count), Relaxed);
}

/// A cache and those who serve it.
#[derive(Debug)]
struct SharedCache {
    store: Store,
    traffic: Vec<Traffic>,
    /// What the threads had carried in all when a client had it counted from zero again.
    reset: Traffic,
    started_s: i64,
    /// A list of all items is being sent.
    is_listed: AtomicBool,
}

/// One thread's server of a cache.
#[derive(Debug)]
pub struct Memcached {
    shared: Arc<SharedCache>,
    thread: usize,
    /// Unix time at the zero of the clock.
    zero_s: i64,
    /// Answers are put together here.
    scratch: Vec<u8>,
    /// What a client may set that wants the program to end.
    shutdown: Option<Arc<AtomicBool>>,
    /// Where clients reach it, if that is known.
    listening: Option<Arc<Listening>>,
}

/// What is known of a connection.
#[derive(Debug, Default)]
pub struct Session {
    state: State,
    /// The line that is being read, or carried out.
    line: Vec<u8>,
    sending: Option<Sending>,
}

impl Session {
    /// Whether nothing of a request has come that is not carried out.
    fn is_between_requests(&self) -> bool {
        matches!(self.state, State::Line) && self.line.is_empty()
    }
}

#[derive(Debug, Default)]
enum State {
    /// A line comes.
    #[default]
    Line,
    /// A value comes.
    Value(Value),
    /// So many bytes are discarded.
    Skip(usize),
    /// Keys are answered, of the line that is kept.
    Keys(Keys),
    /// All items are listed.
    Dump(Dump),
    /// The client wants to end.
    Ended,
}

/// A value that is being sent.
#[derive(Debug)]
struct Sending {
    pin: Pin,
    at: usize,
    /// What stands behind the value.
    end: &'static [u8],
}

impl Memcached {
    /// The servers of a new cache, one for each of its threads. `started_s` is the present in
    /// seconds of Unix time.
    pub fn servers(limits: Limits, started_s: i64) -> Vec<Memcached> {
        let traffic = (0..limits.threads).map(|_| Traffic::default()).collect();
        let (store, is_listed) = (Store::new(limits), AtomicBool::new(false));
        let shared =
            Arc::new(SharedCache { store, traffic, reset: Traffic::default(), started_s, is_listed });
        let server = |thread| Memcached {
            shared: shared.clone(),
            thread,
            zero_s: started_s,
            scratch: Vec::new(),
            shutdown: None,
            listening: None,
        };
        (0..limits.threads).map(server).collect()
    }

    /// Another server of the same cache, on the same thread. Its clients cannot end the program.
    fn beside(&self) -> Memcached {
        let (shared, listening) = (self.shared.clone(), self.listening.clone());
        let (scratch, shutdown) = (Vec::new(), None);
        Memcached { shared, thread: self.thread, zero_s: self.zero_s, scratch, shutdown, listening }
    }

    /// Lets clients end the program: the command `shutdown` sets `stop`.
    pub fn enable_shutdown(&mut self, stop: &Arc<AtomicBool>) {
        self.shutdown = Some(stop.clone());
    }

    /// Tells clients that ask for it where they reach the server. It listens where its host does.
    pub fn tell_listening(&mut self, listening: &Arc<Listening>) {
        self.listening = Some(listening.clone());
    }

    /// Lets go of what is kept for a session.
    fn end(&self, session: Session) {
        if let Some(sending) = session.sending {
            self.shared.store.unpin(sending.pin);
        }
        if let State::Value(value) = session.state {
            self.shared.store.release(value.shard, value.reserved);
        }
    }

    fn now_s(&self, output: &impl Output) -> i64 {
        self.zero_s + output.now_ns() / SECOND_NS
    }

    fn traffic(&self) -> Option<&Traffic> {
        self.shared.traffic.get(self.thread)
    }

    /// Goes on with a value that found no room; whether all of it has been sent.
    fn send_rest(&self, session: &mut Session, output: &mut impl Output) -> bool {
        let Some(sending) = &mut session.sending else { return true };
        let is_sent = self.shared.store.with_pinned(sending.pin, |value| {
            let rest = value.get(sending.at..).unwrap_or_default();
            let sent = output.write(rest);
            sending.at += sent;
            sent == rest.len()
        });
        if is_sent == Some(false) {
            return false;
        }
        self.shared.store.unpin(sending.pin);
        output.put(sending.end);
        session.sending = None;
        true
    }

    /// Takes bytes of a line, and carries it out when it is whole; how many, with those of the
    /// value behind it.
    fn line(&mut self, session: &mut Session, input: &[u8], output: &mut impl Output) -> usize {
        let Some(end) = input.iter().position(|byte| *byte == b'\n') else {
            session.line.extend_from_slice(input);
            let word = words(&session.line[..session.line.len().min(100)]).next().unwrap_or_default();
            let is_fetch = matches!(word, b"get" | b"gets" | b"gat" | b"gats");
            if session.line.len() > if is_fetch { MAX_KEYS_LINE } else { MAX_LINE } {
                self.refuse(b"CLIENT_ERROR line too long\r\n", output);
                session.line = Vec::new();
                session.state = State::Ended;
            }
            return input.len();
        };
        let (line, behind) = (&input[..end], &input[end + 1..]);
        if session.line.is_empty() {
            return end + 1 + self.request(session, line, behind, output);
        }
        session.line.extend_from_slice(line);
        let line = std::mem::take(&mut session.line);
        end + 1 + self.request(session, &line, behind, output)
    }

    /// Tells of a request that cannot be carried out because of its form.
    fn refuse(&self, text: &[u8], output: &mut impl Output) {
        self.refuse_unless(false, text, output);
    }

    /// The same, but one who wants no reply gets none.
    fn refuse_unless(&self, is_quiet: bool, text: &[u8], output: &mut impl Output) {
        self.shared.store.shard(b"").0.stats.bad_requests += 1;
        if !is_quiet {
            output.put(text);
        }
    }
}

/// Sends an item's value, and what stands behind it. What finds no room is sent out of the item
/// later; where too many items are kept for that, it is copied, and what connections keep has a
/// limit of its own.
fn send_value(
    shard: &mut Shard,
    (place, at): (KeyHash, u32),
    end: &'static [u8],
    session: &mut Session,
    output: &mut impl Output,
) {
    let Some(item) = shard.get(at) else { return };
    let sent = output.write(item.value());
    if sent < item.value().len() {
        if let Some(pin) = shard.pin(place, at) {
            session.sending = Some(Sending { pin, at: sent, end });
            return;
        }
        shard.stats.answers_copied += 1;
        shard.get(at).into_iter().for_each(|item| output.put(&item.value()[sent..]));
    }
    output.put(end);
}

impl Protocol for Memcached {
    type Session = Session;

    fn begin(&mut self, now_ns: i64) {
        self.zero_s = self.shared.started_s - now_ns / SECOND_NS;
    }

    fn open(&mut self) {
        let Some(traffic) = self.traffic() else { return };
        add(&traffic.connections, 1);
        add(&traffic.opened, 1);
    }

    fn take(&mut self, session: &mut Session, input: &[u8], output: &mut impl Output) -> Taken {
        let (mut used, mut is_carried_out) = (0, false);
        loop {
            if !self.send_rest(session, output) || output.is_full() {
                return Taken { used, ends: false, is_carried_out, is_paused: false };
            }
            let rest = &input[used..];
            match &mut session.state {
                State::Ended => return Taken { used, ends: true, is_carried_out, is_paused: false },
                State::Keys(_) => self.more_keys(session, output),
                State::Dump(_) => self.more_items(session, output),
                _ if rest.is_empty() => return Taken { used, ends: false, is_carried_out, is_paused: false },
                State::Line if binary::is_binary(session.line.first().or(rest.first())) => {
                    used += self.binary(session, rest, output);
                }
                State::Line => used += self.line(session, rest, output),
                State::Value(_) => used += self.value(session, rest, output),
                State::Skip(left) => {
                    let count = rest.len().min(*left);
                    used += count;
                    *left -= count;
                    if *left == 0 {
                        session.state = State::Line;
                    }
                }
            }
            is_carried_out |= session.is_between_requests();
            let is_under_way = matches!(session.state, State::Keys(_) | State::Dump(_));
            if is_under_way && session.sending.is_none() && !output.is_full() {
                return Taken { used, ends: false, is_carried_out, is_paused: true };
            }
        }
    }

    fn is_answering(&self, session: &Session) -> bool {
        session.sending.is_some() || matches!(session.state, State::Keys(_) | State::Dump(_))
    }

    fn awaits(&self, session: &Session) -> bool {
        !session.is_between_requests()
    }

    fn held(&self, session: &Session) -> usize {
        session.line.capacity()
    }

    fn forget(&mut self, session: Session) {
        self.end(session);
        if let Some(traffic) = self.traffic() {
            add(&traffic.connections, u64::MAX);
        }
    }

    fn count_bytes(&mut self, came: u64, went: u64) {
        let Some(traffic) = self.traffic() else { return };
        add(&traffic.bytes_read, came);
        add(&traffic.bytes_written, went);
    }

    fn counters(&self) -> Vec<Counter> {
        // The cache is all threads', and counted by one of them.
        match self.thread {
            0 => self.shared.store.totals().stats.counters().collect(),
            _ => Vec::new(),
        }
    }
}
