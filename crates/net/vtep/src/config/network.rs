//! `[[network]]`: a virtual network, its entries, its flood list and its ends.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use fib::exact::Extractor;
use overlay::{
    Carrier, InvalidTunnel, Layer, MAX_FLOOD, MAX_ROUTED, Match, Network, PROTOCOLS, Payload, Protocol,
    Tunnel, Unknown,
};
use toml_span::{Span, Value};
use wire::MacAddress;

use super::check::{fix, host, station};
use super::group::destination;
use super::read::{Problem, Read, Table, flag, number, parsed, text, word};
use super::tunnel::{self, Options};
use super::underlay::device;
use super::{Reading, usual};
use crate::desired::{End, EndKey, EntryTarget};

const KEYS: &[&str] = &[
    "number",
    "protocol",
    "layer",
    "key",
    "unknown",
    "inner",
    "gateway",
    "peer",
    "flood",
    "learning",
    "segment",
    "entry",
    "end",
    "accept_zero_checksum",
];
const KEY_KEYS: &[&str] = &["offset", "bits"];
const ENTRY_KEYS: &[&str] = &["key", "remote", "remotes", "group"];
/// What a network's key is called whose entries are prefixes.
const LONGEST_PREFIX: &str = "lpm";
const LAYERS: &[(&str, Layer)] =
    &[("ethernet", Layer::Ethernet), ("ip", Layer::Ip), ("service", Layer::Service)];
const UNKNOWN: &[(&str, Unknown)] =
    &[("flood", Unknown::Flood), ("drop", Unknown::Drop), ("punt", Unknown::Punt)];

/// The inner side of a network: the port at which its hosts are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inner {
    /// The number of the network.
    pub network: u32,
    /// The port, as commands name ports.
    pub port: String,
    /// What its packets are to the tunnels.
    pub layer: Layer,
    /// Addresses for which the port answers ARP, neighbour discovery and pings.
    pub gateway: Vec<IpAddr>,
    /// Where packets without an Ethernet header go.
    pub peer: Option<MacAddress>,
}

/// Whether a protocol's field has room for the identifier of a network, by which its packets come out of
/// tunnels: without entries nobody else would say that they never do.
fn fits(protocol: &Protocol, identifier: Option<u32>, table: &Table<'_, '_>) -> Read<()> {
    let Protocol { name, identifier_bits: bits, .. } = protocol;
    match identifier {
        Some(identifier) if *bits > 0 && u64::from(identifier) >> bits != 0 => {
            let cause = format!("the identifier {identifier} of {name} must be below 2^{bits}");
            let fix = format!("write a smaller number, or identifier = a number below 2^{bits}");
            Err(Problem::new(table.span_of("identifier"), cause, fix))
        }
        _ => Ok(()),
    }
}

/// A network as it is being read.
pub(super) struct Basis {
    pub(super) number: u32,
    pub(super) network: Network,
    pub(super) protocol: &'static Protocol,
    pub(super) options: Options,
    pub(super) zero_checksum: bool,
}

