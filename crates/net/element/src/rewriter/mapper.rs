//! `RoundRobinIPMapper`, `SourceIPHashMapper`, `IPRewriterPatterns`: patterns for
//! rewriters to choose from, and names for them.

use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, PoisonError};

use graph::class::{mandatory, rest};
use graph::value::Value;
use graph::{Class, Conf, ConfFault, Cx, Element};

use super::flow_id::FlowId;
use super::pattern::{NAMED, Pattern};
use super::ring::HashRing;
use super::spec;
use super::taken::{Chosen, Known};

/// The class of what takes patterns in turn.
pub static ROUND_ROBIN: Class = Class {
    name: "RoundRobinIPMapper",
    brief: "gives a rewriter's new flows patterns in turn",
    doc: "Named as a rewriter's input specification: each new flow takes the next of the patterns that has \
          an address or port free. Several rewriters may use one.",
    ports: "0/0",
    arguments: &[rest("PATTERN", "`SADDR SPORT DADDR DPORT FOUTPUT ROUTPUT`, or `NAME FOUTPUT ROUTPUT`")],
    example: "m :: RoundRobinIPMapper(- - 10.0.0.2 - 0 1, - - 10.0.0.3 - 0 1);\nrw :: IPRewriter(m, drop);",
    see: &["SourceIPHashMapper", "IPRewriter", "IPRewriterPatterns"],
    make: |setup, conf| {
        let texts = conf.rest();
        conf.complete()?;
        match texts.len() {
            0 => return Err("no patterns given".into()),
            1 => setup.warn("only one pattern given"),
            _ => {}
        }
        let patterns = all(texts.iter().map(|text| Candidate::parse(text, conf)))?;
        let inner = Inner { patterns, last: 0, ring: None };
        let name = format!("{} :: {}", setup.name, setup.class);
        setup.share(Arc::new(Mapper { name, inner: Mutex::new(inner) }));
        Ok(Box::new(Passive))
    },
    ..Class::BASE
};

/// The class of what goes by the source address.
pub static HASH: Class = Class {
    name: "SourceIPHashMapper",
    brief: "gives a rewriter's new flows patterns by their source address",
    doc: "Consistent hashing: flows of one source take the same pattern, and when a pattern comes or goes, \
          few sources change theirs. Each pattern ends in a number that says who it is; NNODES places on the \
          ring belong to each.",
    ports: "0/0",
    arguments: &[
        mandatory("NODES", "`NNODES SEED`: places for each pattern, and where they are"),
        rest("PATTERN", "as RoundRobinIPMapper's, with a number behind it"),
    ],
    example: "m :: SourceIPHashMapper(50 0xbeef, - - 10.0.0.2 - 0 1 1, - - 10.0.0.3 - 0 1 2);",
    see: &["RoundRobinIPMapper", "IPRewriter"],
    make: |setup, conf| {
        let texts = conf.rest();
        conf.complete()?;
        match texts.len() {
            0 => return Err("no hash seed given".into()),
            1 => return Err("no patterns given".into()),
            2 => setup.warn("only one pattern given"),
            _ => {}
        }
        let inner = hashing(&texts, conf)?;
        let name = format!("{} :: {}", setup.name, setup.class);
        setup.share(Arc::new(Mapper { name, inner: Mutex::new(inner) }));
        Ok(Box::new(Passive))
    },
    ..Class::BASE
};

/// The class of what names patterns.
pub static PATTERNS: Class = Class {
    name: "IPRewriterPatterns",
    brief: "names patterns for rewriters",
    doc: "A rewriter's `pattern NAME FOUTPUT ROUTPUT` then means `pattern PATTERN FOUTPUT ROUTPUT`.",
    ports: "0/0",
    phase: Class::INFORMATION,
    arguments: &[rest("PATTERN", "`NAME SADDR SPORT DADDR DPORT`, or `NAME SADDR DADDR`")],
    example: "IPRewriterPatterns(out 1.0.0.1 1024-65535 - -);\nrw :: IPRewriter(pattern out 0 1, drop);",
    see: &["IPRewriter", "IPAddrRewriter", "RoundRobinIPMapper"],
    make: |setup, conf| {
        let mut known: Vec<(String, String)> = vec![];
        let mut turns: Vec<Arc<AtomicU32>> = vec![];
        let texts = conf.rest();
        let declare = |text: &String| {
            let words: Vec<&str> = text.split_whitespace().collect();
            let Some((name, words)) = words.split_first() else { return Ok(()) };
            let find = |name: &str| known.iter().find(|(own, _)| own == name).map(|(_, value)| value);
            if find(name).is_some() || conf.scope().lookup(NAMED, name).is_some() {
                return Err(format!("pattern '{name}' already defined"));
            }
            let same = if let [other] = words { find(other) } else { None };
            let value = match same {
                Some(value) => value.clone(),
                None => {
                    Pattern::parse(words, conf.scope())?;
                    turns.push(Arc::default());
                    format!("{} {} {}", setup.name, turns.len() - 1, words.join(" "))
                }
            };
            setup.declare(NAMED, name, value.clone());
            known.push(((*name).to_string(), value));
            Ok(())
        };
        let declared: Vec<Result<(), String>> = texts.iter().map(declare).collect();
        all(declared.into_iter())?;
        conf.complete()?;
        setup.share(Arc::new(RoundRobinTurns(turns)));
        Ok(Box::new(Passive))
    },
    ..Class::BASE
};

