//! Pipes between sockets, for `splice`: bytes in a queue, whose ends are descriptors.

use std::collections::VecDeque;

use crate::errors::Answer;
use crate::host::{Descriptor, Host};

/// Bytes that a pipe holds, as in Linux: 16 pages.
const ROOM: usize = 1 << 16;

/// An end of a pipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PipeEnd {
    /// The number of the pipe.
    pub pipe: u32,
    /// Bytes go in here, and come out at the other end.
    pub is_inlet: bool,
}

impl Host {
    /// `pipe`: the descriptors of its outlet and of its inlet.
    ///
    /// # Errors
    /// `EMFILE`.
    pub fn create_pipe(&mut self) -> Answer<(i32, i32)> {
        let pipe = self.next_number();
        let outlet = self.describe(Descriptor::Pipe(PipeEnd { pipe, is_inlet: false }))?;
        let inlet = self.describe(Descriptor::Pipe(PipeEnd { pipe, is_inlet: true }))?;
        self.pipes.insert(pipe, VecDeque::new());
        Ok((outlet, inlet))
    }

    /// The end of a pipe that a descriptor is.
    pub fn pipe_end(&self, descriptor: i32) -> Option<PipeEnd> {
        match self.descriptors.get(&descriptor) {
            Some((Descriptor::Pipe(end), _)) => Some(*end),
            _ => None,
        }
    }

    /// The bytes in the pipe of a descriptor, which must be that of its inlet or of its outlet.
    fn pipe(&mut self, descriptor: i32, is_inlet: bool) -> Answer<&mut VecDeque<u8>> {
        let end = self.pipe_end(descriptor).filter(|end| end.is_inlet == is_inlet).ok_or(libc::EBADF)?;
        self.pipes.get_mut(&end.pipe).ok_or(libc::EBADF)
    }

    /// Whether the other end of a pipe is open.
    fn has_other_end(&self, descriptor: i32) -> bool {
        let Some(end) = self.pipe_end(descriptor) else { return false };
        self.descriptors
            .values()
            .any(|(what, _)| matches!(what, Descriptor::Pipe(other) if other.pipe == end.pipe && other.is_inlet != end.is_inlet))
    }

    /// Takes up to `most` bytes out of a pipe.
    ///
    /// # Errors
    /// `EBADF`, and `EAGAIN` while it is empty and may be filled.
    pub fn read_pipe(&mut self, descriptor: i32, most: usize) -> Answer<Vec<u8>> {
        let has_inlet = self.has_other_end(descriptor);
        let pipe = self.pipe(descriptor, false)?;
        match pipe.len() {
            0 if has_inlet && most > 0 => Err(libc::EAGAIN),
            len => Ok(pipe.drain(..most.min(len)).collect()),
        }
    }

    /// Puts bytes into a pipe: how many there was room for.
    ///
    /// # Errors
    /// `EBADF`, `EPIPE` when nobody can take them, and `EAGAIN` while it is full.
    pub fn write_pipe(&mut self, descriptor: i32, bytes: &[u8]) -> Answer {
        if self.pipe(descriptor, true).is_ok() && !self.has_other_end(descriptor) {
            return Err(libc::EPIPE);
        }
        let pipe = self.pipe(descriptor, true)?;
        match bytes.len().min(ROOM.saturating_sub(pipe.len())) {
            0 if !bytes.is_empty() => Err(libc::EAGAIN),
            count => {
                pipe.extend(&bytes[..count]);
                Ok(count)
            }
        }
    }

    /// An end of a pipe was closed: the pipe goes with the last one.
    pub fn drop_pipe(&mut self, end: PipeEnd) {
        let is_its = |what: &Descriptor| matches!(what, Descriptor::Pipe(other) if other.pipe == end.pipe);
        if !self.descriptors.values().any(|(what, _)| is_its(what)) {
            self.pipes.remove(&end.pipe);
        }
    }

    /// `splice` between a socket and a pipe, or two pipes: how many bytes were moved.
    ///
    /// # Errors
    /// `EINVAL` where neither is a pipe, and those of reading and writing.
    pub fn splice(&mut self, from: i32, to: i32, most: usize) -> Answer {
        match (self.pipe_end(from), self.pipe_end(to)) {
            (None, None) => Err(libc::EINVAL),
            (None, Some(_)) => {
                let room = ROOM.saturating_sub(self.pipe(to, true)?.len());
                // At the mark of an urgent byte nothing is moved, which tells of it.
                if room == 0 {
                    return Err(libc::EAGAIN);
                }
                if self.is_at_mark(from) {
                    return Ok(0);
                }
                let bytes = self.read(from, most.min(room), false)?;
                self.write_pipe(to, &bytes)
            }
            (Some(_), _) => {
                let queued: Vec<u8> = self.pipe(from, false)?.iter().take(most).copied().collect();
                if queued.is_empty() {
                    return self.read_pipe(from, most).map(|_| 0);
                }
                let moved = match self.pipe_end(to) {
                    Some(_) => self.write_pipe(to, &queued)?,
                    None => self.write(to, &queued, tcp::Mark::default())?,
                };
                self.pipe(from, false)?.drain(..moved);
                Ok(moved)
            }
        }
    }
}
