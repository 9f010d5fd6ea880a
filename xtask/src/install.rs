//! `cargo xtask install PREFIX`: the programs in `PREFIX/bin`, and Ixora's source in
//! `PREFIX/share/ixora/src`, where `ixora compile` finds what its programs are built with.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::step::{Failure, cargo, root, run, target};

const PROGRAMS: &[&str] = &["ixora", "click", "click-flatten"];

/// Builds and copies. What an earlier one has put there is replaced.
pub fn install(prefix: &Path) -> Result<(), Failure> {
    let mut build = cargo(&["build", "--release", "--locked", "-p", "ixora", "--bins"]);
    run("release build", &mut build)?;
    let (bin, source) = (prefix.join("bin"), prefix.join("share/ixora/src"));
    std::fs::create_dir_all(&bin).map_err(|error| format!("{}: {error}", bin.display()))?;
    for program in PROGRAMS {
        let installed = bin.join(program);
        // A program that runs keeps its file.
        let _ = std::fs::remove_file(&installed);
        copy(&target().join("release").join(program), &installed)?;
    }
    if source.exists() {
        std::fs::remove_dir_all(&source).map_err(|error| format!("{}: {error}", source.display()))?;
    }
    let files = sources()?;
    for file in &files {
        copy(&root().join(file), &source.join(file))?;
    }
    println!(
        "{} programs in {}, {} files in {}",
        PROGRAMS.len(),
        bin.display(),
        files.len(),
        source.display()
    );
    Ok(())
}

/// The files that are under version control.
fn sources() -> Result<Vec<PathBuf>, Failure> {
    let failed =
        |why: String| format!("the source's files cannot be listed: {why}; a git checkout is needed");
    let listed = Command::new("git").arg("-C").arg(root()).args(["ls-files", "-z"]).output();
    let listed = listed.map_err(|error| failed(error.to_string()))?;
    if !listed.status.success() {
        return Err(failed(String::from_utf8_lossy(&listed.stderr).trim().to_owned()));
    }
    let names = String::from_utf8(listed.stdout).map_err(|error| failed(error.to_string()))?;
    Ok(names.split_terminator('\0').map(PathBuf::from).collect())
}

fn copy(from: &Path, to: &Path) -> Result<(), Failure> {
    let failed = |error| format!("{} to {}: {error}", from.display(), to.display());
    to.parent().map_or(Ok(()), std::fs::create_dir_all).map_err(failed)?;
    std::fs::copy(from, to).map_err(failed)?;
    Ok(())
}
