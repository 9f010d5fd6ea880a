//! Our XL710 driver on our XL710 model, stepped by hand: frames both ways, offloads, spreading,
//! filters, long frames, the link, counters. After each test every buffer is back, nothing is
//! mapped, the accounts balance and the linter found nothing.

use crate::common::frames::{self, Sums, ethernet, is_right, payload, tagged};
use crate::common::i40e::Bench;
use crate::common::{contents, run_until_idle};
use memory::{Batch, Checksum, PacketType, TxOffload};
use port::{Completion, Filters as _, Options, Port as _, RxQueue as _, TxQueue as _};
use regs::i40e::{GLQF_HASH_INSET, class, inset};
use testbed::inprocess::while_stepping;
use testbed::ixgbe;

const IP: u8 = TxOffload::IP_CHECKSUM;
const UDP: u8 = TxOffload::UDP_CHECKSUM;
const TCP: u8 = TxOffload::TCP_CHECKSUM;
const V6: u8 = TxOffload::IPV6;

fn ask(flags: u8) -> TxOffload {
    let (l3_len, l4_len) = (if flags & V6 == 0 { 20 } else { 40 }, if flags & UDP == 0 { 20 } else { 8 });
    TxOffload { flags, l2_len: 14, l3_len, l4_len, ..TxOffload::default() }
}

#[test]
pub fn frames_cross_in_either_direction_and_are_counted() {
    let mut bench = Bench::pair(&Options::default());
    assert_eq!(bench.sides[0].device.mac(), ixgbe::mac(0));
    for len in [60, 61, 333, 1514] {
        let frame = frames::udp4(&payload(len - 42), Sums::Full);
        assert_eq!(bench.cross_one(&frame, TxOffload::default()), frame);
        bench.send(1, &frame, TxOffload::default());
        run_until_idle(&bench.handles);
        assert_eq!(bench.recv(0).iter().map(contents).collect::<Vec<_>>(), [frame]);
    }
    let stats = bench.sides[1].device.stats();
    assert_eq!((stats.rx_packets, stats.tx_packets), (4, 4));
    assert_eq!(stats.rx_bytes, 60 + 61 + 333 + 1514 + 4 * 4, "with CRC");
    assert_eq!(stats.losses().map(|(_, lost)| lost).sum::<u64>(), 0);
    let reports = bench.finish();
    assert!(reports[0].counters["commands"] > 20);
}

#[test]
pub fn many_frames_go_round_both_rings() {
    for completion in [Completion::Report, Completion::Head] {
        let options = Options { rx_ring: 64, tx_ring: 64, completion, ..Options::default() };
        let mut bench = Bench::pair(&options);
        for n in 0..300u16 {
            let frame = frames::udp4(&n.to_le_bytes().repeat(100), Sums::Full);
            assert_eq!(bench.cross_one(&frame, TxOffload::default()), frame, "{completion:?} {n}");
        }
        bench.finish();
    }
}

#[test]
pub fn a_port_opened_again_counts_from_zero() {
    let mut bench = Bench::pair(&Options::default());
    let frame = frames::udp4(b"again", Sums::Full);
    bench.cross_one(&frame, TxOffload::default());
    assert_eq!((bench.counter(1, "UPRC"), bench.counter(1, "PRC")), (1, 1));
    let gone = bench.sides.remove(1);
    while_stepping(&bench.handles.clone(), || drop(gone)).unwrap();
    let side = bench.reopen(1, &Options::default());
    bench.sides.push(side);
    assert_eq!(bench.counter(1, "UPRC"), 0, "the device's own counter stays");
    bench.cross_one(&frame, TxOffload::default());
    assert_eq!(bench.counter(1, "UPRC"), 1);
    bench.finish();
}

#[test]
pub fn packets_are_those_of_the_function_not_of_the_port() {
    let mut bench = Bench::pair(&Options { promiscuous: false, ..Options::default() });
    let frame = frames::udp4(b"mine", Sums::Full);
    bench.cross_one(&frame, TxOffload::default());
    assert!(bench.cross(&ethernet(OTHER, 0x88B5, &payload(50)), TxOffload::default()).is_empty());
    assert_eq!((bench.counter(1, "UPRC"), bench.counter(1, "PRC")), (2, 1));
    assert_eq!(bench.counter(0, "PTC"), 2);
    bench.finish();
}

