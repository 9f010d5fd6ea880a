//! Where a protocol's answers go: into packets of a connection, as far as the connection has
//! room for them.

use memory::Packet;
use tcp::{Id, Io, Refusal, Stack};

/// Takes the bytes of answers, in order.
pub trait Output {
    /// Takes as many bytes as there is room for; how many.
    fn write(&mut self, bytes: &[u8]) -> usize;

    /// Takes all bytes of a short text, whether there is room or not. Whoever calls it looks
    /// at [`is_full`](Output::is_full) in front of the next request, so that only the rest of
    /// one answer is ever kept.
    fn put(&mut self, bytes: &[u8]);

    /// Whether there is no room: nothing more should be answered until there is some.
    fn is_full(&self) -> bool;

    /// The present, in nanoseconds of the clock of the stack.
    fn now_ns(&self) -> i64;
}

/// The output of a connection of a stack: bytes are gathered into full packets.
pub(crate) struct Sender<'a, 'io> {
    pub id: Id,
    pub stack: &'a mut Stack,
    pub io: &'a mut Io<'io>,
    /// What could not be sent.
    pub spill: &'a mut Vec<u8>,
    /// What is not sent yet.
    packet: Option<Packet>,
    /// Bytes of a full packet.
    size: usize,
    /// Bytes that were taken.
    pub written: u64,
    /// Whether buffers were wanting, so that no acknowledgement will tell of room.
    pub is_starved: bool,
}

impl<'a, 'io> Sender<'a, 'io> {
    pub fn new(id: Id, stack: &'a mut Stack, io: &'a mut Io<'io>, spill: &'a mut Vec<u8>) -> Sender<'a, 'io> {
        let size = stack.info(id).map_or(0, |info| info.payload_size as usize);
        Sender { id, stack, io, spill, packet: None, size, written: 0, is_starved: false }
    }

    /// Sends what was spilled before, as far as it goes.
    pub fn resume(&mut self) {
        let spilled = std::mem::take(self.spill);
        let sent = self.write(&spilled);
        self.flush();
        // What was refused by the flush stands in front of what was not written.
        self.spill.extend_from_slice(&spilled[sent..]);
        self.written -= sent as u64;
    }

    /// Sends the last packet, full or not.
    pub fn flush(&mut self) {
        let Some(packet) = self.packet.take() else { return };
        match self.stack.send(self.id, packet, self.io) {
            Ok(()) => {}
            Err((packet, refusal)) => {
                if refusal == Refusal::Full {
                    self.spill.extend_from_slice(&packet);
                }
                self.io.pool.free(packet);
            }
        }
    }

    /// A packet with room in it, and how much there is.
    fn room(&mut self) -> Option<(&mut Packet, usize)> {
        if self.packet.as_ref().is_some_and(|packet| packet.len() >= self.size) {
            self.flush();
        }
        if !self.spill.is_empty() {
            return None;
        }
        if self.packet.is_none() {
            self.packet = self.io.pool.alloc();
            self.is_starved = self.packet.is_none();
        }
        let packet = self.packet.as_mut()?;
        let room = self.size.saturating_sub(packet.len()).min(packet.tailroom());
        (room > 0).then_some((packet, room))
    }
}

impl Output for Sender<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> usize {
        let mut rest = bytes;
        while !rest.is_empty() {
            let Some((packet, room)) = self.room() else { break };
            let (part, behind) = rest.split_at(room.min(rest.len()));
            let end = packet.len();
            if packet.set_len(end + part.len()).is_err() {
                break;
            }
            packet[end..].copy_from_slice(part);
            rest = behind;
        }
        let written = bytes.len() - rest.len();
        self.written += written as u64;
        written
    }

    fn put(&mut self, bytes: &[u8]) {
        let written = self.write(bytes);
        self.spill.extend_from_slice(&bytes[written..]);
        self.written += (bytes.len() - written) as u64;
    }

    fn is_full(&self) -> bool {
        !self.spill.is_empty() || self.is_starved
    }

    fn now_ns(&self) -> i64 {
        self.io.now_ns
    }
}

/// An output without a connection: what was answered, with room for so much. For programs
/// that look at a protocol alone.
#[derive(Debug, Default)]
pub struct Buffer {
    /// What was answered.
    pub bytes: Vec<u8>,
    /// For how many bytes more there is room.
    pub room: usize,
    /// The present in nanoseconds.
    pub now_ns: i64,
}

impl Output for Buffer {
    fn write(&mut self, bytes: &[u8]) -> usize {
        let count = bytes.len().min(self.room);
        self.bytes.extend_from_slice(&bytes[..count]);
        self.room -= count;
        count
    }

    fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.room = self.room.saturating_sub(bytes.len());
    }

    fn is_full(&self) -> bool {
        self.room == 0
    }

    fn now_ns(&self) -> i64 {
        self.now_ns
    }
}
