//! Offloads: what the driver asks for is what arrives at the other end of the
//! cable, whether the device does it (CSUM, HOST_TSO4, HOST_TSO6) or the driver;
//! and checksums that are still to be filled in arrive as whole packets.

use crate::common::contents;
use crate::common::frames::{self, Sums, is_right, payload, tagged};
use crate::common::limit::Limit;
use crate::common::virtio::{Bench, RINGS, model, offer, sleepy, small_rings};
use memory::{Checksum, TxOffload};
use model::virtio::Options as ModelOptions;
use port::{Offload, Options, TxQueue as _};
use regs::virtio::feature::{self, net};

const IP: u8 = TxOffload::IP_CHECKSUM;
const UDP: u8 = TxOffload::UDP_CHECKSUM;
const TCP: u8 = TxOffload::TCP_CHECKSUM;
const V6: u8 = TxOffload::IPV6;

fn ask(flags: u8) -> TxOffload {
    let (l3_len, l4_len) = (if flags & V6 == 0 { 20 } else { 40 }, if flags & UDP == 0 { 20 } else { 8 });
    TxOffload { flags, l2_len: 14, l3_len, l4_len, ..TxOffload::default() }
}

fn options(by_device: bool) -> Options {
    let tx_checksum = if by_device { Offload::On } else { Offload::Off };
    Options { tx_checksum, rx_checksum: Offload::On, ..small_rings() }
}

fn cross_one(bench: &mut Bench, bytes: &[u8], offload: TxOffload) -> Vec<u8> {
    let packets = bench.cross(bytes, offload);
    assert_eq!(packets.len(), 1, "one frame, one packet");
    contents(&packets[0])
}

#[test]
fn checksums_are_filled_in_by_either_side() {
    let bytes = payload(333); // odd: the last byte counts, too
    let kinds: [(u8, Vec<u8>, Vec<u8>); 4] = [
        (IP | UDP, frames::udp4(&bytes, Sums::Pseudo), frames::udp4(&bytes, Sums::Full)),
        (IP | TCP, frames::tcp4(&bytes, Sums::Pseudo), frames::tcp4(&bytes, Sums::Full)),
        (UDP | V6, frames::udp6(&bytes, Sums::Pseudo), frames::udp6(&bytes, Sums::Full)),
        (TCP | V6, frames::tcp6(&bytes, Sums::Pseudo), frames::tcp6(&bytes, Sums::Full)),
    ];
    for (name, ring) in RINGS {
        for by_device in [false, true] {
            let mut bench = Bench::pair(&model(offer(ring, 0)), &options(by_device));
            let has = bench.sides[0].device.features() & net::CSUM != 0;
            assert_eq!(has, by_device, "{name}");
            for (flags, asked, wanted) in &kinds {
                assert!(is_right(wanted) && !is_right(asked));
                assert_eq!(&cross_one(&mut bench, asked, ask(*flags)), wanted, "{name}: {flags:#x}");
                // A packet that asks for nothing stays as it is, in between.
                assert_eq!(&cross_one(&mut bench, asked, TxOffload::default()), asked, "{name}");
                let tag = TxOffload { vlan: 5, ..ask(flags | TxOffload::VLAN) };
                assert_eq!(cross_one(&mut bench, asked, tag), tagged(wanted, 5), "{name}: {flags:#x}");
            }
            let reports = bench.finish();
            assert_eq!(reports[0].counters["tx_checksums"], if by_device { 8 } else { 0 }, "{name}");
        }
    }
}

#[test]
fn checksums_inside_a_tunnel_are_filled_in_by_either_side() {
    const OUTER: u8 = 14 + 20 + 8 + 8 + 14;
    let bytes = payload(333);
    let kinds = [
        (IP | UDP, frames::udp4(&bytes, Sums::Pseudo), frames::udp4(&bytes, Sums::Full)),
        (TCP | V6, frames::tcp6(&bytes, Sums::Pseudo), frames::tcp6(&bytes, Sums::Full)),
    ];
    for (name, ring) in RINGS {
        for by_device in [false, true] {
            let mut bench = Bench::pair(&model(offer(ring, 0)), &options(by_device));
            for (flags, asked, wanted) in &kinds {
                let inside = TxOffload { l2_len: OUTER, ..ask(flags | TxOffload::TUNNEL) };
                let (asked, wanted) = (frames::in_vxlan(asked), frames::in_vxlan(wanted));
                assert_eq!(cross_one(&mut bench, &asked, inside), wanted, "{name}: {flags:#x}");
                let tag = TxOffload { vlan: 5, flags: inside.flags | TxOffload::VLAN, ..inside };
                assert_eq!(cross_one(&mut bench, &asked, tag), tagged(&wanted, 5), "{name}: {flags:#x}");
            }
            // Nobody cuts a tunnel's packet.
            let cut = ask(TxOffload::SEGMENT | TxOffload::TUNNEL | TCP | IP);
            let cut = TxOffload { l2_len: OUTER, segment_size: 100, ..cut };
            let whole = frames::in_vxlan(&frames::tcp4(&bytes, Sums::PseudoNoLength));
            assert!(bench.cross(&whole, cut).is_empty(), "{name}");
            assert_eq!(bench.counter(0, "tx_offload"), 1, "{name}");
            assert_eq!(bench.sides[0].tx[0].stats().unsendable, 1, "{name}");
            bench.finish();
        }
    }
}

