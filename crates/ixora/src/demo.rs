//! `ixora demo`: two modelled 82599s in a process of their own, our driver
//! attached to both over vfio-user, generators on their wires, a forwarder
//! between them; and at the end books that balance.

mod books;
mod models;

use std::fs::DirBuilder;
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;
use testbed::serve::Report;
use testbed::wire::Spec;

use crate::apps::fwd::Forward;
use crate::cli::{Hugepages, PortOptions};
use crate::open::Ports;
use crate::run::{Crew, Outcome, Progress};
use crate::summary::Summary;
use crate::{Failure, cli, open, run, serve, signal};
use books::Books;
use models::Models;

/// What is under way has arrived when nothing has moved for this long.
const QUIET: Duration = Duration::from_millis(250);
/// How long it may take to arrive once the generators stopped.
const DRAIN: Duration = Duration::from_secs(5);

/// Runs the demo; fails when the books do not balance or nothing moved.
pub fn run(arguments: &cli::Demo) -> Result<(), Failure> {
    let interrupted = signal::stop_flag()?;
    // The driver and the models get a core each, where there are two.
    let (ours, theirs) = match run::usable_cores()[..] {
        [ours, theirs, ..] => (Some(ours), Some(theirs)),
        _ => (None, None),
    };
    let wire = format!("gen:size={},rate={},flows=64,hold+sink:check=tag", arguments.size, arguments.rate);
    wire.parse::<Spec>()?;
    if !arguments.json {
        println!("two 82599 models with wires {wire}");
        println!("our driver attaches over vfio-user and forwards both ways for {:?}", arguments.duration);
    }
    let mut models = Models::start(&wire, theirs, arguments.no_confine)?;
    let options = port_options(arguments, ours);
    let names = models.ports();
    let mut ports = open::ports(&names.each_ref().map(String::as_str), &options, &interrupted)?;
    let Outcome { summary, pieces, failure } =
        forward(&mut ports, &mut models, &options, arguments.duration, &interrupted)?;
    // Without the models' side there are no books, but what we counted is shown.
    let report = match &failure {
        None => models.report(),
        Some(_) => Err(Failure::new("the run did not come to its end")),
    };
    drop(ports);
    drop(models);
    let (report, missing) = match report {
        Ok(report) => (Some(report), None),
        Err(missing) => (None, Some(missing)),
    };
    let books = report.as_ref().and_then(|report| Books::new(&pieces, report));
    match arguments.json {
        true => println!("{:#}", json!({ "summary": summary, "books": books, "models": report })),
        false => print(&summary, books.as_ref(), report.as_ref()),
    }
    if let Some(failure) = failure.or(missing) {
        return Err(failure);
    }
    let books = books.ok_or_else(|| Failure::new("the models' report is not about two devices"))?;
    books.verdict(interrupted.load(Ordering::Relaxed))
}

fn print(summary: &Summary, books: Option<&Books>, report: Option<&Report>) {
    summary.print(false);
    if let (Some(books), Some(report)) = (books, report) {
        books.print();
        report.endpoints.iter().for_each(|endpoint| serve::print_findings(&endpoint.device.findings));
        println!("{NEXT}");
    }
}

const NEXT: &str = "
try next:
  ixora demo --rate max                         as fast as the model can feed the driver
  ixora model 82599 --socket /tmp/nic --wire gen:size=64,rate=1M
  ixora pcap vfio-user:/tmp/nic out.pcapng      and open it in Wireshark
  ixora bench driver                            cycles per packet, batch by batch
  ixora doctor                                  what this machine needs for a real NIC";

fn port_options(arguments: &cli::Demo, core: Option<usize>) -> PortOptions {
    PortOptions {
        batch: arguments.batch,
        ring: arguments.ring,
        rx_ring: None,
        tx_ring: None,
        queues: 1,
        threads: 1,
        cpu: core.into_iter().collect(),
        hugepages: Hugepages::Auto,
        numa: None,
        max_frame: arguments.size.saturating_sub(4).max(1514),
        promiscuous: true,
        no_promiscuous: false,
        interrupts: false,
        head_writeback: false,
        duration: None,
        count: None,
        json: arguments.json,
        quiet: arguments.quiet,
        no_confine: arguments.no_confine,
    }
}

/// Forwards until the time is over or a signal comes, then lets what is under
/// way arrive.
fn forward(
    ports: &mut Ports,
    models: &mut Models,
    options: &PortOptions,
    duration: Duration,
    interrupted: &AtomicBool,
) -> Result<Outcome, Failure> {
    let mut work: Vec<Box<dyn run::Work>> = Vec::new();
    for (from, to) in [(0, 1), (1, 0)] {
        work.push(Box::new(Forward { rx: ports.rx(from, 0)?, tx: ports.tx(to, 0)?, touch: true }));
    }
    let (stop, progress) = (Arc::new(AtomicBool::new(false)), Arc::new(Progress::default()));
    let crew = Crew::new(ports, work, options, &stop, &progress)?;
    let confinement = ports.confine(options, models.process())?;
    Ok(thread::scope(|scope| {
        scope.spawn(|| {
            models.start_sources();
            let end = Instant::now() + duration;
            let stopped = || stop.load(Ordering::Relaxed);
            while !interrupted.load(Ordering::Relaxed) && !stopped() && Instant::now() < end {
                thread::sleep(Duration::from_millis(10));
            }
            models.stop_sources();
            drain(&progress, &stop);
            stop.store(true, Ordering::Relaxed);
        });
        crew.measure("demo", ports, options, confinement)
    }))
}

/// Waits until nothing moves any more.
fn drain(progress: &Progress, stop: &AtomicBool) {
    let limit = Instant::now() + DRAIN;
    let (mut seen, mut since) = (0, Instant::now());
    while since.elapsed() < QUIET && Instant::now() < limit && !stop.load(Ordering::Relaxed) {
        let now = progress.packets.load(Ordering::Relaxed);
        if now != seen {
            (seen, since) = (now, Instant::now());
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// Bytes of a socket's path, without the NUL (unix(7), `sun_path`).
const LONGEST_PATH: usize = 107;

/// A directory that goes when this goes.
struct Scratch(PathBuf);

impl Scratch {
    /// Makes one that only this user can look into; a name that somebody else
    /// left there is not taken.
    fn new() -> Result<Scratch, Failure> {
        let place = std::env::temp_dir();
        let mut made = None;
        for n in 0..100 {
            let path = place.join(format!("ixora-demo-{}-{n}", std::process::id()));
            if path.as_os_str().len() + "/a".len() > LONGEST_PATH {
                let place = place.display();
                return Err(
                    Failure::new(format!("{place} is too long a path for sockets")).fix("export TMPDIR=/tmp")
                );
            }
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Scratch(path)),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => {
                    made = Some(error);
                    break;
                }
            }
        }
        let why = made.map_or("too many are there already".to_owned(), |error| error.to_string());
        Err(Failure::new(format!("cannot make a directory for sockets in {}: {why}", place.display()))
            .fix("export TMPDIR=/some/writable/directory"))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What is left of it lies in the system's temporary directory.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
