//! RSS and hash reports: flows spread by the Toeplitz hash, which each packet
//! carries, and which is the one that a person would compute.

use crate::common::frames::{self, Sums, payload, tagged};
use crate::common::virtio::{Bench, RINGS, frame, model, offer, recv, sleepy, small_rings};
use memory::{Packet, PacketType, TxOffload};
use port::{Options, Rss};
use regs::virtio::feature::net;

const KEY: [u8; 40] = [
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0,
    0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42,
    0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
];

/// The Toeplitz hash, bit by bit as Microsoft's "RSS hashing" text defines it.
fn toeplitz(input: &[u8]) -> u32 {
    let bit = |bytes: &[u8], n: usize| bytes[n / 8] >> (7 - n % 8) & 1;
    let window = |n: usize| (0..32).fold(0, |window, at| window << 1 | u32::from(bit(&KEY, n + at)));
    (0..8 * input.len()).filter(|&n| bit(input, n) != 0).fold(0, |hash, n| hash ^ window(n))
}

/// The published vector: 66.9.149.187:2794 to 161.142.100.80:1766.
#[test]
fn the_tests_own_hash_is_the_published_one() {
    let input = [66, 9, 149, 187, 161, 142, 100, 80, 0x0A, 0xEA, 0x06, 0xE6];
    assert_eq!((toeplitz(&input), toeplitz(&input[..8])), (0x51CC_C178, 0x323E_8FC2));
}

/// A flow of its own for each `n`, without checksums.
fn flow(build: fn(&[u8], Sums) -> Vec<u8>, n: u8, len: usize) -> Vec<u8> {
    let mut frame = build(&payload(len), Sums::Full);
    let l4 = if frame[12] == 0x08 { 34 } else { 54 };
    frame[l4 - 1] = n.wrapping_mul(37);
    frame[l4 + 1] = n;
    frame
}

/// A packet of port 1, and the queue it came on.
fn cross(bench: &mut Bench, sent: &[u8]) -> (usize, Packet) {
    assert!(bench.try_send(0, 0, sent, TxOffload::default()));
    bench.run_until_idle();
    let Bench { sides, pool, .. } = bench;
    let queues = sides[1].rx.iter_mut().enumerate();
    let mut got: Vec<_> = queues
        .flat_map(|(n, queue)| recv(std::slice::from_mut(queue), pool).into_iter().map(move |p| (n, p)))
        .collect();
    assert_eq!(got.len(), 1);
    got.remove(0)
}

fn options(rx_queues: usize) -> Options {
    Options { rx_queues, rss: Rss { report: true, ..Rss::default() }, ..small_rings() }
}

#[test]
fn flows_spread_by_the_hash_that_each_packet_carries() {
    let (v4, v6, tcp, udp) = (PacketType::IPV4, PacketType::IPV6, PacketType::TCP, PacketType::UDP);
    for (name, ring) in RINGS {
        for max_frame in [1514, 9014] {
            for pairs in [2, 3, 4] {
                let options = Options { max_frame, ..options(pairs) };
                let mut bench = Bench::pair(&sleepy(offer(ring, 0)), &options);
                let flows = port::Port::flows(&bench.sides[1].device).unwrap();
                let mut seen = vec![0; pairs];
                let len = if max_frame > 1514 { 8000 } else { 100 };
                for n in 0..40 {
                    for (build, at, kind) in [
                        (frames::tcp4 as fn(&[u8], Sums) -> Vec<u8>, 26..38, v4 | tcp),
                        (frames::udp4, 26..38, v4 | udp),
                        (frames::tcp6, 22..58, v6 | tcp),
                        (frames::udp6, 22..58, v6 | udp),
                    ] {
                        let sent = flow(build, n, len);
                        let (queue, packet) = cross(&mut bench, &sent);
                        let hash = toeplitz(&sent[at.clone()]);
                        assert_eq!(packet.hash(), Some(hash), "{name}");
                        assert_eq!(
                            (packet.packet_type().0, queue),
                            (kind, (hash as usize & 127) % pairs),
                            "{name}"
                        );
                        assert_eq!(crate::common::contents(&packet), sent, "{name}");
                        let (addresses, ports) = sent[at.clone()].split_at(at.len() - 4);
                        let (src, dst) = addresses.split_at(addresses.len() / 2);
                        let ports = [[ports[0], ports[1]], [ports[2], ports[3]]];
                        assert_eq!(flows.hash(src, dst, Some(ports)), hash, "{name}");
                        assert_eq!(flows.queue(hash), queue, "{name}: the port says so before");
                        seen[queue] += 1;
                    }
                }
                assert!(seen.iter().all(|&count| count > 10), "{name}: {seen:?}");
                bench.finish();
            }
        }
    }
}

