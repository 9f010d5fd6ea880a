//! The `ixora` command line.
#![forbid(unsafe_code)]

#[macro_use]
mod out;

mod apps;
mod bench;
mod chip;
mod cli;
mod click;
mod confine;
mod demo;
mod doctor;
mod failure;
mod janitor;
mod live;
mod open;
mod rate;
mod run;
mod serve;
mod signal;
mod summary;
mod vm;

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::Parser;

use cli::{Arguments, Command};
pub use failure::Failure;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let filter = tracing_subscriber::EnvFilter::try_from_env("IXORA_LOG");
    let filter = filter.unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("warn"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .without_time()
        .log_internal_errors(false)
        .init();
    let done = match &arguments.command {
        Command::Fwd(fwd) => apps::fwd::run(fwd),
        Command::Pktgen(pktgen) => apps::pktgen::run(pktgen),
        Command::Pcap(pcap) => apps::pcap::run(pcap),
        Command::Echo(echo) => apps::echo::run(echo),
        Command::Model(model) => serve::run(model),
        Command::Demo(demo) => demo::run(demo),
        Command::Click(click) => click::run(click),
        Command::Vm { what } => vm::run(what),
        Command::Doctor(doctor) => doctor::run(doctor),
        Command::Janitor(janitor) => janitor::run(janitor),
        Command::Bench { what } => bench::run(what),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if !failure.is_silent() {
                eprintln!("{failure}");
            }
            ExitCode::from(failure.status)
        }
    }
}
