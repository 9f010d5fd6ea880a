//! What became of an endpoint's frames, for people and as JSON.

use std::collections::BTreeMap;

use runtime::PollerStats;
use serde::Serialize;
use vtep::{Config, Totals};

use super::host::Shown;

/// What one port counted.
#[derive(Debug, Clone, Serialize)]
pub struct PortAccount {
    /// The network, or the name of the port of the underlay.
    name: String,
    #[serde(flatten)]
    totals: Totals,
}

/// An endpoint's accounts.
#[derive(Debug, Clone, Serialize)]
pub struct Accounts {
    /// Networks' ports: what came in and went into tunnels.
    networks: Vec<PortAccount>,
    /// Ports of the underlay: what came in and went out of tunnels.
    underlay: Vec<PortAccount>,
    /// Requests for neighbours that were sent.
    requests: u64,
    /// Dropped frames of all ports, by name.
    pub drops: BTreeMap<&'static str, u64>,
    /// Whether every frame that queues gave is accounted for, and every frame that went on
    /// came to a queue; nothing where queues were not asked.
    pub balanced: Option<bool>,
}

impl Accounts {
    /// From what lanes counted, and from what their queues did by themselves.
    pub fn new(config: &Config, shown: &Shown, queues: &[PollerStats]) -> Accounts {
        let of = |name: String, totals: Totals| PortAccount { name, totals };
        let inner = config.inner.iter().enumerate();
        let networks: Vec<PortAccount> =
            inner.map(|(n, inner)| of(inner.network.to_string(), shown.inner(n))).collect();
        let ports = config.underlay.iter().enumerate();
        let underlay: Vec<PortAccount> =
            ports.map(|(n, port)| of(port.name.clone(), shown.underlay(n))).collect();
        let requests = shown.requests();
        let mut drops = BTreeMap::new();
        let (mut received, mut left, mut balanced) = (0, requests, true);
        for Totals { received: came, forwarded, answered, drops: lost, .. } in
            networks.iter().chain(&underlay).map(|port| &port.totals)
        {
            received += came;
            left += forwarded + answered;
            lost.iter().for_each(|(name, count)| *drops.entry(*name).or_default() += count);
        }
        balanced &= networks.iter().chain(&underlay).all(|port| port.totals.balances());
        let rx: u64 = queues.iter().flat_map(|poller| &poller.rx).map(|rx| rx.packets).sum();
        let tx = queues.iter().flat_map(|poller| &poller.tx);
        let tx: u64 = tx.map(|tx| tx.packets + tx.ring_full + tx.unsendable).sum();
        balanced &= rx == received && tx == left;
        Accounts { networks, underlay, requests, drops, balanced: (!queues.is_empty()).then_some(balanced) }
    }

    /// Prints the accounts as a table.
    pub fn print(&self) {
        let head = ["received", "forwarded", "copies", "answered", "dropped"];
        println!("\n{:<24}{}", "overlay", head.map(|word| format!("{word:>12}")).concat());
        let networks = self.networks.iter().map(|port| ("network", port));
        for (kind, PortAccount { name, totals }) in
            networks.chain(self.underlay.iter().map(|port| ("underlay", port)))
        {
            let numbers = [
                totals.received,
                totals.forwarded,
                totals.copies,
                totals.answered + totals.taken,
                totals.dropped(),
            ];
            println!("  {:<22}{}", format!("{kind} {name}"), numbers.map(|n| format!("{n:>12}")).concat());
        }
        for (name, count) in &self.drops {
            println!("  lost  {name:<28} {count}");
        }
        if let Some(balanced) = self.balanced {
            println!("  {}", if balanced { "balanced" } else { "NOT BALANCED" });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_queues_nothing_is_said_of_the_balance() {
        let text = "[[underlay]]\nname = 'up'\nport = 'tap:x'\naddresses = ['192.0.2.1/24']\n";
        let config = Config::parse(text).expect("a configuration");
        let shown = Shown::default();
        let balanced = |queues: &[PollerStats]| {
            let accounts = serde_json::to_value(Accounts::new(&config, &shown, queues));
            accounts.expect("JSON")["balanced"].clone()
        };
        assert_eq!(balanced(&[]), serde_json::Value::Null);
        assert_eq!(balanced(&[PollerStats::default()]), true);
    }
}
