//! Why a packet goes where it goes: its identifier, the entry that has it, and the headers
//! that it gets, by the very code that sends packets.

use std::fmt;

use memory::Packet;
use overlay::{Encapsulator, Layer, Overlay, Sent, Target, Tunnel};
use serde::{Deserialize, Serialize};
use wire::ethernet::{self, EtherType};
use wire::ip::Protocol as IpProtocol;
use wire::{ipv4, ipv6, udp, vlan};

use crate::counters::Loss;
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
    /// The tunnel of the entry that has it.
    pub entry: Option<String>,
    /// Who told of the entry, and how long ago, where that is known.
    pub told: Option<String>,
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
        Entered::Lost(loss) => Explanation::lost(network, loss),
        Entered::Packet | Entered::Answer => explain(table, sender, network, packet),
    }
}

impl Explanation {
    /// Of a frame that goes no further.
    fn lost(network: u32, loss: Loss) -> Explanation {
        Explanation {
            network,
            key: None,
            bits: 0,
            entry: None,
            told: None,
            outcome: loss.name().to_owned(),
            why: loss.what().to_owned(),
            port: None,
            headers: None,
            copies: Vec::new(),
        }
    }
}

/// Explains a packet, which is given its outer headers where it would be.
pub fn explain(table: &Overlay, sender: &mut Encapsulator, network: u32, packet: &mut Packet) -> Explanation {
    let extractor = table.network(network).map(|settings| settings.extractor);
    let key = extractor.and_then(|extractor| extractor.key(network, packet)).map(|key| key.bits());
    let bits = extractor.map_or(0, |extractor| extractor.bits());
    let entry = key.and_then(|key| table.entry(network, key));
    let entry = entry.map(|entry| describe_target(table, entry.target));
    let len = packet.total_len();
    let mut sent = [Sent::Punt];
    sender.encapsulate(network, std::slice::from_mut(packet), &mut sent);
    let mut explained = Explanation {
        network,
        key: key.filter(|_| bits > 0).map(|key| format!("{key:#x}")),
        bits,
        entry,
        told: None,
        outcome: "sent".to_owned(),
        why: "its entry's tunnel takes it".to_owned(),
        port: None,
        headers: None,
        copies: Vec::new(),
    };
    match sent[0] {
        Sent::Port(port) => {
            let headers = packet.get(..packet.total_len() - len).unwrap_or_default();
            explained.port = Some(port);
            explained.headers = Some(describe_headers(headers));
        }
        Sent::Drop(reason) => {
            (explained.outcome, explained.why) = (reason.name().to_owned(), reason.what().to_owned());
        }
        Sent::Punt => {
            explained.outcome = "punted".to_owned();
            explained.why = "no entry has its identifier, and the network gives such packets back".to_owned();
        }
        Sent::Flood => {
            explained.outcome = "flooded".to_owned();
            explained.why = "no entry has its identifier: all of the flood list get a copy".to_owned();
            explained.copies = table.flood(network).map(describe_tunnel).collect();
        }
    }
    explained
}

/// Where an entry leads, in words: of a group all of its tunnels.
pub fn describe_target(table: &Overlay, target: &Target) -> String {
    match target {
        Target::Tunnel(tunnel) => describe_tunnel(tunnel),
        Target::Group(number) => {
            let members = table.group(*number).into_iter().flatten().map(describe_tunnel);
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
            None => write!(f, ", no identifier")?,
        }
        match &self.entry {
            Some(entry) => write!(f, "\n  entry    {entry}")?,
            None => write!(f, "\n  entry    none")?,
        }
        self.told.as_ref().map_or(Ok(()), |told| write!(f, "\n  told by  {told}"))?;
        write!(f, "\n  outcome  {}: {}", self.outcome, self.why)?;
        if let (Some(port), Some(headers)) = (self.port, &self.headers) {
            write!(f, "\n  port     {port}\n  headers  {headers}")?;
        }
        self.copies.iter().try_for_each(|copy| write!(f, "\n  copy     {copy}"))
    }
}
