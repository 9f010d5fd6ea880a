//! The rules of a table as they were given, in order: what its lookup part is made from.
//! Nothing here is touched by a lookup.

use crate::error::{Error, Result};
use std::collections::BTreeMap;
use std::fmt::Debug;

/// The greatest value of a rule.
pub const MAX_VALUE: u32 = (1 << 31) - 2;

/// Rules that a table may hold at most, whatever is asked for.
pub const MAX_RULES: usize = 1 << 26;

/// Rules that a table may hold if nobody says.
pub(crate) const DEFAULT_LIMIT: usize = 1 << 22;

/// What names a rule: for longest prefix match a prefix and its length, for exact match
/// the key.
pub trait Rule: Copy + Ord + Debug + Send + Sync + 'static {
    /// Checks what can be checked without a table.
    ///
    /// # Errors
    /// When this names no rule.
    fn check(self) -> Result<()>;
}

/// The value of each rule of a table, for at most `limit` rules.
#[derive(Clone, Debug)]
pub struct Rules<R> {
    pub(crate) map: BTreeMap<R, u32>,
    limit: usize,
}

impl<R: Rule> Rules<R> {
    pub(crate) fn new(limit: usize) -> Self {
        Rules { map: BTreeMap::new(), limit: limit.min(MAX_RULES) }
    }

    /// Whether `rule` may be added with this value, or its value replaced.
    pub(crate) fn admits(&self, rule: R, value: u32) -> Result<()> {
        rule.check()?;
        if value > MAX_VALUE {
            return Err(Error::Value { value });
        }
        if self.map.len() >= self.limit && !self.map.contains_key(&rule) {
            return Err(Error::Full { limit: self.limit });
        }
        Ok(())
    }

    /// Adds a rule that `admits` let pass; its old value.
    pub(crate) fn insert(&mut self, rule: R, value: u32) -> Option<u32> {
        self.map.insert(rule, value)
    }

    /// Adds all rules to an empty table, the last of equal ones winning.
    pub(crate) fn fill(&mut self, rules: impl IntoIterator<Item = (R, u32)>) -> Result<()> {
        let mut sorted = Vec::new();
        for (rule, value) in rules {
            self.admits(rule, value)?;
            sorted.push((rule, value));
        }
        // Collecting sorts and then builds the map in one pass.
        self.map = sorted.into_iter().collect();
        if self.map.len() > self.limit {
            return Err(Error::Full { limit: self.limit });
        }
        Ok(())
    }

    /// Removes all rules.
    pub(crate) fn clear(&mut self) {
        self.map.clear();
    }

    /// Removes a rule; its value.
    pub(crate) fn remove(&mut self, rule: R) -> Option<u32> {
        self.map.remove(&rule)
    }

    /// The value of exactly this rule.
    pub(crate) fn value(&self, rule: R) -> Option<u32> {
        self.map.get(&rule).copied()
    }

    pub(crate) fn len(&self) -> usize {
        self.map.len()
    }

    /// All rules in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (R, u32)> + '_ {
        self.map.iter().map(|(&rule, &value)| (rule, value))
    }

    /// The rules between two, both included, in order.
    pub(crate) fn range(&self, first: R, last: R) -> impl Iterator<Item = (R, u32)> + '_ {
        let range = if first <= last { Some(self.map.range(first..=last)) } else { None };
        range.into_iter().flatten().map(|(&rule, &value)| (rule, value))
    }

    /// Bytes that the map takes, about: the standard library does not say.
    pub(crate) fn bytes(&self) -> usize {
        // Nodes of eleven entries, two thirds full on average; each child pointer is
        // shared by some eight entries.
        self.map.len() * (size_of::<R>() + 4) * 3 / 2 + self.map.len() * 2
    }
}
