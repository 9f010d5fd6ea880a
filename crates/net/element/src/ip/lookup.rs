//! `LinearIPLookup`, `RadixIPLookup` and the like: which output, and which next hop,
//! packets go to. One table serves them all ([`fib::Rib`]); they differ in what they can be
//! told while they run.

use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use graph::class::{Argument, Handlers, Row, action, ask, read, rest, write};
use graph::element::kernel::{Code, Kernel, of_type};
use graph::fused::Single;
use graph::value::Scope;
use graph::{Action, Class, Conf, ConfFault, Cx, Element, Next, Refused, Setup};
use memory::{Batch, Packet};

use super::forward::{Forwarder, Hop, NextHop};
use super::route_text::Command;
use super::routes::{Routes, parameter};
use super::slots::Order;
use crate::kernels::{self, single};
use graph::annotation::PacketAnnotations;
use graph::well_known;
use port::Reason;

const ARGUMENTS: &[Argument] =
    &[rest("ROUTE", "`ADDR/MASK [GATEWAY] OUTPUT`: where packets to these addresses go")];
const LOOKUP: Row<Lookup> =
    ask(well_known::LOOKUP.as_str(), "the output, and gateway, of the address given", Lookup::ask);
const TABLE: Row<Lookup> =
    read("table", "all routes, a line each", |lookup: &Lookup| lookup.routes().dump()).marked("$");
const FIXED: &Handlers<Lookup> = &Handlers(&[TABLE.marked(""), LOOKUP]);
const CHANGED: &Handlers<Lookup> = &Handlers(&[
    write("add", "adds the route given; refused when there is one of the prefix", |lookup, cx, route| {
        lookup.command(cx, Command::Add, route)
    }),
    write("set", "adds the route given, or replaces that of the prefix", |lookup, cx, route| {
        lookup.command(cx, Command::Set, route)
    }),
    write("remove", "removes the route given", |lookup, cx, route| {
        lookup.command(cx, Command::Remove, route)
    }),
    write(
        "ctrl",
        "does lines of `add ROUTE`, `set ROUTE`, `remove ROUTE`; all of them or none",
        |lookup, cx, lines| {
            let scope = Scope { element: cx.name(), names: &Default::default() };
            lookup.change(|routes| routes.transact(lines, &scope))
        },
    ),
    TABLE,
    LOOKUP,
    action("flush", "removes all routes", |lookup: &mut Lookup, _| {
        // Nothing of it can fail.
        let _flushed = lookup.change(|routes| {
            routes.flush();
            Ok(())
        });
    })
    .marked("b"),
]);
const DROPS: &[Reason] = &[Reason::NoSuchOutput, Reason::NoRoute];
const DOC: &str = "Sends packets where the longest prefix that their destination annotation lies in says: to \
    its OUTPUT, with the annotation set to GATEWAY if the route has one. Packets without a route are dropped. \
    The table is a compressed trie fit for a full BGP table; batches are looked up as a whole, and changes \
    are seen by all threads at once.";

/// In what the classes differ, beside the handlers.
#[derive(Clone, Copy)]
struct Variant {
    /// In which order routes are listed.
    order: Order,
    /// By which name it complains of packets without a route.
    speaker: &'static str,
    is_deprecated: bool,
}

impl Variant {
    const fn of(order: Order) -> Variant {
        Variant { order, speaker: "IPRouteTable", is_deprecated: false }
    }
}

