//! Patterns: what becomes of a flow's addresses and ports.

use std::fmt;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use graph::Cx;
use graph::value::{NameKind, Prefix4, Scope, Value, unsigned};

use super::flow_id::FlowId;
use super::mapper::RoundRobinTurns;
use super::taken::{Chosen, Known};
use graph::random;

/// As which kind of name a configuration's patterns are declared.
pub(crate) const NAMED: NameKind = NameKind::Number("rewriter pattern");

/// So many values are tried one by one.
const FEW: u32 = 64;

/// How a varying address or port is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Choice {
    /// What the packet has, if that is free; else any.
    Same,
    /// Any value that is free, chosen at random.
    Any,
    /// One after the other.
    Next,
}

/// A pattern. Zeros leave what the packet has.
#[derive(Debug, Clone)]
pub(crate) struct Pattern {
    id: FlowId,
    /// How many values beyond the first may be chosen.
    range: u32,
    /// Ports are rewritten too; the port varies, not the address.
    ports: bool,
    choice: Choice,
    next: Arc<AtomicU32>,
    /// The element that has named it, and its number there.
    home: Option<(String, usize)>,
}

impl Pattern {
    /// Reads `SADDR[-SADDR2] DADDR`, `SADDR SPORT[-SPORT2] DADDR DPORT`, or the name
    /// of a pattern.
    pub(crate) fn parse(words: &[&str], scope: &Scope<'_>) -> Result<Pattern, String> {
        let (src, src_port, dst, dst_port) = match *words {
            [name] => {
                let text = scope.lookup(NAMED, name).ok_or_else(|| format!("no such pattern '{name}'"))?;
                let words: Vec<&str> = text.split_whitespace().collect();
                let [element, place, words @ ..] = &words[..] else { return Err("syntax error".into()) };
                let home = Some((element.to_string(), place.parse().unwrap_or(0)));
                return match words.len() {
                    1 => Pattern::parse(words, scope),
                    _ => Pattern::parse(words, scope).map(|pattern| Pattern { home, ..pattern }),
                };
            }
            [src, dst] => (src, None, dst, None),
            [src, dst, port] => (src, Some(port), dst, None),
            [src, port, dst, dst_port] => (src, Some(port), dst, Some(dst_port)),
            _ => return Err("syntax error".into()),
        };
        let mut pattern = Pattern {
            id: FlowId::default(),
            range: 0,
            ports: src_port.is_some(),
            choice: Choice::Same,
            next: Arc::default(),
            home: None,
        };
        // The address or the port varies, not both.
        let Some(port) = src_port else {
            pattern.address(src, scope).ok_or("bad source address")?;
            pattern.id.dst = fixed_address(dst, scope).ok_or("bad destination address")?;
            return Ok(pattern);
        };
        pattern.id.src = fixed_address(src, scope).ok_or("bad source address")?;
        pattern.port(port).ok_or("bad source port")?;
        pattern.id.dst = fixed_address(dst, scope).ok_or("bad destination address")?;
        if let Some(port) = dst_port {
            pattern.id.dst_port = fixed_port(port).ok_or("bad destination port")?;
        }
        Ok(pattern)
    }

    /// Finds those it takes turns with, if it has a name.
    pub(crate) fn join_named(&mut self, cx: &Cx<'_>) {
        let turns = self.home.as_ref().and_then(|(element, place)| {
            let turns = cx.shared::<RoundRobinTurns>(element)?;
            turns.0.get(*place).cloned()
        });
        self.next = turns.unwrap_or_else(|| self.next.clone());
    }

    /// Goes on where another one was, if it says the same.
    pub(crate) fn resume(&mut self, old: &Pattern) -> bool {
        let said = |pattern: &Pattern| (pattern.id, pattern.range, pattern.ports, pattern.choice);
        let same = said(self) == said(old);
        if same {
            self.next.store(old.next.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        same
    }

    /// A suffix that says how to choose.
    fn choice<'t>(&mut self, text: &'t str) -> &'t str {
        if let Some(rest) = text.strip_suffix('#') {
            self.choice = Choice::Next;
            return rest;
        }
        let Some(rest) = text.strip_suffix('?') else { return text };
        if self.choice == Choice::Same {
            self.choice = Choice::Any;
        }
        rest
    }

