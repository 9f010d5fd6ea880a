//! Numbers that differ from one call to the next, for identifications and addresses:
//! not to be relied on where an attacker must not guess them.

use std::cell::Cell;
use std::hash::{BuildHasher, RandomState};

thread_local! {
    static STATE: Cell<u64> = Cell::new(RandomState::new().hash_one(0));
}

/// The next one (SplitMix64).
#[inline]
pub fn next() -> u64 {
    STATE.with(|state| {
        let now = state.get().wrapping_add(0x9E37_79B9_7F4A_7C15);
        state.set(now);
        let mixed = (now ^ now >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ mixed >> 31
    })
}

/// Has this thread's numbers be those that follow `seed`: the same each time.
pub fn seed(seed: u64) {
    STATE.with(|state| state.set(seed));
}

/// Has this thread's numbers be others than those of any other time.
pub fn reseed() {
    seed(RandomState::new().hash_one(0));
}

/// A number below `bound`, which is not zero.
#[inline]
pub fn below(bound: u64) -> u64 {
    ((u128::from(next()) * u128::from(bound)) >> 64) as u64
}
