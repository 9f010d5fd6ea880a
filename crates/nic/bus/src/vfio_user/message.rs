//! The messages of vfio-user 0.1, both directions, over byte slices: a header
//! of 16 bytes and a body that mostly repeats `linux/vfio.h`. Sources: the
//! vfio-user specification and libvfio-user's `vfio-user.h`.
//!
//! No I/O. Nothing here trusts a length, a count or an offset: whatever the
//! bytes, decoding ends in a value or in [`Malformed`]. Integers are in the
//! host's byte order on the wire; only little-endian hosts are supported.
//! Migration and device features are not decoded.

mod encode;
mod reply;

use rustix::io::Errno;

pub use encode::Encoder;
pub(crate) use reply::Capabilities;
pub use reply::{
    DeviceInfo, IrqInfo, REGION_INFO, Region, Version, capabilities, decode_device_info, decode_irq_info,
    decode_read, decode_region, decode_version,
};

/// Bytes of a header.
pub const HEADER: usize = 16;
/// Most bytes of data in one message, both what we announce and what we keep to.
pub const MAX_TRANSFER: usize = 1 << 20;
/// Most bytes of a whole message.
pub const MAX_MESSAGE: usize = MAX_TRANSFER + 4096;
/// Most file descriptors with one message.
pub const MAX_FDS: usize = 16;
/// The protocol's version: major and minor.
pub const VERSION: (u16, u16) = (0, 1);

/// Bits of a header's `flags`.
pub mod flags {
    /// The message's type.
    pub const TYPE_MASK: u32 = 0xF;
    /// Type: a reply; a command is 0.
    pub const REPLY: u32 = 1;
    /// The sender wants no reply.
    pub const NO_REPLY: u32 = 1 << 4;
    /// The reply tells an error.
    pub const ERROR: u32 = 1 << 5;
    /// `DMA_MAP`: the device may read.
    pub const DMA_READ: u32 = 1 << 0;
    /// `DMA_MAP`: the device may write.
    pub const DMA_WRITE: u32 = 1 << 1;
    /// `DMA_UNMAP`: all there is.
    pub const DMA_UNMAP_ALL: u32 = 1 << 1;
}

