//! What a router counted, when it has stopped: each port with its losses, and the account
//! of its packets.

use element::io::router_ports::{PortCounts, RouterPorts};
use graph::Router;
use graph::plan::Planned;
use serde::Serialize;

use crate::summary::{PortSummary, QueueSummary};
use crate::top::Sample;

/// Classes that keep packets, and tell how many by their handler `length`.
const KEEPING: [&str; 8] = [
    "Queue",
    "SimpleQueue",
    "NotifierQueue",
    "FrontDropQueue",
    "MixedQueue",
    "CPUQueue",
    "ARPQuerier",
    "IP6NDSolicitor",
];
/// Those of them, and further ones, out of which exactly the packets come that went in, but
/// for those that they drop by name. Classes of compiled programs are others.
const PASSING: [&str; 9] = [
    "FromDevice",
    "ToDevice",
    "Queue",
    "SimpleQueue",
    "NotifierQueue",
    "FrontDropQueue",
    "CPUQueue",
    "Unqueue",
    "RatedUnqueue",
];

/// Packets that an element dropped for a reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Dropped {
    /// The element's name.
    pub element: String,
    /// The reason, as its class has it.
    pub reason: String,
    /// How many.
    pub packets: u64,
}

/// The account of a router's packets: received = sent + dropped + held + ended by elements
/// \- made by elements.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Account {
    /// Packets that receive queues gave to the router.
    pub received: u64,
    /// Packets that transmit queues took.
    pub sent: u64,
    /// Packets that elements and transmit queues dropped, by name.
    pub dropped: Vec<Dropped>,
    /// Packets that are still in queues.
    pub held: u64,
    /// Packets that elements ended (Discard, replies that were read), less those that they
    /// made (sources, copies, replies).
    pub ended: i64,
    /// Whether there are no others: known where no element makes or ends packets.
    pub balanced: Option<bool>,
}

/// What a router with ports counted.
#[derive(Debug, Clone, Serialize)]
pub struct Counted {
    /// Its ports.
    pub ports: Vec<PortSummary>,
    /// Its packets.
    pub account: Account,
}

impl Counted {
    /// Of a router that has stopped; `None` without ports. `replaced` says that others ran
    /// before it on the same ports, whose drops nobody knows any more.
    pub fn of(router: &mut Router, replaced: bool) -> Option<Counted> {
        let ports = router.service::<RouterPorts>()?.counts();
        if ports.is_empty() {
            return None;
        }
        let sample = Sample::of_figures(&router.read("figures", "").ok()?)?;
        let mut held = 0;
        let (mut passing, mut keeping) = (true, Vec::new());
        for planned in &router.shared().plan.elements {
            passing &= passes(planned);
            if KEEPING.contains(&planned.kind.name) {
                keeping.push(format!("{}.length", planned.name));
            }
        }
        for handler in keeping {
            held += router.read(&handler, "").ok().and_then(|n| n.trim().parse::<u64>().ok()).unwrap_or(0);
        }
        let account = Account::new(&ports, &sample, held, passing && !replaced);
        Some(Counted { ports: ports.iter().map(port).collect(), account })
    }

    /// In lines of text.
    pub fn text(&self) -> String {
        let ports: String = self.ports.iter().map(PortSummary::text).collect();
        let losses = self.ports.iter().flat_map(|port| {
            port.losses.iter().map(|(loss, count)| format!("lost  {loss:<16} {count}  at {}\n", port.name))
        });
        ports + &losses.collect::<String>() + &self.account.text()
    }
}

/// Whether an element neither makes nor ends packets, other than by dropping them by name.
fn passes(planned: &Planned) -> bool {
    let kind = planned.kind;
    let of_programs = kind.kernel.inside().is_some_and(|inside| !inside.emits && !inside.path.is_empty());
    let apart = planned.pull_inputs.is_empty() && planned.pull_outputs.is_empty();
    apart || PASSING.contains(&kind.name) || of_programs
}

