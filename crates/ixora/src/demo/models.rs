//! The models' process: this program again, as `ixora model`, told what to do
//! through its standard input. It ends when that closes, so it cannot outlive us.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::Pid;
use testbed::serve::Report;

use super::Scratch;
use crate::Failure;
use crate::cli::Confine;
use crate::janitor::{CleanUp, Janitor};
use crate::serve::READY;

/// How long the process may take to listen, and to answer.
const ANSWER: Duration = Duration::from_secs(5);
/// How long it may take to end.
const END: Duration = Duration::from_secs(2);

/// Two models in a process of their own.
pub struct Models {
    child: Child,
    requests: Option<ChildStdin>,
    /// What it prints, and what came of it before the end of a line.
    output: Option<ChildStdout>,
    begun: Vec<u8>,
    sockets: [PathBuf; 2],
    _scratch: Scratch,
    /// Removes the directory where we may not, or were killed.
    _janitor: Option<Janitor>,
}

impl Models {
    /// Starts the process and waits until both sockets are there.
    pub fn start(model: &str, wire: &str, core: Option<usize>, confine: Confine) -> Result<Models, Failure> {
        let scratch = Scratch::new()?;
        let sockets = ["a", "b"].map(|name| scratch.0.join(name));
        let program =
            std::env::current_exe().map_err(|e| Failure::new(format!("cannot find this program: {e}")))?;
        let mut command = Command::new(program);
        command.args(["model", model, "--control", "--wire", wire]);
        if confine.no_confine {
            command.arg("--no-confine");
        }
        for socket in &sockets {
            command.arg("--socket").arg(socket);
        }
        if let Some(core) = core {
            command.args(["--core", &core.to_string()]);
        }
        // A group of its own: Ctrl-C is for us, the models go on until all
        // is counted.
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0).spawn();
        let mut child = child.map_err(|e| Failure::new(format!("cannot start the models' process: {e}")))?;
        let (requests, output) = (child.stdin.take(), child.stdout.take());
        let clean_up = CleanUp { directories: vec![scratch.0.clone()], ..CleanUp::default() };
        let _janitor = Janitor::call(&clean_up)?;
        let begun = Vec::new();
        let mut models = Models { child, requests, output, begun, sockets, _scratch: scratch, _janitor };
        match models.answer()? {
            line if line == READY => Ok(models),
            line => Err(Failure::new(format!("the models' process said {line:?}, not {READY:?}"))),
        }
    }

    /// The next line that it prints.
    fn answer(&mut self) -> Result<String, Failure> {
        let limit = Instant::now() + ANSWER;
        loop {
            if let Some(end) = self.begun.iter().position(|&byte| byte == b'\n') {
                let line = self.begun.drain(..=end).take(end).collect();
                return String::from_utf8(line)
                    .map_err(|_| Failure::new("the models' process printed no text"));
            }
            self.read_some(limit.saturating_duration_since(Instant::now()))?;
        }
    }

    /// Waits at most so long for something that it prints.
    fn read_some(&mut self, left: Duration) -> Result<(), Failure> {
        let ended = || Failure::new("the models' process has ended");
        let output = self.output.as_mut().ok_or_else(ended)?;
        let mut fds = [PollFd::new(output, PollFlags::IN)];
        let limit = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        match poll(&mut fds, Some(&limit)) {
            Ok(1..) if !left.is_zero() => {}
            Err(Errno::INTR) => return Ok(()),
            _ => return Err(Failure::new(format!("the models' process gave no answer within {ANSWER:?}"))),
        }
        let mut bytes = [0; 4096];
        match output.read(&mut bytes) {
            Ok(0) => Err(ended()),
            Ok(count) => {
                self.begun.extend_from_slice(&bytes[..count]);
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(Failure::new(format!("the models' process cannot be heard: {error}"))),
        }
    }

    /// The id of the models' process.
    pub fn process(&self) -> Option<Pid> {
        Pid::from_raw(self.child.id() as i32)
    }

    /// The models as ports.
    pub fn ports(&self) -> [String; 2] {
        self.sockets.each_ref().map(|socket| format!("vfio-user:{}", socket.display()))
    }

    fn ask(&mut self, request: &str) {
        // A process that is gone shows when its answer is missing.
        if let Some(requests) = &mut self.requests {
            let _ = writeln!(requests, "{request}").and_then(|()| requests.flush());
        }
    }

    /// The generators begin.
    pub fn start_sources(&mut self) {
        self.ask("start-sources");
    }

    /// The generators send no more.
    pub fn stop_sources(&mut self) {
        self.ask("stop-sources");
    }

    /// What the models counted.
    pub fn report(&mut self) -> Result<Report, Failure> {
        self.ask("report");
        let wrong = |error| Failure::new(format!("no report from the models' process: {error}"));
        serde_json::from_str(&self.answer()?).map_err(wrong)
    }

    fn end(&mut self) {
        self.requests = None;
        let limit = Instant::now() + END;
        while Instant::now() < limit {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Models {
    /// Ends the process and waits for it.
    fn drop(&mut self) {
        self.end();
    }
}
