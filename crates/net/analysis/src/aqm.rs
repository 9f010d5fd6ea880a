//! Queue management: what is dropped before there is too much.

pub(super) mod codel;
mod ewma;
mod queues;
pub(super) mod red;
