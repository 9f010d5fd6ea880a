//! Reading second tables (CSV with a head), and what tests of every table of registers ask.

use std::collections::BTreeMap;

use regs::Register;

/// The rows of a table without its head.
pub fn rows(text: &str) -> impl Iterator<Item = Vec<&str>> {
    text.lines().skip(1).map(|line| line.split(',').collect())
}

/// A number, decimal or hexadecimal.
pub fn number(text: &str) -> u32 {
    match text.strip_prefix("0x") {
        Some(hex) => u32::from_str_radix(hex, 16).unwrap(),
        None => text.parse().unwrap(),
    }
}

/// The registers of a table by name; no name may be there twice.
pub fn by_name(
    table: impl IntoIterator<Item = &'static Register>,
) -> BTreeMap<&'static str, &'static Register> {
    let mut all = BTreeMap::new();
    for register in table {
        assert!(all.insert(register.name, register).is_none(), "{} twice", register.name);
    }
    all
}

/// Registers must be words of a BAR of so many bytes, and no two have the same place.
pub fn check_places(table: impl IntoIterator<Item = &'static Register>, bar_len: u32) {
    let mut owners = BTreeMap::new();
    for register in table {
        for n in 0..register.len() {
            let place = register.at(n);
            assert!(place.is_multiple_of(4) && place < bar_len, "{}[{n}] at {place:#x}", register.name);
            let other = owners.insert(place, register.name);
            assert_eq!(other, None, "{} shares {place:#x}", register.name);
        }
    }
}
