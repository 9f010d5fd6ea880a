//! TCP and UDP: headers, checksums, checks.

mod check;
pub(crate) mod checksum;
mod copy;
mod encap;
mod encap6;
mod fast_flows;
mod fast_source;
mod fast_source6;
mod force;
mod fragmenter;
mod reflector;
mod send;
mod time_record;
pub(crate) mod words;

pub use checksum::{SetTcpChecksum, SetUdpChecksum};
pub use encap::UdpIpEncap;

use graph::Class;

/// The classes of this folder.
pub(crate) const CLASSES: &[&Class] = &[
    &check::TCP,
    &check::UDP,
    &checksum::RESET,
    &checksum::TCP,
    &checksum::UDP,
    &copy::FLOW,
    &copy::SEQUENCE,
    &encap::CLASS,
    &encap::DYNAMIC,
    &encap6::CLASS,
    &fast_flows::TCP,
    &fast_flows::UDP,
    &fast_source::CLASS,
    &fast_source6::CLASS,
    &force::ICMP,
    &force::IP,
    &force::TCP,
    &force::UDP,
    &fragmenter::CLASS,
    &reflector::CLASS,
    &send::CLASS,
    &time_record::CLASS,
];

/// Other names of them.
pub(crate) const ALIASES: &[(&str, &str)] = &[];
