//! What a soak test did and found, for people and as JSON.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use super::plan::Episode;

/// What was done and moved.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Activity {
    /// Packets that went over the models' wires or through programs of their own.
    pub packets: u64,
    /// Programs that were started on ports.
    pub programs: u64,
    /// Rounds whose receive, program and transmit accounts were compared.
    pub accounts: u64,
    /// Programs that were killed at work.
    pub killed_programs: u64,
    /// Models' processes that were killed under a driver.
    pub killed_models: u64,
    /// Processes that were stopped and continued.
    pub pauses: u64,
    /// Clients that sent random bytes.
    pub strangers: u64,
    /// Peers that were no devices.
    pub bad_peers: u64,
    /// Configurations that a running router took.
    pub swaps: u64,
    /// Broken configurations that it was given.
    pub refusals: u64,
    /// Faults that were injected on wires and in devices, by name, in frames.
    pub faults: BTreeMap<String, u64>,
}

impl Activity {
    /// Adds another one.
    pub fn add(&mut self, other: &Activity) {
        self.packets += other.packets;
        self.programs += other.programs;
        self.accounts += other.accounts;
        self.killed_programs += other.killed_programs;
        self.killed_models += other.killed_models;
        self.pauses += other.pauses;
        self.strangers += other.strangers;
        self.bad_peers += other.bad_peers;
        self.swaps += other.swaps;
        self.refusals += other.refusals;
        self.add_faults(&other.faults);
    }

    /// Adds faults that were injected.
    pub fn add_faults(&mut self, faults: &BTreeMap<String, u64>) {
        faults.iter().for_each(|(name, count)| *self.faults.entry(name.clone()).or_default() += count);
    }
}

/// An episode in which a check failed.
#[derive(Clone, Debug, Serialize)]
pub struct Failed {
    /// The episode's number in the plan.
    pub episode: u64,
    /// The checks, in words.
    pub failures: Vec<String>,
    /// The command that repeats it.
    pub repeat: String,
    /// Where the logs of its processes are.
    pub logs: PathBuf,
    /// The episode as it was planned.
    pub plan: String,
}

/// A whole run.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// Where the random numbers began.
    pub seed: u64,
    /// How long it ran.
    pub seconds: f64,
    /// Episodes that were played.
    pub episodes: u64,
    /// Scenes, by kind.
    pub kinds: BTreeMap<String, u64>,
    /// What was done and moved.
    #[serde(flatten)]
    pub activity: Activity,
    /// Whether a signal ended it before its time.
    pub interrupted: bool,
    /// Episodes with failures.
    pub failed: Vec<Failed>,
}

impl Summary {
    /// Nothing done yet.
    pub fn new(seed: u64) -> Summary {
        let (kinds, activity) = (BTreeMap::new(), Activity::default());
        Summary { seed, seconds: 0.0, episodes: 0, kinds, activity, interrupted: false, failed: vec![] }
    }

    /// One line after an episode.
    pub fn progress(&self, episode: &Episode, left: Duration) -> String {
        let kinds: Vec<String> = episode.scenes.iter().map(|scene| scene.kind.name()).collect();
        let failed = self.failed.last().is_some_and(|failed| failed.episode == episode.number);
        format!(
            "episode {} ({}): {}; {} packets, {} failed, {} s left",
            episode.number,
            kinds.join(" and "),
            if failed { "FAILED" } else { "passed" },
            self.activity.packets,
            self.failed.len(),
            left.as_secs()
        )
    }

    /// Prints the report, in lines or as JSON.
    pub fn print(&self, json: bool) {
        if json {
            // Our own types serialise; a closed pipe is the reader's choice.
            let _ = serde_json::to_writer_pretty(std::io::stdout().lock(), self);
            println!();
            return;
        }
        let t = &self.activity;
        println!("soak: {} episodes in {:.0} s, seed {}", self.episodes, self.seconds, self.seed);
        let list = |counts: &BTreeMap<String, u64>| {
            counts.iter().map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join("  ")
        };
        println!("  scenes   {}", list(&self.kinds));
        println!("  packets  {}, in {} programs; {} accounts compared", t.packets, t.programs, t.accounts);
        println!("  killed   {} programs, {} models' processes", t.killed_programs, t.killed_models);
        println!(
            "  disturbed by {} pauses, {} strangers, {} bad peers, {} swaps, {} broken configurations",
            t.pauses, t.strangers, t.bad_peers, t.swaps, t.refusals
        );
        println!("  injected {}", list(&t.faults));
        for failed in &self.failed {
            println!("FAILED episode {}: {}", failed.episode, failed.failures.join("\n  "));
            println!("  repeat: {}\n  logs: {}", failed.repeat, failed.logs.display());
        }
        if self.failed.is_empty() {
            println!("all checks held");
        }
    }
}
