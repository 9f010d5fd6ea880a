//! `EtherSpanTree`: switches that find a tree, and what comes to them that is no message.

use proptest::prelude::*;

use crate::{Rig, run};

/// A switch with two ports; `n` is its number, and ends its address.
fn switch(n: usize) -> String {
    format!(
        "t{n} :: EtherSpanTree(2:0:0:0:0:{n}, i{n}, o{n}, s{n}); i{n}, o{n} :: Suppressor; s{n} :: EtherSwitch;
         c{n}a, c{n}b :: Classifier(14/4242, -); q{n}a, q{n}b :: Counter;
         c{n}a -> [0]t{n}[0] -> q{n}a; c{n}a[1] -> [0]i{n}[0] -> [0]s{n}[0] -> [0]o{n}[0] -> q{n}a;
         c{n}b -> [1]t{n}[1] -> q{n}b; c{n}b[1] -> [1]i{n}[1] -> [1]s{n}[1] -> [1]o{n}[1] -> q{n}b;\n"
    )
}

/// A link from one switch's port to another's, which loses nothing.
fn link(from: &str, to: &str) -> String {
    format!("q{from} -> Queue -> Unqueue -> c{to}; q{to} -> Queue -> Unqueue -> c{from};\n")
}

#[test]
fn switches_in_a_ring_close_one_port() {
    let config = [1, 2, 3].map(switch).concat() + &link("1b", "2a") + &link("2b", "3a") + &link("3b", "1a");
    let script = "Script(export early, export gate, wait 10s, set early $(t1.states), set gate $(i1.active0), \
                  wait 60s, stop)";
    let mut rig = run(&format!("{config} x :: {script}"));
    assert_eq!(rig.read("x.early"), "0 listening\n1 listening\n");
    assert_eq!(rig.read("x.gate"), "false");
    assert_eq!(rig.read("t1.states"), "0 forwarding\n1 forwarding\n");
    assert_eq!(rig.read("t2.states"), "0 forwarding\n1 forwarding\n");
    assert_eq!(rig.read("t3.states"), "0 blocking\n1 forwarding\n");
    for (gate, open) in [("i1", ["true", "true"]), ("i3", ["false", "true"]), ("o3", ["false", "true"])] {
        let read = [0, 1].map(|port| rig.read(&format!("{gate}.active{port}")));
        assert_eq!(read, open, "{gate}");
    }
    let root = "dead020000000001";
    let own = format!(" {root}:0000: tc  0 -> {root}  m/h/d: 14/2/f\n");
    let listing = rig.read("t1.msgs");
    assert!(listing.ends_with(&own), "{listing}");
    let listing = rig.read("t3.msgs");
    assert!(
        listing.contains(&format!(" dead020000000002:0001: tc  1 -> {root}  m/h/d: 14/2/f\n")),
        "{listing}"
    );
    assert!(listing.ends_with(&format!(" {root}:0000: tc  1 -> {root}  m/h/d: 14/2/f\n")), "{listing}");
}

#[test]
fn what_a_switch_learned_is_forgotten_when_the_tree_changes() {
    let start =
        "0180c2000000 000000000001 0026 424203 000000 00 01 0000000000000001 00000000 0000000000000001";
    let config = switch(1)
        + &format!(
            "host :: InfiniteSource(\\<0200000000ff 0200000000aa 0800 0000>, LIMIT 1, ACTIVE false) -> c1a; \
             root :: InfiniteSource(\\<{start} 0001 0000 1400 0200 0f00>, LIMIT 1, ACTIVE false) -> c1b; \
             q1a -> Discard; q1b -> Discard; "
        );
    let script = "Script(export before, export after, wait 40s, write host.active true, wait 1s, \
                  set before $(s1.count), write root.active true, wait 1s, set after $(s1.count), stop)";
    let mut rig = run(&format!("{config} x :: {script}"));
    assert_eq!((rig.read("x.before").as_str(), rig.read("x.after").as_str()), ("1", "0"));
    assert!(rig.read("t1.msgs").ends_with("1:0001: TC  1 ->                1  m/h/d: 14/2/f\n"));
}

