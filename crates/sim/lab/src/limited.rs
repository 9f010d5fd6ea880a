//! Programs of others that are run to their end, for which they have a limit: one that waits
//! for a network, a lock or an answer ends a scenario with a reason instead of holding all
//! of them up. They have no standard input.

use std::io::{self, Read};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::{Error, Result};

/// How often it is looked whether a program has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// How long the output of a program that ended may stay open, in programs that it started.
const OUTPUT: Duration = Duration::from_secs(5);

/// Runs a program to its end; what it printed.
///
/// # Errors
/// What starting it says; [`io::ErrorKind::TimedOut`], with its last words, when it did not
/// end in time, and was killed.
pub fn output(command: &mut Command, limit: Duration) -> io::Result<Output> {
    let name = command.get_program().to_string_lossy().into_owned();
    let piped = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let (mut child, begin) = (piped.spawn()?, Instant::now());
    let (stdout, stderr) = (child.stdout.take().map(read), child.stderr.take().map(read));
    let all = |pipe: Option<Receiver<Vec<u8>>>| {
        pipe.and_then(|pipe| pipe.recv_timeout(OUTPUT).ok()).unwrap_or_default()
    };
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Output { status, stdout: all(stdout), stderr: all(stderr) });
        }
        if begin.elapsed() > limit {
            break;
        }
        thread::sleep(POLL_INTERVAL);
    }
    let _ = child.kill(); // it may end just now
    let _ = child.wait();
    let said = all(stderr);
    let said = String::from_utf8_lossy(&said);
    let last = said.trim().lines().next_back().unwrap_or("it complained of nothing");
    Err(io::Error::new(io::ErrorKind::TimedOut, format!("{name} did not end within {limit:?}: {last}")))
}

/// Runs a program to its end; what it said, without the spaces around it.
///
/// # Errors
/// [`Error::File`] when it does not start or end, [`Error::Malformed`] with its complaint when it
/// failed.
pub fn said(command: &mut Command, limit: Duration) -> Result<String> {
    let program = PathBuf::from(command.get_program());
    let output = output(command, limit).map_err(Error::at(&program))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    match output.status.success() {
        true => Ok(text(&output.stdout)),
        false => Err(Error::Malformed { path: program, reason: text(&output.stderr) }),
    }
}

/// Collects what a pipe gives, in a thread of its own.
fn read(mut from: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (say, hear) = channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = from.read_to_end(&mut bytes); // what came until then
        let _ = say.send(bytes);
    });
    hear
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit: Duration) -> io::Result<Output> {
        output(Command::new("sh").args(["-c", script]), limit)
    }

    #[test]
    fn output_and_status_are_the_programs() {
        let done = shell("cat; echo out; echo err >&2; exit 3", Duration::from_secs(60)).expect("it ends");
        assert_eq!(
            (done.status.code(), &done.stdout[..], &done.stderr[..]),
            (Some(3), &b"out\n"[..], &b"err\n"[..])
        );
    }

    #[test]
    fn one_that_does_not_end_is_killed_and_named_with_its_last_words() {
        let begin = Instant::now();
        let error =
            shell("echo waiting >&2; exec sleep 600", Duration::from_millis(200)).expect_err("too long");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(error.to_string().starts_with("sh did not end within 200ms: waiting"), "{error}");
        assert!(begin.elapsed() < Duration::from_secs(60), "{:?}", begin.elapsed());
    }

    #[test]
    fn what_it_leaves_running_is_not_waited_for() {
        let begin = Instant::now();
        assert!(
            shell("sleep 600 & echo $!", Duration::from_secs(60)).is_ok_and(|done| done.status.success())
        );
        assert!(begin.elapsed() < Duration::from_secs(60), "{:?}", begin.elapsed());
    }
}
