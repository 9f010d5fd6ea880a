//! Commands: what a port receives is what it was told to, and a command that
//! the device does not have or refuses says so.

use port::{Filters, Options, Port as _};
use std::time::{Duration, Instant};

use crate::common::contents;
use crate::common::frames::tagged;
use crate::common::virtio::{Bench, RINGS, Side, frame, model, offer, recv, sleepy, small_rings};
use driver::Error;
use driver::virtio::VirtioFault;
use memory::TxOffload;
use regs::virtio::feature::net;
use testbed::inprocess::while_stepping;
use testbed::ixgbe;

const OTHER: [u8; 6] = [0x02, 9, 9, 9, 9, 9];
const GROUP: [u8; 6] = [0x33, 0x33, 0, 0, 0, 1];
const EVERYONE: [u8; 6] = [0xFF; 6];

fn to(address: [u8; 6]) -> Vec<u8> {
    let mut frame = frame(1, 100);
    frame[..6].copy_from_slice(&address);
    frame
}

/// Whether port 1 receives what goes to its own address, another one, a group,
/// and everyone.
fn seen(bench: &mut Bench) -> [bool; 4] {
    [ixgbe::mac(1), OTHER, GROUP, EVERYONE].map(|address| {
        let got = bench.cross_plain(&to(address));
        assert!(got.is_empty() || got == [to(address)]);
        !got.is_empty()
    })
}

#[test]
fn a_port_receives_what_it_was_told_to() {
    for (name, ring) in RINGS {
        for features in [offer(ring, 0), offer(ring, net::MQ)] {
            let mut bench = Bench::pair(&sleepy(features), &small_rings());
            assert_eq!(seen(&mut bench), [true; 4], "{name}: promiscuous unless told otherwise");
            bench.meanwhile(|bench| bench.sides[1].device.set_promiscuous(false)).unwrap();
            assert_eq!(seen(&mut bench), [true, false, false, true], "{name}");
            bench.meanwhile(|bench| bench.sides[1].device.set_all_multicast(true)).unwrap();
            assert_eq!(seen(&mut bench), [true, false, true, true], "{name}");
            bench.meanwhile(|bench| bench.sides[1].device.set_all_multicast(false)).unwrap();
            bench.meanwhile(|bench| bench.sides[1].device.set_addresses(&[OTHER])).unwrap();
            assert_eq!(seen(&mut bench), [true, true, false, true], "{name}");
            bench.meanwhile(|bench| bench.sides[1].device.set_addresses(&[GROUP])).unwrap();
            assert_eq!(seen(&mut bench), [true, false, true, true], "{name}: the last call counts");
            bench.meanwhile(|bench| bench.sides[1].device.set_mac(OTHER)).unwrap();
            assert_eq!(bench.sides[1].device.mac(), OTHER);
            assert_eq!(seen(&mut bench), [false, true, true, true], "{name}");
            let reports = bench.finish();
            assert_eq!(reports[1].counters["commands_refused"], 0, "{name}");
            assert!(reports[1].drops["rx_filtered_mac"] > 5);
        }
    }
}

#[test]
fn a_long_list_of_addresses_fits_or_is_refused() {
    let mut bench = Bench::pair(&model(offer(0, 0)), &Options { promiscuous: false, ..small_rings() });
    let many: Vec<[u8; 6]> = (0..600_u16).map(|n| [2, 0, 0, 1, (n >> 8) as u8, n as u8]).collect();
    bench.meanwhile(|bench| bench.sides[1].device.set_addresses(&many)).unwrap();
    assert_eq!(bench.cross_plain(&to(many[599])).len(), 1);
    // Longer than the command's memory.
    let more = vec![OTHER; 700];
    let refused = bench.meanwhile(|bench| bench.sides[1].device.set_addresses(&more)).unwrap_err();
    assert!(matches!(refused, Error::Virtio(VirtioFault::CommandTooLong { bytes: 4208, .. })), "{refused}");
    // The next command works.
    bench.meanwhile(|bench| bench.sides[1].device.set_addresses(&[OTHER])).unwrap();
    assert_eq!(bench.cross_plain(&to(OTHER)).len(), 1);
    bench.finish();
}

