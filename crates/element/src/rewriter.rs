//! Address translation: flows and their mappings.

use graph::Class;

/// The classes of this folder.
pub(crate) const CLASSES: &[&Class] = &[];

/// Other names of them.
pub(crate) const ALIASES: &[(&str, &str)] = &[];
