//! Streams above the TCP dataplane, for applications that do not want its events.
//!
//! A stack runs on a thread of its own, which polls a port: [`Node::start`]. Its application is
//! an [`Engine`], and other threads use the [`Network`] that belongs to it ([`network`] makes
//! both): [`blocking`] has streams like those of `std::net`, [`asynchronous`] streams for tasks,
//! which implement the traits of `futures-io` and depend on no runtime.
//!
//! ```no_run
//! use std::io::{Read, Write};
//! use socket::blocking::TcpListener;
//! use socket::{Limits, Node, Setup};
//!
//! # // Compiled and not run: whoever calls it has opened a port, which needs a NIC, a model or root.
//! # fn answer_once(
//! #     (port, options, dma): (Box<dyn port::Port>, port::Options, memory::Dma),
//! # ) -> Result<(), Box<dyn std::error::Error>> {
//! let own = [10, 0, 0, 2].into();
//! let (network, engine) = socket::network(&[own], Limits::default())?;
//! let node = Node::start(port, &options, &dma, &Setup::at(own, 24), Box::new(engine))?;
//! let (mut stream, _peer) = TcpListener::bind(&network, 7)?.accept()?;
//! let mut bytes = [0; 100];
//! let count = stream.read(&mut bytes)?;
//! stream.write_all(&bytes[..count])?;
//! # Ok(())
//! # }
//! ```
//!
//! It is not the fast path. Each byte is copied twice more, once into a buffer of the connection
//! and once out of it; each packet that comes and each call of a stream takes the lock of the
//! connection, for no longer than one copy; and threads wake each other by system calls: a futex
//! for one that is blocked, and an eventfd for the stack's, whether it sleeps or not, once for all
//! that it has not looked at. Both sides are bounded: a reader that does not read closes the
//! window, and a writer waits when [`Limits::send_buffer`] is full. An application that wants
//! none of that implements `tcp::Service`, and one that serves requests `service::Protocol`;
//! both can be given to a [`Node`] as well.
//!
//! One [`Network`] is one host on one core. For several cores there are several, each with
//! addresses of its own.
#![forbid(unsafe_code)]

pub mod asynchronous;
mod backlog;
pub mod blocking;
mod calls;
mod connection;
mod engine;
mod network;
mod node;

pub use engine::Engine;
pub use network::{Limits, Network, network};
pub use node::{Ended, Error, Node, Setup};