#[test]
fn gates_that_others_open_are_closed_again() {
    let script = "Script(export open, export gates, wait 9s, write i1.active0 true, write o1.active1 true, \
                  set open $(i1.active0)$(o1.active1), wait 2s, set gates $(i1.active0)$(o1.active1), stop)";
    let mut rig = run(&format!(
        "{} Idle -> c1a; Idle -> c1b; q1a -> Discard; q1b -> Discard; x :: {script}",
        switch(1)
    ));
    assert_eq!((rig.read("x.open").as_str(), rig.read("x.gates").as_str()), ("truetrue", "falsefalse"));
}

#[test]
fn what_the_arguments_name_must_be_what_it_should() {
    let told = |arguments: &str| {
        let config = format!(
            "Idle -> t :: EtherSpanTree({arguments}) -> Discard; Idle -> i :: Suppressor -> Discard; \
             Idle -> s :: EtherSwitch -> Discard; Idle -> o :: Suppressor -> Discard"
        );
        Rig::new(&config).err().unwrap_or_default()
    };
    assert_eq!(told("2:0:0:0:0:1, i, o, s"), "");
    assert!(told("2:0:0:0:0:1, i, o").contains("SWITCH: required argument missing"));
    assert!(told("2:0:0:0:0:1, i, x, s").contains("OUTPUT_SUPPRESSOR: does not name an element"));
    assert!(
        told("2:0:0:0:0:1, s, o, s").contains("INPUT_SUPPRESSOR: element type mismatch, expected Suppressor")
    );
    assert!(told("2:0:0:0:0:1, i, o, i").contains("SWITCH: element type mismatch, expected EtherSwitch"));
    assert!(told("5, i, o, s").contains("ADDR: "));
    // It is told with all else that is wrong in a configuration, before elements are initialized.
    let config = "Idle -> t :: EtherSpanTree(2:0:0:0:0:1, l, o, l) -> Discard; Idle -> Paint(x) -> Discard; \
                  Idle -> l :: ListenEtherSwitch -> Discard; l[1] -> Discard; Idle -> o :: Suppressor -> Discard";
    let told = Rig::new(config).err().unwrap_or_default();
    assert!(told.contains("INPUT_SUPPRESSOR: element type mismatch, expected Suppressor"), "{told}");
    assert!(told.contains("Paint"), "{told}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn no_message_makes_a_switch_fail(
        junk: Vec<u8>, cut in 0..60usize, at in 14..52usize, byte: u8, ages: [u16; 4], root: u64, cost: u32,
    ) {
        use wire::stp::{Configuration, Message, Priority, Times, frame};
        let [age, max_age, hello, forward_delay] = ages;
        let message = Message::Configuration(Configuration {
            priority: Priority { root, cost, bridge: root, port: age },
            age,
            times: Times { max_age, hello, forward_delay },
            changed: age & 1 == 1,
            acknowledged: age & 2 == 2,
        });
        let whole = frame(wire::MacAddress([2; 6]), &message);
        let mut changed = whole;
        changed[at] = byte;
        let hex = |bytes: &[u8]| {
            let digits: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
            format!("InfiniteSource(\\<{digits}>, LIMIT 1) -> [0]t; ")
        };
        let sources = [&junk[..], &whole[..cut], &changed, &whole].map(hex).concat();
        let mut rig = run(&format!(
            "i, o :: Suppressor; s :: EtherSwitch; t :: EtherSpanTree(2:0:0:0:0:1, i, o, s); {sources} t[0] -> a :: Counter -> Discard; \
             Idle -> [1]t; t[1] -> b :: Counter -> Discard; \
             Idle -> [0]i[0] -> [0]s[0] -> [0]o[0] -> Discard; Idle -> [1]i[1] -> [1]s[1] -> [1]o[1] -> Discard; \
             Script(wait 100s, stop)"
        ));
        let sent: u64 = rig.read("b.count").parse().expect("a number");
        prop_assert!((10..=100).contains(&sent), "{sent} messages in 100 s");
        prop_assert_eq!(rig.read("t.states").lines().count(), 2);
    }
}
