//! A network namespace that goes away with the thread that is in it.

use std::process::{Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};

use nix::sched::{CloneFlags, unshare};

type Job = Box<dyn FnOnce() + Send>;

/// A thread in a network namespace of its own; what it runs is in that namespace.
pub struct Namespace {
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Namespace {
    /// A new namespace, with its loopback interface up; `None` where there may be none, unless
    /// everything must run (`CI`).
    pub fn new() -> Option<Namespace> {
        let (jobs, queue) = channel::<Job>();
        let (ready, is_ready) = channel();
        let thread = thread::spawn(move || {
            ready.send(unshare(CloneFlags::CLONE_NEWNET)).unwrap();
            queue.into_iter().for_each(|job| job());
        });
        if let Err(errno) = is_ready.recv().unwrap() {
            let must = std::env::var("CI").is_ok_and(|ci| ci == "true" || ci == "1");
            assert!(!must, "CI is set, but a network namespace needs CAP_SYS_ADMIN: {errno}");
            println!("passed over: a network namespace needs CAP_SYS_ADMIN ({errno})");
            return None;
        }
        let namespace = Namespace { jobs: Some(jobs), thread: Some(thread) };
        namespace.ip("link set lo up");
        Some(namespace)
    }

    /// Runs something in the namespace and waits for what it gives.
    pub fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> T {
        self.start(job).recv().expect("the job ends well")
    }

    /// Runs something in the namespace, behind what was given to it before.
    pub fn start<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> std::sync::mpsc::Receiver<T> {
        let (give, result) = channel();
        let job = move || {
            let _ = give.send(job());
        };
        self.jobs.as_ref().unwrap().send(Box::new(job)).expect("the thread runs");
        result
    }

    /// Runs `ip` with arguments that stand in one line, which must succeed.
    pub fn ip(&self, arguments: &str) {
        assert!(self.try_ip(arguments), "ip {arguments}");
    }

    /// Whether `ip` succeeded.
    pub fn try_ip(&self, arguments: &str) -> bool {
        let arguments: Vec<String> = arguments.split_whitespace().map(str::to_owned).collect();
        self.run(move || {
            Command::new("ip")
                .args(arguments)
                .stderr(Stdio::null())
                .status()
                .is_ok_and(|status| status.success())
        })
    }

    /// Sets a variable of the namespace's network, named by its path below `/proc/sys/net`.
    pub fn set(&self, variable: &'static str, value: &'static str) {
        self.run(move || std::fs::write(format!("/proc/sys/net/{variable}"), value).expect(variable));
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        drop(self.jobs.take());
        let ended = self.thread.take().map(JoinHandle::join);
        if !thread::panicking() {
            ended.unwrap().expect("the namespace's thread ends well");
        }
    }
}
