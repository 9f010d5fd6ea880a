//! The command line's words.

mod examples;
pub mod load;
pub mod pf;
pub mod serve;
mod settings;
pub mod soak;
pub mod vm;

use std::iter;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};
use port::setting::Numbers;
use testbed::models::{self, MODELS};

use crate::bench::Bench;
use crate::open;
use crate::overlay::Overlay;
use crate::rate::{Rate, Size, duration};
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
    Fwd(Fwd),
    /// Send generated packets.
    #[command(after_help = examples::PKTGEN)]
    Pktgen(Pktgen),
    /// Capture what a port receives, for Wireshark.
    #[command(after_help = examples::PCAP)]
    Pcap(Pcap),
    /// Send back every packet, addresses swapped.
    #[command(after_help = examples::ECHO)]
    Echo(Echo),
    /// A host with a service over our own TCP, on any port.
    #[command(after_help = examples::SERVE)]
    Serve {
        #[command(subcommand)]
        what: serve::Serve,
    },
    /// A client that loads a server over our own TCP, and measures latencies.
    #[command(after_help = examples::LOAD)]
    Load {
        #[command(subcommand)]
        what: load::Load,
    },
    /// Connections of a server that runs.
    #[command(after_help = examples::TCP)]
    Tcp {
        #[command(subcommand)]
        what: crate::connections::Tcp,
    },
    /// Host the virtual functions of a port, so that other processes can drive them.
    #[command(after_help = examples::PF)]
    Pf(pf::Pf),
    /// Serve a device model over vfio-user.
    #[command(after_help = examples::MODEL)]
    Model(Model),
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
    Demo(Demo),
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
        what: vm::Vm,
    },
    /// Soak test: forward, capture and route for a long time, with faults, kills and
    /// signals; then check that nothing is lost or left.
    #[command(after_help = examples::SOAK)]
    Soak(soak::Soak),
    /// What this build drives and how ports are written; of a port, what it can do.
    #[command(after_help = examples::INFO)]
    Info(Info),
    /// What this machine can do, what is missing, and how to mend it.
    #[command(after_help = examples::DOCTOR)]
    Doctor(Doctor),
    /// Words for a shell to complete commands with.
    #[command(after_help = examples::COMPLETIONS)]
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Remove what another process leaves behind when it has ended.
    #[command(hide = true)]
    Janitor(Janitor),
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
    /// Keep privileges and all system calls, to debug.
    #[arg(long)]
    pub no_confine: bool,
}

/// Descriptors in a ring.
fn ring(text: &str) -> Result<usize, String> {
    Numbers::RING.parse(text)
}

/// A PCI device id; whether the model has it is seen when the device is made.
fn device_id(text: &str) -> Result<u16, String> {
    let id = u16::from_str_radix(text.trim_start_matches("0x"), 16).ok();
    id.ok_or_else(|| format!("write {}", models::device_ids()))
}

fn threads(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|n| (1..=1024).contains(n)).ok_or_else(|| "write 1 to 1024".to_owned())
}

/// A source of packet memory.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hugepages {
    /// Hugepages if there are some.
    Auto,
    /// A mounted hugetlbfs.
    Hugetlbfs,
    /// Anonymous hugepages.
    Memfd,
    /// Ordinary pages.
    None,
}

#[derive(Args, Debug)]
pub struct Fwd {
    /// One port.
    pub a: String,
    /// The other port.
    pub b: String,
    /// Change one byte of each packet, so that its data must be fetched.
    #[arg(long)]
    pub touch: bool,
    #[command(flatten)]
    pub port: PortOptions,
}

#[derive(Args, Debug)]
pub struct Pktgen {
    /// The port to send on.
    pub a: String,
    /// Frame size in bytes, with CRC, 64 to 2052; or imix, 7 of 64, 4 of 594
    /// and 1 of 1518.
    #[arg(long, default_value = "64")]
    pub size: Size,
    /// Packets per second: 1000, 500k, 14.88M, max.
    #[arg(long, default_value = "max")]
    pub rate: Rate,
    /// Flows, told apart by their UDP source port.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    pub flows: u16,
    /// Fewer packets than --rate asks for are no failure.
    #[arg(long)]
    pub allow_short: bool,
    /// Destination address; if left out, one that no host has.
    #[arg(long, default_value = "02:00:5e:10:00:ff")]
    pub to: wire::MacAddress,
    /// Tag each frame with this VLAN; a NIC that can inserts the tag itself.
    #[arg(long, value_parser = clap::value_parser!(u16).range(..4096))]
    pub vlan: Option<u16>,
    #[command(flatten)]
    pub port: PortOptions,
}

#[derive(Args, Debug)]
pub struct Pcap {
    /// The port to receive on.
    pub a: String,
    /// The file to write, pcapng; `-` for standard output.
    pub file: PathBuf,
    #[command(flatten)]
    pub port: PortOptions,
}

#[derive(Args, Debug)]
pub struct Echo {
    /// The port.
    pub a: String,
    /// Answer ARP requests and pings for this IPv4 address; all else goes back
    /// with its addresses swapped.
    #[arg(long)]
    pub ip: Option<Ipv4Addr>,
    #[command(flatten)]
    pub port: PortOptions,
}

#[derive(Args, Debug)]
pub struct Model {
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
    /// Injected faults, as in drop=0.01,corrupt=0.001,seed=7.
    #[arg(long)]
    pub fault: Option<String>,
    /// Stop after this time.
    #[arg(long, value_parser = duration)]
    pub duration: Option<Duration>,
    /// Print statistics and the linter's report as JSON when done.
    #[arg(long)]
    pub json: bool,
    /// Keep privileges and all system calls, to debug.
    #[arg(long)]
    pub no_confine: bool,
    /// Take requests on standard input, and end with it; the sockets are the
    /// parent's to remove.
    #[arg(long, hide = true)]
    pub control: bool,
}

impl Model {
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

#[derive(Args, Debug)]
pub struct Demo {
    #[arg(long, default_value = MODELS[0].name, help = format!("The model that both NICs are: {}", models::names("or")))]
    pub nic: String,
    /// How long.
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
    /// Keep privileges and all system calls, to debug.
    #[arg(long)]
    pub no_confine: bool,
}

#[derive(Args, Debug)]
pub struct Info {
    /// A port, which is opened for it.
    #[arg(value_name = "PORT")]
    pub name: Option<String>,
    #[command(flatten)]
    pub port: PortOptions,
}

#[derive(Args, Debug)]
pub struct Doctor {
    /// As JSON.
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug)]
pub struct Janitor {
    /// A socket to remove.
    #[arg(long)]
    pub socket: Vec<PathBuf>,
    /// A directory to remove with all that is in it.
    #[arg(long)]
    pub directory: Vec<PathBuf>,
    /// A device to take from a process that was killed.
    #[arg(long)]
    pub device: Vec<bus::Address>,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_help_has_each_form_of_a_port() {
        let help = super::Arguments::command().render_long_help().to_string();
        let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
        let forms = ports::FORMS.iter().map(ports::Form::syntax);
        for form in forms.chain([super::open::model_form().0]) {
            assert!(help.contains(&form), "{form} is missing: {help}");
        }
    }
}
