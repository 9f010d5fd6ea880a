//! `ARPResponder`, `ARPFaker`: answers to those who ask for an address (RFC 826).

use std::net::Ipv4Addr;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use graph::class::{Handlers, ask, both, mandatory, read, rest, write};
use graph::clock::SECOND_NS;
use graph::element::kernel::Kernel;
use graph::value::{Ethernet, Names, Prefix4, Scope, Value};
use graph::{Action, Class, ConfFault, Cx, Each, Element, PerPacket, Refused, TimerId};
use memory::Packet;
use memory::annotation::Header;
use neighbor::arp;
use wire::MacAddress;
use wire::arp::{Operation, Repr};

use super::encap::LEN;
use crate::kernels::each;
use graph::annotation::{PacketAnnotations, VLAN_TCI};
use port::Reason;

pub static CLASS: Class = Class {
    name: "ARPResponder",
    brief: "answers ARP requests",
    doc: "Requests for an address that an entry covers become the answer; the longest prefix counts. All \
          other packets go to output 1, or are dropped.",
    ports: "1/1-2",
    processing: "a/ah",
    arguments: &[rest("ENTRY", "`IP/MASK… ETH`: who has these addresses")],
    handlers: &Handlers::<ArpResponder>(&[
        read("table", "the entries, a line each", |responder| {
            let line = |e: &Entry| format!("{} {}\n", prefix_text(&e.prefix), e.ethernet);
            responder.read_table().entries.iter().map(line).collect()
        }),
        ask("lookup", "the Ethernet address for the IP address given", |responder, _, parameter| {
            let address = parameter.trim().parse().map_err(|_| "expected IP address")?;
            let found = responder.read_table().lookup(address);
            Ok(found.map_or(String::new(), |ethernet| ethernet.to_string()))
        }),
        write("add", "adds an entry", ArpResponder::add_entry),
        write("remove", "removes the entry of `IP/MASK`", ArpResponder::remove_entry),
        both(
            "config",
            "all entries, comma-separated",
            |responder: &ArpResponder| responder.read_table().config.clone(),
            ArpResponder::set_config,
        )
        .marked("."),
    ]),
    drops: &[Reason::NoArpRequest],
    example: "c :: Classifier(12/0806 20/0001, -);\nc[0] -> ARPResponder(10.0.0.1 0:0:c0:ae:67:ef) -> ToDevice(p);",
    see: &["ARPQuerier", "ARPFaker", "Classifier"],
    kernel: Kernel::Inside(each!(ArpResponder)),
    make: |setup, conf| {
        let names = Arc::new(conf.scope().names.clone());
        let arguments = conf.rest();
        let scope = Scope { element: setup.name, names: &names };
        let (mut entries, mut wrong) = (vec![], vec![]);
        for (i, argument) in arguments.iter().enumerate() {
            let added = add(&mut entries, argument, &scope);
            wrong.extend(added.err().map(|error| format!("argument {i}: {error}")));
        }
        if !wrong.is_empty() {
            return Err(ConfFault::new(wrong.join("\n")));
        }
        normalize(&mut entries, |entry| setup.warn(format!("multiple entries for {entry}")));
        let config = arguments.join(", ");
        let table = Arc::new(RwLock::new(Table { entries, config }));
        Ok(Each::boxed(ArpResponder { table, names }))
    },
    ..Class::BASE
};

/// The class of what says that somebody has an address.
pub static FAKER: Class = Class {
    name: "ARPFaker",
    brief: "tells a host every ten seconds who has an address",
    doc: "Sends an ARP reply to DSTIP at DSTETH that SRCIP is at SRCETH: the first after a second.",
    ports: "0/1",
    processing: "h",
    arguments: &[
        mandatory("DSTIP", "whom to tell"),
        mandatory("DSTETH", "and their Ethernet address"),
        mandatory("SRCIP", "the address"),
        mandatory("SRCETH", "who has it"),
    ],
    drops: &[Reason::NoBuffers],
    example: "ARPFaker(10.0.0.2, 0:0:c0:4b:ad:d3, 10.0.0.1, 0:0:c0:ae:67:ef) -> ToDevice(p)",
    see: &["ARPResponder", "ARPQuerier"],
    make: |_, conf| {
        let target_ip: Ipv4Addr = conf.mandatory("DSTIP")?;
        let target: Ethernet = conf.mandatory("DSTETH")?;
        let sender_ip: Ipv4Addr = conf.mandatory("SRCIP")?;
        let sender: Ethernet = conf.mandatory("SRCETH")?;
        conf.complete()?;
        Ok(Box::new(ArpFaker(Repr {
            operation: Operation::REPLY,
            sender_mac: MacAddress(sender.0),
            sender_ip,
            target_mac: MacAddress(target.0),
            target_ip,
        })))
    },
    ..Class::BASE
};

/// Who has some addresses.
#[derive(Debug, Clone, Copy)]
struct Entry {
    prefix: Prefix4,
    ethernet: Ethernet,
}

fn prefix_text(prefix: &Prefix4) -> String {
    match prefix.length() {
        Some(length) => format!("{}/{length}", prefix.address),
        None => format!("{}/{}", prefix.address, prefix.mask),
    }
}

