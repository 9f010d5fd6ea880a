//! A device that lies: whatever it writes to the rings, whatever its firmware answers and tells and
//! its registers read, the driver of the XL710 and the X722 does not panic or hang, packets stay inside their
//! buffers and no buffer is lost.
#![no_main]

use std::cell::{Cell, RefCell};

use fuzz::bench::i40e::{Act, Bench};
use libfuzzer_sys::fuzz_target;
use testbed::i40e::{DEVICE_QSFP, DEVICE_X722};

/// Opening takes as long as forty other runs: one of so many opens. Others that are to open run on a
/// port that is open.
const OPENS: u64 = 64;
/// So many open as they are to: inputs from the beginning, and one that is looked at alone.
const FIRST: u64 = 64;

thread_local! {
    /// Of either chip one card for each way to open it, and one whose port opens in a run.
    static BENCHES: RefCell<[[Option<Bench>; 5]; 2]> =
        const { RefCell::new([const { [const { None }; 5] }; 2]) };
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
        let x722 = way & 4 != 0;
        let place = &mut benches[usize::from(x722)][if opens { 4 } else { usize::from(way % 4) }];
        let id = if x722 { DEVICE_X722 } else { DEVICE_QSFP };
        let bench = place.get_or_insert_with(|| Bench::new(id, way & 1 != 0, way & 2 != 0));
        if opens { bench.run_opening(&acts) } else { bench.run(&acts) }
    });
});
