//! Frames by the RFCs, built and checked without the driver's or model's code:
//! Ethernet II, IEEE 802.1Q, IPv4 (RFC 791), IPv6 (RFC 8200), UDP (RFC 768), TCP
//! (RFC 9293).

use wire::checksum;

pub const TO: [u8; 6] = [0x02, 0x49, 0x58, 0, 0, 2];
pub const FROM: [u8; 6] = [0x02, 0x49, 0x58, 0, 0, 1];
const UDP: u8 = 17;
const TCP: u8 = 6;

/// Whether a builder fills in checksums.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Sums {
    /// All checksums are right.
    Full,
    /// The header's is zero, the transport's that of the pseudo header.
    Pseudo,
    /// Likewise, but the pseudo header's length is zero: for segmentation.
    PseudoNoLength,
}

pub fn ethernet(to: [u8; 6], kind: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = [&to[..], &FROM, &kind.to_be_bytes(), payload].concat();
    frame.resize(frame.len().max(60), 0);
    frame
}

/// Puts a tag into a frame.
pub fn tagged(frame: &[u8], tag: u16) -> Vec<u8> {
    [&frame[..12], &[0x81, 0x00], &tag.to_be_bytes(), &frame[12..]].concat()
}

/// A frame in VXLAN over IPv4 without a UDP checksum (RFC 7348, section 5).
pub fn in_vxlan(frame: &[u8]) -> Vec<u8> {
    let vxlan = [&[8, 0, 0, 0, 0, 0, 100, 0][..], frame].concat();
    let mut outer = ipv4(UDP, &udp(&vxlan), Sums::Full);
    outer[40..42].fill(0);
    outer
}

/// Bytes that differ from place to place.
pub fn payload(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 31 + at / 256) as u8).collect()
}

pub fn udp4(payload: &[u8], sums: Sums) -> Vec<u8> {
    ipv4(UDP, &udp(payload), sums)
}

pub fn tcp4(payload: &[u8], sums: Sums) -> Vec<u8> {
    ipv4(TCP, &tcp(payload), sums)
}

pub fn udp6(payload: &[u8], sums: Sums) -> Vec<u8> {
    ipv6(UDP, &udp(payload), sums)
}

pub fn tcp6(payload: &[u8], sums: Sums) -> Vec<u8> {
    ipv6(TCP, &tcp(payload), sums)
}

fn udp(payload: &[u8]) -> Vec<u8> {
    let mut datagram = vec![0x12, 0x34, 0x56, 0x78, 0, 0, 0, 0];
    datagram[4..6].copy_from_slice(&(8 + payload.len() as u16).to_be_bytes());
    datagram.extend_from_slice(payload);
    datagram
}

/// Sequence number 0xFFFF_FF00, flags FIN, PSH, ACK and CWR.
fn tcp(payload: &[u8]) -> Vec<u8> {
    let mut segment = vec![0x12, 0x34, 0x56, 0x78, 0xFF, 0xFF, 0xFF, 0x00, 0, 0, 0, 9];
    segment.extend_from_slice(&[0x50, 0x99, 0x10, 0x00, 0, 0, 0, 0]);
    segment.extend_from_slice(payload);
    segment
}

fn ipv4(protocol: u8, transport: &[u8], sums: Sums) -> Vec<u8> {
    let mut header = [0x45, 0, 0, 0, 0x7F, 0xFE, 0x40, 0, 64, protocol, 0, 0, 10, 1, 2, 3, 198, 18, 0, 9];
    // What is cut may be longer than a header can say; it is set per segment.
    header[2..4].copy_from_slice(&((20 + transport.len()) as u16).to_be_bytes());
    let pseudo = pseudo(&header[12..20], protocol, transport.len(), sums);
    if sums == Sums::Full {
        let sum = checksum::of(&header);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
    }
    ethernet(TO, 0x0800, &[&header[..], &filled(protocol, transport, &pseudo, sums)].concat())
}

fn ipv6(protocol: u8, transport: &[u8], sums: Sums) -> Vec<u8> {
    let mut header = vec![0x60, 0, 0, 0, 0, 0, protocol, 64];
    header[4..6].copy_from_slice(&(transport.len() as u16).to_be_bytes());
    for host in [1, 2] {
        header.extend_from_slice(&[0x20, 1, 0x0D, 0xB8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, host]);
    }
    let pseudo = pseudo(&header[8..40], protocol, transport.len(), sums);
    ethernet(TO, 0x86DD, &[&header[..], &filled(protocol, transport, &pseudo, sums)].concat())
}

fn pseudo(addresses: &[u8], protocol: u8, len: usize, sums: Sums) -> Vec<u8> {
    let len = if sums == Sums::PseudoNoLength { 0 } else { len as u32 };
    [addresses, &len.to_be_bytes(), &[0, 0, 0, protocol]].concat()
}

fn filled(protocol: u8, transport: &[u8], pseudo: &[u8], sums: Sums) -> Vec<u8> {
    let mut transport = transport.to_vec();
    let field = if protocol == TCP { 16 } else { 6 };
    let sum = match sums {
        Sums::Full => checksum::of(&[pseudo, &transport].concat()),
        _ => checksum::sum(pseudo),
    };
    transport[field..field + 2].copy_from_slice(&sum.to_be_bytes());
    transport
}

/// Whether lengths and checksums of an untagged TCP or UDP frame are right.
pub fn is_right(frame: &[u8]) -> bool {
    let (addresses, protocol, transport) = match frame[12..14] {
        [0x08, 0x00] => {
            let end = 14 + usize::from(u16::from_be_bytes([frame[16], frame[17]]));
            if checksum::sum(&frame[14..34]) != 0xFFFF || end > frame.len() {
                return false;
            }
            (&frame[26..34], frame[23], &frame[34..end])
        }
        [0x86, 0xDD] => {
            let end = 54 + usize::from(u16::from_be_bytes([frame[18], frame[19]]));
            (&frame[22..54], frame[20], &frame[54..end.min(frame.len())])
        }
        _ => return false,
    };
    let pseudo = pseudo(addresses, protocol, transport.len(), Sums::Full);
    checksum::sum(&[&pseudo, transport].concat()) == 0xFFFF
}
