//! PCI devices from user space: one abstraction, three ways in.
//!
//! [`Pci`] is a device, [`Bar`] one of its register windows, [`Register`] one
//! register with its pointer worked out beforehand. Behind them stands a
//! [`Backend`]: [`sysfs`] (resource files, no IOMMU), [`vfio`] (container and
//! group) or [`vfio_user`] (the device lives in another process). A register
//! access is the same volatile load or store whichever it is.
//!
//! Sources: the PCI Local Bus Specification 3.0, Linux's `Documentation/PCI`
//! and `linux/vfio.h`, and the vfio-user protocol 0.1. Not here: DMA memory
//! itself (crate `memory`), hot-plug, bridges, SR-IOV.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod address;
mod bar;
mod claim;
pub mod config_space;
mod error;
pub mod eventfd;
mod ids;
mod mapping;
pub mod order;
mod pci;
pub mod peer;
mod range;
pub mod scan;
pub mod seal;
pub mod sigbus;
pub mod signal;
pub mod sysfs;
mod traced;
pub mod tsc;
mod vf_token;
pub mod vfio;
pub mod vfio_user;
pub mod vhost_user;
mod window;

use std::os::fd::BorrowedFd;

pub use address::Address;
pub use bar::{Bar, Register};
pub use claim::{give_back, give_back_in};
pub use error::{Error, LONGEST_SOCKET_PATH, Result};
pub use ids::Ids;
pub use mapping::{BarMapping, Mapping};
pub use pci::Pci;
pub use range::DmaRange;
pub use scan::scan;
pub use seal::Trust;
pub use traced::RegisterName;
pub use vf_token::VfToken;

/// Which addresses a device uses when it reaches into memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addressing {
    /// No IOMMU between: the device sees physical addresses, which we look up.
    Physical,
    /// An IOMMU (VFIO) or a model (vfio-user): the device sees the addresses
    /// that we choose when we map.
    Virtual,
}

/// Memory space or I/O ports (PCI 3.0, section 6.2.5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BarKind {
    /// Registers that can be mapped into memory.
    Memory,
    /// I/O ports: never mapped, each access is a system call.
    Io,
}

/// Size, kind and mapped parts of a BAR.
#[derive(Clone, Debug)]
pub struct BarLayout {
    /// Size in bytes.
    pub size: u64,
    /// Memory or I/O ports.
    pub kind: BarKind,
    /// The parts mapped into this process; what is not in here is trapped.
    pub mapped: Vec<BarMapping>,
}

/// One way to a PCI device. Offsets and lengths are bytes; registers are
/// little endian.
///
/// Implementations never panic on what the device or its server does: a
/// request that fails is an [`Error`].
pub trait Backend: Send + Sync + std::fmt::Debug {
    /// The device's name as a user wrote it: `0000:03:00.0` or
    /// `vfio-user:/path.sock`.
    fn name(&self) -> String;
    /// Reads the configuration space.
    fn read_config(&self, offset: u16, data: &mut [u8]) -> Result<()>;
    /// Writes the configuration space.
    fn write_config(&self, offset: u16, data: &[u8]) -> Result<()>;
    /// Describes BAR `index` (0 to 5), mapping what can be mapped. A BAR the
    /// device does not have is [`Error::NoBar`].
    fn bar_layout(&self, index: usize) -> Result<BarLayout>;
    /// Reads from a BAR the slow way: trapped pages and I/O ports.
    fn read_bar(&self, index: usize, offset: u32, data: &mut [u8]) -> Result<()>;
    /// Writes to a BAR the slow way.
    fn write_bar(&self, index: usize, offset: u32, data: &[u8]) -> Result<()>;
    /// Which addresses the device uses for DMA.
    fn addressing(&self) -> Addressing;
    /// Lets the device reach `range`; nothing to do where addressing is physical.
    fn map_dma(&self, range: &DmaRange<'_>) -> Result<()>;
    /// Takes back what [`map_dma`](Backend::map_dma) gave.
    fn unmap_dma(&self, iova: u64, len: usize) -> Result<()>;
    /// MSI-X vectors that can be wired to eventfds; 0 if none.
    fn interrupt_vectors(&self) -> u16 {
        0
    }
    /// Wires `vector` to `event`, or unwires it.
    fn set_interrupt(&self, vector: u16, event: Option<BorrowedFd<'_>>) -> Result<()> {
        let _ = (vector, event);
        Err(Error::no_interrupts(self.name()))
    }
    /// Function-level reset; [`Error::Unsupported`] where there is none and
    /// the device's own reset has to do.
    fn reset(&self) -> Result<()>;
    /// The NUMA node the device hangs on, if known.
    fn numa_node(&self) -> Option<u32> {
        None
    }
    /// `Err` with the first fault once the peer hung up or the device is gone.
    fn health(&self) -> Result<()> {
        Ok(())
    }
}
