//! Why a packet goes where it goes: its identifier, the entry that has it, and the headers
//! that it gets, by the very code that sends packets.

use std::collections::BTreeMap;
use std::fmt;

use control::Key;
use memory::Packet;
use neighbor::Responder;
use overlay::{Encapsulator, Layer, Overlay, Owner, Sent, Target, Tunnel};
use port::Reason;
use serde::{Deserialize, Serialize};
use wire::ethernet::{self, EtherType};
use wire::ip::Protocol as IpProtocol;
use wire::{MacAddress, ipv4, ipv6, udp, vlan};

use crate::config::Inner;
use crate::gateway::{Entered, Gateway};

/// What becomes of a packet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explanation {
    /// The network that it was sent in.
    pub network: u32,
    /// Its identifier, in hexadecimal digits.
    pub key: Option<String>,
    /// Bits of the identifier.
    pub bits: u8,
    /// The prefix of its destination that decides, where prefixes do.
    pub prefix: Option<String>,
    /// Where the entry leads that has it.
    pub entry: Option<String>,
    /// Who told of the entry: `static`, `api`, `fpm`, `kernel` or `learned`.
    pub owner: Option<String>,
    /// How long ago that was, in milliseconds, where it is known.
    pub age_ms: Option<u64>,
    /// The tunnel that was picked.
    pub tunnel: Option<String>,
    /// Which of the entry's tunnels that is, from 1, where it has several.
    pub member: Option<usize>,
    /// What happens, in words: `sent`, `flooded`, `answered`, `punted`, or the name of a loss.
    pub outcome: String,
    /// What that means.
    pub why: String,
    /// The port of the underlay by which it leaves.
    pub port: Option<u16>,
    /// The outer headers, in words.
    pub headers: Option<String>,
    /// What becomes of the copies for the flood list, in its order.
    pub copies: Vec<FloodCopy>,
    /// The place of the entry, for the one who knows since when it is there.
    #[serde(skip)]
    pub place: Option<Key>,
}

/// What becomes of a copy for a place of a flood list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FloodCopy {
    /// The tunnel that is there.
    pub tunnel: String,
    /// What happens, in words: `sent`, or the name of a loss.
    pub outcome: String,
    /// What that means.
    pub why: String,
    /// The port of the underlay by which it leaves.
    pub port: Option<u16>,
}

/// Explains frames as they come by the ports of networks.
#[derive(Debug)]
pub struct FrameExplainer {
    sender: Encapsulator,
    /// The networks' ports, with their Ethernet addresses where these are known.
    ports: BTreeMap<u32, (Inner, Option<MacAddress>)>,
}

impl FrameExplainer {
    /// One who explains by a table, of which all is published, and by the networks' ports, each
    /// with its Ethernet address. A frame to any one station is taken to be for a port whose
    /// address is not known.
    pub fn new<'a>(
        table: &mut Overlay,
        ports: impl IntoIterator<Item = (&'a Inner, Option<MacAddress>)>,
    ) -> FrameExplainer {
        let ports = ports.into_iter().map(|(inner, mac)| (inner.network, (inner.clone(), mac))).collect();
        let sender = table.trial_encapsulator();
        table.publish();
        FrameExplainer { sender, ports }
    }

    /// Explains a frame that comes by the port of a network: what the port does with it, and what
    /// becomes of the packet behind that, as lanes have it.
    pub fn explain(&mut self, table: &Overlay, network: u32, packet: &mut Packet) -> Explanation {
        match self.gateway(table, network, packet).enter(packet) {
            Entered::Lost(loss) => return Explanation::ending(network, loss.name(), loss.what()),
            Entered::Answer => {
                let why = "it is for the network's gateway, whose port answers it";
                return Explanation::ending(network, "answered", why);
            }
            Entered::Packet => {}
        }
        let (mut explained, sent) = explain_sent(table, &mut self.sender, network, packet);
        let lost = match sent {
            Sent::Punt => Some(Reason::OverlayPunted),
            Sent::Flood if explained.copies.is_empty() => Some(Reason::OverlayNoCopy),
            _ => None,
        };
        if let Some(loss) = lost {
            explained.set_outcome(loss.name(), loss.what());
        }
        explained
    }

    /// The edge at which a frame comes in.
    fn gateway(&self, table: &Overlay, network: u32, frame: &[u8]) -> Gateway {
        let dst = ethernet::Header::of(frame).map(|header| header.dst()).filter(|dst| !dst.is_multicast());
        let dst = dst.unwrap_or_default();
        match self.ports.get(&network) {
            Some((inner, mac)) => Gateway::new(inner, mac.unwrap_or(dst)),
            // A network without a port: what would come by one.
            None => {
                let layer = table.network(network).map_or(Layer::Ethernet, |settings| settings.layer);
                Gateway { host: Responder { mac: dst, addresses: Vec::new() }, layer, peer: None }
            }
        }
    }
}

