//! What all lanes of a router share.

use std::any::{Any, TypeId};
use std::collections::{HashMap, HashSet};
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::clock::{Clock, Pace};
use crate::element::value::Names;
use crate::plan::setup::Shares;
use crate::plan::{Plan, Planned};
use crate::run::lane::Lane;
use crate::run::mailbox::Mailbox;
use crate::run::simulation::Simulation;

/// Where a router prints.
#[derive(Debug, Clone, Default)]
pub enum Console {
    /// To the process's standard output and standard error.
    #[default]
    Process,
    /// To the process's standard error alone: its standard output is somebody else's, such
    /// as of the JSON that tells of a run.
    Errors,
    /// Into memory, both together: for tests.
    Memory(Arc<Mutex<String>>),
}

/// What a [`RouterShared`] is made of beside its plan.
pub(crate) struct Parts {
    pub(crate) clock: Arc<Clock>,
    pub(crate) mailboxes: Vec<Arc<Mailbox>>,
    pub(crate) shares: Shares,
    pub(crate) console: Console,
    pub(crate) classes: Vec<&'static str>,
    pub(crate) tickets: HashMap<usize, u32>,
    pub(crate) hotswap: Option<Hotswap>,
    pub(crate) ports: Option<PortSeries>,
    pub(crate) names: Names,
    pub(crate) dma: memory::Dma,
    pub(crate) thorough: bool,
}

/// What all lanes share.
pub struct RouterShared {
    /// What is known of the router.
    pub plan: Arc<Plan>,
    pub(crate) clock: Arc<Clock>,
    pub(crate) mailboxes: Vec<Arc<Mailbox>>,
    /// Which lanes rest, where time is simulated.
    pub(crate) simulation: Simulation,
    shares: Shares,
    console: Console,
    /// Whether more is told than Click tells.
    pub(crate) thorough: bool,
    /// How many more must want the router to stop.
    runs: AtomicI32,
    /// All lanes end.
    ended: AtomicBool,
    /// Configurations that changed while running.
    configs: Mutex<HashMap<usize, String>>,
    /// Those that handlers changed without telling.
    untold: Mutex<HashMap<usize, String>>,
    /// Tickets that the configuration gives elements' tasks.
    tickets: HashMap<usize, u32>,
    /// Elements that have tasks.
    tasked: Mutex<HashSet<usize>>,
    /// The names of all classes.
    pub(crate) classes: Vec<&'static str>,
    /// What becomes of a new configuration.
    pub(crate) hotswap: Option<Hotswap>,
    /// What its ports counted.
    pub(crate) ports: Option<PortSeries>,
    /// One is being made ready, or was accepted.
    swapping: AtomicBool,
    /// One is ready, and takes this one's place.
    replaced: AtomicBool,
    /// Lanes that no thread runs, for those that ask them something.
    parked: Mutex<Vec<Option<Box<Lane>>>>,
    /// Names of addresses, for elements that are configured anew.
    pub(crate) names: Names,
    /// The memory that devices and packets share.
    pub(crate) dma: memory::Dma,
    /// Who else wants to know what is said, and whether anybody does.
    listeners: Mutex<Vec<Listener>>,
    is_heard: AtomicBool,
    /// What failed first while the router went on.
    failure: OnceLock<String>,
    /// It was told that packets were lost for want of buffers.
    is_lack_told: AtomicBool,
}

/// Is told what the router says to its diagnostic output; must not say anything itself.
pub type Listener = Arc<dyn Fn(&str) + Send + Sync>;

/// Takes a configuration that is to replace the running one; says what is wrong
/// with it. With it comes the element that wrote it, by its number, if one did.
pub type Hotswap = Arc<dyn Fn(&str, Option<&Planned>) -> Result<(), String> + Send + Sync>;

/// What the ports of a router counted up to now, as lines of Prometheus's text format:
/// whoever opens ports knows.
pub type PortSeries = Arc<dyn Fn() -> String + Send + Sync>;

/// What stands behind the name of an element that goes on in the new router with what an
/// element of the old one has begun, whatever the new configuration has: it takes over
/// from the one whose name stands in front.
pub const CONTINUED: &str = "@@continued";

