//! The control plane from its messages to the overlay's table.
#![allow(clippy::unwrap_used)]

mod fpm;
mod kernel;
mod messages;
mod mirror;
mod orders;
mod witness;
