//! Elements are made from their configurations, and the threads found that reach them:
//! all of a router that there can be before anything is opened, and all that is wrong
//! with it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use crate::element::class::{Registry, SystemNeed};
use crate::element::conf::{Conf, ConfFault};
use crate::element::value::{Names, Scope};
use crate::lang::{Flat, Problem, Severity};
use crate::plan::setup::{Request, Services, Setup, Shares};
use crate::plan::single::{self, Batching};
use crate::plan::{Instances, Planned, Wire};
use crate::plan::{check, reach, schedule_info, wiring};

/// Faults of one element that are looked for.
const MOST_FAULTS: usize = 16;

/// What elements gave and asked for while they were made.
#[derive(Default)]
pub(crate) struct Results {
    pub(crate) made: Instances,
    pub(crate) names: Names,
    pub(crate) shares: Shares,
    pub(crate) threads: HashMap<usize, usize>,
    pub(crate) tickets: HashMap<usize, u32>,
    /// What was said of tickets.
    said: Vec<schedule_info::Said>,
    /// Elements with tasks are shared out among the threads.
    balance: bool,
    pub(crate) problems: Vec<Problem>,
    /// Those of them that stay however the configuration goes on: of an argument, of ports that are
    /// both pushed and pulled, and of packets that come without a header.
    pub(crate) faults: Vec<Problem>,
    /// An element wants packets and cycles counted.
    pub(crate) measure: bool,
    /// How many packets elements may hold, by their numbers.
    held: Vec<(usize, u64)>,
    /// What elements will ask of the system, by their numbers.
    needs: Vec<(usize, SystemNeed)>,
    /// The ports whose address elements need, which were not open when the elements were made.
    awaited: BTreeMap<usize, Vec<String>>,
    /// Elements to which packets come one by one.
    single: Vec<usize>,
    /// The inputs that elements choose, by their numbers.
    selected: Vec<(usize, Arc<[AtomicUsize]>)>,
    /// Those elements are being made again: what else they ask for they did ask for before.
    again: bool,
}

impl Results {
    /// Has those elements as if they had not been made that are made again.
    pub(crate) fn leave_out_awaiting(&mut self) {
        self.awaited.keys().for_each(|&index| self.made[index] = None);
    }
}

/// The elements in the order in which they are made and initialized.
pub(crate) fn in_phases(elements: &[Planned]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..elements.len()).collect();
    order.sort_by_key(|&i| elements[i].kind.phase);
    order
}

/// What elements are made with.
#[derive(Clone, Copy)]
pub(crate) struct Inputs<'a> {
    /// Threads of the router.
    pub(crate) threads: usize,
    /// Looks for all that is wrong at once, and checks the graph
    /// ([`check`](crate::plan::check)).
    pub(crate) thorough: bool,
    /// Which packets go one by one.
    pub(crate) batching: Batching,
    /// The memory that devices and packets share.
    pub(crate) dma: &'a memory::Dma,
    /// What comes from outside the configuration.
    pub(crate) services: &'a Services,
}

/// A router before anything is opened.
pub(crate) struct Configured {
    pub(crate) elements: Vec<Planned>,
    pub(crate) wires: Vec<Wire>,
    pub(crate) results: Results,
}

pub(crate) fn is_wrong(problems: &[Problem]) -> bool {
    problems.iter().any(|p| p.severity == Severity::Error)
}

/// Makes the elements of a configuration and finds out which threads reach them.
pub(crate) fn configure(flat: &Flat, registry: &Registry, inputs: Inputs<'_>) -> Configured {
    let mut wiring = wiring::of(flat, registry);
    if !inputs.thorough {
        wiring.as_click();
    }
    let conflicts: Vec<Problem> = wiring.conflicts().cloned().collect();
    let wiring::Wiring { mut elements, wires, mut problems, miscounted, .. } = wiring;
    let names = Names::of_machine(inputs.services.get());
    let mut results = Results { made: elements.iter().map(|_| None).collect(), names, ..Results::default() };
    name_ports(&elements, inputs, &mut results.names);
    let sound = !is_wrong(&problems);
    if sound || inputs.thorough {
        // Of ports that are not as they should be, elements only complain again, if their class may
        // have several numbers of them.
        let doubtful =
            |i: usize| miscounted.get(i) == Some(&true) && !wiring::has_fixed_ports(elements[i].kind);
        make(&elements, flat, &doubtful, inputs, &mut results);
    }
    results.faults.extend(conflicts);
    if inputs.thorough {
        let flood = check::Flood::new(&elements, &wires);
        problems.extend(check::headers(&flood));
        // What is not connected is told of the ports already.
        problems.extend(if sound { check::unreachable(&flood) } else { vec![] });
    }
    problems.append(&mut results.problems);
    results.problems = problems;
    for (index, need) in std::mem::take(&mut results.needs) {
        elements[index].needs.push(need);
    }
    for (index, packets) in std::mem::take(&mut results.held) {
        elements[index].held = elements[index].held.saturating_add(packets);
    }
    for (index, inputs) in std::mem::take(&mut results.selected) {
        elements[index].selected_inputs = Some(inputs);
    }
    if !results.said.is_empty() {
        grant_tickets(&elements, &mut results);
    }
    if !is_wrong(&results.problems) {
        let homes = homes(&elements, &results, inputs.threads);
        for (planned, made) in elements.iter_mut().zip(&results.made) {
            let placement = made.as_ref().and_then(|element| element.thread_placement());
            planned.hands_over = placement.is_some_and(|placement| placement.hands_over());
        }
        reach::spread(&mut elements, &wires, &homes);
        single::spread(&mut elements, &wires, &results.single, inputs.batching);
    }
    Configured { elements, wires, results }
}

