//! Intel 82599 10 GbE Controller, datasheet revision 3.4, and its relatives
//! X520, X540 and X550 where they are the same.
//!
//! Each register is a type: `CTRL::AT` or `RDT::at(n)` is its offset in BAR0 in
//! bytes, `CTRL::RST` a field, `CTRL::REGISTER` its entry of the [`TABLE`]. A
//! section given only to its third level (`8.2.3.7`) names the group.

pub mod descriptor;
mod device;
mod general;
mod interrupt;
mod link;
mod receive;
mod statistics;
mod transmit;

use std::sync::LazyLock;

pub use device::{DEVICES, Device, Family, VENDOR_INTEL, device};
pub use general::*;
pub use interrupt::*;
pub use link::*;
pub use receive::*;
pub use statistics::*;
pub use transmit::*;

use crate::Register;

/// Bytes of the register window, BAR0.
pub const BAR0_LEN: u32 = 128 << 10;

const GROUPS: [&[Register]; 6] =
    [general::TABLE, interrupt::TABLE, receive::TABLE, transmit::TABLE, link::TABLE, statistics::TABLE];

const LEN: usize = {
    let (mut sum, mut i) = (0, 0);
    while i < GROUPS.len() {
        sum += GROUPS[i].len();
        i += 1;
    }
    sum
};

static ALL: [Register; LEN] = {
    let mut all = [CTRL::REGISTER; LEN];
    let (mut group, mut i, mut n) = (0, 0, 0);
    while n < LEN {
        if i == GROUPS[group].len() {
            (group, i) = (group + 1, 0);
        } else {
            all[n] = GROUPS[group][i];
            (i, n) = (i + 1, n + 1);
        }
    }
    all
};

/// Every register.
pub static TABLE: &[Register] = &ALL;

/// For each word of BAR0 the index of its register in [`TABLE`], plus one.
static BY_OFFSET: LazyLock<Box<[u16]>> = LazyLock::new(|| {
    let mut map = vec![0; BAR0_LEN as usize / 4].into_boxed_slice();
    for (i, register) in TABLE.iter().enumerate() {
        for n in 0..register.len() {
            let place = &mut map[register.at(n) as usize / 4];
            if *place == 0 {
                *place = i as u16 + 1;
            }
        }
    }
    map
});

/// The register at a byte offset, and its index in the array. Where two share a
/// place the first of the table is meant.
pub fn lookup(offset: u32) -> Option<(&'static Register, usize)> {
    let index = *BY_OFFSET.get(offset as usize / 4)?;
    let register = TABLE.get(usize::from(index).checked_sub(1)?)?;
    let aligned = offset & !3;
    (0..register.len()).find(|&n| register.at(n) == aligned).map(|n| (register, n))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lookup_finds_what_at_gives() {
        for offset in
            [CTRL::AT, RDT::at(0), RDT::at(63), RDT::at(64), RDT::at(127), TDT::at(127), EITR::at(24)]
        {
            let (register, n) = lookup(offset).expect("in the table");
            assert_eq!(register.at(n), offset, "{}", register.name);
        }
        assert_eq!(lookup(RDT::at(64)).map(|(r, n)| (r.name, n)), Some(("RDT", 64)));
        assert!(lookup(0x1FFFC).is_none() && lookup(u32::MAX).is_none());
    }
}
