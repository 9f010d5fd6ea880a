//! Measuring bulk transfers as iperf3 does: a control connection on which one side tells the other
//! what follows, in states of a byte and texts of JSON with their lengths in front, and streams
//! beside it, each of which begins with the cookie of the control connection.
//!
//! There are TCP, several streams, both directions one at a time, times and numbers of bytes; and of
//! UDP the server, which receives or sends. SCTP, both directions at once and
//! authentication are refused as iperf3 refuses what it was not built with.

mod client;
mod datagrams;
mod message;
mod paced;
mod server;
mod stream;

pub use client::{Client, Outcome, Wanted};
pub use datagrams::{Receiver, Seen};
pub use message::StreamResult;
pub use server::Server;
