//! The socket by which a running program is asked, an endpoint of tunnels or a server: a line
//! comes, an answer goes back, and the connection ends. One client at a time, within a time; a
//! thread that carries no packets answers, so that none waits for a client.

use std::os::fd::OwnedFd;
use std::os::unix::fs::lchown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use runtime::confine::caller;
use rustix::fs::{Mode, fchmod};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with,
};

use crate::Failure;
use crate::told::{Bounded, printable_json};

/// The longest request: a packet of 9,000 bytes as hexadecimal digits, and what is asked.
const MAX_REQUEST: usize = 20_000;
/// How long a client may take for its request and, of its answer, for the next part; and how long
/// the whole answer may take.
const REQUEST: Duration = Duration::from_secs(1);
pub const ANSWER: Duration = Duration::from_secs(10);
/// How often a thread looks again.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Clients that wait to be let in; one more is refused by the kernel.
const BACKLOG: i32 = 16;

/// A request, and where its answer goes.
pub type Asked = (String, SyncSender<String>);

/// What a running program is asked for, and how its answer is printed.
#[derive(Args, Debug)]
pub struct Show {
    /// The socket that it listens at, its `--control`.
    pub control: PathBuf,
    /// Connections or entries to list, at most.
    #[arg(long, default_value_t = 10_000)]
    pub limit: usize,
    /// As JSON, with all that it counted.
    #[arg(long, conflicts_with = "metrics")]
    pub json: bool,
    /// What it counted, as Prometheus reads it.
    #[arg(long)]
    pub metrics: bool,
}

/// The socket's side that listens.
pub struct Server {
    listener: OwnedFd,
    ask: SyncSender<Asked>,
}

impl Server {
    /// Listens at a path, for the user who started the program and for root; also where requests
    /// come out.
    pub fn new(path: &Path) -> Result<(Server, Receiver<Asked>), Failure> {
        bus::Error::check_socket_path(path, bus::LONGEST_SOCKET_PATH)?;
        let listener = own_listener(path).map_err(|error| {
            let failure = Failure::new(format!("cannot listen at {}: {error}", path.display()));
            match error {
                Errno::ADDRINUSE => failure.fix("remove it, if no other instance runs there"),
                _ => failure,
            }
        })?;
        let (ask, asked) = sync_channel(1);
        Ok((Server { listener, ask }, asked))
    }

    /// Answers clients until `ended` is set.
    pub fn run(&self, ended: &AtomicBool) {
        while !ended.load(Ordering::Relaxed) {
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            match rustix::net::accept_with(&self.listener, flags) {
                Ok(client) => self.answer(&client, ended),
                Err(_) => thread::sleep(POLL_INTERVAL),
            }
        }
    }

