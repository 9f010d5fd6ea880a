//! What tunnels have of their own in front of packets: written into templates, and read from
//! received packets.

use port::Reason;
use wire::ip::Protocol as IpProtocol;
use wire::tunnel::{geneve, gre, mpls, nsh, srv6, vxlan};

use super::{Headers, Payload, Recognized, Refusal};
use crate::tunnel::Tunnel;

pub(super) fn add_gre_header(repr: &gre::Repr, headers: Headers) -> Option<Headers> {
    let mut bytes = [0; gre::HEADER_LEN + 3 * gre::WORD_LEN];
    repr.emit(&mut gre::Packet::new_unchecked(&mut bytes));
    headers.bytes(&bytes[..repr.header_len()])
}

pub(super) fn add_gre(tunnel: &Tunnel, payload: Payload, headers: Headers) -> Option<Headers> {
    let payload = if tunnel.service.is_some() { Payload::Nsh } else { payload };
    let repr = gre::Repr {
        protocol: payload.ethertype(),
        checksum: tunnel.gre_checksum,
        key: tunnel.identifier,
        sequence: tunnel.gre_sequence.then_some(0),
    };
    add_gre_header(&repr, headers)
}

pub(super) fn recognize_gre(bytes: &[u8], is_mine: impl Fn(Payload) -> bool) -> Result<Recognized, Refusal> {
    let packet = gre::Packet::new_checked(bytes)?;
    let payload = Payload::of_ethertype(packet.protocol()).filter(|payload| is_mine(*payload));
    let payload = payload.ok_or(Refusal::NotMine)?;
    let is_summed = packet.checksum().is_some();
    Ok(Recognized { is_summed, ..Recognized::plain(packet.key(), packet.header_len(), payload) })
}

pub(super) fn recognize_gpe(bytes: &[u8]) -> Result<Recognized, Refusal> {
    let header = vxlan::Header::of(bytes).ok_or(wire::Error::Truncated)?;
    let flags = header.flags();
    if flags & vxlan::flag::VERSION != 0 || flags & vxlan::flag::VNI == 0 {
        return Err(Refusal::Drop(Reason::OverlayTunnelMalformed));
    }
    if flags & vxlan::flag::OAM != 0 {
        return Err(Refusal::Control);
    }
    let payload = match flags & vxlan::flag::NEXT_PROTOCOL {
        0 => Some(Payload::Ethernet),
        _ => Payload::of_next_protocol(header.next_protocol()),
    };
    let payload = payload.ok_or(Refusal::Drop(Reason::OverlayWrongPayload))?;
    Ok(Recognized::plain(Some(header.vni()), vxlan::HEADER_LEN, payload))
}

pub(super) fn recognize_geneve(bytes: &[u8]) -> Result<Recognized, Refusal> {
    let packet = geneve::Packet::new_checked(bytes)?;
    // RFC 8926, section 3.5: no option is known here, so that a critical one cannot be.
    if packet.options().any(|option| option.is_critical()) {
        return Err(Refusal::Drop(Reason::OverlayCriticalOption));
    }
    if packet.flags() & geneve::flag::CONTROL != 0 {
        return Err(Refusal::Control);
    }
    let payload =
        Payload::of_ethertype(packet.protocol()).ok_or(Refusal::Drop(Reason::OverlayWrongPayload))?;
    Ok(Recognized::plain(Some(packet.vni()), packet.header_len(), payload))
}

pub(super) fn add_label(tunnel: &Tunnel, headers: Headers) -> Option<Headers> {
    let label = tunnel.identifier.unwrap_or(mpls::IPV4_EXPLICIT_NULL);
    let repr = mpls::Repr { label, traffic_class: 0, is_last: true, ttl: tunnel.ttl };
    headers.bytes(&repr.header().into_inner())
}

/// One label, and an IP packet behind it.
pub(super) fn recognize_label(bytes: &[u8]) -> Result<Recognized, Refusal> {
    let label = mpls::Header::of(bytes).ok_or(wire::Error::Truncated)?;
    if !label.is_last() {
        return Err(Refusal::Drop(Reason::OverlayWrongPayload)); // a tunnel in this one
    }
    let payload = Payload::of_ip(&bytes[mpls::HEADER_LEN..])?;
    Ok(Recognized::plain(Some(label.label()), mpls::HEADER_LEN, payload))
}

/// What an IPv6 header's chain leads to at the end of a way of segments: bytes of a segment
/// routing header, and the payload.
pub(crate) fn recognize_segments(next: IpProtocol, bytes: &[u8]) -> Result<Recognized, Refusal> {
    let (next, header_len) = match next {
        IpProtocol::ROUTING => {
            let header = srv6::Packet::new_checked(bytes)?;
            if header.segments_left() != 0 {
                return Err(Refusal::NotMine); // the packet visits this host, and goes on
            }
            (header.next_header(), header.header_len())
        }
        other => (other, 0),
    };
    let payload = Payload::of_ip_protocol(next).ok_or(Refusal::NotMine)?;
    // The destination, which is a segment of this host, has told which tunnel it is.
    Ok(Recognized::plain(Some(0), header_len, payload))
}

/// The network service header that a tunnel puts in front of its payload.
pub(crate) fn add_service(tunnel: &Tunnel, payload: Payload, headers: Headers) -> Option<Headers> {
    match tunnel.service {
        Some((path, index)) => headers.bytes(&nsh::type_1(path, index, payload.next_protocol())),
        None => Some(headers),
    }
}
