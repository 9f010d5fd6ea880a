//! The elements and connections of one scope: the file's or a compound class's.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use super::class::ClassId;
use crate::lang::place::SourceLocation;
use crate::names::NameTable;

/// A port of an element: its index in the body, and the port's number.
pub type Port = (u32, u32);

/// The two sides of an element, as indices.
pub const INPUT: usize = 0;
pub const OUTPUT: usize = 1;

/// The pseudoelements' names, by side.
pub const SIDES: [&str; 2] = ["input", "output"];

/// The side that a name is the pseudoelement's of.
fn side_of(name: &str) -> Option<usize> {
    SIDES.iter().position(|side| *side == name)
}

/// An element of a body.
#[derive(Clone, Debug)]
pub struct Element {
    /// Its name; while the number of an anonymous one may still change, with a
    /// semicolon before it, as no name can have.
    pub name: Arc<str>,
    pub class: ClassId,
    pub config: String,
    pub config_place: Option<SourceLocation>,
    pub place: SourceLocation,
    /// One more than the highest input and output used.
    pub ports: [u32; 2],
    /// The compound element it comes from, an index into the flat list of these.
    pub within: Option<usize>,
    /// Complained of: a name nobody declared.
    pub missing: bool,
}

impl Element {
    pub fn new(name: Arc<str>, class: ClassId, place: SourceLocation) -> Element {
        let (config, config_place) = (String::new(), None);
        Element { name, class, config, config_place, place, ports: [0, 0], within: None, missing: false }
    }
}

/// A connection within a body that is being flattened.
#[derive(Clone, Debug)]
pub struct Link {
    pub from: Port,
    pub to: Port,
    pub place: SourceLocation,
}

/// A parameter of a compound class: its variable and its keyword, which is empty for
/// a positional one.
pub type Formal = (Arc<str>, Arc<str>);

/// The elements and connections of a scope.
#[derive(Debug)]
pub struct Body {
    pub place: SourceLocation,
    /// How many scopes are around it.
    pub depth: usize,
    pub formals: Vec<Formal>,
    /// What `define` says here.
    pub defines: BTreeMap<Arc<str>, Arc<str>>,
    pub elements: Vec<Element>,
    /// The elements by their names, but for those named as in [`SIDES`].
    names: NameTable,
    /// What the names of [`SIDES`] mean: in a group they are other elements' than around it.
    sides: [Option<u32>; 2],
    /// The element that was found last, while all that have names are found by them.
    last_found: Cell<Option<u32>>,
    /// Some element's given name is like those of anonymous ones.
    is_numbered: bool,
    /// Where names are written before they are kept.
    written: String,
    /// Pseudoelements that do not count for the numbers of anonymous elements.
    uncounted: usize,
    pub links: Vec<Link>,
    /// Whether the last chain ended at `output`, or there was none yet.
    pub at_output: bool,
    /// How many inputs and outputs it has, once it is complete.
    pub ports: [u32; 2],
}

impl Body {
    /// The file's, or, at a depth from 1, a compound class's, which has `input` and
    /// `output` in it from the start.
    pub fn new(place: SourceLocation, depth: usize) -> Body {
        let mut body = Body {
            place: place.clone(),
            depth,
            formals: vec![],
            defines: BTreeMap::new(),
            elements: vec![],
            names: NameTable::default(),
            sides: [None, None],
            last_found: Cell::new(Some(0)),
            is_numbered: false,
            written: String::new(),
            uncounted: 0,
            links: vec![],
            at_output: true,
            ports: [0, 0],
        };
        if depth > 0 {
            for side in SIDES {
                body.add(Element::new(side.into(), ClassId::TUNNEL, place.clone()));
            }
            body.uncounted = 2;
        }
        body
    }

