//! Ports on what Linux has: its network interfaces through AF_XDP and AF_PACKET
//! sockets, TAP interfaces; and capture files (pcap, pcapng), read and written.
//!
//! Each kind implements [`port::Port`] itself; [`Medium`] finds one by the prefix of a
//! port's name. Unsafe code is where memory or an option is shared with the kernel,
//! and there alone: `mapping`, and the modules that say so in front.
#![deny(unsafe_code)]

pub mod af_packet;
pub mod af_xdp;
mod capabilities;
mod checksum;
mod counters;
mod frame;
mod link;
mod mapping;
mod medium;
pub mod pcap;
pub mod tap;
pub mod tun;

pub use link::{Addresses, addresses, gateway, turn_on};
pub use medium::{Allowed, Medium};
