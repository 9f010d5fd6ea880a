//! TCP and UDP: headers, checksums, checks.

mod check;
mod checksum;
mod encap;
mod fast_source;

use graph::Class;

/// The classes of this folder.
pub(crate) const CLASSES: &[&Class] =
    &[&check::TCP, &check::UDP, &checksum::TCP, &checksum::UDP, &encap::CLASS, &fast_source::CLASS];

/// Other names of them.
pub(crate) const ALIASES: &[(&str, &str)] = &[];
