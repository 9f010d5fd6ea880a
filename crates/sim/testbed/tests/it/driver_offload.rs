//! Offloads: what the driver asks for is what arrives at the other end of the
//! cable. Checksums in and out, VLAN tags, segmentation, contexts reused.

use crate::common::Bench;
use crate::common::frames::{self, Sums, is_right, payload, tagged};
use memory::{Checksum, PacketType, TxOffload};
use port::{Feature, Options, Port as _, TxQueue as _};

const IP: u8 = TxOffload::IP_CHECKSUM;
const UDP: u8 = TxOffload::UDP_CHECKSUM;
const TCP: u8 = TxOffload::TCP_CHECKSUM;
const V6: u8 = TxOffload::IPV6;

fn ask(flags: u8) -> TxOffload {
    let (l3_len, l4_len) = (if flags & V6 == 0 { 20 } else { 40 }, if flags & UDP == 0 { 20 } else { 8 });
    TxOffload { flags, l2_len: 14, l3_len, l4_len, ..TxOffload::default() }
}

#[test]
fn checksums_are_inserted_whatever_was_asked_for_before() {
    let mut bench = Bench::pair(&Options::default());
    let bytes = payload(333); // odd: the last byte counts, too
    let kinds: [(u8, Vec<u8>, Vec<u8>); 4] = [
        (IP | UDP, frames::udp4(&bytes, Sums::Pseudo), frames::udp4(&bytes, Sums::Full)),
        (IP | TCP, frames::tcp4(&bytes, Sums::Pseudo), frames::tcp4(&bytes, Sums::Full)),
        (UDP | V6, frames::udp6(&bytes, Sums::Pseudo), frames::udp6(&bytes, Sums::Full)),
        (TCP | V6, frames::tcp6(&bytes, Sums::Pseudo), frames::tcp6(&bytes, Sums::Full)),
    ];
    // Twice each, and each after each: contexts are reused and replaced.
    for first in &kinds {
        for second in &kinds {
            for (flags, asked, wanted) in [first, second, second] {
                assert!(is_right(wanted) && !is_right(asked));
                assert_eq!(&bench.cross_one(asked, ask(*flags)), wanted, "flags {flags:#x}");
            }
            // A packet that asks for nothing stays as it is, in between.
            assert_eq!(bench.cross_one(&first.1, TxOffload::default()), first.1);
        }
    }
    bench.finish();
}

#[test]
fn each_checksum_can_be_asked_for_alone() {
    let mut bench = Bench::pair(&Options::default());
    let (pseudo, full) = (frames::udp4(b"alone", Sums::Pseudo), frames::udp4(b"alone", Sums::Full));
    let only_ip = bench.cross_one(&pseudo, ask(IP));
    assert_eq!((&only_ip[..34], &only_ip[34..]), (&full[..34], &pseudo[34..]));
    let only_udp = bench.cross_one(&pseudo, ask(UDP));
    assert_eq!((&only_udp[..34], &only_udp[34..42]), (&pseudo[..34], &full[34..42]));
    bench.finish();
}

/// What stands in front of the inner IP header: Ethernet, IPv4, UDP, VXLAN, Ethernet.
const OUTER: u8 = 14 + 20 + 8 + 8 + 14;

#[test]
fn checksums_inside_a_tunnel_are_inserted() {
    let mut bench = Bench::pair(&Options::default());
    assert!(bench.sides[0].device.capabilities().has(Feature::TunnelChecksum));
    let bytes = payload(333);
    let kinds: [(u8, Vec<u8>, Vec<u8>); 4] = [
        (IP | UDP, frames::udp4(&bytes, Sums::Pseudo), frames::udp4(&bytes, Sums::Full)),
        (IP | TCP, frames::tcp4(&bytes, Sums::Pseudo), frames::tcp4(&bytes, Sums::Full)),
        (UDP | V6, frames::udp6(&bytes, Sums::Pseudo), frames::udp6(&bytes, Sums::Full)),
        (TCP | V6, frames::tcp6(&bytes, Sums::Pseudo), frames::tcp6(&bytes, Sums::Full)),
    ];
    for (flags, asked, wanted) in &kinds {
        let inside = TxOffload { l2_len: OUTER, ..ask(flags | TxOffload::TUNNEL) };
        assert_eq!(bench.cross_one(&frames::in_vxlan(asked), inside), frames::in_vxlan(wanted));
        // The tag is the outer frame's.
        let tag = TxOffload { vlan: 9, flags: inside.flags | TxOffload::VLAN, ..inside };
        assert_eq!(bench.cross_one(&frames::in_vxlan(asked), tag), tagged(&frames::in_vxlan(wanted), 9));
        assert_eq!(&bench.cross_one(asked, ask(*flags)), wanted, "no tunnel, in between");
    }
    bench.finish();
}

