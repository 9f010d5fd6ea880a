//! What an entry of the table leads to: a tunnel's finished headers, or why there are none.
//! Sending a packet is a copy of them and what differs between packets.

use std::hash::{Hash, Hasher};

use memory::Packet;
use port::{EncapHeaders, Reason};
use wire::outer::PerPacket;
use wire::tunnel::{gre, nsh};
use wire::{Inner, checksum, ecn, ip, ipv4, ipv6, udp};

use crate::group::Members;
use crate::network::Layer;
use crate::protocol::{Carrier, MAX_HEADERS};
use crate::template::{self, Bytes, Shape, Template};
use crate::tunnel::{Dscp, Link, Tunnel};

/// The longest packet whose length with a tunnel's headers in front of it has 16 bits.
const LONGEST: usize = ip::LONGEST - MAX_HEADERS;

/// A tunnel, or a group for some network, as long as something leads to it. What comes later
/// has another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct TunnelId {
    /// Its place, which another one may have later.
    pub(crate) number: u32,
    /// Which one of those that had the place; never 0.
    pub(crate) incarnation: u32,
}

/// What packets find behind an entry.
#[derive(Debug, Clone)]
#[allow(
    clippy::large_enum_variant,
    reason = "nearly all are tunnels, whose headers are read where they stand"
)]
pub(crate) enum State {
    /// A tunnel's headers.
    Ready(Ready),
    /// Tunnels of which the flow chooses one.
    Group(Box<Members>),
    /// There is no way, for this reason.
    Closed(Reason),
}

impl State {
    /// Why no packet can go.
    pub(crate) fn problem(&self) -> Option<Reason> {
        match self {
            State::Closed(reason) => Some(*reason),
            State::Ready(_) | State::Group(_) => None,
        }
    }
}

/// A tunnel in the state in which packets find it. Two are equal when they are the same
/// tunnel, whatever its state.
#[derive(Debug, Clone)]
pub(crate) struct Hop {
    pub(crate) id: TunnelId,
    pub(crate) state: State,
}

impl PartialEq for Hop {
    fn eq(&self, other: &Hop) -> bool {
        self.id == other.id
    }
}

impl Eq for Hop {}

impl Hash for Hop {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id.hash(state);
    }
}

/// What has to be done behind the copy of the headers, for few tunnels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Finish {
    /// Where a 16-bit length of the tunnel's own stands, and what it does not count: bytes
    /// from the start of all headers.
    length: Option<(u8, u8)>,
    /// Where GRE's header stands that has a checksum or a sequence number.
    gre: Option<u8>,
    /// Whether UDP has a checksum.
    udp_checksum: bool,
}

/// A tunnel's finished headers. What is read for each packet beside the headers is in one
/// cache line.
#[derive(Debug, Clone)]
pub(crate) struct Ready {
    /// In front of frames, IPv4 packets and packets with a network service header; and of
    /// IPv6 packets.
    headers: [Bytes; 2],
    shapes: [Shape; 2],
    /// That of the entry that this is the state of.
    pub(crate) id: TunnelId,
    pub(crate) port: u16,
    /// What the headers were made for.
    pub(crate) layer: Layer,
    /// Bytes of a packet inside, at most.
    max_len: u16,
    inherits_dscp: bool,
    /// Whether the headers tell flows apart.
    tells_flow: bool,
    /// Whether anything is in `finish`.
    is_plain: bool,
    /// Whether one copy of the headers may be for all that a packet is cut into. Where packets may
    /// be fragmented on their way each has a number of its own (RFC 6864).
    is_for_long: bool,
    finish: Finish,
}

