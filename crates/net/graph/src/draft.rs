//! A router before anything is opened: elements made, threads found, and all that is
//! wrong with its configuration.

use std::collections::HashMap;

use crate::class::Registry;
use crate::conf::{Conf, Fault};
use crate::element::Element;
use crate::lang::{Flat, Problem, Severity};
use crate::locked::Locked;
use crate::plan::{Plan, Planned, Wire};
use crate::router::{MAX_THREADS, Options, Router};
use crate::setup::{Request, Setup, Shares};
use crate::value::{Names, Scope};
use crate::{reach, wiring};

/// Faults of one element that are looked for.
const MOST_FAULTS: usize = 16;

/// What is gathered while elements are made.
#[derive(Default)]
pub(crate) struct Gathered {
    pub(crate) made: Vec<Option<Box<dyn Element>>>,
    pub(crate) names: Names,
    pub(crate) shares: Shares,
    pub(crate) threads: HashMap<usize, usize>,
    pub(crate) tickets: HashMap<usize, u32>,
    /// What was said of tickets.
    said: Vec<crate::tickets::Said>,
    /// Elements with tasks are shared out among the threads.
    balance: bool,
    pub(crate) problems: Vec<Problem>,
    /// Those of them that are about an argument, and nothing else.
    pub(crate) faults: Vec<Problem>,
    /// An element wants packets and cycles counted.
    pub(crate) measure: bool,
}

impl Router {
    /// All that can be said of a configuration without running it, opening ports or
    /// files, or taking memory: the plan, where there is one, and what is wrong.
    pub fn draft(
        source: &str,
        flat: Flat,
        registry: &Registry,
        options: Options,
    ) -> (Option<Plan>, Vec<Problem>) {
        let threads = options.threads.clamp(1, MAX_THREADS);
        let Draft { mut elements, wires, mut gathered } = draft(&flat, registry, threads, &options);
        let problems = std::mem::take(&mut gathered.problems);
        if is_wrong(&problems) {
            return (None, problems);
        }
        replicate(&mut elements, gathered.made);
        (Some(Plan::new(elements, wires, flat, source.to_string())), problems)
    }

    /// What is wrong with arguments in a configuration that is wrong otherwise, of what
    /// could be read of it ([`read_anyway`](crate::lang::read_anyway)). Nothing is said
    /// of ports: connections may be missing that were not understood.
    pub fn faults(flat: &Flat, registry: &Registry, options: &Options) -> Vec<Problem> {
        let known: Vec<usize> =
            (0..flat.elements.len()).filter(|&i| registry.find(&flat.elements[i].class).is_some()).collect();
        let place: HashMap<usize, usize> = known.iter().enumerate().map(|(new, &old)| (old, new)).collect();
        let mut part = Flat { connections: vec![], ..flat.clone() };
        part.elements = known.iter().map(|&i| flat.elements[i].clone()).collect();
        for connection in &flat.connections {
            if let (Some(&from), Some(&to)) = (place.get(&connection.from.0), place.get(&connection.to.0)) {
                let (from, to) = ((from, connection.from.1), (to, connection.to.1));
                part.connections.push(crate::lang::Connection { from, to, ..connection.clone() });
            }
        }
        let Draft { gathered, .. } = draft(&part, registry, options.threads.clamp(1, MAX_THREADS), options);
        gathered.faults
    }

    /// As [`draft`](Self::draft), with the elements as they were made: for what writes
    /// programs of them.
    ///
    /// # Errors
    /// What is wrong.
    pub fn made(
        source: &str,
        flat: Flat,
        registry: &Registry,
        options: Options,
    ) -> Result<(Plan, Made), Vec<Problem>> {
        let Draft { elements, wires, gathered } = draft(&flat, registry, 1, &options);
        if is_wrong(&gathered.problems) {
            return Err(gathered.problems);
        }
        Ok((Plan::new(elements, wires, flat, source.to_string()), gathered.made))
    }
}

/// The elements in the order in which they are made and initialized.
pub(crate) fn in_phases(elements: &[Planned]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..elements.len()).collect();
    order.sort_by_key(|&i| elements[i].kind.phase);
    order
}

