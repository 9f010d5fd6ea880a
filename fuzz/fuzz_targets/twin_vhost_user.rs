//! A twin that mutates what either side says of vhost-user, in the middle of a conversation that is right
//! but for that, files included: no panic or hang, and no memory but what was offered.
#![no_main]

use fuzz::twin::{Change, Twins};
use libfuzzer_sys::fuzz_target;

thread_local! {
    static TWINS: Twins = Twins::of_vhost_user();
}

fuzz_target!(|input: &[u8]| {
    let Some((&side, changes)) = input.split_first() else { return };
    let changes: Vec<Change> = fuzz::acts(changes, 16).take(8).collect();
    TWINS.with(|twins| twins.run(side & 1 != 0, &changes));
});
