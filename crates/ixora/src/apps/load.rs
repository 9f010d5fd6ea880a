//! `ixora load`: a client that loads a server over our own TCP, and what it saw.

pub mod arguments;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ::port::FlowTable;
use app::services::{Workload, echo_load, http_load, memcached_load};
use runtime::Poller;
use serde_json::{Value, json};
use service::load::{Group, Live, Mix, Results, Settings, Steering, Step};
use tcp::{Groups, Host, Neighbors, Report};
use wire::MacAddress;
use wire::ip::port;

use super::load_picture::Picture;
use super::serve::{BUFFERS, addresses, host_options, own_address};
use arguments::{Course, Keys, Load, LoadOptions};

use crate::cli::PortOptions;
use crate::{Failure, open, run, signal};

/// How long each rate is held if nobody says so.
pub const DURATION: Duration = Duration::from_secs(10);

/// `ixora load`: loads a server and prints what it saw.
pub fn run(what: &Load) -> Result<(), Failure> {
    match what {
        Load::Echo(it) => run_load(it, port::ECHO, echo_load(it.workload.size as usize)),
        Load::Http(it) => {
            let host = it.to.0.to_string();
            run_load(it, port::HTTP, http_load(&host, &it.workload.path, None))
        }
        Load::Memcached(it) => run_load(it, port::MEMCACHED, memcached(&it.workload)),
        Load::Iperf3(it) => super::iperf3::load(it),
    }
}

/// Keys that are asked for and stored.
pub fn memcached(keys: &Keys) -> Workload {
    let (mix, updates) = match keys.mix {
        arguments::Mix::Usr => (Mix::Usr, 0.002),
        arguments::Mix::Etc => (Mix::Etc, 0.033),
    };
    memcached_load(mix, keys.keys, keys.update.unwrap_or(updates), keys.misses)
}

/// What a course asks of a load.
pub fn settings(
    course: &Course,
    local: std::net::IpAddr,
    remote: (std::net::IpAddr, u16),
    step: Duration,
) -> Settings {
    let rates = course.rate.iter().map(|rate| rate.0).collect();
    Settings {
        local,
        remote,
        connections: course.connections.into(),
        depth: course.depth.into(),
        messages: course.messages,
        rates,
        step_ns: step.as_nanos() as i64,
        max_misses: 0.0,
        seed: super::serve::random_key()[0],
        steering: None,
        group: None,
    }
}

/// What a load was like, for its picture.
pub fn conditions(course: &Course, step: Duration, queues: usize) -> Vec<String> {
    let Course { connections, depth, messages, .. } = course;
    let each = messages.map_or(String::new(), |messages| format!(", {messages} requests each"));
    let loops = if course.rate.iter().all(|rate| rate.0.is_none()) { "a closed loop" } else { "open loops" };
    vec![format!(
        "{connections} connections{each}, {depth} requests on each at most, {queues} queues, {} s for each rate, {loops}",
        step.as_secs_f64()
    )]
}

/// The loads of all queues: each has a share of connections and rates, and ports by which answers
/// come to it.
fn shares(settings: &Settings, queues: usize, flows: Option<FlowTable>) -> Vec<Settings> {
    let group = (queues > 1).then(|| Arc::new(Group::new(queues, settings.rates.len())));
    let flows = flows.map(Arc::new);
    let share = |queue: usize| Settings {
        connections: settings.connections / queues + usize::from(queue < settings.connections % queues),
        rates: settings.rates.iter().map(|rate| rate.map(|rate| rate / queues as f64)).collect(),
        seed: settings.seed.wrapping_add(queue as u64),
        steering: flows.clone().map(|flows| Steering { flows, queue }),
        group: group.clone(),
        ..settings.clone()
    };
    (0..queues).map(share).collect()
}

/// How the port spreads answers over its queues, where there are several.
fn flows(ports: &open::Ports, queues: usize) -> Result<Option<FlowTable>, Failure> {
    let port = &ports.list[0];
    let flows = port.flows().filter(|_| queues > 1);
    if queues > 1 && flows.is_none() {
        let failure = Failure::new(format!("{} does not say to which queue answers come", port.name()));
        return Err(failure.fix("use one queue, or start several loads, each on a port of its own"));
    }
    Ok(flows)
}

