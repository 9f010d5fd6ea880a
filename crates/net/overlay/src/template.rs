//! A tunnel's headers as they are copied in front of packets: in whole words of a fixed
//! number, that end where the packet begins, so that what is copied in front of the first
//! header lies in headroom that nobody reads; and what differs between packets.

use memory::Packet;
use port::{EncapHeaders, EncapPatch, Reason};
use wire::ip::Addresses;
use wire::outer::PerPacket;
use wire::{flow, ipv4, ipv6, udp};

use crate::protocol::{Headers, MAX_HEADERS};

/// Bytes that are copied for headers of no more than these; for others all of
/// [`MAX_HEADERS`].
const SHORT: usize = 64;

/// Headers, which are the last of these bytes, from the start of a cache line on.
#[derive(Debug, Clone)]
#[repr(align(64))]
pub(crate) struct Bytes([u8; MAX_HEADERS]);

/// Where the headers of a template begin, apart from their bytes: with what else is read for
/// each packet it is in one cache line.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    len: u8,
    /// Where the IP header begins, in bytes from the end of all.
    network: u8,
    /// Where the UDP header begins, in bytes from the end of all; 0 without one.
    udp: u8,
    is_v6: bool,
}

impl Shape {
    /// Whether the headers tell flows apart: by UDP's source port or IPv6's label.
    pub(crate) fn tells_flow(self) -> bool {
        self.udp != 0 || self.is_v6
    }
}

/// Headers that are finished but for what differs between packets.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Template<'a> {
    bytes: &'a [u8; MAX_HEADERS],
    shape: Shape,
}

/// What a template is made of, from headers with an IP header; `None` without one.
pub(crate) fn parts(headers: &Headers) -> Option<(Bytes, Shape)> {
    let len = headers.len();
    let addresses = headers.addresses()?;
    let mut bytes = [0; MAX_HEADERS];
    bytes[MAX_HEADERS - len..].copy_from_slice(headers.as_bytes());
    let from_end = |at: usize| (len - at) as u8; // at most MAX_HEADERS
    let shape = Shape {
        len: len as u8,
        network: from_end(headers.network_offset()?),
        udp: headers.udp_offset().map_or(0, from_end),
        is_v6: matches!(addresses, Addresses::V6 { .. }),
    };
    Some((Bytes(bytes), shape))
}

impl<'a> Template<'a> {
    #[inline(always)]
    pub(crate) fn new(bytes: &'a Bytes, shape: Shape) -> Template<'a> {
        Template { bytes: &bytes.0, shape }
    }

    /// Bytes of all headers.
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        usize::from(self.shape.len)
    }

    /// The headers as a NIC takes them that puts them in front of packets of `max_len` bytes at most.
    /// `mask` has the bits of a packet's traffic class that it shows outside; a length of the
    /// tunnel's own has a place, and bytes that it does not count.
    pub(crate) fn for_nic(
        &self,
        mask: u8,
        length: Option<(u8, u8)>,
        udp_checksum: bool,
        max_len: u16,
    ) -> EncapHeaders {
        let Shape { len, network, udp, is_v6 } = self.shape;
        let (ip, udp_at) = (len - network, len - udp);
        let at = |header: u8, field: usize| header + field as u8; // within the headers
        let mut patches = match is_v6 {
            true => vec![
                EncapPatch::Length {
                    at: at(ip, ipv6::offset::PAYLOAD_LEN),
                    more: u16::from(network) - ipv6::HEADER_LEN as u16,
                },
                EncapPatch::ClassV6 { at: ip, mask },
                EncapPatch::Label { at: ip },
            ],
            false => vec![
                EncapPatch::Length { at: at(ip, ipv4::offset::TOTAL_LEN), more: network.into() },
                EncapPatch::Number { at: at(ip, ipv4::offset::IDENTIFICATION) },
                EncapPatch::Class { at: at(ip, ipv4::offset::TRAFFIC_CLASS), mask },
            ],
        };
        if udp != 0 {
            patches.push(EncapPatch::Length { at: at(udp_at, udp::offset::LEN), more: udp.into() });
            patches.push(EncapPatch::Port { at: at(udp_at, udp::offset::SRC_PORT) });
        }
        let own = length.map(|(at, uncounted)| EncapPatch::Length { at, more: (len - uncounted).into() });
        patches.extend(own);
        if !is_v6 {
            let (from, count) = (ip, ipv4::HEADER_LEN as u8);
            patches.push(EncapPatch::Checksum { at: at(ip, ipv4::offset::CHECKSUM), from, count });
        }
        if let Some(addresses) = self.addresses().filter(|_| udp_checksum) {
            let pseudo = addresses.pseudo_header(wire::ip::Protocol::UDP, 0);
            patches.push(EncapPatch::UdpChecksum { at: at(udp_at, udp::offset::CHECKSUM), pseudo });
        }
        EncapHeaders { bytes: self.bytes[MAX_HEADERS - usize::from(len)..].to_vec(), patches, max_len }
    }

