//! Packets that become longer than their buffers: in front the data moves to a buffer with
//! more room, at the end it goes on in further ones. Both are slow, and seldom.

use memory::annotation::Header;
use memory::{DATA_ROOM, HEADROOM, Packet};

use crate::run::cx::Cx;

/// Bytes that a packet may have.
pub const LONGEST: usize = 1 << 20;
/// Bytes that the data is moved by at once.
const STEP: usize = 1024;
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
        if count > STEP || !is_allowed(packet, count) {
            return false;
        }
        let Some(mut roomy) = self.lane.buffers.alloc() else { return false };
        let start = count + HEADROOM;
        let moved = packet.len().min(DATA_ROOM + HEADROOM - start);
        if roomy.copy_at(start, &packet[..moved]).is_err() {
            self.lane.buffers.free(roomy);
            return false;
        }
        roomy.copy_front(packet, packet.headroom());
        roomy.copy_metadata(packet);
        for header in HEADERS {
            match packet.header_offset(header) {
                Some(at) => roomy.set_header(header, at as usize), // below zero where it was stripped
                None => roomy.clear_header(header),
            }
        }
        let mut rest = std::mem::replace(packet, roomy);
        let _ = rest.pull_front(moved); // it has them
        if rest.is_empty() {
            if let Some(next) = rest.split_next() {
                packet.append(next);
            }
            self.lane.buffers.free(rest);
        } else {
            packet.append(rest);
        }
        true
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
        let mut last = packet;
        while last.next().is_some() {
            last = last.next_mut().expect("just seen");
        }
        lengthen(last, room);
        if let Some(more) = more {
            last.append(more);
        }
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
    /// fewer. No empty buffer stays in front of others.
    #[inline]
    pub fn strip(&mut self, packet: &mut Packet, count: usize) {
        if packet.pull_front(count).is_err() {
            self.strip_far(packet, count);
        } else if packet.is_empty() {
            self.strip_far(packet, 0);
        }
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
