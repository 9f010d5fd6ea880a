//! Making decision trees.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};

use super::super::expression::{Expr, Graph};
use super::super::program::To;
use super::cover::{Cube, Reader};
use super::{Check, END, Node, Probe, Slot, Tree};

/// Rules that are not told apart any more.
const FEW: usize = 4;
/// The most tables of the same rules, and the most that are looked at in a row.
const MOST_TABLES: usize = 32;
const DEEPEST: usize = 16;
/// Rules by which a table is chosen, at the most.
const SAMPLE: usize = 2048;
/// Masks that are tried, at the most, and those of which common bits are.
const MASKS: usize = 64;
const CROSSED: usize = 12;
/// How much is looked at to choose tables, in cubes, and to read rules, in pairs of cubes.
const MOST_WORK: usize = 1 << 24;
const MOST_PAIRS: usize = 1 << 22;
/// Of which the one is taken that keeps values apart best (the first is 2^32 over the golden
/// ratio; all are odd).
const MULTIPLIERS: [u32; 4] = [0x9E37_79B1, 0x85EB_CA6B, 0xC2B2_AE35, 0x27D4_EB2F];

/// A rule, or one of its cubes.
#[derive(Debug, Clone, Copy)]
struct Entry {
    rule: u32,
    cube: u32,
}

/// Entries that are looked for in one way.
enum Group {
    List(Vec<Entry>),
    /// In a table by these bits.
    Table((u16, u32), Vec<Entry>),
}

/// Where entries are looked for, and how many words that takes at the most.
struct Part {
    start: u32,
    worst: usize,
}

#[derive(Default)]
struct Builder {
    cubes: Vec<Cube>,
    rules: Vec<Rule>,
    nodes: Vec<Node>,
    slots: Vec<Slot>,
    work: usize,
}

struct Rule {
    tests: To,
    length: usize,
    /// It holds for all packets of its cubes.
    exact: bool,
}

/// The tree of rules; `None` when it would take too long to make.
pub(super) fn tree(rules: &[(Expr, To)]) -> Option<Tree> {
    let (mut builder, mut graph) = (Builder { work: MOST_WORK, ..Builder::default() }, Graph::default());
    let (mut entries, mut ends, mut last) = (vec![], vec![], To::Drop);
    // Cubes of rules that hold for all packets of them: nobody comes to the same again.
    let mut taken: HashSet<Cube> = HashSet::new();
    let mut reader = Reader { left: MOST_PAIRS };
    for (number, (expr, to)) in rules.iter().enumerate() {
        let cover = reader.cover(expr)?;
        if cover.exact && cover.cubes.iter().any(|cube| cube.tests().is_empty()) {
            last = *to;
            break;
        }
        let tests = graph.lay(expr, To::Out(0), To::Drop);
        builder.rules.push(Rule { tests, length: expr.length(), exact: cover.exact });
        ends.push(*to);
        for cube in cover.cubes {
            if taken.contains(&cube) {
                continue;
            }
            entries.push(Entry { rule: number as u32, cube: builder.cubes.len() as u32 });
            builder.cubes.push(cube);
            if cover.exact {
                taken.insert(cube);
            }
        }
    }
    ends.push(last);
    let Part { start, worst } = builder.part(entries, END, 0)?;
    let Builder { nodes, slots, .. } = builder;
    let checked = nodes.iter().filter_map(|node| match node {
        Node::Check(check) => ends[check.rule as usize].output(),
        Node::Probe(_) => None,
    });
    let outputs = checked.chain(last.output()).collect();
    Some(Tree { nodes, start, slots, steps: graph.into_steps(), ends, outputs, worst })
}

impl Builder {
    fn cube(&self, entry: &Entry) -> &Cube {
        &self.cubes[entry.cube as usize]
    }

    /// Where entries, in the order of their rules, are looked for before it goes on at `after`.
    fn part(&mut self, mut entries: Vec<Entry>, after: u32, depth: usize) -> Option<Part> {
        let mut groups = vec![];
        while entries.len() > FEW && groups.len() < MOST_TABLES && depth < DEEPEST {
            let Some(bits) = self.choose(&entries)? else { break };
            let (inside, outside) =
                entries.into_iter().partition(|entry| self.cube(entry).value(bits.0, bits.1).is_some());
            groups.push(Group::Table(bits, inside));
            entries = outside;
        }
        if !entries.is_empty() {
            groups.push(Group::List(entries));
        }
        // What is looked at first, those with the first rules, is made last: nodes lead to some
        // before them.
        groups.sort_by_key(|(Group::List(entries) | Group::Table(_, entries))| Reverse(entries[0].rule));
        let mut part = Part { start: after, worst: 0 };
        for group in groups {
            let next = part.start;
            let Part { start, worst } = match group {
                Group::List(entries) => self.list(entries, next),
                Group::Table(bits, entries) => self.table(bits, entries, (next, after), depth)?,
            };
            part = Part { start, worst: part.worst + worst };
        }
        Some(part)
    }

    /// Checks of one after the other.
    fn list(&mut self, entries: Vec<Entry>, next: u32) -> Part {
        let mut kept: Vec<Entry> = vec![];
        for entry in entries {
            let hides = |earlier: &Entry| {
                let Rule { exact, .. } = self.rules[earlier.rule as usize];
                earlier.rule == entry.rule || exact && self.cube(earlier).contains(self.cube(&entry))
            };
            // Of long lists only the beginning can hide what comes later, so that this ends soon.
            if !kept.iter().take(MASKS).any(hides) {
                kept.push(entry);
            }
        }
        let mut part = Part { start: next, worst: 0 };
        for entry in kept.iter().rev() {
            let Rule { tests, length, .. } = self.rules[entry.rule as usize];
            let check = Check { rule: entry.rule, tests, next: part.start, after: next };
            part = Part { start: self.push(Node::Check(check)), worst: part.worst + length };
        }
        part
    }

