//! What came of a machine, for people and as JSON: valid, too, when it failed.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use lab::rig::load::Seen;
use serde::Serialize;
use serde_json::Value;

use super::arguments::Speed;
use super::problem::Problem;
use crate::Failure;

/// Findings of the linter that people see.
const SHOWN: usize = 5;

/// One way that frames went, or one question that was asked.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Row {
    pub name: &'static str,
    /// Frames given to whoever had to bring them.
    pub offered: u64,
    /// Came as they should, in order.
    pub back: u64,
    /// Came with other bytes or another length.
    pub changed: u64,
    /// Came after a later one.
    pub reordered: u64,
    /// Came more than once.
    pub repeated: u64,
    /// Frames that never came.
    pub lost: u64,
    /// From the first to the last.
    pub seconds: f64,
    /// Millions that came, per second.
    pub mpps: f64,
}

impl Row {
    /// From what a load saw.
    pub fn new(name: &'static str, seen: &Seen) -> Row {
        let row = Row {
            name,
            offered: seen.offered.into(),
            back: seen.back.into(),
            changed: seen.changed.into(),
            reordered: seen.overtaken.into(),
            repeated: seen.repeated.into(),
            lost: seen.lost().into(),
            ..Row::default()
        };
        row.over(seen.elapsed)
    }

    /// With its time and its rate.
    pub fn over(self, elapsed: Duration) -> Row {
        let seconds = elapsed.as_secs_f64();
        let mpps = if seconds > 0.0 { self.back as f64 / seconds / 1e6 } else { 0.0 };
        Row { seconds, mpps, ..self }
    }

    /// Whether something came that should not have come like that.
    fn is_wrong(&self) -> bool {
        self.changed + self.reordered + self.repeated > 0
    }
}

/// All that came of a machine.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    pub command: &'static str,
    pub ok: bool,
    pub nic: &'static str,
    /// How the driver gets at the NICs.
    pub access: &'static str,
    /// From power on to the guest's script.
    pub boot_seconds: Option<f64>,
    /// From power on to the program at work.
    pub ready_seconds: Option<f64>,
    pub directions: Vec<Row>,
    /// Frames that were lost under a name: the program's and the device's.
    pub losses: BTreeMap<String, u64>,
    /// Frames that were lost without one.
    pub unexplained: i64,
    /// What is no failure, but should be known.
    pub notes: Vec<String>,
    /// What the linter of our models found in the driver.
    pub findings: Vec<String>,
    /// The program's own statistics.
    pub guest: Option<Value>,
    /// Where the capture is.
    pub file: Option<PathBuf>,
    /// Where the console's log stays.
    pub console: Option<PathBuf>,
    pub error: Option<String>,
    pub fix: Option<String>,
}

impl Report {
    /// Adds the losses that the guest and the models named, and what is left.
    pub fn explain(&mut self, guest: Option<&Value>, models: Option<&Value>) {
        let counted = guest.and_then(|guest| guest["losses"].as_object()).into_iter().flatten();
        for (name, count) in counted {
            // A model says better what the device lost: the driver reads the same counters.
            if models.is_none() || runtime::LOSSES.iter().any(|reason| reason.name() == name) {
                self.lose(name, count);
            }
        }
        let endpoints = models.and_then(|models| models["endpoints"].as_array()).into_iter().flatten();
        for endpoint in endpoints {
            let (device, wire) = (&endpoint["device"], &endpoint["device"]["wire"]);
            for named in [&device["drops"], &wire["to_host"]["lost"], &wire["from_host"]["lost"]] {
                named.as_object().into_iter().flatten().for_each(|(name, count)| self.lose(name, count));
            }
        }
        self.guest = guest.cloned();
        self.balance();
    }

    /// What was lost, less what has a name.
    pub fn balance(&mut self) {
        let lost: u64 = self.directions.iter().map(|row| row.lost).sum();
        self.unexplained = lost as i64 - self.losses.values().sum::<u64>() as i64;
    }

