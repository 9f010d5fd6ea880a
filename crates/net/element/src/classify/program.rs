//! Decision programs: a classification reduced to tests of four bytes each.
//!
//! Rules are lists of tests that must all hold; the first rule that does decides.
//! Put one behind the other they would look at the same bytes again and again, so a
//! program is built by going through them once with all that is known at each point:
//! a test whose outcome follows from earlier ones is not made. Equal ends of
//! different ways are one.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::fmt::Write;
use std::sync::Arc;

use graph::chain::Bytes;

use super::expression::Expr;
use super::tree::Tree;

/// A test of four bytes of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Test {
    /// Where the bytes are, a multiple of four.
    pub offset: u16,
    /// The bits that count, in network order.
    pub mask: u32,
    /// What they must be.
    pub value: u32,
}

impl Test {
    /// No packet passes it.
    const NEVER: Test = Test { offset: 0, mask: 0, value: 1 };
}

/// Where a step leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum To {
    /// To another step.
    Step(u32),
    /// To an output.
    Out(u32),
    /// Nowhere: no rule holds.
    Drop,
}

impl To {
    /// The output, if it leads to one.
    pub(super) fn output(self) -> Option<u32> {
        if let To::Out(output) = self { Some(output) } else { None }
    }
}

/// A test, and where it leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Step {
    /// What is tested.
    pub test: Test,
    /// Where to when it holds.
    pub yes: To,
    /// Where to when it does not, or the packet ends before.
    pub no: To,
    /// It is asked for not to hold: a packet that ends before passes.
    pub short_yes: bool,
}

/// A rule: tests that must hold, or must not, and where packets go for which they
/// do.
#[derive(Debug, Clone)]
pub struct Rule {
    /// Each with whether it must hold.
    pub tests: Vec<(Test, bool)>,
    /// Where packets go for which all tests are as they must be.
    pub to: To,
}

impl Rule {
    /// The same as an expression.
    pub(super) fn expression(&self) -> (Expr, To) {
        let clause = |&(test, must): &(Test, bool)| match Expr::Test(test, false) {
            held if must => held,
            held => Expr::Not(Box::new(held)),
        };
        (Expr::All(self.tests.iter().map(clause).collect()), self.to)
    }
}

/// The most steps of a program; larger ones are not simplified, nor are those for which more would
/// have to be known or more tests to be looked at in a row.
const MOST: usize = 1 << 16;
/// What may be known at all points of a program, in tests.
pub(super) const MOST_KNOWN: usize = 1 << 20;
/// Tests in a row that are looked at: each takes some of the stack.
pub(super) const DEEPEST: usize = 1000;

/// A decision program.
#[derive(Debug, Clone)]
pub struct Program {
    steps: Vec<Step>,
    start: To,
    /// The test after which a packet goes to output 0, if that is the first; else one that no
    /// packet passes.
    first: Test,
    /// Packets this long can be tested without looking at their length.
    safe: usize,
    /// The most steps in a row.
    longest: usize,
    /// Decides in the place of steps. There are no steps then, and `start` is not found among them:
    /// only then a packet is looked up in the tree, so that programs of steps pay nothing for it.
    tree: Option<Arc<Tree>>,
    /// Bytes up to the end of the last word that the tree looks at.
    reach: usize,
}

/// What is known of a word: bits, and tests that failed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct Known {
    mask: u32,
    value: u32,
    not: Vec<(u32, u32)>,
}

impl Known {
    /// Whether a test's outcome follows.
    fn decides(&self, test: Test) -> Option<bool> {
        let common = self.mask & test.mask;
        if (self.value ^ test.value) & common != 0 {
            return Some(false);
        }
        if common == test.mask {
            return Some(true);
        }
        // It fails if something that failed is part of it.
        let failed = |&(mask, value): &(u32, u32)| mask & test.mask == mask && test.value & mask == value;
        self.not.iter().any(failed).then_some(false)
    }
}

/// What is known at a point, by word, in order of the words' offsets.
type KnownWords = Vec<(u16, Known)>;

