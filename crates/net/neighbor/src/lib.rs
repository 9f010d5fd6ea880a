//! Neighbours on an Ethernet: who has which IPv4 address (ARP, RFC 826) or IPv6 address
//! (neighbour discovery, RFC 4861), and what a host answers when it is asked itself.
//!
//! A [`Table`] keeps what is known and the packets that wait to know, a [`Resolver`] says
//! what becomes of a packet to a next hop and makes the requests, [`Table::learn`] reads
//! the answers, and a [`Responder`] answers requests and pings. [`arp`] and [`nd`] have the
//! messages as frames, with the checks that they must pass.
//!
//! ```
//! use neighbor::{Limits, Resolution, Resolver, Table};
//! use std::net::Ipv4Addr;
//! use wire::MacAddress;
//!
//! let own = Resolver::new(MacAddress([2, 0, 0, 0, 0, 1]), Ipv4Addr::new(10, 0, 0, 1));
//! let mut table = Table::new(Limits::default());
//! let next_hop = Ipv4Addr::new(10, 0, 0, 2);
//! assert_eq!(own.lookup(&mut table, next_hop, 0), Resolution::Unknown);
//! // The packet waits in the table (`Table::hold`), and this frame asks for the address.
//! let request = own.request(next_hop, None);
//! // The answer releases what waits.
//! let asked = neighbor::arp::parse(&request).unwrap();
//! let answer = neighbor::arp::frame(&asked.reply(MacAddress([2, 0, 0, 0, 0, 2])), asked.sender_mac);
//! let learned = table.learn(&answer, 1_000, &mut vec![]).unwrap();
//! assert_eq!(own.lookup(&mut table, next_hop, 1_000), Resolution::Known(learned.mac));
//! ```
//!
//! Threads that share one table have a [`SyncTable`], and each a [`Cache`] of it, so that
//! packets to next hops that are known take no lock.
//!
//! A host that is told its own addresses by others has a [`dhcp::Client`] for IPv4 and an
//! [`autoconf::Client`] for IPv6, which also find out whether somebody else has the address.
//!
//! Nothing here sends a packet, reads a clock or knows a configuration: the caller passes
//! the time in nanoseconds and sends what it is given. Redirects are not here.
#![forbid(unsafe_code)]

pub mod arp;
pub mod autoconf;
pub mod dhcp;
mod limits;
pub mod nd;
mod orders;
mod outbox;
mod resolver;
mod responder;
mod shared;
mod table;

pub use limits::Limits;
pub use outbox::Message;
pub use resolver::{Address, Resolution, Resolver};
pub use responder::{Responder, reply_to_echo_v4, reply_to_echo_v6};
pub use shared::{Cache, Locked, SyncTable};
pub use table::{Held, Learned, Neighbor, Table};