#[test]
fn addresses_come_and_go_until_the_table_is_full() {
    let mut bench = Bench::pair(&model(offer(0, 0)), &Options { promiscuous: false, ..small_rings() });
    let change = |bench: &mut Bench, work: fn(&mut dyn Filters) -> port::Result<bool>| {
        bench.meanwhile(|bench| work(bench.sides[1].device.filters().unwrap()))
    };
    assert!(change(&mut bench, |filters| filters.add_mac(OTHER).map(|()| true)).unwrap());
    assert_eq!(seen(&mut bench), [true, true, false, true]);
    assert!(change(&mut bench, |filters| filters.add_mac(GROUP).map(|()| true)).unwrap());
    assert_eq!(seen(&mut bench), [true; 4]);
    assert!(change(&mut bench, |filters| filters.remove_mac(OTHER)).unwrap());
    assert_eq!(seen(&mut bench), [true, false, true, true], "the other address stays");
    assert!(!change(&mut bench, |filters| filters.remove_mac(OTHER)).unwrap(), "it was gone");
    let full = change(&mut bench, |filters| {
        (0..64).try_for_each(|n| filters.add_mac([2, 0, 0, 0, 7, n])).map(|()| true)
    });
    let capacity = bench.sides[1].device.capabilities().limits.unicast_addresses;
    assert!(
        matches!(full, Err(port::Error::TableFull { capacity: most, .. }) if most == capacity),
        "{full:?}"
    );
    bench.finish();
}

#[test]
fn the_modes_of_a_port_are_those_it_was_opened_with() {
    let options = Options { promiscuous: false, mac: Some(OTHER), ..small_rings() };
    let mut bench = Bench::pair(&model(offer(0, 0)), &options);
    assert_eq!(bench.sides[1].device.mac(), OTHER);
    assert_eq!(seen(&mut bench), [false, true, false, true]);
    bench.finish();
}

#[test]
fn only_vlans_that_were_added_pass() {
    for (name, ring) in RINGS {
        let options = Options { vlan_filter: true, promiscuous: false, ..small_rings() };
        let mut bench = Bench::pair(&model(offer(ring, 0)), &options);
        let pass = |bench: &mut Bench| {
            [None, Some(5), Some(6), Some(0xE005)].map(|tag| {
                let plain = to(EVERYONE);
                let sent = tag.map_or(plain.clone(), |tag| tagged(&plain, tag));
                let got = bench.cross(&sent, TxOffload::default());
                got.iter().for_each(|packet| assert_eq!(contents(packet), sent));
                got.len() == 1
            })
        };
        assert_eq!(pass(&mut bench), [true, false, false, false], "{name}");
        bench.meanwhile(|bench| bench.sides[1].device.set_vlan(5, true)).unwrap();
        assert_eq!(pass(&mut bench), [true, true, false, true], "{name}: whatever the priority");
        bench.meanwhile(|bench| bench.sides[1].device.set_vlan(5, false)).unwrap();
        assert_eq!(pass(&mut bench), [true, false, false, false], "{name}");
        let refused = bench.meanwhile(|bench| bench.sides[1].device.set_vlan(4096, true)).unwrap_err();
        let refused = Error::try_from(refused).unwrap();
        assert!(matches!(refused, Error::Virtio(VirtioFault::Refused { answer: 1, .. })), "{refused}");
        let reports = bench.close();
        assert_eq!(reports[1].findings[0].rule, "CommandMalformed");
    }
}

