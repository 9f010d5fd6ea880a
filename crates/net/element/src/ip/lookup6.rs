//! `LookupIP6Route`: which output, and which next hop, IPv6 packets go to.

use std::net::Ipv6Addr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fib::Rib;
use graph::class::{Handlers, ask, read, rest, write};
use graph::value::Scope;
use graph::well_known;
use graph::{Class, ConfFault, Cx, Element, Next, Refused};
use memory::Batch;
use port::Reason;

use super::forward::{self, Forwarder};
use super::ip6_packet::unparse;
use super::route_text::{Command, RouteText, Written, output};

pub static CLASS: Class = Class {
    name: "LookupIP6Route",
    brief: "sends packets where a table of IPv6 routes says",
    doc: "Sends packets where the longest prefix that their destination annotation lies in says: to its \
          OUTPUT, with the annotation set to GATEWAY if the route has one. Packets without a route are \
          dropped. Batches are looked up as a whole.",
    ports: "1/-",
    processing: "h/h",
    arguments: &[rest("ROUTE", "`ADDR/LENGTH [GATEWAY] OUTPUT`: where packets to these addresses go")],
    handlers: &Handlers::<LookupIp6Route>(&[
        write("add", "adds the route given, or replaces that of the prefix", |lookup, cx, route| {
            lookup.command(cx, Command::Add, route)
        }),
        ask(
            well_known::LOOKUP.as_str(),
            "the output, and gateway, of the address given",
            LookupIp6Route::ask,
        ),
        write("remove", "removes the route of the prefix given", |lookup, cx, prefix| {
            lookup.command(cx, Command::Remove, prefix)
        }),
        write("ctrl", "`add ROUTE` or `remove PREFIX`", |lookup, cx, line| {
            let line = line.trim();
            let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
            // Adding replaces here, so there is no other command for that.
            let command = Command::named(word).filter(|command| *command != Command::Set);
            lookup.command(cx, command.ok_or("bad command, should be `add' or `remove'")?, rest)
        }),
        read("table", "all routes, a line each", |lookup| lookup.routes().dump()),
    ]),
    drops: &[Reason::NoSuchOutput, Reason::NoRoute],
    example: "rt :: LookupIP6Route(2001:db8:1::/48 0, ::/0 2001:db8::1 1)",
    see: &["RadixIPLookup", "CheckIP6Header", "GetIP6Address"],
    make: |setup, conf| {
        let mut routes = Routes6 { rib: Rib::new(), outputs: setup.outputs };
        let scope = *conf.scope();
        let mut problems = vec![];
        for (i, text) in conf.rest().iter().enumerate() {
            let added = routes.add(text, &scope);
            problems.extend(added.err().map(|error| match error.starts_with("should") {
                true => format!("argument {} {error}", i + 1),
                false => format!("argument {}: {error}", i + 1),
            }));
        }
        if conf.arguments().is_empty() {
            setup.warn("no routes");
        }
        if !problems.is_empty() {
            return Err(ConfFault::new(problems.join("\n")));
        }
        routes.rib.publish();
        let forwarder = Forwarder::new(routes.rib.reader());
        Ok(Box::new(LookupIp6Route { routes: Arc::new(Mutex::new(routes)), forwarder }))
    },
    ..Class::BASE
};

type Hop = forward::Hop<u128>;

/// A table of routes.
#[derive(Debug)]
struct Routes6 {
    rib: Rib<u128, Hop>,
    outputs: usize,
}

impl Routes6 {
    fn add(&mut self, text: &str, scope: &Scope<'_>) -> Result<(), String> {
        let wrong = || "should be DADDR/MASK [GW] OUTPUT".to_string();
        let route = RouteText::parse(text, scope).ok_or_else(wrong)?;
        let port = output(route.port.ok_or_else(wrong)?, self.outputs).ok_or("output port out of range")?;
        let hop = Hop { port, gateway: route.gateway };
        self.rib.insert(route.rule, hop).map_err(|error| error.to_string())?;
        Ok(())
    }

    fn remove(&mut self, text: &str, scope: &Scope<'_>) -> Result<(), String> {
        let word = text.split_whitespace().next().unwrap_or_default();
        let rule = u128::prefix(word, scope)?;
        let removed = self.rib.remove(rule).map_err(|error| error.to_string())?;
        removed.map(drop).ok_or_else(|| format!("route '{word}' not found"))
    }

    fn dump(&self) -> String {
        let line = |route: fib::Entry<'_, (u128, u8), Hop>| {
            let gateway = unparse(Ipv6Addr::from_bits(route.hop.gateway));
            let (prefix, len) = (unparse(Ipv6Addr::from_bits(route.rule.0)), route.rule.1);
            format!("{prefix}/{len}\t{gateway}\t{}\n", route.hop.port)
        };
        let head = ["# Active routes\n".to_string()];
        head.into_iter().chain(self.rib.iter().map(line)).collect()
    }
}

/// A `LookupIP6Route` element; [`CLASS`] says what it does.
#[derive(Debug)]
pub struct LookupIp6Route {
    /// For handlers only: packets go by what was published of it.
    routes: Arc<Mutex<Routes6>>,
    forwarder: Forwarder<u128>,
}

impl LookupIp6Route {
    fn routes(&self) -> MutexGuard<'_, Routes6> {
        self.routes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What its handlers read and write.
impl LookupIp6Route {
    fn ask(&mut self, _: &mut Cx<'_>, asked: &str) -> Result<String, Refused> {
        let address: Ipv6Addr = asked.trim().parse().map_err(|_| "expected IPv6 address")?;
        Ok(match self.forwarder.hop(address.to_bits()) {
            None => "-1".into(),
            Some(Hop { port, gateway: 0 }) => port.to_string(),
            Some(Hop { port, gateway }) => format!("{port} {}", Ipv6Addr::from_bits(gateway)),
        })
    }

    fn command(&mut self, cx: &Cx<'_>, command: Command, value: &str) -> Result<(), Refused> {
        let scope = Scope { element: cx.name(), names: &Default::default() };
        let mut routes = self.routes();
        match command {
            Command::Add | Command::Set => routes.add(value, &scope)?,
            Command::Remove => routes.remove(value, &scope)?,
        }
        routes.rib.publish();
        drop(routes);
        self.forwarder.refresh();
        Ok(())
    }
}

impl Element for LookupIp6Route {
    fn push(&mut self, cx: &mut Cx<'_>, _: usize, batch: &mut Batch) -> Next {
        self.forwarder.push(cx, batch, |cx, packet| cx.drop(1, packet))
    }

    fn replicate(&self) -> Option<Box<dyn Element>> {
        let (routes, forwarder) = (self.routes.clone(), self.forwarder.clone());
        Some(Box::new(LookupIp6Route { routes, forwarder }))
    }
}
