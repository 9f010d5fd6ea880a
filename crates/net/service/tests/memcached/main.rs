//! The text protocol of the cache: a dialogue is a request and what must be answered, and the
//! answers are the same wherever the requests are cut and however little room there is.
#![allow(clippy::unwrap_used)]

mod any_requests;
mod client;
mod commands;
mod memory;
mod meta;
mod statistics;
