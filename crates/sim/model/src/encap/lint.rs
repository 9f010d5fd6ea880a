//! What the driver of the table does wrong.

mod rules;

use std::fmt;

pub use rules::Rule;

/// Where a rule was broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Location {
    /// At a register, by its offset.
    Register(u32),
    /// In a frame to be sent.
    Frame,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Location::Register(offset) => write!(f, "encap {offset:#05x}"),
            Location::Frame => f.write_str("encap frame"),
        }
    }
}

/// What was found.
pub type Findings = crate::lint::Findings<Rule, Location>;
