//! What can go wrong on the way to a device. The doc comments are the
//! messages; those of set-up name the cause and what mends it.

use std::io;
use std::path::Path;
use std::time::Duration;

use rustix::io::Errno;

use crate::Address;
use crate::vfio_user::message::Malformed;

/// Bytes of a socket's path, without the NUL (unix(7), `sun_path`).
pub const LONGEST_SOCKET_PATH: usize = 107;

/// This crate's results.
pub type Result<T> = std::result::Result<T, Error>;

/// A failure of a device or on the way to one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Not a PCI address.
    #[error("`{0}` is no PCI address: write 0000:03:00.0 or 03:00.0 (`ixora doctor` lists the devices)")]
    BadAddress(String),
    /// Not a token of virtual functions.
    #[error("`{0}` is no token of virtual functions: write a UUID, as `uuidgen` makes them")]
    BadVfToken(String),
    /// Nothing sits at the address.
    #[error("no PCI device {address}: {path} does not exist (`ixora doctor` lists the devices)")]
    NoDevice {
        /// The address asked for.
        address: Address,
        /// Where it was looked for.
        path: String,
    },
    /// The system refused a file.
    #[error("permission denied opening {path}: {fix}")]
    Denied {
        /// The path of the file.
        path: String,
        /// What to do about it.
        fix: String,
    },
    /// A system call failed.
    #[error("{doing}: {errno}")]
    Os {
        /// What was being done, with the file's name.
        doing: String,
        /// The system's answer.
        errno: Errno,
    },
    /// A set-up step failed, and we know why.
    #[error("{device}: {what}: {fix}")]
    Setup {
        /// The name of the device.
        device: String,
        /// What is wrong.
        what: String,
        /// What to do about it.
        fix: String,
    },
    /// The device has no such BAR.
    #[error("{device} has no BAR {index}")]
    NoBar {
        /// The name of the device.
        device: String,
        /// The BAR asked for.
        index: usize,
    },
    /// An access beyond the end.
    #[error("{device}: {len} bytes at offset {offset:#x} lie outside of {region}")]
    OutOfRange {
        /// The name of the device.
        device: String,
        /// BAR or configuration space.
        region: String,
        /// First byte asked for.
        offset: u64,
        /// Bytes asked for.
        len: usize,
    },
    /// The way to the device cannot do this.
    #[error("{device} cannot {what} this way: {fix}")]
    Unsupported {
        /// The name of the device.
        device: String,
        /// What was asked.
        what: &'static str,
        /// What to do instead.
        fix: &'static str,
    },
    /// Nobody serves the socket.
    #[error(
        "cannot connect to {path}: {errno}: start the model first, e.g. `ixora model 82599 --socket {path}`"
    )]
    Connect {
        /// The path of the socket.
        path: String,
        /// The system's answer.
        errno: Errno,
    },
    /// The peer hung up.
    #[error("{peer} hung up")]
    HungUp {
        /// Socket of the peer.
        peer: String,
    },
    /// The peer gave no answer in time.
    #[error("{peer} gave no answer to {command} within {after:?}")]
    TimedOut {
        /// Socket of the peer.
        peer: String,
        /// The vfio-user command.
        command: &'static str,
        /// How long we waited.
        after: Duration,
    },
    /// The peer answered with an error.
    #[error("{peer} refused {command}: {errno}")]
    Refused {
        /// Socket of the peer.
        peer: String,
        /// The vfio-user command.
        command: &'static str,
        /// The peer's errno.
        errno: Errno,
    },
    /// The peer broke the protocol (vfio-user, vhost-user).
    #[error("{peer} broke the protocol: {what}")]
    Protocol {
        /// Socket of the peer.
        peer: String,
        /// What it did.
        what: String,
    },
    /// The peer sent a message that cannot be read.
    #[error("{peer} sent a malformed vfio-user message: {malformed}")]
    Malformed {
        /// Socket of the peer.
        peer: String,
        /// What is wrong with the message.
        malformed: Malformed,
    },
}

impl Error {
    /// The peer took away memory that both map ([`sigbus`](crate::sigbus)).
    pub(crate) fn memory_lost(peer: String) -> Error {
        let what = "it took away pages of memory that is shared (truncated or punched: SIGBUS)";
        Error::Protocol { peer, what: what.to_owned() }
    }

    /// Some peer took away packet memory that all devices of the process share: one whose
    /// port refused the memory or is closed may have kept its file.
    pub fn packet_memory_lost() -> Error {
        let what =
            "it took away pages of packet memory, which all ports share (truncated or punched: SIGBUS)";
        Error::Protocol { peer: "a peer of this or another port".to_owned(), what: what.to_owned() }
    }

    /// A failed system call. `doing` reads like "opening /dev/x".
    pub(crate) fn os(doing: impl Into<String>, errno: impl Into<io::Error>) -> Error {
        let errno = Errno::from_io_error(&errno.into()).unwrap_or(Errno::IO);
        Error::Os { doing: doing.into(), errno }
    }

    /// Whether a socket can have a path, of at most so many bytes.
    ///
    /// # Errors
    /// The path and how long it is.
    pub fn check_socket_path(path: &Path, most: usize) -> Result<()> {
        let bytes = path.as_os_str().len();
        if bytes <= most {
            return Ok(());
        }
        let what = format!("a socket's path has at most {most} bytes, this one has {bytes}");
        let fix = "choose a shorter one, such as one in /tmp".to_owned();
        Err(Error::Setup { device: path.display().to_string(), what, fix })
    }

    /// A file that would not open; `fix` is for want of permission.
    pub(crate) fn opening(path: &Path, error: io::Error, fix: impl FnOnce() -> String) -> Error {
        let path = path.display().to_string();
        match error.kind() {
            io::ErrorKind::PermissionDenied => Error::Denied { path, fix: fix() },
            _ => Error::os(format!("opening {path}"), error),
        }
    }

    pub(crate) fn no_interrupts(device: String) -> Error {
        let fix = "bind the device to vfio-pci, or poll";
        Error::Unsupported { device, what: "wire interrupts", fix }
    }

    pub(crate) fn no_reset(device: String) -> Error {
        let fix = "use the device's own reset register";
        Error::Unsupported { device, what: "be reset", fix }
    }
}