impl Reading<'_> {
    pub(super) fn network(&mut self, value: &Value<'_>) -> Read<()> {
        let table = Table::new(value, "a network", &[KEYS, tunnel::KEYS])?;
        let basis = self.basis(&table)?;
        self.once(format!("network {}", basis.number), table.span_of("number"))?;
        let networks = &mut self.config.desired.networks;
        networks.insert(basis.number, basis.network);
        let is_routed = |network: &&Network| network.matching == Match::LongestPrefix;
        if is_routed(&&basis.network) && networks.values().filter(is_routed).count() > MAX_ROUTED {
            let fix = format!("have at most {MAX_ROUTED} networks with key = \"lpm\"");
            return Err(Problem::new(table.span_of("key"), "too many networks have prefixes", fix));
        }
        self.inner(&table, &basis)?;
        for value in table.list("entry")? {
            self.entry(value, &basis)?;
        }
        self.flood(&table, &basis)?;
        self.learning(&table, &basis)?;
        self.segment(&table, &basis)?;
        for value in table.list("end")? {
            let end = Table::new(value, "an end", &[&["remote"], tunnel::KEYS])?;
            let tunnel = self.tunnel(&end, &basis)?;
            self.end(&tunnel, tunnel.identifier, &basis, value.span)?;
        }
        match self.is_followed(&basis) {
            true => self.add_open_ends(&basis, table.span),
            false => Ok(()),
        }
    }

    fn basis(&mut self, table: &Table<'_, '_>) -> Read<Basis> {
        let number = table.need("number", "100", |value| number(value, 0, u32::MAX.into()))?;
        let protocol = table.need("protocol", "\"vxlan\"", protocol)?;
        let layer = table.get("layer", |value| word(value, LAYERS))?;
        let is_routed = table.get("key", |value| Ok(value.as_str() == Some(LONGEST_PREFIX)))?;
        let is_routed = is_routed.unwrap_or(false);
        let layer = layer.unwrap_or(match protocol.payloads.contains(&Payload::Ethernet) && !is_routed {
            true => Layer::Ethernet,
            false => Layer::Ip,
        });
        let mut network = usual(layer);
        match table.get("key", |value| key_kind(value, layer))? {
            None => {}
            Some(MatchKind::Exact(extractor)) => network.extractor = extractor,
            Some(MatchKind::LongestPrefix) if layer == Layer::Ip => network = Network::routed(),
            Some(MatchKind::LongestPrefix) => {
                let cause = "prefixes are of IP packets' destinations";
                return Err(Problem::new(table.span_of("key"), cause, "write layer = \"ip\""));
            }
        }
        let has_flood = !table.list("flood")?.is_empty();
        let unknown = table.get("unknown", |value| word(value, UNKNOWN))?;
        network.unknown = if has_flood { Unknown::Flood } else { Unknown::Drop };
        let mut options = Options::read(table)?;
        if protocol.identifier_bits > 0 && options.identifier.is_none() && !is_plain_gre(protocol) {
            options.identifier = Some(number);
        }
        fits(protocol, options.identifier, table)?;
        let zero_checksum = table.get("accept_zero_checksum", flag)?.unwrap_or(false);
        let mut basis = Basis { number, network, protocol, options, zero_checksum };
        // A flood list may come from others, too.
        if self.is_followed(&basis) {
            basis.network.unknown = Unknown::Flood;
        }
        basis.network.unknown = unknown.unwrap_or(basis.network.unknown);
        Ok(basis)
    }

    fn inner(&mut self, table: &Table<'_, '_>, basis: &Basis) -> Read<()> {
        let gateway: Read<Vec<IpAddr>> =
            table.list("gateway")?.iter().map(|value| host(value, "10.0.0.1")).collect();
        let peer = table.get("peer", station)?;
        let (gateway, layer) = (gateway?, basis.network.layer);
        if let Some(place) = (1..gateway.len()).find(|place| gateway[..*place].contains(&gateway[*place])) {
            let cause = format!("{} is in the list already", gateway[place]);
            return Err(Problem::new(table.list("gateway")?[place].span, cause, "name it once"));
        }
        if layer == Layer::Ethernet && peer.is_some() {
            let cause = "packets of this network have Ethernet headers, which say where they go";
            return Err(Problem::new(table.span_of("peer"), cause, "leave peer out"));
        }
        let Some(port) = table.get("inner", text)? else {
            return match (gateway.is_empty(), peer) {
                (true, None) => Ok(()),
                _ => Err(Problem::new(
                    table.span,
                    "gateway and peer need an inner port",
                    "add inner = \"tap:inner0\"",
                )),
            };
        };
        if !self.has_ports {
            let cause = "ports are elements of the router here";
            return Err(Problem::new(table.span_of("inner"), cause, "leave inner out"));
        }
        if !port.starts_with("model:") {
            self.once(format!("the port {}", device(&port)), table.span_of("inner"))?;
        }
        if layer != Layer::Ethernet && peer.is_none() {
            let cause = "packets of this network have no Ethernet header, and nobody to go to";
            return Err(Problem::new(
                table.span_of("inner"),
                cause,
                "add peer = the Ethernet address of the host behind the inner port",
            ));
        }
        self.config.inner.push(Inner { network: basis.number, port, layer, gateway, peer });
        Ok(())
    }

    fn entry(&mut self, value: &Value<'_>, basis: &Basis) -> Read<()> {
        let table = Table::new(value, "an entry", &[ENTRY_KEYS, tunnel::KEYS])?;
        let way = match self.several(&table, basis)? {
            Some(several) => EntryTarget::Several(several),
            None => EntryTarget::Tunnel(self.tunnel(&table, basis)?),
        };
        if basis.network.matching == Match::LongestPrefix {
            let prefix = table.need("key", "\"10.1.0.0/16\"", destination)?;
            let what = format!("the entry {}/{} of network {}", prefix.0, prefix.1, basis.number);
            self.once(what, table.span_of("key"))?;
            self.ends(&way, basis, table.span)?;
            self.config.desired.prefixes.insert((basis.number, prefix), way);
            return Ok(());
        }
        let bits = basis.network.extractor.bits();
        let key = match bits {
            0 => table.get("key", |value| {
                Err(Problem::new(value.span, "packets of this network have no key", "leave key out"))
            })?,
            _ => Some(table.need("key", "\"02:00:00:00:00:02\"", |value| key(value, bits))?),
        };
        let key = key.unwrap_or(0);
        let name = match bits {
            MAC_BITS => mac_of(key).to_string(),
            _ => format!("{key:#x}"),
        };
        let no_station = [MacAddress::BROADCAST, MacAddress::ZERO].contains(&mac_of(key));
        if basis.network.extractor == Network::bridged().extractor && no_station {
            let fix = "leave it out: flood is the list of those who get such frames";
            return Err(Problem::new(table.span_of("key"), format!("{name} is no station's address"), fix));
        }
        self.once(format!("the entry {name} of network {}", basis.number), table.span_of("key"))?;
        self.ends(&way, basis, table.span)?;
        self.config.desired.entries.insert((basis.number, key), way);
        Ok(())
    }

    /// Notes where packets come out that the far ends of an entry send.
    fn ends(&mut self, way: &EntryTarget, basis: &Basis, span: Span) -> Read<()> {
        let all: Vec<&Tunnel> = match way {
            EntryTarget::Tunnel(tunnel) => vec![tunnel],
            EntryTarget::Several(several) => several.members.iter().map(|member| &member.tunnel).collect(),
        };
        all.into_iter().try_for_each(|tunnel| self.end(tunnel, basis.options.identifier, basis, span))
    }

    fn flood(&mut self, network: &Table<'_, '_>, basis: &Basis) -> Read<()> {
        let list = network.list("flood")?;
        if list.len() > MAX_FLOOD {
            let cause = format!("{} tunnels are too many for a flood list", list.len());
            return Err(Problem::new(network.span_of("flood"), cause, format!("name at most {MAX_FLOOD}")));
        }
        let mut flood = Vec::new();
        for value in list {
            let tunnel = match value.as_str() {
                Some(_) => {
                    let remote = parsed(value, "IP address", "192.0.2.2")?;
                    self.tunnel_to(remote, basis.options.clone(), basis, value.span)?
                }
                None => {
                    let table = Table::new(value, "a place in a flood list", &[&["remote"], tunnel::KEYS])?;
                    self.tunnel(&table, basis)?
                }
            };
            self.end(&tunnel, basis.options.identifier, basis, value.span)?;
            if flood.contains(&tunnel) {
                let cause = format!("{} is in the list already, and would get two copies", tunnel.remote);
                return Err(Problem::new(value.span, cause, "name it once"));
            }
            flood.push(tunnel);
        }
        self.config.desired.floods.insert(basis.number, flood);
        Ok(())
    }

    fn tunnel(&self, table: &Table<'_, '_>, basis: &Basis) -> Read<Tunnel> {
        let remote =
            table.need("remote", "\"192.0.2.2\"", |value| parsed(value, "IP address", "192.0.2.2"))?;
        self.tunnel_to(remote, Options::read(table)?.or(&basis.options), basis, table.span_of("remote"))
    }

    /// The tunnel to a far end.
    pub(super) fn tunnel_to(
        &self,
        remote: IpAddr,
        options: Options,
        basis: &Basis,
        span: Span,
    ) -> Read<Tunnel> {
        self.far(remote, span)?;
        self.tunnel_between(remote, options, basis, span)
    }

    /// The tunnel to an address, whoever may have that.
    pub(super) fn tunnel_between(
        &self,
        remote: IpAddr,
        options: Options,
        basis: &Basis,
        span: Span,
    ) -> Read<Tunnel> {
        let no_local = || {
            let cause = format!("no port of the underlay has an address from which {remote} is reached");
            Problem::new(span, cause, "add local = an address of that version of IP")
        };
        let local = options.local.or_else(|| self.config.local_for(remote)).ok_or_else(no_local)?;
        let tunnel = options.tunnel(basis.protocol, local, remote);
        let has_no_udp = !matches!(basis.protocol.carrier, Carrier::Udp(_));
        let checked = match options.udp_checksum.filter(|_| has_no_udp) {
            Some(_) => Err(InvalidTunnel::Option { protocol: basis.protocol.name, option: "UDP checksum" }),
            None => tunnel.check(),
        };
        checked.map_err(|error| {
            let (key, fix) = fix(&error);
            Problem::new(options.spans.get(key).copied().unwrap_or(span), error.to_string(), fix)
        })?;
        let carried = match basis.network.layer {
            Layer::Ethernet => Payload::Ethernet,
            Layer::Ip => Payload::Ipv4,
            Layer::Service => Payload::Nsh,
        };
        match basis.protocol.payloads.contains(&carried) {
            true => Ok(tunnel),
            false => {
                let cause = format!("{} does not carry such packets", basis.protocol.name);
                Err(Problem::new(span, cause, "change the network's protocol or layer"))
            }
        }
    }

    /// Notes where packets of a tunnel come out that its far end sends.
    fn end(&mut self, tunnel: &Tunnel, identifier: Option<u32>, basis: &Basis, span: Span) -> Read<()> {
        let by_remote = identifier.is_none() && tunnel.protocol.carrier != Carrier::Segments;
        let remote = by_remote.then_some(tunnel.remote);
        let key = EndKey { protocol: tunnel.protocol, local: tunnel.local, identifier, remote };
        self.add_end(key, End { network: basis.number, zero_checksum: basis.zero_checksum }, span)
    }
}

