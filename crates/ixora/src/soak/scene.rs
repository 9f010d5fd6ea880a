//! Playing a scene: models, and a program on them, round by round.

mod check;

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process;

use super::accounts::Totals;
use super::disturb::{self, Control, Impostor};
use super::machine::Footprint;
use super::models::Models;
use super::plan::{End, Output, Round, Scene, Signal, Step, Who};
use super::process::Process;
use super::report::Activity;
use super::{Trouble, check_interrupt, pause};

/// How long a program may take to be at work, and to end when it was told to.
const LIMIT: Duration = Duration::from_secs(30);
/// How long it may take to see that its models are gone.
const PROMPT: Duration = Duration::from_secs(10);
/// Bytes of a capture that the reader of a FIFO takes.
const SIP: usize = 1000;

/// How a scene came out.
#[derive(Debug, Default)]
pub struct Played {
    /// What was done and moved.
    pub activity: Activity,
    /// Checks that failed, in words.
    pub failures: Vec<String>,
    /// Whether a signal, such as that of Ctrl-C, ended it early.
    pub interrupted: bool,
}

/// A scene that plays.
struct Player<'a> {
    scene: &'a Scene,
    /// Where sockets and files are.
    place: &'a Path,
    logs: &'a Path,
    models: Option<Models>,
    played: Played,
    /// Clients that broke the protocol may have been seen.
    breaks_protocol: bool,
}

/// Plays a scene. Files are made in `place`, logs in `logs`; both are there.
pub fn play(scene: &Scene, place: &Path, logs: &Path) -> Played {
    let mut player =
        Player { scene, place, logs, models: None, played: Played::default(), breaks_protocol: false };
    match player.all() {
        Ok(()) => {}
        Err(Trouble::Interrupted) => player.played.interrupted = true,
        Err(Trouble::Failed(why)) => player.played.failures.push(why),
    }
    let Player { played, models, .. } = player;
    drop(models);
    // What a killed process could not remove, and what is ours.
    for name in ["s0", "s1", "s2", "s3", "out.pcapng", "control", "peer"] {
        let _ = std::fs::remove_file(place.join(name));
    }
    played
}

