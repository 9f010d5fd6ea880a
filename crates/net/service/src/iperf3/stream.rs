//! A stream of a test, at either end.

use tcp::{Id, Io, Stack};

use super::message::StreamResult;

/// Bytes that are sent, again and again.
const BLOCK: [u8; 16_384] = [0; 16_384];
/// When sending is tried again for which there were no buffers, in nanoseconds.
const RETRY_NS: i64 = 1_000_000;

/// A connection that carries bytes.
#[derive(Debug, Clone, Copy)]
pub struct Stream {
    pub id: Id,
    /// Bytes that were given to the stack, or that came, since the test began.
    pub bytes: u64,
    /// Segments that had been sent again when the test began, and by the last look.
    resent: [u64; 2],
}

impl Stream {
    pub fn new(id: Id) -> Stream {
        Stream { id, bytes: 0, resent: [0; 2] }
    }

    /// Sends as much as there is room for, up to so many bytes in all streams; what is left of
    /// them.
    pub fn fill(&mut self, mut left: u64, stack: &mut Stack, io: &mut Io) -> u64 {
        let mut has_sent = false;
        while left > 0 {
            let block = &BLOCK[..left.min(BLOCK.len() as u64) as usize];
            let written = stack.write(self.id, block, io).unwrap_or(0);
            self.bytes += written as u64;
            left -= written as u64;
            has_sent |= written > 0;
            if written < block.len() {
                break;
            }
        }
        // Where nothing is queued nobody tells of room.
        if !has_sent && left > 0 && stack.info(self.id).is_some_and(|info| info.queued == 0) {
            let _ = stack.set_timer(self.id, Some(io.now_ns + RETRY_NS), io);
        }
        left
    }

    /// Looks how many segments were sent again, while the connection is there.
    pub fn sample(&mut self, stack: &Stack) {
        if let Some(info) = stack.info(self.id) {
            self.resent[1] = info.resent.into();
        }
    }

    /// Counts from here on.
    pub fn restart(&mut self, stack: &Stack) {
        self.sample(stack);
        (self.bytes, self.resent[0]) = (0, self.resent[1]);
    }

    /// What was seen of it.
    pub fn result(&self, is_sender: bool, seconds: f64) -> StreamResult {
        StreamResult {
            bytes: self.bytes,
            retransmits: is_sender.then_some(self.resent[1] - self.resent[0]),
            seconds,
            datagrams: None,
        }
    }
}
