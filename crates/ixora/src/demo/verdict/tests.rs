//! Verdicts on made-up accounts.

use std::time::Duration;

use port::{RxStats, TxStats};
use runtime::PollerStats;
use testbed::wire::CheckStats;
use testbed::{Finding, FindingPlace};

use super::*;
use crate::demo::samples::Sample;

/// A run of 40 samples, each direction alike.
struct Run {
    report: Report,
    pollers: [PollerStats; 2],
    samples: Samples,
    missing_buffers: u64,
    unlimited: bool,
    interrupted: bool,
}

impl Run {
    /// `offered` and `delivered` grow evenly; the difference is lost in the NIC.
    fn new(offered: u64, delivered: u64) -> Run {
        let mut endpoint = EndpointReport::default();
        endpoint.device.wire.check = Some(CheckStats::default());
        let poller =
            PollerStats { rx: vec![RxStats::default()], tx: vec![TxStats::default()], retries: false };
        let report = Report { elapsed_ms: 1000, endpoints: vec![endpoint; 2] };
        let samples = Samples::default();
        let mut run = Run {
            report,
            pollers: [poller.clone(), poller],
            samples,
            missing_buffers: 0,
            unlimited: false,
            interrupted: false,
        };
        run.set(0, offered, delivered);
        run.set(1, offered, delivered);
        run.sample(|_, part| part);
        run
    }

    fn set(&mut self, n: usize, offered: u64, delivered: u64) {
        self.report.endpoints[n].device.wire.to_host.offered = offered;
        self.report.endpoints[n].device.drops.insert("rx_fifo_full".to_owned(), offered - delivered);
        self.report.endpoints[1 - n].device.wire.from_host.delivered = delivered;
    }

    /// Samples; `delivered` gives for a direction, of all that was delivered, the part
    /// by then.
    fn sample(&mut self, delivered: impl Fn(usize, f64) -> f64) {
        self.samples.running = (0..=40_u32)
            .map(|time| {
                let part = f64::from(time) / 40.0;
                let mut sample = self.at(part);
                for n in 0..2 {
                    sample.accounts[n].offered = (sample.accounts[n].offered as f64 * part) as u64;
                    let all = sample.accounts[n].delivered as f64;
                    sample.accounts[n].delivered = (all * delivered(n, part)) as u64;
                }
                sample
            })
            .collect();
        self.samples.rest = Some(self.at(1.0));
    }

    fn at(&self, part: f64) -> Sample {
        let mut sample = Sample::new(Duration::from_secs_f64(part), (part * 1e6) as u64, &self.report);
        sample.as_mut().expect("two devices").steps = [(part * 1e5) as u64; 2];
        sample.expect("two devices")
    }

    fn reasons(&self) -> Vec<Reason> {
        let accounts = Accounts::new(&self.pollers, &self.report).expect("two directions");
        let verdict = Verdict::new(&Evidence {
            accounts: &accounts,
            samples: &self.samples,
            report: &self.report,
            missing_buffers: self.missing_buffers,
            ring: 512,
            unlimited: self.unlimited,
            interrupted: self.interrupted,
        });
        assert_eq!(verdict.passed, verdict.reasons.is_empty());
        verdict.reasons
    }

    /// What was seen, all of which must say one of `words`, and each word once at least.
    #[track_caller]
    fn fails_for(&self, words: &[&str]) {
        let reasons = self.reasons();
        assert!(!reasons.is_empty(), "it passed; expected {words:?}");
        for reason in &reasons {
            assert!(words.iter().any(|word| reason.seen.contains(word)), "{reason:?} is none of {words:?}");
            assert!(reason.look_at.len() > 10, "{reason:?}");
        }
        for word in words {
            assert!(reasons.iter().any(|reason| reason.seen.contains(word)), "no {word:?} in {reasons:#?}");
        }
    }
}

#[test]
fn a_forwarder_that_works_passes() {
    // At its rate, at a hundred times its rate, and at few packets.
    for (offered, delivered) in [(1_000_000, 1_000_000), (10_000_000, 100_000), (100, 100), (1, 1)] {
        assert_eq!(Run::new(offered, delivered).reasons(), [], "{delivered} of {offered}");
    }
    let mut unlimited = Run::new(3_000_000, 3_000_000);
    unlimited.unlimited = true;
    assert_eq!(unlimited.reasons(), []);
}

