//! From a flat configuration to a plan: ports counted, each push or pull, each
//! connected as often as it may be.

use std::ops::Range;
use std::sync::Arc;

use smallvec::{SmallVec, smallvec};

use crate::element::class::{Class, Registry};
use crate::element::port_code;
use crate::lang::{Flat, Problem, SourceLocation};
use crate::plan::Port;
use crate::plan::{Planned, Wire};

/// A configuration's elements and wires, and what is wrong with them.
#[derive(Default)]
pub(crate) struct Wiring {
    /// The elements whose classes there are.
    pub(crate) elements: Vec<Planned>,
    /// The connections between elements.
    pub(crate) wires: Vec<Wire>,
    /// What is wrong.
    pub(crate) problems: Vec<Problem>,
    /// For each element, whether it has more or fewer ports than its class may have:
    /// what else it says is wrong may come of that.
    pub(crate) miscounted: Vec<bool>,
    /// For each problem, how early Click would find it: it looks no further than the
    /// first kind.
    ranks: Vec<u8>,
}

/// The rank of ports that are both pushed and pulled.
const CONFLICT: u8 = 1;
/// The rank of what Click looks for in ports when it found nothing else.
const UNCONNECTED: u8 = 2;
/// The rank of what Click would not look for.
const BEYOND: u8 = 3;

impl Wiring {
    /// Only what Click would find.
    pub(crate) fn as_click(&mut self) {
        let first = self.ranks.iter().min().copied();
        let mut ranks = self.ranks.iter();
        self.problems.retain(|_| ranks.next().copied() == first);
    }

    /// Ports that are both pushed and pulled: so they are, whatever else is connected.
    pub(crate) fn conflicts(&self) -> impl Iterator<Item = &Problem> {
        self.problems
            .iter()
            .zip(&self.ranks)
            .filter(|(_, rank)| **rank == CONFLICT)
            .map(|(problem, _)| problem)
    }
}

/// Packages that a configuration requires: code that Click loads as it runs. There is none here.
fn packages(flat: &Flat) -> impl Iterator<Item = Problem> {
    let packages = flat.requirements.iter().filter(|requirement| requirement.kind == "package");
    packages.map(|requirement| {
        let message = format!("requirement '{}' not available", requirement.value);
        let help = "packages of compiled elements cannot be loaded: leave it out if the elements are there";
        Problem::error(&requirement.place, message)
            .compat_at(&SourceLocation::nowhere(""))
            .suggest(Some(help.to_owned()))
    })
}

