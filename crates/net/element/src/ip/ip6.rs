//! IPv6 (RFC 8200): `CheckIP6Header`, `MarkIP6Header`, `DecIP6HLIM`, `IP6Fragmenter`,
//! `GetIP6Address`, `SetIP6Address`.

use std::net::Ipv6Addr;
use std::sync::Arc;

use graph::class::{Handlers, Headers, mandatory, positional, read};
use graph::element::kernel::Kernel;
use graph::value::{Raw, Value};
use graph::{Action, Class, Cx, Each, PerPacket, PerThreadCounter};
use memory::Packet;
use memory::annotation::Header;
use wire::ipv6;

use crate::kernels::each;
use graph::annotation::{DST_IP6, PacketAnnotations};
use graph::ip_header;
use port::Reason;

/// Bytes of an IPv6 header without extensions.
pub(crate) const LEN: usize = ipv6::HEADER_LEN;

/// Bytes of an address.
const ADDRESS: usize = size_of::<Ipv6Addr>();

const NEEDS: Headers = Headers { needs_network: true, ..Class::BASE.headers };
const FINDS: Headers = Headers { finds_network: true, ..Class::BASE.headers };

/// The class of what checks headers.
pub static CHECK: Class = Class {
    name: "CheckIP6Header",
    brief: "lets only packets with a sound IPv6 header pass",
    doc: "Checks version, length and source address, says where the header is, sets the destination \
          annotation, and cuts off what is behind the packet. Bad packets go to output 1, or are dropped.",
    ports: "1/1-2",
    processing: "a/ah",
    arguments: &[
        positional("BADADDRS", "source addresses that are wrong, beside multicast ones"),
        positional("OFFSET", "bytes in front of the header; 0"),
    ],
    handlers: &Handlers::<CheckIp6Header>(&[read("drops", "bad packets", |check| {
        check.drops.sum().to_string()
    })]),
    drops: &[Reason::Tiny, Reason::BadIpVersion, Reason::BadIpLength, Reason::BadSource],
    example: "CheckIP6Header(OFFSET 14)",
    see: &["MarkIP6Header", "DecIP6HLIM", "LookupIP6Route", "CheckIPHeader"],
    headers: FINDS,
    kernel: Kernel::Inside(each!(CheckIp6Header)),
    make: |_, conf| {
        let scope = *conf.scope();
        let bad = conf.positional::<Raw>("BADADDRS")?.unwrap_or(Raw(String::new()));
        let offset = conf.positional("OFFSET")?.unwrap_or(0);
        conf.complete()?;
        let words = bad.0.split(|c: char| c.is_whitespace() || c == '"').filter(|word| !word.is_empty());
        let bad = words.map(|word| Ipv6Addr::parse(word, &scope)).collect::<Result<Vec<_>, _>>();
        let bad = bad.map_err(|e| format!("BADADDRS: {e}"))?.into();
        Ok(Each::boxed(CheckIp6Header { offset, bad, drops: PerThreadCounter::default() }))
    },
    ..Class::BASE
};

/// The class of what marks headers.
pub static MARK: Class = Class {
    name: "MarkIP6Header",
    brief: "says where packets' IPv6 header is",
    doc: "Nothing is checked. The transport header is taken to begin behind the fixed header.",
    arguments: &[positional("OFFSET", "bytes in front of the header; 0")],
    example: "MarkIP6Header(14)",
    see: &["CheckIP6Header", "MarkIPHeader"],
    headers: FINDS,
    kernel: Kernel::Inside(each!(MarkIp6Header)),
    make: |_, conf| {
        let offset = conf.positional("OFFSET")?.unwrap_or(0);
        conf.complete()?;
        if offset > memory::DATA_ROOM {
            return Err("OFFSET: packets are not that long".into());
        }
        Ok(Each::boxed(MarkIp6Header { offset }))
    },
    ..Class::BASE
};

