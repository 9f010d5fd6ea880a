//! A tunnel endpoint (RFC 7348's VTEP, for any protocol) as a user runs one: what
//! `overlay.toml` says ([`Config`]), the overlay's table kept equal to it while neighbours
//! come and go ([`Control`]), the kernel, FRR and controllers who change it too ([`Sources`]),
//! and the way of packets between the ports of virtual networks and those of the underlay
//! ([`Lane`]).
//!
//! A lane is what one thread polls: queues of all ports, a sender and a receiver of the
//! table. The control is one for all lanes: frames that concern it (answers of ARP and
//! neighbour discovery) come to it over a bounded channel, and its own requests leave by the
//! first lane. Every frame that goes no further is counted by name ([`port::Reason`]).
#![forbid(unsafe_code)]

mod channels;
mod config;
mod control;
mod counters;
mod desired;
mod explain;
mod gateway;
mod held;
mod lane;
mod offload;
mod sources;

pub use channels::{Channels, Frame, ToControl, channels};
pub use config::{
    Api, Config, Error, Follow, FpmPort, Inner, Learn, Listen, UnderlayPort, parse_key, parse_prefix,
};
pub use control::Control;
pub use counters::{Counters, Side, Totals};
pub use desired::{Desired, End, EndKey, EntryTarget};
pub use explain::{Explanation, FloodCopy, FrameExplainer, describe_target, describe_tunnel, explain};
pub use held::{At, Changes, Held};
pub use lane::{InnerQueues, Lane, UnderlayQueues};
pub use offload::{NicPlaces, Offload};
pub use sources::{SourceError, Sources};
