//! Which tests are decided by those before them, on all ways that lead to them: those
//! that are need not be made.
//!
//! Of the ways to a test at most four are told apart; of more, what they have in
//! common is kept, which is true of each.

use super::super::program::To;
use super::{Jump, Listing, Step};

/// The most ways that are kept for a test.
const WAYS: usize = 4;

/// A test by its number, and how it came out.
type Fact = (usize, bool);

/// Leaves tests out that are decided by those before, on all ways to them.
pub(super) struct Ways<'a> {
    listing: &'a mut Listing,
    /// How long packets are for certain that come to each test.
    lengths: Vec<usize>,
    /// The first test that asks for the same.
    twins: Vec<usize>,
    /// For each test, what is known on the ways to it: each way contains one.
    known: Vec<Vec<Vec<Fact>>>,
}

impl Ways<'_> {
    pub(super) fn new(listing: &mut Listing) -> Ways<'_> {
        let steps = &listing.steps;
        let mut lengths = vec![usize::MAX; steps.len()];
        if let Some(first) = lengths.first_mut() {
            *first = 0;
        }
        for n in 0..steps.len() {
            let (step, here) = (steps[n], lengths[n]);
            let long = if step.short { 0 } else { 1 };
            for (to, length) in [(step.to[long], here.max(step.length())), (step.to[1 - long], here)] {
                if let Jump::Step(to) = to {
                    lengths[to] = lengths[to].min(length);
                }
            }
        }
        let same = |a: &Step, b: &Step| (a.test, a.short) == (b.test, b.short);
        let twins = |n: usize| steps.iter().position(|step| same(step, &steps[n])).unwrap_or(n);
        let twins = (0..steps.len()).map(twins).collect();
        Ways { listing, lengths, twins, known: vec![] }
    }

    pub(super) fn run(&mut self) {
        for n in 0..self.listing.steps.len() {
            let ways = self.ways_to(n);
            self.known.push(ways);
            self.shift(n, 1);
            self.shift(n, 0);
        }
    }

    /// All ways by which packets come to a test; none if it cannot be come to, or
    /// need not be asked.
    fn ways_to(&mut self, n: usize) -> Vec<Vec<Fact>> {
        if n == 0 {
            return vec![vec![]];
        }
        let mut ways: Vec<Vec<Fact>> = vec![];
        for from in 0..n {
            let to = self.listing.steps[from].to;
            let outcomes: Vec<bool> =
                [false, true].into_iter().filter(|b| to[usize::from(*b)] == Jump::Step(n)).collect();
            for way in self.known[from].iter().filter(|_| !outcomes.is_empty()) {
                let fact = (self.twins[from], outcomes[0]);
                match outcomes.len() {
                    2 => ways.push(way.clone()),
                    _ if way.contains(&(fact.0, !fact.1)) => {} // contradicts itself
                    _ => {
                        let others = way.iter().filter(|(twin, _)| *twin != fact.0).copied();
                        ways.push(others.chain([fact]).collect());
                    }
                }
            }
        }
        if ways.len() > WAYS {
            let (first, others) = ways.split_at(1);
            let on_all = |fact: &&Fact| others.iter().all(|way| way.contains(fact));
            ways = vec![first[0].iter().filter(on_all).copied().collect()];
            return ways;
        }
        let twin = self.twins[n];
        let answer = |way: &Vec<Fact>| way.iter().rev().find(|(test, _)| *test == twin).map(|(_, b)| *b);
        let mut answers = ways.iter().map(answer);
        if let Some(Some(known)) = answers.next()
            && answers.all(|answer| answer == Some(known))
        {
            let on = self.listing.steps[n].to[usize::from(known)];
            let jumps = self.listing.steps[..n].iter_mut().flat_map(|step| &mut step.to);
            jumps.filter(|jump| **jump == Jump::Step(n)).for_each(|jump| *jump = on);
            ways.clear();
        }
        if ways.is_empty() {
            self.listing.steps[n].to = [Jump::End(To::Drop); 2];
        }
        ways
    }

    /// Has an outcome of a test lead as far on as it decides on all ways.
    fn shift(&mut self, n: usize, held: usize) {
        let ways = &self.known[n];
        let next = self.listing.steps[n].to[held];
        if ways.is_empty() || !matches!(next, Jump::Step(_)) {
            return;
        }
        let fact = (self.twins[n], held == 1);
        let through: Vec<Vec<Jump>> = ways.iter().map(|way| self.follow(way, fact, next)).collect();
        let ends = through.iter().filter_map(|jumps| jumps.last());
        let end = through[0].last().copied().filter(|end| ends.clone().all(|e| e == end));
        let common = |jump: &&Jump| through.iter().all(|jumps| jumps.contains(jump));
        let steps = through[0].iter().rev().filter(|jump| matches!(jump, Jump::Step(_)));
        let last = end.or_else(|| steps.clone().find(common).copied());
        self.listing.steps[n].to[held] = last.unwrap_or(next);
    }

    /// Where packets get to from a jump without a test that is not decided.
    fn follow(&self, way: &[Fact], fact: Fact, from: Jump) -> Vec<Jump> {
        let mut through = vec![from];
        let mut to = from;
        while let Jump::Step(n) = to {
            let step = &self.listing.steps[n];
            let decides =
                |&(test, held): &Fact| self.listing.steps[test].decides(held, step, self.lengths[test]);
            let known = way.iter().chain([&fact]).rev();
            let Some(holds) = known.into_iter().find_map(decides) else { break };
            to = step.to[usize::from(holds)];
            through.push(to);
        }
        through
    }
}