/// Finds the wiring of a configuration. Where a class is not known there are problems and no
/// elements.
pub(crate) fn of(flat: &Flat, registry: &Registry) -> Wiring {
    let mut wiring = Wiring { wires: flat.connections.iter().map(wire).collect(), ..Wiring::default() };
    wiring.problems.extend(packages(flat));
    let packages = wiring.problems.len();
    wiring.elements.reserve_exact(flat.elements.len());
    let counts = ports(flat.elements.len(), &wiring.wires);
    // All elements of a class share its name: each name is looked up once in a row.
    let mut last: Option<(&Arc<str>, &'static Class)> = None;
    for (declared, &(inputs, outputs)) in flat.elements.iter().zip(&counts) {
        let same = last.filter(|(name, _)| Arc::ptr_eq(name, &declared.class)).map(|(_, kind)| kind);
        let Some(kind) = same.or_else(|| registry.find(&declared.class)) else {
            let message = format!("undeclared element class '{}'", declared.class);
            wiring.problems.push(Problem::error(&declared.place, message));
            continue;
        };
        last = Some((&declared.class, kind));
        wiring.elements.push(Planned {
            name: declared.name.clone(),
            class: declared.class.clone(),
            kind,
            config: declared.config.clone(),
            place: declared.place.clone(),
            pull_inputs: smallvec![false; inputs],
            pull_outputs: smallvec![false; outputs],
            lanes: 0,
            homes: 0,
            hands_over: false,
            locked: false,
            single: false,
            each: false,
            further_handlers: vec![],
            held: 0,
            needs: vec![],
            selected_inputs: None,
        });
    }
    let Wiring { elements, wires, problems, miscounted, ranks } = &mut wiring;
    ranks.resize(problems.len(), 0);
    if problems.len() > packages {
        elements.clear();
        return wiring;
    }
    count_ports(elements, problems, miscounted, ranks);
    let mut nodes = Nodes::new(&counts);
    resolve(elements, &mut nodes, wires, flat, problems);
    let has_conflicts = problems.len() > ranks.len();
    ranks.resize(problems.len(), CONFLICT);
    let last = if problems.is_empty() { UNCONNECTED } else { BEYOND };
    // Ports may be of the other kind once a conflict is mended, if they are of no fixed one.
    let is_settled = |planned: &Planned, output, port| {
        !has_conflicts || port_code::processing(planned.kind.processing, output, port) != 'a'
    };
    let found = connected(elements, &nodes, wires, flat, &is_settled);
    problems
        .extend(found.into_iter().filter(|(element, _)| !miscounted[*element]).map(|(_, problem)| problem));
    ranks.resize(problems.len(), last);
    wiring
}

fn wire(connection: &crate::lang::Connection) -> Wire {
    let port = |(element, port)| Port { element, port };
    Wire { from: port(connection.from), to: port(connection.to) }
}

/// How many inputs and outputs each element has: as many as are connected.
fn ports(elements: usize, wires: &[Wire]) -> Vec<(usize, usize)> {
    let mut counts = vec![(0, 0); elements];
    for wire in wires {
        let (from, to) = (wire.from, wire.to);
        counts[from.element].1 = counts[from.element].1.max(from.port + 1);
        counts[to.element].0 = counts[to.element].0.max(to.port + 1);
    }
    counts
}

fn count_ports(
    elements: &[Planned],
    problems: &mut Vec<Problem>,
    miscounted: &mut Vec<bool>,
    ranks: &mut Vec<u8>,
) {
    for element in elements {
        let before = problems.len();
        let (inputs, outputs) = (element.pull_inputs.len(), element.pull_outputs.len());
        let count = port_code::count(element.kind.ports, inputs);
        for (have, (low, high), what) in [(inputs, count.inputs, "input"), (outputs, count.outputs, "output")]
        {
            let plural = |n: usize| if n == 1 { what.to_string() } else { format!("{what}s") };
            let Planned { name, class, .. } = element;
            let message = match have {
                _ if have < low && low == high => format!("need exactly {low} {}", plural(low)),
                _ if have < low => format!("need at least {low} {}", plural(low)),
                _ if have > high => format!("too many {what}s; at most {high} {}", plural(high)),
                _ => continue,
            };
            let usage = format!("{class} has {}", ports_in_words(element.kind));
            let text = format!("'{name} :: {class}': {message}, not {have}");
            let mut problem = Problem::error(&element.place, text).expected(usage);
            // Click tells of each port.
            let lines: Vec<String> = match have < low {
                true => (have..low).map(|p| format!("'{name} :: {class}' {what} {p} unused")).collect(),
                false => (high..have).map(|p| format!("'{name} :: {class}' has no {what} {p}")).collect(),
            };
            problem.compat_message = Some(lines[..lines.len().min(MOST_UNUSED)].join("\n"));
            problems.push(problem);
            ranks.push(if have < low { UNCONNECTED } else { 0 });
        }
        miscounted.push(problems.len() > before);
    }
}

/// Whether all elements of a class have as many ports, so that none looks at how many it has.
pub(crate) fn has_fixed_ports(class: &Class) -> bool {
    class.ports.bytes().all(|b| b == b'/' || b.is_ascii_digit())
}

/// A class's ports as a person would say it.
fn ports_in_words(class: &Class) -> String {
    let (inputs, outputs) = class.ports.split_once('/').unwrap_or((class.ports, class.ports));
    let words = |code: &str, what: &str| match code {
        "-" => format!("any number of {what}s"),
        "=" => format!("as many {what}s as inputs"),
        "1" => format!("1 {what}"),
        _ if code.ends_with('-') => format!("{} or more {what}s", code.trim_end_matches('-')),
        _ => format!("{} {what}s", code.replace('-', " to ")),
    };
    format!("{} and {}", words(inputs, "input"), words(outputs, "output"))
}

/// Ports as one list: all inputs and outputs of an element, one element after the
/// other.
struct Nodes {
    /// For each element the first of its nodes, and the first of those of its outputs; behind the
    /// last element's the end of all.
    first: Vec<[usize; 2]>,
    parents: Vec<usize>,
}

impl Nodes {
    /// Of elements with so many inputs and outputs.
    fn new(counts: &[(usize, usize)]) -> Nodes {
        let (mut first, mut all) = (Vec::with_capacity(counts.len() + 1), 0);
        for &(inputs, outputs) in counts {
            first.push([all, all + inputs]);
            all += inputs + outputs;
        }
        first.push([all, all]);
        Nodes { first, parents: (0..all).collect() }
    }

    fn node(&self, output: bool, port: Port) -> usize {
        self.first[port.element][usize::from(output)] + port.port
    }

    /// The nodes of an element's inputs or outputs.
    fn of(&self, element: usize, output: bool) -> Range<usize> {
        let [inputs, outputs] = self.first[element];
        if output { outputs..self.first[element + 1][0] } else { inputs..outputs }
    }

    fn root(&mut self, mut node: usize) -> usize {
        while self.parents[node] != node {
            self.parents[node] = self.parents[self.parents[node]];
            node = self.parents[node];
        }
        node
    }

    fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.root(a), self.root(b));
        self.parents[a.max(b)] = a.min(b);
    }
}