    /// A table of entries that all fix the same bits.
    fn table(
        &mut self,
        (offset, mask): (u16, u32),
        entries: Vec<Entry>,
        (next, after): (u32, u32),
        depth: usize,
    ) -> Option<Part> {
        let first = entries[0].rule;
        let mut by_value: BTreeMap<u32, Vec<Entry>> = BTreeMap::new();
        for entry in entries {
            let value = self.cube(&entry).value(offset, mask)?;
            by_value.entry(value).or_default().push(entry);
        }
        let (mut slots, mut worst) = (vec![], 0);
        for (value, entries) in by_value {
            let part = self.part(entries, next, depth + 1)?;
            slots.push(Slot { value, to: part.start });
            worst = worst.max(part.worst);
        }
        let (multiplier, shift, table) = laid_out(&slots);
        let probe =
            Probe { offset, shift, mask, multiplier, slots: self.slots.len() as u32, first, next, after };
        self.slots.extend(table);
        Some(Part { start: self.push(Node::Probe(probe)), worst: worst + 1 })
    }

    fn push(&mut self, node: Node) -> u32 {
        self.nodes.push(node);
        self.nodes.len() as u32 - 1
    }

    /// The bits by which entries are told apart best; `None` inside if a table would take more
    /// than it saves, outside if it took too long to find out.
    fn choose(&mut self, entries: &[Entry]) -> Option<Option<(u16, u32)>> {
        let stride = entries.len().div_ceil(SAMPLE);
        let sample: Vec<&Cube> = entries.iter().step_by(stride).map(|entry| self.cube(entry)).collect();
        let masks = masks(&sample);
        let (mut best, mut values) = (None, vec![]);
        for &(offset, mask) in &masks {
            values.clear();
            values.extend(sample.iter().filter_map(|cube| cube.value(offset, mask)));
            values.sort_unstable();
            let Some(cost) = cost(&values, sample.len(), stride) else { continue };
            if best.is_none_or(|(least, _)| cost < least) {
                best = Some((cost, (offset, mask)));
            }
        }
        self.work = self.work.checked_sub(sample.len() * (1 + masks.len()))?;
        Some(best.map(|(_, bits)| bits))
    }
}

/// The bits that are asked for together, of a word each: the most frequent, and what those of a
/// word have in common.
fn masks(cubes: &[&Cube]) -> Vec<(u16, u32)> {
    let mut counts: BTreeMap<(u16, u32), usize> = BTreeMap::new();
    for test in cubes.iter().flat_map(|cube| cube.tests()) {
        *counts.entry((test.offset, test.mask)).or_default() += 1;
    }
    let mut masks: Vec<_> = counts.into_iter().collect();
    masks.sort_by_key(|(_, count)| Reverse(*count));
    masks.truncate(MASKS);
    let mut masks: Vec<(u16, u32)> = masks.into_iter().map(|(bits, _)| bits).collect();
    for n in 0..masks.len().min(CROSSED) {
        for m in 0..n {
            let common = (masks[n].0, masks[n].1 & masks[m].1);
            if masks[n].0 == masks[m].0 && common.1 != 0 && !masks.contains(&common) {
                masks.push(common);
            }
        }
    }
    masks
}

/// What it costs to look for rules in a table by their values, in order, and for the others of
/// `all` behind it, each of them for `scale`; `None` when it does not pay. Both are taken to be
/// told apart further, so that twice as many cost one step more; in the table as many are left as
/// have the same value, at the worst and in the mean.
fn cost(values: &[u32], all: usize, scale: usize) -> Option<f64> {
    let (mut most, mut squares) = (0, 0);
    for same in values.chunk_by(|a, b| a == b) {
        most = most.max(same.len());
        squares += same.len() * same.len();
    }
    if (values.len() - most) * scale <= FEW {
        return None;
    }
    let steps = |rules: f64| if rules > 0.0 { 1.0 + (rules * scale as f64).log2() } else { 0.0 };
    let mean = squares as f64 / values.len() as f64;
    Some((steps(most as f64) + steps(mean)) / 2.0 + steps((all - values.len()) as f64))
}

/// A hash table of values: the multiplier, the shift, and the slots, each value as near behind its
/// place as it gets, the last slot empty.
pub(super) fn laid_out(values: &[Slot]) -> (u32, u8, Vec<Slot>) {
    let bits = (2 * values.len()).next_power_of_two().trailing_zeros();
    let shift = (32 - bits) as u8;
    let lay = |multiplier: u32| {
        let mut slots = vec![Slot { value: 0, to: END }; 1 << bits];
        let mut farthest = 0;
        for &slot in values {
            let place = (slot.value.wrapping_mul(multiplier) >> shift) as usize;
            let free = slots[place..].iter().position(|slot| slot.to == END);
            let distance = free.unwrap_or(slots.len() - place);
            farthest = farthest.max(distance);
            match free {
                Some(_) => slots[place + distance] = slot,
                None => slots.push(slot),
            }
        }
        slots.push(Slot { value: 0, to: END });
        (farthest, multiplier, slots)
    };
    let tries = MULTIPLIERS.map(lay);
    let best = tries.into_iter().min_by_key(|(farthest, ..)| *farthest);
    let (_, multiplier, slots) = best.unwrap_or_default();
    (multiplier, shift, slots)
}
