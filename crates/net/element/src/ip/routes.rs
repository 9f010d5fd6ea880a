//! The commands that change a table of IPv4 routes: from text to [`fib::Rib`], and the
//! order in which routes are listed.

use std::net::Ipv4Addr;

use fib::Rib;
use graph::value::{Scope, unsigned};

use super::forward;
use super::route_text::{Command, RouteText, output};
use super::slots::{Order, Slots};

type Hop = forward::Hop<u32>;

/// A route as commands write it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    prefix: u32,
    len: u8,
    hop: Hop,
}

/// How a change is undone.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Undo {
    Remove(Entry),
    Restore(Entry),
}

impl Entry {
    fn unparse(&self, tabs: bool) -> String {
        let gateway = match self.hop.gateway {
            0 => "-".to_string(),
            gateway => Ipv4Addr::from_bits(gateway).to_string(),
        };
        let prefix = format!("{}/{}", Ipv4Addr::from_bits(self.prefix), self.len);
        let [first, second] = match tabs {
            true => {
                [if prefix.len() < 16 { "\t\t" } else { "\t" }, if gateway.len() < 8 { "\t\t" } else { "\t" }]
            }
            false => [" ", " "],
        };
        format!("{prefix}{first}{gateway}{second}{}", self.hop.port)
    }
}

/// A table of routes.
#[derive(Debug)]
pub(crate) struct Routes {
    /// What packets go by, once it is published.
    pub(crate) rib: Rib<u32, Hop>,
    slots: Slots,
    outputs: usize,
}

impl Routes {
    pub(crate) fn new(order: Order, outputs: usize) -> Routes {
        Routes { rib: Rib::new(), slots: Slots::new(order), outputs }
    }

    /// Reads the routes of a configuration; how many came twice, of which the first
    /// stays.
    pub(crate) fn configure(&mut self, routes: &[String], scope: &Scope<'_>) -> Result<usize, String> {
        let (mut problems, mut twice) = (vec![], 0);
        for (i, text) in routes.iter().enumerate() {
            match RouteText::parse(text, scope) {
                Some(RouteText { rule: (prefix, len), gateway, port: Some(port) }) => match self.port(port) {
                    Some(port) => match self.add(Entry { prefix, len, hop: Hop { port, gateway } }, false) {
                        Ok(_) => {}
                        Err(Conflict::Exists(_)) => twice += 1,
                        Err(Conflict::Full(error)) => problems.push(error),
                    },
                    None => problems.push(format!("argument {} bad OUTPUT", i + 1)),
                },
                _ => problems.push(format!("argument {} should be 'ADDR/MASK [GATEWAY] OUTPUT'", i + 1)),
            }
        }
        if problems.is_empty() { Ok(twice) } else { Err(problems.join("\n")) }
    }

    fn port(&self, port: i64) -> Option<u16> {
        output(port, self.outputs)
    }

    fn get(&self, prefix: u32, len: u8) -> Option<Entry> {
        Some(Entry { prefix, len, hop: *self.rib.get((prefix, len))? })
    }

    /// Adds a route; the one it replaced, if it may.
    fn add(&mut self, entry: Entry, may_replace: bool) -> Result<Option<Entry>, Conflict> {
        let before = self.get(entry.prefix, entry.len);
        if let Some(before) = before.filter(|_| !may_replace) {
            return Err(Conflict::Exists(before));
        }
        self.rib.insert((entry.prefix, entry.len), entry.hop).map_err(|error| {
            Conflict::Full(format!("no memory to store route '{}': {error}", entry.unparse(false)))
        })?;
        self.slots.add((entry.prefix, entry.len));
        Ok(before)
    }

    /// Removes a route, if it is exactly this one.
    fn remove(&mut self, prefix: u32, len: u8, wanted: Option<Hop>) -> Option<Entry> {
        let there = self.get(prefix, len).filter(|there| wanted.is_none_or(|hop| there.hop == hop))?;
        self.rib.remove((prefix, len)).ok()??;
        self.slots.remove((prefix, len));
        Some(there)
    }

