//! `click-flatten`: prints a configuration with all compound elements expanded.
#![forbid(unsafe_code)]

include!("launch.rs");

fn main() -> ExitCode {
    launch("--flatten")
}
