//! What the linters of all models share: how bad a finding is, the words of a
//! rule, and a bounded list of findings, grouped by rule. Which rules there are,
//! and what a place is, each model says itself.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;

/// Most places kept of one rule. Reports at further places are counted.
pub const MOST_PLACES: usize = 512;

/// Places that a printed group names; the others it counts.
pub const SHOWN_PLACES: usize = 4;

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Allowed, but surely not meant.
    Notice,
    /// Undefined or ignored; works by chance.
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

/// What is said of one rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RuleText {
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
    /// What the rule says and where that stands, as findings show it.
    fn words(self) -> RuleText;
}

/// How often, in words.
pub fn times(count: u64) -> String {
    match count {
        1 => "once".to_owned(),
        _ => format!("{count} times"),
    }
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
            /// All rules, in the order of their table.
            pub const ALL: &'static [Rule] = &[$(Rule::$name),*];
        }

        impl $crate::lint::Rule for Rule {
            fn name(self) -> &'static str {
                match self {
                    $(Rule::$name => stringify!($name),)*
                }
            }

            fn words(self) -> $crate::lint::RuleText {
                match self {
                    $(Rule::$name => $crate::lint::RuleText {
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
    /// Where the rule was broken.
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
            "{} {} at {} value {:#x} (section {}, {} times): {} {}",
            words.severity,
            self.rule.name(),
            self.place,
            self.value,
            words.section,
            self.count,
            words.sentence,
            words.consequence
        )
    }
}

/// All that was found of one rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group<'a, R, P> {
    /// The rule broken.
    pub rule: R,
    /// How often, at all places together.
    pub count: u64,
    /// The places in the order of their first time, [`MOST_PLACES`] at most.
    pub places: &'a [Finding<R, P>],
    /// Reports at places that found no room.
    pub unlisted: u64,
}

impl<R: Rule, P: fmt::Display> fmt::Display for Group<'_, R, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (words, kept) = (self.rule.words(), self.places.len());
        let more = if self.unlisted > 0 { "or more " } else { "" };
        let (times, place) = (times(self.count), if kept == 1 { "place" } else { "places" });
        write!(f, "{} {}, {times} at {kept} {more}{place}: ", words.severity, self.rule.name())?;
        for (n, finding) in self.places.iter().take(SHOWN_PLACES).enumerate() {
            write!(f, "{}{} value {:#x}", if n > 0 { ", " } else { "" }, finding.place, finding.value)?;
        }
        let rest = if kept > SHOWN_PLACES { ", …" } else { "" };
        write!(f, "{rest} (section {}): {} {}", words.section, words.sentence, words.consequence)
    }
}

/// A rule that was broken, whatever model's rule it is: a [`Group`] in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// The rule's name.
    pub rule: &'static str,
    /// What the rule says and where that stands.
    pub words: RuleText,
    /// How often, at all places together.
    pub count: u64,
    /// The places in the order of their first time, [`MOST_PLACES`] at most.
    pub places: Vec<BrokenAt>,
    /// Reports at places that found no room.
    pub unlisted: u64,
}

/// A place at which a rule was broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokenAt {
    /// The register, queue or other place.
    pub place: String,
    /// The value, address or length at fault, of the first time.
    pub value: u64,
    /// How often it was broken there.
    pub count: u64,
}

impl<R: Rule, P: fmt::Display> From<&Group<'_, R, P>> for Broken {
    fn from(group: &Group<'_, R, P>) -> Broken {
        let at = |finding: &Finding<R, P>| BrokenAt {
            place: finding.place.to_string(),
            value: finding.value,
            count: finding.count,
        };
        Broken {
            rule: group.rule.name(),
            words: group.rule.words(),
            count: group.count,
            places: group.places.iter().map(at).collect(),
            unlisted: group.unlisted,
        }
    }
}

/// What is kept of one rule.
#[derive(Debug, Clone)]
struct Kept<R, P> {
    findings: Vec<Finding<R, P>>,
    known: HashMap<P, usize>,
    count: u64,
    unlisted: u64,
}

/// All findings about one driver: one for each rule and place. Memory is bounded
/// by [`MOST_PLACES`] of each rule, however hostile the driver, and no rule takes
/// another's room.
#[derive(Debug, Clone)]
pub struct Findings<R, P> {
    /// In the order of each rule's first time.
    broken: Vec<(R, Kept<R, P>)>,
}

impl<R, P> Default for Findings<R, P> {
    fn default() -> Findings<R, P> {
        Findings { broken: Vec::new() }
    }
}

