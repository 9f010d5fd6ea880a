//! Either side of the mailbox of virtual functions lies: any bytes are a message or none; a
//! hostile virtual function stops neither its host nor another one; a hostile physical function
//! makes the driver refuse by name, and nothing worse.
#![no_main]

use std::cell::RefCell;

use fuzz::hosted::{self, Hosted};
use fuzz::vf_of_bad_pf::VfOfBadPf;
use testbed::i40e::{DEVICE_QSFP, DEVICE_X722};

thread_local! {
    // Of an XL710 and of an X722.
    static HOSTED: RefCell<[Option<Hosted>; 2]> = const { RefCell::new([None, None]) };
    static DRIVEN: RefCell<[Option<VfOfBadPf>; 2]> = const { RefCell::new([None, None]) };
}

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let Some((&way, rest)) = input.split_first() else { return };
    let chip = usize::from(way & 4 != 0);
    let id = [DEVICE_QSFP, DEVICE_X722][chip];
    match way % 4 {
        0 => hosted::decode(rest),
        1 => DRIVEN.with_borrow_mut(|driven| {
            let acts: Vec<_> = fuzz::acts(rest, 40).take(32).collect();
            driven[chip].get_or_insert_with(|| VfOfBadPf::open(id)).run(&acts);
        }),
        _ => HOSTED.with_borrow_mut(|hosted| {
            let acts: Vec<_> = fuzz::acts(rest, 40).take(32).collect();
            hosted[chip].get_or_insert_with(|| Hosted::open(id)).run(&acts);
        }),
    }
});