struct Builder<'a> {
    rules: &'a [Rule],
    steps: Vec<Step>,
    /// Points that were dealt with.
    seen: HashMap<(usize, usize, KnownWords), To>,
    /// Steps that are there already.
    made: HashMap<Step, u32>,
    /// The words that rules from each on look at.
    later: Vec<Vec<u16>>,
    /// Tests that are known at all points that were seen, and points that are dealt with now.
    known: usize,
    depth: usize,
    full: bool,
}

impl Program {
    /// The program of rules of which the first that holds decides.
    pub fn new(rules: &[Rule]) -> Program {
        let mut later = vec![vec![]; rules.len() + 1];
        for (n, rule) in rules.iter().enumerate().rev() {
            let mut words: Vec<u16> = later[n + 1].clone();
            words.extend(rule.tests.iter().map(|(t, _)| t.offset));
            words.sort_unstable();
            words.dedup();
            later[n] = words;
        }
        let mut builder = Builder {
            rules,
            steps: vec![],
            seen: HashMap::new(),
            made: HashMap::new(),
            later,
            known: 0,
            depth: 0,
            full: false,
        };
        let start = builder.point(0, 0, &vec![]);
        if builder.full {
            return Program::plain(rules);
        }
        Program::ordered(&builder.steps, start)
    }

    /// One test after the other, nothing left out.
    fn plain(rules: &[Rule]) -> Program {
        let mut steps: Vec<Step> = vec![];
        let mut next = To::Drop;
        // From the last rule to the first, each test from the last to the first.
        for rule in rules.iter().rev() {
            let fails = next;
            next = rule.to;
            for &(test, holds) in rule.tests.iter().rev() {
                let (yes, no) = if holds { (next, fails) } else { (fails, next) };
                steps.push(Step { test, yes, no, short_yes: false });
                next = To::Step(steps.len() as u32 - 1);
            }
        }
        Program::ordered(&steps, next)
    }

    /// Numbers steps in the order in which they are come to.
    fn ordered(old: &[Step], start: To) -> Program {
        let mut numbers: HashMap<u32, u32> = HashMap::new();
        let mut order = vec![];
        let mut work = vec![start];
        while let Some(to) = work.pop() {
            if let To::Step(number) = to
                && !numbers.contains_key(&number)
            {
                numbers.insert(number, order.len() as u32);
                let step = old[number as usize];
                order.push(step);
                work.extend([step.no, step.yes]);
            }
        }
        let renumber = |to| match to {
            To::Step(old) => To::Step(numbers[&old]),
            other => other,
        };
        let steps: Vec<Step> = order
            .into_iter()
            .map(|step| Step { yes: renumber(step.yes), no: renumber(step.no), ..step })
            .collect();
        let end =
            |s: &Step| usize::from(s.test.offset) + 4 - s.test.mask.trailing_zeros().min(31) as usize / 8;
        let safe = steps.iter().map(end).max().unwrap_or(0);
        let first = match (renumber(start), steps.first()) {
            (To::Step(0), Some(Step { test, yes: To::Out(0), .. })) => *test,
            _ => Test::NEVER,
        };
        Program {
            longest: longest(old, start),
            steps,
            start: renumber(start),
            first,
            safe,
            tree: None,
            reach: 0,
        }
    }

    /// The program that a tree decides.
    pub(super) fn of_tree(tree: Tree) -> Program {
        let reach = tree.steps().iter().map(|step| usize::from(step.test.offset) + size_of::<u32>()).max();
        let (start, first, tree) = (To::Step(0), Test::NEVER, Some(Arc::new(tree)));
        Program { steps: vec![], start, first, safe: 0, longest: 0, tree, reach: reach.unwrap_or(0) }
    }

    /// Whether a tree decides: steps are not known then.
    pub(super) fn is_tree(&self) -> bool {
        self.tree.is_some()
    }

    /// The most tests of a packet.
    pub(super) fn longest(&self) -> usize {
        self.longest
    }

