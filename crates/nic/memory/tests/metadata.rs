//! What stands beside a packet's bytes, bit for bit, and a packet's bounds to the byte.

use memory::annotation::{Annotations, Header, Reach};
use memory::{
    Backing, Checksum, DATA_ROOM, Dma, HEADROOM, Options, Packet, PacketType, Pool, RxFlags, TooLong,
    TxOffload,
};

fn pool() -> Pool {
    Pool::new(&Dma::new(Options { backing: Backing::Memfd, numa_node: None }), 8).expect("memory")
}

fn packet(bytes: &[u8]) -> Packet {
    let mut packet = pool().alloc().expect("a buffer");
    packet.copy_from(bytes).expect("fits");
    packet
}

/// A packet of which a device said this: RSS and packet type, hash, status and error,
/// length, tag (82599 datasheet 7.1.6.2).
fn received(kind: u32, hash: u32, flags: u32, len: u16, vlan: u16) -> Packet {
    let mut packet = pool().alloc().expect("a buffer");
    let high = u64::from(flags) | u64::from(len) << 32 | u64::from(vlan) << 48;
    packet.set_received(u64::from(kind) | u64::from(hash) << 32, high);
    packet
}

#[test]
fn bits_of_a_received_packet_are_the_82599s() {
    // Extended status and errors: 7.1.6.2, figures 7-14 and 7-15.
    let flags = [
        (RxFlags::VLAN, 3),
        (RxFlags::L4_CHECKED, 5),
        (RxFlags::IP_CHECKED, 6),
        (RxFlags::L4_BAD, 30),
        (RxFlags::IP_BAD, 31),
    ];
    flags.iter().for_each(|&(flag, bit)| assert_eq!(flag, 2_u32.pow(bit)));
    // Packet types: 7.1.6.2, table 7-20.
    let types = [
        PacketType::IPV4,
        PacketType::IPV4_OPTIONS,
        PacketType::IPV6,
        PacketType::IPV6_EXTENSIONS,
        PacketType::TCP,
        PacketType::UDP,
        PacketType::SCTP,
    ];
    (0..).zip(types).for_each(|(bit, kind)| assert_eq!(kind, 2_u16.pow(bit)));
    let sent = [
        TxOffload::VLAN,
        TxOffload::IP_CHECKSUM,
        TxOffload::TCP_CHECKSUM,
        TxOffload::UDP_CHECKSUM,
        TxOffload::IPV6,
        TxOffload::SEGMENT,
        TxOffload::TUNNEL,
    ];
    (0..).zip(sent).for_each(|(bit, flag)| assert_eq!(flag, 2_u8.pow(bit)));
}

#[test]
fn checksums_are_unknown_good_or_bad() {
    for (ip, l4) in [(false, false), (true, false), (false, true), (true, true)] {
        for (bad_ip, bad_l4) in [(false, false), (true, false), (false, true), (true, true)] {
            let bit = |on, bit| if on { bit } else { 0 };
            let flags = bit(ip, RxFlags::IP_CHECKED)
                | bit(l4, RxFlags::L4_CHECKED)
                | bit(bad_ip, RxFlags::IP_BAD)
                | bit(bad_l4, RxFlags::L4_BAD);
            let expected = |looked, bad| match (looked, bad) {
                (false, _) => Checksum::Unknown,
                (true, false) => Checksum::Good,
                (true, true) => Checksum::Bad,
            };
            let packet = received(0, 0, flags, 60, 0);
            assert_eq!(packet.rx_flags(), RxFlags(flags));
            assert_eq!(packet.ip_checksum(), expected(ip, bad_ip), "{flags:#x}");
            assert_eq!(packet.l4_checksum(), expected(l4, bad_l4), "{flags:#x}");
        }
    }
}

#[test]
fn a_packet_type_has_all_of_what_is_asked_for() {
    assert_eq!(received(0xF, 0, 0, 60, 0).packet_type(), PacketType(0), "the RSS type stands before it");
    let found = received(u32::from(PacketType::IPV4 | PacketType::TCP) << 4, 0, 0, 60, 0).packet_type();
    assert_eq!(found, PacketType(PacketType::IPV4 | PacketType::TCP));
    for bits in [0, PacketType::IPV4, PacketType::TCP, PacketType::IPV4 | PacketType::TCP] {
        assert!(found.has(bits), "{bits:#x}");
    }
    for bits in [PacketType::UDP, PacketType::IPV4 | PacketType::UDP, PacketType::IPV6] {
        assert!(!found.has(bits), "{bits:#x}");
    }
}

#[test]
fn hash_and_tag_are_there_when_the_device_says_so() {
    assert_eq!(received(0xF0, 7, 0, 60, 0).hash(), None, "types, and no RSS");
    for rss in [1, 8, 15] {
        assert_eq!(received(rss, 7, 0, 60, 0).hash(), Some(7));
    }
    assert_eq!(received(0, 0, !RxFlags::VLAN, 60, 5).vlan(), None);
    assert_eq!(received(0, 0, RxFlags::VLAN, 60, 5).vlan(), Some(5));
}

