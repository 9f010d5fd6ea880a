//! Applications of the TCP dataplane: a [`Server`] of a [`Protocol`] is a `tcp::Service`.
//!
//! [`memcached`] is a cache, and [`http`] serves files; [`iperf3`] measures bulk transfers, and
//! [`load`] loads servers. A protocol is given bytes as they come, cut anywhere, and answers
//! into an [`Output`], the packets of its connection, as far as there is room. What clients
//! can make a server keep is bounded, and what is refused is counted.
#![forbid(unsafe_code)]

mod backlog;
mod holdings;
pub mod http;
pub mod iperf3;
pub mod load;
pub mod memcached;
mod output;
mod server;
mod text;

pub use http::Http;
pub use memcached::Memcached;
pub use output::{Buffer, Output};
pub use server::{Protocol, Server, Taken};
