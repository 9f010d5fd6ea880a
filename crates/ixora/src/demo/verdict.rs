//! Whether the forwarder did its work: that every packet is accounted for is not
//! enough, for one that takes no packets accounts for them, too.

mod losses;

use serde::Serialize;
use testbed::serve::{EndpointReport, Report};

use super::accounts::{Account, Accounts};
use super::samples::{ENOUGH, Samples, Stall};

/// As many rings of frames are delivered each way in a run that is not very short;
/// a driver that uses its rings once delivers less than one.
const RINGS: u64 = 4;
/// One in so many offered frames is delivered however fast they come: on one core
/// the generators offer some 30,000 before the driver runs again, and a driver with
/// the smallest ring, 64, takes them out of that.
const SHARE: u64 = 2_000;

/// What there is to judge by.
pub struct Evidence<'a> {
    pub accounts: &'a Accounts,
    pub samples: &'a Samples,
    /// Taken when the ports were closed.
    pub report: &'a Report,
    pub missing_buffers: u64,
    /// Frames that one ring holds.
    pub ring: u64,
    /// The generators have no rate: they offer what the NIC takes.
    pub unlimited: bool,
    /// By a signal: the run need not have begun.
    pub interrupted: bool,
}

/// One reason why a forwarder does not pass.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reason {
    /// What was seen.
    pub seen: String,
    /// What to look at.
    pub look_at: String,
}

/// Whether the forwarder passes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    pub passed: bool,
    /// All reasons why it does not pass; none if it does.
    pub reasons: Vec<Reason>,
    /// Too short a run, or too busy a machine, to tell whether delivery goes on.
    pub too_short: bool,
}

impl Verdict {
    pub fn new(evidence: &Evidence<'_>) -> Verdict {
        let mut reasons = Reasons::default();
        for n in 0..2 {
            evidence.accounts(n, &mut reasons);
            evidence.delivery(n, &mut reasons);
            evidence.sink(n, &mut reasons);
        }
        evidence.closing(&mut reasons);
        evidence.report.endpoints.iter().for_each(|endpoint| findings(endpoint, &mut reasons));
        let Reasons(reasons) = reasons;
        let too_short = evidence.samples.busy() < ENOUGH;
        Verdict { passed: reasons.is_empty(), reasons, too_short }
    }

    /// Prints the verdict, with its reasons and where to look.
    pub fn print(&self) {
        println!("\nverdict: {}", if self.passed { "passed" } else { "FAILED" });
        for reason in &self.reasons {
            println!("  {}", reason.seen);
            println!("    look at: {}", reason.look_at);
        }
        if self.too_short {
            println!(
                "  too few samples in which both sides ran to tell whether delivery goes on: try a longer --duration"
            );
        }
    }
}

#[derive(Default)]
struct Reasons(Vec<Reason>);

impl Reasons {
    fn add(&mut self, seen: String, look_at: &str) {
        self.0.push(Reason { seen, look_at: look_at.to_owned() });
    }
}