#[test]
fn a_checksum_over_several_buffers() {
    for (name, ring) in RINGS {
        for by_device in [false, true] {
            let options = Options { max_frame: 9014, ..options(by_device) };
            let mut bench = Bench::pair(&model(offer(ring, 0)), &options);
            for len in [4000, 4001, 8900] {
                let bytes = payload(len);
                let sent = frames::udp4(&bytes, Sums::Pseudo);
                let wanted = frames::udp4(&bytes, Sums::Full);
                assert_eq!(cross_one(&mut bench, &sent, ask(IP | UDP)), wanted, "{name}: {len}");
            }
            bench.finish();
        }
    }
}

#[test]
fn checksums_that_are_still_to_be_filled_in_arrive_whole() {
    for (name, ring) in RINGS {
        for max_frame in [1514, 9014] {
            let partial = ModelOptions { partial_checksums: true, ..sleepy(offer(ring, 0)) };
            let mut bench = Bench::pair(&partial, &Options { max_frame, ..options(true) });
            let bytes = payload(if max_frame > 1514 { 8001 } else { 301 });
            let all = [
                frames::udp4(&bytes, Sums::Full),
                frames::tcp4(&bytes, Sums::Full),
                frames::udp6(&bytes, Sums::Full),
                frames::tcp6(&bytes, Sums::Full),
                tagged(&frames::tcp4(&bytes, Sums::Full), 9),
            ];
            for frame in &all {
                let packets = bench.cross(frame, TxOffload::default());
                assert_eq!(contents(&packets[0]), *frame, "{name}");
                assert_eq!(packets[0].l4_checksum(), Checksum::Good, "{name}");
            }
            assert_eq!(bench.counter(1, "rx_checksum_filled"), all.len() as u64, "{name}");
            // A wrong one is not made right.
            let mut wrong = all[0].clone();
            wrong[60] ^= 0x20;
            assert_eq!(contents(&bench.cross(&wrong, TxOffload::default())[0]), wrong, "{name}");
            // Who does not take them gets whole ones.
            let reports = bench.finish();
            assert_eq!(reports[1].counters["rx_checksum_partial"], all.len() as u64);
            let mut bench = Bench::pair(&partial, &Options { max_frame, ..small_rings() });
            assert_eq!(bench.cross_plain(&all[1]), [all[1].clone()], "{name}");
            bench.finish();
        }
    }
}

#[test]
fn checksum_status_tells_right_from_not_known() {
    use Checksum::{Good, Unknown};
    let mut bench = Bench::pair(&model(offer(0, 0)), &options(true));
    let (udp, six) = (frames::udp4(b"checksums", Sums::Full), frames::tcp6(&payload(99), Sums::Full));
    let mut broken = udp.clone();
    broken[45] ^= 0x10;
    let mut without = udp.clone();
    without[40..42].fill(0); // the sender made none
    let arp = frames::ethernet(frames::TO, 0x0806, &[0; 28]);
    for (frame, status) in [(udp, Good), (six, Good), (broken, Unknown), (without, Unknown), (arp, Unknown)] {
        let packets = bench.cross(&frame, TxOffload::default());
        assert_eq!((packets[0].l4_checksum(), contents(&packets[0])), (status, frame));
    }
    bench.finish();
}

type Build = fn(&[u8], Sums) -> Vec<u8>;

/// Cuts `whole` bytes by `size`, and checks each piece against RFC 9293.
fn segments(bench: &mut Bench, whole: usize, size: u16, v6: bool) {
    let bytes = payload(whole);
    let (build, l3) = if v6 { (frames::tcp6 as Build, 40) } else { (frames::tcp4 as Build, 20) };
    let flags = TxOffload::SEGMENT | TCP | if v6 { V6 } else { IP };
    let headers = 14 + l3 + 20;
    let offload = TxOffload { segment_size: size, ..ask(flags) };
    let packets = bench.cross(&build(&bytes, Sums::PseudoNoLength)[..headers + whole], offload);
    let pieces: Vec<_> = bytes.chunks(size.into()).collect();
    assert_eq!(packets.len(), pieces.len(), "{whole} by {size}");
    for (n, (packet, piece)) in packets.iter().zip(&pieces).enumerate() {
        let frame = contents(packet);
        assert!(is_right(&frame), "{whole} by {size}: checksums of {n}");
        assert_eq!(frame[headers..headers + piece.len()], **piece);
        let l4 = 14 + l3;
        let sequence = u32::from_be_bytes(frame[l4 + 4..l4 + 8].try_into().unwrap());
        assert_eq!(sequence, 0xFFFF_FF00_u32.wrapping_add(n as u32 * u32::from(size)), "it wraps around");
        // FIN and PSH only on the last, CWR only on the first, ACK on all.
        let first = if n == 0 { 0x80 } else { 0 };
        let last = if n + 1 == pieces.len() { 0x09 } else { 0 };
        assert_eq!(frame[l4 + 13], 0x10 | first | last, "flags of {n} of {}", pieces.len());
    }
}

