//! The line that says what happens now, on standard error.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// A line that is written over on a terminal; elsewhere a new one now and then.
pub struct Live {
    silent: bool,
    terminal: bool,
    shown: Option<Instant>,
    open: bool,
}

impl Live {
    /// For an ear that wants to hear, or not.
    pub fn new(silent: bool) -> Live {
        Live { silent, terminal: std::io::stderr().is_terminal(), shown: None, open: false }
    }

    /// Shows a line, unless the last one was just shown.
    pub fn show(&mut self, line: impl FnOnce() -> String) {
        let pause = Duration::from_millis(if self.terminal { 200 } else { 5000 });
        if self.silent || self.shown.is_some_and(|shown| shown.elapsed() < pause) {
            return;
        }
        self.shown = Some(Instant::now());
        let mut out = std::io::stderr().lock();
        // Nobody to read it is no reason to stop.
        let _ = match self.terminal {
            true => write!(out, "\r\x1b[K{}", line()).and_then(|()| out.flush()),
            false => writeln!(out, "{}", line()),
        };
        self.open = self.terminal;
    }

    /// Ends a phase with its last line, where one has begun.
    pub fn end(&mut self, line: impl FnOnce() -> String) {
        self.shown = None;
        self.show(line);
        self.close();
    }

    /// Says what should be known, whoever watches.
    pub fn warn(&mut self, text: &str) {
        self.close();
        eprintln!("warning: {text}");
    }

    /// What comes next begins a line of its own.
    pub fn close(&mut self) {
        if self.open {
            eprintln!();
        }
        (self.open, self.shown) = (false, Some(Instant::now()));
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.close();
    }
}
