//! What ports counted, in the text format that Prometheus reads (exposition format 0.0.4).

use std::fmt::Write;

use port::{RxStats, TxStats};

use super::PortCounts;
use crate::control::exposition::{escaped, head};

/// A series of each queue of a direction: its name, what it is, and its value.
type Series<T> = (&'static str, &'static str, fn(&T) -> u64);

const RX: [Series<RxStats>; 5] = [
    ("packets", "Packets that a receive queue gave to the router.", |q| q.packets),
    ("bytes", "Their bytes.", |q| q.bytes),
    ("empty_polls", "Calls of a receive queue that found no packet.", |q| q.empty_polls),
    ("no_buffer", "Refills of a receive queue that found no packet buffer.", |q| q.no_buffer),
    ("bad_descriptor", "Packets of a queue lost as rx_bad_descriptor.", |q| q.bad_descriptor),
];
const TX: [Series<TxStats>; 4] = [
    ("packets", "Packets that a transmit queue took from the router.", |q| q.packets),
    ("bytes", "Their bytes.", |q| q.bytes),
    ("ring_full", "Packets that a transmit queue refused, which may have come again.", |q| q.ring_full),
    ("unsendable", "Packets of a queue lost as tx_unsendable.", |q| q.unsendable),
];

/// All series of some ports, and of their queues where these are told; none without ports.
pub fn exposition(ports: &[PortCounts]) -> String {
    let mut out = String::new();
    if ports.is_empty() {
        return out;
    }
    links(&mut out, ports);
    queues(&mut out, ports, "rx", &RX, |port| &port.rx);
    queues(&mut out, ports, "tx", &TX, |port| &port.tx);
    head(&mut out, "ixora_port_losses_total", "counter", "Packets lost at a port, by the name of the loss.");
    counters(&mut out, ports, true);
    head(&mut out, "ixora_port_counter_total", "counter", "Other counters of a port's device and driver.");
    counters(&mut out, ports, false);
    out
}

fn links(out: &mut String, ports: &[PortCounts]) {
    head(out, "ixora_port_up", "gauge", "Whether a port's link is up.");
    for port in ports {
        let _ = writeln!(out, "ixora_port_up{{port=\"{}\"}} {}", escaped(&port.name), u8::from(port.link.up));
    }
    head(out, "ixora_port_speed_mbps", "gauge", "A link's speed in Mbit/s; 0 where it has none.");
    for port in ports {
        let (name, speed) = (escaped(&port.name), port.link.speed_mbps);
        let _ = writeln!(out, "ixora_port_speed_mbps{{port=\"{name}\"}} {speed}");
    }
}

fn queues<T>(
    out: &mut String,
    ports: &[PortCounts],
    direction: &str,
    series: &[Series<T>],
    of: fn(&PortCounts) -> &Vec<T>,
) {
    if ports.iter().all(|port| of(port).is_empty()) {
        return;
    }
    for (name, help, value) in series {
        head(out, &format!("ixora_queue_{direction}_{name}_total"), "counter", help);
        for port in ports {
            let labels = format!("port=\"{}\"", escaped(&port.name));
            for (number, queue) in of(port).iter().enumerate() {
                let value = value(queue);
                let _ = writeln!(
                    out,
                    "ixora_queue_{direction}_{name}_total{{{labels},queue=\"{number}\"}} {value}"
                );
            }
        }
    }
}

/// Those that count losses, or the others. Several counters may count losses of one name.
fn counters(out: &mut String, ports: &[PortCounts], losses: bool) {
    for port in ports {
        let name = escaped(&port.name);
        for counter in port.stats.counters.iter().filter(|c| c.loss.is_some() == losses) {
            let _ = match counter.loss {
                Some(reason) => writeln!(
                    out,
                    "ixora_port_losses_total{{port=\"{name}\",reason=\"{reason}\",counter=\"{}\"}} {}",
                    escaped(counter.name),
                    counter.value
                ),
                None => writeln!(
                    out,
                    "ixora_port_counter_total{{port=\"{name}\",counter=\"{}\"}} {}",
                    escaped(counter.name),
                    counter.value
                ),
            };
        }
    }
}
