//! Bytes from C's buffers into sockets, and from sockets into buffers.

use std::ffi::c_int;
use std::net::SocketAddr;
use std::slice;

use libc::iovec;
use tcp::Mark;

use crate::errors::Answer;
use crate::host::Host;
use crate::interface::host;

/// The most bytes that one call reads or writes.
const MOST: usize = 1 << 26;

/// Attempts a call on a socket that waits, unless the socket's or the call's flags say not to.
pub fn attempt<T>(descriptor: c_int, flags: c_int, what: impl FnMut(&mut Host) -> Answer<T>) -> Answer<T> {
    let host = host().ok_or(libc::ENOSYS)?;
    let blocks = |host: &Host| {
        let socket = host.number(descriptor).ok().and_then(|number| host.sockets.get(&number));
        flags & libc::MSG_DONTWAIT == 0 && socket.is_some_and(|socket| !socket.choices.is_nonblocking)
    };
    host.attempt(blocks, None, what)
}

/// Reads into several buffers.
///
/// # Safety
/// Each buffer can be written for its length, or is null.
pub unsafe fn read_into(fd: c_int, buffers: &[iovec], flags: c_int) -> Answer {
    let most = buffers.iter().map(|buffer| buffer.iov_len).sum::<usize>().min(MOST);
    let is_dropped = flags & libc::MSG_TRUNC != 0;
    let has_place =
        is_dropped || buffers.iter().all(|buffer| buffer.iov_len == 0 || !buffer.iov_base.is_null());
    let bytes = attempt(fd, flags, |host| {
        let is_peek = flags & libc::MSG_PEEK != 0 || !has_place;
        host.read(fd, most, is_peek)
    })?;
    if !has_place && !bytes.is_empty() {
        return Err(libc::EFAULT);
    }
    let mut rest = &bytes[..];
    for buffer in buffers.iter().filter(|_| !is_dropped) {
        let (part, later) = rest.split_at(rest.len().min(buffer.iov_len));
        if !part.is_empty() {
            // SAFETY: the buffer has at least so many bytes, and is not null.
            unsafe { slice::from_raw_parts_mut(buffer.iov_base.cast::<u8>(), part.len()) }
                .copy_from_slice(part);
        }
        rest = later;
    }
    Ok(bytes.len())
}

/// Writes the bytes of several buffers.
///
/// # Safety
/// Each buffer can be read for its length, or is null.
unsafe fn write_from(fd: c_int, buffers: &[iovec], flags: c_int, to: Option<SocketAddr>) -> Answer {
    let buffers = buffers.iter().filter(|buffer| buffer.iov_len > 0);
    if buffers.clone().any(|buffer| buffer.iov_base.is_null()) {
        return Err(libc::EFAULT);
    }
    let mut bytes = Vec::new();
    for buffer in buffers {
        // SAFETY: the buffer has so many bytes.
        bytes.extend_from_slice(unsafe {
            slice::from_raw_parts(buffer.iov_base.cast::<u8>(), buffer.iov_len)
        });
        if bytes.len() > MOST {
            return Err(libc::ENOMEM);
        }
    }
    let mark =
        Mark { is_more_to_come: flags & libc::MSG_MORE != 0, is_record_end: flags & libc::MSG_EOR != 0 };
    let mut done = 0;
    let is_fast = flags & libc::MSG_FASTOPEN != 0;
    let host = host().ok_or(libc::ENOSYS)?;
    let begun = host.call(|host| match is_fast || host.socket_mut(fd)?.put_off.is_some() {
        true => host.send_fast(fd, to, &bytes),
        false => Ok(None),
    })?;
    if let Some(taken) = begun {
        done = taken;
        let opened = attempt(fd, flags, |host| host.connect_end(fd));
        match opened {
            Err(libc::EAGAIN) if taken > 0 => return Ok(taken),
            Err(libc::EAGAIN) => return Err(libc::EINPROGRESS),
            Err(error) => return Err(error),
            Ok(_) if taken == bytes.len() => return Ok(taken),
            Ok(_) => {}
        }
    }
    let mut waits = false;
    let whole = attempt(fd, flags, |host| {
        // Who waits is called when much is free.
        if std::mem::replace(&mut waits, true) && host.socket_mut(fd)?.is_full {
            return Err(libc::EAGAIN);
        }
        let written = host.write(fd, &bytes[done..], mark)?;
        done += written;
        if done < bytes.len() { Err(libc::EAGAIN) } else { Ok(done) }
    });
    if done == 0 {
        return whole;
    }
    Ok(done)
}

/// The same; the numbers of calls whose bytes are to be left alone are counted.
///
/// # Safety
/// As that of [`write_from`].
pub unsafe fn write_counted(fd: c_int, buffers: &[iovec], flags: c_int, to: Option<SocketAddr>) -> Answer {
    // SAFETY: as the caller promises.
    let written = unsafe { write_from(fd, buffers, flags, to) };
    if let (Ok(1..), Some(host)) = (written, host())
        && flags & libc::MSG_ZEROCOPY != 0
    {
        host.call(|host| host.finish_zero_copy(fd));
    }
    written
}
