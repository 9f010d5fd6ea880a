//! The socket by which a running program is asked, an endpoint of tunnels or a server: a line
//! comes, an answer goes back, and the connection ends. One client at a time, within a time; a
//! thread that carries no packets answers, so that none waits for a client.

use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketFlags};

use crate::Failure;

/// The longest request: a packet of 9,000 bytes as hexadecimal digits, and what is asked.
const MAX_REQUEST: usize = 20_000;
/// How long a client may take for its request, and how long the answer may take.
const REQUEST: Duration = Duration::from_secs(1);
const ANSWER: Duration = Duration::from_secs(10);
/// How often a thread looks again.
const LOOK: Duration = Duration::from_millis(10);

/// A request, and where its answer goes.
pub type Asked = (String, SyncSender<String>);

/// The socket's side that listens.
pub struct Server {
    listener: UnixListener,
    ask: SyncSender<Asked>,
}

impl Server {
    /// Listens at a path; also where requests come out.
    pub fn new(path: &Path) -> Result<(Server, Receiver<Asked>), Failure> {
        let failed = |error| Failure::new(format!("cannot listen at {}: {error}", path.display()));
        let listener = UnixListener::bind(path)
            .map_err(|error| failed(error).fix("remove it, if no other instance runs there"))?;
        listener.set_nonblocking(true).map_err(failed)?;
        let (ask, asked) = sync_channel(1);
        Ok((Server { listener, ask }, asked))
    }

    /// Answers clients until `ended` is set.
    pub fn run(&self, ended: &AtomicBool) {
        while !ended.load(Ordering::Relaxed) {
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            match rustix::net::accept_with(self.listener.as_fd(), flags) {
                Ok(client) => self.answer(&client, ended),
                Err(_) => thread::sleep(LOOK),
            }
        }
    }

    /// Answers one client; one that is slow or gone is left, and all are when the run has ended.
    fn answer(&self, client: &OwnedFd, ended: &AtomicBool) {
        let Some(request) = receive(client) else { return };
        let (say, hear) = sync_channel(1);
        if self.ask.send((request, say)).is_err() {
            return; // the run has ended
        }
        let limit = Instant::now() + ANSWER;
        while Instant::now() < limit && !ended.load(Ordering::Relaxed) {
            match hear.recv_timeout(LOOK) {
                Ok(answer) => return send(client, answer.as_bytes()),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }
}

/// A line; `None` when it does not come, or is too long.
fn receive(client: &OwnedFd) -> Option<String> {
    let (mut line, limit) = (Vec::new(), Instant::now() + REQUEST);
    let mut bytes = [0; 4096];
    while Instant::now() < limit && line.len() < MAX_REQUEST {
        match rustix::net::recv(client, &mut bytes[..], RecvFlags::empty()) {
            Ok((_, 0)) => return None,
            Ok((_, count)) => line.extend_from_slice(&bytes[..count.min(4096)]),
            Err(Errno::AGAIN) => thread::sleep(LOOK),
            Err(Errno::INTR) => {}
            Err(_) => return None,
        }
        if let Some(end) = line.iter().position(|byte| *byte == b'\n') {
            line.truncate(end);
            return String::from_utf8(line).ok();
        }
    }
    None
}

fn send(client: &OwnedFd, mut bytes: &[u8]) {
    let limit = Instant::now() + ANSWER;
    while !bytes.is_empty() && Instant::now() < limit {
        match rustix::net::send(client, bytes, SendFlags::NOSIGNAL) {
            Ok(count) => bytes = &bytes[count..],
            Err(Errno::AGAIN) => thread::sleep(LOOK),
            Err(Errno::INTR) => {}
            Err(_) => return,
        }
    }
}

/// The bytes of a request's hexadecimal digits; of others none.
pub fn bytes(digits: &str) -> Vec<u8> {
    let pairs = digits.as_bytes().chunks_exact(2);
    pairs.map_while(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

/// Asks a running program, which `start` starts.
pub fn ask(path: &Path, request: &str, start: &str) -> Result<String, Failure> {
    let failed = |error: std::io::Error| {
        let path = path.display();
        Failure::new(format!("cannot ask {path}: {error}"))
            .fix(format!("run one that listens there: {start} --control {path}"))
    };
    let mut stream = UnixStream::connect(path).map_err(failed)?;
    stream.set_read_timeout(Some(ANSWER)).map_err(failed)?;
    stream.write_all(format!("{request}\n").as_bytes()).map_err(failed)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(failed)?;
    match answer.is_empty() {
        true => Err(Failure::new(format!("{} gave no answer", path.display()))),
        false => Ok(answer),
    }
}