fn make(
    elements: &[Planned],
    flat: &Flat,
    doubtful: &dyn Fn(usize) -> bool,
    inputs: Inputs<'_>,
    results: &mut Results,
) {
    for index in in_phases(elements).into_iter().filter(|&i| !doubtful(i)) {
        make_one(elements, index, flat, inputs, results);
    }
}

/// Makes the names of ports known, so that elements made before those of a port know them.
fn name_ports(elements: &[Planned], inputs: Inputs<'_>, names: &mut Names) {
    let port = |planned: &'_ Planned| {
        let port = planned.kind.port?;
        let scope = Scope { element: &planned.name, names };
        port(&planned.class, &mut Conf::new(planned.kind, &planned.config, scope), inputs.services)
    };
    let ports = elements.iter().filter_map(|planned| Some((&*planned.name, port(planned)?))).collect();
    names.name_ports(ports);
}

/// Makes those elements again that were made before the ports were open whose address they
/// need, in the usual order: one may have declared what another one looks up.
pub(crate) fn make_awaiting(elements: &[Planned], flat: &Flat, inputs: Inputs<'_>, results: &mut Results) {
    let awaited = std::mem::take(&mut results.awaited);
    results.again = true;
    for index in in_phases(elements).into_iter().filter(|index| awaited.contains_key(index)) {
        make_one(elements, index, flat, inputs, results);
    }
    for (index, ports) in std::mem::take(&mut results.awaited) {
        let message = format!("the address of {} is not known", ports.join(", "));
        results.problems.push(about(&elements[index], message));
    }
}

/// What is told of elements that need the address of a port, where none is opened.
pub(crate) fn awaiting(elements: &[Planned], results: &Results) -> Vec<Problem> {
    let note = |(&index, ports): (&usize, &Vec<String>)| {
        let message = format!("the address of {} is known when the port is open", ports.join(", "));
        Problem { severity: Severity::Note, ..about(&elements[index], message) }
    };
    results.awaited.iter().map(note).collect()
}

/// Makes an element. An argument that is found wrong is left out and the element made
/// once more, until nothing else is wrong.
fn make_one(elements: &[Planned], index: usize, flat: &Flat, inputs: Inputs<'_>, results: &mut Results) {
    let planned = &elements[index];
    let mut left_out = vec![];
    for pass in 0..MOST_FAULTS {
        let mut setup = Setup {
            name: &planned.name,
            class: &planned.class,
            inputs: planned.pull_inputs.len(),
            outputs: planned.pull_outputs.len(),
            index,
            shares: &mut results.shares,
            threads: inputs.threads,
            dma: inputs.dma,
            services: inputs.services,
            elements,
            requests: vec![],
        };
        let scope = Scope { element: &planned.name, names: &results.names };
        let mut conf = Conf::new(planned.kind, &planned.config, scope);
        left_out.iter().for_each(|&argument| conf.leave_out(argument));
        let made = (planned.kind.make)(&mut setup, &mut conf);
        let keyword = |&argument: &usize| conf.is_keyword(argument);
        let (requests, fault) = (setup.requests, made.as_ref().err().cloned());
        let again = fault.as_ref().and_then(|fault| fault.argument).filter(keyword);
        let awaited = results.names.take_awaited();
        match (made, fault) {
            (Ok(mut element), _) if pass == 0 => {
                debug_assert!(
                    planned.kind.fits(&mut *element),
                    "{}: its class has handlers or a kernel of another type",
                    planned.kind.name
                );
                results.made[index] = Some(element);
            }
            // Of what was left out another fault may come that is none.
            (_, Some(fault)) if pass == 0 || fault.argument.is_some() => {
                let is_argument = fault.argument.is_some();
                let problem = faulty(planned, index, flat, fault);
                if is_argument {
                    results.faults.push(problem.clone());
                }
                results.problems.push(problem);
            }
            _ => {}
        }
        if pass == 0 {
            ask_all(elements, index, requests, &awaited, results);
        }
        if !awaited.is_empty() {
            results.awaited.insert(index, awaited);
        }
        match again {
            Some(argument) => left_out.push(argument),
            None => return,
        }
    }
}

