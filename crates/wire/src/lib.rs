//! Packet formats, as facts over bytes.
//!
//! So far: Ethernet addresses and the internet checksum, which the command line
//! and the ports need.
#![forbid(unsafe_code)]

pub mod checksum;
mod mac;

pub use mac::{InvalidMac, MacAddress};
