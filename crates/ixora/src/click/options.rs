//! The words of `ixora click`: Click's, and some of ours.

use std::path::PathBuf;
use std::sync::OnceLock;

use super::endpoint;
use crate::compiled::Compiled;
use clap::{ArgAction, Args};
use element::control::policy::ControlPolicy;
use element::io::PortNumbers;
use graph::Batching;

/// Run a configuration written in Click's language.
#[derive(Args, Debug, Clone)]
#[command(disable_help_flag = true, disable_version_flag = true)]
pub struct Click {
    /// The configuration's file (`-` for standard input), and variables: NAME=VALUE.
    #[arg(value_name = "FILE | NAME=VALUE")]
    pub words: Vec<String>,
    /// Read the configuration from a file.
    #[arg(long, short = 'f', value_name = "FILE")]
    pub file: Option<String>,
    /// This is the configuration.
    #[arg(long, short = 'e', value_name = "CONFIGURATION", allow_hyphen_values = true)]
    pub expression: Option<String>,
    /// Threads; receive queues are shared out among them.
    #[arg(long, short = 'j', default_value_t = 1)]
    pub threads: usize,
    /// Bind threads to cores, the first to this one.
    #[arg(long, short = 'a', value_name = "CORE", num_args = 0..=1, default_missing_value = "0", require_equals = true)]
    pub affinity: Option<usize>,
    /// Control connections on this TCP port of this host (127.0.0.1), or of an address:
    /// ADDRESS:PORT. A port may end in `+`: then one of the next ten will do. N=NAME is the
    /// packet port that FromDPDKDevice(N) and ToDPDKDevice(N) mean: 0=0000:03:00.0.
    #[arg(long, short = 'p', value_name = "PORT | N=NAME", value_parser = endpoint::port)]
    pub port: Vec<String>,
    /// DPDK's options, up to `--`: packet ports (-a, --vdev) are numbered as DPDK numbers them,
    /// threads are as many as its cores (-l, -c); others mean nothing here.
    #[arg(long, value_name = "OPTIONS", num_args = 0.., value_terminator = "--", allow_hyphen_values = true)]
    pub dpdk: Vec<String>,
    /// Control connections on this Unix socket.
    #[arg(long, short = 'u', value_name = "FILE")]
    pub unix_socket: Vec<String>,
    /// Let clients of control sockets write handlers that take a file's name.
    #[arg(long)]
    pub control_files: bool,
    /// Serve counters to Prometheus on this TCP port of this host (9464), or ADDRESS:PORT.
    #[arg(long, value_name = "PORT", num_args = 0..=1, default_missing_value = "9464", require_equals = true, value_parser = endpoint::metrics)]
    pub metrics: Option<String>,
    /// Let the configuration be replaced: a `hotconfig` handler.
    #[arg(long, short = 'R')]
    pub allow_reconfigure: bool,
    /// Read this handler after running and print it; element names may have `*`.
    #[arg(long, short = 'h', value_name = "ELEMENT.HANDLER")]
    pub handler: Vec<String>,
    /// The exit status is what this handler reads.
    #[arg(long, short = 'x', value_name = "ELEMENT.HANDLER")]
    pub exit_handler: Option<String>,
    /// Write the flat configuration to a file; `-` for standard output.
    #[arg(long, short = 'o', value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Do not run.
    #[arg(long, short = 'q')]
    pub quit: bool,
    /// Print how long it ran.
    #[arg(long, short = 't')]
    pub time: bool,
    /// Print no warnings.
    #[arg(long, short = 'w')]
    pub no_warnings: bool,
    /// Where libraries are looked for, folders separated by colons.
    #[arg(long, short = 'C', value_name = "PATH", env = "CLICKPATH")]
    pub clickpath: Option<String>,
    /// Simulated time, from this second on.
    #[arg(long, visible_alias = "simulation-time", value_name = "SECONDS", num_args = 0..=1, default_missing_value = "1000000000", require_equals = true)]
    pub simtime: Option<f64>,
    /// Say what is wrong as Click says it.
    #[arg(long)]
    pub compat: bool,
    /// All that is wrong with the configuration; nothing is run, opened or bound.
    #[arg(long)]
    pub check: bool,
    /// What the router would do: push and pull, threads, queues, locks, copies.
    #[arg(long)]
    pub explain: bool,
    /// As JSON: what --check or --explain says; of a run, handlers, ports and the account of
    /// packets at its end, and nothing else.
    #[arg(long)]
    pub json: bool,
    /// The graph for Graphviz.
    #[arg(long)]
    pub dot: bool,
    /// Draw the graph for a browser; `-` for standard output.
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Count packets and cycles for each element.
    #[arg(long)]
    pub measure: bool,
    /// Whether packets come in batches: `auto`, one by one where a script or a call looks
    /// at others between them; `always`; `never`.
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub batches: Batches,
    /// Call each element by itself, also where packets go on through several in one program
    /// (`--explain` tells where).
    #[arg(long)]
    pub no_chains: bool,
    /// The most packet buffers of a thread; without, what the elements may hold and 262144
    /// more, in half of the machine's memory at most.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(64..))]
    pub buffers: Option<u32>,
    /// A class's documentation; `list` for all names, `all` for all classes.
    #[arg(long, value_name = "CLASS")]
    pub doc: Option<String>,
    /// With --doc: in Markdown.
    #[arg(long)]
    pub markdown: bool,
    /// Keep all privileges and system calls: for debuggers and profilers.
    #[arg(long)]
    pub no_confine: bool,
    /// Descriptors in each ring of a port: a power of two, 64 to 4096.
    #[arg(long, default_value_t = 512)]
    pub ring: usize,
    /// Print the version.
    #[arg(long, short = 'v')]
    pub version: bool,
    /// The configuration is this one, built into the program.
    #[arg(skip)]
    pub compiled: Option<Compiled>,
    /// The packet ports that numbers stand for.
    #[arg(skip)]
    pub(super) numbers: PortNumbers,
    /// Print this help.
    #[arg(long, action = ArgAction::Help)]
    pub(super) help: Option<bool>,
}

