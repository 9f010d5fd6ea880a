//! Who tidies up: a process that waits until another one ends, however that
//! comes, and then removes its sockets and directories, and gives devices back
//! that a killed one held. A confined process cannot, and a killed one neither.
//!
//! It is this program again, `ixora janitor`. What to put in order it is told in
//! the beginning; later it takes no requests, but a last byte or the end of the connection without one.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::sleep;
use std::time::{Duration, Instant};

use clap::Args;
use runtime::confine;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::Failure;

/// How long it may take to tidy up.
const LIMIT: Duration = Duration::from_secs(2);
/// How long a process that was killed may keep a device locked.
const DYING: Duration = Duration::from_secs(1);
/// What it says when it knows what to do.
const READY: u8 = b'+';
/// What it is told when a process has ended in order.
const LAST_BYTE: u8 = b'.';

#[derive(Args, Debug)]
pub struct Arguments {
    /// A socket to remove.
    #[arg(long)]
    pub socket: Vec<PathBuf>,
    /// A directory to remove with all that is in it.
    #[arg(long)]
    pub directory: Vec<PathBuf>,
    /// A device to take from a process that was killed.
    #[arg(long)]
    pub device: Vec<bus::Address>,
}

/// What a process leaves when it ends.
#[derive(Clone, Debug, Default)]
pub struct CleanUp {
    /// Sockets to remove, unless others stand in their places by then.
    pub sockets: Vec<PathBuf>,
    /// Directories to remove, with what is in them.
    pub directories: Vec<PathBuf>,
    /// Devices taken from the kernel: the process gives them back, unless it was
    /// killed.
    pub devices: Vec<bus::Address>,
}

impl CleanUp {
    fn arguments(&self) -> std::io::Result<Vec<OsString>> {
        let mut all = Vec::new();
        let mut add = |name: &str, value: &OsStr| all.extend([name.into(), value.to_owned()]);
        for (name, paths) in [("--socket", &self.sockets), ("--directory", &self.directories)] {
            for path in paths {
                add(name, std::path::absolute(path)?.as_os_str());
            }
        }
        self.devices.iter().for_each(|device| add("--device", OsStr::new(&device.to_string())));
        Ok(all)
    }
}

/// A janitor at our service; dropping it, as our end does, sends it to work.
pub struct Janitor {
    process: Child,
    /// Closed: we have ended.
    alive: Option<ChildStdin>,
}

impl Janitor {
    /// Calls one, if there will be something to do.
    pub fn call(clean_up: &CleanUp) -> Result<Option<Janitor>, Failure> {
        let failed = |error| Failure::new(format!("cannot start the process that tidies up: {error}"));
        let arguments = clean_up.arguments().map_err(failed)?;
        if arguments.is_empty() {
            return Ok(None);
        }
        let mut command = Command::new(std::env::current_exe().map_err(failed)?);
        command.arg("janitor").args(arguments);
        // A group of its own: Ctrl-C is not for it. No output that would keep
        // our reader waiting, and no directory that could not be unmounted.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.process_group(0).current_dir("/").spawn().map_err(failed)?;
        let (alive, answer) = (process.stdin.take(), process.stdout.take());
        let janitor = Janitor { process, alive };
        let mut ready = [0];
        answer.map_or(Ok(()), |mut answer| answer.read_exact(&mut ready)).map_err(failed)?;
        Ok(Some(janitor))
    }
}

impl Drop for Janitor {
    fn drop(&mut self) {
        if let Some(mut alive) = self.alive.take() {
            // One that is gone hears nothing.
            let _ = alive.write_all(&[LAST_BYTE]);
        }
        let limit = Instant::now() + LIMIT;
        while matches!(self.process.try_wait(), Ok(None)) && Instant::now() < limit {
            sleep(Duration::from_millis(1));
        }
    }
}

/// `ixora janitor`: waits for the end of a process, then tidies up.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let failed = |error| Failure::new(format!("cannot wait: {error}"));
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        // Caught and ignored: they are for the one that we wait for.
        signal_hook::flag::register(signal, Arc::<AtomicBool>::default()).map_err(failed)?;
    }
    let sockets: Vec<_> =
        arguments.socket.iter().filter_map(|socket| Some((socket, identity(socket)?))).collect();
    confine::keep_files().map_err(|errno| failed(errno.into()))?;
    let mut out = std::io::stdout();
    out.write_all(&[READY]).and_then(|()| out.flush()).map_err(failed)?;
    let mut heard = Vec::new();
    std::io::stdin().take(1).read_to_end(&mut heard).map_err(failed)?;
    if heard.is_empty() {
        arguments.device.iter().for_each(|&device| take_back(device)); // first: it writes to memory
    }
    for (socket, before) in sockets {
        if identity(socket) == Some(before) {
            let _ = fs::remove_file(socket);
        }
    }
    for directory in &arguments.directory {
        let _ = fs::remove_dir_all(directory);
    }
    Ok(())
}

/// Takes a device from a process that was killed, once it has let go of it.
fn take_back(device: bus::Address) {
    let limit = Instant::now() + DYING;
    while bus::give_back(device).is_err() && Instant::now() < limit {
        sleep(Duration::from_micros(200));
    }
}

/// Which file has this name: device and inode.
fn identity(path: &Path) -> Option<(u64, u64)> {
    fs::symlink_metadata(path).ok().map(|file| (file.dev(), file.ino()))
}
