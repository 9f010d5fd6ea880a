//! The account of one direction: every frame that was offered was delivered, or lost under a
//! name. Frames by which endpoints find each other cross the same wire and are counted apart.

use std::collections::BTreeMap;
use std::sync::Arc;

use port::Reason;
use runtime::PollerStats;
use serde::Serialize;
use testbed::DeviceReport;

use super::super::host::Shown;
use super::PORTS;
use super::conduct::Seen;

/// One way through both endpoints.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Direction {
    pub name: &'static str,
    /// Frames the generator put on the wire.
    pub offered: u64,
    /// Frames the sink took from it.
    pub delivered: u64,
    /// Frames that ended elsewhere, by name.
    pub lost: BTreeMap<String, u64>,
    /// Frames that are still in a wire or a NIC.
    pub waiting: u64,
    /// Requests and answers of address resolution that were sent this way.
    pub resolution: u64,
    /// Frames that were due and never offered: the models' thread was behind.
    pub skipped: u64,
    /// Frames the sink found wrong: corrupt, foreign or duplicated.
    pub wrong: u64,
    /// What the sender's NIC did, where it puts packets into tunnels.
    pub nic: Option<ByNic>,
    /// Whether all of them are accounted for.
    pub balanced: bool,
}

/// Packets of a NIC that puts them into tunnels.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct ByNic {
    /// Packets that it put into a tunnel.
    pub sent: u64,
    /// Packets that it gave back, which software put into a tunnel.
    pub given_back: u64,
}

/// A direction's places among models and queues: of the endpoint's network, and of the
/// underlay.
const INNER: usize = 0;
const UNDERLAY: usize = 1;

impl Direction {
    /// From all that a frame passes: models, lanes and queues of the sender and the receiver.
    pub fn new(
        name: &'static str,
        [from, to]: [usize; 2],
        seen: &Seen,
        shown: &[Arc<Shown>; 2],
        queues: &[PollerStats],
    ) -> Direction {
        let mut account = Direction { name, ..Direction::default() };
        let model = |host: usize, place: usize| seen.reports.get(host * PORTS + place);
        let models = [(from, INNER), (from, UNDERLAY), (to, UNDERLAY), (to, INNER)].map(|(h, p)| model(h, p));
        let ([Some(inner), Some(sends), Some(receives), Some(outer)], [_, _]) = (models, queues) else {
            return account;
        };
        account.offered = inner.wire.to_host.offered + inner.wire.to_host.made;
        account.delivered = outer.wire.from_host.delivered;
        account.skipped = inner.wire.skipped;
        let count = |name: &str| sends.counters.get(name).copied().unwrap_or(0);
        account.nic = Some(ByNic { sent: count("encap_sent"), given_back: count("encap_given_back") });
        account.receive(inner);
        account.send(sends);
        account.receive(receives);
        account.send(outer);
        account.queue(&queues[from], INNER, UNDERLAY);
        account.queue(&queues[to], UNDERLAY, INNER);
        let (entered, came) = (shown[from].inner(0), shown[to].underlay(0));
        entered.drops.iter().chain(&came.drops).for_each(|(name, count)| account.lose(name, *count));
        account.resolution = shown[from].requests() + shown[from].underlay(0).answered;
        if let Some(check) = &outer.wire.check {
            account.wrong = check.corrupt + check.foreign + check.duplicated;
        }
        let ended = account.delivered + account.waiting + account.lost.values().sum::<u64>();
        account.balanced = account.offered + account.resolution == ended + came.answered + came.taken;
        account
    }

    /// The same; where no NIC puts packets into tunnels, nothing is told of one.
    #[must_use]
    pub fn with_nic(self, is_offloaded: bool) -> Direction {
        Direction { nic: self.nic.filter(|_| is_offloaded), ..self }
    }

    /// What a model did that received.
    fn receive(&mut self, model: &DeviceReport) {
        let wire = &model.wire.to_host;
        self.waiting += wire.waiting + model.counters.get("rx_waiting").copied().unwrap_or(0);
        let drops = model.drops.iter().filter(|(name, _)| !name.starts_with("tx_"));
        drops.chain(&wire.lost).for_each(|(name, count)| self.lose(name, *count));
    }

    /// What a model did that sent.
    fn send(&mut self, model: &DeviceReport) {
        let wire = &model.wire.from_host;
        self.waiting += wire.waiting;
        let drops = model.drops.iter().filter(|(name, _)| name.starts_with("tx_"));
        drops.chain(&wire.lost).for_each(|(name, count)| self.lose(name, *count));
    }

    /// What queues of an endpoint did: those of the port that receives, and the port that sends.
    fn queue(&mut self, queues: &PollerStats, receives: usize, sends: usize) {
        if let Some(rx) = queues.rx.get(receives) {
            self.lose(Reason::RxBadDescriptor.name(), rx.bad_descriptor);
        }
        if let Some(tx) = queues.tx.get(sends) {
            self.lose(Reason::TxRingFull.name(), tx.ring_full);
            self.lose(Reason::TxUnsendable.name(), tx.unsendable);
        }
    }

    fn lose(&mut self, name: &str, count: u64) {
        if count > 0 {
            *self.lost.entry(name.to_owned()).or_default() += count;
        }
    }
}

/// Prints both directions beside each other.
pub fn print(directions: &[Direction; 2]) {
    let row = |what: &str, number: &dyn Fn(&Direction) -> u64| {
        println!("  {what:<34}{}", directions.each_ref().map(|d| format!("{:>14}", number(d))).concat());
    };
    println!("\n{:<36}{}", "accounts", directions.each_ref().map(|d| format!("{:>14}", d.name)).concat());
    row("offered", &|direction| direction.offered);
    row("delivered", &|direction| direction.delivered);
    let mut names: Vec<&String> = directions.iter().flat_map(|direction| direction.lost.keys()).collect();
    names.sort();
    names.dedup();
    for name in names {
        row(&format!("lost  {name}"), &|direction| direction.lost.get(name).copied().unwrap_or(0));
    }
    row("waiting", &|direction| direction.waiting);
    row("address resolution, beside these", &|direction| direction.resolution);
    if directions.iter().any(|direction| direction.nic.is_some()) {
        row("put into tunnels by the NIC", &|direction| direction.nic.unwrap_or_default().sent);
        row("given back by the NIC", &|direction| direction.nic.unwrap_or_default().given_back);
    }
    for direction in directions.iter().filter(|direction| direction.skipped > 0) {
        println!("  {}: {} more were due; the models' thread was behind", direction.name, direction.skipped);
    }
    let balanced = directions.iter().all(|direction| direction.balanced);
    println!("  {}", if balanced { "balanced" } else { "NOT BALANCED" });
}
