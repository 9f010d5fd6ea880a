//! The books: every packet that was offered was delivered, or lost under a name.

use std::collections::BTreeMap;

use serde::Serialize;
use testbed::serve::Report;

use crate::Failure;
use crate::summary::Summary;

/// Where all packets went.
#[derive(Debug, Serialize)]
pub struct Books {
    /// Packets the generators put on the wires.
    offered: u64,
    /// Packets the sinks took from the wires.
    delivered: u64,
    /// Packets that ended elsewhere, by name.
    lost: BTreeMap<String, u64>,
    /// Packets that are still in a wire or in a NIC.
    waiting: u64,
    /// offered = delivered + lost + waiting.
    balanced: bool,
}

impl Books {
    /// From both sides: the driver's summary and the models' report.
    pub fn new(summary: &Summary, report: &Report) -> Books {
        let (mut offered, mut delivered, mut waiting) = (0, 0, 0);
        let mut lost = BTreeMap::<String, u64>::new();
        for endpoint in &report.endpoints {
            let device = &endpoint.device;
            offered += device.wire.to_host.offered + device.wire.to_host.made;
            delivered += device.wire.from_host.delivered;
            waiting += device.wire.to_host.waiting + device.wire.from_host.waiting;
            waiting += device.counters.get("rx_waiting").copied().unwrap_or(0);
            let losses =
                device.wire.to_host.lost.iter().chain(&device.wire.from_host.lost).chain(&device.drops);
            for (name, count) in losses.filter(|(_, count)| **count > 0) {
                *lost.entry(name.clone()).or_default() += count;
            }
        }
        // The driver's own; the devices' counters are the models' once more.
        for name in ["ring_full", "bad_descriptor", "unsendable"] {
            if let Some(count) = summary.losses.get(name) {
                *lost.entry(name.to_owned()).or_default() += count;
            }
        }
        let balanced = offered == delivered + waiting + lost.values().sum::<u64>();
        Books { offered, delivered, lost, waiting, balanced }
    }

    /// Prints the account.
    pub fn print(&self) {
        println!("\nbooks");
        println!("  offered    {:>14}", self.offered);
        println!("  delivered  {:>14}", self.delivered);
        for (name, count) in &self.lost {
            println!("  lost       {count:>14}  {name}");
        }
        if self.waiting > 0 {
            println!("  waiting    {:>14}", self.waiting);
        }
        println!("  {}", if self.balanced { "balanced" } else { "NOT BALANCED" });
    }

    /// The demo's verdict; `interrupted` by a signal, it need not have begun.
    pub fn verdict(&self, interrupted: bool) -> Result<(), Failure> {
        match (self.balanced, self.delivered, interrupted) {
            (false, ..) => Err(Failure::new("the books do not balance: packets vanished without a name")),
            (true, 0, false) => Err(Failure::new("no packet was delivered")),
            _ => Ok(()),
        }
    }
}
