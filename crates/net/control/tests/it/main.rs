//! The control plane from its messages to the overlay's table.
#![allow(clippy::unwrap_used)]

mod api;
mod api_addresses;
mod fpm;
mod hostile;
mod kernel;
mod messages;
mod mirror;
mod orders;
mod reconcile;
mod route_order;
mod watched;
mod witness;