#[test]
fn a_dead_driver_fails_at_any_rate() {
    let mut dead = Run::new(7_000_000, 511);
    dead.sample(|_, part| f64::from(part > 0.0));
    dead.fails_for(&["a to b: 511 frames", "b to a: 511 frames", "no frame was delivered"]);
    // Where the generators offer no more than is taken, nothing is lost.
    let mut unlimited = Run::new(511, 511);
    unlimited.unlimited = true;
    unlimited.sample(|_, part| f64::from(part > 0.0));
    unlimited.fails_for(&["a to b: 511 frames", "b to a: 511 frames", "no frame was delivered"]);
    // At a low rate it is no small share, but it ends.
    let mut slow = Run::new(1_000, 511);
    slow.sample(|_, part| (part * 2.0).min(1.0));
    slow.fails_for(&["no frame was delivered"]);
}

#[test]
fn a_driver_that_stalls_half_way_fails() {
    for unlimited in [false, true] {
        let mut run = Run::new(2_000_000, 1_000_000);
        run.unlimited = unlimited;
        run.sample(|_, part| (part * 2.0).min(1.0));
        run.fails_for(&["from 0.50 s to 1.00 s"]);
        // And one that goes on later.
        run.sample(|_, part| if part < 0.5 { part } else { part.max(0.8).mul_add(2.5, -1.5).max(0.5) });
        run.fails_for(&["from 0.50 s to 0.80 s"]);
    }
}

#[test]
fn a_direction_that_is_dead_fails_alone() {
    let mut run = Run::new(2_000_000, 1_000_000);
    run.set(1, 2_000_000, 0);
    run.sample(|_, part| part);
    run.fails_for(&["b to a: no frame was delivered of 2000000"]);
    run.interrupted = true;
    run.fails_for(&["b to a"]);
}

#[test]
fn a_run_that_never_began_passes_only_when_it_was_interrupted() {
    let mut run = Run::new(0, 0);
    run.samples.running.truncate(1);
    run.fails_for(&["a to b: no frame was delivered", "b to a: no frame was delivered"]);
    run.interrupted = true;
    assert_eq!(run.reasons(), []);
}

#[test]
fn a_process_without_a_core_is_no_stall() {
    let mut run = Run::new(2_000_000, 1_000_000);
    let idle = |run: &mut Run, change: &dyn Fn(&mut Sample)| {
        run.sample(|_, part| (part * 2.0).min(1.0));
        run.samples.running.iter_mut().skip(21).for_each(change);
    };
    idle(&mut run, &|sample| sample.turns = 500_000);
    assert_eq!(run.reasons(), [], "the driver did not run");
    idle(&mut run, &|sample| sample.steps[1] = 50_000);
    assert_eq!(run.reasons(), [], "a device did not run");
}

#[test]
fn a_generator_that_offers_nothing_makes_no_stall() {
    let mut run = Run::new(20, 20);
    // One frame at a time, with pauses between them.
    run.sample(|_, part| (part * 4.0).floor() / 4.0);
    for sample in &mut run.samples.running {
        sample.accounts.iter_mut().for_each(|account| account.offered = account.delivered);
    }
    assert_eq!(run.reasons(), []);
}

#[test]
fn only_some_losses_are_those_of_a_working_forwarder() {
    let others = ["rx_link_down", "rx_filtered_mac", "rx_crc", "rx_disabled", "rx_reset"];
    for name in ["rx_no_descriptor", "rx_no_buffer"].into_iter().chain(others) {
        let mut run = Run::new(1_000_000, 999_999);
        let drops = &mut run.report.endpoints[0].device.drops;
        drops.clear();
        drops.insert(name.to_owned(), 1);
        match name {
            "rx_no_descriptor" | "rx_no_buffer" => assert_eq!(run.reasons(), []),
            _ => run.fails_for(&[&format!("a to b: 1 frames were lost as {name}")]),
        }
    }
    let mut run = Run::new(1_000_000, 999_000);
    run.report.endpoints[0].device.drops.insert("rx_fifo_full".to_owned(), 0);
    run.report.endpoints[1].device.drops.insert("tx_oversize".to_owned(), 1_000);
    run.fails_for(&["a to b: 1000 frames were lost as tx_oversize"]);
}

