//! Captures what a port receives, as pcapng. The loop is `app::Capture`.

use std::fs::File;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use app::capture::{Capture, Output, now_ns};
use clap::Args;
use interface::pcap::{Blocks, Writer};
use port::{Counter, Feature, Reason};
use runtime::Poller;
use runtime::confine::Needs;

use crate::cli::PortOptions;
use crate::{Failure, open, run, signal};

#[derive(Args, Debug)]
pub struct Pcap {
    /// The port to receive on.
    pub a: String,
    /// The file to write, pcapng; `-` for standard output.
    pub file: PathBuf,
    #[command(flatten)]
    pub port: PortOptions,
}

/// The file of this name, made anew; standard output for `-`.
pub fn create(path: &Path) -> std::io::Result<File> {
    match path == Path::new("-") {
        true => std::io::stdout().as_fd().try_clone_to_owned().map(File::from),
        false => File::create(path),
    }
}

/// `ixora pcap A FILE`. The file is made when the port is open, so that a wrong
/// name costs no older capture.
pub fn run(arguments: &Pcap) -> Result<(), Failure> {
    let mut options = PortOptions { count: None, ..arguments.port.clone() };
    options.open.timestamps = true;
    let options = &options;
    let path = arguments.file.display().to_string();
    let failed = |error: std::io::Error| Failure::new(format!("cannot write {path}: {error}"));
    let stop = signal::stop_flag()?;
    let mut ports = open::ports(&[&arguments.a], options, &stop)?;
    let can = ports.list[0].capabilities();
    let (stamped, stamps) = match () {
        () if can.has(Feature::Timestamps) => (true, "time stamps by the NIC"),
        () if can.has(Feature::PtpTimestamps) => {
            (true, "time stamps by the NIC of event messages of PTP, others when a batch was received")
        }
        () if can.has(Feature::KernelTimestamps) => (true, "time stamps by the kernel"),
        () => (false, "time stamps when a batch was received"),
    };
    let mut writer =
        create(&arguments.file).and_then(|file| Writer::new(Blocks::new(file), &[])).map_err(failed)?;
    writer.add_interface(&arguments.a, stamps).and_then(|_| writer.flush()).map_err(failed)?;
    let left = arguments.port.count.unwrap_or(u64::MAX);
    let output = Arc::new(Mutex::new(Output::new(writer, left)));
    let mut pollers: Vec<Box<dyn Poller>> = Vec::new();
    for n in 0..options.open.rx_queues {
        let (rx, output, path) = (ports.rx_whole(0, n)?, output.clone(), path.clone());
        pollers.push(Box::new(Capture { rx, output, path, stamped }));
    }
    let threads = run::threads("pcap", &ports, pollers, options, &stop, &Arc::default())?;
    let confinement = ports.confine_but(options, Needs { captures: true, ..Needs::default() })?;
    let outcome = run::measure("pcap", threads, &mut ports, options, confinement);
    drop(ports);
    end(outcome, &output, options.json, arguments.file == Path::new("-"))
}

/// Ends the file with what the interface counted, and prints that.
fn end(mut outcome: run::Outcome, output: &Mutex<Output>, json: bool, aside: bool) -> Result<(), Failure> {
    let output = &mut *output.lock().unwrap_or_else(PoisonError::into_inner);
    let summary = &mut outcome.summary;
    summary.add_counters(&[Counter::of_loss(Reason::RxNotWritten, output.not_written())]);
    if let Some(writer) = output.intact() {
        let losses: Vec<(&str, u64)> = summary.losses.iter().map(|(name, count)| (*name, *count)).collect();
        let written = writer.write_statistics(0, now_ns(), summary.rx_packets, &losses);
        let written = written.and_then(|()| writer.flush());
        let failed =
            written.err().map(|error| Failure::new(format!("cannot write the capture's end: {error}")));
        outcome.failure = outcome.failure.or(failed);
    }
    match aside {
        true => eprint!("{}", summary.text(json)),
        false => print!("{}", summary.text(json)),
    }
    outcome.failure.or_else(|| outcome.summary.missing()).map_or(Ok(()), Err)
}
