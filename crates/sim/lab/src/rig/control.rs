//! What host and guest say to each other: lines over the guest's second serial
//! port, at the host's end a unix socket that QEMU connects to.
//!
//! The guest says `booted`, `problem WHY`, `started`, then of its program
//! `out LINE`, `err LINE` and `ended STATUS`, `file BYTES` with so many bytes
//! behind the line, and `done`. The host says `stop`. Other lines are passed over.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use crate::{Error, Result};

/// Bytes that a file of the guest's may have.
const LARGEST_FILE: usize = 1 << 30;
/// Bytes that may come without the end of a line.
const LONGEST_LINE: usize = 1 << 20;

/// A message of the guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// Its script runs.
    Booted,
    /// It cannot go on, and why.
    Problem(String),
    /// The program is at work.
    Started,
    /// A line of the program's standard output.
    Out(String),
    /// A line of its standard error.
    Err(String),
    /// It has ended with this status.
    Ended(i32),
    /// A file that it has written.
    File(Vec<u8>),
    /// The guest has told all.
    Done,
}

/// What came of listening for a while.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Report {
    /// A message that the guest sent.
    Message(Message),
    /// No whole message came in that time.
    Nothing,
    /// The machine has ended.
    Gone,
}

/// The host's end.
#[derive(Debug)]
pub struct Control {
    listener: UnixListener,
    stream: Option<UnixStream>,
    path: PathBuf,
    begun: Vec<u8>,
}

impl Control {
    /// Listens in a directory.
    ///
    /// # Errors
    /// [`Error::File`] when the path is taken or too long for a socket.
    pub fn new(directory: &Path) -> Result<Control> {
        let path = directory.join("control");
        let listener = UnixListener::bind(&path).map_err(Error::at(&path))?;
        listener.set_nonblocking(true).map_err(Error::at(&path))?;
        Ok(Control { listener, stream: None, path, begun: Vec::new() })
    }

    /// QEMU's arguments that connect the guest's second serial port to the socket.
    pub(super) fn arguments(&self) -> [String; 4] {
        let backend = format!("socket,id=control,path={}", self.path.display());
        ["-chardev".into(), backend, "-serial".into(), "chardev:control".into()]
    }

    /// Waits for QEMU to connect; `false` when it does not.
    pub fn connect(&mut self, limit: Duration) -> bool {
        let end = Instant::now() + limit;
        while self.stream.is_none() {
            match self.listener.accept() {
                Ok((stream, _)) => self.stream = Some(stream),
                Err(_) if Instant::now() < end => thread::sleep(Duration::from_millis(5)),
                Err(_) => return false,
            }
        }
        true
    }

    /// The stream itself, once QEMU has connected, for whoever talks to more
    /// than the script.
    pub fn stream(&self) -> Option<&UnixStream> {
        self.stream.as_ref()
    }

    /// Says a line to the guest; one that is gone shows when it is listened to.
    pub fn say(&mut self, line: &str) {
        if let Some(stream) = &mut self.stream {
            let _ = writeln!(stream, "{line}").and_then(|()| stream.flush());
        }
    }

    /// Listens, at most for so long.
    pub fn hear(&mut self, limit: Duration) -> Report {
        let end = Instant::now() + limit;
        loop {
            while let Some(message) = take(&mut self.begun) {
                if let Some(message) = message {
                    return Report::Message(message);
                }
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Report::Nothing;
            }
            if !self.read_some(left) {
                return Report::Gone;
            }
        }
    }

    /// `false` at the end of the stream.
    fn read_some(&mut self, limit: Duration) -> bool {
        let Some(stream) = &mut self.stream else { return false };
        if stream.set_read_timeout(Some(limit)).is_err() {
            return false;
        }
        let mut bytes = [0; 65536];
        match stream.read(&mut bytes) {
            Ok(0) => false,
            Ok(count) => {
                self.begun.extend_from_slice(&bytes[..count]);
                true
            }
            Err(error) => {
                matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
            }
        }
    }
}

impl Drop for Control {
    /// Another machine in the directory binds it anew.
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Takes a whole line, and the file behind it, from the front; `Some(None)` is a
/// line that says nothing, `None` is nothing whole.
fn take(begun: &mut Vec<u8>) -> Option<Option<Message>> {
    let Some(end) = begun.iter().take(LONGEST_LINE).position(|&byte| byte == b'\n') else {
        if begun.len() >= LONGEST_LINE {
            begun.clear(); // noise
        }
        return None;
    };
    let line = String::from_utf8_lossy(&begun[..end]).trim_end_matches('\r').to_owned();
    let (word, rest) = line.split_once(' ').unwrap_or((&line, ""));
    let mut taken = end + 1;
    let message = match word {
        "booted" => Some(Message::Booted),
        "problem" => Some(Message::Problem(rest.to_owned())),
        "started" => Some(Message::Started),
        "out" => Some(Message::Out(rest.to_owned())),
        "err" => Some(Message::Err(rest.to_owned())),
        "ended" => Some(Message::Ended(rest.trim().parse().unwrap_or(-1))),
        "file" => {
            let size = rest.trim().parse().ok().filter(|&size: &usize| size <= LARGEST_FILE).unwrap_or(0);
            let file = begun.get(taken..taken + size)?.to_vec();
            taken += size;
            Some(Message::File(file))
        }
        "done" => Some(Message::Done),
        _ => None,
    };
    begun.drain(..taken);
    Some(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &[u8]) -> (Vec<Message>, Vec<u8>) {
        let (mut begun, mut messages) = (text.to_vec(), Vec::new());
        while let Some(message) = take(&mut begun) {
            messages.extend(message);
        }
        (messages, begun)
    }

    #[test]
    fn lines_become_messages() {
        let (messages, rest) = all(b"noise\nbooted\r\nout {\"a\": 1}\nended 3\ndon");
        let out = Message::Out("{\"a\": 1}".to_owned());
        assert_eq!(messages, [Message::Booted, out, Message::Ended(3)]);
        assert_eq!(rest, b"don");
    }

    #[test]
    fn a_file_is_taken_whole_whatever_is_in_it() {
        let (messages, rest) = all(b"file 6\na\nb\n\x00\xffdone\n");
        assert_eq!(messages, [Message::File(b"a\nb\n\x00\xff".to_vec()), Message::Done]);
        assert!(rest.is_empty());
        let (messages, rest) = all(b"file 6\na\nb");
        assert!(messages.is_empty());
        assert_eq!(rest, b"file 6\na\nb", "the rest is still to come");
        assert_eq!(all(b"file 99999999999999999999\ndone\n").0.last(), Some(&Message::Done));
    }

    #[test]
    fn a_guest_that_hangs_up_is_gone_and_a_silent_one_is_not() {
        let home = tempfile::tempdir().expect("a directory");
        let mut control = Control::new(home.path()).expect("bound");
        assert!(!control.connect(Duration::from_millis(1)));
        let mut far = UnixStream::connect(home.path().join("control")).expect("connected");
        assert!(control.connect(Duration::from_secs(1)));
        assert_eq!(control.hear(Duration::from_millis(10)), Report::Nothing);
        far.write_all(b"started\n").expect("written");
        assert_eq!(control.hear(Duration::from_secs(1)), Report::Message(Message::Started));
        drop(far);
        assert_eq!(control.hear(Duration::from_secs(1)), Report::Gone);
    }
}
