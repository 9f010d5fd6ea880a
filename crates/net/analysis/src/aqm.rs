//! Queue management: what is dropped before there is too much.

mod ewma;
pub(super) mod red;
