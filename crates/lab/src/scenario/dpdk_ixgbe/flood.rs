//! More than testpmd can forward, and nobody to read what comes back at first:
//! every frame that does not arrive is in somebody's books.

use std::time::Duration;

use serde_json::Value;

use super::rig::{Rig, number};
use crate::Result;
use crate::traffic::{Load, both, overload};

const LOAD: Load = Load { time: Duration::from_secs(4), deaf: Duration::from_secs(1) };

/// What a model and its cable counted, in frames.
#[derive(Debug, Clone, Copy, Default)]
struct Books {
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

impl Books {
    fn of(report: &Value, port: usize) -> Books {
        let device = &report["endpoints"][port]["device"];
        let all =
            |value: &Value| value.as_object().into_iter().flatten().filter_map(|(_, n)| n.as_u64()).sum();
        let count = |value: &Value| value.as_u64().unwrap_or_default();
        Books {
            received: count(&device["counters"]["rx_packets"]),
            dropped: all(&device["drops"]),
            sent: count(&device["counters"]["tx_packets"]),
            delivered: count(&device["wire"]["from_host"]["delivered"]),
            lost: all(&device["wire"]["from_host"]["lost"]),
        }
    }

    fn since(self, before: Books) -> Books {
        Books {
            received: self.received - before.received,
            dropped: self.dropped - before.dropped,
            sent: self.sent - before.sent,
            delivered: self.delivered - before.delivered,
            lost: self.lost - before.lost,
        }
    }
}

/// Floods both ports.
pub fn flooded(rig: &mut Rig<'_>) -> Result<()> {
    rig.say_all(&["clear port stats all", "clear fwd stats all"])?;
    let before = rig.served.report()?;
    let seen = both(rig.cables, |into, out_of| overload(into, out_of, LOAD));
    let after = rig.served.report()?;
    let books = [0, 1].map(|port| Books::of(&after, port).since(Books::of(&before, port)));
    for (port, seen) in seen.into_iter().enumerate() {
        let (here, there) = (books[port], books[1 - port]);
        let (sent, back) = (u64::from(seen.sent), u64::from(seen.back));
        let name = |what: &str| format!("flooded from port {port}: {what}");
        let whole = seen.changed == 0 && seen.overtaken == 0 && seen.refused > 0 && back > 0;
        rig.check(&name("in order and unchanged"), whole, &seen);
        rig.check(
            &name("the device has what it was sent"),
            here.received + here.dropped == sent,
            &(here, seen),
        );
        let received = rig.statistic(port, "RX-packets")?;
        rig.check(
            &name("the driver has what the device gave"),
            received == Some(here.received),
            &(received, here),
        );
        // What left through the other port, or was refused by its ring.
        let said = rig.say("show fwd stats all")?;
        let said = said.split_once(&format!("for port {} ", 1 - port)).map_or("", |(_, rest)| rest);
        let (left, refused) = (number(said, "TX-packets"), number(said, "TX-dropped"));
        let all = left.zip(refused).map(|(left, refused)| left + refused) == received;
        rig.check(&name("testpmd forwarded it or says so"), all, &(received, left, refused));
        rig.check(&name("the other device sent as many"), left == Some(there.sent), &(left, there));
        let named = there.sent == there.delivered + there.lost && there.delivered == back && there.lost > 0;
        rig.check(&name("and what the host did not take is counted"), named, &(there, seen));
    }
    Ok(())
}