/// Elements, by their numbers.
pub type Made = Vec<Option<Box<dyn Element>>>;

/// A router before anything is opened.
pub(crate) struct Draft {
    pub(crate) elements: Vec<Planned>,
    pub(crate) wires: Vec<Wire>,
    pub(crate) gathered: Gathered,
}

pub(crate) fn is_wrong(problems: &[Problem]) -> bool {
    problems.iter().any(|p| p.severity == Severity::Error)
}

/// Makes the elements of a configuration and finds out which threads reach them.
pub(crate) fn draft(flat: &Flat, registry: &Registry, threads: usize, options: &Options) -> Draft {
    let mut survey = wiring::survey(flat, registry);
    if !options.thorough {
        survey.as_click();
    }
    let wiring::Survey { mut elements, wires, mut problems, miscounted, .. } = survey;
    let mut gathered = Gathered { made: elements.iter().map(|_| None).collect(), ..Gathered::default() };
    let sound = !is_wrong(&problems);
    if sound || options.thorough {
        // Of ports that are not as they should be, elements only complain again.
        let doubtful = |i: usize| miscounted.get(i).copied().unwrap_or(false);
        make(&elements, flat, &doubtful, threads, options, &mut gathered);
    }
    if options.thorough && sound {
        problems.extend(crate::check::headers(&elements, &wires));
        problems.extend(crate::check::unreachable(&elements, &wires));
    }
    problems.append(&mut gathered.problems);
    gathered.problems = problems;
    if !gathered.said.is_empty() {
        let all = elements.iter().enumerate();
        let tickets = all.filter_map(|(i, e)| Some((i, crate::tickets::of(&e.name, &gathered.said)?)));
        gathered.tickets = tickets.collect();
    }
    if !is_wrong(&gathered.problems) {
        let homes = homes(&elements, &gathered, threads);
        for (planned, made) in elements.iter_mut().zip(&gathered.made) {
            planned.hands_over = made.as_ref().is_some_and(|element| element.hands_over());
        }
        reach::spread(&mut elements, &wires, &homes);
    }
    Draft { elements, wires, gathered }
}

fn make(
    elements: &[Planned],
    flat: &Flat,
    doubtful: &dyn Fn(usize) -> bool,
    threads: usize,
    options: &Options,
    gathered: &mut Gathered,
) {
    for index in in_phases(elements).into_iter().filter(|&i| !doubtful(i)) {
        make_one(elements, index, flat, threads, options, gathered);
    }
}

/// Makes an element. An argument that is found wrong is left out and the element made
/// once more, until nothing else is wrong.
fn make_one(
    elements: &[Planned],
    index: usize,
    flat: &Flat,
    threads: usize,
    options: &Options,
    gathered: &mut Gathered,
) {
    let planned = &elements[index];
    let mut left_out = vec![];
    for pass in 0..MOST_FAULTS {
        let mut setup = Setup {
            name: &planned.name,
            class: &planned.class,
            inputs: planned.pull_inputs.len(),
            outputs: planned.pull_outputs.len(),
            index,
            shares: &mut gathered.shares,
            threads,
            dma: &options.dma,
            services: &options.services,
            elements,
            requests: vec![],
        };
        let scope = Scope { element: &planned.name, names: &gathered.names };
        let mut conf = Conf::new(planned.kind, &planned.config, scope);
        left_out.iter().for_each(|&argument| conf.leave_out(argument));
        let made = (planned.kind.make)(&mut setup, &mut conf);
        let keyword = |&argument: &usize| conf.is_keyword(argument);
        let (requests, fault) = (setup.requests, made.as_ref().err().cloned());
        let again = fault.as_ref().and_then(|fault| fault.argument).filter(keyword);
        match (made, fault) {
            (Ok(element), _) if pass == 0 => gathered.made[index] = Some(element),
            // Of what was left out another fault may come that is none.
            (_, Some(fault)) if pass == 0 || fault.argument.is_some() => {
                let is_argument = fault.argument.is_some();
                let problem = faulty(planned, index, flat, fault);
                if is_argument {
                    gathered.faults.push(problem.clone());
                }
                gathered.problems.push(problem);
            }
            _ => {}
        }
        for request in requests.into_iter().filter(|_| pass == 0) {
            ask(elements, planned, request, gathered);
        }
        match again {
            Some(argument) => left_out.push(argument),
            None => return,
        }
    }
}

