//! What a router will do, in words: for each element push or pull, the threads that
//! reach it, whether it sees batches, and where there is a lock or a copy.
//!
//! [`svg`](crate::plan::svg) draws the same.

use std::fmt::Write;

use crate::plan::buffers;
use crate::plan::cost::Costs;
use crate::plan::{Plan, Planned};

/// What there is to say of an element.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ElementReport {
    /// Its full name.
    pub name: String,
    /// The element's class.
    pub class: String,
    /// Which way packets go through: `push`, `pull`, `push to pull`, …; `-` for an
    /// element without ports.
    pub way: &'static str,
    /// The threads that reach it.
    pub threads: Vec<usize>,
    /// What it is called with: `batch`, or `packet` for one that is written for one
    /// packet at a time, and loops over the batch itself; `single` where packets come one
    /// by one ([`Planned::single`]).
    pub unit: &'static str,
    /// Whether threads share it behind a lock.
    pub locked: bool,
    /// What else it costs, and why.
    pub notes: Vec<String>,
}

/// Numbers as a person writes them: `0, 2-5`.
pub fn ranges(numbers: &[usize]) -> String {
    let mut parts: Vec<String> = vec![];
    let mut rest = numbers;
    while let Some(&first) = rest.first() {
        let length = rest.iter().zip(first..).take_while(|(n, expected)| **n == *expected).count();
        let last = rest[length - 1];
        parts.push(if length == 1 { first.to_string() } else { format!("{first}-{last}") });
        rest = &rest[length..];
    }
    parts.join(", ")
}

/// The threads of a mask.
pub fn threads(mask: u64) -> Vec<usize> {
    (0..64).filter(|thread| mask >> thread & 1 == 1).collect()
}

/// Which way packets go through an element.
fn way(planned: &Planned) -> &'static str {
    let (inputs, outputs) = (&planned.pull_inputs, &planned.pull_outputs);
    let all = |pull: bool| inputs.iter().chain(outputs).all(|p| *p == pull);
    match () {
        () if inputs.is_empty() && outputs.is_empty() => "-",
        () if all(false) => "push",
        () if all(true) => "pull",
        () if inputs.contains(&false) && outputs.contains(&true) => "push to pull",
        () if inputs.contains(&true) && outputs.contains(&false) => "pull to push",
        () => "both",
    }
}

fn notes(planned: &Planned, way: &str, costs: Option<&Costs>) -> Vec<String> {
    let mut notes = vec![];
    let several = planned.lanes.count_ones();
    let lock = costs.map_or(String::new(), |costs| format!(" ({})", costs.of_lock()));
    if planned.locked {
        notes.push(format!(
            "one for {several} threads, behind a lock: taken once for each batch{lock}, and waited for when \
             they meet; it keeps something that cannot be there twice"
        ));
    } else if several > 1 && way != "push to pull" {
        notes.push(format!("there {several} times, once for each thread: no lock"));
    }
    if way == "push to pull" && several > 1 {
        notes.push(format!("threads meet here: its lock is taken once for each batch{lock}"));
    }
    if !planned.kind.costs.is_empty() {
        let copy = costs.map_or(String::new(), |costs| format!(" ({})", costs.of_copy()));
        notes.push(format!("{}{copy}", planned.kind.costs));
    }
    notes
}

/// What there is to say of each element, in order; with what it costs on a machine, if
/// that was measured.
pub fn reports(plan: &Plan, costs: Option<&Costs>) -> Vec<ElementReport> {
    let tell = |planned: &Planned| {
        let way = way(planned);
        ElementReport {
            name: planned.name.to_string(),
            class: planned.class.to_string(),
            way,
            threads: threads(planned.lanes),
            unit: match way {
                "-" => "-",
                _ if planned.single => "single",
                _ if planned.each => "packet",
                _ => "batch",
            },
            locked: planned.locked,
            notes: notes(planned, way, costs),
        }
    };
    let mut reports: Vec<ElementReport> = plan.elements.iter().map(tell).collect();
    for found in &plan.chains {
        let mut elements = found.elements();
        let Some(first) = elements.next() else { continue };
        let names: Vec<&str> = elements.map(|element| &*plan.elements[element].name).collect();
        reports[first].notes.push(format!("packets go on through {} in one program", names.join(", ")));
    }
    reports
}

