//! The arguments of `ixora load` and of `ixora serve demo`.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use testbed::MODELS;

use crate::cli::{Confine, PortOptions, examples};
use crate::rate::{Memory, Rate, duration};

#[derive(Subcommand, Debug)]
pub enum Load {
    /// Messages of one size, which come back.
    #[command(after_help = examples::LOAD)]
    Echo(LoadOptions<Message>),
    /// One path by HTTP/1.1.
    #[command(after_help = examples::LOAD)]
    Http(LoadOptions<Path>),
    /// Keys that are asked for and stored, by memcached's text protocol.
    #[command(after_help = examples::LOAD)]
    Memcached(LoadOptions<Keys>),
    /// Bulk transfers, measured with a server of iperf3's.
    #[command(after_help = examples::LOAD)]
    Iperf3(Iperf3),
}

impl Load {
    /// How often `-v` was given behind it.
    pub fn verbosity(&self) -> u8 {
        match self {
            Load::Echo(load) => load.options.verbose,
            Load::Http(load) => load.options.verbose,
            Load::Memcached(load) => load.options.verbose,
            Load::Iperf3(load) => load.options.verbose,
        }
    }
}

#[derive(Args, Debug)]
pub struct LoadOptions<W: Args> {
    /// The port that the client is on.
    #[arg(long)]
    pub port: String,
    /// Its address and the bits of its network, as 10.0.0.3/24; one of each version of IP.
    #[arg(long, required = true, value_parser = crate::apps::serve::prefixed)]
    pub addr: Vec<(IpAddr, u8)>,
    /// The server: 10.0.0.2, 10.0.0.2:7777, [fd00::2]:80.
    #[arg(long)]
    pub to: To,
    #[command(flatten)]
    pub course: Course,
    #[command(flatten)]
    pub workload: W,
    #[command(flatten)]
    pub options: PortOptions,
}

/// How hard a server is loaded.
#[derive(Args, Debug, Clone)]
pub struct Course {
    /// Connections, all open before the first request.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=16_000))]
    pub connections: u16,
    /// Requests under way on each connection at most.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub depth: u16,
    /// Requests on each connection, which is then reset, and another opened; without it connections
    /// stay open.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    pub messages: Option<u64>,
    /// Requests in a second, which arrive by themselves (a Poisson process): 10k, or 10k,50k,100k
    /// one after the other; max for a closed loop, where an answer brings the next request.
    #[arg(long, default_value = "max", value_delimiter = ',')]
    pub rate: Vec<Rate>,
    /// Draw the latencies by what came back in a second, as SVG.
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
}

/// The workload of `echo`.
#[derive(Args, Debug, Clone)]
pub struct Message {
    /// Bytes of a message.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    pub size: u32,
}

/// The workload of `http`.
#[derive(Args, Debug, Clone)]
pub struct Path {
    /// The path that is asked for.
    #[arg(long, default_value = "/")]
    pub path: String,
}

/// The workload of `memcached`.
#[derive(Args, Debug, Clone)]
pub struct Keys {
    /// What keys and values are like: usr, 19 bytes and 2; etc, 20 to 70 bytes and 1 to 1,024.
    #[arg(long, value_enum, default_value = "usr")]
    pub mix: Mix,
    /// Keys, all of which are stored at first.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub keys: u64,
    /// The share of requests that store: 0.002 of usr and 0.033 of etc if left out.
    #[arg(long, value_parser = share)]
    pub update: Option<f64>,
    /// The share of keys asked for that may be missing, 0 to 1; with more the command fails. All
    /// are stored at first, so that none is missing in a cache with room for them.
    #[arg(long, value_parser = share, default_value = "0")]
    pub misses: f64,
}

/// Keys and values.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mix {
    /// Small ones, as Facebook's pool USR has them.
    Usr,
    /// Longer ones, as Facebook's pool ETC has them.
    Etc,
}

/// What is measured with iperf3's servers.
#[derive(Args, Debug)]
pub struct Iperf3 {
    /// The port that the client is on.
    #[arg(long)]
    pub port: String,
    /// Its address and the bits of its network, as 10.0.0.3/24; one of each version of IP.
    #[arg(long, required = true, value_parser = crate::apps::serve::prefixed)]
    pub addr: Vec<(IpAddr, u8)>,
    /// The server: 10.0.0.2, 10.0.0.2:5201, [fd00::2]:5201.
    #[arg(long)]
    pub to: To,
    /// Streams beside each other.
    #[arg(long, short = 'P', default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=128))]
    pub parallel: u16,
    /// The server sends.
    #[arg(long, short = 'R')]
    pub reverse: bool,
    /// Bytes to move in all instead of a time: 100M, 1G.
    #[arg(long, short = 'n', conflicts_with = "duration")]
    pub bytes: Option<Memory>,
    /// Seconds in front of the measurement in which bytes move and do not count.
    #[arg(long, short = 'O', default_value_t = 0, value_name = "SECONDS")]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=60))]
    pub omit: u32,
    #[command(flatten)]
    pub options: PortOptions,
}

/// A server, whose port may be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct To(pub IpAddr, pub Option<u16>);

impl std::str::FromStr for To {
    type Err = String;

    fn from_str(text: &str) -> Result<To, String> {
        let whole = text.parse::<SocketAddr>().map(|to| To(to.ip(), Some(to.port())));
        let bare = || text.trim_matches(['[', ']']).parse().map(|to| To(to, None));
        whole
            .or_else(|_| bare())
            .map_err(|_| format!("`{text}` is no address such as 10.0.0.2 or 10.0.0.2:80"))
    }
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| format!("`{text}` is no share: write 0 to 1"))
}

/// The services of the demo.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// Messages that come back.
    Echo,
    /// One text by HTTP/1.1.
    Http,
    /// A cache, by memcached's protocols.
    Memcached,
}

#[derive(Args, Debug)]
pub struct Demo {
    /// What is served and loaded.
    #[arg(value_enum, default_value = "memcached")]
    pub service: Service,
    #[command(flatten)]
    pub course: Course,
    /// How long each rate is held.
    #[arg(long, default_value = "5s", value_parser = duration)]
    pub duration: Duration,
    /// Bytes of a message of echo, and of the text of http.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    pub size: u32,
    #[command(flatten)]
    pub keys: Keys,
    /// The model that both NICs are.
    #[arg(long, default_value = MODELS[0].name)]
    pub nic: String,
    /// Print the figures as JSON, and nothing else.
    #[arg(long)]
    pub json: bool,
    /// No live line.
    #[arg(long, short)]
    pub quiet: bool,
    #[command(flatten)]
    pub confine: Confine,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_read_as_written() {
        let [a, b] = [IpAddr::from([10, 0, 0, 2]), "fd00::2".parse().expect("an address")];
        assert_eq!("10.0.0.2".parse(), Ok(To(a, None)));
        assert_eq!("10.0.0.2:80".parse(), Ok(To(a, Some(80))));
        assert_eq!(("fd00::2".parse(), "[fd00::2]:80".parse()), (Ok(To(b, None)), Ok(To(b, Some(80)))));
        assert!("here:80".parse::<To>().is_err() && "10.0.0.2:".parse::<To>().is_err());
    }
}
