//! Which next hop an address goes to: longest-prefix match for IPv4 and IPv6, fit for a
//! full BGP table, and the way to change a table while others look up in it.
//!
//! ```
//! use fib::lpm::Table4;
//! use std::net::Ipv4Addr;
//!
//! let addr = |text: &str| text.parse::<Ipv4Addr>().unwrap().to_bits();
//! let mut table = Table4::new();
//! table.insert(addr("0.0.0.0"), 0, 1)?; // the next hop's index
//! table.insert(addr("192.0.2.0"), 24, 2)?;
//! assert_eq!(table.lookup(addr("192.0.2.9")), Some(2));
//!
//! let mut values = [0; 2];
//! table.lookup_batch(&[addr("192.0.2.1"), addr("198.51.100.1")], &mut values);
//! assert_eq!(values, [2, 1]);
//! # Ok::<(), fib::Error>(())
//! ```
//!
//! A leaf: addresses are numbers in host byte order (`Ipv4Addr::to_bits`), values are
//! the caller's. No policy, no next hops, no ports.
#![forbid(unsafe_code)]

mod error;
pub mod lpm;
pub mod published;
pub mod synthetic;

pub use error::{Error, Result};