/// The chip takes a packet of fewer than 17 bytes for malicious, and stops the queue.
#[test]
pub fn packets_too_short_for_the_chip_are_counted_and_not_sent() {
    let mut bench = Bench::pair(&Options::default());
    for (count, len) in [(1, 1), (2, 14), (3, 16)] {
        let frame = frames::udp4(&payload(60), Sums::Full);
        assert!(bench.cross(&frame[..len], TxOffload::default()).is_empty());
        assert_eq!(bench.sides[0].tx[0].stats().unsendable, count, "{len}");
    }
    // With an offload they go another way.
    let tag = TxOffload { vlan: 5, ..ask(TxOffload::VLAN) };
    assert!(bench.cross(&[2; 16], tag).is_empty());
    assert_eq!(bench.sides[0].device.stats().lost(port::Reason::TxUnsendable), 4);
    assert!(bench.sides[0].device.health().is_ok());
    let frame = frames::udp4(b"after", Sums::Full);
    assert_eq!(bench.cross_one(&frame[..17], TxOffload::default())[..17], frame[..17]);
    assert_eq!(bench.cross_one(&frame, TxOffload::default())[..frame.len()], frame);
    bench.finish();
}

#[test]
pub fn what_the_card_hashes_is_as_it_was_when_the_port_has_gone() {
    let mut options = Options { rx_queues: 2, ..Options::default() };
    options.rss.ports = false;
    let mut bench = Bench::pair(&options);
    let bar = bench.pcis[1].bar(0).unwrap();
    let inset = || bar.read32(GLQF_HASH_INSET::at(2 * class::IPV4_UDP as usize + 1));
    let ports = ((inset::SRC_PORT | inset::DST_PORT) >> 32) as u32;
    assert_eq!(inset() & ports, 0, "the port asked for addresses alone");
    let gone = bench.sides.remove(1);
    while_stepping(&bench.handles.clone(), || drop(gone)).unwrap();
    assert_eq!(inset() & ports, ports);
    bench.finish();
}

#[test]
pub fn checksums_are_inserted_as_asked() {
    let mut bench = Bench::pair(&Options::default());
    let bytes = payload(333); // odd: the last byte counts, too
    let kinds: [(u8, Vec<u8>, Vec<u8>); 4] = [
        (IP | UDP, frames::udp4(&bytes, Sums::Pseudo), frames::udp4(&bytes, Sums::Full)),
        (IP | TCP, frames::tcp4(&bytes, Sums::Pseudo), frames::tcp4(&bytes, Sums::Full)),
        (UDP | V6, frames::udp6(&bytes, Sums::Pseudo), frames::udp6(&bytes, Sums::Full)),
        (TCP | V6, frames::tcp6(&bytes, Sums::Pseudo), frames::tcp6(&bytes, Sums::Full)),
    ];
    for (flags, asked, wanted) in &kinds {
        assert_eq!(&bench.cross_one(asked, ask(*flags)), wanted, "flags {flags:#x}");
        let nameless = TxOffload { l4_len: 0, ..ask(*flags) };
        assert_eq!(&bench.cross_one(asked, nameless), wanted, "the transport header's length is not named");
        assert_eq!(&bench.cross_one(asked, TxOffload::default()), asked, "nothing asked, nothing done");
    }
    let (pseudo, full) = (frames::udp4(b"alone", Sums::Pseudo), frames::udp4(b"alone", Sums::Full));
    let only_ip = bench.cross_one(&pseudo, ask(IP));
    assert_eq!((&only_ip[..34], &only_ip[34..]), (&full[..34], &pseudo[34..]));
    let only_udp = bench.cross_one(&pseudo, ask(UDP));
    assert_eq!((&only_udp[..34], &only_udp[34..42]), (&pseudo[..34], &full[34..42]));
    bench.finish();
}

