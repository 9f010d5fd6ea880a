//! The arguments of `ixora serve`.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Subcommand};

use crate::cli::{PortOptions, examples};
use crate::metrics_port::MetricsOptions;
use crate::rate::Memory;

#[derive(Subcommand, Debug)]
pub enum Serve {
    /// Send back what is sent (RFC 862).
    #[command(after_help = examples::SERVE)]
    Echo(ServeOptions),
    /// A cache of keys and values for memcached's clients.
    #[command(after_help = examples::SERVE)]
    Memcached(Memcached),
    /// Files by HTTP/1.1.
    #[command(after_help = examples::SERVE)]
    Http(Http),
    /// Bulk transfers for iperf3's clients, over TCP and UDP.
    #[command(after_help = examples::SERVE)]
    Iperf3(ServeOptions),
    /// A server and a load on two device models: no root, no NIC.
    #[command(after_help = examples::SERVE_DEMO)]
    Demo(crate::apps::load::arguments::Demo),
}

impl Serve {
    /// How often `-v` was given behind it.
    pub fn verbosity(&self) -> u8 {
        match self {
            Serve::Echo(serve) | Serve::Iperf3(serve) => serve.options.verbose,
            Serve::Memcached(memcached) => memcached.serve.options.verbose,
            Serve::Http(http) => http.serve.options.verbose,
            Serve::Demo(_) => 0,
        }
    }
}

/// How a host comes to an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostAddress {
    /// It is given: the address and the bits of its network.
    Given(IpAddr, u8),
    /// A server of DHCP gives it.
    Dhcp,
    /// Router advertisements tell its network.
    Auto,
}

impl fmt::Display for HostAddress {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            HostAddress::Given(address, _) => address.fmt(f),
            HostAddress::Dhcp => f.write_str("dhcp"),
            HostAddress::Auto => f.write_str("auto"),
        }
    }
}

impl FromStr for HostAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<HostAddress, String> {
        match text {
            "dhcp" => Ok(HostAddress::Dhcp),
            "auto" => Ok(HostAddress::Auto),
            text => {
                let given = crate::apps::serve::prefixed(text);
                given.map(|(address, bits)| HostAddress::Given(address, bits))
            }
        }
    }
}

#[derive(Args, Debug)]
pub struct ServeOptions {
    /// The port that the host is on.
    #[arg(long)]
    pub port: String,
    /// Its address and the bits of its network, as 10.0.0.2/24; dhcp to ask a server for one of IPv4;
    /// auto for one of IPv6 from router advertisements. One of each version may be given.
    #[arg(long, required = true)]
    pub addr: Vec<HostAddress>,
    /// The router to other networks, of an address that is given with --addr; one of each version.
    #[arg(long, value_name = "ADDRESS")]
    pub gateway: Vec<IpAddr>,
    /// The TCP port to listen on, if not the service's own.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    pub listen: Option<u16>,
    /// Listen at this path for `ixora tcp show`, `tcp top` and `tcp cores`.
    #[arg(long, value_name = "SOCKET")]
    pub control: Option<PathBuf>,
    #[command(flatten)]
    pub metrics: MetricsOptions,
    #[command(flatten)]
    pub options: PortOptions,
}

#[derive(Args, Debug)]
pub struct Memcached {
    /// Memory of all items: 64M, 2G. Those that were used longest ago make room for others.
    #[arg(long, default_value = "64M")]
    pub memory: Memory,
    /// The largest item, with its key and what is kept beside it.
    #[arg(long, default_value = "1M")]
    pub max_item_size: Memory,
    /// Answer requests over UDP too, at this port: for networks where nobody sends in another's
    /// name, who would get the answers.
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub udp_port: Option<u16>,
    /// Let clients end the program with the command `shutdown`.
    #[arg(long)]
    pub enable_shutdown: bool,
    #[command(flatten)]
    pub serve: ServeOptions,
}

#[derive(Args, Debug)]
pub struct Http {
    /// The directory whose files are served. They are read at the start; without it, every
    /// path leads to one text.
    #[arg(long)]
    pub root: Option<PathBuf>,
    /// Memory for the files.
    #[arg(long, default_value = "1G")]
    pub memory: Memory,
    /// Bytes of the one text.
    #[arg(long, default_value_t = 64, conflicts_with = "root", value_parser = body_size)]
    pub size: usize,
    #[command(flatten)]
    pub serve: ServeOptions,
}

fn body_size(text: &str) -> Result<usize, String> {
    let size = text.parse().ok().filter(|size| *size <= 1 << 30);
    size.ok_or_else(|| format!("{text:?} is no size of a text: write up to {} bytes", 1 << 30))
}
