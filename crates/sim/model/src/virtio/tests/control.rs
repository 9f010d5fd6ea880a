//! Commands of the control queue: what they change, and which are refused.

use super::*;
use regs::virtio::control::{ERR, OK, guest_offloads, mac, mq, rx, vlan};

const ALL: u64 = net::CTRL_VQ
    | net::CTRL_RX
    | net::CTRL_RX_EXTRA
    | net::CTRL_VLAN
    | net::CTRL_MAC_ADDR
    | net::MQ
    | net::GUEST_CSUM
    | net::CTRL_GUEST_OFFLOADS;

/// The answer to a command, in pieces as drivers give them.
fn command(rig: &mut Rig, class: u8, code: u8, data: &[u8]) -> u8 {
    let (at, answer) = (BUFFERS + 0x8000, BUFFERS + 0x9000);
    rig.put(at, &[&[class, code], data].concat());
    rig.put(answer, &[0xEE]);
    let mut pieces = vec![readable(at, 2)];
    if !data.is_empty() {
        pieces.push(readable(at + 2, data.len()));
    }
    pieces.push(writable(answer, 1));
    rig.control.offer(&pieces);
    rig.step();
    assert_eq!(rig.control.take().map(|used| used.1), Some(1));
    rig.memory.bytes(answer, 1)[0]
}

/// Data of RSS_CONFIG: IPv4 with and without TCP, a table, transmit queues, a key.
fn rss(table: &[u16], unclassified: u16, sent_on: u16, key: &[u8]) -> Vec<u8> {
    let mask = table.len() as u16 - 1;
    let words = [&[3, 0, mask, unclassified], table, &[sent_on]].concat();
    [&words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>()[..], &[key.len() as u8], key]
        .concat()
}

#[test]
fn hashes_are_set_or_refused() {
    for ring in RINGS {
        let features = ring | ALL | net::RSS | net::HASH_REPORT;
        let mut rig = Rig::new(features);
        let set = |rig: &mut Rig, data: &[u8]| command(rig, mq::CLASS, mq::RSS_CONFIG, data);
        let good = rss(&[0, 1], 0, 2, &[7; 40]);
        assert_eq!(set(&mut rig, &good), OK);
        assert_eq!(set(&mut rig, &rss(&[1], 1, 1, &[])), OK, "no key is a key of zeros");
        assert!(rig.is_clean());
        let wrong = [
            rss(&[0, 2], 0, 2, &[7; 40]),    // a pair that there is not
            rss(&[0, 1], 2, 2, &[7; 40]),    // likewise for the rest
            rss(&[0, 1], 0, 3, &[7; 40]),    // as many to send on
            rss(&[0, 1], 0, 0, &[7; 40]),    // none to send on
            rss(&[0, 1, 0], 0, 2, &[7; 40]), // no power of two
            rss(&[0; 256], 0, 2, &[7; 40]),  // longer than the device's
            rss(&[0, 1], 0, 2, &[7; 41]),    // likewise the key
            good[..good.len() - 1].to_vec(), // cut short
            [&good[..], &[0]].concat(),      // too long
            [&[0, 2], &good[2..]].concat(),  // a hash type that nobody knows
        ];
        for data in &wrong {
            assert_eq!(set(&mut rig, data), ERR, "{data:?}");
        }
        for cut in 0..good.len() {
            assert_eq!(set(&mut rig, &good[..cut]), ERR);
        }
        let report = |rig: &mut Rig, data: &[u8]| command(rig, mq::CLASS, mq::HASH_CONFIG, data);
        assert_eq!(report(&mut rig, &[&[1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2][..], &[9, 9]].concat()), OK);
        assert_eq!(report(&mut rig, &[&[1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2][..], &[9, 9]].concat()), ERR);
        assert_eq!(report(&mut rig, &[]), ERR);
        // Not without the feature.
        let mut rig = Rig::new(ring | ALL);
        assert_eq!((set(&mut rig, &good), rig.count(Rule::CommandUnknown)), (ERR, 1));
    }
}

