//! A test in a process of its own: a crash is told from a failure, a hang ends, and what
//! is counted of the process is the test's.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Set in the process of the test; its value is the test's name.
const ALONE: &str = "IXORA_TEST_ALONE";

static PANICS: AtomicUsize = AtomicUsize::new(0);

/// Runs `body` in a process of its own, which has `limit` for it. `module` is the test's
/// `module_path!()`, `name` is the test's. No thread of it may panic.
pub fn alone(module: &str, name: &str, limit: Duration, body: impl FnOnce()) {
    // The runner's names begin below the program's.
    let module = module.split_once("::").map_or("", |(_, below)| below);
    let name = &*format!("{module}::{name}");
    if std::env::var_os(ALONE).is_some_and(|test| test == name) {
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            PANICS.fetch_add(1, Ordering::Relaxed);
            report(panic);
        }));
        body();
        assert_eq!(PANICS.load(Ordering::Relaxed), 0, "a thread panicked");
        return;
    }
    let output = tempfile::NamedTempFile::new().unwrap();
    // One offset for both, or they would write over each other.
    let out = output.reopen().unwrap();
    let err = out.try_clone().unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture", "--include-ignored"])
        .env(ALONE, name)
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::null())
        .stdout(out)
        .stderr(err)
        .spawn()
        .unwrap();
    let begin = Instant::now();
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break Some(status),
            None if begin.elapsed() > limit => break None,
            None => sleep(Duration::from_millis(10)),
        }
    };
    if status.is_none() {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let said = std::fs::read(output.path()).unwrap();
    let said = String::from_utf8_lossy(&said);
    // A name that is no test's runs nothing, and that succeeds.
    if !said.contains("1 passed") || status.is_none_or(|status| !status.success()) {
        let from = said.lines().count().saturating_sub(40);
        let last: Vec<&str> = said.lines().skip(from).collect();
        let how = status.map_or("hung".to_owned(), |status| status.to_string());
        panic!("{name}: {how} after {:?}; at last it said\n{}", begin.elapsed(), last.join("\n"));
    }
}
