//! A configuration looked at and not run: `--check`, `--explain`, `--dot`, `--svg`.
//!
//! Elements are made, which finds all that is wrong with their arguments; nothing is
//! opened, bound or written. Ports are there on paper only, with as many queues as
//! are asked of them.

use std::collections::BTreeMap;
use std::mem::ManuallyDrop;
use std::path::Path;
use std::sync::{Arc, Mutex};

use element::io::router_ports::{OpenPorts, Opener, RouterPorts, Use, Wanted};
use graph::lang::{Problem, Problems, Severity, Source, SourceLocation};
use graph::plan::Plan;
use graph::plan::cost::Costs;
use graph::plan::explain;
use graph::run::shared::Hotswap;
use graph::{Console, Router};
use serde_json::{Value, json};

use super::{Click, configuration, confine, lint, ports, unopened_port};
use crate::Failure;
use crate::rate::plural;

/// What was found.
struct Inspection {
    plan: Option<Plan>,
    problems: Problems,
    /// Which queues of which ports would be used.
    uses: Vec<Use>,
}

/// Looks at a configuration and prints what was asked for; the exit status.
pub fn run(click: &Click, sources: Vec<Source>) -> Result<u8, Failure> {
    let file = sources.first().map_or(String::new(), |s| s.name.clone());
    // The process ends behind this: to take a million elements apart would take it longer.
    let inspection = ManuallyDrop::new(inspect(click, sources));
    let wrong = inspection.problems.errors() > 0;
    if click.check && click.json {
        println!("{:#}", check_json(&file, &inspection));
        return Ok(u8::from(wrong));
    }
    if click.compat {
        eprint!("{}", inspection.problems.compat());
    } else if !click.no_warnings || wrong {
        eprint!("{}", inspection.problems.render());
    }
    if click.check {
        println!("{}", summary(&file, &inspection));
    }
    let Some(plan) = &inspection.plan else { return Ok(1) };
    if click.explain && click.json {
        println!("{:#}", explain_json(click, plan, &inspection.uses));
    } else if click.explain {
        let costs = Costs::measure();
        print!("{}", explain::text(plan, Some(&costs)));
        print!("{}", explain::packets(plan, click.threads, click.buffers.map(|most| most as usize)));
        print!("{}", queues(click, plan, &inspection.uses, &costs));
        print!("{}", confine::explain(click, &plan.elements));
        if let Some(compiled) = &click.compiled {
            print!("\n{}", compiled.notes);
        }
    }
    if click.dot {
        print!("{}", explain::dot(plan));
    }
    if let Some(file) = &click.svg {
        draw(plan, file)?;
    }
    Ok(u8::from(wrong))
}

