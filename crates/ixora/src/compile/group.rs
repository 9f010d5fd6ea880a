//! How a region becomes code: elements that do the same on parallel ways share it.
//!
//! A router's ways to its ports are alike: the same classes in the same order, with
//! other numbers. Written out for each port, the processor would have to guess at every
//! packet which of them comes next, and guess wrong most of the time. So parallel ways
//! are one function with a row for each: a group.

use std::collections::{BTreeMap, BTreeSet};

use graph::element::kernel::Code;
use graph::plan::Port;

use super::region::{Graph, Region};

/// Where packets go on an output of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OutputTarget {
    /// They are dropped: nothing is connected, or no packet comes this way.
    Nowhere,
    /// Out of the region; for each row by which exit.
    Exit(Vec<usize>),
    /// To a group, each row to the row of its number, at this input.
    Rows(usize, usize),
    /// To one element, from all rows: a group and its only row, at this input.
    Join(usize, usize),
    /// This output and others lead to a group's rows: see [`Group::fans`].
    Fan,
}

/// Elements that share code.
#[derive(Debug, Clone)]
pub struct Group {
    /// Their numbers, a row each.
    pub rows: Vec<usize>,
    /// What the code is, when all rows have the same.
    pub code: Code,
    /// For each output.
    pub ways: Vec<OutputTarget>,
    /// Outputs that lead to the rows of a group, in their order.
    pub fans: Vec<(Vec<usize>, usize)>,
    /// Exits for packets that are too much for a guard, for each row.
    pub asides: Vec<usize>,
    /// How many places in other groups lead here.
    pub uses: usize,
}

/// A region laid out as code.
#[derive(Debug, Clone)]
pub struct Layout {
    /// The groups, by number.
    pub groups: Vec<Group>,
    /// For each of the region's entries, the group and row.
    pub entries: Vec<(Port, usize, usize)>,
    /// Where packets go that leave.
    pub exits: Vec<Port>,
}

/// Lays a region out.
pub fn lay_out(graph: &Graph<'_>, region: &Region) -> Layout {
    let layout = Layout { groups: vec![], entries: vec![], exits: vec![] };
    let mut maker = Maker { graph, layout, places: BTreeMap::new(), signatures: BTreeMap::new() };
    // First entries from other elements; those behind guards are then part of a way.
    let behind_guard = |to: &Port| {
        let mut before = graph.plan.before(*to);
        before.all(|from| graph.inner(from).is_some())
    };
    let (late, early): (Vec<Port>, Vec<Port>) = region.entries.iter().partition(|to| behind_guard(to));
    maker.parallel(&early);
    for entry in early.iter().chain(&late) {
        let (group, row) = maker.place(entry.element);
        maker.layout.entries.push((*entry, group, row));
    }
    let mut layout = maker.layout;
    layout.entries.sort_by_key(|(port, ..)| *port);
    layout
}

struct Maker<'a> {
    graph: &'a Graph<'a>,
    layout: Layout,
    /// The group and row of each element.
    places: BTreeMap<usize, (usize, usize)>,
    signatures: BTreeMap<usize, String>,
}

