//! `SetIPDSCP`, `SetIPECN`, `MarkIPCE`: the traffic class byte (RFC 2474, RFC 3168).

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use graph::class::{Handlers, Headers, mandatory, positional, read, setting};
use graph::element::kernel::Kernel;
use graph::{Action, Class, Cx, Each, PerPacket, PerThreadCounter};
use memory::Packet;
use wire::ipv4;

use crate::kernels::each;
use graph::ip_header;
use port::Reason;

const NEEDS: Headers = Headers { needs_network: true, ..Class::BASE.headers };
const ECN: u8 = 0b11;

/// The class of what sets the code point.
pub static SET_DSCP: Class = Class {
    name: "SetIPDSCP",
    brief: "sets the differentiated services code point",
    doc: "Sets the upper six bits of the IP header's traffic class, and keeps the checksum right.",
    arguments: &[mandatory("DSCP", "the code point, 0 to 63")],
    handlers: &Handlers::<SetTos>(&[setting(
        "dscp",
        "the code point",
        |set: &SetTos| (set.value.load(Ordering::Relaxed) >> 2).to_string(),
        (0, "DSCP"),
    )
    .marked(".")]),
    drops: &[Reason::NoIpHeader],
    live: true,
    example: "SetIPDSCP(46)",
    see: &["SetIPECN", "MarkIPCE"],
    headers: NEEDS,
    kernel: Kernel::Inside(each!(SetTos)),
    make: |_, conf| {
        let dscp: u8 = conf.mandatory("DSCP")?;
        conf.complete()?;
        if dscp > 63 {
            return Err("diffserv code point out of range".into());
        }
        Ok(Each::boxed(SetTos { value: Arc::new(AtomicU8::new(dscp << 2)), mask: !ECN }))
    },
    ..Class::BASE
};

/// The class of what sets the congestion bits.
pub static SET_ECN: Class = Class {
    name: "SetIPECN",
    brief: "sets the explicit congestion notification bits",
    doc: "Sets the lower two bits of the IP header's traffic class, and keeps the checksum right.",
    arguments: &[mandatory("ECN", "`no`, `ect1`, `ect2`, `ce`, or 0 to 3")],
    handlers: &Handlers::<SetTos>(&[setting(
        "ecn",
        "the bits",
        |set: &SetTos| set.value.load(Ordering::Relaxed).to_string(),
        (0, "ECN"),
    )
    .marked(".")]),
    drops: &[Reason::NoIpHeader],
    live: true,
    example: "SetIPECN(ect1)",
    see: &["SetIPDSCP", "MarkIPCE"],
    headers: NEEDS,
    kernel: Kernel::Inside(each!(SetTos)),
    make: |_, conf| {
        let ecn: String = conf.mandatory("ECN")?;
        conf.complete()?;
        let ecn = parse_ecn(&ecn).ok_or("bad ECN argument")?;
        Ok(Each::boxed(SetTos { value: Arc::new(AtomicU8::new(ecn)), mask: ECN }))
    },
    ..Class::BASE
};

/// The class of what marks congestion.
pub static MARK_CE: Class = Class {
    name: "MarkIPCE",
    brief: "marks packets as having met congestion",
    doc: "Packets of those who do not understand the mark are dropped, which they do understand, unless \
          FORCE is true.",
    arguments: &[positional("FORCE", "whether all packets are marked; false")],
    handlers: &Handlers::<MarkCe>(&[read("drops", "packets dropped", |mark| mark.drops.sum().to_string())]),
    drops: &[Reason::NotEcnCapable, Reason::NoIpHeader],
    example: "MarkIPCE(FORCE true)",
    see: &["SetIPECN", "SetIPDSCP"],
    headers: NEEDS,
    kernel: Kernel::Inside(each!(MarkCe)),
    make: |_, conf| {
        let force = conf.positional("FORCE")?.unwrap_or(false);
        conf.complete()?;
        Ok(Each::boxed(MarkCe { force, drops: PerThreadCounter::default() }))
    },
    ..Class::BASE
};

fn parse_ecn(text: &str) -> Option<u8> {
    match text.trim() {
        "no" | "-" | "0" => Some(0),
        "ect1" | "ECT(1)" | "1" => Some(1),
        "ect2" | "ECT(0)" | "2" => Some(2),
        "ce" | "CE" | "3" => Some(3),
        _ => None,
    }
}

/// Sets the bits of `mask` in a header's traffic class.
#[inline]
fn set(packet: &mut Packet, mask: u8, bits: u8) -> bool {
    let Some(mut ip) = ip_header::fixed_mut(packet) else { return false };
    ip.update_traffic_class(ip.traffic_class() & !mask | bits);
    true
}

/// See [`SET_DSCP`] and [`SET_ECN`].
#[derive(Debug, Clone)]
pub struct SetTos {
    /// The bits where they go.
    value: Arc<AtomicU8>,
    mask: u8,
}

impl PerPacket for SetTos {
    #[inline]
    fn packet(&mut self, _: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        if set(packet, self.mask, self.value.load(Ordering::Relaxed)) { Action::ON } else { Action::drop(0) }
    }

    fn replicate(&self) -> Option<SetTos> {
        Some(self.clone())
    }
}

/// A `MarkIPCE` element; [`MARK_CE`] says what it does.
#[derive(Debug)]
pub struct MarkCe {
    force: bool,
    drops: PerThreadCounter,
}

impl PerPacket for MarkCe {
    #[inline]
    fn packet(&mut self, _: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        let header = packet.header(memory::annotation::Header::Network);
        match header.and_then(|header| header.get(ipv4::offset::TRAFFIC_CLASS)).map(|class| class & ECN) {
            Some(0) if !self.force => {
                self.drops.add(1);
                Action::drop(0)
            }
            Some(_) if set(packet, ECN, ECN) => Action::ON,
            _ => Action::drop(1),
        }
    }

    fn replicate(&self) -> Option<MarkCe> {
        Some(MarkCe { force: self.force, drops: self.drops.for_another() })
    }
}
