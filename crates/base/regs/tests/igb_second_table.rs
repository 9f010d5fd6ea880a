//! The 82576's registers against a second statement: `82576.csv` has the places,
//! strides and access classes that Intel's public header for the e1000 family
//! gives under the same names. Arrays there are written as formulas; of the queue
//! registers, the branch of queues 4 and up is the 82576's own place, the other
//! one the 82575's, which the 82576 decodes too. What it does not tell is empty.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};

use regs::Register;
use regs::igb::{BAR0_LEN, table};

/// The header's name, and the datasheet's.
const RENAMED: &[(&str, &str)] =
    &[("EECD", "EEC"), ("IVAR0", "IVAR"), ("ICR_V2", "ICR"), ("IMS_V2", "IMS"), ("IMC_V2", "IMC")];

/// Arrays that the header gives by their first register only.
const FIRST_ONLY: &[(&str, u32)] = &[("IVAR", 4), ("MTA", 4), ("VFTA", 4)];

fn first() -> BTreeMap<&'static str, &'static Register> {
    table().map(|register| (register.name, register)).collect()
}

fn hex(text: &str) -> u32 {
    u32::from_str_radix(text.strip_prefix("0x").unwrap(), 16).unwrap()
}

#[test]
fn both_tables_say_the_same() {
    let first = first();
    assert_eq!(first.len(), table().count(), "no name twice");
    let (mut seen, mut classes) = (BTreeSet::new(), 0);
    for line in include_str!("82576.csv").lines().skip(1) {
        let [name, offset, stride, access] = line.split(',').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        let name = RENAMED.iter().find(|(theirs, _)| *theirs == name).map_or(name, |(_, ours)| ours);
        let register = first[name];
        assert_eq!(register.offset, hex(offset), "{name}");
        let alone = FIRST_ONLY.iter().find(|(array, _)| *array == name).map_or(0, |(_, stride)| *stride);
        assert_eq!(register.stride, if stride.is_empty() { alone } else { hex(stride) }, "{name}");
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
    let mut owners = BTreeMap::new();
    for register in table() {
        for n in 0..register.len() {
            let place = register.at(n);
            assert!(place.is_multiple_of(4) && place < BAR0_LEN, "{}[{n}] at {place:#x}", register.name);
            let other = owners.insert(place, register.name);
            assert_eq!(other, None, "{} shares {place:#x}", register.name);
        }
        let numbers = register.section.split('.').all(|part| part.parse::<u32>().is_ok());
        assert!(numbers && !register.what.is_empty(), "{}: {}", register.name, register.section);
    }
}
