//! Intel 82599 10 GbE Controller, datasheet revision 3.4, and its relatives
//! X520, X540 and X550 where they are the same.
//!
//! Each register is a type: `CTRL::AT` or `RDT::at(n)` is its offset in BAR0 in
//! bytes, `CTRL::RST` a field, `CTRL::REGISTER` its row of the [`TABLE`], and
//! `CTRL::ID` that row as a value to match on. A section given only to its third
//! level (`8.2.3.7`) names the group.

pub mod descriptor;
mod device;
mod general;
mod interrupt;
mod link;
mod receive;
mod statistics;
mod transmit;

use std::fmt;
use std::ops::Deref;
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

const _: () = assert!(statistics::NEXT_ID as usize == LEN, "the groups are numbered one after the other");

/// Which register: a row of the [`TABLE`]. `CTRL::ID` is one to match on; what the
/// table says of it is reached by `*`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Id(u16);

impl Id {
    /// How many there are.
    pub const COUNT: usize = LEN;

    /// Its number, below [`Id::COUNT`].
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// Its row of the [`TABLE`].
    pub const fn register(self) -> &'static Register {
        &ALL[self.0 as usize]
    }
}

impl Deref for Id {
    type Target = Register;

    fn deref(&self) -> &Register {
        self.register()
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// For each word of BAR0 the number of its register plus one, and its index in the
/// array.
static BY_OFFSET: LazyLock<Box<[(u16, u16)]>> = LazyLock::new(|| {
    let mut map = vec![(0, 0); BAR0_LEN as usize / 4].into_boxed_slice();
    for (row, register) in TABLE.iter().enumerate() {
        for n in 0..register.len() {
            let word = &mut map[register.at(n) as usize / 4];
            if word.0 == 0 {
                *word = (row as u16 + 1, n as u16);
            }
        }
    }
    map
});

/// The register at a byte offset, and its index in the array. Where two share a
/// place the first of the table is meant.
pub fn lookup(offset: u32) -> Option<(Id, usize)> {
    let (number, n) = *BY_OFFSET.get(offset as usize / 4)?;
    Some((Id(number.checked_sub(1)?), n.into()))
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

    #[test]
    fn each_id_is_of_its_own_row() {
        for (id, register) in [
            (CTRL::ID, CTRL::REGISTER),
            (MANC2H::ID, MANC2H::REGISTER),
            (EICR::ID, EICR::REGISTER),
            (PBACL_ALIAS::ID, PBACL_ALIAS::REGISTER),
            (FCTRL::ID, FCTRL::REGISTER),
            (FCFLTRW::ID, FCFLTRW::REGISTER),
            (DMATXCTL::ID, DMATXCTL::REGISTER),
            (IPSRXMOD::ID, IPSRXMOD::REGISTER),
            (FCTTV::ID, FCTTV::REGISTER),
            (FECS2::ID, FECS2::REGISTER),
            (CRCERRS::ID, CRCERRS::REGISTER),
            (O2BSPC::ID, O2BSPC::REGISTER),
        ] {
            assert_eq!(*id, register);
            assert_eq!(lookup(register.at(register.len() - 1)), Some((id, register.len() - 1)));
        }
    }
}
