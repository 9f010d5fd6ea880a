//! The commands, and the arguments that several have. A command's own stand with it; those of
//! commands with many words in a file `arguments.rs` of its folder.

pub mod examples;
mod settings;

use std::time::Duration;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};

use crate::apps::load::arguments::Load;
use crate::apps::pf::arguments::Pf;
use crate::apps::serve::arguments::Serve;
use crate::bench::Bench;
use crate::open;
use crate::overlay::Overlay;
use crate::rate::duration;
use crate::soak::arguments::Soak;
use crate::vm::arguments::Vm;
pub use settings::Settings;

/// What the program is, in a line.
const ABOUT: &str = "User-space networking that a person can read, run and measure";

/// What the program is, and how ports are written.
fn long_about() -> String {
    let forms = open::forms();
    format!(
        "{ABOUT}.\n\nA PORT is {forms}. `,allow-unsealed` behind a socket's path takes memory that could be \
         taken away."
    )
}

#[derive(Parser, Debug)]
#[command(name = "ixora", version, about = ABOUT, long_about = long_about())]
#[command(max_term_width = 100, after_help = examples::ALL)]
pub struct Arguments {
    /// Say what is done; twice: each register access, too. IXORA_LOG says more exactly what.
    #[arg(long, short, action = ArgAction::Count)]
    pub verbose: u8,
    #[command(subcommand)]
    pub command: Command,
}

impl Arguments {
    /// How often `-v` was given, in front of the command or behind it.
    pub fn verbosity(&self) -> u8 {
        let behind = match &self.command {
            Command::Fwd(fwd) => fwd.port.verbose,
            Command::Pktgen(pktgen) => pktgen.port.verbose,
            Command::Pcap(pcap) => pcap.port.verbose,
            Command::Echo(echo) => echo.port.verbose,
            Command::Pf(pf) => pf.port.verbose,
            Command::Serve { what } => what.verbosity(),
            Command::Load { what } => what.verbosity(),
            Command::Info(info) => info.port.verbose,
            _ => 0,
        };
        self.verbose.saturating_add(behind)
    }
}

#[derive(Subcommand, Debug)]
pub enum Command {
    /// Forward between two ports, both ways.
    #[command(after_help = examples::FWD)]
    Fwd(crate::apps::fwd::Fwd),
    /// Send generated packets.
    #[command(after_help = examples::PKTGEN)]
    Pktgen(crate::apps::pktgen::Pktgen),
    /// Capture what a port receives, for Wireshark.
    #[command(after_help = examples::PCAP)]
    Pcap(crate::apps::pcap::Pcap),
    /// Send back every packet, addresses swapped.
    #[command(after_help = examples::ECHO)]
    Echo(crate::apps::echo::Echo),
    /// A host with a service over our own TCP, on any port.
    #[command(after_help = examples::SERVE)]
    Serve {
        #[command(subcommand)]
        what: Serve,
    },
    /// A client that loads a server over our own TCP, and measures latencies.
    #[command(after_help = examples::LOAD)]
    Load {
        #[command(subcommand)]
        what: Load,
    },
    /// Connections of a server that runs.
    #[command(after_help = examples::TCP)]
    Tcp {
        #[command(subcommand)]
        what: crate::connections::Tcp,
    },
    /// Host the virtual functions of a port, so that other processes can drive them.
    #[command(after_help = examples::PF)]
    Pf(Pf),
    /// Serve a device model over vfio-user.
    #[command(after_help = examples::MODEL)]
    Model(crate::serve::Arguments),
    /// Run a router written in Click's language.
    Click(Box<crate::click::Click>),
    /// Make a program of a router written in Click's language.
    #[command(after_help = examples::COMPILE)]
    Compile(crate::compile::Compile),
    /// Rates, cycles and drops of a router that runs, by element.
    #[command(after_help = examples::TOP)]
    Top(crate::top::Top),
    /// Two modelled NICs, traffic and a forwarder: no root, no hugepages, no NIC.
    #[command(after_help = examples::DEMO)]
    Demo(crate::demo::Demo),
    /// Virtual networks in tunnels across another network.
    #[command(after_help = examples::OVERLAY)]
    Overlay {
        #[command(subcommand)]
        what: Overlay,
    },
    /// A small virtual machine, this program in it, and this host at its cables:
    /// no root, no KVM.
    #[command(after_help = examples::VM)]
    Vm {
        #[command(subcommand)]
        what: Vm,
    },
    /// Soak test: forward, capture and route for a long time, with faults, kills and
    /// signals; then check that nothing is lost or left.
    #[command(after_help = examples::SOAK)]
    Soak(Soak),
    /// What this build drives and how ports are written; of a port, what it can do.
    #[command(after_help = examples::INFO)]
    Info(crate::info::Info),
    /// What this machine can do, what is missing, and how to mend it.
    #[command(after_help = examples::DOCTOR)]
    Doctor(crate::doctor::Doctor),
    /// Words for a shell to complete commands with.
    #[command(after_help = examples::COMPLETIONS)]
    Completions {
        /// The shell that is to complete commands.
        shell: clap_complete::Shell,
    },
    /// Remove what another process leaves behind when it has ended.
    #[command(hide = true)]
    Janitor(crate::janitor::Arguments),
    /// Measure the driver, routers' graphs and figures of papers.
    #[command(after_help = examples::BENCH)]
    Bench {
        #[command(subcommand)]
        what: Bench,
    },
}