/// Reads a configuration and makes its elements.
fn inspect(click: &Click, sources: Vec<Source>) -> Inspection {
    let registry = super::classes();
    let (mut flat, mut problems) = configuration::flatten_anyway(click, sources, &registry);
    let readable = problems.errors() == 0;
    if readable {
        configuration::add_driver(click, &mut flat, false);
    }
    let opener: Opener = Box::new(|wanted: &[Wanted]| Ok(wanted.iter().map(unopened_port::port).collect()));
    let router_ports = Arc::new(RouterPorts::of(
        Arc::new(OpenPorts::new(click.port_options(), opener)),
        ports::topology(click),
    ));
    let options = graph::Options {
        services: super::services(click, router_ports.clone()),
        threads: click.threads,
        console: Console::Memory(Arc::new(Mutex::new(String::new()))),
        thorough: !click.compat,
        batching: click.batches.into(),
        measure: click.measure || click.metrics.is_some(),
        chains: !click.no_chains,
        // A router that takes a configuration has handlers for it.
        hotswap: click.allow_reconfigure.then(|| -> Hotswap { Arc::new(|_, _| Err("nothing runs".into())) }),
        ..graph::Options::default()
    };
    let text = flat.sources.first().unwrap_or_default();
    let unset = if click.compat { lint::Unset::default() } else { lint::unset(&flat, &registry) };
    let (plan, found) = match (readable, click.compat) {
        (true, _) => Router::plan(text, flat, &registry, options),
        (false, true) => (Err(vec![]), vec![]),
        (false, false) => {
            let (elements, found) = Router::faults(flat, &registry, &options);
            (Err(elements), found)
        }
    };
    problems.list.extend(found.into_iter().filter(|problem| !unset.explains(problem)));
    let opened = plan.as_ref().map_or(Ok(()), |plan| router_ports.open(&plan.elements));
    let uses = if plan.is_ok() && opened.is_ok() { router_ports.uses() } else { vec![] };
    if !click.compat {
        let named = router_ports.named();
        problems.list.extend(match &plan {
            Ok(plan) => lint::ports(&plan.elements, &named, click.check),
            Err(elements) => lint::ports(elements, &named, click.check),
        });
        // What elements say of one port and what they say of another does not fit together.
        problems.list.extend(opened.err().map(|problem| *problem));
    }
    let plan = plan.ok();
    problems.list.extend(unset.problems);
    if !click.compat {
        problems.list.sort_by_key(|p| (p.place.file.clone(), p.place.line, p.place.column));
    }
    Inspection { plan, problems, uses }
}

fn draw(plan: &Plan, file: &Path) -> Result<(), Failure> {
    let most = graph::plan::svg::MOST;
    let picture = graph::plan::svg::draw(plan).ok_or_else(|| {
        Failure::new(format!("{} elements are more than a picture can show", plan.elements.len()))
            .fix(format!("{most} are the most; --dot has no limit"))
    })?;
    if file == Path::new("-") {
        print!("{picture}");
        return Ok(());
    }
    std::fs::write(file, picture).map_err(|error| Failure::new(format!("{}: {error}", file.display())))
}

fn summary(file: &str, inspection: &Inspection) -> String {
    let errors = inspection.problems.errors();
    let warnings = inspection.problems.list.iter().filter(|p| p.severity == Severity::Warning).count();
    let found = match (errors, warnings) {
        (0, 0) => "no problems".to_string(),
        _ => format!("{}, {}", plural(errors, "error"), plural(warnings, "warning")),
    };
    match &inspection.plan {
        Some(plan) => format!(
            "{file}: {found}; {}, {}",
            plural(plan.elements.len(), "element"),
            plural(plan.wires.len(), "connection")
        ),
        None => format!("{file}: {found}"),
    }
}

fn place_json(place: &SourceLocation) -> (Value, Value, Value) {
    let number = |n: u32| if n == 0 { Value::Null } else { json!(n) };
    (json!(&*place.file), number(place.line), number(place.column))
}

fn problem_json(problem: &Problem, problems: &Problems) -> Value {
    let (file, line, column) = place_json(&problem.place);
    let notes: Vec<Value> = problem
        .notes
        .iter()
        .map(|note| {
            let (file, line, column) =
                note.place.as_ref().map_or((Value::Null, Value::Null, Value::Null), place_json);
            json!({ "message": note.message, "file": file, "line": line, "column": column })
        })
        .collect();
    json!({
        "severity": problem.severity.to_string(),
        "file": file,
        "line": line,
        "column": column,
        "source": problems.sources.line(&problem.place).map(|(line, _)| line),
        "element": problem.context.as_ref().map(|context| &context.element),
        "message": problem.message,
        "expected": problem.expected,
        "help": problem.suggestion,
        "notes": notes,
    })
}

fn check_json(file: &str, inspection: &Inspection) -> Value {
    let count = |severity| inspection.problems.list.iter().filter(|p| p.severity == severity).count();
    let plan = inspection.plan.as_ref();
    json!({
        "file": file,
        "errors": count(Severity::Error),
        "warnings": count(Severity::Warning),
        "elements": plan.map(|p| p.elements.len()),
        "connections": plan.map(|p| p.wires.len()),
        "problems": inspection.problems.list.iter().map(|p| problem_json(p, &inspection.problems)).collect::<Vec<_>>(),
    })
}

