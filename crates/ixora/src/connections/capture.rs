//! `ixora tcp capture`: the frames of a connection of a server that runs, as pcapng.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use interface::pcap::{Blocks, Direction, PacketOptions, Writer};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tcp::{Copies, Peer, Taken};

use super::START;
use crate::apps::load::arguments::To;
use crate::apps::pcap::create;
use crate::rate::duration;
use crate::{Failure, control_socket, signal};

/// How often a client comes for what was copied, and how long one that does not come is waited for.
const INTERVAL: Duration = Duration::from_millis(50);
const LEASE: Duration = Duration::from_secs(3);

/// What is asked for.
#[derive(Args, Debug)]
pub struct Capture {
    /// The socket that the server listens at, its `--control`.
    pub control: PathBuf,
    /// The other side: 10.0.0.9, 10.0.0.9:50718, [fd00::9]:50718. With a port, the frames of its
    /// connection; without one, those of all connections of the address.
    pub peer: To,
    /// The file to write, pcapng; `-` for standard output.
    #[arg(default_value = "-")]
    pub file: PathBuf,
    /// Stop after so many frames.
    #[arg(long)]
    pub count: Option<u64>,
    /// Stop after this time.
    #[arg(long, value_parser = duration)]
    pub duration: Option<Duration>,
}

/// Copied frames as they go over the socket.
#[derive(Debug, Serialize, Deserialize)]
struct Frames {
    /// Of each the time in nanoseconds since 1970, whether it was sent, and its bytes as digits.
    frames: Vec<(u64, bool, String)>,
    lost: u64,
}

/// Writes what comes and goes until a signal, or as long as was asked for.
pub fn run(arguments: &Capture) -> Result<(), Failure> {
    let Capture { control, peer: To(address, port), file, .. } = arguments;
    let stop = signal::stop_flag()?;
    let failed = |error: std::io::Error| Failure::new(format!("cannot write {}: {error}", file.display()));
    let port = port.map_or("-".to_owned(), |port| port.to_string());
    ask(control, &format!("capture {address} {port}"))?;
    let output = create(file).and_then(|file| Writer::new(Blocks::new(file), &[])).map_err(failed);
    let mut writer = output.inspect_err(|_| drop(ask(control, "capture-end")))?;
    writer.add_interface("serve", "time stamps when a batch was received or sent").map_err(failed)?;
    let end = arguments.duration.map(|duration| Instant::now() + duration);
    let (mut left, mut written, mut lost) = (arguments.count.unwrap_or(u64::MAX), 0_u64, 0_u64);
    while !stop.load(Ordering::Relaxed) && left > 0 && end.is_none_or(|end| Instant::now() < end) {
        thread::sleep(INTERVAL);
        let answer = ask(control, "captured")?;
        let Frames { frames, lost: more } = serde_json::from_value(answer).map_err(|error| {
            Failure::new(format!("{} answers something else: {error}", control.display()))
        })?;
        lost += more;
        for (time_ns, is_sent, digits) in frames.into_iter().take(usize::try_from(left).unwrap_or(usize::MAX))
        {
            let direction = if is_sent { Direction::Outbound } else { Direction::Inbound };
            let options = PacketOptions { direction, ..PacketOptions::default() };
            writer.write(0, time_ns, &control_socket::bytes(&digits), options).map_err(failed)?;
            (left, written) = (left - 1, written + 1);
        }
        writer.flush().map_err(failed)?;
    }
    // The server may have ended.
    let _ = ask(control, "capture-end");
    eprintln!("{written} frames, {lost} lost on their way here");
    Ok(())
}

fn ask(control: &Path, request: &str) -> Result<serde_json::Value, Failure> {
    let answer = control_socket::ask(control, request, START)?;
    let answer: serde_json::Value = serde_json::from_str(&answer).unwrap_or_default();
    match answer["error"].as_str() {
        Some(error) => Err(Failure::new(format!("{}: {error}", control.display()))),
        None if answer.is_null() => {
            Err(Failure::new(format!("{} captures nothing: it is no server of ixora's", control.display())))
        }
        None => Ok(answer),
    }
}

/// The server's side: one client at a time has its hosts copy frames.
pub struct Capturing {
    hosts: Vec<Copies>,
    /// When the client was here last.
    seen: Mutex<Option<Instant>>,
}

impl Capturing {
    pub fn new(hosts: Vec<Copies>) -> Capturing {
        Capturing { hosts, seen: Mutex::default() }
    }

    /// Begins for a client.
    pub fn begin(&self, address: &str, port: &str) -> Result<String, String> {
        let address: IpAddr = address.parse().map_err(|_| format!("{address} is no address"))?;
        let port =
            (port != "-").then(|| port.parse().map_err(|_| format!("{port} is no port"))).transpose()?;
        let mut seen = self.seen();
        if seen.is_some() {
            let wait = LEASE.as_secs();
            return Err(format!("somebody captures already: try again when that has ended, or in {wait} s"));
        }
        *seen = Some(Instant::now());
        self.hosts.iter().for_each(|host| host.begin(Peer { address, port }));
        Ok(json!({ "capturing": address.to_string() }).to_string())
    }

    /// What hosts copied since the last time, in the order of time.
    pub fn take(&self) -> Result<String, String> {
        let mut seen = self.seen();
        if seen.is_none() {
            return Err("nobody captures: it was waited for too long".to_owned());
        }
        *seen = Some(Instant::now());
        let taken: Vec<Taken> = self.hosts.iter().map(Copies::take).collect();
        let lost = taken.iter().map(|taken| taken.lost).sum();
        let mut frames: Vec<_> = taken.into_iter().flat_map(|taken| taken.frames).collect();
        frames.sort_by_key(|frame| frame.time_ns);
        let frames = frames.iter().map(|frame| (frame.time_ns, frame.is_sent, digits(&frame.bytes)));
        serde_json::to_string(&Frames { frames: frames.collect(), lost }).map_err(|error| error.to_string())
    }

    /// Ends it, and forgets what was not taken.
    pub fn end(&self) -> Result<String, String> {
        *self.seen() = None;
        self.hosts.iter().for_each(Copies::end);
        Ok(json!({}).to_string())
    }

    /// Ends it when the client has gone without a word.
    pub fn look(&self) {
        let is_gone = self.seen().is_some_and(|seen| seen.elapsed() > LEASE);
        if is_gone {
            let _ = self.end();
        }
    }

    fn seen(&self) -> MutexGuard<'_, Option<Instant>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn digits(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
