//! A workload compiled, beside the same one as it is.
//!
//! The program that `ixora compile` makes of a workload measures itself: `PROGRAM bench`
//! runs its configuration with and without its programs, window by window in turns. It is
//! built in the user's cache, where what was built before is found again.

use std::process::Command;

use ::bench::conditions::Conditions;
use ::bench::figures::Spread;
use ::bench::graph::window::{FromMemory, Threads};
use ::bench::graph::workload;
use clap::Parser;
use runtime::cores::pin;
use serde::Serialize;

use super::{Arguments, finish};
use crate::Failure;
use crate::compile;
use crate::compiled::Compiled;

/// What a program's `bench` takes.
#[derive(Parser, Debug)]
struct Words {
    /// What the rows are called.
    #[arg(long)]
    workload: String,
    #[arg(long, value_delimiter = ',')]
    batch: Vec<usize>,
    #[arg(long)]
    packets: u64,
    #[arg(long)]
    windows: usize,
    #[arg(long)]
    cpu: usize,
    #[arg(long)]
    json: Option<std::path::PathBuf>,
}

#[derive(Debug, Serialize)]
struct Row {
    workload: String,
    batch: usize,
    interpreted_cycles_per_packet: Spread,
    compiled_cycles_per_packet: Spread,
}

/// Compiles each workload and has its program measure itself.
pub fn build_and_run(arguments: &Arguments) -> Result<(), Failure> {
    let cache = compile::cache::folder()?;
    for name in &arguments.workload {
        let folder = cache.join(name);
        let program = compile::program_of(name, &workload::from_memory(name, 1)?, &folder)?;
        let batches: Vec<String> = arguments.batch.iter().map(usize::to_string).collect();
        let mut command = Command::new(&program);
        command.args(["bench", "--workload", name, "--batch", &batches.join(",")]);
        command.args(["--packets", &arguments.packets.to_string()]);
        command.args(["--windows", &arguments.windows.to_string()]);
        command.args(["--cpu", &arguments.cpu.first().copied().unwrap_or(0).to_string()]);
        if let Some(path) = &arguments.json {
            // One file for each workload.
            command.arg("--json").arg(path.with_extension(format!("{name}.json")));
        }
        let failed = |error| Failure::new(format!("cannot run {}: {error}", program.display()));
        if !command.status().map_err(failed)?.success() {
            return Err(Failure::new(format!("{} failed", program.display())));
        }
    }
    Ok(())
}

/// What a compiled workload runs when it is to measure itself: the words are those behind
/// `bench`.
pub fn run(compiled: &Compiled, words: impl Iterator<Item = String>) -> Result<(), Failure> {
    let words = Words::try_parse_from(words).map_err(|error| Failure::usage(error.to_string()))?;
    let conditions = Conditions::now(); // before this thread is pinned to one core
    pin(words.cpu);
    let text = compiled.configuration.to_owned();
    let as_it_is = FromMemory { text, regions: &[], counting: false };
    let fused = FromMemory { regions: compiled.regions, ..as_it_is.clone() };
    let threads = Threads { count: 1, cores: vec![words.cpu] };
    println!("{:10} {:>5}  {:>26}  {:>26}", "WORKLOAD", "BATCH", "INTERPRETED, CYCLES/PACKET", "COMPILED");
    let mut rows = vec![];
    for &batch in &words.batch {
        let (mut plain, mut quick) = (vec![], vec![]);
        fused.window(batch, words.packets / 10, &threads)?; // warms up
        for _ in 0..words.windows.max(1) {
            plain.push(as_it_is.window(batch, words.packets, &threads)?);
            quick.push(fused.window(batch, words.packets, &threads)?);
        }
        let row = Row {
            workload: words.workload.clone(),
            batch,
            interpreted_cycles_per_packet: Spread::of(plain),
            compiled_cycles_per_packet: Spread::of(quick),
        };
        let shown = |s: &Spread| format!("{:.1} ({:.1} to {:.1})", s.median, s.min, s.max);
        let (plain, quick) =
            (shown(&row.interpreted_cycles_per_packet), shown(&row.compiled_cycles_per_packet));
        println!("{:10} {batch:>5}  {plain:>26}  {quick:>26}", row.workload);
        rows.push(row);
    }
    finish(&conditions, &rows, words.json.as_deref())
}
