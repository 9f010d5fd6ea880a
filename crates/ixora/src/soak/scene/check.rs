//! What must hold after a round.

use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

use interface::pcap::Reader;
use testbed::serve::Report;

use super::super::accounts::{self, Program, Rules, Totals};
use super::super::machine::{Footprint, Slack};
use super::super::plan::{End, Limit, Output, Round, SceneKind};
use super::super::process::Process;
use super::super::{Trouble, pause};
use super::Player;

/// What a program says when a signal comes while it waits for a link.
const EARLY: &str = "interrupted before the ports were open";
/// A finding that is no mistake of the driver's here: frames that were in the packet
/// buffer for a full ring when its queue was taken down.
const TAKEN_DOWN: &str = "RedirectionToDisabledQueue";
/// How long threads of a router that was replaced may take to go.
const RETIRED: Duration = Duration::from_secs(10);

impl Player<'_> {
    /// Checks a round whose program has ended.
    pub(super) fn check(
        &mut self,
        round: &Round,
        program: &mut Process,
        before: Option<Totals>,
    ) -> Result<(), Trouble> {
        self.played.failures.extend(status(round, program, self.has_device_faults()));
        let ended_well = program.ended().is_some_and(|status| status.success());
        let counted = self.counted(round, program);
        self.check_files(round, &counted);
        let Some(before) = before else { return Ok(()) };
        let killed = round.end == End::KillModels;
        let Some(models) = &mut self.models else { return Ok(()) };
        if killed {
            return models.restart();
        }
        let report = models.await_departure()?;
        let grown = models.growth();
        self.played.failures.extend(grown);
        self.check_report(&report);
        let moved = Totals::of(&report).since(&before);
        self.played.activity.packets += (moved.delivered + moved.offered - moved.rx_lost).max(0) as u64;
        if ended_well && let Some(counted) = counted.filter(|_| has_accounts(round)) {
            self.check_accounts(round, &moved, &counted);
        }
        Ok(())
    }

    fn has_device_faults(&self) -> bool {
        self.scene.models.as_ref().is_some_and(|models| models.fault.is_some())
    }

    /// What the program counted, if it lived to tell.
    fn counted(&mut self, round: &Round, program: &Process) -> Option<Program> {
        if round.end == End::KillProgram {
            return None;
        }
        if round.command[0] == "click" {
            return Some(Program::of_handlers(&program.output()));
        }
        let counted = Program::of_json(&program.output())?;
        if counted.missing != 0 {
            self.fail(format!("{}: {} buffers did not come back", program.name(), counted.missing));
        }
        if self.scene.models.is_none() {
            self.played.activity.packets += (counted.rx + counted.tx) as u64;
        }
        Some(counted)
    }

    /// Files that the program made, or should have removed.
    fn check_files(&mut self, round: &Round, counted: &Option<Program>) {
        let control = self.path("control");
        if control.exists() {
            if round.end != End::KillProgram {
                self.fail("the router left its control socket");
            }
            let _ = std::fs::remove_file(control);
        }
        let is_capture = round.command[0] == "pcap" && round.output == Output::File;
        let Some(counted) = counted.as_ref().filter(|_| is_capture && round.peer.is_none()) else { return };
        match packets(&self.path("out.pcapng")) {
            Ok(packets) if packets == counted.packets => {}
            Ok(packets) => {
                self.fail(format!("{packets} packets are in the capture, {} were counted", counted.packets))
            }
            Err(error) => self.fail(format!("the capture cannot be read: {error}")),
        }
    }

    fn check_report(&mut self, report: &Report) {
        let mut failures = accounts::unbalanced_wires(report);
        for endpoint in &report.endpoints {
            let device = &endpoint.device;
            // Devices that do what they never should mislead their drivers.
            if !self.has_device_faults() {
                let found = device.findings.iter().filter(|finding| finding.rule != TAKEN_DOWN);
                failures.extend(found.map(|f| {
                    format!("linter: {} {}: {} (section {})", f.rule, f.where_found(), f.sentence, f.section)
                }));
            }
            if endpoint.client_faults > 0 && !self.breaks_protocol {
                let last = endpoint.last_fault.as_deref().unwrap_or_default();
                failures.push(format!("a program broke the models' protocol: {last}"));
            }
        }
        failures.retain(|failure| !self.played.failures.contains(failure));
        self.played.failures.append(&mut failures);
    }

    fn check_accounts(&mut self, round: &Round, moved: &Totals, counted: &Program) {
        if self.has_device_faults() {
            return;
        }
        let models = self.scene.models.as_ref();
        let drained = matches!(round.end, End::Drained(_));
        let in_rings = if drained { 0 } else { round.rx_descriptors as i64 };
        let clean = round.forwards && models.is_some_and(|models| !models.has_wire_faults());
        let ordered = round.ordered && self.scene.kind != SceneKind::Router;
        let rules = Rules { in_rings, forwards: round.forwards, clean, ordered };
        let errors = accounts::errors(moved, counted, rules);
        self.played.failures.extend(errors);
        self.played.activity.accounts += 1;
    }

    /// A router that has replaced its configuration some times holds no more than
    /// after the first time.
    pub(super) fn check_swapped(&mut self, before: &Footprint, program: &Process) -> Result<(), Trouble> {
        let end = Instant::now() + RETIRED;
        loop {
            let grown = Footprint::of(program.id()).and_then(|now| now.grown_from(before, Slack::POOLS));
            let Some(grown) = grown else { return Ok(()) };
            if Instant::now() >= end {
                self.fail(format!("the router, after some swaps: {grown}"));
                return Ok(());
            }
            super::check_interrupt()?;
            pause(Duration::from_millis(50));
        }
    }
}

