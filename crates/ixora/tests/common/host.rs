//! Hosts: threads in network namespaces of their own. The machine's own interfaces are
//! never touched.

use std::process::Command;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use nix::sched::{CloneFlags, unshare};

/// Runs `ip` in this thread's network namespace.
pub fn ip(arguments: &str) {
    assert!(
        Command::new("ip").args(arguments.split(' ')).status().expect("iproute2").success(),
        "ip {arguments}"
    );
}

type Task = Box<dyn FnOnce() + Send>;

/// A thread in a network namespace of its own, which does what it is told.
pub struct Host {
    tasks: Option<Sender<Task>>,
    /// By which others name its namespace.
    pub id: i32,
    thread: Option<JoinHandle<()>>,
}

impl Host {
    /// A host without interfaces.
    pub fn new() -> Host {
        let (tasks, inbox) = channel::<Task>();
        let (say, hear) = channel();
        let thread = thread::spawn(move || {
            unshare(CloneFlags::CLONE_NEWNET).expect("root may");
            say.send(nix::unistd::gettid().as_raw()).expect("somebody listens");
            inbox.into_iter().for_each(|task| task());
        });
        let id = hear.recv().expect("it runs");
        Host { tasks: Some(tasks), id, thread: Some(thread) }
    }

    /// Starts something in the namespace; what it returns comes by the channel.
    pub fn begin<T: Send + 'static>(&self, task: impl FnOnce() -> T + Send + 'static) -> Receiver<T> {
        let (say, hear) = channel();
        let task = Box::new(move || _ = say.send(task()));
        self.tasks.as_ref().expect("alive").send(task).expect("it runs");
        hear
    }

    /// Does something in the namespace.
    pub fn run<T: Send + 'static>(&self, task: impl FnOnce() -> T + Send + 'static) -> T {
        self.begin(task).recv().expect("it did not panic")
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.tasks = None;
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(thread::panicking() || ended.is_none_or(|ended| ended.is_ok()));
    }
}
