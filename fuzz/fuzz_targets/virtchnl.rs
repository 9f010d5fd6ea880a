//! Either side of the mailbox of virtual functions lies: any bytes are a message or none; a
//! hostile virtual function stops neither its host nor another one; a hostile physical function
//! makes the driver refuse by name, and nothing worse.
#![no_main]

use std::cell::RefCell;

use fuzz::hosted::{self, Hosted};
use fuzz::lied::Lied;

thread_local! {
    static HOSTED: RefCell<Option<Hosted>> = const { RefCell::new(None) };
    static LIED: RefCell<Option<Lied>> = const { RefCell::new(None) };
}

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let Some((&way, rest)) = input.split_first() else { return };
    match way % 4 {
        0 => hosted::decode(rest),
        1 => LIED.with_borrow_mut(|lied| {
            let acts: Vec<_> = fuzz::acts(rest, 40).take(32).collect();
            lied.get_or_insert_with(Lied::open).run(&acts);
        }),
        _ => HOSTED.with_borrow_mut(|hosted| {
            let acts: Vec<_> = fuzz::acts(rest, 40).take(32).collect();
            hosted.get_or_insert_with(Hosted::open).run(&acts);
        }),
    }
});
