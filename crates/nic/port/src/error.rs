//! What can go wrong while a port is set up or asked. On the packet path nothing
//! fails: there, losses are counters.

/// An option is outside what a device can do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{option} is {value}, but {limit}")]
pub struct OptionError {
    /// The name of the option.
    pub option: &'static str,
    /// What was asked for.
    pub value: usize,
    /// What is possible.
    pub limit: &'static str,
}

/// Why an operation on a port failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// {port}: {operation} is not supported by this kind of port
    #[error("{port}: {operation} is not supported by this kind of port")]
    Unsupported {
        /// The port's name.
        port: String,
        /// What was asked for.
        operation: &'static str,
    },
    /// An option is outside what the port can do.
    #[error(transparent)]
    Option(#[from] OptionError),
    /// Memory for rings or buffers could not be had.
    #[error(transparent)]
    Memory(#[from] memory::Error),
    /// The error of the driver that implements the port.
    #[error(transparent)]
    Driver(Box<dyn std::error::Error + Send + Sync>),
    /// {port}: all {capacity} entries of {table} are in use: remove one first, or receive everything (promiscuous mode)
    #[error(
        "{port}: all {capacity} entries of {table} are in use: remove one first, or receive everything (promiscuous mode)"
    )]
    TableFull {
        /// The port's name.
        port: String,
        /// Which table is full, in words.
        table: &'static str,
        /// How many it holds.
        capacity: usize,
    },
    /// {port}: {what}: {fix}
    #[error("{port}: {what}: {fix}")]
    Setup {
        /// The port's name.
        port: String,
        /// What is wrong.
        what: String,
        /// What to do about it.
        fix: String,
    },
    /// {port}: {doing}: {source}
    #[error("{port}: {doing}: {source}")]
    System {
        /// The port's name.
        port: String,
        /// What was being done.
        doing: &'static str,
        /// The system's answer.
        source: std::io::Error,
    },
    /// {port}: the interface was taken down
    #[error("{port}: the interface was taken down")]
    Down {
        /// The port's name.
        port: String,
    },
    /// {port}: {what}
    ///
    /// What is behind the port, such as an interface, is gone.
    #[error("{port}: {what}")]
    Lost {
        /// The port's name.
        port: String,
        /// What became of it.
        what: &'static str,
    },
}

impl Error {
    /// A step of setting up that failed, for a reason that is known.
    pub fn setup(port: &str, what: String, fix: impl Into<String>) -> Error {
        Error::Setup { port: port.to_owned(), what, fix: fix.into() }
    }
}

/// The result of an operation on a port.
pub type Result<T> = std::result::Result<T, Error>;
