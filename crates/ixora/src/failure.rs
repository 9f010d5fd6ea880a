//! What a command says when it fails: the cause, and the fix where one is known.

use std::fmt;

use testbed::wire::SpecError;

/// A failed command.
#[derive(Debug)]
pub struct Failure {
    cause: String,
    fix: Option<String>,
    /// The exit status: 1 for a failure, 2 for wrong use.
    pub status: u8,
}

impl Failure {
    /// Something went wrong.
    pub fn new(cause: impl Into<String>) -> Failure {
        Failure { cause: cause.into(), fix: None, status: 1 }
    }

    /// The command was called wrongly.
    pub fn usage(cause: impl Into<String>) -> Failure {
        Failure { status: 2, ..Failure::new(cause) }
    }

    /// What went wrong.
    pub fn cause(&self) -> &str {
        &self.cause
    }

    /// What to do about it.
    pub fn fix(mut self, fix: impl Into<String>) -> Failure {
        self.fix = Some(fix.into());
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", self.cause)?;
        match &self.fix {
            Some(fix) => write!(f, "\nfix: {fix}"),
            None => Ok(()),
        }
    }
}

macro_rules! from {
    ($($error:ty: $wrong_use:pat,)*) => {$(
        impl From<$error> for Failure {
            fn from(error: $error) -> Failure {
                match error {
                    $wrong_use => Failure::usage(error.to_string()),
                    _ => Failure::new(error.to_string()),
                }
            }
        }
    )*};
}

// Beside each error: what of it is wrong use, and no failure.
from! {
    bus::Error: bus::Error::BadAddress(_),
    memory::Error: memory::Error::PoolSize { .. },
    driver::Error: driver::Error::Option { .. },
    port::Error: port::Error::Driver(driver::Error::Option { .. }),
}

impl From<SpecError> for Failure {
    fn from(error: SpecError) -> Failure {
        match error {
            SpecError::Open { .. } => Failure::new(error.to_string()),
            _ => Failure::usage(error.to_string()),
        }
    }
}
