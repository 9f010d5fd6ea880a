//! Packets, batches and pools in Miri, an interpreter that finds undefined behaviour:
//! accesses outside of memory or of memory that is gone, of which a reference says
//! otherwise, and data races. Devices, files and mappings that are shared are outside of
//! what it knows; private memory takes their place (`cfg(miri)` in crate `memory`).

use std::process::{Command, Stdio};

use crate::step::{Failure, nightly, run, target};

/// The tests of crate `memory` that need no device; those that would take it hours are
/// ignored there.
const TESTS: [&str; 4] = ["annotation", "batch", "metadata", "pool"];

/// What a machine without it lacks.
const INSTALL: [&str; 7] =
    ["toolchain", "install", "nightly", "--profile", "minimal", "--component", "miri,rust-src"];

/// Why the test command leaves it out: it is not installed, and nobody asked for all.
pub fn why_not() -> Option<String> {
    let is_wanted = works() || std::env::var_os("CI").is_some();
    (!is_wanted).then(|| "it is not installed; `cargo xtask miri` installs it".to_owned())
}

/// Runs the tests; installs a nightly toolchain with Miri where there is none.
pub fn installed() -> Result<(), Failure> {
    if !works() {
        run("install miri", &mut rustup()).map_err(|failure| {
            format!(
                "{failure}: Miri is a part of nightly toolchains, which rustup fetches from the network; \
                 by hand: rustup {}",
                INSTALL.join(" ")
            )
        })?;
    }
    run("packets, batches and pools, interpreted", &mut tests())
}

/// What installs it where CI has none.
pub fn install() -> Option<Command> {
    (!works() && std::env::var_os("CI").is_some()).then(rustup)
}

/// What builds the standard library and the tests for it; nothing where it is not installed
/// and will not be.
pub fn build() -> Option<Command> {
    (works() || std::env::var_os("CI").is_some()).then(|| {
        let mut build = tests();
        build.arg("--no-run");
        build
    })
}

fn rustup() -> Command {
    let mut rustup = Command::new("rustup");
    rustup.args(INSTALL);
    rustup
}

/// Builds what is missing, and runs the tests.
fn tests() -> Command {
    let mut miri = nightly(&["miri", "test", "--locked", "-p", "ixora-memory"]);
    miri.args(TESTS.iter().flat_map(|test| ["--test", test]));
    // It opens a file, and asks for the time.
    miri.env("MIRIFLAGS", "-Zmiri-disable-isolation").env("CARGO_TARGET_DIR", target().join("miri"));
    miri
}

/// Whether Miri can be started.
fn works() -> bool {
    let mut version = nightly(&["miri", "--version"]);
    version.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}
