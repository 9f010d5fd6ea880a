//! The error queue of a socket: what became of bytes that were written, each told with messages of
//! control (`MSG_ERRQUEUE`).

use crate::host::Host;
use crate::stamps::{ORIGIN, Stamp};
use crate::zero_copy::{NOTICE_V4_LEN, NOTICE_V6_LEN};

/// A message of control: its level, its kind and its bytes.
pub type Control = (i32, i32, Vec<u8>);

/// Bytes of a `struct scm_timestamping`: three times, of which the first is told.
const TIMES_LEN: usize = 3 * size_of::<libc::timespec>();
const SECOND_NS: i64 = 1_000_000_000;

impl Host {
    /// A call that may be told of has ended: one with `MSG_ZEROCOPY`, or any where times are
    /// wanted. The moment at which the bytes went out may have been before.
    pub fn finish_call(&mut self, descriptor: i32, is_zero_copy: bool) {
        let now_ns = self.now_ns;
        let Ok(socket) = self.socket_mut(descriptor) else { return };
        if is_zero_copy {
            socket.zero_copy.finish_call();
        }
        socket.stamps.finish_call();
        let is_told = socket.stamps.send(socket.usage.bytes_new, now_ns);
        socket.out_events += u64::from(is_told);
    }

    /// Takes what the error queue of a socket has first: messages of control, and the flags that
    /// the call returns.
    pub fn take_notice(&mut self, descriptor: i32) -> Option<(Vec<Control>, i32)> {
        let socket = self.socket_mut(descriptor).ok()?;
        let is_v6 = socket.is_v6;
        if let Some(stamp) = socket.stamps.take() {
            // The packet itself does not fit into the buffers of a caller that wants none.
            let flags = if stamp.has_packet { libc::MSG_TRUNC } else { 0 };
            let times = (libc::SOL_SOCKET, libc::SO_TIMESTAMPING, times_of(&stamp));
            return Some((vec![times, error_of(is_v6, bytes_of(&stamp))], libc::MSG_ERRQUEUE | flags));
        }
        let notice = socket.zero_copy.take_notice()?;
        Some((vec![error_of(is_v6, notice)], libc::MSG_ERRQUEUE))
    }
}

/// The message that carries an error.
fn error_of(is_v6: bool, bytes: [u8; NOTICE_V6_LEN]) -> Control {
    match is_v6 {
        true => (libc::IPPROTO_IPV6, libc::IPV6_RECVERR, bytes.to_vec()),
        false => (libc::IPPROTO_IP, libc::IP_RECVERR, bytes[..NOTICE_V4_LEN].to_vec()),
    }
}

fn times_of(stamp: &Stamp) -> Vec<u8> {
    let mut bytes = vec![0; TIMES_LEN];
    let (seconds, rest) = (stamp.at_ns / SECOND_NS, stamp.at_ns % SECOND_NS);
    bytes[..8].copy_from_slice(&seconds.to_ne_bytes());
    bytes[8..16].copy_from_slice(&rest.to_ne_bytes());
    bytes
}

/// A `struct sock_extended_err`, and the address of nobody.
fn bytes_of(stamp: &Stamp) -> [u8; NOTICE_V6_LEN] {
    let mut bytes = [0; NOTICE_V6_LEN];
    bytes[..4].copy_from_slice(&libc::ENOMSG.to_ne_bytes());
    bytes[4] = ORIGIN;
    bytes[8..12].copy_from_slice(&(stamp.moment as u32).to_ne_bytes());
    bytes[12..16].copy_from_slice(&stamp.byte.to_ne_bytes());
    bytes
}
