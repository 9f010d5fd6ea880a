//! The overlay's table from both ends of its tunnels.
#![allow(clippy::unwrap_used)]

mod bad_input;
mod changes;
mod multipath;
mod offload;
mod owners;
mod rfc;
mod rig;
mod round_trip;
mod too_long;
