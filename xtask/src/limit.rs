//! Commands that end: each has a time limit, after which all its processes are killed and
//! it is told what they waited for.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::step::target;

/// How often it is looked whether a program has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// So many lines tell of what was killed.
const LINES: usize = 60;
/// The variable that all processes of a command have, those too whose parent has ended.
const VARIABLE: &str = "IXORA_XTASK_COMMAND";

/// How many commands were run.
static COMMANDS: AtomicU64 = AtomicU64::new(0);

/// How a command ended.
#[derive(Debug)]
pub enum End {
    Status(ExitStatus),
    /// It was killed; what its processes were doing.
    TimeLimit(String),
}

impl End {
    /// What went wrong, if anything did.
    pub fn failure(&self) -> Option<String> {
        match self {
            End::Status(status) if status.success() => None,
            End::Status(status) => Some(status.to_string()),
            End::TimeLimit(told) => Some(told.clone()),
        }
    }
}

/// Runs a command to its end or to the limit. Nobody answers what it may ask.
pub fn run(command: &mut Command, limit: Duration) -> io::Result<End> {
    let mark = format!("{}-{}", std::process::id(), COMMANDS.fetch_add(1, Ordering::Relaxed));
    let mut child = command.env(VARIABLE, &mark).stdin(Stdio::null()).spawn()?;
    let begin = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(End::Status(status));
        }
        if begin.elapsed() > limit {
            return Ok(End::TimeLimit(kill(&mut child, &mark, limit)?));
        }
        thread::sleep(POLL_INTERVAL);
    }
}

/// Runs a command as [`run`] does. Both of its outputs go to `target/tests/NAME.log`: one
/// file, so that they stand in their order, and no pipe, which processes that outlive the
/// command would keep open.
pub fn run_with_output(name: &str, command: &mut Command, limit: Duration) -> io::Result<(End, String)> {
    let logs = target().join("tests");
    fs::create_dir_all(&logs)?;
    let path = logs.join(format!("{name}.log"));
    let output = File::create(&path)?;
    let end = run(command.stdout(output.try_clone()?).stderr(output), limit)?;
    Ok((end, String::from_utf8_lossy(&fs::read(&path)?).into_owned()))
}

/// Kills a program and all that it started; what they were doing.
fn kill(child: &mut Child, mark: &str, limit: Duration) -> io::Result<String> {
    let processes = started(child.id(), mark);
    let mut told = format!("killed after {} s; its processes:", limit.as_secs());
    for line in processes.iter().flat_map(|process| threads(*process)).take(LINES) {
        let _ = write!(told, "\n  {line}");
    }
    // Parents first, so that none starts another.
    let numbers = processes.iter().map(u32::to_string);
    let _ = Command::new("kill").arg("-KILL").args(numbers).stderr(Stdio::null()).status();
    child.kill()?;
    child.wait()?;
    Ok(told)
}

/// A command's process and all that it started, parents first: its descendants, and those that
/// have its mark though their parents have ended, with their descendants.
fn started(process: u32, mark: &str) -> Vec<u32> {
    let (mut children, mut marked): (BTreeMap<u32, Vec<u32>>, _) = (BTreeMap::new(), vec![]);
    let variable = format!("{VARIABLE}={mark}");
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(number) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        if let Some(parent) = parent(&stat) {
            children.entry(parent).or_default().push(number);
        }
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        if environment.split(|byte| *byte == 0).any(|entry| entry == variable.as_bytes()) {
            marked.push(number);
        }
    }
    let (mut all, mut next) = (vec![process], 0);
    loop {
        while let Some(parent) = all.get(next) {
            all.extend(children.remove(parent).unwrap_or_default());
            next += 1;
        }
        let orphan = marked.iter().find(|number| !all.contains(number));
        match orphan {
            Some(orphan) => all.push(*orphan),
            None => return all,
        }
    }
}

/// The parent in a line of `/proc/PID/stat`, proc_pid_stat(5): the second field behind the
/// name, which may hold anything but ends with the last bracket.
fn parent(stat: &str) -> Option<u32> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// A line for each thread of a process: its state, and in which function of the kernel and
/// which system call (by number, with its arguments) it waits, as far as we may know.
fn threads(process: u32) -> Vec<String> {
    let read = |path: String| fs::read_to_string(path).unwrap_or_default().replace('\0', " ");
    let command = read(format!("/proc/{process}/cmdline"));
    let tasks = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let lines = tasks.map(|task| {
        let of = |file: &str| read(format!("{}/{file}", task.path().display()));
        let (stat, name) = (of("stat"), of("comm"));
        let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().next());
        format!(
            "  thread {}: {} in {}, call {}",
            name.trim(),
            state.unwrap_or("?"),
            of("wchan").trim(),
            of("syscall").trim()
        )
    });
    std::iter::once(format!("{process}: {}", command.trim())).chain(lines).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_never_ends_is_killed_with_all_that_it_started_and_told() {
        let begin = Instant::now();
        let mut shell = Command::new("sh");
        // The last one has no parent any more.
        let script = "echo begun; (trap '' TERM; sleep 61.5) & (sleep 61.5 &); sleep 61.5";
        let ended = run_with_output("xtask-limit", shell.args(["-c", script]), Duration::from_millis(300));
        let (end, output) = ended.expect("a shell");
        assert_eq!(output, "begun\n");
        let told = end.failure().expect("it was killed");
        assert!(told.matches(": sleep 61.5").count() >= 3 && told.contains("thread sleep: S"), "{told}");
        assert!(begin.elapsed() < Duration::from_secs(30));
        let left = Command::new("pgrep").args(["-f", "^sleep 61.5"]).status().expect("pgrep");
        assert!(!left.success(), "a process is left");
    }

    #[test]
    fn what_is_left_behind_holds_nobody() {
        let begin = Instant::now();
        let mut shell = Command::new("sh");
        let ended =
            run_with_output("xtask-left", shell.args(["-c", "sleep 20 & echo done; exit 3"]), Duration::MAX);
        let (end, output) = ended.expect("a shell");
        assert_eq!((output.as_str(), end.failure().as_deref()), ("done\n", Some("exit status: 3")));
        assert!(begin.elapsed() < Duration::from_secs(15));
    }

    #[test]
    fn nobody_answers_a_question() {
        let end =
            run(Command::new("sh").args(["-c", "read answer"]), Duration::from_secs(30)).expect("a shell");
        assert!(matches!(end, End::Status(_)), "{end:?}");
    }

    #[test]
    fn a_parent_is_found_behind_any_name() {
        assert_eq!(parent("12 (a) 7 (b) S 34 12 12 0"), Some(34));
        assert_eq!(parent("12 (sh) S"), None);
        assert_eq!(parent(""), None);
    }
}
