//! What becomes of a packet to a next hop, and who is asked for its address.

use std::net::{Ipv4Addr, Ipv6Addr};

use neighbor::{Limits, Resolution, Resolver, Table};
use wire::MacAddress;
use wire::arp::{Operation, Packet};
use wire::ethernet::HEADER_LEN;

const SECOND_NS: i64 = 1_000_000_000;
const OWN: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);
const OTHER: MacAddress = MacAddress([2, 0, 0, 0, 0, 9]);
const HOST: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

fn resolver() -> Resolver<Ipv4Addr> {
    Resolver::new(OWN, Ipv4Addr::new(10, 0, 0, 1))
}

#[test]
fn nobody_asks_for_groups_nor_for_the_address_of_none() {
    let mut table = Table::new(Limits::default());
    let mut four = resolver();
    let lookup = |resolver: &Resolver<_>, table: &mut Table<_>, [a, b, c, d]: [u8; 4]| {
        resolver.lookup(table, Ipv4Addr::new(a, b, c, d), 0)
    };
    assert_eq!(lookup(&four, &mut table, [10, 0, 0, 2]), Resolution::Unknown);
    assert_eq!(lookup(&four, &mut table, [0, 0, 0, 0]), Resolution::Unspecified);
    let group = MacAddress([1, 0, 0x5E, 1, 2, 3]);
    assert_eq!(lookup(&four, &mut table, [224, 129, 2, 3]), Resolution::Known(group));
    assert_eq!(lookup(&four, &mut table, [255; 4]), Resolution::Known(MacAddress::BROADCAST));
    // A subnet's broadcast address is a host's until it is said to be none.
    assert_eq!(lookup(&four, &mut table, [10, 0, 0, 255]), Resolution::Unknown);
    four.broadcast = Some(Ipv4Addr::new(10, 0, 0, 255));
    assert_eq!(lookup(&four, &mut table, [10, 0, 0, 255]), Resolution::Known(MacAddress::BROADCAST));
    assert_eq!(lookup(&four, &mut table, [10, 0, 0, 254]), Resolution::Unknown);

    let six = Resolver::new(OWN, "fe80::1".parse::<Ipv6Addr>().unwrap());
    let mut table = Table::new(Limits::default());
    let mut lookup = |text: &str| six.lookup(&mut table, text.parse().unwrap(), 0);
    assert_eq!(lookup("fe80::2"), Resolution::Unknown);
    assert_eq!(lookup("::"), Resolution::Unspecified);
    assert_eq!(lookup("ff02::1:ff00:2"), Resolution::Known(MacAddress([0x33, 0x33, 0xFF, 0, 0, 2])));
}

/// Whoever is in use is asked for once a minute, or as often as it is said, or never.
#[test]
fn an_address_in_use_is_asked_for_again_in_time() {
    for (poll_ns, early, due) in [(None, 59, 61), (Some(5 * SECOND_NS), 4, 6), (Some(0), 61, 0)] {
        let mut resolver = resolver();
        resolver.poll_ns = poll_ns.unwrap_or(resolver.poll_ns);
        let mut table = learned();
        assert_eq!(
            resolver.lookup(&mut table, HOST, early * SECOND_NS),
            Resolution::Known(OTHER),
            "{poll_ns:?}"
        );
        if due > 0 {
            assert_eq!(
                resolver.lookup(&mut table, HOST, due * SECOND_NS),
                Resolution::Refresh(OTHER),
                "{poll_ns:?}"
            );
            // That is noted: one request is enough for now.
            assert_eq!(
                resolver.lookup(&mut table, HOST, due * SECOND_NS),
                Resolution::Known(OTHER),
                "{poll_ns:?}"
            );
        }
    }
}

/// A table in which the host said its address, at the time zero.
fn learned() -> Table<Ipv4Addr> {
    let mut table = Table::new(Limits::default());
    let released = table.insert(HOST, Some(OTHER), 0, &mut vec![]);
    assert!(released.is_empty());
    table
}

#[test]
fn a_request_goes_to_whoever_had_the_address_or_to_all() {
    let mut resolver = resolver();
    for (polls_all, known, to) in [
        (false, None, MacAddress::BROADCAST),
        (false, Some(OTHER), OTHER),
        (true, Some(OTHER), MacAddress::BROADCAST),
    ] {
        resolver.polls_all = polls_all;
        let frame = resolver.request(HOST, known);
        let frame: &[u8] = frame.as_ref();
        assert_eq!(frame[..6], to.0, "{polls_all} {known:?}");
        assert_eq!(frame[6..12], OWN.0);
        let asked = Packet::new_checked(&frame[HEADER_LEN..]).unwrap();
        assert_eq!(asked.operation(), Operation::REQUEST);
        assert_eq!((asked.sender_mac(), asked.sender_ip()), (OWN, resolver.address));
        assert_eq!(asked.target_ip(), HOST);
    }
    assert_eq!(resolver.header(OTHER), [2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 1, 8, 0]);
    let six = Resolver::new(OWN, "fe80::1".parse::<Ipv6Addr>().unwrap());
    assert_eq!(six.header(OTHER)[12..], [0x86, 0xDD]);
}
