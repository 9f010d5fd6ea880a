//! Segments as they are sent: IP packets with a TCP header and a copy of the data.

use std::net::IpAddr;

use memory::{Packet, Pool, TxOffload};
use wire::ip::{Addresses, Protocol};
use wire::tcp::{self, Flags};
use wire::tcp_option::{
    FastOpen, TIMESTAMPS_ALONE_LEN, TcpOption, emit_timestamps_alone, kind, set_sack_blocks,
};
use wire::tcp_v4::{self, Headers, Sum};
use wire::{checksum, ipv4, ipv6};

use crate::large::LEAST;
use crate::options::Offload;
use crate::segment::Blocks;
use crate::sequence::Sequence;

/// Bytes of options that a header can have.
const MAX_OPTIONS: usize = tcp::MAX_HEADER_LEN - tcp::HEADER_LEN;
/// Bytes in front of the payload, at most.
pub const MAX_HEADERS: usize = ipv6::HEADER_LEN + tcp::MAX_HEADER_LEN;
/// From so many bytes of payload on the sum is left to the port, if that makes it: of fewer bytes,
/// which have just been copied, it takes less than the descriptor by which the port is asked. No
/// packet that the port cuts has less.
const SUMMED_BY_PORT: usize = LEAST as usize;
/// Bytes of the timestamps with the option's padding.
pub const TIMESTAMPS_LEN: u16 = TIMESTAMPS_ALONE_LEN as u16;

/// Options as they stand in a header.
#[derive(Debug, Clone, Copy)]
pub struct OptionBytes {
    bytes: [u8; MAX_OPTIONS],
    len: usize,
}

impl OptionBytes {
    /// Starts without options, to be added.
    pub fn new() -> OptionBytes {
        OptionBytes { bytes: [0; MAX_OPTIONS], len: 0 }
    }

    /// The options of a SYN or of its answer, each on the boundary of a word, in the order and
    /// with the padding that Linux gives them.
    pub fn of_syn(
        max_segment: u16,
        has_sack: bool,
        clocks: Option<(u32, u32)>,
        shift: Option<u8>,
    ) -> OptionBytes {
        let mut options = OptionBytes::new();
        options.push(TcpOption::MaxSegment(max_segment));
        if has_sack {
            // In front of the timestamps it fills their padding.
            options.pad(if clocks.is_some() { 0 } else { 2 });
            options.push(TcpOption::SackPermitted);
        }
        if let Some((value, echo)) = clocks {
            options.pad(if has_sack { 0 } else { 2 });
            options.push(TcpOption::Timestamps { value, echo });
        }
        if let Some(shift) = shift {
            options.pad(1);
            options.push(TcpOption::WindowScale(shift));
        }
        options
    }

    /// Appends a cookie of fast open, if there is room for it.
    pub fn push_cookie(&mut self, option: FastOpen) {
        if self.len + option.len() <= MAX_OPTIONS {
            option.emit(&mut self.bytes[self.len..]);
            self.len += option.len();
        }
    }

    /// Appends timestamps, with the padding in front that RFC 7323, appendix A, recommends.
    pub fn push_timestamps(&mut self, value: u32, echo: u32) {
        let option = emit_timestamps_alone(value, echo);
        if let Some(room) = self.bytes[self.len..].first_chunk_mut() {
            *room = option;
            self.len += option.len();
        }
    }

    /// Appends an option, if there is room for it.
    pub fn push(&mut self, option: TcpOption) {
        if self.len + option.len() <= MAX_OPTIONS {
            option.emit(&mut self.bytes[self.len..]);
            self.len += option.len();
        }
    }

    /// Appends so many bytes that mean nothing, if there is room for them.
    fn pad(&mut self, count: usize) {
        let end = (self.len + count).min(MAX_OPTIONS);
        self.bytes[self.len..end].fill(kind::NO_OPERATION);
        self.len = end;
    }

