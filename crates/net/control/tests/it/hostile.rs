//! Bytes of strangers: messages of the right shape with wrong contents, and of no shape at
//! all. Nothing panics, nothing grows beyond its bounds, and the table stays what is wanted.

use std::net::IpAddr;

use control::api::http::{self, MAX_BODY, MAX_HEAD, Parsed};
use control::api::{Controlled, answer};
use control::fpm::Frames;
use control::netlink::Messages;
use control::{Binding, Limits, Mirror, Options, Origin, Owner, Program};
use overlay::Overlay;
use proptest::prelude::*;

use crate::messages::{Device, Fdb, Nexthop, new_neighbor, new_route, route};

/// Right messages of all kinds, which refer to each other.
fn right() -> Vec<Vec<u8>> {
    let ip = |last| IpAddr::from([192, 0, 2, last]);
    let device = Device { index: 7, name: "vx", up: true, vxlan: Some((10, Some(ip(1)), false)), mtu: 1450 };
    let under = Device { index: 2, name: "eth1", up: true, vxlan: None, mtu: 1500 };
    let entry = Fdb::to(7, [2, 0, 0, 0, 1, 1], ip(2));
    vec![
        device.added(),
        under.added(),
        entry.added(),
        Fdb { mac: [0; 6], ..entry }.added(),
        Fdb { dst: None, nexthop: Some(5), ..entry }.added(),
        Nexthop::far(1, ip(2)).added(),
        Nexthop::group(5, &[1, 2]).added(),
        Nexthop { id: 2, link: Some(2), gateway: Some(ip(3)), ..Nexthop::default() }.added(),
        new_neighbor(2, ip(9), Some([2; 6])),
        new_route(route((ip(0), 24), 5, (Some(2), Some(ip(9))), None)),
        new_route(route((ip(0), 16), 5, (None, None), Some(2))),
        entry.removed(),
        Nexthop::far(1, ip(2)).removed(),
        Device { up: false, ..under }.added(),
        device.removed(),
    ]
}

fn limits() -> Limits {
    Limits { links: 3, nexthops: 3, members: 3, fdb: 3, neighbors: 3, routes: 3, parts: 4 }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn damaged_messages_leave_a_table_that_is_what_is_wanted(
        order in prop::collection::vec(any::<prop::sample::Index>(), 0..30),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..20),
        few: bool,
    ) {
        let right = right();
        let mut bytes: Vec<u8> = order.iter().flat_map(|at| right[at.index(right.len())].clone()).collect();
        for (at, byte) in damage.iter().filter(|_| !order.is_empty()) {
            let at = at.index(bytes.len());
            bytes[at] = *byte;
        }
        let ports = vec![Binding { link: "eth1".into(), port: 0, vlan: None, mtu: None }];
        let limits = if few { limits() } else { Limits::default() };
        let mut mirror = Mirror::new(Options { ports, limits, ..Options::default() });
        let generation = mirror.begin(Origin::Kernel);
        let (mut program, mut overlay) = (Program::new(), Overlay::new());
        for chunk in bytes.chunks(600) {
            mirror.apply_bytes(generation, chunk);
            program.apply(&mut overlay, Owner::Kernel, mirror.changes(), 0);
            let refused = program.refused().len();
            prop_assert_eq!(program.compare_table(&overlay).len(), refused);
        }
        prop_assert!(!few || (mirror.len() <= 5 * 3 && mirror.parts() <= 4));
        // Whoever told of it tells of nothing any more: nothing is left.
        let next = mirror.begin(Origin::Kernel);
        mirror.sweep(Origin::Kernel, &[next]);
        program.apply(&mut overlay, Owner::Kernel, mirror.changes(), 0);
        prop_assert!(mirror.is_empty() && mirror.parts() == 0 && program.claims(Owner::Kernel).is_empty());
        prop_assert_eq!(overlay.tunnels(), 0);
    }

    #[test]
    fn any_bytes_are_messages_or_malformed_and_end(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(Messages::new(&bytes).count() <= bytes.len() / 16 + 1);
        let mut frames = Frames::default();
        let _ = frames.push(&bytes, |payload| prop_assert_payload(payload, &bytes));
    }

    #[test]
    fn any_bytes_are_a_request_or_none(
        start in prop::sample::select(vec![
            "", "GET / HTTP/1.1\r\n", "GET / HTTP/1.1\r\nHost: [::1]\r\n",
            "PUT /v1/networks/10/flood HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n",
        ]),
        rest in prop::collection::vec(prop::sample::select(b"\r\n:/1{}\" aH\x00\xFF".to_vec()), 0..80),
        is_tcp: bool,
    ) {
        let bytes = [start.as_bytes(), &rest].concat();
        match http::parse(&bytes, is_tcp) {
            Parsed::Whole(request, length) => {
                prop_assert!(length <= bytes.len() && request.body.len() <= length);
                let (mut program, mut overlay) = (Program::new(), Overlay::new());
                let status = serde_json::Value::Null;
                let on = &mut Controlled { program: &mut program, overlay: &mut overlay, now_ns: 0, status };
                let response = answer(&request, on);
                prop_assert!(response.body.is_empty() || serde_json::from_str::<serde_json::Value>(&response.body).is_ok());
            }
            Parsed::Partial(_) => prop_assert!(bytes.len() < MAX_HEAD + MAX_BODY),
            Parsed::Bad(status, _) => prop_assert!((400..500).contains(&status)),
        }
    }
}

/// Lengths on both sides of a limit, and right at it.
fn around(limit: usize) -> impl Strategy<Value = usize> {
    prop_oneof![limit - 2..=limit + 2, limit - 200..=limit + 200, 0..=limit]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn requests_of_any_length_are_whole_partial_or_too_long(
        head in around(MAX_HEAD), body in around(MAX_BODY), at: prop::sample::Index, is_tcp: bool,
    ) {
        const END: &str = "\r\n\r\n";
        let start = format!("PUT /v1/networks/1 HTTP/1.1\r\nHost: [::1]\r\nContent-Length: {body}\r\nX: ");
        let head = head.max(start.len() + END.len());
        let filled = format!("{start}{}{END}", "y".repeat(head - start.len() - END.len()));
        let bytes = [filled.as_bytes(), &vec![b'x'; body]].concat();
        match http::parse(&bytes, is_tcp) {
            Parsed::Whole(request, length) => {
                prop_assert!(head <= MAX_HEAD && body <= MAX_BODY);
                prop_assert_eq!((length, request.body.len()), (bytes.len(), body));
            }
            Parsed::Bad(431, _) => prop_assert!(head > MAX_HEAD),
            Parsed::Bad(413, _) => prop_assert!(head <= MAX_HEAD && body > MAX_BODY),
            other => prop_assert!(false, "{:?}", other),
        }
        // Of what is cut off it is said at once if it is too long, and otherwise waited for.
        let cut = at.index(bytes.len());
        match http::parse(&bytes[..cut], is_tcp) {
            Parsed::Partial(_) => prop_assert!(cut < head.min(MAX_HEAD) || (head <= MAX_HEAD && body <= MAX_BODY)),
            Parsed::Bad(431, _) => prop_assert!(head > MAX_HEAD && cut >= MAX_HEAD),
            Parsed::Bad(413, _) => prop_assert!(body > MAX_BODY && cut >= head),
            other => prop_assert!(false, "{:?}", other),
        }
    }
}

fn prop_assert_payload(payload: &[u8], of: &[u8]) {
    assert!(payload.len() + 4 <= of.len());
}
