//! What can go wrong with threads.

use crate::cores::UnusableCore;

/// Why threads cannot run, or ended early.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A thread was to run on a core that this process may not use.
    #[error(transparent)]
    Core(#[from] UnusableCore),
    /// Memory for packet buffers could not be had.
    #[error(transparent)]
    Memory(#[from] memory::Error),
    /// A port does not begin to receive.
    #[error(transparent)]
    Port(#[from] port::Error),
    /// no file descriptors left: {0}
    #[error("no file descriptors left: {0}")]
    Descriptors(std::io::Error),
    /// cannot start a thread: {0}
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
    /// a thread panicked: this is a bug in ixora
    #[error("a thread panicked: this is a bug in ixora")]
    Panicked,
    /// cannot confine this process: {step}: {error}
    #[error("cannot confine this process: {step}: {error}")]
    Confinement {
        /// What was being done.
        step: &'static str,
        /// The system's answer.
        error: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The failure of a poller.
    #[error(transparent)]
    Poller(Box<dyn std::error::Error + Send + Sync>),
}
