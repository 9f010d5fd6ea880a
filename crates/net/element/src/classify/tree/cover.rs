//! What a packet must be for a rule to hold, as far as bits of words say it.
//!
//! A cube fixes some bits of some words. The cover of a rule is a few cubes: each packet for
//! which the rule holds is in one of them. Where an expression says more than cubes can, or
//! comes to too many, the cover is wider than the rule, never narrower.

use super::super::expression::Expr;
use super::super::program::Test;

/// The most words of which a cube fixes bits; it says nothing of more.
const WORDS: usize = 8;
/// The most cubes of a rule, and of a part of it while it is read.
pub(super) const MOST: usize = 8;
const MOST_OF_PART: usize = 16;
/// The most bits of a test that are told apart where it must not hold.
const MOST_BITS: u32 = 16;

/// Packets of which some bits are fixed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Cube {
    /// In the order of their offsets, each once.
    tests: [Test; WORDS],
    len: usize,
}

impl Cube {
    /// The cube of all packets: it fixes no bits.
    const ALL: Cube = Cube { tests: [Test { offset: 0, mask: 0, value: 0 }; WORDS], len: 0 };

    fn of(test: Test) -> Cube {
        let mut cube = Cube::ALL;
        cube.fix(test);
        cube
    }

    /// The fixed bits, a word each.
    pub(super) fn tests(&self) -> &[Test] {
        &self.tests[..self.len]
    }

    fn at(&self, offset: u16) -> Option<&Test> {
        self.tests().iter().find(|test| test.offset == offset)
    }

    /// What the bits of a mask are, if all of them are fixed.
    pub(super) fn value(&self, offset: u16, mask: u32) -> Option<u32> {
        self.at(offset).filter(|test| test.mask & mask == mask).map(|test| test.value & mask)
    }

    /// Fixes bits of a word of which none is fixed yet; whether there was room to.
    fn fix(&mut self, test: Test) -> bool {
        let room = self.len < WORDS;
        if room {
            self.tests[self.len] = test;
            self.len += 1;
            self.tests[..self.len].sort_unstable_by_key(|test| test.offset);
        }
        room
    }

    /// The packets of both, if there can be any; `exact` is unset if these are more.
    fn and(&self, other: &Cube, exact: &mut bool) -> Option<Cube> {
        let mut both = *self;
        for test in other.tests() {
            match both.tests[..both.len].iter_mut().find(|there| there.offset == test.offset) {
                Some(there) if (there.value ^ test.value) & there.mask & test.mask != 0 => return None,
                Some(there) => {
                    there.mask |= test.mask;
                    there.value |= test.value;
                }
                None => *exact &= both.fix(*test),
            }
        }
        Some(both)
    }

    /// The smallest cube around both.
    fn around(&self, other: &Cube) -> Cube {
        let mut cube = Cube::ALL;
        for (mine, its) in self.tests().iter().filter_map(|mine| Some((mine, other.at(mine.offset)?))) {
            let mask = mine.mask & its.mask & !(mine.value ^ its.value);
            if mask != 0 {
                cube.fix(Test { offset: mine.offset, mask, value: mine.value & mask });
            }
        }
        cube
    }

    /// Whether the packets of another are among its own.
    pub(super) fn contains(&self, other: &Cube) -> bool {
        self.tests().iter().all(|mine| other.value(mine.offset, mine.mask) == Some(mine.value))
    }

    fn fixed_bits(&self) -> u32 {
        self.tests().iter().map(|test| test.mask.count_ones()).sum()
    }
}

/// The cubes of a rule.
#[derive(Debug, Clone)]
pub(super) struct Cover {
    /// All packets for which it holds are in one of them.
    pub cubes: Vec<Cube>,
    /// It holds for all packets in them.
    pub exact: bool,
}

impl Cover {
    /// Nothing is known of packets for which it holds.
    fn unknown() -> Cover {
        Cover { cubes: vec![Cube::ALL], exact: false }
    }

    fn join(mut self, other: Cover) -> Cover {
        self.cubes.extend(other.cubes);
        self.exact &= other.exact;
        self.limited(MOST_OF_PART)
    }