macro_rules! commands {
    ($($(#[$doc:meta])* $name:ident = $number:literal $text:literal;)*) => {
        /// What a message asks for.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u16)]
        pub enum Command { $($(#[$doc])* $name = $number,)* }

        impl Command {
            /// The command of that number.
            pub fn from_number(number: u16) -> Option<Command> {
                match number { $($number => Some(Command::$name),)* _ => None }
            }

            /// The specification's name, without its prefix.
            pub fn name(self) -> &'static str {
                match self { $(Command::$name => $text,)* }
            }
        }
    };
}

commands! {
    /// Versions and capabilities; the first message.
    Version = 1 "VERSION";
    /// Offers memory to the device.
    DmaMap = 2 "DMA_MAP";
    /// Takes memory back.
    DmaUnmap = 3 "DMA_UNMAP";
    /// What kind of device.
    DeviceInfo = 4 "DEVICE_GET_INFO";
    /// A region's size and what of it can be mapped.
    RegionInfo = 5 "DEVICE_GET_REGION_INFO";
    /// File descriptors that stand for registers.
    RegionIoFds = 6 "DEVICE_GET_REGION_IO_FDS";
    /// How many interrupts of a kind.
    IrqInfo = 7 "DEVICE_GET_IRQ_INFO";
    /// Wires interrupts to event descriptors.
    SetIrqs = 8 "DEVICE_SET_IRQS";
    /// Reads a region.
    RegionRead = 9 "REGION_READ";
    /// Writes a region.
    RegionWrite = 10 "REGION_WRITE";
    /// The device reads memory that it cannot map.
    DmaRead = 11 "DMA_READ";
    /// The device writes memory that it cannot map.
    DmaWrite = 12 "DMA_WRITE";
    /// Resets the device.
    Reset = 13 "DEVICE_RESET";
    /// Several small writes in one message.
    RegionWriteMulti = 15 "REGION_WRITE_MULTI";
}

/// Why bytes are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The header's size is none a message can have.
    #[error("message size {0} is not within {HEADER}..={MAX_MESSAGE}")]
    Size(u32),
    /// The message ends before its fields do.
    #[error("{wanted} bytes wanted where {left} are left")]
    Truncated {
        /// Bytes the field has.
        wanted: usize,
        /// Bytes there are.
        left: usize,
    },
    /// The count does not go with the data.
    #[error("count {count} does not go with {len} bytes of data")]
    Count {
        /// The count told.
        count: u64,
        /// The bytes that came.
        len: usize,
    },
    /// Nobody defined this command.
    #[error("unknown command {0}")]
    Command(u16),
    /// A capability chain that does not advance or leads outside.
    #[error("capability chain leads to offset {0}")]
    Chain(u32),
    /// The version's text is not what the protocol defines.
    #[error("version text: {0}")]
    Version(&'static str),
    /// More file descriptors than [`MAX_FDS`], or some where none belong.
    #[error("file descriptors that do not belong")]
    Fds,
    /// A byte out of band (`MSG_OOB`), of which no message of a stream consists.
    #[error("a byte out of band")]
    OutOfBand,
}

impl Malformed {
    /// What to answer to it.
    pub fn errno(self) -> Errno {
        match self {
            Malformed::Command(_) => Errno::OPNOTSUPP,
            Malformed::Size(_) => Errno::MSGSIZE,
            _ => Errno::INVAL,
        }
    }
}

/// Takes fields off the front of a slice.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn bytes(&mut self, wanted: usize) -> Result<&'a [u8], Malformed> {
        let left = self.0.len();
        let (front, rest) = self.0.split_at_checked(wanted).ok_or(Malformed::Truncated { wanted, left })?;
        self.0 = rest;
        Ok(front)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let mut array = [0; N];
        array.copy_from_slice(self.bytes(N)?);
        Ok(array)
    }

    fn u16(&mut self) -> Result<u16, Malformed> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    fn u32(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// All that is left, which must be `count` bytes.
    fn exactly(&mut self, count: u64) -> Result<&'a [u8], Malformed> {
        let len = self.0.len();
        match count == len as u64 {
            true => self.bytes(len),
            false => Err(Malformed::Count { count, len }),
        }
    }
}

/// What every message begins with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Chosen by the sender of a command, repeated in the reply.
    pub id: u16,
    /// A [`Command`]'s number, or anything.
    pub command: u16,
    /// Bytes of the whole message, within `HEADER..=MAX_MESSAGE`.
    pub size: u32,
    /// Type and bits, see [`flags`].
    pub flags: u32,
    /// In an error reply, why.
    pub errno: u32,
}

impl Header {
    /// Bytes that follow the header.
    pub fn body_len(&self) -> usize {
        (self.size as usize).saturating_sub(HEADER)
    }

    /// Whether this is a reply and no command.
    pub fn is_reply(&self) -> bool {
        self.flags & flags::TYPE_MASK == flags::REPLY
    }

    /// Whether the sender waits for a reply.
    pub fn wants_reply(&self) -> bool {
        self.flags & flags::NO_REPLY == 0
    }

    /// The error a reply tells. Some servers set the flag and leave the number
    /// at 0, or send one that no system knows: these are `EIO`.
    pub fn error(&self) -> Option<Errno> {
        let known = (1..4096).contains(&self.errno);
        let errno = if known { Errno::from_raw_os_error(self.errno as i32) } else { Errno::IO };
        (self.flags & flags::ERROR != 0).then_some(errno)
    }
}

/// Decodes a header and checks its size.
pub fn decode_header(bytes: &[u8]) -> Result<Header, Malformed> {
    let mut fields = Fields(bytes);
    let header = Header {
        id: fields.u16()?,
        command: fields.u16()?,
        size: fields.u32()?,
        flags: fields.u32()?,
        errno: fields.u32()?,
    };
    match (HEADER..=MAX_MESSAGE).contains(&(header.size as usize)) {
        true => Ok(header),
        false => Err(Malformed::Size(header.size)),
    }
}

/// Where in which region, and how many bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Offset of the first byte in the region.
    pub offset: u64,
    /// Index of the region.
    pub region: u32,
    /// Length in bytes.
    pub count: u32,
}

fn access(fields: &mut Fields<'_>) -> Result<Access, Malformed> {
    Ok(Access { offset: fields.u64()?, region: fields.u32()?, count: fields.u32()? })
}