fn no_command<E>(result: Result<(), E>) -> (&'static str, &'static str)
where
    Error: TryFrom<E, Error: std::fmt::Debug>,
{
    match result.map_err(|error| Error::try_from(error).unwrap()) {
        Err(Error::Virtio(VirtioFault::NoCommand { command, feature, .. })) => (command, feature),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_the_device_has_no_command_for_is_named() {
    let mut bench = Bench::pair(&model(offer(0, net::CTRL_VQ)), &small_rings());
    assert_eq!(seen(&mut bench), [true; 4]);
    let device = &mut bench.sides[1].device;
    assert_eq!(no_command(device.set_promiscuous(false)), ("setting promiscuous mode", "CTRL_RX"));
    device.set_promiscuous(true).unwrap();
    assert_eq!(no_command(device.set_mac(OTHER)), ("setting the address", "CTRL_MAC_ADDR"));
    assert_eq!(no_command(device.set_vlan(1, true)), ("setting a VLAN", "CTRL_VLAN"));
    assert_eq!(device.mac(), ixgbe::mac(1), "it did not change");
    bench.finish();
}

#[test]
fn a_command_that_is_not_answered_is_given_up() {
    for (name, ring) in RINGS {
        let mut bench = Bench::pair(&model(offer(ring, 0)), &small_rings());
        // By the test's own clock, which stands still.
        bench.handles[1].step(u64::MAX / 2);
        let begin = Instant::now();
        let given_up = Error::try_from(bench.sides[1].device.set_promiscuous(false).unwrap_err()).unwrap();
        assert!(
            matches!(given_up, Error::Virtio(VirtioFault::NoAnswer { waited_ms: 2000.., .. })),
            "{name}: {given_up}"
        );
        assert!(begin.elapsed() < Duration::from_secs(6), "{name}");
        let next = Error::try_from(bench.sides[1].device.set_promiscuous(false).unwrap_err()).unwrap();
        assert!(matches!(next, Error::Virtio(VirtioFault::Unanswered { .. })), "{name}: {next}");
        // Packets go on, and a restart mends it.
        bench.send(0, &to(OTHER));
        bench.run_until_idle();
        bench.handles[1].step(u64::MAX / 2);
        bench.recv(1);
        let Side { device, rx, tx } = bench.sides.pop().unwrap();
        let restart = || device.restart(rx, tx);
        let (device, mut rx, tx) = while_stepping(&bench.handles, restart).unwrap().unwrap().split();
        recv(&mut rx, &mut bench.pool);
        bench.sides.push(Side { device, rx, tx });
        bench.meanwhile(|bench| bench.sides[1].device.set_promiscuous(false)).unwrap();
        assert_eq!(seen(&mut bench), [true, false, false, true], "{name}");
        bench.finish();
    }
}

#[test]
fn a_device_without_an_address_gets_one_of_its_own() {
    let without = offer(0, net::MAC);
    let bench = Bench::pair(&model(without), &small_rings());
    let [one, other] = [0, 1].map(|at| bench.sides[at].device.mac());
    assert!(one != other && one[0] & 3 == 2, "random, local, not a group: {one:x?} {other:x?}");
    bench.finish();
}

#[test]
fn more_pairs_than_there_are_is_named_and_all_can_be_used() {
    for (name, ring) in RINGS {
        let mut bench = Bench::pair(&model(offer(ring, 0)), &Options { rx_queues: 4, ..small_rings() });
        for queue in 0..4 {
            assert!(bench.try_send(0, queue, &frame(queue, 90), TxOffload::default()));
        }
        bench.run_until_idle();
        assert_eq!(bench.recv(1).len(), 4, "{name}");
        bench.finish();
    }
    let refused = std::panic::catch_unwind(|| {
        Bench::pair(&model(offer(0, 0)), &Options { rx_queues: 5, ..small_rings() });
    });
    let text = refused.unwrap_err();
    let text = text.downcast_ref::<String>().unwrap();
    assert!(text.contains("QueuePairs") && text.contains("wanted: 5, pairs: 4"), "{text}");
}
