//! More than testpmd can forward, and nobody to read what comes back at first:
//! every frame that does not arrive is counted somewhere.

use std::time::Duration;

use serde_json::Value;

use super::rig::{Rig, number};
use crate::Result;
use crate::traffic::{Load, Traffic, both, overload};

const LOAD: Load = Load { time: Duration::from_secs(4), not_reading: Duration::from_secs(1) };

/// What a model and its cable counted, in frames.
#[derive(Debug, Clone, Copy, Default)]
struct Accounting {
    /// Into the driver's memory.
    received: u64,
    /// Dropped by the device on their way there, by whatever name.
    dropped: u64,
    /// From the driver's memory.
    sent: u64,
    /// To the host at the other end of the cable.
    delivered: u64,
    /// Not taken there.
    lost: u64,
}

impl Accounting {
    fn of(report: &Value, port: usize) -> Accounting {
        let device = &report["endpoints"][port]["device"];
        let all =
            |value: &Value| value.as_object().into_iter().flatten().filter_map(|(_, n)| n.as_u64()).sum();
        let count = |value: &Value| value.as_u64().unwrap_or_default();
        Accounting {
            received: count(&device["counters"]["rx_packets"]),
            dropped: all(&device["drops"]),
            sent: count(&device["counters"]["tx_packets"]),
            delivered: count(&device["wire"]["from_host"]["delivered"]),
            lost: all(&device["wire"]["from_host"]["lost"]),
        }
    }

    fn since(self, before: Accounting) -> Accounting {
        Accounting {
            received: self.received - before.received,
            dropped: self.dropped - before.dropped,
            sent: self.sent - before.sent,
            delivered: self.delivered - before.delivered,
            lost: self.lost - before.lost,
        }
    }
}

/// What everybody counted, by port.
#[derive(Debug)]
struct Seen {
    accounting: [Accounting; 2],
    /// By the driver.
    received: [Option<u64>; 2],
    /// By testpmd, out of the port: sent, and refused by its ring.
    forwarded: [Option<(u64, u64)>; 2],
}

impl Seen {
    fn now(rig: &mut Rig<'_>, before: &Value) -> Result<Seen> {
        let after = rig.served.report()?;
        let accounting = [0, 1].map(|port| Accounting::of(&after, port).since(Accounting::of(before, port)));
        let received = [rig.statistic(0, "RX-packets")?, rig.statistic(1, "RX-packets")?];
        let said = rig.say("show fwd stats all")?;
        let forwarded = [0, 1].map(|port| {
            let said = said.split_once(&format!("for port {port} ")).map_or("", |(_, rest)| rest);
            number(said, "TX-packets").zip(number(said, "TX-dropped"))
        });
        Ok(Seen { accounting, received, forwarded })
    }

    /// Each check with what the host saw, and whether it is good.
    fn checks(&self, traffic: &[Traffic; 2]) -> Vec<(String, bool)> {
        let mut checks = Vec::new();
        for (port, seen) in traffic.iter().enumerate() {
            let (here, there) = (self.accounting[port], self.accounting[1 - port]);
            let (sent, back) = (u64::from(seen.sent), u64::from(seen.back));
            let received = self.received[port];
            let mut say = |what: &str, good| checks.push((format!("flooded from port {port}: {what}"), good));
            let whole = seen.changed == 0 && seen.overtaken == 0 && seen.refused > 0 && back > 0;
            say("in order and unchanged", whole);
            say("the device has what it was sent", here.received + here.dropped == sent);
            say("the driver has what the device gave", received == Some(here.received));
            let forwarded = self.forwarded[1 - port];
            let all = forwarded.map(|(left, refused)| left + refused);
            say("testpmd forwarded it or says so", all.is_some() && all == received);
            let left = forwarded.map(|(left, _)| left);
            say("the other device sent as many", left == Some(there.sent));
            let named = there.sent == there.delivered + there.lost && there.delivered == back;
            say("and what the host did not take is counted", named);
            // A device waits for a host that is slow, so that testpmd's ring was full.
            let slowed = forwarded.is_some_and(|(_, refused)| refused > 0) || there.lost > 0;
            say("the host was too slow for it", slowed);
        }
        checks
    }
}

/// Floods both ports.
pub fn flooded(rig: &mut Rig<'_>) -> Result<()> {
    // Started anew, so that nothing of before is still to be counted.
    rig.say_all(&["stop", "clear port stats all", "start"])?;
    let before = rig.served.report()?;
    let traffic = both(rig.cables, |into, out_of| overload(into, out_of, LOAD));
    let agree = |seen: &Seen| seen.checks(&traffic).iter().all(|(_, good)| *good);
    let seen = rig.wait_until(|rig| Seen::now(rig, &before), agree)?;
    for (name, good) in seen.checks(&traffic) {
        rig.check(&name, good, &(&traffic, &seen));
    }
    Ok(())
}
