//! Differences are named, and mended.

use std::collections::BTreeMap;
use std::net::IpAddr;

use control::reconcile::{compare, fix};
use control::{Change, End, Far, Key, Options, Owner, Program, Value};
use overlay::Overlay;

fn far(last: u8) -> Value {
    let (remote, local) = (IpAddr::from([192, 0, 2, last]), IpAddr::from([192, 0, 2, 1]));
    Value::Entry(Far { remote, local, vni: 10, port: None })
}

fn entry(last: u8) -> Key {
    Key::Entry(10, wire::MacAddress([2, 0, 0, 0, 1, last]))
}

#[test]
fn each_difference_is_named_and_mended() {
    let (mut program, mut overlay) = (Program::new(), Overlay::new());
    let network = Value::Network(End::new(IpAddr::from([192, 0, 2, 1])));
    let here =
        [(Key::Network(10), network.clone()), (entry(1), far(2)), (entry(2), far(2)), (entry(3), far(2))];
    let changes = here.map(|(key, value)| Change { key, value: Some(value) }).to_vec();
    program.apply(&mut overlay, Owner::Kernel, changes, 0);
    let there = BTreeMap::from([
        (Key::Network(10), network),
        (entry(1), far(2)),
        (entry(2), far(3)),
        (entry(4), far(4)),
    ]);
    let report = compare(&program, &overlay, &Options::default(), &there);
    let kinds: Vec<_> = report.kernel.iter().map(|it| (it.key, it.kind())).collect();
    assert_eq!(kinds, [(entry(2), "different"), (entry(3), "stale"), (entry(4), "missing")]);
    assert_eq!((report.compared, report.table.len()), (5, 0));
    let text = report.text();
    assert!(
        text.contains(
            "different: entry 02:00:00:00:01:02 of network 10: here to 192.0.2.2 (vni 10, from 192.0.2.1); \
         kernel to 192.0.2.3 (vni 10, from 192.0.2.1)\n"
        ),
        "{text}"
    );
    assert!(text.ends_with("5 places compared, 3 differences\n"), "{text}");
    assert_eq!(report.json()["differences"][1]["kind"], "stale");
    assert_eq!(fix(&mut program, &mut overlay, &report, 1), 3);
    assert!(compare(&program, &overlay, &Options::default(), &there).is_clean());
}

#[test]
fn a_table_that_is_not_what_is_wanted_is_named() {
    let (mut program, mut overlay) = (Program::new(), Overlay::new());
    let network = Value::Network(End::new(IpAddr::from([192, 0, 2, 1])));
    let there = BTreeMap::from([(Key::Network(10), network), (entry(1), far(2)), (entry(2), far(3))]);
    program.apply(&mut overlay, Owner::Kernel, Change::between(&BTreeMap::new(), &there), 0);
    assert!(compare(&program, &overlay, &Options::default(), &there).is_clean());
    overlay.remove_as(Owner::Kernel, 10, 0x0200_0000_0101).unwrap();
    let tunnel = overlay.get(10, 0x0200_0000_0102).unwrap().clone();
    overlay.insert(10, 0x0200_0000_0109, tunnel.clone()).unwrap();
    overlay.insert(10, 0x0200_0000_0108, tunnel).unwrap();
    let report = compare(&program, &overlay, &Options::default(), &there);
    let keys: Vec<Key> = report.table.iter().map(|(key, _)| *key).collect();
    assert_eq!(keys, [entry(1), entry(8), entry(9)], "{report:?}");
    assert!(report.table[0].1.contains("02:00:00:00:01:01") && report.table[0].1.contains("missing"));
    assert!(report.table[1].1.contains("nobody wants"), "{:?}", report.table[1]);
    assert_eq!(fix(&mut program, &mut overlay, &report, 1), 3);
    assert!(compare(&program, &overlay, &Options::default(), &there).is_clean());
    assert_eq!(overlay.entries(10), 2);
}

#[test]
fn ends_and_flood_lists_are_compared_and_mended_too() {
    let (mut program, mut overlay) = (Program::new(), Overlay::new());
    let local = IpAddr::from([192, 0, 2, 1]);
    let end = Value::Network(End { local, port: Some(8472), zero_checksum: false });
    let far = |last| match far(last) {
        Value::Entry(far) => far,
        other => panic!("{other} is no entry"),
    };
    let flood = Value::Flood(vec![far(2), far(3)]);
    let there =
        BTreeMap::from([(Key::Network(10), end), (Key::Flood(10), flood), (entry(1), Value::Entry(far(2)))]);
    program.apply(&mut overlay, Owner::Kernel, Change::between(&BTreeMap::new(), &there), 0);
    assert!(compare(&program, &overlay, &Options::default(), &there).is_clean());
    let tunnel = overlay.get(10, 0x0200_0000_0101).unwrap().clone();
    let own = overlay::Tunnel::new(tunnel.protocol, local, local).with_identifier(10);
    let lists = [vec![], vec![tunnel.clone()], vec![tunnel.clone(), tunnel.clone()]];
    for (list, is_other_end) in lists.iter().zip([false, true, true]) {
        overlay.set_flood(10, list).unwrap();
        assert!(overlay.remove_end(&own).unwrap());
        if is_other_end {
            overlay.add_end(10, &own, false).unwrap(); // at another port
        }
        let report = compare(&program, &overlay, &Options::default(), &there);
        let keys: Vec<Key> = report.table.iter().map(|(key, _)| *key).collect();
        assert_eq!(keys, [Key::Network(10), Key::Flood(10)], "{report:?}");
        assert_eq!(fix(&mut program, &mut overlay, &report, 1), 2);
        let report = compare(&program, &overlay, &Options::default(), &there);
        assert!(report.is_clean(), "{report:?}");
    }
}

#[test]
fn what_another_owner_wants_is_named_with_its_owner_and_stays() {
    let (mut program, mut overlay) = (Program::new(), Overlay::new());
    let network = Value::Network(End::new(IpAddr::from([192, 0, 2, 1])));
    let there = BTreeMap::from([(Key::Network(10), network), (entry(1), far(2))]);
    program.apply(&mut overlay, Owner::Kernel, Change::between(&BTreeMap::new(), &there), 0);
    let other = Change { key: entry(1), value: Some(far(9)) };
    program.apply(&mut overlay, Owner::Api, vec![other], 0);
    let report = compare(&program, &overlay, &Options::default(), &there);
    assert_eq!(report.json()["differences"][0]["owner"], "api");
    assert!(report.text().contains(" by owner api; kernel to 192.0.2.2"), "{}", report.text());
    assert_eq!(fix(&mut program, &mut overlay, &report, 1), 0);
    assert_eq!(compare(&program, &overlay, &Options::default(), &there).kernel.len(), 1);
}
