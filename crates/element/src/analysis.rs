//! Printing, dumps and summaries of packets.

mod ip_print;
mod print;
mod summary;
pub(crate) mod text;
pub(crate) mod transport_line;

use graph::Class;

/// The classes of this folder.
pub(crate) const CLASSES: &[&Class] =
    &[&ip_print::CLASS, &print::CLASS, &summary::from::CLASS, &summary::to::CLASS];

/// Other names of them.
pub(crate) const ALIASES: &[(&str, &str)] = &[];