#[test]
fn large_packets_are_cut_into_right_segments() {
    for (name, ring) in RINGS {
        // Without tables, packets may have as many parts as the longest frame.
        for without in [0, feature::INDIRECT_DESC] {
            let mut bench =
                Bench::pair(&sleepy(offer(ring, without)), &Options { max_frame: 15_500, ..options(true) });
            let taken = bench.sides[0].device.features();
            assert_eq!(taken & (net::HOST_UFO | net::HOST_ECN), 0, "{name}");
            for v6 in [false, true] {
                let most = if without == 0 { 60_000 } else { 14_000 };
                for (whole, size) in
                    [(10_000, 1440), (2_880, 1440), (2_881, 1440), (100, 1400), (1_000, 64), (most, 1200)]
                {
                    segments(&mut bench, whole, size, v6);
                }
            }
            let reports = bench.finish();
            assert_eq!(reports[0].counters["tx_cut"], 12, "{name}");
        }
    }
}

#[test]
fn what_cannot_be_sent_is_counted_and_stops_nobody() {
    for (name, ring) in RINGS {
        for by_device in [true, false] {
            let mut bench = Bench::pair(&model(offer(ring, 0)), &options(by_device));
            let frame = frames::tcp4(&payload(200), Sums::PseudoNoLength);
            let segment = ask(TxOffload::SEGMENT | TCP | IP);
            let wrong = [
                (frame.clone(), TxOffload { segment_size: 0, ..segment }),
                (frame.clone(), TxOffload { segment_size: 1000, l4_len: 220, ..segment }), // headers only
                (frame.clone(), TxOffload { l3_len: 255, ..ask(IP) }), // headers behind the end
                (payload(1600), TxOffload::default()),                 // longer than asked for
            ];
            for (n, (frame, offload)) in (1..).zip(wrong) {
                bench.try_send(0, 0, &frame, offload);
                bench.run_until_idle();
                assert!(bench.recv(1).is_empty(), "{name}");
                assert_eq!(bench.sides[0].tx[0].stats().unsendable, n, "{name}");
                let right = frames::udp4(b"goes on", Sums::Pseudo);
                assert!(is_right(&cross_one(&mut bench, &right, ask(IP | UDP))), "{name}");
            }
            // Where the device does not cut, that is what is wrong with the first two.
            let counted = ["tx_unsendable", "tx_offload"].map(|loss| bench.counter(0, loss));
            assert_eq!(counted, if by_device { [4, 0] } else { [2, 2] }, "{name}");
            bench.finish();
        }
    }
}

#[test]
fn a_segmentation_that_the_device_cannot_do_is_refused_by_name() {
    for without in [net::HOST_TSO4, net::CSUM] {
        let mut bench = Bench::pair(&model(offer(0, without)), &options(true));
        let frame = frames::tcp4(&payload(1000), Sums::PseudoNoLength);
        let cut = TxOffload { segment_size: 100, ..ask(TxOffload::SEGMENT | TCP | IP) };
        assert!(bench.cross(&frame, cut).is_empty());
        assert_eq!(bench.counter(0, "tx_offload"), 1);
        bench.finish();
    }
}

#[test]
fn tables_make_room_for_long_packets() {
    let fills = |ring: u64, without: u64| {
        let options = Options { max_frame: 9014, ..small_rings() };
        // Nobody steps the devices, so that the ring fills up.
        let mut bench = Bench::pair(&sleepy(offer(ring, without)), &options);
        let mut count = 0;
        let mut limit = Limit::rounds(257, "a ring of 256 to be full");
        while bench.try_send(0, 0, &crate::common::virtio::frame(count, 9000), TxOffload::default()) {
            limit.check();
            count += 1;
        }
        bench.run_until_idle();
        bench.recv(1);
        bench.finish();
        count
    };
    assert_eq!(fills(0, 0), 256, "each packet takes one entry");
    assert_eq!(fills(feature::RING_PACKED, 0), 256);
    assert_eq!(fills(0, feature::INDIRECT_DESC), 256 / 8, "each owns as many as it may need");
}
