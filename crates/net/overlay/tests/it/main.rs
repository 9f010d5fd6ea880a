//! The overlay's table from both ends of its tunnels.
#![allow(clippy::unwrap_used)]

mod bad_input;
mod changes;
mod ethernet_segment;
mod learning;
mod multipath;
mod nic;
mod nic_reset;
mod offload;
mod owners;
mod prefixes;
mod rfc;
mod rig;
mod round_trip;
mod too_long;
mod updates;
mod usage;
