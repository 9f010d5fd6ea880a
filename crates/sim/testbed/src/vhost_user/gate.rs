//! What stands between a front end and crate `vhost`, which reads and answers
//! without a time limit: a message is let through once it is here as a whole, there is
//! room for its answer, and no file comes with it that makes who closes it wait
//! ([`bus::peer`]). One message it refuses that QEMU sends: a
//! ring enabled before features are set. That one is taken here.

use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bus::peer::{self, Descriptor};
use bus::vhost_user::message::{HEADER, Header, MAX_BODY, Request, flags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, ioctl_fionread, retry_on_intr};
use rustix::net::{RecvFlags, recv};

/// How long a front end may take for the rest of a message, or to read answers.
pub(super) const TIME_LIMIT: Duration = Duration::from_secs(5);
/// How often a waiting thread looks whether it should stop.
const STOP_INTERVAL: Duration = Duration::from_millis(50);
/// How often it looks whether the rest has come.
const REST_INTERVAL: Duration = Duration::from_millis(1);

/// What came of waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// A whole message is here.
    Message,
    /// No message and no connection came in the time of one wait.
    TimedOut,
    /// A further front end connects to the listener.
    Connection,
    /// We were told to stop.
    Stopped,
}

/// Why the session ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum SessionEnd {
    /// Not a fault between two messages.
    #[error("hung up")]
    HungUp,
    #[error("hung up in the middle of a message")]
    Cut,
    #[error("sent the begin of a message and no end within {TIME_LIMIT:?}")]
    Unfinished,
    #[error("announces a message of {0} bytes")]
    TooLong(u32),
    #[error("sent a byte out of band")]
    OutOfBand,
    #[error("sent a file that is neither memory nor an eventfd")]
    UnknownFile,
    #[error("sent files with a message in pieces")]
    Pieces,
    #[error("does not read its answers")]
    NotReading,
    #[error("took away pages of memory that it shares (truncated or punched: SIGBUS)")]
    MemoryLost,
    #[error("cannot be listened to: {0}")]
    Os(Errno),
}

/// Waits a while for a message on `stream` or a connection to `listener`.
pub(super) fn wait(
    stream: &UnixStream,
    listener: &bus::vhost_user::Listener,
    stop: &AtomicBool,
) -> Result<Event, SessionEnd> {
    if stop.load(Ordering::Relaxed) {
        return Ok(Event::Stopped);
    }
    let mut fds = [PollFd::new(stream, PollFlags::IN), PollFd::new(listener, listener.awaited())];
    match poll(&mut fds, Some(&timespec(STOP_INTERVAL))) {
        Ok(0) | Err(Errno::INTR) => return Ok(Event::TimedOut),
        Ok(_) => {}
        Err(errno) => return Err(SessionEnd::Os(errno)),
    }
    // First: a front end that hung up makes room for the one that connects.
    if !fds[0].revents().is_empty() {
        return pass(stream, stop);
    }
    Ok(Event::Connection)
}

/// Something came: waits for the whole of it.
pub(super) fn pass(stream: &UnixStream, stop: &AtomicBool) -> Result<Event, SessionEnd> {
    let deadline = Instant::now() + TIME_LIMIT;
    while !stop.load(Ordering::Relaxed) {
        let here = ioctl_fionread(stream).map_err(SessionEnd::Os)?;
        // Counted just now, but never read: the crate would wait for the rest for ever.
        if events_of(stream, PollFlags::PRI)?.contains(PollFlags::PRI) {
            return Err(SessionEnd::OutOfBand);
        }
        if is_whole(stream, here)? {
            return room(stream, stop);
        }
        // All that is here was counted before the hang-up is looked for.
        if hung_up(stream)? && ioctl_fionread(stream).map_err(SessionEnd::Os)? == here {
            return Err(if here == 0 { SessionEnd::HungUp } else { SessionEnd::Cut });
        }
        if Instant::now() >= deadline {
            return Err(SessionEnd::Unfinished);
        }
        std::thread::sleep(REST_INTERVAL);
    }
    Ok(Event::Stopped)
}