    fn lose(&mut self, name: &str, count: &Value) {
        match count.as_u64() {
            None | Some(0) => {}
            Some(count) => *self.losses.entry(name.to_owned()).or_default() += count,
        }
    }

    /// Notes a rate that was asked for and not reached.
    pub fn compare(&mut self, speed: Speed) {
        let Speed::Rate(asked) = speed else { return };
        for row in &self.directions {
            let reached = row.offered as f64 / row.seconds.max(f64::MIN_POSITIVE);
            if row.seconds > 0.0 && reached < 0.9 * asked {
                let name = row.name;
                self.notes
                    .push(format!("{name}: {asked:.0} frames/s were asked for, {reached:.0} were taken"));
            }
        }
    }

    /// Below saturation nothing may be lost; above it, nothing without a name.
    pub fn verdict(&self, saturated: bool) -> Result<(), Problem> {
        let sum = |of: fn(&Row) -> u64| self.directions.iter().map(of).sum::<u64>();
        let (offered, lost) = (sum(|row| row.offered), sum(|row| row.lost));
        let mut wrong = Vec::new();
        if self.directions.iter().any(Row::is_wrong) {
            let counts = [
                (sum(|row| row.changed), "changed"),
                (sum(|row| row.reordered), "out of order"),
                (sum(|row| row.repeated), "repeated"),
            ];
            wrong.extend(counts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")));
        }
        if lost > 0 && (!saturated || self.unexplained != 0) {
            wrong.push(format!("{lost} lost, {} of them without a name", self.unexplained));
        }
        if let Some(idle) = self.directions.iter().find(|row| row.back == 0) {
            wrong.push(format!("nothing came back: {}", idle.name));
        }
        match wrong.is_empty() {
            true => Ok(()),
            false => Err(Problem::new(format!("of {offered} frames: {}", wrong.join(", ")))),
        }
    }

    /// Prints it and becomes the command's result.
    pub fn end(mut self, done: Result<(), Problem>, json: bool) -> Result<(), Failure> {
        self.ok = done.is_ok();
        if let Err(problem) = &done {
            (self.error, self.fix) = (Some(problem.cause.clone()), problem.fix.clone());
        }
        match json {
            true => {
                // Our own types serialise; a closed pipe is the reader's choice.
                let _ = serde_json::to_writer_pretty(std::io::stdout().lock(), &self);
                println!();
            }
            false => self.print(),
        }
        done.map_err(Failure::from)
    }

    fn print(&self) {
        if self.directions.is_empty() {
            return;
        }
        let column = |text: &str| format!("{text:>16}");
        let names: String = self.directions.iter().map(|row| column(row.name)).collect();
        println!("{:<20}{names}", "frames");
        let line = |what: &str, of: &dyn Fn(&Row) -> String| {
            let numbers: String = self.directions.iter().map(|row| column(&of(row))).collect();
            println!("  {what:<18}{numbers}");
        };
        line("offered", &|row| row.offered.to_string());
        line("back, in order", &|row| row.back.to_string());
        line("changed", &|row| row.changed.to_string());
        line("out of order", &|row| row.reordered.to_string());
        line("repeated", &|row| row.repeated.to_string());
        line("lost", &|row| row.lost.to_string());
        line("Mpps", &|row| format!("{:.4}", row.mpps));
        for (name, count) in &self.losses {
            println!("lost  {name:<16} {count}");
        }
        if self.unexplained != 0 {
            println!("lost without a name    {}", self.unexplained);
        }
        self.print_guest();
        self.notes.iter().for_each(|note| println!("note: {note}"));
        self.findings.iter().take(SHOWN).for_each(|finding| println!("linter: {finding}"));
        if self.findings.len() > SHOWN {
            println!("linter: and {} more, which --json shows", self.findings.len() - SHOWN);
        }
        if let (Some(boot), Some(ready)) = (self.boot_seconds, self.ready_seconds) {
            println!("booted in {boot:.1} s, at work after {ready:.1} s");
        }
        for (what, path) in [("capture", &self.file), ("console", &self.console)] {
            path.iter().for_each(|path| println!("{what}: {}", path.display()));
        }
    }

    fn print_guest(&self) {
        let Some(guest) = &self.guest else { return };
        let number = |key: &str| guest[key].as_f64().unwrap_or_default();
        println!(
            "in the machine: received {} packets, sent {}; {:.0} TSC cycles/packet, batch fill {:.1}",
            number("rx_packets"),
            number("tx_packets"),
            number("cycles_per_packet"),
            number("batch_fill")
        );
        for port in guest["ports"].as_array().into_iter().flatten() {
            let word = |key: &str| port[key].as_str().unwrap_or("?").to_owned();
            println!("  {} ({}, {}, link {})", word("name"), word("driver"), word("mac"), word("link"));
        }
        for (name, count) in guest["notes"].as_object().into_iter().flatten() {
            println!("  note  {name:<16} {count}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn row(offered: u32, back: u32, changed: u32) -> Row {
        let elapsed = Duration::from_secs(2);
        Row::new("a to b", &Seen { offered, back, changed, elapsed, ..Seen::default() })
    }

    fn report(rows: &[Row]) -> Report {
        Report { directions: rows.to_vec(), ..Report::default() }
    }

    #[test]
    fn below_saturation_every_frame_is_owed() {
        assert_eq!(report(&[row(10, 10, 0), row(10, 10, 0)]).verdict(false), Ok(()));
        let mut lossy = report(&[row(10, 10, 0), row(10, 8, 0)]);
        lossy.explain(Some(&json!({ "losses": { "tx_ring_full": 2 } })), None);
        assert_eq!(lossy.unexplained, 0);
        let said = lossy.verdict(false).expect_err("lost").cause;
        assert_eq!(said, "of 20 frames: 2 lost, 0 of them without a name");
        assert_eq!(lossy.verdict(true), Ok(()), "above it, a name is enough");
    }

    #[test]
    fn a_loss_without_a_name_and_a_changed_frame_are_never_right() {
        let mut nameless = report(&[row(10, 8, 0)]);
        nameless.explain(Some(&json!({ "losses": { "tx_ring_full": 1 } })), None);
        assert_eq!(nameless.unexplained, 1);
        assert!(nameless.verdict(true).is_err());
        assert!(report(&[row(10, 9, 1)]).verdict(true).expect_err("changed").cause.contains("1 changed"));
        assert!(report(&[row(0, 0, 0)]).verdict(true).is_err(), "nothing moved at all");
    }

    #[test]
    fn with_models_the_devices_losses_are_counted_once() {
        let guest = json!({ "losses": { "tx_ring_full": 1, "rx_fifo_full": 5 } });
        let lost = |count| json!({ "lost": { "peer too slow": count } });
        let device =
            json!({ "drops": { "rx_fifo_full": 5 }, "wire": { "to_host": lost(0), "from_host": lost(2) } });
        let mut counted = report(&[row(20, 12, 0)]);
        counted.explain(Some(&guest), Some(&json!({ "endpoints": [{ "device": device }] })));
        let names: Vec<&str> = counted.losses.keys().map(String::as_str).collect();
        assert_eq!((names, counted.unexplained), (vec!["peer too slow", "rx_fifo_full", "tx_ring_full"], 0));
    }

    #[test]
    fn a_rate_that_was_not_reached_is_told() {
        let mut slow = report(&[row(10, 10, 0)]);
        slow.compare(Speed::Rate(5.0));
        assert!(slow.notes.is_empty());
        slow.compare(Speed::Rate(100.0));
        assert_eq!(slow.notes, ["a to b: 100 frames/s were asked for, 5 were taken"]);
    }
}
