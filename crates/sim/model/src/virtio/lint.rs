//! The linter: what a driver does that virtio forbids or leaves undefined,
//! reported once for each rule and place.
//!
//! The sections are those of virtio 1.3. Nothing here changes what the device
//! does.

mod rules;

use std::fmt;

pub use rules::Rule;

/// Where a rule was broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Location {
    /// The device as a whole.
    Device,
    /// A field of the common configuration, and its offset.
    Register(&'static str, u32),
    /// An offset in a BAR that belongs to no field.
    Offset(u32),
    /// A queue, by number.
    Queue(u16),
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Location::Device => f.write_str("the device"),
            Location::Register(name, offset) => write!(f, "{name} ({offset:#04x})"),
            Location::Offset(offset) => write!(f, "{offset:#06x}"),
            Location::Queue(index) => write!(f, "queue {index}"),
        }
    }
}

/// One thing a driver did wrong, however often.
pub type Finding = crate::lint::Finding<Rule, Location>;

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
            assert!(words.section.starts_with(|c: char| c.is_ascii_digit()), "{rule:?}");
            for text in [words.sentence, words.consequence] {
                assert!(text.ends_with('.') && text.len() > 20, "{rule:?}: {text}");
            }
        }
    }
}