impl Player<'_> {
    fn all(&mut self) -> Result<(), Trouble> {
        if let Some(plan) = &self.scene.models {
            self.models = Some(Models::start(plan, self.place, self.logs)?);
        }
        for (n, round) in self.scene.rounds.iter().enumerate() {
            check_interrupt()?;
            self.round(n, round)?;
        }
        let Some(models) = &mut self.models else { return Ok(()) };
        for endpoint in models.report()?.endpoints {
            self.played.activity.add_faults(&endpoint.device.faults);
            self.played.activity.add_faults(&endpoint.device.wire.faults);
        }
        models.end()
    }

    fn fail(&mut self, why: impl Into<String>) {
        self.played.failures.push(why.into());
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.join(name)
    }

    fn round(&mut self, n: usize, round: &Round) -> Result<(), Trouble> {
        let before = match &mut self.models {
            Some(models) => Some(Totals::of(&models.await_departure()?)),
            None => None,
        };
        let impostor = round.peer.map(|peer| Impostor::new(&self.path("peer"), peer)).transpose()?;
        let fifo = (round.output == Output::Fifo).then(|| fifo(&self.path("out.pcapng"))).transpose()?;
        let words: Vec<String> = round.command.iter().map(|word| self.filled_in(word, round)).collect();
        let name = format!("{}-{n}", round.command[0]);
        let mut program = Process::start(&name, &words, round.limit, self.place, self.logs, false)?;
        self.played.activity.programs += 1;
        if let Some(mut impostor) = impostor {
            impostor.serve(&mut program, LIMIT);
            self.played.activity.bad_peers += 1;
        }
        self.begin(round, &mut program, before.as_ref())?;
        self.steps(round, &mut program)?;
        self.end(round, &mut program, fifo)?;
        self.check(round, &mut program, before)?;
        for name in ["out.pcapng", "peer"] {
            let _ = std::fs::remove_file(self.path(name));
        }
        Ok(())
    }

    /// A word of a command line or of a configuration, with paths in place of their
    /// names.
    fn filled_in(&self, word: &str, round: &Round) -> String {
        let mut word = word.to_owned();
        if let Some(models) = &self.models {
            for (name, socket) in ["@A", "@B", "@C", "@D"].into_iter().zip(&models.sockets) {
                let port = format!("{}:{}", models.plan.protocol(), socket.display());
                if !word.starts_with("@CON") {
                    word = word.replace(name, &port);
                }
            }
        }
        if let Some(name) = word.strip_prefix("@CONF/") {
            return self.configuration(name).display().to_string();
        }
        let out = if round.output == Output::Full { "/dev/full".into() } else { self.path("out.pcapng") };
        for (name, path) in [("@OUT", out), ("@CONTROL", self.path("control")), ("@PEER", self.path("peer"))]
        {
            word = word.replace(name, &path.display().to_string());
        }
        word
    }

    /// A configuration that comes with the program, in a file among the logs.
    fn configuration(&self, name: &str) -> PathBuf {
        let path = self.logs.join(name);
        let text = CONFIGURATIONS.iter().find(|(known, _)| *known == name).map_or("", |(_, text)| text);
        // A file that is missing is named by the program that reads it.
        let _ = std::fs::write(&path, text);
        path
    }

    /// Waits until the program drives its ports and more frames have moved than
    /// `before` it came: a capture may fill its pipe before anybody looks again.
    fn begin(
        &mut self,
        round: &Round,
        program: &mut Process,
        before: Option<&Totals>,
    ) -> Result<(), Trouble> {
        let (Some(models), Some(before)) = (&mut self.models, before) else { return Ok(()) };
        let end = Instant::now() + LIMIT;
        while program.ended().is_none() {
            let report = models.report()?;
            if report.endpoints.iter().all(|endpoint| endpoint.attached) {
                models.start_sources();
                // Broken devices need not move anything.
                if models.plan.fault.is_some() || before.moved() < Totals::of(&report).moved() {
                    return Ok(());
                }
            }
            if Instant::now() >= end {
                if round.limit.is_some() {
                    return Ok(());
                }
                return Err(Trouble::failed(format!(
                    "no frames move after {LIMIT:?}; {}",
                    program.condition()
                )));
            }
            check_interrupt()?;
            pause(Duration::from_millis(10));
        }
        Ok(())
    }

    fn steps(&mut self, round: &Round, program: &mut Process) -> Result<(), Trouble> {
        // After two swaps all that a router keeps for the next one is there.
        let (mut swaps, mut settled) = (0, None);
        for step in &round.steps {
            check_interrupt()?;
            if program.ended().is_some() {
                return Ok(());
            }
            match step {
                Step::Run(ms) => pause(Duration::from_millis(*ms)),
                Step::Pause(who, ms) => {
                    let time = Duration::from_millis(*ms);
                    self.played.activity.pauses += 1;
                    match (who, &mut self.models) {
                        (Who::Models, Some(models)) => disturb::stop_and_continue(models.process(), time),
                        _ => disturb::stop_and_continue(program, time),
                    }
                }
                Step::Stranger(seed) => {
                    self.breaks_protocol = true;
                    self.played.activity.strangers += 1;
                    let sockets = self.models.iter().flat_map(|models| &models.sockets);
                    sockets.for_each(|socket| disturb::be_a_stranger(socket, *seed));
                }
                Step::Inspect(hang_up) => Control::open(&self.path("control"), program)?.inspect(*hang_up)?,
                Step::Swap(text) => {
                    // The first two routers are still being replaced now and then.
                    if (2..5).contains(&swaps)
                        && let Some(now) = Footprint::of(program.id())
                    {
                        settled = Some(match settled {
                            Some(before) => now.most(before),
                            None => now,
                        });
                    }
                    swaps += 1;
                    self.swap(round, text, program)?;
                }
                Step::Refuse(text) => {
                    let text = self.filled_in(text, round);
                    let mut control = Control::open(&self.path("control"), program)?;
                    self.played.activity.refusals += 1;
                    if control.configure(&text)?.is_ok() {
                        self.fail(format!("the router took a broken configuration: {text}"));
                    }
                }
            }
        }
        match settled {
            Some(before) => self.check_swapped(&before, program),
            None => Ok(()),
        }
    }

    fn swap(&mut self, round: &Round, text: &str, program: &mut Process) -> Result<(), Trouble> {
        let text = self.filled_in(text, round);
        let reply = Control::open(&self.path("control"), program)?.configure(&text)?;
        self.played.activity.swaps += 1;
        if let Err(reply) = reply {
            self.fail(format!("the router refused a configuration: {reply} ({text})"));
        }
        Ok(())
    }

    fn end(&mut self, round: &Round, program: &mut Process, fifo: Option<File>) -> Result<(), Trouble> {
        let mut limit = LIMIT;
        match (&round.end, &mut self.models) {
            (End::Drained(signal), Some(models)) => {
                models.drain(program)?;
                program.signal(number(*signal));
            }
            (End::Drained(signal) | End::Signal(signal), _) => program.signal(number(*signal)),
            (End::Itself, _) => {}
            (End::KillProgram, _) => {
                self.breaks_protocol = true;
                self.played.activity.killed_programs += 1;
                program.signal(process::Signal::KILL);
            }
            (End::KillModels, Some(models)) => {
                self.played.activity.killed_models += 1;
                models.process().signal(process::Signal::KILL);
                models.process().wait(LIMIT);
                limit = PROMPT;
            }
            (End::KillModels | End::Error(_), _) => {}
        }
        if let Some(mut fifo) = fifo {
            sip(&mut fifo, program);
        }
        if program.wait(limit).is_none() {
            return Err(Trouble::failed(format!(
                "{limit:?} after its end ({:?}) it still runs: {}",
                round.end,
                program.condition()
            )));
        }
        Ok(())
    }
}

