//! `AnonymizeIPAddr`: other addresses, that share prefixes as the true ones do.

use std::hash::{BuildHasher, RandomState};

use graph::class::keyword;
use graph::lang::args;
use graph::value::{Raw, unsigned};
use graph::{Action, Class, Cx, Each, PerPacket};
use memory::Packet;
use memory::annotation::Header;
use wire::ip::Protocol;
use wire::{checksum, icmpv4, ipv4, tcp, udp};

use graph::ip_header::{LEN, u32_at};
use port::Reason;

pub static CLASS: Class = Class {
    name: "AnonymizeIPAddr",
    brief: "replaces IP addresses, keeping which share prefixes",
    doc: "Two addresses that share their first bits are replaced by two that share as many. 0.0.0.0 and \
          255.255.255.255 stay. Which address becomes which is chosen anew for each run, and nothing is \
          remembered. ICMP errors have the header inside replaced as well; the checksums of the IP header and \
          of ICMP stay as right as they were, those of TCP and UDP do not. Packets that are not IPv4 go to \
          output 1, or are dropped. Whoever sees enough traffic can find hosts again: it hides less than it \
          seems.",
    ports: "1/1-2",
    processing: "a/ah",
    arguments: &[
        keyword("CLASS", "how many leading ones stay: 1 keeps class A apart, 4 classes A to D; 0"),
        keyword("PRESERVE_8", "first bytes of networks that stay where they are; none"),
        keyword("SEED", "taken for compatibility"),
    ],
    drops: &[Reason::NotIpv4],
    example: "FromDump(in.pcap, FORCE_IP true) -> AnonymizeIPAddr(CLASS 4) -> ToDump(out.pcap)",
    see: &["EraseIPPayload"],
    make: |_, conf| {
        let class: u32 = conf.keyword("CLASS")?.unwrap_or(0);
        let networks: Option<Raw> = conf.keyword("PRESERVE_8")?;
        let _: Option<bool> = conf.keyword("SEED")?;
        conf.complete()?;
        // 99 is tcpdpriv's word for all.
        let class = if class == 99 { 32 } else { class };
        if class > 32 {
            return Err("CLASS must be between 0 and 32".into());
        }
        let mut kept = vec![];
        for word in networks.iter().flat_map(|raw| args::words(&raw.0)) {
            let network = unsigned(word).and_then(|n| u8::try_from(n).ok());
            kept.push(network.ok_or("PRESERVE_8 expects integer between 0 and 255")?);
        }
        Ok(Each::boxed(Anonymize { class, kept, secret: RandomState::new() }))
    },
    ..Class::BASE
};

pub static ERASE: Class = Class {
    name: "EraseIPPayload",
    brief: "overwrites what TCP and UDP carry with zeros",
    doc: "Lengths stay; the checksums of TCP and UDP become zero. ICMP stays as it is, other protocols are \
          dropped.",
    drops: &[Reason::AnotherProtocol],
    example: "FromDump(in.pcap, FORCE_IP true) -> EraseIPPayload -> ToDump(out.pcap)",
    see: &["AnonymizeIPAddr"],
    make: |_, conf| {
        conf.complete()?;
        Ok(Each::boxed(Erase))
    },
    ..Class::BASE
};

/// An `AnonymizeIPAddr` element; [`CLASS`] says what it does.
#[derive(Debug, Clone)]
pub struct Anonymize {
    class: u32,
    kept: Vec<u8>,
    /// Decides each bit, from those before it.
    secret: RandomState,
}

impl Anonymize {
    fn address(&self, address: u32) -> u32 {
        if address == 0 || address == u32::MAX {
            return address;
        }
        let mut out = 0;
        for bit in 0..32 {
            // What stands before this bit; the same for all addresses of a prefix.
            let prefix = if bit == 0 { 0 } else { address >> (32 - bit) };
            let all_ones = prefix.count_ones() == bit;
            let stays = bit < self.class && all_ones
                || bit < 8 && self.kept.iter().any(|kept| u32::from(*kept) >> (8 - bit) == prefix);
            let flip = if stays { 0 } else { (self.secret.hash_one((bit, prefix)) & 1) as u32 };
            out = out << 1 | (address >> (31 - bit) & 1) ^ flip;
        }
        out
    }

    /// Replaces a header's addresses; `sum` is a checksum that they are part of.
    fn header(&self, header: &mut [u8], mut sum: u16) -> u16 {
        for at in [ipv4::offset::SRC, ipv4::offset::DST] {
            let before = u32_at(header, at);
            let after = self.address(before);
            header[at..at + 4].copy_from_slice(&after.to_be_bytes());
            sum = checksum::update_u32(sum, before, after);
        }
        sum
    }
}

/// Bytes that an error quotes behind the IP header.
const QUOTED: usize = icmpv4::LEAST_QUOTED - LEN;

impl PerPacket for Anonymize {
    fn packet(&mut self, _: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        let ip = packet.header_mut(Header::Network).and_then(|bytes| bytes.first_chunk_mut::<LEN>());
        let Some(bytes) = ip.filter(|bytes| ipv4::Header::new(&**bytes).version() == 4) else {
            return Action::out_or_drop(1, 0);
        };
        let before = ipv4::Header::new(&*bytes).checksum();
        let sum = self.header(bytes, before);
        let mut ip = ipv4::Header::new(bytes);
        ip.set_checksum(sum);
        if ip.protocol() == Protocol::ICMP
            && let Some((icmp, quoted)) =
                packet.header_mut(Header::Transport).and_then(|icmp| icmp.split_first_chunk_mut())
        {
            let mut icmp = icmpv4::Header::new(icmp);
            let length = quoted.first().map_or(0, |first| ipv4::header_len(*first));
            let whole = length >= LEN && quoted.len() >= length + QUOTED;
            if icmpv4::is_error(icmp.message_type()) && whole {
                icmp.set_checksum(self.header(quoted, icmp.checksum()));
            }
        }
        Action::ON
    }

    fn replicate(&self) -> Option<Anonymize> {
        Some(self.clone())
    }
}

/// An `EraseIPPayload` element; [`ERASE`] says what it does.
#[derive(Debug, Clone)]
pub struct Erase;

impl PerPacket for Erase {
    fn packet(&mut self, _: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        let protocol = packet.header(Header::Network).and_then(|ip| ip.get(ipv4::offset::PROTOCOL));
        let protocol = protocol.map(|number| Protocol(*number));
        let Some(transport) = packet.header_mut(Header::Transport) else { return Action::drop(0) };
        let (header, sum) = match protocol {
            Some(Protocol::TCP) => {
                let said = transport.get(tcp::offset::DATA_OFFSET);
                (said.map_or(tcp::HEADER_LEN, |byte| tcp::header_len(*byte)), tcp::offset::CHECKSUM)
            }
            Some(Protocol::UDP) => (udp::HEADER_LEN, udp::offset::CHECKSUM),
            Some(Protocol::ICMP) => return Action::ON,
            _ => return Action::drop(0),
        };
        if let Some(payload) = transport.get_mut(header..) {
            payload.fill(0);
        }
        if let Some(sum) = transport.get_mut(sum..sum + 2) {
            sum.fill(0);
        }
        let mut segment = packet.next_mut();
        while let Some(next) = segment {
            next.fill(0);
            segment = next.next_mut();
        }
        Action::ON
    }

    fn replicate(&self) -> Option<Erase> {
        Some(Erase)
    }
}
