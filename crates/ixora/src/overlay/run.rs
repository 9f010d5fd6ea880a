//! `ixora overlay run`: a tunnel endpoint until it is stopped. SIGHUP has the file read again.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use clap::Args;
use runtime::confine::{Files, Needs};
use serde_json::json;
use signal_hook::consts::SIGHUP;
use vtep::{Config, Learn, Listen, SourceError, Sources, UnderlayPort};
use wire::MacAddress;

use super::accounts::Accounts;
use super::asking::Asking;
use super::host::{Host, names, now_ns};
use super::links::{Links, Said};
use super::metrics;
use crate::cli::PortOptions;
use crate::janitor::{CleanUp, Janitor};
use crate::metrics_port::{Metrics, MetricsOptions};
use crate::summary::Summary;
use crate::{Failure, open, run, signal};

/// How long the control waits for an answer of a neighbour's before it looks for signals.
const WAIT: Duration = Duration::from_millis(50);
/// How long it waits for the kernel, FRR and controllers before it looks for neighbours, too.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Places to name that are refused, at most.
const REFUSED: usize = 10;

/// A tunnel endpoint.
#[derive(Args, Debug)]
pub struct Run {
    /// The configuration; read again on SIGHUP.
    pub file: PathBuf,
    /// Listen at this path for `overlay show` and `overlay explain`.
    #[arg(long, value_name = "SOCKET")]
    pub control: Option<PathBuf>,
    #[command(flatten)]
    pub metrics: MetricsOptions,
    #[command(flatten)]
    pub port: PortOptions,
}

/// Reads a configuration file.
pub fn read(path: &Path) -> Result<Config, Failure> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::usage(format!("cannot read {}: {error}", path.display())))?;
    Config::parse(&text).map_err(|error| {
        let fix = error.fix.clone();
        Failure::usage(format!("{}: {error}", path.display())).fix(fix)
    })
}

/// Runs the endpoint until it is stopped.
pub fn run(arguments: &Run) -> Result<(), Failure> {
    let config = read(&arguments.file)?;
    let mut options = arguments.port.clone();
    options.open.0.max_frame = options.open.0.max_frame.max(config.max_frame());
    let stop = signal::stop_flag_but(|signal| signal == SIGHUP)?;
    let reload = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGHUP, reload.clone())
        .map_err(|error| Failure::new(format!("cannot catch SIGHUP: {error}")))?;
    let names: Vec<&str> = names(&config).collect();
    let mut ports = open::ports_with_segments(&names, &options, &stop)?;
    let (mut host, pollers) = Host::new(config.clone(), &mut ports, 0, options.open.rx_queues)?;
    let longest = ports.list[config.inner.len()..].iter().map(|port| port.capabilities().max_frame);
    too_long(&config.underlay, longest).iter().for_each(|sentence| eprintln!("{sentence}"));
    let macs: Vec<MacAddress> = (config.inner.len()..names.len()).map(|n| MacAddress(ports.mac(n))).collect();
    let runtime = run::threads("overlay", &ports, pollers, &options, &stop, &Arc::default())?;
    let mut asking = Asking::new(arguments.control.as_deref(), &mut host)?;
    let mut followed = Followed::open(&config)?;
    let mut metrics = Metrics::open(arguments.metrics.place, metrics::CLIENTS)?;
    let links = Links::new(config.inner.len(), &config.underlay);
    let is_asked = asking.is_some() || metrics.is_some();
    let needs = needs(&config, &arguments.file, is_asked);
    let confinement = ports.confine_but(&options, needs)?;
    let shown = host.counters.clone();
    let ended = AtomicBool::new(false);
    let server = asking.as_mut().and_then(|asking| asking.server.take());
    let outcome = thread::scope(|scope| {
        if let Some(server) = &server {
            scope.spawn(|| server.run(&ended));
        }
        scope.spawn(|| {
            let mut said = Said::default();
            while turn(&mut host, followed.as_mut()) {
                if reload.swap(false, Ordering::Relaxed) {
                    apply(&mut host, &arguments.file, &macs);
                }
                if let Some(error) = host.control.nic_failure() {
                    eprintln!("{error}\nsoftware puts all packets into tunnels from now on");
                }
                links.tell(&mut host.control, &mut said).iter().for_each(|sentence| eprintln!("{sentence}"));
                if let Some(metrics) = &mut metrics {
                    let sources = followed.as_ref().map(|followed| &followed.sources);
                    metrics.turn(&|| Ok(metrics::text(&host, sources)));
                }
                if let Some(asking) = &mut asking {
                    asking.answer(&mut host, followed.as_mut().map(|followed| &mut followed.sources));
                }
            }
            drop((asking, metrics, followed)); // whoever asks now is told nothing
        });
        let look = |ports: &mut open::Ports| {
            links.look(ports);
            if is_asked {
                shown.ports.look(&mut ports.list);
            }
        };
        let watch = run::Watch { look: &look, outlives_down: true, ..run::Watch::default() };
        let outcome = run::measure_watched("overlay", runtime, &mut ports, &options, confinement, &watch);
        ended.store(true, Ordering::Relaxed);
        outcome
    });
    drop(ports);
    print(&outcome.summary, &Accounts::new(&config, &shown, &outcome.pollers), options.json);
    outcome.failure.or_else(|| outcome.summary.missing()).map_or(Ok(()), Err)
}