/// How ports are opened and polled.
#[derive(Args, Debug, Clone)]
pub struct PortOptions {
    /// Packets in a batch, 1 to 256.
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub batch: u16,
    /// What is asked of each port.
    #[command(flatten)]
    pub open: Settings,
    /// Threads that share the queues.
    #[arg(long, default_value_t = 1, value_parser = threads)]
    pub threads: usize,
    /// Cores for the threads, separated by commas.
    #[arg(long, value_delimiter = ',')]
    pub cpu: Vec<usize>,
    /// Where packet memory comes from.
    #[arg(long, value_enum, default_value = "auto")]
    pub hugepages: Hugepages,
    /// NUMA node of the packet memory; the first port's node if left out.
    #[arg(long)]
    pub numa: Option<u32>,
    /// Stop after this time: 10s, 500ms, 2m.
    #[arg(long, value_parser = duration)]
    pub duration: Option<Duration>,
    /// Stop after so many packets; fwd and echo may move some more.
    #[arg(long)]
    pub count: Option<u64>,
    /// Print statistics as JSON when done, and nothing else.
    #[arg(long)]
    pub json: bool,
    /// No live line.
    #[arg(long, short)]
    pub quiet: bool,
    /// Say what the driver does; twice: each register access, too.
    #[arg(long, short, action = ArgAction::Count)]
    pub verbose: u8,
    #[command(flatten)]
    pub confine: Confine,
}

fn threads(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|n| (1..=1024).contains(n)).ok_or_else(|| "write 1 to 1024".to_owned())
}

impl PortOptions {
    /// Those of a command that has no such arguments: one thread on any core, in memory of
    /// any kind, until it is stopped.
    pub fn of(open: port::Options) -> PortOptions {
        PortOptions {
            batch: 32,
            open: Settings(open),
            threads: 1,
            cpu: Vec::new(),
            hugepages: Hugepages::Auto,
            numa: None,
            duration: None,
            count: None,
            json: false,
            quiet: false,
            verbose: 0,
            confine: Confine { no_confine: false },
        }
    }
}

/// Whether a command gives up what only opening needed.
#[derive(Args, Debug, Clone, Copy)]
pub struct Confine {
    /// Keep privileges and all system calls, to debug.
    #[arg(long)]
    pub no_confine: bool,
}

/// A source of packet memory.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hugepages {
    /// Hugepages if there are some.
    Auto,
    /// A mounted hugetlbfs.
    Hugetlbfs,
    /// Anonymous hugepages (memfd).
    Memfd,
    /// Ordinary pages, no hugepages.
    None,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_help_has_each_form_of_a_port() {
        let help = super::Arguments::command().render_long_help().to_string();
        let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
        let forms = ports::FORMS.iter().map(ports::Form::syntax);
        for form in forms.chain([crate::open::model_form().0]) {
            assert!(help.contains(&form), "{form} is missing: {help}");
        }
    }
}