/// Whether a frame to an address, with a tag or none, is received.
fn passes(rig: &mut Rig, to: [u8; 6], tag: Option<u16>) -> bool {
    let mut data = frame(64);
    data[..6].copy_from_slice(&to);
    if let Some(tag) = tag {
        data[12..14].copy_from_slice(&[0x81, 0]);
        data[14..16].copy_from_slice(&tag.to_be_bytes());
    }
    if rig.rx.outstanding() == 0 {
        rig.rx.offer(&[writable(BUFFERS, 2048)]);
    }
    rig.cable.send(&data);
    rig.step();
    rig.rx.take().is_some()
}

const OWN: [u8; 6] = [0x02, 0x49, 0x58, 0, 0, 1];
const OTHER: [u8; 6] = [2, 9, 9, 9, 9, 9];
const GROUP: [u8; 6] = [0x33, 0x33, 0, 0, 0, 1];
const ALL_ONES: [u8; 6] = [0xFF; 6];

#[test]
fn receive_modes_and_tables() {
    for ring in RINGS {
        let mut rig = Rig::new(ring | ALL);
        assert!(passes(&mut rig, OTHER, None), "everything at first");
        let set = |rig: &mut Rig, code, on| assert_eq!(command(rig, rx::CLASS, code, &[on]), OK);
        set(&mut rig, rx::PROMISC, 0);
        let seen = |rig: &mut Rig| [OWN, OTHER, GROUP, ALL_ONES].map(|to| passes(rig, to, None));
        assert_eq!(seen(&mut rig), [true, false, false, true]);
        set(&mut rig, rx::ALLMULTI, 1);
        set(&mut rig, rx::NOBCAST, 1);
        assert_eq!(seen(&mut rig), [true, false, true, false]);
        set(&mut rig, rx::ALLMULTI, 0);
        set(&mut rig, rx::ALLUNI, 1);
        assert_eq!(seen(&mut rig), [true, true, false, false]);
        set(&mut rig, rx::ALLUNI, 0);
        let tables = [&1u32.to_le_bytes()[..], &OTHER, &1u32.to_le_bytes(), &GROUP].concat();
        assert_eq!(command(&mut rig, mac::CLASS, mac::TABLE_SET, &tables), OK);
        assert_eq!(seen(&mut rig), [true, true, true, false]);
        assert_eq!(command(&mut rig, mac::CLASS, mac::ADDR_SET, &[2, 0, 0, 0, 0, 7]), OK);
        assert_eq!(seen(&mut rig), [false, true, true, false]);
        assert!(rig.is_clean());
        assert_eq!(rig.function.net().mac(), [2, 0, 0, 0, 0, 7]);
    }
}

#[test]
fn a_table_that_does_not_fit_lets_all_of_the_kind_pass() {
    let mut rig = Rig::new(ALL);
    assert_eq!(command(&mut rig, rx::CLASS, rx::PROMISC, &[0]), OK);
    let many: Vec<u8> = (0..65u8).flat_map(|n| [2, 1, 1, 1, 1, n]).collect();
    let tables = [&65u32.to_le_bytes()[..], &many, &0u32.to_le_bytes()].concat();
    assert_eq!(command(&mut rig, mac::CLASS, mac::TABLE_SET, &tables), OK);
    assert!(passes(&mut rig, OTHER, None) && !passes(&mut rig, GROUP, None));
}

#[test]
fn vlans_pass_once_they_are_added() {
    let mut rig = Rig::new(ALL);
    assert_eq!(command(&mut rig, rx::CLASS, rx::PROMISC, &[0]), OK);
    assert!(!passes(&mut rig, OWN, Some(77)) && passes(&mut rig, OWN, None));
    assert_eq!(command(&mut rig, vlan::CLASS, vlan::ADD, &77u16.to_le_bytes()), OK);
    assert!(passes(&mut rig, OWN, Some(77 | 3 << 13)) && !passes(&mut rig, OWN, Some(78)));
    assert_eq!(command(&mut rig, vlan::CLASS, vlan::DEL, &77u16.to_le_bytes()), OK);
    assert!(!passes(&mut rig, OWN, Some(77)));
    assert_eq!(rig.function.net().drops().rx_filtered_vlan, 3);
}

