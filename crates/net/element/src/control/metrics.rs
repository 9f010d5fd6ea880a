//! `Metrics`: what all threads counted, over HTTP, in the text format that
//! Prometheus reads (exposition format 0.0.4). One request a connection, within a time;
//! no other method than GET and HEAD, no other path than `/metrics`; no TLS. The request
//! must name the machine by an address, `localhost` or a name it is known to have: a page
//! of a stranger's whose name was made to lead here (DNS rebinding) is not answered.

use std::any::Any;
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr};

use graph::class::{Handlers, call, keyword, positional, read};
use graph::run::totals::ElementTotals;
use graph::{Class, Cx, Element, Refused, TimerId, WatchId};

use super::clients::{Client, Clients};
use super::exposition::{escaped, head};
use super::listener::{ListenAddress, Listener, USES};

/// The longest request that is read.
const MAX_REQUEST: usize = 8 << 10;
/// How long a connection may last, with its request and its answer.
const MAX_STAY_NS: i64 = 60_000_000_000;

pub static CLASS: Class = Class {
    name: "Metrics",
    brief: "serves counters of all elements and ports to Prometheus",
    doc: "Answers `GET /metrics` with packets, batches, cycles and drops by element, summed over all \
          threads, in the text format that Prometheus reads. Cycles are TSC ticks, measured in one turn of \
          64 and multiplied; `rate(ixora_element_cycles_total) / rate(ixora_element_packets_total)` are cycles \
          per packet. Ports tell link, packets and bytes by queue, losses by name \
          (`ixora_port_losses_total`), and all counters of the device under the datasheet's names. Where this element is, the router counts packets and cycles, unless `MEASURE false` \
          says otherwise: then there are drops only, and packets made and ended. On this machine's own address unless `ADDR` says \
          otherwise; there is no password. A request whose `Host` is no address, not `localhost` and \
          not this machine's name is refused: see HOST.",
    ports: "0/0",
    arguments: &[
        positional("PORT", "the TCP port, 0 for any; 9464"),
        positional("ADDR", "the address to listen at; 127.0.0.1"),
        keyword("MEASURE", "count packets, batches and cycles; true"),
        keyword("HOST", "another name of this machine that requests may have; none"),
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
    system: USES,
    make: |setup, conf| {
        let port = conf.positional("PORT")?.unwrap_or(9464);
        let address = conf.positional("ADDR")?.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let measures = conf.keyword("MEASURE")?.unwrap_or(true);
        let place = ListenAddress::Port { address, port, near: false };
        let own_name = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let hosts = conf.keyword::<String>("HOST")?.into_iter().chain([own_name]).collect();
        let retries = conf.keyword("RETRIES")?.unwrap_or(0);
        let listener = Listener::new(place, retries, conf.keyword("RETRY_WARNINGS")?.unwrap_or(true));
        conf.complete()?;
        if measures {
            setup.measure();
        }
        listener.say_needs(setup);
        let mut clients = Clients::new("");
        clients.stay_at_most(MAX_STAY_NS);
        Ok(Box::new(Metrics { listener, clients, hosts }))
    },
    ..Class::BASE
};

/// A `Metrics` element; [`CLASS`] says what it does.
#[derive(Debug)]
pub struct Metrics {
    listener: Listener,
    clients: Clients,
    /// Names of this machine.
    hosts: Vec<String>,
}

impl Element for Metrics {
    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.listener.open(cx, &mut self.clients)
    }

    fn ready(&mut self, cx: &mut Cx<'_>, watch: WatchId) {
        let hosts = &self.hosts;
        self.clients.ready(cx, watch, |client, cx| answer(client, cx, hosts));
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
fn answer(client: &mut Client, cx: &mut Cx<'_>, hosts: &[String]) -> bool {
    let whole = ends_head(unseen(&client.input, &mut client.looked));
    if !whole && client.input.len() <= MAX_REQUEST && !client.closed {
        return false;
    }
    let head = String::from_utf8_lossy(&client.input).into_owned();
    let mut words = head.lines().next().unwrap_or("").split_whitespace();
    let (method, path) = (words.next(), words.next().map(|p| p.split('?').next().unwrap_or(p)));
    let is_ours = hosts_of(&head).all(|host| is_known_host(host, hosts));
    let (status, body) = match (whole, method, path) {
        (true, Some(_), Some(_)) if !is_ours => ("421 Misdirected Request", UNKNOWN_HOST.to_string()),
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

/// What somebody is told who asks by a name that is not known.
const UNKNOWN_HOST: &str = "ask by an address, or give the Metrics element this name: HOST name\n";

/// What of a client's bytes was not looked at before, with the two bytes before that in
/// which the end of a head may begin. `looked` is how far they need not be looked at again:
/// each byte is looked at three times at most, however the head is cut.
fn unseen<'a>(input: &'a [u8], looked: &mut usize) -> &'a [u8] {
    let from = std::mem::replace(looked, input.len()).saturating_sub(2);
    &input[from.min(input.len())..]
}

/// Whether a request's head ends in these bytes, with an empty line.
fn ends_head(bytes: &[u8]) -> bool {
    (0..bytes.len()).any(|at| bytes[at..].starts_with(b"\n\n") || bytes[at..].starts_with(b"\n\r\n"))
}

/// The values of a head's `Host` fields (RFC 9110, section 7.2).
fn hosts_of(head: &str) -> impl Iterator<Item = &str> {
    let fields = head.lines().skip(1).filter_map(|line| line.split_once(':'));
    fields.filter(|(name, _)| name.trim().eq_ignore_ascii_case("host")).map(|(_, host)| host.trim())
}

/// Whether a `Host` is an address, `localhost`, or one of some names; with a port or without.
fn is_known_host(host: &str, names: &[String]) -> bool {
    let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => return address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => host.split_once(':').map_or(host, |(name, _)| name),
    };
    let is_name = |known: &str| !known.is_empty() && name.eq_ignore_ascii_case(known);
    name.parse::<Ipv4Addr>().is_ok() || is_name("localhost") || names.iter().any(|known| is_name(known))
}

/// The text of all counters.
fn exposition(cx: &mut Cx<'_>) -> String {
    let all = cx.count_all();
    let mut out = String::new();
    about(&mut out, cx);
    type Series = (&'static str, &'static str, fn(&ElementTotals) -> u64);
    let series: [Series; 4] = [
        ("packets", "Packets that came into an element, or that a source made.", |c| c.counters.packets),
        ("batches", "Batches that came into an element.", |c| c.counters.batches),
        ("cycles", "TSC ticks spent in an element itself, estimated from some turns.", |c| c.counters.cycles),
        ("timings", "Turns in which an element was timed.", |c| c.counters.timings),
    ];
    for (name, help, value) in series.iter().filter(|_| cx.is_measured()) {
        head(&mut out, &format!("ixora_element_{name}_total"), "counter", help);
        for counted in &all {
            let labels = labels(counted);
            let _ = writeln!(out, "ixora_element_{name}_total{{{labels}}} {}", value(counted));
        }
    }
    let account: [Series; 2] = [
        ("made", "Packets that an element made: sources, copies, questions.", |c| c.counters.made),
        ("ended", "Packets that did what they were for and ended at an element.", |c| c.counters.ended),
    ];
    for (name, help, value) in account {
        head(&mut out, &format!("ixora_element_{name}_total"), "counter", help);
        // Of most elements there is nothing to tell.
        for (counted, value) in all.iter().map(|c| (c, value(c))).filter(|(_, value)| *value > 0) {
            let labels = labels(counted);
            let _ = writeln!(out, "ixora_element_{name}_total{{{labels}}} {value}");
        }
    }
    head(&mut out, "ixora_element_drops_total", "counter", "Packets an element dropped.");
    for counted in &all {
        let labels = labels(counted);
        for (reason, drops) in counted.reasons.iter().zip(&counted.counters.drops) {
            let _ = writeln!(out, "ixora_element_drops_total{{{labels},reason=\"{reason}\"}} {drops}");
        }
    }
    out.push_str(&cx.port_series());
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_that_comes_byte_by_byte_is_looked_at_once() {
        let head = b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
        let long: Vec<u8> = [&head[..head.len() - 2], &[b'x'; MAX_REQUEST], b"\r\n\r\n"].concat();
        let (mut looked, mut work) = (0, 0);
        for end in 1..=long.len() {
            let unseen = unseen(&long[..end], &mut looked);
            assert_eq!(ends_head(unseen), end == long.len(), "{end}");
            work += unseen.len();
        }
        assert!(work <= 3 * long.len(), "{work} bytes were looked at of {}", long.len());
        for cut in 0..head.len() {
            let mut looked = 0;
            assert!(!ends_head(unseen(&head[..cut], &mut looked)), "{cut}");
            assert!(ends_head(unseen(head, &mut looked)), "{cut}");
        }
        assert!(ends_head(b"GET /\n\n") && ends_head(b"GET /\r\n\n"));
    }

    #[test]
    fn names_that_anybody_can_make_lead_here_are_unknown() {
        let names = ["router7".to_string(), String::new()];
        for host in
            ["127.0.0.1", "10.0.0.1:9464", "[::1]:9464", "[::1]", "localhost:9464", "LOCALHOST", "router7:1"]
        {
            assert!(is_known_host(host, &names), "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:9464",
            "127.0.0.1.evil.example",
            "",
            ":9464",
            "[evil]",
            "router7.evil",
        ] {
            assert!(!is_known_host(host, &names), "{host}");
        }
    }
}
