//! Resets and other segments that are sent once, and not again.

use wire::ecn;
use wire::ip::Addresses;
use wire::tcp::Flags;

use crate::connection::{Connection, Io, StackShared};
use crate::emit::{Header, OptionBytes};
use crate::segment::Segment;
use crate::sequence::Sequence;

impl Connection {
    /// Sends a segment without data, with a number of the caller's choice.
    pub fn send_bare(&mut self, sequence: Sequence, shared: &mut StackShared, io: &mut Io) -> bool {
        let Some(addresses) = self.key.addresses().filter(|_| io.out.room() > 0) else { return false };
        let flags = if self.is.is_echoing { Flags::ACK | Flags::ECE } else { Flags::ACK };
        let duplicate = self.duplicate;
        let has_blocks = self.is.has_sack && (self.early.len > 0 || self.duplicate.is_some());
        let offload = shared.options.offload;
        let built = match addresses {
            Addresses::V4 { src, dst } if !has_blocks => {
                let plain = self.plain((src, dst), sequence, flags, ecn::NOT_ECT, shared, io.now_ns);
                plain.build(io.pool, &[], offload)
            }
            _ => {
                let mut header = self.header(addresses, sequence, flags, shared, io.now_ns);
                if has_blocks {
                    header.options.push_sack(&self.blocks(shared));
                }
                header.build(io.pool, &[], offload)
            }
        };
        self.duplicate = None;
        let Some(packet) = built else {
            shared.counters.no_buffer += 1;
            self.duplicate = duplicate;
            return false;
        };
        shared.counters.segments_sent += 1;
        self.has_acknowledged(flags);
        io.out.push(packet).is_none()
    }

    /// A reset of the connection, where there is room for it.
    pub fn send_reset(&mut self, shared: &mut StackShared, io: &mut Io) {
        let Some(addresses) = self.key.addresses() else { return };
        let (sequence, flags) = (self.nxt, Flags::RST | Flags::ACK);
        let header = self.header(addresses, sequence, flags, shared, io.now_ns);
        shared.counters.resets_sent += 1;
        send_once(&header, shared, io);
    }
}

/// Answers a segment of no connection. Answers take no more than half of the room, for a flood
/// of such segments comes before connections have their turn to send.
pub fn send_reply(header: &Header, shared: &mut StackShared, io: &mut Io) {
    match io.out.room() > io.out.len() {
        true => send_once(header, shared, io),
        false => shared.counters.lose(port::Reason::TxTcpReply),
    }
}

/// Answers a segment of a connection that nobody wants any more: the reset has the number that
/// the segment acknowledged.
pub fn answer_with_reset(segment: &Segment, shared: &mut StackShared, io: &mut Io) {
    if let Some(header) = reset_for(segment) {
        shared.counters.resets_sent += 1;
        send_once(&header, shared, io);
    }
}

/// Sends a segment that is not sent again: one for which there is no room is counted.
fn send_once(header: &Header, shared: &mut StackShared, io: &mut Io) {
    let packet = if io.out.room() > 0 { header.build(io.pool, &[], shared.options.offload) } else { None };
    match packet.map(|packet| io.out.push(packet)) {
        Some(None) => shared.counters.segments_sent += 1,
        Some(Some(packet)) => io.pool.free(packet),
        None => shared.counters.lose(port::Reason::TxTcpReply),
    }
}

/// The reset that answers a segment of no connection (RFC 9293, section 3.10.7.1).
pub fn reset_for(segment: &Segment) -> Option<Header> {
    if segment.has(Flags::RST) {
        return None;
    }
    let has_ack = segment.has(Flags::ACK);
    let addresses = crate::emit::addresses(segment.addresses.dst(), segment.addresses.src())?;
    Some(Header {
        addresses,
        src_port: segment.dst_port,
        dst_port: segment.src_port,
        sequence: if has_ack { segment.acknowledgement } else { Sequence(0) },
        acknowledgement: if has_ack { Sequence(0) } else { segment.end() },
        flags: if has_ack { Flags::RST } else { Flags::RST | Flags::ACK },
        window: 0,
        options: OptionBytes::new(),
        ecn: ecn::NOT_ECT,
    })
}
