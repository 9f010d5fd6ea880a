//! One client's conversation, without its socket: a message in, a reply out.
//! Every index, length and flag is the client's word and is checked before the
//! device hears of it; what is refused is answered with the errno that the
//! kernel's VFIO would give.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::fstat;
use rustix::io::Errno;
use vfio_bindings::bindings::vfio::{
    VFIO_DEVICE_FLAGS_PCI, VFIO_DEVICE_FLAGS_RESET, VFIO_IRQ_INFO_EVENTFD, VFIO_IRQ_SET_ACTION_TRIGGER,
    VFIO_IRQ_SET_ACTION_TYPE_MASK, VFIO_IRQ_SET_DATA_EVENTFD, VFIO_IRQ_SET_DATA_NONE,
    VFIO_IRQ_SET_DATA_TYPE_MASK, VFIO_PCI_CONFIG_REGION_INDEX, VFIO_PCI_MSIX_IRQ_INDEX, VFIO_PCI_NUM_IRQS,
    VFIO_PCI_NUM_REGIONS, VFIO_REGION_INFO_FLAG_CAPS, VFIO_REGION_INFO_FLAG_MMAP, VFIO_REGION_INFO_FLAG_READ,
    VFIO_REGION_INFO_FLAG_WRITE,
};

use super::message::{
    self, Access, Encoder, Header, MAX_TRANSFER, Region, Request, SetIrqs, decode_request, flags,
};
use super::served::{DmaAccess, RegionInfo, Served};
use crate::peer::Descriptor;

/// Bytes of a PCI Express function's configuration space.
const CONFIG_SIZE: u64 = 4096;
const CONFIG: u32 = VFIO_PCI_CONFIG_REGION_INDEX;
const MSIX: u32 = VFIO_PCI_MSIX_IRQ_INDEX;
const PAGE: u64 = 4096;
/// Most ranges a client may offer; what the kernel's VFIO allows by default.
const MAX_RANGES: usize = 65535;

type Answer = Result<Encoder, Errno>;

/// A device and what one client did to it.
pub(crate) struct Session<'d> {
    device: &'d mut dyn Served,
    regions: Vec<RegionInfo>,
    /// Length of each offered range, by its start.
    ranges: BTreeMap<u64, u64>,
    negotiated: bool,
}

impl<'d> Session<'d> {
    pub(crate) fn new(device: &'d mut dyn Served) -> Session<'d> {
        let regions = device.regions();
        Session { device, regions, ranges: BTreeMap::new(), negotiated: false }
    }

    /// Obeys a command. The reply, unless none is wanted, and the file
    /// descriptor that goes with it.
    pub(crate) fn answer(
        &mut self,
        header: &Header,
        body: &[u8],
        fds: Result<Vec<Descriptor>, Errno>,
    ) -> Option<(Vec<u8>, Option<BorrowedFd<'_>>)> {
        let request = decode_request(header.command, body).map_err(message::Malformed::errno);
        let shares = match request {
            Ok(Request::RegionInfo { argsz, index }) => Some((argsz, index)),
            _ => None,
        };
        let outcome = request.and_then(|request| self.obey(Encoder::reply(header), request, fds?));
        if let Err(errno) = &outcome {
            tracing::debug!("vfio-user command {} refused: {errno}", header.command);
        }
        let refused = outcome.is_err();
        let reply = outcome.map_or_else(|errno| Encoder::error(header, errno), Encoder::finish);
        let file = shares.filter(|_| !refused).and_then(|(argsz, index)| self.file(argsz, index));
        header.wants_reply().then_some((reply, file))
    }

    fn obey(&mut self, reply: Encoder, request: Request<'_>, fds: Vec<Descriptor>) -> Answer {
        let takes_fds = matches!(request, Request::DmaMap { .. } | Request::SetIrqs(_));
        let first = matches!(request, Request::Version(_));
        // The version comes first, and once.
        if (!takes_fds && !fds.is_empty()) || first == self.negotiated {
            return Err(Errno::INVAL);
        }
        match request {
            Request::Version(version) => self.version(reply, version),
            Request::DmaMap { flags, offset, iova, len } => {
                self.map(flags, offset, iova, len, fds)?;
                Ok(reply)
            }
            Request::DmaUnmap { flags, iova, len } => {
                self.unmap(flags, iova, len)?;
                Ok(reply.u32(24).u32(flags).u64(iova).u64(len))
            }
            Request::DeviceInfo => {
                let flags = VFIO_DEVICE_FLAGS_PCI | VFIO_DEVICE_FLAGS_RESET;
                Ok(reply.u32(16).u32(flags).u32(VFIO_PCI_NUM_REGIONS).u32(VFIO_PCI_NUM_IRQS))
            }
            Request::RegionInfo { argsz, index } => Ok(reply.region(&self.describe(index)?, argsz)),
            Request::IrqInfo { index } => self.irq_info(reply, index),
            Request::SetIrqs(set) => {
                self.set_irqs(set, fds)?;
                Ok(reply)
            }
            Request::RegionRead(access) => self.read(reply, access),
            Request::RegionWrite(access, data) => {
                self.write(access, data)?;
                Ok(reply.access(access))
            }
            Request::RegionWriteMulti(writes) => {
                for write in writes.iter() {
                    let (access, data) = write.map_err(message::Malformed::errno)?;
                    self.write(access, data)?;
                }
                Ok(reply.u64(writes.len() as u64))
            }
            Request::Reset => {
                self.device.reset();
                Ok(reply)
            }
            Request::RegionIoFds | Request::DmaRead { .. } | Request::DmaWrite { .. } => {
                Err(Errno::OPNOTSUPP)
            }
        }
    }

    fn version(&mut self, reply: Encoder, version: message::Version) -> Answer {
        let (major, minor) = message::VERSION;
        if version.major != major {
            return Err(Errno::INVAL);
        }
        self.negotiated = true;
        Ok(reply.u16(major).u16(minor.min(version.minor)).bytes(&message::capabilities()))
    }

    /// Whether the client took away memory that it offered.
    pub(crate) fn is_memory_lost(&self) -> bool {
        self.device.is_memory_lost()
    }

    /// Whether a client attached properly.
    pub(crate) fn negotiated(&self) -> bool {
        self.negotiated
    }

    fn bar(&self, index: u32) -> Option<&RegionInfo> {
        self.regions.iter().find(|region| region.bar as u32 == index && index < 6)
    }

    /// The file that goes with a region's description, if the asker had room
    /// for the part that tells what of it may be mapped.
    fn file(&self, argsz: u32, index: u32) -> Option<BorrowedFd<'_>> {
        let shared = self.bar(index)?.shared.as_ref()?;
        let needed = message::REGION_INFO + 16 + 16 * shared.areas.len();
        (argsz as usize >= needed).then(|| shared.fd.as_fd())
    }

