//! Whole messages over a unix stream, with file descriptors (unix(7),
//! `SCM_RIGHTS`). A message is read to its end before anything judges it, so
//! the stream never loses step; every wait has a limit.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, connect, sendmsg, socket_with,
};

use super::message::{HEADER, Header, MAX_FDS, Malformed, decode_header};
use crate::peer::{self, Descriptor, Stream};

/// How long a server that takes no connection just now is left alone.
const ASK_AGAIN: Duration = Duration::from_millis(20);
/// How often a waiting thread looks whether it should stop.
pub(crate) const STOP_INTERVAL: Duration = Duration::from_millis(50);

/// Why no message came or went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TransportFault {
    /// The peer closed its end.
    HungUp,
    /// The limit passed.
    TimedOut,
    /// We were told to stop.
    Stopped,
    /// The header is none: the stream cannot be followed any longer.
    Malformed(Malformed),
    /// The peer took away memory that it shares.
    MemoryLost,
    /// The system refused.
    Os(Errno),
}

/// How long a wait may last.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WaitLimit<'a> {
    /// Until when, if there is an end.
    pub deadline: Option<Instant>,
    /// Ends the wait when it turns true.
    pub stop: Option<&'a AtomicBool>,
}

impl WaitLimit<'_> {
    pub(crate) fn until(self, after: Duration) -> Self {
        WaitLimit { deadline: Some(Instant::now() + after), ..self }
    }

    /// How long the next poll may wait.
    fn slice(&self) -> Result<Timespec, TransportFault> {
        if self.stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
            return Err(TransportFault::Stopped);
        }
        let mut slice = if self.stop.is_some() { STOP_INTERVAL } else { Duration::from_secs(3600) };
        if let Some(deadline) = self.deadline {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(TransportFault::TimedOut);
            }
            slice = slice.min(left);
        }
        Ok(Timespec { tv_sec: slice.as_secs() as i64, tv_nsec: slice.subsec_nanos().into() })
    }

    /// Waits until one of `fds` has an event.
    pub(crate) fn wait(&self, fds: &mut [PollFd<'_>]) -> Result<(), TransportFault> {
        while !self.wait_once(fds)? {}
        Ok(())
    }

    /// Waits for an event for a while; whether one came. With `stop`, a while is
    /// [`STOP_INTERVAL`].
    pub(crate) fn wait_once(&self, fds: &mut [PollFd<'_>]) -> Result<bool, TransportFault> {
        let slice = self.slice()?;
        match poll(fds, Some(&slice)) {
            Ok(0) | Err(Errno::INTR) => Ok(false),
            Ok(_) => Ok(true),
            Err(errno) => Err(TransportFault::Os(errno)),
        }
    }
}

/// How long a server is waited for that may be starting: its socket is not there, or nobody
/// listens at it. Who starts both in one line of a shell cannot say when it is.
const STARTING: Duration = Duration::from_secs(1);

/// Connects. A server too busy to take the connection is asked again, until
/// `limit` has passed or `stop` is true; one that is not there, for [`STARTING`].
pub(crate) fn dial(path: &Path, limit: Duration, stop: &AtomicBool) -> Result<Stream, Errno> {
    let begun = Instant::now();
    let end = begun + limit;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    let address = SocketAddrUnix::new(path)?;
    loop {
        match connect(&socket, &address) {
            Ok(()) => return Ok(UnixStream::from(socket).into()),
            // Its queue of connections is full (connect(2)); nothing tells when not.
            Err(Errno::AGAIN) if Instant::now() < end => sleep(ASK_AGAIN),
            Err(Errno::AGAIN) => return Err(Errno::TIMEDOUT),
            Err(Errno::NOENT | Errno::CONNREFUSED) if begun.elapsed() < STARTING.min(limit) => {
                sleep(ASK_AGAIN);
            }
            Err(errno) => return Err(errno),
        }
        if stop.load(Ordering::Relaxed) {
            return Err(Errno::INTR);
        }
    }
}

/// A message as it came.
#[derive(Debug, Default)]
pub(crate) struct Received {
    pub header: Header,
    pub body: Vec<u8>,
    /// Closed when dropped, whatever becomes of the message.
    pub fds: Vec<Descriptor>,
    /// More came than a message may carry; the rest is closed.
    pub too_many_fds: bool,
}

/// Reads one message. `idle` bounds the wait for its first byte; once that is
/// here the rest has to follow within `limit`, or by the end of `idle`.
pub(crate) fn receive(
    stream: &UnixStream,
    idle: WaitLimit<'_>,
    limit: Duration,
) -> Result<Received, TransportFault> {
    idle.slice()?; // also where the peer never lets us wait
    let mut message = Received::default();
    let mut bytes = [0; HEADER];
    let first = read_some(stream, &mut bytes, idle, &mut message)?;
    let deadline = idle.deadline.unwrap_or_else(|| Instant::now() + limit);
    let wait = WaitLimit { deadline: Some(deadline), ..idle };
    read_all(stream, &mut bytes[first..], wait, &mut message)?;
    message.header = decode_header(&bytes).map_err(TransportFault::Malformed)?;
    let mut body = vec![0; message.header.body_len()];
    read_all(stream, &mut body, wait, &mut message)?;
    message.body = body;
    Ok(message)
}

pub(crate) fn read_all(
    stream: &UnixStream,
    mut data: &mut [u8],
    wait: WaitLimit<'_>,
    message: &mut Received,
) -> Result<(), TransportFault> {
    while !data.is_empty() {
        let count = read_some(stream, data, wait, message)?;
        data = &mut data[count..];
    }
    Ok(())
}

/// Reads at least one byte, and the file descriptors that come with it.
fn read_some(
    stream: &UnixStream,
    data: &mut [u8],
    wait: WaitLimit<'_>,
    message: &mut Received,
) -> Result<usize, TransportFault> {
    loop {
        let got = match peer::receive_some(stream, data, RecvFlags::empty(), &mut message.fds) {
            Ok(got) => got,
            Err(Errno::AGAIN) => {
                wait.wait(&mut [PollFd::new(stream, PollFlags::IN)])?;
                continue;
            }
            Err(Errno::INTR) => continue,
            Err(Errno::CONNRESET) => return Err(TransportFault::HungUp),
            Err(errno) => return Err(TransportFault::Os(errno)),
        };
        message.too_many_fds |= message.fds.len() > MAX_FDS;
        message.fds.truncate(MAX_FDS);
        return if got == 0 { Err(TransportFault::HungUp) } else { Ok(got) };
    }
}

/// Writes one message; the file descriptors go with its first byte.
pub(crate) fn send(
    stream: &UnixStream,
    mut bytes: &[u8],
    fds: &[BorrowedFd<'_>],
    wait: WaitLimit<'_>,
) -> Result<(), TransportFault> {
    let mut fds = fds;
    while !bytes.is_empty() {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
            return Err(TransportFault::Malformed(Malformed::Fds));
        }
        match sendmsg(stream, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)
        {
            Ok(count) => {
                bytes = &bytes[count..];
                fds = &[];
            }
            Err(Errno::AGAIN) => wait.wait(&mut [PollFd::new(stream, PollFlags::OUT)])?,
            Err(Errno::INTR) => {}
            Err(Errno::PIPE | Errno::CONNRESET) => return Err(TransportFault::HungUp),
            Err(errno) => return Err(TransportFault::Os(errno)),
        }
    }
    Ok(())
}
