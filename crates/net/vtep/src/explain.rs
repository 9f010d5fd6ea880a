//! Why a packet goes where it goes: its identifier, the entry that has it, and the headers
//! that it gets, by the very code that sends packets.

use std::fmt;

use control::Key;
use memory::Packet;
use overlay::{Encapsulator, Layer, Overlay, Owner, Sent, Target, Tunnel};
use serde::{Deserialize, Serialize};
use wire::ethernet::{self, EtherType};
use wire::ip::Protocol as IpProtocol;
use wire::{ipv4, ipv6, udp, vlan};

use crate::gateway::{self, Entered};

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
    /// What happens, in words: `sent`, `flooded`, `punted`, or the name of a loss.
    pub outcome: String,
    /// What that means.
    pub why: String,
    /// The port of the underlay by which it leaves.
    pub port: Option<u16>,
    /// The outer headers, in words.
    pub headers: Option<String>,
    /// The tunnels that get a copy.
    pub copies: Vec<String>,
    /// The place of the entry, for the one who knows since when it is there.
    #[serde(skip)]
    pub place: Option<Key>,
}

/// Explains a frame as it comes by the port of a network: of a network of packets without its
/// Ethernet header, and taken to be for the gateway.
pub fn explain_frame(
    table: &Overlay,
    sender: &mut Encapsulator,
    network: u32,
    packet: &mut Packet,
) -> Explanation {
    let layer = table.network(network).map_or(Layer::Ethernet, |settings| settings.layer);
    let entered = if layer == Layer::Ethernet { Entered::Packet } else { gateway::unwrap(packet, layer) };
    match entered {
        Entered::Lost(loss) => Explanation::ending(network, loss.name(), loss.what()),
        Entered::Packet | Entered::Answer => explain(table, sender, network, packet),
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

    fn set_entry(&mut self, table: &Overlay, (owner, target): (Owner, &Target), place: Key) {
        self.entry = Some(describe_target(table, target));
        self.owner = Some(owner.to_string());
        self.place = Some(place);
    }
}

/// Explains a packet by sending it as a [sender that tries](Overlay::trial_encapsulator) does:
/// it has its outer headers then, where it would.
pub fn explain(table: &Overlay, sender: &mut Encapsulator, network: u32, packet: &mut Packet) -> Explanation {
    let len = packet.total_len();
    let found = table.explain(sender, network, packet);
    let (outcome, why) = match found.sent {
        Sent::Port(_) => ("sent", "its entry's tunnel takes it"),
        Sent::Drop(reason) => (reason.name(), reason.what()),
        Sent::Punt => ("punted", "no entry has its identifier, and the network gives such packets back"),
        Sent::Flood => ("flooded", "no entry has its identifier: all of the flood list get a copy"),
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
        Sent::Flood => explained.copies = table.flood(network).map(describe_tunnel).collect(),
        Sent::Drop(_) | Sent::Punt => {}
    }
    explained
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