    /// Does what a command says; how it is undone.
    pub(crate) fn command(
        &mut self,
        command: Command,
        text: &str,
        scope: &Scope<'_>,
    ) -> Result<Undo, String> {
        let expected = match command {
            Command::Remove => "expected 'ADDR/MASK [GATEWAY OUTPUT]'",
            _ => "expected 'ADDR/MASK [GATEWAY] OUTPUT'",
        };
        let RouteText { rule: (prefix, len), gateway, port } =
            RouteText::parse(text, scope).ok_or(expected)?;
        if command == Command::Remove {
            let hop = match port {
                None | Some(-1) => None,
                Some(port) => Some(Hop { port: self.port(port).ok_or("bad OUTPUT")?, gateway }),
            };
            let removed = self.remove(prefix, len, hop);
            return removed.map(Undo::Restore).ok_or_else(|| {
                let hop = hop.unwrap_or(Hop { port: u16::MAX, gateway });
                let route = Entry { prefix, len, hop }.unparse(false);
                let route = if port.is_none_or(|p| p < 0) { route.replace("65535", "-1") } else { route };
                format!("route '{route}' not found")
            });
        }
        let port = self.port(port.ok_or(expected)?).ok_or("bad OUTPUT")?;
        let entry = Entry { prefix, len, hop: Hop { port, gateway } };
        match self.add(entry, command == Command::Set) {
            Ok(None) => Ok(Undo::Remove(entry)),
            Ok(Some(before)) => Ok(Undo::Restore(before)),
            Err(Conflict::Exists(before)) => {
                Err(format!("conflict with existing route '{}'", before.unparse(false)))
            }
            Err(Conflict::Full(error)) => Err(error),
        }
    }

    /// Does all commands of a text, a line each, or none of them.
    pub(crate) fn transact(&mut self, text: &str, scope: &Scope<'_>) -> Result<(), String> {
        let mut undo = vec![];
        for line in text.lines() {
            let (word, rest) = line.trim().split_once(char::is_whitespace).unwrap_or((line.trim(), ""));
            if word.is_empty() || word.starts_with("//") || word.starts_with('#') {
                continue;
            }
            let command = Command::named(word).ok_or_else(|| format!("bad command '{word}'"));
            match command.and_then(|command| self.command(command, rest, scope)) {
                Ok(step) => undo.push(step),
                Err(error) => {
                    undo.into_iter().rev().for_each(|step| self.undo(step));
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn undo(&mut self, step: Undo) {
        match step {
            Undo::Remove(entry) => drop(self.remove(entry.prefix, entry.len, None)),
            Undo::Restore(entry) => drop(self.add(entry, true)), // there was room for it before
        }
    }

    /// Removes all routes.
    pub(crate) fn flush(&mut self) {
        self.rib.clear();
        self.slots.clear();
    }

    /// All routes, the longest prefixes last.
    pub(crate) fn fixed(&self) -> Vec<super::lookup::Fixed> {
        let fixed = |route: fib::Entry<'_, (u32, u8), Hop>| {
            let ((prefix, len), Hop { port, gateway }) = (route.rule, *route.hop);
            let mask = u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0);
            super::lookup::Fixed { prefix, mask, port, gateway }
        };
        let mut all: Vec<_> = self.rib.iter().map(fixed).collect();
        all.sort_by_key(|route| (route.mask, route.prefix));
        all
    }

    /// All routes, a line each.
    pub(crate) fn dump(&self) -> String {
        let all = self.slots.list(self.rib.iter().map(|route| route.rule));
        all.into_iter()
            .filter_map(|(prefix, len)| Some(self.get(prefix, len)?.unparse(true) + "\n"))
            .collect()
    }
}

/// Why a route was not added.
enum Conflict {
    Exists(Entry),
    Full(String),
}

/// An address in a handler's parameter.
pub(crate) fn parameter(text: &str) -> Option<u32> {
    let text = text.trim();
    // A mere number is an address as well, as Click has it.
    text.parse().ok().map(Ipv4Addr::to_bits).or_else(|| u32::try_from(unsigned(text)?).ok())
}