impl Evidence<'_> {
    /// Every packet is accounted for, and lost only as a working forwarder loses.
    fn accounts(&self, n: usize, reasons: &mut Reasons) {
        let (name, account) = self.direction(n);
        let waiting = self.samples.rest.as_ref().map_or(0, |rest| rest.accounts[n].waiting);
        if !account.balanced {
            let seen = format!(
                "{name}: {} frames were offered, but {} are accounted for",
                account.offered,
                account.accounted()
            );
            reasons.add(seen, "packets dropped without being counted, sent twice, or never sent");
        }
        if waiting > 0 {
            let seen = format!("{name}: {waiting} frames wait in the NIC, and nobody fetches them");
            reasons.add(seen, losses::STALLED);
        }
        // Those that wait are lost when the device is reset: said already.
        let lost = account.lost.iter().filter(|(name, _)| waiting == 0 || *name != "rx_reset");
        for (loss, count) in lost.filter(|(loss, _)| !losses::is_working(loss)) {
            let seen =
                format!("{name}: {count} frames were lost as {loss}: a working forwarder loses none so");
            reasons.add(seen, losses::look_at(loss));
        }
    }

    /// Enough is delivered, until the end.
    fn delivery(&self, n: usize, reasons: &mut Reasons) {
        let (name, account) = self.direction(n);
        let (offered, delivered) = (account.offered, account.delivered);
        if delivered == 0 && !self.interrupted {
            let seen = format!("{name}: no frame was delivered of {offered} that were offered");
            return reasons.add(seen, losses::STALLED);
        }
        let least = self.least(offered);
        if delivered < least {
            let seen = format!(
                "{name}: {delivered} frames were delivered of {offered} that were offered: a working forwarder delivers {least} at least"
            );
            reasons.add(seen, losses::STALLED);
        }
        if let Some(Stall { from, to, turns, steps }) = self.samples.stall(n, self.unlimited) {
            let (from, to) = (from.as_secs_f64(), to.as_secs_f64());
            let seen = format!(
                "{name}: from {from:.2} s to {to:.2} s no frame was delivered, in {turns} turns of the driver and {steps} steps of the device"
            );
            reasons.add(seen, losses::STALLED);
        }
    }

    /// What a working forwarder delivers at least. The shorter the run, the less: as
    /// many rings as both sides had turns to use up and fill again. With a rate, no
    /// more than half of what was offered.
    fn least(&self, offered: u64) -> u64 {
        let turns = (self.samples.busy() / ENOUGH) as u64;
        let rings = turns.min(RINGS) * self.ring;
        let rings = if self.unlimited { rings } else { rings.min(offered / 2) };
        rings.max(offered / SHARE)
    }

    /// What arrived is what was sent, once and in order.
    fn sink(&self, n: usize, reasons: &mut Reasons) {
        let (name, _) = self.direction(n);
        let Some(check) = self.report.endpoints.get(1 - n).and_then(|it| it.device.wire.check.as_ref())
        else {
            return;
        };
        let wrong = [
            ("corrupt", check.corrupt, "the buffer and length of each descriptor, and who writes to it when"),
            ("duplicated", check.duplicated, "descriptors given to the device twice, or read twice"),
            (
                "out of order",
                check.reordered + check.late,
                "the order in which descriptors are read and filled",
            ),
            ("none that was offered", check.foreign, "descriptors read before the device has written them"),
        ];
        for (what, count, look_at) in wrong.into_iter().filter(|(_, count, _)| *count > 0) {
            reasons.add(format!("{name}: {count} frames that arrived were {what}"), look_at);
        }
    }

    /// What is left when the ports are closed: nothing.
    fn closing(&self, reasons: &mut Reasons) {
        if self.missing_buffers > 0 {
            let seen = format!("{} buffers did not come back to their pool", self.missing_buffers);
            reasons.add(seen, "buffers of the rings when a queue is dropped, and of refused packets");
        }
        for EndpointReport { socket, attached, client_faults, last_fault, left_mapped, .. } in
            &self.report.endpoints
        {
            let (ranges, bytes) = left_mapped;
            if *attached {
                let seen = format!("{socket}: the driver is still attached after its port was closed");
                reasons.add(seen, "what keeps the device open: leaked rings, clones of it in other places");
            }
            if *ranges > 0 {
                let seen = format!("{socket}: the driver left {ranges} ranges ({bytes} bytes) mapped");
                reasons.add(seen, "whether memory is unmapped for a device before it is let go of");
            }
            if *client_faults > 0 {
                let fault = last_fault.as_deref().unwrap_or("unknown");
                let seen = format!("{socket}: the driver broke the vfio-user protocol: {fault}");
                reasons.add(seen, "the bus's side of vfio-user");
            }
        }
    }

    fn direction(&self, n: usize) -> (&str, &Account) {
        let direction = &self.accounts.directions[n];
        (direction.name, &direction.account)
    }
}

/// What the linter found at a device; notices are no reason.
fn findings(endpoint: &EndpointReport, reasons: &mut Reasons) {
    for finding in endpoint.device.findings.iter().filter(|finding| finding.severity != "notice") {
        let (rule, severity) = (&finding.rule, &finding.severity);
        let seen = format!("{}: the linter's {severity} {rule} {}", endpoint.socket, finding.where_found());
        reasons.add(seen, &format!("datasheet {}: {}", finding.section, finding.sentence));
    }
}

#[cfg(test)]
mod tests;
