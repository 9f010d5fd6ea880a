//! What is wrong with a graph although it could be built: packets that come to an
//! element with a header it needs and nobody found, and elements no packet reaches.
//!
//! Packets are followed along the connections in two kinds: those whose network
//! header is known, and those of which it is not. Only classes are asked
//! ([`Headers`](crate::element::class::Headers)), not what their rules say: where a switch
//! lets through only what was marked, a warning may be wrong; an error never is.

use std::collections::VecDeque;
use std::num::NonZeroU32;

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
pub(crate) fn headers(flood: &Flood<'_>) -> Vec<Problem> {
    let elements = flood.elements;
    let needs = |p: &Planned| p.kind.headers.needs_network || p.kind.headers.needs_transport;
    if !elements.iter().any(needs) {
        return vec![];
    }
    let mut problems = vec![];
    for (element, planned) in elements.iter().enumerate().filter(|(_, p)| needs(p)) {
        let ports = (0..planned.pull_inputs.len()).map(|port| Port { element, port });
        let Some(unknown) = ports.clone().find(|&port| flood.came_by((port, false)).is_some()) else {
            continue;
        };
        let never = !ports.clone().any(|port| flood.came_by((port, true)).is_some());
        problems.push(complaint(elements, flood, unknown, never));
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
pub(crate) fn unreachable(flood: &Flood<'_>) -> Vec<Problem> {
    let mut problems = vec![];
    for (element, planned) in flood.elements.iter().enumerate() {
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

/// Numbers of the ports of one side, input or output, of all elements in their order.
struct Numbers(Vec<usize>);

impl Numbers {
    fn new(counts: impl Iterator<Item = usize>) -> Numbers {
        let mut next = 0;
        let mut first = vec![0];
        first.extend(counts.map(|count| {
            next += count;
            next
        }));
        Numbers(first)
    }

    fn of(&self, port: Port) -> usize {
        self.0[port.element] + port.port
    }

    fn port(&self, number: usize) -> Port {
        let element = self.0.partition_point(|&first| first <= number).saturating_sub(1);
        Port { element, port: number - self.0[element] }
    }

    fn count(&self) -> usize {
        self.0.last().copied().unwrap_or(0)
    }
}

/// How packets came to an input first: from which output, and how they had come into
/// the element before. The shortest way.
type Came = Option<(Port, Option<At>)>;

/// The same by numbers, so that a million inputs take little memory. All are one more than they
/// are.
#[derive(Clone, Copy)]
struct Step {
    /// The number of the output.
    output: NonZeroU32,
    /// Twice the input's, and one more where the header was known.
    before: Option<NonZeroU32>,
}

fn one_more(number: usize) -> NonZeroU32 {
    NonZeroU32::MIN.saturating_add(number as u32)
}

fn one_less(number: NonZeroU32) -> usize {
    number.get() as usize - 1
}

/// Where packets get to.
pub(crate) struct Flood<'a> {
    elements: &'a [Planned],
    inputs: Numbers,
    outputs: Numbers,
    /// The inputs that outputs lead to, output after output.
    ways: Vec<Port>,
    /// Where in `ways` those of an output begin, by its number; they end where the
    /// next one's begin.
    first_way_of: Vec<usize>,
    /// How packets come to inputs, by their numbers: with the network header unknown,
    /// and known.
    came: Vec<[Option<Step>; 2]>,
    /// Inputs that only elements lead to which never send, in the end.
    mute: Vec<bool>,
}

impl<'a> Flood<'a> {
    pub(crate) fn new(elements: &'a [Planned], wires: &[Wire]) -> Flood<'a> {
        let inputs = Numbers::new(elements.iter().map(|e| e.pull_inputs.len()));
        let outputs = Numbers::new(elements.iter().map(|e| e.pull_outputs.len()));
        let mut first_way_of = vec![0; outputs.count() + 1];
        wires.iter().for_each(|wire| first_way_of[outputs.of(wire.from) + 1] += 1);
        (1..first_way_of.len()).for_each(|output| first_way_of[output] += first_way_of[output - 1]);
        let mut free = first_way_of.clone();
        let mut ways = vec![Port { element: 0, port: 0 }; wires.len()];
        for wire in wires {
            let place = &mut free[outputs.of(wire.from)];
            ways[*place] = wire.to;
            *place += 1;
        }
        let (came, mute) = (vec![[None; 2]; inputs.count()], vec![false; inputs.count()]);
        let mut flood = Flood { elements, inputs, outputs, ways, first_way_of, came, mute };
        flood.spread(false);
        flood.spread(true);
        flood
    }

    /// Follows packets from where they begin. `mute`: those that never come, of
    /// elements that are there for what is never sent.
    fn spread(&mut self, mute: bool) {
        let mut work: VecDeque<(Port, bool, Option<NonZeroU32>)> = VecDeque::new();
        for (element, planned) in self.elements.iter().enumerate().filter(|(_, p)| is_mute(p) == mute) {
            let outputs = (0..planned.pull_outputs.len()).filter(|&o| begins(planned, o));
            work.extend(outputs.map(|port| (Port { element, port }, leaves(planned, port, false), None)));
        }
        // Which elements all inputs of which lead to all outputs were gone through.
        let mut through = vec![[false; 2]; self.elements.len()];
        while let Some((output, known, before)) = work.pop_front() {
            let number = self.outputs.of(output);
            for way in self.first_way_of[number]..self.first_way_of[number + 1] {
                let input = self.ways[way];
                let to = self.inputs.of(input);
                let new = match mute {
                    true => !std::mem::replace(&mut self.mute[to], true),
                    false => {
                        let came = &mut self.came[to][usize::from(known)];
                        let new = came.is_none();
                        came.get_or_insert(Step { output: one_more(number), before });
                        new
                    }
                };
                let planned = &self.elements[input.element];
                let passed = &mut through[input.element][usize::from(known)];
                let all = planned.kind.flow == "x/x";
                if !new || (all && std::mem::replace(passed, true)) {
                    continue;
                }
                let on = |port| {
                    let output = Port { element: input.element, port };
                    (output, leaves(planned, port, known), Some(one_more(2 * to + usize::from(known))))
                };
                work.extend(outputs_of(planned, input.port).map(on));
            }
        }
    }

    /// How packets of a kind came to an input first, where they do.
    fn came_by(&self, (input, known): At) -> Came {
        let step = self.came[self.inputs.of(input)][usize::from(known)]?;
        let before = step.before.map(one_less);
        let before = before.map(|number| (self.inputs.port(number / 2), number % 2 == 1));
        Some((self.outputs.port(one_less(step.output)), before))
    }

    fn reaches(&self, input: Port) -> bool {
        let number = self.inputs.of(input);
        self.came[number].iter().any(Option::is_some) || self.mute[number]
    }

    /// The way of packets whose header is not known to an input, in Click's language,
    /// and the output they begin at or are forgotten at.
    fn way(&self, to: Port) -> (String, Port) {
        let into = |port: Port| if port.port == 0 { String::new() } else { format!("[{}] ", port.port) };
        let name = |port: Port| &*self.elements[port.element].name;
        let mut parts = vec![format!("{}{}", into(to), name(to))];
        let mut at = (to, false);
        let mut origin = to;
        while let Some((output, before)) = self.came_by(at) {
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
