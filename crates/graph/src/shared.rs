//! What all lanes of a router share.

use std::any::{Any, TypeId};
use std::collections::{HashMap, HashSet};
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::clock::Clock;
use crate::inbox::Inbox;
use crate::plan::Plan;
use crate::setup::Shares;

/// Where a router prints.
#[derive(Debug, Clone, Default)]
pub enum Console {
    /// To the process's standard output and standard error.
    #[default]
    Process,
    /// Into memory, both together: for tests.
    Memory(Arc<Mutex<String>>),
}

/// What a [`Shared`] is made of beside its plan.
pub(crate) struct Parts {
    pub(crate) clock: Arc<Clock>,
    pub(crate) inboxes: Vec<Arc<Inbox>>,
    pub(crate) shares: Shares,
    pub(crate) console: Console,
    pub(crate) classes: Vec<&'static str>,
    pub(crate) tickets: HashMap<usize, u32>,
    pub(crate) heir: Option<Heir>,
}

/// What all lanes share.
pub struct Shared {
    /// What is known of the router.
    pub plan: Plan,
    pub(crate) clock: Arc<Clock>,
    pub(crate) inboxes: Vec<Arc<Inbox>>,
    shares: Shares,
    console: Console,
    /// How many more must want the router to stop.
    runs: AtomicI32,
    /// All lanes end.
    ended: AtomicBool,
    /// Configurations that changed while running.
    configs: Mutex<HashMap<usize, String>>,
    /// Tickets that the configuration gives elements' tasks.
    tickets: HashMap<usize, u32>,
    /// Elements that have tasks.
    tasked: Mutex<HashSet<usize>>,
    /// The names of all classes.
    pub(crate) classes: Vec<&'static str>,
    /// What becomes of a new configuration.
    pub(crate) heir: Option<Heir>,
    /// One is being made ready.
    swapping: AtomicBool,
}

/// Takes a configuration that is to replace the running one; says what is wrong
/// with it.
pub type Heir = Arc<dyn Fn(&str) -> Result<(), String> + Send + Sync>;

impl Shared {
    pub(crate) fn new(plan: Plan, options: Parts) -> Shared {
        let Parts { clock, inboxes, shares, console, classes, tickets, heir } = options;
        Shared {
            plan,
            clock,
            inboxes,
            shares,
            console,
            runs: AtomicI32::new(1),
            ended: AtomicBool::new(false),
            configs: Mutex::default(),
            tickets,
            tasked: Mutex::default(),
            classes,
            heir,
            swapping: AtomicBool::new(false),
        }
    }

    /// A new configuration is being made ready from now on; `false` if one is.
    pub(crate) fn begin_swap(&self) -> bool {
        !self.swapping.swap(true, Ordering::AcqRel)
    }

    /// It is ready, or refused.
    pub(crate) fn end_swap(&self) {
        self.swapping.store(false, Ordering::Release);
    }

    /// An element's full name.
    pub fn name(&self, element: usize) -> &str {
        &self.plan.elements[element].name
    }

    /// What an element shares, if it is a `T`.
    pub fn get<T: Any + Send + Sync>(&self, element: usize) -> Option<Arc<T>> {
        self.shares.get(&(element, TypeId::of::<T>()))?.clone().downcast().ok()
    }

    /// Prints to the diagnostic output. A closed one is nobody's loss.
    pub fn say(&self, text: &str) {
        match &self.console {
            Console::Process => drop(std::io::stderr().write_all(text.as_bytes())),
            Console::Memory(memory) => memory.lock().unwrap_or_else(PoisonError::into_inner).push_str(text),
        }
    }

    /// Prints to the standard output.
    pub fn print(&self, text: &str) {
        match &self.console {
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
        let before = self.runs.fetch_add(by, Ordering::AcqRel);
        if before + by <= 0 {
            self.inboxes[0].ring();
        }
    }

    /// Ends all lanes, as soon as what they do is done.
    pub fn end(&self) {
        self.ended.store(true, Ordering::Release);
        self.inboxes.iter().for_each(|inbox| inbox.ring());
    }

    /// Whether all lanes end.
    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    pub(crate) fn set_config(&self, element: usize, config: String) {
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
