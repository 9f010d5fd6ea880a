//! Which frames a port receives, and that filters may change under traffic.

use crate::common::Bench;
use crate::common::frames::{self, Sums, ethernet, payload, tagged};
use crate::common::limit::Limit;
use memory::TxOffload;
use port::{Filters as _, Options, Port as _, RxQueue as _};
use testbed::Idle;
use testbed::inprocess::spawn;

const OTHER: [u8; 6] = [0x02, 0, 0, 0, 0, 0x77];
const GROUP: [u8; 6] = [0x01, 0x00, 0x5E, 0x00, 0x00, 0xFB];
const GROUP2: [u8; 6] = [0x33, 0x33, 0x00, 0x00, 0x00, 0x01];
const ALL: [u8; 6] = [0xFF; 6];
/// What port 1 is asked to receive.
const DESTINATIONS: [[u8; 6]; 5] = [frames::TO, OTHER, GROUP, GROUP2, ALL];

fn pair() -> Bench {
    Bench::pair(&Options { promiscuous: false, ..Options::default() })
}

/// Which destinations get through: own, other, two groups, broadcast.
fn heard(bench: &mut Bench) -> [bool; 5] {
    DESTINATIONS.map(|to| {
        let packets = bench.cross(&ethernet(to, 0x88B5, &payload(50)), TxOffload::default());
        assert!(packets.iter().all(|packet| packet[..6] == to) && packets.len() <= 1);
        packets.len() == 1
    })
}

/// Changes port 1's filters while the models are stepped.
fn change<E: std::fmt::Debug + Send>(
    bench: &mut Bench,
    work: impl FnOnce(&mut driver::ixgbe::Ixgbe) -> Result<(), E>,
) {
    bench.meanwhile(|bench| work(&mut bench.sides[1].device)).unwrap();
}

#[test]
fn a_port_hears_its_own_address_and_broadcast_and_what_it_was_told() {
    let mut bench = pair();
    assert_eq!(heard(&mut bench), [true, false, false, false, true], "as opened");
    change(&mut bench, |port| port.add_mac(OTHER));
    assert_eq!(heard(&mut bench), [true, true, false, false, true]);
    change(&mut bench, |port| port.add_mac(GROUP));
    assert_eq!(heard(&mut bench), [true, true, true, false, true]);
    change(&mut bench, |port| port.add_mac(GROUP2));
    assert_eq!(heard(&mut bench), [true, true, true, true, true]);
    change(&mut bench, |port| port.remove_mac(GROUP).map(|was| assert!(was)));
    assert_eq!(heard(&mut bench), [true, true, false, true, true]);
    change(&mut bench, |port| port.remove_mac(GROUP2).map(|was| assert!(was)));
    assert_eq!(heard(&mut bench), [true, true, false, false, true]);
    change(&mut bench, |port| port.remove_mac(OTHER).map(|was| assert!(was)));
    assert_eq!(heard(&mut bench), [true, false, false, false, true]);
    change(&mut bench, |port| port.remove_mac(OTHER).map(|was| assert!(!was)));
    change(&mut bench, |port| port.set_all_multicast(true));
    assert_eq!(heard(&mut bench), [true, false, true, true, true]);
    change(&mut bench, |port| port.set_all_multicast(false));
    change(&mut bench, |port| port.set_broadcast(false));
    assert_eq!(heard(&mut bench), [true, false, false, false, false]);
    change(&mut bench, |port| port.set_promiscuous(true));
    assert_eq!(heard(&mut bench), [true; 5]);
    change(&mut bench, |port| port.set_promiscuous(false));
    assert_eq!(heard(&mut bench), [true, false, false, false, false]);
    let reports = bench.finish();
    assert_eq!(reports[1].drops["rx_filtered_mac"], 21, "each refusal above");
}

#[test]
fn leaving_promiscuous_mode_keeps_all_multicast() {
    let mut bench = pair();
    change(&mut bench, |port| port.set_all_multicast(true));
    change(&mut bench, |port| port.set_promiscuous(true));
    assert_eq!(heard(&mut bench), [true; 5]);
    change(&mut bench, |port| port.set_promiscuous(false));
    assert_eq!(heard(&mut bench), [true, false, true, true, true], "what was asked for before holds");
    change(&mut bench, |port| port.set_promiscuous(true));
    change(&mut bench, |port| port.set_all_multicast(false));
    assert_eq!(heard(&mut bench), [true; 5], "promiscuous is everything");
    bench.finish();
}

