//! The registers and messages of the 82599's virtual functions against a second statement:
//! `ixgbevf*.csv` have what the headers of Linux's driver give (`regs.h` and `mbx.h`), which tell
//! neither how many of a register there are nor its access class.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};

use regs::ixgbe::PFMAILBOX;
use regs::ixgbevf::message::{self, kind, queues, version};
use regs::ixgbevf::*;

mod csv;
use csv::{by_name, check_places, number, rows};

#[test]
fn both_tables_have_the_same_registers() {
    let first = by_name(TABLE);
    let mut seen = BTreeSet::new();
    for row in rows(include_str!("ixgbevf.csv")) {
        let register = first[row[0]];
        assert_eq!(
            [register.offset, register.stride],
            [1, 2].map(|column| number(row[column])),
            "{}",
            row[0]
        );
        assert!(seen.insert(row[0]), "{} twice", row[0]);
    }
    assert_eq!(seen, first.keys().copied().collect(), "every register is in both");
}

#[test]
fn no_two_registers_share_a_place() {
    check_places(TABLE, BAR0_LEN);
    for register in TABLE {
        for n in 0..register.len() {
            let found = lookup(register.at(n)).map(|(id, at)| (id.name, at));
            assert_eq!(found, Some((register.name, n)));
        }
    }
}

#[test]
fn both_tables_have_the_same_numbers() {
    let second: BTreeMap<(&str, &str), u32> = rows(include_str!("ixgbevf_fields.csv"))
        .filter(|row| row[0] != "queues")
        .map(|row| ((row[0], row[1]), number(row[2])))
        .collect();
    let first: BTreeMap<(&str, &str), u32> =
        NUMBERS.iter().map(|&(of, name, value)| ((of, name), value)).collect();
    assert_eq!(first, second);
    assert_eq!(kind::TABLE.len(), second.keys().filter(|(of, _)| *of == "kind").count());
}

/// Numbers: of what, the name, and the value here.
macro_rules! numbers {
    ($($of:ident: $($name:ident)*;)*) => {
        &[$($((stringify!($of), stringify!($name), $of::$name)),*),*]
    };
}

const NUMBERS: &[(&str, &str, u32)] = numbers! {
    VFMAILBOX: REQ ACK VFU PFU PFSTS PFACK RSTI RSTD;
    PFMAILBOX: STS ACK VFU PFU RVFU;
    message: SUCCESS FAILURE CLEAR_TO_SEND;
    kind: RESET SET_MAC_ADDR SET_MULTICAST SET_VLAN SET_LPE SET_MACVLAN API_NEGOTIATE GET_QUEUES GET_RETA
        GET_RSS_KEY UPDATE_XCAST_MODE PF_CONTROL_MSG;
    version: V1_0 V1_1 V1_2 V1_3;
};

#[test]
fn the_words_of_queues_are_those_of_the_header() {
    let second: BTreeMap<&str, u32> = rows(include_str!("ixgbevf_fields.csv"))
        .filter(|row| row[0] == "queues")
        .map(|row| (row[1], number(row[2])))
        .collect();
    let words = [
        ("TX", queues::TX),
        ("RX", queues::RX),
        ("TRANSPARENT_VLAN", queues::TRANSPARENT_VLAN),
        ("DEFAULT", queues::DEFAULT),
    ];
    assert_eq!(words.map(|(name, word)| (name, word as u32)).into_iter().collect::<BTreeMap<_, _>>(), second);
}
