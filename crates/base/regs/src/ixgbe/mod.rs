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

pub use device::{DEVICES, Device, Family, VENDOR_INTEL, device};
pub use general::*;
pub use interrupt::*;
pub use link::*;
pub use receive::*;
pub use statistics::*;
pub use transmit::*;

/// Bytes of the register window, BAR0.
pub const BAR0_LEN: u32 = 128 << 10;

crate::table::register_map!(BAR0_LEN: general, interrupt, receive, transmit, link, statistics);

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
