//! A router: built from a configuration, run by threads, looked at by handlers.

use std::collections::HashMap;
use std::sync::Arc;
use std::thread;

use memory::Dma;

use crate::buffers::Buffers;
use crate::class::Registry;
use crate::clock::Clock;
use crate::conf::Conf;
use crate::element::{Element, Refused};
use crate::inbox::Inbox;
use crate::lane::{Figures, Lane, Port, Pulled, Slot};
use crate::lang::{Flat, Place, Problem};
use crate::locked::Locked;
use crate::plan::{Plan, Planned, Wire};
use crate::setup::{Request, Services, Setup, Shares};
use crate::shared::{Console, Heir, Parts, Shared};
use crate::value::{Names, Scope};
use crate::{flow, reach, wiring};

/// How a router is built.
pub struct Options {
    /// Threads that run it.
    pub threads: usize,
    /// Cores that the threads are bound to, in order; none are bound without.
    pub cores: Vec<usize>,
    /// Its time.
    pub clock: Arc<Clock>,
    /// Where it prints.
    pub console: Console,
    /// Memory of its packets, shared with devices.
    pub dma: Dma,
    /// Packet buffers a thread may have.
    pub buffers: usize,
    /// Counts packets and cycles for each element.
    pub measure: bool,
    /// Takes a configuration that is to replace this one.
    pub heir: Option<Heir>,
    /// What elements get from outside the configuration.
    pub services: Services,
    /// Called when it is known which threads reach which elements, before there are
    /// buffers: opens ports with as many queues as are needed.
    pub prepare: Option<Prepare>,
}

/// See [`Options::prepare`].
pub type Prepare = Box<dyn FnOnce(&[Planned]) -> Result<(), String>>;

impl Default for Options {
    fn default() -> Options {
        Options {
            threads: 1,
            cores: vec![],
            clock: Arc::new(Clock::real()),
            console: Console::Process,
            dma: Dma::new(memory::Options { backing: memory::Backing::Memfd, ..Default::default() }),
            buffers: 1 << 18,
            measure: false,
            heir: None,
            services: Services::default(),
            prepare: None,
        }
    }
}

/// The most threads a router has.
pub const MAX_THREADS: usize = 64;

/// A router, ready to run.
pub struct Router {
    lanes: Vec<Lane>,
    shared: Arc<Shared>,
    cores: Vec<usize>,
    /// Dropped after the elements that use them.
    _services: Services,
}

/// What is gathered while elements are made.
#[derive(Default)]
struct Gathered {
    made: Vec<Option<Box<dyn Element>>>,
    names: Names,
    shares: Shares,
    threads: HashMap<usize, usize>,
    tickets: HashMap<usize, u32>,
    problems: Vec<Problem>,
}

impl Router {
    /// Builds and initializes the router of a configuration.
    ///
    /// # Errors
    /// All that is wrong with it.
    pub fn build(
        source: &str,
        flat: Flat,
        registry: &Registry,
        options: Options,
    ) -> Result<Router, Vec<Problem>> {
        let threads = options.threads.clamp(1, MAX_THREADS);
        let (mut elements, wires) = wiring::plan(&flat, registry)?;
        let mut gathered = make(&elements, threads, &options);
        if gathered.problems.iter().any(|p| p.severity == crate::lang::Severity::Error) {
            return Err(gathered.problems);
        }
        let homes = homes(&elements, &gathered, threads);
        reach::spread(&mut elements, &wires, &homes);
        if let Some(prepare) = options.prepare {
            let failed = |message: String| vec![Problem::error(&Place::nowhere("ports"), message)];
            prepare(&elements).map_err(failed)?;
        }
        let mut copies = replicate(&mut elements, std::mem::take(&mut gathered.made));
        let plan = Plan::new(elements, wires, flat, source.to_string());
        let inboxes: std::io::Result<Vec<_>> = (0..threads).map(|_| Inbox::new().map(Arc::new)).collect();
        let inboxes = inboxes.map_err(|e| vec![system(&plan, &format!("no file descriptors left: {e}"))])?;
        let parts = Parts {
            clock: options.clock,
            inboxes,
            shares: gathered.shares,
            console: options.console,
            classes: registry.names().collect(),
            tickets: gathered.tickets,
            heir: options.heir,
        };
        let shared = Arc::new(Shared::new(plan, parts));
        let mut lanes = vec![];
        for id in 0..threads {
            let buffers = Buffers::new(&options.dma, options.buffers);
            let buffers = buffers.map_err(|e| vec![system(&shared.plan, &e.to_string())])?;
            let slots = copies.iter_mut().enumerate().map(|(i, c)| slot(&shared.plan, i, c[id].take()));
            let mut lane = Lane::new(id, slots.collect(), shared.clone(), buffers);
            lane.measure = options.measure;
            lanes.push(lane);
        }
        let mut router = Router { lanes, shared, cores: options.cores, _services: options.services };
        router.init()?;
        Ok(router)
    }

