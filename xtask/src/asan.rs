//! The tests of hostile peers under the address sanitizer: an access beside memory, or to
//! memory that is gone, ends the test at once, where it might otherwise go on over bytes
//! that happen to be there.

use std::process::{Command, Stdio};

use crate::step::{Failure, nightly, run, target};

/// The tests in which one side lies, of the crates that share memory with it: a package's
/// test programs, and parts of the names of the tests in them.
const TESTS: &[(&str, &[&str], &[&str])] = &[
    ("ixora-bus", &["hostile", "hostile_memory", "hostile_server", "vhost_user"], &[]),
    ("ixora-testbed", &["it"], &["hostile", "twin_"]),
];

/// What a machine without it lacks; the sanitizer's library comes with the compiler.
const INSTALL: [&str; 5] = ["toolchain", "install", "nightly", "--profile", "minimal"];

/// Runs the tests; installs a nightly toolchain where there is none.
pub fn run_tests() -> Result<(), Failure> {
    let mut version = nightly(&["--version"]);
    if !version.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success()) {
        let mut rustup = Command::new("rustup");
        run("install a nightly toolchain", rustup.args(INSTALL)).map_err(|failure| {
            format!("{failure}: the sanitizer needs one; by hand: rustup {}", INSTALL.join(" "))
        })?;
    }
    for (package, programs, names) in TESTS {
        let mut cargo = nightly(&["test", "--locked", "--package", package]);
        cargo.args(programs.iter().flat_map(|program| ["--test", program]));
        // The triple must be named, so that build scripts and macros are not instrumented.
        cargo.args(["--target", env!("XTASK_TARGET"), "--"]).args(*names);
        cargo.env("RUSTFLAGS", "-Zsanitizer=address").env("CARGO_TARGET_DIR", target().join("asan"));
        run(&format!("hostile peers of {package}, with the address sanitizer"), &mut cargo)?;
    }
    Ok(())
}
