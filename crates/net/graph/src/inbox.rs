//! What other threads want of a lane: tasks woken, and things done.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{EventfdFlags, eventfd};

use crate::lane::Lane;
use crate::task::TaskId;

/// Something to be done in a lane, between two tasks.
pub type Errand = Box<dyn FnOnce(&mut Lane) + Send>;

/// A lane's letter box.
#[derive(Debug)]
pub struct Inbox {
    /// Something is in it. Read on each round without taking the lock.
    full: AtomicBool,
    letters: Mutex<Letters>,
    /// A thread reads what is in it.
    attended: AtomicBool,
    /// Ends the lane's sleep.
    bell: OwnedFd,
}

#[derive(Default)]
struct Letters {
    tasks: Vec<TaskId>,
    errands: Vec<Errand>,
}

impl std::fmt::Debug for Letters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} tasks, {} errands", self.tasks.len(), self.errands.len())
    }
}

impl Inbox {
    /// An empty one.
    ///
    /// # Errors
    /// When the process has no file descriptors left.
    pub fn new() -> std::io::Result<Inbox> {
        let bell = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Inbox {
            full: AtomicBool::new(false),
            letters: Mutex::default(),
            attended: AtomicBool::new(false),
            bell,
        })
    }

    /// A thread reads what is in it from now on, or no longer.
    pub(crate) fn attend(&self, attended: bool) {
        // SeqCst: who sends a letter and finds that nobody reads it is right, or the
        // last look of who leaves finds the letter.
        self.attended.store(attended, Ordering::SeqCst);
    }

    /// Whether a thread reads what is in it.
    pub(crate) fn is_attended(&self) -> bool {
        self.attended.load(Ordering::SeqCst)
    }

    /// Schedules a task of the lane.
    pub fn wake(&self, task: TaskId) {
        self.post(|letters| letters.tasks.push(task));
    }

    /// Has `errand` run by the lane's thread.
    pub fn send(&self, errand: Errand) {
        self.post(|letters| letters.errands.push(errand));
    }

    fn post(&self, put: impl FnOnce(&mut Letters)) {
        put(&mut self.letters.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
        // SeqCst: seen by a lane that is about to sleep, or the bell is.
        if !self.full.swap(true, Ordering::SeqCst) {
            self.ring();
        }
    }

    /// Ends the lane's sleep, or its next one.
    pub fn ring(&self) {
        // A full counter rings as well.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }

    /// Whether anything is in it.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.full.load(Ordering::Relaxed)
    }

    /// Takes all that is in it.
    pub(crate) fn take(&self) -> (Vec<TaskId>, Vec<Errand>) {
        let mut letters = self.letters.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        self.full.store(false, Ordering::SeqCst);
        let letters = std::mem::take(&mut *letters);
        (letters.tasks, letters.errands)
    }

    /// Forgets that the bell rang.
    pub(crate) fn silence(&self) {
        let _ = rustix::io::read(&self.bell, &mut [0; 8]);
    }

    pub(crate) fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}
