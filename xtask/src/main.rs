//! The project's own chores. `cargo xtask test` is the one command that passes
//! the tests, here and in CI; `cargo xtask fuzz` and `cargo xtask count` are
//! parts of it that are useful by themselves.
#![forbid(unsafe_code)]

mod asan;
mod beside;
mod configurations;
mod count;
mod deny;
mod doc_comments;
mod floors;
mod fuzz;
mod headers;
mod install;
mod instructions;
mod lab;
mod limit;
mod miri;
mod mutants;
mod packetdrill;
mod peers;
mod programs;
mod record;
mod runner;
mod source_mutants;
mod step;
mod test;

use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "The project's own chores")]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Everything that must pass: format, the reader's path, lints, docs, tests, model
    /// checks, dependencies, instructions per packet, the lab, and some seconds of each
    /// fuzz target. All steps run; their times and what failed stand at the end.
    Test {
        /// Leave out what takes minutes: all behind the model checks.
        #[arg(long)]
        quick: bool,
        /// Begin no step later than so many minutes after the first: it fails instead, and
        /// what became of the others is told in time.
        #[arg(long, value_name = "MINUTES")]
        within: Option<u64>,
    },
    /// Fuzz one target, or each in turn.
    Fuzz {
        /// The target, a file in fuzz/fuzz_targets without `.rs`; all if left out.
        target: Option<String>,
        /// How long each.
        #[arg(long, default_value_t = 60)]
        seconds: u64,
        /// Have each find the faults that are planted for it (fuzz/planted.rs), each within
        /// a minute.
        #[arg(long, conflicts_with = "seconds")]
        check: bool,
    },
    /// Virtual machines in which our drivers and models meet what others wrote.
    Lab(lab::Lab),
    /// The driver with each of its seeded bugs: the linter and a test must report it.
    Mutants(mutants::Arguments),
    /// Packets, batches and pools in an interpreter that finds undefined behaviour; installs
    /// a nightly toolchain with Miri where there is none.
    Miri,
    /// The tests of hostile peers under the address sanitizer; installs a nightly toolchain
    /// where there is none.
    Asan,
    /// Run the benchmarks that show where speed is gained or lost; with --record, append their
    /// figures to a file with the commit and the machine.
    Bench(record::Arguments),
    /// Measure our drivers beside DPDK's, which is fetched; needs root.
    Peers {
        /// For both benches, such as --windows 10.
        #[arg(last = true)]
        arguments: Vec<String>,
    },
    /// The TCP scripts of google/packetdrill against our stack, in simulated time.
    Packetdrill(packetdrill::Arguments),
    /// Change the source of wire, memory and fib in a thousand ways: the crate's own tests
    /// must notice each (cargo-mutants).
    SourceMutants {
        /// The crates; all three if left out.
        crates: Vec<String>,
        /// For cargo-mutants, such as --file crates/base/fib/src/published.rs or --shard 0/10.
        #[arg(last = true)]
        arguments: Vec<String>,
    },
    /// Sort the configurations in folders of others, such as `conf` of Click and FastClick:
    /// which load, want ports or variables, or lack an element. Fails where one is wrong
    /// otherwise.
    Configurations {
        /// The folders whose configurations are sorted.
        #[arg(required = true)]
        folders: Vec<std::path::PathBuf>,
        /// Print what was found as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Build the programs and put them into PREFIX/bin, with the source that `ixora compile`
    /// needs in PREFIX/share/ixora/src.
    Install {
        /// Such as ~/.local.
        prefix: std::path::PathBuf,
    },
    /// Count the lines of code on the reader's path (docs/reading.md).
    Count,
    /// Count the driver's instructions per packet and compare with the limits.
    Instructions,
}

fn main() -> ExitCode {
    let done = match Arguments::parse().chore {
        Chore::Test { quick, within } => test::all(quick, within.map(Duration::from_mins)),
        Chore::Fuzz { target, check: true, .. } => fuzz::check(target.as_deref()),
        Chore::Fuzz { target, seconds, .. } => fuzz::of(target.as_deref(), Some(seconds)),
        Chore::Lab(lab) => lab::done(&lab),
        Chore::Miri => miri::installed(),
        Chore::Asan => asan::run_tests(),
        Chore::Mutants(arguments) => mutants::run(&arguments),
        Chore::Packetdrill(arguments) => packetdrill::of(&arguments),
        Chore::Bench(arguments) => record::of(&arguments),
        Chore::Peers { arguments } => peers::measure(&arguments),
        Chore::SourceMutants { crates, arguments } => source_mutants::of(&crates, &arguments),
        Chore::Configurations { folders, json } => configurations::sort(&folders, json),
        Chore::Install { prefix } => install::install(&prefix),
        Chore::Count => count::run(),
        Chore::Instructions => instructions::check(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("xtask: {failure}");
            ExitCode::FAILURE
        }
    }
}
