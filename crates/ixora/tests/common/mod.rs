//! Running the program with a time limit, so that a hang is a failure with its
//! output, not a test run that never ends.
#![allow(dead_code, reason = "not every test file needs all of it")]

pub mod host;

use std::fs::File;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use interface::pcap::Reader;

/// What a run left.
#[derive(Debug)]
pub struct Done {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

impl Done {
    pub fn code(&self) -> Option<i32> {
        self.status.code()
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error} in {self:#?}"))
    }
}

/// A running program; killed when dropped, with the programs that it started in its group.
pub struct Running(Option<Child>);

/// How long the output of a program that ended may stay open, in others that it started.
const OUTPUT: Duration = Duration::from_secs(20);

/// The program under test.
pub const IXORA: &str = env!("CARGO_BIN_EXE_ixora");

/// Starts `ixora` with arguments split at spaces; temporary files go to `place`.
pub fn start(place: &Path, arguments: &str) -> Running {
    start_command(Command::new(IXORA).args(arguments.split(' ')), place)
}

/// Starts any command the same way.
pub fn start_command(command: &mut Command, place: &Path) -> Running {
    let child = command
        .env("TMPDIR", place)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .expect("the program starts");
    Running(Some(child))
}

/// Runs `ixora` to its end.
pub fn run(place: &Path, arguments: &str) -> Done {
    start(place, arguments).wait(20)
}

/// Runs any command to its end; one that runs longer than a minute fails the test.
pub fn output(command: &mut Command) -> Output {
    let Done { status, stdout, stderr } = start_command(command, &std::env::temp_dir()).wait(60);
    Output { status, stdout: stdout.into_bytes(), stderr: stderr.into_bytes() }
}

impl Running {
    /// The process id.
    pub fn id(&self) -> u32 {
        self.0.as_ref().expect("still running").id()
    }

    /// Closes our ends of its standard output and error.
    pub fn hang_up(&mut self) {
        let child = self.0.as_mut().expect("still running");
        drop((child.stdout.take(), child.stderr.take()));
    }

    /// Sends a signal.
    pub fn signal(&self, signal: rustix::process::Signal) {
        let id = rustix::process::Pid::from_raw(self.id() as i32).expect("an id");
        rustix::process::kill_process(id, signal).expect("the process is there");
    }

    /// Interrupts it and all its children, as Ctrl-C on a terminal does.
    pub fn interrupt_group(&self) {
        let id = rustix::process::Pid::from_raw(self.id() as i32).expect("an id");
        rustix::process::kill_process_group(id, rustix::process::Signal::INT).expect("the group is there");
    }

    /// Waits at most so many seconds, then fails the test with what was printed.
    pub fn wait(mut self, seconds: u64) -> Done {
        let mut child = self.0.take().expect("still running");
        let out = child.stdout.take().map(read);
        let err = child.stderr.take().map(read);
        let end = Instant::now() + Duration::from_secs(seconds);
        let mut late = false;
        let status = loop {
            match child.try_wait().expect("a child of ours") {
                Some(status) => break status,
                None if Instant::now() > end => {
                    late = true;
                    kill(&mut child);
                    break child.wait().expect("a child of ours");
                }
                None => thread::sleep(Duration::from_millis(5)),
            }
        };
        let kept = |_| "a program that it started keeps its output open".to_owned();
        let all = |pipe: Option<Receiver<String>>| {
            pipe.map(|pipe| pipe.recv_timeout(OUTPUT).unwrap_or_else(kept)).unwrap_or_default()
        };
        let (stdout, stderr) = (all(out), all(err));
        let done = Done { status, stdout, stderr };
        assert!(!late, "still running after {seconds} s: {done:#?}");
        done
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            kill(&mut child);
            let _ = child.wait();
        }
    }
}

/// Kills a program that was not waited for yet, and its group.
fn kill(child: &mut Child) {
    if let Some(group) = rustix::process::Pid::from_raw(child.id() as i32) {
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    let _ = child.kill();
}

/// Collects what a pipe gives, in a thread of its own.
fn read(mut from: impl Read + Send + 'static) -> Receiver<String> {
    let (say, hear) = channel();
    thread::spawn(move || {
        let mut text = String::new();
        let _ = from.read_to_string(&mut text);
        let _ = say.send(text);
    });
    hear
}

/// Waits until a condition holds.
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60); // a machine may be busy
    while !condition() {
        assert!(Instant::now() < end, "no {what} after 60 s");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Serves a model of the 82599 at `place/nic` with `--json` and waits for its socket; also
/// the port's name.
pub fn model(place: &Path, options: &str) -> (Running, String) {
    model_of("82599", place, options)
}

/// Likewise, a model of any device.
pub fn model_of(device: &str, place: &Path, options: &str) -> (Running, String) {
    let socket = place.join("nic");
    let model = start(place, &format!("model {device} --json --socket {} {options}", socket.display()));
    until("socket", || socket.exists());
    (model, format!("vfio-user:{}", socket.display()))
}

/// Whether network interfaces can be made here. Where they cannot, a test says
/// so and is passed over; where everything must run (`CI=true`), it fails.
pub fn may_make_interfaces() -> bool {
    let may = rustix::process::geteuid().is_root();
    let must = std::env::var("CI").is_ok_and(|ci| ci == "true");
    assert!(may || !must, "CI=true, but network interfaces need root");
    if !may {
        println!("passed over: a network interface of our own needs root");
    }
    may
}

/// The names in a directory.
pub fn names(place: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(place).expect("a directory");
    entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect()
}

/// The packets of a capture file.
pub fn captured(path: &Path) -> Vec<Vec<u8>> {
    let mut reader = Reader::new(File::open(path).expect("written")).expect("pcapng");
    let mut packets = Vec::new();
    while let Some(record) = reader.next().expect("whole blocks") {
        packets.push(record.data.to_vec());
    }
    packets
}

/// The packets that a capture has so far while it is written, with their times: there may be no
/// file yet, and its last block may not be whole.
pub fn captured_so_far(path: &Path) -> Vec<(u64, Vec<u8>)> {
    let mut packets = Vec::new();
    let Some(mut reader) = File::open(path).ok().and_then(|file| Reader::new(file).ok()) else {
        return packets;
    };
    while let Ok(Some(record)) = reader.next() {
        packets.push((record.time_ns, record.data.to_vec()));
    }
    packets
}
