//! `ixora demo`: two models of a NIC in a process of their own, our driver
//! attached to both over vfio-user, generators on their wires, a forwarder
//! between them; and at the end accounts that balance, and a verdict on the forwarder.

mod accounts;
mod models;
pub mod samples;
mod verdict;

use std::fs::DirBuilder;
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use app::Forward;
use clap::Args;
use port::setting::Numbers;
use runtime::{Poller, Progress, cores};
use serde_json::json;
use testbed::serve::Report;
use testbed::wire::Spec;
use testbed::{MODELS, Model};

use crate::cli::{Confine, PortOptions};
use crate::open::{PortFindings, Ports};
use crate::rate::{Rate, duration};
use crate::run::Outcome;
use crate::summary::Summary;
use crate::{Failure, open, run, signal};
use accounts::Accounts;
use models::Models;
use samples::{Sampler, Samples};
use verdict::{Evidence, Verdict};

#[derive(Args, Debug)]
pub struct Demo {
    #[arg(long, default_value = MODELS[0].name, help = format!("The model that both NICs are: {}", testbed::models::names("or")))]
    pub nic: String,
    /// How long generators send.
    #[arg(long, default_value = "10s", value_parser = duration)]
    pub duration: Duration,
    /// Packets per second offered to each port. The default is what two cores do without
    /// loss, one for the driver and one for both models; 14.88M is 10 Gbit/s of 64 bytes.
    #[arg(long, default_value = "1M")]
    pub rate: Rate,
    /// Frame size in bytes, with CRC.
    #[arg(long, default_value_t = 64)]
    pub size: usize,
    /// Packets in a batch, 1 to 256.
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub batch: u16,
    /// Descriptors in each ring: a power of two, 64 to 4096.
    #[arg(long, default_value_t = 512, value_parser = ring)]
    pub ring: usize,
    /// Print the summary as JSON, and nothing else.
    #[arg(long)]
    pub json: bool,
    /// No live line.
    #[arg(long, short)]
    pub quiet: bool,
    #[command(flatten)]
    pub confine: Confine,
}

/// Descriptors in a ring.
fn ring(text: &str) -> Result<usize, String> {
    Numbers::RING.parse(text)
}

/// How long the models may take to see that a port was closed. It only bounds a hang.
const CLOSE: Duration = Duration::from_secs(5);

/// Runs the demo; fails when the forwarder does not do what a working one does.
pub fn run(arguments: &Demo) -> Result<(), Failure> {
    let model = Model::named(&arguments.nic)?;
    let interrupted = signal::stop_flag()?;
    // The driver and the models get a core each, where there are two.
    let (ours, theirs) = match cores::usable()[..] {
        [ours, theirs, ..] => (Some(ours), Some(theirs)),
        _ => (None, None),
    };
    let wire = format!("gen:size={},rate={},flows=64,hold+sink:check=tag", arguments.size, arguments.rate);
    wire.parse::<Spec>()?;
    if !arguments.json {
        println!("two {} models with wires {wire}", model.name);
        println!("our driver attaches over vfio-user and forwards both ways for {:?}", arguments.duration);
    }
    let mut models = Models::start(model.name, &wire, theirs, arguments.confine)?;
    let options = port_options(arguments, ours);
    let names = models.ports();
    let mut ports = open::ports(&names.each_ref().map(String::as_str), &options, &interrupted)?;
    let (Outcome { mut summary, pollers, failure }, sampled) =
        forward(&mut ports, &mut models, &options, arguments.duration, &interrupted)?;
    drop(ports);
    let (samples, missing) = match sampled {
        Ok(samples) => (samples, None),
        Err(missing) => (Samples::default(), Some(missing)),
    };
    // Without the models' side there are no accounts, but what we counted is shown.
    let report = match failure.or(missing) {
        None => closed(&mut models),
        Some(failure) => Err(failure),
    };
    drop(models);
    let accounts = report.as_ref().ok().and_then(|report| Accounts::new(&pollers, report));
    let verdict = accounts.as_ref().zip(report.as_ref().ok()).map(|(accounts, report)| {
        let frame_buffers = arguments.size.saturating_sub(4).div_ceil(memory::DATA_ROOM).max(1);
        Verdict::new(&Evidence {
            accounts,
            samples: &samples,
            report,
            missing_buffers: summary.missing_buffers,
            ring: (arguments.ring / frame_buffers) as u64,
            unlimited: arguments.rate.0.is_none(),
            interrupted: interrupted.load(Ordering::Relaxed),
        })
    });
    if let Ok(report) = &report {
        summary.findings = linted(&names, report);
    }
    match arguments.json {
        true => {
            let models = report.as_ref().ok();
            println!(
                "{:#}",
                json!({ "summary": summary, "accounts": accounts, "verdict": verdict, "models": models })
            );
        }
        false => print(&summary, accounts.as_ref(), verdict.as_ref()),
    }
    report?;
    end(&verdict.ok_or_else(samples::not_two)?)
}

