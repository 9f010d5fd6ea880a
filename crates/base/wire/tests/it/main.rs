//! The tests of packet formats in one program, a module for a subject.
#![allow(clippy::unwrap_used)]

mod bytes;
mod control_messages;
mod fields;
mod flow;
mod fragments;
mod headers;
mod hostile;
mod outer;
mod round_trip;
mod tunnels;
