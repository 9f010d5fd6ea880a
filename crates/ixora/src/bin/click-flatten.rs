//! `click-flatten`: prints a configuration with all compound elements expanded, as
//! `ixora click -q -o -` does.
#![forbid(unsafe_code)]

include!("launch.rs");

fn main() -> ExitCode {
    launch(&["-q", "-o", "-"])
}
