//! Sources of frames, and what measures their delay.

use super::bench::{bench, hex, ip, try_bench, unhex};

#[test]
fn pause_frames_are_pulled_and_pushed() {
    let mut b = bench(
        "p :: EtherPauseSource(0:1:2:3:4:5, 390, LIMIT 2) -> Unqueue -> a :: Catch; \
         q :: EtherPauseSource(0:1:2:3:4:5, 1, DST 0:0:0:0:0:9, INTERVAL 10ms, ACTIVE false) -> b :: Catch",
    );
    let frame = b.at("a").remove(0);
    assert_eq!((frame.len(), &frame[..18]), (64, &unhex("0180c2000001 000102030405 8808 0001 0186")[..]));
    assert_eq!((b.at("a").len(), b.read("p.count", ""), b.at("b").len()), (2, "2".into(), 0));
    assert_eq!(b.read("p.dst", ""), "01-80-C2-00-00-01");
    assert_eq!(
        (b.write("q.pausetime", "7"), b.write("q.limit", "1"), b.write("q.active", "1")),
        Default::default()
    );
    b.step();
    let frame = b.at("b").remove(0);
    assert_eq!((&frame[..6], &frame[16..18], b.at("b").len()), (&[0, 0, 0, 0, 0, 9][..], &[0, 7][..], 1));
    assert_eq!(b.write("q.pausetime", "65536"), "type mismatch");
    assert_eq!(b.write("p.reset_counts", ""), "");
    b.step();
    assert_eq!(b.read("p.count", ""), "2");
    assert!(try_bench("EtherPauseSource(0:1:2:3:4:5) -> Discard").is_err());
}

#[test]
fn datagrams_over_ipv6_are_made_as_they_are_pulled() {
    let mut b = bench(
        "s :: FastUDPSourceIP6(0, 3, 70, 0:0:0:0:0:1, 2001:db8::1, 1000, 0:0:0:0:0:2, 2001:db8::2, 2000, \
         INTERVAL 2) -> Unqueue -> a :: Catch",
    );
    let frames = b.at("a");
    assert_eq!((frames.len(), b.read("s.count", "")), (3, "3".into()));
    for (frame, ports) in frames.iter().zip([[1000, 2000], [1000, 2000], [1001, 2001]]) {
        let ip = wire::ipv6::Packet::new_checked(&frame[14..]).expect("an IPv6 packet");
        let udp = wire::udp::Datagram::new_checked(ip.payload()).expect("a datagram");
        assert_eq!((frame.len(), frame[21], ip.payload().len()), (70, 250, 16));
        assert_eq!([udp.src_port(), udp.dst_port()], ports);
        assert!(udp.verify_checksum(ip.addresses()));
    }
    let caught = &b.caught()[0];
    assert_eq!((caught.network, caught.transport), (Some(14), Some(54)));
    assert!(b.printed().is_empty(), "{}", b.printed());
    let short = bench("FastUDPSourceIP6(0, 1, 10, 0:0:0:0:0:1, ::1, 1, 0:0:0:0:0:2, ::2, 2, false) -> Idle");
    drop(short);
}

/// The numbers behind the UDP header.
fn record(packet: &[u8]) -> Vec<u32> {
    let words = packet[28..48].chunks(4);
    words.map(|word| u32::from_be_bytes(word.try_into().expect("four"))).collect()
}

#[test]
fn a_number_and_a_time_are_written_and_the_checksum_kept() {
    let mut datagram = unhex("0001 0002 0000 0000");
    datagram[5] = 8 + 22;
    datagram.extend([0xAB; 22]);
    let plain = ip(17, 9, &[], &datagram);
    let mut summed = plain.clone();
    {
        let mut view = wire::udp::Datagram::new_unchecked(&mut summed[20..]);
        let ends = wire::ipv4::Packet::new_checked(&plain[..]).expect("a packet").addresses();
        view.fill_checksum(ends);
    }
    let packets = [&plain[..], &summed, &plain[..40], &[0x15; 60]].map(hex).join(", ");
    let mut b = bench(&format!(
        "Feed({packets}) -> r :: StoreUDPTimeSeqRecord(0) -> t :: Tee(2) -> a :: Catch; \
         t[1] -> d :: StoreUDPTimeSeqRecord(0, DELTA true) -> b :: Catch"
    ));
    let (stored, delta) = (b.at("a"), b.at("b"));
    assert_eq!((stored.len(), delta.len(), b.read("r.count", "")), (2, 2, "2".into()));
    assert_eq!(b.drops(1), [1, 0, 1]);
    assert_eq!(b.printed(), "Unknown IP version!\n");
    let records = [record(&stored[0]), record(&stored[1])];
    assert_eq!(records[0], [1, 1_000_000_000, records[0][2], 0, 0]);
    assert_eq!((records[1][0], &stored[1][48..]), (2, &[0xAB, 0xAB][..]));
    assert_eq!(record(&delta[1])[..4], [2, 1_000_000_000, records[1][2], 0]);
    assert_eq!(stored[0][26..28], [0, 0], "no checksum stays none");
    for packet in [&stored[1], &delta[1]] {
        let ends = wire::ipv4::Packet::new_checked(&packet[..]).expect("a packet").addresses();
        assert!(wire::udp::Datagram::new_checked(&packet[20..]).expect("a datagram").verify_checksum(ends));
    }
    assert_eq!((b.write("r.reset", ""), b.read("r.count", "")), (String::new(), "0".into()));
    let six = bench("Feed(\\<60000000 0000063b>) -> s :: StoreUDPTimeSeqRecord(0) -> Discard");
    assert_eq!(six.drops(1), [1, 0, 0]);
}
