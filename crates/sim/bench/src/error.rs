//! Why something could not be measured.

use testbed::wire::SpecError;

/// Why something could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What was asked for does not exist.
    #[error("{cause}")]
    Usage {
        /// What it is that does not exist.
        cause: String,
        /// What there is instead.
        fix: String,
    },
    /// What is needed is not on this machine.
    #[error("{cause}")]
    Missing {
        /// What it is that is missing.
        cause: String,
        /// How to get it.
        fix: String,
    },
    /// Something went wrong while it was set up or measured.
    #[error("{0}")]
    Failed(String),
    /// A PCI device.
    #[error(transparent)]
    Bus(#[from] bus::Error),
    /// Memory for packets.
    #[error(transparent)]
    Memory(#[from] memory::Error),
    /// A driver, or the device that it drives.
    #[error(transparent)]
    Driver(#[from] driver::Error),
    /// A port that could not be opened, or does not do what is asked for.
    #[error(transparent)]
    Port(#[from] port::Error),
    /// A wire of a model.
    #[error(transparent)]
    Wire(#[from] SpecError),
}

/// What could be measured, or why not.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Something went wrong.
    pub fn new(cause: impl Into<String>) -> Error {
        Error::Failed(cause.into())
    }

    /// What was asked for does not exist, and what there is instead.
    pub fn usage(cause: impl Into<String>, fix: impl Into<String>) -> Error {
        Error::Usage { cause: cause.into(), fix: fix.into() }
    }
}