/// Decides for each port whether packets are pushed or pulled. Agnostic ports are as
/// those they lead to; push where nothing says otherwise.
fn resolve(
    elements: &mut [Planned],
    nodes: &mut Nodes,
    wires: &[Wire],
    flat: &Flat,
    problems: &mut Vec<Problem>,
) {
    // What is fixed, by root: `h` or `l`.
    let mut fixed: Vec<Option<char>> = vec![None; nodes.parents.len()];
    for (element, planned) in elements.iter().enumerate() {
        join_agnostic(nodes, element, planned);
        for output in [false, true] {
            for (port, node) in nodes.of(element, output).enumerate() {
                let code = port_code::processing(planned.kind.processing, output, port);
                if code != 'a' {
                    let root = nodes.root(node);
                    fixed[root].get_or_insert(code);
                }
            }
        }
    }
    for (index, wire) in wires.iter().enumerate() {
        let (a, b) = (nodes.node(true, wire.from), nodes.node(false, wire.to));
        let (a, b) = (nodes.root(a), nodes.root(b));
        match (fixed[a], fixed[b]) {
            (Some(x), Some(y)) if x != y => {
                problems.push(conflict(elements, *wire, x, flat, index));
            }
            (one, other) => {
                nodes.join(a, b);
                let root = nodes.root(a);
                fixed[root] = one.or(other);
            }
        }
    }
    // Nothing is pulled in the beginning, and of a million elements most stay as they are.
    for (element, planned) in elements.iter_mut().enumerate() {
        for output in [false, true] {
            for (port, node) in nodes.of(element, output).enumerate() {
                if fixed[nodes.root(node)] == Some('l') {
                    let pulled = if output { &mut planned.pull_outputs } else { &mut planned.pull_inputs };
                    pulled[port] = true;
                }
            }
        }
    }
}

/// Agnostic ports of an element that lead to each other are of one kind.
fn join_agnostic(nodes: &mut Nodes, element: usize, planned: &Planned) {
    let class = planned.kind;
    let (inputs, outputs) = (planned.pull_inputs.len(), planned.pull_outputs.len());
    let agnostic = |output, port| port_code::processing(class.processing, output, port) == 'a';
    let open_inputs: SmallVec<[usize; 4]> = (0..inputs).filter(|&i| agnostic(false, i)).collect();
    let open_outputs: SmallVec<[usize; 4]> = (0..outputs).filter(|&o| agnostic(true, o)).collect();
    let (Some(&input), Some(&output)) = (open_inputs.first(), open_outputs.first()) else { return };
    let mut join = |i, o| {
        let input = nodes.node(false, Port { element, port: i });
        let output = nodes.node(true, Port { element, port: o });
        nodes.join(input, output);
    };
    if class.flow == "x/x" {
        // All lead to all: each joined to the first of the other side will do, and
        // is linear in the number of ports.
        open_inputs.iter().for_each(|&i| join(i, output));
        open_outputs.iter().for_each(|&o| join(input, o));
        return;
    }
    for &i in &open_inputs {
        for &o in open_outputs.iter().filter(|&&o| port_code::joins(class.flow, i, inputs, o, outputs)) {
            join(i, o);
        }
    }
}

