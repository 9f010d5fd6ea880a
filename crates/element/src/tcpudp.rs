//! TCP and UDP: headers, checksums, checks.

mod check;
mod checksum;
mod encap;
mod encap6;
mod fast_flows;
mod fast_source;
mod fragmenter;

pub use checksum::{SetTcpChecksum, SetUdpChecksum};
pub use encap::UdpIpEncap;

use graph::Class;

/// The classes of this folder.
pub(crate) const CLASSES: &[&Class] = &[
    &check::TCP,
    &check::UDP,
    &checksum::TCP,
    &checksum::UDP,
    &encap::CLASS,
    &encap6::CLASS,
    &fast_flows::TCP,
    &fast_flows::UDP,
    &fast_source::CLASS,
    &fragmenter::CLASS,
];

/// Other names of them.
pub(crate) const ALIASES: &[(&str, &str)] = &[];
