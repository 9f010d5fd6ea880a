//! `CheckARPHeader`: lets only sound ARP messages pass (RFC 826).

use std::net::{Ipv4Addr, Ipv6Addr};

use graph::class::{Handlers, keyword, positional, read};
use graph::element::kernel::Kernel;
use graph::{Action, Class, Cx, Each, PerPacket, PerThreadCounter};
use memory::Packet;
use memory::annotation::Header;
use port::Reason;
use wire::arp;
use wire::ethernet::EtherType;

use crate::kernels::each;

/// Why a message is bad: the class's reasons, in the order in which they are looked
/// for.
const REASONS: [Reason; 4] =
    [Reason::Tiny, Reason::TooSmallForAddresses, Reason::BadHardware, Reason::BadProtocol];

pub static CLASS: Class = Class {
    name: "CheckARPHeader",
    brief: "lets only sound ARP messages pass",
    doc: "Checks that the message is all there, and that addresses of Ethernet, IPv4 and IPv6 are as long as \
          they should be; says where it is. Bad packets go to output 1, or are dropped.",
    ports: "1/1-2",
    processing: "a/ah",
    arguments: &[
        positional("OFFSET", "bytes in front of the message; 0"),
        keyword("VERBOSE", "whether every bad packet is told of; false: only the first"),
        keyword("DETAILS", "whether `drop_details` can be read; false"),
    ],
    handlers: &Handlers::<CheckArpHeader>(&[
        read("drops", "bad packets", |check| check.sum().to_string()),
        read("drop_details", "bad packets for each reason", |check| {
            let lines = check.drops.iter().zip(REASONS);
            lines.map(|(drops, reason)| format!("{}\t{reason}\n", drops.sum())).collect()
        }),
    ]),
    drops: &REASONS,
    example: "CheckARPHeader(14)",
    see: &["ARPResponder", "ARPQuerier", "ARPPrint"],
    kernel: Kernel::Inside(each!(CheckArpHeader)),
    make: |_, conf| {
        let offset = conf.positional("OFFSET")?.unwrap_or(0);
        let verbose = conf.keyword("VERBOSE")?.unwrap_or(false);
        let _details: Option<bool> = conf.keyword("DETAILS")?;
        conf.complete()?;
        Ok(Each::boxed(CheckArpHeader { offset, verbose, drops: Default::default() }))
    },
    ..Class::BASE
};

/// A `CheckARPHeader` element; [`CLASS`] says what it does.
#[derive(Debug)]
pub struct CheckArpHeader {
    offset: usize,
    verbose: bool,
    drops: [PerThreadCounter; 4],
}

impl CheckArpHeader {
    fn check(&self, packet: &Packet) -> Result<usize, usize> {
        let message = packet.get(self.offset..).ok_or(0usize)?;
        let arp = arp::Header::of(message).ok_or(0usize)?;
        let (hardware_len, protocol_len) = (arp.hardware_len(), arp.protocol_len());
        let length = arp::HEADER_LEN + 2 * (hardware_len + protocol_len);
        match (arp.hardware(), arp.protocol()) {
            _ if packet.total_len() - self.offset < length => Err(1),
            (arp::ETHERNET, _) if hardware_len != size_of::<[u8; 6]>() => Err(2),
            (_, EtherType::IPV4) if protocol_len != size_of::<Ipv4Addr>() => Err(3),
            (_, EtherType::IPV6) if protocol_len != size_of::<Ipv6Addr>() => Err(3),
            _ => Ok(length),
        }
    }

    fn sum(&self) -> u64 {
        self.drops.iter().map(PerThreadCounter::sum).sum()
    }
}

impl PerPacket for CheckArpHeader {
    fn packet(&mut self, cx: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        match self.check(packet) {
            Ok(length) => {
                packet.set_header(Header::Network, self.offset);
                packet.set_header(Header::Transport, self.offset + length);
                Action::ON
            }
            Err(reason) => {
                if self.verbose || self.drops.iter().all(|drops| drops.own() == 0) {
                    cx.say(&format!("ARP header check failed: {}\n", REASONS[reason]));
                }
                self.drops[reason].add(1);
                Action::out_or_drop(1, reason)
            }
        }
    }

    fn replicate(&self) -> Option<CheckArpHeader> {
        let drops = self.drops.each_ref().map(PerThreadCounter::for_another);
        Some(CheckArpHeader { offset: self.offset, verbose: self.verbose, drops })
    }
}