    fn describe(&self, index: u32) -> Result<Region, Errno> {
        let mut region = Region { argsz: 0, flags: 0, index, size: 0, offset: 0, areas: None };
        let access = VFIO_REGION_INFO_FLAG_READ | VFIO_REGION_INFO_FLAG_WRITE;
        if index >= VFIO_PCI_NUM_REGIONS {
            return Err(Errno::INVAL);
        } else if index == CONFIG {
            (region.flags, region.size) = (access, CONFIG_SIZE);
        } else if let Some(bar) = self.bar(index) {
            (region.flags, region.size) = (access, bar.size);
            if let Some(shared) = &bar.shared {
                region.flags |= VFIO_REGION_INFO_FLAG_MMAP | VFIO_REGION_INFO_FLAG_CAPS;
                region.offset = shared.fd_offset;
                region.areas = Some(shared.areas.clone());
            }
        }
        Ok(region)
    }

    fn check(&self, access: Access) -> Result<(), Errno> {
        let size = match access.region {
            CONFIG => CONFIG_SIZE,
            // Not even an access of no bytes goes to a BAR that is not there.
            index => self.bar(index).ok_or(Errno::INVAL)?.size,
        };
        let end = access.offset.checked_add(access.count.into());
        let inside = end.is_some_and(|end| end <= size);
        if inside && access.count as usize <= MAX_TRANSFER { Ok(()) } else { Err(Errno::INVAL) }
    }

    fn read(&mut self, reply: Encoder, access: Access) -> Answer {
        self.check(access)?;
        let mut data = vec![0; access.count as usize];
        match access.region {
            CONFIG => self.device.read_config(access.offset as u16, &mut data),
            index => self.device.read_bar(index as usize, access.offset, &mut data),
        }
        Ok(reply.access(access).bytes(&data))
    }

    fn write(&mut self, access: Access, data: &[u8]) -> Result<(), Errno> {
        self.check(access)?;
        match access.region {
            CONFIG => self.device.write_config(access.offset as u16, data),
            index => self.device.write_bar(index as usize, access.offset, data),
        }
        Ok(())
    }

    fn irq_info(&self, reply: Encoder, index: u32) -> Answer {
        let count = match index {
            MSIX => self.device.interrupt_vectors().into(),
            VFIO_PCI_NUM_IRQS.. => return Err(Errno::INVAL),
            _ => 0,
        };
        let flags = if count == 0 { 0 } else { VFIO_IRQ_INFO_EVENTFD };
        Ok(reply.u32(16).u32(flags).u32(index).u32(count))
    }

