//! What the linters of all models share: how bad a finding is, the words of a
//! rule, and a bounded list of findings. Which rules there are, and what a place
//! is, each model says itself.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;

/// Most findings kept. Further kinds are counted but not described.
pub const MOST_FINDINGS: usize = 512;

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Allowed, but surely not meant.
    Notice,
    /// Undefined or ignored; works by luck.
    Warning,
    /// Packets, memory or the device itself are at risk.
    Error,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Severity::Notice => "notice",
            Severity::Warning => "warning",
            Severity::Error => "error",
        })
    }
}

/// The words of one rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Words {
    /// How bad breaking it is.
    pub severity: Severity,
    /// Section of the specification.
    pub section: &'static str,
    /// What it forbids or leaves undefined.
    pub sentence: &'static str,
    /// What a real device would do.
    pub consequence: &'static str,
}

/// A rule of one specification.
pub trait Rule: Copy + Eq + Hash + fmt::Debug + 'static {
    /// The rule's name.
    fn name(self) -> &'static str;
    /// Its words.
    fn words(self) -> Words;
}

/// Declares rules and their words in one place, so that none lacks any.
macro_rules! rules {
    ($($name:ident, $severity:ident, $section:literal, $sentence:literal, $consequence:literal;)*) => {
        /// What a driver can do wrong.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Rule {
            $(#[doc = $sentence] $name,)*
        }

        impl Rule {
            /// Every rule.
            pub const ALL: &'static [Rule] = &[$(Rule::$name),*];
        }

        impl $crate::lint::Rule for Rule {
            fn name(self) -> &'static str {
                match self {
                    $(Rule::$name => stringify!($name),)*
                }
            }

            fn words(self) -> $crate::lint::Words {
                match self {
                    $(Rule::$name => $crate::lint::Words {
                        severity: $crate::lint::Severity::$severity,
                        section: $section,
                        sentence: $sentence,
                        consequence: $consequence,
                    },)*
                }
            }
        }
    };
}
pub(crate) use rules;

/// One thing a driver did wrong at one place, however often.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding<R, P> {
    /// The rule broken.
    pub rule: R,
    /// Where.
    pub place: P,
    /// The value, address or length at fault, of the first time.
    pub value: u64,
    /// How often so far.
    pub count: u64,
}

impl<R: Rule, P: fmt::Display> fmt::Display for Finding<R, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = self.rule.words();
        write!(
            f,
            "{} {:?} at {} value {:#x} (section {}, {} times): {} {}",
            words.severity,
            self.rule,
            self.place,
            self.value,
            words.section,
            self.count,
            words.sentence,
            words.consequence
        )
    }
}

/// All findings about one driver: one for each rule and place. Memory is bounded
/// by [`MOST_FINDINGS`], however hostile the driver.
#[derive(Debug, Clone)]
pub struct Findings<R, P> {
    findings: Vec<Finding<R, P>>,
    known: HashMap<(R, P), usize>,
    dropped: u64,
}

impl<R, P> Default for Findings<R, P> {
    fn default() -> Findings<R, P> {
        Findings { findings: Vec::new(), known: HashMap::new(), dropped: 0 }
    }
}

impl<R: Rule, P: Copy + Eq + Hash> Findings<R, P> {
    /// Records that `rule` was broken at `place`. A new kind gives its finding
    /// back, so that the caller can say it aloud once.
    #[cold]
    pub fn report(&mut self, rule: R, place: P, value: u64) -> Option<&Finding<R, P>> {
        if let Some(&at) = self.known.get(&(rule, place)) {
            let count = &mut self.findings[at].count;
            *count = count.saturating_add(1);
            return None;
        }
        if self.findings.len() >= MOST_FINDINGS {
            self.dropped = self.dropped.saturating_add(1);
            return None;
        }
        self.known.insert((rule, place), self.findings.len());
        self.findings.push(Finding { rule, place, value, count: 1 });
        self.findings.last()
    }

    /// The findings in the order of their first time.
    pub fn iter(&self) -> impl Iterator<Item = &Finding<R, P>> {
        self.findings.iter()
    }

    /// Number of kinds found.
    pub fn len(&self) -> usize {
        self.findings.len()
    }

    /// Whether the driver did nothing wrong.
    pub fn is_empty(&self) -> bool {
        self.findings.is_empty()
    }

    /// Reports that found no room.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// How often a rule was broken, at all places together.
    pub fn count(&self, rule: R) -> u64 {
        let of_rule = self.findings.iter().filter(|finding| finding.rule == rule);
        of_rule.map(|finding| finding.count).sum()
    }
}

impl<R: Rule, P: fmt::Display> fmt::Display for Findings<R, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for finding in &self.findings {
            writeln!(f, "{finding}")?;
        }
        if self.dropped > 0 {
            writeln!(f, "{} further reports found no room", self.dropped)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::virtio::lint::{Place, Rule};

    #[test]
    fn one_finding_for_each_rule_and_place() {
        let mut findings = Findings::default();
        assert!(findings.report(Rule::ChainLoops, Place::Queue(3), 9).is_some());
        assert!(findings.report(Rule::ChainLoops, Place::Queue(3), 8).is_none());
        assert!(findings.report(Rule::ChainLoops, Place::Queue(4), 7).is_some());
        assert_eq!((findings.len(), findings.count(Rule::ChainLoops)), (2, 3));
        let first = findings.iter().next().expect("reported");
        assert_eq!((first.value, first.count), (9, 2));
        let text = first.to_string();
        assert!(text.contains("queue 3") && text.contains("2 times"), "{text}");
    }

    #[test]
    fn a_hostile_driver_cannot_grow_it() {
        let mut findings = Findings::default();
        for offset in 0..100_000 {
            findings.report(Rule::UnknownRegister, Place::Offset(offset), 0);
        }
        assert_eq!((findings.len(), findings.known.len()), (MOST_FINDINGS, MOST_FINDINGS));
        assert_eq!(findings.dropped(), 100_000 - MOST_FINDINGS as u64);
        assert!(findings.to_string().contains("found no room"));
    }
}
