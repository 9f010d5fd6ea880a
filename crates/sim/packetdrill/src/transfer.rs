//! Bytes from C's buffers into sockets, and from sockets into buffers.

use std::ffi::c_int;
use std::net::SocketAddr;
use std::slice;

use libc::iovec;
use tcp::Mark;

use crate::errors::Answer;
use crate::host::{Host, MICROSECOND_NS};
use crate::interface::host;
use crate::socket::Choices;

/// The most bytes that one call reads or writes.
const MOST: usize = 1 << 26;

/// How long reading waits, and accepting, in microseconds (`SO_RCVTIMEO`).
pub fn read_limit(choices: &Choices) -> i64 {
    choices.read_limit_us
}

/// How long writing waits, and connecting, in microseconds (`SO_SNDTIMEO`).
pub fn write_limit(choices: &Choices) -> i64 {
    choices.write_limit_us
}

/// Attempts a call on a socket that waits, unless the socket's or the call's flags say not to.
pub fn attempt<T>(
    descriptor: c_int,
    flags: c_int,
    limit: fn(&Choices) -> i64,
    what: impl FnMut(&mut Host) -> Answer<T>,
) -> Answer<T> {
    let host = host().ok_or(libc::ENOSYS)?;
    let limit_us = host.call(|host| host.socket_mut(descriptor).map_or(0, |socket| limit(&socket.choices)));
    let limit_ns = (limit_us > 0).then(|| limit_us.saturating_mul(MICROSECOND_NS));
    let blocks = |host: &Host| {
        let socket = host.number(descriptor).ok().and_then(|number| host.sockets.get(&number));
        flags & libc::MSG_DONTWAIT == 0 && socket.is_some_and(|socket| !socket.choices.is_nonblocking)
    };
    host.attempt(blocks, limit_ns, what)
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
    let is_peek = flags & libc::MSG_PEEK != 0 || !has_place;
    let bytes = match flags & libc::MSG_OOB != 0 {
        true => host().ok_or(libc::ENOSYS)?.call(|host| host.read_urgent(fd, is_peek))?,
        false => read_enough(fd, most, flags, is_peek)?,
    };
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

/// Reads up to `most` bytes: as many as the socket or the call wait for, or fewer when no more
/// come, or not in time.
fn read_enough(fd: c_int, most: usize, flags: c_int, is_peek: bool) -> Answer<Vec<u8>> {
    let is_whole = flags & libc::MSG_WAITALL != 0;
    let enough = attempt(fd, flags, read_limit, |host| {
        let least = host.socket_mut(fd).map_or(1, |socket| socket.choices.least_read);
        match host.has_enough(fd, if is_whole { most } else { least.min(most) })? {
            true => host.read(fd, most, is_peek),
            false => Err(libc::EAGAIN),
        }
    });
    match enough {
        Err(libc::EAGAIN) => host().ok_or(libc::ENOSYS)?.call(|host| host.read(fd, most, is_peek)),
        enough => enough,
    }
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
        let opened = attempt(fd, flags, write_limit, |host| host.connect_end(fd));
        match opened {
            Err(libc::EAGAIN) if taken > 0 => return Ok(taken),
            Err(libc::EAGAIN) => return Err(libc::EINPROGRESS),
            Err(error) => return Err(error),
            Ok(_) if taken == bytes.len() => return Ok(taken),
            Ok(_) => {}
        }
    }
    let mut waits = false;
    let whole = attempt(fd, flags, write_limit, |host| {
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
    if let (Ok(1..), Some(host)) = (written, host()) {
        host.call(|host| host.finish_call(fd, flags & libc::MSG_ZEROCOPY != 0));
    }
    written
}
