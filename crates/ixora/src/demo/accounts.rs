//! The accounts: every packet that was offered was delivered, or lost under a name.
//! Each direction has its own, so that an error in one cannot hide behind an
//! error in the other.

use std::collections::BTreeMap;

use port::Reason;
use runtime::PollerStats;
use serde::Serialize;
use testbed::serve::{EndpointReport, Report};

/// Where packets went.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Account {
    /// Packets the generators put on the wires.
    pub(super) offered: u64,
    /// Packets the sinks took from the wires.
    pub(super) delivered: u64,
    /// Packets that ended elsewhere, by name.
    pub(super) lost: BTreeMap<String, u64>,
    /// Packets that are still in a wire or in a NIC.
    pub(super) waiting: u64,
    /// offered = delivered + lost + waiting.
    pub(super) balanced: bool,
    /// Packets that were due but never offered, because the models' core was
    /// behind: no loss, but less than the rate that was asked for.
    pub(super) skipped: u64,
}

/// One way through the forwarder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Direction {
    /// From where to where, in words.
    pub(super) name: &'static str,
    /// What became of the packets that were offered in this direction.
    #[serde(flatten)]
    pub(super) account: Account,
}

/// Both directions, and their sum.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Accounts {
    /// The sum; balanced when both directions are.
    #[serde(flatten)]
    total: Account,
    /// Both directions of the forwarder.
    pub(super) directions: [Direction; 2],
}

impl Account {
    /// From all three that a packet passes: the device that receives it, the
    /// driver's poller, the device that sends it.
    pub(super) fn new(rx: &EndpointReport, poller: &PollerStats, tx: &EndpointReport) -> Account {
        let (to_host, from_host) = (&rx.device.wire.to_host, &tx.device.wire.from_host);
        let mut account = Account {
            offered: to_host.offered + to_host.made,
            delivered: from_host.delivered,
            waiting: to_host.waiting
                + rx.device.counters.get("rx_waiting").copied().unwrap_or(0)
                + from_host.waiting,
            skipped: rx.device.wire.skipped,
            ..Account::default()
        };
        // A device's losses say whether it was receiving or sending.
        let received = rx.device.drops.iter().filter(|(name, _)| !name.starts_with("tx_"));
        let sent = tx.device.drops.iter().filter(|(name, _)| name.starts_with("tx_"));
        for (name, count) in to_host.lost.iter().chain(received).chain(sent).chain(&from_host.lost) {
            account.lose(name, *count);
        }
        account.lose(Reason::RxBadDescriptor.name(), poller.rx.iter().map(|rx| rx.bad_descriptor).sum());
        account.lose(Reason::TxRingFull.name(), poller.tx.iter().map(|tx| tx.ring_full).sum());
        account.lose(Reason::TxUnsendable.name(), poller.tx.iter().map(|tx| tx.unsendable).sum());
        account.balanced = account.offered == account.accounted();
        account
    }

    fn lose(&mut self, name: &str, count: u64) {
        if count > 0 {
            *self.lost.entry(name.to_owned()).or_default() += count;
        }
    }

    /// What is known to have become of packets.
    pub(super) fn accounted(&self) -> u64 {
        self.delivered + self.waiting + self.lost.values().sum::<u64>()
    }

    fn add(&mut self, other: &Account) {
        self.offered += other.offered;
        self.delivered += other.delivered;
        self.waiting += other.waiting;
        self.skipped += other.skipped;
        other.lost.iter().for_each(|(name, count)| self.lose(name, *count));
    }
}

impl Accounts {
    /// From both sides: what the driver's pollers counted, one for each direction,
    /// and the models' report. `None` unless there are two of each.
    pub fn new(pollers: &[PollerStats], report: &Report) -> Option<Accounts> {
        let ([there, back], [a, b]) = (pollers, report.endpoints.as_slice()) else { return None };
        let directions = [
            Direction { name: "a to b", account: Account::new(a, there, b) },
            Direction { name: "b to a", account: Account::new(b, back, a) },
        ];
        let mut total = Account::default();
        directions.iter().for_each(|direction| total.add(&direction.account));
        total.balanced = directions.iter().all(|direction| direction.account.balanced);
        Some(Accounts { total, directions })
    }