/// The models' report once both ports are closed, so that closing is judged as well.
fn closed(models: &mut Models) -> Result<Report, Failure> {
    let limit = Instant::now() + CLOSE;
    loop {
        let report = models.report()?;
        if report.endpoints.iter().all(|endpoint| !endpoint.attached) || Instant::now() > limit {
            return Ok(report);
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// What the linters in the models' process found.
fn linted(names: &[String; 2], report: &Report) -> Vec<PortFindings> {
    let ports = names.iter().zip(&report.endpoints).enumerate();
    let found = ports.map(|(port, (name, endpoint))| PortFindings {
        port,
        name: name.clone(),
        findings: endpoint.device.findings.clone(),
    });
    found.collect()
}

/// The exit status: all reasons were printed, the first one is the failure.
fn end(verdict: &Verdict) -> Result<(), Failure> {
    let Some(first) = verdict.reasons.first() else { return Ok(()) };
    let more = match verdict.reasons.len() {
        1 => String::new(),
        n => format!(" (the first of {n} reasons)"),
    };
    let failure = Failure::new(format!("the forwarder did not pass: {}{more}", first.seen));
    Err(failure.fix(format!("look at {}", first.look_at)))
}

fn print(summary: &Summary, accounts: Option<&Accounts>, verdict: Option<&Verdict>) {
    summary.print(false);
    if let (Some(accounts), Some(verdict)) = (accounts, verdict) {
        accounts.print();
        verdict.print();
        println!("{MEANING}{NEXT}");
    }
}

const MEANING: &str = "
what the rate means: one core ran the driver, another both models, which do each thing that a
chip does in software. Beyond their speed, or while other work has their core, the models lose
frames (rx_fifo_full) though the driver waits (empty polls); the driver alone is measured by
ixora bench driver.
";

const NEXT: &str = "
try next:
  ixora demo --rate max                         as fast as the model can feed the driver
  ixora model 82599 --socket /tmp/nic --wire gen:size=64,rate=1M
  ixora pcap vfio-user:/tmp/nic out.pcapng      and open it in Wireshark
  ixora bench driver                            cycles per packet, batch by batch
  ixora doctor                                  what this machine needs for a real NIC";

fn port_options(arguments: &Demo, core: Option<usize>) -> PortOptions {
    let max_frame = arguments.size.saturating_sub(4).max(1514);
    let (rx_ring, tx_ring) = (arguments.ring, arguments.ring);
    PortOptions {
        batch: arguments.batch,
        cpu: core.into_iter().collect(),
        json: arguments.json,
        quiet: arguments.quiet,
        confine: arguments.confine,
        ..PortOptions::of(port::Options { rx_ring, tx_ring, max_frame, ..port::Options::default() })
    }
}

/// Forwards until the time is over or a signal comes, then lets what is under
/// way arrive. Also what the models counted meanwhile, if they told.
fn forward(
    ports: &mut Ports,
    models: &mut Models,
    options: &PortOptions,
    duration: Duration,
    interrupted: &AtomicBool,
) -> Result<(Outcome, Result<Samples, Failure>), Failure> {
    let mut pollers: Vec<Box<dyn Poller>> = Vec::new();
    for (from, to) in [(0, 1), (1, 0)] {
        pollers.push(Box::new(Forward { rx: ports.rx(from, 0)?, tx: ports.tx(to, 0)?, touch: true }));
    }
    let (stop, progress) = (Arc::new(AtomicBool::new(false)), Arc::new(Progress::default()));
    let threads = run::threads("demo", ports, pollers, options, &stop, &progress)?;
    let confinement = ports.confine(options, models.process())?;
    Ok(thread::scope(|scope| {
        let sampling = scope.spawn(|| {
            let _end = StopAtEnd(&stop);
            let mut sampler = Sampler::start(models, &progress, &stop);
            sampler.run(duration, interrupted).map(|()| sampler.samples)
        });
        let outcome = run::measure("demo", threads, ports, options, confinement);
        let panicked = |_| Err(Failure::new("a thread panicked: this is a bug in ixora"));
        (outcome, sampling.join().unwrap_or_else(panicked))
    }))
}

/// Ends the run when the thread that holds it ends, however that comes.
struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Bytes of the path of a socket that is served: it has one more at first.
const LONGEST_PATH: usize = bus::LONGEST_SOCKET_PATH - 1;

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
