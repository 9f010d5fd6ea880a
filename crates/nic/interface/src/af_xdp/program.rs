//! The program at the interface: five instructions that hand a packet to the
//! socket of the queue it came on, or to the kernel's stack where there is none.
//! Written out by hand, so that neither a compiler nor a file is needed; the
//! machine is in RFC 9669. Attached by a link, which goes with the process.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::thread::CapabilitySet;

use super::bpf;
use crate::af_packet::interface_of;
use crate::capabilities::{AF_XDP, lacking};
use port::Error;

/// `XDP_PASS`, what becomes of a packet whose queue has no socket.
const PASS: u32 = 2;
/// Where `rx_queue_index` is in `struct xdp_md`.
const QUEUE: u16 = 16;
/// The helper `bpf_redirect_map`.
const REDIRECT_MAP: u32 = 51;
/// `XDP_FLAGS_SKB_MODE` and `XDP_FLAGS_DRV_MODE` (linux/if_link.h).
const GENERIC: u32 = 1 << 1;
const NATIVE: u32 = 1 << 2;

/// Where the program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// In the interface's driver, before there is a packet of the kernel's.
    Native,
    /// In the kernel's stack: on any interface.
    Generic,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Mode::Native { "native" } else { "generic" })
    }
}

/// The program, at an interface for as long as this lives.
#[derive(Debug)]
pub(super) struct Attachment {
    map: OwnedFd,
    mode: Mode,
    _link: OwnedFd,
}

/// A step that failed.
#[derive(Debug)]
pub(super) struct StepError {
    step: &'static str,
    source: io::Error,
}

/// Attaches the program to an interface, for its first `queues` queues: natively
/// where that can be, and unless `native` says no.
pub(super) fn attach(interface: u32, queues: usize, native: bool) -> Result<Attachment, StepError> {
    let fault = |step| move |source| StepError { step, source };
    let map = bpf::socket_map(queues as u32).map_err(fault("making a map of sockets"))?;
    let instructions = instructions(map.as_raw_fd());
    let program = bpf::load(&instructions).map_err(fault("loading the XDP program"))?;
    let attach = |flags| bpf::attach(&program, interface, flags);
    let failed = fault("attaching the XDP program");
    let in_use =
        |error: &io::Error| matches!(error.raw_os_error(), Some(libc::EBUSY | libc::EEXIST | libc::EPERM));
    if native {
        match attach(NATIVE) {
            Ok(link) => return Ok(Attachment { map, mode: Mode::Native, _link: link }),
            Err(error) if in_use(&error) => return Err(failed(error)),
            Err(error) => tracing::info!("no native XDP ({error}): generic"),
        }
    }
    let link = attach(GENERIC).map_err(failed)?;
    Ok(Attachment { map, mode: Mode::Generic, _link: link })
}

impl Attachment {
    /// Where it runs.
    pub(super) fn mode(&self) -> Mode {
        self.mode
    }

    /// From now on what comes on `queue` goes to `socket`.
    pub(super) fn add(&self, queue: u32, socket: impl AsFd) -> io::Result<()> {
        bpf::update(&self.map, queue, socket)
    }
}

/// `return bpf_redirect_map(&map, ctx->rx_queue_index, XDP_PASS)`.
fn instructions(map: i32) -> [u64; 6] {
    let code = |opcode: u8, registers: u8, offset: u16, value: u32| {
        u64::from(opcode) | u64::from(registers) << 8 | u64::from(offset) << 16 | u64::from(value) << 32
    };
    [
        code(0x61, 0x12, QUEUE, 0),               // r2 = *(u32 *)(r1 + QUEUE)
        code(0x18, 0x11, 0, map.cast_unsigned()), // r1 = map, by its descriptor,
        0,                                        //      in two
        code(0xB7, 0x03, 0, PASS),                // r3 = PASS
        code(0x85, 0x00, 0, REDIRECT_MAP),        // r0 = redirect_map(r1, r2, r3)
        code(0x95, 0x00, 0, 0),                   // return r0
    ]
}

impl StepError {
    /// The error, with its cause and its fix where they are known.
    pub(super) fn explain(self, port: &str) -> Error {
        let name = interface_of(port);
        let (what, fix) = match self.source.raw_os_error() {
            Some(libc::EPERM) => {
                let missing = CapabilitySet::BPF | CapabilitySet::NET_ADMIN;
                return lacking(port, self.step, missing, AF_XDP);
            }
            Some(libc::EBUSY | libc::EEXIST) => (
                "the interface has another XDP program",
                format!("end the program that uses it, or: ip link set dev {name} xdp off xdpgeneric off"),
            ),
            Some(libc::ENOSYS | libc::EINVAL) => (
                "the kernel refuses the XDP program",
                "Linux 5.9 or later with CONFIG_XDP_SOCKETS is needed; or use af_packet".to_owned(),
            ),
            Some(libc::EOPNOTSUPP) => ("the interface takes no XDP program", format!("use af_packet:{name}")),
            _ => return Error::System { port: port.to_owned(), doing: self.step, source: self.source },
        };
        Error::setup(port, format!("{}: {what} ({})", self.step, self.source), fix)
    }
}
