//! Frames of IPv4 with UDP or TCP, and what receivers make of them: checksums
//! (RFC 1071), tags (IEEE 802.1Q) and the hash of receive side scaling.
//!
//! What a driver and our model agree upon is compared with this: a second witness,
//! which a test below compares with crate `wire`.

/// Where the headers begin, in a frame without a tag.
pub const IP: usize = 14;
pub const L4: usize = IP + 20;
pub const TCP_DATA: usize = L4 + 20;

const UDP: u8 = 17;
const TCP: u8 = 6;

/// Who talks to whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flow {
    /// Destination address of Ethernet.
    pub to: [u8; 6],
    /// Sender's port; the rest of the flow stays the same.
    pub port: u16,
}

impl Flow {
    /// Addresses and ports in the order in which they are hashed.
    pub fn tuple(self) -> [u8; 12] {
        let [high, low] = self.port.to_be_bytes();
        [10, 0, 0, 1, 10, 0, 0, 2, high, low, 0, 9]
    }
}

/// A datagram in a frame of `length` bytes, both checksums right.
pub fn udp(flow: Flow, length: usize) -> Vec<u8> {
    let mut frame = ip(flow, UDP, length);
    let datagram = (length - L4) as u16;
    frame[L4 + 4..L4 + 6].copy_from_slice(&datagram.to_be_bytes());
    seal(&mut frame);
    frame
}

/// A segment in a frame of `length` bytes, both checksums right.
pub fn tcp(flow: Flow, sequence: u32, length: usize) -> Vec<u8> {
    let mut frame = ip(flow, TCP, length);
    frame[L4 + 4..L4 + 8].copy_from_slice(&sequence.to_be_bytes());
    // Header of five words, ACK and PSH, a window.
    frame[L4 + 8..L4 + 20].copy_from_slice(&[0, 0, 0, 1, 0x50, 0x18, 0xFF, 0xFF, 0, 0, 0, 0]);
    seal(&mut frame);
    frame
}

