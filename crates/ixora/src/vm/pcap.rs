//! A capture in the machine: this host sends, and compares the file that the
//! machine has written with what it sent.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use interface::pcap::Reader;
use lab::rig::Cables;
use lab::rig::line::{LONGEST, Line};
use lab::rig::load::{Checker, Numbered, Pattern, Seen};

use super::arguments::Pcap;
use super::live::Live;
use super::problem::Problem;
use super::report::{Report, Row};
use super::session::{self, Order, Session};
use super::traffic::conclude;
use super::work_dir::WorkDir;
use crate::rate::Rate;

/// Where the machine writes it.
const CAPTURE: &str = "/tmp/capture.pcapng";
/// How long the last frame may take to be captured.
const TAIL: Duration = Duration::from_secs(3);

/// Boots, sends, and reads the capture.
pub fn run(
    arguments: &Pcap,
    place: &WorkDir,
    report: &mut Report,
    stop: &Arc<AtomicBool>,
) -> Result<(), Problem> {
    let (options, frames) = (&arguments.machine, arguments.frames);
    let mut live = Live::new(options.quiet || options.json);
    let guest = session::fetch(&mut live)?;
    let lines = session::lines(place, &["a"])?;
    let words = options.program(&["--count", &frames.to_string()]);
    let words = [CAPTURE.to_owned()].into_iter().chain(words).collect();
    let order = Order { app: "pcap", words, file: Some(CAPTURE), cables: Cables::Lines(&lines) };
    let mut session = Session::start(&guest, place, options, order, live, stop)?;
    report.times(&session);
    let pattern = Numbered { sizes: arguments.size.0.clone(), tag: 1 };
    let (sent, enough) = (AtomicU64::new(0), AtomicBool::new(false));
    let (offered, watched) = thread::scope(|scope| {
        let sending = scope.spawn(|| send(&lines[0], &pattern, frames, arguments.rate, &sent, &enough));
        let mut over = None;
        // The program ends by itself when it has all.
        let done = || sending.is_finished() && over.get_or_insert_with(Instant::now).elapsed() > TAIL;
        let watched =
            session.watch(done, || format!("{} of {frames} frames sent", sent.load(Ordering::Relaxed)));
        enough.store(true, Ordering::Relaxed);
        (sending.join().unwrap_or_default(), watched)
    });
    watched?;
    let concluded = conclude(&mut session, report);
    let capture = session.printed().file.as_deref();
    let mut checker = Checker::new(&pattern, frames);
    checker.offered(offered.offered);
    let read =
        capture.map_or(Err("the machine has sent no capture".to_owned()), |bytes| read(bytes, &mut checker));
    let seen = Seen { elapsed: offered.elapsed, ..checker.seen() };
    report.directions.push(Row::new("captured", &seen));
    report.balance();
    concluded?;
    read.map_err(Problem::new)?;
    if let (Some(path), Some(bytes)) = (&arguments.file, capture) {
        let failed = |error| Problem::new(format!("cannot write {}: {error}", path.display()));
        fs::write(path, bytes).map_err(failed)?;
        report.file = Some(path.clone());
    }
    report.verdict(false)
}

/// Sends all, at a rate.
fn send(
    line: &Line,
    pattern: &Numbered,
    frames: u32,
    rate: Rate,
    sent: &AtomicU64,
    enough: &AtomicBool,
) -> Seen {
    let (start, mut frame) = (Instant::now(), vec![0; LONGEST]);
    let mut offered = 0;
    while offered < frames && !enough.load(Ordering::Relaxed) {
        let due = rate.0.map_or(u64::MAX, |rate| (start.elapsed().as_secs_f64() * rate) as u64 + 1);
        let length = pattern.fill(offered, &mut frame);
        if u64::from(offered) < due && line.send(&frame[..length]) {
            offered += 1;
            sent.store(offered.into(), Ordering::Relaxed);
        } else {
            thread::sleep(Duration::from_micros(20));
        }
    }
    Seen { offered, elapsed: start.elapsed(), ..Seen::default() }
}

/// Judges every packet of a capture.
fn read(bytes: &[u8], checker: &mut Checker<'_>) -> Result<(), String> {
    let wrong = |error: interface::pcap::Error| format!("the capture that the machine wrote: {error}");
    let mut reader = Reader::new(bytes).map_err(wrong)?;
    while let Some(record) = reader.next().map_err(wrong)? {
        checker.check(record.data);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use interface::pcap::{PacketOptions, Writer};

    #[test]
    fn a_capture_is_compared_with_what_was_sent() {
        let pattern = Numbered { sizes: vec![60, 100], tag: 1 };
        let mut bytes = Vec::new();
        let mut writer = Writer::new(&mut bytes, &["nic"]).expect("written");
        let mut frame = vec![0; LONGEST];
        for number in [0, 1, 3] {
            let length = pattern.fill(number, &mut frame);
            frame[30] ^= u8::from(number == 1);
            writer.write(0, 1, &frame[..length], PacketOptions::default()).expect("written");
        }
        writer.flush().expect("written");
        drop(writer);
        let mut checker = Checker::new(&pattern, 4);
        checker.offered(4);
        read(&bytes, &mut checker).expect("a capture");
        let seen = checker.seen();
        assert_eq!((seen.back, seen.changed, seen.lost()), (2, 1, 1));
        assert!(read(&bytes[..bytes.len() - 3], &mut checker).is_err());
    }
}
