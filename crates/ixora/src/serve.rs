//! `ixora model`: device models behind sockets, for any vfio-user client.

use std::io::BufRead;
use std::iter;
use std::os::unix::fs::lchown;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use runtime::confine::{Confinement, Needs, caller};
use testbed::i40e::{FIRMWARE_WORDS, FirmwareSetup};
use testbed::models::{self, Setup};
use testbed::serve::{Endpoint, Options, Report};
use testbed::view::Trust;
use testbed::wire::{self, Ledger, NotRecorded, Plug, WireStats};
use testbed::{Finding, Idle, Model, ixgbe, vfio_user, vhost_user};

use crate::cli::Confine;
use crate::janitor::{CleanUp, Janitor};
use crate::rate::duration;
use crate::{Failure, signal};

/// Entries of a table of tunnels where no number is given, and at most.
const USUAL_ENTRIES: &str = "4096";
const MOST_ENTRIES: i64 = 1 << 20;

#[derive(Args, Debug)]
pub struct Arguments {
    #[arg(help = format!("The chip: {}", models::names("or")))]
    pub chip: String,
    /// Where to listen for vfio-user clients; several serve several devices from
    /// one process.
    #[arg(long, required_unless_present = "vhost_user", conflicts_with = "vhost_user")]
    pub socket: Vec<PathBuf>,
    #[arg(long, help = format!("Where to listen for vhost-user front ends instead ({})", models::vhost_user_names()))]
    pub vhost_user: Vec<PathBuf>,
    /// What is in the port: loop, pair, sink, gen:…, pcap:FILE, record:FILE,
    /// tap:NAME, unix:PATH; joined by +. One for each socket, or one for all.
    #[arg(long, default_value = "sink")]
    pub wire: Vec<String>,
    #[arg(long, value_parser = device_id, help = format!("The PCI device id, in hexadecimal: {}", models::device_ids()))]
    pub device_id: Option<u16>,
    /// Virtual functions of each device: at --socket S, they are served at S.vf0, S.vf1 and so on.
    #[arg(long, default_value_t = 0, conflicts_with = "vhost_user")]
    pub vfs: usize,
    #[arg(long, value_name = "WORDS", help = format!("What the firmware tells (xl710), where that is not the usual: {FIRMWARE_WORDS}"))]
    pub firmware: Option<FirmwareSetup>,
    /// A table of tunnels' headers beside the chip, by which it puts packets into tunnels itself, with
    /// room for so many entries (no real chip has it: decision 30).
    #[arg(long, value_name = "ENTRIES", num_args = 0..=1, default_missing_value = USUAL_ENTRIES,
        value_parser = clap::value_parser!(u32).range(1..=MOST_ENTRIES), conflicts_with = "vhost_user")]
    pub encap_offload: Option<u32>,
    /// Let drivers map no registers: every access comes to the model, in order.
    /// Slower, but counters in the queues' registers clear when they are read.
    #[arg(long)]
    pub trap: bool,
    /// Take memory that cannot be sealed against shrinking, as DPDK's; a client that
    /// shrinks it loses its connection.
    #[arg(long)]
    pub allow_unsealed: bool,
    /// The core that runs the models.
    #[arg(long)]
    pub core: Option<usize>,
    /// What the models' thread does when nothing moves: ask again at once, let others run, or sleep
    /// 50 us, which takes hardly any processor time and is slower to wake.
    #[arg(long, value_enum, default_value_t)]
    pub idle: WhenIdle,
    /// Injected faults of the device, as in late=0.01,length=0.001,seed=7; those of the wire stand with it:
    /// --wire loop+fault:drop=0.01.
    #[arg(long)]
    pub fault: Option<String>,
    /// Stop after this time.
    #[arg(long, value_parser = duration)]
    pub duration: Option<Duration>,
    /// Print statistics and the linter's report as JSON when done.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub confine: Confine,
    /// Take requests on standard input, and end with it; the sockets are the
    /// parent's to remove.
    #[arg(long, hide = true)]
    pub control: bool,
}

/// The words for [`Idle`].
#[derive(ValueEnum, Clone, Copy, Debug, Default)]
pub enum WhenIdle {
    Spin,
    #[default]
    Yield,
    Sleep,
}

impl From<WhenIdle> for Idle {
    fn from(when: WhenIdle) -> Idle {
        match when {
            WhenIdle::Spin => Idle::Spin,
            WhenIdle::Yield => Idle::Yield,
            WhenIdle::Sleep => Idle::Sleep,
        }
    }
}

impl Arguments {
    /// Where to listen, whatever is spoken there.
    pub fn sockets(&self) -> &[PathBuf] {
        if self.vhost_user.is_empty() { &self.socket } else { &self.vhost_user }
    }

    /// Likewise, with those of virtual functions behind each.
    pub fn all_sockets(&self) -> Vec<PathBuf> {
        let all = |socket: &PathBuf| iter::once(socket.clone()).chain(self.vf_sockets(socket));
        self.sockets().iter().flat_map(all).collect()
    }

