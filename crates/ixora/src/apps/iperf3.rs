//! Bulk transfers as iperf3 measures them: a server for its clients, and a client for its servers.

use std::sync::{Arc, Mutex, PoisonError};

use app::services::Application;
use serde_json::{Value, json};
use service::iperf3::{Client, Outcome, Server, StreamResult, Wanted};
use service::load::Live;
use tcp::{Host, Neighbors, Report};
use wire::MacAddress;
use wire::ip::port;

use super::load::{DURATION, execute};
use super::serve::{BUFFERS, addresses, host_options, own_address, random_key, taken};
use crate::apps::load::arguments::Iperf3;
use crate::apps::serve::arguments::ServeOptions;
use crate::cli::PortOptions;
use crate::{Failure, open, signal};

/// `ixora serve iperf3`.
pub fn serve(arguments: &ServeOptions) -> Result<(), Failure> {
    if arguments.options.open.rx_queues > 1 {
        let failure = Failure::usage("a server of iperf3 has one queue".to_owned());
        return Err(failure.fix("start several, each on a port of its own"));
    }
    let (stop, report) = (signal::stop_flag()?, Report::default());
    let server = || {
        let mut server = Server::default();
        server.report_to(&report);
        let datagrams: Box<dyn tcp::Datagrams> = Box::new(server.datagrams());
        Application { service: Box::new(server), datagrams: Some((None, datagrams)) }
    };
    super::serve::serve(arguments, port::IPERF3, &stop, &report, server)
}

/// `ixora load iperf3`.
pub fn load(it: &Iperf3) -> Result<(), Failure> {
    let options = PortOptions { duration: None, quiet: true, ..it.options.clone() };
    if options.open.rx_queues > 1 {
        return Err(Failure::usage("a client of iperf3 has one queue".to_owned()));
    }
    let local = own_address(&it.addr, it.to.0)?;
    let stop = signal::stop_flag()?;
    let mut ports = open::ports(&[&it.port], &options, &stop)?;
    let addresses = addresses(&it.addr, MacAddress(ports.mac(0)))?;
    let wanted = Wanted {
        local,
        remote: (it.to.0, it.to.1.unwrap_or(port::IPERF3)),
        time_ns: it.options.duration.unwrap_or(DURATION).as_nanos() as i64,
        omit_s: it.omit,
        bytes: it.bytes.map(|bytes| bytes.0 as u64),
        streams: it.parallel.into(),
        reverse: it.reverse,
        seed: random_key()[0],
    };
    let (shown, report) = (Arc::new(Mutex::new(Outcome::default())), Report::default());
    let client = Box::new(Client::new(wanted, &shown, &stop));
    let queues = (ports.rx(0, 0)?, ports.tx(0, 0)?);
    let tcp = host_options(&*ports.list[0]);
    let mut host = Host::new(queues, addresses, &Neighbors::default(), tcp, client, BUFFERS);
    host.report_to(&report);
    let pollers: Vec<Box<dyn runtime::Poller>> = vec![Box::new(host)];
    let done = execute("load", &mut ports, pollers, &options, &[Arc::new(Live::default())], &stop, true)?;
    drop(ports);
    let mut summary = done.summary;
    summary.add_counters(&taken(&report));
    let outcome = shown.lock().unwrap_or_else(PoisonError::into_inner).clone();
    match options.json {
        true => println!("{:#}", json!({ "iperf3": figures(&outcome, it.reverse), "summary": summary })),
        false => {
            summary.print(false);
            print(&outcome, it.reverse);
        }
    }
    done.failure.or_else(|| summary.missing()).map_or(Ok(()), Err)?;
    match (outcome.failure, outcome.is_whole) {
        (Some(failure), _) => Err(Failure::new(failure)),
        (None, true) => Ok(()),
        (None, false) => Err(Failure::new("the test did not come to its end".to_owned())),
    }
}

/// Who sent and who received, stream by stream.
fn ends(outcome: &Outcome, reverse: bool) -> [(&'static str, &[StreamResult]); 2] {
    let (own, other) = (&outcome.own[..], &outcome.other[..]);
    let (sender, receiver) = if reverse { (other, own) } else { (own, other) };
    [("sender", sender), ("receiver", receiver)]
}

fn bits_per_second(bytes: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { bytes as f64 * 8.0 / seconds } else { 0.0 }
}

/// Bytes of all streams, the longest time, and what was sent again, if somebody says so. The other
/// side's numbers are what it likes.
fn sum(streams: &[StreamResult]) -> (u64, f64, Option<u64>) {
    let longest = streams.iter().fold(0.0, |longest: f64, stream| longest.max(stream.seconds));
    let bytes = streams.iter().fold(0, |bytes: u64, stream| bytes.saturating_add(stream.bytes));
    (bytes, longest, streams.iter().filter_map(|stream| stream.retransmits).reduce(u64::saturating_add))
}

fn figures(outcome: &Outcome, reverse: bool) -> Value {
    let end = |(name, streams): (&str, &[StreamResult])| {
        let (bytes, seconds, _) = sum(streams);
        let each = streams.iter().map(|stream| {
            json!({ "bytes": stream.bytes, "seconds": stream.seconds, "retransmits": stream.retransmits })
        });
        let all = json!({
            "bytes": bytes, "seconds": seconds, "bits_per_second": bits_per_second(bytes, seconds),
            "streams": each.collect::<Vec<_>>(),
        });
        (name.to_owned(), all)
    };
    let mut all: serde_json::Map<String, Value> = ends(outcome, reverse).into_iter().map(end).collect();
    all.insert("whole".to_owned(), outcome.is_whole.into());
    all.insert("failure".to_owned(), outcome.failure.clone().into());
    Value::Object(all)
}

fn print(outcome: &Outcome, reverse: bool) {
    println!("{:>6} {:>10} {:>9} {:>14} {:>12} {:>6}", "stream", "", "seconds", "bytes", "Mbit/s", "again");
    for (name, streams) in ends(outcome, reverse) {
        let row = |label: &str, bytes: u64, seconds: f64, again: Option<u64>| {
            let rate = bits_per_second(bytes, seconds) / 1e6;
            let again = again.map_or(String::new(), |count| count.to_string());
            println!("{label:>6} {name:>10} {seconds:>9.2} {bytes:>14} {rate:>12.1} {again:>6}");
        };
        for (number, stream) in streams.iter().enumerate() {
            row(&(number + 1).to_string(), stream.bytes, stream.seconds, stream.retransmits);
        }
        if streams.len() > 1 {
            let (bytes, seconds, again) = sum(streams);
            row("sum", bytes, seconds, again);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_says_is_summed_whatever_it_is() {
        let most = StreamResult {
            bytes: u64::MAX,
            seconds: 1e300,
            retransmits: Some(u64::MAX / 2),
            datagrams: None,
        };
        let none = StreamResult { bytes: 1, seconds: 2.0, retransmits: None, datagrams: None };
        assert_eq!(sum(&[most, none, most, most]), (u64::MAX, 1e300, Some(u64::MAX)));
    }
}
