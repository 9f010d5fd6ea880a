//! Decision programs as Click lists them: what the `program` handlers read.
//!
//! Click leaves a test out when it is decided on all ways that lead to it, of which
//! it keeps at most four for each test, and shares what follows; a program that is
//! run here leaves out more, and tests some bytes twice in its text
//! (`expression.rs`). Both send packets to the same places. The rules are put
//! together two by two, as in Click, since the order shows.

mod ways;

use std::fmt::Write;

use super::expression::Expr;
use super::primitive::NETWORK;
use super::program::{Test, To};

/// Values of a test that are listed in order.
const SORTED: usize = 7;

/// Where a test leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Jump {
    Step(usize),
    End(To),
    /// To the next rule.
    Fails,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Step {
    test: Test,
    /// A packet that ends before goes to `yes`.
    short: bool,
    /// Where to when it does not hold, and when it does.
    to: [Jump; 2],
}

impl Step {
    /// How long a packet must be to be tested.
    fn length(&self) -> usize {
        let Test { offset, mask, .. } = self.test;
        if mask == 0 { 0 } else { usize::from(offset) + 4 - mask.trailing_zeros() as usize / 8 }
    }

    /// Whether that it came out `held` still says something of `other` for packets
    /// that are short.
    fn is_safe(&self, held: bool, other: &Step, holds: bool, known: usize) -> bool {
        self.short != held
            || self.length() <= known
            || (self.length() <= other.length() && holds == other.short)
    }

    /// What follows for another test when this one came out `held`.
    fn decides(&self, held: bool, other: &Step, known: usize) -> Option<bool> {
        let (mine, its) = (self.test, other.test);
        if its.mask == 0 {
            return Some(true);
        }
        if mine.offset != its.offset {
            return (!held && mine.mask == 0).then_some(false);
        }
        let common = mine.mask & its.mask;
        let same = (mine.value ^ its.value) & common == 0;
        let safe = |holds| self.is_safe(held, other, holds, known);
        let one_bit = mine.mask & mine.mask.wrapping_sub(1) == 0;
        match held {
            true if common == its.mask && same => safe(true).then_some(true),
            true if common == its.mask => safe(false).then_some(false),
            true => None,
            false if one_bit && mine.mask == its.mask && !same => safe(true).then_some(true),
            false if common == mine.mask && same => safe(false).then_some(false),
            false => None,
        }
    }

    /// Whether what holds for this may hold for another one as well.
    fn agrees(&self, other: &Step, short: bool) -> bool {
        if self.test.mask == 0 || other.test.mask == 0 {
            return true;
        }
        let cut = short && self.short != other.short && self.length() < other.length();
        let common = self.test.mask & other.test.mask;
        self.test.offset == other.test.offset && !cut && (self.test.value ^ other.test.value) & common == 0
    }

    /// A test of one bit can be asked the other way round.
    fn flip(&mut self) -> bool {
        if !self.test.mask.is_power_of_two() {
            return false;
        }
        self.test.value ^= self.test.mask;
        self.to.swap(0, 1);
        self.short = !self.short;
        true
    }

    /// The bit in which this and the next test, made when it fails, differ, when both
    /// lead to the same and one test can stand for them.
    fn differs_by_a_bit(&self, next: &Step) -> Option<u32> {
        let bit = self.test.value ^ next.test.value;
        let alike = self.test.offset != 0
            && next.test.offset == self.test.offset
            && self.test.mask != 0
            && next.test.mask == self.test.mask
            && (self.short || !next.short)
            && self.to[1] == next.to[1]
            && bit & bit.wrapping_sub(1) == 0;
        let wider = Step { test: Test { mask: self.test.mask & !bit, ..self.test }, ..*self };
        (alike && wider.length() == self.length()).then_some(bit)
    }
}

/// A program being put together.
#[derive(Debug, Clone)]
struct Listing {
    steps: Vec<Step>,
    /// Where all packets go, when there is nothing to test.
    all: Option<Jump>,
}

/// The most tests that are listed in Click's way, which takes time.
const MOST: usize = 2048;

/// The program of rules of which the first that holds decides, as Click prints it;
/// `None` when there are too many.
pub(super) fn list(rules: &[(Expr, To)]) -> Option<String> {
    if rules.iter().map(|(expr, _)| expr.length()).sum::<usize>() > MOST {
        return None;
    }
    let mut parts: Vec<Listing> = rules.iter().map(|(expr, to)| Listing::of(expr, *to)).collect();
    let mut apart = 1;
    while apart < parts.len() {
        for first in (0..parts.len() - apart).step_by(2 * apart) {
            let next = parts[first + apart].clone();
            parts[first].add(&next);
            parts[first].optimize();
        }
        apart *= 2;
    }
    let nothing = || Listing { steps: vec![], all: Some(Jump::End(To::Drop)) };
    let one = parts.len() <= 1;
    let mut whole = parts.into_iter().next().unwrap_or_else(nothing);
    if one {
        whole.optimize();
    }
    whole.link(Jump::End(To::Drop));
    whole.sort();
    Some(whole.unparse())
}

