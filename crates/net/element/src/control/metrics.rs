//! `Metrics`: what all threads counted, over HTTP, in the text format that
//! Prometheus reads (exposition format 0.0.4). One request a connection; no other
//! path than `/metrics`; no TLS.

use std::any::Any;
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr};

use graph::class::{Handlers, call, keyword, positional, read};
use graph::run::totals::ElementTotals;
use graph::{Class, Cx, Element, Refused, TimerId, WatchId};

use super::clients::{Client, Clients};
use super::listener::{Listener, Place};

/// The longest request that is read.
const MAX_REQUEST: usize = 8 << 10;

/// The class.
pub static CLASS: Class = Class {
    name: "Metrics",
    brief: "serves counters of all elements to Prometheus",
    doc: "Answers `GET /metrics` with packets, batches, cycles and drops by element, summed over all \
          threads, in the text format that Prometheus reads. Cycles are TSC ticks, measured in one turn of \
          64 and multiplied; `rate(ixora_element_cycles_total) / rate(ixora_element_packets_total)` are cycles \
          per packet. Where this element is, the router counts packets and cycles, unless `MEASURE false` \
          says otherwise: then there are drops only. On this machine's own address unless `ADDR` says \
          otherwise; there is no password.",
    ports: "0/0",
    arguments: &[
        positional("PORT", "the TCP port, 0 for any; 9464"),
        positional("ADDR", "the address to listen at; 127.0.0.1"),
        keyword("MEASURE", "count packets, batches and cycles; true"),
        keyword("RETRIES", "how often to try again each second when the port is taken; 0"),
        keyword("RETRY_WARNINGS", "says each time that it is; true"),
    ],
    handlers: &Handlers::<Metrics>(&[
        call("port", "the TCP port", |metrics, _, _| match metrics.listener.is_port() {
            true => Ok(metrics.listener.shown()),
            false => Err(Refused::NoHandler("port".into())),
        }),
        call("text", "what is served", |_, cx, _| Ok(exposition(cx))),
        read("clients", "how many there are now, and what became of others", |metrics| {
            metrics.clients.report()
        }),
    ]),
    example: "Metrics(9464)",
    see: &["ControlSocket"],
    make: |setup, conf| {
        let port = conf.positional("PORT")?.unwrap_or(9464);
        let address = conf.positional("ADDR")?.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let measures = conf.keyword("MEASURE")?.unwrap_or(true);
        let place = Place::Port { address, port, near: false };
        let retries = conf.keyword("RETRIES")?.unwrap_or(0);
        let listener = Listener::new(place, retries, conf.keyword("RETRY_WARNINGS")?.unwrap_or(true));
        conf.complete()?;
        if measures {
            setup.measure();
        }
        Ok(Box::new(Metrics { listener, clients: Clients::new("") }))
    },
    ..Class::BASE
};

/// The element.
#[derive(Debug)]
pub struct Metrics {
    listener: Listener,
    clients: Clients,
}

impl Element for Metrics {
    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.listener.open(cx, &mut self.clients)
    }

    fn ready(&mut self, cx: &mut Cx<'_>, watch: WatchId) {
        self.clients.ready(cx, watch, answer);
    }

    fn fire(&mut self, cx: &mut Cx<'_>, timer: TimerId) {
        if !self.clients.fire(cx, timer) {
            self.listener.fire(cx, timer, &mut self.clients);
        }
    }

    fn take_over(&mut self, cx: &mut Cx<'_>, old: &mut dyn Element) {
        let Some(old) = (old as &mut dyn Any).downcast_mut::<Metrics>() else { return };
        self.listener.take_over(cx, &mut self.clients, (&mut old.listener, &mut old.clients));
    }

    fn cleanup(&mut self, cx: &mut Cx<'_>) {
        self.listener.close(cx, &mut self.clients);
    }
}

/// Answers a request when its head is there in full.
fn answer(client: &mut Client, cx: &mut Cx<'_>) -> bool {
    let input = &client.input;
    let whole = input.windows(4).any(|w| w == b"\r\n\r\n") || input.windows(2).any(|w| w == b"\n\n");
    if !whole && input.len() <= MAX_REQUEST && !client.closed {
        return false;
    }
    let first = input.split(|b| *b == b'\n').next().unwrap_or(&[]);
    let line = String::from_utf8_lossy(first).into_owned();
    let mut words = line.split_whitespace();
    let (method, path) = (words.next(), words.next().map(|p| p.split('?').next().unwrap_or(p)));
    let (status, body) = match (whole, method, path) {
        (true, Some("GET" | "HEAD"), Some("/metrics" | "/")) => ("200 OK", exposition(cx)),
        (true, Some("GET" | "HEAD"), Some(_)) => ("404 Not Found", "see /metrics\n".to_string()),
        (true, Some(_), Some(_)) => ("405 Method Not Allowed", String::new()),
        _ => ("400 Bad Request", String::new()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    client.output.extend_from_slice(head.as_bytes());
    if method != Some("HEAD") {
        client.output.extend_from_slice(body.as_bytes());
    }
    client.input.clear();
    client.ends = true;
    true
}

/// The text of all counters.
fn exposition(cx: &mut Cx<'_>) -> String {
    let all = cx.count_all();
    let mut out = String::new();
    about(&mut out, cx);
    type Series = (&'static str, &'static str, fn(&ElementTotals) -> u64);
    let series: [Series; 3] = [
        ("packets", "Packets that came into an element, or that a source made.", |c| c.counters.packets),
        ("batches", "Batches that came into an element.", |c| c.counters.batches),
        ("cycles", "TSC ticks spent in an element itself, estimated from some turns.", |c| c.counters.cycles),
    ];
    for (name, help, value) in series.iter().filter(|_| cx.is_measured()) {
        head(&mut out, &format!("ixora_element_{name}_total"), "counter", help);
        for counted in &all {
            let labels = labels(counted);
            let _ = writeln!(out, "ixora_element_{name}_total{{{labels}}} {}", value(counted));
        }
    }
    head(&mut out, "ixora_element_drops_total", "counter", "Packets an element dropped.");
    for counted in &all {
        let labels = labels(counted);
        for (reason, drops) in counted.reasons.iter().zip(&counted.counters.drops) {
            let reason = escaped(reason);
            let _ = writeln!(out, "ixora_element_drops_total{{{labels},reason=\"{reason}\"}} {drops}");
        }
    }
    out
}

/// What is known of the router as a whole.
fn about(out: &mut String, cx: &Cx<'_>) {
    head(out, "ixora_build_info", "gauge", "The program's version.");
    let _ = writeln!(out, "ixora_build_info{{version=\"{}\"}} 1", env!("CARGO_PKG_VERSION"));
    head(out, "ixora_threads", "gauge", "Threads that run the router.");
    let _ = writeln!(out, "ixora_threads {}", cx.threads());
    head(out, "ixora_tsc_ticks_total", "counter", "The time stamp counter: what cycles are a part of.");
    let _ = writeln!(out, "ixora_tsc_ticks_total {}", cx.tsc());
}

fn labels(counted: &ElementTotals) -> String {
    format!("element=\"{}\",class=\"{}\"", escaped(&counted.name), escaped(&counted.class))
}

fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn escaped(label: &str) -> String {
    label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
