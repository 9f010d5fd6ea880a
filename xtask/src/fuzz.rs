//! Fuzzing with libFuzzer on the stable compiler: the crate in fuzz/ is laid
//! out as cargo-fuzz wants it, but needs neither cargo-fuzz nor a nightly
//! compiler; the coverage passes are ordinary code generation options.

use std::fs;
use std::process::Command;

use crate::step::{Failure, cargo, root, run};

/// What cargo-fuzz passes too, without the address sanitizer, which is nightly.
const COVERAGE: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1 -Cdebug-assertions -Coverflow-checks";

/// The triple must be named, so that build scripts are not instrumented.
const TARGET: &str = env!("XTASK_TARGET");

/// The fuzz targets' own lock file is that of the workspace's crates as they are: asked
/// for early, since the targets are built last.
pub fn check_lock() -> Result<(), Failure> {
    let mut metadata = cargo(&["metadata", "--locked", "--format-version", "1", "--manifest-path"]);
    let output = metadata.arg(root().join("fuzz/Cargo.toml")).output();
    let output = output.map_err(|error| format!("cannot start cargo: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!(
            "fuzz/Cargo.lock: {}fix: cargo metadata --manifest-path fuzz/Cargo.toml > /dev/null, and commit it",
            String::from_utf8_lossy(&output.stderr)
        )),
    }
}

/// Builds all targets.
pub fn build() -> Command {
    let fuzz = root().join("fuzz");
    let mut build = cargo(&["build", "--release", "--locked", "--bins", "--target", TARGET]);
    build.arg("--manifest-path").arg(fuzz.join("Cargo.toml"));
    build.env("RUSTFLAGS", COVERAGE).env("CARGO_TARGET_DIR", fuzz.join("target"));
    build
}

/// Fuzzes one target, or all, for `seconds` each.
pub fn of(target: Option<&str>, seconds: u64) -> Result<(), Failure> {
    let fuzz = root().join("fuzz");
    let targets = match target {
        Some(target) => vec![target.to_owned()],
        None => names(&fuzz.join("fuzz_targets"))?,
    };
    run("build the fuzz targets", &mut build())?;
    let mut failed = Vec::new();
    // Two cores are what CI has; each target has one of its own.
    for pair in targets.chunks(2) {
        std::thread::scope(|scope| {
            let running: Vec<_> = pair.iter().map(|name| scope.spawn(|| one(name, seconds))).collect();
            let ends = running.into_iter().map(|thread| thread.join());
            failed.extend(ends.filter_map(|end| end.unwrap_or_else(|_| Err("a panic".to_owned())).err()));
        });
    }
    if failed.is_empty() { Ok(()) } else { Err(failed.join("\n")) }
}

fn one(name: &str, seconds: u64) -> Result<(), Failure> {
    let fuzz = root().join("fuzz");
    let corpus = fuzz.join("corpus").join(name);
    let artifacts = fuzz.join("artifacts").join(name);
    for directory in [&corpus, &artifacts] {
        fs::create_dir_all(directory).map_err(|e| format!("{}: {e}", directory.display()))?;
    }
    let mut command = Command::new(fuzz.join("target").join(TARGET).join("release").join(name));
    command
        .arg(format!("-max_total_time={seconds}"))
        // Long inputs from the start: what breaks takes several acts.
        .args(["-len_control=0", "-timeout=10", "-rss_limit_mb=4096"])
        .args(["-print_final_stats=1", "-verbosity=0"])
        .arg(format!("-artifact_prefix={}/", artifacts.display()))
        .arg(&corpus)
        .current_dir(&fuzz);
    run(&format!("fuzz {name}"), &mut command)
}

fn names(directory: &std::path::Path) -> Result<Vec<String>, Failure> {
    let failed = |e: std::io::Error| format!("{}: {e}", directory.display());
    let mut names: Vec<String> = fs::read_dir(directory)
        .map_err(failed)?
        .filter_map(|entry| Some(entry.ok()?.path().file_stem()?.to_str()?.to_owned()))
        .collect();
    names.sort();
    Ok(names)
}
