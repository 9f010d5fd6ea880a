//! Numbers of errors, as system calls tell them.

use tcp::{Reason, Refusal};

/// What a system call returns: a number, or that of an error.
pub type Answer<T = usize> = Result<T, i32>;

/// The error that a call on a connection tells that was refused.
pub fn of_refusal(refusal: Refusal) -> i32 {
    match refusal {
        Refusal::Gone | Refusal::Finished => libc::EPIPE,
        Refusal::Full => libc::EAGAIN,
        Refusal::TooMany => libc::ENOBUFS,
        Refusal::NoPort => libc::EADDRNOTAVAIL,
        Refusal::Addresses => libc::EINVAL,
    }
}

/// The error that a socket keeps whose connection ended; none where both sides had ended it.
pub fn of_reason(reason: Reason, was_open: bool) -> i32 {
    match reason {
        Reason::Finished => 0,
        Reason::Reset if was_open => libc::ECONNRESET,
        Reason::Reset => libc::ECONNREFUSED,
        Reason::TimedOut => libc::ETIMEDOUT,
        Reason::Unreachable => libc::EHOSTUNREACH,
        Reason::DataAfterClose => libc::ECONNRESET,
    }
}