/// A table, one element a line, and what its words mean.
pub fn text(plan: &Plan, costs: Option<&Costs>) -> String {
    let reports = reports(plan, costs);
    let name_width = reports.iter().map(|e| e.name.len()).max().unwrap_or(0).clamp(7, 40);
    let class_width = reports.iter().map(|e| e.class.len()).max().unwrap_or(0).clamp(5, 28);
    let mut out = String::new();
    let mut line = |cells: [&str; 6]| {
        let [name, class, way, threads, unit, notes] = cells;
        let row =
            format!("{name:name_width$}  {class:class_width$}  {way:12}  {threads:10}  {unit:6}  {notes}");
        let _ = writeln!(out, "{}", row.trim_end());
    };
    line(["ELEMENT", "CLASS", "WAY", "THREADS", "UNIT", "NOTES"]);
    for e in &reports {
        line([&e.name, &e.class, e.way, &ranges(&e.threads), e.unit, &e.notes.join("; ")]);
    }
    out.push_str(
        "\nUNIT: an element is called once for each batch. `packet`: it is written for one packet at a time \
         and\nloops over the batch itself, without a call for each; `batch`: it keeps, makes, copies or \
         joins packets.\n",
    );
    if reports.iter().any(|report| report.unit == "single") {
        out.push_str(
            "`single`: packets come one by one, since what becomes of one depends on what others did with \
             the one\nbefore it; `--batches always` has them come in batches all the same.\n",
        );
    }
    if costs.is_some() {
        out.push_str(
            "CYCLES: of the TSC, measured on this machine just now: the least of many rounds, with nobody \
             else at the\nlock and all in the cache. A packet costs its batch's lock divided by the batch's \
             length.\n",
        );
    }
    out
}

/// How many packets elements may hold, and how many buffers each of so many threads may
/// have: those that were given, or as many as that takes and the machine has memory for.
pub fn packets(plan: &Plan, threads: usize, given: Option<usize>) -> String {
    let mut out = String::new();
    for lane in (0..threads).filter(|&lane| plan.held(lane) > 0) {
        let held = plan.held(lane);
        let limit = given.unwrap_or_else(|| buffers::limit(held, threads));
        let short = if (limit as u64) < held { ", fewer than that: the rest is dropped by name" } else { "" };
        let _ = writeln!(
            out,
            "PACKETS: elements that thread {lane} reaches may hold {held}; it may have {limit} buffers{short}."
        );
    }
    out
}

/// The graph in Graphviz's language: push connections are solid, pull ones dashed.
pub fn dot(plan: &Plan) -> String {
    let quoted = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"");
    let mut out =
        String::from("digraph router {\n  rankdir=LR;\n  node [shape=box, fontname=\"sans-serif\"];\n");
    for (index, planned) in plan.elements.iter().enumerate() {
        let (name, class) = (quoted(&planned.name), quoted(&planned.class));
        let threads = ranges(&threads(planned.lanes));
        let _ = writeln!(out, "  e{index} [label=\"{name}\\n{class}\\nthreads {threads}\"];");
    }
    for wire in &plan.wires {
        let pulled = plan.elements[wire.from.element].pull_outputs[wire.from.port];
        let style = if pulled { "dashed" } else { "solid" };
        let (from, to) = (wire.from, wire.to);
        let _ = writeln!(
            out,
            "  e{} -> e{} [taillabel=\"{}\", headlabel=\"{}\", style={style}];",
            from.element, to.element, from.port, to.port
        );
    }
    out.push_str("}\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_a_row_are_a_range() {
        assert_eq!(ranges(&threads(0b111101)), "0, 2-5");
        assert_eq!(ranges(&[7]), "7");
        assert_eq!(ranges(&[]), "");
    }
}
