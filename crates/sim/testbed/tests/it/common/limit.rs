//! Limits of loops that wait: a broken driver fails its test, which says what it
//! waited for, instead of hanging it.

use std::time::{Duration, Instant};

/// How long what other threads or processes do is waited for. Nothing takes so long
/// but a fault; a busy machine must not reach it.
const LONG: Duration = Duration::from_secs(60);

/// What a loop waits for, and how many rounds or how long it may.
pub struct Limit<'a> {
    what: &'a str,
    most: Most,
    rounds: u32,
    begin: Instant,
}

enum Most {
    Rounds(u32),
    Time(Duration),
}

impl<'a> Limit<'a> {
    /// For a loop that steps the device itself: so many rounds, however long they take.
    pub fn rounds(most: u32, what: &'a str) -> Limit<'a> {
        Limit { what, most: Most::Rounds(most), rounds: 0, begin: Instant::now() }
    }

    /// For a loop that waits for another thread or process.
    pub fn time(what: &'a str) -> Limit<'a> {
        Limit { what, most: Most::Time(LONG), rounds: 0, begin: Instant::now() }
    }

    /// Counts a round that begins.
    #[track_caller]
    pub fn check(&mut self) {
        self.rounds += 1;
        let over = match self.most {
            Most::Rounds(most) => self.rounds > most,
            Most::Time(most) => self.begin.elapsed() > most,
        };
        assert!(!over, "waited for {}: {} rounds, {:?}", self.what, self.rounds, self.begin.elapsed());
    }

    /// Begins anew: something moved.
    pub fn restart(&mut self) {
        (self.rounds, self.begin) = (0, Instant::now());
    }
}

/// Waits for what another thread or process does.
#[track_caller]
pub fn until(what: &str, mut done: impl FnMut() -> bool) {
    let mut limit = Limit::time(what);
    while !done() {
        limit.check();
        std::thread::yield_now();
    }
}
