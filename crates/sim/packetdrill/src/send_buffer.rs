//! How Linux counts what waits in a send buffer. Bytes are written into packets of many
//! segments, each of which takes memory beyond its bytes. Whether there is room is asked only
//! when a packet begins, so that a write goes on to the end of the one that it is in. The buffer
//! of an application that has not chosen its size grows with the congestion window.

use std::collections::VecDeque;

use tcp::{Id, Info};

use crate::host::Host;
use crate::socket::{Number, Socket};

/// What a packet takes beyond its bytes: `SKB_TRUESIZE` of its headers' room on 64-bit machines.
const PACKET: usize = 1280;
/// Bytes of a packet at most, of which the IP header tells.
const MOST: usize = 65_535 - 320;
/// Below this window packets may be as long as all of it (`TCP_MSS_DEFAULT`).
const SMALL_WINDOW: usize = 536;
/// What the growing buffer has for a segment beyond its bytes: headers and the end of its memory,
/// and what describes it.
const SEGMENT_ROOM: (usize, usize) = (640, 256);
/// Segments for which the growing buffer has room at least.
const LEAST_SEGMENTS: usize = 10;

/// The packets of a send buffer.
#[derive(Debug, Default)]
pub struct SendBuffer {
    /// Bytes of each packet that was sent and is not acknowledged.
    sent: VecDeque<usize>,
    /// Bytes of each packet that waits.
    waiting: VecDeque<usize>,
    /// The largest window that the other side told.
    max_window: usize,
    /// The number behind the last byte that was sent.
    next: Option<u32>,
    /// Bytes that the other side has acknowledged.
    acknowledged: u64,
    /// Bytes that were written, and those up to the last end with PSH.
    written: u64,
    pushed: u64,
}

impl SendBuffer {
    /// Bytes that a packet is filled up to: half a window of full segments.
    fn goal(&self, segment: usize) -> usize {
        let window = if self.max_window > SMALL_WINDOW { self.max_window / 2 } else { self.max_window };
        (window.min(MOST) / segment.max(1)).max(1) * segment.max(1)
    }

    /// Bytes that the last packet still takes.
    fn tail_room(&self, goal: usize) -> usize {
        self.waiting.back().map_or(0, |len| goal.saturating_sub(*len))
    }

    /// Memory that the packets take which hold so many bytes.
    fn memory(&self, queued: usize) -> usize {
        queued + PACKET * (self.sent.len() + self.waiting.len())
    }

    /// Bytes were written into the last packet, or into a new one behind it.
    fn write(&mut self, bytes: usize, is_new: bool) {
        self.written += bytes as u64;
        match self.waiting.back_mut().filter(|_| !is_new) {
            Some(last) => *last += bytes,
            None => self.waiting.push_back(bytes),
        }
    }

    /// Whether what was written ends with PSH: the application's bytes end there, or half of the
    /// largest window was written since the last one (Linux's `forced_push`).
    fn push(&mut self, is_end: bool) -> bool {
        let is_pushed = is_end || self.written - self.pushed > self.max_window as u64 / 2;
        if is_pushed {
            self.pushed = self.written;
        }
        is_pushed
    }

    /// A packet went out.
    pub fn send(&mut self, sequence: u32, bytes: usize) {
        let next = self.next.unwrap_or(sequence);
        if sequence.wrapping_sub(next) as i32 >= 0 {
            self.next = Some(sequence.wrapping_add(bytes as u32));
            take_front(&mut self.waiting, bytes);
            self.sent.push_back(bytes);
        }
    }

    /// So many bytes were acknowledged in all.
    pub fn acknowledge(&mut self, bytes: u64) {
        let news = bytes.saturating_sub(self.acknowledged) as usize;
        self.acknowledged = bytes.max(self.acknowledged);
        take_front(&mut self.sent, news);
    }
}

/// Takes so many bytes off the first packets.
fn take_front(packets: &mut VecDeque<usize>, mut bytes: usize) {
    while let Some(first) = packets.front_mut() {
        if *first > bytes {
            *first -= bytes;
            return;
        }
        bytes -= *first;
        packets.pop_front();
    }
}

/// The buffer that has room for twice what a connection may have on its way.
fn grown(info: &Info) -> usize {
    let segment = info.payload_size.max(1) as usize;
    let window = info.congestion_window as usize / segment;
    let each = (segment + SEGMENT_ROOM.0).next_power_of_two() + SEGMENT_ROOM.1;
    2 * window.max(LEAST_SEGMENTS) * each
}

