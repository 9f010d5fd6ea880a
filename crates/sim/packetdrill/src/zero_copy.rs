//! What Linux tells of `MSG_ZEROCOPY`: the numbers of the calls whose bytes are no longer needed,
//! on the error queue. This host copies all bytes, and says so.

use std::collections::VecDeque;

/// Bytes of what stands on the error queue: a `struct sock_extended_err` of
/// `linux/errqueue.h`, and room for the address of who told of an error, here nobody's.
const NOTICE_LEN: usize = 16;
/// The same on a socket of IPv4.
pub const NOTICE_V4_LEN: usize = NOTICE_LEN + size_of::<libc::sockaddr_in>();
/// And on one of IPv6.
pub const NOTICE_V6_LEN: usize = NOTICE_LEN + size_of::<libc::sockaddr_in6>();
/// `SO_EE_ORIGIN_ZEROCOPY` and `SO_EE_CODE_ZEROCOPY_COPIED`.
const ORIGIN: u8 = 5;
const COPIED: u8 = 1;

/// Calls with `MSG_ZEROCOPY` on a socket.
#[derive(Debug, Default)]
pub struct ZeroCopy {
    /// The application asked for it (`SO_ZEROCOPY`).
    pub is_on: bool,
    /// Bytes that were written.
    written: u64,
    /// The number of the next call.
    next: u32,
    /// Calls that wait: their numbers, and up to which byte they wrote.
    waiting: VecDeque<(u32, u64)>,
    /// Calls that are done, as ranges of numbers.
    done: VecDeque<(u32, u32)>,
}

impl ZeroCopy {
    /// So many bytes were written.
    pub fn count(&mut self, bytes: usize) {
        self.written += bytes as u64;
    }

    /// A call with `MSG_ZEROCOPY` has written the last of its bytes.
    pub fn finish_call(&mut self) {
        if self.is_on {
            self.waiting.push_back((self.next, self.written));
            self.next = self.next.wrapping_add(1);
        }
    }

    /// The other side has so many bytes; whether that ends a call.
    pub fn acknowledge(&mut self, bytes: u64) -> bool {
        let mut is_any = false;
        while let Some((number, _)) = self.waiting.pop_front_if(|(_, end)| *end <= bytes) {
            is_any = true;
            match self.done.back_mut() {
                Some((_, last)) if last.wrapping_add(1) == number => *last = number,
                _ => self.done.push_back((number, number)),
            }
        }
        is_any
    }

    /// Whether there is something to tell.
    pub fn has_notice(&self) -> bool {
        !self.done.is_empty()
    }

    /// Takes what is to be told first.
    pub fn take_notice(&mut self) -> Option<[u8; NOTICE_V6_LEN]> {
        let (first, last) = self.done.pop_front()?;
        let mut notice = [0; NOTICE_V6_LEN];
        (notice[4], notice[6]) = (ORIGIN, COPIED);
        notice[8..12].copy_from_slice(&first.to_ne_bytes());
        notice[12..16].copy_from_slice(&last.to_ne_bytes());
        Some(notice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_end_together_are_told_together() {
        let mut calls = ZeroCopy { is_on: true, ..ZeroCopy::default() };
        for bytes in [100, 50, 1] {
            calls.count(bytes);
            calls.finish_call();
        }
        assert!(!calls.acknowledge(99) && !calls.has_notice());
        assert!(calls.acknowledge(150));
        let notice = calls.take_notice().expect("two calls ended");
        assert_eq!(notice[..NOTICE_LEN], [0, 0, 0, 0, 5, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0]);
        assert!(calls.take_notice().is_none() && calls.acknowledge(151));
    }
}
