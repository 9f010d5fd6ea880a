//! Growing and shrinking a packet within its buffer.

use crate::packet::{DATA_ROOM, HEADROOM, Packet};

/// A packet that was refused, because it is longer than its buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{wanted} bytes do not fit: the packet has room for {room}")]
pub struct TooLong {
    /// Bytes that were asked for.
    pub wanted: usize,
    /// Bytes there are.
    pub room: usize,
}

impl Packet {
    /// Whether the first segment holds no bytes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The buffer's first byte, where the headroom begins.
    #[inline(always)]
    pub(crate) fn buffer(&self) -> *mut u8 {
        self.data_room().wrapping_sub(HEADROOM)
    }

    /// Free bytes in front of the data.
    #[inline]
    pub fn headroom(&self) -> usize {
        // In the pointer's width, so that the sum is joined with others.
        (HEADROOM as isize + self.meta().start as isize) as usize
    }

    /// Free bytes behind the data.
    #[inline]
    pub fn tailroom(&self) -> usize {
        self.space() - self.len()
    }

    /// Bytes from the start of the data to the buffer's end.
    #[inline(always)]
    fn space(&self) -> usize {
        // Unsigned before it is made wider: no instruction to extend a sign.
        (DATA_ROOM as i32 - self.meta().start) as u32 as usize
    }

    /// Makes the first segment `len` bytes long, keeping its start. Bytes that
    /// were not there before hold whatever the buffer held.
    ///
    /// # Errors
    /// [`TooLong`] when the buffer ends before.
    #[inline]
    pub fn set_len(&mut self, len: usize) -> Result<(), TooLong> {
        let room = self.space();
        if len > room {
            return Err(TooLong { wanted: len, room });
        }
        self.meta_mut().rx.len = len as u16;
        Ok(())
    }

    /// Grows the packet by `n` bytes in front and returns them.
    ///
    /// # Errors
    /// [`TooLong`] when the headroom is used up.
    #[inline]
    pub fn push_front(&mut self, n: usize) -> Result<&mut [u8], TooLong> {
        // Of a constant `n` one comparison with `start` is left.
        if n > HEADROOM + DATA_ROOM || n as i32 - HEADROOM as i32 > self.meta().start {
            return Err(TooLong { wanted: n, room: self.headroom() });
        }
        let meta = self.meta_mut();
        meta.start -= n as i32;
        meta.rx.len += n as u16;
        Ok(&mut self[..n])
    }

    /// Removes `n` bytes in front.
    ///
    /// # Errors
    /// [`TooLong`] when there are fewer.
    #[inline]
    pub fn pull_front(&mut self, n: usize) -> Result<(), TooLong> {
        let room = self.len();
        if n > room {
            return Err(TooLong { wanted: n, room });
        }
        let meta = self.meta_mut();
        meta.start += n as i32;
        meta.rx.len -= n as u16;
        Ok(())
    }
}
