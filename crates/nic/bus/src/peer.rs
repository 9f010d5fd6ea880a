//! What comes from a peer over a unix socket: the connection, and descriptors of files
//! that may be anything (unix(7), `SCM_RIGHTS`).
//!
//! Some files make who looks at them (fstat(2)) or closes them wait for their owner: one
//! of a file system in user space (FUSE), or a socket with bytes to send (socket(7),
//! `SO_LINGER`). Two questions go to the kernel alone: which seals a file has (fcntl(2)),
//! which only memory answers, and whether it is an eventfd ([`eventfd::check`]). What is
//! neither is closed by a thread of its own. The kernel closes what nobody has read when
//! a connection is closed, and what does not fit into a receiver's room: so a connection
//! is read to its end, and there is room for as many as a message can carry.

use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::ops::Deref;
use std::os::fd::{AsFd, BorrowedFd, IntoRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use rustix::event::PollFlags;
use rustix::fs::fcntl_get_seals;
use rustix::io::Errno;
use rustix::net::sockopt::set_socket_oobinline;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, recvmsg};

use crate::seal::Unsealed;
use crate::{Error, Result, eventfd};

/// Most descriptors of one message (unix(7), `SCM_MAX_FD`).
const MOST_OF_A_MESSAGE: usize = 253;
/// While more descriptors than this wait to be closed, no connection is taken: each brings
/// at most [`MOST_OF_A_MESSAGE`] more, and all together stay below a process's usual limit
/// of 1024 open files.
const MOST_WAITING: usize = 64;

/// A descriptor that a peer sent. Dropping it makes nobody wait.
#[derive(Debug)]
pub struct Descriptor(Option<OwnedFd>);

impl Descriptor {
    /// Of a file that is not known yet.
    pub fn new(file: OwnedFd) -> Descriptor {
        Descriptor(Some(file))
    }

    /// The file, if it is an eventfd.
    ///
    /// # Errors
    /// `EINVAL` for any other file; what [`eventfd::prepare`] finds out.
    pub fn into_eventfd(mut self) -> std::result::Result<OwnedFd, Errno> {
        self.0.as_ref().map_or(Err(Errno::BADF), eventfd::check)?;
        self.0.take().ok_or(Errno::BADF)
    }

    /// The file, if it is memory: a memfd, or a file of tmpfs or hugetlbfs.
    ///
    /// # Errors
    /// [`Unsealed::NotMemory`] for any other file.
    pub fn into_memory(mut self) -> std::result::Result<OwnedFd, Unsealed> {
        self.0.take_if(|file| is_memory(file)).ok_or(Unsealed::NotMemory)
    }

    /// Whether it is memory or an eventfd, which make nobody wait.
    pub fn is_known(&self) -> bool {
        self.0.as_ref().is_none_or(|file| is_memory(file) || eventfd::check(file).is_ok())
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        if !self.is_known() {
            self.0.take().into_iter().for_each(close_elsewhere);
        }
    }
}

fn is_memory(file: &OwnedFd) -> bool {
    fcntl_get_seals(file).is_ok()
}

/// A connection to a peer. Dropping it hangs up and makes nobody wait.
#[derive(Debug)]
pub struct Stream(UnixStream);

impl From<UnixStream> for Stream {
    fn from(stream: UnixStream) -> Stream {
        // Else such a byte is passed over, and what comes with it is closed by who reads.
        if let Err(errno) = set_socket_oobinline(&stream, true) {
            tracing::debug!("a peer's bytes out of band cannot be read: {errno}");
        }
        Stream(stream)
    }
}

impl Deref for Stream {
    type Target = UnixStream;

    fn deref(&self) -> &UnixStream {
        &self.0
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // No more comes after that. What is there has an end: a socket's buffer.
        let _ = self.0.shutdown(Shutdown::Both);
        let mut descriptors = Vec::new();
        while matches!(receive_some(&self.0, &mut [0; 4096], RecvFlags::empty(), &mut descriptors), Ok(1..)) {
            descriptors.clear();
        }
    }
}

/// Reads some bytes without waiting, and the descriptors that come with them; how many
/// bytes. Fails with `EMFILE` where descriptors were lost.
pub(crate) fn receive_some(
    stream: impl AsFd,
    bytes: &mut [u8],
    flags: RecvFlags,
    descriptors: &mut Vec<Descriptor>,
) -> std::result::Result<usize, Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_OF_A_MESSAGE))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = flags | RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let got = recvmsg(stream, &mut [IoSliceMut::new(bytes)], &mut control, flags)?;
    for ancillary in control.drain() {
        if let RecvAncillaryMessage::ScmRights(files) = ancillary {
            descriptors.extend(files.map(Descriptor::new));
        }
    }
    match got.flags.contains(ReturnFlags::CTRUNC) {
        true => Err(Errno::MFILE),
        false => Ok(got.bytes),
    }
}

/// Looks at what came and was not read yet, for who lets another read it: how many bytes,
/// and the descriptors that come with them. It ends with the first piece that has some.
///
/// # Errors
/// What recvmsg(2) says, `EAGAIN` where nothing came.
pub fn peek(stream: impl AsFd, bytes: &mut [u8]) -> std::result::Result<(usize, Vec<Descriptor>), Errno> {
    let mut descriptors = Vec::new();
    let count = receive_some(stream, bytes, RecvFlags::PEEK, &mut descriptors)?;
    Ok((count, descriptors))
}

/// Says that this process will have peers, so that [`start`] is for it.
pub(crate) fn expect() {
    EXPECTED.store(true, Ordering::Relaxed);
}

/// Starts the thread that closes descriptors, if there will be peers, with the rights that
/// its caller has left: for a process that is about to be confined, and may start no thread
/// after that. One that was started before ends once it has closed what it has.
///
/// # Errors
/// [`Error::Os`] when there can be no further thread.
pub fn start() -> Result<()> {
    if EXPECTED.load(Ordering::Relaxed) {
        let failed = |error| Error::os("starting a thread that closes peers' files", error);
        *closer() = Some(spawn().map_err(failed)?);
    }
    Ok(())
}

/// What a listener waits for: a connection, unless it may take none just now.
pub(crate) fn awaited() -> PollFlags {
    match WAITING.load(Ordering::Relaxed) > MOST_WAITING {
        true => PollFlags::empty(),
        false => PollFlags::IN,
    }
}

/// Descriptors on their way to the thread that closes them.
static WAITING: AtomicUsize = AtomicUsize::new(0);
static EXPECTED: AtomicBool = AtomicBool::new(false);
static CLOSER: Mutex<Option<Sender<OwnedFd>>> = Mutex::new(None);

fn close_elsewhere(file: OwnedFd) {
    WAITING.fetch_add(1, Ordering::Relaxed);
    let mut closer = closer();
    if closer.is_none() {
        *closer = spawn().ok();
    }
    let kept = match &*closer {
        Some(closer) => closer.send(file).err().map(|unsent| unsent.0),
        None => Some(file),
    };
    // Rather kept open than waited for.
    kept.into_iter().for_each(|file| _ = file.into_raw_fd());
}

fn closer() -> MutexGuard<'static, Option<Sender<OwnedFd>>> {
    CLOSER.lock().unwrap_or_else(PoisonError::into_inner)
}

fn spawn() -> io::Result<Sender<OwnedFd>> {
    let (sender, files) = channel();
    let close = move || {
        for file in files {
            drop(file);
            WAITING.fetch_sub(1, Ordering::Relaxed);
        }
    };
    thread::Builder::new().name("peer-files".to_owned()).spawn(close).map(|_| sender)
}
