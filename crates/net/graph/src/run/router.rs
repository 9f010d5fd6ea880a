//! A router: built from a configuration, run by threads, looked at by handlers.

use std::collections::HashMap;
use std::sync::Arc;
use std::thread;

use runtime::{OnPanic, cores};
use smallvec::smallvec;

use crate::element::class::Registry;
use crate::element::{Account, Element, Refused, port_code};
use crate::lang::{Declared, Flat, Problem, SourceLocation};
use crate::plan::buffers;
use crate::plan::configure::{
    Configured, Inputs, Results, awaiting, configure, in_phases, is_wrong, make_awaiting,
};
use crate::plan::setup::Services;
use crate::plan::{Instances, Plan, Planned, Port};
use crate::run::buffers::{Buffers, too_few_buffers};
use crate::run::counters::Counters;
use crate::run::fused;
use crate::run::handlers::{names_are_there, names_of};
use crate::run::lane::{Lane, Pulled, Slot};
use crate::run::locked::{Copies, replicate};
use crate::run::mailbox::Mailbox;
use crate::run::options::{Options, Prepare};
use crate::run::shared::{Parts, RouterShared};

/// A router, ready to run.
pub struct Router {
    pub(crate) lanes: Vec<Lane>,
    pub(crate) shared: Arc<RouterShared>,
    pub(super) cores: Vec<usize>,
    begun: bool,
    warnings: Vec<Problem>,
    /// Whether somebody said how many packet buffers a thread may have.
    is_limited: bool,
    /// Dropped after the elements that use them.
    services: Services,
}

impl Router {
    /// Builds and initializes the router of a configuration.
    ///
    /// # Errors
    /// All that is wrong with it.
    pub fn build(
        source: impl Into<Arc<str>>,
        flat: Flat,
        registry: &Registry,
        mut options: Options,
    ) -> Result<Router, Vec<Problem>> {
        let prepare = options.prepare.take();
        let inputs = options.inputs();
        let threads = inputs.threads;
        let Configured { mut elements, wires, mut results } = configure(&flat, registry, inputs);
        if is_wrong(&results.problems) {
            return Err(results.problems);
        }
        open(prepare, &elements, &flat, inputs, &mut results)?;
        let warnings = std::mem::take(&mut results.problems);
        describe(&mut elements, &mut results.made);
        let mut plan = Plan::new(elements, wires, flat, source.into());
        // Click asks each element when it is its turn to be initialized.
        let again = if options.thorough {
            names_are_there(&plan, &results, options.further_handlers(), true)?
        } else {
            vec![]
        };
        let mut copies: Vec<Copies> =
            replicate(&mut plan.elements, std::mem::take(&mut results.made)).collect();
        let regions = if options.measure { &[] } else { options.fused };
        fused::complete(regions, &plan.elements, &mut copies);
        if options.chains && options.fused.is_empty() {
            plan.find_chains(registry.chains());
        }
        let mailboxes = mailboxes(threads, &plan)?;
        let parts = Parts {
            clock: options.clock,
            mailboxes,
            shares: results.shares,
            console: options.console,
            classes: registry.names().collect(),
            tickets: results.tickets,
            hotswap: options.hotswap,
            ports: options.ports,
            names: results.names,
            dma: options.dma.clone(),
            thorough: options.thorough,
        };
        plan.by_name();
        let shared = Arc::new(RouterShared::new(plan, parts));
        let (cores, mut lanes, is_limited) = (options.cores, vec![], options.buffers.is_some());
        for id in 0..threads {
            let limit = options.buffers.unwrap_or_else(|| buffers::limit(shared.plan.held(id), threads));
            let buffers = on(cores.get(id), || Buffers::new(&options.dma, limit, shared.plan.holding(id)));
            let buffers = buffers.map_err(|e| vec![system(&shared.plan, &e.to_string())])?;
            let mine = |copies: &mut Copies| match copies.last() {
                Some((lane, _)) if *lane == id => copies.pop().map(|(_, element)| element),
                _ => None,
            };
            let slots = copies.iter_mut().enumerate().map(|(i, c)| slot(&shared.plan, i, mine(c)));
            let mut slots: Vec<Slot> = slots.collect();
            fused::install(regions, &shared.plan, &mut slots).map_err(|e| vec![system(&shared.plan, &e)])?;
            let chains = fused::chain::install(&shared.plan, &mut slots);
            let mut lane = Lane::new(id, slots, shared.clone(), buffers);
            lane.chains = chains;
            lane.set_measured(options.measure || results.measure);
            lanes.push(lane);
        }
        let services = options.services;
        let mut router = Router { lanes, shared, cores, begun: false, warnings, is_limited, services };
        router.init(!options.thorough, again)?;
        Ok(router)
    }