/// Does what an element asked for while it was made.
fn ask(elements: &[Planned], planned: &Planned, request: Request, gathered: &mut Gathered) {
    let context = crate::value::enclosing(&planned.name).next().unwrap_or_default();
    match request {
        Request::Declare(kind, name, value) => gathered.names.declare(kind, name, value),
        Request::Warn(message) => {
            let warning = Problem { severity: Severity::Warning, ..about(planned, message) };
            gathered.problems.push(warning);
        }
        Request::Note(message) => {
            let note = Problem { severity: Severity::Note, ..about(planned, message) };
            gathered.problems.push(note);
        }
        Request::Measure => gathered.measure = true,
        Request::Balance => gathered.balance = true,
        Request::Thread(name, thread) => {
            let named = crate::value::enclosing(&planned.name)
                .find_map(|prefix| elements.iter().position(|e| e.name == format!("{prefix}{name}")));
            let within = format!("{context}{name}/");
            let inner =
                elements.iter().enumerate().filter(|(_, e)| e.name.starts_with(&within)).map(|(i, _)| i);
            let all: Vec<usize> = named.map_or_else(|| inner.collect(), |element| vec![element]);
            if all.is_empty() {
                gathered.problems.push(about(planned, format!("'{name}' does not name an element")));
            }
            gathered.threads.extend(all.into_iter().map(|element| (element, thread)));
        }
        Request::Tickets(name, tickets) => gathered.said.push((context.to_string(), name, tickets)),
    }
}

/// The threads that run each element's tasks.
fn homes(elements: &[Planned], gathered: &Gathered, threads: usize) -> Vec<u64> {
    let mut turn = 0;
    let taken = gathered.threads.values().fold(0, |mask, thread| mask | 1 << (thread % threads));
    let home = |(index, planned): (usize, &Planned)| {
        let own = gathered.made[index].as_ref().and_then(|e| e.homes(taken));
        let said = gathered.threads.get(&index).map(|thread| 1 << (thread % threads));
        let driver = reach::drives(planned).then(|| {
            turn += usize::from(gathered.balance && said.is_none() && own.is_none());
            1 << (turn.saturating_sub(1) % threads)
        });
        said.or(own).or(driver).unwrap_or(0) & (u64::MAX >> (64 - threads))
    };
    elements.iter().enumerate().map(home).collect()
}

/// An element's copies, each with its lane, the last lane first.
pub(crate) type Copies = Vec<(usize, Box<dyn Element>)>;

/// One element for each lane that can reach it: copies where it can be there more
/// than once, else stand-ins for one behind a lock.
pub(crate) fn replicate(elements: &mut [Planned], made: Vec<Option<Box<dyn Element>>>) -> Vec<Copies> {
    let mut all = vec![];
    for (planned, element) in elements.iter_mut().zip(made) {
        let places: Vec<usize> = (0..MAX_THREADS).filter(|lane| planned.lanes >> lane & 1 == 1).collect();
        let Some(element) = element else {
            all.push(vec![]);
            continue;
        };
        planned.handlers = element.handlers();
        planned.each = element.is_each();
        let mut copies: Vec<Box<dyn Element>> = vec![];
        for _ in 1..places.len() {
            copies.extend(element.replicate());
        }
        if copies.len() + 1 == places.len() {
            copies.insert(0, element);
        } else {
            planned.locked = true;
            copies = Locked::share(element, places.len());
        }
        all.push(places.into_iter().zip(copies).rev().collect());
    }
    all
}

/// A problem with an element's configuration.
fn about(planned: &Planned, message: String) -> Problem {
    let element = format!("{} :: {}", planned.name, planned.class);
    Problem::error(&planned.place, message).context(element, "configuring")
}

/// A fault an element found with its configuration, where the argument is if it is one.
fn faulty(planned: &Planned, index: usize, flat: &Flat, fault: Fault) -> Problem {
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
