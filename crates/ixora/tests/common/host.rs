//! Hosts: threads in network namespaces of their own. The machine's own interfaces are
//! never touched.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::sched::{CloneFlags, unshare};

/// Runs `ip` in this thread's network namespace.
pub fn ip(arguments: &str) {
    assert!(
        Command::new("ip").args(arguments.split(' ')).status().expect("iproute2").success(),
        "ip {arguments}"
    );
}

/// How long a connection, and each read and write on it, may take: a host that waited without
/// a limit would keep a test that failed at another host from its end.
const LIMIT: Duration = Duration::from_secs(60);

/// The next connection.
pub fn accept(listener: &TcpListener) -> TcpStream {
    listener.set_nonblocking(true).expect("a socket");
    let mut stream = None;
    super::until("connection", || {
        stream = listener.accept().ok();
        stream.is_some()
    });
    let (stream, _) = stream.expect("a connection");
    stream.set_nonblocking(false).expect("a socket");
    limited(stream)
}

/// A connection to another host.
pub fn connect(address: impl Into<SocketAddr>) -> TcpStream {
    limited(TcpStream::connect_timeout(&address.into(), LIMIT).expect("a connection"))
}

fn limited(stream: TcpStream) -> TcpStream {
    stream.set_read_timeout(Some(LIMIT)).expect("a limit");
    stream.set_write_timeout(Some(LIMIT)).expect("a limit");
    stream
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
