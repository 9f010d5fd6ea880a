//! The messages of vfio-user 0.1, both directions, over byte slices: a header
//! of 16 bytes and a body that mostly repeats `linux/vfio.h`. Facts from the
//! vfio-user specification and libvfio-user's `vfio-user.h`.
//!
//! No I/O. Nothing here trusts a length, a count or an offset: whatever the
//! bytes, decoding ends in a value or in [`Malformed`]. Integers are in the
//! host's byte order on the wire; only little-endian hosts are supported.
//! Migration and device features are not decoded.

use rustix::io::Errno;
use vfio_bindings::bindings::vfio::{VFIO_REGION_INFO_CAP_SPARSE_MMAP, VFIO_REGION_INFO_FLAG_CAPS};

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
    /// Wires interrupts.
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
    /// First byte.
    pub offset: u64,
    /// Index of the region.
    pub region: u32,
    /// Bytes.
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
        /// [`flags::DMA_READ`], [`flags::DMA_WRITE`].
        flags: u32,
        /// Offset in the file.
        offset: u64,
        /// Where the device sees it.
        iova: u64,
        /// Bytes.
        len: u64,
    },
    /// Takes `iova..iova + len` back.
    DmaUnmap {
        /// [`flags::DMA_UNMAP_ALL`].
        flags: u32,
        /// Where the device saw it.
        iova: u64,
        /// Bytes.
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
    /// Reads memory.
    DmaRead {
        /// First byte.
        iova: u64,
        /// Bytes.
        count: u64,
    },
    /// Writes memory.
    DmaWrite {
        /// First byte.
        iova: u64,
        /// The bytes.
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
    /// How many.
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

/// What both ends tell each other first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    /// Major number: 0.
    pub major: u16,
    /// Minor number.
    pub minor: u16,
    /// Most file descriptors with one message.
    pub max_fds: usize,
    /// Most bytes of data in one message.
    pub max_transfer: usize,
}

/// Decodes the body of `VERSION` and of its reply. What the text leaves out
/// has the specification's default.
pub fn decode_version(body: &[u8]) -> Result<Version, Malformed> {
    let mut fields = Fields(body);
    let (major, minor) = (fields.u16()?, fields.u16()?);
    let mut version = Version { major, minor, max_fds: 1, max_transfer: MAX_TRANSFER };
    let text = fields.0.split(|&byte| byte == 0).next().unwrap_or_default();
    if text.is_empty() {
        return Ok(version);
    }
    let json: serde_json::Value = serde_json::from_slice(text).map_err(|_| Malformed::Version("no JSON"))?;
    let capability = |name: &str| match json.get("capabilities").and_then(|all| all.get(name)) {
        None => Ok(None),
        Some(value) => value.as_u64().map(Some).ok_or(Malformed::Version("a limit that is no number")),
    };
    if let Some(fds) = capability("max_msg_fds")? {
        version.max_fds = usize::try_from(fds).unwrap_or(usize::MAX);
    }
    match capability("max_data_xfer_size")? {
        Some(0..8) => return Err(Malformed::Version("a max_data_xfer_size below 8")),
        Some(bytes) => version.max_transfer = usize::try_from(bytes).unwrap_or(usize::MAX).min(MAX_TRANSFER),
        None => {}
    }
    Ok(version)
}

/// Our capabilities, as text with the zero byte at its end.
pub fn capabilities() -> Vec<u8> {
    let text = format!(
        "{{\"capabilities\":{{\"max_msg_fds\":{MAX_FDS},\"max_data_xfer_size\":{MAX_TRANSFER},\
         \"pgsizes\":4096,\"max_dma_maps\":65535,\"write_multiple\":true}}}}\0"
    );
    text.into_bytes()
}

/// The reply to `DEVICE_GET_INFO`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// `VFIO_DEVICE_FLAGS_*`.
    pub flags: u32,
    /// Regions.
    pub regions: u32,
    /// Kinds of interrupts.
    pub irqs: u32,
}

/// Decodes the reply to `DEVICE_GET_INFO`.
pub fn decode_device_info(body: &[u8]) -> Result<DeviceInfo, Malformed> {
    let mut fields = Fields(body);
    let (_argsz, flags) = (fields.u32()?, fields.u32()?);
    Ok(DeviceInfo { flags, regions: fields.u32()?, irqs: fields.u32()? })
}

