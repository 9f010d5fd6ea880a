//! Why bytes are not the packet they were taken for.

use std::fmt;

/// Why bytes are not the packet they were taken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Error {
    /// The bytes end before the packet does.
    Truncated,
    /// A length or version field contradicts the format.
    Malformed,
    /// The packet is well formed, but of a kind this crate does not read.
    Unsupported,
    /// The header's checksum is wrong.
    Checksum,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Error::Truncated => "the bytes end before the packet does",
            Error::Malformed => "a length or version field contradicts the format",
            Error::Unsupported => "the packet is well formed, but of a kind this crate does not read",
            Error::Checksum => "the header's checksum is wrong",
        })
    }
}

impl std::error::Error for Error {}

/// What parsing gives.
pub type Result<T> = std::result::Result<T, Error>;
