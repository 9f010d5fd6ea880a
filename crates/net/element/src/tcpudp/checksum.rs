//! `SetUDPChecksum`, `SetTCPChecksum`, `ResetIPChecksum`: checksums made right.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use graph::class::{Handlers, Headers, positional, read};
use graph::element::kernel::Kernel;
use graph::{Action, Class, Cx, Each, PerPacket, PerThreadCounter};
use memory::Packet;
use wire::ip::{Addresses, Protocol};
use wire::{checksum, ipv4_option as option, option_list, tcp, udp};

use crate::ip::modify::SetIpChecksum;
use crate::kernels::each;
use graph::chain::Bytes;
use graph::ip_header::{self, Parts};
use port::Reason;

/// The class for UDP.
pub static UDP: Class = Class {
    name: "SetUDPChecksum",
    brief: "sets the checksum of UDP datagrams",
    doc: "Packets are whole UDP datagrams in IP. Fragments and packets that are too short go to output 1, \
          or are dropped.",
    ports: "1/1-2",
    processing: "a/ah",
    drops: &[Reason::FragmentOrShort],
    example: "SetUDPChecksum",
    see: &["CheckUDPHeader", "SetIPChecksum", "SetTCPChecksum"],
    headers: Headers { needs_network: true, ..Class::BASE.headers },
    kernel: Kernel::Inside(each!(SetUdpChecksum)),
    make: |setup, conf| {
        conf.complete()?;
        Ok(Each::boxed(SetUdpChecksum { warned: setup.common::<Warned>() }))
    },
    ..Class::BASE
};

/// The class for TCP.
pub static TCP: Class = Class {
    name: "SetTCPChecksum",
    brief: "sets the checksum of TCP segments",
    doc: "Packets are TCP segments in IP; those whose lengths contradict each other are dropped.",
    arguments: &[positional("FIXOFF", "whether a wrong data offset is put right; false")],
    drops: &[Reason::BadLengths],
    example: "SetTCPChecksum",
    see: &["CheckTCPHeader", "SetIPChecksum", "SetUDPChecksum"],
    headers: Headers { needs_network: true, ..Class::BASE.headers },
    kernel: Kernel::Inside(each!(SetTcpChecksum)),
    make: |_, conf| {
        let fix = conf.positional("FIXOFF")?.unwrap_or(false);
        conf.complete()?;
        Ok(Each::boxed(SetTcpChecksum { fix }))
    },
    ..Class::BASE
};

/// The class for IP and what is in it.
pub static RESET: Class = Class {
    name: "ResetIPChecksum",
    brief: "sets the IPv4 header's checksum, and what is in the packet's",
    doc: "FastClick has the NIC set the checksums of these packets; here they are set at once. What has none, a \
          fragment or a datagram that is too short, keeps what stands there. Packets whose IP header is not \
          all there are dropped.",
    arguments: &[positional("L4", "whether checksums of TCP and UDP are set, too; false")],
    handlers: &Handlers::<ResetIpChecksum>(&[read("drops", "packets dropped", |reset| {
        reset.drops.sum().to_string()
    })]),
    drops: &[Reason::BadInput],
    example: "ResetIPChecksum(L4 true)",
    see: &["SetIPChecksum", "SetTCPChecksum", "SetUDPChecksum"],
    headers: Headers { needs_network: true, ..Class::BASE.headers },
    make: |_, conf| {
        let inside = conf.positional("L4")?.unwrap_or(false);
        conf.complete()?;
        Ok(Each::boxed(ResetIpChecksum { inside, drops: PerThreadCounter::default() }))
    },
    ..Class::BASE
};

/// Where a packet goes in the end: by source routing that is the last address of the
/// route (RFC 793, 3.1).
fn destination(header: &[u8]) -> Ipv4Addr {
    let options = header.get(ip_header::LEN..).unwrap_or(&[]);
    let last = option_list::options(options).find_map(option::last_hop);
    last.unwrap_or_else(|| ip_header::ends(header).1)
}

/// The sum of the pseudo header of an IPv4 packet whose payload has `length` bytes.
pub(super) fn pseudo_header(header: &[u8], length: usize) -> u16 {
    let (src, dst) = (ip_header::ends(header).0, destination(header));
    Addresses::V4 { src, dst }.pseudo_header(ip_header::protocol(header), length)
}

/// The checksum of a segment of `length` bytes behind an IP header, whose checksum field is zero;
/// `None` when it is not all there.
fn of(header: &[u8], payload: Bytes<'_>, length: usize) -> Option<u16> {
    Some(!checksum::combine(pseudo_header(header, length), payload.sum(length)?))
}

