//! The tests of tables, resolution and leases in one program, a module for a subject.
#![allow(clippy::unwrap_used)]

mod autoconf;
mod dhcp;
mod resolver;
mod responder;
mod shared;
mod table;