impl Ready {
    /// The headers of a tunnel by this way, for packets of a layer.
    pub(crate) fn new(id: TunnelId, tunnel: &Tunnel, link: &Link, layer: Layer) -> Result<Ready, Reason> {
        let headers = layer.payloads().map(|payload| tunnel.headers(link, payload));
        let [Some(first), Some(second)] = headers else { return Err(Reason::OverlayBadTunnel) };
        let len = first.len().max(second.len());
        let room = usize::from(link.mtu) + link.header_len();
        let network = first.network_offset().ok_or(Reason::OverlayBadTunnel)?;
        let network_len = if tunnel.remote.is_ipv4() { ipv4::HEADER_LEN } else { ipv6::HEADER_LEN };
        let behind_ip = network + network_len;
        let shim = match tunnel.protocol.carrier {
            Carrier::Udp(_) => behind_ip + udp::HEADER_LEN,
            _ => behind_ip,
        };
        let has_words = tunnel.gre_checksum || tunnel.gre_sequence;
        let finish = Finish {
            length: tunnel.protocol.length.map(|(at, uncounted)| (shim as u8 + at, shim as u8 + uncounted)),
            gre: has_words.then_some(shim as u8),
            udp_checksum: tunnel.udp_checksum && matches!(tunnel.protocol.carrier, Carrier::Udp(_)),
        };
        let [Some(first), Some(second)] = [&first, &second].map(template::parts) else {
            return Err(Reason::OverlayBadTunnel);
        };
        Ok(Ready {
            headers: [first.0, second.0],
            shapes: [first.1, second.1],
            id,
            port: link.port,
            layer,
            max_len: u16::try_from(room.saturating_sub(len)).unwrap_or(u16::MAX),
            inherits_dscp: tunnel.dscp == Dscp::Inherit,
            tells_flow: first.1.tells_flow() || second.1.tells_flow(),
            is_plain: finish == Finish::default(),
            is_for_long: finish == Finish::default() && (tunnel.dont_fragment || tunnel.remote.is_ipv6()),
            finish,
        })
    }

    /// What these headers have to know of a packet; `None` as of [`inspect`].
    #[inline(always)]
    pub(crate) fn inspect(&self, packet: &[u8], layer: Layer) -> Option<Inner> {
        match self.tells_flow {
            true => inspect(packet, layer),
            false => inspect_unhashed(packet, layer),
        }
    }

    /// Whether the tunnel's own headers have a checksum over the packet inside.
    pub(crate) fn sums_payload(&self) -> bool {
        self.finish.udp_checksum || self.finish.gre.is_some()
    }

    /// Bytes of the headers in front of a packet.
    #[inline]
    pub(crate) fn header_len(&self, inner: &Inner) -> usize {
        self.headers(inner, self.layer).len()
    }

    /// The headers for a NIC that puts them in front of packets: of frames, IPv4 packets and packets
    /// with a network service header, and of IPv6 packets. `None` of what a NIC does not do.
    pub(crate) fn nic_headers(&self) -> Option<[EncapHeaders; 2]> {
        if self.finish.gre.is_some() {
            return None;
        }
        let mask = if self.inherits_dscp { u8::MAX } else { ecn::MASK };
        let Finish { length, udp_checksum, .. } = self.finish;
        let headers = |which: usize| {
            let template = Template::new(&self.headers[which], self.shapes[which]);
            template.for_nic(mask, length, udp_checksum, self.max_len)
        };
        Some([headers(0), headers(1)])
    }

    #[inline(always)]
    fn headers(&self, inner: &Inner, layer: Layer) -> Template<'_> {
        let which = usize::from(inner.is_v6 && layer == Layer::Ip);
        Template::new(&self.headers[which], self.shapes[which])
    }

    /// Puts the headers in front of a packet that is known as `inner`. `number` is the
    /// packet's IPv4 identification and GRE's sequence number.
    #[inline(always)]
    pub(crate) fn encapsulate(
        &self,
        packet: &mut Packet,
        inner: &Inner,
        layer: Layer,
        number: u32,
    ) -> Result<(), Reason> {
        let len = packet.total_len();
        if len > usize::from(self.max_len) {
            return Err(Reason::OverlayTooLong);
        }
        let (headers, values) = self.headers_for(inner, layer, number);
        headers.push(packet, len, values)?;
        if !self.is_plain {
            self.finish(packet, headers, len, number);
        }
        Ok(())
    }

    /// As [`encapsulate`](Self::encapsulate), of a packet that is cut later: each piece must fit,
    /// and gets its own lengths then.
    pub(crate) fn encapsulate_long(
        &self,
        packet: &mut Packet,
        inner: &Inner,
        number: u32,
    ) -> Result<(), Reason> {
        let asked = packet.tx_offload();
        if asked.header_len() + u64::from(asked.segment_size) > u64::from(self.max_len) {
            return Err(Reason::OverlayTooLong);
        }
        if !self.is_for_long || self.layer == Layer::Service {
            return Err(Reason::OverlayOffload);
        }
        let (headers, values) = self.headers_for(inner, self.layer, number);
        // Tunnel and packet may be longer together than a length tells: one that began anew at zero
        // would be believed by who does not cut.
        headers.push(packet, packet.total_len().min(LONGEST), values)
    }

    /// The headers in front of a packet, and what is its own in them.
    #[inline(always)]
    fn headers_for(&self, inner: &Inner, layer: Layer, number: u32) -> (Template<'_>, PerPacket) {
        let headers = self.headers(inner, layer);
        let traffic_class =
            if self.inherits_dscp { inner.traffic_class } else { ecn::encapsulate(0, inner.traffic_class) };
        let identification = number as u16;
        (headers, PerPacket { identification, flow_hash: Some(inner.hash), traffic_class })
    }

    /// Bytes of a packet inside, at most.
    pub(crate) fn max_len(&self) -> usize {
        usize::from(self.max_len)
    }

    /// Fills in what few tunnels have: lengths of their own, sequence numbers, checksums.
    #[cold]
    fn finish(&self, packet: &mut Packet, headers: Template<'_>, len: usize, number: u32) {
        let total = headers.len() + len;
        if let Some((at, uncounted)) = self.finish.length {
            let length = (total - usize::from(uncounted)) as u16; // the outer length is larger, and fits
            if let Some(field) = packet.get_mut(usize::from(at)..).and_then(|bytes| bytes.first_chunk_mut()) {
                *field = length.to_be_bytes();
            }
        }
        if let Some(at) = self.finish.gre {
            finish_gre(packet, usize::from(at), headers.len(), number);
        }
        if self.finish.udp_checksum {
            finish_udp(packet, headers);
        }
    }
}

