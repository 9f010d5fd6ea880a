//! `IPEncap`: an IPv4 header in front.

use std::net::Ipv4Addr;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use graph::class::{Handlers, Headers, keyword, mandatory, setting};
use graph::value::{Raw, Scope, Value, unsigned};
use graph::{Class, Conf, ConfFault, Cx, Element, Next, Refused};
use memory::{Batch, Packet};
use wire::ip::Protocol;
use wire::ipv4;

use crate::standard::same_kind;
use graph::annotation::PacketAnnotations;
use graph::ip_header;
use port::Reason;

pub static CLASS: Class = Class {
    name: "IPEncap",
    brief: "puts an IPv4 header in front of packets",
    doc: "Makes each packet the payload of an IP packet, and sets the destination annotation to DST.",
    arguments: &[
        mandatory("PROTO", "what the payload is: `udp`, `tcp`, `icmp`, … or its number"),
        mandatory("SRC", "whom it is from"),
        mandatory("DST", "whom it is to, or DST_ANNO for what the annotation says"),
        keyword("TOS", "the traffic class byte; 0"),
        keyword("TTL", "the time to live; 250"),
        keyword("DSCP", "the code point in the traffic class; 0"),
        keyword("ECT", "whether congestion marks are understood: false, true, or 2; false"),
        keyword("CE", "whether the packet met congestion; false"),
        keyword("DF", "whether it must not be fragmented; false"),
    ],
    handlers: &Handlers::<IpEncap>(&[
        setting("src", "whom it is from", |encap: &IpEncap| encap.set().header.src().to_string(), (1, "SRC"))
            .marked("."),
        setting(
            "dst",
            "whom it is to, or DST_ANNO",
            |encap: &IpEncap| {
                if encap.set().annotated { "DST_ANNO".into() } else { encap.set().header.dst().to_string() }
            },
            (2, "DST"),
        )
        .marked("."),
    ]),
    drops: &[Reason::NoHeadroom, Reason::TooLong],
    example: "IPEncap(4, 18.26.4.24, 140.247.60.147)",
    see: &["UDPIPEncap", "StripIPHeader", "EtherEncap"],
    headers: Headers { finds_network: true, ..Class::BASE.headers },
    live: true,
    make: |_, conf| {
        let set = Set::parse(conf)?;
        Ok(Box::new(IpEncap { set: Arc::new(RwLock::new(set)), number: 0 }))
    },
    ..Class::BASE
};

const PROTOCOLS: &[(&str, Protocol)] = &[
    ("icmp", Protocol::ICMP),
    ("igmp", Protocol::IGMP),
    ("ipip", Protocol::IPV4),
    ("tcp", Protocol::TCP),
    ("udp", Protocol::UDP),
    ("dccp", Protocol::DCCP),
    ("ip6", Protocol::IPV6),
    ("gre", Protocol::GRE),
    ("esp", Protocol::ESP),
    ("ah", Protocol::AUTHENTICATION),
    ("icmp6", Protocol::ICMPV6),
    ("sctp", Protocol::SCTP),
    ("udplite", Protocol::UDP_LITE),
];

/// The header that packets get, completed for each by its length and number.
#[derive(Debug, Clone, Copy)]
struct Set {
    header: ipv4::Header<[u8; ip_header::LEN]>,
    annotated: bool,
}

