//! Received buffers whose header must be read: packets in several buffers
//! (MRG_RXBUF, virtio 1.3, 5.1.6.4), checksums (GUEST_CSUM), hashes.

use memory::{Batch, DATA_ROOM, Packet, PacketType, Pool, RxFlags};
use port::software;
use regs::virtio::net::{hash, header};

use super::header::Header;
use super::ring::Used;

/// The segments of a packet whose end has not come yet.
#[derive(Default)]
pub(super) struct Merge {
    chain: Option<Packet>,
    first: Header,
    /// Buffers that are still to come.
    remaining: u16,
    /// The most buffers that a packet may have.
    limit: u16,
}

/// What became of a buffer.
pub(super) enum Outcome {
    /// It ends a packet of so many bytes, which is in the batch.
    Packet(u64),
    /// More are to come, or it belongs to a packet that was dropped before.
    Part,
    /// It was dropped: a packet that makes no sense.
    Bad,
}

impl Merge {
    /// For packets of up to `bytes` bytes, header included.
    pub(super) fn new(bytes: usize, merging: bool) -> Merge {
        let limit = if merging { bytes.div_ceil(DATA_ROOM) as u16 } else { 1 };
        Merge { limit, ..Merge::default() }
    }

    /// Takes a buffer in, in which the device wrote `used.len` bytes, the header
    /// of `header_len` bytes first if it is a packet's first.
    pub(super) fn take(
        &mut self,
        mut packet: Packet,
        used: Used,
        header_len: usize,
        pool: &mut Pool,
        batch: &mut Batch,
        filled: &mut u64,
    ) -> Outcome {
        let len = if used.len == Used::FULL { DATA_ROOM as u32 } else { used.len };
        let sound = len > 0 && len <= DATA_ROOM as u32;
        packet.set_received(0, u64::from(len.min(DATA_ROOM as u32)) << 32);
        if self.remaining > 0 {
            return self.go_on(packet, sound, pool, batch, filled);
        }
        let header = Header::read(&packet[..header_len.min(packet.len())]);
        // Without MRG_RXBUF the field is 1 or does not exist (5.1.6.4).
        let buffers = if self.limit > 1 { header.num_buffers } else { 1 };
        let segmented = header.gso_type != header::GSO_NONE; // never agreed upon
        let shorter = packet.len() <= header_len && buffers < 2;
        if !sound || shorter || segmented || packet.pull_front(header_len).is_err() || buffers == 0 {
            self.remaining = buffers.saturating_sub(1); // they have no header
            pool.free(packet);
            return Outcome::Bad;
        }
        if buffers > self.limit {
            self.remaining = buffers - 1;
            pool.free(packet);
            return Outcome::Bad;
        }
        (self.first, self.remaining) = (header, buffers - 1);
        if buffers > 1 {
            self.chain = Some(packet);
            return Outcome::Part;
        }
        finish(packet, &header, pool, batch, filled)
    }

    /// A buffer that continues a packet.
    fn go_on(
        &mut self,
        packet: Packet,
        sound: bool,
        pool: &mut Pool,
        batch: &mut Batch,
        filled: &mut u64,
    ) -> Outcome {
        self.remaining -= 1;
        let Some(mut chain) = self.chain.take() else {
            pool.free(packet); // of a packet that was dropped
            return Outcome::Part;
        };
        if !sound {
            pool.free(packet);
            pool.free(chain);
            return Outcome::Bad;
        }
        chain.append(packet);
        if self.remaining > 0 {
            self.chain = Some(chain);
            return Outcome::Part;
        }
        finish(chain, &self.first, pool, batch, filled)
    }
}

/// Sets what the header says of a whole packet.
fn finish(
    mut packet: Packet,
    header: &Header,
    pool: &mut Pool,
    batch: &mut Batch,
    filled: &mut u64,
) -> Outcome {
    if header.flags & header::NEEDS_CSUM != 0 {
        if !software::complete_checksum(&mut packet, header.csum_start.into(), header.csum_offset.into()) {
            pool.free(packet);
            return Outcome::Bad;
        }
        *filled += 1;
    }
    if header.flags & (header::NEEDS_CSUM | header::DATA_VALID) != 0 || header.hash_report != 0 {
        describe(&mut packet, header);
    }
    let bytes = packet.total_len() as u64;
    // `push` gives back what it has no room for; the caller looked.
    batch.push(packet).into_iter().for_each(|packet| pool.free(packet));
    Outcome::Packet(bytes)
}

/// Verdict and hash, in the words that the packet's metadata has for them.
fn describe(packet: &mut Packet, header: &Header) {
    let mut flags = 0;
    if header.flags & (header::NEEDS_CSUM | header::DATA_VALID) != 0 {
        flags |= RxFlags::L4_CHECKED;
    }
    let kind = hash_kind(header.hash_report);
    let headroom = packet.headroom() - memory::HEADROOM;
    let whole = packet.len() + headroom;
    let low = u64::from(kind) | u64::from(header.hash) << 32;
    packet.set_received(low, u64::from(flags) | (whole as u64) << 32);
    packet.pull_front(headroom).expect("as long as it was");
}

/// RSS type in bits 3:0 and packet type from bit 4, as the 82599 has them
/// (datasheet 7.1.6.2), for a hash type of 5.1.6.4.3.3.
fn hash_kind(report: u16) -> u32 {
    let (rss, types) = match report {
        hash::REPORT_IPV4 => (2, PacketType::IPV4),
        hash::REPORT_TCPV4 => (1, PacketType::IPV4 | PacketType::TCP),
        hash::REPORT_UDPV4 => (7, PacketType::IPV4 | PacketType::UDP),
        hash::REPORT_IPV6 | hash::REPORT_IPV6_EX => (5, PacketType::IPV6),
        hash::REPORT_TCPV6 | hash::REPORT_TCPV6_EX => (3, PacketType::IPV6 | PacketType::TCP),
        hash::REPORT_UDPV6 | hash::REPORT_UDPV6_EX => (8, PacketType::IPV6 | PacketType::UDP),
        _ => return 0,
    };
    rss | u32::from(types) << 4
}
