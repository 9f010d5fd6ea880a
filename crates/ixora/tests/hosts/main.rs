//! The program between hosts of Linux's own, in network namespaces, which need root; one
//! test program, which is linked once.

#[path = "../common/mod.rs"]
mod common;

mod evpn_guide;
mod evpn_hosts;
mod evpn_topotests;
mod host;
mod interfaces;
mod iperf3_hosts;
mod lease_hosts;
mod overlay_flaps;
mod overlay_hosts;
mod overlay_learns;
mod ovs_hosts;
mod peers;
mod router_hosts;
mod segment_hosts;
mod serve_hosts;