    /// Where the UDP header begins, in bytes from the start of the first header.
    pub(crate) fn udp_offset(&self) -> Option<usize> {
        (self.shape.udp != 0).then(|| usize::from(self.shape.len - self.shape.udp))
    }

    /// The addresses of the IP header.
    pub(crate) fn addresses(&self) -> Option<Addresses> {
        let ip = self.bytes.get(MAX_HEADERS - usize::from(self.shape.network)..)?;
        match self.shape.is_v6 {
            true => ipv6::Header::of(ip).map(|ip| ip.addresses()),
            false => ipv4::Header::of(ip).map(|ip| ip.addresses()),
        }
    }

    /// Puts the headers in front of a packet of `len` bytes, which with them fits into what an
    /// IP header can count.
    #[inline(always)]
    pub(crate) fn push(&self, packet: &mut Packet, len: usize, values: PerPacket) -> Result<(), Reason> {
        match self.len() <= SHORT {
            true => self.push_words::<SHORT>(packet, len, values),
            false => self.push_words::<MAX_HEADERS>(packet, len, values),
        }
    }

    #[inline(always)]
    fn push_words<const N: usize>(
        &self,
        packet: &mut Packet,
        len: usize,
        values: PerPacket,
    ) -> Result<(), Reason> {
        let room = packet.push_front(N).ok().and_then(|room| room.first_chunk_mut::<N>());
        let (Some(room), Some(bytes)) = (room, self.bytes.last_chunk::<N>()) else {
            return self.push_exactly(packet, len, values);
        };
        *room = *bytes;
        self.complete(room, len, values);
        packet.pull_front(N - self.len()).map_err(|_| Reason::OverlayNoHeadroom)
    }

    /// For packets with no more headroom than the headers need.
    #[cold]
    fn push_exactly(self, packet: &mut Packet, len: usize, values: PerPacket) -> Result<(), Reason> {
        let room = packet.push_front(self.len()).map_err(|_| Reason::OverlayNoHeadroom)?;
        room.copy_from_slice(&self.bytes[MAX_HEADERS - self.len()..]);
        self.complete(room, len, values);
        Ok(())
    }

    /// Fills in what differs between packets, into headers at the end of `room`.
    #[inline(always)]
    fn complete(&self, room: &mut [u8], len: usize, values: PerPacket) {
        let end = room.len();
        let network = usize::from(self.shape.network);
        let ip = room.get_mut(end.wrapping_sub(network)..).unwrap_or_default();
        if self.shape.is_v6 {
            if let Some(mut ip) = ipv6::Header::of_mut(ip) {
                ip.set_payload_len((network - ipv6::HEADER_LEN + len) as u16);
                if values.traffic_class != 0 {
                    ip.set_version(ip.traffic_class() | values.traffic_class, ip.flow_label());
                }
                if let Some(hash) = values.flow_hash {
                    ip.set_flow_label(flow::label(hash));
                }
            }
        } else if let Some(mut ip) = ipv4::Header::of_mut(ip) {
            ip.complete((network + len) as u16, values.identification);
            if values.traffic_class != 0 {
                ip.update_traffic_class(ip.traffic_class() | values.traffic_class);
            }
        }
        if self.shape.udp != 0 {
            let udp = room.get_mut(end.wrapping_sub(self.shape.udp.into())..).unwrap_or_default();
            if let Some(mut header) = udp::Header::of_mut(udp) {
                header.set_total_len((usize::from(self.shape.udp) + len) as u16);
                if let Some(hash) = values.flow_hash {
                    header.set_src_port(flow::source_port(hash));
                }
            }
        }
    }
}
