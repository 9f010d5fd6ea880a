//! A client that loads a server over our own TCP: as many connections as wanted, each with
//! some requests under way, in a closed loop, where an answer brings the next request, or in
//! an open one, where requests arrive by themselves at a rate (a Poisson process). In the open
//! loop a latency is counted from when a request was to be sent, so that a server that stalls
//! is not spared the requests that would have come meanwhile (coordinated omission).

mod client;
mod group;
mod random;
mod result;
mod workload;

use std::net::IpAddr;
use std::sync::Arc;

pub use client::Load;
pub use group::{Group, Steering};
pub use random::Random;
pub use result::{Live, Results, Step};
pub use workload::{Came, Echo, Http, Memcached, Mix, Workload};

/// What a load is like.
#[derive(Clone)]
pub struct Settings {
    /// An address of this host.
    pub local: IpAddr,
    /// The server's address and port.
    pub remote: (IpAddr, u16),
    /// Connections, all of which are open before the first request.
    pub connections: usize,
    /// Requests that are under way on each at most.
    pub depth: usize,
    /// Requests after which a connection is reset, and another opened; `None` for connections that stay.
    pub messages: Option<u64>,
    /// Requests in a second, one step after the other; `None` for a closed loop.
    pub rates: Vec<Option<f64>>,
    /// How long each step lasts, in nanoseconds.
    pub step_ns: i64,
    /// The share of keys that may be missing, 0 to 1: with more the load is a failure.
    pub max_misses: f64,
    /// What the choice of keys and times follows from.
    pub seed: u64,
    /// By which ports of this side answers come to it; `None` when they come to it by all.
    pub steering: Option<Steering>,
    /// The loads on other queues, if there are any.
    pub group: Option<Arc<Group>>,
}