impl Host {
    /// Whether a new packet may begin behind `ahead` bytes that are about to be queued: memory is
    /// left, and little enough waits to be sent.
    fn has_room(&self, socket: &Socket, id: Id, ahead: usize) -> bool {
        let low = self.not_sent_low(socket).map_or(usize::MAX, |low| low as usize);
        let memory = socket.send_buffer.memory(self.queued(id) + ahead);
        memory < socket.choices.send_buffer && self.unsent(id) + ahead < low
    }

    /// Whether a socket counts as writable: a third of its buffer is free, and half of what may
    /// wait to be sent.
    pub fn is_roomy(&self, socket: &Socket, id: Id) -> bool {
        let low = self.not_sent_low(socket).map_or(usize::MAX, |low| low as usize);
        let memory = socket.send_buffer.memory(self.queued(id));
        3 * memory <= 2 * socket.choices.send_buffer && 2 * self.unsent(id) < low
    }

    /// How many bytes go into the packet that is written into now, and whether it is a new one;
    /// `None` where no new one may begin.
    pub fn next_part(&mut self, number: Number, id: Id) -> Option<(usize, bool)> {
        let info = self.stack()?.info(id)?;
        let buffer = &mut self.sockets.get_mut(&number)?.send_buffer;
        buffer.max_window = buffer.max_window.max(info.send_window as usize);
        let goal = buffer.goal(info.payload_size as usize);
        let room = buffer.tail_room(goal);
        let socket = self.sockets.get(&number)?;
        match room {
            0 => self.has_room(socket, id, 0).then_some((goal, true)),
            room => Some((room, false)),
        }
    }

    /// Whether a packet may begin behind so many bytes that are about to be queued.
    pub fn has_room_behind(&self, number: Number, id: Id, bytes: usize) -> bool {
        self.sockets.get(&number).is_some_and(|socket| self.has_room(socket, id, bytes))
    }

    /// Whether what was written ends with PSH; it does where `is_end` says so.
    pub fn is_pushed(&mut self, number: Number, is_end: bool) -> bool {
        self.sockets.get_mut(&number).is_some_and(|socket| socket.send_buffer.push(is_end))
    }

    /// Bytes were written into the packet that [`Host::next_part`] told of; they have not gone out.
    pub fn count_written(&mut self, number: Number, bytes: usize, is_new: bool) {
        if let Some(socket) = self.sockets.get_mut(&number) {
            socket.send_buffer.write(bytes, is_new);
            socket.zero_copy.count(bytes);
            socket.stamps.count(bytes);
        }
    }

    /// Full sockets become writable again when there is room, for which buffers grow whose size
    /// nobody chose, as long as the connection could send more than is on its way.
    pub fn make_room(&mut self) {
        let most = self.settings.most_send_buffer();
        let full: Vec<_> = self.sockets.iter().filter(|(_, socket)| socket.is_full).collect();
        let full: Vec<_> =
            full.iter().filter_map(|(number, it)| Some((**number, it.connection()?))).collect();
        for (number, id) in full {
            let Some(info) = self.stack().and_then(|stack| stack.info(id)) else { continue };
            let Some(socket) = self.sockets.get_mut(&number) else { continue };
            let is_free = info.in_flight < info.congestion_window;
            let choices = &mut socket.choices;
            if is_free && !choices.is_buffer_chosen {
                choices.send_buffer = choices.send_buffer.max(grown(&info).min(most));
            }
            let Some(socket) = self.sockets.get(&number) else { continue };
            let is_roomy = self.is_roomy(socket, id);
            if let Some(socket) = self.sockets.get_mut(&number).filter(|_| is_roomy) {
                socket.is_full = false;
                socket.out_events += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_filled_sent_and_acknowledged() {
        let mut buffer = SendBuffer { max_window: 32_896, ..SendBuffer::default() };
        let goal = buffer.goal(1000);
        assert_eq!((goal, buffer.tail_room(goal)), (16_000, 0));
        buffer.write(16_000, true);
        buffer.send(7, 10_000);
        assert_eq!(buffer.tail_room(goal), 10_000, "what waits of it is a packet of its own");
        buffer.write(10_000, false);
        assert_eq!((buffer.tail_room(goal), buffer.memory(26_000)), (0, 26_000 + 2 * PACKET));
        buffer.send(7, 1000);
        assert_eq!(buffer.sent, [10_000], "the first segment went again");
        buffer.acknowledge(2000);
        assert_eq!((&buffer.sent, &buffer.waiting), (&[8000].into(), &[16_000].into()));
        buffer.acknowledge(10_000);
        assert_eq!(buffer.memory(16_000), 16_000 + PACKET);
    }
}
