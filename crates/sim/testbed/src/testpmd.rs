//! DPDK's `testpmd` as a process beside us: the drivers and back ends that
//! nobody here wrote, for tests and measurements.
//!
//! DPDK may be installed or merely unpacked (its packages and those of the
//! libraries it needs in one folder): it runs by the folder's own loader, with
//! its drivers loaded beforehand, so that the folder may lie anywhere. No
//! hugepages, no root. Conversation is the interactive prompt's, over a pseudo
//! terminal, or what it says would stay in a buffer.

mod output;

use std::fs::DirBuilder;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use output::Transcript;
pub use output::{Cycles, Forwarded, Port};

/// Names an unpacked DPDK: the folder that has `usr/bin/dpdk-testpmd` in it.
pub const VARIABLE: &str = "IXORA_DPDK";
/// How long it may take to come up, or to answer a command.
const TIME_LIMIT: Duration = Duration::from_secs(20);
/// How long it may take to end by itself.
const QUIT_LIMIT: Duration = Duration::from_secs(5);
const PROMPT: &str = "testpmd> ";
/// The drivers that are loaded beforehand, those of them that are there.
const DRIVERS: [&str; 4] = ["net_vhost", "net_virtio", "net_null", "mempool_ring"];

/// A DPDK that can be run.
#[derive(Clone, Debug)]
pub struct Dpdk {
    root: PathBuf,
}

impl Dpdk {
    /// The one unpacked in `root`; `/` is the one installed.
    ///
    /// # Errors
    /// `ENOENT` when there is no testpmd, no driver or no loader.
    pub fn at(root: impl Into<PathBuf>) -> io::Result<Dpdk> {
        let dpdk = Dpdk { root: root.into() };
        dpdk.command(&[]).map(|_| dpdk)
    }

    /// The one that [`VARIABLE`] names, else the one installed.
    pub fn find() -> Option<Dpdk> {
        match std::env::var_os(VARIABLE) {
            Some(root) => Dpdk::at(root).ok(),
            None => Dpdk::at("/").ok(),
        }
    }

    /// `testpmd` with these drivers loaded, to which arguments are to be added.
    ///
    /// # Errors
    /// `ENOENT` when there is no testpmd, no driver or no loader.
    pub fn command(&self, drivers: &[&str]) -> io::Result<Command> {
        let missing = |what: &str| {
            let text = format!("{}: no {what} there", self.root.display());
            io::Error::new(io::ErrorKind::NotFound, text)
        };
        let program = self.root.join("usr/bin/dpdk-testpmd");
        if !program.exists() {
            return Err(missing("usr/bin/dpdk-testpmd"));
        }
        let loader = ["lib64", "lib"].iter().find_map(|folder| entry(&self.root.join(folder), "ld-linux"));
        let loader = loader.ok_or_else(|| missing("loader"))?;
        let libraries =
            entry(&self.root.join("usr/lib"), "-linux-gnu").ok_or_else(|| missing("libraries"))?;
        let place = entry(&libraries.join("dpdk"), "pmds-").ok_or_else(|| missing("DPDK drivers"))?;
        let preloaded: Vec<String> = drivers
            .iter()
            .filter_map(|name| entry(&place, &format!("librte_{name}.so.")))
            .map(|path| path.display().to_string())
            .collect();
        let triple = libraries.file_name().unwrap_or_default();
        let folders = [libraries.clone(), self.root.join("lib").join(triple), place];
        let folders = folders.map(|folder| folder.display().to_string()).join(":");
        let mut command = match self.other_drivers() {
            Some(others) => without(&others, &loader),
            None => Command::new(loader),
        };
        command.args(["--library-path", &folders, "--preload", &preloaded.join(" ")]).arg(program);
        Ok(command)
    }

    /// The drivers of a DPDK that is installed, where this is another one. It would load them
    /// whatever it is told, beside its own, and two drivers of one name are an error.
    fn other_drivers(&self) -> Option<PathBuf> {
        let installed = entry(Path::new("/usr/lib"), "-linux-gnu")?.join("dpdk");
        (self.root != Path::new("/") && installed.is_dir()).then_some(installed)
    }
}

/// A program that does not see what is in a folder: in a mount namespace of its own, in which
/// the folder is empty.
fn without(folder: &Path, program: &Path) -> Command {
    const HIDE: &str = r#"mount -t tmpfs tmpfs "$0" && exec "$@""#;
    let mut command = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    command.args(["--mount", "--propagation", "private", "sh", "-c", HIDE]).arg(folder).arg(program);
    command
}

/// The first file of a folder, by name, that has `part` in its name.
fn entry(folder: &Path, part: &str) -> Option<PathBuf> {
    let files = std::fs::read_dir(folder).ok()?.flatten().map(|file| file.path());
    let named = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().contains(part));
    files.filter(named).min()
}

/// What it is to run on.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Core of the prompt and core of the packets.
    pub cores: [usize; 2],
    /// Virtual devices, as `--vdev` has them.
    pub vdevs: Vec<String>,
    /// Descriptors of each ring.
    pub ring: u16,
    /// Further arguments, those after `--`.
    pub arguments: Vec<String>,
}

