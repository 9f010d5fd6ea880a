//! The device's end of vfio-user 0.1: a socket on which one client at a time
//! is served. Whatever a client sends, the answer is a reply, an error reply
//! or the end of its connection.
//!
//! Maps without a file reach the device as such; asking the client for their
//! bytes (`DMA_READ`, `DMA_WRITE` from here) is not done.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

pub use super::served::{DmaAccess, RegionInfo, Served, SharedPages};

use super::message::{Command, Encoder, HEADER, Malformed, decode_header};
use super::session::Session;
use super::transport::{Received, TransportFault, WaitLimit, dial, receive, send};
use crate::peer::{self, Stream};
use crate::{Error, LONGEST_SOCKET_PATH, Result};

/// How long a client may take to send the rest of a message or to take a reply.
const TIME_LIMIT: Duration = Duration::from_secs(5);
/// How long a client that is refused may take to say what it wants.
const REFUSAL_LIMIT: Duration = Duration::from_secs(1);
/// Most clients that wait to be refused; more are closed at once.
const MAX_REFUSED: usize = 8;

/// A socket on which one client at a time is served; the file goes away when
/// the server is dropped.
#[derive(Debug)]
pub struct Server {
    listener: UnixListener,
    path: PathBuf,
    /// Device and inode of the file, to remove no other's.
    identity: (u64, u64),
    refused: Vec<(Stream, Instant)>,
}

impl Server {
    /// Binds the socket. A file left by a server that is gone is replaced.
    pub fn bind(path: &Path) -> Result<Server> {
        let (listener, identity) = listen(path)?;
        Ok(Server { listener, path: path.to_owned(), identity, refused: Vec::new() })
    }

    /// The socket's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Waits for a client and serves it till it hangs up or `stop` turns true,
    /// both of which are `Ok`. `Err` tells what the client did that ended it;
    /// the server can serve the next one.
    pub fn serve_one(&mut self, device: &mut dyn Served, stop: &AtomicBool) -> Result<()> {
        let wait = WaitLimit { stop: Some(stop), deadline: None };
        let stream = loop {
            // Whoever was about to be refused has been waiting longest.
            if !self.refused.is_empty() {
                break self.refused.remove(0).0;
            }
            if let Some(stream) = self.accept()? {
                break stream;
            }
            match wait.wait_once(&mut [PollFd::new(&self.listener, peer::awaited())]) {
                Ok(_) => {}
                Err(TransportFault::Stopped) => return Ok(()),
                Err(fault) => return Err(error(&self.name(), fault)),
            }
        };
        let name = self.name();
        let outcome = converse(&stream, device, wait, Some(self));
        finish(&name, outcome, device)
    }

    /// A client that waits, if there is one that may be taken.
    fn accept(&self) -> Result<Option<Stream>> {
        if peer::awaited().is_empty() {
            return Ok(None);
        }
        match self.listener.accept() {
            Ok((stream, _)) => Ok(Some(stream.into())),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(Error::os(format!("accepting on {}", self.path.display()), error)),
        }
    }

    fn name(&self) -> String {
        format!("client of {}", self.path.display())
    }