macro_rules! lookup {
    ($(#[$doc:meta])* $class:ident, $name:literal, $brief:literal, $variant:expr, $changes:expr) => {
        $(#[$doc])*
        pub static $class: Class = Class {
            name: $name,
            brief: $brief,
            doc: DOC,
            ports: "1/-",
            processing: "h/h",
            arguments: ARGUMENTS,
            handlers: if $changes { CHANGED } else { FIXED },
            drops: DROPS,
            example: concat!("rt :: ", $name, "(10.0.0.0/8 0, 0.0.0.0/0 18.26.4.1 1)"),
            see: &["RadixIPLookup", "LinearIPLookup", "StaticIPLookup", "LookupIP6Route", "GetIPAddress"],
            kernel: if $changes { Kernel::Excluded(kernels::BATCH) } else { Kernel::Inside(single!(Lookup).coded(code)) },
            make: |setup, conf| make(setup, conf, $variant),
            ..Class::BASE
        };
    };
}

lookup!(
    /// Click's table that is a list.
    LINEAR, "LinearIPLookup", "sends packets where a table of IPv4 routes says",
    Variant { speaker: "LinearIPLookup", ..Variant::of(Order::First) }, true
);
lookup!(
    /// The class of tables that are meant to be used.
    RADIX, "RadixIPLookup", "sends packets where a table of IPv4 routes says",
    Variant::of(Order::Last), true
);
lookup!(
    /// Click's table of 48 MiB.
    DIRECT, "DirectIPLookup", "sends packets where a table of IPv4 routes says (as RadixIPLookup)",
    Variant::of(Order::Bucket), true
);
lookup!(
    /// Click's table of ranges.
    RANGE, "RangeIPLookup", "sends packets where a table of IPv4 routes says (as RadixIPLookup)",
    Variant::of(Order::Bucket), true
);
lookup!(
    /// Click's table that sorts.
    SORTED, "SortedIPLookup", "sends packets where a table of IPv4 routes says (as RadixIPLookup)",
    Variant { is_deprecated: true, ..Variant::of(Order::First) }, true
);
lookup!(
    /// The class of tables that stay as they are.
    STATIC, "StaticIPLookup", "sends packets where a fixed table of IPv4 routes says",
    Variant::of(Order::First), false
);
lookup!(
    /// Click's table for several processors.
    MULTI, "LookupIPRouteMP", "sends packets where a fixed table of IPv4 routes says (as StaticIPLookup)",
    Variant::of(Order::First), false
);

fn make(setup: &mut Setup<'_>, conf: &mut Conf<'_>, variant: Variant) -> Result<Box<dyn Element>, ConfFault> {
    let Variant { order, speaker, is_deprecated } = variant;
    if is_deprecated {
        setup.warn("SortedIPLookup is deprecated; use LinearIPLookup or RadixIPLookup instead");
    }
    let texts = conf.rest();
    let mut routes = Routes::new(order, setup.outputs);
    let twice = routes.configure(&texts, conf.scope())?;
    if twice > 0 {
        let plural = if twice > 1 { "routes" } else { "route" };
        setup.warn(format!("{twice} {plural} given again; the first stays"));
    }
    routes.rib.publish();
    let forwarder = Forwarder::new(routes.rib.reader());
    Ok(Box::new(Lookup {
        routes: Arc::new(Mutex::new(routes)),
        forwarder,
        complaints: Complaints { count: 0, speaker },
    }))
}

/// The most routes that are written out in programs; larger tables look up whole batches.
const ROUTES: usize = 16;

/// How many packets without a route are told of.
const COMPLAINTS: u32 = 5;

/// An element that looks up routes of IPv4, such as [`RADIX`].
#[derive(Debug)]
pub struct Lookup {
    /// For handlers only: packets go by what was published of it.
    routes: Arc<Mutex<Routes>>,
    forwarder: Forwarder<u32>,
    complaints: Complaints,
}

/// What was said of packets without a route, and by which name.
#[derive(Debug, Clone, Copy)]
struct Complaints {
    count: u32,
    speaker: &'static str,
}

impl Complaints {
    fn no_route(&mut self, cx: &mut Cx<'_>, address: Ipv4Addr) {
        if self.count < COMPLAINTS {
            self.count += 1;
            cx.say(&format!("{}: no route for {address}\n", self.speaker));
        }
    }
}

impl Lookup {
    fn routes(&self) -> MutexGuard<'_, Routes> {
        self.routes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cold]
    fn no_route(complaints: &mut Complaints, cx: &mut Cx<'_>, packet: Packet) {
        complaints.no_route(cx, packet.dst_ip());
        cx.drop(1, packet);
    }
}

/// A route as programs have it, that are made for a fixed table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fixed {
    /// The prefix's bits.
    pub prefix: u32,
    /// Which bits are the prefix's.
    pub mask: u32,
    /// The number of the element's output that packets leave by.
    pub port: u16,
    /// The next hop; zero for none.
    pub gateway: u32,
}

