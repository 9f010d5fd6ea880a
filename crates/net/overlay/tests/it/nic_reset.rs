//! The table of a NIC behind resets of the device, and places of networks that packets are marked with.

use overlay::{Network, NicTable, Overlay, Unknown};
use port::EncapLimits;

use crate::nic::{AMPLE, Nic, PORT, check, table, tunnel};

/// A device that loses all while it is told is told anew at once, a few times, wherever that is.
#[test]
fn a_device_that_loses_all_while_it_is_told_is_told_anew() {
    let mut overlay = table();
    overlay.add_network(1, Network { unknown: Unknown::Drop, ..Network::bridged() }).unwrap();
    (0..9).for_each(|entry| overlay.insert(1, entry, tunnel(1 + entry as u8 % 4)).unwrap());
    overlay.publish();
    let mut met = 0;
    for (first, second) in (0..30).flat_map(|first| [(first, 0), (first, 7)]) {
        let nic = Nic::new(AMPLE);
        let mut table = NicTable::new(Box::new(nic.clone()), PORT).unwrap();
        (nic.held().until_lost, nic.held().loses) = (vec![second, first], true);
        assert!(table.sync(&overlay).unwrap());
        check(&nic, &table, &overlay);
        let resets = 2 - nic.held().until_lost.len() as u64;
        // Two in one attempt are one to it.
        let restored = table.counts().restored;
        assert!((resets.min(1)..=resets).contains(&restored), "lost behind {first} commands, then {second}");
        met += resets;
    }
    assert!(met > 50, "{met} resets");
}

#[test]
fn a_device_that_loses_all_without_end_is_told_three_times() {
    let (nic, mut overlay) = (Nic::new(AMPLE), table());
    overlay.add_network(1, Network::bridged()).unwrap();
    (0..9).for_each(|entry| overlay.insert(1, entry, tunnel(1 + entry as u8 % 4)).unwrap());
    overlay.publish();
    let mut table = NicTable::new(Box::new(nic.clone()), PORT).unwrap();
    (nic.held().until_lost, nic.held().loses) = (vec![2; 100], true);
    assert!(table.sync(&overlay).is_err());
    assert!(nic.held().until_lost.len() > 90);
    nic.held().until_lost.clear();
    assert!(table.sync(&overlay).unwrap());
    check(&nic, &table, &overlay);
}

/// Packets are marked with a network's place until whoever marks them is told of another one: behind a
/// reset no network has the place that another one had, however many of them there are.
#[test]
fn networks_have_the_places_that_they_had_before_a_reset() {
    let limits = EncapLimits { networks: 4, ..AMPLE };
    let (nic, mut overlay) = (Nic::new(limits), table());
    for number in 2..5 {
        overlay.add_network(number, Network::bridged()).unwrap();
        overlay.insert(number, 7, tunnel(number as u8)).unwrap();
    }
    overlay.publish();
    let mut table = NicTable::new(Box::new(nic.clone()), PORT).unwrap();
    table.sync(&overlay).unwrap();
    let before: Vec<_> = (2..5).map(|number| table.place(number)).collect();
    nic.forget();
    assert!(table.sync(&overlay).unwrap());
    assert_eq!((2..5).map(|number| table.place(number)).collect::<Vec<_>>(), before);
    // One that is new, and the first in the order, comes behind those that have places.
    overlay.add_network(1, Network::bridged()).unwrap();
    overlay.publish();
    nic.forget();
    // It is lost again while it is told of the first of them.
    (nic.held().until_lost, nic.held().loses) = (vec![1], true);
    assert!(table.sync(&overlay).unwrap());
    check(&nic, &table, &overlay);
    assert_eq!((2..5).map(|number| table.place(number)).collect::<Vec<_>>(), before);
    assert!(table.place(1).is_some());
}

fn add(overlay: &mut Overlay, number: u32, network: Network) {
    overlay.add_network(number, network).unwrap();
    overlay.insert(number, 7, tunnel(number as u8)).unwrap();
    overlay.publish();
}

/// A network that is made anew, as one is whose settings change, is in its place again.
#[test]
fn a_network_made_anew_has_its_place_again() {
    let limits = EncapLimits { networks: 4, ..AMPLE };
    let (nic, mut overlay) = (Nic::new(limits), table());
    (1..4).for_each(|number| add(&mut overlay, number, Network::bridged()));
    let mut table = NicTable::new(Box::new(nic.clone()), PORT).unwrap();
    table.sync(&overlay).unwrap();
    let before: Vec<_> = (1..4).map(|number| table.place(number)).collect();
    for number in [3, 2] {
        overlay.remove_network(number).unwrap();
        add(&mut overlay, number, Network { unknown: Unknown::Drop, ..Network::bridged() });
    }
    assert!(table.sync(&overlay).unwrap());
    assert_eq!((1..4).map(|number| table.place(number)).collect::<Vec<_>>(), before);
    assert!(!table.places_rest());
    check(&nic, &table, &overlay);
}

/// The place of a network that went is no other network's until it is let go, neither by a change nor
/// behind a reset, though there is no other.
#[test]
fn the_place_of_a_network_that_went_rests() {
    let limits = EncapLimits { networks: 2, ..AMPLE };
    let (nic, mut overlay) = (Nic::new(limits), table());
    (1..3).for_each(|number| add(&mut overlay, number, Network::bridged()));
    let mut table = NicTable::new(Box::new(nic.clone()), PORT).unwrap();
    table.sync(&overlay).unwrap();
    for (gone, new) in [(1, 3), (2, 4)] {
        let place = table.place(gone).unwrap();
        overlay.remove_network(gone).unwrap();
        add(&mut overlay, new, Network::bridged());
        if gone == 2 {
            nic.forget();
        }
        assert!(table.sync(&overlay).unwrap());
        for _ in 0..2 {
            assert_eq!(table.place(new), None, "network {new}");
            assert!(table.places_rest());
            assert!(!table.sync(&overlay).unwrap());
            table.let_places_go();
        }
        assert!(table.sync(&overlay).unwrap(), "there is a place now");
        assert_eq!(table.place(new), Some(place));
        assert!(!table.places_rest());
        check(&nic, &table, &overlay);
    }
}
