//! Overlay networks: packets of virtual networks in tunnels across another network, the
//! underlay, by one lookup that replaces the second pass through a stack (Nakamura et al.,
//! *Protocol-Independent FIB Architecture for Network Overlays*, 2016).
//!
//! An [`Overlay`] is the table for the one who changes it: virtual networks with their
//! entries, the ends of tunnels that are here, and what lower layers tell of the underlay. An
//! entry leads to the finished headers of its [`Tunnel`]: outer Ethernet, VLAN, IP, UDP and
//! the tunnel's own. Each thread has an [`Encapsulator`], which looks identifiers up by
//! offset and length and copies those headers in front of packets, and a [`Decapsulator`].
//! What changes in the underlay changes the headers of the tunnels concerned, and all comes
//! to the threads in one publication that stops none of them.
//!
//! Tunnel protocols are rows of [`PROTOCOLS`]. What reaches the far end and what does not is
//! said by [`port::Reason`]s.
//!
//! Not here: who tells of entries (files, the kernel, a routing daemon), the elements of a
//! router. GRE's sequence numbers are each thread's own: a tunnel that has them is for one.
#![forbid(unsafe_code)]

mod answer;
mod arrival;
mod count;
mod decap;
mod drops;
mod encap;
mod end;
mod error;
mod group;
mod hop;
mod journal;
mod learn;
mod local_ends;
mod network;
mod nic;
mod offload;
mod owner;
mod protocol;
mod routes;
mod segment;
mod show;
mod table;
mod template;
mod trace;
mod tunnel;
mod tunnels;
mod underlay;

pub use answer::Answers;
pub use arrival::Entrance;
pub use count::{Count, Usage};
pub use decap::{Decapsulator, Received};
pub use drops::Drops;
pub use encap::{Encapsulator, Sent};
pub use error::{Error, Result};
pub use group::{MAX_MEMBERS, MAX_WEIGHT, Member};
pub use hop::TunnelId;
pub use learn::{Learning, LearningCounts, Observation};
pub use network::{Layer, Match, Network, Unknown};
pub use nic::{NicCounts, NicTable};
pub use offload::{Mark, given_back};
pub use owner::{Owner, Target};
pub use protocol::{Carrier, MAX_HEADERS, PROTOCOLS, Payload, Protocol, Recognized, Refusal};
pub use routes::{MAX_ROUTED, PrefixEntry};
pub use segment::{MAX_PEERS, Segment};
pub use show::{Entry, FarEnd, LocalEnd};
pub use table::{MAX_FLOOD, Overlay};
pub use trace::Explanation;
pub use tunnel::{DEFAULT_TTL, Dscp, InvalidTunnel, Link, MAX_SEGMENTS, Tunnel, is_one_host};
pub use underlay::{Port, Prefix, Route};
