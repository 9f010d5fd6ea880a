//! The models' process: this program again, as `ixora model`, told what to do
//! through its standard input. It ends when that closes, so it cannot outlive us.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use testbed::serve::Report;

use super::Scratch;
use crate::Failure;

/// How long the process may take to listen.
const START: Duration = Duration::from_secs(5);

/// Two models in a process of their own.
pub struct Models {
    child: Child,
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    sockets: [PathBuf; 2],
    _scratch: Scratch,
}

impl Models {
    /// Starts the process and waits until both sockets are there.
    pub fn start(wire: &str, core: Option<usize>) -> Result<Models, Failure> {
        let scratch = Scratch::new()?;
        let sockets = ["a", "b"].map(|name| scratch.0.join(name));
        let program =
            std::env::current_exe().map_err(|e| Failure::new(format!("cannot find this program: {e}")))?;
        let mut command = Command::new(program);
        command.args(["model", "82599", "--control", "--wire", wire]);
        for socket in &sockets {
            command.arg("--socket").arg(socket);
        }
        if let Some(core) = core {
            command.args(["--core", &core.to_string()]);
        }
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.map_err(|e| Failure::new(format!("cannot start the models' process: {e}")))?;
        let (requests, answers) = (child.stdin.take(), child.stdout.take());
        let Some(answers) = answers else { return Err(Failure::new("the models' process has no output")) };
        let mut models =
            Models { child, requests, answers: BufReader::new(answers), sockets, _scratch: scratch };
        models.await_sockets()?;
        Ok(models)
    }

    fn await_sockets(&mut self) -> Result<(), Failure> {
        let limit = Instant::now() + START;
        while !self.sockets.iter().all(|socket| socket.exists()) {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(Failure::new(format!("the models' process ended at once ({status})")));
            }
            if Instant::now() > limit {
                return Err(Failure::new(format!("the models' process does not listen after {START:?}")));
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(())
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
        let mut line = String::new();
        let gone = |why: String| Failure::new(format!("no report from the models' process: {why}"));
        self.answers.read_line(&mut line).map_err(|error| gone(error.to_string()))?;
        serde_json::from_str(&line).map_err(|error| gone(error.to_string()))
    }

    /// Ends the process and waits for it.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.requests = None;
        let limit = Instant::now() + Duration::from_secs(2);
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
    fn drop(&mut self) {
        self.end();
    }
}
