//! Our driver as host of a virtual function, in a process of its own: `ixora pf`.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::{Error, Result};

/// How long a start or an end may take on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);
/// How often it is looked for.
const PAUSE: Duration = Duration::from_millis(20);
/// What it says once the virtual function works.
const HOSTING: &str = "hosting virtual function 0";

/// A host; it ends with its handle.
#[derive(Debug)]
pub struct Host {
    program: PathBuf,
    port: String,
    policy: String,
    log: PathBuf,
    child: Child,
}

impl Host {
    /// Starts it on the card at `socket` and waits until the first virtual function works, which has
    /// `policy`.
    ///
    /// # Errors
    /// [`Error::File`] when it does not start; [`Error::Malformed`], with its words, when it hosts
    /// nothing.
    pub fn start(program: &Path, socket: &str, policy: &str) -> Result<Host> {
        let (port, log) = (format!("vfio-user:{socket}"), PathBuf::from(format!("{socket}.pf.log")));
        let child = spawn(program, &port, policy, &log)?;
        let (program, policy) = (program.to_owned(), policy.to_owned());
        let mut host = Host { program, port, policy, log, child };
        host.wait_until_hosting()?;
        Ok(host)
    }

    /// Ends it, which resets the virtual function, and starts another.
    ///
    /// # Errors
    /// As [`Host::start`]; [`Error::Malformed`] when it does not end, or not well.
    pub fn restart(&mut self) -> Result<()> {
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM); // it may have ended
        let begin = Instant::now();
        let status = loop {
            match self.child.try_wait().map_err(Error::at(&self.program))? {
                Some(status) => break status,
                None if begin.elapsed() > LIMIT => return Err(self.malformed("it does not end")),
                None => thread::sleep(PAUSE),
            }
        };
        if !status.success() {
            return Err(self.malformed(&format!("it ended with {status}")));
        }
        self.child = spawn(&self.program, &self.port, &self.policy, &self.log)?;
        self.wait_until_hosting()
    }

    /// Has it reset the virtual function, whose driver is told.
    pub fn reset(&self) {
        let _ = kill_process(Pid::from_child(&self.child), Signal::USR1); // it may have ended
    }

    fn wait_until_hosting(&mut self) -> Result<()> {
        let begin = Instant::now();
        while !self.said().contains(HOSTING) {
            let ended = self.child.try_wait().map_err(Error::at(&self.program))?.is_some();
            if ended || begin.elapsed() > LIMIT {
                return Err(self.malformed("it hosts nothing"));
            }
            thread::sleep(PAUSE);
        }
        Ok(())
    }

    fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    fn malformed(&self, what: &str) -> Error {
        Error::Malformed { path: self.log.clone(), reason: format!("{what}: {}", self.said().trim()) }
    }
}

fn spawn(program: &Path, port: &str, policy: &str, log: &Path) -> Result<Child> {
    let errors = File::create(log).map_err(Error::at(log))?;
    Command::new(program)
        .args(["pf", port, "--vfs", "1", "--vf", policy])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(errors)
        .spawn()
        .map_err(Error::at(program))
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.child.kill(); // it may have ended
        let _ = self.child.wait();
    }
}