    /// Prints the accounts beside each other.
    pub fn print(&self) {
        let accounts = self.directions.iter().map(|direction| &direction.account).chain([&self.total]);
        let accounts: Vec<&Account> = accounts.collect();
        let row = |what: &str, number: &dyn Fn(&Account) -> u64| {
            let columns: Vec<String> = accounts.iter().map(|a| format!("{:>14}", number(a))).collect();
            println!("  {what:<26}{}", columns.concat());
        };
        let [there, back] = self.directions.each_ref().map(|direction| direction.name);
        println!("\n{:<28}{there:>14}{back:>14}{:>14}", "accounts", "both");
        row("offered", &|account| account.offered);
        row("delivered", &|account| account.delivered);
        for name in self.total.lost.keys() {
            row(&format!("lost  {name}"), &|account| account.lost.get(name).copied().unwrap_or(0));
        }
        if self.total.waiting > 0 {
            row("waiting", &|account| account.waiting);
        }
        for Direction { name, account } in self.directions.iter().filter(|d| !d.account.balanced) {
            println!("  {name}: {} offered, but {} accounted for", account.offered, account.accounted());
        }
        println!("  {}", if self.total.balanced { "balanced" } else { "NOT BALANCED" });
        let due = self.total.offered + self.total.skipped;
        if self.total.skipped > due / 100 {
            let share = self.total.offered as f64 * 100.0 / due as f64;
            println!("  the models' core kept up with {share:.0} % of the rate; the rest was never offered");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use port::{RxStats, TxStats};

    /// Ten packets each way: one is lost in the NIC, two at a full ring.
    fn run() -> (Vec<PollerStats>, Report) {
        let mut endpoint = EndpointReport::default();
        endpoint.device.wire.to_host.offered = 10;
        endpoint.device.wire.from_host.delivered = 7;
        endpoint.device.drops.insert("rx_fifo_full".to_owned(), 1);
        let tx = TxStats { ring_full: 2, ..TxStats::default() };
        let poller = PollerStats { rx: vec![RxStats::default()], tx: vec![tx], retries: false };
        (vec![poller; 2], Report { elapsed_ms: 1, endpoints: vec![endpoint; 2] })
    }

    #[test]
    fn named_losses_balance_the_accounts() {
        let (pollers, report) = run();
        let accounts = Accounts::new(&pollers, &report).expect("two directions");
        assert_eq!((accounts.total.offered, accounts.total.delivered), (20, 14));
        assert_eq!(accounts.total.lost["tx_ring_full"], 4);
        assert!(accounts.total.balanced);
    }

    #[test]
    fn what_was_never_offered_is_told_but_not_owed() {
        let (pollers, mut report) = run();
        report.endpoints[0].device.wire.skipped = 5;
        let accounts = Accounts::new(&pollers, &report).expect("two directions");
        assert_eq!((accounts.directions[0].account.skipped, accounts.total.skipped), (5, 5));
        assert!(accounts.total.balanced && accounts.total.offered == 20);
    }

    #[test]
    fn one_direction_does_not_make_up_for_the_other() {
        let (pollers, mut report) = run();
        report.endpoints[0].device.wire.from_host.delivered += 1;
        report.endpoints[1].device.wire.from_host.delivered -= 1;
        let accounts = Accounts::new(&pollers, &report).expect("two directions");
        assert_eq!(accounts.total.offered, accounts.total.accounted());
        assert!(!accounts.total.balanced);
    }

    #[test]
    fn a_device_that_loses_what_it_sends_is_charged_to_the_right_direction() {
        let (pollers, mut report) = run();
        report.endpoints[1].device.wire.from_host.delivered -= 3;
        report.endpoints[1].device.drops.insert("tx_oversize".to_owned(), 3);
        let accounts = Accounts::new(&pollers, &report).expect("two directions");
        assert_eq!(accounts.directions[0].account.lost["tx_oversize"], 3);
        assert!(accounts.total.balanced && !accounts.directions[1].account.lost.contains_key("tx_oversize"));
    }
}
