//! `ixora overlay run`: a tunnel endpoint until it is stopped. SIGHUP has the file read again.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::thread;
use std::time::Duration;

use clap::Args;
use runtime::confine::{Files, Needs};
use serde_json::json;
use signal_hook::consts::SIGHUP;
use vtep::Config;
use wire::MacAddress;

use super::accounts::Accounts;
use super::explain::Explainer;
use super::host::{Host, names, now_ns};
use super::show;
use super::socket::{self, Asked, Server};
use crate::cli::PortOptions;
use crate::janitor::{CleanUp, Janitor};
use crate::{Failure, open, run, signal};

/// How long the control waits for an answer of a neighbour's before it looks for signals.
const WAIT: Duration = Duration::from_millis(50);

/// A tunnel endpoint.
#[derive(Args, Debug)]
pub struct Run {
    /// The configuration; read again on SIGHUP.
    pub file: PathBuf,
    /// Listen at this path for `overlay show` and `overlay explain`.
    #[arg(long, value_name = "SOCKET")]
    pub control: Option<PathBuf>,
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

/// Runs it.
pub fn run(arguments: &Run) -> Result<(), Failure> {
    let config = read(&arguments.file)?;
    let mut options = arguments.port.clone();
    options.open.0.max_frame = options.open.0.max_frame.max(config.max_frame());
    let stop = signal::stop_flag_but(|signal| signal == SIGHUP)?;
    let reload = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGHUP, reload.clone())
        .map_err(|error| Failure::new(format!("cannot catch SIGHUP: {error}")))?;
    let names: Vec<&str> = names(&config).collect();
    let mut ports = open::ports(&names, &options, &stop)?;
    let (mut host, pollers) = Host::new(config.clone(), &mut ports, 0, options.open.rx_queues)?;
    let macs: Vec<MacAddress> = (config.inner.len()..names.len()).map(|n| MacAddress(ports.mac(n))).collect();
    let runtime = run::threads("overlay", &ports, pollers, &options, &stop, &Arc::default())?;
    let mut asking = Asking::new(arguments.control.as_deref(), &mut host)?;
    let files = Files { read: vec![folder(&arguments.file)], ..Files::default() };
    let clients = asking.is_some();
    let needs = Needs { files, clients, sending: clients, ..Needs::default() };
    let confinement = ports.confine_but(&options, needs)?;
    let shown = host.counters.clone();
    let ended = AtomicBool::new(false);
    let server = asking.as_mut().and_then(|asking| asking.server.take());
    let outcome = thread::scope(|scope| {
        if let Some(server) = &server {
            scope.spawn(|| server.run(&ended));
        }
        scope.spawn(|| {
            while host.control.turn(WAIT, now_ns) {
                if reload.swap(false, Ordering::Relaxed) {
                    apply(&mut host, &arguments.file, &macs);
                }
                if let Some(asking) = &mut asking {
                    asking.answer(&host);
                }
            }
            drop(asking); // whoever asks now is told nothing
        });
        let outcome = run::measure("overlay", runtime, &mut ports, &options, confinement);
        ended.store(true, Ordering::Relaxed);
        outcome
    });
    drop(ports);
    let accounts = Accounts::new(&config, &shown, &outcome.pollers);
    match options.json {
        true => println!("{:#}", json!({ "summary": outcome.summary, "overlay": accounts })),
        false => {
            outcome.summary.print(false);
            accounts.print();
        }
    }
    outcome.failure.or_else(|| outcome.summary.missing()).map_or(Ok(()), Err)
}

/// What answers those who ask a running endpoint.
struct Asking {
    server: Option<Server>,
    asked: Receiver<Asked>,
    explainer: Explainer,
    /// Removes the socket.
    _janitor: Option<Janitor>,
}

impl Asking {
    /// Listens at a path, if there is one.
    fn new(path: Option<&Path>, host: &mut Host) -> Result<Option<Asking>, Failure> {
        let Some(path) = path else { return Ok(None) };
        let (server, asked) = Server::new(path)?;
        let janitor = Janitor::call(&CleanUp { sockets: vec![path.to_owned()], ..CleanUp::default() })?;
        let explainer = Explainer::new(host.control.table())?;
        Ok(Some(Asking { server: Some(server), asked, explainer, _janitor: janitor }))
    }

    /// Answers what was asked meanwhile.
    fn answer(&mut self, host: &Host) {
        while let Ok((request, say)) = self.asked.try_recv() {
            // One who is gone hears nothing.
            let _ = say.try_send(self.answer_to(host, &request));
        }
    }

    fn answer_to(&mut self, host: &Host, request: &str) -> String {
        let words: Vec<&str> = request.split_whitespace().collect();
        match words[..] {
            ["show", limit] => show::answer(host, limit.parse().unwrap_or(0)),
            ["metrics"] => show::metrics(host),
            ["explain", network, digits] => {
                let frame = socket::bytes(digits);
                let (table, desired) = host.control.state();
                match self.explainer.explain(table, desired, network.parse().ok(), &frame) {
                    Ok(explained) => serde_json::to_string_pretty(&explained).unwrap_or_default(),
                    Err(wrong) => wrong,
                }
            }
            _ => "ask for show LIMIT, metrics, or explain NETWORK BYTES".to_owned(),
        }
    }
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
        Ok(host.control.apply(config.desired(macs))?)
    });
    match done {
        Ok(changes) => {
            let (set, removed) = (changes.set, changes.removed);
            eprintln!("{} is read again: {set} new or different, {removed} removed", path.display());
        }
        Err(failure) => eprintln!("{failure}\nall goes on as before"),
    }
}