    /// Appends as many blocks of selective acknowledgements as there is room for.
    pub fn push_sack(&mut self, blocks: &Blocks) {
        let mut data = [0; MAX_OPTIONS];
        let room = (MAX_OPTIONS - self.len).saturating_sub(2 + TcpOption::Sack(&[]).len());
        let blocks = blocks.as_slice().iter().map(|(start, end)| (start.0, end.0));
        let len = set_sack_blocks(&mut data[..room], blocks);
        if len > 0 {
            self.pad(2);
            self.push(TcpOption::Sack(&data[..len]));
        }
    }

    /// How many bytes they have in a header: a whole number of words.
    #[inline]
    fn padded_len(&self) -> usize {
        self.len.next_multiple_of(4)
    }

    /// Writes them to where there is room for a whole number of words.
    #[inline]
    fn write(&self, to: &mut [u8]) {
        // Timestamps alone, as of nearly all segments: without a call that copies.
        if let (Ok(to), Some(timestamps)) =
            (<&mut [u8; TIMESTAMPS_ALONE_LEN]>::try_from(&mut *to), self.bytes.first_chunk())
            && self.len == TIMESTAMPS_ALONE_LEN
        {
            *to = *timestamps;
            return;
        }
        let (options, padding) = to.split_at_mut(self.len);
        options.copy_from_slice(&self.bytes[..self.len]);
        padding.fill(kind::NO_OPERATION);
    }
}

/// What stands in front of the data of a segment that is sent.
#[derive(Debug, Clone, Copy)]
pub struct Header {
    /// From whom and to whom.
    pub addresses: Addresses,
    /// From which port.
    pub src_port: u16,
    /// To which port.
    pub dst_port: u16,
    /// The number of the first byte.
    pub sequence: Sequence,
    /// The number of the next byte expected.
    pub acknowledgement: Sequence,
    /// The control bits.
    pub flags: Flags,
    /// The window, shifted.
    pub window: u16,
    /// The options behind the header.
    pub options: OptionBytes,
    /// The congestion field of the IP header.
    pub ecn: u8,
}

impl Header {
    /// A packet of the segment with a copy of `payload`; `None` when the pool has no buffer,
    /// or the payload does not fit into one.
    pub fn build(&self, pool: &mut Pool, payload: &[u8], offload: Offload) -> Option<Packet> {
        let mut packet = pool.alloc()?;
        if packet.copy_from(payload).is_err() || self.write(&mut packet, offload).is_err() {
            pool.free(packet);
            return None;
        }
        Some(packet)
    }

    fn write(&self, packet: &mut Packet, offload: Offload) -> Result<(), memory::TooLong> {
        let header_len = tcp::HEADER_LEN + self.options.padded_len();
        let front = packet.push_front(header_len)?;
        // The buffer's bytes are whatever they were: each of them is written.
        if let Some((fixed, options)) = front.split_first_chunk_mut() {
            let mut header = tcp::Header::new(fixed);
            header.set_src_port(self.src_port);
            header.set_dst_port(self.dst_port);
            header.set_sequence(self.sequence.0);
            header.set_acknowledgement(self.acknowledgement.0);
            header.set_header_len(header_len);
            header.set_flags(self.flags);
            header.set_window(self.window);
            header.set_checksum(0);
            header.set_urgent(0);
            self.options.write(options);
        }
        let mut segment = tcp::Segment::new_unchecked(&mut packet[..]);
        if offload.checksum && segment.payload().len() >= SUMMED_BY_PORT {
            segment.fill_pseudo_checksum(self.addresses);
            packet.set_tx_offload(asked(self.addresses, TxOffload::TCP_CHECKSUM, header_len));
        } else {
            segment.fill_checksum(self.addresses);
        }
        push_ip(packet, self.addresses, Protocol::TCP, self.ecn)
    }
}