/// Sets the checksum of a TCP segment of `length` bytes; `None` when it is not all there.
pub(crate) fn fill_tcp(parts: &mut Parts<'_>, length: usize) -> Option<()> {
    tcp::Header::of_mut(parts.payload)?.set_checksum(0);
    let sum = of(parts.header, parts.bytes(), length)?;
    tcp::Header::of_mut(parts.payload)?.set_checksum(sum);
    Some(())
}

/// Whether one of a router's elements warned already.
#[derive(Debug, Default)]
struct Warned(AtomicBool);

/// A `SetUDPChecksum` element; [`UDP`] says what it does.
#[derive(Debug, Clone)]
pub struct SetUdpChecksum {
    warned: Arc<Warned>,
}

/// Sets a datagram's checksum; `None` when it is not all there.
pub(super) fn set_udp(packet: &mut Packet) -> Option<()> {
    let parts = ip_header::parts(packet)?;
    if ip_header::is_fragment(parts.header) {
        return None;
    }
    let length = udp::Header::of(&*parts.payload)?.total_len();
    if parts.bytes().len() < length {
        return None;
    }
    udp::Header::of_mut(parts.payload)?.set_checksum(0);
    let sum = of(parts.header, parts.bytes(), length)?;
    udp::Header::of_mut(parts.payload)?.set_checksum(checksum::never_zero(sum));
    Some(())
}

impl PerPacket for SetUdpChecksum {
    fn packet(&mut self, cx: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        if set_udp(packet).is_some() {
            return Action::ON;
        }
        if cx.outputs() == 1 && !self.warned.0.swap(true, Ordering::Relaxed) {
            cx.say(&format!("{} :: {}: fragment or short packet\n", cx.name(), cx.class()));
        }
        Action::out_or_drop(1, 0)
    }

    fn replicate(&self) -> Option<SetUdpChecksum> {
        Some(self.clone())
    }
}

/// A `SetTCPChecksum` element; [`TCP`] says what it does.
#[derive(Debug, Clone)]
pub struct SetTcpChecksum {
    fix: bool,
}

impl SetTcpChecksum {
    fn set(&self, packet: &mut Packet) -> Option<()> {
        let mut parts = ip_header::parts(packet)?;
        let header = &*parts.header;
        let length = ip_header::total_len(header).checked_sub(header.len())?;
        if length < tcp::HEADER_LEN || parts.bytes().len() < length {
            return None;
        }
        let mut tcp = tcp::Header::of_mut(parts.payload)?;
        if self.fix {
            let said = tcp.header_len();
            let fixed = match said {
                _ if said < tcp::HEADER_LEN => tcp::HEADER_LEN,
                _ if said > length && !ip_header::is_fragment(header) => length,
                _ => said,
            };
            tcp.replace_header_len(fixed);
        }
        fill_tcp(&mut parts, length)
    }
}

impl PerPacket for SetTcpChecksum {
    fn packet(&mut self, cx: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        if self.set(packet).is_some() {
            return Action::ON;
        }
        cx.say("SetTCPChecksum: bad lengths\n");
        Action::drop(0)
    }

    fn replicate(&self) -> Option<SetTcpChecksum> {
        Some(self.clone())
    }
}

/// A `ResetIPChecksum` element; [`RESET`] says what it does.
#[derive(Debug)]
pub struct ResetIpChecksum {
    /// Whether checksums of TCP and UDP are set.
    inside: bool,
    drops: PerThreadCounter,
}

impl PerPacket for ResetIpChecksum {
    fn packet(&mut self, cx: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        if SetIpChecksum::set(packet).is_none() {
            if self.drops.own() == 0 {
                cx.say("ResetIPChecksum: bad input packet\n");
            }
            self.drops.add(1);
            return Action::drop(0);
        }
        let whole = ip_header::parts(packet).filter(|parts| !ip_header::is_fragment(parts.header));
        let protocol = whole.map(|parts| ip_header::protocol(parts.header));
        let _set = match protocol.filter(|_| self.inside) {
            Some(Protocol::TCP) => SetTcpChecksum { fix: false }.set(packet),
            Some(Protocol::UDP) => set_udp(packet),
            _ => None,
        };
        Action::ON
    }

    fn replicate(&self) -> Option<ResetIpChecksum> {
        Some(ResetIpChecksum { inside: self.inside, drops: self.drops.for_another() })
    }
}
