//! Packets that ask for something, have several segments, or whose header does
//! not fit in front (virtio 1.3, 5.1.6.2). What the device cannot do is done
//! here, if it can be done without copying the packet: VLAN tags, checksums.

use memory::{Batch, Packet, Pool, TxOffload};
use port::software;
use regs::virtio::net::header;
use wire::{ethernet, vlan};

use super::{MAX_PARTS, Tx};
use crate::virtio::header::Header;
use crate::virtio::ring::{Part, Virtqueue};
use crate::virtio::{checksum, stats};

/// An 802.1Q tag goes behind the two addresses.
const ADDRESSES: usize = ethernet::ADDRESSES_LEN;
const TAG: usize = vlan::HEADER_LEN;
/// The longest packet that can be cut: the length field of IPv4.
const MAX_SEGMENTED: usize = u16::MAX as usize + ethernet::HEADER_LEN + TAG;

impl<R: Virtqueue> Tx<R> {
    /// Sends the packet in front: its bytes, or `None` when it was dropped and
    /// counted because it can never be sent. The ring has room.
    #[cold]
    #[inline(never)]
    pub(super) fn send_special(&mut self, batch: &mut Batch, pool: &mut Pool) -> Option<u64> {
        let packet = batch.first()?;
        if !self.does(packet.tx_offload()) {
            stats::add(&self.counters.tx_offload, 1);
            self.drop_one(batch.pop_front()?, pool);
            return None;
        }
        let is_sendable = self.sendable(packet);
        let mut packet = batch.pop_front()?;
        let header = if is_sendable { self.prepare(&mut packet) } else { None };
        let Some(header) = header else {
            stats::add(&self.counters.tx_unsendable, 1);
            self.drop_one(packet, pool);
            return None;
        };
        let len = packet.total_len() as u64;
        self.chains += u32::from(packet.next().is_some());
        self.put(packet, &header);
        Some(len)
    }

    /// Whether the device, or the driver for it, does what a packet asks for.
    fn does(&self, asked: TxOffload) -> bool {
        let able = match asked.cuts_udp() {
            true => self.able.datagrams,
            false => self.able.segment[usize::from(asked.has(TxOffload::IPV6))],
        };
        !asked.has(TxOffload::SEGMENT) || able && !asked.has(TxOffload::TUNNEL)
    }

    /// Whether the device can send the packet at all.
    fn sendable(&self, packet: &Packet) -> bool {
        let asked = packet.tx_offload();
        let has = |flag| asked.flags & flag != 0;
        let total = packet.total_len();
        let cut = has(TxOffload::SEGMENT);
        let limit = if cut { MAX_SEGMENTED } else { self.able.frame };
        let sound = asked.is_empty() || asked.fits(packet.len());
        let cuts = !cut || asked.segment_size > 0 && asked.header_len() < total as u64;
        // One part for the header where it does not fit in front.
        let apart = !self.able.joined || packet.headroom() < self.able.header + TAG;
        let parts = packet.segments().count() + usize::from(apart);
        sound
            && cuts
            && total <= limit
            && parts <= self.able.parts
            && packet.segments().all(|segment| !segment.is_empty())
            && !(has(TxOffload::VLAN) && (packet.len() < ADDRESSES || packet.headroom() < TAG))
    }

    /// Does here what the device does not do; the header that asks for the rest.
    fn prepare(&self, packet: &mut Packet) -> Option<Header> {
        let asked = packet.tx_offload();
        if asked.has(TxOffload::VLAN) && !software::insert_tag(packet) {
            return None;
        }
        let cut = asked.has(TxOffload::SEGMENT);
        let sums_ip = asked.has(TxOffload::IP_CHECKSUM) || cut && !asked.has(TxOffload::IPV6);
        if sums_ip && !software::fill_ip_checksum(packet) {
            return None;
        }
        let Some(offset) = software::checksum_offset(asked) else { return Some(Header::default()) };
        let transport = packet.tx_offload().transport_offset();
        let mut header = Header::default();
        if cut {
            // virtio's field holds the pseudo-header's sum with the length, as
            // Linux has it; `TxOffload` leaves the length out.
            let len = packet.total_len() - transport;
            let field = packet.get_mut(transport + offset..)?.first_chunk_mut()?;
            checksum::add_to_field(field, len as u32);
            header.gso_type = match asked.has(TxOffload::IPV6) {
                _ if asked.cuts_udp() => header::GSO_UDP_L4,
                true => header::GSO_TCPV6,
                false => header::GSO_TCPV4,
            };
            header.gso_size = asked.segment_size;
            header.hdr_len = (transport + usize::from(asked.l4_len)) as u16;
        }
        if self.able.checksum {
            header.flags = header::NEEDS_CSUM;
            (header.csum_start, header.csum_offset) = (transport as u16, offset as u16);
        } else if !software::complete_checksum(packet, transport, offset) {
            return None;
        }
        Some(header)
    }

    /// Puts a packet with its header into the next slot.
    fn put(&mut self, mut packet: Packet, header: &Header) {
        let bytes = header.bytes();
        if !self.able.joined || packet.headroom() < self.able.header {
            return self.put_apart(packet, &bytes);
        }
        if let Ok(front) = packet.push_front(self.able.header) {
            front.copy_from_slice(&bytes[..front.len()]);
        }
        let id = self.ring.ids().next();
        self.put_segments(id, None, packet);
    }

    /// Likewise, the header in memory of its own.
    #[cold]
    pub(super) fn put_apart(&mut self, packet: Packet, bytes: &[u8]) {
        let id = self.ring.ids().next();
        let mut whole = [0; header::BYTES_HASH];
        whole[..bytes.len()].copy_from_slice(bytes);
        let first = self.headers.fill(id, &whole, self.able.header);
        self.put_segments(id, Some(first), packet);
    }

    fn put_segments(&mut self, id: u16, first: Option<Part>, packet: Packet) {
        let part = |s: &Packet| Part { address: s.iova(), len: s.len() as u32, write: false };
        let mut parts = [Part { address: 0, len: 0, write: false }; MAX_PARTS];
        let mut count = 0;
        for (place, part) in parts.iter_mut().zip(first.into_iter().chain(packet.segments().map(part))) {
            *place = part;
            count += 1;
        }
        self.slots.put(id, packet);
        self.ring.put_parts(&parts[..count]);
    }
}
