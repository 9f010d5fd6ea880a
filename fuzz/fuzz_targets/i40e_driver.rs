//! A device that lies: whatever it writes to the rings, whatever its firmware answers and tells and
//! its registers read, the driver of the XL710 does not panic or hang, packets stay inside their
//! buffers and no buffer is lost.
#![no_main]

use std::cell::{Cell, RefCell};

use fuzz::bench::i40e::{Act, Bench};
use libfuzzer_sys::fuzz_target;

/// Opening takes as long as forty other runs: one of so many opens. Others that are to open run on a
/// port that is open.
const OPENS: u64 = 64;
/// So many open as they are to: inputs from the beginning, and one that is looked at alone.
const FIRST: u64 = 64;

thread_local! {
    /// One card for each way to open it, and one whose port opens in a run.
    static BENCHES: RefCell<[Option<Bench>; 5]> = const { RefCell::new([const { None }; 5]) };
    static RUNS: Cell<u64> = const { Cell::new(0) };
    static OPENED: Cell<u64> = const { Cell::new(0) };
}

fuzz_target!(|input: &[u8]| {
    let Some((&way, acts)) = input.split_first() else { return };
    let acts: Vec<Act> = fuzz::acts(acts, 32).collect();
    RUNS.set(RUNS.get() + 1);
    let opens = way >= 128 && OPENED.get() < FIRST + RUNS.get() / OPENS;
    OPENED.set(OPENED.get() + u64::from(opens));
    BENCHES.with_borrow_mut(|benches| {
        let place = &mut benches[if opens { 4 } else { usize::from(way % 4) }];
        let bench = place.get_or_insert_with(|| Bench::new(way & 1 != 0, way & 2 != 0));
        if opens { bench.run_opening(&acts) } else { bench.run(&acts) }
    });
});
