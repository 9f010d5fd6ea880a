//! `ixora overlay show`: what a running endpoint holds and counted.

use std::collections::BTreeMap;
use std::time::Duration;

use control::{Key, Owner};
use overlay::{NicCounts, Target, Usage};
use port::Reason;
use serde::{Deserialize, Serialize};
use vtep::{Sources, describe_target, describe_tunnel};

use super::accounts::Accounts;
use super::host::{Host, now_ns};
use crate::Failure;
use crate::control_socket::{self, Show};

/// An entry of the table, as the endpoint tells of it.
#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    network: u32,
    key: String,
    tunnel: String,
    /// `ready`, or why its packets cannot be sent now.
    state: String,
    /// Who told of it: `static` (the file), `api`, `fpm`, `kernel` or `learned`.
    owner: String,
    /// How long ago, in seconds; of what was learned from packets that is not known.
    age: Option<f64>,
    /// Packets that went by it since it is there; what goes by prefixes is not counted so.
    packets: Option<u64>,
    /// Their bytes, without outer headers.
    bytes: Option<u64>,
    /// How long ago the last one did, in seconds.
    used: Option<f64>,
}

/// Where a copy of what nothing is known of goes.
#[derive(Debug, Serialize, Deserialize)]
struct Flood {
    network: u32,
    tunnel: String,
    /// Whose the list is; nobody's of one that is none's any more.
    owner: Option<String>,
    /// How long ago the list was told of, in seconds.
    age: Option<f64>,
}

/// The Ethernet segment behind a network's port.
#[derive(Debug, Serialize, Deserialize)]
struct SegmentShown {
    network: u32,
    /// Whether frames for all go to it by this endpoint.
    designated: bool,
    /// The other endpoints that have it.
    peers: Vec<String>,
    owner: Option<String>,
    /// How long ago it was told of, in seconds.
    age: Option<f64>,
}

/// A next hop, with its Ethernet address if that is known.
#[derive(Debug, Serialize, Deserialize)]
struct NextHop {
    port: u16,
    address: String,
    mac: Option<String>,
}

/// What the NIC of an underlay's port has of the table.
#[derive(Debug, Serialize, Deserialize)]
struct Nic {
    /// The name of the port.
    underlay: String,
    entries: usize,
    /// Entries for which it has no room.
    without_room: usize,
    /// How often it was told all anew.
    restored: u64,
    /// How often the whole table was gone over to tell it.
    walks: u64,
}

/// What an endpoint answers.
#[derive(Debug, Serialize, Deserialize)]
struct State {
    entries: Vec<Entry>,
    /// Entries that are not listed.
    more: usize,
    /// Each network's flood list, in its order.
    floods: Vec<Flood>,
    segments: Vec<SegmentShown>,
    next_hops: Vec<NextHop>,
    /// Where a NIC puts packets into tunnels.
    nic: Option<Nic>,
    /// What somebody wants and the table does not have, a sentence each.
    problems: Vec<String>,
    /// What was heard of the kernel, of FRR and of controllers.
    control: serde_json::Value,
    /// Each port's counters.
    accounts: serde_json::Value,
    /// What the ports lost themselves, before or behind all that the accounts have.
    port_losses: Vec<PortLosses>,
}

/// What a port lost, by name.
#[derive(Debug, Serialize, Deserialize)]
struct PortLosses {
    port: String,
    losses: BTreeMap<String, u64>,
}