    /// Initializes all elements, in their phases' order.
    fn init(&mut self) -> Result<(), Vec<Problem>> {
        let mut problems = vec![];
        for element in in_phases(&self.shared.plan.elements) {
            for lane in &mut self.lanes {
                let Some(Err(message)) = lane.with(element, |e, cx| e.init(cx)) else { continue };
                let planned = &self.shared.plan.elements[element];
                problems.push(about(planned, message));
            }
        }
        if problems.is_empty() { Ok(()) } else { Err(problems) }
    }

    /// Runs until enough elements want to stop, or [`Shared::end`] is called.
    pub fn run(&mut self) {
        let cores = self.cores.clone();
        let (first, others) = self.lanes.split_at_mut(1);
        thread::scope(|scope| {
            for lane in others {
                let core = cores.get(lane.id).copied();
                scope.spawn(move || {
                    bind(core);
                    lane.drive();
                });
            }
            bind(cores.first().copied());
            first[0].drive();
        });
    }

    /// Ends the elements: files are written out.
    pub fn cleanup(&mut self) {
        for element in 0..self.shared.plan.elements.len() {
            for lane in &mut self.lanes {
                lane.with(element, |e, cx| e.cleanup(cx));
            }
        }
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.shared.plan.elements.is_empty()
    }

    /// Takes over what the elements of an old router kept, where name and class are
    /// the same. The old one has ended; this one has not begun.
    pub fn take_over(&mut self, old: &mut Router) {
        for index in in_phases(&self.shared.plan.elements) {
            let planned = &self.shared.plan.elements[index];
            let Some(before) = old.shared.plan.find(&planned.name, None) else { continue };
            if !std::ptr::eq(old.shared.plan.elements[before].kind, planned.kind) {
                continue;
            }
            for (lane, old_lane) in self.lanes.iter_mut().zip(&mut old.lanes) {
                if let Some(mut kept) = old_lane.slots[before].element.take() {
                    lane.with(index, |element, cx| element.take_over(cx, &mut *kept));
                    old_lane.slots[before].element = Some(kept);
                }
            }
        }
    }

    /// What all threads share: to end the router from elsewhere.
    pub fn shared(&self) -> Arc<Shared> {
        self.shared.clone()
    }

    /// Reads a handler, while the router does not run.
    ///
    /// # Errors
    /// When there is none, or it refuses.
    pub fn read(&mut self, name: &str, parameter: &str) -> Result<String, Refused> {
        let lane = self.lane_of(name);
        self.lanes[lane].read(None, name, parameter)
    }

    /// Writes a handler, while the router does not run.
    ///
    /// # Errors
    /// When there is none, or it refuses.
    pub fn write(&mut self, name: &str, value: &str) -> Result<(), Refused> {
        let lane = self.lane_of(name);
        self.lanes[lane].write(None, name, value)
    }

    fn lane_of(&self, handler: &str) -> usize {
        let element = handler.rsplit_once('.').and_then(|(name, _)| self.shared.plan.find(name, None));
        element.map_or(0, |element| self.shared.plan.home(element).min(self.lanes.len() - 1))
    }

    /// The lanes, for what looks at all of a router.
    pub fn lanes(&self) -> &[Lane] {
        &self.lanes
    }

    /// The lanes, for those that bring packets in from outside (tests, fuzzers).
    pub fn lanes_mut(&mut self) -> &mut [Lane] {
        &mut self.lanes
    }
}

/// The elements in the order in which they are made and initialized.
fn in_phases(elements: &[Planned]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..elements.len()).collect();
    order.sort_by_key(|&i| elements[i].kind.phase);
    order
}

fn make(elements: &[Planned], threads: usize, options: &Options) -> Gathered {
    let mut gathered = Gathered { made: elements.iter().map(|_| None).collect(), ..Gathered::default() };
    for index in in_phases(elements) {
        let planned = &elements[index];
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
            requests: vec![],
        };
        let scope = Scope { element: &planned.name, names: &gathered.names };
        let mut conf = Conf::new(planned.kind, &planned.config, scope);
        let made = (planned.kind.make)(&mut setup, &mut conf);
        let requests = setup.requests;
        match made {
            Ok(element) => gathered.made[index] = Some(element),
            Err(fault) => gathered.problems.push(about(planned, fault.message).suggest(fault.suggestion)),
        }
        for request in requests {
            ask(elements, planned, request, &mut gathered);
        }
    }
    gathered
}

