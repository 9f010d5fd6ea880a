//! `LookupIP6Route`: which output, and which next hop, IPv6 packets go to.

use std::net::Ipv6Addr;
use std::sync::{Arc, PoisonError, RwLock};

use fib::lpm::Table6;
use graph::class::{read, rest, write};
use graph::value::{Prefix6, Scope, Value, unsigned};
use graph::{Class, Cx, Element, Fault, Next, Refused};
use memory::{Batch, Packet};

use super::ip6_packet::unparse;
use crate::annotation::{DST_IP6, Notes};

/// The class.
pub static CLASS: Class = Class {
    name: "LookupIP6Route",
    brief: "sends packets where a table of IPv6 routes says",
    doc: "Sends packets where the longest prefix that their destination annotation lies in says: to its \
          OUTPUT, with the annotation set to GATEWAY if the route has one. Packets without a route are \
          dropped. Batches are looked up as a whole.",
    ports: "1/-",
    processing: "h/h",
    arguments: &[rest("ROUTE", "`ADDR/LENGTH [GATEWAY] OUTPUT`: where packets to these addresses go")],
    handlers: &[
        read("table", "all routes, a line each"),
        read("lookup", "the output, and gateway, of the address given").marked("+"),
        write("add", "adds the route given, or replaces that of the prefix"),
        write("remove", "removes the route of the prefix given"),
        write("ctrl", "`add ROUTE` or `remove PREFIX`"),
    ],
    drops: &["no such output", "no route"],
    example: "rt :: LookupIP6Route(2001:db8:1::/48 0, ::/0 2001:db8::1 1)",
    see: &["RadixIPLookup", "CheckIP6Header", "GetIP6Address"],
    make: |setup, conf| {
        let mut routes = Routes { fib: Table6::new(), hops: vec![], outputs: setup.outputs };
        let scope = *conf.scope();
        let mut problems = vec![];
        for (i, text) in conf.rest().iter().enumerate() {
            let added = routes.add(text, &scope);
            problems.extend(added.err().map(|error| format!("argument {}: {error}", i + 1)));
        }
        if !problems.is_empty() {
            return Err(Fault::new(problems.join("\n")));
        }
        Ok(Box::new(LookupIp6Route { routes: Arc::new(RwLock::new(routes)), room: Box::default() }))
    },
    ..Class::BASE
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Hop {
    port: u16,
    gateway: u128,
}

/// A table of routes.
#[derive(Debug)]
struct Routes {
    fib: Table6,
    hops: Vec<Hop>,
    outputs: usize,
}

fn masked(prefix: &Prefix6) -> u128 {
    let mask = u128::MAX.checked_shl(128 - u32::from(prefix.length)).unwrap_or(0);
    prefix.address.to_bits() & mask
}

impl Routes {
    fn add(&mut self, text: &str, scope: &Scope<'_>) -> Result<(), String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let wrong = || "should be DADDR/MASK [GW] OUTPUT".to_string();
        let (prefix, gateway, port) = match words[..] {
            [prefix, port] => (prefix, "-", port),
            [prefix, gateway, port] => (prefix, gateway, port),
            _ => return Err(wrong()),
        };
        let prefix = Prefix6::parse(prefix, scope).map_err(|_| wrong())?;
        let gateway = match gateway {
            "-" => 0,
            text => Ipv6Addr::parse(text, scope).map_err(|_| wrong())?.to_bits(),
        };
        let port = unsigned(port).ok_or_else(wrong)?;
        let port = u16::try_from(port).ok().filter(|port| usize::from(*port) < self.outputs);
        let hop = Hop { port: port.ok_or("output port out of range")?, gateway };
        // There are few next hops: those of one that is gone stay known.
        let number = self.hops.iter().position(|known| *known == hop).unwrap_or(self.hops.len());
        self.fib.insert(masked(&prefix), prefix.length, number as u32).map_err(|error| error.to_string())?;
        if number == self.hops.len() {
            self.hops.push(hop);
        }
        Ok(())
    }

    fn remove(&mut self, text: &str, scope: &Scope<'_>) -> Result<(), String> {
        let word = text.split_whitespace().next().unwrap_or_default();
        let prefix = Prefix6::parse(word, scope)?;
        let removed = self.fib.remove(masked(&prefix), prefix.length).map_err(|error| error.to_string())?;
        removed.map(drop).ok_or_else(|| format!("route '{word}' not found"))
    }

    fn hop(&self, number: u32) -> Option<Hop> {
        self.hops.get(number as usize).copied()
    }

    fn dump(&self) -> String {
        let line = |route: fib::lpm::Route<u128>| {
            let hop = self.hop(route.value)?;
            let gateway = unparse(Ipv6Addr::from_bits(hop.gateway));
            let prefix = unparse(Ipv6Addr::from_bits(route.prefix));
            Some(format!("{prefix}/{}\t{gateway}\t{}\n", route.len, hop.port))
        };
        let head = ["# Active routes\n".to_string()];
        head.into_iter().chain(self.fib.iter().filter_map(line)).collect()
    }
}

/// See [`CLASS`].
#[derive(Debug)]
pub struct LookupIp6Route {
    routes: Arc<RwLock<Routes>>,
    room: Box<Room>,
}

/// Addresses to look up and what came of it.
#[derive(Debug)]
struct Room {
    addresses: [u128; Batch::MAX],
    numbers: [u32; Batch::MAX],
}

impl Default for Room {
    fn default() -> Room {
        Room { addresses: [0; Batch::MAX], numbers: [0; Batch::MAX] }
    }
}

impl Element for LookupIp6Route {
    fn push(&mut self, cx: &mut Cx<'_>, _: usize, batch: &mut Batch) -> Next {
        let LookupIp6Route { routes, room } = self;
        let count = batch.len();
        let addresses = &mut room.addresses[..count];
        for (address, packet) in addresses.iter_mut().zip(batch.iter()) {
            *address = u128::from_be_bytes(packet.bytes_at(DST_IP6));
        }
        let numbers = &mut room.numbers[..count];
        let routes = routes.read().unwrap_or_else(PoisonError::into_inner);
        routes.fib.lookup_batch(addresses, numbers);
        let stays = numbers.first().and_then(|number| routes.hop(*number)).map_or(0, |hop| hop.port);
        let sort = |_: &mut &mut Cx<'_>, place: usize, packet: &mut Packet| {
            let hop = numbers.get(place).and_then(|number| routes.hop(*number));
            if let Some(Hop { gateway, .. }) = hop.filter(|hop| hop.gateway != 0) {
                packet.set_bytes_at(DST_IP6, gateway.to_be_bytes());
            }
            let port = hop.map(|hop| hop.port);
            (port != Some(stays)).then_some(port)
        };
        batch.split(&mut &mut *cx, sort, |cx, port, packet| match port {
            Some(port) => cx.emit(port.into(), packet),
            None => cx.drop(1, packet),
        });
        Next::Push(stays.into())
    }

    fn read(&mut self, _: &mut Cx<'_>, handler: &str, asked: &str) -> Result<String, Refused> {
        let routes = self.routes.read().unwrap_or_else(PoisonError::into_inner);
        if handler == "table" {
            return Ok(routes.dump());
        }
        let address: Ipv6Addr = asked.trim().parse().map_err(|_| "expected IPv6 address")?;
        Ok(match routes.fib.lookup(address.to_bits()).and_then(|number| routes.hop(number)) {
            None => "-1".into(),
            Some(Hop { port, gateway: 0 }) => port.to_string(),
            Some(Hop { port, gateway }) => format!("{port} {}", Ipv6Addr::from_bits(gateway)),
        })
    }

    fn write(&mut self, cx: &mut Cx<'_>, handler: &str, value: &str) -> Result<(), Refused> {
        let names = Default::default();
        let scope = Scope { element: cx.name(), names: &names };
        let mut routes = self.routes.write().unwrap_or_else(PoisonError::into_inner);
        let (command, value) = match handler {
            "ctrl" => value.trim().split_once(char::is_whitespace).unwrap_or((value.trim(), "")),
            command => (command, value),
        };
        match command {
            "add" => routes.add(value, &scope)?,
            "remove" => routes.remove(value, &scope)?,
            _ => return Err("bad command, should be `add' or `remove'".into()),
        }
        Ok(())
    }

    fn replicate(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(LookupIp6Route { routes: self.routes.clone(), room: Box::default() }))
    }
}
