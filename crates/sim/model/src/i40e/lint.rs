//! The linter: what a driver does that the datasheet forbids or leaves undefined, reported
//! once for each rule and place. Nothing here changes what the device does.
//!
//! The sections are chapters of datasheet 332464; those that begin with AVF are chapters of the Adaptive
//! Virtual Function specification, document 331954.

mod rules;

use std::fmt;

use regs::i40e::{Id, admin};
use regs::virtchnl;

pub use rules::Rule;

/// Where a rule was broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Location {
    /// A register, and which of its array.
    Register(Id, u16),
    /// A register of a virtual function, and which of its array.
    VfRegister(regs::iavf::Id, u16),
    /// An offset in BAR 0 that belongs to no register.
    Offset(u32),
    /// A command of the admin queue, by its opcode.
    Command(u16),
    /// A message of a virtual function to its physical one, by its kind.
    Message(u32),
    /// A segment descriptor of the host memory cache.
    Segment(u16),
    /// A receive queue.
    Rx(u16),
    /// A transmit queue.
    Tx(u16),
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Location::Register(id, _) if id.len() == 1 => write!(f, "{id:?} ({:#08x})", id.offset),
            Location::Register(id, n) => write!(f, "{id:?}[{n}] ({:#08x})", id.at((*n).into())),
            Location::VfRegister(id, _) if id.len() == 1 => write!(f, "{id:?} ({:#06x})", id.offset),
            Location::VfRegister(id, n) => write!(f, "{id:?}[{n}] ({:#06x})", id.at((*n).into())),
            Location::Offset(offset) => write!(f, "{offset:#08x}"),
            Location::Command(opcode) => write!(f, "command {} ({opcode:#06x})", admin::name(*opcode)),
            Location::Message(kind) => write!(f, "message {} ({kind})", virtchnl::name(*kind)),
            Location::Segment(index) => write!(f, "segment {index}"),
            Location::Rx(queue) => write!(f, "receive queue {queue}"),
            Location::Tx(queue) => write!(f, "transmit queue {queue}"),
        }
    }
}

/// All findings about one driver.
pub type Lint = crate::lint::Findings<Rule, Location>;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lint::Rule as _;

    #[test]
    fn every_rule_has_its_words() {
        for rule in Rule::ALL {
            let words = rule.words();
            assert!(["4", "7", "8", "10", "11", "AVF 6"].contains(&words.section), "{rule:?}: a chapter");
            for text in [words.sentence, words.consequence] {
                assert!(text.ends_with('.') && text.len() > 20, "{rule:?}: {text}");
            }
        }
    }
}
