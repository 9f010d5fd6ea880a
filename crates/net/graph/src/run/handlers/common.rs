//! Handlers that need no row in a class: those of the router, of every element, and of
//! elements with tasks.

use std::fmt::Write;

use crate::clock::Pace;
use crate::element::handler::Handler;
use crate::element::value::parse_alone;
use crate::element::well_known::SCHEDULED;
use crate::element::{Complaint, Refused, port_code};
use crate::plan::Planned;
use crate::plan::schedule_info::MAX_TICKETS;
use crate::run::lane::Lane;
use crate::run::shared::CONTINUED;
use crate::run::task::TaskId;

/// Faster than this, years pass in a minute, and numbers of nanoseconds end.
const FASTEST: f64 = 1e6;

const fn readable(name: &'static str, about: &'static str) -> Handler {
    Handler { name, read: true, write: false, marks: "", about }
}

const fn writable(name: &'static str, about: &'static str) -> Handler {
    Handler { name, read: false, write: true, marks: "", about }
}

const fn changeable(name: &'static str, about: &'static str) -> Handler {
    Handler { name, read: true, write: true, marks: "", about }
}

/// A handler that every element has.
pub(super) struct ElementRow {
    pub(super) handler: Handler,
    pub(super) read: fn(&mut Lane, usize) -> String,
}

/// Handlers that every element has.
const OF_ALL: &[ElementRow] = &[
    ElementRow {
        handler: readable("name", "the element's name").marked("."),
        read: |lane, element| lane.shared.plan.elements[element].name.to_string(),
    },
    ElementRow {
        handler: readable("class", "the element's class").marked("."),
        read: |lane, element| lane.shared.plan.elements[element].class.to_string(),
    },
    ElementRow { handler: CONFIG, read: |lane, element| lane.shared.config(element) },
    ElementRow {
        handler: readable("ports", "its ports and what is connected to them").marked("."),
        read: ports,
    },
    ElementRow {
        handler: readable("handlers", "its handlers").marked("."),
        read: |lane, element| lane.list_handlers(element),
    },
];

/// The handler of elements whose class has none of this name: the sum over what is counted for each
/// of its reasons. Click's classes that have one count some of their reasons.
const DROPS: ElementRow = ElementRow {
    handler: readable("drops", "packets it dropped, for whatever reason"),
    read: |lane, element| lane.dropped_by(element).to_string(),
};

/// The handlers that an element has without a row in its class; those of Click's alone, or also
/// one of ours. An element that answers for any name is asked itself.
pub(super) fn of_all(
    planned: &Planned,
    beyond_click: bool,
) -> impl DoubleEndedIterator<Item = &'static ElementRow> + use<> {
    let own = ["drops", "*"].iter().any(|name| planned.own_row(name).is_some());
    let counts = beyond_click && !own && !planned.kind.drops.is_empty();
    OF_ALL.iter().chain(counts.then_some(&DROPS))
}

/// A configuration that is read alone.
pub(super) const CONFIG: Handler = readable("config", "its configuration, as it is now").marked(".");

/// A configuration that can be written.
pub(super) const LIVE_CONFIG: Handler =
    changeable("config", "its configuration, as it is now; takes another").marked(".");

/// A handler that elements with tasks have: of the first task in a lane.
pub(super) struct TaskRow {
    pub(super) handler: Handler,
    pub(super) read: fn(&Lane, TaskId) -> String,
    pub(super) write: fn(&mut Lane, TaskId, &str) -> Result<(), Refused>,
}

/// Handlers that elements with tasks have.
pub(super) const OF_TASKS: &[TaskRow] = &[
    TaskRow {
        handler: changeable(SCHEDULED.as_str(), "whether its task waits for a turn"),
        read: |lane, task| lane.tasks.is_scheduled(task).to_string(),
        write: set_scheduled,
    },
    TaskRow {
        handler: changeable("tickets", "the task's tickets"),
        read: |lane, task| lane.tasks.tickets(task).to_string(),
        write: set_tickets,
    },
    TaskRow {
        handler: changeable("home_thread", "the thread that runs the task"),
        read: |lane, _| lane.id.to_string(),
        write: set_home_thread,
    },
];

/// A handler of the router.
pub(super) struct RouterRow {
    pub(super) handler: Handler,
    pub(super) read: Option<fn(&mut Lane) -> String>,
    pub(super) write: Option<WriteRouter>,
}

/// Writes a handler of the router, as seen from an element.
type WriteRouter = fn(&mut Lane, Option<usize>, &str) -> Result<(), Refused>;

const fn read(name: &'static str, about: &'static str, read: fn(&mut Lane) -> String) -> RouterRow {
    RouterRow { handler: readable(name, about), read: Some(read), write: None }
}

