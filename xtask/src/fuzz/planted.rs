//! Planted faults (`fuzz/planted.rs`): the copy of the source that has them, and the check
//! that each is found within a minute, from the seeds alone.

#[path = "../../../fuzz/planted.rs"]
mod list;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::{CORES, Target, binary, build, chosen, fuzz, program};
use crate::mutants::process::{End, finish};
use crate::step::{Failure, in_parallel, root, run};
use list::{FAULTS, PlantedFault};

/// Seconds in which a fault must be found, and after which a run counts as a hang.
const LIMIT: u64 = 60;
const HANG: u64 = 5;
/// The variable that chooses a fault.
const VARIABLE: &str = "IXORA_PLANTED_FAULT";
/// What the copy is made of: files and folders.
const COPIED: [&str; 7] = [
    "Cargo.toml",
    "crates",
    "fuzz/Cargo.toml",
    "fuzz/Cargo.lock",
    "fuzz/src",
    "fuzz/fuzz_targets",
    "fuzz/seeds",
];

/// Fuzzes a target, or each, with each of its planted faults.
pub fn check(target: Option<&str>) -> Result<(), Failure> {
    let targets = chosen(target)?;
    let without = targets.iter().find(|target| FAULTS.iter().all(|fault| fault.target != target.0));
    if let Some(Target(name, ..)) = without {
        return Err(format!("{name} has no planted fault: see fuzz/planted.rs"));
    }
    run("build the fuzz targets", &mut build(target)?)?;
    println!("==> planted faults, {LIMIT} s for each");
    let faults: Vec<_> = FAULTS
        .iter()
        .filter_map(|fault| Some((fault, *targets.iter().find(|target| target.0 == fault.target)?)))
        .collect();
    let missed = in_parallel(faults, CORES, |(fault, target)| {
        let found = is_found(fault, target);
        let (word, time) = match &found {
            Ok(Some(time)) => ("found", *time),
            _ => ("MISSED", Duration::from_secs(LIMIT)),
        };
        println!("{:<22}{:<36}{word:>7}{:>8.1} s", fault.target, fault.name, time.as_secs_f64());
        match found {
            Ok(Some(_)) => None,
            Ok(None) => Some(format!("{} does not find {}", fault.target, fault.name)),
            Err(failure) => Some(failure),
        }
    });
    let missed: Vec<Failure> = missed.into_iter().flatten().collect();
    if missed.is_empty() { Ok(()) } else { Err(missed.join("\n")) }
}

/// How long it takes to find a fault, with no input but the seeds; `None` when it is not.
fn is_found(fault: &PlantedFault, target: &Target) -> Result<Option<Duration>, Failure> {
    let directory = fuzz().join("target/planted").join(fault.name);
    // What an earlier check found would help this one.
    let _ = fs::remove_dir_all(&directory);
    let artifacts = directory.join("artifacts");
    let mut command = program(target, LIMIT, HANG, [directory.join("corpus"), artifacts.clone()])?;
    let begin = Instant::now();
    let (end, output) = finish(&format!("fault-{}", fault.name), command.env(VARIABLE, fault.name));
    let time = begin.elapsed();
    let left = failing(&artifacts)?;
    match (end, &left[..]) {
        (End::Passed, _) => Ok(None),
        (End::Failed, [input, ..]) => is_by(fault, target, input).map(|()| Some(time)),
        // It did not begin, or did not end.
        _ => Err(format!("{}: {output}", fault.target)),
    }
}

/// The inputs that failed. One that was only slow failed at nothing.
fn failing(artifacts: &Path) -> Result<Vec<PathBuf>, Failure> {
    let told = |error| format!("{}: {error}", artifacts.display());
    let entries = fs::read_dir(artifacts).map_err(told)?;
    let paths = entries.map(|entry| entry.map(|entry| entry.path()));
    let paths: Vec<PathBuf> = paths.collect::<Result<_, _>>().map_err(told)?;
    let is_slow = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"slow-unit-"))
    };
    Ok(paths.into_iter().filter(|path| !is_slow(path)).collect())
}

/// Whether it is the planted fault by which an input fails: it does with it, and not without.
fn is_by(fault: &PlantedFault, target: &Target, input: &Path) -> Result<(), Failure> {
    let ends = [fault.name, ""].map(|chosen| {
        let mut command = Command::new(binary(target));
        command.arg(format!("-timeout={HANG}")).arg(input).current_dir(fuzz()).env(VARIABLE, chosen);
        finish(&format!("fault-{}-again", fault.name), &mut command).0
    });
    outcome(ends).map_err(|why| format!("{} {why}: {}, {}", fault.target, fault.name, input.display()))
}

/// What is wrong with an input that ends so with the fault and without it, if anything is.
fn outcome([with, without]: [End; 2]) -> Result<(), &'static str> {
    match (with, without) {
        (_, End::Failed | End::TimeLimit) => Err("fails without the planted fault, too"),
        (End::Passed, _) => Err("does not fail again with what it has found"),
        (End::Failed | End::TimeLimit, End::Passed) => Ok(()),
    }
}