fn is_whole(stream: &UnixStream, here: u64) -> Result<bool, SessionEnd> {
    let mut bytes = [0; HEADER + MAX_BODY];
    let (count, files) = match peer::peek(stream, &mut bytes) {
        Ok(seen) => seen,
        Err(Errno::AGAIN | Errno::INTR) => return Ok(false),
        Err(errno) => return Err(SessionEnd::Os(errno)),
    };
    if !files.iter().all(Descriptor::is_known) {
        return Err(SessionEnd::UnknownFile);
    }
    let Some(header) = bytes[..count].first_chunk() else { return in_pieces(here, HEADER, &files) };
    let size = Header::decode(header).size as usize;
    if size > MAX_BODY {
        return Err(SessionEnd::TooLong(size as u32));
    }
    if count < HEADER + size {
        return in_pieces(here, HEADER + size, &files);
    }
    Ok(true)
}

/// Of a message of which less can be seen than it has: the rest is to come, unless it is
/// here, behind files. With it might be others, which nobody has looked at.
fn in_pieces(here: u64, whole: usize, files: &[Descriptor]) -> Result<bool, SessionEnd> {
    match !files.is_empty() && here >= whole as u64 {
        true => Err(SessionEnd::Pieces),
        false => Ok(false),
    }
}

/// Waits until an answer fits. A stream counts as writable while at least three
/// quarters of its buffer are free, which is far more than an answer has.
fn room(stream: &UnixStream, stop: &AtomicBool) -> Result<Event, SessionEnd> {
    let deadline = Instant::now() + TIME_LIMIT;
    while !stop.load(Ordering::Relaxed) {
        let mut fds = [PollFd::new(stream, PollFlags::OUT)];
        match poll(&mut fds, Some(&timespec(STOP_INTERVAL))) {
            Ok(1..) => return Ok(Event::Message),
            Ok(_) | Err(Errno::INTR) if Instant::now() < deadline => {}
            Ok(_) | Err(Errno::INTR) => return Err(SessionEnd::NotReading),
            Err(errno) => return Err(SessionEnd::Os(errno)),
        }
    }
    Ok(Event::Stopped)
}

fn hung_up(stream: &UnixStream) -> Result<bool, SessionEnd> {
    let events = events_of(stream, PollFlags::RDHUP)?;
    Ok(events.intersects(PollFlags::HUP | PollFlags::RDHUP | PollFlags::ERR))
}

/// Which of some events a stream has now.
fn events_of(stream: &UnixStream, events: PollFlags) -> Result<PollFlags, SessionEnd> {
    let mut fds = [PollFd::new(stream, events)];
    let looked = retry_on_intr(|| poll(&mut fds, Some(&timespec(Duration::ZERO))));
    looked.map(|_| fds[0].revents()).map_err(SessionEnd::Os)
}

/// The body of `SET_VRING_ENABLE`: which ring, and whether.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Enable {
    pub index: u32,
    pub on: u32,
    /// Whether an acknowledgement is wanted.
    pub acknowledged: bool,
}

impl Enable {
    const BYTES: usize = HEADER + 8;

    /// Takes the message that was let through, if it is this one.
    pub fn take(stream: &UnixStream) -> Result<Option<Enable>, SessionEnd> {
        let mut bytes = [0; Enable::BYTES];
        let (count, _) =
            recv(stream, &mut bytes, RecvFlags::PEEK | RecvFlags::DONTWAIT).map_err(SessionEnd::Os)?;
        let Some(header) = bytes.first_chunk().map(Header::decode) else { return Ok(None) };
        let whole = count == bytes.len() && header.size as usize == bytes.len() - HEADER;
        if header.request != Request::SetVringEnable as u32 || !whole {
            return Ok(None);
        }
        recv(stream, &mut bytes, RecvFlags::DONTWAIT).map_err(SessionEnd::Os)?;
        let (fields, _) = bytes[HEADER..].as_chunks::<4>();
        let [index, on] = [0, 1].map(|n| u32::from_le_bytes(fields[n]));
        Ok(Some(Enable { index, on, acknowledged: header.flags & flags::NEED_REPLY != 0 }))
    }

    /// Says that it was done, if that is wanted.
    pub fn answer(self, stream: &UnixStream) -> Result<(), SessionEnd> {
        if !self.acknowledged {
            return Ok(());
        }
        let head = [Request::SetVringEnable as u32, flags::VERSION | flags::REPLY, 8];
        let reply = [head.map(u32::to_le_bytes).concat(), vec![0; 8]].concat();
        // Not `Write::write_all`, which sends: a confined process may only write.
        match retry_on_intr(|| rustix::io::write(stream, &reply)) {
            Ok(count) if count == reply.len() => Ok(()),
            _ => Err(SessionEnd::HungUp),
        }
    }
}

fn timespec(time: Duration) -> Timespec {
    Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() }
}
