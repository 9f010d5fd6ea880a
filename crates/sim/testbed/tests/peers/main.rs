//! Models and drivers beside programs that nobody here wrote: DPDK's and QEMU's, fetched
//! from Debian. They take long, so they run while the other tests do.
#![allow(clippy::unwrap_used)]

mod dpdk;
mod dpdk_driver;
mod dpdk_model;
mod dpdk_vhost;
#[allow(dead_code, reason = "shared with the other tests, which wait for more")]
#[path = "../it/common/limit.rs"]
mod limit;
mod qemu_vhost;
