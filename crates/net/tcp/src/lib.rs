//! TCP (RFC 9293) as a library without sockets, threads or clocks: a [`Stack`] belongs to one
//! core and shares nothing. It is given packets and the time, and gives packets and events.
//!
//! [`Stack::receive`] takes segments and [`Stack::expire`] what is due; both leave [`Event`]s.
//! A [`Service`] takes the events of a whole batch and calls the stack in turn, and
//! [`Stack::output`] then sends, so that an answer carries the acknowledgement of what it
//! answers. Received bytes are the device's buffers, handed over; bytes to be sent are handed
//! over too and are copied once, into the packets that go out, for a sent packet belongs to
//! the device while its bytes may have to be sent again.
//!
//! A [`Host`] puts a stack on a port: it is a poller of `runtime` with ARP, neighbour
//! discovery, fragments of IP packets, pings and [`Udp`]; a [`Configuration`] has it ask others for its addresses. [`Echo`] is an application of both.
//!
//! There are window scaling, timestamps and PAWS (RFC 7323), selective acknowledgements (RFC 2018,
//! 2883) with RACK and tail loss probes (RFC 8985), New Reno without them (RFC 6582), Reno and
//! CUBIC (RFC 5681, 9438) with HyStart, proportional rate reduction (RFC 6937, 9937), timeouts (RFC
//! 6298), initial numbers (RFC 6528), the checks of RFC 5961, SYN cookies (RFC 4987), congestion
//! notification (RFC 3168), fast open (RFC 7413), path MTU discovery (RFC 1191, 8201 and 4821),
//! Nagle's algorithm and keep-alive. There are no urgent data, which are bytes like others here.
//! Fragments of IP packets are for a host. Checksums, but those of short segments, and segmentation
//! are left to the port where it has them ([`Offload`]).
//!
//! What strangers can make a stack keep is bounded by [`Options`], and every segment that it
//! drops is counted by a name of `port::Reason` ([`Counters`]).
#![forbid(unsafe_code)]

mod acknowledge;
mod ahead;
#[cfg(debug_assertions)]
mod audit;
mod calls;
mod choices;
mod configuration;
mod congestion;
mod connection;
mod cookie;
mod copies;
mod counters;
mod cut;
mod data;
mod demux;
mod detail;
mod echo;
mod elsewhere;
mod emit;
mod event;
mod fast_open;
mod fast_open_client;
mod follow_up;
mod fragments;
mod groups;
mod host;
mod hystart;
mod icmp;
mod info;
mod input;
mod kept;
mod key;
mod large;
mod link;
mod mailbox;
mod make;
mod moved;
mod near;
mod notification;
mod options;
mod output;
mod path;
mod predict;
mod probe;
mod progress;
mod queue;
mod rack;
mod rate;
mod reset;
mod rtt;
mod search;
mod segment;
mod sequence;
mod slab;
mod stack;
mod timer;
mod traits;
mod udp;
mod unreachable;
mod usage;
mod watch;

pub use ahead::Arrival;
pub use calls::Refusal;
pub use choices::{Choices, FastOpenListener, Listener, Mark};
pub use configuration::{Assigned, Configuration, Origin, Sources};
pub use connection::{Io, Recovery, State};
pub use copies::{Copied, Copies, Peer, Room, Taken};
pub use counters::Counters;
pub use detail::Detail;
pub use echo::Echo;
pub use event::{Event, Id, Kept, Reason, Service};
pub use groups::{Core, Groups, NotSpread};
pub use host::{Addresses, Host, Neighbors, Report};
pub use icmp::TooBig;
pub use info::{Info, Timer};
pub use key::Key;
pub use moved::Moved;
pub use options::{Algorithm, KeepAlive, Offload, Options};
pub use stack::Stack;
pub use udp::{Datagram, Datagrams, Udp, Unsent};
pub use unreachable::Unreachable;
pub use watch::{Shown, Watch};