/// Writes the copy of the source; where it is.
pub fn write_copy() -> Result<PathBuf, Failure> {
    let copy = fuzz().join("target/copy");
    let mut files = Vec::new();
    for path in COPIED {
        list_files(&root(), Path::new(path), &mut files)?;
    }
    for file in &files {
        let source = fs::read(root().join(file)).map_err(|error| format!("{}: {error}", file.display()))?;
        let mut faults = FAULTS.iter().filter(|fault| Path::new("crates").join(fault.file) == *file);
        let woven = faults.try_fold(source, weave)?;
        write(&copy.join(file), &woven).map_err(|error| format!("{}: {error}", file.display()))?;
    }
    remove_others(&copy, Path::new(""), &files)?;
    Ok(copy)
}

/// The files of a folder, or the one file, as paths from `root`.
fn list_files(root: &Path, path: &Path, files: &mut Vec<PathBuf>) -> Result<(), Failure> {
    if !root.join(path).is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    for entry in fs::read_dir(root.join(path)).map_err(|error| format!("{}: {error}", path.display()))? {
        let name = entry.map_err(|error| format!("{}: {error}", path.display()))?.file_name();
        list_files(root, &path.join(name), files)?;
    }
    Ok(())
}

/// Removes files of an earlier copy that the source does not have any more.
fn remove_others(copy: &Path, path: &Path, files: &[PathBuf]) -> Result<(), Failure> {
    let mut there = Vec::new();
    list_files(copy, path, &mut there)?;
    for file in there.iter().filter(|file| !files.contains(file)) {
        fs::remove_file(copy.join(file)).map_err(|error| format!("{}: {error}", file.display()))?;
    }
    Ok(())
}

/// The source with a fault to be chosen.
fn weave(source: Vec<u8>, fault: &PlantedFault) -> Result<Vec<u8>, Failure> {
    let source = String::from_utf8(source).map_err(|_| format!("{} is no text", fault.file))?;
    let count = source.matches(fault.from).count();
    if count != 1 {
        let PlantedFault { name, file, from, .. } = fault;
        return Err(format!("planted fault {name}: this stands in {file} {count} times, not once:\n{from}"));
    }
    let chosen = format!(
        "*std::sync::LazyLock::force({{ static CHOSEN: std::sync::LazyLock<bool> = std::sync::LazyLock::new(|| \
         std::env::var({VARIABLE:?}).is_ok_and(|name| name == {:?})); &CHOSEN }})",
        fault.name
    );
    Ok(source.replace(fault.from, &fault.to.replace("PLANTED", &chosen)).into_bytes())
}

/// Writes a file if that changes it, so that nothing is compiled twice.
fn write(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    if fs::read(path).is_ok_and(|old| old == bytes) {
        return Ok(());
    }
    fs::create_dir_all(path.parent().unwrap_or(path))?;
    fs::write(path, bytes)
}

#[cfg(test)]
mod tests {
    use super::super::TARGETS;
    use super::*;

    #[test]
    fn only_the_planted_fault_is_a_find() {
        use End::{Failed, Passed, TimeLimit};
        assert!(outcome([Failed, Passed]).is_ok() && outcome([TimeLimit, Passed]).is_ok());
        for other in [[Failed, Failed], [Failed, TimeLimit], [Passed, Passed], [Passed, Failed]] {
            assert!(outcome(other).is_err());
        }
        let folder = root().join("target/xtask-failing");
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder");
        for name in ["slow-unit-1", "crash-2", "timeout-3"] {
            fs::write(folder.join(name), b"input").expect("a file");
        }
        let mut left = failing(&folder).expect("it can be read");
        left.sort();
        assert_eq!(left, ["crash-2", "timeout-3"].map(|name| folder.join(name)));
    }

    /// The edits fit the source, which is seen here long before the targets are built.
    #[test]
    fn every_fault_has_its_place_and_every_target_its_fault() {
        for (n, fault) in FAULTS.iter().enumerate() {
            let source = fs::read(root().join("crates").join(fault.file)).expect("the source can be read");
            let woven = weave(source, fault).unwrap_or_else(|failure| panic!("{failure}"));
            let woven = String::from_utf8(woven).expect("text");
            assert!(woven.contains(VARIABLE) && !woven.contains("PLANTED {"), "{}", fault.name);
            assert!(FAULTS[..n].iter().all(|other| other.name != fault.name), "two are {}", fault.name);
        }
        let faulty: Vec<&str> = TARGETS.iter().map(|target| target.0).collect();
        let has = |name: &&str| FAULTS.iter().any(|fault| fault.target == *name);
        assert!(faulty.iter().all(has), "{faulty:?}");
        assert!(FAULTS.iter().all(|fault| faulty.contains(&fault.target)));
    }
}