/// A running testpmd; killed when dropped.
#[derive(Debug)]
pub struct Testpmd {
    child: Child,
    input: ChildStdin,
    transcript: Transcript,
    /// Its runtime files.
    folder: PathBuf,
}

impl Testpmd {
    /// Starts it and waits for its prompt.
    ///
    /// # Errors
    /// What starting says; its last words when it ends or does not come up.
    pub fn start(dpdk: &Dpdk, setup: &Setup) -> io::Result<Testpmd> {
        static SEQUENCE: AtomicU32 = AtomicU32::new(0);
        let number = SEQUENCE.fetch_add(1, Ordering::Relaxed);
        let name = format!("ixora-testpmd-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(&name);
        // Ours alone: one that is there already may be somebody else's.
        DirBuilder::new().mode(0o700).create(&folder)?;
        let (terminal, output) = terminal()?;
        let [prompt, packets] = setup.cores;
        let mut command = dpdk.command(&DRIVERS)?;
        command
            .env("XDG_RUNTIME_DIR", &folder)
            .args(["--lcores", &format!("0@{prompt},1@{packets}"), "--no-huge", "-m", "256", "--no-pci"])
            .args(["--no-shconf", "--no-telemetry", "--file-prefix", &name])
            .args(setup.vdevs.iter().flat_map(|vdev| ["--vdev", vdev]))
            .args(["--", "-i", "--total-num-mbufs=16384"])
            .args([format!("--rxd={}", setup.ring), format!("--txd={}", setup.ring)])
            .args(&setup.arguments)
            .stdin(Stdio::piped())
            .stdout(output.try_clone()?)
            .stderr(output);
        let mut child = command.spawn()?;
        drop(command); // and with it our copies of the terminal's other end
        let input = child.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let mut testpmd = Testpmd { child, input, transcript: Transcript::read(terminal)?, folder };
        testpmd.await_prompt(0, "")?;
        Ok(testpmd)
    }

    /// Its process, to be stopped and continued.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Says `command` and returns what it answers.
    ///
    /// # Errors
    /// When it has ended or gives no prompt again in time; its last words.
    pub fn say(&mut self, command: &str) -> io::Result<String> {
        let from = self.transcript.len();
        writeln!(self.input, "{command}").and_then(|()| self.input.flush())?;
        self.await_prompt(from, command)
    }

    /// Counters of port 0.
    ///
    /// # Errors
    /// As [`say`](Testpmd::say).
    pub fn port(&mut self) -> io::Result<Port> {
        Ok(Port::parse(&self.say("show port stats 0")?))
    }

    /// Forgets what was counted.
    ///
    /// # Errors
    /// As [`say`](Testpmd::say).
    pub fn clear(&mut self) -> io::Result<()> {
        self.say("clear port stats all")?;
        self.say("clear fwd stats all").map(drop)
    }

    /// Cycles of bursts that were not empty, and packets of them, since the
    /// last [`clear`](Testpmd::clear); needs `set record-core-cycles on`.
    ///
    /// # Errors
    /// As [`say`](Testpmd::say).
    pub fn cycles(&mut self) -> io::Result<Cycles> {
        Ok(Cycles::parse(&self.say("show fwd stats all")?))
    }

    /// What became of packets on their way through, since the last
    /// [`clear`](Testpmd::clear).
    ///
    /// # Errors
    /// As [`say`](Testpmd::say).
    pub fn forwarded(&mut self) -> io::Result<Forwarded> {
        Ok(Forwarded::parse(&self.say("show fwd stats all")?))
    }

    /// All it said so far.
    pub fn transcript(&self) -> String {
        self.transcript.text()
    }

    /// Ends it in order. All it said.
    pub fn quit(mut self) -> String {
        let _ = writeln!(self.input, "stop\nquit").and_then(|()| self.input.flush());
        let begin = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) && begin.elapsed() < QUIT_LIMIT {
            std::thread::sleep(Duration::from_millis(10));
        }
        self.transcript.text()
    }

    /// The prompt comes behind the command's echo; messages of other threads may
    /// come anywhere.
    fn await_prompt(&mut self, from: usize, command: &str) -> io::Result<String> {
        let begin = Instant::now();
        loop {
            let text = self.transcript.text();
            let said = text.get(from..).unwrap_or_default();
            let answer = said.find(command).map(|at| &said[at..]);
            if answer.is_some_and(|answer| answer.contains(PROMPT)) {
                return Ok(said.to_owned());
            }
            let ended = self.child.try_wait()?;
            if ended.is_some() || begin.elapsed() > TIME_LIMIT {
                let lines: Vec<&str> = text.lines().collect();
                let last = lines[lines.len().saturating_sub(12)..].join("\n  ");
                let what =
                    ended.map_or("gives no prompt".to_owned(), |status| format!("ended with {status}"));
                return Err(io::Error::other(format!("testpmd {what}:\n  {last}")));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Testpmd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Both ends of a pseudo terminal: ours, and the one the process writes to.
fn terminal() -> io::Result<(OwnedFd, OwnedFd)> {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    grantpt(&ours)?;
    unlockpt(&ours)?;
    let name = ptsname(&ours, Vec::new())?;
    let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY | rustix::fs::OFlags::CLOEXEC;
    let theirs = rustix::fs::open(name, flags, rustix::fs::Mode::empty())?;
    Ok((ours, theirs))
}
