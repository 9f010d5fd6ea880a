//! What a process gives up once all is open: its user, its capabilities, the
//! file system and most system calls. Whoever takes it over through a packet or
//! a device then has the descriptors that are open, and little else. Sources:
//! Linux's `seccomp(2)`, `landlock(7)`, `capabilities(7)`; the paper's section 3.6.
//!
//! In two steps, because all but the filter of system calls is a thread's own
//! and passed on to the threads it starts: [`Confinement::begin`] comes when
//! there is one thread, [`Confinement::complete`] when the others run. What it
//! is no defence against stands in `docs/security.md`: a device without an IOMMU.

mod calls;
mod files;
mod privileges;

use std::path::PathBuf;

use rustix::process::Pid;

use crate::Error;

pub use files::{existing_ancestor, landlock_version};
pub use privileges::{ask_as_other, caller, keep_files};

/// What a process still needs when all is open.
#[derive(Clone, Debug, Default)]
pub struct Needs {
    /// To accept clients on sockets that listen.
    pub clients: bool,
    /// To send to addresses, and over connections by the call that can do both.
    pub sending: bool,
    /// To ask who is at the other end of a Unix socket.
    pub peers: bool,
    /// To send datagrams to sockets in the file system: `unix:` wires.
    pub datagrams: bool,
    /// To ask sockets of the kernel's interfaces what they lost, and to read frames
    /// in several buffers.
    pub interfaces: bool,
    /// To end this child.
    pub child: Option<Pid>,
    /// To have more packet buffers, and to write files that are open from the beginning.
    pub memory: bool,
    /// To make files shorter that are open: captures that a full disk cut.
    pub captures: bool,
    /// To open files.
    pub files: Files,
    /// To stay root, without capabilities: the files that are named are root's own, and whoever
    /// asks for this has seen to it that landlock refuses all others.
    pub roots_files: bool,
    /// To make sockets that listen.
    pub listening: bool,
    /// To send signals to any process.
    pub signals: bool,
    /// To do what is not known yet, of which a new configuration is made: all system
    /// calls, but those by which programs are started and other processes are changed.
    /// Privileges are given up all the same.
    pub unknown: bool,
    /// To start programs.
    pub programs: bool,
}

/// Files that are opened later.
#[derive(Clone, Debug, Default)]
pub struct Files {
    /// These are read.
    pub read: Vec<PathBuf>,
    /// In these folders files and folders are made, written and removed.
    pub write: Vec<PathBuf>,
    /// Whether any other file may be opened as well: then files are not confined.
    pub any: bool,
}

impl Files {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.read.is_empty() && self.write.is_empty() && !self.any
    }
}

/// A confinement that has begun, or none.
#[must_use = "system calls are confined by `complete`"]
pub struct Confinement(Option<Needs>);

impl Confinement {
    /// None, as the user asked.
    pub fn none() -> Confinement {
        Confinement(None)
    }

    /// Gives up privileges and the file system, for this thread and those that
    /// it starts from now on.
    ///
    /// # Errors
    /// What the system refused.
    pub fn begin(needs: Needs) -> Result<Confinement, Error> {
        let user = privileges::drop_all(&needs).map_err(|error| failed("dropping privileges", error))?;
        let landlock = files::refuse(&needs).map_err(|error| failed("landlock", error))?;
        tracing::info!("confined: {user}, no capabilities, {landlock}");
        Ok(Confinement(Some(needs)))
    }

    /// Lets no thread of the process do other system calls than it needs.
    ///
    /// # Errors
    /// What the system refused: a kernel without filters.
    pub fn complete(self) -> Result<(), Error> {
        let Some(needs) = self.0 else { return Ok(()) };
        bus::peer::start().map_err(|error| failed("a thread for peers' files", error))?;
        calls::confine(&needs).map_err(|error| failed("seccomp", error))
    }
}

fn failed(step: &'static str, error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::Confinement { step, error: error.into() }
}