    fn set_irqs(&mut self, set: SetIrqs, fds: Vec<Descriptor>) -> Result<(), Errno> {
        let vectors = match set.index {
            MSIX => u32::from(self.device.interrupt_vectors()),
            VFIO_PCI_NUM_IRQS.. => return Err(Errno::INVAL),
            _ => 0,
        };
        let end = set.start.checked_add(set.count).filter(|&end| end <= vectors).ok_or(Errno::INVAL)?;
        let fds: Vec<_> = fds.into_iter().map(Descriptor::into_eventfd).collect::<Result<_, _>>()?;
        let data = set.flags & VFIO_IRQ_SET_DATA_TYPE_MASK;
        if set.flags & VFIO_IRQ_SET_ACTION_TYPE_MASK != VFIO_IRQ_SET_ACTION_TRIGGER {
            return Err(Errno::OPNOTSUPP); // masking is in the MSI-X table
        }
        match (data, set.count) {
            (VFIO_IRQ_SET_DATA_NONE, 0) if fds.is_empty() => self.wire(0..vectors, Vec::new()),
            (VFIO_IRQ_SET_DATA_EVENTFD, 1..) if fds.is_empty() || fds.len() == set.count as usize => {
                self.wire(set.start..end, fds);
            }
            (VFIO_IRQ_SET_DATA_NONE, 1..) => return Err(Errno::OPNOTSUPP), // raising is the device's
            _ => return Err(Errno::INVAL),
        }
        Ok(())
    }

    /// Wires each of `vectors` to the next of `fds`, or unwires it.
    fn wire(&mut self, vectors: std::ops::Range<u32>, fds: Vec<OwnedFd>) {
        let mut fds = fds.into_iter();
        for vector in vectors {
            self.device.set_interrupt(vector as u16, fds.next());
        }
    }

    fn map(
        &mut self,
        access: u32,
        offset: u64,
        iova: u64,
        len: u64,
        mut fds: Vec<Descriptor>,
    ) -> Result<(), Errno> {
        let end = iova.checked_add(len).ok_or(Errno::INVAL)?;
        if len == 0 || !(iova | len | offset).is_multiple_of(PAGE) || fds.len() > 1 {
            return Err(Errno::INVAL);
        }
        let before = self.ranges.range(..end).next_back();
        if before.is_some_and(|(start, len)| start + len > iova) {
            return Err(Errno::EXIST);
        }
        if self.ranges.len() == MAX_RANGES {
            return Err(Errno::NOSPC);
        }
        let file = fds.pop().map(Descriptor::into_memory).transpose().map_err(|_| Errno::INVAL)?;
        if let Some(file) = &file {
            check_file(file, offset, len)?;
        }
        let (read, write) = (access & flags::DMA_READ != 0, access & flags::DMA_WRITE != 0);
        self.device.map_dma(iova, len, file, offset, DmaAccess { read, write }).map_err(errno)?;
        self.ranges.insert(iova, len);
        Ok(())
    }

    fn unmap(&mut self, how: u32, iova: u64, len: u64) -> Result<(), Errno> {
        let inside: Vec<(u64, u64)> = match how {
            flags::DMA_UNMAP_ALL if iova == 0 && len == 0 => {
                self.ranges.iter().map(|(&iova, &len)| (iova, len)).collect()
            }
            0 => {
                // The last byte, as a range may end with the address space: QEMU with an
                // IOMMU takes back all above the interrupt window, 0xFEF0_0000 to 2^64.
                let last = len.checked_sub(1).and_then(|more| iova.checked_add(more)).ok_or(Errno::INVAL)?;
                if !(iova | len).is_multiple_of(PAGE) {
                    return Err(Errno::INVAL);
                }
                let overlapping =
                    self.ranges.range(..=last).rev().take_while(|(start, len)| *start + *len > iova);
                let overlapping: Vec<(u64, u64)> = overlapping.map(|(&start, &len)| (start, len)).collect();
                // A range goes whole or not at all, and none is none, as in VFIO's type 1 v2.
                // The specification wants exactly what was mapped; QEMU with an IOMMU takes
                // back whole regions, mapped or not.
                if overlapping.iter().any(|&(start, len)| start < iova || start + (len - 1) > last) {
                    return Err(Errno::INVAL);
                }
                overlapping
            }
            _ => return Err(Errno::OPNOTSUPP),
        };
        for (iova, len) in inside {
            self.device.unmap_dma(iova, len).map_err(errno)?;
            self.ranges.remove(&iova);
        }
        Ok(())
    }
}

/// The memory must lie within the file.
fn check_file(file: &OwnedFd, offset: u64, len: u64) -> Result<(), Errno> {
    let size = fstat(file)?.st_size as u64;
    let end = offset.checked_add(len).ok_or(Errno::INVAL)?;
    if end <= size { Ok(()) } else { Err(Errno::INVAL) }
}