#[test]
fn flows_come_to_another_queue_while_the_port_runs() {
    let mut bench = Bench::pair(&model(offer(0, 0)), &options(4));
    let changes: Vec<_> = (0..128).step_by(2).map(|entry| (entry, 3)).collect();
    bench.meanwhile(|bench| port::Port::set_flow_queues(&mut bench.sides[1].device, &changes)).unwrap();
    let flows = port::Port::flows(&bench.sides[1].device).unwrap();
    let mut seen = [0; 4];
    for n in 0..80 {
        let (queue, packet) = cross(&mut bench, &flow(frames::udp4, n, 100));
        let hash = packet.hash().unwrap();
        let wanted = if hash % 2 == 0 { 3 } else { hash as usize % 4 };
        assert_eq!((queue, flows.queue(hash)), (wanted, wanted));
        seen[queue] += 1;
    }
    assert!(seen[0] == 0 && seen[1] > 5 && seen[3] > 20, "{seen:?}");
    bench.finish();
}

#[test]
fn what_has_no_ports_is_hashed_without_and_what_is_no_ip_not_at_all() {
    let mut bench = Bench::pair(&model(offer(0, 0)), &options(4));
    let mut fragment = frames::udp4(&payload(50), Sums::Full);
    fragment[20] = 0x20; // more fragments
    let mut icmp = frames::udp4(&payload(50), Sums::Full);
    icmp[23] = 1;
    for sent in [fragment, icmp] {
        let (queue, packet) = cross(&mut bench, &sent);
        let hash = toeplitz(&sent[26..34]);
        assert_eq!((packet.hash(), queue), (Some(hash), hash as usize % 4));
        assert_eq!(packet.packet_type().0, PacketType::IPV4);
    }
    let (queue, packet) = cross(&mut bench, &frame(1, 100));
    assert_eq!((packet.hash(), queue), (None, 0), "the driver named queue 0 for these");
    drop(packet);
    let sent = tagged(&frames::udp4(&payload(50), Sums::Full), 9);
    assert_eq!(cross(&mut bench, &sent).1.hash(), Some(toeplitz(&sent[30..42])), "behind a tag");
    bench.finish();
}

#[test]
fn a_hash_can_be_reported_without_spreading_by_it() {
    for (name, ring) in RINGS {
        for pairs in [1, 3] {
            let mut bench = Bench::pair(&sleepy(offer(ring, net::RSS)), &options(pairs));
            assert_ne!(bench.sides[1].device.features() & net::HASH_REPORT, 0);
            let flows = port::Port::flows(&bench.sides[1].device);
            assert_eq!(flows.is_some(), pairs == 1, "a device that chooses by itself does not say how");
            let mut seen = vec![0; pairs];
            for n in 0..40 {
                let sent = flow(frames::udp4, n, 100);
                let (queue, packet) = cross(&mut bench, &sent);
                assert_eq!(packet.hash(), Some(toeplitz(&sent[26..38])), "{name}");
                seen[queue] += 1;
            }
            assert!(seen.iter().all(|&count| count > 0), "{name}: all {pairs} are in use: {seen:?}");
            bench.finish();
        }
    }
}

#[test]
fn spreading_without_a_report_needs_no_longer_header() {
    let mut bench = Bench::pair(&model(offer(0, net::HASH_REPORT)), &options(4));
    let mut seen = [0; 4];
    for n in 0..80 {
        let sent = flow(frames::tcp4, n, 100);
        let (queue, packet) = cross(&mut bench, &sent);
        assert_eq!((packet.hash(), queue), (None, (toeplitz(&sent[26..38]) & 127) as usize % 4));
        seen[queue] += 1;
    }
    assert!(seen.iter().all(|&count| count > 5), "{seen:?}");
    bench.finish();
}

#[test]
fn a_flow_stays_on_its_queue_wherever_it_is_answered() {
    let mut bench = Bench::pair(&model(offer(0, 0)), &options(4));
    for n in 0..20 {
        let sent = flow(frames::udp4, n, 100);
        let (first, _) = cross(&mut bench, &sent);
        // Without RSS, sending on another pair would move it.
        for queue in 0..4 {
            assert!(bench.try_send(1, queue, &sent, TxOffload::default()));
        }
        bench.run_until_idle();
        assert_eq!(bench.recv(0).len(), 4);
        assert_eq!(cross(&mut bench, &sent).0, first);
    }
    bench.finish();
}
