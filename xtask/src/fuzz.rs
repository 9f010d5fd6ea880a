//! Fuzzing with libFuzzer on the stable compiler: the crate in fuzz/ is laid
//! out as cargo-fuzz wants it, but needs neither cargo-fuzz nor a nightly
//! compiler; the coverage passes are ordinary code generation options.

mod planted;

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::step::{Failure, LIMIT, cargo, in_parallel, root, run, run_within};

pub use planted::check;

/// A target, a file in fuzz/fuzz_targets and a line in fuzz/Cargo.toml: its name, the bytes
/// of its longest input, and for how many seconds the test command runs it.
///
/// Inputs are as long as what they have to say: a longer one costs runs, and most of its
/// bytes decide nothing. Seconds go where a fault has many places to be.
struct Target(&'static str, usize, u64);

const TARGETS: &[Target] = &[
    Target("click_language", 256, 14),
    Target("control_socket", 256, 14),
    Target("elements", 384, 30),
    Target("fused", 384, 12),
    Target("i40e_driver", 640, 14),
    Target("i40e_model", 1280, 16),
    Target("ixgbe_driver", 768, 12),
    Target("ixgbe_mailbox", 640, 12),
    Target("ixgbe_model", 1280, 16),
    Target("leases", 576, 6),
    Target("overlay", 512, 6),
    Target("overlay_api", 512, 6),
    Target("overlay_config", 512, 6),
    Target("rtnetlink", 1024, 10),
    Target("service", 512, 10),
    Target("tcp", 512, 12),
    Target("twin_vfio_user", 130, 10),
    Target("twin_vhost_user", 130, 10),
    Target("vfio_user_client", 512, 6),
    Target("vfio_user_server", 768, 12),
    Target("vhost_user_backend", 1024, 8),
    Target("vhost_user_frontend", 512, 4),
    Target("virtchnl", 640, 16),
    Target("virtio_driver", 768, 16),
    Target("virtio_model", 1536, 16),
];

/// Targets at the same time: two cores are what CI has.
const CORES: usize = 2;

/// What cargo-fuzz passes too, without the address sanitizer, which is nightly.
const COVERAGE: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1 -Cdebug-assertions -Coverflow-checks";

/// The triple must be named, so that build scripts are not instrumented.
const TRIPLE: &str = env!("XTASK_TARGET");

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

/// Fuzzes one target, or all, for `seconds` each, or for as long as the test command does.
pub fn of(target: Option<&str>, seconds: Option<u64>) -> Result<(), Failure> {
    let targets = chosen(target)?;
    run("build the fuzz targets", &mut build(target)?)?;
    let ends = in_parallel(targets, CORES, |target| one(target, seconds.unwrap_or(target.2)).err());
    let failures: Vec<Failure> = ends.into_iter().flatten().collect();
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n")) }
}

/// The target of a name, or all.
fn chosen(name: Option<&str>) -> Result<Vec<&'static Target>, Failure> {
    let targets: Vec<_> = TARGETS.iter().filter(|target| name.is_none_or(|name| name == target.0)).collect();
    match (targets.is_empty(), name) {
        (true, Some(name)) => Err(format!("no fuzz target is called {name}: see fuzz/fuzz_targets")),
        _ => Ok(targets),
    }
}

fn fuzz() -> PathBuf {
    root().join("fuzz")
}

/// What builds a target, or all, of a copy of the source in which planted faults can be chosen.
pub fn build(target: Option<&str>) -> Result<Command, Failure> {
    let copy = planted::write_copy()?;
    let mut build = cargo(&["build", "--release", "--locked", "--target", TRIPLE]);
    match target {
        Some(name) => build.args(["--bin", name]),
        None => build.arg("--bins"),
    };
    build.arg("--manifest-path").arg(copy.join("fuzz/Cargo.toml"));
    build.env("RUSTFLAGS", COVERAGE).env("CARGO_TARGET_DIR", fuzz().join("target"));
    Ok(build)
}

/// Clippy over the targets, which are no part of the workspace; for the same triple and with
/// the same flags as they are built, so that libFuzzer, procedural macros and build scripts are
/// compiled once for both.
pub fn lints() -> Command {
    let mut lints = cargo(&["clippy", "--release", "--locked", "--target", TRIPLE, "--manifest-path"]);
    lints.arg(root().join("fuzz/Cargo.toml")).args(["--", "-D", "warnings"]);
    lints.env("RUSTFLAGS", COVERAGE).env("CARGO_TARGET_DIR", fuzz().join("target"));
    lints
}

/// A target's program.
fn binary(target: &Target) -> PathBuf {
    fuzz().join("target").join(TRIPLE).join("release").join(target.0)
}

/// A target's program, for some seconds, with new inputs and artifacts in directories; a
/// run longer than `limit` seconds is a hang.
fn program(
    target: &Target,
    seconds: u64,
    limit: u64,
    [corpus, artifacts]: [PathBuf; 2],
) -> Result<Command, Failure> {
    let Target(name, longest, _) = target;
    let seeds = fuzz().join("seeds").join(name);
    for directory in [&corpus, &artifacts, &seeds] {
        fs::create_dir_all(directory).map_err(|e| format!("{}: {e}", directory.display()))?;
    }
    let mut command = Command::new(binary(target));
    command
        .args([format!("-max_total_time={seconds}"), format!("-timeout={limit}")])
        // Long inputs from the start: what breaks takes several acts.
        .args([format!("-max_len={longest}"), "-len_control=0".to_owned(), "-rss_limit_mb=4096".to_owned()])
        .args(["-print_final_stats=1", "-verbosity=0"])
        .arg(format!("-artifact_prefix={}/", artifacts.display()))
        .args([corpus, seeds])
        .current_dir(fuzz());
    Ok(command)
}

fn one(target: &Target, seconds: u64) -> Result<(), Failure> {
    let directories = ["corpus", "artifacts"].map(|directory| fuzz().join(directory).join(target.0));
    let limit = LIMIT + Duration::from_secs(seconds);
    run_within(limit, &format!("fuzz {}", target.0), &mut program(target, seconds, 10, directories)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_has_its_line_here_and_in_the_manifest() {
        let files = fs::read_dir(fuzz().join("fuzz_targets")).expect("the folder can be read");
        let name = |file: fs::DirEntry| Some(file.path().file_stem()?.to_str()?.to_owned());
        let mut names: Vec<String> = files.filter_map(|file| name(file.ok()?)).collect();
        names.sort();
        let listed: Vec<&str> = TARGETS.iter().map(|target| target.0).collect();
        assert_eq!(names, listed);
        let manifest = fs::read_to_string(fuzz().join("Cargo.toml")).expect("it can be read");
        for name in names {
            assert!(manifest.contains(&format!("fuzz_targets/{name}.rs")), "fuzz/Cargo.toml lacks {name}");
        }
    }
}