/// GRE may go without a key.
fn is_plain_gre(protocol: &Protocol) -> bool {
    matches!(protocol.carrier, Carrier::Ip(_)) && protocol.identifier_bits == 32
}

fn protocol(value: &Value<'_>) -> Read<&'static Protocol> {
    let names: Vec<(&str, &'static Protocol)> =
        PROTOCOLS.iter().map(|protocol| (protocol.name, protocol)).collect();
    word(value, &names)
}

/// How entries are found.
#[derive(Debug, Clone, Copy)]
enum MatchKind {
    /// By bits at a place in packets.
    Exact(Extractor),
    /// By the longest prefix of their destinations.
    LongestPrefix,
}

/// What packets are known by.
fn key_kind(value: &Value<'_>, layer: Layer) -> Read<MatchKind> {
    if value.as_table().is_some() {
        let table = Table::new(value, "a key", &[KEY_KEYS])?;
        let offset = table.need("offset", "0", |value| number(value, 0, 255))?;
        let bits = table.need("bits", "48", |value| number(value, 1, 128))?;
        let too_many = || Problem::new(value.span, "a key has at most 128 bits", "write fewer bits");
        return Extractor::new(offset, bits).map(MatchKind::Exact).ok_or_else(too_many);
    }
    let none = Network::point_to_point(layer).extractor;
    let kinds = [
        ("mac", MatchKind::Exact(usual(Layer::Ethernet).extractor)),
        ("none", MatchKind::Exact(none)),
        ("service", MatchKind::Exact(usual(Layer::Service).extractor)),
        (LONGEST_PREFIX, MatchKind::LongestPrefix),
    ];
    word(value, &kinds)
}

/// An entry's key: an Ethernet or IP address, a service path and index, or a number.
fn key(value: &Value<'_>, bits: u8) -> Read<u128> {
    let key = match value.as_integer() {
        Some(number) => u128::try_from(number).ok(),
        None => parse_key(&text(value)?),
    };
    let example = match bits {
        MAC_BITS => "\"02:00:00:00:00:02\"",
        32 => "\"10.0.0.1\", or PATH/INDEX of a service",
        _ => "a number, as in 7 or \"0x1f\"",
    };
    let unknown = || Problem::new(value.span, "this is no key", format!("write {example}"));
    let key = key.ok_or_else(unknown)?;
    match key.checked_shr(bits.into()).unwrap_or(0) {
        0 => Ok(key),
        _ => Err(Problem::new(
            value.span,
            format!("this does not fit into {bits} bits"),
            format!("write {example}"),
        )),
    }
}

/// Bits of a key that is an Ethernet address.
const MAC_BITS: u8 = 48;

/// The Ethernet address that a key is.
fn mac_of(key: u128) -> MacAddress {
    let [.., a, b, c, d, e, f] = key.to_be_bytes();
    MacAddress([a, b, c, d, e, f])
}

/// A key as it is written in a text.
pub fn parse_key(text: &str) -> Option<u128> {
    if let Ok(MacAddress(bytes)) = text.parse() {
        return Some(bytes.iter().fold(0, |key, byte| key << 8 | u128::from(*byte)));
    }
    if let Some((path, index)) = text.split_once('/') {
        let (path, index) = (path.parse::<u32>().ok()?, index.parse::<u8>().ok()?);
        return Some(u128::from(path) << 8 | u128::from(index));
    }
    if let Some(digits) = text.strip_prefix("0x") {
        return u128::from_str_radix(digits, 16).ok();
    }
    let v4 = || text.parse::<Ipv4Addr>().ok().map(|address| address.to_bits().into());
    let v6 = || text.parse::<Ipv6Addr>().ok().map(Ipv6Addr::to_bits);
    text.parse().ok().or_else(v4).or_else(v6)
}