/// What is to be told of ports of the underlay that take shorter frames than the file says.
fn too_long(underlay: &[UnderlayPort], longest: impl Iterator<Item = usize>) -> Vec<String> {
    let one = |(it, longest): (&UnderlayPort, usize)| {
        let takes = longest.saturating_sub(wire::ethernet::HEADER_LEN);
        (usize::from(it.mtu) > takes).then(|| {
            format!(
                "underlay {}: its mtu is {} in the file, and {} takes {takes}: longer packets are dropped\n\
                 fix: write mtu = {takes}, or give the port's device or interface a larger one",
                it.name, it.mtu, it.port
            )
        })
    };
    underlay.iter().zip(longest).filter_map(one).collect()
}

/// Prints the figures of the ports and of the overlay.
fn print(summary: &Summary, accounts: &Accounts, json: bool) {
    match json {
        true => println!("{:#}", json!({ "summary": summary, "overlay": accounts })),
        false => {
            summary.print(false);
            accounts.print();
        }
    }
}

/// Those who change the table beside the file.
struct Followed {
    sources: Sources,
    /// Removes the API's socket.
    _janitor: Option<Janitor>,
}

/// Why nobody else changes the table.
fn unopened(error: &SourceError) -> Failure {
    let failure = Failure::new(error.to_string());
    match error {
        SourceError::Listen { .. } => {
            failure.fix("write another `listen` into the file, or end the program that listens there")
        }
        SourceError::Kernel(_) => failure,
    }
}

impl Followed {
    /// Opens their sockets, if there are any.
    fn open(config: &Config) -> Result<Option<Followed>, Failure> {
        if !config.follow.is_anybody() {
            return Ok(None);
        }
        let sources = Sources::open(config).map_err(|error| unopened(&error))?;
        let socket = config.follow.api.iter().filter_map(|api| match &api.listen {
            Listen::Unix(path) => Some(path.clone()),
            Listen::Tcp(_) => None,
        });
        let janitor = Janitor::call(&CleanUp { sockets: socket.collect(), ..CleanUp::default() })?;
        Ok(Some(Followed { sources, _janitor: janitor }))
    }
}

/// What an endpoint needs beside its ports when all is open.
fn needs(config: &Config, file: &Path, is_asked: bool) -> Needs {
    let follow = &config.follow;
    let has_clients = is_asked || follow.api.is_some() || follow.fpm.is_some();
    Needs {
        files: Files { read: vec![folder(file)], ..Files::default() },
        clients: has_clients,
        // The kernel is asked by a datagram, too.
        sending: has_clients || follow.learn != Learn::Nobody,
        peers: follow.api.as_ref().is_some_and(|api| matches!(api.listen, Listen::Unix(_))),
        ..Needs::default()
    }
}

/// Waits for whoever changes the table, and does what is due; true as long as there are lanes.
fn turn(host: &mut Host, followed: Option<&mut Followed>) -> bool {
    let Some(Followed { sources, .. }) = followed else { return host.control.turn(WAIT, now_ns) };
    sources.wait(POLL_INTERVAL);
    sources.turn(&mut host.control, now_ns()).iter().for_each(|sentence| eprintln!("{sentence}"));
    host.control.turn(Duration::ZERO, now_ns)
}

/// The folder of a file: an editor may put another file in its place.
fn folder(path: &Path) -> PathBuf {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new(".")).to_path_buf()
}

/// Reads the file again. What is wrong with it is said, and nothing is different then.
fn apply(host: &mut Host, path: &Path, macs: &[MacAddress]) {
    let done = read(path).and_then(|config| {
        if config.underlay != host.config.underlay || config.inner != host.config.inner {
            let failure = Failure::usage(format!("{}: the ports are other ones", path.display()));
            return Err(failure.fix("start again: ports are opened at the start"));
        }
        if config.follow != host.config.follow {
            let cause = format!("{}: learn, [fpm] or [api] is another one", path.display());
            return Err(Failure::usage(cause).fix("start again: sockets are opened at the start"));
        }
        Ok(host.control.apply(config.desired(macs), now_ns())?)
    });
    match done {
        Ok(changes) => {
            let (set, removed) = (changes.set, changes.removed);
            eprintln!("{} is read again: {set} new or different, {removed} removed", path.display());
            // An end of tunnels may be another owner's.
            let refused = host.control.program().refused().iter();
            refused.take(REFUSED).for_each(|(key, error)| eprintln!("{key} is refused: {error}"));
        }
        Err(failure) => eprintln!("{failure}\nall goes on as before"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_that_take_less_than_the_file_says_are_told() {
        let text = "[[underlay]]\nname = \"up\"\nport = \"model:82599\"\nmtu = 1700\n\
                    addresses = [\"192.0.2.1/24\"]\n";
        let config = Config::parse(text).expect("a configuration");
        assert!(too_long(&config.underlay, [1714].into_iter()).is_empty());
        let told = too_long(&config.underlay, [1713].into_iter());
        assert!(
            told[0].contains("model:82599 takes 1699") && told[0].contains("fix: write mtu = 1699"),
            "{told:?}"
        );
    }

    #[test]
    fn a_place_that_is_taken_is_told_with_the_key_to_change() {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let place = taken.local_addr().expect("it is bound");
        let text = format!(
            "[api]\nlisten = \"{place}\"\n\n[[underlay]]\nname = \"up\"\nport = \"model:82599\"\n\
             addresses = [\"192.0.2.1/24\"]\n"
        );
        let config = Config::parse(&text).expect("a configuration");
        let said = Followed::open(&config).err().expect("it is taken").said();
        assert!(said.contains(&place.to_string()) && said.contains("fix: write another `listen`"), "{said}");
    }
}
