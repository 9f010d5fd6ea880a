//! `overlay.toml`: the ports of an underlay, its routes and neighbours, and virtual networks
//! with their entries, groups, flood lists and ends. The whole file is checked before anything is
//! done: unknown keys, tunnels that cannot be and two owners of one thing are refused, with
//! the place and what to write. `docs/overlays.md` lists all keys.

mod check;
mod follow;
mod group;
mod learning;
mod network;
mod read;
mod segment;
mod tunnel;
mod underlay;

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use control::Several;
use overlay::{Layer, Network, Prefix, Protocol, Route};
use toml_span::Value;
use wire::MacAddress;

use crate::desired::{Desired, End, EndKey};
pub use follow::{Api, Follow, FpmPort, Learn, Listen};
use group::FarEnd;
pub use network::{Inner, parse_key};
pub use read::Error;
use read::{Problem, Read, Table};
pub use underlay::UnderlayPort;

const FILE_KEYS: &[&str] = &["learn", "fpm", "api", "underlay", "route", "group", "network"];

/// A configuration file's content.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Config {
    /// Ports of the underlay; their places are their numbers.
    pub underlay: Vec<UnderlayPort>,
    /// Inner sides of the networks that have one here.
    pub inner: Vec<Inner>,
    /// Who changes the table beside the file.
    pub follow: Follow,
    /// All but the ports' own Ethernet addresses.
    desired: Desired,
}

/// What is known while a file is read.
#[derive(Default)]
struct Reading<'t> {
    text: &'t str,
    config: Config,
    /// Where things were that may be there once.
    first: HashMap<String, usize>,
    /// Whether ports are named here, and not elements of a router.
    has_ports: bool,
    /// Groups of far ends, by name.
    groups: BTreeMap<String, Vec<FarEnd>>,
    /// Who has tunnels of a protocol that another one's could be mistaken for, by local address.
    mistakable: BTreeMap<IpAddr, (&'static Protocol, u32)>,
    /// What they are for networks whose entries name them.
    shared: BTreeMap<(u32, String), Arc<Several>>,
}

impl Config {
    /// Reads a file's text.
    ///
    /// # Errors
    /// The first thing that is wrong, with its place.
    pub fn parse(text: &str) -> Result<Config, Error> {
        Config::read(text, true)
    }

    /// Reads the text of a configuration whose ports are elements of a router: it names none,
    /// and all Ethernet addresses.
    ///
    /// # Errors
    /// The first thing that is wrong, with its place.
    pub fn parse_for_router(text: &str) -> Result<Config, Error> {
        Config::read(text, false)
    }

    fn read(text: &str, has_ports: bool) -> Result<Config, Error> {
        let value = toml_span::parse(text).map_err(|error| read::not_toml(&error).place(text))?;
        let mut reading = Reading { text, has_ports, ..Reading::default() };
        reading.file(&value).map_err(|problem| problem.place(text))?;
        Ok(reading.config)
    }

    /// What the table is to hold, with the Ethernet addresses that the underlay's ports have
    /// where the file names none.
    pub fn desired(&self, macs: &[MacAddress]) -> Desired {
        let mut desired = self.desired.clone();
        for (number, (port, mac)) in self.underlay.iter().zip(macs).enumerate() {
            desired.ports.insert(number as u16, port.port(port.mac.unwrap_or(*mac)));
        }
        desired
    }

    /// The longest frame that the underlay's ports send, in bytes without CRC.
    pub fn max_frame(&self) -> usize {
        let headers = wire::ethernet::HEADER_LEN + wire::vlan::HEADER_LEN;
        self.underlay.iter().map(|port| usize::from(port.mtu) + headers).max().unwrap_or(0)
    }

    /// The number of a port of the underlay by its name in the file.
    fn port_named(&self, name: &str) -> Option<u16> {
        self.underlay.iter().position(|port| port.name == name).map(|at| at as u16)
    }

