// Becomes the program `ixora` beside this one. Included by both of Click's names.

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

fn launch(name: &str) -> ExitCode {
    let program = std::env::current_exe().unwrap_or_default().with_file_name("ixora");
    let words = std::env::args_os().skip(1);
    let error = Command::new(&program).args(["click", name]).args(words).exec();
    eprintln!("error: cannot run {}: {error}", program.display());
    eprintln!("fix: keep this program and ixora in one folder");
    ExitCode::FAILURE
}
