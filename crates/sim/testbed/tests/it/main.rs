//! The testbed's tests in one program, a module for a subject: what they share is built
//! and linked once. Those that start other programs (DPDK, QEMU) and run long are programs
//! of their own beside it, so that they run at the same time.
#![allow(clippy::unwrap_used)]

mod common;

mod capture;
mod driver_completion;
mod driver_descriptor;
mod driver_error;
mod driver_filter;
mod driver_fixed;
mod driver_init;
mod driver_interrupt;
mod driver_lifecycle;
mod driver_multiqueue;
mod driver_offload;
mod driver_port;
mod driver_scatter;
mod forward;
mod hostile_admin;
mod hostile_eventfd;
mod hostile_front_end;
mod hostile_memory;
mod hostile_sharing;
mod i40e_driver;
mod i40e_faults;
mod i40e_firmware;
mod i40e_flow;
mod i40e_probe;
mod i40e_rings;
mod i40e_vf;
mod i40e_vf_host;
mod i40e_vf_hostile;
mod i40e_vf_hostile_pf;
mod i40e_vf_probe;
mod i40e_vf_refused;
mod i40e_vf_rings;
mod i40e_vf_rules;
mod i40e_x722;
mod igbvf;
mod ixgbe_probe;
mod ixgbe_vf;
mod ixgbe_vf_hostile;
mod ixgbe_vf_probe;
mod ixgbe_vf_rings;
mod minimal;
mod physical;
mod promises;
mod slow_peer;
mod tcp_offload;
mod trapped;
mod twin_drivers;
mod twin_messages;
mod vhost_user;
mod virtio_config;
mod virtio_control;
mod virtio_driver;
mod virtio_faults;
mod virtio_interrupt;
mod virtio_lifecycle;
mod virtio_multiqueue;
mod virtio_offload;
mod virtio_pci;
mod virtio_rss;
mod virtio_sizes;
mod virtio_vhost;
