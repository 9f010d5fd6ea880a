//! A workload compiled, beside the same one as it is.
//!
//! The program that `ixora compile` makes of a workload measures itself: `PROGRAM bench`
//! runs its configuration with and without its programs, window by window in turns. It is
//! built in the user's cache, where what was built before is found again: a folder that
//! others can write to would let them put their program in its place.

use std::fs::{DirBuilder, symlink_metadata};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
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

/// The user's cache (XDG Base Directory Specification, `XDG_CACHE_HOME`).
fn cache() -> Result<PathBuf, Failure> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
    cache.ok_or_else(|| {
        Failure::new("there is no place to build programs in").fix("export XDG_CACHE_HOME=/some/directory")
    })
}

/// The folder of ours in a cache, made if it is not there; refused if anybody but this user
/// can put something into it.
fn private_folder(cache: &Path) -> Result<PathBuf, Failure> {
    let folder = cache.join("ixora-compiled");
    let failed = |error| Failure::new(format!("cannot make {}: {error}", folder.display()));
    DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(failed)?;
    let found = symlink_metadata(&folder).map_err(failed)?; // a link is not followed
    let own = rustix::process::geteuid().as_raw();
    if !found.is_dir() || found.uid() != own || found.mode() & 0o022 != 0 {
        return Err(Failure::new(format!("{} can be written by others than user {own}", folder.display()))
            .fix("remove it, or export XDG_CACHE_HOME=/some/directory of yours"));
    }
    Ok(folder)
}

/// Compiles each workload and has its program measure itself.
pub fn build_and_run(arguments: &Arguments) -> Result<(), Failure> {
    let cache = private_folder(&cache()?)?;
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

#[cfg(test)]
mod tests {
    use super::private_folder;
    use std::fs::{Permissions, create_dir, set_permissions, symlink_metadata};
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn programs_are_built_where_nobody_else_writes() {
        let cache = tempfile::tempdir().expect("a directory");
        let folder = private_folder(cache.path()).expect("it is made");
        assert_eq!(symlink_metadata(&folder).expect("a folder").permissions().mode() & 0o777, 0o700);
        assert_eq!(private_folder(cache.path()).ok(), Some(folder.clone()), "and taken again");
        set_permissions(&folder, Permissions::from_mode(0o777)).expect("it is ours");
        assert!(private_folder(cache.path()).is_err(), "all may write to it");
        let elsewhere = cache.path().join("elsewhere");
        create_dir(&elsewhere).expect("a folder");
        std::fs::remove_dir(&folder).expect("it is empty");
        symlink(&elsewhere, &folder).expect("a link");
        assert!(private_folder(cache.path()).is_err(), "it leads somewhere else");
        if rustix::process::geteuid().is_root() {
            std::fs::remove_file(&folder).expect("a link");
            create_dir(&folder).expect("a folder");
            std::os::unix::fs::chown(&folder, Some(65534), None).expect("root may");
            assert!(private_folder(cache.path()).is_err(), "it is somebody else's");
        }
    }
}
