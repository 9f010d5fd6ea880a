//! Eventfds that another process holds, too: interrupts of served devices, kicks and
//! calls of vhost-user.
//!
//! The counter and the flag that makes a read or write wait (`O_NONBLOCK`) belong to the
//! open file, which all who hold the descriptor share: a peer may fill the counter and
//! clear the flag at any time, also between a look at them and a write(2). Nothing here
//! waits, whatever the peer does. A read is `RWF_NOWAIT` (preadv2(2), Linux 5.8), which
//! write(2) of an eventfd has not. So an eventfd is signalled as the completion of an
//! asynchronous read that fails at once (io_submit(2), `IOCB_FLAG_RESFD`): the kernel
//! then adds 1 to the counter, unless it is full, and returns. The same call refuses
//! what is no eventfd, so that no file in `/proc` is needed to know.

use std::io::IoSliceMut;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::OnceLock;

use rustix::io::{Errno, ReadWriteFlags, preadv2};

use crate::{Error, Result};

/// Completions that the kernel keeps for us until we take them; it makes room for more.
const COMPLETIONS: u32 = 64;
/// How often the completions are taken to make room for one: other threads signal, too.
const ATTEMPTS: usize = 16;
/// `IOCB_CMD_PREAD` and `IOCB_FLAG_RESFD` of linux/aio_abi.h.
const READ: u16 = 0;
const SIGNAL_EVENTFD: u32 = 1;

/// `struct iocb` of linux/aio_abi.h.
#[repr(C)]
#[derive(Default)]
struct Request {
    data: u64,
    key_and_flags: u64,
    opcode: u16,
    priority: i16,
    file: u32,
    buffer: u64,
    len: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    eventfd: u32,
}

/// `struct io_event` of linux/aio_abi.h.
type Completion = [u64; 4];

/// An `aio_context_t`. It is the process's, and never destroyed.
struct Context(libc::c_ulong);

/// The process's context, made by the first who needs it.
static CONTEXT: OnceLock<std::result::Result<Context, Errno>> = OnceLock::new();

/// Makes what signalling needs, while this process may still do so: a confined one may
/// not make it any more.
///
/// # Errors
/// [`Error::Setup`] where the kernel has no asynchronous I/O or no more of it to give.
pub fn prepare() -> Result<()> {
    context().map(drop).map_err(|errno| {
        let (what, fix) = match errno {
            Errno::AGAIN => ("the limit fs.aio-max-nr is reached", "sysctl fs.aio-max-nr=1048576, as root"),
            _ => (
                "the kernel lets us signal no eventfd without waiting (io_setup(2))",
                "use one with CONFIG_AIO, and allow io_setup and io_submit",
            ),
        };
        Error::Setup { device: "eventfds".to_owned(), what: format!("{what}: {errno}"), fix: fix.to_owned() }
    })
}

fn context() -> std::result::Result<&'static Context, Errno> {
    CONTEXT.get_or_init(Context::new).as_ref().map_err(|errno| *errno)
}

/// Whether `event` is an eventfd. Its counter stays as it is.
///
/// # Errors
/// `EINVAL` for any other file; what [`prepare`] finds out.
pub fn check(event: impl AsFd) -> std::result::Result<(), Errno> {
    // The kernel looks at the eventfd first, then refuses to read to its own addresses,
    // which is no completion.
    match context()?.submit_with_room(event.as_fd(), u64::MAX - 7, 8) {
        Err(Errno::FAULT) => Ok(()),
        Err(errno) => Err(errno),
        Ok(()) => Err(Errno::INVAL), // it read 8 bytes to where nothing is
    }
}

/// Adds 1 to the counter of `event`, or nothing where that is full: whoever waits for it
/// is awake then.
///
/// # Errors
/// `EINVAL` for what is no eventfd; what [`prepare`] finds out.
pub fn signal(event: impl AsFd) -> std::result::Result<(), Errno> {
    // A read of no bytes, which an eventfd refuses: that is its completion.
    context()?.submit_with_room(event.as_fd(), 0, 0)
}

/// Takes all that the counter of `event` has; `None` where it is zero.
///
/// # Errors
/// What the kernel says of a file that is no eventfd.
pub fn take(event: impl AsFd) -> std::result::Result<Option<u64>, Errno> {
    let mut count = [0; 8];
    let at_its_position = u64::MAX;
    match preadv2(event, &mut [IoSliceMut::new(&mut count)], at_its_position, ReadWriteFlags::NOWAIT) {
        Ok(8) => Ok(Some(u64::from_ne_bytes(count))),
        Ok(_) => Err(Errno::INVAL),
        Err(Errno::AGAIN) => Ok(None),
        Err(errno) => Err(errno),
    }
}