impl RouterShared {
    pub(crate) fn new(plan: Plan, options: Parts) -> RouterShared {
        let Parts {
            clock,
            mailboxes,
            shares,
            console,
            classes,
            tickets,
            hotswap,
            ports,
            names,
            dma,
            thorough,
        } = options;
        RouterShared {
            plan: Arc::new(plan),
            clock,
            simulation: Simulation::new(mailboxes.len()),
            mailboxes,
            shares,
            console,
            runs: AtomicI32::new(1),
            ended: AtomicBool::new(false),
            configs: Mutex::default(),
            untold: Mutex::default(),
            tickets,
            tasked: Mutex::default(),
            classes,
            hotswap,
            ports,
            swapping: AtomicBool::new(false),
            replaced: AtomicBool::new(false),
            parked: Mutex::default(),
            names,
            dma,
            thorough,
            listeners: Mutex::default(),
            is_heard: AtomicBool::new(false),
            failure: OnceLock::new(),
            is_lack_told: AtomicBool::new(false),
        }
    }

    /// A new configuration is being made ready from now on; `false` if one is.
    pub(crate) fn begin_swap(&self) -> bool {
        !self.swapping.swap(true, Ordering::AcqRel)
    }

    /// It is refused: another one may be made ready. One that was accepted is the next to run.
    pub(crate) fn refuse_swap(&self) {
        self.swapping.store(false, Ordering::Release);
    }

    /// Another router takes this one's place: all lanes end.
    pub(crate) fn end_replaced(&self) {
        self.replaced.store(true, Ordering::Release);
        self.end();
    }

    /// Whether another router takes this one's place.
    pub fn is_replaced(&self) -> bool {
        self.replaced.load(Ordering::Acquire)
    }

    fn parked(&self) -> MutexGuard<'_, Vec<Option<Box<Lane>>>> {
        self.parked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves a lane that no thread runs where others find it.
    fn park(&self, lane: Box<Lane>) {
        let mut parked = self.parked();
        if parked.len() <= lane.id {
            parked.resize_with(lane.id + 1, || None);
        }
        let place = lane.id;
        parked[place] = Some(lane);
    }

    /// Takes a lane that no thread runs.
    fn unpark(&self, lane: usize) -> Option<Box<Lane>> {
        self.parked().get_mut(lane)?.take()
    }

    /// Keeps lanes that no thread runs while `work` is done, which may borrow them one
    /// by one ([`lend`](Self::lend)).
    pub(crate) fn keep<R>(&self, lanes: &mut Vec<Lane>, work: impl FnOnce() -> R) -> R {
        lanes.drain(..).for_each(|lane| self.park(Box::new(lane)));
        let result = work();
        lanes.extend(self.parked().drain(..).flatten().map(|lane| *lane));
        result
    }

    /// Whether a lane can be borrowed.
    pub(crate) fn is_kept(&self, lane: usize) -> bool {
        self.parked().get(lane).is_some_and(Option::is_some)
    }

    /// Lends a lane that no thread runs, while others find those beside it.
    pub(crate) fn lend<R>(&self, lane: usize, work: impl FnOnce(&mut Lane) -> R) -> Option<R> {
        let mut lent = self.unpark(lane)?;
        let result = work(&mut lent);
        self.park(lent);
        Some(result)
    }

    /// An element's full name.
    pub fn name(&self, element: usize) -> &str {
        &self.plan.elements[element].name
    }

    /// What an element shares, if it is a `T`.
    pub fn get<T: Any + Send + Sync>(&self, element: usize) -> Option<Arc<T>> {
        self.shares.get(&(element, TypeId::of::<T>()))?.clone().downcast().ok()
    }

    /// What elements share.
    pub(crate) fn shares(&self) -> &Shares {
        &self.shares
    }

