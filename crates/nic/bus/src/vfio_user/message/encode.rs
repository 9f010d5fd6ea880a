//! Writing messages, both directions.

use rustix::io::Errno;
use vfio_bindings::bindings::vfio::VFIO_REGION_INFO_CAP_SPARSE_MMAP;

use super::{Access, Command, Header, REGION_INFO, Region, flags};

/// A message being written: header first, then fields in order.
#[derive(Debug)]
pub struct Encoder(Vec<u8>);

impl Encoder {
    fn start(id: u16, command: u16, flags: u32, errno: u32) -> Encoder {
        let encoder = Encoder(Vec::with_capacity(64)).u16(id).u16(command);
        encoder.u32(0).u32(flags).u32(errno)
    }

    /// Begins a command; `flags` is 0 or [`flags::NO_REPLY`].
    pub fn request(id: u16, command: Command, flags: u32) -> Encoder {
        Encoder::start(id, command as u16, flags, 0)
    }

    /// Begins the reply to the command with that header.
    pub fn reply(to: &Header) -> Encoder {
        Encoder::start(to.id, to.command, flags::REPLY, 0)
    }

    /// The whole error reply to the command with that header.
    pub fn error(to: &Header, errno: Errno) -> Vec<u8> {
        let number = errno.raw_os_error() as u32;
        Encoder::start(to.id, to.command, flags::REPLY | flags::ERROR, number).finish()
    }

    /// Appends a field of 16 bits.
    pub fn u16(self, value: u16) -> Encoder {
        self.bytes(&value.to_le_bytes())
    }

    /// Appends a field of 32 bits.
    pub fn u32(self, value: u32) -> Encoder {
        self.bytes(&value.to_le_bytes())
    }

    /// Appends a field of 64 bits.
    pub fn u64(self, value: u64) -> Encoder {
        self.bytes(&value.to_le_bytes())
    }

    /// Appends bytes as they are.
    pub fn bytes(mut self, bytes: &[u8]) -> Encoder {
        self.0.extend_from_slice(bytes);
        self
    }

    /// Appends `offset, region, count`.
    pub fn access(self, access: Access) -> Encoder {
        self.u64(access.offset).u32(access.region).u32(access.count)
    }

    /// Appends a region's description, and its capability if `argsz`, the
    /// asker's room, allows.
    pub fn region(self, region: &Region, argsz: u32) -> Encoder {
        let areas = region.areas.as_deref().unwrap_or_default();
        let extra = if region.areas.is_some() { 16 + 16 * areas.len() } else { 0 };
        let needed = (REGION_INFO + extra) as u32;
        let first = if extra == 0 { 0 } else { REGION_INFO as u32 };
        let encoder = self.u32(needed).u32(region.flags).u32(region.index).u32(first);
        let encoder = encoder.u64(region.size).u64(region.offset);
        if extra == 0 || argsz < needed {
            return encoder;
        }
        let id = VFIO_REGION_INFO_CAP_SPARSE_MMAP as u16;
        let encoder = encoder.u16(id).u16(1).u32(0).u32(areas.len() as u32).u32(0);
        areas.iter().fold(encoder, |encoder, &(offset, len)| encoder.u64(offset).u64(len))
    }

    /// Fills in the size.
    pub fn finish(mut self) -> Vec<u8> {
        let size = (self.0.len() as u32).to_le_bytes();
        self.0[4..8].copy_from_slice(&size);
        self.0
    }
}