fn ip(flow: Flow, protocol: u8, length: usize) -> Vec<u8> {
    // Beyond the headers a pattern whose period is no power of two.
    let mut frame: Vec<u8> = (0..length).map(|n| (n % 251) as u8 ^ flow.port as u8).collect();
    frame[..6].copy_from_slice(&flow.to);
    frame[6..12].copy_from_slice(&[0x02, 0, 0, 0, 0, 1]);
    frame[12..14].copy_from_slice(&[0x08, 0x00]);
    frame[IP..L4]
        .copy_from_slice(&[0x45, 0, 0, 0, 0, 1, 0x40, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame[IP + 2..IP + 4].copy_from_slice(&((length - IP) as u16).to_be_bytes());
    frame[L4..L4 + 4].copy_from_slice(&flow.tuple()[8..]);
    frame
}

/// Where the checksum of UDP or TCP stands.
pub fn l4_checksum(frame: &[u8]) -> usize {
    if frame[IP + 9] == UDP { L4 + 6 } else { L4 + 16 }
}

/// What the last bytes of a marker begin with.
const MARK: [u8; 14] = *b"IXORA MARKER: ";

/// Two frames with this number that every port takes, to everyone and without a
/// tag: one that receive side scaling puts in each of two queues.
pub fn markers(number: u16) -> [Vec<u8>; 2] {
    // Ports whose hash is even and odd.
    [9000, 9001].map(|port| {
        let mut frame = udp(Flow { to: [0xFF; 6], port }, 60);
        let from = frame.len() - MARK.len() - 2;
        frame[from..][..MARK.len()].copy_from_slice(&MARK);
        frame[from + MARK.len()..].copy_from_slice(&number.to_be_bytes());
        seal(&mut frame);
        frame
    })
}

/// The number of a marker, whatever has become of its headers.
pub fn marker(frame: &[u8]) -> Option<u16> {
    let (rest, number) = frame.split_last_chunk()?;
    rest.ends_with(&MARK).then(|| u16::from_be_bytes(*number))
}

/// Puts right checksums into a frame.
fn seal(frame: &mut [u8]) {
    let place = l4_checksum(frame);
    for at in [IP + 10, place] {
        frame[at..at + 2].fill(0);
    }
    let header = !sum(&frame[IP..L4], 0);
    frame[IP + 10..IP + 12].copy_from_slice(&header.to_be_bytes());
    let checksum = !sum(&frame[L4..], pseudo(frame));
    frame[place..place + 2].copy_from_slice(&checksum.to_be_bytes());
}

/// Whether both checksums are right; padding is none of them.
pub fn checksums_hold(frame: &[u8]) -> bool {
    let total = usize::from(u16::from_be_bytes([frame[IP + 2], frame[IP + 3]]));
    let Some(packet) = frame.get(..IP + total) else { return false };
    sum(&packet[IP..L4], 0) == 0xFFFF && sum(&packet[L4..], pseudo(packet)) == 0xFFFF
}

/// The sum of the pseudo-header.
fn pseudo(packet: &[u8]) -> u32 {
    let length = (packet.len() - L4) as u32;
    u32::from(sum(&packet[IP + 12..IP + 20], 0)) + u32::from(packet[IP + 9]) + length
}

/// One's complement sum of big-endian words.
fn sum(bytes: &[u8], begin: u32) -> u16 {
    let words =
        bytes.chunks(2).map(|word| u32::from(word[0]) << 8 | word.get(1).map_or(0, |&low| low.into()));
    let sum = words.fold(begin, |sum, word| sum + word);
    let sum = (sum & 0xFFFF) + (sum >> 16);
    ((sum & 0xFFFF) + (sum >> 16)) as u16
}

/// The frame with a tag of this VLAN.
pub fn tagged(frame: &[u8], vlan: u16) -> Vec<u8> {
    let mut tagged = frame[..12].to_vec();
    tagged.extend_from_slice(&[0x81, 0x00]);
    tagged.extend_from_slice(&vlan.to_be_bytes());
    tagged.extend_from_slice(&frame[12..]);
    tagged
}

/// The key that drivers use by default, of Microsoft's "Verifying the RSS Hash Calculation".
pub const KEY: [u8; 40] = [
    0x6D, 0x5A, 0x56, 0xDA, 0x25, 0x5B, 0x0E, 0xC2, 0x41, 0x67, 0x25, 0x3D, 0x43, 0xA3, 0x8F, 0xB0, 0xD0,
    0xCA, 0x2B, 0xCB, 0xAE, 0x7B, 0x30, 0xB4, 0x77, 0xCB, 0x2D, 0xA3, 0x80, 0x30, 0xF2, 0x0C, 0x6A, 0x42,
    0xB7, 0x3B, 0xBE, 0xAC, 0x01, 0xFA,
];

/// Toeplitz hash with [`KEY`].
pub fn rss(input: &[u8]) -> u32 {
    let bit = |bytes: &[u8], n: usize| bytes[n / 8] >> (7 - n % 8) & 1 == 1;
    let window = |n: usize| (n..n + 32).fold(0, |window, n| window << 1 | u32::from(bit(&KEY, n)));
    (0..input.len() * 8).filter(|&n| bit(input, n)).fold(0, |hash, n| hash ^ window(n))
}

#[cfg(test)]
mod tests {
    use wire::ip::port::DISCARD;
    use wire::ip::{self, Protocol};
    use wire::ipv4;
    use wire::toeplitz::{MICROSOFT_KEY, Toeplitz};

    use super::*;

    const FLOW: Flow = Flow { to: [2, 0, 0, 0, 0, 9], port: 4711 };

    #[test]
    fn checksums_hold_until_a_bit_changes() {
        for frame in [udp(FLOW, 60), udp(FLOW, 1001), tcp(FLOW, 7, 60), tcp(FLOW, 7, 9001)] {
            assert!(checksums_hold(&frame));
            for at in [IP + 8, L4, frame.len() - 1] {
                let mut broken = frame.clone();
                broken[at] ^= 4;
                assert!(!checksums_hold(&broken), "{at}");
            }
        }
    }

    #[test]
    fn markers_are_known_and_one_is_for_each_queue() {
        let markers = markers(513);
        for (queue, frame) in markers.iter().enumerate() {
            assert_eq!((marker(frame), marker(&tagged(frame, 7))), (Some(513), Some(513)));
            assert!(checksums_hold(frame) && frame.len() == 60);
            let port = u16::from_be_bytes([frame[L4], frame[L4 + 1]]);
            assert_eq!(rss(&Flow { to: [0xFF; 6], port }.tuple()) as usize & 1, queue);
        }
        assert_eq!((marker(&udp(FLOW, 60)), marker(&[0])), (None, None));
    }

    #[test]
    fn the_hash_is_the_one_of_the_verification_suite() {
        // 66.9.149.187:2794 to 161.142.100.80:1766.
        let input = [66, 9, 149, 187, 161, 142, 100, 80, 0x0A, 0xEA, 0x06, 0xE6];
        assert_eq!(rss(&input), 0x51CC_C178);
        assert_eq!(rss(&input[..8]), 0x323E_8FC2);
    }

    #[test]
    fn these_frames_are_a_second_witness_to_the_views() {
        let toeplitz = Toeplitz::new(&MICROSOFT_KEY);
        for frame in [udp(FLOW, 60), udp(FLOW, 1001), tcp(FLOW, 7, 60), tcp(FLOW, 7, 9001)] {
            let flow = wire::Flow::of(&frame).expect("a flow");
            assert_eq!((flow.l3_offset(), flow.l4_offset(), flow.end), (IP, L4, frame.len()));
            assert_eq!(flow.ports, Some((FLOW.port, DISCARD)));
            assert_eq!(flow.rss_input().as_ref(), FLOW.tuple());
            assert_eq!(rss(&FLOW.tuple()), toeplitz.hash(flow.rss_input().as_ref()));
            assert!(ipv4::Packet::new_checked(&frame[IP..]).expect("a packet").verify_checksum());
            let right = match flow.protocol {
                Protocol::UDP => udp_view(&frame).verify_checksum(flow.addresses),
                _ => tcp_view(&frame).verify_checksum(flow.addresses),
            };
            assert!(right);
            let place = ip::checksum_offset(flow.protocol).expect("it has one");
            assert_eq!(l4_checksum(&frame), L4 + place);
            let tagged = tagged(&frame, 42);
            assert_eq!(wire::Flow::of(&tagged).expect("a flow").vlan, Some(42));
        }
        assert_eq!(tcp_view(&tcp(FLOW, 7, 60)).sequence(), 7);
    }

    fn udp_view(frame: &[u8]) -> wire::udp::Datagram<&[u8]> {
        wire::udp::Datagram::new_checked(&frame[L4..]).expect("a datagram")
    }

    fn tcp_view(frame: &[u8]) -> wire::tcp::Segment<&[u8]> {
        wire::tcp::Segment::new_checked(&frame[L4..]).expect("a segment")
    }

    #[test]
    fn a_tag_stands_behind_the_addresses() {
        let frame = udp(FLOW, 60);
        let with = tagged(&frame, 42);
        assert_eq!((with.len(), &with[12..16]), (64, &[0x81, 0, 0, 42][..]));
        assert_eq!(with[16..], frame[12..]);
    }
}
