//! `ixora overlay demo`: two tunnel endpoints in this process, each with two device models:
//! one that a host's traffic comes from and goes to, and one at a wire between them. They
//! find each other by ARP or neighbour discovery; then generators send through the tunnel
//! both ways, and at the end every frame is accounted for.

mod account;
mod conduct;
mod text;
mod verdict;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use clap::Args;
use overlay::PROTOCOLS;
use runtime::Poller;
use serde_json::json;
use testbed::{MODELS, Model};
use vtep::Config;

use super::host::{Host, names};
use crate::cli::{Confine, PortOptions};
use crate::rate::{Rate, duration};
use crate::{Failure, open, run, signal};
use account::Direction;
use conduct::{Conductor, Seen};
use text::Side;
use verdict::Verdict;

/// Two tunnel endpoints on device models.
#[derive(Args, Debug)]
pub struct Demo {
    /// The tunnel's protocol.
    #[arg(long, default_value = "vxlan", value_parser = protocols())]
    protocol: String,
    /// Tunnel over IPv6 instead of IPv4.
    #[arg(long)]
    ipv6: bool,
    /// How long generators send.
    #[arg(long, default_value = "10s", value_parser = duration)]
    duration: Duration,
    /// Packets per second offered to each endpoint.
    #[arg(long, default_value = "200k")]
    rate: Rate,
    /// Frame size in bytes, with CRC; or imix.
    #[arg(long, default_value = "64")]
    size: String,
    /// Flows, told apart by their UDP source port.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..))]
    flows: u16,
    /// Who puts packets into tunnels: software, or the underlay's NICs, which have the table then.
    #[arg(long, value_name = "WHOM", default_value = "none", value_parser = ["none", "nic"])]
    offload: String,
    /// The model that all four NICs are.
    #[arg(long, default_value = MODELS[0].name)]
    nic: String,
    /// Print the configuration of one endpoint, and nothing else.
    #[arg(long)]
    config: bool,
    /// Print the accounts as JSON, and nothing else.
    #[arg(long)]
    json: bool,
    /// No live line.
    #[arg(long, short)]
    quiet: bool,
    #[command(flatten)]
    confine: Confine,
}

impl Demo {
    /// Whether the underlay's NICs put packets into tunnels.
    fn is_offloaded(&self) -> bool {
        self.offload == "nic"
    }
}

fn protocols() -> clap::builder::PossibleValuesParser {
    clap::builder::PossibleValuesParser::new(PROTOCOLS.iter().map(|protocol| protocol.name))
}

/// Runs the demo; fails when a frame is lost that a working endpoint delivers.
pub fn run(arguments: &Demo) -> Result<(), Failure> {
    let model = Model::named(&arguments.nic)?;
    let texts = [Side::A, Side::B].map(|side| text::config(arguments, model.name, side));
    if arguments.config {
        println!("{}", texts[0]);
        return Ok(());
    }
    let configs = [Config::parse(&texts[0])?, Config::parse(&texts[1])?];
    let interrupted = signal::stop_flag()?;
    if !arguments.json {
        println!(
            "two endpoints, a tunnel of {} between them, all on {} models",
            arguments.protocol, model.name
        );
        if arguments.is_offloaded() {
            println!("the NICs of the underlay put packets into tunnels (decision 30; no real NIC can)");
        }
        println!("traffic both ways for {:?}; --config prints what each is told", arguments.duration);
    }
    let options = options(arguments, &configs);
    let all: Vec<&str> = configs.iter().flat_map(names).collect();
    let mut ports = open::ports_held(&all, &options, &interrupted)?;
    let [a, b] = configs;
    let (a, mut pollers) = Host::new(a, &mut ports, 0, 1)?;
    let (b, more) = Host::new(b, &mut ports, PORTS, 1)?;
    pollers.extend(more);
    let shown = [a.counters.clone(), b.counters.clone()];
    let (outcome, seen) = forward(&mut ports, pollers, [a, b], arguments, &options, &interrupted)?;
    drop(ports);
    let directions = [("a to b", [0, 1]), ("b to a", [1, 0])]
        .map(|(name, way)| Direction::new(name, way, &seen, &shown, &outcome.pollers));
    let directions = directions.map(|direction| direction.with_nic(arguments.is_offloaded()));
    let verdict = Verdict::new(&directions, &seen, &outcome.summary, interrupted.load(Ordering::Relaxed));
    match arguments.json {
        true => println!(
            "{:#}",
            json!({ "protocol": arguments.protocol, "offload": arguments.offload, "summary": outcome.summary, "directions": directions, "verdict": verdict })
        ),
        false => {
            outcome.summary.print(false);
            account::print(&directions);
            verdict.print();
        }
    }
    outcome.failure.map_or(Ok(()), Err)?;
    verdict.end()
}

/// Ports of an endpoint: the one of its network, and the one of the underlay.
const PORTS: usize = 2;

fn options(arguments: &Demo, configs: &[Config; 2]) -> PortOptions {
    let max_frame = configs.iter().map(Config::max_frame).max().unwrap_or(0).max(1514);
    PortOptions {
        json: arguments.json,
        quiet: arguments.quiet,
        confine: arguments.confine,
        ..PortOptions::of(port::Options { max_frame, ..port::Options::default() })
    }
}

/// Forwards until the time is over or a signal comes, then lets what is under way arrive.
fn forward(
    ports: &mut open::Ports,
    pollers: Vec<Box<dyn Poller>>,
    hosts: [Host; 2],
    arguments: &Demo,
    options: &PortOptions,
    interrupted: &AtomicBool,
) -> Result<(run::Outcome, Seen), Failure> {
    let (stop, progress) = (Arc::new(AtomicBool::new(false)), Arc::default());
    let runtime = run::threads("overlay demo", ports, pollers, options, &stop, &progress)?;
    let confinement = ports.confine(options, None)?;
    let conductor = Conductor::new(ports, hosts, arguments.duration, progress, stop);
    Ok(thread::scope(|scope| {
        let conducting = scope.spawn(|| conductor.run(interrupted));
        let mut outcome = run::measure("overlay demo", runtime, ports, options, confinement);
        let seen = conducting.join().unwrap_or_else(|_| {
            let panicked = Failure::new("a thread panicked: this is a bug in ixora");
            outcome.failure.get_or_insert(panicked);
            Seen::default()
        });
        (outcome, seen)
    }))
}
