//! What a router counted, when it has stopped: each port with its losses, and the account
//! of its packets.

use std::collections::{BTreeMap, BTreeSet};

use element::io::router_ports::{PortCounts, RouterPorts};
use graph::Router;
use graph::class::NOT_TAKEN_OVER;
use serde::Serialize;

use crate::rate::plural;
use crate::summary::{PortSummary, QueueSummary};

/// Packets that an element dropped for a reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Dropped {
    /// The element's name.
    pub element: String,
    /// The reason, as its class has it.
    pub reason: String,
    /// Packets that the element dropped for it.
    pub packets: u64,
}

/// Packets that an element made, or ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Part {
    /// The element's name.
    pub element: String,
    /// Packets that it made or ended.
    pub packets: u64,
}

/// The account of a router's packets, each figure counted by itself: received + made = sent +
/// dropped + held + ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Account {
    /// Packets that receive queues gave to the router.
    pub received: u64,
    /// Packets that elements made: sources, copies, questions.
    pub made: Vec<Part>,
    /// Packets that transmit queues took.
    pub sent: u64,
    /// Packets that elements and transmit queues dropped, by name.
    pub dropped: Vec<Dropped>,
    /// Packets that are still in queues.
    pub held: u64,
    /// Packets that elements ended: Discard, replies that were read.
    pub ended: Vec<Part>,
    /// How many packets more came than are known of; below zero where more are known of.
    pub missing: i64,
    /// What may make, end or keep packets that are not counted.
    pub unknown: Vec<String>,
    /// Whether none is missing: known where nothing is unknown.
    pub balanced: Option<bool>,
}

/// What a router counted.
#[derive(Debug, Clone, Serialize)]
pub struct Counted {
    /// What each port counted, with its losses.
    pub ports: Vec<PortSummary>,
    /// Where the packets went.
    pub account: Account,
}

/// What routers counted that ran one after the other, by the names of their elements.
#[derive(Debug, Default)]
pub struct Tally {
    dropped: BTreeMap<(String, String), u64>,
    made: BTreeMap<String, u64>,
    ended: BTreeMap<String, u64>,
    unknown: BTreeSet<String>,
    /// Ports that were closed.
    closed: Vec<PortCounts>,
}

impl Tally {
    /// Adds what a router counted whose place `next` took, but for what elements took over: it
    /// is cleaned up, and its ports are open still.
    pub fn retire(&mut self, old: &mut Router, next: &Router) {
        self.add(old);
        for (element, packets) in held(old) {
            *self.dropped.entry((element, NOT_TAKEN_OVER.name().to_owned())).or_default() += packets;
        }
        let (Some(ports), Some(kept)) = (old.service::<RouterPorts>(), next.service::<RouterPorts>()) else {
            return;
        };
        let (mine, kept) = (ports.uses(), kept.uses());
        let closes = |name: &str| mine.iter().any(|u| u.port == name) && kept.iter().all(|u| u.port != name);
        self.closed.extend(ports.counts().into_iter().filter(|port| closes(&port.name)));
    }

    /// Adds what the lanes of a router counted.
    fn add(&mut self, router: &Router) {
        for (index, planned) in router.shared().plan.elements.iter().enumerate() {
            for lane in router.lanes() {
                let counters = lane.counters(index);
                let dropped = planned.kind.drops.iter().zip(&counters.drops);
                for (reason, count) in dropped.filter(|(_, count)| **count > 0) {
                    let loss = (planned.name.to_string(), reason.name().to_owned());
                    *self.dropped.entry(loss).or_default() += count;
                }
                for (all, count) in [(&mut self.made, counters.made), (&mut self.ended, counters.ended)] {
                    // Of most elements there is nothing to tell.
                    if count > 0 {
                        *all.entry(planned.name.to_string()).or_default() += count;
                    }
                }
            }
            if !planned.kind.account.is_complete() {
                self.unknown.insert(planned.name.to_string());
            }
        }
        if router.lanes().iter().any(|lane| lane.has_lacked_buffers()) {
            self.unknown.insert("packet buffers, of which there were too few".to_owned());
        }
    }
}