/// When packets come in batches.
#[derive(clap::ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum Batches {
    /// Where it makes no difference to what becomes of them.
    Auto,
    /// They always do.
    Always,
    /// They never do.
    Never,
}

impl From<Batches> for Batching {
    fn from(batches: Batches) -> Batching {
        match batches {
            Batches::Auto => Batching::Auto,
            Batches::Always => Batching::Always,
            Batches::Never => Batching::Never,
        }
    }
}

impl Click {
    /// How ports are opened, unless an element says otherwise.
    pub fn port_options(&self) -> port::Options {
        port::Options { rx_ring: self.ring, tx_ring: self.ring, ..port::Options::default() }
    }

    /// Whether the configuration is only looked at.
    pub fn only_looks(&self) -> bool {
        self.check || self.explain || self.dot || self.svg.is_some()
    }

    /// Who may come in at control sockets, and what clients may do. The user is who called
    /// `sudo`, if somebody did; what a router gives up later does not count.
    pub fn control_policy(&self) -> ControlPolicy {
        static STARTED_BY: OnceLock<Vec<u32>> = OnceLock::new();
        let started_by = || {
            let own = rustix::process::getuid().as_raw();
            runtime::confine::caller().map(|(user, _)| user).into_iter().chain([own]).collect()
        };
        let users = STARTED_BY.get_or_init(started_by).clone();
        ControlPolicy { users, files: self.control_files, ..ControlPolicy::default() }
    }

    /// The cores the threads are bound to.
    pub fn cores(&self) -> Vec<usize> {
        let threads = self.threads.min(graph::plan::MAX_THREADS);
        self.affinity.map_or(vec![], |first| (0..threads).map(|n| first.saturating_add(n)).collect())
    }
}
