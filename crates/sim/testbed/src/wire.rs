//! Cables for a model's port: a traffic generator, a checking sink, captures,
//! another device, a TAP interface, a unix socket.
//!
//! A [`Spec`] is what a user writes, [`plug`] turns the specs of one or more
//! devices into [`Cable`]s. A cable has two directions, to the host and from the
//! host; each is bounded and each loss counted by name ([`WireStats`]). Time is
//! passed in with [`Cable::advance`]. Frames carry no CRC.
//!
//! Not here: delay and bandwidth of a real cable; a frame arrives at once.

mod cable;
mod capture;
mod cause;
mod check;
mod datagram;
mod generator;
mod pair;
mod queue;
mod rate;
mod spec;
mod stats;
mod tap;

pub(crate) use cable::nowhere;
pub use cable::{Cable, Plug, plug};
pub(crate) use cause::Cause;
pub use check::{CheckStats, Ledger};
pub use spec::{GeneratorSpec, Sizes, SourceSpec, Spec, SpecError};
pub use stats::{Direction, NotRecorded, WireStats};

pub use rate::Rate;

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
