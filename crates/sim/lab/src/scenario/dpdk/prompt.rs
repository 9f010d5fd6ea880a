//! A conversation with testpmd's prompt, over a serial line of the guest.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::{Error, Result};

const PROMPT: &str = "testpmd> ";
/// What the guest's script says when testpmd is gone.
const ENDED: &str = "ended with ";

/// The host's end of the line.
#[derive(Debug)]
pub struct Prompt {
    stream: UnixStream,
    path: PathBuf,
    said: Vec<u8>,
    transcript: PathBuf,
}

impl Prompt {
    /// Connects to the socket of QEMU's character device. All that is said goes
    /// to `transcript`, too.
    ///
    /// # Errors
    /// [`Error::File`] when nobody listens.
    pub fn connect(path: &Path, transcript: PathBuf) -> Result<Prompt> {
        let stream = UnixStream::connect(path).map_err(Error::at(path))?;
        stream.set_read_timeout(Some(Duration::from_millis(20))).map_err(Error::at(path))?;
        Ok(Prompt { stream, path: path.to_owned(), said: Vec::new(), transcript })
    }

    /// Starts testpmd with these arguments and waits for its prompt.
    ///
    /// # Errors
    /// [`Error::Malformed`] with its last words when it ends or gives no prompt.
    pub fn start(&mut self, arguments: &str, limit: Duration) -> Result<String> {
        self.converse(arguments, PROMPT, limit)
    }

    /// Says a command and returns what it answers, its echo included.
    ///
    /// # Errors
    /// As [`Prompt::start`].
    pub fn say(&mut self, command: &str) -> Result<String> {
        self.converse(command, PROMPT, Duration::from_secs(60))
    }

    /// Ends testpmd; its last words, in the end its exit status.
    ///
    /// # Errors
    /// As [`Prompt::start`].
    pub fn quit(&mut self) -> Result<String> {
        self.converse("quit", ENDED, Duration::from_secs(60))
    }

    /// Lets the guest's script go on.
    ///
    /// # Errors
    /// [`Error::File`] when the guest is gone.
    pub fn end(&mut self) -> Result<()> {
        writeln!(self.stream, "end").map_err(Error::at(&self.path))
    }

    /// Says a line, and listens until `until` comes behind its echo.
    fn converse(&mut self, line: &str, until: &str, limit: Duration) -> Result<String> {
        let from = self.said.len();
        writeln!(self.stream, "{line}").map_err(Error::at(&self.path))?;
        let begin = Instant::now();
        loop {
            self.listen()?;
            let answer = String::from_utf8_lossy(&self.said[from..]).into_owned();
            // The exit status stands behind it: to the line's end.
            let there = match until {
                PROMPT => without_events(&answer).contains(PROMPT),
                _ => answer.find(until).is_some_and(|at| answer[at..].contains('\n')),
            };
            if there {
                return Ok(answer);
            }
            let ended = until == PROMPT && answer.contains(ENDED);
            if ended || begin.elapsed() > limit {
                let lines: Vec<&str> = answer.lines().collect();
                let last = lines[lines.len().saturating_sub(12)..].join("\n  ");
                let what = if ended { "ended" } else { "did not answer in time" };
                let reason = format!("after `{line}`, testpmd {what}:\n  {last}");
                return Err(Error::Malformed { path: self.transcript.clone(), reason });
            }
        }
    }

    /// Takes what has been said.
    fn listen(&mut self) -> Result<()> {
        let mut piece = [0; 4096];
        match self.stream.read(&mut piece) {
            Ok(0) => Err(Error::at(&self.path)(ErrorKind::UnexpectedEof.into())),
            Ok(n) => {
                self.said.extend_from_slice(&piece[..n]);
                std::fs::write(&self.transcript, &self.said).map_err(Error::at(&self.transcript))
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => Ok(()),
            Err(error) => Err(Error::at(&self.path)(error)),
        }
    }
}

/// What was said without the lines that another thread of testpmd says of a port's event, each
/// with a line's end in front: they may come between the letters of a prompt.
fn without_events(said: &str) -> String {
    let is_event = |line: &str| line.starts_with("Port ") && line.trim_end().ends_with(" event");
    let mut rest = String::with_capacity(said.len());
    for line in said.split_inclusive('\n') {
        match is_event(line) {
            true => rest.truncate(rest.trim_end_matches(['\r', '\n']).len()),
            false => rest += line,
        }
    }
    rest
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::os::unix::net::UnixListener;

    use super::*;

    /// A guest that answers lines from a list, and then hangs up.
    fn talk<T>(answers: &[(&str, &str)], host: impl FnOnce(&mut Prompt) -> T) -> T {
        let home = tempfile::tempdir().expect("a directory");
        let path = home.path().join("line");
        let listener = UnixListener::bind(&path).expect("bound");
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let (mut stream, _) = listener.accept().expect("connected");
                let mut lines = BufReader::new(stream.try_clone().expect("cloned")).lines();
                for (line, answer) in answers {
                    assert_eq!(lines.next().expect("one more").expect("read"), *line);
                    stream.write_all(answer.as_bytes()).expect("written");
                }
            });
            host(&mut Prompt::connect(&path, home.path().join("log")).expect("somebody listens"))
        })
    }

    #[test]
    fn answers_end_with_the_prompt_and_testpmd_with_its_status() {
        let all = [
            ("-l 0", "EAL: up\ntestpmd> "),
            ("stop", "stop\r\nDone.\ntestpmd> "),
            ("set link-down port 1", "\r\ntest\r\nPort 1: link state change event\r\npmd> "),
            ("quit", "Bye\nended with 0\n"),
        ];
        talk(&all, |prompt| {
            assert!(prompt.start("-l 0", Duration::from_secs(5)).expect("starts").contains("up"));
            assert!(prompt.say("stop").expect("answers").contains("Done."));
            prompt.say("set link-down port 1").expect("an event is between the prompt's letters");
            assert!(prompt.quit().expect("ends").contains("ended with 0"));
        });
    }

    #[test]
    fn one_that_dies_is_told_with_its_last_words() {
        let error = talk(&[("-l 9", "EAL: no such core\nended with 1\n")], |prompt| {
            prompt.start("-l 9", Duration::from_secs(5)).expect_err("no prompt").to_string()
        });
        assert!(error.contains("testpmd ended") && error.contains("no such core"), "{error}");
    }

    #[test]
    fn one_that_hangs_or_is_gone_does_not_keep_us() {
        talk(&[("-l 0", "EAL: ...")], |prompt| {
            assert!(prompt.start("-l 0", Duration::from_millis(100)).is_err());
            assert!(prompt.say("stop").is_err(), "the guest has hung up");
        });
    }
}