/// Loads a server from a port.
fn run_load<W: clap::Args>(it: &LoadOptions<W>, listen: u16, workload: Workload) -> Result<(), Failure> {
    let options = PortOptions { duration: None, quiet: true, ..it.options.clone() };
    let queues = options.open.rx_queues;
    if queues > usize::from(it.course.connections) {
        return Err(Failure::usage("there are more queues than connections".to_owned()));
    }
    let own = own_address(&it.addr, it.to.0)?;
    let picture = Picture::open(it.course.svg.as_deref())?;
    let stop = signal::stop_flag()?;
    let mut ports = open::ports(&[&it.port], &options, &stop)?;
    let addresses = addresses(&it.addr, MacAddress(ports.mac(0)))?;
    let remote = (it.to.0, it.to.1.unwrap_or(listen));
    let step = it.options.duration.unwrap_or(DURATION);
    let report = Report::default();
    let flows = flows(&ports, queues)?;
    let groups = flows.clone().map(|table| Groups::new(table, queues, options.open.rx_ring)).transpose();
    let groups = groups.map_err(|error| Failure::new(format!("cannot make mailboxes: {error}")))?;
    let shares = shares(&settings(&it.course, own, remote, step), queues, flows);
    let (neighbors, tcp) = (Neighbors::default(), host_options(&*ports.list[0]));
    let (mut lives, mut pollers): (Vec<_>, Vec<Box<dyn Poller>>) = Default::default();
    for (n, settings) in shares.into_iter().enumerate() {
        let live = Arc::new(Live::default());
        let service = workload(settings, &live, &stop);
        let queues = (ports.rx(0, n)?, ports.tx(0, n)?);
        let mut host = Host::new(queues, addresses.clone(), &neighbors, tcp, service, BUFFERS);
        // A segment in fragments comes to any of them.
        groups.iter().for_each(|groups| host.tell_others(groups.core(n)));
        host.report_to(&report);
        pollers.push(Box::new(host));
        lives.push(live);
    }
    drop(neighbors); // the hosts have it: what waits in it comes back when they end
    let done = execute("load", &mut ports, pollers, &options, &lives, &stop, it.options.quiet)?;
    drop(ports);
    let mut summary = done.summary;
    summary.add_counters(&super::serve::taken(&report));
    let results = Results::merged(lives.iter().map(|live| live.results()));
    if let Some(picture) = picture {
        let title = format!("{}, port {}", it.port, remote.1);
        picture.draw(&title, conditions(&it.course, step, queues), &results)?;
    }
    match options.json {
        true => println!("{:#}", json!({ "load": figures(&results), "summary": summary })),
        false => {
            summary.print(false);
            print(&results);
        }
    }
    done.failure.or_else(|| summary.missing()).map_or(Ok(()), Err)?;
    results.failures().into_iter().next().map_or(Ok(()), |reason| Err(Failure::new(reason)))
}

/// Runs hosts, one of which is a load, until it has ended or a signal came.
pub fn execute(
    name: &'static str,
    ports: &mut open::Ports,
    pollers: Vec<Box<dyn Poller>>,
    options: &PortOptions,
    lives: &[Arc<Live>],
    stop: &Arc<AtomicBool>,
    is_quiet: bool,
) -> Result<run::Outcome, Failure> {
    let runtime = run::threads(name, ports, pollers, options, stop, &Arc::default())?;
    let confinement = ports.confine(options, None)?;
    let is_quiet = is_quiet || options.json;
    Ok(thread::scope(|scope| {
        if !is_quiet {
            scope.spawn(|| watch(lives, stop));
        }
        let outcome = run::measure(name, runtime, ports, options, confinement);
        stop.store(true, Ordering::Relaxed);
        outcome
    }))
}