/// The output of the last of `routes` that fits a packet's destination, with the next
/// hop noted; `None` without one. The longest prefixes must stand last.
#[inline(always)]
pub fn route<const N: usize>(routes: &[Fixed; N], packet: &mut Packet) -> Option<Action> {
    let address = packet.dst_ip().to_bits();
    let mut found = None;
    for route in routes {
        if address & route.mask == route.prefix {
            found = Some(Hop { port: route.port, gateway: route.gateway });
        }
    }
    found.map(|hop| {
        hop.direct(packet);
        Action::out(hop.port.into())
    })
}

impl Lookup {
    /// All routes, the longest prefixes last.
    pub(crate) fn fixed(&self) -> Vec<Fixed> {
        self.routes().fixed()
    }

    /// A packet has no route.
    #[cold]
    pub fn miss(&mut self, cx: &mut Cx<'_>, packet: &Packet) -> Action {
        self.complaints.no_route(cx, packet.dst_ip());
        Action::drop(1)
    }
}

impl Single for Lookup {
    #[inline]
    fn single(&mut self, cx: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        match self.forwarder.hop(packet.dst_ip().to_bits()) {
            Some(hop) => {
                hop.direct(packet);
                Action::out(hop.port.into())
            }
            None => self.miss(cx, packet),
        }
    }
}

/// What its handlers read and write.
impl Lookup {
    fn ask(&mut self, _: &mut Cx<'_>, asked: &str) -> Result<String, Refused> {
        let address = parameter(asked).ok_or("expected IP address")?;
        Ok(match self.forwarder.hop(address) {
            None => "-1".into(),
            Some(Hop { port, gateway: 0 }) => port.to_string(),
            Some(Hop { port, gateway }) => format!("{port} {}", Ipv4Addr::from_bits(gateway)),
        })
    }

    fn command(&mut self, cx: &Cx<'_>, command: Command, route: &str) -> Result<(), Refused> {
        let scope = Scope { element: cx.name(), names: &Default::default() };
        self.change(|routes| routes.command(command, route, &scope).map(drop))
    }

    /// Changes the table and publishes it; one that was refused is as it was.
    fn change(&mut self, change: impl FnOnce(&mut Routes) -> Result<(), String>) -> Result<(), Refused> {
        let mut routes = self.routes();
        change(&mut routes)?;
        routes.rib.publish();
        drop(routes);
        self.forwarder.refresh();
        Ok(())
    }
}

impl Element for Lookup {
    fn push(&mut self, cx: &mut Cx<'_>, _: usize, batch: &mut Batch) -> Next {
        let Lookup { forwarder, complaints, .. } = self;
        forwarder.push(cx, batch, |cx, packet| Lookup::no_route(complaints, cx, packet))
    }

    fn replicate(&self) -> Option<Box<dyn Element>> {
        let (routes, forwarder) = (self.routes.clone(), self.forwarder.clone());
        let complaints = Complaints { count: 0, ..self.complaints };
        Some(Box::new(Lookup { routes, forwarder, complaints }))
    }

    fn take_over(&mut self, _: &mut Cx<'_>, _: &mut dyn Element) {
        // The new configuration says which routes there are.
    }
}

/// Its code in programs: with its configuration in it, where that is known.
fn code(element: &dyn Element) -> Code {
    of_type(element, |kernel: &Lookup| {
        let routes = kernel.fixed();
        if routes.len() > ROUTES {
            return Some(Code::Excluded("it has many routes, and looks up a batch at a time"));
        }
        let line = |Fixed { prefix, mask, port, gateway }: &Fixed| {
            format!(
                "kernels::Fixed {{ prefix: {prefix:#x}, mask: {mask:#x}, port: {port}, gateway: {gateway:#x} }}"
            )
        };
        let routes = routes.iter().map(line).collect::<Vec<_>>().join(", ");
        Some(Code::Action(format!(
            "match kernels::route(const {{ &[{routes}] }}, packet) {{ Some(action) => action, None => kernel.miss(&mut cx.at(element), packet) }}"
        )))
    })
}
