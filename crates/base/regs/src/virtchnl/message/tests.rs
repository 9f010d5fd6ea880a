//! Messages against the sizes and places that Linux's header states for them.

use super::*;

/// What one side encodes the other decodes, and every other length is refused.
macro_rules! both_ways {
    ($type:ident, $value:expr, $len:expr, $also:expr) => {{
        let value = $value;
        let bytes = value.clone().encode();
        assert_eq!(bytes.len(), $len, stringify!($type));
        assert_eq!($type::decode(&bytes), Some(value), stringify!($type));
        for len in (0..bytes.len()).filter(|len| *len != $also) {
            assert_eq!($type::decode(&bytes[..len]), None, "{} of {len}", stringify!($type));
        }
        let longer = [bytes, vec![0]].concat();
        assert_eq!($type::decode(&longer), None, "{} too long", stringify!($type));
    }};
}

#[test]
fn messages_have_the_sizes_of_the_header_and_no_others() {
    let none = usize::MAX;
    both_ways!(Version, Version { major: 1, minor: 1 }, 8, none);
    both_ways!(Select, Select { vsi: 3, rx: 5, tx: 9 }, 12, none);
    both_ways!(Promiscuous, Promiscuous { vsi: 3, modes: 2 }, 4, none);
    both_ways!(Classes, Classes(1 << 40 | 7), 8, none);
    both_ways!(Counters, Counters(std::array::from_fn(|n| n as u64 + (1 << 40))), 96, none);
    let pair = QueuePair {
        queue: 1,
        tx_len: 512,
        tx_ring: 0x1_2345_6780,
        tx_head: None,
        rx_len: 256,
        rx_ring: 0x9_8765_4320,
        rx_buffer: 2048,
        rx_max: 1526,
    };
    let pairs = vec![pair, QueuePair { tx_head: Some(64), ..pair }];
    both_ways!(Queues, Queues { vsi: 7, pairs }, 72 + 2 * 64, 8 + 2 * 64);
    let vector = Vector { vector: 1, rx: 3, tx: 1, rx_itr: 0, tx_itr: 1 };
    both_ways!(Vectors, Vectors { vsi: 7, vectors: vec![vector; 3] }, 14 + 3 * 12, 2 + 3 * 12);
    both_ways!(Addresses, Addresses { vsi: 7, addresses: vec![[2; 6]; 4] }, 12 + 4 * 8, 4 + 4 * 8);
    both_ways!(Vlans, Vlans { vsi: 7, vlans: vec![5, 6] }, 6 + 2 * 2, 4 + 2 * 2);
    both_ways!(Rss, Rss { vsi: 7, bytes: vec![1; 52] }, 5 + 52, 4 + 52);
}

#[test]
fn fields_stand_where_the_header_has_them() {
    let pair =
        QueuePair { queue: 0x0102, tx_ring: 3, rx_ring: 4, rx_buffer: 5, rx_max: 6, ..QueuePair::default() };
    let bytes = Queues { vsi: 9, pairs: vec![pair] }.encode();
    // The head has 8 bytes, the transmit part 24.
    for (at, value) in [(0, 9), (2, 1), (8, 9), (10, 2), (11, 1), (16, 3), (32, 9), (44, 5), (48, 6), (56, 4)]
    {
        assert_eq!(bytes[at], value, "byte {at}");
    }
    let resources = Resources {
        queues: 4,
        vectors: 5,
        max_mtu: 1500,
        capabilities: 0x0009_0001,
        key_size: 52,
        lut_size: 64,
        vsi: 0x0203,
        queue_set: 11,
        mac: [2, 3, 4, 5, 6, 7],
    };
    let bytes = resources.encode();
    assert_eq!(bytes.len(), Resources::LEN);
    for (at, value) in
        [(0, 1), (2, 4), (4, 5), (8, 1), (10, 9), (12, 52), (16, 64), (20, 3), (24, 6), (28, 11), (30, 2)]
    {
        assert_eq!(bytes[at], value, "byte {at}");
    }
    assert_eq!(Resources::decode(&bytes), Some(resources));
    assert_eq!(Resources::decode(&bytes[..35]), None);
    let none = [&[0, 0], &bytes[2..]].concat();
    assert_eq!(Resources::decode(&none), None, "it has no VSI");
}

#[test]
fn an_event_tells_the_link_in_one_byte() {
    let event = Event { event: 1, link: (1 << 4, true), severity: -1 };
    let mut bytes = event.encode();
    assert_eq!((bytes.len(), bytes[8]), (Event::LEN, 1));
    bytes[9] = 0xEE;
    assert_eq!(Event::decode(&bytes), Some(event));
    bytes[8] = 0;
    assert_eq!(Event::decode(&bytes).map(|event| event.link.1), Some(false));
    assert_eq!(Event::decode(&bytes[..15]), None);
}

#[test]
fn kinds_and_statuses_have_names() {
    assert_eq!(super::super::name(6), "CONFIG_VSI_QUEUES");
    assert_eq!(super::super::name(99), "unknown");
    for (value, name, meaning) in super::super::status::TABLE {
        assert!(*value <= 0 && !name.is_empty() && !meaning.is_empty());
    }
}
