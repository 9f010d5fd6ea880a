//! `Classifier`: packets by their bytes.

use std::sync::Arc;

use graph::chain::Bytes;
use graph::class::{Handlers, read, rest};
use graph::element::kernel::{Code, Kernel, of_type};
use graph::lang::args::words;
use graph::{Action, Class, ConfFault, Cx, Each, Element, PerPacket};
use memory::Packet;
use port::Reason;

use super::program::{Program, Rule, Test, To};
use super::{straight, tree};
use crate::kernels::each;

pub static CLASS: Class = Class {
    name: "Classifier",
    brief: "sorts packets by their bytes",
    doc: "Each argument is a pattern, and has an output. A pattern is a list of clauses `OFFSET/VALUE` or \
          `OFFSET/VALUE%MASK` in hexadecimal, `?` for a digit that does not matter, `!` before a clause that \
          must not hold; `-` holds for every packet. The first pattern that holds decides; packets for which \
          none does are dropped.",
    ports: "1/-",
    processing: "h/h",
    arguments: &[rest("PATTERN", "clauses that must all hold")],
    handlers: &Handlers::<Classifier>(&[read(
        "program",
        "the tests that are made, in order",
        Classifier::listing,
    )
    .marked(".")]),
    drops: &[Reason::NoPattern],
    live: true,
    example: "c :: Classifier(12/0806 20/0001, 12/0800, -)",
    see: &["IPClassifier", "IPFilter"],
    kernel: Kernel::Inside(each!(Classifier).coded(code)),
    make: |setup, conf| {
        let patterns = conf.rest();
        conf.complete()?;
        if patterns.len() != setup.outputs {
            return Err(ConfFault::new(format!("need {} arguments, one per output port", setup.outputs)));
        }
        let rules: Result<Vec<Rule>, ConfFault> =
            patterns.iter().enumerate().map(|(n, pattern)| rule(n, pattern)).collect();
        let rules = rules?;
        let expressions: Vec<_> = rules.iter().map(Rule::expression).collect();
        let program = tree::program(&expressions, || Program::new(&rules));
        let reached = program.outputs();
        for output in (0..setup.outputs as u32).filter(|output| !reached.contains(output)) {
            setup.warn(format!("output {output} matches no packets"));
        }
        Ok(Each::boxed(Classifier { program, rules: rules.into() }))
    },
    ..Class::BASE
};

/// Reads a pattern.
fn rule(output: usize, pattern: &str) -> Result<Rule, ConfFault> {
    let mut tests = vec![];
    let clauses = words(pattern);
    let bad = |what: String| ConfFault::new(format!("pattern {output}: {what}"));
    // As in Click, a pattern without clauses holds always, as `-` does.
    for clause in clauses.into_iter().filter(|c| *c != "-") {
        let (must, clause) = clause.strip_prefix('!').map_or((true, clause), |rest| (false, rest));
        let all = clause_tests(clause).map_err(bad)?;
        if !must && all.len() > 1 {
            return Err(bad(format!("'!{clause}' spans words: write a clause for each four bytes")));
        }
        tests.extend(all.into_iter().map(|test| (test, must)));
    }
    Ok(Rule { tests, to: To::Out(output as u32) })
}

/// The tests of a clause: one for each four bytes it touches.
fn clause_tests(clause: &str) -> Result<Vec<Test>, String> {
    let (offset, rest) = clause.split_once('/').ok_or_else(|| format!("syntax error at '{clause}'"))?;
    let offset: u16 = offset.parse().map_err(|_| format!("'{clause}': expected byte offset"))?;
    let (value, mask) = rest.split_once('%').map_or((rest, None), |(value, mask)| (value, Some(mask)));
    let digit = |c: char| c.to_digit(16).map(|d| (d as u8, 0xF)).or((c == '?').then_some((0, 0)));
    let digits: Option<Vec<(u8, u8)>> = value.chars().map(digit).collect();
    let mut digits = digits.ok_or_else(|| format!("'{clause}': syntax error in value"))?;
    if digits.is_empty() || digits.len() % 2 != 0 {
        return Err(format!("'{clause}': value has odd number of hex digits"));
    }
    if let Some(mask) = mask {
        let masks: Option<Vec<u8>> = mask.chars().map(|c| c.to_digit(16).map(|d| d as u8)).collect();
        let masks = masks.filter(|m| m.len() == digits.len());
        let masks = masks.ok_or_else(|| format!("'{clause}': mask must have as many hex digits as value"))?;
        digits.iter_mut().zip(masks).for_each(|(digit, mask)| digit.1 &= mask);
    }
    let mut tests: Vec<Test> = vec![];
    for (n, pair) in digits.chunks_exact(2).enumerate() {
        let at = usize::from(offset) + n;
        let word = u16::try_from(at & !3).map_err(|_| format!("'{clause}': offset too large"))?;
        let shift = 24 - 8 * (at & 3);
        let byte = |high: u8, low: u8| u32::from(high << 4 | low) << shift;
        let mask = byte(pair[0].1, pair[1].1);
        let value = byte(pair[0].0, pair[1].0) & mask;
        match tests.last_mut().filter(|t| t.offset == word) {
            Some(test) => (test.mask, test.value) = (test.mask | mask, test.value | value),
            None => tests.push(Test { offset: word, mask, value }),
        }
    }
    tests.retain(|t| t.mask != 0);
    Ok(tests)
}

/// A `Classifier` element; [`CLASS`] says what it does.
#[derive(Debug, Clone)]
pub struct Classifier {
    program: Program,
    /// What it was made of.
    rules: Arc<[Rule]>,
}

impl Classifier {
    pub(crate) fn program(&self) -> &Program {
        &self.program
    }

    fn listing(&self) -> String {
        match self.program.is_tree() {
            true => Program::new(&self.rules).unparse(),
            false => self.program.unparse(),
        }
    }
}

impl PerPacket for Classifier {
    const HAS_FAST_PATH: bool = true;

    #[inline]
    fn packet(&mut self, _: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        match self.program.classify(Bytes::of(packet)) {
            To::Out(output) => Action::out(output as usize),
            _ => Action::drop(0),
        }
    }

    #[inline(always)]
    fn fast_path(&mut self, packet: &mut Packet) -> bool {
        self.program.is_first(packet)
    }

    fn replicate(&self) -> Option<Classifier> {
        Some(self.clone())
    }
}

/// Its code in programs: with its configuration in it, where that is known.
fn code(element: &dyn Element) -> Code {
    of_type(element, |Each(kernel): &Each<Classifier>| straight::code(kernel.program()).map(Code::Action))
}