#[test]
fn a_received_packet_begins_anew_and_ends_with_its_buffer() {
    for (len, wanted) in [(0, 0), (60, 60), (2047, 2047), (2048, 2048), (2049, 2048), (u16::MAX, 2048)] {
        let packet = received(0, 0, 0, len, 0xFFF);
        assert_eq!((packet.len(), packet.headroom()), (wanted, HEADROOM), "{len}");
    }
    let mut packet = packet(&[1, 2, 3]);
    packet.pull_front(2).expect("there");
    packet.set_user(9);
    packet.set_tx_offload(TxOffload { flags: TxOffload::VLAN, ..TxOffload::default() });
    let place = packet.iova();
    assert_eq!(place, packet.rx_iova() + 2);
    packet.set_received(0, 60 << 32);
    assert_eq!((packet.iova(), packet.user(), packet.tx_offload()), (place - 2, 0, TxOffload::default()));
}

#[test]
fn a_packet_is_plain_without_wishes_and_segments() {
    let asked = TxOffload { flags: TxOffload::SEGMENT, l2_len: 14, ..TxOffload::default() };
    assert!(TxOffload { vlan: 5, ..TxOffload::default() }.is_empty() && !asked.is_empty());
    let mut one = packet(b"one");
    assert!(one.is_plain());
    one.set_tx_offload(asked);
    assert_eq!((one.is_plain(), one.tx_offload()), (false, asked));
    let mut two = packet(b"two");
    two.append(packet(b"tail"));
    assert!(!two.is_plain());
    assert_eq!((two.len(), two.total_len(), one.total_len()), (3, 7, 3));
    let tail = two.split_next().expect("a tail");
    assert_eq!((&tail[..], two.is_plain()), (&b"tail"[..], true));
}

#[test]
fn bounds_are_kept_to_the_byte() {
    let mut packet = packet(&[]);
    assert!(packet.is_empty());
    assert_eq!(packet.set_len(DATA_ROOM + 1), Err(TooLong { wanted: DATA_ROOM + 1, room: DATA_ROOM }));
    packet.set_len(DATA_ROOM).expect("all of it");
    assert_eq!((packet.is_empty(), packet.tailroom(), packet.headroom()), (false, 0, HEADROOM));
    assert_eq!(packet.pull_front(DATA_ROOM + 1), Err(TooLong { wanted: DATA_ROOM + 1, room: DATA_ROOM }));
    packet.pull_front(DATA_ROOM).expect("all of it");
    assert_eq!((packet.len(), packet.headroom()), (0, HEADROOM + DATA_ROOM));
    packet.push_front(DATA_ROOM).expect("back");
    let refused = packet.push_front(HEADROOM + 1).map(|front| front.len());
    assert_eq!(refused, Err(TooLong { wanted: HEADROOM + 1, room: HEADROOM }));
    packet.push_front(HEADROOM).expect("all of it").copy_from_slice(&[7; HEADROOM]);
    assert_eq!((packet.len(), packet.headroom(), packet.tailroom()), (HEADROOM + DATA_ROOM, 0, 0));
    assert_eq!(packet[..HEADROOM], [7; HEADROOM]);
    let error = packet.push_front(1).map(|_| ()).expect_err("no room");
    assert_eq!(error.to_string(), "1 bytes do not fit: the packet has room for 0");
}

#[test]
fn bytes_are_copied_to_where_they_were_asked_for_and_no_further() {
    let mut packet = packet(b"before");
    packet.copy_at(10, b"0123456789").expect("fits");
    assert_eq!((packet.headroom(), &packet[..]), (10, &b"0123456789"[..]));
    let all = [9; HEADROOM + DATA_ROOM];
    packet.copy_at(0, &all).expect("all of the buffer");
    assert_eq!((packet.headroom(), &packet[..]), (0, &all[..]));
    packet.copy_at(HEADROOM + DATA_ROOM - 3, b"end").expect("to the last byte");
    assert_eq!(&packet[..], b"end");
    for (headroom, data, room) in [
        (HEADROOM, DATA_ROOM + 1, DATA_ROOM),
        (HEADROOM + DATA_ROOM - 3, 4, 3),
        (1 << 40, 1, 0),
        (1 << 40, 0, 0),
    ] {
        assert_eq!(packet.copy_at(headroom, &all[..data]), Err(TooLong { wanted: data, room }));
        assert_eq!(&packet[..], b"end", "as it was");
    }
    assert!(packet.copy_from(b"long").is_err(), "it begins three bytes before the end");
    packet.copy_from(b"abc").expect("as long");
    assert_eq!(&packet[..], b"abc");
}