/// Whose turn it is in patterns that have names: all that use one have it in common.
#[derive(Debug)]
pub(crate) struct RoundRobinTurns(pub Vec<Arc<AtomicU32>>);

/// All of several things, or all that is wrong with them.
pub(super) fn all<T>(things: impl Iterator<Item = Result<T, String>>) -> Result<Vec<T>, String> {
    let (mut good, mut wrong) = (vec![], vec![]);
    for thing in things {
        match thing {
            Ok(thing) => good.push(thing),
            Err(error) => wrong.push(error),
        }
    }
    if wrong.is_empty() { Ok(good) } else { Err(wrong.join("\n")) }
}

/// Whether elements of a class are mappers.
pub(super) fn is_one(class: &Class) -> bool {
    [ROUND_ROBIN.name, HASH.name].contains(&class.name)
}

/// An element that only others ask.
#[derive(Debug)]
struct Passive;

impl Element for Passive {}

/// A pattern to choose, and its outputs.
#[derive(Debug)]
struct Candidate {
    pattern: Pattern,
    forward: usize,
    reply: usize,
}

impl Candidate {
    fn parse(text: &str, conf: &Conf<'_>) -> Result<Candidate, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let (pattern, forward, reply) = spec::parse_pattern(&words, conf.scope())?;
        Ok(Candidate { pattern, forward, reply })
    }
}

#[derive(Debug)]
struct Inner {
    patterns: Vec<Candidate>,
    /// Which one's turn it is.
    last: usize,
    /// Whose turn it is by the source; none when patterns are taken in turn.
    ring: Option<HashRing>,
}

/// What a rewriter asks.
#[derive(Debug)]
pub(crate) struct Mapper {
    name: String,
    inner: Mutex<Inner>,
}

/// The most numbers that are drawn for places.
const MOST_PLACES: usize = 1 << 24;

fn hashing(texts: &[String], conf: &Conf<'_>) -> Result<Inner, ConfFault> {
    let words: Vec<&str> = texts[0].split_whitespace().collect();
    let [nodes, seed] = words[..] else { return Err("requires 2 config params: numnodes seed".into()) };
    let number = |text: &str| i32::parse(text, conf.scope()).ok();
    let nodes = number(nodes)
        .and_then(|n| usize::try_from(n).ok().filter(|n| *n > 0))
        .ok_or("number of nodes must be an integer")?;
    let seed = number(seed).ok_or("hash seed must be an integer")?;
    let servers = all(texts[1..].iter().map(|text| {
        let (text, id) = text.trim().rsplit_once(char::is_whitespace).unwrap_or(("", ""));
        let id = number(id).filter(|id| *id >= 0).ok_or("bad server ID in pattern spec")?;
        Ok((id as u16, Candidate::parse(text, conf)?))
    }))?;
    let (ids, patterns): (Vec<u16>, Vec<Candidate>) = servers.into_iter().unzip();
    let most = ids.iter().copied().max().map_or(0, |id| usize::from(id) + 1);
    if nodes.saturating_mul(most) > MOST_PLACES {
        return Err(format!("nodes times server IDs must be at most {MOST_PLACES}").into());
    }
    let ring = Some(HashRing::new(&ids, nodes, seed as u32));
    Ok(Inner { patterns, last: 0, ring })
}

impl Mapper {
    /// What becomes of a flow, and its outputs; `None` when nothing is free.
    pub(crate) fn rewrite(&self, id: FlowId, known: &dyn Known) -> Option<(FlowId, usize, usize)> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let count = inner.patterns.len();
        if let Some(server) = inner.ring.as_ref().and_then(|ring| ring.server(id.src)) {
            return inner.patterns[server].rewrite(id, known);
        }
        (0..count).find_map(|_| {
            let index = inner.last;
            inner.last = (index + 1) % count;
            inner.patterns[index].rewrite(id, known)
        })
    }

    /// What its patterns choose among many.
    pub(crate) fn choices(&self) -> Vec<Chosen> {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.patterns.iter().filter_map(|candidate| candidate.pattern.chooses_among_many()).collect()
    }

    /// The element's name and class.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Whether a rewriter with so many outputs can use it.
    pub(crate) fn check(&self, cx: &Cx<'_>, outputs: usize) -> Result<(), String> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        all(inner.patterns.iter_mut().enumerate().map(|(i, p)| {
            p.pattern.join_named(cx);
            match p.forward >= outputs || p.reply >= outputs {
                true => Err(format!("output port out of range in {} pattern {i}", self.name)),
                false => Ok(()),
            }
        }))?;
        Ok(())
    }
}

impl Candidate {
    fn rewrite(&mut self, id: FlowId, known: &dyn Known) -> Option<(FlowId, usize, usize)> {
        Some((self.pattern.rewrite(id, known)?, self.forward, self.reply))
    }
}