impl Set {
    fn parse(conf: &mut Conf<'_>) -> Result<Set, ConfFault> {
        let protocol: String = conf.mandatory("PROTO")?;
        let src: Ipv4Addr = conf.mandatory("SRC")?;
        let dst: Raw = conf.mandatory("DST")?;
        let tos: Option<u8> = conf.keyword("TOS")?;
        let ttl: u8 = conf.keyword("TTL")?.unwrap_or(250);
        let dscp: Option<u8> = conf.keyword("DSCP")?;
        let ect: Option<String> = conf.keyword("ECT")?;
        let ce = conf.keyword("CE")?.unwrap_or(false);
        let df = conf.keyword("DF")?.unwrap_or(false);
        let scope = *conf.scope();
        conf.complete()?;
        let named = PROTOCOLS.iter().find(|(name, _)| *name == protocol).map(|(_, number)| *number);
        let protocol = named
            .or_else(|| u8::try_from(unsigned(&protocol)?).ok().map(Protocol))
            .ok_or("bad IP protocol")?;
        let ect = match ect.as_deref() {
            None => 0,
            Some("2") => 2,
            Some(text) => u8::from(
                bool::parse(text, &scope).map_err(|_| ConfFault::new(format!("bad ECT value '{text}'")))?,
            ),
        };
        match (tos, dscp) {
            (Some(_), Some(_)) => return Err("cannot set both TOS and DSCP".into()),
            (Some(_), _) if ect != 0 || ce => return Err("cannot set both TOS and ECN bits".into()),
            (_, Some(64..)) => return Err("DSCP too large; max 63".into()),
            _ if ect != 0 && ce => return Err("can set at most one ECN option".into()),
            _ => {}
        }
        let class = tos.unwrap_or(dscp.unwrap_or(0) << 2) | ect | if ce { 3 } else { 0 };
        let header = ipv4::Repr {
            ttl,
            traffic_class: class,
            dont_fragment: df,
            ..ipv4::Repr::between(src, Ipv4Addr::UNSPECIFIED, protocol, 0)
        };
        let mut set = Set { header: header.template(), annotated: false };
        set.set_dst(&dst.0, &scope)?;
        Ok(set)
    }

    fn set_dst(&mut self, text: &str, scope: &Scope<'_>) -> Result<(), String> {
        self.annotated = text.trim() == "DST_ANNO";
        if !self.annotated {
            let dst = Ipv4Addr::parse(text, scope);
            let dst = dst.map_err(|_| "DST argument should be IP address or 'DST_ANNO'")?;
            self.header.update_dst(dst);
        }
        Ok(())
    }
}

/// An `IPEncap` element; [`CLASS`] says what it does.
#[derive(Debug)]
pub struct IpEncap {
    set: Arc<RwLock<Set>>,
    number: u16,
}

impl IpEncap {
    /// Puts a header in front; why not, if there is none.
    fn encap(&mut self, set: &Set, packet: &mut Packet) -> Result<(), usize> {
        let total = ip_header::LEN + packet.total_len();
        let length = u16::try_from(total).map_err(|_| 1usize)?;
        let annotation = packet.dst_ip();
        let room = packet.push_front(ip_header::LEN).map_err(|_| 0usize)?;
        room.copy_from_slice(&set.header.into_inner());
        let mut ip = ipv4::Header::of_mut(room).ok_or(0usize)?;
        ip.complete(length, self.number);
        if set.annotated {
            ip.update_dst(annotation);
        }
        let dst = ip.dst();
        self.number = self.number.wrapping_add(1);
        packet.set_dst_ip(dst);
        ip_header::mark(packet, 0, ip_header::LEN);
        Ok(())
    }

    fn set(&self) -> RwLockReadGuard<'_, Set> {
        self.set.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Element for IpEncap {
    fn push(&mut self, cx: &mut Cx<'_>, _: usize, batch: &mut Batch) -> Next {
        let set = *self.set.read().unwrap_or_else(PoisonError::into_inner);
        let encap = |this: &mut (&mut IpEncap, &mut Cx<'_>), _: usize, packet: &mut Packet| match this
            .0
            .encap(&set, packet)
        {
            Err(0) if this.1.make_headroom(packet, ip_header::LEN) => this.0.encap(&set, packet).err(),
            done => done.err(),
        };
        batch.split(&mut (self, cx), encap, |this, reason, packet| this.1.drop(reason, packet));
        Next::Push(0)
    }

    fn replicate(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(IpEncap { set: self.set.clone(), number: self.number }))
    }

    fn reconfigure(&mut self, _: &mut Cx<'_>, new: Box<dyn Element>) -> Result<(), Refused> {
        self.set = same_kind::<IpEncap>(new)?.set;
        Ok(())
    }
}
