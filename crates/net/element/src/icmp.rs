//! ICMP: errors, echo, checks.

mod check;
mod encap;
mod error;
pub(crate) mod icmp6;
pub(crate) mod kind;
mod ping;
mod ping_source;

pub use ping::PingResponder;

use graph::Class;

/// The classes of this folder.
pub(crate) const CLASSES: &[&Class] = &[
    &check::CLASS,
    &encap::CLASS,
    &error::CLASS,
    &icmp6::ERROR,
    &icmp6::RESPONDER,
    &ping::ENCAP,
    &ping::RESPONDER,
    &ping_source::CLASS,
];

/// Other names of them.
pub(crate) const ALIASES: &[(&str, &str)] = &[("ICMPSendPings", "ICMPPingSource")];
