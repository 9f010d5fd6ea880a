//! What is wrong with a graph although it could be built: packets that come to an
//! element with a header it needs and nobody found, and elements no packet reaches.
//!
//! Packets are followed along the connections in two kinds: those whose network
//! header is known, and those of which it is not. Only classes are asked
//! ([`Headers`](crate::element::class::Headers)), not what their rules say: where a switch
//! lets through only what was marked, a warning may be wrong; an error never is.

use std::collections::{HashMap, HashSet, VecDeque};

use crate::element::port_code;
use crate::lang::{Problem, args};
use crate::plan::Port;
use crate::plan::{Planned, Wire};

/// Elements named at each end of a long way.
const NAMED: usize = 4;

/// Packets at a port; `true` where their network header is known.
type At = (Port, bool);

/// Elements that need a header nobody found: errors where that is so for all packets
/// that can come, warnings where it is so on some way.
pub fn headers(elements: &[Planned], wires: &[Wire]) -> Vec<Problem> {
    let needs = |p: &Planned| p.kind.headers.needs_network || p.kind.headers.needs_transport;
    if !elements.iter().any(needs) {
        return vec![];
    }
    let flood = Flood::new(elements, wires);
    let mut problems = vec![];
    for (element, planned) in elements.iter().enumerate().filter(|(_, p)| needs(p)) {
        let ports = (0..planned.pull_inputs.len()).map(|port| Port { element, port });
        let Some(unknown) = ports.clone().find(|&port| flood.came.contains_key(&(port, false))) else {
            continue;
        };
        let never = !ports.clone().any(|port| flood.came.contains_key(&(port, true)));
        problems.push(complaint(elements, &flood, unknown, never));
    }
    problems
}

fn complaint(elements: &[Planned], flood: &Flood<'_>, at: Port, never: bool) -> Problem {
    let planned = &elements[at.element];
    let header = if planned.kind.headers.needs_network { "network" } else { "transport" };
    let message = match never {
        true => format!("needs the {header} header, which nothing before it finds"),
        false => format!("needs the {header} header, which nothing finds on one of the ways to it"),
    };
    let problem = match never {
        true => Problem::error(&planned.place, message),
        false => Problem::warning(&planned.place, message),
    };
    let (way, origin) = flood.way(at);
    let first = &elements[origin.element];
    problem
        .context(format!("{} :: {}", planned.name, planned.class), "checking")
        .suggest(Some("put a CheckIPHeader or MarkIPHeader on the way".to_string()))
        .note(None, format!("packets come unmarked by {way}"))
        .note(
            Some(&first.place),
            format!("they leave '{} :: {}' at output {}", first.name, first.class, origin.port),
        )
}

/// Elements that packets never reach, and that stand alone.
pub fn unreachable(elements: &[Planned], wires: &[Wire]) -> Vec<Problem> {
    let flood = Flood::new(elements, wires);
    let mut problems = vec![];
    for (element, planned) in elements.iter().enumerate() {
        let mut ports = (0..planned.pull_inputs.len()).map(|port| Port { element, port });
        let alone = planned.pull_inputs.is_empty() && planned.pull_outputs.is_empty();
        let message = match () {
            // One with handlers is there to be asked: a script.
            () if alone && planned.kind.ports != "0/0" && planned.kind.handlers().next().is_none() => {
                "is connected to nothing"
            }
            () if planned.pull_inputs.is_empty() => continue,
            () if ports.any(|port| flood.reaches(port)) => continue,
            () => "no packet ever comes here: it is part of a circle that nothing leads into",
        };
        let problem = Problem::warning(&planned.place, message);
        problems.push(problem.context(format!("{} :: {}", planned.name, planned.class), "checking"));
    }
    problems
}

/// Where packets get to.
struct Flood<'a> {
    elements: &'a [Planned],
    ways: HashMap<Port, Vec<Port>>,
    /// The inputs that packets come to, and how they came first: from which output,
    /// and how they had come into the element before. The shortest way.
    came: HashMap<At, (Port, Option<At>)>,
    /// Inputs that only elements lead to which never send, in the end.
    mute: HashSet<Port>,
}

