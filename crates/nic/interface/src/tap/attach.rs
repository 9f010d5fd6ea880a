//! The two requests to the TUN/TAP driver (linux/if_tun.h).
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::vnet;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::ioctl::{IntegerSetter, Opcode, Setter, Updater, ioctl, opcode};

/// `struct ifreq` as TUNSETIFF reads it (linux/if.h).
#[repr(C)]
struct Request {
    name: [u8; 16],
    flags: u16,
    rest: [u8; 22],
}

/// The longest name of an interface: the last byte stays zero.
const LONGEST: usize = libc::IFNAMSIZ - 1;

/// Takes an `ifreq`, whatever its number says.
const TUNSETIFF: Opcode = opcode::write::<i32>(b'T', 202);
/// Takes the bits themselves (drivers/net/tun.c).
const TUNSETOFFLOAD: Opcode = opcode::write::<libc::c_uint>(b'T', 208);
/// What we take from the kernel: checksums that are not filled in, and TCP segments of both
/// versions of IP that are longer than a frame (linux/if_tun.h: TUN_F_CSUM, TUN_F_TSO4,
/// TUN_F_TSO6).
const LONG_SEGMENTS: usize = 0x01 | 0x02 | 0x04;
/// Likewise UDP datagrams that are to be cut into several (TUN_F_USO4, TUN_F_USO6), which the
/// kernel gives from version 6.2 on, for both versions of IP or none.
const LONG_DATAGRAMS: usize = 0x20 | 0x40;
/// Takes the length of the header in front of each frame.
const TUNSETVNETHDRSZ: Opcode = opcode::write::<libc::c_int>(b'T', 216);
const TUNATTACHFILTER: Opcode = opcode::write::<libc::sock_fprog>(b'T', 213);

/// What failed, and why.
#[derive(Debug)]
pub(super) enum AttachError {
    /// The device node could not be opened.
    Device(io::Error),
    /// The interface could not be made or taken.
    Interface(io::Error),
}

impl<E: Into<io::Error>> From<E> for AttachError {
    fn from(error: E) -> AttachError {
        AttachError::Interface(error.into())
    }
}

/// A queue of the interface `name`, which is made if there is none: `several`
/// says that it has, or may have, more than one, and `long` that the kernel may give segments
/// that are to be cut, each frame with a header in front.
pub(super) fn open(name: &str, several: bool, long: bool) -> Result<OwnedFd, AttachError> {
    let file = device().map_err(|errno| AttachError::Device(errno.into()))?;
    let queues = if several { libc::IFF_MULTI_QUEUE } else { 0 };
    let headers = if long { libc::IFF_VNET_HDR } else { 0 };
    let flags = libc::IFF_TAP | libc::IFF_NO_PI | queues | headers;
    let mut request = Request { name: [0; 16], flags: flags as u16, rest: [0; 22] };
    let place = request.name[..LONGEST].get_mut(..name.len()).ok_or(Errno::NAMETOOLONG)?;
    place.copy_from_slice(name.as_bytes());
    // SAFETY: TUNSETIFF reads and writes one `struct ifreq`, whose size and
    // layout `Request` has, and keeps no pointer to it.
    unsafe { ioctl(&file, Setter::<TUNSETIFF, Request>::new(request))? };
    // Both are an interface's, not a file's: one that stays has them as its last user said.
    match long {
        true => take(file.as_fd(), LONG_SEGMENTS | LONG_DATAGRAMS).or_else(|error| match error {
            Errno::INVAL => take(file.as_fd(), LONG_SEGMENTS),
            other => Err(other),
        })?,
        false => take(file.as_fd(), 0)?,
    }
    if long {
        let len = vnet::LEN as libc::c_int;
        // SAFETY: TUNSETVNETHDRSZ reads one `int`, and keeps no pointer to it.
        unsafe { ioctl(&file, Setter::<TUNSETVNETHDRSZ, libc::c_int>::new(len))? };
    }
    Ok(file)
}

/// Tells the kernel what of its packets it may leave undone.
fn take(file: BorrowedFd<'_>, bits: usize) -> rustix::io::Result<()> {
    // SAFETY: TUNSETOFFLOAD takes an integer of these bits, and no pointer.
    unsafe { ioctl(file, IntegerSetter::<TUNSETOFFLOAD>::new_usize(bits)) }
}

fn device() -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    rustix::fs::open("/dev/net/tun", flags, Mode::empty())
}

/// A new interface, of a name or of any, and what it is called.
pub(crate) fn open_any(name: &str, tap: bool) -> io::Result<(OwnedFd, String)> {
    let file = device()?;
    let flags = if tap { libc::IFF_TAP } else { libc::IFF_TUN } | libc::IFF_NO_PI;
    let mut request = Request { name: [0; 16], flags: flags as u16, rest: [0; 22] };
    let place = request.name[..LONGEST].get_mut(..name.len()).ok_or(Errno::NAMETOOLONG)?;
    place.copy_from_slice(name.as_bytes());
    // SAFETY: TUNSETIFF reads and writes one `struct ifreq`, whose size and
    // layout `Request` has, and keeps no pointer to it.
    unsafe { ioctl(&file, Updater::<TUNSETIFF, Request>::new(&mut request))? };
    let end = request.name.iter().position(|b| *b == 0).unwrap_or(request.name.len());
    Ok((file, String::from_utf8_lossy(&request.name[..end]).into_owned()))
}

/// Lets nothing from the kernel into any queue: a filter that says no.
pub(super) fn shut(file: BorrowedFd<'_>) -> io::Result<()> {
    let mut nothing = libc::sock_filter { code: (libc::BPF_RET | libc::BPF_K) as u16, jt: 0, jf: 0, k: 0 };
    let program = libc::sock_fprog { len: 1, filter: &raw mut nothing };
    // SAFETY: TUNATTACHFILTER reads a `struct sock_fprog` and copies the one
    // instruction that it points to.
    unsafe { ioctl(file.as_fd(), Setter::<TUNATTACHFILTER, libc::sock_fprog>::new(program))? };
    Ok(())
}
