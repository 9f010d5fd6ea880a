//! `ixora overlay explain`: why packets of a capture go where they go, by a configuration
//! alone or by what a running endpoint holds.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use clap::Args;
use interface::pcap::Reader;
use memory::{Dma, Pool};
use overlay::Overlay;
use vtep::{Config, Desired, Explanation, FrameExplainer, Held};
use wire::MacAddress;

use super::run::read;
use crate::Failure;
use crate::control_socket;

/// Why packets go where they go.
#[derive(Args, Debug)]
pub struct Explain {
    /// A capture of frames that come by the port of a network: pcap or pcapng.
    pub file: PathBuf,
    /// The configuration. Next hops that it does not name are taken to be found, and frames to
    /// any one station to be for the gateway of a network that has one.
    #[arg(long, required_unless_present = "control", conflicts_with = "control")]
    pub config: Option<PathBuf>,
    /// The socket of a running endpoint (`run --control`).
    #[arg(long)]
    pub control: Option<PathBuf>,
    /// The network; may be left out where there is one.
    #[arg(long)]
    pub network: Option<u32>,
    /// Packets to explain, at most.
    #[arg(long, default_value_t = 100)]
    pub count: usize,
    /// Print the explanations as JSON.
    #[arg(long)]
    pub json: bool,
}

/// Explains frames by a table.
pub struct Explainer {
    frames: FrameExplainer,
    pool: Pool,
}

impl Explainer {
    /// One who looks packets up in a table as they come by a configuration's networks' ports:
    /// these have the Ethernet addresses `macs`, or none that is known.
    pub fn new(table: &mut Overlay, config: &Config, macs: &[MacAddress]) -> Result<Explainer, Failure> {
        let backing = memory::Backing::Memfd;
        let dma = Dma::new(memory::Options { backing, ..memory::Options::default() });
        let macs = macs.iter().copied().map(Some).chain(std::iter::repeat(None));
        let frames = FrameExplainer::new(table, config.inner.iter().zip(macs));
        Ok(Explainer { frames, pool: Pool::new(&dma, 8)? })
    }

    /// Explains a frame that came by the port of a network.
    pub fn explain(
        &mut self,
        table: &Overlay,
        desired: &Desired,
        network: Option<u32>,
        frame: &[u8],
    ) -> Result<Explanation, String> {
        let network = match (network, desired.networks.len()) {
            (Some(network), _) => network,
            (None, 1) => desired.networks.keys().copied().next().unwrap_or_default(),
            (None, _) => {
                let all: Vec<String> = desired.networks.keys().map(ToString::to_string).collect();
                return Err(format!("name one of the networks {}: --network", all.join(", ")));
            }
        };
        let mut packet = self.pool.alloc().ok_or("there is no buffer")?;
        let explained = match packet.copy_from(frame) {
            Ok(()) => Ok(self.frames.explain(table, network, &mut packet)),
            Err(_) => Err(format!("a frame of {} bytes does not fit into a buffer", frame.len())),
        };
        self.pool.free(packet);
        explained
    }
}

/// Explains the packets of a capture.
pub fn run(arguments: &Explain) -> Result<(), Failure> {
    let frames = frames(&arguments.file, arguments.count)?;
    let explained: Vec<Explanation> = match (&arguments.control, &arguments.config) {
        (Some(control), _) => {
            let network = arguments.network.map_or("-".to_owned(), |network| network.to_string());
            let ask = |frame: &Vec<u8>| {
                let digits: String = frame.iter().map(|byte| format!("{byte:02x}")).collect();
                let answer =
                    control_socket::ask(control, &format!("explain {network} {digits}"), super::START)?;
                serde_json::from_str(&answer).map_err(|_| Failure::usage(answer.trim().to_owned()))
            };
            frames.iter().map(ask).collect::<Result<_, _>>()?
        }
        (None, Some(config)) => by_config(config, arguments.network, &frames)?,
        (None, None) => Vec::new(),
    };
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&explained).unwrap_or_default());
        return Ok(());
    }
    for (number, (frame, explanation)) in frames.iter().zip(&explained).enumerate() {
        println!("packet {}, {} bytes: {explanation}", number + 1, frame.len());
    }
    Ok(())
}

/// By a configuration alone.
fn by_config(config: &Path, network: Option<u32>, frames: &[Vec<u8>]) -> Result<Vec<Explanation>, Failure> {
    let config = read(config)?;
    let desired = config.desired(&vec![MacAddress::default(); config.underlay.len()]);
    let mut held = Held::default();
    held.apply(desired, 0)?;
    // Somebody would answer.
    let unresolved: Vec<_> = held.table.unresolved().collect();
    unresolved
        .iter()
        .for_each(|(port, address)| held.table.set_neighbor(*port, *address, Some(MacAddress::default())));
    let mut explainer = Explainer::new(&mut held.table, &config, &[])?;
    let explain = |frame: &Vec<u8>| {
        explainer.explain(&held.table, held.desired(), network, frame).map_err(Failure::usage)
    };
    frames.iter().map(explain).collect()
}

/// The first frames of a capture.
fn frames(path: &Path, count: usize) -> Result<Vec<Vec<u8>>, Failure> {
    let failed =
        |error: &dyn std::fmt::Display| Failure::usage(format!("cannot read {}: {error}", path.display()));
    let file = File::open(path).map_err(|error| failed(&error))?;
    let mut reader = Reader::new(BufReader::new(file)).map_err(|error| failed(&error))?;
    let mut frames = Vec::new();
    while frames.len() < count {
        match reader.next().map_err(|error| failed(&error))? {
            Some(record) => frames.push(record.data.to_vec()),
            None => break,
        }
    }
    Ok(frames)
}
