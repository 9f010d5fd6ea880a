//! An endpoint's counters as Prometheus reads them (exposition format 0.0.4): over HTTP
//! (`run --metrics`), and to those who ask by the control socket.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::net::IpAddr;

use overlay::{Count, FarEnd, LearningCounts, Overlay, Target};
use vtep::{Offload, Sources, Totals};

use super::host::Host;
use crate::metrics_port::head;

/// Entries of which is told where they lead: of more than these, a look would take too long
/// between two turns of the control.
const MOST_ENTRIES: usize = 10_000;
/// Tunnels of which is told what went there: as of entries.
const MOST_TUNNELS: usize = 10_000;

/// What counts who came for metrics.
pub const CLIENTS: &str = "ixora_overlay_metrics_clients_total";

/// A series: its name, its kind, what it tells, and its value of a port.
type Series = (&'static str, &'static str, fn(&Totals) -> u64);

/// As [`Series`], of a far end.
type FarSeries = (&'static str, &'static str, fn(Count) -> u64);

/// As [`Series`], of a NIC that has the table: the end of its name, and its kind.
type NicSeries = (&'static str, &'static str, &'static str, fn(&Offload) -> u64);

/// What each port counts.
const COUNTED: [Series; 8] = [
    ("ixora_overlay_received_packets_total", "Frames that came by a port.", |t| t.received),
    ("ixora_overlay_received_bytes_total", "Bytes of frames that came by a port.", |t| t.received_bytes),
    ("ixora_overlay_forwarded_packets_total", "Frames that went into a tunnel or out of one.", |t| {
        t.forwarded
    }),
    (
        "ixora_overlay_copies_total",
        "Copies for flood lists, pieces of long segments but the first, and answers to what is too long.",
        |t| t.copies,
    ),
    (
        "ixora_overlay_answered_total",
        "Requests for addresses, pings and packets that are too long that were answered.",
        |t| t.answered,
    ),
    ("ixora_overlay_taken_total", "Answers of neighbours that were taken.", |t| t.taken),
    (
        "ixora_overlay_returned_packets_total",
        "Packets that a NIC gave back, which had been forwarded to it and went by software.",
        |t| t.returned,
    ),
    (
        "ixora_overlay_given_back_packets_total",
        "The packets that a NIC gave back, as frames of the underlay.",
        |t| t.given_back,
    ),
];

/// All metrics of an endpoint, as Prometheus reads them.
pub fn text(host: &Host, sources: Option<&Sources>) -> String {
    let mut out = String::new();
    let (inner, underlay) = (&host.config.inner, &host.config.underlay);
    let (table, _) = host.control.state();
    head(&mut out, "ixora_overlay_port_up", "gauge", "Whether packets can leave by a port of the underlay.");
    for (n, port) in underlay.iter().enumerate() {
        let is_up = table.port(n as u16).is_some_and(|port| port.is_up);
        let _ = writeln!(out, "ixora_overlay_port_up{{{}}} {}", of_underlay(&port.name), u8::from(is_up));
    }
    let inner = inner.iter().enumerate();
    let inner = inner.map(|(n, inner)| (of_network(inner.network), host.counters.inner(n)));
    let below = underlay.iter().enumerate();
    let below = below.map(|(n, port)| (of_underlay(&port.name), host.counters.underlay(n)));
    let all: Vec<(String, Totals)> = inner.chain(below).collect();
    for (name, help, value) in COUNTED {
        head(&mut out, name, "counter", help);
        for (label, totals) in &all {
            let _ = writeln!(out, "{name}{{{label}}} {}", value(totals));
        }
    }
    head(&mut out, "ixora_overlay_drops_total", "counter", "Frames that went no further.");
    for (label, totals) in &all {
        for (reason, count) in &totals.drops {
            let _ = writeln!(out, "ixora_overlay_drops_total{{{label},reason=\"{reason}\"}} {count}");
        }
    }
    learning(&mut out, table);
    segments(&mut out, table);
    of_endpoint(&mut out, host, table);
    nic(&mut out, host);
    far_ends(&mut out, table);
    observed(&mut out, sources);
    out.push_str(&host.counters.ports.metrics());
    out
}

/// What each network that learns learned.
fn learning(out: &mut String, table: &Overlay) {
    let name = "ixora_overlay_learning_total";
    head(out, name, "counter", "What became of stations that were heard of behind tunnels.");
    for network in table.networks().filter(|network| table.learns(*network).is_some()) {
        let LearningCounts { learned, moved, evicted, aged, refused } = table.learning(network);
        let label = of_network(network);
        for (what, count) in [
            ("learned", learned),
            ("moved", moved),
            ("evicted", evicted),
            ("aged", aged),
            ("refused", refused),
        ] {
            let _ = writeln!(out, "{name}{{{label},what=\"{what}\"}} {count}");
        }
    }
}

/// Which Ethernet segments get what is for all by this endpoint.
fn segments(out: &mut String, table: &Overlay) {
    let name = "ixora_overlay_segment_designated";
    head(out, name, "gauge", "Whether frames for all go to a network's Ethernet segment by this endpoint.");
    for network in table.networks() {
        let Some(segment) = table.segment(network) else { continue };
        let _ = writeln!(out, "{name}{{{}}} {}", of_network(network), u8::from(segment.is_designated));
    }
}

/// The whole endpoint's numbers.
fn of_endpoint(out: &mut String, host: &Host, table: &Overlay) {
    let mut one = |name: &str, kind: &str, help: &str, value: u64| {
        head(out, name, kind, help);
        let _ = writeln!(out, "{name} {value}");
    };
    let program = host.control.program();
    let gauges = [
        ("ixora_overlay_networks", "Virtual networks.", table.networks().count()),
        (
            "ixora_overlay_tunnels",
            "Different tunnels and groups that entries and flood lists use.",
            table.tunnels(),
        ),
        (
            "ixora_overlay_next_hops_unresolved",
            "Next hops that nobody has answered for.",
            table.unresolved().count(),
        ),
        ("ixora_overlay_places_refused", "Places whose value the table refused.", program.refused().len()),
    ];
    for (name, help, value) in gauges {
        one(name, "gauge", help, value as u64);
    }
    let counters = [
        (
            "ixora_overlay_neighbor_requests_total",
            "Requests for neighbours that were sent.",
            host.counters.requests(),
        ),
        (
            "ixora_overlay_headers_rewritten_total",
            "Tunnels' headers made anew by changes of the underlay.",
            table.rewritten(),
        ),
    ];
    for (name, help, value) in counters {
        one(name, "counter", help, value);
    }
}

/// What the NIC of an underlay's port has of the table, where one puts packets into tunnels.
fn nic(out: &mut String, host: &Host) {
    let series: [NicSeries; 4] = [
        ("entries", "gauge", "Entries in the table of a NIC.", |nic| nic.counts().entries as u64),
        (
            "entries_without_room",
            "gauge",
            "Entries that software sends, as the table of a NIC has no room for them.",
            |nic| nic.counts().without_room as u64,
        ),
        (
            "restored_total",
            "counter",
            "How often a NIC was told all entries again that it had lost.",
            |nic| nic.counts().restored,
        ),
        (
            "table_walks_total",
            "counter",
            "How often the whole table was gone over to tell a NIC, not what changed alone.",
            Offload::walks,
        ),
    ];
    for (end, kind, help, value) in series {
        let name = format!("ixora_overlay_nic_{end}");
        head(out, &name, kind, help);
        if let Some((port, nic)) = host.nic() {
            let _ = writeln!(out, "{name}{{{}}} {}", of_underlay(port), value(nic));
        }
    }
}

/// Entries of each network, and of each far end those that lead there and what went there.
fn far_ends(out: &mut String, table: &Overlay) {
    head(out, "ixora_overlay_entries", "gauge", "Entries of a network.");
    let mut entries = 0;
    for network in table.networks() {
        entries += table.entries(network);
        let _ = writeln!(out, "ixora_overlay_entries{{{}}} {}", of_network(network), table.entries(network));
    }
    if entries <= MOST_ENTRIES {
        far_end_entries(out, table);
    }
    if table.tunnels() > MOST_TUNNELS {
        return;
    }
    let far_ends: Vec<FarEnd> = table.far_ends().collect();
    let series: [FarSeries; 2] = [
        (
            "ixora_overlay_far_end_packets_total",
            "Packets that went to a far end; a long segment that is cut later is one.",
            |count| count.packets,
        ),
        (
            "ixora_overlay_far_end_bytes_total",
            "Bytes of packets that went to a far end, without outer headers.",
            |count| count.bytes,
        ),
    ];
    for (name, help, value) in series {
        head(out, name, "counter", help);
        for FarEnd { network, remote, count } in &far_ends {
            let network = of_network(*network);
            let _ = writeln!(out, "{name}{{{network},far_end=\"{remote}\"}} {}", value(*count));
        }
    }
}

fn far_end_entries(out: &mut String, table: &Overlay) {
    let mut sums: BTreeMap<(u32, IpAddr), u64> = BTreeMap::new();
    for network in table.networks() {
        let targets = table.entries_of(network).map(|entry| entry.target);
        for target in targets.chain(table.prefixes_of(network).map(|entry| entry.target)) {
            remotes(table, target)
                .into_iter()
                .for_each(|remote| *sums.entry((network, remote)).or_default() += 1);
        }
    }
    let name = "ixora_overlay_far_end_entries";
    head(out, name, "gauge", "Entries that lead to a far end, alone or as one of a group.");
    for ((network, far_end), entries) in sums {
        let _ = writeln!(out, "{name}{{{},far_end=\"{far_end}\"}} {entries}", of_network(network));
    }
}

/// The far ends of an entry, each once.
fn remotes(table: &Overlay, target: &Target) -> BTreeSet<IpAddr> {
    match target {
        Target::Tunnel(tunnel) => BTreeSet::from([tunnel.remote]),
        Target::Group(number) => {
            table.group(*number).into_iter().flatten().map(|member| member.tunnel.remote).collect()
        }
    }
}

/// What was counted of the kernel, of FRR and of controllers.
fn observed(out: &mut String, sources: Option<&Sources>) {
    let Some(status) = sources.map(Sources::status) else { return };
    if let Some(is_current) = status["kernel"]["current"].as_bool() {
        let name = "ixora_overlay_kernel_current";
        head(out, name, "gauge", "Whether all that the kernel has was heard of.");
        let _ = writeln!(out, "{name} {}", u8::from(is_current));
    }
    let name = "ixora_overlay_control_total";
    head(out, name, "counter", "What was heard of the kernel, of FRR and of controllers.");
    for (from, counters) in status.as_object().into_iter().flatten() {
        let numbers = counters.as_object().into_iter().flatten();
        // How many there are now is no counter.
        let numbers = numbers.filter(|(what, _)| !matches!(what.as_str(), "clients" | "connections"));
        for (what, count) in numbers.filter_map(|(what, count)| Some((what, count.as_u64()?))) {
            let _ = writeln!(out, "{name}{{from=\"{from}\",what=\"{what}\"}} {count}");
        }
    }
}

fn of_network(network: u32) -> String {
    format!("network=\"{network}\"")
}

fn of_underlay(name: &str) -> String {
    format!("underlay=\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_any_character_is_a_label() {
        assert_eq!(of_underlay("a\"b\\\n"), "underlay=\"a\\\"b\\\\\\n\"");
    }
}
