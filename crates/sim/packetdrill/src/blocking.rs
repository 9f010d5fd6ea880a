//! System calls that wait, and the time that passes meanwhile.
//!
//! packetdrill has two threads: one that runs the script, and one for system calls that block.
//! Time passes only on the script's own thread, when it sleeps or waits for a packet. After
//! each step of time it lets a waiting call try again and return, before time goes on: so a
//! call ends at the very moment at which it can, whatever the scheduler does.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;

use crate::errors::Answer;
use crate::host::{Host, MICROSECOND_NS};

/// How often in a row the clock may be read before time passes by itself: packetdrill spins on
/// the clock where less than 20 microseconds are left to wait.
const MAX_READS: u32 = 8;
/// The time that packetdrill spins instead of sleeping, in microseconds, which passes with the
/// sleep.
const SPIN_US: i64 = 20;
/// How long a packet is waited for, in nanoseconds.
const LIMIT_NS: i64 = 900_000_000_000;
/// How long a thread is given to return from a call, of real time.
const RETURN: Duration = Duration::from_secs(5);

/// A call that waits.
#[derive(Debug, Clone, Copy, Default)]
struct Waiter {
    /// Until when it waits, in nanoseconds.
    until_ns: Option<i64>,
    /// Something changed that it has not looked at.
    is_called: bool,
}

struct Inner {
    host: Host,
    waiter: Option<Waiter>,
    /// A thread that has waited and has not read the clock since.
    returning: Option<ThreadId>,
    /// Where the kernel tells what a thread does whose call has ended, and which has to tell
    /// packetdrill so.
    finishing: Option<PathBuf>,
    looks: u32,
}

/// A host that two threads call.
pub struct Clocked {
    inner: Mutex<Inner>,
    changed: Condvar,
    /// The thread that runs the script.
    driver: ThreadId,
}

type Guard<'a> = MutexGuard<'a, Inner>;

impl Clocked {
    /// A host whose time passes on the calling thread.
    pub fn new(host: Host) -> Clocked {
        let inner = Inner { host, waiter: None, returning: None, finishing: None, looks: 0 };
        Clocked { inner: Mutex::new(inner), changed: Condvar::new(), driver: thread::current().id() }
    }

    fn lock(&self) -> Guard<'_> {
        // A call that panicked has ended the program (`panic` in a function of C).
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, guard: Guard<'a>) -> Guard<'a> {
        let (guard, _) = self.changed.wait_timeout(guard, RETURN).unwrap_or_else(PoisonError::into_inner);
        guard
    }

    fn is_driver(&self) -> bool {
        thread::current().id() == self.driver
    }

    /// Calls the host once.
    pub fn call<T>(&self, call: impl FnOnce(&mut Host) -> T) -> T {
        let mut inner = self.lock();
        inner.looks = 0;
        let result = call(&mut inner.host);
        drop(self.wake_waiter(inner));
        result
    }

    /// A packet comes in. A waiting call may go on before it is answered.
    pub fn receive_packet(&self, bytes: &[u8]) {
        let mut inner = self.lock();
        inner.looks = 0;
        inner.host.receive(bytes);
        let mut inner = self.wake_waiter(inner);
        inner.host.pump();
        // There may be room since more was sent.
        drop(self.wake_waiter(inner));
    }

    /// Calls the host until the answer is another one than `EAGAIN`, for so many nanoseconds at
    /// most; once where `blocks` says no.
    pub fn attempt<T>(
        &self,
        blocks: impl Fn(&Host) -> bool,
        limit_ns: Option<i64>,
        mut attempt: impl FnMut(&mut Host) -> Answer<T>,
    ) -> Answer<T> {
        let mut inner = self.lock();
        inner.looks = 0;
        let until_ns = limit_ns.map(|limit_ns| inner.host.now_ns.saturating_add(limit_ns));
        loop {
            let answer = attempt(&mut inner.host);
            let is_late = until_ns.is_some_and(|until_ns| inner.host.now_ns >= until_ns);
            if !matches!(answer, Err(libc::EAGAIN)) || is_late || !blocks(&inner.host) {
                if inner.waiter.is_some() && !self.is_driver() {
                    (inner.waiter, inner.returning) = (None, Some(thread::current().id()));
                    inner.finishing = fs::read_link("/proc/thread-self").ok();
                    self.changed.notify_all();
                }
                drop(self.wake_waiter(inner));
                return answer;
            }
            if self.is_driver() {
                let next = [inner.host.next_deadline_ns(), until_ns].into_iter().flatten().min();
                let Some(next) = next else { return answer };
                inner = self.pass(inner, next);
                continue;
            }
            if inner.returning == Some(thread::current().id()) {
                inner.returning = None;
            }
            inner.waiter = Some(Waiter { until_ns, is_called: false });
            self.changed.notify_all();
            while inner.waiter.is_some_and(|waiter| !waiter.is_called) {
                inner = self.wait(inner);
            }
        }
    }