    /// Takes other clients in who are to be told that one is attached, and tells one of them,
    /// the first that has said something, by its place. One at a time: whoever says a part of
    /// a message is waited for, and so is the turn of the client that is attached.
    fn refuse_one(&mut self, ready: Option<usize>) {
        if let Some(place) = ready {
            let (stream, since) = self.refused.remove(place);
            if !refuse(&stream) {
                self.refused.push((stream, since));
            }
        }
        self.refused.retain(|(_, since)| since.elapsed() < REFUSAL_LIMIT);
        // Others may connect as fast as they are taken.
        for _ in 0..MAX_REFUSED {
            let Ok(Some(stream)) = self.accept() else { return };
            if self.refused.len() < MAX_REFUSED {
                self.refused.push((stream, Instant::now()));
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // To a confined process both are refused (EPERM), and the file stays to whoever may: its janitor.
        let ours =
            std::fs::symlink_metadata(&self.path).is_ok_and(|file| (file.dev(), file.ino()) == self.identity);
        if ours {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// A socket that listens when its file is there, and device and inode of the file: it is
/// bound under another name first, since a file that is bound and does not listen yet
/// refuses those who waited for it, and looks as if its server were gone. A file left by a
/// server that is gone is replaced.
///
/// # Errors
/// [`Error::Setup`] when another process listens there, or the path is too long; what binding says.
pub(crate) fn listen(path: &Path) -> Result<(UnixListener, (u64, u64))> {
    let failed = |error: io::Error| Error::os(format!("binding {}", path.display()), error);
    peer::expect();
    let mut before = path.as_os_str().to_owned();
    before.push("~");
    Error::check_socket_path(path, LONGEST_SOCKET_PATH - 1)?;
    let before = PathBuf::from(before);
    remove_stale(path)?;
    remove_stale(&before)?;
    let listener = UnixListener::bind(&before).map_err(failed)?;
    let shown = || {
        listener.set_nonblocking(true)?;
        let file = std::fs::symlink_metadata(&before)?;
        renameat_with(CWD, &before, CWD, path, RenameFlags::NOREPLACE)?;
        Ok((file.dev(), file.ino()))
    };
    match shown() {
        Ok(identity) => Ok((listener, identity)),
        Err(error) => {
            let _ = std::fs::remove_file(&before);
            Err(failed(error))
        }
    }
}

/// Removes a socket that nobody listens on.
fn remove_stale(path: &Path) -> Result<()> {
    // One that is too busy to take a connection is one that serves.
    let refused = match dial(path, Duration::ZERO, &AtomicBool::new(false)) {
        Ok(_) | Err(Errno::TIMEDOUT) => {
            return Err(Error::Setup {
                device: path.display().to_string(),
                what: "another process serves this socket".to_owned(),
                fix: "end it, or choose another path".to_owned(),
            });
        }
        Err(errno) => errno == Errno::CONNREFUSED,
    };
    // ECONNREFUSED is also what a file that is no socket says.
    let socket = std::fs::symlink_metadata(path).is_ok_and(|file| file.mode() & 0o170_000 == 0o140_000);
    if refused && socket {
        std::fs::remove_file(path)
            .map_err(|error| Error::os(format!("removing {}", path.display()), error))?;
    }
    Ok(())
}

/// Answers a client's first message with `EBUSY`, once it is here. Whether the
/// client is done with.
fn refuse(stream: &UnixStream) -> bool {
    let now = WaitLimit { deadline: Some(Instant::now() + Duration::from_millis(1)), stop: None };
    match receive(stream, now, Duration::ZERO) {
        Ok(message) => {
            let _ = send(stream, &Encoder::error(&message.header, Errno::BUSY), &[], now);
            true
        }
        Err(fault) => fault != TransportFault::TimedOut,
    }
}

/// Serves the client at the other end of `stream`, which came from anywhere,
/// till it hangs up or `stop` turns true.
pub fn serve_stream(stream: &UnixStream, device: &mut dyn Served, stop: &AtomicBool) -> Result<()> {
    let wait = WaitLimit { stop: Some(stop), deadline: None };
    let outcome = converse(stream, device, wait, None);
    finish("client", outcome, device)
}

fn finish(name: &str, outcome: TransportFault, device: &mut dyn Served) -> Result<()> {
    device.disconnected();
    match outcome {
        TransportFault::HungUp | TransportFault::Stopped => Ok(()),
        fault => Err(error(name, fault)),
    }
}

fn error(name: &str, fault: TransportFault) -> Error {
    let peer = name.to_owned();
    match fault {
        TransportFault::HungUp | TransportFault::Stopped => Error::HungUp { peer },
        TransportFault::TimedOut => Error::TimedOut { peer, command: "a message", after: TIME_LIMIT },
        TransportFault::Malformed(malformed) => Error::Malformed { peer, malformed },
        TransportFault::MemoryLost => Error::memory_lost(peer),
        TransportFault::Os(errno) => Error::Os { doing: format!("serving {peer}"), errno },
    }
}

/// Takes messages and answers them until that ends; tells why it ended.
fn converse(
    stream: &UnixStream,
    device: &mut dyn Served,
    wait: WaitLimit<'_>,
    mut server: Option<&mut Server>,
) -> TransportFault {
    let mut session = Session::new(device);
    loop {
        // Whoever connects has something to say; later it may be silent.
        let idle = if session.negotiated() { wait } else { wait.until(TIME_LIMIT) };
        if let Err(fault) = wait_for_message(stream, server.as_deref_mut(), &session, idle) {
            return fault;
        }
        let outcome = receive(stream, wait, TIME_LIMIT).and_then(|message| {
            let reply = step(&mut session, message)?;
            let Some((bytes, file)) = reply else { return Ok(()) };
            send(stream, &bytes, file.as_slice(), wait.until(TIME_LIMIT))
        });
        // Whoever cannot agree on a version has nothing more to say.
        match outcome {
            Ok(()) if session.negotiated() => {}
            Ok(()) => return TransportFault::HungUp,
            Err(fault) => return fault,
        }
    }
}

type Reply<'a> = Option<(Vec<u8>, Option<std::os::fd::BorrowedFd<'a>>)>;

fn step<'a>(
    session: &'a mut Session<'_>,
    message: Received,
) -> std::result::Result<Reply<'a>, TransportFault> {
    if message.header.is_reply() {
        // We asked nothing; guessing what it answers would lose step.
        return Err(TransportFault::Malformed(super::message::Malformed::Command(message.header.command)));
    }
    let fds = if message.too_many_fds { Err(Errno::INVAL) } else { Ok(message.fds) };
    Ok(session.answer(&message.header, &message.body, fds))
}

/// Waits for the client, refusing others meanwhile and looking after its memory.
fn wait_for_message(
    stream: &UnixStream,
    mut server: Option<&mut Server>,
    session: &Session<'_>,
    idle: WaitLimit<'_>,
) -> std::result::Result<(), TransportFault> {
    loop {
        if session.is_memory_lost() {
            return Err(TransportFault::MemoryLost);
        }
        let mut fds = vec![PollFd::new(stream, PollFlags::IN | PollFlags::PRI)];
        if let Some(server) = server.as_deref() {
            fds.push(PollFd::new(&server.listener, peer::awaited()));
            fds.extend(server.refused.iter().map(|(stream, _)| PollFd::new(stream, PollFlags::IN)));
        }
        if !idle.wait_once(&mut fds)? {
            continue;
        }
        // Reading passes such a byte over and then waits for the next, which may never come.
        if fds[0].revents().contains(PollFlags::PRI) {
            return Err(TransportFault::Malformed(Malformed::OutOfBand));
        }
        if !fds[0].revents().is_empty() {
            return Ok(()); // first: a client that hung up makes room
        }
        // Behind the client's stream and the listener are those who are to be refused.
        let ready = fds.iter().skip(2).position(|fd| !fd.revents().is_empty());
        drop(fds);
        if let Some(server) = server.as_deref_mut() {
            server.refuse_one(ready);
        }
    }
}

/// Answers a recorded stream of messages without a socket: for fuzzing.
#[doc(hidden)]
pub fn feed(device: &mut dyn Served, mut bytes: &[u8]) {
    let version = Encoder::request(0, Command::Version, 0).u16(0).u16(1).finish();
    let mut session = Session::new(device);
    let first = decode_header(&version).expect("our own header");
    session.answer(&first, &version[HEADER..], Ok(Vec::new()));
    while let Ok(header) = decode_header(bytes) {
        let body = bytes.get(HEADER..).unwrap_or_default();
        let body = &body[..header.body_len().min(body.len())];
        session.answer(&header, body, Ok(Vec::new()));
        bytes = &bytes[(HEADER + body.len()).min(bytes.len())..];
    }
    device.disconnected();
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    #[test]
    fn one_client_is_refused_in_a_turn_of_the_one_that_is_served() {
        let folder = tempfile::tempdir().unwrap();
        let mut server = Server::bind(&folder.path().join("s")).unwrap();
        let version = Encoder::request(0, Command::Version, 0).u16(0).u16(1).finish();
        let connect = |said: &[u8]| {
            let mut stream = UnixStream::connect(server.path()).unwrap();
            stream.write_all(said).unwrap();
            stream.set_nonblocking(true).unwrap();
            stream
        };
        let said = [&version[..3], &version, &version, b""];
        let mut streams = said.map(connect);
        let mut answered = || streams.each_mut().map(|stream| stream.read(&mut [0; 64]).is_ok());
        server.refuse_one(None);
        assert_eq!((server.refused.len(), answered()), (4, [false; 4]));
        // The first has said a part: it is the last from now on.
        server.refuse_one(Some(0));
        assert_eq!((server.refused.len(), answered()), (4, [false; 4]));
        server.refuse_one(Some(0));
        assert_eq!((server.refused.len(), answered()), (3, [false, true, false, false]));
        server.refuse_one(Some(0));
        assert_eq!((server.refused.len(), answered()[2]), (2, true));
        // A turn without anything said ends nobody's wait.
        server.refuse_one(None);
        assert_eq!(server.refused.len(), 2);
    }
}
