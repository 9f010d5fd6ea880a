//! Signals that scripts wait for.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use signal_hook::SigId;
use signal_hook::consts::FORBIDDEN;
use signal_hook::low_level::{emulate_default_handler, pipe, unregister};

/// Names that configurations use, beside numbers.
const NAMES: &[(&str, i32)] = &[
    ("ABRT", 6),
    ("ALRM", 14),
    ("HUP", 1),
    ("INT", 2),
    ("IO", 29),
    ("PIPE", 13),
    ("QUIT", 3),
    ("TERM", 15),
    ("TSTP", 20),
    ("USR1", 10),
    ("USR2", 12),
];

/// The signals that somebody waits for, a bit for each.
static CLAIMED: AtomicU64 = AtomicU64::new(0);

/// Whether a script waits for a signal, so that nobody else should act on it.
pub fn is_claimed(signal: i32) -> bool {
    CLAIMED.load(Ordering::Acquire) >> (signal & 63) & 1 == 1
}

/// A signal by name or number.
pub(super) fn number(name: &str) -> Option<i32> {
    let named = NAMES.iter().find(|(known, _)| *known == name).map(|(_, number)| *number);
    named.or_else(|| name.parse().ok()).filter(|number| (0..32).contains(number))
}

/// A signal that is caught as long as this is kept.
#[derive(Debug)]
pub(super) struct Catch {
    signal: i32,
    id: SigId,
    end: Arc<OwnedFd>,
}

impl Catch {
    /// Catches a signal from now on.
    ///
    /// # Errors
    /// When this one cannot be caught.
    pub(super) fn new(signal: i32) -> io::Result<Catch> {
        if FORBIDDEN.contains(&signal) || signal == 0 {
            return Err(io::Error::from(io::ErrorKind::InvalidInput));
        }
        let (end, other) = UnixStream::pair()?;
        end.set_nonblocking(true)?;
        let id = pipe::register(signal, other)?;
        CLAIMED.fetch_or(1 << signal, Ordering::AcqRel);
        Ok(Catch { signal, id, end: Arc::new(end.into()) })
    }

    /// What can be read when it came.
    pub(super) fn end(&self) -> Arc<OwnedFd> {
        self.end.clone()
    }

    /// Takes note that it came; false when it did not.
    pub(super) fn take(&self) -> bool {
        let mut bytes = [0; 64];
        matches!(rustix::io::read(&self.end, &mut bytes), Ok(read) if read > 0)
    }

    /// Does what the system does with it when nobody catches it.
    pub(super) fn let_pass(&self) {
        let _ = emulate_default_handler(self.signal); // it may be that this is nothing
    }
}

impl Drop for Catch {
    fn drop(&mut self) {
        CLAIMED.fetch_and(!(1 << self.signal), Ordering::AcqRel);
        unregister(self.id);
    }
}
