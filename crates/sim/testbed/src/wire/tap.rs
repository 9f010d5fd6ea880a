//! A TAP interface of Linux: the kernel's network stack at the other end of the
//! cable. Needs root (CAP_NET_ADMIN); the interface is made if there is none,
//! and then goes away with us. It is turned on, where we may.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;

use rustix::fs::OFlags;
use rustix::ioctl::{Opcode, Setter, ioctl};

use super::{Cause, SpecError};

/// `struct ifreq` as TUNSETIFF reads it (linux/if.h).
#[repr(C)]
struct Request {
    name: [u8; 16],
    flags: u16,
    rest: [u8; 22],
}

/// `_IOW('T', 202, int)` (linux/if_tun.h); takes an ifreq all the same.
const TUNSETIFF: Opcode = 0x4004_54CA;
const IFF_TAP: u16 = 0x0002;
const IFF_NO_PI: u16 = 0x1000;

/// A TAP interface.
#[derive(Debug)]
pub(super) struct Tap {
    file: File,
}

impl Tap {
    pub(super) fn open(name: &str) -> Result<Tap, SpecError> {
        let failed = |error: io::Error| SpecError::Open {
            what: format!("TAP interface {name}"),
            error: error.to_string(),
            fix: match error.kind() {
                ErrorKind::PermissionDenied => {
                    ": run as root, or `ip tuntap add mode tap user $USER name NAME`"
                }
                ErrorKind::NotFound => ": load the kernel module with `modprobe tun`",
                ErrorKind::ResourceBusy => ": another process has it; choose another name",
                _ => "",
            },
        };
        let nonblocking = OFlags::NONBLOCK.bits().cast_signed();
        let mut options = OpenOptions::new();
        let file =
            options.read(true).write(true).custom_flags(nonblocking).open("/dev/net/tun").map_err(failed)?;
        attach(&file, name).map_err(failed)?;
        if let Err(error) = interface::turn_on(name) {
            tracing::warn!("{name} cannot be turned on ({error}): ip link set {name} up");
        }
        Ok(Tap { file })
    }

    pub(super) fn receive(&mut self, frame: &mut [u8]) -> Option<usize> {
        self.file.read(frame).ok().filter(|&len| len > 0)
    }

    /// Sends a frame; `Err` names the loss.
    pub(super) fn transmit(&mut self, frame: &[u8]) -> Result<(), Cause> {
        match self.file.write(frame) {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Err(Cause::InterfaceFull),
            // EIO is what the kernel says while the interface is down.
            Err(error) if error.raw_os_error() == Some(5) => Err(Cause::InterfaceDown),
            Err(_) => Err(Cause::InterfaceError),
        }
    }
}

fn attach(file: impl AsFd, name: &str) -> io::Result<()> {
    let mut request = Request { name: [0; 16], flags: IFF_TAP | IFF_NO_PI, rest: [0; 22] };
    // The spec allows 15 bytes at most; the last stays zero.
    request.name[..name.len()].copy_from_slice(name.as_bytes());
    // SAFETY: TUNSETIFF reads and writes one `struct ifreq`, whose size and
    // layout `Request` has, and keeps no pointer to it.
    unsafe { ioctl(file, Setter::<TUNSETIFF, Request>::new(request))? };
    Ok(())
}
