//! Traffic of this host through a machine, and what the machine says of it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use lab::rig::line::Line;
use lab::rig::load::{Load, Pace, Pattern, Progress};

use super::problem::Problem;
use super::report::{Report, Row};
use super::session::Session;

/// A way for frames.
pub struct FramePath<'a> {
    pub name: &'static str,
    pub into: &'a Line,
    pub out_of: &'a Line,
    pub pattern: &'a dyn Pattern,
}

/// Sends `count` frames on every way at once, and reports what came back.
pub fn exchange(
    session: &mut Session,
    ways: &[FramePath<'_>],
    count: u32,
    pace: Pace,
    report: &mut Report,
) -> Result<(), Problem> {
    let progress: Vec<Progress> = ways.iter().map(|_| Progress::default()).collect();
    let stop = &AtomicBool::new(false);
    thread::scope(|scope| {
        let mut driving = Vec::new();
        for (way, progress) in ways.iter().zip(&progress) {
            let FramePath { into, out_of, pattern, .. } = *way;
            let load = Load { into, out_of, pattern, count, pace, progress, stop };
            driving.push(scope.spawn(move || load.run()));
        }
        let done = || driving.iter().all(|thread| thread.is_finished());
        let watched = session.watch(done, line(&progress, count));
        stop.store(true, Ordering::Relaxed);
        for (way, thread) in ways.iter().zip(driving) {
            report.directions.push(Row::new(way.name, &thread.join().unwrap_or_default()));
        }
        watched
    })
}

/// The live line of traffic on several ways.
pub fn line(progress: &[Progress], each: u32) -> impl FnMut() -> String {
    let start = Instant::now();
    let all = u64::from(each) * progress.len() as u64;
    move || {
        let sum = |of: fn(&Progress) -> u64| progress.iter().map(of).sum::<u64>();
        let offered = sum(|progress| progress.offered.load(Ordering::Relaxed));
        let back = sum(|progress| progress.back.load(Ordering::Relaxed));
        let rate = back as f64 / start.elapsed().as_secs_f64().max(1e-3) / 1e6;
        format!("{offered} of {all} frames offered, {back} back, {rate:.3} Mpps")
    }
}

/// Ends the program, and adds what it and the models counted.
pub fn conclude(session: &mut Session, report: &mut Report) -> Result<(), Problem> {
    let finished = session.finish().map(|_| ());
    let statistics = session.printed().statistics();
    let models = session.models()?;
    report.explain(statistics.as_ref(), models.as_ref());
    report.findings = session.findings()?;
    finished
}