#[test]
fn what_the_chip_does_not_do_is_counted_by_its_name() {
    let mut bench = Bench::pair(&Options::default());
    let segment = TxOffload { segment_size: 100, ..ask(TxOffload::SEGMENT | TCP | IP) };
    let frame = frames::in_vxlan(&frames::tcp4(&payload(700), Sums::PseudoNoLength));
    let wrong = [
        TxOffload { l2_len: OUTER, flags: segment.flags | TxOffload::TUNNEL, ..segment },
        // MACLEN has seven bits.
        TxOffload { l2_len: 128, ..ask(UDP | TxOffload::TUNNEL) },
    ];
    for (n, offload) in (1..).zip(wrong) {
        assert!(bench.cross(&frame, offload).is_empty());
        assert_eq!(bench.sides[0].tx[0].stats().unsendable, n);
    }
    let stats = bench.sides[0].device.stats();
    assert_eq!((stats.counter("tx_offload"), stats.counter("tx_unsendable")), (2, 0));
    bench.finish();
}

#[test]
fn checksum_status_tells_right_from_wrong_from_not_looked_at() {
    use Checksum::{Bad, Good, Unknown};
    let mut bench = Bench::pair(&Options::default());
    let broken = |frame: &[u8], at: usize| {
        let mut frame = frame.to_vec();
        frame[at] ^= 0x10;
        frame
    };
    let (udp, tcp, six) = (
        frames::udp4(b"checksums", Sums::Full),
        frames::tcp4(&payload(700), Sums::Full),
        frames::tcp6(&payload(99), Sums::Full),
    );
    let mut without = udp.clone();
    without[40..42].fill(0); // the sender made none
    let arp = frames::ethernet(frames::TO, 0x0806, &[0; 28]);
    let (v4, v6) = (PacketType::IPV4, PacketType::IPV6);
    let cases = [
        (udp.clone(), Good, Good, v4 | PacketType::UDP),
        (tcp.clone(), Good, Good, v4 | PacketType::TCP),
        (broken(&udp, 24), Bad, Good, v4 | PacketType::UDP),
        (broken(&udp, 45), Good, Bad, v4 | PacketType::UDP),
        (broken(&tcp, 500), Good, Bad, v4 | PacketType::TCP),
        (broken(&broken(&tcp, 500), 25), Bad, Bad, v4 | PacketType::TCP),
        (without, Good, Unknown, v4 | PacketType::UDP),
        (six.clone(), Unknown, Good, v6 | PacketType::TCP),
        (broken(&six, 100), Unknown, Bad, v6 | PacketType::TCP),
        (tagged(&broken(&udp, 45), 7), Good, Bad, v4 | PacketType::UDP),
        (arp, Unknown, Unknown, 0),
    ];
    for (n, (frame, ip, l4, kind)) in cases.iter().enumerate() {
        let packets = bench.cross(frame, TxOffload::default());
        let [packet] = &packets[..] else { panic!("case {n}: {} packets", packets.len()) };
        assert_eq!((packet.ip_checksum(), packet.l4_checksum()), (*ip, *l4), "case {n}");
        assert_eq!(packet.packet_type().0, *kind, "case {n}");
        assert_eq!(packet[..], frame[..], "case {n}: wrong or not, the frame is delivered");
    }
    bench.finish();
}

#[test]
fn tags_are_stripped_where_asked_and_else_left() {
    let plain = frames::udp4(b"tagged", Sums::Full);
    for strip in [true, false] {
        let mut bench = Bench::pair(&Options { vlan_strip: strip, ..Options::default() });
        for tag in [1, 0x2FFE, 0xFFFF] {
            let packets = bench.cross(&tagged(&plain, tag), TxOffload::default());
            let got = (packets[0].vlan(), packets[0].to_vec());
            let wanted = if strip { (Some(tag), plain.clone()) } else { (None, tagged(&plain, tag)) };
            assert_eq!(got, wanted);
        }
        let untagged = bench.cross(&plain, TxOffload::default());
        assert_eq!((untagged[0].vlan(), untagged[0].to_vec()), (None, plain.clone()));
        drop(untagged);
        bench.finish();
    }
}

