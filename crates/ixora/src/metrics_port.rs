//! The port at which a program that runs tells Prometheus of itself over HTTP (`--metrics`).

use std::fmt::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::str::FromStr;

use clap::Args;
use control::api::http::{Method, Request, Response};
use control::api::server::{ApiCounters, Server};
use runtime::Instant;
use serde_json::json;

use crate::Failure;

/// Where metrics are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetricsAddress(SocketAddr);

impl FromStr for MetricsAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<MetricsAddress, String> {
        let near = |port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let place = text.parse().map(near).ok().or_else(|| text.parse().ok());
        // As exporters of others take it.
        let everywhere =
            || Some(SocketAddr::from((Ipv4Addr::UNSPECIFIED, text.strip_prefix(':')?.parse().ok()?)));
        let place = place.or_else(everywhere);
        place
            .map(MetricsAddress)
            .ok_or_else(|| format!("{text:?} is no PORT and no ADDRESS:PORT, as in 0.0.0.0:9464"))
    }
}

/// Whether Prometheus is served, and where.
#[derive(Args, Debug)]
pub struct MetricsOptions {
    /// Serve metrics to Prometheus over HTTP: at a port of this machine, or an address.
    #[arg(
        long = "metrics",
        value_name = "PORT|ADDRESS:PORT",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "9464"
    )]
    pub place: Option<MetricsAddress>,
}

/// How long an answer is the same for all who ask: to make it takes the control's time.
const SAME_NS: i64 = 100_000_000;

/// The port at which metrics are served.
pub struct Metrics {
    server: Server,
    /// The name of what counts who came.
    clients: &'static str,
    /// The last answer, and when it was made.
    last: Option<(i64, String)>,
}

impl Metrics {
    /// Listens at a place, if there is one; who came is counted by the name `clients`.
    pub fn open(place: Option<MetricsAddress>, clients: &'static str) -> Result<Option<Metrics>, Failure> {
        let Some(MetricsAddress(address)) = place else { return Ok(None) };
        let server = Server::public(address).map_err(|error| {
            Failure::new(format!("cannot serve metrics at {address}: {error}"))
                .fix("choose another: --metrics=PORT, or --metrics=ADDRESS:PORT")
        })?;
        if let Some(address) = server.address() {
            tracing::info!("metrics at http://{address}/metrics");
        }
        Ok(Some(Metrics { server, clients, last: None }))
    }

    /// Answers those who asked meanwhile with a text, which is made once for all of them; when it
    /// cannot be made, with status 503 and why, so that Prometheus takes what runs here as down.
    pub fn turn(&mut self, text: &dyn Fn() -> Result<String, String>) {
        let (now, counters, last) = (Instant::now().as_ns(), self.server.counters(), &mut self.last);
        let clients = self.clients;
        // Whoever asks in this turn is told the same: to find that it cannot be made takes long.
        let mut failed: Option<String> = None;
        last.take_if(|(made, _)| now.saturating_sub(*made) >= SAME_NS);
        let answer = &mut |request: &Request<'_>| match (request.method, request.path) {
            (Method::Get, "/metrics" | "/") => {
                if last.is_none() && failed.is_none() {
                    match text() {
                        Ok(text) => *last = Some((now, text + &own(clients, counters))),
                        Err(why) => failed = Some(why),
                    }
                }
                match (&*last, &failed) {
                    (Some((_, text)), _) => Response::metrics(text.clone()),
                    (None, why) => Response::json(503, &json!({ "error": why })),
                }
            }
            (Method::Get, _) => Response::json(404, &json!({ "error": "see /metrics" })),
            _ => Response::json(405, &json!({ "error": "this can be read only: GET" })),
        };
        self.server.turn_with(now, answer);
    }
}

/// What the server of the metrics counted itself.
fn own(name: &str, counters: ApiCounters) -> String {
    let mut out = String::new();
    head(&mut out, name, "counter", "Who came for metrics, and what became of it.");
    let ApiCounters { accepted, refused, stalled, answered, errors } = counters;
    for (what, count) in [
        ("accepted", accepted),
        ("refused", refused),
        ("stalled", stalled),
        ("answered", answered),
        ("errors", errors),
    ] {
        let _ = writeln!(out, "{name}{{what=\"{what}\"}} {count}");
    }
    out
}

/// Appends what stands in front of the values of a series.
pub fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read, Write as _};
    use std::net::TcpStream;
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn a_place_is_a_port_of_this_machine_or_an_address() {
        let is = |text: &str| text.parse::<MetricsAddress>().map(|place| place.0.to_string());
        assert_eq!(is("9464"), Ok("127.0.0.1:9464".to_owned()));
        assert_eq!(is("0.0.0.0:80"), Ok("0.0.0.0:80".to_owned()));
        assert_eq!(is("[::1]:80"), Ok("[::1]:80".to_owned()));
        assert_eq!(is(":80"), Ok("0.0.0.0:80".to_owned()));
        assert!(is("router7").is_err() && is("99999").is_err() && is(":").is_err());
    }

    /// What a client is answered, for whom a text is made, or why there is none.
    fn answered(metrics: &mut Metrics, text: &dyn Fn() -> Result<String, String>) -> String {
        let address = metrics.server.address().expect("a port");
        let mut client = TcpStream::connect(address).expect("a connection");
        client
            .write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            .expect("sent");
        client.set_nonblocking(true).expect("a socket");
        let (mut answer, end) = (Vec::new(), Instant::now() + Duration::from_secs(10));
        loop {
            assert!(Instant::now() < end, "no end of the answer: {answer:?}");
            metrics.turn(text);
            match client.read_to_end(&mut answer) {
                Ok(_) => return String::from_utf8(answer).expect("text"),
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}"),
            }
        }
    }

    #[test]
    fn what_cannot_be_told_is_an_error_and_is_not_kept() {
        let place = Some("127.0.0.1:0".parse().expect("a place"));
        let mut metrics = Metrics::open(place, "clients").expect("a port").expect("one");
        let stuck = answered(&mut metrics, &|| Err("queue 0 shows nothing".to_owned()));
        assert!(stuck.starts_with("HTTP/1.1 503 Service Unavailable\r\n"), "{stuck}");
        assert!(stuck.contains("queue 0 shows nothing") && !stuck.contains("clients{"), "{stuck}");
        let told = answered(&mut metrics, &|| Ok("held 7\n".to_owned()));
        assert!(told.starts_with("HTTP/1.1 200 ") && told.contains("held 7\n"), "{told}");
        assert!(told.contains("clients{what=\"errors\"} 1\n"), "{told}");
    }
}
