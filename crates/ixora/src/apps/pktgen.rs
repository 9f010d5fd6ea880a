//! Sends UDP packets from a port. The loop is `app::Generator`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use app::generate::{Generator, Pace, Span, template};
use app::vlan::Tagging;
use clap::Args;
use port::Feature;
use runtime::Poller;
use wire::MacAddress;

use crate::cli::PortOptions;
use crate::rate::{Rate, Size};
use crate::summary::Summary;
use crate::{Failure, open, run, signal};

/// Part of the packets that may be missing at a rate.
const TOLERANCE: f64 = 0.01;

#[derive(Args, Debug)]
pub struct Pktgen {
    /// The port to send on.
    pub a: String,
    /// Frame size in bytes, with CRC, 64 to 2052; or imix, 7 of 64, 4 of 594
    /// and 1 of 1518.
    #[arg(long, default_value = "64")]
    pub size: Size,
    /// Packets per second: 1000, 500k, 14.88M, max.
    #[arg(long, default_value = "max")]
    pub rate: Rate,
    /// Flows, told apart by their UDP source port.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    pub flows: u16,
    /// Fewer packets than --rate asks for are no failure.
    #[arg(long)]
    pub allow_short: bool,
    /// Destination address; if left out, one that no host has.
    #[arg(long, default_value = "02:00:5e:10:00:ff")]
    pub to: MacAddress,
    /// Tag each frame with this VLAN; a NIC that can inserts the tag itself.
    #[arg(long, value_parser = clap::value_parser!(u16).range(..4096))]
    pub vlan: Option<u16>,
    #[command(flatten)]
    pub port: PortOptions,
}

/// What `pktgen` says of a rate that was not reached: so many packets more were due than were sent.
fn short(rate: f64, summary: &Summary, missed: u64) -> Option<Failure> {
    let part = missed as f64 / (summary.tx_packets + missed) as f64;
    (part > TOLERANCE).then(|| {
        let reached = Rate(Some((summary.mpps * 1e6).round()));
        Failure::new(format!("{} packets per second were asked for, {reached} were sent", Rate(Some(rate))))
            .fix("more queues and threads (--queues, --threads) send more; --allow-short takes what there is")
    })
}

/// `ixora pktgen A`.
pub fn run(arguments: &Pktgen) -> Result<(), Failure> {
    let (sizes, cycle) = arguments.size.cycle();
    // The largest frame without CRC must fit, or the device would not send it.
    let largest = sizes.iter().max().map_or(0, |size| size - 4);
    let mut options = PortOptions { count: None, ..arguments.port.clone() };
    options.open.max_frame = options.open.max_frame.max(largest);
    let options = &options;
    let stop = signal::stop_flag()?;
    let mut ports = open::ports(&[&arguments.a], options, &stop)?;
    let from = MacAddress(ports.mac(0));
    let missed = Arc::<AtomicU64>::default();
    let inserts = ports.list[0].capabilities().has(Feature::VlanInsert);
    let queues = options.open.tx_queues as u64;
    let mut pollers: Vec<Box<dyn Poller>> = Vec::new();
    let mut spans: Vec<Arc<Span>> = Vec::new();
    for n in 0..queues {
        let count = arguments.port.count.map(|count| count / queues + u64::from(n < count % queues));
        let Rate(rate) = arguments.rate;
        let tx = ports.tx(0, n as usize)?;
        spans.push(Arc::default());
        pollers.push(Box::new(Generator {
            tx: match arguments.vlan {
                Some(tag) => Box::new(Tagging { tx, tag, by_device: inserts }),
                None => tx,
            },
            templates: sizes.iter().map(|&size| template(from, arguments.to, size)).collect(),
            cycle,
            flows: arguments.flows,
            sequence: 0,
            left: count.unwrap_or(u64::MAX),
            pace: Pace::new(rate.map(|rate| rate / queues as f64), missed.clone()),
            span: spans[n as usize].clone(),
        }));
    }
    let time = || kept(&spans, arguments.port.count?, arguments.rate.0?);
    let judge = |summary: &mut Summary| {
        let rate = arguments.rate.0?;
        summary.notes.insert("pktgen_asked_pps", rate.round() as u64);
        let missed = missed.load(Ordering::Relaxed);
        short(rate, summary, missed).filter(|_| !arguments.allow_short)
    };
    let watch = run::Watch { time: &time, judge: &judge, ..run::Watch::default() };
    run::run_watched("pktgen", ports, pollers, options, &stop, &watch)
}

/// How long so many packets took at a rate that was kept. Without one, or where it was not kept, the
/// wire tells, which is done when the threads are; and a run that a time ends is as long as that,
/// also where nothing was sent for a part of it.
fn kept(spans: &[Arc<Span>], count: u64, rate: f64) -> Option<Duration> {
    let is_kept = |time: &Duration| (count as f64 / time.as_secs_f64() / rate - 1.0).abs() <= TOLERANCE;
    Span::time_of(spans, count).filter(is_kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hundredth_may_be_missing() {
        let sent = |tx_packets| Summary { tx_packets, ..Summary::new("pktgen", Duration::from_secs(1)) };
        assert!(short(1e6, &sent(120_000), 900_000).is_some() && short(1e6, &sent(120_000), 1_000).is_none());
        assert!(short(1e6, &sent(40_000), 20_000).is_some());
    }
}