fn number(signal: Signal) -> process::Signal {
    match signal {
        Signal::Int => process::Signal::INT,
        Signal::Term => process::Signal::TERM,
        Signal::Hup => process::Signal::HUP,
    }
}

/// Makes a FIFO and opens it for reading, so that a writer does not wait for one.
fn fifo(path: &Path) -> Result<File, Trouble> {
    use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};
    let made = mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0);
    made.map_err(|errno| Trouble::failed(format!("{}: {errno}", path.display())))?;
    let opened = OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits() as i32).open(path);
    opened.map_err(|error| Trouble::failed(format!("{}: {error}", path.display())))
}

/// Reads a little of what the program writes, and goes away.
fn sip(fifo: &mut File, program: &mut Process) {
    let end = Instant::now() + LIMIT;
    let (mut had, mut bytes) = (0, [0; SIP]);
    while had < SIP && program.ended().is_none() && Instant::now() < end {
        match fifo.read(&mut bytes) {
            Ok(count @ 1..) => had += count,
            // No writer yet, or nothing written.
            _ => pause(Duration::from_millis(5)),
        }
    }
}

/// The router's configurations, as they come with the program.
const CONFIGURATIONS: [(&str, &str); 7] = [
    ("forwarder.click", include_str!("../../../../conf/forwarder.click")),
    ("router.click", include_str!("../../../../conf/router.click")),
    ("dual.click", include_str!("../../../../conf/dual.click")),
    ("nat.click", include_str!("../../../../conf/nat.click")),
    ("balancer.click", include_str!("../../../../conf/balancer.click")),
    ("firewall.click", include_str!("../../../../conf/firewall.click")),
    ("proxy-arp.click", include_str!("../../../../conf/proxy-arp.click")),
];
