//! Sends UDP packets from a port. The loop is `app::Generator`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use app::generate::{Generator, Pace, template};
use app::vlan::Tagging;
use port::Feature;
use runtime::Poller;
use wire::MacAddress;

use crate::rate::Rate;
use crate::{Failure, cli, open, run, signal};

/// Part of the packets that may be missing at a rate.
const TOLERANCE: f64 = 0.01;

/// What `pktgen` says of a rate that was not reached: of so many packets sent, so many
/// more were due.
fn short(rate: f64, sent: u64, missed: u64) -> Option<Failure> {
    let part = missed as f64 / (sent + missed) as f64;
    (part > TOLERANCE).then(|| {
        let reached = Rate(Some((rate * (1.0 - part)).round()));
        Failure::new(format!("{} packets per second were asked for, {reached} were sent", Rate(Some(rate))))
            .fix("more queues and threads (--queues, --threads) send more; --allow-short takes what there is")
    })
}

/// `ixora pktgen A`.
pub fn run(arguments: &cli::Pktgen) -> Result<(), Failure> {
    let (sizes, cycle) = arguments.size.cycle();
    // The largest frame without CRC must fit, or the device would not send it.
    let largest = sizes.iter().max().map_or(0, |size| size - 4);
    let mut options = cli::PortOptions { count: None, ..arguments.port.clone() };
    options.open.max_frame = options.open.max_frame.max(largest);
    let options = &options;
    let stop = signal::stop_flag()?;
    let mut ports = open::ports(&[&arguments.a], options, &stop)?;
    let from = MacAddress(ports.mac(0));
    let missed = Arc::<AtomicU64>::default();
    let inserts = ports.list[0].capabilities().has(Feature::VlanInsert);
    let queues = options.open.tx_queues as u64;
    let mut pollers: Vec<Box<dyn Poller>> = Vec::new();
    for n in 0..queues {
        let count = arguments.port.count.map(|count| count / queues + u64::from(n < count % queues));
        let Rate(rate) = arguments.rate;
        let tx = ports.tx(0, n as usize)?;
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
        }));
    }
    let sent = run::run_counted("pktgen", ports, pollers, options, &stop, Vec::new)?;
    let missed = missed.load(Ordering::Relaxed);
    let rate = arguments.rate.0.filter(|_| !arguments.allow_short);
    rate.and_then(|rate| short(rate, sent, missed)).map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hundredth_may_be_missing() {
        assert!(short(1e6, 120_000, 900_000).is_some() && short(1e6, 120_000, 1_000).is_none());
        assert!(short(1e6, 40_000, 20_000).is_some());
    }
}
