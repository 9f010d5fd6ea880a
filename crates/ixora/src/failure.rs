//! What a command says when it fails: the cause, and the fix where one is known.

use std::fmt;

use runtime::cores::UnusableCore;
use testbed::ModelError;
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

    /// An option names a core that cannot be had.
    pub fn core(option: &str, error: &UnusableCore) -> Failure {
        let fix = format!("this process may use {}", error.usable_list());
        Failure::usage(format!("{option} {} is not possible", error.core)).fix(fix)
    }

    /// All was said already; only the exit status is left.
    pub fn status(status: u8) -> Failure {
        Failure { status, ..Failure::new("") }
    }

    /// Whether there is something to say.
    pub fn is_silent(&self) -> bool {
        self.cause.is_empty()
    }

    /// What went wrong.
    pub fn cause(&self) -> &str {
        &self.cause
    }

    /// What went wrong and what to do about it, for who says himself that it is an error.
    pub fn said(&self) -> String {
        match &self.fix {
            Some(fix) => format!("{}\nfix: {fix}", self.cause),
            None => self.cause.clone(),
        }
    }

    /// What to do about it.
    pub fn fix(mut self, fix: impl Into<String>) -> Failure {
        self.fix = Some(fix.into());
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", self.said())
    }
}

/// A failure whose text ends with its fix: that gets a line of its own.
fn parted(text: &str, fix: &str) -> Failure {
    let cause = text.strip_suffix(fix).unwrap_or(text);
    Failure::new(cause.trim_end_matches([' ', ':', ';', '('])).fix(fix)
}

impl From<bus::Error> for Failure {
    fn from(error: bus::Error) -> Failure {
        use bus::Error::{BadAddress, Connect, Denied, NoDevice, Setup, Unsupported};
        let text = error.to_string();
        match &error {
            BadAddress(_) => Failure::usage(text),
            Denied { fix, .. } | Setup { fix, .. } => parted(&text, fix),
            Unsupported { fix, .. } => parted(&text, fix),
            Connect { path, errno } => Failure::new(format!("cannot connect to {path}: {errno}"))
                .fix(format!("start the model first: ixora model 82599 --socket {path}")),
            NoDevice { address, .. } => {
                Failure::new(format!("no PCI device {address}")).fix("ixora doctor lists the devices")
            }
            _ => Failure::new(text),
        }
    }
}

impl From<memory::Error> for Failure {
    fn from(error: memory::Error) -> Failure {
        use memory::Error::{Bus, NoHugepages, NoHugetlbfs, PoolSize, System};
        let text = error.to_string();
        let last = text.rsplit_once("; ").map_or("", |(_, last)| last);
        match error {
            Bus(error) => error.into(),
            PoolSize { .. } => Failure::usage(text),
            NoHugepages(_) | NoHugetlbfs => parted(&text, last),
            System { source, .. } if source.kind() == std::io::ErrorKind::OutOfMemory => Failure::new(text)
                .fix("leave --hugepages out, or reserve some: echo 512 > /proc/sys/vm/nr_hugepages"),
            _ => Failure::new(text),
        }
    }
}

impl From<driver::Error> for Failure {
    fn from(error: driver::Error) -> Failure {
        match error {
            driver::Error::Bus(error) => error.into(),
            driver::Error::Memory(error) => error.into(),
            driver::Error::Option(error) => Failure::usage(error.to_string()),
            _ => Failure::new(error.to_string()),
        }
    }
}

impl From<port::Error> for Failure {
    fn from(error: port::Error) -> Failure {
        match driver::Error::try_from(error) {
            Ok(error) => error.into(),
            Err(error) => match (error.to_string(), error) {
                (text, port::Error::Setup { fix, .. }) => parted(&text, &fix),
                (text, _) => Failure::new(text),
            },
        }
    }
}

impl From<ModelError> for Failure {
    fn from(error: ModelError) -> Failure {
        let failure = match error {
            ModelError::Pages(_) => Failure::new(error.to_string()),
            _ => Failure::usage(error.to_string()),
        };
        match error.fix() {
            Some(fix) => failure.fix(fix),
            None => failure,
        }
    }
}

impl From<bench::Error> for Failure {
    fn from(error: bench::Error) -> Failure {
        match error {
            bench::Error::Usage { cause, fix } => Failure::usage(cause).fix(fix),
            bench::Error::Missing { cause, fix } => Failure::new(cause).fix(fix),
            bench::Error::Failed(cause) => Failure::new(cause),
            bench::Error::Bus(error) => error.into(),
            bench::Error::Memory(error) => error.into(),
            bench::Error::Driver(error) => error.into(),
            bench::Error::Port(error) => error.into(),
            bench::Error::Wire(error) => error.into(),
        }
    }
}

impl From<runtime::Error> for Failure {
    fn from(error: runtime::Error) -> Failure {
        match error {
            runtime::Error::Core(core) => Failure::core("--cpu", &core),
            runtime::Error::Memory(error) => error.into(),
            runtime::Error::Port(error) => error.into(),
            runtime::Error::Confinement { .. } => Failure::new(error.to_string())
                .fix("--no-confine goes on without; ixora doctor tells what this kernel offers"),
            _ => Failure::new(error.to_string()),
        }
    }
}

impl From<SpecError> for Failure {
    fn from(error: SpecError) -> Failure {
        match error {
            SpecError::Open { .. } => Failure::new(error.to_string()),
            SpecError::SocketPath(error) => error.into(),
            _ => Failure::usage(error.to_string()),
        }
    }
}
