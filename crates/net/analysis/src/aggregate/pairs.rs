//! `AggregateIPAddrPair`: an aggregate for each two hosts.

use std::collections::HashMap;
use std::sync::Arc;

use graph::class::{Handlers, action, keyword, read};
use graph::clock::SECOND_NS;
use graph::value::Span;
use graph::{Action, Class, Cx, Each, PerPacket};
use memory::Packet;
use memory::annotation::Header;
use wire::ipv4;

use super::notice::Notifier;
use graph::annotation::{AGGREGATE, PAINT, PacketAnnotations};
use graph::ip_header::{LEN, u32_at};
use port::Reason;

pub static CLASS: Class = Class {
    name: "AggregateIPAddrPair",
    brief: "numbers pairs of hosts",
    doc: "Each packet's aggregate is the number of its two addresses, from 1 on; its colour is 0 in the direction \
          of their first packet, 1 in the other. A pair that was silent for TIMEOUT gets a new number. Packets \
          without an IP header go to output 1, or are dropped, as are those of new pairs when there are \
          CAPACITY already.",
    ports: "1/1-2",
    processing: "a/ah",
    arguments: &[
        keyword("TIMEOUT", "how long a pair is remembered; for ever"),
        keyword("REAP", "how often pairs are looked through; 20 minutes"),
        keyword("CAPACITY", "pairs at the most; 1048576"),
    ],
    handlers: &Handlers::<Pairs>(&[
        read("npairs", "pairs it knows", |pairs| pairs.known.len().to_string()),
        action("clear", "forgets all pairs", |pairs, cx| {
            pairs.reap(i64::MAX);
            pairs.notifier.clone().sweep(cx);
        }),
    ]),
    drops: &[Reason::NoIpHeader, Reason::TooManyPairs],
    example: "FromDump(in.pcap, FORCE_IP true) -> AggregateIPAddrPair -> AggregateCounter -> Discard",
    see: &["AggregateIPFlows", "AggregateIP"],
    make: |setup, conf| {
        let timeout = conf.keyword::<Span>("TIMEOUT")?.map_or(0, |span| span.0 / SECOND_NS);
        let reap_every = conf.keyword::<Span>("REAP")?.map_or(1200, |span| span.0 / SECOND_NS);
        let capacity = conf.keyword("CAPACITY")?.unwrap_or(1 << 20);
        conf.complete()?;
        let notifier = Arc::new(Notifier::default());
        setup.share(notifier.clone());
        let (known, reap_at) = (HashMap::new(), i64::MIN);
        Ok(Each::boxed(Pairs { timeout, reap_every, reap_at, capacity, known, next: 1, notifier }))
    },
    ..Class::BASE
};

#[derive(Debug)]
struct Pair {
    aggregate: u32,
    /// The first packet came from the higher address.
    reverse: bool,
    last: i64,
}

/// An `AggregateIPAddrPair` element; [`CLASS`] says what it does.
#[derive(Debug)]
pub struct Pairs {
    timeout: i64,
    reap_every: i64,
    reap_at: i64,
    capacity: usize,
    known: HashMap<(u32, u32), Pair>,
    next: u32,
    notifier: Arc<Notifier>,
}

impl Pairs {
    fn reap(&mut self, now: i64) {
        let mut ended = vec![];
        self.known.retain(|_, pair| {
            let lives = pair.last >= now.saturating_sub(self.timeout);
            ended.extend((!lives).then_some(pair.aggregate));
            lives
        });
        ended.sort_unstable();
        ended.into_iter().for_each(|aggregate| self.notifier.end(aggregate));
    }
}

impl PerPacket for Pairs {
    fn packet(&mut self, cx: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        let addresses = packet.header(Header::Network).filter(|ip| ip.len() >= LEN);
        let Some((from, to)) =
            addresses.map(|ip| (u32_at(ip, ipv4::offset::SRC), u32_at(ip, ipv4::offset::DST)))
        else {
            return Action::out_or_drop(1, 0);
        };
        let (hosts, flipped) = ((from.min(to), from.max(to)), from > to);
        let mut at = packet.annotations().timestamp_ns;
        if self.timeout > 0 && at == 0 {
            at = cx.now_ns();
            packet.annotations_mut().timestamp_ns = at;
        }
        let at = at / SECOND_NS;
        if self.timeout > 0
            && let Some(pair) = self.known.get(&hosts)
            && pair.last < at - self.timeout
        {
            self.notifier.end(pair.aggregate);
            self.known.remove(&hosts);
        }
        if !self.known.contains_key(&hosts) {
            if self.known.len() >= self.capacity {
                return Action::out_or_drop(1, 1);
            }
            self.known.insert(hosts, Pair { aggregate: self.next, reverse: flipped, last: at });
            self.next = self.next.wrapping_add(1).max(1);
        }
        if let Some(pair) = self.known.get_mut(&hosts) {
            pair.last = at;
            packet.set_u32_at(AGGREGATE, pair.aggregate);
            packet.set_u8_at(PAINT, u8::from(pair.reverse ^ flipped));
        }
        if self.timeout > 0 && at > self.reap_at {
            self.reap(at);
            self.reap_at = at.saturating_add(self.reap_every);
        }
        Action::ON
    }
}
