//! Either side of the mailbox of virtual functions lies: any bytes are a message or none; a
//! hostile virtual function stops neither its host nor another one; a hostile physical function
//! makes the driver refuse by name, and nothing worse.
#![no_main]

use std::cell::RefCell;

use fuzz::hosted::{self, Hosted};
use fuzz::lied::Lied;
use testbed::i40e::{DEVICE_QSFP, DEVICE_X722};

thread_local! {
    // Of an XL710 and of an X722.
    static HOSTED: RefCell<[Option<Hosted>; 2]> = const { RefCell::new([None, None]) };
    static LIED: RefCell<[Option<Lied>; 2]> = const { RefCell::new([None, None]) };
}

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let Some((&way, rest)) = input.split_first() else { return };
    let chip = usize::from(way & 4 != 0);
    let id = [DEVICE_QSFP, DEVICE_X722][chip];
    match way % 4 {
        0 => hosted::decode(rest),
        1 => LIED.with_borrow_mut(|lied| {
            let acts: Vec<_> = fuzz::acts(rest, 40).take(32).collect();
            lied[chip].get_or_insert_with(|| Lied::open(id)).run(&acts);
        }),
        _ => HOSTED.with_borrow_mut(|hosted| {
            let acts: Vec<_> = fuzz::acts(rest, 40).take(32).collect();
            hosted[chip].get_or_insert_with(|| Hosted::open(id)).run(&acts);
        }),
    }
});
