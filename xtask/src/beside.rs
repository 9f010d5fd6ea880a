//! Builds beside the steps, one after the other and at a low priority: they take
//! the processor time that the steps leave, and disturb no test. A step that needs what
//! one of them makes waits for it before.

use std::collections::VecDeque;
use std::fs::File;
use std::process::Command;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use crate::limit;
use crate::step::{Failure, target};

/// So long may one take: it has what the steps leave of the processors, which on a slow machine is
/// little for half an hour.
const LIMIT: Duration = Duration::from_mins(50);

/// A command that needs nothing of the steps.
pub struct Build {
    /// What it makes, as the table of the steps calls it.
    pub name: &'static str,
    /// What it prints goes to a file in the build directory.
    pub command: Command,
}

/// What became of a build.
#[derive(Debug, PartialEq)]
pub struct Built {
    pub name: &'static str,
    pub time: Duration,
    /// What it printed is in the failure.
    pub outcome: Result<(), Failure>,
}

/// Builds under way.
pub struct Beside {
    /// Those that nobody has waited for yet, in their order.
    left: VecDeque<&'static str>,
    ended: Receiver<Built>,
}

impl Beside {
    /// Starts the first; each of the others follows, whatever became of those before it.
    pub fn start(builds: Vec<Build>) -> Beside {
        let left = builds.iter().map(|build| build.name).collect();
        let (sender, ended) = mpsc::channel();
        thread::spawn(move || {
            for build in builds {
                let begin = Instant::now();
                let outcome = run(&build);
                if sender.send(Built { name: build.name, time: begin.elapsed(), outcome }).is_err() {
                    return; // nobody waits any more
                }
            }
        });
        Beside { left, ended }
    }

    /// Waits so long for a build, and for those before it; none where it was waited for, or
    /// is not one of them.
    pub fn wait(&mut self, name: &str, limit: Duration) -> Vec<Built> {
        let begin = Instant::now();
        let count = self.left.iter().position(|left| *left == name).map_or(0, |at| at + 1);
        let names = self.left.drain(..count);
        let wait = |name| {
            let ended = self.ended.recv_timeout(limit.saturating_sub(begin.elapsed()));
            ended.unwrap_or_else(|why| lost(name, &why, begin.elapsed()))
        };
        names.map(wait).collect()
    }
}

/// A build whose end is not known.
fn lost(name: &'static str, why: &RecvTimeoutError, time: Duration) -> Built {
    Built { name, time, outcome: Err(format!("{name}: its end is not known: {why}")) }
}

/// Runs a build to its end.
fn run(Build { name, command }: &Build) -> Result<(), Failure> {
    let output = target().join(format!("{}.log", name.replace(' ', "-")));
    let failed = |e| format!("{name}: {}: {e}", output.display());
    std::fs::create_dir_all(target()).map_err(failed)?;
    let file = File::create(&output).map_err(failed)?;
    let errors = file.try_clone().map_err(failed)?;
    let mut command = nice(command);
    let end = limit::run(command.stdout(file).stderr(errors), LIMIT);
    let end = end.map_err(|e| format!("{name}: cannot start {command:?}: {e}"))?;
    let Some(failure) = end.failure() else { return Ok(()) };
    let printed = std::fs::read_to_string(&output).unwrap_or_default();
    Err(format!("{name} failed ({failure}): {command:?}\n{printed}"))
}

/// The same command at a low priority; at the lowest it would stand still on a machine that
/// is busy.
fn nice(command: &Command) -> Command {
    let mut nice = Command::new("nice");
    nice.args(["-n", "10"]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => nice.env(name, value),
            None => nice.env_remove(name),
        };
    }
    if let Some(directory) = command.get_current_dir() {
        nice.current_dir(directory);
    }
    nice
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(name: &'static str, script: &str) -> Build {
        let mut command = Command::new("sh");
        command.args(["-c", script]).env("XTASK_WORD", "luck");
        Build { name, command }
    }

    #[test]
    fn builds_follow_each_other_and_one_that_fails_tells_what_it_printed() {
        let mut late = Beside::start(vec![shell("xtask test 4", "sleep 2")]);
        let [Built { outcome: Err(_), .. }] = &late.wait("xtask test 4", Duration::ZERO)[..] else {
            panic!("it is not waited for longer than was said")
        };
        let mut beside = Beside::start(vec![
            shell("xtask test 1", "echo no $XTASK_WORD; exit 3"),
            shell("xtask test 2", &format!("test $(nice) -gt $(ps -o ni= -p {})", std::process::id())),
            shell("xtask test 3", "true"),
        ]);
        assert_eq!(beside.wait("another", Duration::MAX), []);
        let built = beside.wait("xtask test 2", Duration::MAX);
        let outcomes: Vec<_> = built.into_iter().map(|built| (built.name, built.outcome)).collect();
        let [("xtask test 1", Err(failure)), ("xtask test 2", Ok(()))] = &outcomes[..] else {
            panic!("{outcomes:?}")
        };
        assert!(failure.contains("no luck"), "{failure}");
        assert_eq!(beside.wait("xtask test 1", Duration::MAX), []);
        assert_eq!(beside.wait("xtask test 3", Duration::MAX).len(), 1);
    }
}
