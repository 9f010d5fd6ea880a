//! Child processes of the soak test: each in a process group of its own, with its
//! output in files, so that no thread has to read it and it can be looked at later.

use std::fs::File;
use std::io::Write;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use super::plan::Limit;
use super::{Trouble, pause};

/// A child process; killed with its group when dropped.
pub struct Process {
    /// What it is called in logs.
    name: String,
    child: Child,
    stdin: Option<ChildStdin>,
    out: PathBuf,
    err: PathBuf,
    status: Option<ExitStatus>,
}

impl Process {
    /// Starts this program with these words. Its temporary files go to `place`, its
    /// output to `logs`; `asked` keeps its standard input open for requests.
    pub fn start(
        name: &str,
        words: &[String],
        limit: Option<Limit>,
        place: &Path,
        logs: &Path,
        asked: bool,
    ) -> Result<Process, Trouble> {
        let failed = |error: std::io::Error| Trouble::failed(format!("cannot start {name}: {error}"));
        let program = std::env::current_exe().map_err(failed)?;
        let mut command = Command::new("/bin/sh");
        match limit {
            // setrlimit(2) by the shell: between fork and exec nothing of ours runs.
            Some(limit) => {
                let (letter, value) = match limit {
                    Limit::Memory(kib) => ("v", kib),
                    Limit::Files(files) => ("n", files),
                };
                let set = format!("ulimit -{letter} {value} && exec \"$@\"");
                command.args(["-c", &set, "sh"]).arg(&program)
            }
            None => {
                command = Command::new(&program);
                &mut command
            }
        }
        .args(words);
        let (out, err) = (logs.join(format!("{name}.out")), logs.join(format!("{name}.err")));
        let mut log = File::create(logs.join(format!("{name}.command"))).map_err(failed)?;
        let shell: Vec<String> =
            words.iter().map(|word| format!("'{}'", word.replace('\'', "'\\''"))).collect();
        writeln!(log, "{} {}", program.display(), shell.join(" ")).map_err(failed)?;
        let child = command
            .env("TMPDIR", place)
            .env("RUST_BACKTRACE", "1")
            .stdin(if asked { Stdio::piped() } else { Stdio::null() })
            .stdout(File::create(&out).map_err(failed)?)
            .stderr(File::create(&err).map_err(failed)?)
            .process_group(0)
            .spawn();
        let mut child = child.map_err(failed)?;
        let stdin = child.stdin.take();
        Ok(Process { name: name.to_owned(), child, stdin, out, err, status: None })
    }

    /// What it is called in logs.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The id of the process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Its status, once it has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        if self.status.is_none() {
            self.status = self.child.try_wait().ok().flatten();
        }
        self.status
    }

    /// What it has printed so far.
    pub fn output(&self) -> String {
        read(&self.out)
    }

    /// What it has said so far on standard error.
    pub fn errors(&self) -> String {
        read(&self.err)
    }

    /// Writes a line to its standard input; one that is gone shows when its answer is
    /// missing.
    pub fn ask(&mut self, request: &str) {
        if let Some(stdin) = &mut self.stdin {
            let _ = writeln!(stdin, "{request}").and_then(|()| stdin.flush());
        }
    }

    /// Closes its standard input.
    pub fn say_goodbye(&mut self) {
        self.stdin = None;
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        if let Some(id) = Pid::from_raw(self.child.id() as i32).filter(|_| self.status.is_none()) {
            let _ = kill_process(id, signal);
        }
    }

    /// Waits until it has ended; `None` when it has not after this time.
    pub fn wait(&mut self, limit: Duration) -> Option<ExitStatus> {
        let end = Instant::now() + limit;
        loop {
            if let Some(status) = self.ended() {
                return Some(status);
            }
            if Instant::now() >= end {
                return None;
            }
            pause(Duration::from_millis(5));
        }
    }

    /// The name of the process, and whether and how it ended.
    pub fn condition(&self) -> String {
        let condition = match self.status {
            None => "runs".to_owned(),
            Some(status) => match (status.code(), status.signal()) {
                (Some(code), _) => format!("exit status {code}"),
                (None, Some(signal)) => format!("signal {signal}"),
                (None, None) => "an end without status".to_owned(),
            },
        };
        let errors = self.errors();
        match errors.lines().rev().find(|line| !line.is_empty()) {
            Some(last) => format!("{}: {condition}, last words: {last}", self.name),
            None => format!("{}: {condition}", self.name),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.ended().is_none() {
            if let Some(id) = Pid::from_raw(self.child.id() as i32) {
                let _ = kill_process_group(id, Signal::KILL);
            }
            let _ = self.child.wait();
        }
    }
}

fn read(path: &Path) -> String {
    let bytes = std::fs::read(path).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}