impl<'a> Flood<'a> {
    fn new(elements: &'a [Planned], wires: &[Wire]) -> Flood<'a> {
        let mut ways: HashMap<Port, Vec<Port>> = HashMap::new();
        wires.iter().for_each(|w| ways.entry(w.from).or_default().push(w.to));
        let mut flood = Flood { elements, ways, came: HashMap::new(), mute: HashSet::new() };
        flood.spread(false);
        flood.spread(true);
        flood
    }

    /// Follows packets from where they begin. `mute`: those that never come, of
    /// elements that are there for what is never sent.
    fn spread(&mut self, mute: bool) {
        let mut work: VecDeque<(Port, bool, Option<At>)> = VecDeque::new();
        for (element, planned) in self.elements.iter().enumerate().filter(|(_, p)| is_mute(p) == mute) {
            let outputs = (0..planned.pull_outputs.len()).filter(|&o| begins(planned, o));
            work.extend(outputs.map(|port| (Port { element, port }, leaves(planned, port, false), None)));
        }
        // Which elements all inputs of which lead to all outputs were gone through.
        let mut through: HashSet<(usize, bool)> = HashSet::new();
        while let Some((output, known, before)) = work.pop_front() {
            for input in self.ways.get(&output).cloned().unwrap_or_default() {
                let new = match mute {
                    true => self.mute.insert(input),
                    false => {
                        let new = !self.came.contains_key(&(input, known));
                        self.came.entry((input, known)).or_insert((output, before));
                        new
                    }
                };
                let planned = &self.elements[input.element];
                let all = planned.kind.flow == "x/x";
                if !new || (all && !through.insert((input.element, known))) {
                    continue;
                }
                let on = |port| {
                    let output = Port { element: input.element, port };
                    (output, leaves(planned, port, known), Some((input, known)))
                };
                work.extend(outputs_of(planned, input.port).map(on));
            }
        }
    }

    fn reaches(&self, input: Port) -> bool {
        self.came.contains_key(&(input, false))
            || self.came.contains_key(&(input, true))
            || self.mute.contains(&input)
    }

    /// The way of packets whose header is not known to an input, in Click's language,
    /// and the output they begin at or are forgotten at.
    fn way(&self, to: Port) -> (String, Port) {
        let into = |port: Port| if port.port == 0 { String::new() } else { format!("[{}] ", port.port) };
        let name = |port: Port| self.elements[port.element].name.as_str();
        let mut parts = vec![format!("{}{}", into(to), name(to))];
        let mut at = (to, false);
        let mut origin = to;
        while let Some(&(output, before)) = self.came.get(&at) {
            origin = output;
            let out = if output.port == 0 { String::new() } else { format!(" [{}]", output.port) };
            let goes_on = before.filter(|(_, known)| !known);
            let input = goes_on.map_or(String::new(), |(port, _)| into(port));
            parts.push(format!("{input}{}{out}", name(output)));
            match goes_on {
                Some(before) => at = before,
                None => break,
            }
        }
        parts.reverse();
        if parts.len() > 2 * NAMED + 1 {
            parts.splice(NAMED..parts.len() - NAMED, ["...".to_string()]);
        }
        (parts.join(" -> "), origin)
    }
}

/// Whether packets begin at an output: none that came in leave there.
fn begins(planned: &Planned, output: usize) -> bool {
    let (inputs, outputs) = (planned.pull_inputs.len(), planned.pull_outputs.len());
    match planned.kind.flow {
        "x/x" => inputs == 0,
        "#/#" => output >= inputs,
        code => !(0..inputs).any(|input| port_code::joins(code, input, inputs, output, outputs)),
    }
}

/// The outputs that packets of an input leave at.
fn outputs_of(planned: &Planned, input: usize) -> impl Iterator<Item = usize> {
    let (inputs, outputs) = (planned.pull_inputs.len(), planned.pull_outputs.len());
    let code = planned.kind.flow;
    let range = if code == "#/#" { input.min(outputs)..(input + 1).min(outputs) } else { 0..outputs };
    range.filter(move |&output| code == "x/x" || port_code::joins(code, input, inputs, output, outputs))
}

/// Whether an element never sends anything.
fn is_mute(planned: &Planned) -> bool {
    planned.kind.name == "Idle"
}

/// Whether the network header is known of packets that leave at an output.
fn leaves(planned: &Planned, output: usize, known: bool) -> bool {
    let headers = &planned.kind.headers;
    let finds = headers.finds_network || is_told(planned, headers.finds_if);
    (finds && output == 0) || (known && !headers.forgets)
}

/// Whether a keyword of the configuration is given as true.
fn is_told(planned: &Planned, keyword: &str) -> bool {
    let truth = |value: &str| matches!(value.trim(), "true" | "TRUE" | "True" | "1" | "yes" | "y" | "t");
    let told = |argument: &String| args::keyword(argument).is_some_and(|(k, v)| k == keyword && truth(v));
    !keyword.is_empty() && args::split(&planned.config).iter().any(told)
}
