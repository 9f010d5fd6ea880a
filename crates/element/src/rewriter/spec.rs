//! Input specifications: what becomes of packets that belong to no known flow.

use std::sync::Arc;

use graph::value::{Scope, unsigned};

use super::mapper::Mapper;
use super::pattern::Pattern;

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
    /// An element decides, which is not known yet.
    Named(String),
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
    /// Flows that could not be made.
    pub failures: u64,
}

/// Reads the outputs of a flow's packets, and of those that come back.
pub(crate) fn parse_ports(words: &[&str]) -> Result<(usize, usize), String> {
    let [forward, reply] = words else { return Err("bad forward port".into()) };
    let port = |text: &str| unsigned(text).and_then(|port| usize::try_from(port).ok());
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
    /// Reads a specification of an element with so many outputs.
    pub(crate) fn parse(text: &str, outputs: usize, scope: &Scope<'_>) -> Result<Input, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let Some((word, rest)) = words.split_first() else { return Err("empty argument".into()) };
        let mut input = Input { rule: Rule::Drop, forward: 0, reply: 0, count: 0, failures: 0 };
        match *word {
            "pass" | "passthrough" | "nochange" => {
                input.rule = Rule::Pass;
                input.forward = match rest {
                    [] => 0,
                    [port] => unsigned(port).ok_or("syntax error, expected 'nochange [OUTPUT]'")? as usize,
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
            name if rest.is_empty() => {
                input.rule = Rule::Named(name.into());
                return Ok(input);
            }
            _ => return Err("unknown specification".into()),
        }
        match input.forward < outputs && input.reply < outputs {
            true => Ok(input),
            false => Err("output port out of range".into()),
        }
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
            Rule::Named(_) | Rule::Mapper(_) => "<mapper>".into(),
        };
        match self.count {
            0 => format!("{rule}\n"),
            count => format!("{rule} [{count}]\n"),
        }
    }
}