    /// What was found that does not keep the router from running.
    pub fn warnings(&self) -> &[Problem] {
        &self.warnings
    }

    /// Initializes all elements, in their phases' order, until one fails: those behind it
    /// have not opened a file. Each is asked before whether the names it has are there, with
    /// `ask_each`; those of `again` when all are initialized.
    fn init(&mut self, ask_each: bool, again: Vec<usize>) -> Result<(), Vec<Problem>> {
        let mut problems: Vec<Problem> = vec![];
        let mut failed = None;
        let elements = &self.shared.plan.elements;
        self.each_at_rest(in_phases(elements), |lane, element| {
            if failed.is_some_and(|failed| failed != element) {
                return;
            }
            let mut result = if ask_each { names_of(lane, element) } else { Ok(()) };
            if result.is_ok() {
                result = lane.with(element, |e, cx| e.init(cx)).unwrap_or(Ok(()));
            }
            let Err(message) = result else { return };
            failed = Some(element);
            problems.push(lane.shared.plan.elements[element].initializing(message));
        });
        let again = if failed.is_some() { vec![] } else { again };
        self.each_at_rest(again, |lane, element| {
            let Some(message) = names_of(lane, element).err().filter(|_| failed != Some(element)) else {
                return;
            };
            failed = Some(element);
            problems.push(lane.shared.plan.elements[element].initializing(message));
        });
        for lane in &mut self.lanes {
            if !self.is_limited {
                lane.buffers.allow_reserved();
            }
            if let Some(problem) = too_few_buffers(lane) {
                problems.push(problem);
                continue;
            }
            let provided = on(self.cores.get(lane.id), || lane.buffers.provide());
            problems.extend(provided.err().map(|error| system(&self.shared.plan, &error.to_string())));
        }
        if problems.is_empty() { Ok(()) } else { Err(problems) }
    }

    /// Does something with each copy of elements while no thread runs: what it asks of
    /// other lanes is answered.
    fn each_at_rest(&mut self, order: Vec<usize>, mut work: impl FnMut(&mut Lane, usize)) {
        if let [lane] = &mut self.lanes[..] {
            return order.into_iter().for_each(|element| work(lane, element));
        }
        let (shared, count) = (self.shared.clone(), self.lanes.len());
        shared.keep(&mut self.lanes, || {
            for element in order {
                for lane in 0..count {
                    let _there = shared.lend(lane, |lane| work(lane, element));
                }
            }
        });
    }

    /// Gives each thread so many more packet buffers, before the router runs: where no more
    /// can be had later. Fewer, where there is not so much memory, or not more than so many are allowed.
    pub fn add_buffers(&mut self, count: usize) {
        for lane in &mut self.lanes {
            let _ = on(self.cores.get(lane.id), || lane.buffers.add(count));
        }
    }

    /// Has elements take what they need of the outside, once; [`run`](Self::run)
    /// does so first.
    pub fn begin(&mut self) {
        if std::mem::replace(&mut self.begun, true) {
            return;
        }
        self.each_at_rest(in_phases(&self.shared.plan.elements), |lane, element| {
            lane.with(element, |e, cx| e.begin(cx));
            lane.deliver(element);
        });
    }

    /// Runs until enough elements want to stop, or [`RouterShared::end`] is called. A lane that
    /// panics ends the others.
    ///
    /// # Panics
    /// When a lane does.
    pub fn run(&mut self) {
        self.run_and(|| ());
    }

    /// As [`run`](Self::run); `started` is called when all threads are there.
    ///
    /// # Panics
    /// When a lane does.
    pub fn run_and(&mut self, started: impl FnOnce()) {
        self.begin();
        self.shared.mailboxes.iter().for_each(|mailbox| mailbox.set_served(true));
        let cores = self.cores.clone();
        let (first, others) = self.lanes.split_at_mut(1);
        thread::scope(|scope| {
            for lane in others {
                let core = cores.get(lane.id).copied();
                scope.spawn(move || run(lane, core));
            }
            started();
            run(&mut first[0], cores.first().copied());
        });
    }

    /// Ends the elements, the last first: files are written out.
    pub fn cleanup(&mut self) {
        let all = (0..self.shared.plan.elements.len()).rev().collect();
        self.each_at_rest(all, |lane, element| {
            let _there = lane.with(element, |e, cx| e.cleanup(cx));
        });
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.shared.plan.elements.is_empty()
    }

    /// What came from outside the configuration, by type.
    pub fn service<T: std::any::Any + Send + Sync>(&self) -> Option<Arc<T>> {
        self.services.get()
    }

    /// What all threads share: to end the router from elsewhere.
    pub fn shared(&self) -> Arc<RouterShared> {
        self.shared.clone()
    }