    /// The local address that tunnels to a far end have where nothing is said.
    fn local_for(&self, remote: IpAddr) -> Option<IpAddr> {
        let mut all = self.underlay.iter().flat_map(|port| &port.addresses);
        all.find(|(address, _)| address.is_ipv4() == remote.is_ipv4()).map(|(address, _)| *address)
    }
}

impl Reading<'_> {
    fn file(&mut self, value: &Value<'_>) -> Read<()> {
        let file = Table::new(value, "the file", &[FILE_KEYS])?;
        self.follow(&file)?;
        for port in file.list("underlay")? {
            self.underlay(port)?;
        }
        if self.config.underlay.is_empty() {
            let fix = "add [[underlay]] with name, port and addresses";
            return Err(Problem::new(file.span, "there is no port of the underlay", fix));
        }
        for route in file.list("route")? {
            self.route(route)?;
        }
        for group in file.list("group")? {
            self.group(group)?;
        }
        for network in file.list("network")? {
            self.network(network)?;
        }
        Ok(())
    }

    /// Notes that a thing is there, which may be there once.
    fn once(&mut self, what: String, span: toml_span::Span) -> Read<()> {
        if let Some(at) = self.first.get(&what) {
            let (line, _) = read::place(self.text, *at);
            let fix = format!("remove this one, or the one in line {line}");
            return Err(Problem::new(span, format!("{what} is there already, from line {line}"), fix));
        }
        self.first.insert(what, span.start);
        Ok(())
    }

    /// Notes a route.
    fn add_route(&mut self, prefix: Prefix, route: Route, span: toml_span::Span) -> Read<()> {
        self.once(format!("the route to {}/{}", prefix.0, prefix.1), span)?;
        self.config.desired.routes.insert(prefix, route);
        Ok(())
    }

    /// Notes an end of a tunnel, which one network may have.
    fn add_end(&mut self, key: EndKey, end: End, span: toml_span::Span) -> Read<()> {
        if key.protocol.can_be_mistaken() {
            let known = self.mistakable.entry(key.local).or_insert((key.protocol, end.network));
            no_other(*known, &key, span)?;
        }
        match self.config.desired.ends.get(&key) {
            Some(known) if known.network != end.network => {
                let cause =
                    format!("packets of this tunnel ({key}) come out in network {} already", known.network);
                Err(Problem::new(span, cause, "give the networks different identifiers"))
            }
            _ => {
                self.config.desired.ends.insert(key, end);
                Ok(())
            }
        }
    }
}

/// Whether the packets of an end can be told from those of another protocol that come to its address.
fn no_other(
    (other, network): (&Protocol, u32),
    EndKey { protocol, local, .. }: &EndKey,
    span: toml_span::Span,
) -> Read<()> {
    if !protocol.is_mistaken_for(other) {
        return Ok(());
    }
    let (name, other) = (protocol.name, other.name);
    let cause =
        format!("packets of {name} to {local} could be those of {other}, which network {network} has");
    let fix = format!("write local = another address of this host's than {local} for one of them");
    Err(Problem::new(span, cause, fix))
}

/// A prefix as it is written; an address alone is a host's.
///
/// # Errors
/// What is wrong with it.
pub fn parse_prefix(text: &str) -> Result<Prefix, String> {
    let (address, len) = text.split_once('/').map_or((text, None), |(address, len)| (address, Some(len)));
    let address: IpAddr = address.parse().map_err(|_| format!("{address:?} is no IP address"))?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let len = match len {
        None => most,
        Some(len) => {
            len.parse().ok().filter(|len| *len <= most).ok_or_else(|| format!("/{len} is no length"))?
        }
    };
    Ok((address, len))
}

/// The network that packets of a layer have where nothing else is said.
fn usual(layer: Layer) -> Network {
    match layer {
        Layer::Ethernet => Network::bridged(),
        Layer::Ip => Network::point_to_point(Layer::Ip),
        Layer::Service => Network::service_path(),
    }
}