#[test]
pub fn checksum_status_tells_right_from_wrong_from_not_looked_at() {
    use Checksum::{Bad, Good, Unknown};
    let mut bench = Bench::pair(&Options::default());
    let broken = |frame: &[u8], at: usize| {
        let mut frame = frame.to_vec();
        frame[at] ^= 0x10;
        frame
    };
    let udp = frames::udp4(b"checksums", Sums::Full);
    let (tcp, six) = (frames::tcp4(&payload(700), Sums::Full), frames::tcp6(&payload(99), Sums::Full));
    let arp = ethernet(frames::TO, 0x0806, &[0; 28]);
    let (v4, v6) = (PacketType::IPV4, PacketType::IPV6);
    let cases = [
        (udp.clone(), Good, Good, v4 | PacketType::UDP),
        (tcp.clone(), Good, Good, v4 | PacketType::TCP),
        (broken(&udp, 24), Bad, Good, v4 | PacketType::UDP),
        (broken(&tcp, 500), Good, Bad, v4 | PacketType::TCP),
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
pub fn tags_are_stripped_where_asked_and_inserted_with_checksums() {
    let plain = frames::udp4(b"tagged", Sums::Full);
    for strip in [true, false] {
        let mut bench = Bench::pair(&Options { vlan_strip: strip, ..Options::default() });
        for vlan in [1, 0x2FFE, 0xE005] {
            let wanted = if strip { (Some(vlan), plain.clone()) } else { (None, tagged(&plain, vlan)) };
            let packets = bench.cross(&tagged(&plain, vlan), TxOffload::default());
            assert_eq!((packets[0].vlan(), packets[0].to_vec()), wanted);
            let both = TxOffload { vlan, ..ask(TxOffload::VLAN | IP | UDP) };
            let packets = bench.cross(&frames::udp4(b"tagged", Sums::Pseudo), both);
            assert_eq!((packets[0].vlan(), packets[0].to_vec()), wanted);
        }
        bench.finish();
    }
}

#[test]
pub fn large_packets_are_cut_into_right_segments() {
    let mut bench = Bench::pair(&Options::default());
    for (v6, size) in [(false, 300u16), (true, 1440), (false, 256)] {
        let bytes = payload(5000);
        let (frame, l3) = match v6 {
            true => (frames::tcp6(&bytes, Sums::PseudoNoLength), 40),
            false => (frames::tcp4(&bytes, Sums::PseudoNoLength), 20),
        };
        let flags = TxOffload::SEGMENT | TCP | if v6 { V6 } else { IP };
        let packets = bench.cross(&frame, TxOffload { segment_size: size, ..ask(flags) });
        let pieces: Vec<_> = bytes.chunks(size.into()).collect();
        assert_eq!(packets.len(), pieces.len());
        for (packet, piece) in packets.iter().zip(pieces) {
            let (frame, headers) = (contents(packet), 14 + l3 + 20);
            assert!(is_right(&frame), "checksums");
            assert_eq!(&frame[headers..headers + piece.len()], piece);
        }
    }
    // Fewer bytes in a segment than the chip takes, or headers longer than it can be told:
    // counted, not sent.
    let frame = frames::tcp4(&payload(500), Sums::PseudoNoLength);
    let whole = TxOffload { segment_size: 300, ..ask(TxOffload::SEGMENT | TCP | IP) };
    let wrong = [
        TxOffload { segment_size: 255, ..whole },
        TxOffload { l4_len: 64, ..whole },
        TxOffload { l4_len: 220, ..whole },
    ];
    for (count, offload) in (1..).zip(wrong) {
        assert!(bench.cross(&frame, offload).is_empty());
        assert_eq!(bench.sides[0].tx[0].stats().unsendable, count, "{offload:?}");
    }
    assert!(!bench.cross(&frame, whole).is_empty(), "the queue goes on");
    bench.finish();
}

#[test]
pub fn long_frames_come_in_several_buffers() {
    let mut bench = Bench::pair(&Options { max_frame: 9716, ..Options::default() });
    for len in [1514, 2047, 2048, 2049, 4096, 9716] {
        let frame = frames::udp4(&payload(len - 42), Sums::Full);
        let packets = bench.cross(&frame, TxOffload::default());
        assert_eq!(packets.len(), 1, "{len}");
        assert_eq!(packets[0].segments().count(), len.div_ceil(memory::DATA_ROOM), "{len}");
        assert_eq!(contents(&packets[0]), frame, "{len}");
        assert_eq!(packets[0].l4_checksum(), Checksum::Good);
    }
    // A port for shorter ones drops them.
    let gone = bench.sides.remove(1);
    while_stepping(&bench.handles.clone(), || drop(gone)).unwrap();
    let side = bench.reopen(1, &Options::default());
    bench.sides.push(side);
    let frame = frames::udp4(&payload(9000), Sums::Full);
    assert!(bench.cross(&frame, TxOffload::default()).is_empty());
    let stats = bench.sides[1].device.stats();
    assert_eq!((stats.lost(port::Reason::RxOversize), stats.rx_packets), (1, 0));
    assert_eq!(bench.finish()[1].drops["rx_oversize"], 1);
}

#[test]
pub fn flows_come_to_the_queues_that_the_port_names() {
    for ports in [true, false] {
        let mut options = Options { rx_queues: 3, ..Options::default() };
        options.rss.ports = ports;
        let mut bench = Bench::pair(&options);
        let flows = bench.sides[1].device.flows().expect("it spreads flows");
        let mut used = [0; 3];
        for n in 0..64u8 {
            let mut frame = frames::udp4(&payload(64), Sums::Full);
            (frame[29], frame[35]) = (n, n ^ 0x55); // address and port
            bench.send(0, &frame, TxOffload::default());
            run_until_idle(&bench.handles);
            let hash = flows.hash(
                &frame[26..30],
                &frame[30..34],
                Some([[frame[34], frame[35]], [frame[36], frame[37]]]),
            );
            for (queue, count) in (0..).zip(&mut used) {
                let mut batch = Batch::default();
                bench.sides[1].rx[queue].recv(&mut bench.pool, &mut batch);
                for packet in batch.drain() {
                    assert_eq!((packet.hash(), flows.queue(hash)), (Some(hash), queue));
                    *count += 1;
                }
            }
        }
        assert_eq!(used.iter().sum::<i32>(), 64);
        assert!(used.iter().all(|count| *count > 5), "{used:?}");
        // What a queue that goes had comes to the others.
        let gone = bench.sides[1].rx.remove(1);
        while_stepping(&bench.handles.clone(), || drop(gone)).unwrap();
        for n in 0..64u8 {
            let mut frame = frames::udp4(&payload(64), Sums::Full);
            frame[29] = n;
            bench.cross_one(&frame, TxOffload::default());
        }
        bench.finish();
    }
}

const OTHER: [u8; 6] = [0x02, 0, 0, 0, 0, 0x77];
const GROUP: [u8; 6] = [0x01, 0x00, 0x5E, 0x00, 0x00, 0xFB];
const GROUP2: [u8; 6] = [0x33, 0x33, 0x00, 0x00, 0x00, 0x01];
const ALL: [u8; 6] = [0xFF; 6];

/// Which destinations get through: own, other, two groups, broadcast.
fn heard(bench: &mut Bench) -> [bool; 5] {
    [frames::TO, OTHER, GROUP, GROUP2, ALL].map(|to| {
        let packets = bench.cross(&ethernet(to, 0x88B5, &payload(50)), TxOffload::default());
        assert!(packets.iter().all(|packet| packet[..6] == to) && packets.len() <= 1);
        packets.len() == 1
    })
}

#[test]
pub fn filters_let_through_what_was_asked_for() {
    let mut bench = Bench::pair(&Options { promiscuous: false, ..Options::default() });
    assert_eq!(heard(&mut bench), [true, false, false, false, true]);
    bench.sides[1].device.add_mac(OTHER).unwrap();
    bench.sides[1].device.add_mac(GROUP).unwrap();
    assert_eq!(heard(&mut bench), [true, true, true, false, true]);
    assert!(bench.sides[1].device.remove_mac(OTHER).unwrap());
    assert!(!bench.sides[1].device.remove_mac(OTHER).unwrap());
    bench.sides[1].device.set_all_multicast(true).unwrap();
    assert_eq!(heard(&mut bench), [true, false, true, true, true]);
    bench.sides[1].device.set_all_multicast(false).unwrap();
    bench.sides[1].device.set_promiscuous(true).unwrap();
    assert_eq!(heard(&mut bench), [true; 5]);
    bench.sides[1].device.set_promiscuous(false).unwrap();
    bench.sides[1].device.set_broadcast(false).unwrap();
    assert_eq!(heard(&mut bench), [true, false, true, false, false]);
    bench.sides[1].device.set_broadcast(true).unwrap();
    bench.sides[1].device.stop().unwrap();
    assert_eq!(heard(&mut bench), [false; 5]);
    bench.sides[1].device.start().unwrap();
    assert_eq!(heard(&mut bench), [true, false, true, false, true]);
    bench.finish();
}

#[test]
pub fn vlans_are_filtered_for_each_address() {
    let mut bench = Bench::pair(&Options { promiscuous: false, ..Options::default() });
    let frame = frames::udp4(b"vlan", Sums::Full);
    let heard = |bench: &mut Bench, vlan: Option<u16>| {
        let frame = vlan.map_or(frame.clone(), |vlan| tagged(&frame, vlan));
        !bench.cross(&frame, TxOffload::default()).is_empty()
    };
    assert!([None, Some(5), Some(6)].into_iter().all(|vlan| heard(&mut bench, vlan)), "no filter");
    bench.sides[1].device.set_vlan_filter(true).unwrap();
    bench.sides[1].device.set_vlan(5, true).unwrap();
    assert_eq!([None, Some(5), Some(6)].map(|vlan| heard(&mut bench, vlan)), [true, true, false]);
    bench.sides[1].device.set_promiscuous(true).unwrap();
    assert_eq!([None, Some(5), Some(6)].map(|vlan| heard(&mut bench, vlan)), [true, true, false]);
    bench.sides[1].device.set_vlan(5, false).unwrap();
    assert_eq!([None, Some(5)].map(|vlan| heard(&mut bench, vlan)), [true, false]);
    bench.sides[1].device.set_vlan_filter(false).unwrap();
    assert!(heard(&mut bench, Some(6)));
    bench.finish();
}

#[test]
pub fn a_full_table_of_filters_is_an_error_and_nothing_is_changed() {
    let mut bench = Bench::pair(&Options { promiscuous: false, ..Options::default() });
    let device = &mut bench.sides[1].device;
    let address = |n: u16| [2, 0xAA, 0, 0, (n >> 8) as u8, n as u8];
    // The port's own and broadcast have a filter each.
    (0..1534).for_each(|n| device.add_mac(address(n)).unwrap());
    let full = device.add_mac(address(1534)).unwrap_err();
    assert!(matches!(full, port::Error::TableFull { capacity: 1536, .. }), "{full}");
    assert!(device.remove_mac(address(7)).unwrap());
    device.add_mac(address(1534)).unwrap();
    // With VLANs, each address needs two filters.
    assert!(device.set_vlan(5, true).is_ok() && device.set_vlan_filter(true).is_err());
    let frame = tagged(&frames::udp4(b"still", Sums::Full), 6);
    assert_eq!(bench.cross_one(&frame, TxOffload::default()), frame, "any VLAN still");
    bench.finish();
}

#[test]
pub fn the_link_follows_the_cable() {
    let bench = Bench::open(&["fault:flap=2s/1s+sink"], &Options::default());
    assert_eq!(bench.sides[0].device.link(), port::Link::up(40_000));
    // Each event but the first comes only when the driver asked for it anew.
    for second in [0, 2] {
        bench.handles[0].step(second * 1_000_000_000 + 1_500_000_000);
        assert!(!bench.sides[0].device.link().up, "{second}");
        bench.handles[0].step(second * 1_000_000_000 + 2_500_000_000);
        assert!(bench.sides[0].device.link().up, "{second}");
    }
    bench.finish();
}

#[test]
pub fn a_queue_wakes_who_sleeps_on_it() {
    let options = Options { interrupts: true, rx_queues: 2, ..Options::default() };
    let mut bench = Bench::pair(&options);
    let frame = frames::udp4(&payload(100), Sums::Full);
    let woken = |bench: &mut Bench| {
        [0, 1].map(|queue| {
            let event = bench.sides[1].rx[queue].arm().expect("opened with interrupts");
            let mut polled = [rustix::event::PollFd::new(&event, rustix::event::PollFlags::IN)];
            let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
            rustix::event::poll(&mut polled, Some(&now)).unwrap() > 0
        })
    };
    assert_eq!(woken(&mut bench), [false, false]);
    bench.send(0, &frame, TxOffload::default());
    run_until_idle(&bench.handles);
    let one = woken(&mut bench);
    assert_eq!(one.iter().filter(|woken| **woken).count(), 1, "one queue's");
    bench.sides[1].rx.iter_mut().for_each(|queue| queue.disarm());
    assert_eq!(bench.recv(1).len(), 1);
    run_until_idle(&bench.handles);
    bench.finish();
}
