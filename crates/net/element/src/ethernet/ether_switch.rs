//! `EtherSwitch`, `ListenEtherSwitch`: a bridge that learns where addresses are (IEEE
//! 802.1D, 7.8).

use std::collections::HashMap;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use graph::class::{Handlers, action, both, keyword, read};
use graph::clock::SECOND_NS;
use graph::value::{Ethernet, Span, parse_alone};
use graph::{Class, Conf, ConfFault, Cx, Element, Next, Refused, Setup};
use memory::{Batch, Packet};
use port::Reason;
use wire::MacAddress;
use wire::ethernet::Addresses;

pub static CLASS: Class = Class {
    name: "EtherSwitch",
    brief: "a learning Ethernet switch",
    doc: "Input and output N are one network. The source of each frame is remembered to be in the network it \
          came from, for TIMEOUT after its last frame; frames to it go there alone, and nowhere when they \
          come from there. Frames to groups and to addresses that are not known go to all other networks. At \
          most 16384 addresses are remembered; the ones seen longest ago are forgotten first.",
    ports: "1-/=",
    processing: "h/h",
    flow: "#/[^#]",
    arguments: &[keyword("TIMEOUT", "seconds an address is remembered; 0 for not at all; 300")],
    handlers: &Handlers::<EtherSwitch>(&[
        read("table", "`ADDRESS NETWORK`, a line each", |switch| {
            let table = switch.lock();
            let line =
                |(address, at): (&[u8; 6], &LearnedPort)| format!("{} {}\n", Ethernet(*address), at.network);
            let mut lines: Vec<String> = table.known.iter().map(line).collect();
            lines.sort();
            lines.concat()
        }),
        read("count", "addresses", |switch| switch.lock().known.len().to_string()),
        read("evictions", "addresses forgotten because there were too many", |switch| {
            switch.lock().evictions.to_string()
        }),
        both(
            "timeout",
            "seconds an address is remembered",
            |switch| (switch.lock().timeout_ns / SECOND_NS).to_string(),
            |switch, _, value| {
                let timeout: Span =
                    parse_alone(value).map_err(|_| Refused::from("expected timeout (integer)"))?;
                switch.lock().timeout_ns = timeout.0.max(0);
                Ok(())
            },
        ),
        action("flush", "forgets all addresses", |switch, _| switch.lock().flush()),
    ]),
    drops: &[Reason::NoBuffers, Reason::SameNetwork, Reason::TooShort, Reason::NoOtherNetwork],
    example: "s :: EtherSwitch; FromDevice(a) -> [0]s[0] -> ToDevice(a); FromDevice(b) -> [1]s[1] -> ToDevice(b);",
    see: &["ListenEtherSwitch", "EtherSpanTree", "Hub", "ARPTable"],
    make: |setup, conf| make(setup, conf, false),
    ..Class::BASE
};

/// The one with an output that gets everything.
pub static LISTEN: Class = Class {
    name: "ListenEtherSwitch",
    brief: "a learning Ethernet switch, with an output that gets a copy of every frame",
    doc: "As EtherSwitch, with one output more than inputs: a copy of every frame goes there.",
    ports: "1-/=+",
    example: "s :: ListenEtherSwitch; FromDevice(a) -> [0]s[0] -> ToDevice(a); FromDevice(b) -> [1]s[1] -> ToDevice(b); s[2] -> Print -> Discard;",
    see: &["EtherSwitch", "Tee"],
    make: |setup, conf| make(setup, conf, true),
    ..CLASS
};

fn make(setup: &mut Setup<'_>, conf: &mut Conf<'_>, listens: bool) -> Result<Box<dyn Element>, ConfFault> {
    let timeout = conf.keyword("TIMEOUT")?.unwrap_or(Span(300 * SECOND_NS));
    conf.complete()?;
    let table = AddressTable { timeout_ns: timeout.0.max(0), ..AddressTable::default() };
    let table = Arc::new(Mutex::new(table));
    setup.share(table.clone());
    Ok(Box::new(EtherSwitch { table, listens }))
}

/// Addresses remembered at most: strangers choose them.
const MOST: usize = 1 << 14;

/// Where addresses were seen.
#[derive(Debug, Default)]
pub(super) struct AddressTable {
    timeout_ns: i64,
    known: HashMap<[u8; 6], LearnedPort>,
    /// Addresses in the order in which they were learned, or moved; most are younger
    /// by now.
    order: VecDeque<([u8; 6], i64)>,
    /// Addresses that were forgotten because there were too many.
    evictions: u64,
}

#[derive(Debug, Clone, Copy)]
struct LearnedPort {
    network: usize,
    seen_ns: i64,
}