    /// The element of a name. A program that writes a configuration often connects elements in
    /// the order in which it declared them, so the element behind the one that was found last is
    /// looked at first: it is in a cache, and the table of a million names is not.
    pub fn find(&self, name: &str) -> Option<u32> {
        if let Some(side) = side_of(name) {
            return self.sides[side];
        }
        let next = self.last_found.get().map(|last| last + 1);
        let is_next = |&next: &u32| self.elements.get(next as usize).is_some_and(|e| *e.name == *name);
        let name_of = |element: u32| &*self.elements[element as usize].name;
        let found = next.filter(is_next).or_else(|| self.names.find(name, name_of));
        if next.is_some() && found.is_some() {
            self.last_found.set(found);
        }
        found
    }

    /// Adds an element; its name is not taken.
    pub fn add(&mut self, element: Element) -> u32 {
        let index = self.elements.len() as u32;
        match side_of(&element.name) {
            Some(side) => self.sides[side] = Some(index),
            // A preliminary name is looked up by nobody.
            None if element.name.starts_with(';') => {}
            None => {
                self.is_numbered |= element.name.contains('@');
                self.names.insert(&element.name, index);
            }
        }
        self.elements.push(element);
        index
    }

    /// Defines a variable; false if the scope has it already.
    pub fn define(&mut self, name: &str, value: &str) -> bool {
        let free = !self.defines.contains_key(name) && !self.formals.iter().any(|(v, _)| &**v == name);
        if free {
            self.defines.insert(name.into(), value.into());
        }
        free
    }

    /// Makes the name of a side mean another element, or none; what it meant before.
    pub fn rename(&mut self, side: usize, element: Option<u32>) -> Option<u32> {
        std::mem::replace(&mut self.sides[side], element)
    }

    /// A preliminary name for an anonymous element: its class and its number, all
    /// elements so far counted.
    pub fn anonymous_name(&mut self, class: &str) -> Arc<str> {
        let number = self.elements.len() - self.uncounted + 1;
        self.written.clear();
        let _ = write!(self.written, ";{class}@{number}"); // a String takes all
        self.written.as_str().into()
    }

    /// The final name for an anonymous element: the next number whose name is free. As no two
    /// have the same number, that is looked for only where others have such names too, or where
    /// the element `is_found` by its name later.
    pub fn assign_name(&mut self, index: usize, is_found: bool) {
        let Some(wanted) = self.elements[index].name.strip_prefix(';') else { return };
        self.last_found.set(None);
        if !is_found && !self.is_numbered && !wanted.contains('/') {
            self.elements[index].name = wanted.into();
            return;
        }
        // For all that are still without: a table that grows is hashed anew each time.
        self.names.reserve_for(self.elements.len());
        let (class, number) = wanted.rsplit_once('@').unwrap_or((wanted, ""));
        let digits = number.bytes().take_while(u8::is_ascii_digit).count();
        let mut number: u64 = number[..digits].parse().unwrap_or(0);
        let mut name: Arc<str> = wanted.into();
        while self.find(&name).is_some() {
            number += 1;
            name = format!("{class}@{number}").into();
        }
        self.names.insert(&name, index as u32);
        self.elements[index].name = name;
    }

    /// Connects two ports.
    pub fn connect(&mut self, from: Port, to: Port, place: &SourceLocation) {
        self.links.push(Link { from, to, place: place.clone() });
        let [_, outputs] = &mut self.elements[from.0 as usize].ports;
        *outputs = (*outputs).max(from.1 + 1);
        let [inputs, _] = &mut self.elements[to.0 as usize].ports;
        *inputs = (*inputs).max(to.1 + 1);
    }

    /// Looks whether a pseudoelement is used as it should be: `side` is what it is,
    /// and the connections are those from `first` on. Its number of ports, whether
    /// it is used from the wrong side, and the ports left out, the first few of them.
    pub fn check_pseudo(&self, index: u32, side: usize, first: usize) -> (u32, bool, Vec<u32>) {
        let element = &self.elements[index as usize];
        // `input` has outputs.
        let count = element.ports[1 - side];
        let mut used = vec![false; count as usize];
        for link in &self.links[first..] {
            let (element, port) = if side == INPUT { link.from } else { link.to };
            if element == index {
                used[port as usize] = true;
            }
        }
        let missing = (0..count).filter(|&p| !used[p as usize]).take(16).collect();
        (count, element.ports[side] > 0, missing)
    }
}
