//! `RoundRobinIPMapper`, `SourceIPHashMapper`, `IPRewriterPatterns`: patterns for
//! rewriters to choose from, and names for them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use graph::class::{mandatory, rest};
use graph::value::unsigned;
use graph::{Class, Conf, Element, Fault};

use super::flow_id::FlowId;
use super::pattern::{NAMED, Pattern};
use super::spec;

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
        let patterns = texts.iter().map(|text| Candidate::parse(text, conf)).collect::<Result<_, _>>()?;
        let inner = Inner { patterns, last: 0, ring: BTreeMap::new() };
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
        let mut names: Vec<String> = vec![];
        for text in conf.rest() {
            let words: Vec<&str> = text.split_whitespace().collect();
            let Some((name, words)) = words.split_first() else { continue };
            if names.iter().any(|known| known == name) || conf.scope().lookup(NAMED, name).is_some() {
                return Err(format!("pattern '{name}' already defined").into());
            }
            Pattern::parse(words, conf.scope())?;
            setup.declare(NAMED, name, words.join(" "));
            names.push((*name).to_string());
        }
        conf.complete()?;
        Ok(Box::new(Passive))
    },
    ..Class::BASE
};

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
    fn parse(text: &str, conf: &Conf<'_>) -> Result<Candidate, Fault> {
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
    /// Places on the ring; empty when patterns are taken in turn.
    ring: BTreeMap<u64, usize>,
}

/// What a rewriter asks.
#[derive(Debug)]
pub(crate) struct Mapper {
    name: String,
    inner: Mutex<Inner>,
}

/// Mixes bits (SplitMix64).
fn mixed(value: u64) -> u64 {
    let value = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let value = (value ^ value >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ value >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ value >> 31
}

fn hashing(texts: &[String], conf: &Conf<'_>) -> Result<Inner, Fault> {
    let words: Vec<&str> = texts[0].split_whitespace().collect();
    let [nodes, seed] = words[..] else { return Err("requires 2 config params: numnodes seed".into()) };
    let nodes =
        unsigned(nodes).filter(|n| (1..=10_000).contains(n)).ok_or("number of nodes must be an integer")?;
    let seed = unsigned(seed).ok_or("hash seed must be an integer")?;
    let mut inner = Inner { patterns: vec![], last: 0, ring: BTreeMap::new() };
    for (index, text) in texts[1..].iter().enumerate() {
        let (text, id) =
            text.trim().rsplit_once(char::is_whitespace).ok_or("bad server ID in pattern spec")?;
        let id = unsigned(id).ok_or("bad server ID in pattern spec")?;
        inner.patterns.push(Candidate::parse(text, conf)?);
        for node in 0..nodes {
            inner.ring.insert(mixed(mixed(seed ^ id << 32) ^ node), index);
        }
    }
    Ok(inner)
}

impl Mapper {
    /// What becomes of a flow, and its outputs; `None` when nothing is free.
    pub(crate) fn rewrite(
        &self,
        id: FlowId,
        free: &dyn Fn(FlowId) -> bool,
    ) -> Option<(FlowId, usize, usize)> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let count = inner.patterns.len();
        let place = mixed(u64::from(id.src));
        let node = inner.ring.range(place..).next().or_else(|| inner.ring.first_key_value());
        if let Some(index) = node.map(|(_, index)| *index) {
            return inner.patterns[index].rewrite(id, free);
        }
        (0..count).find_map(|_| {
            let index = inner.last;
            inner.last = (index + 1) % count;
            inner.patterns[index].rewrite(id, free)
        })
    }

    /// The element's name and class.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Whether a rewriter with so many outputs can use it.
    pub(crate) fn check(&self, outputs: usize) -> Result<(), String> {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        match inner.patterns.iter().position(|p| p.forward >= outputs || p.reply >= outputs) {
            Some(i) => Err(format!("output port out of range in {} pattern {i}", self.name)),
            None => Ok(()),
        }
    }
}

impl Candidate {
    fn rewrite(&mut self, id: FlowId, free: &dyn Fn(FlowId) -> bool) -> Option<(FlowId, usize, usize)> {
        Some((self.pattern.rewrite(id, free)?, self.forward, self.reply))
    }
}
