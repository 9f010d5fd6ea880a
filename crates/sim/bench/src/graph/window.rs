//! One window: a fresh router, so many packets through it, and what that took.

use std::sync::{Arc, Mutex};

use element::io::router_ports::RouterPorts;
use graph::fused::Region;
use graph::lang::{self, Source};
use graph::{Class, Console, Router, Services};
use memory::Dma;
use testbed::inprocess;

use super::stepped::{self, Gauge, Measured, Setup};
use super::workload::{self, OnPorts};
use crate::two_cores::no_thread;
use crate::{Error, Result};

/// Where a router's threads run.
#[derive(Debug, Clone)]
pub struct Threads {
    /// How many there are.
    pub count: usize,
    /// The core of each.
    pub cores: Vec<usize>,
}

/// Builds a router of our elements and of `classes`, which says what it has to say to nobody.
pub(crate) fn build(
    text: &str,
    defines: Vec<(String, String)>,
    classes: &[&'static Class],
    options: graph::Options,
) -> Result<Router> {
    let mut registry = element::registry().with(analysis::registry());
    classes.iter().for_each(|class| registry.add(class));
    let language =
        lang::Options { defines, known_class: &|name| registry.find(name).is_some(), ..Default::default() };
    let flat = lang::read(vec![Source::new("bench", text)], &language)
        .map_err(|problems| Error::new(problems.to_string()))?;
    let console = Console::Memory(Arc::new(Mutex::new(String::new())));
    Router::build(text, flat, &registry, graph::Options { console, ..options }).map_err(|problems| {
        Error::new(problems.iter().map(|p| format!("{}\n", p.message)).collect::<String>())
    })
}

/// A router fed from memory.
#[derive(Debug, Clone)]
pub struct FromMemory {
    /// Its configuration, with a `FlowSource` for each thread.
    pub text: String,
    /// The programs that were made of it, if it is compiled.
    pub regions: &'static [Region],
    /// Each element's packets, batches and cycles are counted (`--measure`).
    pub counting: bool,
}

impl FromMemory {
    /// A workload as `ixora click` would run it.
    ///
    /// # Errors
    /// When there is none of this name.
    pub fn new(name: &str, threads: usize) -> Result<FromMemory> {
        Ok(FromMemory { text: workload::from_memory(name, threads)?, regions: &[], counting: false })
    }

    /// One window: TSC cycles of all threads for each packet.
    pub fn window(&self, batch: usize, packets: u64, threads: &Threads) -> Result<f64> {
        let each = packets / threads.count as u64;
        let options = graph::Options {
            threads: threads.count,
            cores: threads.cores.clone(),
            fused: self.regions,
            measure: self.counting,
            ..Default::default()
        };
        let mut router = build(&self.text, vec![], &[], options)?;
        for thread in 0..threads.count {
            let mut set = |handler: &str, value: String| {
                let written = router.write(&format!("src{thread}.{handler}"), &value);
                written.map_err(|refused| Error::new(format!("src{thread}.{handler}: {refused}")))
            };
            set("burst", batch.to_string())?;
            set("limit", each.to_string())?;
        }
        let start = bus::tsc::now();
        run_measured(&mut router);
        let ticks = bus::tsc::now().wrapping_sub(start);
        for thread in 0..threads.count {
            let sent = router.read(&format!("src{thread}.count"), "").unwrap_or_default();
            if sent != each.to_string() {
                return Err(Error::new(format!("{sent} packets of {each} went through")));
            }
        }
        Ok(ticks as f64 * threads.count as f64 / (each * threads.count as u64) as f64)
    }
}

/// Not inlined, so that callgrind can tell it by name.
#[inline(never)]
fn run_measured(router: &mut Router) {
    router.run();
}

/// What a router on ports did.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// What each receiving thread did.
    pub threads: Vec<Measured>,
    /// The share of packets that found room in queues and transmit rings.
    pub kept: f64,
}

/// Packets from minimal devices.
pub fn on_ports(
    on: &OnPorts,
    frames: Vec<Vec<Vec<u8>>>,
    packets: u64,
    setup: Setup,
    threads: &Threads,
) -> Result<Outcome> {
    let receiving = setup.receiving.min(on.ports);
    let gauge = Arc::new(Gauge::new(receiving, packets / receiving as u64));
    let dma = Dma::new(memory::Options::default());
    let (memory, counter) = (dma.clone(), gauge.clone());
    let mut frames = Some(frames);
    let router_ports = Arc::new(RouterPorts::new(Box::new(move |_| {
        let frames = frames.take().unwrap_or_default();
        stepped::open(&memory, frames, setup, &counter).map_err(|error| error.to_string())
    })));
    let mut services = Services::default();
    services.add(router_ports.clone());
    let options = graph::Options {
        threads: threads.count,
        cores: threads.cores.clone(),
        dma,
        services,
        prepare: Some(Box::new(move |elements| router_ports.open(elements))),
        ..Default::default()
    };
    let mut router = build(&on.text, on.defines.clone(), &[], options)?;
    let _first = gauge.router.set(router.shared());
    router.run();
    router.cleanup();
    let kept = 1.0 - lost(&mut router) as f64 / gauge.seen().max(1) as f64;
    // A driver waits for its device to let go of its rings.
    let devices = gauge.devices.get().map_or(&[][..], Vec::as_slice);
    inprocess::while_stepping(devices, || drop(router)).map_err(no_thread)?;
    Ok(Outcome { threads: gauge.measured(), kept })
}

/// Packets that transmit rings, and what stands in front of them, had no room for.
fn lost(router: &mut Router) -> u64 {
    let names = router.read("list", "").unwrap_or_default();
    let counters =
        names.lines().skip(1).flat_map(|name| [format!("{name}.dropped"), format!("{name}.drops")]);
    counters.filter_map(|counter| router.read(&counter, "").ok()?.parse::<u64>().ok()).sum()
}