/// The core a thread is bound to, and that core's node.
fn core(click: &Click, thread: usize) -> (Option<usize>, Option<usize>) {
    let core = click.cores().get(thread).copied();
    (core, core.and_then(ports::node_of_core))
}

/// Which hardware queue goes to which thread, on which core and node.
fn queues(click: &Click, plan: &Plan, uses: &[Use], costs: &Costs) -> String {
    if uses.is_empty() {
        return String::new();
    }
    let mut rows =
        vec![["PORT", "QUEUE", "ELEMENT", "THREAD", "CORE", "NODE", "NOTES"].map(String::from).to_vec()];
    let or_dash = |n: Option<usize>| n.map_or("-".to_string(), |n| n.to_string());
    for u in uses {
        let (core, node) = core(click, u.lane);
        let mut notes = vec![];
        if u.shared {
            notes.push(format!("behind a lock: more threads than queues ({})", costs.of_lock()));
        }
        if let Some((port, core)) = u.node.zip(node).filter(|(port, core)| port != core) {
            notes.push(format!("the port is on node {port}, the core on {core}: every packet crosses"));
        }
        let way = if u.receives { "rx" } else { "tx" };
        rows.push(vec![
            u.port.clone(),
            format!("{way} {}", u.queue),
            plan.elements[u.element].name.to_string(),
            u.lane.to_string(),
            or_dash(core),
            or_dash(node.or(u.node)),
            notes.join("; "),
        ]);
    }
    let mut out = format!("\n{}", table(&rows));
    if click.affinity.is_none() {
        out.push_str("\nThreads are bound to no core: see --affinity.\n");
    }
    out
}

/// Columns as wide as what is in them.
fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        format!("{}\n", cells.join("  ").trim_end())
    };
    rows.iter().map(line).collect()
}

fn explain_json(click: &Click, plan: &Plan, uses: &[Use]) -> Value {
    let costs = Costs::measure();
    let elements: Vec<Value> = explain::reports(plan, Some(&costs))
        .iter()
        .map(|e| {
            json!({
                "name": e.name, "class": e.class, "way": e.way, "threads": e.threads, "unit": e.unit,
                "locked": e.locked, "notes": e.notes,
            })
        })
        .collect();
    let name = |element: usize| &*plan.elements[element].name;
    let connections: Vec<Value> = plan
        .wires
        .iter()
        .map(|w| {
            let pull = plan.elements[w.from.element].pull_outputs[w.from.port];
            json!({
                "from": name(w.from.element), "output": w.from.port, "to": name(w.to.element),
                "input": w.to.port, "way": if pull { "pull" } else { "push" },
            })
        })
        .collect();
    let mut by_port: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    for u in uses {
        let (core, node) = core(click, u.lane);
        by_port.entry(&u.port).or_default().push(json!({
            "direction": if u.receives { "rx" } else { "tx" }, "queue": u.queue, "element": name(u.element),
            "thread": u.lane, "core": core, "node": node, "port_node": u.node, "shared": u.shared,
        }));
    }
    let copies = costs.copies.map(|(bytes, cycles)| json!({ "bytes": bytes, "cycles": cycles }));
    let costs = json!({
        "lock_cycles": costs.lock, "lock_from_another_core_cycles": costs.handed_over, "copies": copies,
    });
    let uses = confine::uses(click, &plan.elements);
    let system: Vec<Value> = uses
        .iter()
        .map(|one| json!({ "element": one.element, "what": one.need.what.about(), "path": one.need.path }))
        .collect();
    let confinement = json!({ "kept": system, "exceptions": confine::exceptions(click, &uses) });
    json!({ "confinement": confinement, "threads": click.threads, "costs": costs, "elements": elements, "connections": connections, "ports": by_port })
}