fn errno(error: io::Error) -> Errno {
    let named = match error.kind() {
        io::ErrorKind::PermissionDenied => Errno::PERM, // a file that is not sealed
        _ => Errno::IO,
    };
    Errno::from_io_error(&error).unwrap_or(named)
}

#[cfg(test)]
mod tests {
    use super::super::message::{Command, HEADER, decode_header};
    use super::*;

    /// Takes note of what it is offered.
    #[derive(Default)]
    struct Memory(Vec<(u64, u64)>);

    impl Served for Memory {
        fn regions(&self) -> Vec<RegionInfo> {
            Vec::new()
        }
        fn read_config(&mut self, _offset: u16, _data: &mut [u8]) {}
        fn write_config(&mut self, _offset: u16, _data: &[u8]) {}
        fn read_bar(&mut self, _bar: usize, _offset: u64, _data: &mut [u8]) {}
        fn write_bar(&mut self, _bar: usize, _offset: u64, _data: &[u8]) {}
        fn map_dma(
            &mut self,
            iova: u64,
            len: u64,
            _file: Option<OwnedFd>,
            _offset: u64,
            _access: DmaAccess,
        ) -> io::Result<()> {
            self.0.push((iova, len));
            Ok(())
        }
        fn unmap_dma(&mut self, iova: u64, len: u64) -> io::Result<()> {
            self.0.retain(|range| *range != (iova, len));
            Ok(())
        }
        fn interrupt_vectors(&self) -> u16 {
            0
        }
        fn set_interrupt(&mut self, _vector: u16, _event: Option<OwnedFd>) {}
        fn reset(&mut self) {}
        fn disconnected(&mut self) {}
    }

    /// The errno of the answer, 0 for none.
    fn errno_of(session: &mut Session<'_>, message: Encoder) -> i32 {
        let bytes = message.finish();
        let header = decode_header(&bytes).expect("a header");
        let (reply, _) = session.answer(&header, &bytes[HEADER..], Ok(Vec::new())).expect("a reply");
        decode_header(&reply).expect("a header").error().map_or(0, |errno| errno.raw_os_error())
    }

    fn map(iova: u64, len: u64) -> Encoder {
        Encoder::request(1, Command::DmaMap, 0).u32(32).u32(3).u64(0).u64(iova).u64(len)
    }

    fn unmap(iova: u64, len: u64) -> Encoder {
        Encoder::request(2, Command::DmaUnmap, 0).u32(24).u32(0).u64(iova).u64(len)
    }

    /// What QEMU 11 sends with `intel-iommu` for a device that a guest's VFIO had: pages
    /// by the guest's tables, then, when translation ends, the two regions around the
    /// interrupt window whole, and the guest's memory as it lies there.
    #[test]
    fn an_iommu_that_is_turned_off_takes_back_all_around_the_interrupt_window() {
        const WINDOW: (u64, u64) = (0xFEE0_0000, 0xFEF0_0000);
        let mut memory = Memory::default();
        let mut session = Session::new(&mut memory);
        let first = Encoder::request(0, Command::Version, 0).u16(0).u16(1);
        assert_eq!(errno_of(&mut session, first), 0);
        for iova in [0x1000, 0xFEDF_F000, 0xFEF0_0000, 0x1_0000_0000, 0x7F_FFFF_F000] {
            assert_eq!(errno_of(&mut session, map(iova, 0x1000)), 0, "{iova:#x}");
        }
        assert_eq!(errno_of(&mut session, unmap(WINDOW.1, WINDOW.1.wrapping_neg())), 0, "up to 2^64");
        assert_eq!(errno_of(&mut session, unmap(0, WINDOW.0)), 0);
        assert_eq!(errno_of(&mut session, map(0, 0x8000_0000)), 0, "nothing is left in its way");
        drop(session);
        assert_eq!(memory.0, [(0, 0x8000_0000)]);
    }

    #[test]
    fn what_wraps_or_is_empty_or_off_the_page_is_refused() {
        let mut memory = Memory::default();
        let mut session = Session::new(&mut memory);
        let first = Encoder::request(0, Command::Version, 0).u16(0).u16(1);
        assert_eq!(errno_of(&mut session, first), 0);
        let last = u64::MAX - 0xFFF;
        for (iova, len) in [(last, 0x2000), (0x1000, 0), (0x1800, 0x1000), (0x1000, 0x800), (0, u64::MAX)] {
            let errno = errno_of(&mut session, unmap(iova, len));
            assert_eq!(errno, Errno::INVAL.raw_os_error(), "{iova:#x} {len:#x}");
        }
        assert_eq!(errno_of(&mut session, unmap(last, 0x1000)), 0, "the last page there is");
    }
}
