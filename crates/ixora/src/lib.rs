//! The `ixora` command line, as a library: for the program `ixora` itself, and for those
//! that `ixora compile` makes.
#![forbid(unsafe_code)]

#[macro_use]
mod out;

mod apps;
mod bench;
mod cli;
mod click;
pub mod compile;
pub mod compiled;
mod connections;
mod control_socket;
mod demo;
mod doctor;
mod failure;
mod info;
mod janitor;
mod live;
mod logging;
mod metrics_port;
mod open;
mod overlay;
mod port_counts;
mod rate;
mod run;
mod serve;
mod signal;
mod soak;
mod summary;
mod terminal;
mod told;
mod top;
mod vm;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use cli::{Arguments, Command};
pub use failure::Failure;

/// Runs the command line; what `main` does.
pub fn start() -> ExitCode {
    let words: Vec<String> =
        std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    if let Some(done) = click::run_as_click(&words) {
        return end(done);
    }
    let arguments = Arguments::parse();
    if let Err(failure) = logging::begin(arguments.verbosity()) {
        return end(Err(failure));
    }
    let done = match &arguments.command {
        Command::Fwd(fwd) => apps::fwd::run(fwd),
        Command::Pktgen(pktgen) => apps::pktgen::run(pktgen),
        Command::Pcap(pcap) => apps::pcap::run(pcap),
        Command::Echo(echo) => apps::echo::run(echo),
        Command::Serve { what } => apps::serve::run(what),
        Command::Load { what } => apps::load::run(what),
        Command::Tcp { what } => connections::run(what),
        Command::Pf(pf) => apps::pf::run(pf),
        Command::Model(model) => serve::run(model),
        Command::Demo(demo) => demo::run(demo),
        Command::Overlay { what } => overlay::run(what),
        Command::Click(click) => click::run(click),
        Command::Compile(compile) => compile::run(compile),
        Command::Top(top) => top::run(top),
        Command::Completions { shell } => {
            complete(*shell);
            Ok(())
        }
        Command::Vm { what } => vm::run(what),
        Command::Soak(soak) => soak::run(soak),
        Command::Info(info) => info::run(info),
        Command::Doctor(doctor) => doctor::run(doctor),
        Command::Janitor(janitor) => janitor::run(janitor),
        Command::Bench { what } => bench::run(what),
    };
    end(done)
}

/// Prints what a shell completes commands with.
fn complete(shell: clap_complete::Shell) {
    let mut script = vec![];
    clap_complete::generate(shell, &mut Arguments::command(), "ixora", &mut script);
    // Nobody to read it is no reason to fail.
    let _ = std::io::Write::write_all(&mut std::io::stdout(), &script);
}

/// The exit status of a command, with its failure said.
fn end(done: Result<(), Failure>) -> ExitCode {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Commands without `--json`, and why.
    const WITHOUT: &[(&str, &str)] = &[
        ("ixora tcp capture", "writes pcapng"),
        ("ixora vm shell", "is a terminal"),
        ("ixora completions", "prints a program for a shell"),
        ("ixora janitor", "prints nothing"),
        ("ixora bench paper", "writes JSON beside each figure"),
    ];

    fn leaves(path: &str, command: &clap::Command, all: &mut Vec<(String, bool)>) {
        let path = format!("{path}{}", command.get_name());
        let has = command.get_arguments().any(|argument| argument.get_id() == "json");
        if command.get_subcommands().next().is_none() {
            all.push((path.clone(), has));
        }
        for below in command.get_subcommands() {
            leaves(&format!("{path} "), below, all);
        }
    }

    #[test]
    fn every_command_has_json_or_a_reason() {
        let mut all = vec![];
        leaves("", &Arguments::command(), &mut all);
        assert!(all.len() > 20, "{all:?}");
        let without: Vec<&str> = all.iter().filter(|(_, has)| !has).map(|(path, _)| path.as_str()).collect();
        let reasons: Vec<&str> = WITHOUT.iter().map(|(path, _)| *path).collect();
        assert_eq!(without, reasons);
    }
}
