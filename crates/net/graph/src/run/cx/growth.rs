//! Packets that become longer than their buffers: in front the data moves to a buffer with
//! more room, at the end it goes on in further ones. Both are slow, and seldom.

use memory::annotation::Header;
use memory::{DATA_ROOM, HEADROOM, Packet};

use crate::run::cx::{Cx, STRIPPED};

/// Bytes that a packet may have.
pub const LONGEST: usize = 1 << 20;
/// Bytes that the data is moved by at once.
const STEP: usize = 1024;
/// Bytes that the first buffer of several has at least: enough for all headers of a packet, and of
/// one that it quotes, so that only what looks at payloads minds where a buffer ends.
const FRONT: usize = 1024;
const HEADERS: [Header; 3] = [Header::Link, Header::Network, Header::Transport];

impl Cx<'_> {
    /// Puts `count` bytes in front of a packet: what its buffer holds there, be it of this
    /// packet or of one before it, then zeros. Whether there were buffers, and the packet is not longer
    /// than [`LONGEST`] now; else it is of no use any more.
    #[inline]
    pub fn grow_front(&mut self, packet: &mut Packet, count: usize) -> bool {
        packet.push_front(count).is_ok() || self.grow_front_far(packet, count)
    }

    #[cold]
    fn grow_front_far(&mut self, packet: &mut Packet, count: usize) -> bool {
        if !is_allowed(packet, count) {
            return false;
        }
        let stripped = packet.headroom().min(count);
        let _ = packet.push_front(stripped); // there is so much room
        let mut left = count - stripped;
        while left > 0 {
            let step = left.min(STEP);
            if !self.make_headroom(packet, step) {
                return false;
            }
            let Ok(added) = packet.push_front(step) else { return false };
            added.fill(0);
            left -= step;
        }
        true
    }

    /// Whether there is room for `count` bytes in front of a packet, up to 1024, if need be in
    /// another buffer.
    #[inline]
    pub fn has_headroom(&mut self, packet: &mut Packet, count: usize) -> bool {
        packet.headroom() >= count || self.make_headroom(packet, count)
    }

    /// Moves the data of a packet to another buffer, in which there is room in front for
    /// `count` bytes, up to 1024, and as much as usual beside them. Whether there was one: the
    /// packet is as it was else.
    #[cold]
    pub fn make_headroom(&mut self, packet: &mut Packet, count: usize) -> bool {
        let start = count + HEADROOM;
        count <= STEP
            && is_allowed(packet, count)
            && self.move_front(packet, start, packet.len().min(DATA_ROOM - count))
    }

    /// Moves the first `moved` bytes of a packet, which its first buffer has, to another buffer,
    /// `start` bytes into that. Whether there was one: the packet is as it was else.
    fn move_front(&mut self, packet: &mut Packet, start: usize, moved: usize) -> bool {
        let Some(mut roomy) = self.lane.buffers.alloc() else { return false };
        let copied = packet.get(..moved).is_some_and(|bytes| roomy.copy_at(start, bytes).is_ok());
        if !copied {
            self.lane.buffers.free(roomy);
            return false;
        }
        copy_beside(&mut roomy, packet, packet.headroom());
        let mut rest = std::mem::replace(packet, roomy);
        let _ = rest.pull_front(moved); // it has them
        self.append_rest(packet, rest);
        true
    }

    /// A packet of these parts, that begins `headroom` bytes into its buffer if it fits there, with
    /// what stands beside the bytes of `like`. `None` when no buffers are left.
    pub fn packet_like(&mut self, like: &Packet, headroom: usize, parts: &[&[u8]]) -> Option<Packet> {
        let mut packet = self.lane.buffers.alloc()?;
        let length = parts.iter().map(|part| part.len()).sum();
        if packet.copy_at(headroom, &[]).and_then(|()| packet.set_len(length)).is_ok() {
            let mut room = &mut packet[..];
            for part in parts {
                let (here, behind) = room.split_at_mut(part.len());
                here.copy_from_slice(part);
                room = behind;
            }
        } else if !self.fill_several(&mut packet, &parts.concat()) {
            self.lane.buffers.free(packet);
            return None;
        }
        copy_beside(&mut packet, like, STRIPPED);
        self.count_made(1);
        Some(packet)
    }

    /// Puts bytes into an empty packet and as many buffers behind it as they need; whether there
    /// were so many.
    #[cold]
    fn fill_several(&mut self, packet: &mut Packet, bytes: &[u8]) -> bool {
        let first = bytes.len().min(DATA_ROOM);
        let copied = packet.copy_at(HEADROOM, &bytes[..first]);
        debug_assert!(copied.is_ok());
        let rest = self.chain(bytes[first..].chunks(DATA_ROOM));
        rest.map(|rest| rest.into_iter().for_each(|rest| packet.append(rest))).is_some()
    }

    /// Puts what is left of a packet behind another, without an empty buffer in front of it.
    fn append_rest(&mut self, packet: &mut Packet, mut rest: Packet) {
        if !rest.is_empty() {
            return packet.append(rest);
        }
        if let Some(next) = rest.split_next() {
            packet.append(next);
        }
        self.lane.buffers.free(rest);
    }

    /// Sees to it that the first buffer of several holds all headers, by taking bytes from those
    /// behind it. Where there is no buffer to do it in the packet stays as it is: whoever looks
    /// for a header does not find it.
    #[cold]
    pub fn gather(&mut self, packet: &mut Packet) {
        let is_short = packet.len() < FRONT && packet.next().is_some();
        if !is_short || !self.move_front(packet, HEADROOM, packet.len()) {
            return;
        }
        while packet.len() < FRONT
            && let Some(mut next) = packet.split_next()
        {
            let (before, taken) = (packet.len(), next.len().min(FRONT - packet.len()));
            let moved = packet.set_len(before + taken).is_ok(); // a buffer holds more
            debug_assert!(moved);
            packet[before..].copy_from_slice(&next[..taken]);
            let _ = next.pull_front(taken); // it has them
            self.append_rest(packet, next);
        }
    }

    /// Puts `count` zeros behind a packet. Whether there were buffers, and the packet is not
    /// longer than [`LONGEST`] now: it is as it was else.
    #[inline]
    pub fn grow_back(&mut self, packet: &mut Packet, count: usize) -> bool {
        if packet.next().is_none() && lengthen(packet, count) {
            return true;
        }
        self.grow_back_far(packet, count)
    }

    #[cold]
    fn grow_back_far(&mut self, packet: &mut Packet, count: usize) -> bool {
        if !is_allowed(packet, count) {
            return false;
        }
        let room = packet.segments().last().map_or(0, Packet::tailroom).min(count);
        let zeros = [0; DATA_ROOM];
        let lengths = (0..count - room).step_by(DATA_ROOM).map(|at| (count - room - at).min(DATA_ROOM));
        let Some(more) = self.chain(lengths.map(|length| &zeros[..length])) else { return false };
        let mut last = &mut *packet;
        while last.next().is_some() {
            last = last.next_mut().expect("just seen");
        }
        lengthen(last, room);
        if let Some(more) = more {
            last.append(more);
        }
        self.gather(packet);
        true
    }

    /// A packet of bytes that one buffer does not hold.
    #[cold]
    pub(super) fn long_packet(&mut self, bytes: &[u8]) -> Option<Packet> {
        if bytes.len() > LONGEST {
            return None;
        }
        self.chain(bytes.chunks(DATA_ROOM))?
    }

    /// Buffers with these contents, as one packet: `None` when there are not enough.
    fn chain<'a>(&mut self, parts: impl DoubleEndedIterator<Item = &'a [u8]>) -> Option<Option<Packet>> {
        // From the last to the first: a chain is walked when it grows.
        let mut tail: Option<Packet> = None;
        for part in parts.rev() {
            let segment = self.lane.buffers.alloc().filter(|_| part.len() <= DATA_ROOM);
            let Some(mut segment) = segment else {
                tail.into_iter().for_each(|tail| self.lane.buffers.free(tail));
                return None;
            };
            let _ = segment.copy_from(part); // a buffer holds as many
            if let Some(tail) = tail.take() {
                segment.append(tail);
            }
            tail = Some(segment);
        }
        Some(tail)
    }

    /// Takes up to `count` bytes off the front of a packet, whose first buffers may hold
    /// fewer. The first of several buffers still holds all headers.
    #[inline]
    pub fn strip(&mut self, packet: &mut Packet, count: usize) {
        if packet.next().is_some() || packet.pull_front(count).is_err() {
            self.strip_far(packet, count);
        }
    }

    /// Moves the start of a packet `by` bytes onwards, in its first buffer, or back; whether the
    /// buffer reaches that far. The first of several buffers still holds all headers.
    #[inline(always)]
    pub fn advance(&mut self, packet: &mut Packet, by: isize) -> bool {
        let moved = match usize::try_from(by) {
            Ok(onwards) => packet.pull_front(onwards).is_ok(),
            Err(_) => packet.push_front(by.unsigned_abs()).is_ok(),
        };
        if packet.next().is_some() {
            self.gather(packet);
        }
        moved
    }

    #[cold]
    fn strip_far(&mut self, packet: &mut Packet, count: usize) {
        let mut left = count;
        while left >= packet.len()
            && let Some(mut next) = packet.split_next()
        {
            left -= packet.len();
            next.copy_metadata(packet);
            for header in HEADERS {
                next.clear_header(header);
            }
            self.lane.buffers.free(std::mem::replace(packet, next));
        }
        let _ = packet.pull_front(left.min(packet.len())); // it has them
        self.gather(packet);
    }
}

/// Takes over what stands beside the bytes of another packet, and up to `front` bytes of what
/// stands in front of them.
fn copy_beside(packet: &mut Packet, from: &Packet, front: usize) {
    packet.copy_front(from, front);
    packet.copy_metadata(from);
    for header in HEADERS {
        match from.header_offset(header) {
            Some(at) => packet.set_header(header, at as usize), // below zero where it was stripped
            None => packet.clear_header(header),
        }
    }
}

/// Whether a packet may have so many bytes more.
fn is_allowed(packet: &Packet, more: usize) -> bool {
    packet.total_len().saturating_add(more) <= LONGEST
}

/// Puts zeros behind a buffer's data, if it has the room.
#[inline]
fn lengthen(packet: &mut Packet, count: usize) -> bool {
    let before = packet.len();
    let long = before.checked_add(count).is_some_and(|length| packet.set_len(length).is_ok());
    if long && let Some(added) = packet.get_mut(before..) {
        added.fill(0);
    }
    long
}
