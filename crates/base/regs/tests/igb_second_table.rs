//! The 82576's registers against a second statement: `82576.csv` has the places,
//! strides and access classes that Intel's public header for the e1000 family
//! gives under the same names. Arrays there are written as formulas; of the queue
//! registers, the branch of queues 4 and up is the 82576's own place, the other
//! one the 82575's, which the 82576 decodes too. What it does not tell is empty.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;

use regs::igb::{BAR0_LEN, table};

mod csv;
use csv::{by_name, check_places, number, rows};

/// The header's name, and the datasheet's.
const RENAMED: &[(&str, &str)] =
    &[("EECD", "EEC"), ("IVAR0", "IVAR"), ("ICR_V2", "ICR"), ("IMS_V2", "IMS"), ("IMC_V2", "IMC")];

/// Arrays that the header gives by their first register only.
const FIRST_ONLY: &[(&str, u32)] = &[("IVAR", 4), ("MTA", 4), ("VFTA", 4)];

#[test]
fn both_tables_say_the_same() {
    let first = by_name(table());
    let (mut seen, mut classes) = (BTreeSet::new(), 0);
    for row in rows(include_str!("82576.csv")) {
        let [name, offset, stride, access] = row[..] else { panic!("{row:?}") };
        let name = RENAMED.iter().find(|(theirs, _)| *theirs == name).map_or(name, |(_, ours)| ours);
        let register = first[name];
        assert_eq!(register.offset, number(offset), "{name}");
        let alone = FIRST_ONLY.iter().find(|(array, _)| *array == name).map_or(0, |(_, stride)| *stride);
        assert_eq!(register.stride, if stride.is_empty() { alone } else { number(stride) }, "{name}");
        if !access.is_empty() {
            assert_eq!(format!("{:?}", register.access), access, "{name}");
            classes += 1;
        }
        assert!(seen.insert(name), "{name} twice");
    }
    assert_eq!(seen, first.keys().copied().collect(), "every register is in both");
    assert!(classes >= 75, "access is compared for only {classes} registers");
}

#[test]
fn places_are_words_of_the_bar_and_nobody_elses() {
    check_places(table(), BAR0_LEN);
    for register in table() {
        let numbers = register.section.split('.').all(|part| part.parse::<u32>().is_ok());
        assert!(numbers && !register.what.is_empty(), "{}: {}", register.name, register.section);
    }
}
