//! The control plane of overlays: who tells an [`overlay::Overlay`] of its networks, entries
//! and underlay while it runs.
//!
//! [`netlink`] reads messages of rtnetlink. A [`Mirror`] keeps what they say of links,
//! neighbours, forwarding databases, routes and nexthop objects, in whatever order they come,
//! and says what an overlay should have of it: a [`Value`] for each [`Key`]. A [`Program`]
//! takes such claims of several [`Owner`]s and changes the overlay by what is different.
//!
//! The mirror and the program read no socket and no clock: time and messages are passed in.
//! [`kernel`] has the socket by which this machine's kernel tells, [`fpm`] the port to which
//! FRR connects, [`api`] the HTTP API of controllers, and [`reconcile`] compares all that with
//! the kernel asked afresh.
#![forbid(unsafe_code)]

pub mod admission;
pub mod api;
pub mod fpm;
pub mod json;
pub mod kernel;
mod mirror;
pub mod netlink;
mod program;
pub mod reconcile;
mod state;

pub use mirror::{Binding, Counters, Generation, Limits, Mirror, Options, Origin, Unresolved};
pub use overlay::Owner;
pub use program::{Claim, OWNERS, Program};
pub use state::{Change, ELSEWHERE, End, Far, Group, Key, Settings, Several, Value, Weighted};
