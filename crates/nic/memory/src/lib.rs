//! Memory that devices read and write: DMA regions, packet buffers, pools and
//! batches.
//!
//! One rule carries the design: **whoever holds `&mut Pool` owns it**. The owner
//! allocates and frees without atomics, on a stack, so that the buffer used last
//! is used next; everyone else returns a packet by dropping it, with one atomic
//! push. A [`Packet`] is a unique handle: it cannot be freed twice or used after
//! it was freed, because neither compiles.
//!
//! Read in this order: [`region`], [`packet`], [`pool`], [`batch`].

#[cfg(not(target_endian = "little"))]
compile_error!("descriptors and packet metadata share a little-endian layout");

pub mod annotation;
mod attachment;
pub mod backing;
pub mod batch;
mod bounds;
mod bulk;
mod core;
mod iova;
mod metadata;
pub mod offload;
pub mod packet;
mod pagemap;
pub mod pool;
mod prefetch;
pub mod region;
mod returns;
mod segments;
mod slab;
mod space;
mod sparse;

pub use annotation::Annotations;
pub use attachment::Attachment;
pub use backing::{Backing, Options};
pub use batch::Batch;
pub use bounds::TooLong;
pub use offload::{Checksum, PacketType, RxFlags, TxOffload};
pub use packet::{DATA_ROOM, HEADROOM, Packet};
pub use pool::Pool;
pub use prefetch::{prefetch, prefetch_lines};
pub use region::{Dma, Region};

use std::io;

/// Why memory could not be had.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No hugepages where the device needs physical addresses.
    #[error(
        "no 2 MiB hugepages free, and this device sees physical memory: {0}; reserve some with: echo 512 > /proc/sys/vm/nr_hugepages"
    )]
    NoHugepages(io::Error),
    /// No hugetlbfs is mounted.
    #[error(
        "no hugetlbfs with 2 MiB pages is mounted; mount one with: mount -t hugetlbfs nodev /dev/hugepages"
    )]
    NoHugetlbfs,
    /// The kernel refused memory.
    #[error("cannot {doing} {len} bytes of DMA memory: {source}")]
    System {
        /// What was being done.
        doing: &'static str,
        /// How much was asked for.
        len: usize,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The kernel hides physical addresses from this process.
    #[error(
        "cannot learn physical addresses from /proc/self/pagemap ({0}): run as root (CAP_SYS_ADMIN), or bind the device to vfio-pci"
    )]
    NoPhysicalAddress(io::Error),
    /// A device that sees physical memory joined regions that have none.
    #[error(
        "{device} sees physical memory, but memory was already allocated at addresses of our choice: attach such devices first, to a Dma of their own"
    )]
    MixedAddressing {
        /// The device that was to be attached.
        device: String,
    },
    /// All IOVAs that every IOMMU can translate are in use.
    #[error("no {len} bytes of I/O virtual addresses left below {limit:#x}")]
    IovaExhausted {
        /// How much was asked for.
        len: usize,
        /// The first address that is out of reach.
        limit: u64,
    },
    /// A device refused the mapping.
    #[error(transparent)]
    Bus(#[from] bus::Error),
    /// A pool of no packets, or of more than memory can hold.
    #[error("a pool holds 1 to {max} packets, not {count}")]
    PoolSize {
        /// What was asked for.
        count: usize,
        /// The largest pool.
        max: usize,
    },
}

/// The result of asking for memory.
pub type Result<T> = std::result::Result<T, Error>;
