//! Input specifications: what becomes of packets that belong to no known flow.

use std::sync::Arc;

use graph::Setup;
use graph::value::{Scope, parse_alone};
use port::Reason;

use super::flows::Without;
use super::mapper::{self, Mapper};
use super::pattern::Pattern;
use super::taken::Chosen;

/// What a new flow's packets are treated by.
#[derive(Debug, Clone)]
pub(crate) enum Rule {
    /// They are dropped.
    Drop,
    /// They pass unchanged, and no flow is remembered.
    Pass,
    /// A flow that changes nothing.
    Keep,
    /// A flow by a pattern.
    Pattern(Pattern),
    /// An element decides, which is not known yet; whether it is all that is said.
    Named(String, bool),
    /// An element decides.
    Mapper(Arc<Mapper>),
}

/// An input's specification, and its flows.
#[derive(Debug, Clone)]
pub(crate) struct Input {
    pub rule: Rule,
    /// The output of the flow's packets.
    pub forward: usize,
    /// The output of those that come back.
    pub reply: usize,
    /// Flows that exist.
    pub count: u64,
    /// Flows that could not be made, as [`FAILURES`] names them.
    pub failures: [u64; FAILURES.len()],
}

/// Why flows cannot be made, and what that is called.
pub(crate) const FAILURES: [(Without, Reason); 3] = [
    (Without::Exhausted, Reason::NoFreeAddress),
    (Without::Full, Reason::TableFull),
    (Without::HostFull, Reason::TooManyOfHost),
];

/// What is wrong with the specification of an input.
pub(crate) fn about(input: usize, wrong: &str) -> String {
    wrong.lines().map(|line| format!("input spec {input}: {line}")).collect::<Vec<_>>().join("\n")
}

/// Reads an output; one that there cannot be for a negative number.
fn port(text: &str) -> Option<usize> {
    let number = parse_alone::<i32>(text).ok()?;
    Some(usize::try_from(number).unwrap_or(usize::MAX))
}

/// Reads the outputs of a flow's packets, and of those that come back.
pub(crate) fn parse_ports(words: &[&str]) -> Result<(usize, usize), String> {
    let [forward, reply] = words else { return Err("bad forward port".into()) };
    Ok((port(forward).ok_or("bad forward port")?, port(reply).ok_or("bad reply port")?))
}

/// Reads a pattern with its outputs.
pub(crate) fn parse_pattern(words: &[&str], scope: &Scope<'_>) -> Result<(Pattern, usize, usize), String> {
    let Some(at) = words.len().checked_sub(2).filter(|at| *at > 0) else { return Err("syntax error".into()) };
    let pattern = Pattern::parse(&words[..at], scope)?;
    let (forward, reply) = parse_ports(&words[at..])?;
    Ok((pattern, forward, reply))
}

impl Input {
    /// What is wrong with the element it names, if it names one, and that can be said of
    /// its class.
    pub(crate) fn check(&self, setup: &Setup<'_>) -> Result<(), String> {
        let Rule::Named(name, alone) = &self.rule else { return Ok(()) };
        match setup.find(name) {
            None => Err("unknown specification".into()),
            Some(_) if !alone => Err("syntax error, expected element name".into()),
            Some(element) if !mapper::is_one(element.kind) => Err("element is not an IPMapper".into()),
            Some(_) => Ok(()),
        }
    }

    /// Reads a specification of an element with so many outputs.
    pub(crate) fn parse(text: &str, outputs: usize, scope: &Scope<'_>) -> Result<Input, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let Some((word, rest)) = words.split_first() else { return Err("empty argument".into()) };
        let mut input = Input { rule: Rule::Drop, forward: 0, reply: 0, count: 0, failures: [0; 3] };
        match *word {
            "pass" | "passthrough" | "nochange" => {
                input.rule = Rule::Pass;
                input.forward = match rest {
                    [] => 0,
                    [output] => port(output).ok_or("syntax error, expected 'nochange [OUTPUT]'")?,
                    _ => return Err("syntax error, expected 'nochange [OUTPUT]'".into()),
                };
            }
            "keep" => {
                (input.forward, input.reply) = parse_ports(rest)?;
                input.rule = Rule::Keep;
            }
            "drop" | "discard" if rest.is_empty() => return Ok(input),
            "drop" | "discard" => return Err(format!("syntax error, expected '{word}'")),
            "pattern" | "xpattern" => {
                let (pattern, forward, reply) = parse_pattern(rest, scope)?;
                (input.rule, input.forward, input.reply) = (Rule::Pattern(pattern), forward, reply);
            }
            name => {
                input.rule = Rule::Named(name.into(), rest.is_empty());
                return Ok(input);
            }
        }
        match input.forward < outputs && input.reply < outputs {
            true => Ok(input),
            false => Err("output port out of range".into()),
        }
    }

    /// What its flows' identities are chosen from, where that is much.
    pub(crate) fn choices(&self) -> Vec<Chosen> {
        match &self.rule {
            Rule::Pattern(pattern) => pattern.chooses_among_many().into_iter().collect(),
            Rule::Mapper(mapper) => mapper.choices(),
            _ => vec![],
        }
    }

    /// A flow could not be made, which is counted.
    pub(crate) fn refuse(&mut self, why: Without) -> Without {
        let counts = FAILURES.iter().zip(&mut self.failures);
        counts.filter(|((reason, _), _)| *reason == why).for_each(|(_, count)| *count += 1);
        why
    }

    /// Goes on where an old configuration's was; whether it says the same.
    pub(crate) fn resume(&mut self, old: &Input) -> bool {
        let same = match (&mut self.rule, &old.rule) {
            (Rule::Pattern(new), Rule::Pattern(old)) => new.resume(old),
            (Rule::Mapper(new), Rule::Mapper(old)) => new.name() == old.name(),
            (Rule::Keep, Rule::Keep) => true,
            _ => false,
        };
        same && (self.forward, self.reply) == (old.forward, old.reply)
    }

    /// As handlers print it.
    pub(crate) fn unparse(&self) -> String {
        let rule = match &self.rule {
            Rule::Drop => "<drop>".into(),
            Rule::Pass => "<nochange>".into(),
            Rule::Keep => "<keep>".into(),
            Rule::Pattern(pattern) => pattern.to_string(),
            Rule::Named(..) | Rule::Mapper(_) => "<mapper>".into(),
        };
        match self.count {
            0 => format!("{rule}\n"),
            count => format!("{rule} [{count}]\n"),
        }
    }
}
