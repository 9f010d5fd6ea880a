//! Packet formats from Ethernet to TCP, as facts over bytes.
//!
//! Each format has two views. The first (`Frame`, `Packet`, `Datagram`, ...) lies
//! over bytes in place and reads or writes one field at a time; the second, `Repr`,
//! is what the header means, as a plain value that can be parsed and emitted.
//!
//! The panic contract, for all formats: a view from `new_checked` over bytes that
//! nobody changed afterwards never panics in an accessor. A view from
//! `new_unchecked`, or one whose length fields were set since, may panic when the
//! bytes are too short; call `check` first. `Repr::emit` panics when the bytes are
//! shorter than `Repr::header_len`, or `Repr::len` where the payload is part of it.
//!
//! Checksums over a payload are neither verified by `parse` nor made by `emit`,
//! because the NIC may do both: `verify_checksum` and `fill_checksum` do. There is
//! no reassembly, no IPv4 option, no jumbogram and no tunnel here.
#![forbid(unsafe_code)]

#[macro_use]
mod view;

pub mod arp;
pub mod checksum;
mod error;
pub mod ethernet;
mod field;
pub mod flow;
pub mod icmpv4;
pub mod icmpv6;
pub mod ip;
pub mod ipv4;
pub mod ipv6;
mod mac;
pub mod tcp;
pub mod tcp_option;
pub mod toeplitz;
pub mod udp;
pub mod vlan;

pub use error::{Error, Result};
pub use flow::Flow;
pub use mac::{InvalidMac, MacAddress};
pub use toeplitz::Toeplitz;
