//! Threads that poll queues, below any program: an application, a router's graph or a
//! protocol stack runs on these.
//!
//! A [`Poller`] is what a thread runs over and over: each turn receives, works and sends
//! one batch. A [`Runtime`] deals pollers out to threads, makes a pool for each thread,
//! and holds the threads back until system calls are confined. A thread polls its pollers
//! in turn; when nothing comes for a while it lets others run, or sleeps until an
//! interrupt, a deadline of a poller or a [`Wakeup`]. [`Running::end`] has the devices
//! send what they were given, takes the rings down and returns what each poller counted.
//! A poller with many connections keeps their deadlines in [`Timers`], and finds them by a
//! [`Directory`].
//!
//! The lanes of a router have a loop of their own (`docs/decisions/0018-runtime.md`) and
//! share the parts: [`cores`], [`Wakeup`], [`sleep`] and [`OnPanic`].
#![forbid(unsafe_code)]

pub mod confine;
pub mod cores;
mod directory;
mod error;
mod instant;
pub mod peer;
mod poller;
mod running;
mod stats;
mod timers;
mod wakeup;
mod worker;

pub use directory::Directory;
pub use error::Error;
pub use instant::Instant;
pub use poller::{Poller, Queue};
pub use running::{Finished, OnPanic, Options, Running, Runtime};
pub use stats::{LOSSES, PollerStats, Progress};
pub use timers::Timers;
pub use wakeup::{Wakeup, sleep};