    fn address(&mut self, text: &str, scope: &Scope<'_>) -> Option<()> {
        if let Some(address) = fixed_address(text, scope) {
            self.id.src = address;
            return Some(());
        }
        let text = self.choice(text);
        if let Some((first, last)) = text.split_once('-') {
            let [first, last] = [first, last].map(|a| Ipv4Addr::parse(a, scope).ok().map(Ipv4Addr::to_bits));
            (self.id.src, self.range) = (first?, last?.checked_sub(first?)?);
            return Some(());
        }
        let prefix = Prefix4::parse(text, scope).ok()?;
        let (address, length) = (prefix.address.to_bits(), prefix.length()?);
        if address == 0 || length == 0 {
            return None;
        }
        let base = address & prefix.mask.to_bits();
        // Longer prefixes have all their addresses, others not the first and last.
        (self.id.src, self.range) = match length {
            32 => (address, 0),
            31 => (base, 1),
            _ => (base | 1, !prefix.mask.to_bits() - 2),
        };
        Some(())
    }

    fn port(&mut self, text: &str) -> Option<()> {
        if let Some(port) = fixed_port(text) {
            self.id.src_port = port;
            return Some(());
        }
        let text = self.choice(text);
        let (first, last) = text.split_once('-')?;
        let [first, last] = [first, last].map(|port| u16::try_from(unsigned(port)?).ok());
        (self.id.src_port, self.range) = (first?, u32::from(last?.checked_sub(first?)?));
        Some(())
    }

    /// What it chooses, where there are more choices than one would try one by one.
    pub(crate) fn chooses_among_many(&self) -> Option<Chosen> {
        (self.range >= FEW).then_some(self.chosen())
    }

    fn chosen(&self) -> Chosen {
        if self.ports { Chosen::Port } else { Chosen::Address }
    }

    /// What becomes of a flow; `None` when nothing is free.
    pub(crate) fn rewrite(&mut self, id: FlowId, known: &dyn Known) -> Option<FlowId> {
        let or = |ours: u32, theirs: u32| if ours == 0 { theirs } else { ours };
        let or_port = |ours: u16, theirs: u16| if ours == 0 { theirs } else { ours };
        let mut new = FlowId {
            src: or(self.id.src, id.src),
            src_port: or_port(self.id.src_port, id.src_port),
            dst: or(self.id.dst, id.dst),
            dst_port: or_port(self.id.dst_port, id.dst_port),
        };
        if self.range == 0 {
            return Some(new);
        }
        let same = u32::from(id.src_port.wrapping_sub(self.id.src_port));
        if self.ports && self.choice == Choice::Same && id.src_port >= self.id.src_port && same <= self.range
        {
            new.src_port = id.src_port;
            if known.is_free(new) {
                self.next.store(same + 1, Ordering::Relaxed);
                return Some(new);
            }
        }
        let next = self.next.load(Ordering::Relaxed);
        let start = match self.choice {
            Choice::Next if next > self.range => 0,
            Choice::Next => next,
            _ => random::below(u64::from(self.range) + 1) as u32,
        };
        let chosen = self.chosen();
        let base = if self.ports { self.id.src_port.into() } else { self.id.src };
        let free = |first: u32, last: u32| known.first_free(chosen, new, base + first, base + last);
        let before = || start.checked_sub(1).and_then(|last| free(0, last));
        let value = free(start, self.range).or_else(before)?;
        self.next.store((value - base).saturating_add(1), Ordering::Relaxed);
        Some(chosen.set(new, value))
    }
}

fn fixed_address(text: &str, scope: &Scope<'_>) -> Option<u32> {
    if text == "-" { Some(0) } else { Ipv4Addr::parse(text, scope).ok().map(Ipv4Addr::to_bits) }
}

fn fixed_port(text: &str) -> Option<u16> {
    if text == "-" { Some(0) } else { u16::try_from(unsigned(text)?).ok().filter(|port| *port > 0) }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = |bits: u32| match bits {
            0 => "-".to_string(),
            _ => Ipv4Addr::from_bits(bits).to_string(),
        };
        let last = self.id.src.wrapping_add(self.range);
        match self.ports {
            false if self.range > 0 => {
                write!(f, "{}-{} ", Ipv4Addr::from_bits(self.id.src), Ipv4Addr::from_bits(last))?
            }
            _ => write!(f, "{} ", address(self.id.src))?,
        }
        let port = u32::from(self.id.src_port);
        match self.ports {
            false => return f.write_str(&address(self.id.dst)),
            true if port == 0 => f.write_str("- ")?,
            true if self.range > 0 => write!(f, "{port}-{} ", port + self.range)?,
            true => write!(f, "{port} ")?,
        }
        match self.id.dst_port {
            0 => write!(f, "{} -", address(self.id.dst)),
            port => write!(f, "{} {port}", address(self.id.dst)),
        }
    }
}
