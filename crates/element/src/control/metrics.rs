//! `Metrics`: what all threads counted, over HTTP, in the text format that
//! Prometheus reads (exposition format 0.0.4). One request a connection; no other
//! path than `/metrics`; no TLS.

use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use graph::class::{positional, read};
use graph::gather::Counted;
use graph::timer::TimerId;
use graph::watch::WatchId;
use graph::{Class, Cx, Element, Refused};

use super::clients::{Client, Clients, listen_tcp};

/// The longest request that is read.
const MAX_REQUEST: usize = 8 << 10;

/// The class.
pub static CLASS: Class = Class {
    name: "Metrics",
    brief: "serves counters of all elements to Prometheus",
    doc: "Answers `GET /metrics` with drops by element and reason, and where the router measures, packets, \
          batches and cycles by element, summed over all threads. Nothing is paid between two requests. On \
          this machine's own address unless `ADDR` says otherwise; there is no password.",
    ports: "0/0",
    arguments: &[
        positional("PORT", "the TCP port, 0 for any; 9464"),
        positional("ADDR", "the address to listen at; 127.0.0.1"),
    ],
    handlers: &[read("port", "the TCP port"), read("text", "what is served")],
    example: "Metrics(9464)",
    see: &["ControlSocket"],
    make: |_, conf| {
        let port = conf.positional("PORT")?.unwrap_or(9464);
        let address = conf.positional("ADDR")?.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
        conf.complete()?;
        Ok(Box::new(Metrics { port, address, clients: Clients::new("") }))
    },
    ..Class::BASE
};

/// The element.
#[derive(Debug)]
pub struct Metrics {
    port: u16,
    address: IpAddr,
    clients: Clients,
}

impl Element for Metrics {
    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let (door, port) = listen_tcp(self.address, self.port, false).map_err(|e| format!("bind: {e}"))?;
        self.port = port;
        self.clients.open(cx, Arc::new(door));
        Ok(())
    }

    fn ready(&mut self, cx: &mut Cx<'_>, watch: WatchId) {
        self.clients.ready(cx, watch, answer);
    }

    fn fire(&mut self, cx: &mut Cx<'_>, timer: TimerId) {
        self.clients.fire(cx, timer);
    }

    fn read(&mut self, cx: &mut Cx<'_>, handler: &str, _: &str) -> Result<String, Refused> {
        match handler {
            "port" => Ok(self.port.to_string()),
            "text" => Ok(exposition(&cx.count_all())),
            _ => Err(Refused::NoHandler(handler.into())),
        }
    }

    fn cleanup(&mut self, cx: &mut Cx<'_>) {
        self.clients.close(cx.now_ns());
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
        (true, Some("GET" | "HEAD"), Some("/metrics" | "/")) => ("200 OK", exposition(&cx.count_all())),
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
fn exposition(all: &[Counted]) -> String {
    let mut out = String::new();
    let measured = all.iter().any(|c| c.figures.batches > 0);
    type Series = (&'static str, &'static str, fn(&Counted) -> u64);
    let series: [Series; 3] = [
        ("packets", "Packets that came into an element.", |c| c.figures.packets),
        ("batches", "Batches that came into an element.", |c| c.figures.batches),
        ("cycles", "TSC cycles spent in an element.", |c| c.figures.cycles),
    ];
    for (name, help, value) in series.iter().filter(|_| measured) {
        head(&mut out, name, help);
        for counted in all {
            let (element, class) = (escaped(&counted.name), escaped(&counted.class));
            let _ = writeln!(
                out,
                "ixora_element_{name}_total{{element=\"{element}\",class=\"{class}\"}} {}",
                value(counted)
            );
        }
    }
    head(&mut out, "drops", "Packets an element dropped.");
    for counted in all {
        let (element, class) = (escaped(&counted.name), escaped(&counted.class));
        for (reason, drops) in counted.reasons.iter().zip(&counted.figures.drops) {
            let reason = escaped(reason);
            let _ = writeln!(
                out,
                "ixora_element_drops_total{{element=\"{element}\",class=\"{class}\",reason=\"{reason}\"}} {drops}"
            );
        }
    }
    out
}

fn head(out: &mut String, name: &str, help: &str) {
    let _ = writeln!(out, "# HELP ixora_element_{name}_total {help}");
    let _ = writeln!(out, "# TYPE ixora_element_{name}_total counter");
}

fn escaped(label: &str) -> String {
    label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