#[test]
fn what_the_driver_counts_as_bad_fails_and_a_full_ring_does_not() {
    let mut run = Run::new(1_000_000, 1_000_000);
    run.report.endpoints[0].device.wire.to_host.offered += 6;
    let tx = &mut run.pollers[0].tx[0];
    tx.ring_full = 6;
    assert_eq!(run.reasons(), []);
    (tx_of(&mut run).ring_full, tx_of(&mut run).unsendable) = (5, 1);
    run.fails_for(&["a to b: 1 frames were lost as tx_unsendable"]);
    tx_of(&mut run).unsendable = 0;
    run.pollers[0].rx[0].bad_descriptor = 1;
    run.fails_for(&["a to b: 1 frames were lost as rx_bad_descriptor"]);
}

fn tx_of(run: &mut Run) -> &mut TxStats {
    &mut run.pollers[0].tx[0]
}

#[test]
fn packets_that_vanish_or_multiply_fail() {
    let mut run = Run::new(1_000_000, 1_000_000);
    run.report.endpoints[0].device.wire.to_host.offered += 1;
    run.fails_for(&["a to b: 1000001 frames were offered, but 1000000 are accounted for"]);
}

#[test]
fn frames_that_wait_at_the_end_fail() {
    let mut run = Run::new(1_000_000, 999_000);
    let drops = &mut run.report.endpoints[0].device.drops;
    drops.clear();
    drops.insert("rx_reset".to_owned(), 1_000);
    run.samples.rest.as_mut().expect("a sample").accounts[0].waiting = 1_000;
    run.fails_for(&["a to b: 1000 frames wait in the NIC"]);
}

#[test]
fn what_the_sink_finds_wrong_fails() {
    type Field = fn(&mut CheckStats) -> &mut u64;
    let fields: [(Field, &str); 5] = [
        (|check| &mut check.corrupt, "corrupt"),
        (|check| &mut check.duplicated, "duplicated"),
        (|check| &mut check.reordered, "out of order"),
        (|check| &mut check.late, "out of order"),
        (|check| &mut check.foreign, "none that was offered"),
    ];
    for (field, word) in fields {
        let mut run = Run::new(1_000_000, 1_000_000);
        *field(run.report.endpoints[1].device.wire.check.as_mut().expect("checked")) = 3;
        run.fails_for(&[&format!("a to b: 3 frames that arrived were {word}")]);
    }
}

#[test]
fn what_is_left_after_closing_fails() {
    let mut run = Run::new(1_000_000, 1_000_000);
    run.missing_buffers = 2;
    run.fails_for(&["2 buffers did not come back"]);
    let mut run = Run::new(1_000_000, 1_000_000);
    run.report.endpoints[1].left_mapped = (1, 4096);
    run.fails_for(&["left 1 ranges (4096 bytes) mapped"]);
    let mut run = Run::new(1_000_000, 1_000_000);
    run.report.endpoints[0].attached = true;
    run.fails_for(&["still attached"]);
    let mut run = Run::new(1_000_000, 1_000_000);
    run.report.endpoints[0].client_faults = 1;
    run.fails_for(&["broke the vfio-user protocol"]);
}

#[test]
fn findings_fail_by_rule_and_notices_do_not() {
    let finding = |rule: &str, severity: &str| Finding {
        rule: rule.to_owned(),
        severity: severity.to_owned(),
        section: "4.6.3.2".to_owned(),
        sentence: "A register was accessed too early.".to_owned(),
        consequence: String::new(),
        count: 2,
        places: vec![FindingPlace { register: "CTRL (0x00000)".to_owned(), value: 0, count: 2 }],
        unlisted: 0,
    };
    let mut run = Run::new(1_000_000, 1_000_000);
    run.report.endpoints[0].device.findings.push(finding("Odd", "notice"));
    assert_eq!(run.reasons(), []);
    for severity in ["warning", "error"] {
        run.report.endpoints[0].device.findings = vec![finding("ResetNotWaited", severity)];
        run.fails_for(&[&format!("{severity} ResetNotWaited 2 times at CTRL (0x00000)")]);
    }
    let reasons = run.reasons();
    assert!(reasons[0].look_at.contains("datasheet 4.6.3.2"));
}
