//! What the ways to look something up have in common: longest prefix match and exact match
//! are schemes, and share the table of rules, the next hops and their publication
//! ([`Rib`](crate::Rib)).

use crate::rules::{Rule, Rules};
use std::fmt::Debug;

/// What a batch of lookups gives for a key that has no rule.
pub const MISS: u32 = u32::MAX;

/// A way to find the rule that decides about a key.
pub trait Scheme: Copy + Debug + Send + Sync + 'static {
    /// What is looked up.
    type Key: Copy + Debug;

    /// What names a rule.
    type Rule: Rule;

    /// What lookups read.
    type Lookup: Lookup<Self>;
}

/// What lookups read, made from rules that are kept elsewhere.
pub trait Lookup<S: Scheme>: Clone + Debug + Send + Sync {
    /// Of no rules.
    fn new() -> Self;

    /// Makes it anew from all `rules`.
    fn fill(&mut self, rules: &Rules<S::Rule>);

    /// Follows that this rule came, went or has another value: what this part says of it
    /// afterwards is what `rules` do. Changes may be followed late and in any order: when
    /// all have been, the part is that of `rules`.
    fn follow(&mut self, rules: &Rules<S::Rule>, rule: S::Rule);

    /// Follows all of `changed`, which are in order and each there once.
    fn follow_all(&mut self, rules: &Rules<S::Rule>, changed: &[S::Rule]) {
        for &rule in changed {
            self.follow(rules, rule);
        }
    }

    /// What it takes; as `rules` counts what only changes read.
    fn memory(&self) -> Memory;

    /// The value of the rule that decides about `key`.
    fn lookup(&self, key: S::Key) -> Option<u32>;

    /// Looks up `keys`, [`MISS`] standing for no rule.
    ///
    /// # Panics
    /// When `values` is shorter than `keys`.
    fn lookup_batch(&self, keys: &[S::Key], values: &mut [u32]);
}

/// What a table takes, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// What lookups read.
    pub lookup: usize,
    /// The rules as they were given, which only changes read; an estimate.
    pub rules: usize,
}
