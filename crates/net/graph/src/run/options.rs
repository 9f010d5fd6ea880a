//! What a router is built with, beside its configuration: threads, memory, where it prints,
//! what elements find outside of the graph, and what is asked or done while it is built.

use std::sync::Arc;

use memory::Dma;

use crate::clock::Clock;
use crate::lang::Problem;
use crate::plan::configure::Inputs;
use crate::plan::setup::Services;
use crate::plan::single::Batching;
use crate::plan::{MAX_THREADS, Planned};
use crate::run::fused::Region;
use crate::run::handlers::Further;
use crate::run::shared::{Console, Hotswap, PortSeries};

/// How a router is built.
pub struct Options {
    /// Threads that run it.
    pub threads: usize,
    /// Cores that the threads are bound to, in order; none are bound without.
    pub cores: Vec<usize>,
    /// Where its threads and elements have the time from: real or simulated.
    pub clock: Arc<Clock>,
    /// Where it prints.
    pub console: Console,
    /// Memory of its packets, shared with devices.
    pub dma: Dma,
    /// Packet buffers a thread may have; without, as many as its elements may hold and
    /// [`BASE`](crate::plan::buffers::BASE) more, as far as the machine has memory.
    pub buffers: Option<usize>,
    /// Counts packets and cycles for each element.
    pub measure: bool,
    /// Takes a configuration that is to replace this one.
    pub hotswap: Option<Hotswap>,
    /// What the router's ports counted, as its handler `ports` tells it.
    pub ports: Option<PortSeries>,
    /// What elements get from outside the configuration.
    pub services: Services,
    /// Which packets go one by one.
    pub batching: Batching,
    /// Looks for all that is wrong at once, for headers that elements need and nobody
    /// found, and for elements that nothing reaches ([`check`](crate::plan::check)). Without
    /// it a router is refused for what Click refuses it for.
    pub thorough: bool,
    /// Called when it is known which threads reach which elements, before there are
    /// buffers: opens ports with as many queues as are needed.
    pub prepare: Option<Prepare>,
    /// Parts of the configuration that programs were made of ([`fused`](crate::run::fused)). Where
    /// packets are counted for each element they are left as they are.
    pub fused: &'static [Region],
    /// Whether elements one behind the other become programs when the router is loaded
    /// ([`chain`](crate::run::fused::chain)); not where programs were made of the configuration.
    pub chains: bool,
}

/// What is called before ports are opened: see [`Options::prepare`].
pub type Prepare = Box<dyn FnOnce(&[Planned]) -> Result<(), Box<Problem>>>;

impl Default for Options {
    fn default() -> Options {
        Options {
            threads: 1,
            cores: vec![],
            clock: Arc::new(Clock::real()),
            console: Console::Process,
            dma: Dma::new(memory::Options { backing: memory::Backing::Memfd, ..Default::default() }),
            buffers: None,
            measure: false,
            hotswap: None,
            ports: None,
            services: Services::default(),
            batching: Batching::default(),
            thorough: false,
            prepare: None,
            fused: &[],
            chains: true,
        }
    }
}

impl Options {
    /// Which handlers there are beside those of each router.
    pub(super) fn further_handlers(&self) -> Further {
        Further { hotswap: self.hotswap.is_some(), beyond_click: self.thorough }
    }

    /// What configuring takes of them.
    pub(super) fn inputs(&self) -> Inputs<'_> {
        Inputs {
            threads: self.threads.clamp(1, MAX_THREADS),
            thorough: self.thorough,
            batching: self.batching,
            dma: &self.dma,
            services: &self.services,
        }
    }
}