/// The class of what counts hops.
pub static DEC_HOPS: Class = Class {
    name: "DecIP6HLIM",
    brief: "takes one hop from packets' hop limit",
    doc: "Packets that have no hop left go to output 1, where ICMP6Error tells their sender, or are dropped.",
    ports: "1/1-2",
    processing: "a/ah",
    handlers: &Handlers::<DecIp6Hlim>(&[read("drops", "packets that had no hop left", |dec| {
        dec.drops.sum().to_string()
    })]),
    drops: &[Reason::HopLimitExceeded, Reason::NoIpHeader],
    example: "dh :: DecIP6HLIM; dh[1] -> ICMP6Error(2001:db8::1, 3, 0) -> rt;",
    see: &["ICMP6Error", "DecIPTTL"],
    headers: NEEDS,
    kernel: Kernel::Inside(each!(DecIp6Hlim)),
    make: |_, conf| {
        conf.complete()?;
        Ok(Each::boxed(DecIp6Hlim { drops: PerThreadCounter::default() }))
    },
    ..Class::BASE
};

/// The class of what finds packets that are too long.
pub static TOO_BIG: Class = Class {
    name: "IP6Fragmenter",
    brief: "keeps back IPv6 packets that are too long for a link",
    doc: "Routers do not fragment IPv6 packets (RFC 8200, 5): those of more than MTU bytes go to output 1, \
          where ICMP6Error tells their sender, or are dropped.",
    ports: "1/1-2",
    processing: "a/ah",
    arguments: &[mandatory("MTU", "the longest packet, in bytes; at least 1280")],
    handlers: &Handlers::<Ip6Fragmenter>(&[
        read("drops", "packets too long", |fragmenter| fragmenter.drops.sum().to_string()),
        read("fragments", "fragments made: none", |_| "0".into()),
    ]),
    drops: &[Reason::TooBig, Reason::NoIpHeader],
    example: "fr :: IP6Fragmenter(1500); fr[1] -> ICMP6Error(2001:db8::1, 2, 0, PMTU 1500) -> rt;",
    see: &["ICMP6Error", "IPFragmenter"],
    headers: NEEDS,
    make: |_, conf| {
        let mtu: usize = conf.mandatory("MTU")?;
        conf.complete()?;
        Ok(Each::boxed(Ip6Fragmenter { mtu, drops: PerThreadCounter::default() }))
    },
    ..Class::BASE
};

/// The class of what reads addresses.
pub static FROM_PACKET: Class = Class {
    name: "GetIP6Address",
    brief: "sets the destination annotation from an IPv6 address in the packet",
    doc: "The sixteen bytes at OFFSET become the annotation that LookupIP6Route goes by.",
    arguments: &[mandatory("OFFSET", "where the address is, in bytes from the start of the packet")],
    drops: &[Reason::TooShort],
    example: "GetIP6Address(24)",
    see: &["SetIP6Address", "LookupIP6Route", "GetIPAddress"],
    kernel: Kernel::Inside(each!(GetIp6Address)),
    make: |_, conf| {
        let offset = conf.mandatory("OFFSET")?;
        conf.complete()?;
        Ok(Each::boxed(GetIp6Address { offset }))
    },
    ..Class::BASE
};

/// The class of what sets addresses.
pub static CONSTANT: Class = Class {
    name: "SetIP6Address",
    brief: "sets the destination annotation to an IPv6 address",
    doc: "Each packet's annotation becomes IPADDR, whatever the packet says.",
    arguments: &[mandatory("IPADDR", "the address")],
    example: "SetIP6Address(2001:db8::1)",
    see: &["GetIP6Address", "SetIPAddress"],
    kernel: Kernel::Inside(each!(SetIp6Address)),
    make: |_, conf| {
        let address = conf.mandatory("IPADDR")?;
        conf.complete()?;
        Ok(Each::boxed(SetIp6Address { address }))
    },
    ..Class::BASE
};

/// The IPv6 header that was found and what follows it.
pub(crate) fn split(packet: &Packet) -> Option<(ipv6::Header<&[u8; LEN]>, &[u8])> {
    let (header, rest) = packet.header(Header::Network)?.split_first_chunk()?;
    Some((ipv6::Header::new(header), rest))
}

/// A `CheckIP6Header` element; [`CHECK`] says what it does.
#[derive(Debug)]
pub struct CheckIp6Header {
    offset: usize,
    bad: Arc<[Ipv6Addr]>,
    drops: PerThreadCounter,
}

