//! The four requests of bpf(2) that this port makes (linux/bpf.h). What they give
//! are descriptors: maps, programs and links go with the last one.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

/// The commands of bpf(2), `BPF_*`.
const MAP_CREATE: i32 = 0;
const MAP_UPDATE: i32 = 2;
const PROG_LOAD: i32 = 5;
const LINK_CREATE: i32 = 28;

/// Kinds of maps, programs and attachments.
const XSKMAP: u32 = 17;
const PROG_XDP: u32 = 6;
const ATTACH_XDP: u32 = 37;

/// Zeroes at the end of a request.
const REST: usize = 2;

/// A request's words, 64 bits each, zero where nothing is asked.
type Request = [u64; 4 + REST];

/// Two words of 32 bits in one of 64, as they lie in memory.
const fn pair(first: u32, second: u32) -> u64 {
    (second as u64) << 32 | first as u64
}

/// A map from queue numbers below `entries` to AF_XDP sockets.
pub(super) fn socket_map(entries: u32) -> io::Result<OwnedFd> {
    descriptor(MAP_CREATE, [pair(XSKMAP, 4), pair(4, entries), 0, 0, 0, 0])
}

/// Puts `socket` into a map at `key`.
pub(super) fn update(map: impl AsFd, key: u32, socket: impl AsFd) -> io::Result<()> {
    let value = socket.as_fd().as_raw_fd().cast_unsigned();
    let (key, value) = ((&raw const key).addr() as u64, (&raw const value).addr() as u64);
    let map = map.as_fd().as_raw_fd().cast_unsigned();
    // Addresses in numbers: both variables live until the call is over, and
    // `call` vouches for nothing but its own argument.
    call(MAP_UPDATE, [pair(map, 0), key, value, 0, 0, 0]).map(drop)
}

/// Loads an XDP program; what the verifier says against it is in the error.
pub(super) fn load(instructions: &[u64]) -> io::Result<OwnedFd> {
    let license = c"Dual MIT/GPL";
    let count = instructions.len() as u32;
    let (code, license) = (instructions.as_ptr().addr() as u64, license.as_ptr().addr() as u64);
    descriptor(PROG_LOAD, [pair(PROG_XDP, count), code, license, 0, 0, 0])
}

/// Attaches a program to an interface for as long as the descriptor is open.
pub(super) fn attach(program: impl AsFd, interface: u32, flags: u32) -> io::Result<OwnedFd> {
    let program = program.as_fd().as_raw_fd().cast_unsigned();
    descriptor(LINK_CREATE, [pair(program, interface), pair(ATTACH_XDP, flags), 0, 0, 0, 0])
}

fn descriptor(command: i32, request: Request) -> io::Result<OwnedFd> {
    let fd = call(command, request)?;
    // SAFETY: these commands return a new descriptor, which nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn call(command: i32, request: Request) -> io::Result<i32> {
    let (at, len) = (request.as_ptr(), size_of::<Request>());
    // SAFETY: the kernel reads `len` bytes of the request. The addresses in it
    // are of variables that the callers above keep until this returns, of the
    // lengths that the command has: four bytes each for a map's key and value,
    // eight for each instruction, and a string that ends with zero. The kernel
    // writes to none of them.
    match unsafe { libc::syscall(libc::SYS_bpf, command, at, len) } {
        fd if fd >= 0 => Ok(fd as i32),
        _ => Err(io::Error::last_os_error()),
    }
}