    /// Reads a handler, while the router does not run.
    ///
    /// # Errors
    /// When there is none, or it refuses.
    pub fn read(&mut self, name: &str, parameter: &str) -> Result<String, Refused> {
        let lane = self.lane_of(name);
        self.at_rest(lane, |lane| lane.read(None, name, parameter))
    }

    /// Writes a handler, while the router does not run.
    ///
    /// # Errors
    /// When there is none, or it refuses.
    pub fn write(&mut self, name: &str, value: &str) -> Result<(), Refused> {
        let lane = self.lane_of(name);
        self.at_rest(lane, |lane| lane.write(None, name, value))
    }

    /// How many packets wait while the router does not run, by the elements' numbers, of those that
    /// have some: in elements whose class keeps them ([`Account::Keeps`]); before those that they were
    /// under way to; and what was freed in others when they were cleaned up
    /// ([`Cx::end_waiting`](crate::Cx::end_waiting)).
    pub fn waiting(&mut self) -> Vec<(usize, u64)> {
        let shared = self.shared.clone();
        let mut all = vec![0; shared.plan.elements.len()];
        for (index, planned) in shared.plan.elements.iter().enumerate() {
            all[index] = self.lanes.iter().map(|lane| lane.slots[index].counters.held).sum();
            let Account::Keeps(waiting) = planned.kind.account else { continue };
            let lane = self.home(index);
            let count = |lane: &mut Lane| lane.with_real(index, |element, _| waiting.count(element));
            all[index] += self.at_rest(lane, count).unwrap_or(0);
        }
        let deferred = self.lanes.iter().flat_map(Lane::deferred);
        deferred.for_each(|(element, packets)| {
            if let Some(all) = all.get_mut(element) {
                *all += packets as u64;
            }
        });
        all.into_iter().enumerate().filter(|(_, packets)| *packets > 0).collect()
    }

    /// Lends a lane while no thread runs: what it asks of others is answered.
    fn at_rest<R>(&mut self, lane: usize, work: impl FnOnce(&mut Lane) -> R) -> R {
        if self.lanes.len() == 1 {
            return work(&mut self.lanes[0]);
        }
        let shared = self.shared.clone();
        let result = shared.keep(&mut self.lanes, || shared.lend(lane, work));
        result.expect("all lanes are there while no thread runs")
    }

    fn lane_of(&self, handler: &str) -> usize {
        let element = handler.rsplit_once('.').and_then(|(name, _)| self.shared.plan.find(name, None));
        element.map_or(0, |element| self.home(element))
    }