/// Asks, and prints the answer.
pub fn run(arguments: &Show) -> Result<(), Failure> {
    if arguments.metrics {
        print!("{}", control_socket::ask(&arguments.control, "metrics", super::START)?);
        return Ok(());
    }
    let answer = control_socket::ask(&arguments.control, &format!("show {}", arguments.limit), super::START)?;
    if arguments.json {
        println!("{answer}");
        return Ok(());
    }
    let state: State = serde_json::from_str(&answer).map_err(|error| {
        Failure::new(format!("{} answers something else: {error}", arguments.control.display()))
    })?;
    println!(
        "{:<10} {:<20} {:<52} {:<8} {:>10} {:>12} {:>10}  state",
        "network", "key", "tunnel", "owner", "age", "packets", "used"
    );
    for Entry { network, key, tunnel, state, owner, age, packets, used, .. } in &state.entries {
        let used = match packets {
            None => "-".to_owned(),
            Some(_) => used.map_or("never".to_owned(), |used| format!("{used:.1} s")),
        };
        let age = age.map_or("-".to_owned(), |age| format!("{age:.1} s"));
        let packets = packets.map_or("-".to_owned(), |packets| packets.to_string());
        println!(
            "{network:<10} {key:<20} {tunnel:<52} {owner:<8} {age:>10} {packets:>12} {used:>10}  {state}"
        );
    }
    if state.more > 0 {
        println!("and {} more: --limit", state.more);
    }
    println!("\n{:<10} {:<73} {:<8} {:>10}", "network", "flood list", "owner", "age");
    for Flood { network, tunnel, owner, age } in &state.floods {
        let age = age.map_or("-".to_owned(), |age| format!("{age:.1} s"));
        println!("{network:<10} {tunnel:<73} {:<8} {age:>10}", owner.as_deref().unwrap_or("-"));
    }
    print_segments(&state.segments);
    println!("\n{:<10} {:<40} Ethernet address", "port", "next hop");
    for NextHop { port, address, mac } in &state.next_hops {
        println!("{port:<10} {address:<40} {}", mac.as_deref().unwrap_or("unresolved"));
    }
    if let Some(Nic { underlay, entries, without_room, restored, walks }) = &state.nic {
        println!(
            "\nNIC of {underlay}: entries {entries}, in software for lack of room {without_room}; \
             told all again: {restored}, the table gone over: {walks}"
        );
    }
    state.problems.iter().for_each(|problem| println!("\nnot in the table: {problem}"));
    for side in ["networks", "underlay"] {
        for port in state.accounts[side].as_array().into_iter().flatten() {
            let number = |key: &str| port[key].as_u64().unwrap_or(0);
            let (received, forwarded) = (number("received"), number("forwarded"));
            println!(
                "\n{side} {}: received {received}, forwarded {forwarded}",
                port["name"].as_str().unwrap_or("")
            );
            for (name, count) in port["drops"].as_object().into_iter().flatten() {
                println!("  lost  {name:<28} {count}");
            }
        }
    }
    for PortLosses { port, losses } in state.port_losses.iter().filter(|port| !port.losses.is_empty()) {
        println!("\nport {port}:");
        losses.iter().for_each(|(name, count)| println!("  lost  {name:<28} {count}"));
    }
    Ok(())
}

fn print_segments(segments: &[SegmentShown]) {
    if segments.is_empty() {
        return;
    }
    println!("\n{:<10} {:<15} {:<57} {:<8} {:>10}", "network", "segment", "peers", "owner", "age");
    for SegmentShown { network, designated, peers, owner, age } in segments {
        let role = if *designated { "designated" } else { "not designated" };
        let peers = if peers.is_empty() { "none".to_owned() } else { peers.join(", ") };
        let age = age.map_or("-".to_owned(), |age| format!("{age:.1} s"));
        println!("{network:<10} {role:<15} {peers:<57} {:<8} {age:>10}", owner.as_deref().unwrap_or("-"));
    }
}

