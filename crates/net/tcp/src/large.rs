//! Packets of several segments, which the port cuts: one pass through the host and the driver
//! for all of them. Each segment's bytes are a buffer of the packet, so that what is kept and
//! acknowledged are segments, as without it.

use memory::Packet;

use crate::connection::{Connection, Io, StackShared};
use crate::emit;
use crate::output::May;
use crate::queue::Sent;

/// Payload bytes of one packet, whose IP header tells its length in 16 bits.
const MOST: u32 = 65_535 - emit::MAX_HEADERS as u32;
/// Payload bytes of the smallest segments that ports are asked to cut: the XL710 is given no
/// packet that asks for smaller ones.
pub const LEAST: u32 = 256;

impl Connection {
    /// Puts the nodes behind the one that `packet` carries into it as well, as far as the
    /// windows let them go, and counts them as sent. Only the last may be less than a full
    /// segment.
    pub fn extend(&mut self, packet: &mut Packet, first: u32, shared: &mut StackShared, io: &mut Io) {
        let size = self.payload_size();
        if size < LEAST {
            return;
        }
        let most = shared.options.offload.buffers.min(self.burst(shared));
        let (mut total, mut buffers, mut is_full) = (first, 1, first == size);
        let mut last = &mut *packet;
        while is_full && buffers < most && total + size <= MOST && !self.ends_record(shared) {
            let Some(next) = self.next_buffer(shared, io) else { break };
            is_full = next.len() as u32 == size;
            (total, buffers) = (total + next.len() as u32, buffers + 1);
            last.append(next);
            match last.next_mut() {
                Some(next) => last = next,
                None => break,
            }
        }
        if buffers > 1 {
            emit::enlarge(packet, total, size);
        }
    }

    /// How many segments a packet may have: two packets at least are on their way at a time, so
    /// that acknowledgements keep coming, and none is much longer than what the connection sends
    /// in a millisecond.
    fn burst(&self, shared: &StackShared) -> usize {
        let Some(least) = shared.options.least_burst else { return usize::MAX };
        let (size, window) = (u64::from(self.payload_size().max(1)), u64::from(self.congestion.window));
        let rtt_ns = self.rtt.smoothed_ns.max(1) as u64;
        let factor = if self.congestion.window < self.congestion.threshold / 2 { 200 } else { 120 };
        let paced = window * factor / 100 * 1_000_000_000 / rtt_ns / 1024;
        let half_milliseconds = (self.rtt.least_ns / 512_000).min(32) as u32;
        let near = 65_536_u64.checked_shr(half_milliseconds).unwrap_or(0);
        let by_rate = ((paced + near) / size).max(least.into());
        by_rate.min((window / size / 2).max(1)) as usize
    }

    /// Whether what was sent last ended a record.
    fn ends_record(&self, shared: &StackShared) -> bool {
        shared.nodes.get(self.last_new).is_some_and(|node| node.is_record_end)
    }

    /// A copy of the next node that may be sent, which counts as sent.
    fn next_buffer(&mut self, shared: &mut StackShared, io: &mut Io) -> Option<Packet> {
        let at = self.unsent;
        self.join(at, self.room(), shared, io);
        // The last one goes with the FIN.
        let node =
            shared.nodes.get(at).filter(|node| !node.is_control && !self.has_end_behind(node, shared))?;
        match self.may_send(node, shared.options.send_packets) {
            May::Send => {}
            May::SendPart(len) if self.may_split(shared) => {
                if !self.split(at, len, shared, io) {
                    return None;
                }
            }
            _ => return None,
        }
        let node = shared.nodes.get_mut(at)?;
        let (len, next) = (node.len(), node.next);
        self.last_new = at;
        let mut buffer = io.pool.alloc()?;
        if buffer.copy_from(node.packet()?).is_err() {
            io.pool.free(buffer);
            return None;
        }
        (node.sent, node.sent_ns) = (Sent::InFlight, io.now_ns);
        shared.counters.segments_sent += 1;
        self.reduction.count_sent(len);
        self.advance(len, next, io.now_ns);
        Some(buffer)
    }
}
