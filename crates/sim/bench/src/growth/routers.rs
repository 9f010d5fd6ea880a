//! Routers in which something grows, fed from memory.

use std::fmt::Write;
use std::net::Ipv4Addr;

use graph::Router;

use super::{Point, Seen, Setup, draws, keys};
use crate::graph::{window, workload};
use crate::tables::resident;
use crate::{Error, Result};

/// A router behind a `Draws`.
struct Fed {
    /// What packets are told apart by, and of how many they are drawn.
    keys: (&'static str, u64),
    /// What is declared in front of the source, if anything.
    declared: &'static str,
    /// The configuration behind the source.
    behind: String,
    /// The `Discard` to which all packets come.
    end: &'static str,
    /// What a handler is told before packets come.
    told: Option<(&'static str, String)>,
}

impl Fed {
    fn new(keys: (&'static str, u64), behind: String) -> Fed {
        Fed { keys, declared: "", behind, end: "end", told: None }
    }

    /// Cycles of each packet, a window each, and the bytes by which the process grew while
    /// the router ran.
    fn run(&self, setup: &Setup, windows: usize) -> Result<(Vec<f64>, u64)> {
        let ((keys, count), Setup { packets, batch, .. }) = (self.keys, setup);
        let source = format!("draws :: Draws({keys}, {count}, {packets}, {windows}, {batch})");
        let text = format!("{}\n{source} -> {}", self.declared, self.behind);
        let options = graph::Options { threads: 1, ..Default::default() };
        let mut router = window::build(&text, vec![], &[&draws::CLASS], options)?;
        if let Some((handler, value)) = &self.told {
            router.write(handler, value).map_err(|refused| Error::new(format!("{handler}: {refused}")))?;
        }
        let before = resident();
        router.run();
        let bytes = resident().saturating_sub(before);
        let (sent, came) =
            (number(&mut router, "draws.count")?, number(&mut router, &format!("{}.count", self.end))?);
        if sent != came || sent == 0 {
            return Err(Error::new(format!("{came} packets of {sent} came to the end of the router")));
        }
        let lines = router.read("draws.windows", "").unwrap_or_default();
        Ok((lines.lines().filter_map(|line| line.parse().ok()).collect(), bytes))
    }
}

fn number(router: &mut Router, handler: &str) -> Result<u64> {
    let text = router.read(handler, "").unwrap_or_default();
    text.trim().parse().map_err(|_| Error::new(format!("{handler} says {text:?}")))
}

/// The paper's router, which keeps nothing of a flow, and a NAT's table, which has an entry
/// for each.
pub(super) fn flows(point: &Point, setup: &Setup) -> Result<Seen> {
    let keys = ("flows", point.x);
    let has_table = point.curve == "nat";
    let fed = match has_table {
        false => Fed { declared: workload::ROUTER, end: "d", ..Fed::new(keys, "c;".to_owned()) },
        // The largest table that there may be here: no flow is refused.
        true => Fed::new(
            keys,
            "table :: IPRewriter(keep 0 1, drop, MAPPING_CAPACITY 1048576);
             table[0] -> end :: Discard; Idle -> [1] table[1] -> Discard;"
                .to_owned(),
        ),
    };
    let (cycles, bytes) = fed.run(setup, setup.windows)?;
    Ok(Seen { cycles, windows: setup.windows, table_bytes: has_table.then_some(bytes), ..Seen::default() })
}

/// `RadixIPLookup` with routes like those of the default-free zone, to one output.
pub(super) fn prefixes(point: &Point, setup: &Setup) -> Result<Seen> {
    let mut lines = String::new();
    for route in keys::routes4(point.x) {
        let gateway = Ipv4Addr::from_bits(0xC0A8_0001 + route.value);
        let _ = writeln!(lines, "add {}/{} {gateway} 0", Ipv4Addr::from_bits(route.prefix), route.len);
    }
    let behind = "rt :: RadixIPLookup -> end :: Discard;".to_owned();
    let told = Some(("rt.ctrl", lines));
    let fed = Fed { told, ..Fed::new(("prefixes", point.x), behind) };
    let (cycles, _) = fed.run(setup, setup.windows)?;
    Ok(Seen { cycles, windows: setup.windows, ..Seen::default() })
}

/// A chain, in turns with a chain of none.
pub(super) fn elements(point: &Point, setup: &Setup) -> Result<Seen> {
    let chain = |count: u64| {
        let argument = if point.curve == "Paint" { "(1)" } else { "" };
        let chain = format!("{}{argument} -> ", point.curve).repeat(count as usize);
        Fed::new(("flows", 64), chain + "end :: Discard;")
    };
    let (full, none) = (chain(point.x), chain(0));
    let mut seen = Seen { windows: setup.windows, ..Seen::default() };
    for _ in 0..setup.windows {
        let ((with, _), (without, _)) = (full.run(setup, 1)?, none.run(setup, 1)?);
        for (with, without) in with.into_iter().zip(without) {
            seen.cycles.push(with);
            seen.each.push((with - without) / point.x as f64);
        }
    }
    Ok(seen)
}

/// A classifier of which each rule names another address, address and port, or pattern, or that
/// is an access list. All rules are named by as many packets as each other.
pub(super) fn rules(point: &Point, setup: &Setup) -> Result<Seen> {
    let (mut text, mut ways) = (String::new(), String::new());
    for rule in 0..point.x {
        let (bits, port) = (keys::source(rule), keys::port(rule));
        let host = Ipv4Addr::from_bits(bits);
        let _ = match point.curve {
            "addresses" => write!(text, "allow src host {host}, "),
            "flows" => write!(text, "allow src host {host} and udp dst port {port}, "),
            "access list" => write!(text, "{}, ", access(rule)),
            // The source address stands behind Ethernet's header and 12 bytes of IP's.
            _ => write!(text, "26/{bits:08x}, "),
        };
        if point.curve == "patterns" {
            let _ = write!(ways, "c[{rule}] -> end; ");
        }
    }
    let behind = match point.curve {
        "patterns" => format!("c :: Classifier({}); end :: Discard; {ways}", text.trim_end_matches(", ")),
        "access list" => format!("IPFilter({text}allow udp, deny all) -> end :: Discard;"),
        _ => format!("IPFilter({text}deny all) -> end :: Discard;"),
    };
    let fed = Fed::new(("rules", point.x), behind);
    let (cycles, _) = fed.run(setup, setup.windows)?;
    Ok(Seen { cycles, windows: setup.windows, ..Seen::default() })
}

/// A rule of an access list: half of them deny what is like the packets of the rule's number, but
/// not those; what they do not deny comes to the last rule.
fn access(rule: u64) -> String {
    let (bits, port) = (keys::source(rule), keys::port(rule));
    let host = Ipv4Addr::from_bits(bits);
    let net = |len: u32| format!("src net {}/{len}", Ipv4Addr::from_bits(bits & !(u32::MAX >> len)));
    match rule % 8 {
        0 => format!("allow src host {host} and udp dst port {port}"),
        1 => format!("deny src host {host} and tcp dst port {port}"),
        2 => format!("allow {} and dst net 10.0.0.0/24 and udp dst port >= 1024", net(28)),
        3 => format!("deny {} and dst net 10.1.0.0/16", net(29)),
        4 => format!("allow src host {host} and dst host 10.0.0.1 and udp"),
        5 => format!("deny {} and tcp", net(30)),
        6 => {
            let (least, most) = (port - 8, port + 8);
            format!("allow src host {host} and udp dst port >= {least} and udp dst port <= {most}")
        }
        _ => format!("deny src host {host} and icmp"),
    }
}
