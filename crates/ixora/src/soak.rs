//! `ixora soak`: a soak test of the programs, for minutes or hours. Forwarders, captures
//! and routers run as child processes on device models, one episode after the other,
//! with link flaps, faults on the wire, killed and paused processes, new configurations,
//! bad peers and shortages; after each, nothing may be lost without a name, and nothing
//! left: no buffer, process, thread, descriptor, file or hugepage.
//!
//! Episodes are drawn from a seed, so that what was found can be repeated as far as the
//! system's scheduler lets it.

mod accounts;
pub mod arguments;
mod disturb;
mod machine;
mod models;
mod plan;
mod process;
mod report;
mod scene;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::{Failure, signal};
use arguments::{Plant, Soak};
use machine::Machine;
pub use plan::SceneKind;
use plan::{Episode, Scene};
use report::{Failed, Summary};
use scene::Played;

/// Why a scene did not come to its end.
enum Trouble {
    /// Something is wrong, in words.
    Failed(String),
    /// The user pressed Ctrl-C.
    Interrupted,
}

impl Trouble {
    fn failed(why: impl Into<String>) -> Trouble {
        Trouble::Failed(why.into())
    }
}

/// Set by SIGINT, SIGTERM and SIGHUP.
static STOP: OnceLock<Arc<AtomicBool>> = OnceLock::new();

fn is_interrupted() -> bool {
    STOP.get().is_some_and(|stop| stop.load(Ordering::Relaxed))
}

fn check_interrupt() -> Result<(), Trouble> {
    if is_interrupted() { Err(Trouble::Interrupted) } else { Ok(()) }
}

fn pause(time: Duration) {
    thread::sleep(time);
}

/// Runs episodes until the time is over; fails when a check did.
pub fn run(arguments: &Soak) -> Result<(), Failure> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let seed = arguments.seed.unwrap_or(now);
    let kinds = plan::kinds(&arguments.only);
    if let Some(count) = arguments.list {
        (0..count).for_each(|number| print!("{}", plan::episode(seed, number, &kinds)));
        return Ok(());
    }
    let _ = STOP.set(signal::stop_flag()?);
    signal::have_children_hang_up()?;
    let mut run = Run::new(arguments, seed)?;
    let begin = Instant::now();
    for number in arguments.episode.unwrap_or(0).. {
        let episode = plan::episode(seed, number, &kinds);
        run.play(&episode);
        run.summary.seconds = begin.elapsed().as_secs_f64();
        let left = arguments.duration.saturating_sub(begin.elapsed());
        if !arguments.quiet {
            eprintln!("{}", run.summary.progress(&episode, left));
        }
        if is_interrupted() || arguments.episode.is_some() || left.is_zero() {
            break;
        }
    }
    run.finish()
}

/// A run of the soak test, episode by episode.
struct Run<'a> {
    arguments: &'a Soak,
    /// Where sockets and files are made; it goes with the run.
    scratch: tempfile::TempDir,
    before: Machine,
    planted: Option<Plant>,
    summary: Summary,
    /// Where logs of failed episodes are kept, made with the first of them.
    kept: Option<PathBuf>,
}