impl Explanation {
    /// Of a packet of which nothing is known but how its way ends.
    fn ending(network: u32, outcome: &str, why: &str) -> Explanation {
        Explanation {
            network,
            key: None,
            bits: 0,
            prefix: None,
            entry: None,
            owner: None,
            age_ms: None,
            tunnel: None,
            member: None,
            outcome: outcome.to_owned(),
            why: why.to_owned(),
            port: None,
            headers: None,
            copies: Vec::new(),
            place: None,
        }
    }

    fn set_outcome(&mut self, outcome: &str, why: &str) {
        (self.outcome, self.why) = (outcome.to_owned(), why.to_owned());
    }

    fn set_entry(&mut self, table: &Overlay, (owner, target): (Owner, &Target), place: Key) {
        self.entry = Some(describe_target(table, target));
        self.owner = Some(owner.to_string());
        self.place = Some(place);
    }
}

/// Explains a packet in one buffer by sending it as a [sender that
/// tries](Overlay::trial_encapsulator) does: it has its outer headers then, where it would.
pub fn explain(table: &Overlay, sender: &mut Encapsulator, network: u32, packet: &mut Packet) -> Explanation {
    explain_sent(table, sender, network, packet).0
}

/// As [`explain`], with what became of the packet.
fn explain_sent(
    table: &Overlay,
    sender: &mut Encapsulator,
    network: u32,
    packet: &mut Packet,
) -> (Explanation, Sent) {
    let len = packet.total_len();
    let found = table.explain(sender, network, packet);
    let (outcome, why) = match found.sent {
        Sent::Port(_) => ("sent", "its entry's tunnel takes it"),
        Sent::Drop(reason) => (reason.name(), reason.what()),
        Sent::Punt => ("punted", "no entry has its identifier, and the network gives such packets back"),
        Sent::Flood => ("flooded", "no entry has its identifier: a copy is made for each of the flood list"),
    };
    let mut explained = Explanation::ending(network, outcome, why);
    let settings = table.network(network);
    explained.bits = settings.map_or(0, |settings| settings.extractor.bits());
    let key = found.identifier.filter(|_| explained.bits > 0);
    explained.key = key.map(|key| format!("{key:#x}"));
    explained.tunnel = found.tunnel.map(|(_, tunnel)| describe_tunnel(tunnel));
    let target = found.entry.map(|entry| entry.target).or(found.prefix.map(|entry| entry.target));
    if let (Some(Target::Group(number)), Some((_, tunnel))) = (target, found.tunnel) {
        let mut members = table.group(*number).into_iter().flatten();
        explained.member = members.position(|member| member.tunnel == *tunnel).map(|place| place + 1);
    }
    if let (Some(entry), Some(settings)) = (found.entry, settings) {
        let place = Key::at(network, settings, entry.identifier);
        explained.set_entry(table, (entry.owner, entry.target), place);
    }
    if let Some(entry) = found.prefix {
        explained.prefix = Some(format!("{}/{}", entry.prefix.0, entry.prefix.1));
        explained.set_entry(table, (entry.owner, entry.target), Key::Prefix(network, entry.prefix));
    }
    match found.sent {
        Sent::Port(port) => {
            let headers = packet.get(..packet.total_len() - len).unwrap_or_default();
            explained.port = Some(port);
            explained.headers = Some(describe_headers(headers));
        }
        Sent::Flood => {
            let tunnels: Vec<String> = table.flood(network).map(describe_tunnel).collect();
            explained.copies = copies(tunnels, sender, network, packet);
        }
        Sent::Drop(_) | Sent::Punt => {}
    }
    (explained, found.sent)
}

/// What becomes of a copy of a packet for each place of a flood list, found by sending it there.
/// The packet is as it was then.
fn copies(
    tunnels: Vec<String>,
    sender: &mut Encapsulator,
    network: u32,
    packet: &mut Packet,
) -> Vec<FloodCopy> {
    let bytes = packet.to_vec();
    let mut copies = Vec::with_capacity(tunnels.len());
    for (place, tunnel) in (0..).zip(tunnels) {
        let sent = sender.flood(network, place, packet);
        let (outcome, why, port) = match sent {
            Sent::Port(port) => ("sent", "its tunnel takes it", Some(port)),
            Sent::Drop(reason) => (reason.name(), reason.what(), None),
            // Which a place never gives.
            Sent::Punt | Sent::Flood => (Reason::OverlayNoCopy.name(), Reason::OverlayNoCopy.what(), None),
        };
        copies.push(FloodCopy { tunnel, outcome: outcome.to_owned(), why: why.to_owned(), port });
        let headers = packet.total_len() - bytes.len();
        let is_back = packet.pull_front(headers).is_ok() && packet.copy_from(&bytes).is_ok();
        debug_assert!(is_back, "the headers were put in front of these bytes");
    }
    copies
}