/// Reads `IP/MASK… ETH`. A name may stand for both.
fn add(entries: &mut Vec<Entry>, text: &str, scope: &Scope<'_>) -> Result<(), String> {
    let (mut prefixes, mut found) = (vec![], None);
    for word in text.split_whitespace() {
        if let Ok(prefix) = Prefix4::parse(word, scope) {
            prefixes.push(Prefix4 { address: prefix.address & prefix.mask, mask: prefix.mask });
        } else if let Ok(ethernet) = Ethernet::parse(word, scope) {
            if found.replace(ethernet).is_some() {
                return Err("more than one ETH".into());
            }
        } else {
            return Err("expected IP/MASK ETH".into());
        }
    }
    let both = || text.split_whitespace().find_map(|word| Ethernet::parse(word, scope).ok());
    if prefixes.is_empty() {
        return Err("missing IP/MASK".into());
    }
    let ethernet = found.or_else(both).ok_or("missing ETH")?;
    entries.extend(prefixes.into_iter().map(|prefix| Entry { prefix, ethernet }));
    Ok(())
}

/// Sorts longer prefixes first; of two for the same the later stays.
fn normalize(entries: &mut Vec<Entry>, mut twice: impl FnMut(String)) {
    entries.reverse();
    // Stable, so that the later of two equal ones comes first.
    entries.sort_by_key(|e| (u32::MAX - e.prefix.mask.to_bits(), e.prefix.address));
    entries.dedup_by(|later, kept| {
        let same = later.prefix == kept.prefix;
        if same {
            twice(prefix_text(&kept.prefix));
        }
        same
    });
}

#[derive(Debug)]
struct Table {
    entries: Vec<Entry>,
    config: String,
}

impl Table {
    fn lookup(&self, address: Ipv4Addr) -> Option<Ethernet> {
        self.entries.iter().find(|e| e.prefix.contains(address)).map(|e| e.ethernet)
    }
}

/// An `ARPResponder` element; [`CLASS`] says what it does.
#[derive(Debug, Clone)]
pub struct ArpResponder {
    table: Arc<RwLock<Table>>,
    names: Arc<Names>,
}

impl ArpResponder {
    fn answer(&self, packet: &mut Packet) -> Option<()> {
        let asked = arp::parse(packet).filter(|asked| asked.operation == Operation::REQUEST)?;
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        let mac = MacAddress(table.lookup(asked.target_ip)?.0);
        let answer = arp::frame(&asked.reply(mac), asked.sender_mac);
        // The answer is a packet of its own; of the request it keeps the tag.
        let tci: [u8; 2] = packet.bytes_at(VLAN_TCI);
        packet.clear_annotations();
        packet.set_bytes_at(VLAN_TCI, tci);
        packet.copy_from(&answer).ok()?;
        packet.set_header(Header::Link, 0);
        packet.set_header(Header::Network, LEN);
        Some(())
    }

    fn read_table(&self) -> RwLockReadGuard<'_, Table> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn add_entry(&mut self, cx: &mut Cx<'_>, value: &str) -> Result<(), Refused> {
        let scope = Scope { element: cx.name(), names: &self.names };
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        let mut entries = table.entries.clone();
        add(&mut entries, value, &scope)?;
        normalize(&mut entries, |_| {});
        table.entries = entries;
        Ok(())
    }

    fn remove_entry(&mut self, cx: &mut Cx<'_>, value: &str) -> Result<(), Refused> {
        let scope = Scope { element: cx.name(), names: &self.names };
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        let prefix = Prefix4::parse(value, &scope).map_err(|_| "expected IP/MASK")?;
        let wanted = Prefix4 { address: prefix.address & prefix.mask, mask: prefix.mask };
        let at = table.entries.iter().position(|e| e.prefix == wanted);
        table.entries.remove(at.ok_or_else(|| format!("{} not found", prefix_text(&wanted)))?);
        Ok(())
    }

    fn set_config(&mut self, cx: &mut Cx<'_>, value: &str) -> Result<(), Refused> {
        let scope = Scope { element: cx.name(), names: &self.names };
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        let mut entries = vec![];
        for argument in graph::lang::args::split(value) {
            add(&mut entries, &argument, &scope)?;
        }
        normalize(&mut entries, |entry| cx.say(&format!("  warning: multiple entries for {entry}\n")));
        *table = Table { entries, config: value.to_string() };
        Ok(())
    }
}

impl PerPacket for ArpResponder {
    fn packet(&mut self, _: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        match self.answer(packet) {
            Some(()) => Action::ON,
            None => Action::out_or_drop(1, 0),
        }
    }

    fn replicate(&self) -> Option<ArpResponder> {
        Some(self.clone())
    }
}

/// An `ARPFaker` element; [`FAKER`] says what it does.
#[derive(Debug)]
pub struct ArpFaker(Repr);

impl Element for ArpFaker {
    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let timer = cx.new_timer();
        cx.set_timer_after(timer, SECOND_NS);
        Ok(())
    }

    fn fire(&mut self, cx: &mut Cx<'_>, timer: TimerId) {
        match cx.packet(&arp::frame(&self.0, self.0.target_mac)) {
            Some(mut packet) => {
                packet.set_header(Header::Link, 0);
                cx.emit(0, packet);
            }
            None => cx.count_drops(0, 1),
        }
        cx.set_timer_after(timer, 10 * SECOND_NS);
    }
}