impl Context {
    fn new() -> std::result::Result<Context, Errno> {
        let mut id: libc::c_ulong = 0;
        // SAFETY: the kernel writes an aio_context_t to `id`, which is one, and maps its
        // ring of completions at an address that it chooses.
        let made = unsafe { libc::syscall(libc::SYS_io_setup, COMPLETIONS, &raw mut id) };
        if made == 0 { Ok(Context(id)) } else { Err(last_errno()) }
    }

    /// As [`submit`](Context::submit), after taking completions where they are too many.
    fn submit_with_room(
        &self,
        event: BorrowedFd<'_>,
        buffer: u64,
        len: u64,
    ) -> std::result::Result<(), Errno> {
        for _ in 0..ATTEMPTS {
            match self.submit(event, buffer, len) {
                Err(Errno::AGAIN) => self.take_completions(),
                other => return other,
            }
        }
        Err(Errno::AGAIN)
    }

    /// Submits a read of `event` to `buffer`, whose completion signals `event`.
    fn submit(&self, event: BorrowedFd<'_>, buffer: u64, len: u64) -> std::result::Result<(), Errno> {
        let fd = event.as_raw_fd() as u32; // a descriptor is not negative
        let flags = SIGNAL_EVENTFD;
        let mut request =
            Request { opcode: READ, file: fd, buffer, len, flags, eventfd: fd, ..Request::default() };
        let mut requests = [&raw mut request];
        // SAFETY: one request, which the kernel reads (and whose key it writes) before the
        // call returns. What it asks for writes no memory of ours: no byte is read, or to
        // an address above all of a process's, which the kernel refuses.
        let submitted = unsafe { libc::syscall(libc::SYS_io_submit, self.0, 1_usize, requests.as_mut_ptr()) };
        if submitted == 1 { Ok(()) } else { Err(last_errno()) }
    }

    /// Makes room for more completions. What they say is known.
    fn take_completions(&self) {
        let mut completions: [Completion; COMPLETIONS as usize] = [[0; 4]; _];
        let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the kernel writes at most as many completions as there is room for.
        unsafe {
            libc::syscall(
                libc::SYS_io_getevents,
                self.0,
                0_usize,
                completions.len(),
                completions.as_mut_ptr(),
                &raw const at_once,
            );
        }
    }
}

fn last_errno() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;
    use std::sync::mpsc;
    use std::time::Duration;

    use rustix::event::{EventfdFlags, eventfd};
    use rustix::fs::{MemfdFlags, memfd_create};

    use super::*;

    fn blocking() -> OwnedFd {
        eventfd(0, EventfdFlags::CLOEXEC).unwrap()
    }

    fn in_time<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
        let (done, wait) = mpsc::channel();
        std::thread::spawn(move || done.send(work()));
        wait.recv_timeout(Duration::from_secs(20)).expect("it waits for ever")
    }

    #[test]
    fn signals_are_counted_and_taken() {
        let event = blocking();
        check(&event).unwrap();
        assert_eq!(take(&event), Ok(None), "asking what it is signals nothing");
        // More than the kernel keeps completions of.
        for _ in 0..10_000 {
            signal(&event).unwrap();
            check(&event).unwrap();
        }
        assert_eq!((take(&event), take(&event)), (Ok(Some(10_000)), Ok(None)));
    }

    #[test]
    fn a_full_counter_of_a_blocking_eventfd_makes_nobody_wait() {
        let event = blocking();
        rustix::io::write(&event, &(u64::MAX - 1).to_ne_bytes()).unwrap();
        in_time(move || {
            for _ in 0..3 {
                signal(&event).unwrap();
            }
            assert_eq!((take(&event), take(&event)), (Ok(Some(u64::MAX)), Ok(None)));
        });
    }

    #[test]
    fn threads_signal_side_by_side() {
        let event = std::sync::Arc::new(blocking());
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..2_000).for_each(|_| signal(&*event).unwrap()));
            }
        });
        assert_eq!(take(&*event), Ok(Some(8_000)));
    }

    #[test]
    fn what_is_no_eventfd_is_refused() {
        let (socket, _other) = UnixStream::pair().unwrap();
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        let others: [OwnedFd; 6] = [
            socket.into(),
            reader,
            writer,
            memfd_create("test", MemfdFlags::CLOEXEC).unwrap(),
            rustix::event::epoll::create(rustix::event::epoll::CreateFlags::CLOEXEC).unwrap(),
            std::fs::File::open("/").unwrap().into(),
        ];
        in_time(move || {
            for (n, other) in others.iter().enumerate() {
                assert_eq!((check(other), signal(other)), (Err(Errno::INVAL), Err(Errno::INVAL)), "{n}");
            }
        });
    }
}
