//! What a server's hosts counted, as Prometheus reads it (exposition format 0.0.4).

use std::fmt::Write;

use port::Counter;
use tcp::Shown;

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
    // All hosts count the same.
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

fn values(shown: &[Shown], counter: &Counter) -> impl Iterator<Item = (usize, u64)> {
    let of = |shown: &Shown| shown.counters.iter().find(|it| it.name == counter.name).map(|it| it.value);
    shown.iter().enumerate().filter_map(move |(queue, shown)| Some((queue, of(shown)?)))
}
