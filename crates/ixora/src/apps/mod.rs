//! The applications: each is a loop over batches.

pub mod echo;
pub mod fwd;
mod host;
pub mod pcap;
pub mod pktgen;
