//! A configuration with nothing left to expand: elements and connections.
//!
//! [`Flat::unparse`] prints it as Click's `flatconfig` handler and `click-flatten`
//! do, byte for byte; read again it gives the same elements and connections.

use std::fmt::Write;
use std::sync::Arc;

use super::args;
use super::place::{SourceLocation, Sources};
use super::problem::Problem;

/// A flattened configuration.
#[derive(Clone, Debug, Default)]
pub struct Flat {
    /// The elements, in Click's order: those of the file as they are declared, then
    /// those of compound elements as these are expanded.
    pub elements: Vec<Declared>,
    /// The connections, each once, sorted by input and then by output.
    pub connections: Vec<Connection>,
    /// What `require` asked for, in order, except libraries, which are in already.
    pub requirements: Vec<Requirement>,
    /// The compound elements that were expanded, in order.
    pub compounds: Vec<Compound>,
    /// Warnings and notes; errors would have prevented this value.
    pub warnings: Vec<Problem>,
    /// The texts, for showing lines of them.
    pub sources: Sources,
}

/// An element of the flattened configuration.
#[derive(Clone, Debug)]
pub struct Declared {
    /// Its full name: `q`, `Queue@3`, `outer/inner/q`.
    pub name: Arc<str>,
    /// Its class: one that [`Options::known_class`](super::Options) knows.
    pub class: Arc<str>,
    /// Its configuration string as written, variables replaced, comments and white
    /// space still in it; [`args::split`] takes it apart.
    pub config: String,
    /// Where it is declared; inside a compound class, if that is where it comes from.
    pub place: SourceLocation,
    /// Where its configuration string begins, when it has one.
    pub config_place: Option<SourceLocation>,
    /// The compound element it is part of: an index into [`Flat::compounds`].
    pub within: Option<usize>,
}

/// A connection between two elements' ports, each as (element's index, port number).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    /// The output port.
    pub from: (usize, usize),
    /// The input port.
    pub to: (usize, usize),
    /// Where it is written; where a connection was made of several, one of them.
    pub place: SourceLocation,
}

/// One requirement: `require(package foo)` has kind `package` and value `foo`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// `package` or `compact_config`.
    pub kind: String,
    /// The package's name; empty for `compact_config`.
    pub value: String,
    /// Where it is required.
    pub place: SourceLocation,
}

/// A compound element that was expanded.
#[derive(Clone, Debug)]
pub struct Compound {
    /// Its full name.
    pub name: String,
    /// Its class, empty for an anonymous one.
    pub class: Arc<str>,
    /// Where the element is declared.
    pub place: SourceLocation,
    /// The compound element that it is itself part of.
    pub within: Option<usize>,
}

impl Flat {
    /// Whether `require(compact_config)` was said: Click's `config` handler then
    /// prints the flat configuration.
    pub fn compact_config(&self) -> bool {
        self.requirements.iter().any(|r| r.kind == "compact_config")
    }