    /// Prints to the diagnostic output. A closed one is nobody's loss.
    pub fn say(&self, text: &str) {
        if self.is_heard.load(Ordering::Acquire) {
            let listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner).clone();
            listeners.iter().for_each(|listener| listener(text));
        }
        match &self.console {
            Console::Process | Console::Errors => drop(std::io::stderr().write_all(text.as_bytes())),
            Console::Memory(memory) => memory.lock().unwrap_or_else(PoisonError::into_inner).push_str(text),
        }
    }

    /// Says what failed while the router goes on, and keeps it for whoever asks at the end.
    pub(crate) fn fail(&self, text: &str) {
        self.say(text);
        let _first = self.failure.set(text.trim_end().to_owned());
    }

    /// What failed first while the router went on.
    pub fn failure(&self) -> Option<&str> {
        self.failure.get().map(String::as_str)
    }

    /// What failed in a router whose place this one took is a failure of both.
    pub fn inherit_failure(&self, old: &RouterShared) {
        if let Some(failure) = old.failure() {
            let _first = self.failure.set(failure.to_owned());
        }
    }

    /// Whether nobody told yet that packets were lost for want of buffers: whoever asks first tells it.
    pub(crate) fn is_first_to_tell_lack(&self) -> bool {
        // Relaxed: nothing else depends on it.
        !self.is_lack_told.swap(true, Ordering::Relaxed)
    }

    /// Tells somebody what is said from now on.
    pub(crate) fn listen(&self, listener: Listener) {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner).push(listener);
        self.is_heard.store(true, Ordering::Release);
    }

    /// Prints to the standard output, where the console has one.
    pub fn print(&self, text: &str) {
        match &self.console {
            Console::Errors => drop(std::io::stderr().write_all(text.as_bytes())),
            Console::Process => {
                let mut out = std::io::stdout();
                let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
            }
            Console::Memory(memory) => memory.lock().unwrap_or_else(PoisonError::into_inner).push_str(text),
        }
    }

    /// How many more must want the router to stop.
    pub fn runs(&self) -> i32 {
        self.runs.load(Ordering::Acquire)
    }

    pub(crate) fn adjust_runs(&self, by: i32) {
        let adjust = |runs: i32| Some(if runs == i32::MIN { runs } else { runs.saturating_add(by) });
        let before = self.runs.fetch_update(Ordering::AcqRel, Ordering::Acquire, adjust).unwrap_or(0);
        if before.saturating_add(by) <= 0 {
            self.mailboxes[0].wakeup.wake();
        }
    }

    /// Has time pass in another way; `false` when it is simulated.
    pub(crate) fn set_pace(&self, pace: Pace) -> bool {
        self.simulation.begin_anew();
        let is_set = self.clock.set_pace(pace);
        // They sleep for too long, or too short.
        self.mailboxes.iter().for_each(|mailbox| mailbox.wakeup.wake());
        is_set
    }

    /// Has the router stop, whatever others want. A driver's script goes through what it
    /// has to do first, without waiting.
    pub fn halt(&self) {
        self.runs.store(i32::MIN, Ordering::Release);
        self.mailboxes[0].wakeup.wake();
    }

    /// Ends all lanes, as soon as what they do is done.
    pub fn end(&self) {
        self.ended.store(true, Ordering::Release);
        self.mailboxes.iter().for_each(|mailbox| mailbox.wakeup.wake());
    }

    /// Whether all lanes end.
    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// An element's configuration with all that handlers changed.
    pub(crate) fn real_config(&self, element: usize) -> String {
        let untold = self.untold.lock().unwrap_or_else(PoisonError::into_inner);
        untold.get(&element).cloned().unwrap_or_else(|| self.config(element))
    }

    pub(crate) fn set_real_config(&self, element: usize, config: String) {
        self.untold.lock().unwrap_or_else(PoisonError::into_inner).insert(element, config);
    }

    pub(crate) fn set_config(&self, element: usize, config: String) {
        self.untold.lock().unwrap_or_else(PoisonError::into_inner).remove(&element);
        self.configs.lock().unwrap_or_else(PoisonError::into_inner).insert(element, config);
    }

    /// An element's configuration, as it is now.
    pub fn config(&self, element: usize) -> String {
        let configs = self.configs.lock().unwrap_or_else(PoisonError::into_inner);
        configs.get(&element).unwrap_or(&self.plan.elements[element].config).clone()
    }

    pub(crate) fn tickets(&self, element: usize) -> Option<u32> {
        self.tickets.get(&element).copied()
    }

    pub(crate) fn note_task(&self, element: usize) {
        self.tasked.lock().unwrap_or_else(PoisonError::into_inner).insert(element);
    }

    pub(crate) fn has_tasks(&self, element: usize) -> bool {
        self.tasked.lock().unwrap_or_else(PoisonError::into_inner).contains(&element)
    }
}