/// The reply to `DEVICE_GET_REGION_INFO`, and the ioctl's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// Bytes the whole answer needs.
    pub argsz: u32,
    /// `VFIO_REGION_INFO_FLAG_*`.
    pub flags: u32,
    /// Index of the region.
    pub index: u32,
    /// Bytes.
    pub size: u64,
    /// Where the region begins in its file.
    pub offset: u64,
    /// The parts that may be mapped, if the answer tells parts: offset and length.
    pub areas: Option<Vec<(u64, u64)>>,
}

/// Bytes of `struct vfio_region_info` without capabilities.
pub const REGION_INFO: usize = 32;

/// Decodes `struct vfio_region_info` and its sparse-mmap capability.
pub fn decode_region(body: &[u8]) -> Result<Region, Malformed> {
    let mut fields = Fields(body);
    let (argsz, flags, index) = (fields.u32()?, fields.u32()?, fields.u32()?);
    let first = fields.u32()?;
    let (size, offset) = (fields.u64()?, fields.u64()?);
    let mut region = Region { argsz, flags, index, size, offset, areas: None };
    // An answer cut to the asker's room tells a capability that is not there.
    if flags & VFIO_REGION_INFO_FLAG_CAPS != 0 && argsz as usize <= body.len() {
        for capability in Capabilities::new(body, first, REGION_INFO as u32) {
            let (id, data) = capability?;
            if u32::from(id) == VFIO_REGION_INFO_CAP_SPARSE_MMAP {
                region.areas = Some(sparse_areas(data)?);
            }
        }
    }
    Ok(region)
}

fn sparse_areas(data: &[u8]) -> Result<Vec<(u64, u64)>, Malformed> {
    let mut fields = Fields(data);
    let (count, _reserved) = (fields.u32()?, fields.u32()?);
    // Bounded by the bytes there are, not by the count told.
    (0..count).map(|_| Ok((fields.u64()?, fields.u64()?))).collect()
}

/// The capability chain behind a VFIO structure: id and the bytes after each
/// capability's header, in the order of the chain, which must run upwards.
pub(crate) struct Capabilities<'a> {
    body: &'a [u8],
    next: u32,
    least: u32,
}

impl<'a> Capabilities<'a> {
    /// `body` is the whole structure, its chain starts at offset `first`,
    /// which may not lie before `least`.
    pub(crate) fn new(body: &'a [u8], first: u32, least: u32) -> Self {
        Capabilities { body, next: first, least }
    }

    fn take(&mut self, at: u32) -> Result<(u16, &'a [u8]), Malformed> {
        let data = self.body.get(at as usize..).filter(|_| at >= self.least);
        let mut fields = Fields(data.ok_or(Malformed::Chain(at))?);
        let (id, _version) = (fields.u16()?, fields.u16()?);
        self.next = fields.u32()?;
        self.least = at + 8;
        Ok((id, fields.0))
    }
}

impl<'a> Iterator for Capabilities<'a> {
    type Item = Result<(u16, &'a [u8]), Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        let at = std::mem::take(&mut self.next);
        (at != 0).then(|| self.take(at)) // after an error, `next` is 0: the end
    }
}

/// The reply to `DEVICE_GET_IRQ_INFO`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IrqInfo {
    /// `VFIO_IRQ_INFO_*`.
    pub flags: u32,
    /// Kind of interrupt.
    pub index: u32,
    /// How many.
    pub count: u32,
}

/// Decodes the reply to `DEVICE_GET_IRQ_INFO`.
pub fn decode_irq_info(body: &[u8]) -> Result<IrqInfo, Malformed> {
    let mut fields = Fields(body);
    let (_argsz, flags) = (fields.u32()?, fields.u32()?);
    Ok(IrqInfo { flags, index: fields.u32()?, count: fields.u32()? })
}

/// Decodes the reply to `REGION_READ`: the data.
pub fn decode_read(body: &[u8]) -> Result<&[u8], Malformed> {
    let mut fields = Fields(body);
    let access = access(&mut fields)?;
    fields.exactly(access.count.into())
}

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

    /// Appends bytes.
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