#[test]
fn a_header_that_was_stripped_is_taken_over() {
    let (mut from, mut to) = (packet(b"HEADERpayload"), packet(b"headerother"));
    from.pull_front(6).expect("there");
    to.pull_front(6).expect("there");
    to.copy_front(&from, 3);
    assert_eq!(&to[..], b"other", "nothing moves");
    assert_eq!(to.push_front(6).expect("back"), b"heaDER", "three bytes of it");
    to.pull_front(6).expect("there");
    to.copy_front(&from, 6);
    assert_eq!(to.push_front(6).expect("back"), b"HEADER");
    // No more than stands in front of either.
    let (mut short, mut whole) = (packet(b"x"), packet(b"y"));
    whole.push_front(HEADROOM).expect("all of it").fill(5);
    whole.pull_front(HEADROOM).expect("there");
    short.push_front(HEADROOM - 2).expect("all but two").fill(1);
    short.copy_front(&whole, 100);
    assert_eq!(short.push_front(2).expect("two"), [5, 5]);
    assert_eq!(short[2..HEADROOM], [1; HEADROOM - 2], "what is in it stays");
}

#[test]
fn what_stands_beside_the_bytes_is_taken_over_and_the_length_stays() {
    let mut from = received(PacketType::UDP as u32 * 16 + 1, 77, RxFlags::VLAN, 1000, 12);
    from.set_user(3);
    from.set_tx_offload(TxOffload { flags: TxOffload::IPV6, ..TxOffload::default() });
    from.annotations_mut().timestamp_ns = 5;
    let mut to = packet(b"abc");
    to.adopt_rx_words(&from);
    assert_eq!((to.hash(), to.vlan(), to.len(), to.user()), (Some(77), Some(12), 3, 0));
    assert!(to.packet_type().has(PacketType::UDP) && to.tx_offload().is_empty());
    let mut to = packet(b"abc");
    to.clear_annotations();
    to.copy_metadata(&from);
    assert_eq!((to.hash(), to.vlan(), to.len(), to.user()), (Some(77), Some(12), 3, 3));
    assert_eq!((to.tx_offload(), to.annotations().timestamp_ns), (from.tx_offload(), 5));
    assert_eq!(&to[..], b"abc");
}

#[test]
fn places_of_headers_are_known_to_the_last_byte_of_the_buffer() {
    let mut packet = packet(b"0123456789");
    packet.clear_annotations();
    assert_eq!(*packet.annotations(), Annotations::default());
    for (n, header) in [Header::Link, Header::Network, Header::Transport].into_iter().enumerate() {
        assert!(!packet.has_header(header) && packet.header_offset(header).is_none());
        packet.set_header(header, n + 2);
        assert!(packet.has_header(header));
        assert_eq!(packet.header_offset(header), Some(n as isize + 2));
        assert_eq!(packet.header_mut(header).expect("set"), &b"0123456789"[n + 2..]);
    }
    // At the end of the data there is an empty one, behind it none.
    packet.set_header(Header::Network, 10);
    assert_eq!(packet.header_mut(Header::Network).expect("empty"), b"");
    packet.set_header(Header::Network, 11);
    assert!(packet.header_mut(Header::Network).is_none() && packet.header(Header::Network).is_none());
    assert!(packet.has_header(Header::Network), "the data may grow");
    packet.set_header(Header::Network, DATA_ROOM);
    assert_eq!(packet.header_offset(Header::Network), Some(DATA_ROOM as isize));
    packet.set_header(Header::Network, DATA_ROOM + 1);
    assert!(!packet.has_header(Header::Network), "no buffer is that long");
    packet.annotations_mut().reach = Reach::OtherHost;
    assert_eq!(packet.annotations().reach, Reach::OtherHost);
    packet.clear_annotations();
    assert_eq!(*packet.annotations(), Annotations::default());
    assert_eq!(packet.header_mut(Header::Link), None);
}

#[test]
fn blocks_are_copied_whole_and_the_packet_is_as_long_as_said() {
    let mut packet = packet(b"before");
    let blocks: Vec<[u8; 64]> = (1..=32).map(|n| [n; 64]).collect();
    for (count, len) in [(1, 60), (1, 64), (2, 65), (32, DATA_ROOM), (1, 0), (0, 0)] {
        packet.copy_blocks(&blocks[..count], len).expect("fits");
        let wanted: Vec<u8> = blocks.as_flattened()[..len].to_vec();
        assert_eq!(packet[..], wanted[..], "{count} blocks");
    }
    packet.copy_blocks(&blocks[..1], 100).expect("fits");
    assert_eq!(packet[..], [1; 64], "no longer than its blocks");
    packet.pull_front(1).expect("there are 64");
    let wanted = DATA_ROOM;
    assert_eq!(packet.copy_blocks(&blocks, 60), Err(TooLong { wanted, room: DATA_ROOM - 1 }));
}

#[test]
fn two_headers_within_the_data_are_found_and_none_lies_behind_them() {
    let mut packet = packet(b"before");
    packet.copy_at(10, b"0123456789").expect("fits");
    packet.set_headers_within(2, 7);
    assert_eq!(packet.header(Header::Network), Some(&b"23456789"[..]));
    assert_eq!(packet.header(Header::Transport), Some(&b"789"[..]));
    packet.set_headers_within(10, usize::MAX);
    assert_eq!(packet.header(Header::Network), Some(&b""[..]));
    assert_eq!(packet.header_offset(Header::Transport), Some(10), "the end");
}