    /// Where the virtual functions of the device at a socket are.
    pub fn vf_sockets(&self, socket: &Path) -> Vec<PathBuf> {
        let at = |n: usize| PathBuf::from(format!("{}.vf{n}", socket.display()));
        (0..self.vfs).map(at).collect()
    }
}

/// A PCI device id; whether the model has it is seen when the device is made.
fn device_id(text: &str) -> Result<u16, String> {
    let id = u16::from_str_radix(text.trim_start_matches("0x"), 16).ok();
    id.ok_or_else(|| format!("write {}", models::device_ids()))
}

/// What a parent process may ask on standard input with `--control`. When its
/// end closes, this process ends too.
enum Request {
    /// Generators that hold their frames begin.
    StartSources,
    /// Generators stop; what is under way runs out.
    StopSources,
    /// Print the report as one line of JSON.
    Report,
    /// The other end is closed.
    End,
}

/// What `--control` prints first, once clients may come.
pub const READY: &str = "ready";

/// Serves until a signal comes, the time is over, or the parent is gone.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let model = Model::named(&arguments.chip)?;
    let stop = signal::stop_flag()?;
    let options = Options { core: arguments.core, idle: arguments.idle.into() };
    let (endpoints, wires) = endpoints(arguments, model)?;
    let bound = match arguments.vhost_user.is_empty() {
        true => vfio_user::bind(endpoints)?,
        false => vhost_user::bind(endpoints)?,
    };
    let (confinement, janitor) = confine(arguments, wires)?;
    let serving = bound.serve(options)?;
    let requests = arguments.control.then(|| listen(stop.clone()));
    confinement.complete()?;
    let protocol = if arguments.vhost_user.is_empty() { "vfio-user" } else { "vhost-user" };
    for socket in arguments.all_sockets() {
        tracing::info!("serving {protocol}:{}", socket.display());
        if !arguments.control && !arguments.json {
            eprintln!("serving {}; attach with: ixora fwd {protocol}:{0} …", socket.display());
        }
    }
    let end = arguments.duration.map(|duration| Instant::now() + duration);
    match arguments.control {
        true => println!("{READY}"),      // all sockets listen
        false => serving.start_sources(), // nobody will ask for those that hold
    }
    while !stop.load(Ordering::Relaxed) && end.is_none_or(|end| Instant::now() < end) {
        match requests.as_ref().map(|requests| requests.recv_timeout(Duration::from_millis(50))) {
            None => thread::sleep(Duration::from_millis(50)),
            Some(Ok(Request::StartSources)) => serving.start_sources(),
            Some(Ok(Request::StopSources)) => serving.stop_sources(),
            Some(Ok(Request::Report)) => print_line(&serving.report()),
            Some(Ok(Request::End)) => break,
            Some(Err(_)) => {}
        }
    }
    let report = serving.stop();
    drop(janitor);
    match (arguments.control, arguments.json) {
        (true, _) => {}
        (false, true) => print_line(&report),
        (false, false) => print(&report),
    }
    let mut wires = report.endpoints.iter().map(|endpoint| &endpoint.device.wire);
    wires.find_map(not_recorded).map_or(Ok(()), Err)
}

/// The failure to record what passed a wire, if there was one.
pub fn not_recorded(wire: &WireStats) -> Option<Failure> {
    let NotRecorded { error, failed, .. } = &wire.not_recorded;
    let said = format!("{}: {failed} frames were not recorded", error.as_ref()?);
    Some(Failure::new(said).fix("record to a disk with room, or record less: record:FILE,limit=N"))
}

/// Gives up what only opening needed. `wires` are the sockets that wires bound.
fn confine(arguments: &Arguments, wires: Vec<PathBuf>) -> Result<(Confinement, Option<Janitor>), Failure> {
    if arguments.confine.no_confine {
        return Ok((Confinement::none(), None));
    }
    let datagrams = !wires.is_empty();
    let served = if arguments.control { Vec::new() } else { arguments.all_sockets() };
    if let Some((user, group)) = caller() {
        // Who called `sudo` is to attach to what is served.
        for socket in arguments.all_sockets() {
            lchown(&socket, Some(user), Some(group)).map_err(|error| {
                Failure::new(format!("cannot give {} to user {user}: {error}", socket.display()))
            })?;
        }
    }
    let clean_up = CleanUp { sockets: [served, wires.clone()].concat(), ..CleanUp::default() };
    let janitor = Janitor::call(&clean_up)?;
    let captures =
        arguments.wire.iter().any(|wire| wire.parse::<wire::Spec>().is_ok_and(|spec| spec.records()));
    let confinement = Confinement::begin(Needs { clients: true, datagrams, captures, ..Needs::default() })?;
    Ok((confinement, janitor))
}