    /// Answers one client; one that is slow or gone is left, and all are when the run has ended.
    fn answer(&self, client: &OwnedFd, ended: &AtomicBool) {
        let Some(request) = receive(client, ended) else { return };
        let (say, hear) = sync_channel(1);
        // Nobody takes it: the run has ended, or an earlier request is still waited for, whose client
        // has gone. To wait for room could be for ever.
        if self.ask.try_send((request, say)).is_err() {
            return;
        }
        let limit = Instant::now() + ANSWER;
        while Instant::now() < limit && !ended.load(Ordering::Relaxed) {
            match hear.recv_timeout(POLL_INTERVAL) {
                Ok(answer) => return send(client, answer.as_bytes(), ended),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }
}

/// A socket at a path that only its owner may connect to, from the first moment on: the mode of a
/// socket becomes that of its file (`unix(7)`, Linux). Its owner is who called `sudo`, where
/// somebody did, as the program becomes that user.
fn own_listener(path: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let listener = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    fchmod(&listener, Mode::RUSR | Mode::WUSR)?;
    bind(&listener, &SocketAddrUnix::new(path)?)?;
    let begun = give_to_caller(path).and_then(|()| listen(&listener, BACKLOG));
    // A file that nobody listens at would be in the way of the next attempt.
    begun.inspect_err(|_| drop(std::fs::remove_file(path)))?;
    Ok(listener)
}

fn give_to_caller(path: &Path) -> rustix::io::Result<()> {
    let Some((user, group)) = caller() else { return Ok(()) };
    lchown(path, Some(user), Some(group)).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
}

/// A line; `None` when it does not come, or is too long, or the run has ended.
fn receive(client: &OwnedFd, ended: &AtomicBool) -> Option<String> {
    let (mut line, limit) = (Vec::new(), Instant::now() + REQUEST);
    let mut bytes = [0; 4096];
    while Instant::now() < limit && line.len() < MAX_REQUEST {
        match rustix::net::recv(client, &mut bytes[..], RecvFlags::empty()) {
            Ok((_, 0)) => return None,
            Ok((_, count)) => line.extend_from_slice(&bytes[..count.min(4096)]),
            Err(Errno::AGAIN) if !ended.load(Ordering::Relaxed) => thread::sleep(POLL_INTERVAL),
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

/// Sends an answer as far as it is read: others wait for their turn. When the run has ended, one
/// who does not read is not waited for.
fn send(client: &OwnedFd, mut bytes: &[u8], ended: &AtomicBool) {
    let limit = Instant::now() + ANSWER;
    let mut stalls = Instant::now() + REQUEST;
    while !bytes.is_empty() && Instant::now() < limit.min(stalls) {
        match rustix::net::send(client, bytes, SendFlags::NOSIGNAL) {
            Ok(count) => (bytes, stalls) = (&bytes[count..], Instant::now() + REQUEST),
            Err(Errno::AGAIN) if !ended.load(Ordering::Relaxed) => thread::sleep(POLL_INTERVAL),
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

/// Asks a running program, which `start` starts. What it answers has no control characters but ends of
/// lines and tabs, and none either where it is JSON.
pub fn ask(path: &Path, request: &str, start: &str) -> Result<String, Failure> {
    let failed = |error: std::io::Error| {
        let path = path.display();
        Failure::new(format!("cannot ask {path}: {error}"))
            .fix(format!("run one that listens there: {start} --control {path}"))
    };
    bus::Error::check_socket_path(path, bus::LONGEST_SOCKET_PATH)?;
    let mut stream = Bounded::new(UnixStream::connect(path).map_err(failed)?, ANSWER);
    stream.ask(format!("{request}\n").as_bytes()).map_err(failed)?;
    let answer = stream.rest().map_err(failed)?;
    match answer.is_empty() {
        true => Err(Failure::new(format!("{} gave no answer", path.display()))),
        false => Ok(printable_json(&answer)),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;

    use super::*;

    /// The most that the kernel keeps of a Unix socket's answers is less than this.
    const LONG: usize = 4 << 20;

    /// What a client is told of a server that answers with what was asked, while others do what they do.
    fn served(others: impl FnOnce(&Path) -> Vec<UnixStream>) -> String {
        let place = tempfile::tempdir().expect("a folder");
        let path: PathBuf = place.path().join("control");
        let (server, asked) = Server::new(&path).expect("it listens");
        let mode = std::fs::symlink_metadata(&path).expect("a socket").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "others of this machine are not let in");
        let ended = AtomicBool::new(false);
        thread::scope(|scope| {
            let ended = &ended;
            scope.spawn(|| server.run(ended));
            scope.spawn(move || {
                while !ended.load(Ordering::Relaxed) {
                    let Ok((request, say)) = asked.recv_timeout(POLL_INTERVAL) else { continue };
                    let times = if request == "long" { LONG / request.len() } else { 1 };
                    let _ = say.try_send(request.repeat(times));
                }
            });
            let others = others(&path);
            let answer = ask(&path, "what", "ixora serve");
            ended.store(true, Ordering::Relaxed);
            drop(others);
            answer.unwrap_or_else(|failure| panic!("{}", failure.cause()))
        })
    }

    fn client(path: &Path, bytes: &[u8]) -> UnixStream {
        let mut stream = UnixStream::connect(path).expect("it listens");
        // One that sends too much is let go meanwhile.
        let _ = stream.write_all(bytes);
        stream
    }

    #[test]
    fn half_endless_and_senseless_requests_hold_nobody_up_for_long() {
        let said = served(|path| {
            let endless = client(path, &vec![b'x'; 4 * MAX_REQUEST]);
            let gone = client(path, b"what");
            drop(gone);
            vec![endless, client(path, b"wha"), client(path, b"\xFF\xFE\n"), client(path, b"")]
        });
        assert_eq!(said, "what");
    }

    #[test]
    fn who_asks_for_much_and_reads_nothing_is_left() {
        assert_eq!(served(|path| vec![client(path, b"long\n")]), "what");
    }

    /// Who answers is busy with a request whose client has gone, and then the run ends.
    #[test]
    fn a_request_that_nobody_takes_keeps_no_run_from_ending() {
        let place = tempfile::tempdir().expect("a folder");
        let path = place.path().join("control");
        let (server, asked) = Server::new(&path).expect("it listens");
        let (say, _hear) = sync_channel(1);
        server.ask.try_send((String::new(), say)).expect("there is room for one");
        let ended = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| server.run(&ended));
            let answer = ask(&path, "what", "ixora serve");
            ended.store(true, Ordering::Relaxed);
            drop(asked); // who waited for it goes on
            assert!(answer.is_err_and(|failure| failure.cause().contains("gave no answer")));
        });
    }

    #[test]
    fn what_a_program_answers_is_no_command_of_a_terminal() {
        let place = tempfile::tempdir().expect("a folder");
        let path = place.path().join("control");
        let listener = std::os::unix::net::UnixListener::bind(&path).expect("a socket");
        thread::scope(|scope| {
            scope.spawn(move || {
                let (mut stream, _) = listener.accept().expect("a client");
                stream.read_exact(&mut [0; 5]).expect("a line");
                stream.write_all(b"{\"state\":\"\\u001b[2J\x1b]0;x\x07\"}\n").expect("room");
            });
            let answer =
                ask(&path, "what", "ixora serve").unwrap_or_else(|failure| panic!("{}", failure.cause()));
            assert_eq!(answer, "{\"state\":\"?[2J?]0;x?\"}\n");
        });
    }

    #[test]
    fn digits_of_no_bytes_are_none() {
        assert_eq!(bytes("0aFf"), [0x0A, 0xFF]);
        assert_eq!(bytes("0a0"), [0x0A]);
        for odd in ["", "+1", "0", "\u{e9}", "zz"] {
            assert!(bytes(odd).len() <= 1, "{odd}");
        }
    }

    #[test]
    fn one_who_does_not_read_its_answer_does_not_keep_a_run_that_has_ended() {
        let place = tempfile::tempdir().expect("a directory");
        let path = place.path().join("control");
        let (server, asked) = Server::new(&path).expect("a socket");
        let (ended, (tell, told)) = (AtomicBool::new(false), sync_channel(1));
        thread::scope(|scope| {
            let (server, ended) = (&server, &ended);
            scope.spawn(move || {
                server.run(ended);
                tell.send(()).expect("somebody waits");
            });
            let mut client = UnixStream::connect(&path).expect("it listens");
            client.write_all(b"show 1\n").expect("sent");
            let (request, say) = asked.recv_timeout(ANSWER).expect("a request");
            assert_eq!(request, "show 1");
            say.send("x".repeat(8 << 20)).expect("it waits");
            client.read_exact(&mut [0]).expect("the answer has begun");
            ended.store(true, Ordering::Relaxed);
            assert_eq!(told.recv_timeout(ANSWER / 2), Ok(()), "it waits for the client");
        });
    }
}