    /// Wakes a waiting call, which sees what changed and returns if it can.
    fn wake_waiter<'a>(&'a self, mut inner: Guard<'a>) -> Guard<'a> {
        if !self.is_driver() {
            return inner;
        }
        if let Some(waiter) = &mut inner.waiter {
            waiter.is_called = true;
            self.changed.notify_all();
        }
        let is_busy =
            |inner: &Inner| inner.waiter.is_some_and(|waiter| waiter.is_called) || inner.returning.is_some();
        let mut rounds = 0;
        while is_busy(&inner) && rounds < 4 {
            inner = self.wait(inner);
            rounds += 1;
        }
        inner
    }

    /// Lets time pass until a moment, with all that is due before.
    fn pass<'a>(&'a self, mut inner: Guard<'a>, until_ns: i64) -> Guard<'a> {
        loop {
            let wakes = inner.waiter.and_then(|waiter| waiter.until_ns);
            let next = [inner.host.next_deadline_ns(), wakes].into_iter().flatten().min();
            // What is due by now has been done, as far as it can be.
            let next = next.filter(|next| *next > inner.host.now_ns && *next <= until_ns);
            inner.host.pass(next.unwrap_or(until_ns));
            inner = self.wake_waiter(inner);
            if next.is_none() {
                return inner;
            }
        }
    }

    /// packetdrill sleeps for so many microseconds, and would spin on the clock afterwards.
    pub fn sleep(&self, us: i64) {
        let mut inner = self.lock();
        inner.looks = 0;
        if let Some(thread) = inner.finishing.take() {
            drop(inner);
            await_sleep(&thread);
            inner = self.lock();
        }
        let until_ns = inner.host.now_ns + (us + SPIN_US) * MICROSECOND_NS;
        drop(self.pass(inner, until_ns));
    }

    /// The time in microseconds.
    pub fn look_us(&self) -> i64 {
        let mut inner = self.lock();
        if inner.returning == Some(thread::current().id()) {
            inner.returning = None;
            self.changed.notify_all();
        }
        if self.is_driver() {
            inner.looks += 1;
            if inner.looks > MAX_READS {
                let next_ns = inner.host.now_ns + MICROSECOND_NS;
                inner = self.pass(inner, next_ns);
            }
        }
        inner.host.now_ns / MICROSECOND_NS
    }

    /// Waits for a packet: when it was sent in microseconds, and its bytes; `None` when none
    /// comes however long one waits.
    pub fn receive(&self) -> Option<(i64, Vec<u8>)> {
        let mut inner = self.lock();
        inner.looks = 0;
        let end_ns = inner.host.now_ns + LIMIT_NS;
        while !inner.host.has_packet() {
            let wakes = inner.waiter.and_then(|waiter| waiter.until_ns);
            let next = [inner.host.next_deadline_ns(), wakes].into_iter().flatten().min();
            let next = next.filter(|next| *next < end_ns)?;
            let next = next.max(inner.host.now_ns + MICROSECOND_NS);
            inner = self.pass(inner, next);
        }
        let (sent_ns, bytes) = inner.host.take_packet()?;
        Some((sent_ns / MICROSECOND_NS, bytes))
    }
}

/// Waits until a thread sleeps: one whose call has ended takes packetdrill's lock, which is free
/// while the script sleeps, and then waits for the next call.
fn await_sleep(thread: &Path) {
    let stat = Path::new("/proc").join(thread).join("stat");
    for _ in 0..10_000 {
        let text = fs::read_to_string(&stat).unwrap_or_default();
        // The state stands behind the name, which is in brackets.
        let state = text.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
        if state.is_none_or(|state| state == 'S') {
            return;
        }
        thread::yield_now();
    }
}