    /// The elements with something like a variable in their configuration strings, and their
    /// indices: most have none, and a configuration may have a million elements.
    pub fn with_variables(&self) -> Box<dyn Iterator<Item = (usize, &Declared)> + '_> {
        Box::new(self.elements.iter().enumerate().filter(|(_, declared)| declared.config.contains('$')))
    }

    /// The places through which an element came about, innermost first: the compound
    /// elements it is part of.
    pub fn expansion(&self, element: usize) -> impl Iterator<Item = &Compound> {
        let first = self.elements.get(element).and_then(|e| e.within);
        std::iter::successors(first.and_then(|i| self.compounds.get(i)), |c| {
            c.within.and_then(|i| self.compounds.get(i))
        })
    }

    /// Where an element's argument is written: the one [`args::split`] gives at this
    /// index. The element's own place where that cannot be said, its configuration
    /// string not being in any source as it is, because variables were replaced.
    pub fn argument_place(&self, element: usize, argument: usize) -> Option<SourceLocation> {
        let element = self.elements.get(element)?;
        let found = element.config_place.as_ref().and_then(|place| {
            let written = self.sources.rest(place)?.strip_prefix(element.config.as_str())?;
            let (offset, _) = args::split_at(&element.config).into_iter().nth(argument)?;
            written.starts_with(')').then(|| place.after(&element.config[..offset]))
        });
        Some(found.unwrap_or_else(|| element.place.clone()))
    }

    /// As `flatconfig` and `click-flatten` print it.
    pub fn unparse(&self) -> String {
        let mut out = String::new();
        self.unparse_requirements(&mut out);
        self.unparse_declarations(&mut out);
        self.unparse_connections(&mut out);
        out
    }

    /// The requirements alone, as [`unparse`](Self::unparse) has them.
    pub fn unparse_requirements(&self, out: &mut String) {
        if self.requirements.is_empty() {
            return;
        }
        out.push_str("require(");
        for (i, r) in self.requirements.iter().enumerate() {
            out.push_str(if i == 0 { "" } else { ", " });
            out.push_str(&r.kind);
            if !r.value.is_empty() {
                out.push(' ');
                out.push_str(&args::quote(r.value.as_bytes()));
            }
        }
        out.push_str(");\n\n");
    }

    fn unparse_declarations(&self, out: &mut String) {
        for e in &self.elements {
            out.push_str(&e.name);
            out.push_str(" :: ");
            out.push_str(&e.class);
            if !e.config.is_empty() {
                out.push('(');
                out.push_str(&e.config);
                out.push(')');
            }
            out.push_str(";\n");
        }
        if !self.elements.is_empty() {
            out.push('\n');
        }
    }

    /// The connections as chains, each as long as port 0 leads on.
    pub fn unparse_connections(&self, out: &mut String) {
        let (next, mut start) = self.chains();
        let mut used = vec![false; self.connections.len()];
        // Chains first; then the cycles, each from its first connection on.
        for pass in 0..2 {
            for first in 0..self.connections.len() {
                if used[first] || (pass == 0 && !start[first]) {
                    continue;
                }
                start[first] = true;
                self.unparse_chain(first, &next, &mut used, out);
            }
        }
    }

    fn unparse_chain(&self, first: usize, next: &[Option<usize>], used: &mut [bool], out: &mut String) {
        let name = |element: usize| self.elements.get(element).map_or("", |e| &*e.name);
        let (element, port) = self.connections[first].from;
        out.push_str(name(element));
        if port != 0 {
            let _ = write!(out, " [{port}]");
        }
        let mut at = Some(first);
        while let Some(c) = at.filter(|&c| !used[c]) {
            out.push_str(if c == first { " -> " } else { "\n    -> " });
            let (element, port) = self.connections[c].to;
            if port != 0 {
                let _ = write!(out, "[{port}] ");
            }
            out.push_str(name(element));
            used[c] = true;
            at = next[c];
        }
        out.push_str(";\n");
    }

    /// For each connection the one that continues it, and whether a chain starts
    /// with it. A connection into port 0 goes on with the first connection from the
    /// element's output 0 into another port 0, else with the last into any port.
    fn chains(&self) -> (Vec<Option<usize>>, Vec<bool>) {
        // Of each element's output 0: the first two into a port 0, the last two of all.
        // Two, because a connection does not continue itself.
        let mut firsts = vec![[None; 2]; self.elements.len()];
        let mut lasts = vec![[None; 2]; self.elements.len()];
        for (i, c) in self.connections.iter().enumerate() {
            if c.from.1 != 0 || c.from.0 >= self.elements.len() {
                continue;
            }
            let (first, last) = (&mut firsts[c.from.0], &mut lasts[c.from.0]);
            if c.to.1 == 0
                && let Some(room) = first.iter_mut().find(|slot| slot.is_none())
            {
                *room = Some(i);
            }
            *last = [Some(i), last[0]];
        }
        let mut next = vec![None; self.connections.len()];
        let mut start = vec![true; self.connections.len()];
        for (i, c) in self.connections.iter().enumerate() {
            if c.to.1 != 0 || c.to.0 >= self.elements.len() {
                continue;
            }
            let found = firsts[c.to.0].into_iter().chain(lasts[c.to.0]).flatten().find(|&d| d != i);
            next[i] = found;
            if let Some(d) = found {
                start[d] = false;
            }
        }
        (next, start)
    }
}