fn port(counts: &PortCounts) -> PortSummary {
    let mut port =
        PortSummary::new(&counts.name, counts.driver.clone(), counts.mac, counts.link, &counts.stats);
    port.rx_queues = counts.rx.iter().enumerate().map(|(n, rx)| QueueSummary::rx(n, rx)).collect();
    port.tx_queues = counts.tx.iter().enumerate().map(|(n, tx)| QueueSummary::tx(n, tx)).collect();
    port
}

impl Account {
    fn new(ports: &[PortCounts], sample: &Sample, held: u64, passing: bool) -> Account {
        let received = ports.iter().flat_map(|port| &port.rx).map(|rx| rx.packets).sum();
        let sent = ports.iter().flat_map(|port| &port.tx).map(|tx| tx.packets).sum();
        let by_element = sample.rows.iter().flat_map(|row| {
            row.drops.iter().map(|(reason, packets)| (row.name.clone(), reason.clone(), *packets))
        });
        let by_port = ports.iter().map(|port| {
            let reason = port::Reason::TxUnsendable.name().to_owned();
            (port.name.clone(), reason, port.tx.iter().map(|tx| tx.unsendable).sum())
        });
        let dropped = by_element.chain(by_port).filter(|(_, _, packets)| *packets > 0);
        let dropped: Vec<Dropped> =
            dropped.map(|(element, reason, packets)| Dropped { element, reason, packets }).collect();
        let known = sent + dropped.iter().map(|d| d.packets).sum::<u64>() + held;
        let ended = (received as i64).wrapping_sub(known as i64);
        Account { received, sent, dropped, held, ended, balanced: passing.then_some(ended == 0) }
    }

    fn text(&self) -> String {
        let mut text = format!("received {} packets", self.received);
        if self.ended < 0 {
            text += &format!(" + made by elements {}", self.ended.unsigned_abs());
        }
        text += &format!(" = sent {}", self.sent);
        for Dropped { element, reason, packets } in &self.dropped {
            text += &format!(" + dropped by {element} ({reason}) {packets}");
        }
        text += &format!(" + held {}", self.held);
        if self.ended > 0 {
            text += &format!(" + ended by elements {}", self.ended);
        }
        if self.balanced == Some(false) {
            text += "\nwarning: no element of this router makes or ends packets: a loss has no name, \
                     which is a bug in ixora";
        }
        text + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use port::{Link, PortStats, RxStats, TxStats};

    fn account(sent: u64, held: u64, passing: bool) -> Account {
        let port = PortCounts {
            name: "p".into(),
            driver: "d".into(),
            mac: [2; 6],
            link: Link::DOWN,
            rx: vec![
                RxStats { packets: 60, ..RxStats::default() },
                RxStats { packets: 40, ..RxStats::default() },
            ],
            tx: vec![TxStats { packets: sent, unsendable: 3, ..TxStats::default() }],
            stats: PortStats::default(),
        };
        let figures = "tsc=1\tthreads=1\tmeasured=false\ns\tStrip\t0\t0\t0\t0\ttoo short=7\tother=0\n";
        Account::new(&[port], &Sample::of_figures(figures).expect("figures"), held, passing)
    }

    #[test]
    fn an_account_balances_or_says_what_is_missing() {
        let fine = account(80, 10, true);
        assert_eq!((fine.received, fine.ended, fine.balanced), (100, 0, Some(true)));
        assert_eq!(fine.dropped.len(), 2, "reasons that nothing was dropped for are left out");
        assert_eq!(
            fine.text(),
            "received 100 packets = sent 80 + dropped by s (too short) 7 + dropped by p (tx_unsendable) 3 + held 10\n"
        );
        let lost = account(79, 10, true);
        assert_eq!((lost.ended, lost.balanced), (1, Some(false)));
        assert!(lost.text().contains("a loss has no name"));
    }

    #[test]
    fn elements_that_make_and_end_packets_are_told() {
        let ended = account(50, 0, false);
        assert!(ended.balanced.is_none() && ended.text().ends_with("+ ended by elements 40\n"));
        assert!(
            account(500, 0, false).text().contains("received 100 packets + made by elements 410 = sent 500")
        );
    }
}
