//! The registers and messages of the 82576's virtual functions against a second statement: `igbvf*.csv`
//! have what the headers of Linux's driver give (`regs.h`, `defines.h` and `mbx.h`), and those of QEMU's
//! device where that says nothing (names that end in `_A`, and SET_PROMISC). They tell neither how many
//! of a register there are nor its access class.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};

use regs::igbvf::message::{self, kind};
use regs::igbvf::{BAR0_LEN, DCA_TXCTRL, table};
use regs::ixgbevf::message::{self as form, kind as first_form};
use regs::ixgbevf::{VFCTRL, VFMAILBOX, VTIVAR};

mod csv;
use csv::{by_name, check_places, number, rows};

/// The headers' name, and the datasheet's.
const RENAMED: &[(&str, &str)] = &[
    ("CTRL", "VTCTRL"),
    ("STATUS", "VTSTATUS"),
    ("EICR", "VTEICR"),
    ("EITR", "VTEITR"),
    ("EICS", "VTEICS"),
    ("EIMS", "VTEIMS"),
    ("EIMC", "VTEIMC"),
    ("EIAC", "VTEIAC"),
    ("EIAM", "VTEIAM"),
    ("IVAR0", "VTIVAR"),
    ("IVAR_MISC", "VTIVAR_MISC"),
];

#[test]
fn both_tables_have_the_same_registers() {
    let first = by_name(table());
    let mut seen = BTreeSet::new();
    for row in rows(include_str!("igbvf.csv")) {
        let name = RENAMED.iter().find(|(theirs, _)| *theirs == row[0]).map_or(row[0], |(_, ours)| ours);
        let name = name.strip_suffix("_A").unwrap_or(name);
        let register = first[name];
        assert_eq!([register.offset, register.stride], [1, 2].map(|column| number(row[column])), "{name}");
        assert!(seen.insert(name), "{name} twice");
    }
    assert_eq!(seen, first.keys().copied().collect(), "every register is in both");
}

#[test]
fn no_two_registers_share_a_place() {
    check_places(table(), BAR0_LEN);
}

/// Numbers: of what, the name, and the value here.
macro_rules! numbers {
    ($($of:ident: $($name:ident)*;)*) => {
        &[$($((stringify!($of), stringify!($name), $of::$name)),*),*]
    };
}

/// Those of the 82599's virtual functions are the 82576's as well.
const NUMBERS: &[(&str, &str, u32)] = numbers! {
    VFCTRL: RST;
    VFMAILBOX: REQ ACK VFU PFU PFSTS PFACK RSTI RSTD;
    VTIVAR: VALID;
    DCA_TXCTRL: WRITE_BACK_RELAXED;
    form: SUCCESS FAILURE CLEAR_TO_SEND;
    kind: RESET SET_MAC_ADDR SET_MULTICAST SET_VLAN SET_LPE SET_PROMISC PF_CONTROL_MSG;
    message: MAC_FILTER_CLR MAC_FILTER_ADD PROMISC_UNICAST PROMISC_MULTICAST;
    first_form: RESET SET_MULTICAST SET_VLAN SET_LPE PF_CONTROL_MSG;
};

#[test]
fn both_tables_have_the_same_numbers() {
    let second: BTreeMap<(&str, &str), u32> =
        rows(include_str!("igbvf_fields.csv")).map(|row| ((row[0], row[1]), number(row[2]))).collect();
    let first: BTreeMap<(&str, &str), u32> =
        NUMBERS.iter().map(|&(of, name, value)| ((of, name), value)).collect();
    assert_eq!(first, second);
    assert_eq!(kind::TABLE.len(), second.keys().filter(|(of, _)| *of == "kind").count());
}
