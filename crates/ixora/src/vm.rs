//! `ixora vm`: a small virtual machine from Debian's packages, in it this very
//! program on NICs that QEMU or our models make, and this host at the other end
//! of their cables. No KVM, no root, nothing installed.

pub mod arguments;
mod echo;
mod fwd;
mod live;
mod pcap;
mod pktgen;
mod problem;
mod report;
mod session;
mod shell;
mod traffic;
mod work_dir;

use crate::{Failure, signal};
use arguments::{Machine, Vm};
use problem::Problem;
use report::Report;
use session::Session;
use work_dir::WorkDir;

/// Runs the machine and prints what came of it.
pub fn run(what: &Vm) -> Result<(), Failure> {
    let stop = signal::stop_flag()?;
    match what {
        Vm::Fwd(fwd) => {
            with_report("vm fwd", &fwd.machine, |place, report| fwd::run(fwd, place, report, &stop))
        }
        Vm::Echo(echo) => {
            with_report("vm echo", &echo.machine, |place, report| echo::run(echo, place, report, &stop))
        }
        Vm::Pktgen(pktgen) => with_report("vm pktgen", &pktgen.machine, |place, report| {
            pktgen::run(pktgen, place, report, &stop)
        }),
        Vm::Pcap(pcap) => {
            with_report("vm pcap", &pcap.machine, |place, report| pcap::run(pcap, place, report, &stop))
        }
        Vm::Shell(shell) => shell::run(shell, &stop),
    }
}

/// What all have in common: a place, and a report at the end however it came.
fn with_report(
    command: &'static str,
    options: &Machine,
    work: impl FnOnce(&WorkDir, &mut Report) -> Result<(), Problem>,
) -> Result<(), Failure> {
    let mut report = Report { command, nic: options.nic.name(), ..Report::default() };
    report.access = if options.nic.is_by_vfio() { "vfio" } else { "sysfs" };
    report.console = options.console.clone();
    let done = WorkDir::new(options).and_then(|place| {
        if options.keep {
            report.console = Some(session::console(&place));
        }
        work(&place, &mut report)
    });
    report.end(done, options.json)
}

impl Report {
    fn times(&mut self, session: &Session) {
        self.boot_seconds = Some(session.booted.as_secs_f64());
        self.ready_seconds = Some(session.ready.as_secs_f64());
    }
}
