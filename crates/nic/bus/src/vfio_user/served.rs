//! What a device model is to the server: the trait it implements and the
//! values it describes itself with.

use std::io;
use std::os::fd::OwnedFd;

use crate::BarKind;

/// A BAR as a served device describes it.
#[derive(Debug)]
pub struct RegionInfo {
    /// Which BAR, 0 to 5.
    pub bar: usize,
    /// Size in bytes.
    pub size: u64,
    /// Memory or I/O ports.
    pub kind: BarKind,
    /// The file behind the mapped areas, and the areas; none: all is trapped.
    pub shared: Option<SharedPages>,
}

/// The pages of a BAR that the client may map.
#[derive(Debug)]
pub struct SharedPages {
    /// The file (a memfd); BAR offset 0 is `fd_offset` of the file.
    pub fd: OwnedFd,
    /// Where the BAR begins in the file.
    pub fd_offset: u64,
    /// `(offset, len)` in the BAR, page aligned, in ascending order.
    pub areas: Vec<(u64, u64)>,
}

/// What a client lets the device do with mapped memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DmaAccess {
    /// The device may read.
    pub read: bool,
    /// The device may write.
    pub write: bool,
}

/// A device as the server sees it; all calls come from the one thread that
/// serves. Offsets and lengths are checked against `regions` before `read_bar`
/// and `write_bar` are called, and against 4096 bytes for the configuration
/// space.
pub trait Served {
    /// Reads the configuration space.
    fn read_config(&mut self, offset: u16, data: &mut [u8]);
    /// Writes the configuration space.
    fn write_config(&mut self, offset: u16, data: &[u8]);
    /// The BARs the device has.
    fn regions(&self) -> Vec<RegionInfo>;
    /// Reads a BAR: trapped bytes, and shared ones by a client that maps none.
    fn read_bar(&mut self, bar: usize, offset: u64, data: &mut [u8]);
    /// Writes a BAR.
    fn write_bar(&mut self, bar: usize, offset: u64, data: &[u8]);
    /// The client offers memory, page aligned and overlapping no other range;
    /// the file reaches to its end. `fd` is `None` where the client shared no
    /// file: the device cannot reach such memory and may refuse it.
    ///
    /// A client that shrinks its file later would end a process that mapped it
    /// with SIGBUS: who maps it seals it first ([`seal`](crate::seal::seal)), before it
    /// looks at the size, and has faults noted ([`sigbus`](crate::sigbus)).
    fn map_dma(
        &mut self,
        iova: u64,
        len: u64,
        fd: Option<OwnedFd>,
        fd_offset: u64,
        access: DmaAccess,
    ) -> io::Result<()>;
    /// The client takes memory back; no access may follow the return.
    fn unmap_dma(&mut self, iova: u64, len: u64) -> io::Result<()>;
    /// Whether the client took away pages of memory that it offered: it is ended then.
    /// Asked many times a second.
    fn is_memory_lost(&self) -> bool {
        false
    }
    /// MSI-X vectors the device has.
    fn interrupt_vectors(&self) -> u16;
    /// Wires a vector to an eventfd, or unwires it. It is an eventfd indeed; the client
    /// has it, too, so that only [`eventfd::signal`](crate::eventfd::signal) never waits.
    fn set_interrupt(&mut self, vector: u16, event: Option<OwnedFd>);
    /// Does a function-level reset.
    fn reset(&mut self);
    /// The client is gone: drop its memory and interrupts.
    fn disconnected(&mut self);
}
