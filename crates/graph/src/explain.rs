//! What a router will do, in words and as a picture: for each element push or pull,
//! the threads that reach it, where there is a lock.

use std::fmt::Write;

use crate::plan::{Plan, Planned};

/// Threads as a person writes them: `0, 2-5`.
fn threads(mask: u64) -> String {
    let mut parts: Vec<String> = vec![];
    let mut next = 0;
    while next < 64 {
        if mask >> next & 1 == 0 {
            next += 1;
            continue;
        }
        let first = next;
        while next < 64 && mask >> next & 1 == 1 {
            next += 1;
        }
        parts.push(if next - first == 1 { first.to_string() } else { format!("{first}-{}", next - 1) });
    }
    parts.join(", ")
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

/// A table, one element a line.
pub fn text(plan: &Plan) -> String {
    let name_width = plan.elements.iter().map(|e| e.name.len()).max().unwrap_or(0).clamp(7, 40);
    let class_width = plan.elements.iter().map(|e| e.class.len()).max().unwrap_or(0).clamp(5, 28);
    let mut out = String::new();
    let _ = writeln!(
        out,
        "{:name_width$}  {:class_width$}  {:12}  {:10}  NOTES",
        "ELEMENT", "CLASS", "WAY", "THREADS"
    );
    for planned in &plan.elements {
        let mut notes = vec![];
        if planned.locked {
            notes.push("behind a lock: taken once for each batch, and waited for when threads meet");
        }
        if way(planned) == "push to pull" && planned.lanes.count_ones() > 1 {
            notes.push("threads meet here");
        }
        let _ = writeln!(
            out,
            "{:name_width$}  {:class_width$}  {:12}  {:10}  {}",
            planned.name,
            planned.class,
            way(planned),
            threads(planned.lanes),
            notes.join("; ")
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
        let _ =
            writeln!(out, "  e{index} [label=\"{name}\\n{class}\\nthreads {}\"];", threads(planned.lanes));
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