/// Packets that wait in elements, by their names.
fn held(router: &mut Router) -> Vec<(String, u64)> {
    let (shared, waiting) = (router.shared(), router.waiting());
    let named = |(index, packets): (usize, u64)| (shared.plan.elements[index].name.to_string(), packets);
    waiting.into_iter().map(named).collect()
}

impl Counted {
    /// Of a router that has stopped, and those before it; `None` of one without elements.
    pub fn of(router: &mut Router, mut before: Tally) -> Option<Counted> {
        if router.is_empty() {
            return None;
        }
        let router_ports = router.service::<RouterPorts>();
        let uses = router_ports.as_ref().map_or(vec![], |ports| ports.uses());
        let mut ports = router_ports.map_or(vec![], |ports| ports.counts());
        // One whose router was replaced may be about to be closed, and is told of below.
        ports.retain(|port| uses.iter().any(|u| u.port == port.name));
        ports.append(&mut before.closed);
        before.add(router);
        let held = held(router).into_iter().map(|(_, packets)| packets).sum();
        let account = Account::new(&ports, before, held);
        Some(Counted { ports: ports.iter().map(port).collect(), account })
    }

    /// In lines of text; none of a router without ports that lost no packet.
    pub fn text(&self) -> String {
        if self.ports.is_empty() && self.account.is_without_loss() {
            return String::new();
        }
        let ports: String = self.ports.iter().map(PortSummary::text).collect();
        let losses = self.ports.iter().flat_map(|port| {
            port.losses.iter().map(|(loss, count)| format!("lost  {loss:<16} {count}  at {}\n", port.name))
        });
        ports + &losses.collect::<String>() + &self.account.text(!self.ports.is_empty())
    }
}

fn port(counts: &PortCounts) -> PortSummary {
    let mut port =
        PortSummary::new(&counts.name, counts.driver.clone(), counts.mac, counts.link, &counts.stats);
    port.rx_queues = counts.rx.iter().enumerate().map(|(n, rx)| QueueSummary::rx(n, rx)).collect();
    port.tx_queues = counts.tx.iter().enumerate().map(|(n, tx)| QueueSummary::tx(n, tx)).collect();
    port
}

impl Account {
    fn new(ports: &[PortCounts], tally: Tally, held: u64) -> Account {
        let received: u64 = ports.iter().flat_map(|port| &port.rx).map(|rx| rx.packets).sum();
        let sent: u64 = ports.iter().flat_map(|port| &port.tx).map(|tx| tx.packets).sum();
        let by_port = ports.iter().map(|port| {
            let reason = port::Reason::TxUnsendable.name().to_owned();
            ((port.name.clone(), reason), port.tx.iter().map(|tx| tx.unsendable).sum())
        });
        let dropped = tally.dropped.into_iter().chain(by_port).filter(|(_, packets)| *packets > 0);
        let dropped: Vec<Dropped> =
            dropped.map(|((element, reason), packets)| Dropped { element, reason, packets }).collect();
        let parts = |parts: BTreeMap<String, u64>| -> Vec<Part> {
            let some = parts.into_iter().filter(|(_, packets)| *packets > 0);
            some.map(|(element, packets)| Part { element, packets }).collect()
        };
        let (made, ended) = (parts(tally.made), parts(tally.ended));
        let unknown: Vec<String> = tally.unknown.into_iter().collect();
        let sum = |parts: &[Part]| parts.iter().map(|part| part.packets).sum::<u64>();
        let known = sent + dropped.iter().map(|d| d.packets).sum::<u64>() + held + sum(&ended);
        let missing = (received + sum(&made)).wrapping_sub(known) as i64;
        let balanced = unknown.is_empty().then_some(missing == 0);
        Account { received, made, sent, dropped, held, ended, missing, unknown, balanced }
    }