    /// Where a packet goes for which there are no steps, as for [`Program::classify_at`].
    pub(super) fn in_tree<'p>(&self, place: impl Fn(u16) -> &'p [u8]) -> To {
        self.tree.as_ref().map_or(To::Drop, |tree| tree.find(place))
    }

    /// The program of steps that begins at `start`.
    pub fn of_steps(steps: &[Step], start: To) -> Program {
        Program::ordered(steps, start)
    }

    /// Where a packet goes whose words stand in several places: `place` gives what
    /// is there from an offset on. To a step when a tree decides: only then it is looked up there,
    /// so that the places need not be kept for it.
    #[inline]
    pub fn classify_at<'p>(&self, place: impl Fn(u16) -> &'p [u8]) -> To {
        walk(&self.steps, self.start, place)
    }

    /// Whether a packet goes to output 0 after a single test. The others are not known then.
    #[inline(always)]
    pub fn is_first(&self, packet: &[u8]) -> bool {
        let word = packet.get(usize::from(self.first.offset)..).and_then(|rest| rest.first_chunk());
        word.is_some_and(|word| u32::from_be_bytes(*word) & self.first.mask == self.first.value)
    }

    /// Where a packet goes.
    #[inline]
    pub fn classify(&self, packet: Bytes<'_>) -> To {
        let mut to = self.start;
        while let To::Step(step) = to {
            let Some(step) = self.steps.get(step as usize) else { return self.classify_in_tree(packet) };
            let at = usize::from(step.test.offset);
            let holds = match packet.first().get(at..at + 4).and_then(|w| w.first_chunk::<4>()) {
                Some(word) => u32::from_be_bytes(*word) & step.test.mask == step.test.value,
                None => short(packet, at, step.test),
            };
            to = if holds { step.yes } else { step.no };
        }
        to
    }

    #[cold]
    #[inline(never)]
    fn classify_in_tree(&self, packet: Bytes<'_>) -> To {
        let packet = packet.front(self.reach);
        self.in_tree(|offset| packet.get(usize::from(offset)..).unwrap_or(&[]))
    }

    /// Where packets begin.
    pub(crate) fn start(&self) -> To {
        self.start
    }

    /// A step, by its number.
    pub(crate) fn step(&self, number: u32) -> Option<&Step> {
        self.steps.get(number as usize)
    }

    /// The outputs that packets can get to, in order.
    pub fn outputs(&self) -> BTreeSet<u32> {
        let ends = self.steps.iter().flat_map(|s| [s.yes, s.no]).chain([self.start]);
        let found = self.tree.iter().flat_map(|tree| tree.outputs());
        ends.filter_map(To::output).chain(found.copied()).collect()
    }

    /// Where the words are that it looks at.
    pub fn offsets(&self) -> impl Iterator<Item = u16> {
        let tree = self.tree.as_ref().map_or(&[][..], |tree| tree.steps());
        self.steps.iter().chain(tree).map(|step| step.test.offset)
    }

    /// The program as Click prints it.
    pub fn unparse(&self) -> String {
        let mut out = String::new();
        let to = |to| match to {
            To::Step(n) => format!("step {n}"),
            To::Out(n) => format!("[{n}]"),
            To::Drop => "[X]".to_string(),
        };
        for (n, step) in self.steps.iter().enumerate() {
            let Test { offset, mask, value } = step.test;
            let short = if step.short_yes { "  short->yes" } else { "" };
            let _ = writeln!(
                out,
                "{n:2} {offset:3}/{value:08x}%{mask:08x}  yes->{}  no->{}{short}",
                to(step.yes),
                to(step.no)
            );
        }
        if self.steps.is_empty() {
            let _ = writeln!(out, "all->{}", to(self.start));
        }
        let _ = writeln!(out, "safe length {}\nalignment offset 0", self.safe);
        out
    }
}

/// The most steps in a row from a start: those that a step leads to stand before it.
fn longest(steps: &[Step], start: To) -> usize {
    let mut behind: Vec<usize> = Vec::with_capacity(steps.len());
    let from = |behind: &[usize], to| match to {
        To::Step(step) => behind.get(step as usize).copied().unwrap_or(0),
        _ => 0,
    };
    for step in steps {
        behind.push(1 + from(&behind, step.yes).max(from(&behind, step.no)));
    }
    from(&behind, start)
}

