//! The configurations in `conf/`, run on models of the 82599: what hosts on their
//! cables send, and what they hear.

mod dual;
mod frame;
mod gateways;
mod odd;
mod options;
mod paper;
mod rig;
mod unreachable;
