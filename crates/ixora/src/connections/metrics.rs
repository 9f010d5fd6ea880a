//! What a server's hosts counted, as Prometheus reads it (exposition format 0.0.4).

use std::fmt::Write;

use port::Counter;
use tcp::Shown;

use super::listing::Address;
use crate::metrics_port::head;

/// What counts who came for metrics.
pub const CLIENTS: &str = "ixora_host_metrics_clients_total";

/// A name, what it says, and the value.
type Gauge = (&'static str, &'static str, fn(&Shown) -> usize);

/// All series, by the hosts' queues.
pub fn text(shown: &[Shown]) -> String {
    let mut out = String::new();
    let gauges: [Gauge; 2] = [
        ("ixora_tcp_connections", "Connections, those in TIME-WAIT among them.", |shown| shown.open),
        ("ixora_tcp_kept_packets", "Packets that connections keep.", |shown| shown.kept_packets),
    ];
    for (name, help, value) in gauges {
        head(&mut out, name, "gauge", help);
        for (queue, shown) in shown.iter().enumerate() {
            let _ = writeln!(out, "{name}{{queue=\"{queue}\"}} {}", value(shown));
        }
    }
    add_addresses(&mut out, shown);
    // What one host counts all count, but for what they have together, which the first one counts.
    let first = shown.first().map_or(&[][..], |shown| &shown.counters);
    head(&mut out, "ixora_host_drops_total", "counter", "Packets that were lost, by reason.");
    for counter in first.iter().filter(|counter| counter.loss.is_some()) {
        for (queue, value) in values(shown, counter) {
            let name = counter.name;
            let _ = writeln!(out, "ixora_host_drops_total{{queue=\"{queue}\",reason=\"{name}\"}} {value}");
        }
    }
    for counter in first.iter().filter(|counter| counter.loss.is_none()) {
        let name = format!("ixora_{}_total", counter.name);
        head(&mut out, &name, "counter", &format!("How many {}.", counter.what));
        for (queue, value) in values(shown, counter) {
            let _ = writeln!(out, "{name}{{queue=\"{queue}\"}} {value}");
        }
    }
    out
}

/// The addresses that the hosts were told to have, if there are any: all hosts have the same.
fn add_addresses(out: &mut String, shown: &[Shown]) {
    let Some(shown) = shown.first().filter(|shown| !shown.assigned.is_empty()) else { return };
    let name = "ixora_host_address_valid_seconds";
    head(out, name, "gauge", "For how long the hosts have an address that they were given.");
    for it in shown.assigned.iter().map(|it| Address::new(it, shown.now_ns)) {
        let server = it.server.map_or(String::new(), |server| server.to_string());
        let seconds = it.valid_s.map_or("+Inf".to_owned(), |seconds| seconds.to_string());
        let Address { address, bits, origin, .. } = it;
        let labels = format!("address=\"{address}/{bits}\",origin=\"{origin}\",server=\"{server}\"");
        let _ = writeln!(out, "{name}{{{labels}}} {seconds}");
    }
}

fn values(shown: &[Shown], counter: &Counter) -> impl Iterator<Item = (usize, u64)> {
    let of = |shown: &Shown| shown.counters.iter().find(|it| it.name == counter.name).map(|it| it.value);
    shown.iter().enumerate().filter_map(move |(queue, shown)| Some((queue, of(shown)?)))
}
