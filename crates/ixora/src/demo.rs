//! `ixora demo`: two modelled 82599s in a process of their own, our driver
//! attached to both over vfio-user, generators on their wires, a forwarder
//! between them; and at the end books that balance.

mod books;
mod models;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::apps::fwd::Forward;
use crate::cli::{Hugepages, PortOptions};
use crate::open::Ports;
use crate::summary::Summary;
use crate::{Failure, cli, open, run, serve, signal};
use books::Books;
use models::Models;

/// How long what is under way may take to arrive once the generators stopped.
const DRAIN: Duration = Duration::from_millis(300);

/// Runs the demo; fails when the books do not balance or nothing moved.
pub fn run(arguments: &cli::Demo) -> Result<(), Failure> {
    let interrupted = signal::stop_flag()?;
    let two_cores = thread::available_parallelism().is_ok_and(|cores| cores.get() > 1);
    let wire = format!("gen:size={},rate={},flows=64,hold+sink:check=tag", arguments.size, arguments.rate);
    if !arguments.json {
        println!("two 82599 models with wires {wire}");
        println!("our driver attaches over vfio-user and forwards both ways for {:?}", arguments.duration);
    }
    let mut models = Models::start(&wire, two_cores.then_some(1))?;
    let options = port_options(arguments, two_cores);
    let names = models.ports();
    let mut ports = open::ports(&names.iter().collect::<Vec<_>>(), &options)?;
    let summary = forward(&mut ports, &mut models, &options, arguments.duration, &interrupted)?;
    let report = models.report()?;
    drop(ports);
    models.stop();
    let books = Books::new(&summary, &report);
    match arguments.json {
        true => books.print_json(&summary, &report),
        false => {
            summary.print(false);
            books.print();
            report.endpoints.iter().for_each(|endpoint| serve::print_findings(&endpoint.device.findings));
            println!("{NEXT}");
        }
    }
    summary.verdict()?;
    books.verdict()
}

const NEXT: &str = "
try next:
  ixora demo --rate max                         as fast as the model can feed the driver
  ixora model 82599 --socket /tmp/nic --wire gen:size=64,rate=1M
  ixora pcap vfio-user:/tmp/nic out.pcapng      and open it in Wireshark
  ixora bench driver                            cycles per packet, batch by batch
  ixora doctor                                  what this machine needs for a real NIC";

fn port_options(arguments: &cli::Demo, two_cores: bool) -> PortOptions {
    PortOptions {
        batch: arguments.batch,
        ring: arguments.ring,
        rx_ring: None,
        tx_ring: None,
        queues: 1,
        threads: 1,
        cpu: if two_cores { vec![0] } else { Vec::new() },
        hugepages: Hugepages::Auto,
        numa: None,
        max_frame: 1514,
        no_promiscuous: false,
        interrupts: false,
        head_writeback: false,
        duration: None,
        json: arguments.json,
        quiet: arguments.quiet,
    }
}

/// Forwards until the time is over or a signal comes, then lets what is under
/// way arrive.
fn forward(
    ports: &mut Ports,
    models: &mut Models,
    options: &PortOptions,
    duration: Duration,
    interrupted: &Arc<AtomicBool>,
) -> Result<Summary, Failure> {
    let mut work: Vec<Box<dyn run::Work>> = Vec::new();
    for (from, to) in [(0, 1), (1, 0)] {
        work.push(Box::new(Forward { rx: ports.rx(from, 0)?, tx: ports.tx(to, 0)?, touch: true }));
    }
    let stop = Arc::new(AtomicBool::new(false));
    thread::scope(|scope| {
        let (ended, interrupted) = (stop.clone(), interrupted.clone());
        scope.spawn(move || {
            models.start_sources();
            let end = Instant::now() + duration;
            let running = || !interrupted.load(Ordering::Relaxed) && !ended.load(Ordering::Relaxed);
            while running() && Instant::now() < end {
                thread::sleep(Duration::from_millis(20));
            }
            models.stop_sources();
            thread::sleep(DRAIN);
            ended.store(true, Ordering::Relaxed);
        });
        run::measure("demo", ports, work, options, &stop)
    })
}

/// A directory that goes when this goes.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Scratch, Failure> {
        let path = std::env::temp_dir().join(format!("ixora-demo-{}", std::process::id()));
        let failed = |error| Failure::new(format!("cannot make {}: {error}", path.display()));
        std::fs::create_dir(&path).map_err(failed)?;
        Ok(Scratch(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What is left of it lies in the system's temporary directory.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
