//! The bodies of replies, and the capability chains that `linux/vfio.h` hangs
//! behind its structures.

use vfio_bindings::bindings::vfio::{VFIO_REGION_INFO_CAP_SPARSE_MMAP, VFIO_REGION_INFO_FLAG_CAPS};

use super::{Fields, MAX_FDS, MAX_TRANSFER, Malformed, access};

/// What both ends tell each other first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    /// Major number: 0.
    pub major: u16,
    /// Minor number of the protocol's version.
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
    /// What the device is and can: bits `VFIO_DEVICE_FLAGS_*`.
    pub flags: u32,
    /// Number of regions.
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
    /// What the region allows: bits `VFIO_REGION_INFO_FLAG_*`.
    pub flags: u32,
    /// Index of the region.
    pub index: u32,
    /// Length of the region in bytes.
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
    /// What the interrupts allow: bits `VFIO_IRQ_INFO_*`.
    pub flags: u32,
    /// Kind of interrupt.
    pub index: u32,
    /// How many interrupts of this kind there are.
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