/// The devices, and the sockets that their wires bound.
fn endpoints(arguments: &Arguments, model: &'static Model) -> Result<(Vec<Endpoint>, Vec<PathBuf>), Failure> {
    let (sockets, wires) = (arguments.sockets(), &arguments.wire);
    if wires.len() != 1 && wires.len() != sockets.len() {
        let (s, w) = (sockets.len(), wires.len());
        return Err(Failure::usage(format!(
            "{s} sockets, but {w} wires: give one --wire for each --socket, or one"
        )));
    }
    let fault = arguments.fault.as_deref().map(str::parse::<testbed::fault::Spec>).transpose();
    let fault = fault.map_err(|error| Failure::usage(error.to_string()))?;
    if let Some(text) = arguments.fault.as_ref().filter(|_| fault.is_some_and(|fault| fault.has_wire())) {
        let failure = Failure::usage(format!("--fault {text}: a frame's faults are the wire's"));
        return Err(failure.fix("write them behind it, as in --wire loop+fault:drop=0.01,seed=7"));
    }
    let mut plugs = Vec::new();
    for n in 0..sockets.len() {
        let spec: wire::Spec = wires[n % wires.len()].parse()?;
        plugs.push(Plug { spec, mac: ixgbe::mac(n as u8) });
    }
    let cables = wire::plug(&plugs, &Arc::new(Ledger::default()))?;
    let mut endpoints = Vec::new();
    for ((socket, plug), cable) in sockets.iter().zip(&plugs).zip(cables) {
        let trust = if arguments.allow_unsealed { Trust::Peer } else { Trust::Hostile };
        let (mac, device_id, vfs) = (plug.mac, arguments.device_id, arguments.vfs);
        let (encap, firmware) = (arguments.encap_offload, arguments.firmware);
        let setup = Setup { mac, device_id, trust, fault, vfs, encap, firmware };
        let (device, vfs) = model.open_with_vfs(&setup, cable)?;
        let sockets = std::iter::once(socket.clone()).chain(arguments.vf_sockets(socket));
        for (socket, mut device) in sockets.zip(std::iter::once(device).chain(vfs)) {
            if arguments.trap {
                device.trap_all();
            }
            endpoints.push(Endpoint { socket, device });
        }
    }
    let bound = plugs.iter().filter_map(|plug| plug.spec.socket()).map(Path::to_owned);
    Ok((endpoints, bound.collect()))
}

/// Reads requests in a thread of its own, which ends with standard input.
fn listen(stop: Arc<AtomicBool>) -> std::sync::mpsc::Receiver<Request> {
    let (to, from) = std::sync::mpsc::channel();
    thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            let request = match line.trim() {
                "start-sources" => Request::StartSources,
                "stop-sources" => Request::StopSources,
                "report" => Request::Report,
                _ => continue,
            };
            if to.send(request).is_err() {
                return;
            }
        }
        let _ = to.send(Request::End);
        stop.store(true, Ordering::Relaxed);
    });
    from
}

fn print_line(report: &Report) {
    if let Ok(text) = serde_json::to_string(report) {
        println!("{text}");
    }
}

fn print(report: &Report) {
    for endpoint in &report.endpoints {
        let device = &endpoint.device;
        println!("{} ({}), wire {}", endpoint.socket, device.chip, device.wire.wire);
        println!(
            "  to host    offered {}  delivered {}  waiting {}",
            device.wire.to_host.offered, device.wire.to_host.delivered, device.wire.to_host.waiting
        );
        println!(
            "  from host  offered {}  delivered {}  waiting {}",
            device.wire.from_host.offered, device.wire.from_host.delivered, device.wire.from_host.waiting
        );
        let lost = device.wire.to_host.lost.iter().chain(&device.wire.from_host.lost).chain(&device.drops);
        for (name, count) in lost.filter(|(_, count)| **count > 0) {
            println!("  lost  {name:<24} {count}");
        }
        let NotRecorded { failed, over_limit, .. } = device.wire.not_recorded;
        for (cause, count) in [("write failed", failed), ("limit", over_limit)] {
            if count > 0 {
                println!("  not recorded  {cause:<16} {count}");
            }
        }
        for (name, count) in device.faults.iter().chain(&device.wire.faults) {
            println!("  injected  {name:<20} {count}");
        }
        if let Some(fault) = &endpoint.last_fault {
            println!("  a client broke the protocol ({} times), last: {fault}", endpoint.client_faults);
        }
        print!("{}", findings_text(&device.findings));
    }
}

/// What the linter found, in lines: an entry for each rule, the worst first.
pub fn findings_text(findings: &[Finding]) -> String {
    let lines = |finding: &Finding| {
        let Finding { severity, rule, sentence, section, consequence, .. } = finding;
        format!(
            "  {severity} {rule}, {}\n    {sentence} (datasheet {section})\n    on hardware: {consequence}\n",
            finding.where_found()
        )
    };
    findings.iter().map(lines).collect()
}