    /// As few cubes as `most`: those that are alike become one around them.
    fn limited(mut self, most: usize) -> Cover {
        if self.cubes.len() > most {
            let key = |cube: &Cube| cube.tests.map(|test| (test.offset, test.value, test.mask));
            self.cubes.sort_unstable_by_key(key);
            self.cubes.dedup();
            self.exact &= self.cubes.len() <= most;
        }
        while self.cubes.len() > 2 * most {
            let around = |pair: &[Cube]| pair.iter().skip(1).fold(pair[0], |all, cube| all.around(cube));
            self.cubes = self.cubes.chunks(2).map(around).collect();
        }
        while self.cubes.len() > most {
            let fixed = |n: &usize| self.cubes[*n].around(&self.cubes[n + 1]).fixed_bits();
            let Some(n) = (0..self.cubes.len() - 1).max_by_key(fixed) else { break };
            self.cubes[n] = self.cubes[n].around(&self.cubes[n + 1]);
            self.cubes.remove(n + 1);
        }
        if self.cubes.iter().any(|cube| cube.len == 0) {
            self.cubes = vec![Cube::ALL];
        }
        self
    }
}

/// Reads covers, as long as that does not take too long.
pub(super) struct Reader {
    /// Pairs of cubes that may still be looked at.
    pub left: usize,
}

impl Reader {
    /// The cover of a rule; `None` when it takes too long.
    pub(super) fn cover(&mut self, expr: &Expr) -> Option<Cover> {
        Some(self.read(expr, true)?.limited(MOST))
    }

    /// The packets for which an expression holds, or for which it does not.
    fn read(&mut self, expr: &Expr, holds: bool) -> Option<Cover> {
        match expr {
            // What holds, or fails, for packets that end before says nothing of their bits.
            Expr::Test(_, short) if *short == holds => Some(Cover::unknown()),
            Expr::Test(test, _) if holds => Some(Cover { cubes: vec![Cube::of(*test)], exact: true }),
            Expr::Test(test, _) => Some(differs(*test)),
            Expr::Not(inner) => self.read(inner, !holds),
            Expr::All(list) | Expr::Any(list) if matches!(expr, Expr::All(_)) == holds => {
                let all = Cover { cubes: vec![Cube::ALL], exact: true };
                list.iter().try_fold(all, |all, part| {
                    let part = self.read(part, holds)?;
                    self.both(all, part)
                })
            }
            Expr::All(list) | Expr::Any(list) => {
                let none = Cover { cubes: vec![], exact: true };
                list.iter().try_fold(none, |any, part| Some(any.join(self.read(part, holds)?)))
            }
            Expr::If(three) => {
                let [condition, then, otherwise] = &**three;
                let ways = [(true, then), (false, otherwise)].map(|(side, way)| {
                    let (condition, way) = (self.read(condition, side)?, self.read(way, holds)?);
                    self.both(condition, way)
                });
                let [then, otherwise] = ways;
                Some(then?.join(otherwise?))
            }
        }
    }

    fn both(&mut self, one: Cover, other: Cover) -> Option<Cover> {
        self.left = self.left.checked_sub(one.cubes.len() * other.cubes.len())?;
        let mut exact = one.exact && other.exact;
        let pairs = one.cubes.iter().flat_map(|a| other.cubes.iter().map(move |b| (a, b)));
        let cubes = pairs.filter_map(|(a, b)| a.and(b, &mut exact)).collect();
        Some(Cover { cubes, exact }.limited(MOST_OF_PART))
    }
}

/// Packets that are long enough and do not have the bits of a test: the first bit in which they
/// differ is one of those.
fn differs(test: Test) -> Cover {
    if test.mask.count_ones() > MOST_BITS {
        return Cover::unknown();
    }
    let bits = (0..32).map(|n| 1u32 << n).filter(|bit| test.mask & bit != 0);
    let cube = |bit: u32| {
        // The bits above are as they were asked for.
        let mask = test.mask & !(bit - 1);
        Cube::of(Test { mask, value: (test.value & mask) ^ bit, ..test })
    };
    // A packet may have these bits and end before the last of the test's.
    Cover { cubes: bits.map(cube).collect(), exact: false }
}
