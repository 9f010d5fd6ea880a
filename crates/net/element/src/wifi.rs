//! Wi-Fi: frames of 802.11 made of Ethernet's, and the other way.

mod duplicates;
mod frames;

use graph::Class;

/// The classes of this folder.
pub(crate) const CLASSES: &[&Class] = &[&duplicates::CLASS, &frames::DECAP, &frames::ENCAP];

/// Other names of them.
pub(crate) const ALIASES: &[(&str, &str)] = &[];
