//! The end of a thread's sleep: by another thread, a file or the time.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, Timespec, eventfd, poll};

/// Ends the sleep of the thread that waits for it; an eventfd(2). If the thread does not
/// sleep, its next sleep ends at once, so that nothing is missed in between: write what
/// the thread is to find first, then call [`wake`](Self::wake).
#[derive(Debug)]
pub struct Wakeup(OwnedFd);

impl Wakeup {
    /// One that nobody called.
    ///
    /// # Errors
    /// When the process has no file descriptors left.
    pub fn new() -> io::Result<Wakeup> {
        Ok(Wakeup(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?))
    }

    /// Ends the thread's sleep, or its next one.
    pub fn wake(&self) {
        // A counter that is full wakes it as well.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// Forgets calls until now: the thread is awake.
    pub fn clear(&self) {
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }
}

impl AsFd for Wakeup {
    /// Becomes readable when the thread is to wake.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Sleeps until one of `files` is ready, for `timeout` at most; for ever without one.
/// Whether any of them is ready; `false` also after a signal, when the caller looks
/// around as after the time.
pub fn sleep(files: &mut [PollFd<'_>], timeout: Option<Duration>) -> bool {
    // What does not fit is some hundred thousand million years.
    let timeout = timeout.and_then(|time| Timespec::try_from(time).ok());
    poll(files, timeout.as_ref()).is_ok_and(|ready| ready > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::PollFlags;

    #[test]
    fn a_call_ends_one_sleep_that_comes_after_it() {
        let wakeup = Wakeup::new().expect("a descriptor");
        let sleeps = |time| sleep(&mut [PollFd::new(&wakeup, PollFlags::IN)], time);
        assert!(!sleeps(Some(Duration::ZERO)));
        wakeup.wake();
        wakeup.wake();
        assert!(sleeps(None), "it returns, and says why");
        wakeup.clear();
        assert!(!sleeps(Some(Duration::ZERO)), "two calls are one");
    }
}