impl<R: Rule, P: Copy + Eq + Hash> Findings<R, P> {
    /// Records that `rule` was broken at `place`. A new kind gives its finding
    /// back, so that the caller can log it once.
    #[cold]
    pub fn report(&mut self, rule: R, place: P, value: u64) -> Option<&Finding<R, P>> {
        let at = match self.broken.iter().position(|(other, _)| *other == rule) {
            Some(at) => at,
            None => {
                let broken = Kept { findings: Vec::new(), known: HashMap::new(), count: 0, unlisted: 0 };
                self.broken.push((rule, broken));
                self.broken.len() - 1
            }
        };
        let broken = &mut self.broken[at].1;
        broken.count = broken.count.saturating_add(1);
        if let Some(&at) = broken.known.get(&place) {
            let count = &mut broken.findings[at].count;
            *count = count.saturating_add(1);
            return None;
        }
        if broken.findings.len() >= MOST_PLACES {
            broken.unlisted = broken.unlisted.saturating_add(1);
            return None;
        }
        broken.known.insert(place, broken.findings.len());
        broken.findings.push(Finding { rule, place, value, count: 1 });
        broken.findings.last()
    }

    /// One group for each rule, the most severe first, then in the order of
    /// their first time.
    pub fn groups(&self) -> Vec<Group<'_, R, P>> {
        let mut groups = Vec::new();
        for (rule, Kept { findings, count, unlisted, .. }) in &self.broken {
            groups.push(Group { rule: *rule, count: *count, places: &findings[..], unlisted: *unlisted });
        }
        groups.sort_by_key(|group| std::cmp::Reverse(group.rule.words().severity));
        groups
    }

    /// The groups in words.
    pub fn broken(&self) -> Vec<Broken>
    where
        P: fmt::Display,
    {
        self.groups().iter().map(Broken::from).collect()
    }

    /// The findings, rule by rule in the order of their first time.
    pub fn iter(&self) -> impl Iterator<Item = &Finding<R, P>> {
        self.broken.iter().flat_map(|(_, broken)| &broken.findings)
    }

    /// Whether the driver did nothing wrong.
    pub fn is_empty(&self) -> bool {
        self.broken.is_empty()
    }

    /// How often a rule was broken, at all places together.
    pub fn count(&self, rule: R) -> u64 {
        self.broken.iter().find(|(other, _)| *other == rule).map_or(0, |(_, broken)| broken.count)
    }
}

impl<R: Rule, P: Copy + Eq + Hash + fmt::Display> fmt::Display for Findings<R, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.groups().iter().try_for_each(|group| writeln!(f, "{group}"))
    }
}

#[cfg(test)]
mod tests {
    use super::Rule as _;
    use super::*;
    use crate::virtio::lint::{Location, Rule};

    #[test]
    fn one_finding_for_each_rule_and_place() {
        let mut findings = Findings::default();
        assert!(findings.report(Rule::ChainLoops, Location::Queue(3), 9).is_some());
        assert!(findings.report(Rule::ChainLoops, Location::Queue(3), 8).is_none());
        assert!(findings.report(Rule::ChainLoops, Location::Queue(4), 7).is_some());
        assert_eq!((findings.iter().count(), findings.count(Rule::ChainLoops)), (2, 3));
        let first = findings.iter().next().expect("reported");
        assert_eq!((first.value, first.count), (9, 2));
        let text = first.to_string();
        assert!(text.contains("queue 3") && text.contains("2 times"), "{text}");
    }

    #[test]
    fn a_rule_broken_at_many_places_is_one_group_and_the_worst_comes_first() {
        let mut findings = Findings::default();
        for offset in 0..408 {
            findings.report(Rule::UnknownRegister, Location::Offset(offset), 1);
        }
        findings.report(Rule::ChainLoops, Location::Queue(3), 9);
        let groups = findings.groups();
        assert_eq!(groups.len(), 2);
        assert_eq!((groups[0].rule, groups[0].rule.words().severity), (Rule::ChainLoops, Severity::Error));
        assert_eq!((groups[1].count, groups[1].places.len(), groups[1].unlisted), (408, 408, 0));
        let text = findings.to_string();
        assert_eq!(text.lines().count(), 2, "{text}");
        assert!(text.contains("408 times at 408 places: 0x0000 value 0x1, "), "{text}");
        assert!(text.contains("0x0003 value 0x1, …") && !text.contains("0x0004"), "{text}");
    }

    #[test]
    fn a_hostile_driver_cannot_grow_it() {
        let mut findings = Findings::default();
        for offset in 0..100_000 {
            findings.report(Rule::UnknownRegister, Location::Offset(offset), 0);
        }
        findings.report(Rule::ChainLoops, Location::Queue(3), 9);
        let groups = findings.groups();
        let [worst, flood] = &groups[..] else { panic!("{groups:?}") };
        assert_eq!((worst.rule, worst.count), (Rule::ChainLoops, 1), "others keep their room");
        assert_eq!((flood.count, flood.places.len()), (100_000, MOST_PLACES));
        assert_eq!(flood.unlisted, 100_000 - MOST_PLACES as u64);
        assert!(findings.to_string().contains("512 or more places"), "{findings}");
    }
}
