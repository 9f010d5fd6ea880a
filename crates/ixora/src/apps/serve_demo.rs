//! `ixora serve demo`: a server and a load in this process, each a host on a device model of
//! its own, with a wire between the two. Every answer is checked.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use app::services::{Workload, echo_load, http_load, http_server, memcached_servers};
use runtime::Poller;
use serde_json::json;
use service::load::{Live, Results};
use service::memcached::Limits;
use tcp::{Addresses, Host, Neighbors, Report, Service};
use testbed::Model;
use wire::MacAddress;

use super::load;
use super::load::arguments::{Demo, Service as Which};
use super::load_picture::Picture;
use super::serve::{self, BUFFERS, host_options};
use crate::cli::PortOptions;
use crate::summary::Summary;
use crate::{Failure, open, signal};

/// The server's address, and the load's.
const HOSTS: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 0, 0, 2), Ipv4Addr::new(10, 0, 0, 1)];
const BITS: u8 = 24;

/// Runs the demo; fails when an answer was wrong, or nothing moved.
pub fn run(arguments: &Demo) -> Result<(), Failure> {
    let model = Model::named(&arguments.nic)?;
    let interrupted = signal::stop_flag()?;
    let options = options(arguments);
    let picture = Picture::open(arguments.course.svg.as_deref())?;
    if !arguments.json {
        println!("a server of {:?} and a load, each on a model of {}", arguments.service, model.name);
    }
    let name = format!("model:{},wire=pair", model.name);
    let mut ports = open::ports(&[&name, &name], &options, &interrupted)?;
    let (live, report) = (Arc::new(Live::default()), Report::default());
    let (listen, server, workload) = parts(arguments, &report);
    let to = (IpAddr::V4(HOSTS[0]), listen);
    let settings = load::settings(&arguments.course, HOSTS[1].into(), to, arguments.duration);
    let services = [server, workload(settings, &live, &interrupted)];
    let pollers = hosts(&mut ports, services, listen, &report)?;
    let quiet = arguments.quiet;
    let lives = [live];
    let outcome = load::execute("serve demo", &mut ports, pollers, &options, &lives, &interrupted, quiet)?;
    drop(ports);
    let mut summary = outcome.summary;
    summary.add_counters(&serve::taken(&report));
    let [live] = lives;
    let results = live.results();
    let was_interrupted = interrupted.load(Ordering::Relaxed) && !live.is_over.load(Ordering::Relaxed);
    if let Some(picture) = picture {
        let title = format!("{:?}, on two models of {}", arguments.service, model.name);
        picture.draw(&title, load::conditions(&arguments.course, arguments.duration, 1), &results)?;
    }
    let reasons = reasons(&results, &summary, was_interrupted);
    match arguments.json {
        true => {
            let verdict = json!({ "passed": reasons.is_empty(), "reasons": reasons });
            println!(
                "{:#}",
                json!({ "load": load::figures(&results), "summary": summary, "verdict": verdict })
            );
        }
        false => {
            summary.print(false);
            load::print(&results);
            println!("\n{}", if reasons.is_empty() { "passed" } else { "FAILED" });
            reasons.iter().for_each(|reason| println!("  {reason}"));
        }
    }
    outcome.failure.map_or(Ok(()), Err)?;
    let first = reasons.into_iter().next();
    first.map_or(Ok(()), |reason| Err(Failure::new(format!("the demo did not pass: {reason}"))))
}

/// A host on each port, with its service; the first listens.
fn hosts(
    ports: &mut open::Ports,
    services: [Box<dyn Service>; 2],
    listen: u16,
    report: &Report,
) -> Result<Vec<Box<dyn Poller>>, Failure> {
    let mut pollers: Vec<Box<dyn Poller>> = vec![];
    for (n, service) in services.into_iter().enumerate() {
        let mac = MacAddress(ports.mac(n));
        let addresses = Addresses { mac, v4: Some((HOSTS[n], BITS)), v6: None, gateways: (None, None) };
        let queues = (ports.rx(n, 0)?, ports.tx(n, 0)?);
        let tcp = host_options(&*ports.list[n]);
        let mut host = Host::new(queues, addresses, &Neighbors::default(), tcp, service, BUFFERS);
        if n == 0 {
            host.stack().listen(listen);
        }
        host.report_to(report);
        pollers.push(Box::new(host));
    }
    Ok(pollers)
}

/// The TCP port, the server, and the load that fits it.
fn parts(arguments: &Demo, report: &Report) -> (u16, Box<dyn Service>, Workload) {
    match arguments.service {
        Which::Echo => {
            (wire::ip::port::ECHO, Box::new(tcp::Echo::default()), echo_load(arguments.size as usize))
        }
        Which::Http => {
            let text = serve::fixed_text(arguments.size as usize);
            let server = http_server(&Arc::new(serve::fixed(arguments.size as usize)), report);
            (wire::ip::port::HTTP, server, http_load("demo", "/", Some(text)))
        }
        Which::Memcached => {
            let mut servers = memcached_servers(Limits::default(), report, None, None);
            let server = servers.pop().map(|it| it.service).unwrap_or_else(|| Box::new(tcp::Echo::default()));
            (wire::ip::port::MEMCACHED, server, load::memcached(&arguments.keys))
        }
    }
}

fn options(arguments: &Demo) -> PortOptions {
    PortOptions {
        json: arguments.json,
        quiet: true,
        confine: arguments.confine,
        ..PortOptions::of(port::Options { max_frame: 1514, ..port::Options::default() })
    }
}

/// Why the demo did not pass. Of one that was interrupted nothing is asked for but that
/// nothing was wrong.
fn reasons(results: &Results, summary: &Summary, was_interrupted: bool) -> Vec<String> {
    let mut reasons = if was_interrupted { vec![] } else { results.failures() };
    if !results.is_whole && !was_interrupted {
        reasons.push("the load did not come to its end".to_owned());
    }
    if summary.missing_buffers > 0 {
        reasons.push(format!("{} buffers did not come back", summary.missing_buffers));
    }
    let findings = summary.findings.iter().flat_map(|port| &port.findings).count();
    if findings > 0 {
        reasons.push(format!("the linter found {findings} things at the drivers"));
    }
    reasons
}
