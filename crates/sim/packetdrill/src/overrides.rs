//! Functions of the C library that packetdrill calls by itself, not by the table. In a process
//! into which this library was loaded in front of all others (`LD_PRELOAD`) these stand in
//! their place.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::Path;
use std::ptr::null_mut;

use libc::{iovec, off_t, size_t, socklen_t, ssize_t};

use crate::commands::follow;
use crate::interface::{self, host};
use crate::raw::answer;
use crate::transfer::write_counted;

/// `getsockopt`: packetdrill asks for `TCP_INFO` in this way. Sockets of the host are answered
/// for, others by the kernel.
///
/// # Safety
/// As that of the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    at: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    if host().is_some_and(|host| host.call(|host| host.number(fd).is_ok())) {
        // SAFETY: as the caller promises.
        return unsafe { interface::getsockopt(null_mut(), fd, level, name, at, len) };
    }
    // SAFETY: the same arguments, to the kernel.
    unsafe { libc::syscall(libc::SYS_getsockopt, fd, level, name, at, len) as c_int }
}

/// `system`: the commands of a script, none of which is run. What a script's assertions were
/// written to is given to Python by the C library.
///
/// # Safety
/// As that of the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn system(command: *const c_char) -> c_int {
    if command.is_null() {
        return 1;
    }
    // SAFETY: the caller's text ends with a zero.
    let text = unsafe { CStr::from_ptr(command) };
    let text_in_words = text.to_string_lossy();
    if text_in_words.starts_with("python3 ") {
        return pass_on(text);
    }
    let Some(host) = host() else { return FAILED };
    match host.call(|host| follow(&text_in_words, Path::new("."), &mut host.settings)) {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("ixora: {error}");
            FAILED
        }
    }
}

/// The status of a command that ended with 1, as `wait` tells it.
const FAILED: c_int = 1 << 8;

/// Has the C library run a command.
fn pass_on(command: &CStr) -> c_int {
    // SAFETY: both names end with a zero.
    let next = unsafe { libc::dlsym(libc::RTLD_NEXT, c"system".as_ptr()) };
    if next.is_null() {
        return FAILED;
    }
    // SAFETY: the next function of that name is the C library's, which has this type.
    let next =
        unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*const c_char) -> c_int>(next) };
    // SAFETY: the text ends with a zero.
    unsafe { next(command.as_ptr()) }
}

/// `sendfile`, which packetdrill calls by itself too: to a socket of the host the file's bytes are
/// written as by a call.
///
/// # Safety
/// As that of the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sendfile(to: c_int, from: c_int, at: *mut off_t, count: size_t) -> ssize_t {
    if !host().is_some_and(|host| host.call(|host| host.number(to).is_ok())) {
        // SAFETY: the same arguments, to the kernel.
        return unsafe { libc::syscall(libc::SYS_sendfile, to, from, at, count) as ssize_t };
    }
    let mut bytes = vec![0_u8; count.min(MOST_OF_FILE)];
    let room = bytes.as_mut_ptr().cast();
    let read = match at.is_null() {
        // SAFETY: there is room for so many bytes.
        true => unsafe { libc::read(from, room, bytes.len()) },
        // SAFETY: the same; the caller's offset can be read.
        false => unsafe { libc::pread(from, room, bytes.len(), at.read()) },
    };
    let Ok(read) = usize::try_from(read) else { return -1 };
    let buffer = iovec { iov_base: room, iov_len: read };
    // SAFETY: the buffer has so many bytes.
    let written = answer(unsafe { write_counted(to, &[buffer], 0, None) });
    if written > 0 && !at.is_null() {
        // SAFETY: the caller's offset can be read and written.
        unsafe { at.write(at.read() + written) };
    }
    written as ssize_t
}

/// Bytes of a file that one call sends at most.
const MOST_OF_FILE: usize = 1 << 24;

/// `mlockall`: simulated time does not care for pages that are missing, and a privilege is
/// not needed.
#[unsafe(no_mangle)]
pub extern "C" fn mlockall(_flags: c_int) -> c_int {
    0
}