impl Run<'_> {
    fn new(arguments: &Soak, seed: u64) -> Result<Run<'_>, Failure> {
        let failed = |error: std::io::Error| Failure::new(format!("cannot begin: {error}"));
        // Processes whose parent has ended come to us, so that none is overlooked.
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
            .map_err(|e| failed(e.into()))?;
        let scratch = tempfile::Builder::new().prefix("ixora-soak-").tempdir().map_err(failed)?;
        let before = Machine::now().ok_or_else(|| Failure::new("cannot read /proc/self"))?;
        let summary = Summary::new(seed);
        let kept = arguments.logs.clone();
        Ok(Run { arguments, scratch, before, planted: arguments.plant, summary, kept })
    }

    /// Plays an episode, and looks at what it left.
    fn play(&mut self, episode: &Episode) {
        let place = self.scratch.path().join(episode.number.to_string());
        let logs = place.join("logs");
        let mut failures = Vec::new();
        let scenes: Vec<(&Scene, PathBuf, PathBuf)> = (0..)
            .zip(&episode.scenes)
            .map(|(n, scene)| (scene, place.join(format!("f{n}")), logs.join(n.to_string())))
            .collect();
        let made = scenes.iter().try_for_each(|(_, files, logs)| {
            fs::create_dir_all(files)?;
            fs::create_dir_all(logs)
        });
        if let Err(error) = made {
            failures.push(format!("cannot make {}: {error}", place.display()));
        } else {
            failures.extend(self.play_all(&scenes));
        }
        if let Some(plant) = self.planted.take() {
            leave_behind(plant, &scenes[0].1);
        }
        failures.extend(machine::reap());
        for (_, files, _) in &scenes {
            let left = machine::files(files);
            failures.extend(left.iter().map(|path| format!("{} is left", path.display())));
        }
        let left = Machine::left_since(&self.before);
        if !left.is_empty() {
            // Told once; what comes later is compared with what is there now.
            self.before = Machine::now().unwrap_or_else(|| unreachable!("it was read before"));
            failures.extend(left);
        }
        self.summary.episodes += 1;
        if !failures.is_empty() {
            self.keep(episode, failures, &logs);
        }
        let _ = fs::remove_dir_all(&place);
    }

    /// Plays scenes at the same time; what failed, in words.
    fn play_all(&mut self, scenes: &[(&Scene, PathBuf, PathBuf)]) -> Vec<String> {
        let played: Vec<Played> = thread::scope(|scope| {
            let play = |(scene, files, logs): &(&Scene, PathBuf, PathBuf)| scene::play(scene, files, logs);
            let running: Vec<_> =
                scenes.iter().skip(1).map(|scene| scope.spawn(move || play(scene))).collect();
            let first = scenes.first().map(play);
            let others = running.into_iter().map(|running| {
                running.join().unwrap_or_else(|_| Played {
                    failures: vec!["the soak test itself panicked".to_owned()],
                    ..Played::default()
                })
            });
            first.into_iter().chain(others).collect()
        });
        let mut failures = Vec::new();
        for ((scene, ..), played) in scenes.iter().zip(played) {
            *self.summary.kinds.entry(scene.kind.name()).or_default() += 1;
            self.summary.activity.add(&played.activity);
            self.summary.interrupted |= played.interrupted;
            failures.extend(played.failures.into_iter().map(|why| format!("{}: {why}", scene.kind.name())));
        }
        failures
    }

    /// Where logs are kept: as the user says, else in a directory that was made for them and
    /// that only this user can look into.
    fn kept_logs(&mut self) -> std::io::Result<&Path> {
        let kept = match self.kept.take() {
            Some(kept) => kept,
            None => tempfile::Builder::new().prefix("ixora-soak-logs-").tempdir()?.keep(),
        };
        Ok(self.kept.insert(kept))
    }

    /// Keeps the logs of an episode that failed, and says how to repeat it.
    fn keep(&mut self, episode: &Episode, failures: Vec<String>, logs: &Path) {
        let kept = self.kept_logs().map(|kept| kept.join(episode.number.to_string()));
        let copied = kept.and_then(|kept| {
            copy(logs, &kept)?;
            fs::write(kept.join("episode"), episode.to_string())?;
            Ok(kept)
        });
        let kept = copied.unwrap_or_else(|error| {
            eprintln!("cannot keep logs: {error}");
            PathBuf::new()
        });
        let only = self.arguments.only.iter().map(|kind| format!(" --only {}", kind.name()));
        let repeat = format!(
            "ixora soak --seed {} --episode {}{}",
            self.summary.seed,
            episode.number,
            only.collect::<String>()
        );
        if !self.arguments.quiet {
            eprint!("{episode}");
            failures.iter().for_each(|failure| eprintln!("FAILED: {failure}"));
            eprintln!("repeat: {repeat}\nlogs: {}", kept.display());
        }
        let plan = episode.to_string();
        self.summary.failed.push(Failed { episode: episode.number, failures, repeat, logs: kept, plan });
    }

    fn finish(self) -> Result<(), Failure> {
        self.summary.print(self.arguments.json);
        match self.summary.failed.len() {
            0 => Ok(()),
            n => Err(Failure::new(format!("{n} of {} episodes failed", self.summary.episodes))),
        }
    }
}

/// Copies a directory of files and directories.
fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => copy(&entry.path(), &to)?,
            false => _ = fs::copy(entry.path(), to)?,
        }
    }
    Ok(())
}

/// Leaves something behind on purpose; a soak test that does not find it is none.
fn leave_behind(plant: Plant, files: &Path) {
    match plant {
        Plant::Descriptor => std::mem::forget(fs::File::open("/dev/null")),
        Plant::Thread => drop(thread::spawn(|| pause(Duration::from_secs(60)))),
        Plant::File => drop(fs::write(files.join("left"), "")),
        Plant::Process => drop(std::process::Command::new("/bin/sleep").arg("60").spawn()),
    }
}