/// Tells once in a second what was seen in it: of several queues, latencies of the slowest.
fn watch(lives: &[Arc<Live>], stop: &AtomicBool) {
    let (mut shown, mut next) = (0, Instant::now() + Duration::from_secs(1));
    while !stop.load(Ordering::Relaxed) {
        thread::sleep(Duration::from_millis(20));
        if Instant::now() < next {
            continue;
        }
        next += Duration::from_secs(1);
        let answers: u64 = lives.iter().map(|live| live.answers.load(Ordering::Relaxed)).sum();
        let us = |of: fn(&Live) -> &AtomicU64| {
            let longest = lives.iter().map(|live| of(live).load(Ordering::Relaxed)).max();
            longest.unwrap_or(0) as f64 / 1e3
        };
        let (median, p99, max) =
            (us(|live| &live.median_ns), us(|live| &live.p99_ns), us(|live| &live.max_ns));
        if answers > 0 {
            let rate = answers - shown;
            eprintln!(
                "{rate:>9} answers/s   median {median:9.1} us   99 % {p99:9.1} us   longest {max:9.1} us"
            );
        }
        shown = answers;
    }
}

/// The quantiles that are told.
pub const QUANTILES: [(&str, f64); 5] =
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999), ("p99.99", 0.9999)];

/// What a load saw, for programs.
pub fn figures(results: &Results) -> Value {
    let latency = |step: &Step| {
        let quantiles =
            QUANTILES.map(|(name, at)| (name.to_owned(), json!(step.latency.value_at_quantile(at))));
        let mut all: serde_json::Map<String, Value> = quantiles.into_iter().collect();
        all.insert("min".to_owned(), json!(step.latency.min()));
        all.insert("mean".to_owned(), json!(step.latency.mean()));
        all.insert("max".to_owned(), json!(step.latency.max()));
        Value::Object(all)
    };
    let steps = results.steps.iter().map(|step| {
        json!({
            "rate": step.rate,
            "seconds": step.elapsed_ns as f64 / 1e9,
            "answers_per_second": step.rate_seen(),
            "answers": step.answers,
            "misses": step.misses,
            "wrong": step.wrong,
            "unanswered": step.unanswered,
            "lost_connections": step.lost,
            "opened_connections": step.opened,
            "latency_ns": latency(step),
        })
    });
    json!({
        "connections": results.connected,
        "refused": results.refused,
        "wrong_in_front": results.wrong,
        "lost_in_front": results.lost,
        "max_misses": results.max_misses,
        "whole": results.is_whole,
        "steps": steps.collect::<Vec<_>>(),
    })
}

/// Latencies in microseconds, a column for each: longer ones than fit stand apart, too.
fn columns(latencies: impl IntoIterator<Item = u64>) -> String {
    latencies.into_iter().map(|ns| format!(" {:9.1}", ns as f64 / 1e3)).collect()
}

/// What a load saw, for people.
pub fn print(results: &Results) {
    println!("{} connections, {} refused", results.connected, results.refused);
    let names = QUANTILES.map(|(name, _)| format!(" {name:>9}")).join("");
    println!("{:>10} {:>12} {:>10} {names} {:>9}  latency in us", "rate/s", "answers/s", "answers", "max");
    for step in &results.steps {
        let rate = step.rate.map_or("max".to_owned(), |rate| format!("{rate:.0}"));
        let quantiles = QUANTILES.map(|(_, at)| step.latency.value_at_quantile(at));
        let latencies = columns(quantiles.into_iter().chain([step.latency.max()]));
        println!("{rate:>10} {:>12.0} {:>10} {latencies}", step.rate_seen(), step.answers);
        let others = [
            ("keys not there", step.misses),
            ("wrong", step.wrong),
            ("unanswered", step.unanswered),
            ("connections lost", step.lost),
            ("connections opened anew", step.opened),
        ];
        let others = others.iter().filter(|(_, count)| *count > 0);
        others.for_each(|(name, count)| println!("{:>10} {name}: {count}", ""));
    }
}

#[cfg(test)]
mod tests {
    use super::columns;

    #[test]
    fn long_latencies_do_not_run_into_each_other() {
        assert_eq!(columns([4_167_700, 1_073_741_800]), "    4167.7 1073741.8");
        assert_eq!(columns([100_000_000_000; 2]), " 100000000.0 100000000.0");
    }
}
