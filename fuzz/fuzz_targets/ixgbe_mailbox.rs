//! Either side of the mailbox of the 82599's virtual functions lies: a hostile virtual function stops
//! neither its host nor another one, and gets nobody's address; a hostile physical function makes the
//! driver refuse by name, and nothing worse.
#![no_main]

use std::cell::RefCell;

use fuzz::ixgbe_mailbox::{Hosted, VfOfBadPf};

thread_local! {
    static HOSTED: RefCell<Option<Hosted>> = const { RefCell::new(None) };
    static DRIVEN: RefCell<Option<VfOfBadPf>> = const { RefCell::new(None) };
}

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let Some((&way, rest)) = input.split_first() else { return };
    match way % 4 {
        0 => DRIVEN.with_borrow_mut(|driven| {
            let acts: Vec<_> = fuzz::acts(rest, 32).take(16).collect();
            driven.get_or_insert_with(VfOfBadPf::open).run(&acts);
        }),
        _ => HOSTED.with_borrow_mut(|hosted| {
            let acts: Vec<_> = fuzz::acts(rest, 32).take(32).collect();
            hosted.get_or_insert_with(Hosted::open).run(&acts);
        }),
    }
});
