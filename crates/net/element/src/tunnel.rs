//! Overlays: the table that elements share, and the ways into tunnels and out of them.

mod decap;
mod encap;
mod fib;

use graph::Class;

/// The classes of this folder.
pub(crate) const CLASSES: &[&Class] = &[&decap::CLASS, &encap::CLASS, &fib::CLASS];

/// Other names of them.
pub(crate) const ALIASES: &[(&str, &str)] = &[];
