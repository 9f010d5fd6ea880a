//! Which next hop a packet goes to: longest-prefix match for IPv4 and IPv6, fit for a full
//! BGP table, exact match of bits in a packet, and the way to change a table while others
//! look up in it.
//!
//! ```
//! use fib::Rib;
//! use std::net::Ipv4Addr;
//!
//! let addr = |text: &str| text.parse::<Ipv4Addr>().unwrap().to_bits();
//! let mut rib = Rib::<u32, _>::new();
//! rib.insert((addr("0.0.0.0"), 0), "198.51.100.1 on eth0")?;
//! rib.insert((addr("192.0.2.0"), 24), "the link on eth1")?;
//! rib.publish();
//!
//! let mut reader = rib.reader(); // one for each thread
//! let fib = reader.fib(); // once a batch
//! assert_eq!(fib.lookup(addr("192.0.2.9")), Some(&"the link on eth1"));
//!
//! let mut indices = [0; 2];
//! fib.lookup_batch(&[addr("192.0.2.1"), addr("203.0.113.1")], &mut indices);
//! assert_eq!(indices.map(|index| fib.hop(index)), [Some(&"the link on eth1"), Some(&"198.51.100.1 on eth0")]);
//! # Ok::<(), fib::Error>(())
//! ```
//!
//! [`Rib`] is rules, next hops and their publication in one, for any [`Scheme`]: [`lpm`]
//! and [`exact`] tell of the tables below it, their memory and what lookups and changes
//! cost. [`lpm`] also has tables for one thread, with numbers for next hops.
//!
//! A leaf: addresses are numbers in host byte order (`Ipv4Addr::to_bits`), next hops are
//! whatever the caller has, a port and a gateway or a tunnel. No policy, no ports, no
//! neighbours.
#![forbid(unsafe_code)]

mod error;
pub mod exact;
pub mod lpm;
mod next_hops;
mod published;
mod rib;
mod rules;
mod scheme;
pub mod synthetic;

pub use error::{Error, Result};
pub use rib::{Entry, Fib, Reader, Rib};
pub use rules::{MAX_RULES, MAX_VALUE, Rule, Rules};
pub use scheme::{Lookup, MISS, Memory, Scheme};