/// The body of a command, either direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// Major, minor, and the capabilities as text.
    Version(Version),
    /// Memory `iova..iova + len` begins at `offset` of the file that comes along.
    DmaMap {
        /// What a device may do: [`flags::DMA_READ`], [`flags::DMA_WRITE`].
        flags: u32,
        /// Offset in the file.
        offset: u64,
        /// Where the device sees it.
        iova: u64,
        /// Length in bytes.
        len: u64,
    },
    /// Takes `iova..iova + len` back.
    DmaUnmap {
        /// Zero or [`flags::DMA_UNMAP_ALL`].
        flags: u32,
        /// Where the device saw it.
        iova: u64,
        /// Length in bytes.
        len: u64,
    },
    /// Asks for [`DeviceInfo`].
    DeviceInfo,
    /// Asks for a [`Region`] in at most `argsz` bytes.
    RegionInfo {
        /// Room the asker has.
        argsz: u32,
        /// Index of the region.
        index: u32,
    },
    /// Asks for file descriptors that stand for registers.
    RegionIoFds,
    /// Asks for an [`IrqInfo`].
    IrqInfo {
        /// Kind of interrupt, as in `linux/vfio.h`.
        index: u32,
    },
    /// Wires interrupts `start..start + count`.
    SetIrqs(SetIrqs),
    /// Reads a region.
    RegionRead(Access),
    /// Writes a region.
    RegionWrite(Access, &'a [u8]),
    /// Writes of up to 8 bytes each.
    RegionWriteMulti(Writes<'a>),
    /// Reads the client's memory.
    DmaRead {
        /// Address of the first byte.
        iova: u64,
        /// Length in bytes.
        count: u64,
    },
    /// Writes the client's memory.
    DmaWrite {
        /// Address of the first byte.
        iova: u64,
        /// The bytes to write.
        data: &'a [u8],
    },
    /// Resets the device.
    Reset,
}

/// `struct vfio_irq_set` without its data, which here are file descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetIrqs {
    /// `VFIO_IRQ_SET_DATA_*` and `VFIO_IRQ_SET_ACTION_*`.
    pub flags: u32,
    /// Kind of interrupt.
    pub index: u32,
    /// First of them.
    pub start: u32,
    /// How many interrupts are meant.
    pub count: u32,
}

/// Writes of a `REGION_WRITE_MULTI`, 24 bytes each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Writes<'a>(&'a [u8]);

impl<'a> Writes<'a> {
    const ENTRY: usize = 24;

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len() / Self::ENTRY
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Each write and its data.
    pub fn iter(&self) -> impl Iterator<Item = Result<(Access, &'a [u8]), Malformed>> + use<'a> {
        self.0.chunks_exact(Self::ENTRY).map(|entry| {
            let mut fields = Fields(entry);
            let access = access(&mut fields)?;
            Ok((access, fields.bytes(access.count as usize)?))
        })
    }
}

/// Decodes the body of a command.
pub fn decode_request(command: u16, body: &[u8]) -> Result<Request<'_>, Malformed> {
    let fields = &mut Fields(body);
    Ok(match Command::from_number(command).ok_or(Malformed::Command(command))? {
        Command::Version => Request::Version(decode_version(body)?),
        Command::DmaMap => {
            let _argsz = fields.u32()?;
            let flags = fields.u32()?;
            Request::DmaMap { flags, offset: fields.u64()?, iova: fields.u64()?, len: fields.u64()? }
        }
        Command::DmaUnmap => {
            let _argsz = fields.u32()?;
            Request::DmaUnmap { flags: fields.u32()?, iova: fields.u64()?, len: fields.u64()? }
        }
        Command::DeviceInfo => Request::DeviceInfo,
        Command::RegionInfo => {
            let (argsz, _flags) = (fields.u32()?, fields.u32()?);
            Request::RegionInfo { argsz, index: fields.u32()? }
        }
        Command::RegionIoFds => Request::RegionIoFds,
        Command::IrqInfo => {
            let _argsz_and_flags = fields.u64()?;
            Request::IrqInfo { index: fields.u32()? }
        }
        Command::SetIrqs => {
            let _argsz = fields.u32()?;
            let (flags, index) = (fields.u32()?, fields.u32()?);
            Request::SetIrqs(SetIrqs { flags, index, start: fields.u32()?, count: fields.u32()? })
        }
        Command::RegionRead => Request::RegionRead(access(fields)?),
        Command::RegionWrite => {
            let access = access(fields)?;
            Request::RegionWrite(access, fields.exactly(access.count.into())?)
        }
        Command::RegionWriteMulti => {
            let count = fields.u64()?;
            let data = fields.exactly(count.saturating_mul(Writes::ENTRY as u64))?;
            Request::RegionWriteMulti(Writes(data))
        }
        Command::DmaRead => Request::DmaRead { iova: fields.u64()?, count: fields.u64()? },
        Command::DmaWrite => {
            let (iova, count) = (fields.u64()?, fields.u64()?);
            Request::DmaWrite { iova, data: fields.exactly(count)? }
        }
        Command::Reset => Request::Reset,
    })
}
