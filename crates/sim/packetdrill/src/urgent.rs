//! The urgent byte, as Linux reads RFC 793's urgent pointer: the byte in front of it is taken out
//! of the stream, unless the application wants it there (`SO_OOBINLINE`), and can be read by
//! itself. The stack takes urgent data for bytes like others (RFC 6093, section 3); the mark is
//! the socket's. Nothing urgent is sent.

use tcp::Id;
use wire::tcp::{Flags, Segment};

use crate::errors::Answer;
use crate::host::Host;
use crate::socket::Socket;

/// An urgent byte of what was received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Urgent {
    /// Its number among the bytes of the stream.
    pub at: u64,
    /// Whether it was read by itself.
    pub is_read: bool,
}

impl Socket {
    /// How many bytes come in front of the urgent one; `None` where none is to come, or it is one
    /// of the stream.
    pub fn before_mark(&self) -> Option<usize> {
        let urgent = self.urgent.filter(|_| !self.is_urgent_inline)?;
        usize::try_from(urgent.at.checked_sub(self.read_bytes)?).ok()
    }

    /// Whether what is read next is the urgent byte.
    pub fn is_at_mark(&self) -> bool {
        self.urgent.is_some_and(|urgent| urgent.at == self.read_bytes)
    }

    /// Bytes that can be read up to the urgent one.
    pub fn readable(&self) -> usize {
        let len = self.received.len();
        self.before_mark().map_or(len, |before| before.min(len))
    }

    /// Bytes that are read next: up to the urgent one, which is passed over where it is the first.
    /// How many were passed over.
    pub fn pass_urgent(&mut self) -> usize {
        if self.before_mark() != Some(0) || self.received.is_empty() {
            return 0;
        }
        self.received.pop_front();
        (self.urgent, self.read_bytes) = (None, self.read_bytes + 1);
        1
    }

    /// So many bytes were read.
    pub fn count_read(&mut self, count: usize) {
        self.read_bytes += count as u64;
        self.urgent = self.urgent.filter(|urgent| urgent.at >= self.read_bytes);
    }

    /// Whether the urgent byte has come and was not read.
    pub fn has_urgent(&self) -> bool {
        self.urgent_byte().is_some()
    }

    fn urgent_byte(&self) -> Option<u8> {
        let urgent = self.urgent.filter(|urgent| !urgent.is_read && !self.is_urgent_inline)?;
        let before = usize::try_from(urgent.at.checked_sub(self.read_bytes)?).ok()?;
        self.received.get(before).copied()
    }
}

impl Host {
    /// A segment is about to be taken: its urgent pointer tells of a byte that the application has
    /// not read.
    pub fn note_urgent(&mut self, id: Id, segment: &Segment<&[u8]>) {
        if !segment.flags().contains(Flags::URG) {
            return;
        }
        let Some(detail) = self.stack().and_then(|stack| stack.detail(id)) else { return };
        // The pointer is that of the byte behind it (Linux without `tcp_stdurg`).
        let pointer = u32::from(segment.urgent().saturating_sub(1));
        let ahead = segment.sequence().wrapping_add(pointer).wrapping_sub(detail.receive_next).cast_signed();
        let Ok(ahead) = u64::try_from(ahead) else { return };
        let at = detail.info.bytes_received + ahead;
        if let Some(socket) = self.socket_of(id)
            && socket.urgent.is_none_or(|urgent| urgent.at < at)
        {
            socket.urgent = Some(Urgent { at, is_read: false });
            socket.in_events += 1;
        }
    }

    /// Whether a socket's next byte is the urgent one (`SIOCATMARK`).
    pub fn is_at_mark(&mut self, descriptor: i32) -> bool {
        self.socket_mut(descriptor).is_ok_and(|socket| socket.is_at_mark() && !socket.is_urgent_inline)
    }

    /// `recv` with `MSG_OOB`: the urgent byte.
    ///
    /// # Errors
    /// `EINVAL` where there is none or it was read, and `EAGAIN` where it has not come.
    pub fn read_urgent(&mut self, descriptor: i32, is_peek: bool) -> Answer<Vec<u8>> {
        let socket = self.socket_mut(descriptor)?;
        let urgent = socket.urgent.filter(|urgent| !urgent.is_read && !socket.is_urgent_inline);
        let urgent = urgent.ok_or(libc::EINVAL)?;
        let byte = socket.urgent_byte().ok_or(libc::EAGAIN)?;
        socket.urgent = Some(crate::urgent::Urgent { is_read: !is_peek, ..urgent });
        Ok(vec![byte])
    }
}