/// What stands in front of the data of nearly all segments over IPv4, which have no options but
/// timestamps: the same bytes as [`Header`] makes of it, with less work.
#[derive(Debug, Clone, Copy)]
pub struct Plain {
    /// All but the clocks.
    pub headers: Headers,
    /// The clock of this side, and the other side's, where they are sent.
    pub clocks: Option<(u32, u32)>,
}

impl Plain {
    /// A packet of the segment with a copy of `payload`; `None` when the pool has no buffer,
    /// or the payload does not fit into one.
    #[inline]
    pub fn build(&self, pool: &mut Pool, payload: &[u8], offload: Offload) -> Option<Packet> {
        let mut packet = pool.alloc()?;
        if self.write(&mut packet, payload, offload).is_err() {
            pool.free(packet);
            return None;
        }
        Some(packet)
    }

    #[inline]
    fn write(&self, packet: &mut Packet, payload: &[u8], offload: Offload) -> Result<(), memory::TooLong> {
        if !payload.is_empty() {
            packet.copy_from(payload)?;
        }
        let is_asked = offload.checksum && payload.len() >= SUMMED_BY_PORT;
        let sum = if is_asked { Sum::Later } else { Sum::Of(checksum::sum(payload)) };
        match self.clocks {
            Some(clocks) => {
                if let Some(front) = packet.push_front(tcp_v4::WITH_TIMESTAMPS_LEN)?.first_chunk_mut() {
                    self.headers.emit_with_timestamps(front, clocks, payload.len(), sum);
                }
            }
            None => {
                if let Some(front) = packet.push_front(tcp_v4::LEN)?.first_chunk_mut() {
                    self.headers.emit(front, payload.len(), sum);
                }
            }
        }
        if is_asked {
            let options = if self.clocks.is_some() { TIMESTAMPS_ALONE_LEN } else { 0 };
            let addresses = Addresses::V4 { src: self.headers.src, dst: self.headers.dst };
            packet.set_tx_offload(asked(addresses, TxOffload::TCP_CHECKSUM, tcp::HEADER_LEN + options));
        }
        Ok(())
    }
}

/// Puts an IP header in front of a packet, which nobody may fragment.
pub fn push_ip(
    packet: &mut Packet,
    addresses: Addresses,
    protocol: Protocol,
    traffic_class: u8,
) -> Result<(), memory::TooLong> {
    let payload_len = packet.len();
    match addresses {
        Addresses::V4 { src, dst } => {
            let ip = ipv4::Repr {
                dont_fragment: true,
                traffic_class,
                ..ipv4::Repr::between(src, dst, protocol, payload_len)
            };
            ip.emit(&mut ipv4::Packet::new_unchecked(packet.push_front(ipv4::HEADER_LEN)?));
        }
        Addresses::V6 { src, dst } => {
            let ip = ipv6::Repr {
                src,
                dst,
                next_header: protocol,
                hop_limit: 64,
                traffic_class,
                flow_label: 0,
                payload_len,
            };
            ip.emit(&mut ipv6::Packet::new_unchecked(packet.push_front(ipv6::HEADER_LEN)?));
        }
    }
    Ok(())
}

/// Asks the port for the checksum of what stands behind the IP header, whose own header has so
/// many bytes. How many stand in front of the IP header is not known yet.
pub fn asked(addresses: Addresses, checksum: u8, header_len: usize) -> TxOffload {
    let (flags, l3_len) = match addresses {
        Addresses::V4 { .. } => (checksum, ipv4::HEADER_LEN),
        Addresses::V6 { .. } => (checksum | TxOffload::IPV6, ipv6::HEADER_LEN),
    };
    TxOffload { flags, l3_len: l3_len as u8, l4_len: header_len as u8, ..TxOffload::default() }
}