impl AddressTable {
    fn learn(&mut self, address: [u8; 6], network: usize, now_ns: i64) {
        // A group is nobody's source.
        if self.timeout_ns == 0 || MacAddress(address).is_multicast() {
            return;
        }
        let place = LearnedPort { network, seen_ns: now_ns };
        if self.known.insert(address, place).is_none() {
            self.order.push_back((address, now_ns));
            if self.known.len() > MOST {
                self.forget();
            }
        }
    }

    /// Forgets the address that was seen longest ago, as far as that is known.
    fn forget(&mut self) {
        while let Some((address, noted_ns)) = self.order.pop_front() {
            match self.known.get(&address) {
                Some(place) if place.seen_ns > noted_ns => self.order.push_back((address, place.seen_ns)),
                _ => {
                    self.known.remove(&address);
                    self.evictions += 1;
                    return;
                }
            }
        }
    }

    fn find(&self, address: &[u8; 6], now_ns: i64) -> Option<usize> {
        let place = self.known.get(address).filter(|_| !MacAddress(*address).is_multicast())?;
        (now_ns < place.seen_ns.saturating_add(self.timeout_ns)).then_some(place.network)
    }

    pub(super) fn flush(&mut self) {
        self.known.clear();
        self.order.clear();
    }
}

/// An `EtherSwitch` or `ListenEtherSwitch` element; [`CLASS`] and [`LISTEN`] say what they do.
#[derive(Debug)]
pub struct EtherSwitch {
    table: Arc<Mutex<AddressTable>>,
    listens: bool,
}

/// Where a frame goes.
enum Egress {
    To(usize),
    All,
    Drop(usize),
}

impl EtherSwitch {
    fn lock(&self) -> MutexGuard<'_, AddressTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn way(&self, packet: &Packet, from: usize, now_ns: i64) -> Egress {
        let Some(addresses) = Addresses::of(packet) else { return Egress::Drop(2) };
        let (MacAddress(dst), MacAddress(src)) = (addresses.dst(), addresses.src());
        let mut table = self.lock();
        table.learn(src, from, now_ns);
        match table.find(&dst, now_ns) {
            Some(network) if network == from => Egress::Drop(1),
            Some(network) => Egress::To(network),
            None => Egress::All,
        }
    }

    /// Sends a frame to all networks but its own.
    fn flood(&self, cx: &mut Cx<'_>, from: usize, networks: usize, packet: Packet) {
        let mut others = (0..networks).filter(|network| *network != from);
        let Some(last) = others.next_back() else { return cx.drop(3, packet) };
        for network in others {
            match cx.copy(&packet) {
                Some(copy) => cx.emit(network, copy),
                None => cx.count_drops(0, 1),
            }
        }
        cx.emit(last, packet);
    }
}

impl Element for EtherSwitch {
    fn push(&mut self, cx: &mut Cx<'_>, input: usize, batch: &mut Batch) -> Next {
        let now_ns = cx.now_ns();
        let networks = cx.outputs() - usize::from(self.listens);
        for packet in batch.drain() {
            if self.listens {
                match cx.copy(&packet) {
                    Some(copy) => cx.emit(networks, copy),
                    None => cx.count_drops(0, 1),
                }
            }
            match self.way(&packet, input, now_ns) {
                Egress::To(network) => cx.emit(network, packet),
                Egress::All => self.flood(cx, input, networks, packet),
                Egress::Drop(reason) => cx.drop(reason, packet),
            }
        }
        Next::Done
    }

    fn replicate(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(EtherSwitch { table: self.table.clone(), listens: self.listens }))
    }

    fn take_over(&mut self, _: &mut Cx<'_>, old: &mut dyn Element) {
        let Some(old) = (old as &mut dyn std::any::Any).downcast_mut::<EtherSwitch>() else { return };
        let mut kept = std::mem::take(&mut *old.lock());
        let mut table = self.lock();
        if !kept.known.is_empty() {
            kept.timeout_ns = table.timeout_ns;
            *table = kept;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_cannot_fill_the_memory_and_who_speaks_is_remembered() {
        let mut table = AddressTable { timeout_ns: 300 * SECOND_NS, ..AddressTable::default() };
        let host = |n: u32| [2, 0, n as u8, (n >> 8) as u8, (n >> 16) as u8, 0];
        for n in 0..4 * MOST as u32 {
            table.learn(host(n), 1, i64::from(n));
            table.learn([2, 9, 9, 9, 9, 9], 0, i64::from(n));
        }
        assert_eq!((table.known.len(), table.evictions), (MOST, 3 * MOST as u64 + 1));
        assert!(table.order.len() <= MOST);
        assert_eq!(table.find(&[2, 9, 9, 9, 9, 9], 4 * MOST as i64), Some(0));
        assert_eq!(table.find(&host(0), 1), None, "the oldest is forgotten");
    }
}