impl Listing {
    fn of(expr: &Expr, to: To) -> Listing {
        let mut listing = Listing { steps: vec![], all: None };
        listing.lay(expr, Jump::End(to), Jump::Fails);
        listing
    }

    /// Appends the tests of an expression, in the order in which they are written.
    fn lay(&mut self, expr: &Expr, yes: Jump, no: Jump) {
        let here = self.steps.len();
        match expr {
            Expr::Test(test, short) => self.steps.push(Step { test: *test, short: *short, to: [no, yes] }),
            Expr::All(list) | Expr::Any(list) if list.is_empty() => {
                let test = Test { offset: 0, mask: 0, value: 0 };
                let to = if matches!(expr, Expr::All(_)) { [no, yes] } else { [yes, no] };
                self.steps.push(Step { test, short: false, to });
            }
            Expr::All(list) | Expr::Any(list) => {
                let mut next = here;
                for (n, part) in list.iter().enumerate() {
                    next += part.length();
                    let on = Jump::Step(next);
                    match expr {
                        _ if n + 1 == list.len() => self.lay(part, yes, no),
                        Expr::All(_) => self.lay(part, on, no),
                        _ => self.lay(part, yes, on),
                    }
                }
            }
            Expr::Not(inner) => self.lay(inner, no, yes),
            Expr::If(three) => {
                let holds = here + three[0].length();
                let fails = holds + three[1].length();
                self.lay(&three[0], Jump::Step(holds), Jump::Step(fails));
                self.lay(&three[1], yes, no);
                self.lay(&three[2], yes, no);
            }
        }
    }

    /// What no rule so far holds for goes on with the next ones.
    fn add(&mut self, next: &Listing) {
        match self.all {
            Some(Jump::Fails) => *self = next.clone(),
            Some(_) => {}
            None => {
                let base = self.steps.len();
                self.link(next.all.unwrap_or(Jump::Step(base)));
                if next.all.is_none() {
                    let moved = |to| if let Jump::Step(n) = to { Jump::Step(n + base) } else { to };
                    self.steps.extend(next.steps.iter().map(|s| Step { to: s.to.map(moved), ..*s }));
                }
            }
        }
    }

    fn link(&mut self, next: Jump) {
        let jumps = self.steps.iter_mut().flat_map(|s| &mut s.to).chain(&mut self.all);
        jumps.filter(|jump| **jump == Jump::Fails).for_each(|jump| *jump = next);
    }

    fn optimize(&mut self) {
        if self.all.is_some() {
            return;
        }
        self.sort();
        ways::Ways::new(self).run();
        self.join();
        self.tidy();
    }

    /// Which step alone leads to each: 0 when several do (or the first).
    fn single_ways_in(&self) -> Vec<Option<usize>> {
        let mut ways = vec![None; self.steps.len()];
        for (n, step) in self.steps.iter().enumerate() {
            for to in step.to {
                if let Jump::Step(to) = to {
                    ways[to] = Some(if ways[to].is_some() { 0 } else { n });
                }
            }
        }
        ways
    }

