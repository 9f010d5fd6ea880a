//! `DecIPTTL`: one hop less to live.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use graph::class::{Handlers, Headers, both, keyword, read};
use graph::element::kernel::Kernel;
use graph::value::parse_alone;
use graph::{Action, Class, Cx, Each, PerPacket, PerThreadCounter};
use memory::Packet;

use crate::kernels::each;
use graph::ip_header;
use port::Reason;

pub static CLASS: Class = Class {
    name: "DecIPTTL",
    brief: "takes one hop from packets' time to live",
    doc: "Decrements the IP header's time to live and keeps its checksum right (RFC 1624). Packets that \
          have no hop left go to output 1, where ICMPError tells their sender, or are dropped.",
    ports: "1/1-2",
    processing: "a/ah",
    arguments: &[
        keyword("ACTIVE", "whether anything is done; true"),
        keyword("MULTICAST", "whether packets to multicast groups are decremented too; true"),
    ],
    handlers: &Handlers::<DecIpTtl>(&[
        read("drops", "packets that had no hop left", |dec| dec.drops.sum().to_string()),
        both(
            "active",
            "whether anything is done",
            |dec: &DecIpTtl| dec.active.load(Ordering::Relaxed).to_string(),
            |dec: &mut DecIpTtl, _, value| {
                let active = parse_alone::<bool>(value)?;
                dec.active.store(active, Ordering::Relaxed); // a lone value
                Ok(())
            },
        )
        .marked("c"),
    ]),
    drops: &[Reason::TimeExceeded, Reason::NoIpHeader],
    example: "dt :: DecIPTTL; dt[1] -> ICMPError(10.0.0.1, timeexceeded) -> rt;",
    see: &["ICMPError", "CheckIPHeader"],
    headers: Headers { needs_network: true, ..Class::BASE.headers },
    kernel: Kernel::Inside(each!(DecIpTtl)),
    make: |_, conf| {
        let active = conf.keyword("ACTIVE")?.unwrap_or(true);
        let multicast = conf.keyword("MULTICAST")?.unwrap_or(true);
        conf.complete()?;
        let active = Arc::new(AtomicBool::new(active));
        Ok(Each::boxed(DecIpTtl { active, multicast, drops: PerThreadCounter::default() }))
    },
    ..Class::BASE
};

/// A `DecIPTTL` element; [`CLASS`] says what it does.
#[derive(Debug)]
pub struct DecIpTtl {
    active: Arc<AtomicBool>,
    multicast: bool,
    drops: PerThreadCounter,
}

impl PerPacket for DecIpTtl {
    const HAS_FAST_PATH: bool = true;

    #[inline]
    fn packet(&mut self, _: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        let Some(mut ip) = ip_header::fixed_mut(packet) else { return Action::drop(1) };
        if !self.active.load(Ordering::Relaxed) || !self.multicast && ip.dst().is_multicast() {
            return Action::ON;
        }
        if ip.decrement_ttl() {
            return Action::ON;
        }
        self.drops.add(1);
        Action::out_or_drop(1, 0)
    }

    #[inline(always)]
    fn fast_path(&mut self, packet: &mut Packet) -> bool {
        let Some(mut ip) = ip_header::fixed_mut(packet) else { return false };
        let passes = !self.active.load(Ordering::Relaxed) || !self.multicast && ip.dst().is_multicast();
        !passes && ip.decrement_ttl()
    }

    fn replicate(&self) -> Option<DecIpTtl> {
        let drops = self.drops.for_another();
        Some(DecIpTtl { active: self.active.clone(), multicast: self.multicast, drops })
    }
}
