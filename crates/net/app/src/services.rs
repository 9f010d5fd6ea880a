//! The services of the TCP dataplane and their loads, each ready for a host.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{SystemTime, UNIX_EPOCH};

use service::http::Files;
use service::load::{self, Live, Load, Mix, Settings};
use service::memcached::{Frames, Limits, Listening};
use service::{Http, Memcached, Protocol, Server};
use tcp::{Datagrams, Report, Service};

/// Bytes of unanswered requests and unsent answers that a thread keeps for all connections.
const KEPT: usize = 64 << 20;

/// What answers on a thread.
pub struct Application {
    /// What answers on connections.
    pub service: Box<dyn Service>,
    /// What answers datagrams, and at which port; `None` for that of the connections.
    pub datagrams: Option<(Option<u16>, Box<dyn Datagrams>)>,
}

impl From<Box<dyn Service>> for Application {
    fn from(service: Box<dyn Service>) -> Application {
        Application { service, datagrams: None }
    }
}

/// Loads, before the port of their client is open: one for each queue.
pub type Workload = Box<dyn Fn(Settings, &Arc<Live>, &Arc<AtomicBool>) -> Box<dyn Service>>;

/// The servers of a new cache, whose clients may set `shutdown` if it is given; and, if it is known
/// where they reach it, are told, and may ask over UDP at the port there.
pub fn memcached_servers(
    limits: Limits,
    report: &Report,
    shutdown: Option<&Arc<AtomicBool>>,
    listening: Option<Listening>,
) -> Vec<Application> {
    let mut servers = Memcached::servers(limits, unix_time_s());
    if let Some(stop) = shutdown {
        servers.iter_mut().for_each(|server| server.enable_shutdown(stop));
    }
    let udp_port = listening.as_ref().and_then(|listening| listening.udp_port);
    if let Some(listening) = listening.map(Arc::new) {
        servers.iter_mut().for_each(|server| server.tell_listening(&listening));
    }
    let application = |server: Memcached| {
        let frames = |port| -> (_, Box<dyn Datagrams>) { (Some(port), Box::new(Frames::beside(&server))) };
        let datagrams = udp_port.map(frames);
        Application { service: boxed(server, report), datagrams }
    };
    servers.into_iter().map(application).collect()
}

/// A server of files.
pub fn http_server(files: &Arc<Files>, report: &Report) -> Box<dyn Service> {
    boxed(Http::new(files.clone(), unix_time_s()), report)
}

/// Messages of so many bytes that come back.
pub fn echo_load(size: usize) -> Workload {
    Box::new(move |settings, live, stop| Box::new(Load::new(load::Echo::new(size), settings, live, stop)))
}

/// One path, whose text may be known.
pub fn http_load(host: &str, path: &str, text: Option<Vec<u8>>) -> Workload {
    let workload = load::Http::new(host, path, text);
    Box::new(move |settings, live, stop| Box::new(Load::new(workload.clone(), settings, live, stop)))
}

/// So many keys that are asked for and, that share of the times, stored; the load is a failure
/// with more than a share `max_misses` of them missing.
pub fn memcached_load(mix: Mix, keys: u64, update: f64, max_misses: f64) -> Workload {
    let workload = load::Memcached::new(mix, keys, update);
    Box::new(move |settings, live, stop| {
        Box::new(Load::new(workload.clone(), Settings { max_misses, ..settings }, live, stop))
    })
}

/// A protocol as a service that reports what it counted.
fn boxed<P: Protocol + 'static>(protocol: P, report: &Report) -> Box<dyn Service> {
    let mut server = Server::new(protocol, KEPT);
    server.report_to(report);
    Box::new(server)
}

/// Seconds since 1970.
pub fn unix_time_s() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs() as i64)
}
