//! The registers of virtual functions against a second statement: `iavf*.csv` have what
//! Intel's public headers for the family give under the same names (DPDK's). The headers tell
//! no access class.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};

use regs::iavf::*;

mod csv;
use csv::{by_name, check_places, number, rows};

#[test]
fn both_tables_have_the_same_registers() {
    let first = by_name(TABLE);
    let mut seen = BTreeSet::new();
    for row in rows(include_str!("iavf.csv")) {
        let register = first[row[0]];
        let numbers = [register.offset, register.stride, register.len() as u32];
        assert_eq!(numbers, [1, 2, 3].map(|column| number(row[column])), "{}", row[0]);
        assert!(seen.insert(row[0]), "{} twice", row[0]);
    }
    assert_eq!(seen, first.keys().copied().collect(), "every register is in both");
}

#[test]
fn no_two_registers_share_a_place() {
    check_places(TABLE, BAR0_LEN);
}

/// Fields of registers: the name here, its value, and the header's name.
macro_rules! fields {
    ($($register:ident: $($ours:ident = $theirs:literal),*;)*) => {
        &[$($((stringify!($register), stringify!($ours), $register::$ours, $theirs)),*),*]
    };
}

#[test]
fn both_tables_have_the_same_fields() {
    let second: BTreeMap<(&str, &str), (u32, u32)> = rows(include_str!("iavf_fields.csv"))
        .map(|row| ((row[0], row[1]), (number(row[2]), number(row[3]))))
        .collect();
    let mut seen = BTreeSet::new();
    for (register, name, value, theirs) in FIELDS {
        let (shift, mask) = second[&(*register, *theirs)];
        let expected = if name.ends_with("_SHIFT") { shift } else { mask << shift };
        assert_eq!(*value, expected, "{register}::{name}");
        seen.insert((*register, *theirs));
    }
    assert_eq!(seen, second.keys().copied().collect(), "every field is in both");
}

const FIELDS: &[(&str, &str, u32, &str)] = fields! {
    VF_ATQLEN1: LEN_MASK = "ATQLEN", CRIT = "ATQCRIT", ENABLE = "ATQENABLE";
    VF_ARQLEN1: LEN_MASK = "ARQLEN", CRIT = "ARQCRIT", ENABLE = "ARQENABLE";
    VFGEN_RSTAT: VFR_STATE_MASK = "VFR_STATE";
    VFINT_ICR01: INTEVENT = "INTEVENT", ADMINQ = "ADMINQ", SWINT = "SWINT";
    VFINT_ICR0_ENA1: ADMINQ = "ADMINQ";
    VFINT_DYN_CTL01: INTENA = "INTENA", CLEARPBA = "CLEARPBA", ITR_INDX_NONE = "ITR_INDX";
    VFINT_DYN_CTLN1: INTENA = "INTENA", CLEARPBA = "CLEARPBA", SWINT_TRIG = "SWINT_TRIG", ITR_INDX_SHIFT = "ITR_INDX", ITR_INDX_NONE = "ITR_INDX";
};
