//! Device models in a process of their own: `ixora model`, and its report.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::Value;

use crate::{Error, Result};

/// How long an answer may take on a busy machine.
const ANSWER: Duration = Duration::from_secs(120);

/// A model process; it ends with its handle.
#[derive(Debug)]
pub struct Served {
    child: Child,
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    program: PathBuf,
}

impl Served {
    /// Starts `ixora model` with `words` and waits until clients may come.
    ///
    /// # Errors
    /// [`Error::File`] when the program does not start or ends at once.
    pub fn start(program: &Path, words: &[&str], log: &Path) -> Result<Served> {
        let errors = std::fs::File::create(log).map_err(Error::at(log))?;
        let mut child = Command::new(program)
            .arg("model")
            .args(words)
            .arg("--control")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(errors)
            .spawn()
            .map_err(Error::at(program))?;
        let requests = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().expect("it was piped"));
        let mut served = Served { child, requests, answers, program: program.to_owned() };
        match served.line()?.as_str() {
            "ready" => Ok(served),
            other => {
                Err(served.malformed(&format!("said `{other}` instead of `ready`: see {}", log.display())))
            }
        }
    }

    /// Its report: an `endpoints` array with `device` each.
    ///
    /// # Errors
    /// [`Error::Malformed`] when the process has ended or its words are no JSON.
    pub fn report(&mut self) -> Result<Value> {
        if let Some(requests) = &mut self.requests {
            let sent = requests.write_all(b"report\n").and_then(|()| requests.flush());
            sent.map_err(Error::at(&self.program))?;
        }
        let line = self.line()?;
        serde_json::from_str(&line).map_err(|error| self.malformed(&format!("its report: {error}")))
    }

    /// What the linter found, a sentence for each rule; rules that are `explained`
    /// at a register are left out there.
    ///
    /// # Errors
    /// As [`Served::report`].
    pub fn findings(&mut self, explained: &[(&str, &str)]) -> Result<Vec<String>> {
        let report = self.report()?;
        let endpoints = report["endpoints"].as_array().into_iter().flatten();
        let findings = endpoints.flat_map(|endpoint| endpoint["device"]["findings"].as_array()).flatten();
        Ok(findings.filter_map(|finding| unexplained(finding, explained)).collect())
    }

    /// Frames that the devices lost, by name.
    ///
    /// # Errors
    /// As [`Served::report`].
    pub fn losses(&mut self) -> Result<BTreeMap<String, u64>> {
        let report = self.report()?;
        let mut losses = BTreeMap::new();
        for endpoint in report["endpoints"].as_array().into_iter().flatten() {
            for (name, count) in endpoint["device"]["drops"].as_object().into_iter().flatten() {
                *losses.entry(name.clone()).or_default() += count.as_u64().unwrap_or(0);
            }
        }
        Ok(losses)
    }

    fn line(&mut self) -> Result<String> {
        let (mut line, begin) = (Vec::new(), Instant::now());
        while !line.ends_with(b"\n") {
            self.wait(ANSWER.saturating_sub(begin.elapsed())).map_err(Error::at(&self.program))?;
            let bytes = self.answers.fill_buf().map_err(Error::at(&self.program))?;
            if bytes.is_empty() {
                break; // it has ended
            }
            let count = bytes.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |at| at + 1);
            line.extend_from_slice(&bytes[..count]);
            self.answers.consume(count);
        }
        Ok(String::from_utf8_lossy(&line).trim().to_owned())
    }

    /// Waits until something can be read.
    fn wait(&self, left: Duration) -> std::io::Result<()> {
        if !self.answers.buffer().is_empty() {
            return Ok(());
        }
        let limit = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        let mut fds = [PollFd::new(self.answers.get_ref(), PollFlags::IN)];
        match rustix::io::retry_on_intr(|| poll(&mut fds, Some(&limit)))? {
            0 => Err(std::io::Error::new(ErrorKind::TimedOut, format!("no answer within {ANSWER:?}"))),
            _ => Ok(()),
        }
    }

    fn malformed(&self, reason: &str) -> Error {
        Error::Malformed { path: self.program.clone(), reason: reason.to_owned() }
    }
}

/// Places that a sentence about a finding names.
const SHOWN_PLACES: usize = 4;

/// What a finding says of the places where it is not explained, if any.
fn unexplained(finding: &Value, explained: &[(&str, &str)]) -> Option<String> {
    let word = |value: &Value| value.as_str().unwrap_or("?").to_owned();
    let rule = word(&finding["rule"]);
    let all = finding["places"].as_array().into_iter().flatten();
    let places: Vec<_> = all
        .map(|place| (word(&place["register"]), &place["value"], place["count"].as_u64().unwrap_or(0)))
        .filter(|(register, ..)| !explained.iter().any(|(r, at)| *r == rule && register.starts_with(at)))
        .collect();
    let count =
        places.iter().map(|(.., count)| count).sum::<u64>() + finding["unlisted"].as_u64().unwrap_or(0);
    if count == 0 {
        return None;
    }
    let shown = places.iter().take(SHOWN_PLACES).map(|(at, value, _)| format!("{at} value {value}"));
    let shown = shown.collect::<Vec<_>>().join(", ");
    let more = match places.len().saturating_sub(SHOWN_PLACES) {
        0 => String::new(),
        more => format!(" and {more} other places"),
    };
    let (section, sentence) = (word(&finding["section"]), word(&finding["sentence"]));
    Some(format!("{rule}, {count} times at {shown}{more}: {sentence} (section {section})"))
}

impl Drop for Served {
    fn drop(&mut self) {
        drop(self.requests.take()); // it ends when nobody can ask any more
        for _ in 0..100 {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
