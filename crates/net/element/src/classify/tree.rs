//! Decision trees: which of many rules is the first to hold for a packet, without a test of
//! each of them.
//!
//! A [`Probe`] takes some bits of a word and finds the rules that ask for these very bits in
//! a hash table; among these the next probe takes other bits, until few are left, and a
//! [`Check`] makes the tests of each. Rules that do not ask for all the bits of a probe are behind
//! it, with probes of their own (tuple space search, whose tuples are one word each and are
//! chosen anew among the rules of each value). No rule is in both places, so that a tree is as
//! large as its rules. Where rules stand is what each must have for certain (`cover.rs`); that it
//! holds only its tests say, so that a tree decides as the rules do one after the other, of
//! packets that end early as well.
//!
//! Why so: `docs/decisions/0026-classifier-trees.md`.

mod build;
mod cover;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use super::expression::Expr;
use super::program::{DEEPEST, Program, Step, To, walk};

/// Programs of at most so many rules are walked.
const FEW: usize = 16;
/// What no node is.
const END: u32 = u32::MAX;

/// The decision tree of rules.
#[derive(Debug)]
pub(super) struct Tree {
    /// Each leads to some before it, so that every way ends.
    nodes: Vec<Node>,
    start: u32,
    slots: Vec<Slot>,
    /// The tests of all rules.
    steps: Vec<Step>,
    /// Where each rule leads to; the last: where packets go for which none holds.
    ends: Vec<To>,
    /// The outputs that packets can get to, as far as that is known: of those it leads to.
    outputs: BTreeSet<u32>,
    /// The most words that are looked at.
    worst: usize,
}

#[derive(Debug)]
enum Node {
    Probe(Probe),
    Check(Check),
}

/// A table of rules that ask for all bits of a mask.
#[derive(Debug)]
struct Probe {
    offset: u16,
    /// By how much a hash is shifted to be a place in the table.
    shift: u8,
    mask: u32,
    multiplier: u32,
    /// Where the table begins.
    slots: u32,
    /// The first rule in the table.
    first: u32,
    /// Where to when no rule asks for the bits of the packet.
    next: u32,
    /// Where to when the table has no rule before the one that was found; behind it there is
    /// none either, up to here.
    after: u32,
}

/// A place in a table; it is empty when it leads to [`END`].
#[derive(Debug, Clone, Copy)]
struct Slot {
    value: u32,
    to: u32,
}

/// A rule whose tests are made.
#[derive(Debug)]
struct Check {
    rule: u32,
    /// The first of its tests: they lead to an output when the rule holds.
    tests: To,
    /// Where to when it does not hold.
    next: u32,
    /// Where to when it does: behind rules that come after it.
    after: u32,
}

/// The program of rules of which the first that holds decides: as `walked` makes it, or a tree
/// when there are many rules and it looks at no more than half as many words.
pub(super) fn program(rules: &[(Expr, To)], walked: impl Fn() -> Program) -> Program {
    // More rules than are simplified are not tried to.
    let program = (rules.len() <= DEEPEST).then(&walked);
    let tests = || rules.iter().map(|(expr, _)| expr.length()).sum();
    let longest = program.as_ref().map_or_else(tests, Program::longest);
    let tree = if rules.len() > FEW { Tree::new(rules) } else { None };
    match tree.filter(|tree| 2 * tree.worst <= longest) {
        Some(tree) => {
            // What was simplified knows best which outputs other rules hide.
            let outputs = program.map_or(tree.outputs, |program| program.outputs());
            Program::of_tree(Tree { outputs, ..tree })
        }
        None => program.unwrap_or_else(walked),
    }
}

impl Tree {
    /// The tree of rules; `None` when it would take too long to make.
    fn new(rules: &[(Expr, To)]) -> Option<Tree> {
        build::tree(rules)
    }

    /// Where a packet goes: `place` gives what is there from an offset on.
    #[inline(never)]
    pub(super) fn find<'p>(&self, place: impl Fn(u16) -> &'p [u8]) -> To {
        let mut best = self.ends.len() as u32 - 1;
        let mut at = self.start;
        while let Some(node) = self.nodes.get(at as usize) {
            at = match node {
                Node::Probe(probe) if probe.first >= best => probe.after,
                Node::Probe(probe) => self.look_up(probe, place(probe.offset)),
                Node::Check(check) if check.rule >= best => check.after,
                Node::Check(check) if self.holds(check.tests, &place) => {
                    best = check.rule;
                    check.after
                }
                Node::Check(check) => check.next,
            };
        }
        self.ends.get(best as usize).copied().unwrap_or(To::Drop)
    }

    /// Where to with the bytes of a word. Bytes that are not there are zero: rules that are found
    /// by them fail.
    #[inline(always)]
    fn look_up(&self, probe: &Probe, bytes: &[u8]) -> u32 {
        let word = bytes.first_chunk::<4>().map_or_else(|| padded(bytes), |word| u32::from_be_bytes(*word));
        let value = word & probe.mask;
        let place = value.wrapping_mul(probe.multiplier) >> probe.shift;
        // Behind the last value of each table there is an empty slot.
        let slots = self.slots.get((probe.slots + place) as usize..).unwrap_or(&[]);
        for slot in slots {
            match slot.to {
                END => break,
                to if slot.value == value => return to,
                _ => {}
            }
        }
        probe.next
    }

    #[inline(always)]
    fn holds<'p>(&self, tests: To, place: impl Fn(u16) -> &'p [u8]) -> bool {
        matches!(walk(&self.steps, tests, place), To::Out(_))
    }

    /// The outputs that packets can get to, and perhaps some that others hide.
    pub(super) fn outputs(&self) -> &BTreeSet<u32> {
        &self.outputs
    }

    /// The tests of its rules.
    pub(super) fn steps(&self) -> &[Step] {
        &self.steps
    }
}

/// The word of a packet that ends within it.
#[cold]
fn padded(bytes: &[u8]) -> u32 {
    let mut word = [0; 4];
    word.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    u32::from_be_bytes(word)
}