    /// Whether no packet was dropped, and none is missing of which all is counted.
    fn is_without_loss(&self) -> bool {
        self.dropped.is_empty() && self.balanced != Some(false)
    }

    /// As a line, with what ports received and sent where there are some.
    fn text(&self, has_ports: bool) -> String {
        let received = has_ports.then(|| format!("received {}", plural(self.received, "packet")));
        let made = self.made.iter().map(|Part { element, packets }| format!("made by {element} {packets}"));
        let sent = has_ports.then(|| format!("sent {}", self.sent));
        let dropped = self
            .dropped
            .iter()
            .map(|Dropped { element, reason, packets }| format!("dropped by {element} ({reason}) {packets}"));
        let held = [format!("held {}", self.held)];
        let ended =
            self.ended.iter().map(|Part { element, packets }| format!("ended by {element} {packets}"));
        let came: Vec<String> = received.into_iter().chain(made).collect();
        let went: Vec<String> = sent.into_iter().chain(dropped).chain(held).chain(ended).collect();
        let came = if came.is_empty() { "made 0".to_owned() } else { came.join(" + ") };
        let mut text = format!("{came} = {}", went.join(" + "));
        match self.balanced {
            Some(true) => {}
            Some(false) => {
                text += &format!(
                    "\nwarning: {} missing: a loss has no name, which is a bug in ixora",
                    plural(self.missing, "packet")
                );
            }
            None if self.missing == 0 => {}
            None => {
                let (missing, unknown) = (self.missing, self.unknown.join(", "));
                text += &format!(" + not known {missing}\nnot all is counted of: {unknown}");
            }
        }
        text + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use port::{Link, PortStats, RxStats, TxStats};

    fn account(sent: u64, held: u64, unknown: &[&str]) -> Account {
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
        let drops = [("too short", 7), ("other", 0)];
        let tally = Tally {
            dropped: drops.map(|(reason, count)| (("s".to_owned(), reason.to_owned()), count)).into(),
            made: [("t".to_owned(), 5), ("s".to_owned(), 0)].into(),
            ended: [("d".to_owned(), 15)].into(),
            unknown: unknown.iter().map(|name| (*name).to_owned()).collect(),
            closed: vec![],
        };
        Account::new(&[port], tally, held)
    }

    #[test]
    fn an_account_balances_or_says_what_is_missing() {
        let fine = account(70, 10, &[]);
        assert_eq!((fine.received, fine.missing, fine.balanced), (100, 0, Some(true)));
        assert_eq!(fine.dropped.len(), 2, "reasons that nothing was dropped for are left out");
        assert_eq!(
            fine.text(true),
            "received 100 packets + made by t 5 = sent 70 + dropped by s (too short) 7 \
             + dropped by p (tx_unsendable) 3 + held 10 + ended by d 15\n"
        );
        let lost = account(69, 10, &[]);
        assert_eq!((lost.missing, lost.balanced), (1, Some(false)));
        assert!(lost.text(true).contains("a loss has no name"));
        // Without ports it is told where packets were lost.
        let without_ports = |account| Counted { ports: vec![], account }.text();
        assert!(without_ports(fine.clone()).starts_with("made by t 5 = dropped by s (too short) 7 + "));
        let none = Account { dropped: vec![], ..fine };
        assert!(without_ports(none.clone()).is_empty());
        assert!(!without_ports(Account { balanced: Some(false), ..none }).is_empty());
    }

    #[test]
    fn elements_that_not_all_is_known_of_are_named() {
        let unknown = account(50, 0, &["r", "x"]);
        assert_eq!((unknown.missing, unknown.balanced), (30, None));
        assert!(unknown.text(true).ends_with("ended by d 15 + not known 30\nnot all is counted of: r, x\n"));
        assert_eq!(account(90, 0, &["r"]).missing, -10);
    }
}