impl Maker<'_> {
    /// Makes groups of the elements that packets come in at, where their ways are alike.
    fn parallel(&mut self, entries: &[Port]) {
        let mut alike: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for entry in entries.iter().filter(|entry| self.graph.arrivals(entry.element) == 1) {
            let signature = self.signature(entry.element);
            alike.entry(signature).or_default().push(entry.element);
        }
        let mut groups: Vec<Vec<usize>> = alike.into_values().filter(|rows| rows.len() > 1).collect();
        groups.sort();
        for rows in groups {
            self.make(rows);
        }
    }

    /// The group and row of an element, made if need be.
    fn place(&mut self, element: usize) -> (usize, usize) {
        match self.places.get(&element) {
            Some(place) => *place,
            None => (self.make(vec![element]), 0),
        }
    }

    fn exit(&mut self, to: Port) -> usize {
        let exits = &mut self.layout.exits;
        exits.iter().position(|exit| *exit == to).unwrap_or_else(|| {
            exits.push(to);
            exits.len() - 1
        })
    }

    /// Makes a group of elements that do the same.
    fn make(&mut self, rows: Vec<usize>) -> usize {
        let number = self.layout.groups.len();
        for (row, element) in rows.iter().enumerate() {
            self.places.insert(*element, (number, row));
        }
        let codes: BTreeSet<String> =
            rows.iter().map(|e| format!("{:?}", self.graph.nodes[e].code)).collect();
        let node = &self.graph.nodes[&rows[0]];
        let code = if codes.len() == 1 { node.code.clone() } else { Code::Asked };
        let mut asides = vec![];
        if node.is_guard() {
            asides = rows.iter().map(|&element| self.exit(Port { element, port: 0 })).collect();
        }
        let group = Group { rows: rows.clone(), code, ways: vec![], fans: vec![], asides, uses: 0 };
        self.layout.groups.push(group);
        let fans = if rows.len() == 1 { self.fans(rows[0]) } else { vec![] };
        for (outputs, targets) in &fans {
            let group = self.make(targets.clone());
            self.layout.groups[group].uses += 1;
            self.layout.groups[number].fans.push((outputs.clone(), group));
        }
        let in_fan = |output: &usize| fans.iter().any(|(outputs, _)| outputs.contains(output));
        let outputs = self.graph.outputs(rows[0]).count();
        let way = |output| if in_fan(&output) { OutputTarget::Fan } else { self.way(&rows, output) };
        self.layout.groups[number].ways = (0..outputs).map(way).collect();
        number
    }

    /// Where the rows' packets go on an output.
    fn way(&mut self, rows: &[usize], output: usize) -> OutputTarget {
        if !self.graph.passes(Port { element: rows[0], port: output }) {
            return OutputTarget::Nowhere;
        }
        let from = |&element: &usize| Port { element, port: output };
        let targets: Vec<Option<Port>> = rows.iter().map(|e| self.graph.target(from(e))).collect();
        let inner: Vec<Option<Port>> = rows.iter().map(|e| self.graph.inner(from(e))).collect();
        let input = inner[0].map_or(0, |to| to.port);
        match inner[0] {
            Some(to) if inner.iter().all(|other| *other == Some(to)) => {
                let (group, row) = self.place(to.element);
                debug_assert_eq!(row, 0, "what several lead to has a group of its own");
                self.layout.groups[group].uses += 1;
                OutputTarget::Join(group, input)
            }
            Some(_) => {
                let next: Vec<usize> = inner.iter().flatten().map(|to| to.element).collect();
                let group = self.make(next);
                self.layout.groups[group].uses += 1;
                OutputTarget::Rows(group, input)
            }
            None if targets.contains(&None) => OutputTarget::Nowhere,
            None => OutputTarget::Exit(targets.into_iter().flatten().map(|to| self.exit(to)).collect()),
        }
    }

    /// The outputs of an element that lead to ways which are alike, with their first
    /// elements.
    fn fans(&mut self, element: usize) -> Vec<(Vec<usize>, Vec<usize>)> {
        let mut alike: BTreeMap<String, (Vec<usize>, Vec<usize>)> = BTreeMap::new();
        for from in self.graph.outputs(element) {
            let Some(to) = self.graph.inner(from).filter(|to| self.graph.arrivals(to.element) == 1) else {
                continue;
            };
            let signature = self.signature(to.element);
            let (outputs, targets) = alike.entry(signature).or_default();
            outputs.push(from.port);
            targets.push(to.element);
        }
        let mut fans: Vec<_> = alike.into_values().filter(|(outputs, _)| outputs.len() > 1).collect();
        fans.sort();
        fans
    }

    /// What an element and all behind it do, as far as only it leads there: equal for
    /// ways that can share code.
    fn signature(&mut self, element: usize) -> String {
        if let Some(known) = self.signatures.get(&element) {
            return known.clone();
        }
        let node = &self.graph.nodes[&element];
        let guard = if node.is_guard() { format!("{:?}", node.code) } else { String::new() };
        let mut text = format!("{}{guard}(", node.class.name);
        for from in self.graph.outputs(element) {
            let to = self.graph.inner(from);
            text += &match (to, self.graph.target(from)) {
                (Some(to), _) if self.graph.arrivals(to.element) == 1 => {
                    format!("{}:{}", to.port, self.signature(to.element))
                }
                (Some(to), _) => format!("to {}:{}", to.element, to.port),
                (None, Some(_)) => "exit".into(),
                (None, None) => "-".into(),
            };
            text.push(',');
        }
        text.push(')');
        self.signatures.insert(element, text.clone());
        text
    }
}
