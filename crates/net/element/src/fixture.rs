//! A router of one configuration, run in simulated time: what tests, fuzzers and
//! examples use.

use std::sync::{Arc, Mutex, PoisonError};

use graph::clock::{Clock, SIMULATION_START_NS};
use graph::lang::{self, Flat, Source};
use graph::{Console, Options, Refused, Registry, Router, RouterShared};

/// A router and what it printed.
pub struct Rig {
    /// The router; its time is simulated if it has one thread.
    pub router: Router,
    printed: Arc<Mutex<String>>,
}

/// Ends a router when it is dropped: who panics beside a router that another thread of the
/// same scope runs would wait for that thread without a limit.
pub struct EndOnDrop(pub Arc<RouterShared>);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Reads a configuration of known classes.
///
/// # Errors
/// All that is wrong with it, as it is shown to people.
pub fn flatten(config: &str, registry: &Registry) -> Result<Flat, String> {
    let options = lang::Options {
        known_class: &|name| registry.find(name).is_some(),
        class_names: &|| registry.names().map(str::to_string).collect(),
        ..lang::Options::default()
    };
    lang::read(vec![Source::new("config", config)], &options).map_err(|problems| problems.to_string())
}

impl Rig {
    /// Builds a router of known classes; with more than one thread its time is real.
    ///
    /// # Errors
    /// All that is wrong with the configuration.
    pub fn new(config: &str, registry: &Registry, threads: usize) -> Result<Rig, String> {
        let clock = if threads == 1 { Clock::simulated(SIMULATION_START_NS) } else { Clock::real() };
        let options = Options { threads, clock: Arc::new(clock), ..Options::default() };
        Rig::build(config, flatten(config, registry)?, registry, options)
    }

    /// Builds a router of a configuration that was read. What it prints is kept here.
    ///
    /// # Errors
    /// All that its elements say is wrong with it.
    pub fn build(config: &str, flat: Flat, registry: &Registry, options: Options) -> Result<Rig, String> {
        let printed = Arc::new(Mutex::new(String::new()));
        let options = Options { console: Console::Memory(printed.clone()), ..options };
        let router = Router::build(config, flat, registry, options)
            .map_err(|problems| problems.iter().map(|p| p.text() + "\n").collect::<String>())?;
        Ok(Rig { router, printed })
    }

    /// Runs until the router stops.
    pub fn run(&mut self) -> &mut Rig {
        self.router.run();
        self.router.cleanup();
        self
    }

    /// Reads a handler; what it refused, if it did.
    pub fn read(&mut self, name: &str) -> String {
        self.router.read(name, "").unwrap_or_else(|refused| format!("refused: {refused}"))
    }

    /// Writes a handler.
    ///
    /// # Errors
    /// When it refuses.
    pub fn write(&mut self, name: &str, value: &str) -> Result<(), Refused> {
        self.router.write(name, value)
    }

    /// What was printed so far, standard output and diagnostics together.
    pub fn printed(&self) -> String {
        self.printed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