/// Whether a round ends so that its accounts must balance.
fn has_accounts(round: &Round) -> bool {
    let ends = matches!(round.end, End::Drained(_) | End::Signal(_) | End::Itself);
    ends && round.limit.is_none() && round.command[0] != "demo"
}

/// What is wrong with how a program ended, in words.
fn status(round: &Round, program: &mut Process, faults: bool) -> Vec<String> {
    let Some(status) = program.ended() else { return vec![program.condition()] };
    let errors = program.errors();
    let mut wrong = Vec::new();
    if errors.contains("panicked at") || program.output().contains("panicked at") {
        wrong.push(format!("a panic; {}", program.condition()));
    }
    let names_cause = status.code() == Some(1) && errors.contains("error: ");
    // What allocates little by little has no other way to say so.
    let out_of_memory =
        matches!(round.limit, Some(Limit::Memory(_))) && errors.contains("memory allocation of");
    // The shell cannot start it at all, or the dynamic linker cannot load it.
    let unstarted = round.limit.is_some() && matches!(status.code(), Some(126 | 127));
    let fine = match &round.end {
        End::KillProgram => status.signal() == Some(9) || faults && names_cause,
        End::KillModels => names_cause,
        // A broken device may end it before that.
        End::Error(text) => names_cause && (faults || errors.contains(text.as_str())),
        End::Itself | End::Signal(_) | End::Drained(_) => {
            let early = names_cause && errors.contains(EARLY) && round.end != End::Itself;
            status.success()
                || early
                || (faults || round.limit.is_some()) && names_cause
                || out_of_memory
                || unstarted
        }
    };
    if !fine {
        wrong.push(format!("after {:?}: {}", round.end, program.condition()));
    }
    wrong
}

/// Packets in a capture.
fn packets(path: &std::path::Path) -> Result<i64, String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    let mut reader = Reader::new(file).map_err(|error| error.to_string())?;
    let mut count = 0;
    while reader.next().map_err(|error| error.to_string())?.is_some() {
        count += 1;
    }
    Ok(count)
}