/// Does what an element asked for while it was made.
fn ask(elements: &[Planned], planned: &Planned, request: Request, gathered: &mut Gathered) {
    let mut named = |name: &str| {
        let found = crate::value::enclosing(&planned.name)
            .find_map(|prefix| elements.iter().position(|e| e.name == format!("{prefix}{name}")));
        if found.is_none() {
            gathered.problems.push(about(planned, format!("no element named '{name}'")));
        }
        found
    };
    match request {
        Request::Declare(kind, name, value) => gathered.names.declare(kind, name, value),
        Request::Warn(message) => gathered.problems.push(Problem::warning(&planned.place, message)),
        Request::Thread(name, thread) => {
            if let Some(element) = named(&name) {
                gathered.threads.insert(element, thread);
            }
        }
        Request::Tickets(name, tickets) => {
            if let Some(element) = named(&name) {
                gathered.tickets.insert(element, tickets);
            }
        }
    }
}

/// The threads that run each element's tasks.
fn homes(elements: &[Planned], gathered: &Gathered, threads: usize) -> Vec<u64> {
    let home = |(index, planned): (usize, &Planned)| {
        let own = gathered.made[index].as_ref().and_then(|e| e.homes());
        let said = gathered.threads.get(&index).map(|thread| 1 << (thread % threads));
        let driver = reach::drives(planned).then_some(1);
        said.or(own).or(driver).unwrap_or(0) & (u64::MAX >> (64 - threads))
    };
    elements.iter().enumerate().map(home).collect()
}

/// One element for each lane that can reach it: copies where it can be there more
/// than once, else stand-ins for one behind a lock. By element, then by lane.
fn replicate(
    elements: &mut [Planned],
    made: Vec<Option<Box<dyn Element>>>,
) -> Vec<Vec<Option<Box<dyn Element>>>> {
    let mut all = vec![];
    for (planned, element) in elements.iter_mut().zip(made) {
        let mut lanes: Vec<Option<Box<dyn Element>>> = (0..MAX_THREADS).map(|_| None).collect();
        let places: Vec<usize> = (0..MAX_THREADS).filter(|lane| planned.lanes >> lane & 1 == 1).collect();
        let Some(element) = element else {
            all.push(lanes);
            continue;
        };
        planned.handlers = element.handlers();
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
        places.into_iter().zip(copies).for_each(|(lane, copy)| lanes[lane] = Some(copy));
        all.push(lanes);
    }
    all
}

fn slot(plan: &Plan, index: usize, element: Option<Box<dyn Element>>) -> Slot {
    let planned = &plan.elements[index];
    let leads = |port: usize| {
        let from = Port { element: index, port };
        let pushed = !planned.pull_outputs[port];
        plan.wires.iter().find(|w| pushed && w.from == from).map(|w| w.to)
    };
    let comes = |port: usize| {
        let to = Port { element: index, port };
        let pulled = planned.pull_inputs[port];
        plan.wires.iter().find(|w| pulled && w.to == to).map(|w: &Wire| w.from)
    };
    let (inputs, outputs) = (planned.pull_inputs.len(), planned.pull_outputs.len());
    let through = |output: usize| {
        let agnostic = |out, port| flow::processing(planned.kind.processing, out, port) == 'a';
        let joined = |&i: &usize| {
            planned.pull_inputs[i]
                && agnostic(false, i)
                && flow::joins(planned.kind.flow, i, inputs, output, outputs)
        };
        let mut candidates = (0..inputs).filter(joined);
        match (agnostic(true, output), candidates.next(), candidates.next()) {
            (true, Some(input), None) => Pulled::Through(input),
            _ => Pulled::Asked,
        }
    };
    Slot {
        element,
        outs: (0..outputs).map(leads).collect(),
        ins: (0..inputs).map(comes).collect(),
        pulled: (0..outputs).map(through).collect(),
        emitted: None,
        figures: Figures { drops: vec![0; planned.kind.drops.len()], ..Figures::default() },
        late: vec![],
    }
}

/// A problem with an element's configuration.
fn about(planned: &Planned, message: String) -> Problem {
    Problem::error(&planned.place, format!("{} :: {}: {message}", planned.name, planned.class))
}

fn system(plan: &Plan, message: &str) -> Problem {
    let place = plan.elements.first().map_or_else(|| Place::nowhere("router"), |e| e.place.clone());
    Problem::error(&place, message)
}

/// Binds this thread to a core. A core that is not there binds nothing: the program
/// checks them before.
fn bind(core: Option<usize>) {
    if let Some(core) = core {
        let mut set = rustix::thread::CpuSet::new();
        set.set(core);
        let _ = rustix::thread::sched_setaffinity(None, &set);
    }
}
