//! A device that lies: whatever it writes to the rings, the driver of the 82599
//! does not panic, packets stay inside their buffers and no buffer is lost.
#![no_main]

use std::cell::RefCell;

use fuzz::bench::Act;
use fuzz::bench::ixgbe::Bench;
use libfuzzer_sys::fuzz_target;

thread_local! {
    /// One port for each way to open it.
    static BENCHES: RefCell<[Option<Bench>; 4]> = const { RefCell::new([const { None }; 4]) };
}

fuzz_target!(|input: &[u8]| {
    let Some((&way, acts)) = input.split_first() else { return };
    let acts: Vec<Act> = fuzz::acts(acts, 24).collect();
    BENCHES.with_borrow_mut(|benches| {
        let place = &mut benches[usize::from(way % 4)];
        if !place.as_ref().is_some_and(Bench::is_fresh) {
            *place = None; // closed before its successor opens
        }
        place.get_or_insert_with(|| Bench::open(way & 1 != 0, way & 2 != 0)).run(&acts);
    });
});