impl CheckIp6Header {
    /// What is wrong with a packet; or how long it is, and to whom.
    fn check(&self, packet: &Packet) -> Result<(usize, Ipv6Addr), usize> {
        let bytes = packet.get(self.offset..).ok_or(0usize)?;
        let ip = ipv6::Header::of(bytes).ok_or(0usize)?;
        if ip.version() != 6 {
            return Err(1);
        }
        let length = LEN + ip.payload_len();
        if length > packet.total_len() - self.offset {
            return Err(2);
        }
        let src = ip.src();
        let wrong = src.is_multicast() || self.bad.contains(&src);
        if wrong { Err(3) } else { Ok((length, ip.dst())) }
    }
}

impl PerPacket for CheckIp6Header {
    #[inline]
    fn packet(&mut self, cx: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        match self.check(packet) {
            Ok((length, dst)) => {
                ip_header::mark(packet, self.offset, LEN);
                packet.set_bytes_at(DST_IP6, dst.octets());
                ip_header::cut(packet, self.offset + length);
                Action::ON
            }
            Err(reason) => {
                if self.drops.own() == 0 {
                    cx.say("IP6 header check failed\n");
                }
                self.drops.add(1);
                Action::out_or_drop(1, reason)
            }
        }
    }

    fn replicate(&self) -> Option<CheckIp6Header> {
        let drops = self.drops.for_another();
        Some(CheckIp6Header { offset: self.offset, bad: self.bad.clone(), drops })
    }
}

/// A `MarkIP6Header` element; [`MARK`] says what it does.
#[derive(Debug, Clone)]
pub struct MarkIp6Header {
    offset: usize,
}

impl PerPacket for MarkIp6Header {
    #[inline]
    fn packet(&mut self, _: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        ip_header::mark(packet, self.offset, LEN);
        Action::ON
    }

    fn replicate(&self) -> Option<MarkIp6Header> {
        Some(self.clone())
    }
}

/// A `DecIP6HLIM` element; [`DEC_HOPS`] says what it does.
#[derive(Debug)]
pub struct DecIp6Hlim {
    drops: PerThreadCounter,
}

impl PerPacket for DecIp6Hlim {
    #[inline]
    fn packet(&mut self, _: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        let header = packet.header_mut(Header::Network);
        match header.and_then(|header| header.get_mut(ipv6::offset::HOP_LIMIT)) {
            None => Action::drop(1),
            Some(hops) if *hops > 1 => {
                *hops -= 1;
                Action::ON
            }
            Some(_) => {
                self.drops.add(1);
                Action::out_or_drop(1, 0)
            }
        }
    }

    fn replicate(&self) -> Option<DecIp6Hlim> {
        Some(DecIp6Hlim { drops: self.drops.for_another() })
    }
}

/// An `IP6Fragmenter` element; [`TOO_BIG`] says what it does.
#[derive(Debug)]
pub struct Ip6Fragmenter {
    mtu: usize,
    drops: PerThreadCounter,
}

impl PerPacket for Ip6Fragmenter {
    #[inline]
    fn packet(&mut self, _: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        let Some(here) = packet.header(Header::Network).map(<[u8]>::len) else { return Action::drop(1) };
        let length = if packet.next().is_none() { here } else { here + packet.total_len() - packet.len() };
        if length <= self.mtu {
            return Action::ON;
        }
        self.drops.add(1);
        Action::out_or_drop(1, 0)
    }

    fn replicate(&self) -> Option<Ip6Fragmenter> {
        Some(Ip6Fragmenter { mtu: self.mtu, drops: self.drops.for_another() })
    }
}

/// A `GetIP6Address` element; [`FROM_PACKET`] says what it does.
#[derive(Debug, Clone)]
pub struct GetIp6Address {
    offset: usize,
}

impl PerPacket for GetIp6Address {
    #[inline]
    fn packet(&mut self, _: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        let found = packet.get(self.offset..).and_then(|rest| rest.first_chunk::<ADDRESS>().copied());
        let Some(address) = found else { return Action::drop(0) };
        packet.set_bytes_at(DST_IP6, address);
        Action::ON
    }

    fn replicate(&self) -> Option<GetIp6Address> {
        Some(self.clone())
    }
}

/// A `SetIP6Address` element; [`CONSTANT`] says what it does.
#[derive(Debug, Clone)]
pub struct SetIp6Address {
    address: Ipv6Addr,
}

impl PerPacket for SetIp6Address {
    #[inline]
    fn packet(&mut self, _: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        packet.set_bytes_at(DST_IP6, self.address.octets());
        Action::ON
    }

    fn replicate(&self) -> Option<SetIp6Address> {
        Some(self.clone())
    }
}
