//! The rules of a table as they were given, in order: what its lookup part is made from.
//! Nothing here is touched by a lookup.

use crate::error::{Error, Result};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
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

/// What a rule has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ruled {
    pub(crate) value: u32,
    /// Its own, as long as it is there: below the number of rules that there ever were at a
    /// time.
    number: u32,
}

/// The value of each rule of a table, for at most `limit` rules.
#[derive(Clone, Debug)]
pub struct Rules<R> {
    pub(crate) map: BTreeMap<R, Ruled>,
    /// Numbers that no rule has, below those that some have.
    free: Vec<u32>,
    limit: usize,
}

impl<R: Rule> Rules<R> {
    pub(crate) fn new(limit: usize) -> Self {
        Rules { map: BTreeMap::new(), free: Vec::new(), limit: limit.min(MAX_RULES) }
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
        // Numbers that are not free are those of rules.
        let next = (self.map.len() + self.free.len()) as u32;
        match self.map.entry(rule) {
            Entry::Occupied(mut there) => Some(std::mem::replace(&mut there.get_mut().value, value)),
            Entry::Vacant(place) => {
                place.insert(Ruled { value, number: self.free.pop().unwrap_or(next) });
                None
            }
        }
    }

    /// Adds all rules to an empty table, the last of equal ones winning.
    pub(crate) fn fill(&mut self, rules: impl IntoIterator<Item = (R, u32)>) -> Result<()> {
        let mut sorted = Vec::new();
        for (rule, value) in rules {
            self.admits(rule, value)?;
            sorted.push((rule, value));
        }
        // Collecting sorts and then builds the map in one pass.
        self.map = sorted.into_iter().map(|(rule, value)| (rule, Ruled { value, number: 0 })).collect();
        self.free.clear();
        for (number, ruled) in (0..).zip(self.map.values_mut()) {
            ruled.number = number;
        }
        if self.map.len() > self.limit {
            return Err(Error::Full { limit: self.limit });
        }
        Ok(())
    }

    /// Removes all rules.
    pub(crate) fn clear(&mut self) {
        self.map.clear();
        self.free.clear();
    }

    /// Removes a rule; its value.
    pub(crate) fn remove(&mut self, rule: R) -> Option<u32> {
        let Ruled { value, number } = self.map.remove(&rule)?;
        self.free.push(number);
        Some(value)
    }

    /// The value of exactly this rule.
    pub(crate) fn value(&self, rule: R) -> Option<u32> {
        self.map.get(&rule).map(|ruled| ruled.value)
    }

    /// The number of exactly this rule.
    pub(crate) fn number(&self, rule: R) -> Option<u32> {
        self.map.get(&rule).map(|ruled| ruled.number)
    }

    pub(crate) fn len(&self) -> usize {
        self.map.len()
    }

    /// All rules in order, with their values and numbers.
    pub(crate) fn numbered(&self) -> impl Iterator<Item = (R, u32, u32)> + '_ {
        self.map.iter().map(|(&rule, ruled)| (rule, ruled.value, ruled.number))
    }

    /// All rules in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (R, u32)> + '_ {
        self.map.iter().map(|(&rule, ruled)| (rule, ruled.value))
    }

    /// The rules between two, both included, in order.
    pub(crate) fn range(&self, first: R, last: R) -> impl Iterator<Item = (R, u32)> + '_ {
        let range = if first <= last { Some(self.map.range(first..=last)) } else { None };
        range.into_iter().flatten().map(|(&rule, ruled)| (rule, ruled.value))
    }

    /// Bytes that the map takes, about: the standard library does not say.
    pub(crate) fn bytes(&self) -> usize {
        // Nodes of eleven entries, two thirds full on average; each child pointer is
        // shared by some eight entries.
        let nodes = self.map.len() * (size_of::<R>() + size_of::<Ruled>()) * 3 / 2 + self.map.len() * 2;
        nodes + self.free.len() * size_of::<u32>()
    }
}
