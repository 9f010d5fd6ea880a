//! The models' process: this program again, as `ixora model`, told what to do
//! through its standard input. It ends when that closes, so it cannot outlive us.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use testbed::serve::Report;

use super::Scratch;
use crate::Failure;
use crate::serve::READY;

/// How long the process may take to listen, and to answer.
const ANSWER: Duration = Duration::from_secs(5);
/// How long it may take to end.
const END: Duration = Duration::from_secs(2);

/// Two models in a process of their own.
pub struct Models {
    child: Child,
    requests: Option<ChildStdin>,
    /// The lines it prints; closed when it ends.
    answers: Receiver<String>,
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
        command.arg("--scratch").arg(&scratch.0);
        for socket in &sockets {
            command.arg("--socket").arg(socket);
        }
        if let Some(core) = core {
            command.args(["--core", &core.to_string()]);
        }
        // A group of its own: Ctrl-C is for us, the models go on until the books
        // are closed.
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0).spawn();
        let mut child = child.map_err(|e| Failure::new(format!("cannot start the models' process: {e}")))?;
        let (to, answers) = channel();
        let (requests, output) = (child.stdin.take(), child.stdout.take());
        let models = Models { child, requests, answers, sockets, _scratch: scratch };
        thread::spawn(move || {
            let lines = output.into_iter().flat_map(|output| BufReader::new(output).lines());
            lines.map_while(Result::ok).try_for_each(|line| to.send(line))
        });
        match models.answer()? {
            line if line == READY => Ok(models),
            line => Err(Failure::new(format!("the models' process said {line:?}, not {READY:?}"))),
        }
    }

    fn answer(&self) -> Result<String, Failure> {
        self.answers.recv_timeout(ANSWER).map_err(|error| match error {
            RecvTimeoutError::Timeout => {
                Failure::new(format!("the models' process gave no answer within {ANSWER:?}"))
            }
            RecvTimeoutError::Disconnected => Failure::new("the models' process has ended"),
        })
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
