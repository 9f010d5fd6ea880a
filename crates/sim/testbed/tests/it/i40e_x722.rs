//! Our drivers on our model of an X722 and its virtual functions: the tests of the XL710's that are about
//! the whole family, and what an X722 has in a way of its own. Key and table of its hash are set by
//! commands, and it has more classes of packets.

use crate::common::frames::{self, Sums, payload};
use crate::common::i40e::{Bench, on};
use crate::common::{i40e_vf, run_until_idle};
use crate::{i40e_driver, i40e_flow, i40e_rings, i40e_vf as vf};
use memory::TxOffload;
use port::{Options, Port as _, RxQueue as _};
use regs::i40e::{PFQF_HENA, PFQF_HKEY, PFQF_HLUT, class};
use testbed::i40e::DEVICE_X722;
use testbed::inprocess::while_stepping;

macro_rules! tests_of_the_family {
    ($($name:ident: $test:path;)*) => {
        $(
            #[test]
            fn $name() {
                on(DEVICE_X722, $test);
            }
        )*
    };
}

tests_of_the_family! {
    frames: i40e_driver::frames_cross_in_either_direction_and_are_counted;
    rings: i40e_driver::many_frames_go_round_both_rings;
    counters: i40e_driver::a_port_opened_again_counts_from_zero;
    what_the_card_hashes: i40e_driver::what_the_card_hashes_is_as_it_was_when_the_port_has_gone;
    checksums_sent: i40e_driver::checksums_are_inserted_as_asked;
    checksums_received: i40e_driver::checksum_status_tells_right_from_wrong_from_not_looked_at;
    tags: i40e_driver::tags_are_stripped_where_asked_and_inserted_with_checksums;
    segmentation: i40e_driver::large_packets_are_cut_into_right_segments;
    long_frames: i40e_driver::long_frames_come_in_several_buffers;
    hash: i40e_driver::flows_come_to_the_queues_that_the_port_names;
    filters: i40e_driver::filters_let_through_what_was_asked_for;
    vlans: i40e_driver::vlans_are_filtered_for_each_address;
    interrupts: i40e_driver::a_queue_wakes_who_sleeps_on_it;
    flow_led: i40e_flow::a_flow_comes_to_the_queue_that_it_is_led_to;
    flow_dropped: i40e_flow::a_flow_is_dropped_and_counted_and_others_are_not;
    flow_without_ports: i40e_flow::packets_without_ports_are_a_flow_by_their_addresses;
    what_the_card_compares: i40e_flow::what_the_card_compares_is_as_it_was_when_the_port_has_gone;
    every_queue: i40e_rings::every_transmit_queue_sends;
    virtual_functions: vf::frames_go_between_virtual_functions_the_port_and_the_wire;
    virtual_functions_hash: vf::flows_are_spread_over_the_queues_that_the_port_names;
    virtual_functions_vlans: vf::vlans_are_chosen_stripped_or_hidden;
    virtual_functions_resets: vf::a_reset_by_the_host_is_told_and_the_port_opens_again;
}

fn four_queues() -> Options {
    Options { rx_queues: 4, rx_ring: 64, ..Options::default() }
}

#[test]
fn key_and_table_are_set_by_commands() {
    on(DEVICE_X722, || {
        let bench = Bench::pair(&four_queues());
        let bar = bench.pcis[1].bar(0).unwrap();
        let table = || -> Vec<u8> {
            let words = (0..PFQF_HLUT::COUNT).map(|n| bar.read32(PFQF_HLUT::at(n)));
            words.flat_map(u32::to_le_bytes).collect()
        };
        let port = &bench.sides[1].device;
        let wanted: Vec<u8> = port.options().rss.entries(512, 4).map(|queue| queue as u8).collect();
        assert_eq!(table(), wanted);
        assert_eq!(bar.read32(PFQF_HKEY::at(0)), 0, "no key in registers");
        bench.finish();
    });
}

#[test]
fn an_entry_of_the_table_is_changed_while_packets_come() {
    on(DEVICE_X722, || {
        let mut bench = Bench::pair(&four_queues());
        let handles = bench.handles.clone();
        let device = &mut bench.sides[1].device;
        let changes: Vec<(usize, usize)> = (0..512).map(|entry| (entry, 3)).collect();
        while_stepping(&handles, || device.set_flow_queues(&changes)).unwrap().unwrap();
        for n in 0..16u8 {
            let mut frame = frames::udp4(&payload(64), Sums::Full);
            frame[29] = n;
            bench.send(0, &frame, TxOffload::default());
        }
        run_until_idle(&bench.handles);
        assert_eq!(bench.recv(1).len(), 16);
        let came: Vec<u64> = bench.sides[1].rx.iter().map(|queue| queue.stats().packets).collect();
        assert_eq!(came, [0, 0, 0, 16]);
        bench.finish();
    });
}

/// An XL710 has these in the classes of UDP and of TCP.
#[test]
fn further_classes_of_packets_are_hashed() {
    on(DEVICE_X722, || {
        let mut bench = Bench::pair(&Options { promiscuous: true, ..four_queues() });
        let classes = bench.pcis[1].bar(0).unwrap().read32(PFQF_HENA::at(0));
        let unicast = 1 << class::IPV4_UDP_UNICAST;
        assert_eq!(classes & unicast, unicast);
        for (kind, mut frame) in [
            ("UDP", frames::udp4(&payload(64), Sums::Full)),
            ("UDP over IPv6", frames::udp6(&payload(64), Sums::Full)),
            ("TCP", frames::tcp4(&payload(64), Sums::Full)),
            ("TCP over IPv6", frames::tcp6(&payload(64), Sums::Full)),
        ] {
            let flags = 14 + if kind.contains("IPv6") { 40 } else { 20 } + 13;
            for (first, octet) in [(false, 0x02), (true, 0x02), (false, 0x03)] {
                frame[0] = octet;
                if kind.starts_with("TCP") {
                    frame[flags] = if first { 0x02 } else { 0x10 };
                }
                let came = bench.cross(&frame, TxOffload::default());
                assert!(came[0].hash().is_some(), "{kind} {first} {octet}");
            }
        }
        bench.finish();
    });
}

#[test]
fn it_is_a_port_of_10_gigabits_with_virtual_functions_of_its_own() {
    on(DEVICE_X722, || {
        let bench = Bench::open(&["sink"], &Options::default());
        assert_eq!(bench.sides[0].device.link(), port::Link::up(10_000));
        bench.finish();
        let (pcis, _handles) = i40e_vf::models(1);
        let ids: Vec<u16> = pcis.iter().map(|pci| pci.ids().unwrap().device).collect();
        assert_eq!(ids, [0x37D0, 0x37CD]);
    });
}