/// Makes a packet, whose payload of `payload_len` bytes stands in several buffers, one that
/// the port cuts into segments of `segment_size` bytes of payload. As in Linux the last of them
/// has PSH, so that a receiver that puts segments together does not wait for more.
pub fn enlarge(packet: &mut Packet, payload_len: u32, segment_size: u32) {
    let asked = packet.tx_offload();
    let is_v4 = !asked.has(TxOffload::IPV6);
    let (l3_len, l4_len) = (usize::from(asked.l3_len), usize::from(asked.l4_len));
    let len = (l4_len + payload_len as usize) as u16;
    let addresses = match is_v4 {
        true => ipv4::Header::of_mut(packet).map(|mut ip| {
            ip.set_total_len(len + l3_len as u16);
            ip.set_checksum(0);
            ip.addresses()
        }),
        false => ipv6::Header::of_mut(packet).map(|mut ip| {
            ip.set_payload_len(len);
            ip.addresses()
        }),
    };
    if let (Some(addresses), Some(mut tcp)) = (addresses, tcp::Header::of_mut(&mut packet[l3_len..])) {
        tcp.set_flags(tcp.flags() | Flags::PSH);
        // Segments have other lengths than the packet.
        tcp.set_checksum(addresses.pseudo_header(Protocol::TCP, 0));
    }
    let sums = TxOffload::SEGMENT | if is_v4 { TxOffload::IP_CHECKSUM } else { 0 };
    packet.set_tx_offload(TxOffload {
        flags: asked.flags | sums,
        segment_size: segment_size as u16,
        ..asked
    });
}

/// Two addresses of one version; of different ones there is no packet.
pub fn addresses(src: IpAddr, dst: IpAddr) -> Option<Addresses> {
    match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => Some(Addresses::V4 { src, dst }),
        (IpAddr::V6(src), IpAddr::V6(dst)) => Some(Addresses::V6 { src, dst }),
        _ => None,
    }
}

/// Bytes of the largest segment without options in packets of `mtu` bytes (RFC 6691).
pub fn max_segment(addresses: &Addresses, mtu: u16) -> u16 {
    let ip = match addresses {
        Addresses::V4 { .. } => ipv4::HEADER_LEN,
        Addresses::V6 { .. } => ipv6::HEADER_LEN,
    };
    mtu - ip as u16 - tcp::HEADER_LEN as u16
}

#[cfg(test)]
mod tests {
    use memory::{Backing, Dma};

    use super::*;

    /// With and without timestamps, and with sums of either side.
    #[test]
    fn plain_segments_are_those_of_their_headers() {
        let dma = Dma::new(memory::Options { backing: Backing::Memfd, numa_node: None });
        let mut pool = Pool::new(&dma, 2).expect("memory");
        let mut last = 7_u64;
        let mut number = || {
            last = last.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
            (last >> 32) as u32
        };
        for n in 0..2000_usize {
            let payload: Vec<u8> = (0..number() as usize % 600 * (n % 3)).map(|_| number() as u8).collect();
            let (src, dst, flags) = (number().into(), number().into(), Flags(number() as u8));
            let (sequence, acknowledgement, window) = (number(), number(), number() as u16);
            let ports = (number() as u16, number() as u16);
            let clocks = (n % 2 == 0).then(|| (number(), number()));
            let traffic_class = number() as u8;
            let mut options = OptionBytes::new();
            clocks.into_iter().for_each(|(value, echo)| options.push_timestamps(value, echo));
            let header = Header {
                addresses: Addresses::V4 { src, dst },
                src_port: ports.0,
                dst_port: ports.1,
                sequence: Sequence(sequence),
                acknowledgement: Sequence(acknowledgement),
                flags,
                window,
                options,
                ecn: traffic_class,
            };
            let headers =
                Headers { src, dst, traffic_class, ports, sequence, acknowledgement, flags, window };
            let offload = Offload { checksum: n % 5 < 2, buffers: 0 };
            let plain = Plain { headers, clocks }.build(&mut pool, &payload, offload).expect("a buffer");
            let other = header.build(&mut pool, &payload, offload).expect("a buffer");
            assert_eq!((&plain[..], plain.tx_offload()), (&other[..], other.tx_offload()));
            pool.free(plain);
            pool.free(other);
        }
    }
}
