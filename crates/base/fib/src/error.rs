//! Why a table refuses a route.

use std::fmt;

/// Why a table refuses a route. The table is as it was before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Error {
    /// The prefix is longer than an address.
    Length {
        /// Bits asked for.
        len: u8,
        /// Bits of an address.
        max: u8,
    },
    /// Bits behind the prefix's length are set.
    HostBits {
        /// Bits of the prefix.
        len: u8,
    },
    /// The value is greater than [`MAX_VALUE`](crate::MAX_VALUE).
    Value {
        /// The value that was given.
        value: u32,
    },
    /// The table holds as many routes as it may.
    Full {
        /// Routes it may hold.
        limit: usize,
    },
    /// The table has as many nodes as it may; long, scattered prefixes need most.
    Nodes {
        /// Nodes it may have.
        limit: usize,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Length { len, max } => {
                write!(f, "a prefix of {len} bits is longer than an address of {max}")
            }
            Error::HostBits { len } => write!(f, "bits behind the prefix's {len} are set"),
            Error::Value { value } => {
                write!(
                    f,
                    "the value {value} is greater than {}, the greatest a route can have",
                    crate::MAX_VALUE
                )
            }
            Error::Full { limit } => write!(f, "the table is full: it may hold {limit} routes"),
            Error::Nodes { limit } => write!(f, "the table is full: it may have {limit} nodes"),
        }
    }
}

impl std::error::Error for Error {}

/// What changing a table gives.
pub type Result<T> = std::result::Result<T, Error>;