/// Where the steps from `to` on lead, or the first that is not there; `place` gives the bytes of
/// a packet from an offset on.
#[inline(always)]
pub(super) fn walk<'p>(steps: &[Step], mut to: To, place: impl Fn(u16) -> &'p [u8]) -> To {
    while let To::Step(step) = to {
        let Some(step) = steps.get(step as usize) else { return to };
        let bytes = place(step.test.offset);
        let holds = match bytes.first_chunk::<4>() {
            Some(word) => u32::from_be_bytes(*word) & step.test.mask == step.test.value,
            None => short_at(bytes, step),
        };
        to = if holds { step.yes } else { step.no };
    }
    to
}

/// A test at the end of a packet: what is not there does not match.
#[cold]
pub(super) fn short(packet: Bytes<'_>, at: usize, test: Test) -> bool {
    let rest = packet.skip(at).front(4);
    let (mut word, there) = ([0; 4], rest.len());
    word[..there].copy_from_slice(&rest);
    let needed = 4 - test.mask.trailing_zeros().min(31) as usize / 8;
    there >= needed && u32::from_be_bytes(word) & test.mask == test.value
}

/// A test at the end of a part of a packet.
#[cold]
pub(super) fn short_at(bytes: &[u8], step: &Step) -> bool {
    let needed = 4 - step.test.mask.trailing_zeros().min(31) as usize / 8;
    if bytes.len() < needed { step.short_yes } else { short(Bytes::new(bytes, None), 0, step.test) }
}

impl Builder<'_> {
    /// Where a packet goes that has come to a test of a rule, with what is known.
    fn point(&mut self, mut rule: usize, mut test: usize, facts: &KnownWords) -> To {
        let mut facts = Cow::Borrowed(facts);
        let (asked, must) = loop {
            let Some(current) = self.rules.get(rule) else { return To::Drop };
            let Some(&(asked, must)) = current.tests.get(test) else { return current.to };
            let known = facts.iter().find(|(offset, _)| *offset == asked.offset).map(|(_, k)| k);
            match known.and_then(|k| k.decides(asked)) {
                Some(holds) if holds == must => test += 1,
                Some(_) => {
                    facts = Cow::Owned(self.left_after(rule, &facts));
                    (rule, test) = (rule + 1, 0);
                }
                None => break (asked, must),
            }
        };
        let key = (rule, test, facts.clone().into_owned());
        if let Some(&to) = self.seen.get(&key) {
            return to;
        }
        self.known += facts.iter().map(|(_, known)| 1 + known.not.len()).sum::<usize>();
        self.full |= self.seen.len() >= MOST || self.known > MOST_KNOWN || self.depth == DEEPEST;
        if self.full {
            return To::Drop;
        }
        let with = |holds: bool| {
            let mut facts = facts.clone().into_owned();
            let at = facts.iter().position(|(offset, _)| *offset == asked.offset).unwrap_or_else(|| {
                let at = facts.partition_point(|(offset, _)| *offset < asked.offset);
                facts.insert(at, (asked.offset, Known::default()));
                at
            });
            let known = &mut facts[at].1;
            if holds {
                known.mask |= asked.mask;
                known.value |= asked.value;
            } else {
                known.not.push((asked.mask, asked.value));
            }
            facts
        };
        let (held, failed) = (with(true), with(false));
        self.depth += 1;
        let (yes, no) = match must {
            true => (self.point(rule, test + 1, &held), self.fail(rule, &failed)),
            false => (self.fail(rule, &held), self.point(rule, test + 1, &failed)),
        };
        self.depth -= 1;
        let to = if yes == no { yes } else { self.step(Step { test: asked, yes, no, short_yes: false }) };
        self.seen.insert(key, to);
        to
    }

    /// The next rule.
    fn fail(&mut self, rule: usize, facts: &KnownWords) -> To {
        let facts = self.left_after(rule, facts);
        self.point(rule + 1, 0, &facts)
    }

    /// What of the known matters behind a rule.
    fn left_after(&self, rule: usize, facts: &KnownWords) -> KnownWords {
        let words = &self.later[(rule + 1).min(self.later.len() - 1)];
        facts.iter().filter(|(offset, _)| words.binary_search(offset).is_ok()).cloned().collect()
    }

    fn step(&mut self, step: Step) -> To {
        let steps = &mut self.steps;
        To::Step(*self.made.entry(step).or_insert_with(|| {
            steps.push(step);
            steps.len() as u32 - 1
        }))
    }
}
