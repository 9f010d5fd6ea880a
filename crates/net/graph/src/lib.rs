//! Click's language and the graph of elements it describes.
//!
//! [`lang`] reads a configuration: lexer, parser, flattening, and problems with
//! places in them. [`Router`] makes a running router of it. What runs in it is
//! written elsewhere: this crate knows what an [`Element`] is, not which there are.
//!
//! Read [`element`] first, then [`lane`], which carries packets from one element to
//! the next; `wiring` says which ports are push and which pull, `reach` which
//! threads get where.
#![forbid(unsafe_code)]

pub mod buffers;
pub mod check;
pub mod class;
pub mod clock;
pub mod conf;
pub mod cx;
mod draft;
mod drive;
pub mod element;
pub mod explain;
pub mod flow;
pub mod fused;
pub mod gather;
pub mod handler;
mod inbox;
pub mod lane;
pub mod lang;
mod live;
mod locked;
pub mod meter;
mod nearest;
mod outs;
pub mod plan;
pub mod price;
mod reach;
pub mod router;
mod search;
pub mod setup;
pub mod shared;
pub mod signal;
pub mod svg;
mod swap;
pub mod tally;
pub mod task;
mod tickets;
pub mod timer;
mod turns;
pub mod value;
pub mod watch;
mod wiring;

pub use class::{Class, Registry};
pub use clock::Clock;
pub use conf::{Conf, Fault};
pub use cx::Cx;
pub use element::{Complaint, Each, Element, Fate, Next, PerPacket, Ran, Refused};
pub use router::{Options, Router};
pub use setup::Setup;
pub use shared::{Console, Shared};
pub use signal::{Notice, Signal, Signals};
pub use tally::Tally;