/// Does all that an element asked for; where elements are made again, as far as that was not done
/// when they were made first.
fn ask_all(
    elements: &[Planned],
    index: usize,
    requests: Vec<Request>,
    awaited: &[String],
    results: &mut Results,
) {
    for request in requests {
        if !results.again || matches!(request, Request::Declare(..) | Request::Select(_)) {
            ask(elements, index, request, awaited, results);
        }
    }
}

/// Does what an element asked for while it was made, which these ports were not open for.
fn ask(elements: &[Planned], index: usize, request: Request, awaited: &[String], results: &mut Results) {
    let planned = &elements[index];
    let context = crate::element::value::enclosing(&planned.name).next().unwrap_or_default();
    match request {
        Request::Declare(kind, name, value) => {
            results.names.declare_before(awaited, kind, name, value);
        }
        Request::Warn(message) => {
            let warning = Problem { severity: Severity::Warning, ..about(planned, message) };
            results.problems.push(warning);
        }
        Request::Note(message) => {
            let note = Problem { severity: Severity::Note, ..about(planned, message) };
            results.problems.push(note);
        }
        Request::Measure => results.measure = true,
        Request::Need(need) => {
            let (class, is_said) = (planned.kind.name, planned.kind.system.contains(&need.what));
            debug_assert!(is_said, "{class}: its class does not say that it {need}");
            results.needs.push((index, need));
        }
        Request::Hold(packets) => results.held.push((index, packets)),
        Request::Single => results.single.push(index),
        Request::Select(inputs) => results.selected.push((index, inputs)),
        Request::Balance => results.balance = true,
        Request::Thread(name, thread) => {
            let named = crate::element::value::enclosing(&planned.name)
                .map(|prefix| format!("{prefix}{name}"))
                .find_map(|full| elements.iter().position(|e| *e.name == full));
            let within = format!("{context}{name}/");
            let inner =
                elements.iter().enumerate().filter(|(_, e)| e.name.starts_with(&within)).map(|(i, _)| i);
            let all: Vec<usize> = named.map_or_else(|| inner.collect(), |element| vec![element]);
            if all.is_empty() {
                // As in Click, the router runs all the same.
                let warning = about(planned, format!("'{name}' does not name an element"));
                results.problems.push(Problem { severity: Severity::Warning, ..warning });
            }
            results.threads.extend(all.into_iter().map(|element| (element, thread)));
        }
        Request::Tickets(name, tickets) => results.said.push((context.to_string(), name, tickets)),
    }
}

/// Gives elements the tickets that were said of them.
fn grant_tickets(elements: &[Planned], results: &mut Results) {
    for (index, planned) in elements.iter().enumerate() {
        let Some(granted) = schedule_info::of(&planned.name, &results.said) else { continue };
        results.tickets.insert(index, granted.tickets);
        // Who has no task has no use for tickets.
        if granted.is_reduced && reach::drives(planned) {
            let most = schedule_info::MAX_TICKETS / schedule_info::TICKETS;
            let element = format!("{} :: {}", planned.name, planned.class);
            let warning = Problem::error(&planned.place, format!("ScheduleInfo too high; reduced to {most}"));
            let warning = Problem { severity: Severity::Warning, ..warning };
            results.problems.push(warning.context(element, "initializing"));
        }
    }
}

/// The threads that run each element's tasks.
fn homes(elements: &[Planned], results: &Results, threads: usize) -> Vec<u64> {
    let mut turn = 0;
    let taken = results.threads.values().fold(0, |mask, thread| mask | 1 << (thread % threads));
    let home = |(index, planned): (usize, &Planned)| {
        let placement = results.made[index].as_ref().and_then(|e| e.thread_placement());
        let own = placement.map(|placement| placement.homes(taken));
        let said = results.threads.get(&index).map(|thread| 1 << (thread % threads));
        let driver = reach::drives(planned).then(|| {
            turn += usize::from(results.balance && said.is_none() && own.is_none());
            1 << (turn.saturating_sub(1) % threads)
        });
        said.or(own).or(driver).unwrap_or(0) & (u64::MAX >> (64 - threads))
    };
    elements.iter().enumerate().map(home).collect()
}

/// A problem with an element's configuration.
fn about(planned: &Planned, message: String) -> Problem {
    let element = format!("{} :: {}", planned.name, planned.class);
    Problem::error(&planned.place, message).context(element, "configuring")
}

/// A fault an element found with its configuration, where the argument is if it is one.
fn faulty(planned: &Planned, index: usize, flat: &Flat, fault: ConfFault) -> Problem {
    let usage = ["too many arguments", "unknown argument", "required argument missing"];
    let expected = usage.iter().any(|words| fault.message.contains(words)).then(|| planned.kind.usage());
    let mut problem = about(planned, fault.message).compat_at(&planned.place).suggest(fault.suggestion);
    problem.compat_message = fault.compat;
    problem.expected = expected;
    if let Some(place) = fault.argument.and_then(|argument| flat.argument_place(index, argument)) {
        problem.place = place;
    }
    problem
}
