//! What can go wrong before a guest runs.

use std::io;
use std::path::PathBuf;

/// What functions of this crate return.
pub type Result<T> = std::result::Result<T, Error>;

/// The doc comments are the messages.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No place for the cache: neither variable is set.
    #[error("no place for the cache: set IXORA_CACHE, XDG_CACHE_HOME or HOME")]
    NoCache,
    /// The machine's apt names no Debian mirror.
    #[error("apt on this machine names no Debian mirror: add one, or set IXORA_DEBIAN_MIRROR to its address")]
    NoMirror,
    /// Packages could not be had.
    #[error("cannot fetch {packages} from Debian's {suite}: {reason}")]
    Fetch {
        /// The packages asked for, separated by spaces.
        packages: String,
        /// The name of Debian's suite.
        suite: String,
        /// What apt said.
        reason: String,
    },
    /// A program that is needed does not start.
    #[error("cannot run {program}: {source}; it comes with the Debian package {package}")]
    Program {
        /// The program that was to be started.
        program: String,
        /// The package that has it.
        package: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// A package that was fetched lacks a file.
    #[error("{} is missing from the fetched packages: remove {} to fetch them again", .file.display(), .root.display())]
    Missing {
        /// The file that the package should have had.
        file: PathBuf,
        /// The tree that should have it.
        root: PathBuf,
    },
    /// A file that is not what it should be.
    #[error("{}: {reason}", .path.display())]
    Malformed {
        /// The file that is not right.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A file could not be read or written.
    #[error("{}: {source}", .path.display())]
    File {
        /// The file that was to be read or written.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl Error {
    /// For `map_err` after an access to `path`.
    pub(crate) fn at(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Error {
        let path = path.into();
        move |source| Error::File { path, source }
    }
}