#[test]
fn tags_are_inserted_alone_and_with_checksums() {
    let mut bench = Bench::pair(&Options::default());
    let full = frames::udp4(b"insert", Sums::Full);
    for vlan in [5, 6, 6, 0xE005] {
        let alone = TxOffload { flags: TxOffload::VLAN, l2_len: 14, vlan, ..TxOffload::default() };
        assert_eq!(bench.cross_one(&full, alone), tagged(&full, vlan));
        let both = TxOffload { vlan, ..ask(TxOffload::VLAN | IP | UDP) };
        let pseudo = frames::udp4(b"insert", Sums::Pseudo);
        assert_eq!(bench.cross_one(&pseudo, both), tagged(&full, vlan));
        // The tag ends with the packet that asked for it.
        assert_eq!(bench.cross_one(&pseudo, ask(IP | UDP)), full);
    }
    // A tag that stands in the packet moves the headers.
    let inside = TxOffload { l2_len: 18, ..ask(IP | UDP) };
    let pseudo = tagged(&frames::udp4(b"insert", Sums::Pseudo), 9);
    assert_eq!(bench.cross_one(&pseudo, inside), tagged(&full, 9));
    bench.finish();
}

type Build = fn(&[u8], Sums) -> Vec<u8>;

/// Cuts `whole` bytes by `size` and checks each segment against RFC 9293 and
/// the datasheet's 7.2.4.
fn segments(bench: &mut Bench, whole: usize, size: u16, v6: bool) {
    let bytes = payload(whole);
    let (build, l3) = if v6 { (frames::tcp6 as Build, 40) } else { (frames::tcp4 as Build, 20) };
    let flags = TxOffload::SEGMENT | TCP | if v6 { V6 } else { IP };
    let headers = 14 + l3 + 20;
    let offload = TxOffload { segment_size: size, ..ask(flags) };
    let packets = bench.cross(&build(&bytes, Sums::PseudoNoLength)[..headers + whole], offload);
    let pieces: Vec<_> = bytes.chunks(size.into()).collect();
    assert_eq!(packets.len(), pieces.len());
    for (n, (packet, piece)) in packets.iter().zip(&pieces).enumerate() {
        let frame = crate::common::contents(packet);
        assert!(is_right(&frame), "segment {n}: checksums");
        assert_eq!(
            (frame[headers..headers + piece.len()].to_vec(), packet.l4_checksum()),
            (piece.to_vec(), Checksum::Good)
        );
        assert_eq!(frame.len(), (headers + piece.len()).max(60));
        let be16 = |at| u16::from_be_bytes([frame[at], frame[at + 1]]);
        let len = (20 + piece.len()) as u16;
        if v6 {
            assert_eq!(be16(18), len);
        } else {
            assert_eq!((be16(16), be16(18)), (20 + len, 0x7FFE_u16.wrapping_add(n as u16)));
        }
        let l4 = 14 + l3;
        let sequence = u32::from_be_bytes(frame[l4 + 4..l4 + 8].try_into().unwrap());
        assert_eq!(sequence, 0xFFFF_FF00_u32.wrapping_add(n as u32 * u32::from(size)), "it wraps around");
        // FIN and PSH only on the last, CWR only on the first, ACK on all.
        let first = if n == 0 { 0x80 } else { 0 };
        let last = if n + 1 == pieces.len() { 0x09 } else { 0 };
        assert_eq!(frame[l4 + 13], 0x10 | first | last, "flags of segment {n} of {}", pieces.len());
    }
}

#[test]
fn large_packets_are_cut_into_right_segments() {
    let mut bench = Bench::pair(&Options::default());
    for v6 in [false, true] {
        for (whole, size) in
            [(10_000, 1440), (2_880, 1440), (2_881, 1440), (100, 1400), (1_000, 64), (60_000, 1200)]
        {
            segments(&mut bench, whole, size, v6);
        }
    }
    bench.finish();
}

#[test]
fn what_cannot_be_sent_is_counted_and_stops_nobody() {
    let mut bench = Bench::pair(&Options::default());
    let frame = frames::tcp4(&payload(200), Sums::PseudoNoLength);
    let segment = ask(TxOffload::SEGMENT | TCP | IP);
    let wrong = [
        TxOffload { segment_size: 0, ..segment },
        TxOffload { segment_size: 1000, l4_len: 220, ..segment }, // headers only
        TxOffload { l3_len: 255, ..ask(IP) },                     // headers behind the end
    ];
    for (n, offload) in (1..).zip(wrong) {
        assert!(bench.cross(&frame, offload).is_empty());
        assert_eq!(bench.sides[0].tx[0].stats().unsendable, n);
        let right = frames::udp4(b"goes on", Sums::Pseudo);
        assert!(is_right(&bench.cross_one(&right, ask(IP | UDP))));
    }
    assert_eq!(bench.sides[0].tx[0].stats().packets, 3);
    bench.finish();
}
