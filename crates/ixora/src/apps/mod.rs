//! The applications: each is a loop over batches.

pub mod echo;
pub mod fwd;
pub mod iperf3;
pub mod load;
mod load_picture;
pub mod pcap;
pub mod pf;
pub mod pktgen;
pub mod serve;
mod serve_demo;
