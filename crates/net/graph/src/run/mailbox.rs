//! A lane's mailbox: tasks that other threads wake, and jobs they have it do.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use runtime::Wakeup;

use crate::run::lane::Lane;
use crate::run::task::TaskId;

/// Something to be done in a lane, between two tasks.
pub type Job = Box<dyn FnOnce(&mut Lane) + Send>;

/// A lane's mailbox.
#[derive(Debug)]
pub struct Mailbox {
    /// Something is in it. Read on each round without taking the lock.
    has_messages: AtomicBool,
    messages: Mutex<Messages>,
    /// A thread serves it.
    served: AtomicBool,
    /// Ends the lane's sleep.
    pub(crate) wakeup: Wakeup,
}

#[derive(Default)]
struct Messages {
    tasks: Vec<TaskId>,
    jobs: Vec<Job>,
}

impl std::fmt::Debug for Messages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} tasks, {} jobs", self.tasks.len(), self.jobs.len())
    }
}

impl Mailbox {
    /// An empty one.
    ///
    /// # Errors
    /// When the process has no file descriptors left.
    pub fn new() -> std::io::Result<Mailbox> {
        Ok(Mailbox {
            has_messages: AtomicBool::new(false),
            messages: Mutex::default(),
            served: AtomicBool::new(false),
            wakeup: Wakeup::new()?,
        })
    }

    /// A thread serves it from now on, or no longer.
    pub(crate) fn set_served(&self, served: bool) {
        // SeqCst: either a sender that finds the mailbox not served is right, or the
        // thread that stops serving it finds the message in its last look.
        self.served.store(served, Ordering::SeqCst);
    }

    /// Whether a thread serves it.
    pub(crate) fn is_served(&self) -> bool {
        self.served.load(Ordering::SeqCst)
    }

    /// Schedules a task of the lane.
    pub fn wake(&self, task: TaskId) {
        self.post(|messages| messages.tasks.push(task));
    }

    /// Has `job` run by the lane's thread.
    pub fn send(&self, job: Job) {
        self.post(|messages| messages.jobs.push(job));
    }

    fn post(&self, put: impl FnOnce(&mut Messages)) {
        put(&mut self.messages.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
        // SeqCst: a lane that is about to sleep sees the flag or the wake-up.
        if !self.has_messages.swap(true, Ordering::SeqCst) {
            self.wakeup.wake();
        }
    }

    /// Whether anything is in it.
    #[inline]
    pub(crate) fn has_messages(&self) -> bool {
        self.has_messages.load(Ordering::Relaxed)
    }

    /// Takes all that is in it.
    pub(crate) fn take(&self) -> (Vec<TaskId>, Vec<Job>) {
        let mut messages = self.messages.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        self.has_messages.store(false, Ordering::SeqCst);
        let messages = std::mem::take(&mut *messages);
        (messages.tasks, messages.jobs)
    }
}