/// The answer to `show LIMIT`.
pub fn answer(host: &Host, sources: Option<&Sources>, limit: usize) -> String {
    let accounts = Accounts::new(&host.config, &host.counters, &[]);
    let mut next_hops: Vec<NextHop> = host
        .control
        .neighbors()
        .map(|(port, address, mac)| NextHop {
            port,
            address: address.to_string(),
            mac: Some(mac.to_string()),
        })
        .collect();
    let (table, _) = host.control.state();
    let unresolved = table.unresolved();
    next_hops.extend(unresolved.map(|(port, address)| NextHop {
        port,
        address: address.to_string(),
        mac: None,
    }));
    let entries: Vec<Entry> =
        table.networks().flat_map(|network| entries_of(host, network)).take(limit).collect();
    let more = table.networks().map(|network| table.entries(network)).sum::<usize>() - entries.len();
    let floods = table.networks().flat_map(|network| floods_of(host, network)).take(limit).collect();
    let segments = table.networks().filter_map(|network| segment_of(host, network)).take(limit).collect();
    let program = host.control.program();
    let refused = program.refused().iter().map(|(key, error)| format!("{key}: {error}"));
    let waiting = program.waiting().map(|key| format!("{key}: its network is not there"));
    let unresolved = sources.into_iter().flat_map(Sources::unresolved);
    let problems = refused.chain(waiting).chain(unresolved).take(limit).collect();
    let nic = host.nic().map(|(underlay, offload)| {
        let NicCounts { entries, without_room, restored } = offload.counts();
        Nic { underlay: underlay.to_owned(), entries, without_room, restored, walks: offload.walks() }
    });
    let control = sources.map_or(serde_json::Value::Null, Sources::status);
    let accounts = serde_json::to_value(accounts).unwrap_or_default();
    let port_losses = host.counters.ports.losses().into_iter();
    let port_losses = port_losses.map(|(port, losses)| PortLosses { port, losses }).collect();
    let state =
        State { entries, more, floods, segments, next_hops, nic, problems, control, accounts, port_losses };
    serde_json::to_string_pretty(&state).unwrap_or_default()
}

/// The flood list of a network.
fn floods_of(host: &Host, network: u32) -> impl Iterator<Item = Flood> + '_ {
    let told = host.control.told(&Key::Flood(network), now_ns());
    let (table, _) = host.control.state();
    table.flood(network).map(move |tunnel| Flood {
        network,
        tunnel: describe_tunnel(tunnel),
        owner: told.map(|(owner, _)| owner.name().to_owned()),
        age: told.map(|(_, age)| age),
    })
}

/// The Ethernet segment of a network.
fn segment_of(host: &Host, network: u32) -> Option<SegmentShown> {
    let segment = host.control.state().0.segment(network)?;
    let told = host.control.told(&Key::Segment(network), now_ns());
    Some(SegmentShown {
        network,
        designated: segment.is_designated,
        peers: segment.peers.iter().map(ToString::to_string).collect(),
        owner: told.map(|(owner, _)| owner.name().to_owned()),
        age: told.map(|(_, age)| age),
    })
}

/// The entries of a network: those of identifiers, and prefixes.
fn entries_of(host: &Host, network: u32) -> impl Iterator<Item = Entry> + '_ {
    let (table, _) = host.control.state();
    let now = now_ns();
    let entry =
        move |key: String, at: Key, (owner, target): (Owner, &Target), problem: Option<Reason>| Entry {
            network,
            key,
            tunnel: describe_target(table, target),
            state: problem.map_or("ready", |reason| reason.name()).to_owned(),
            owner: owner.name().to_owned(),
            age: host.control.told(&at, now).map(|(_, age)| age),
            packets: None,
            bytes: None,
            used: None,
        };
    let exact = table.entries_of(network).zip(std::iter::repeat(table.network(network)));
    let exact = exact.filter_map(move |(is, settings)| {
        let at = Key::at(network, settings?, is.identifier);
        let key = match at {
            Key::Entry(_, mac) => mac.to_string(),
            _ => format!("{:#x}", is.identifier),
        };
        let Usage { count, last } = table.usage(network, is.identifier).unwrap_or_default();
        let used =
            last.map(|last| Duration::from_nanos(now.unsigned_abs()).saturating_sub(last).as_secs_f64());
        let shown = entry(key, at, (is.owner, is.target), is.problem);
        Some(Entry { packets: Some(count.packets), bytes: Some(count.bytes), used, ..shown })
    });
    let prefixes = table.prefixes_of(network).map(move |is| {
        let (key, at) = (format!("{}/{}", is.prefix.0, is.prefix.1), Key::Prefix(network, is.prefix));
        entry(key, at, (is.owner, is.target), is.problem)
    });
    exact.chain(prefixes)
}
