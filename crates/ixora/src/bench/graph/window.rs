//! One window: a fresh router, so many packets through it, and what that took.

use std::sync::{Arc, Mutex};

use element::io::outlets::Outlets;
use graph::lang::{self, Source};
use graph::setup::Services;
use graph::{Console, Router};
use memory::Dma;

use super::stepped::{self, Gauge, Measured, Setup};
use super::workload::{self, OnPorts};
use crate::Failure;

/// Where a router's threads run.
#[derive(Debug, Clone)]
pub struct Threads {
    pub count: usize,
    pub cores: Vec<usize>,
}

fn build(text: &str, defines: Vec<(String, String)>, options: graph::Options) -> Result<Router, Failure> {
    let registry = element::registry();
    let language =
        lang::Options { defines, known_class: &|name| registry.find(name).is_some(), ..Default::default() };
    let flat = lang::read(vec![Source::new("bench", text)], &language)
        .map_err(|problems| Failure::new(problems.to_string()))?;
    let console = Console::Memory(Arc::new(Mutex::new(String::new())));
    Router::build(text, flat, &registry, graph::Options { console, ..options }).map_err(|problems| {
        Failure::new(problems.iter().map(|p| format!("{}\n", p.message)).collect::<String>())
    })
}

/// Packets from memory: TSC cycles of all threads for each of them.
pub fn from_memory(name: &str, batch: usize, packets: u64, threads: &Threads) -> Result<f64, Failure> {
    let each = packets / threads.count as u64;
    let defines = vec![("burst".into(), batch.to_string()), ("limit".into(), each.to_string())];
    let options =
        graph::Options { threads: threads.count, cores: threads.cores.clone(), ..Default::default() };
    let mut router = build(&workload::from_memory(name, threads.count)?, defines, options)?;
    let start = bus::tsc::now();
    run_measured(&mut router);
    let ticks = bus::tsc::now().wrapping_sub(start);
    for thread in 0..threads.count {
        let sent = router.read(&format!("src{thread}.count"), "").unwrap_or_default();
        if sent != each.to_string() {
            return Err(Failure::new(format!("{name}: {sent} packets of {each} went through")));
        }
    }
    Ok(ticks as f64 * threads.count as f64 / (each * threads.count as u64) as f64)
}

/// Not inlined, so that callgrind can tell it by name.
#[inline(never)]
fn run_measured(router: &mut Router) {
    router.run();
}

/// Packets from lean devices: what each thread did. What the router lost in between
/// is an error: it would be cheaper than to forward it.
pub fn on_ports(
    on: &OnPorts,
    frames: Vec<Vec<Vec<u8>>>,
    packets: u64,
    setup: Setup,
    threads: &Threads,
) -> Result<Vec<Measured>, Failure> {
    let receiving = setup.receiving.min(on.ports);
    let gauge = Arc::new(Gauge::new(receiving, packets / receiving as u64));
    let dma = Dma::new(memory::Options::default());
    let (memory, counter) = (dma.clone(), gauge.clone());
    let mut frames = Some(frames);
    let outlets = Arc::new(Outlets::new(Box::new(move |_| {
        let frames = frames.take().unwrap_or_default();
        stepped::open(&memory, frames, setup, &counter).map_err(|failure| failure.to_string())
    })));
    let mut services = Services::default();
    services.add(outlets.clone());
    let options = graph::Options {
        threads: threads.count,
        cores: threads.cores.clone(),
        dma,
        services,
        prepare: Some(Box::new(move |elements| outlets.open(elements))),
        ..Default::default()
    };
    let mut router = build(&on.text, on.defines.clone(), options)?;
    let _first = gauge.router.set(router.shared());
    router.run();
    router.cleanup();
    Ok(gauge.measured())
}