/// Numbers a packet, and sums up GRE's header at `at` with all that follows.
fn finish_gre(packet: &mut Packet, at: usize, end: usize, number: u32) {
    let Some(bytes) = packet.get_mut(at..end) else { return };
    let Ok(mut header) = gre::Packet::new_checked(bytes) else { return };
    header.set_sequence(number);
    let has_checksum = header.checksum().is_some();
    if has_checksum {
        let sum = checksum_from(packet, at);
        if let Ok(mut header) = gre::Packet::new_checked(&mut packet[at..end]) {
            header.set_checksum(sum);
        }
    }
}

/// Sums up a UDP header with all that follows it and the pseudo header.
fn finish_udp(packet: &mut Packet, headers: Template<'_>) {
    let (Some(at), Some(addresses)) = (headers.udp_offset(), headers.addresses()) else { return };
    let len = packet.total_len() - at;
    let pseudo = addresses.pseudo_header(wire::ip::Protocol::UDP, len);
    let sum = checksum::combine(pseudo, !checksum_from(packet, at));
    if let Some(mut header) = packet.get_mut(at..).and_then(udp::Header::of_mut) {
        header.set_checksum(checksum::never_zero(!sum));
    }
}

/// The checksum of all of a packet from `at` on, over all of its segments.
fn checksum_from(packet: &Packet, at: usize) -> u16 {
    let mut sum = checksum::Partial::default();
    let mut skip = at;
    for segment in packet.segments() {
        sum.add(segment.get(skip..).unwrap_or_default());
        skip = skip.saturating_sub(segment.len());
    }
    sum.checksum()
}

/// What is known of a packet of this layer; `None` for one that its network does not have.
#[inline]
pub(crate) fn inspect(packet: &[u8], layer: Layer) -> Option<Inner> {
    match layer {
        Layer::Ethernet => Some(Inner::of_frame(packet)),
        Layer::Ip => Some(Inner::of_packet(packet)).filter(|inner| inner.network_offset.is_some()),
        Layer::Service => Some(inspect_behind_service(packet)),
    }
}

/// As [`inspect`], without the flow's number.
#[inline]
pub(crate) fn inspect_unhashed(packet: &[u8], layer: Layer) -> Option<Inner> {
    match layer {
        Layer::Ethernet => Some(Inner::of_frame_unhashed(packet)),
        Layer::Ip => Some(Inner::of_packet_unhashed(packet)).filter(|inner| inner.network_offset.is_some()),
        Layer::Service => Some(inspect_behind_service(packet)),
    }
}

/// The packet behind a network service header, by which its flow is known.
#[inline(never)]
fn inspect_behind_service(packet: &[u8]) -> Inner {
    let Ok(service) = nsh::Packet::new_checked(packet) else { return Inner::default() };
    let inner = match service.next_protocol() {
        nsh::next_protocol::ETHERNET => Inner::of_frame(service.payload()),
        _ => Inner::of_packet(service.payload()),
    };
    // What congestion a packet meets cannot be told to the one behind the service header
    // (RFC 6040, section 4.1): the tunnel takes no part.
    Inner { network_offset: None, traffic_class: 0, ..inner }
}
