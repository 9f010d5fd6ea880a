//! The forwarder in the machine, this host at both ends.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use lab::rig::Cables;
use lab::rig::load::Numbered;

use super::arguments::{Fwd, Speed};
use super::live::Live;
use super::problem::Problem;
use super::report::Report;
use super::session::{self, Order, Session};
use super::traffic::{FramePath, conclude, exchange};
use super::work_dir::WorkDir;

/// Boots, drives and judges.
pub fn run(
    arguments: &Fwd,
    place: &WorkDir,
    report: &mut Report,
    stop: &Arc<AtomicBool>,
) -> Result<(), Problem> {
    let (offer, options) = (&arguments.offer, &arguments.machine);
    let mut live = Live::new(options.quiet || options.json);
    let guest = session::fetch(&mut live)?;
    let lines = session::lines(place, &["a", "b"])?;
    let order = Order { app: "fwd", words: options.program(&[]), file: None, cables: Cables::Lines(&lines) };
    let mut session = Session::start(&guest, place, options, order, live, stop)?;
    report.times(&session);
    let [there, back] = [1, 2].map(|tag| Numbered { sizes: offer.size.0.clone(), tag });
    let ways = [
        FramePath { name: "a to b", into: &lines[0], out_of: &lines[1], pattern: &there },
        FramePath { name: "b to a", into: &lines[1], out_of: &lines[0], pattern: &back },
    ];
    exchange(&mut session, &ways, offer.frames, offer.rate.pace(options.nic), report)?;
    report.compare(offer.rate);
    conclude(&mut session, report)?;
    report.verdict(offer.rate == Speed::Max)
}
