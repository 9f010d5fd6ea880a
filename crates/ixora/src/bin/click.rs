//! `click`: Click's own command line, for scripts that have it: `ixora click`.
#![forbid(unsafe_code)]

include!("launch.rs");

fn main() -> ExitCode {
    launch("--compat")
}