fn conflict(elements: &[Planned], wire: Wire, from: char, flat: &Flat, index: usize) -> Problem {
    let words = |code| if code == 'l' { "pull" } else { "push" };
    let other = if from == 'l' { 'h' } else { 'l' };
    let message = format!(
        "'{}' {} output {} connected to '{}' {} input {}",
        elements[wire.from.element].name,
        words(from),
        wire.from.port,
        elements[wire.to.element].name,
        words(other),
        wire.to.port,
    );
    let hint = match from {
        'h' => "put a Queue between them",
        _ => "put an Unqueue between them",
    };
    let mut problem = Problem::error(&flat.connections[index].place, message).suggest(Some(hint.to_string()));
    let declared = |element: usize| format!("'{} :: {}'", elements[element].name, elements[element].class);
    problem.compat_message = Some(format!(
        "{} {} output {} connected to {} {} input {}",
        declared(wire.from.element),
        words(from),
        wire.from.port,
        declared(wire.to.element),
        words(other),
        wire.to.port,
    ));
    problem.compat_at(&SourceLocation::nowhere(""))
}

/// Unused ports of one element that are told one by one.
const MOST_UNUSED: usize = 16;

/// Push outputs and pull inputs lead to one place each, as far as it is settled of them that they
/// are; all ports lead somewhere. What is wrong, with the element it is wrong of.
fn connected(
    elements: &[Planned],
    nodes: &Nodes,
    wires: &[Wire],
    flat: &Flat,
    is_settled: &dyn Fn(&Planned, bool, usize) -> bool,
) -> Vec<(usize, Problem)> {
    let mut problems = vec![];
    let mut used = vec![0u32; nodes.parents.len()];
    for (index, wire) in wires.iter().enumerate() {
        for (output, port) in [(true, wire.from), (false, wire.to)] {
            let planned = &elements[port.element];
            let pulled =
                if output { planned.pull_outputs[port.port] } else { planned.pull_inputs[port.port] };
            let count = &mut used[nodes.node(output, port)];
            *count += 1;
            if *count == 2 && output != pulled && is_settled(planned, output, port.port) {
                let (kind, what) = if output { ("push", "output") } else { ("pull", "input") };
                let message = format!("illegal reuse of '{}' {kind} {what} {}", planned.name, port.port);
                let mut problem = Problem::error(&flat.connections[index].place, message);
                let Planned { name, class, place, .. } = planned;
                problem.compat_message =
                    Some(format!("illegal reuse of '{name} :: {class}' {kind} {what} {}", port.port));
                problem.compat_place = Some(place.clone());
                let hint = if output { "put a Tee behind it" } else { "put a RoundRobinSched before it" };
                problems.push((port.element, problem.suggest(Some(hint.to_string()))));
            }
        }
    }
    if used.iter().all(|&count| count > 0) {
        return problems;
    }
    for (element, planned) in elements.iter().enumerate() {
        for (output, pulled) in [(false, &planned.pull_inputs), (true, &planned.pull_outputs)] {
            let is_unused = |port: &usize| used[nodes.node(output, Port { element, port: *port })] == 0;
            let unused: Vec<usize> = (0..pulled.len()).filter(is_unused).collect();
            let what = if output { "output" } else { "input" };
            let hint = if output { "connect it to a Discard" } else { "connect an Idle to it" };
            let Planned { name, class, .. } = planned;
            let mut say = |message: String, port: Option<usize>| {
                let mut problem = Problem::error(&planned.place, message).suggest(Some(hint.to_string()));
                problem.compat_message = port.map(|port| format!("'{name} :: {class}' {what} {port} unused"));
                problems.push((element, problem));
            };
            for &port in unused.iter().take(MOST_UNUSED) {
                let kind = if pulled[port] { "pull" } else { "push" };
                say(format!("'{name} :: {class}' {kind} {what} {port} unused"), Some(port));
            }
            if unused.len() > MOST_UNUSED {
                say(format!("'{name} :: {class}' {} more {what}s unused", unused.len() - MOST_UNUSED), None);
            }
        }
    }
    problems
}
