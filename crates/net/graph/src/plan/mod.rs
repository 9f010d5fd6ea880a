//! What is known of a router before it runs and stays so: elements, connections,
//! which way packets go, and which lane reaches what.

pub mod buffers;
pub(crate) mod chain;
pub mod check;
pub(crate) mod configure;
pub mod cost;
pub mod explain;
mod nearest;
mod neighbors;
pub(crate) mod reach;
pub mod schedule_info;
pub mod setup;
pub mod single;
mod sorted;
pub mod svg;
pub(crate) mod wiring;

use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, OnceLock};

use smallvec::SmallVec;

use crate::element::Element;
use crate::element::class::{Class, SystemNeed};
use crate::lang::{Flat, Problem, SourceLocation};
use crate::names::NameTable;
use crate::plan::chain::Found;
use crate::plan::sorted::Sorted;

/// The most threads a router has: masks of threads have a bit for each.
pub const MAX_THREADS: usize = 64;
use crate::element::value::enclosing;

/// A port of an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Port {
    /// The element, by its number.
    pub element: usize,
    /// The port's number.
    pub port: usize,
}

/// Elements as they were made, by their numbers.
pub type Instances = Vec<Option<Box<dyn Element>>>;

/// For each port of a side, whether packets are pulled there. Most elements have few: no
/// memory of its own is taken for those.
pub type PullPorts = SmallVec<[bool; 16]>;

/// An element as planned.
#[derive(Debug, Clone)]
pub struct Planned {
    /// Its full name.
    pub name: Arc<str>,
    /// The name of its class in the configuration, which may be another name of
    /// [`kind`](Self::kind).
    pub class: Arc<str>,
    /// The element's class.
    pub kind: &'static Class,
    /// Its configuration as written.
    pub config: String,
    /// Where it is declared.
    pub place: SourceLocation,
    /// Whether packets are pulled at each input.
    pub pull_inputs: PullPorts,
    /// Whether packets are pulled from each output.
    pub pull_outputs: PullPorts,
    /// The lanes that can reach it, a bit for each.
    pub lanes: u64,
    /// Those of them that run its tasks.
    pub homes: u64,
    /// Whether only those send on what is pushed into it.
    pub hands_over: bool,
    /// Whether several lanes share it behind a lock.
    pub locked: bool,
    /// Whether packets come to it one by one, each as far as it goes before the next
    /// ([`single`]).
    pub single: bool,
    /// Whether it looks at one packet at a time, in a loop of its own over a batch.
    pub each: bool,
    /// Handlers that it has and others of its class may not: their names, and their rows
    /// in [`Class::handlers`].
    pub further_handlers: Vec<(String, usize)>,
    /// How many packets it may hold.
    pub held: u64,
    /// What it will ask of the system.
    pub needs: Vec<SystemNeed>,
    /// For each output the input that is pulled in its place, where it chooses inputs
    /// ([`Setup::select_inputs`](setup::Setup::select_inputs)).
    pub selected_inputs: Option<Arc<[AtomicUsize]>>,
}

impl Planned {
    /// The row of its class for a handler, if it has it.
    pub fn own_row(&self, name: &str) -> Option<usize> {
        let further = || self.further_handlers.iter().find(|(own, _)| own == name).map(|(_, row)| *row);
        self.kind.handler_row(name).or_else(further)
    }

    /// A problem that showed when the element was initialized, or what it needs was opened.
    pub fn initializing(&self, message: impl Into<String>) -> Problem {
        let element = format!("{} :: {}", self.name, self.class);
        Problem::error(&self.place, message).context(element, "initializing")
    }
}

/// A connection: from an output to an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wire {
    /// The output that packets leave by.
    pub from: Port,
    /// The input that they enter by.
    pub to: Port,
}

/// A router, as planned.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The elements, as in the flattened configuration.
    pub elements: Vec<Planned>,
    /// The connections between elements.
    pub wires: Vec<Wire>,
    /// The configuration, flattened.
    pub flat: Flat,
    /// The configuration as it was given.
    pub source: Arc<str>,
    /// Elements by their names, once one is looked for.
    by_name: OnceLock<NameTable>,
    /// Numbers of wires, by where they come from, and by where they lead.
    by_from: Sorted,
    by_to: Sorted,
    /// Elements that packets go through as one program.
    pub(crate) chains: Vec<Found>,
}

impl Plan {
    pub(crate) fn new(elements: Vec<Planned>, wires: Vec<Wire>, flat: Flat, source: Arc<str>) -> Plan {
        let by_from = Sorted::new(elements.len(), &wires, |wire| wire.from);
        let by_to = Sorted::new(elements.len(), &wires, |wire| wire.to);
        Plan { elements, wires, flat, source, by_name: OnceLock::new(), by_from, by_to, chains: vec![] }
    }

    /// How many packets the elements may hold that a lane reaches.
    pub fn held(&self, lane: usize) -> u64 {
        let here = self.elements.iter().filter(|planned| planned.lanes >> lane & 1 == 1);
        here.fold(0, |sum, planned| sum.saturating_add(planned.held))
    }

    /// How many elements that a lane reaches may hold packets.
    pub fn holding(&self, lane: usize) -> usize {
        self.elements.iter().filter(|planned| planned.lanes >> lane & 1 == 1 && planned.held > 0).count()
    }

    /// Where the wires lead that come from an output.
    pub fn beyond(&self, output: Port) -> impl Iterator<Item = Port> {
        self.by_from.at(output, &self.wires, |wire| wire.from).map(|wire| wire.to)
    }

    /// Where the wires come from that lead to an input.
    pub fn before(&self, input: Port) -> impl Iterator<Item = Port> {
        self.by_to.at(input, &self.wires, |wire| wire.to).map(|wire| wire.from)
    }

    /// An element by name, as seen from another one: in its compound first, then
    /// further out.
    pub fn find(&self, name: &str, from: Option<usize>) -> Option<usize> {
        let from = from.map_or("", |index| &*self.elements[index].name);
        let name_of = |element: u32| &*self.elements[element as usize].name;
        let found = |full: &str| self.by_name().find(full, name_of).map(|element| element as usize);
        enclosing(from).find_map(|prefix| found(&format!("{prefix}{name}")))
    }

    /// The elements by their names. What only looks at a configuration often looks for none; a
    /// router makes the table before it runs.
    pub(crate) fn by_name(&self) -> &NameTable {
        self.by_name.get_or_init(|| {
            let mut names = NameTable::default();
            names.reserve_for(self.elements.len());
            let numbered = self.elements.iter().enumerate();
            numbered.for_each(|(element, planned)| names.insert(&planned.name, element as u32));
            names
        })
    }

    /// The lane that an element's handlers are called in.
    pub fn home(&self, element: usize) -> usize {
        self.elements[element].lanes.trailing_zeros() as usize
    }
}
