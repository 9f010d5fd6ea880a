//! Expressions over tests of packets, and decision programs made of them.
//!
//! A packet that ends before the bytes of a test fails it, unless the test is asked
//! for the other way round (`short_yes`): `port != 80` does not hold for a packet
//! without ports.

use std::collections::HashMap;

use super::program::{DEEPEST, MOST_KNOWN, Program, Step, Test, To};

/// Something that holds for a packet or does not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Expr {
    /// Bytes; what is said of a packet that ends before.
    Test(Test, bool),
    /// All hold; of none, this holds.
    All(Vec<Expr>),
    /// One holds; of none, this does not.
    Any(Vec<Expr>),
    /// It does not hold.
    Not(Box<Expr>),
    /// The second if the first holds, else the third.
    If(Box<[Expr; 3]>),
}

impl Expr {
    /// The expression that holds for each packet.
    pub(super) const TRUE: Expr = Expr::All(vec![]);

    /// A test of bytes; of none, it holds.
    pub(super) fn test(offset: u16, mask: u32, value: u32) -> Expr {
        match mask {
            0 => Expr::TRUE,
            _ => Expr::Test(Test { offset, mask, value: value & mask }, false),
        }
    }

    /// Does not hold; nor for a packet that ends before.
    pub(super) fn negated(mut self) -> Expr {
        self.flip();
        Expr::Not(Box::new(self))
    }

    /// How many tests it has.
    pub(super) fn length(&self) -> usize {
        match self {
            Expr::Test(..) => 1,
            Expr::All(list) | Expr::Any(list) => list.iter().map(Expr::length).sum::<usize>().max(1),
            Expr::Not(inner) => inner.length(),
            Expr::If(three) => three.iter().map(Expr::length).sum(),
        }
    }

    fn flip(&mut self) {
        match self {
            Expr::Test(_, short) => *short = !*short,
            Expr::All(list) | Expr::Any(list) => list.iter_mut().for_each(Expr::flip),
            Expr::Not(inner) => inner.flip(),
            Expr::If(three) => three.iter_mut().for_each(Expr::flip),
        }
    }
}

/// The most points that are looked at to leave tests out.
const MOST: usize = 1 << 15;

/// The program of rules of which the first that holds decides.
pub(super) fn program(rules: &[(Expr, To)]) -> Program {
    let mut graph = Graph::default();
    let mut next = To::Drop;
    for (expr, to) in rules.iter().rev() {
        next = graph.lay(expr, *to, next);
    }
    let (result, seen) = (Graph::default(), HashMap::new());
    let mut reduced = Reducer { full: graph, result, seen, known: 0, depth: 0, over: false };
    let start = reduced.reduce(next, &vec![]);
    match reduced.over {
        true => Program::of_steps(&reduced.full.steps, next),
        false => Program::of_steps(&reduced.result.steps, start),
    }
}

/// Steps, each there once, those it leads to before it.
#[derive(Debug, Default)]
pub(super) struct Graph {
    steps: Vec<Step>,
    made: HashMap<Step, u32>,
    /// The words looked at from each step on.
    words: Vec<Vec<u16>>,
}

impl Graph {
    fn step(&mut self, step: Step) -> To {
        if step.yes == step.no {
            return step.yes;
        }
        if let Some(&there) = self.made.get(&step) {
            return To::Step(there);
        }
        let mut words = vec![step.test.offset];
        words.extend(self.words_from(step.yes).iter().chain(self.words_from(step.no)));
        words.sort_unstable();
        words.dedup();
        self.words.push(words);
        self.steps.push(step);
        let number = self.steps.len() as u32 - 1;
        self.made.insert(step, number);
        To::Step(number)
    }

    fn words_from(&self, to: To) -> &[u16] {
        match to {
            To::Step(n) => &self.words[n as usize],
            _ => &[],
        }
    }

    pub(super) fn into_steps(self) -> Vec<Step> {
        self.steps
    }

