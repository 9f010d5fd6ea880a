//! The directory of a machine: its console, its sockets, its initramfs.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::arguments;
use super::problem::Problem;
use crate::janitor::{CleanUp, Janitor};

/// Bytes of a socket's path, less the longest name that is made here.
const LONGEST: usize = bus::LONGEST_SOCKET_PATH - "/control".len();

/// A directory that goes when this goes, unless it is to be kept.
pub struct WorkDir {
    path: PathBuf,
    _directory: Option<TempDir>,
    /// Removes it where we are killed.
    _janitor: Option<Janitor>,
}

impl WorkDir {
    /// Makes one that only this user can look into.
    pub fn new(options: &arguments::Machine) -> Result<WorkDir, Problem> {
        let elsewhere = |problem: Problem| problem.fix("export TMPDIR=/tmp");
        let directory = tempfile::Builder::new().prefix("ixora-vm-").tempdir();
        let directory = directory.map_err(|error| {
            let place = std::env::temp_dir();
            elsewhere(Problem::new(format!("cannot make a directory in {}: {error}", place.display())))
        })?;
        let path = directory.path().to_owned();
        if path.as_os_str().len() > LONGEST {
            return Err(elsewhere(Problem::new(format!(
                "{} is too long a path for sockets",
                path.display()
            ))));
        }
        if let Some(console) = &options.console {
            link(console, &path)?;
        }
        if options.keep {
            return Ok(WorkDir { path: directory.keep(), _directory: None, _janitor: None });
        }
        let clean_up = CleanUp { directories: vec![path.clone()], ..CleanUp::default() };
        let _janitor = Janitor::call(&clean_up).map_err(|failure| Problem::new(failure.cause()))?;
        Ok(WorkDir { path, _directory: Some(directory), _janitor })
    }

    /// The directory of the machine's files.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Makes the console's file where the user wants it, to be watched as it grows.
fn link(console: &Path, directory: &Path) -> Result<(), Problem> {
    let failed = |error| {
        Problem::new(format!("cannot write {}: {error}", console.display()))
            .fix("name a file in a directory that is there and yours")
    };
    std::fs::File::create(console).map_err(failed)?;
    let absolute = std::path::absolute(console).map_err(failed)?;
    symlink(absolute, directory.join("console.log")).map_err(failed)
}