#[test]
fn the_address_table_holds_127_more_and_says_when_it_is_full() {
    let mut bench = pair();
    let address = |n: u8| [0x02, 0, 0, 0, 1, n];
    change(&mut bench, |port| {
        (0..127).try_for_each(|n| port.add_mac(address(n)))?;
        let full = port.add_mac(OTHER).unwrap_err();
        assert!(matches!(full, port::Error::TableFull { capacity: 127, .. }), "{full}");
        assert!(port.remove_mac(address(60))?);
        port.add_mac(OTHER)
    });
    for (to, wanted) in [(address(0), 1), (address(60), 0), (address(126), 1), (OTHER, 1)] {
        let packets = bench.cross(&ethernet(to, 0x88B5, &[]), TxOffload::default());
        assert_eq!(packets.len(), wanted, "{to:02x?}");
    }
    bench.finish();
}

#[test]
fn only_vlans_that_were_let_in_pass_the_filter() {
    let mut bench = pair();
    let plain = frames::udp4(b"vlan", Sums::Full);
    let heard = |bench: &mut Bench| {
        [tagged(&plain, 5), tagged(&plain, 0xE005), tagged(&plain, 4095), plain.clone()]
            .map(|frame| bench.cross(&frame, TxOffload::default()).len() == 1)
    };
    assert_eq!(heard(&mut bench), [true; 4], "no filter");
    change(&mut bench, |port| port.set_vlan_filter(true));
    assert_eq!(heard(&mut bench), [false, false, false, true], "untagged frames have no VLAN");
    change(&mut bench, |port| port.set_vlan(5, true));
    assert_eq!(heard(&mut bench), [true, true, false, true], "priority does not count");
    change(&mut bench, |port| port.set_vlan(4095, true));
    change(&mut bench, |port| port.set_vlan(5, false));
    assert_eq!(heard(&mut bench), [false, false, true, true]);
    change(&mut bench, |port| port.set_vlan_filter(false));
    assert_eq!(heard(&mut bench), [true; 4]);
    bench.finish();
    let mut bench = Bench::pair(&Options { vlan_filter: true, ..Options::default() });
    assert_eq!(heard(&mut bench), [false, false, false, true], "as it was opened");
    change(&mut bench, |port| port.set_vlan(5, true));
    assert_eq!(heard(&mut bench), [true, true, false, true]);
    bench.finish();
}

#[test]
fn filters_change_under_traffic_without_a_nameless_loss() {
    let options = Options { promiscuous: false, ..Options::default() };
    for wire in ["gen:flows=4", "gen:rate=200k,flows=4"] {
        let mut bench = Bench::open(&[wire], &options);
        let stepper = spawn(&bench.handles, None, Idle::Yield).unwrap();
        let mut received = 0;
        for n in 0..40_u8 {
            received += bench.recv(0).len() as u64;
            let port = &mut bench.sides[0].device;
            match n % 4 {
                0 => port.add_mac([2, 0, 0, 0, 0, n]),
                1 => port.add_mac([1, 0, 0x5E, 0, 0, n]),
                2 => port.set_promiscuous(n % 8 == 2),
                _ => port.set_vlan_filter(n % 8 == 3).map_err(Into::into),
            }
            .unwrap();
        }
        drop(stepper);
        bench.handles[0].with_cable(|cable| cable.stop_source());
        let mut last = 1;
        let mut limit = Limit::rounds(10_000, "nothing left to receive");
        while last > 0 {
            limit.check();
            bench.run_until_idle();
            last = bench.recv(0).len() as u64;
            received += last;
        }
        let stats = bench.sides[0].rx[0].stats();
        assert_eq!((stats.packets, stats.bad_descriptor), (received, 0));
        let reports = bench.finish();
        assert_eq!(reports[0].counters["rx_packets"], received, "all in memory was handed out");
        assert!(received > 0);
    }
}