/// Handlers of the router.
pub(super) const OF_ROUTER: &[RouterRow] = &[
    read("version", "the program's version", |_| env!("CARGO_PKG_VERSION").to_string()),
    read("driver", "what runs the router", |_| "userlevel".to_string()),
    read("config", "the configuration as it was given", |lane| {
        match lane.shared.plan.flat.compact_config() {
            true => lane.shared.plan.flat.unparse(),
            false => lane.shared.plan.source.to_string(),
        }
    }),
    read("flatconfig", "the configuration, flattened, as it is now", |lane| {
        let mut flat = lane.shared.plan.flat.clone();
        for (index, declared) in flat.elements.iter_mut().enumerate() {
            declared.config = lane.shared.config(index);
        }
        // They have no connections, and stand behind all others.
        flat.elements.retain(|declared| !declared.name.ends_with(CONTINUED));
        flat.unparse()
    }),
    read("requirements", "what the configuration requires", |lane| {
        let requirements = lane.shared.plan.flat.requirements.iter();
        lines(requirements.flat_map(|r| [r.kind.as_str(), r.value.as_str()]))
    }),
    read("handlers", "the global handlers", |lane| {
        super::list(lane.named(None).router_rows().map(|row| (row.handler.name, row.handler)))
    }),
    read("list", "the elements' names, their number first", |lane| {
        let elements = &lane.shared.plan.elements;
        format!("{}\n{}", elements.len(), lines(elements.iter().map(|e| &*e.name)))
    }),
    RouterRow {
        handler: writable("stop", "stops the router"),
        read: None,
        write: Some(|lane, _, value| {
            lane.shared.adjust_runs(-(value.trim().parse().unwrap_or(1)));
            Ok(())
        }),
    },
    read("classes", "the classes' names", |lane| lines(lane.shared.classes.iter().copied())),
    read("packages", "packages, of which there are none", |_| String::new()),
    RouterRow {
        handler: changeable(
            "timewarp",
            "how many times as fast as the system's time passes; `nowait`; `simulation`",
        ),
        read: Some(|lane| match lane.shared.clock.pace() {
            None => "simulation".to_string(),
            Some(Pace::NoWait) => "nowait".to_string(),
            Some(Pace::Times(factor)) => factor.to_string(),
        }),
        write: Some(|lane, _, value| {
            let pace = match value.trim() {
                "nowait" => Pace::NoWait,
                text => Pace::Times(text.parse().map_err(|_| "expected double")?),
            };
            match pace {
                Pace::Times(factor) if factor > FASTEST => return Err("timefactor must be <= 1000000".into()),
                Pace::Times(factor) if factor.is_nan() || factor <= 0.0 => {
                    return Err("timefactor must be > 0".into());
                }
                _ => {}
            }
            let is_set = lane.shared.set_pace(pace);
            if is_set { Ok(()) } else { Err("time is simulated".into()) }
        }),
    },
    read(
        "figures",
        "what was counted for each element: packets, batches, cycles, drops",
        Lane::counters_text,
    ),
    read("ports", "what ports and their queues counted, as Metrics serves it", Lane::ports_text),
    RouterRow {
        handler: changeable("measure", "whether packets, batches and cycles are counted"),
        read: Some(|lane| lane.profiler.counts.to_string()),
        write: Some(|lane, _, value| {
            lane.measure_all(value.trim().parse().map_err(|_| "expected boolean")?);
            Ok(())
        }),
    },
];

/// Further ones, of a router whose configuration may be replaced.
pub(super) const OF_HOTSWAP: &[RouterRow] = &[
    RouterRow {
        handler: writable("hotconfig", "replaces the running configuration").marked("%"),
        read: None,
        write: Some(Lane::hotswap),
    },
    RouterRow {
        handler: writable("hotswap", "replaces the running configuration").marked("%"),
        read: None,
        write: Some(Lane::hotswap),
    },
];

fn lines<'a>(lines: impl Iterator<Item = &'a str>) -> String {
    lines.map(|line| format!("{line}\n")).collect()
}

fn set_scheduled(lane: &mut Lane, task: TaskId, value: &str) -> Result<(), Refused> {
    match parse_alone::<bool>(value) {
        Ok(true) => lane.tasks.schedule(task),
        Ok(false) => lane.tasks.unschedule(task),
        Err(_) => return Err("syntax error".into()),
    }
    Ok(())
}

fn set_tickets(lane: &mut Lane, task: TaskId, value: &str) -> Result<(), Refused> {
    let wanted: i64 = value.trim().parse().map_err(|_| "syntax error")?;
    let tickets = wanted.clamp(1, i64::from(MAX_TICKETS));
    if tickets != wanted
        && let Some(complaints) = lane.complaints.last_mut()
    {
        complaints.push(Complaint { is_warning: true, text: format!("tickets pinned at {tickets}") });
    }
    lane.tasks.set_tickets(task, tickets as u32);
    Ok(())
}

fn set_home_thread(lane: &mut Lane, _: TaskId, value: &str) -> Result<(), Refused> {
    match value.trim().parse::<usize>() {
        Ok(thread) if thread == lane.id => Ok(()),
        Ok(thread) if thread < lane.shared.mailboxes.len() => {
            Err("an element's thread is fixed when the router is built".into())
        }
        _ => Err("bad thread".into()),
    }
}

/// An element's ports, as Click lists them.
fn ports(lane: &mut Lane, element: usize) -> String {
    let plan = &lane.shared.plan;
    let planned = &plan.elements[element];
    let mut out = String::new();
    for (output, pulled) in [(false, &planned.pull_inputs), (true, &planned.pull_outputs)] {
        let what = if output { "output" } else { "input" };
        let plural = if pulled.len() == 1 { "" } else { "s" };
        let _ = writeln!(out, "{} {what}{plural}", pulled.len());
        for (port, pull) in pulled.iter().enumerate() {
            let code = port_code::processing(planned.kind.processing, output, port);
            let kind = if *pull { "pull" } else { "push" };
            let agnostic = if code == 'a' { "~" } else { "" };
            let peers = plan.wires.iter().filter_map(|w| match output {
                true => (w.from.element == element && w.from.port == port)
                    .then(|| format!("[{}] {}", w.to.port, plan.elements[w.to.element].name)),
                false => (w.to.element == element && w.to.port == port)
                    .then(|| format!("{} [{}]", plan.elements[w.from.element].name, w.from.port)),
            });
            let peers: Vec<String> = peers.collect();
            let _ = writeln!(out, "{kind}{agnostic}\t-\t{}", peers.join(", "));
        }
    }
    out
}
