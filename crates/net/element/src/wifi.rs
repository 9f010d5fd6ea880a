//! Wi-Fi: frames of 802.11 made of Ethernet's, and the other way.

mod duplicates;
mod frames;

use graph::value::parse_alone;
use graph::{Class, Refused};

/// The classes of this folder.
pub(crate) const CLASSES: &[&Class] = &[&duplicates::CLASS, &frames::DECAP, &frames::ENCAP];

/// What is written to a `debug` handler.
fn debug(value: &str) -> Result<bool, Refused> {
    let wrong = |_| Refused::from("debug parameter must be boolean");
    parse_alone(&graph::lang::args::uncomment(value)).map_err(wrong)
}

/// Other names of them.
pub(crate) const ALIASES: &[(&str, &str)] = &[];