    /// The steps of an expression, before those at `yes` and `no`.
    pub(super) fn lay(&mut self, expr: &Expr, yes: To, no: To) -> To {
        match expr {
            Expr::Test(test, short_yes) => self.step(Step { test: *test, yes, no, short_yes: *short_yes }),
            Expr::All(list) => list.iter().rev().fold(yes, |next, expr| self.lay(expr, next, no)),
            Expr::Any(list) => list.iter().rev().fold(no, |next, expr| self.lay(expr, yes, next)),
            Expr::Not(inner) => self.lay(inner, no, yes),
            Expr::If(three) => {
                let [condition, holds, fails] = &**three;
                let (holds, fails) = (self.lay(holds, yes, no), self.lay(fails, yes, no));
                self.lay(condition, holds, fails)
            }
        }
    }
}

/// What is known of a word.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct Known {
    /// Bytes that are there for certain.
    there: usize,
    mask: u32,
    value: u32,
    /// Tests that failed.
    not: Vec<(u32, u32)>,
    /// Tests that held, perhaps for want of bytes.
    perhaps: Vec<(u32, u32)>,
}

/// Bytes of a word that a mask reaches.
fn reach(mask: u32) -> usize {
    4 - mask.trailing_zeros().min(31) as usize / 8
}

impl Known {
    /// Whether a test's outcome follows.
    fn decides(&self, test: Test, short_yes: bool) -> Option<bool> {
        if short_yes && self.perhaps.contains(&(test.mask, test.value)) {
            return Some(true);
        }
        if short_yes && self.there < reach(test.mask) {
            return None;
        }
        let common = self.mask & test.mask;
        if (self.value ^ test.value) & common != 0 {
            return Some(false);
        }
        if common == test.mask {
            return Some(true);
        }
        let failed = |&(mask, value): &(u32, u32)| mask & test.mask == mask && test.value & mask == value;
        self.not.iter().any(failed).then_some(false)
    }

    fn learn(&mut self, test: Test, short_yes: bool, held: bool) {
        if short_yes != held {
            // Only bytes that are there can hold, or fail a test that short ones pass.
            self.there = self.there.max(reach(test.mask));
        }
        match (held, short_yes) {
            (true, false) => {
                self.mask |= test.mask;
                self.value |= test.value;
            }
            (true, true) => self.perhaps.push((test.mask, test.value)),
            (false, _) => self.not.push((test.mask, test.value)),
        }
    }
}

/// What is known at a point, by word, in order.
type KnownWords = Vec<(u16, Known)>;

struct Reducer {
    full: Graph,
    result: Graph,
    seen: HashMap<(u32, KnownWords), To>,
    /// Tests that are known at all points that were seen, and points that are dealt with now.
    known: usize,
    depth: usize,
    over: bool,
}

impl Reducer {
    /// The steps from `to` on that are still to be made with what is known.
    fn reduce(&mut self, to: To, facts: &KnownWords) -> To {
        let mut to = to;
        let (number, step) = loop {
            let To::Step(number) = to else { return to };
            let step = self.full.steps[number as usize];
            let known = facts.binary_search_by_key(&step.test.offset, |(word, _)| *word).ok();
            match known.and_then(|place| facts[place].1.decides(step.test, step.short_yes)) {
                Some(holds) => to = if holds { step.yes } else { step.no },
                None => break (number, step),
            }
        };
        let words = self.full.words_from(to);
        let facts: KnownWords =
            facts.iter().filter(|(word, _)| words.binary_search(word).is_ok()).cloned().collect();
        if let Some(&there) = self.seen.get(&(number, facts.clone())) {
            return there;
        }
        self.known += facts.iter().map(|(_, known)| 1 + known.not.len() + known.perhaps.len()).sum::<usize>();
        self.over |= self.seen.len() >= MOST || self.known > MOST_KNOWN || self.depth == DEEPEST;
        if self.over {
            return To::Drop;
        }
        self.depth += 1;
        let yes = self.reduce(step.yes, &learned(&facts, step, true));
        let no = self.reduce(step.no, &learned(&facts, step, false));
        self.depth -= 1;
        let to = self.result.step(Step { yes, no, ..step });
        self.seen.insert((number, facts), to);
        to
    }
}

fn learned(facts: &KnownWords, step: Step, held: bool) -> KnownWords {
    let mut facts = facts.clone();
    let place = facts.binary_search_by_key(&step.test.offset, |(word, _)| *word).unwrap_or_else(|place| {
        facts.insert(place, (step.test.offset, Known::default()));
        place
    });
    facts[place].1.learn(step.test, step.short_yes, held);
    facts
}