#[test]
fn pairs_are_used_as_asked_and_flows_follow_what_was_sent() {
    let mut rig = Rig::new(ALL);
    let side = |rig: &Rig, n: u64| Side::new(&rig.memory, IOVA + 0x1000 * n, SIZE, false);
    let (mut rx1, mut tx1) = (side(&rig, 3), side(&rig, 4));
    rig.set_up(2, &rx1);
    rig.set_up(3, &tx1);
    assert_eq!(command(&mut rig, mq::CLASS, mq::VQ_PAIRS_SET, &3u16.to_le_bytes()), ERR);
    assert_eq!(command(&mut rig, mq::CLASS, mq::VQ_PAIRS_SET, &0u16.to_le_bytes()), ERR);
    assert_eq!(rig.count(Rule::QueuePairsInvalid), 2);
    assert_eq!(command(&mut rig, mq::CLASS, mq::VQ_PAIRS_SET, &2u16.to_le_bytes()), OK);
    let flow = |port: u16, reverse: bool| {
        let mut data = frame(64);
        data[12..14].copy_from_slice(&[8, 0]);
        data[14..24].copy_from_slice(&[0x45, 0, 0, 50, 0, 0, 0, 0, 64, 17]);
        let (a, b) = if reverse { (2, 1) } else { (1, 2) };
        data[26..34].copy_from_slice(&[10, 0, 0, a, 10, 0, 0, b]);
        let ports = if reverse { [7, port] } else { [port, 7] };
        data[34..38].copy_from_slice(&ports.map(u16::to_be_bytes).concat());
        data
    };
    let mut seen = [0, 0];
    for port in 0..64 {
        let mut receive = |rig: &mut Rig| {
            for (side, at) in [(&mut rig.rx, BUFFERS), (&mut rx1, BUFFERS + 0x1000)] {
                if side.outstanding() == 0 {
                    side.offer(&[writable(at, 2048)]);
                }
            }
            rig.cable.send(&flow(port, false));
            rig.step();
            (rig.rx.take().is_some(), rx1.take().is_some())
        };
        let (first, second) = receive(&mut rig);
        assert!(first != second);
        seen[usize::from(second)] += 1;
        // Sent on the other pair, it comes back there.
        rig.put(BUFFERS + 0x2000, &[&[0; 12][..], &flow(port, true)].concat());
        let other = if first { &mut tx1 } else { &mut rig.tx };
        other.offer(&[readable(BUFFERS + 0x2000, 76)]);
        rig.step();
        assert_eq!(if first { &mut tx1 } else { &mut rig.tx }.take_batch(), 1);
        assert_eq!(receive(&mut rig), (second, first), "follows");
    }
    assert!(seen[0] > 0 && seen[1] > 0, "{seen:?}");
}

#[test]
fn checking_of_checksums_can_be_turned_off() {
    let mut rig = Rig::new(ALL);
    let set = |rig: &mut Rig, mask: u64| {
        command(rig, guest_offloads::CLASS, guest_offloads::SET, &mask.to_le_bytes())
    };
    assert_eq!(set(&mut rig, 0), OK);
    assert_eq!(set(&mut rig, net::GUEST_CSUM), OK);
    assert_eq!(set(&mut rig, net::GUEST_TSO4), ERR);
}

#[test]
fn nonsense_is_refused_and_without_room_not_answered() {
    for ring in RINGS {
        let mut rig = Rig::new(ring | net::CTRL_VQ | net::CTRL_RX);
        assert_eq!(command(&mut rig, 99, 0, &[]), ERR);
        assert_eq!(command(&mut rig, vlan::CLASS, vlan::ADD, &[1, 0]), ERR, "not negotiated");
        assert_eq!(rig.count(Rule::CommandUnknown), 2);
        assert_eq!(command(&mut rig, rx::CLASS, rx::PROMISC, &[]), ERR);
        assert_eq!(command(&mut rig, rx::CLASS, rx::PROMISC, &[2]), ERR);
        assert_eq!(command(&mut rig, rx::CLASS, rx::PROMISC, &[1, 1]), ERR);
        assert_eq!(command(&mut rig, mac::CLASS, mac::TABLE_SET, &[0xFF; 9]), ERR);
        rig.control.offer(&[readable(BUFFERS, 3)]);
        rig.control.offer(&[writable(BUFFERS, 3)]);
        rig.step();
        assert_eq!(rig.control.take().map(|used| used.1), Some(0));
        assert_eq!(rig.control.take().map(|used| used.1), Some(1));
        assert_eq!(rig.count(Rule::CommandMalformed), 6);
        assert_eq!(rig.function.net().totals().commands_refused, 8);
    }
}