    /// Puts tests that are asked one after the other in the order of their bytes;
    /// the protocol comes first.
    fn sort(&mut self) {
        let ways = self.single_ways_in();
        let alone = |n: usize| ways[n].is_some_and(|from| from > 0);
        let place = |test: Test| match test.offset {
            offset if offset == NETWORK + 8 => (NETWORK + 3, test.mask, test.value),
            offset => (offset, test.mask, test.value),
        };
        let mut n = 0;
        'next: while n < self.steps.len() {
            for held in [0, 1] {
                let Jump::Step(next) = self.steps[n].to[held] else { continue };
                let (first, second) = (self.steps[n], self.steps[next]);
                let same_end = first.to[1 - held] == second.to[1 - held];
                if alone(next) && same_end && place(first.test) > place(second.test) {
                    self.steps[next] = first;
                    self.steps[next].to[held] = second.to[held];
                    self.steps[n] = second;
                    self.steps[n].to[held] = Jump::Step(next);
                    n = ways[n].filter(|from| *from > 0).unwrap_or(n);
                    continue 'next;
                }
            }
            n += 1;
        }
    }

    /// Makes one test of two that ask for the same.
    fn join(&mut self) {
        for n in (0..self.steps.len()).rev() {
            while self.join_at(n) {}
        }
    }

    fn join_at(&mut self, n: usize) -> bool {
        if let Jump::Step(no) = self.steps[n].to[0] {
            let next = self.steps[no];
            if next.agrees(&self.steps[n], false) && self.steps[n].flip() {
            } else if let Some(bit) = self.steps[n].differs_by_a_bit(&next) {
                self.steps[n].test.value &= !bit;
                self.steps[n].test.mask &= !bit;
                self.steps[n].to[0] = next.to[0];
                return true;
            }
        }
        let Jump::Step(yes) = self.steps[n].to[1] else { return false };
        if self.steps[n].to[0] == self.steps[yes].to[1] {
            self.steps[yes].flip();
        }
        let (next, step) = (self.steps[yes], &mut self.steps[n]);
        if step.to[0] != next.to[0] || !next.agrees(step, true) {
            return false;
        }
        step.to[1] = next.to[1];
        if step.test.mask == 0 {
            step.test.offset = next.test.offset;
        }
        step.test.mask |= next.test.mask;
        step.test.value |= next.test.value;
        true
    }

    /// Leaves out what tests nothing, and what nothing leads to.
    fn tidy(&mut self) {
        let mut real = vec![Jump::Fails; self.steps.len()];
        for n in (0..self.steps.len()).rev() {
            let step = &mut self.steps[n];
            step.to = step.to.map(|to| if let Jump::Step(to) = to { real[to] } else { to });
            let asks = step.to[0] != step.to[1] && step.test.mask != 0;
            real[n] = if asks { Jump::Step(n) } else { step.to[1] };
        }
        let start = match real.first() {
            None => return self.all = Some(Jump::End(To::Drop)),
            Some(Jump::Step(start)) => *start,
            Some(end) => {
                (self.all, self.steps) = (Some(*end), vec![]);
                return;
            }
        };
        self.steps[0] = self.steps[start];
        let mut numbers = vec![None; self.steps.len()];
        numbers[0] = Some(0);
        let mut kept: Vec<Step> = vec![];
        for n in 0..self.steps.len() {
            if numbers[n].is_none() {
                continue;
            }
            numbers[n] = Some(kept.len());
            kept.push(self.steps[n]);
            for to in self.steps[n].to {
                if let Jump::Step(to) = to {
                    numbers[to] = Some(0);
                }
            }
        }
        let renumber = |to| match to {
            Jump::Step(old) => numbers[old].map_or(Jump::Fails, Jump::Step),
            end => end,
        };
        kept.iter_mut().for_each(|step| step.to = step.to.map(renumber));
        self.steps = kept;
    }

    fn unparse(&self) -> String {
        let mut out = String::new();
        let groups = self.groups();
        let mut numbers = vec![0; self.steps.len()];
        let in_order = groups.iter().flat_map(|group| group.iter().enumerate());
        for (number, (_, &step)) in in_order.enumerate() {
            numbers[step] = number;
        }
        let to = |to| match to {
            Jump::Step(n) => format!("step {}", numbers[n]),
            Jump::End(To::Out(n)) => format!("[{n}]"),
            _ => "[X]".to_string(),
        };
        for group in &groups {
            let mut values: Vec<u32> = group.iter().map(|n| self.steps[*n].test.value).collect();
            if values.len() >= SORTED {
                values.sort_unstable_by_key(|value| value.swap_bytes());
            }
            for (n, value) in group.iter().zip(values) {
                let Step { test, short, to: [no, yes] } = self.steps[*n];
                let short = if short { "  short->yes" } else { "" };
                let (number, yes, no) = (numbers[*n], to(yes), to(no));
                let Test { offset, mask, .. } = test;
                let _ = writeln!(
                    out,
                    "{number:2} {offset:3}/{value:08x}%{mask:08x}  yes->{yes}  no->{no}{short}"
                );
            }
        }
        if let Some(end) = self.all {
            let _ = writeln!(out, "all->{}", to(end));
        }
        let safe = self.steps.iter().map(Step::length).max().unwrap_or(0);
        let _ = writeln!(out, "safe length {safe}\nalignment offset 0");
        out
    }

    /// Tests of the same bits, each asked when the one before fails, with one end:
    /// they are listed behind one another.
    fn groups(&self) -> Vec<Vec<usize>> {
        let mut wanted = vec![0; self.steps.len()];
        if let Some(first) = wanted.first_mut() {
            *first = 1;
        }
        for n in 0..self.steps.len() {
            let to = self.steps[n].to.into_iter().filter(|_| wanted[n] > 0).collect::<Vec<_>>();
            to.iter().for_each(|to| {
                if let Jump::Step(to) = to {
                    wanted[*to] += 1
                }
            });
        }
        let mut groups = vec![];
        for n in 0..self.steps.len() {
            if wanted[n] == 0 {
                continue;
            }
            let (mut group, first) = (vec![n], self.steps[n]);
            let mut last = first;
            while let Jump::Step(no) = last.to[0] {
                let next = self.steps[no];
                let same = (next.to[1], next.test.offset, next.test.mask)
                    == (first.to[1], first.test.offset, first.test.mask);
                if wanted[no] != 1 || !same {
                    break;
                }
                wanted[no] = 0;
                group.push(no);
                last = next;
            }
            groups.push(group);
        }
        groups
    }
}
