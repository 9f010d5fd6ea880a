//! Classifiers: patterns, and expressions about IP.

mod classifier;
mod program;

use graph::Class;

/// The classes of this folder.
pub(crate) const CLASSES: &[&Class] = &[&classifier::CLASS];

/// Other names of them.
pub(crate) const ALIASES: &[(&str, &str)] = &[];
