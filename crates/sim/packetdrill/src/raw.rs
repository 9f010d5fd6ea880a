//! C's ways: answers by `errno`, times of calls, and what stands behind pointers: addresses,
//! vectors of buffers and messages of control.

use std::ffi::c_int;
use std::net::{SocketAddr, SocketAddrV4, SocketAddrV6};
use std::slice;

use libc::{iovec, msghdr, sockaddr, socklen_t};

use crate::errors::Answer;
use crate::host::MICROSECOND_NS;
use crate::notices::Control;

/// What a call returns in C: a number, or -1 with `errno` set.
pub fn answer<T: TryInto<i64>>(answer: Answer<T>) -> i64 {
    match answer {
        Ok(value) => value.try_into().unwrap_or(i64::MAX),
        Err(error) => {
            // SAFETY: the C library has one such place for each thread.
            unsafe { *libc::__errno_location() = error };
            -1
        }
    }
}

/// A call that has waited for as long as it should returns zero.
pub fn none_in_time(error: i32) -> Answer {
    if error == libc::EAGAIN { Ok(0) } else { Err(error) }
}

/// A time of a call in nanoseconds; `None` for one that waits for ever.
pub fn limit_ns(timeout_ms: c_int) -> Option<i64> {
    (timeout_ms >= 0).then(|| i64::from(timeout_ms) * 1_000 * MICROSECOND_NS)
}

/// The address behind a pointer; `None` of none, and of one without a family.
///
/// # Safety
/// `len` bytes can be read there, or it is null.
pub unsafe fn address_at(at: *const sockaddr, len: socklen_t) -> Option<SocketAddr> {
    if at.is_null() || (len as usize) < size_of::<libc::sa_family_t>() {
        return None;
    }
    // SAFETY: the address begins with its family, which is there.
    let family = i32::from(unsafe { at.cast::<libc::sa_family_t>().read_unaligned() });
    if family == libc::AF_INET && len as usize >= size_of::<libc::sockaddr_in>() {
        // SAFETY: so many bytes can be read, and any bytes are such a structure.
        let v4 = unsafe { at.cast::<libc::sockaddr_in>().read_unaligned() };
        let ip = u32::from_be(v4.sin_addr.s_addr).into();
        return Some(SocketAddrV4::new(ip, u16::from_be(v4.sin_port)).into());
    }
    if family == libc::AF_INET6 && len as usize >= size_of::<libc::sockaddr_in6>() {
        // SAFETY: as above.
        let v6 = unsafe { at.cast::<libc::sockaddr_in6>().read_unaligned() };
        let ip = v6.sin6_addr.s6_addr.into();
        return Some(SocketAddrV6::new(ip, u16::from_be(v6.sin6_port), 0, 0).into());
    }
    None
}

/// Writes an address where the caller wants it, as far as there is room.
///
/// # Safety
/// Both pointers are null, or `len` can be read and written and so many bytes be written.
pub unsafe fn tell_address(address: Option<SocketAddr>, at: *mut sockaddr, len: *mut socklen_t) {
    let Some(address) = address.filter(|_| !at.is_null() && !len.is_null()) else { return };
    let mut bytes = [0_u8; size_of::<libc::sockaddr_in6>()];
    let port = address.port().to_be_bytes();
    bytes[2..4].copy_from_slice(&port);
    let used = match address {
        SocketAddr::V4(v4) => {
            bytes[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
            bytes[4..8].copy_from_slice(&v4.ip().octets());
            size_of::<libc::sockaddr_in>()
        }
        SocketAddr::V6(v6) => {
            bytes[..2].copy_from_slice(&(libc::AF_INET6 as u16).to_ne_bytes());
            bytes[8..24].copy_from_slice(&v6.ip().octets());
            size_of::<libc::sockaddr_in6>()
        }
    };
    // SAFETY: the caller has room for as many bytes as it says, and the length's place.
    unsafe {
        let room = len.read() as usize;
        slice::from_raw_parts_mut(at.cast::<u8>(), room.min(used)).copy_from_slice(&bytes[..room.min(used)]);
        len.write(used as socklen_t);
    }
}

/// The buffers of a vector.
///
/// # Safety
/// So many stand there, or it is null.
pub unsafe fn vector<'a>(at: *const iovec, count: usize) -> &'a [iovec] {
    if at.is_null() {
        return &[];
    }
    // SAFETY: as the caller promises.
    unsafe { slice::from_raw_parts(at, count) }
}

/// Writes messages of control, as many as there is room for.
///
/// # Safety
/// The message has as much room for control as it says.
pub unsafe fn tell_control(message: &mut msghdr, told: &[Control]) {
    let room = std::mem::take(&mut message.msg_controllen);
    for (level, kind, bytes) in told {
        // SAFETY: `CMSG_SPACE` only computes.
        let needed = unsafe { libc::CMSG_SPACE(bytes.len() as u32) } as usize;
        let used = message.msg_controllen;
        if message.msg_control.is_null() || room - used < needed {
            return;
        }
        message.msg_controllen += needed;
        // SAFETY: there is room for a message of control with so many bytes behind those before,
        // each of which takes so many that the next one is aligned.
        unsafe {
            let control = message.msg_control.byte_add(used).cast::<libc::cmsghdr>();
            (*control).cmsg_level = *level;
            (*control).cmsg_type = *kind;
            (*control).cmsg_len = libc::CMSG_LEN(bytes.len() as u32) as usize;
            slice::from_raw_parts_mut(libc::CMSG_DATA(control), bytes.len()).copy_from_slice(bytes);
        }
    }
}