/// Where an entry leads, in words: of a group all of its tunnels.
pub fn describe_target(table: &Overlay, target: &Target) -> String {
    match target {
        Target::Tunnel(tunnel) => describe_tunnel(tunnel),
        Target::Group(number) => {
            let members = table.group(*number).into_iter().flatten().map(|member| match member.weight {
                1 => describe_tunnel(&member.tunnel),
                weight => format!("{} (weight {weight})", describe_tunnel(&member.tunnel)),
            });
            members.collect::<Vec<_>>().join(" or ")
        }
    }
}

/// A tunnel in words.
pub fn describe_tunnel(tunnel: &Tunnel) -> String {
    let identifier = tunnel.identifier.map(|identifier| format!(", identifier {identifier}"));
    let (name, local, remote) = (tunnel.protocol.name, tunnel.local, tunnel.remote);
    format!("{name} {local} > {remote}{}", identifier.unwrap_or_default())
}

/// Outer headers in words, from the Ethernet header to the one in front of the tunnel's.
fn describe_headers(headers: &[u8]) -> String {
    let Some(frame) = ethernet::Header::of(headers) else { return String::new() };
    let mut text = format!("{} > {}", frame.src(), frame.dst());
    let (mut at, mut ethertype) = (ethernet::HEADER_LEN, frame.ethertype());
    if let Some(tag) = headers.get(at..).and_then(vlan::Header::of).filter(|_| ethertype.is_tag()) {
        text += &format!(", VLAN {}", tag.id());
        (at, ethertype) = (at + vlan::HEADER_LEN, tag.ethertype());
    }
    let rest = headers.get(at..).unwrap_or_default();
    let (protocol, behind) = match ethertype {
        EtherType::IPV4 => match ipv4::Header::of(rest) {
            Some(ip) => {
                let class = ip.traffic_class();
                text += &format!(", {} > {}, TTL {}, class {class:#04x}", ip.src(), ip.dst(), ip.ttl());
                (ip.protocol(), rest.get(ip.header_len()..))
            }
            None => return text,
        },
        _ => match ipv6::Header::of(rest) {
            Some(ip) => {
                let (limit, label) = (ip.hop_limit(), ip.flow_label());
                text += &format!(", {} > {}, hop limit {limit}, flow label {label:#x}", ip.src(), ip.dst());
                (ip.next_header(), rest.get(ipv6::HEADER_LEN..))
            }
            None => return text,
        },
    };
    let port = behind.and_then(udp::Header::of).filter(|_| protocol == IpProtocol::UDP);
    match port {
        Some(udp) => text + &format!(", UDP {} > {}", udp.src_port(), udp.dst_port()),
        None => text + &format!(", protocol {}", protocol.0),
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "network {}", self.network)?;
        match &self.key {
            Some(key) => write!(f, ", identifier {key} of {} bits", self.bits)?,
            None if self.bits > 0 => write!(f, ", too short for its {} bits of identifier", self.bits)?,
            None => match &self.prefix {
                Some(prefix) => write!(f, ", by the prefix {prefix}")?,
                None => write!(f, ", no identifier")?,
            },
        }
        match &self.entry {
            Some(entry) => write!(f, "\n  entry    {entry}")?,
            None => write!(f, "\n  entry    none")?,
        }
        if let Some(owner) = &self.owner {
            write!(f, "\n  owner    {owner}")?;
            let age = self.age_ms.map(|age| age as f64 / 1e3);
            age.map_or(Ok(()), |age| write!(f, ", for {age:.1} s"))?;
        }
        if let (Some(member), Some(tunnel)) = (self.member, &self.tunnel) {
            write!(f, "\n  member   {member}: {tunnel}")?;
        }
        write!(f, "\n  outcome  {}: {}", self.outcome, self.why)?;
        if let (Some(port), Some(headers)) = (self.port, &self.headers) {
            write!(f, "\n  port     {port}\n  headers  {headers}")?;
        }
        self.copies.iter().try_for_each(|copy| write!(f, "\n  copy     {copy}"))
    }
}

impl fmt::Display for FloodCopy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => write!(f, "{}, by port {port}", self.tunnel),
            None => write!(f, "{}: {}: {}", self.tunnel, self.outcome, self.why),
        }
    }
}