    /// The lane that an element is asked in.
    fn home(&self, element: usize) -> usize {
        self.shared.plan.home(element).min(self.lanes.len() - 1)
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

impl Router {
    /// All that can be said of a configuration without running it, opening ports or
    /// files, or taking memory: the plan, and what is wrong; where there is no plan the
    /// elements, by their indices.
    pub fn plan(
        source: impl Into<Arc<str>>,
        flat: Flat,
        registry: &Registry,
        options: Options,
    ) -> (Result<Plan, Vec<Declared>>, Vec<Problem>) {
        let Configured { mut elements, wires, mut results } = configure(&flat, registry, options.inputs());
        let mut problems = std::mem::take(&mut results.problems);
        let is_planned = !is_wrong(&problems);
        if !is_planned && (!options.thorough || elements.is_empty()) {
            return (Err(flat.elements), problems);
        }
        describe(&mut elements, &mut results.made);
        let mut plan = Plan::new(elements, wires, flat, source.into());
        let found = names_are_there(&plan, &results, options.further_handlers(), is_planned);
        problems.extend(found.err().unwrap_or_default());
        if !is_planned {
            return (Err(plan.flat.elements), problems);
        }
        problems.extend(awaiting(&plan.elements, &results));
        replicate(&mut plan.elements, results.made).for_each(drop);
        if options.chains && !options.measure && !results.measure {
            plan.find_chains(registry.chains());
        }
        (Ok(plan), problems)
    }

    /// What is wrong in a configuration that is wrong otherwise, of what could be read of it
    /// ([`read_anyway`](crate::lang::read_anyway)): with arguments, and with the connections that
    /// were understood. Nothing is said of ports that nothing is connected to, of headers, nor of
    /// names: connections and elements may be missing that were not understood. The elements whose
    /// classes are known, by the indices they were made with, and what is wrong.
    pub fn faults(mut flat: Flat, registry: &Registry, options: &Options) -> (Vec<Declared>, Vec<Problem>) {
        let is_known = |declared: &Declared| registry.find(&declared.class).is_some();
        let known: Vec<usize> = (0..flat.elements.len()).filter(|&i| is_known(&flat.elements[i])).collect();
        let place: HashMap<usize, usize> = known.iter().enumerate().map(|(new, &old)| (old, new)).collect();
        flat.elements.retain(is_known);
        flat.connections.retain_mut(|connection| {
            let ends = (place.get(&connection.from.0), place.get(&connection.to.0));
            let (Some(&from), Some(&to)) = ends else { return false };
            (connection.from.0, connection.to.0) = (from, to);
            true
        });
        let Configured { results, .. } = configure(&flat, registry, options.inputs());
        (flat.elements, results.faults)
    }

    /// As [`plan`](Self::plan), with the elements as they were made: for what writes
    /// programs of them. Those that are made again when ports are open are left out.
    ///
    /// # Errors
    /// What is wrong.
    pub fn configure(
        source: impl Into<Arc<str>>,
        flat: Flat,
        registry: &Registry,
        options: Options,
    ) -> Result<(Plan, Instances), Vec<Problem>> {
        let Configured { elements, wires, mut results } =
            configure(&flat, registry, Inputs { threads: 1, ..options.inputs() });
        if is_wrong(&results.problems) {
            return Err(results.problems);
        }
        results.leave_out_awaiting();
        Ok((Plan::new(elements, wires, flat, source.into()), results.made))
    }
}

/// Opens the ports, and makes the elements again that need their addresses.
fn open(
    prepare: Option<Prepare>,
    elements: &[Planned],
    flat: &Flat,
    inputs: Inputs<'_>,
    results: &mut Results,
) -> Result<(), Vec<Problem>> {
    if let Some(prepare) = prepare {
        prepare(elements).map_err(|problem| vec![*problem])?;
    }
    make_awaiting(elements, flat, inputs, results);
    if is_wrong(&results.problems) { Err(std::mem::take(&mut results.problems)) } else { Ok(()) }
}

/// Fills in what is known of elements when they are made.
fn describe(elements: &mut [Planned], made: &mut Instances) {
    for (planned, made) in elements.iter_mut().zip(made) {
        let Some(element) = made else { continue };
        planned.further_handlers = planned.kind.further_handlers(&mut **element);
        planned.each = element.per_packet().is_some();
    }
}

/// A mailbox for each thread.
fn mailboxes(threads: usize, plan: &Plan) -> Result<Vec<Arc<Mailbox>>, Vec<Problem>> {
    let made: std::io::Result<_> = (0..threads).map(|_| Mailbox::new().map(Arc::new)).collect();
    made.map_err(|error| vec![system(plan, &format!("no file descriptors left: {error}"))])
}

fn slot(plan: &Plan, index: usize, element: Option<Box<dyn Element>>) -> Slot {
    let planned = &plan.elements[index];
    let leads = |port: usize| {
        let pushed = !planned.pull_outputs[port];
        plan.beyond(Port { element: index, port }).find(|_| pushed)
    };
    let comes = |port: usize| {
        let pulled = planned.pull_inputs[port];
        plan.before(Port { element: index, port }).find(|_| pulled)
    };
    let (inputs, outputs) = (planned.pull_inputs.len(), planned.pull_outputs.len());
    let through = |output: usize| {
        let agnostic = |out, port| port_code::processing(planned.kind.processing, out, port) == 'a';
        let joined = |&i: &usize| {
            planned.pull_inputs[i]
                && agnostic(false, i)
                && port_code::joins(planned.kind.flow, i, inputs, output, outputs)
        };
        let mut candidates = (0..inputs).filter(joined);
        match (agnostic(true, output), candidates.next(), candidates.next()) {
            (true, Some(input), None) => Pulled::Through(input),
            _ => Pulled::Asked,
        }
    };
    let selected = &planned.selected_inputs;
    let pulled = |output| selected.clone().map_or_else(|| through(output), Pulled::Passed);
    Slot {
        // Mostly none is pulled from, and nothing is kept.
        pulled: match planned.pull_outputs.contains(&true) {
            true => (0..outputs).map(pulled).collect(),
            false => Box::default(),
        },
        element,
        outs: (0..outputs).map(leads).collect(),
        ins: (0..inputs).map(comes).collect(),
        emitted: None,
        single: planned.single,
        counters: Counters { drops: smallvec![0; planned.kind.drops.len()], ..Counters::default() },
        late: vec![],
    }
}

fn system(plan: &Plan, message: &str) -> Problem {
    let place = plan.elements.first().map_or_else(|| SourceLocation::nowhere("router"), |e| e.place.clone());
    Problem::error(&place, message)
}

/// Does some work on a lane's core, if it has one.
fn on<T>(core: Option<&usize>, work: impl FnOnce() -> T) -> T {
    match core {
        Some(&core) => cores::on(core, work),
        None => work(),
    }
}

/// Runs a lane on its core until the router ends. A core that is not there is none: the
/// program checks them before.
fn run(lane: &mut Lane, core: Option<usize>) {
    let shared = lane.shared.clone();
    let _others = OnPanic(|| shared.end());
    core.map(cores::pin);
    lane.run_until_end();
}
