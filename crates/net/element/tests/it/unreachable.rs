//! Packets for neighbours that do not answer: they are asked for each second, and given
//! up in the end.
#![allow(clippy::unwrap_used)]

use crate::{Rig, run};

const V4: &str = "s :: InfiniteSource(DATA \\<4500001c 00010000 40110000 0a000102 0a000203 0000000000000000>, LIMIT 3, BURST 3)
    -> MarkIPHeader -> GetIPAddress(16)";
const V6: &str = "s :: InfiniteSource(DATA \\<60000000 0008113f 20010db8000000000000000000000001 20010db8000100000000000000000002 0000000000000000>, LIMIT 3, BURST 3)
    -> MarkIP6Header -> GetIP6Address(24)";
const ARP: &str = "q :: ARPQuerier(10.0.2.1/24, 2:0:0:0:0:1";
const ND: &str = "q :: IP6NDSolicitor(2001:db8:1::1, 2:0:0:0:0:1";

/// A querier with three outputs, run for ten seconds while `script` goes on.
fn three(source: &str, querier: &str, script: &str) -> Rig {
    run(&format!(
        "{source} -> {querier}); q[0] -> sent :: Counter -> Discard; q[1] -> asked :: Counter -> Discard;
         q[2] -> lost :: Counter -> Discard; Idle -> [1]q; DriverManager({script} wait 10s, stop)"
    ))
}

fn counts(rig: &mut Rig) -> [String; 4] {
    ["sent.count", "asked.count", "lost.count", "q.length"].map(|handler| rig.read(handler))
}

#[test]
fn who_is_silent_is_asked_three_times_and_given_up() {
    for (source, querier) in [(V4, ARP), (V6, ND)] {
        let mut rig = three(source, querier, "");
        assert_eq!(counts(&mut rig), ["0", "3", "3", "0"], "{querier}");
        let mut rig = three(source, &format!("{querier}, GIVE_UP 1.5s"), "");
        assert_eq!(counts(&mut rig), ["0", "2", "3", "0"], "{querier}");
    }
}

/// An answer from 10.0.2.3, and an advertisement of 2001:db8:1::2, both of 2:0:0:0:0:3.
const ARP_REPLY: &str = "\\<020000000001 020000000003 0806 0001 0800 06 04 0002
    020000000003 0a000203 020000000001 0a000201>";
const ADVERTISEMENT: &str = "\\<020000000001 020000000003 86dd 60000000 0020 3a ff
    20010db8000100000000000000000002 20010db8000100000000000000000001
    88008a6d 60000000 20010db8000100000000000000000002 0201 020000000003>";

#[test]
fn who_answers_late_gets_all() {
    for (source, querier, answer) in [(V4, ARP, ARP_REPLY), (V6, ND, ADVERTISEMENT)] {
        // The three that waited are sent; afterwards it is known, and nobody waits.
        let mut rig = run(&format!(
            "{source} -> {querier}); q[0] -> sent :: Counter -> Discard;
             q[1] -> asked :: Counter -> Discard; q[2] -> lost :: Counter -> Discard;
             a :: InfiniteSource(DATA {answer}, LIMIT 1, ACTIVE false) -> [1]q;
             DriverManager(wait 2500ms, write a.active true, wait 1ms, write s.reset, write s.active true,
                           wait 10s, stop)"
        ));
        assert_eq!(counts(&mut rig), ["6", "3", "0", "0"], "{querier}: {}", rig.printed());
    }
}

#[test]
fn what_waits_goes_on_waiting_when_a_handler_tells_who_has_the_address_as_in_click() {
    let other = [(V4, ARP, "10.0.2.3", ARP_REPLY), (V6, ND, "2001:db8:1::2", ADVERTISEMENT)];
    for (source, querier, address, answer) in other {
        // Who comes later is sent at once; who waited goes with the next answer.
        let mut rig = run(&format!(
            "{source} -> {querier}); q[0] -> sent :: Counter -> Discard; q[1] -> Discard;
             a :: InfiniteSource(DATA {answer}, LIMIT 1, ACTIVE false) -> [1]q;
             DriverManager(wait 1s, write q.insert {address} 2:0:0:0:0:3,
                           print $(sent.count) $(q.length), write s.reset, write s.active true, wait 1s,
                           print $(sent.count) $(q.length), write a.active true, wait 1s, stop)"
        ));
        assert_eq!(rig.printed(), "0 3\n3 3\n", "{querier}");
        assert_eq!([rig.read("sent.count"), rig.read("q.length")], ["6", "0"], "{querier}");
    }
}

#[test]
fn what_waits_in_a_shared_table_goes_on_waiting_as_well() {
    let config = format!(
        "{V4} -> q :: ARPQuerier(10.0.2.1/24, 2:0:0:0:0:1, TABLE t); t :: ARPTable;
         q[0] -> sent :: Counter -> Discard; q[1] -> Discard;
         a :: InfiniteSource(DATA {ARP_REPLY}, LIMIT 1, ACTIVE false) -> [1]q;
         DriverManager(wait 1s, write t.insert 10.0.2.3 2:0:0:0:0:3, wait 1s,
                       print $(sent.count) $(t.length), write a.active true, wait 1s, stop)"
    );
    let mut rig = run(&config);
    assert_eq!(rig.printed(), "0 3\n");
    assert_eq!([rig.read("sent.count"), rig.read("t.length"), rig.read("t.drops")], ["3", "0", "0"]);
}

#[test]
fn what_waits_for_an_address_that_another_displaces_is_dropped_by_name() {
    let other = [(V4, ARP, "10.0.2.9"), (V6, ND, "2001:db8:1::9")];
    for (source, querier, address) in other {
        let script = format!("wait 1s, write q.insert {address} 2:0:0:0:0:9,");
        let mut rig = three(source, &format!("{querier}, ENTRY_CAPACITY 1, GIVE_UP 0"), &script);
        assert_eq!(counts(&mut rig), ["0", "1", "0", "0"], "{querier}: {}", rig.printed());
        let element = rig.router.shared().plan.find("q", None).unwrap();
        let dropped = &rig.router.lanes()[0].counters(element).drops;
        assert_eq!(dropped[..2], [0, 3], "{querier}: waited in vain");
    }
}

#[test]
fn each_try_anew_is_asked_for_and_given_up_again() {
    for (source, querier) in [(V4, ARP), (V6, ND)] {
        let mut rig = three(source, querier, "wait 5s, write s.reset, write s.active true,");
        assert_eq!(counts(&mut rig), ["0", "6", "6", "0"], "{querier}: {}", rig.printed());
    }
}

#[test]
fn with_two_outputs_all_is_as_click_has_it_unless_told_otherwise() {
    let two = |source: &str, querier: &str| {
        run(&format!(
            "{source} -> {querier}); q[0] -> sent :: Counter -> Discard; q[1] -> asked :: Counter -> Discard;
             Idle -> [1]q; DriverManager(wait 10s, stop)"
        ))
    };
    for (source, querier) in [(V4, ARP), (V6, ND)] {
        let mut rig = two(source, querier);
        assert_eq!([rig.read("asked.count"), rig.read("q.length")], ["1", "3"], "{querier}");
        let mut rig = two(source, &format!("{querier}, GIVE_UP 3s"));
        assert_eq!([rig.read("asked.count"), rig.read("q.length")], ["3", "0"], "{querier}");
        assert!(rig.read("q.stats").starts_with("3 packets killed\n"), "{}", rig.read("q.stats"));
    }
}
