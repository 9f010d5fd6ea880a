//! Packet formats from Ethernet to TCP, and those of tunnels, as views over bytes. No other crate knows
//! where a header has its fields, what a protocol's number is, or how checksums are
//! added up: `cargo xtask test` refuses such literals elsewhere.
//!
//! Each format has three views. `Header` lies over an array of the fixed header's
//! length and reads or writes one field at a time: there is nothing in it that can
//! fail or panic, and its `update_` methods keep the checksum right. The second
//! (`Frame`, `Packet`, `Datagram`, ...) lies over a slice, and knows the lengths that
//! the header says, options and payload too. The third, `Repr`, is what the header
//! means, as a plain value that can be parsed and emitted; [`outer`] combines them in front
//! of packets. The modules `offset` are
//! for those who only have a part of a header, and for tables of fields.
//!
//! The panic contract, for all views over slices: a view from `new_checked` over bytes that
//! nobody changed afterwards never panics in an accessor. A view from
//! `new_unchecked`, or one whose length fields were set since, may panic when the
//! bytes are too short; call `check` first. `Repr::emit` panics when the bytes are
//! shorter than `Repr::header_len`, or `Repr::len` where the payload is part of it.
//!
//! Checksums over a payload are neither verified by `parse` nor made by `emit`,
//! because the NIC may do both: `verify_checksum` and `fill_checksum` do. There are
//! no jumbograms here, and of reassembly only a packet's payload ([`fragments`]). Tunnels' own headers are in [`tunnel`].
#![forbid(unsafe_code)]

#[macro_use]
mod view;
#[macro_use]
mod icmp;

pub mod arp;
pub mod checksum;
pub mod dhcp;
pub mod ecn;
pub mod encap_tag;
mod error;
pub mod ethernet;
mod field;
pub mod flow;
pub mod fragments;
pub mod icmpv4;
pub mod icmpv6;
mod inner;
pub mod ip;
pub mod ipv4;
pub mod ipv4_option;
pub mod ipv6;
mod mac;
pub mod mac_control;
pub mod memcached;
pub mod names;
pub mod ndp;
pub mod option_list;
pub mod outer;
pub mod ptp;
pub mod rip;
pub mod segment;
pub mod siphash;
pub mod stp;
pub mod tcp;
pub mod tcp_option;
pub mod tcp_v4;
pub mod toeplitz;
pub mod translation;
pub mod tunnel;
pub mod udp;
pub mod vlan;
pub mod wifi;

pub use error::{Error, Result};
pub use flow::Flow;
pub use inner::Inner;
pub use mac::{InvalidMac, MacAddress};
pub use toeplitz::Toeplitz;
