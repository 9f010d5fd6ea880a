//! The driver's end of vfio-user 0.1: a [`Backend`] over a unix socket.
//!
//! Registers in pages that the server shares are mapped; others are a message
//! each, writes without waiting for an answer. The socket keeps their order,
//! so a later read sees them. Any fault of the peer (silence, garbage, hanging
//! up) ends the connection for good: [`Backend::health`] tells the first.
//!
//! A server that shrinks the file behind its mapped pages, or behind memory that it was
//! given, would end us with SIGBUS: a file that cannot be sealed against that is refused
//! unless the server is trusted ([`Trust`]), and then the fault ends the connection.

mod request;

use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::fstat;
use rustix::io::Errno;
use vfio_bindings::bindings::vfio::{
    VFIO_DEVICE_FLAGS_PCI, VFIO_DEVICE_FLAGS_RESET, VFIO_IRQ_SET_ACTION_TRIGGER, VFIO_IRQ_SET_DATA_EVENTFD,
    VFIO_PCI_CONFIG_REGION_INDEX, VFIO_PCI_MSIX_IRQ_INDEX, VFIO_REGION_INFO_FLAG_MMAP,
};

use super::message::{self, Access, Command, Encoder, Region, flags};
use super::transport::dial;
use crate::peer::{self, Descriptor, Stream};
use crate::{Addressing, Backend, BarKind, BarLayout, BarMapping, DmaRange, Error, Mapping, Result, Trust};
use crate::{LONGEST_SOCKET_PATH, seal, sigbus};
use request::Link;

/// How long a request may take unless said otherwise.
pub const TIME_LIMIT: Duration = Duration::from_secs(5);
/// Most parts of one BAR that we map.
const MAX_AREAS: usize = 1024;
/// Room for a region's description in the first request.
const REGION_ROOM: u32 = 4096;
const CONFIG: u32 = VFIO_PCI_CONFIG_REGION_INDEX;
const PAGE: u64 = 4096;

/// A device served over vfio-user.
#[derive(Debug)]
pub struct Client {
    peer: String,
    stream: Stream,
    link: Mutex<Link>,
    bars: Vec<Option<ClientBar>>,
    vectors: u16,
    resettable: bool,
    limit: Duration,
    trust: Trust,
    /// [`sigbus::losses`] when nothing of ours was lost for the last time.
    losses: AtomicU64,
    /// Ends a wait early; only until we are connected, for the end of a driver
    /// needs its answers.
    stop: Option<Arc<AtomicBool>>,
    max_transfer: usize,
    fault: OnceLock<Error>,
}

#[derive(Debug)]
struct ClientBar {
    size: u64,
    kind: BarKind,
    mapped: Vec<BarMapping>,
}

impl Client {
    /// Connects to the server at `path`, until `stop` turns true.
    pub fn connect(path: &Path, trust: Trust, stop: &Arc<AtomicBool>) -> Result<Client> {
        Error::check_socket_path(path, LONGEST_SOCKET_PATH)?;
        let stream = dial(path, TIME_LIMIT, stop).map_err(|errno| {
            let shown = path.display().to_string();
            match errno {
                Errno::NOENT | Errno::CONNREFUSED => Error::Connect { path: shown, errno },
                _ => Error::os(format!("connecting to {shown}"), errno),
            }
        })?;
        let peer = format!("vfio-user:{}", path.display());
        Client::speak(stream, peer, TIME_LIMIT, trust, Some(stop.clone()))
    }

    /// Speaks to the server at the other end of `stream`, which is not trusted; `peer`
    /// names it and `limit` bounds each request.
    pub fn over(stream: UnixStream, peer: String, limit: Duration) -> Result<Client> {
        Client::speak(stream.into(), peer, limit, Trust::Hostile, None)
    }

    fn speak(
        stream: Stream,
        name: String,
        limit: Duration,
        trust: Trust,
        stop: Option<Arc<AtomicBool>>,
    ) -> Result<Client> {
        peer::expect();
        let mut client = Client {
            peer: name,
            stream,
            link: Mutex::default(),
            bars: Vec::new(),
            vectors: 0,
            resettable: false,
            limit,
            trust,
            losses: AtomicU64::new(sigbus::losses()),
            stop,
            max_transfer: message::MAX_TRANSFER,
            fault: OnceLock::new(),
        };
        client.negotiate()?;
        client.read_device_info()?;
        client.stop = None;
        Ok(client)
    }

    fn negotiate(&mut self) -> Result<()> {
        let (major, minor) = message::VERSION;
        let body = |encoder: Encoder| encoder.u16(major).u16(minor).bytes(&message::capabilities());
        let reply = self.ask(Command::Version, &[], body).map_err(|error| match error {
            Error::Refused { peer, errno: Errno::BUSY, .. } => Error::Setup {
                device: peer,
                what: "another client is attached".to_owned(),
                fix: "end that one first, or serve a second model on a socket of its own".to_owned(),
            },
            other => other,
        })?;
        let version = message::decode_version(&reply.body).map_err(|malformed| self.malformed(malformed))?;
        if version.major != major {
            return Err(
                self.broke(format!("it speaks version {}.{}, not {major}", version.major, version.minor))
            );
        }
        if version.max_fds == 0 {
            return Err(self.broke("it takes no file descriptors, so no memory can be shared".to_owned()));
        }
        self.max_transfer = version.max_transfer;
        Ok(())
    }

    /// Learns what the device is made of.
    fn read_device_info(&mut self) -> Result<()> {
        let reply = self.ask(Command::DeviceInfo, &[], |body| body.u32(16).u32(0).u32(0).u32(0))?;
        let info = message::decode_device_info(&reply.body).map_err(|malformed| self.malformed(malformed))?;
        if info.flags & VFIO_DEVICE_FLAGS_PCI == 0 {
            return Err(self.broke("its device is no PCI device".to_owned()));
        }
        self.resettable = info.flags & VFIO_DEVICE_FLAGS_RESET != 0;
        if info.irqs > VFIO_PCI_MSIX_IRQ_INDEX {
            let index = VFIO_PCI_MSIX_IRQ_INDEX;
            let reply = self.ask(Command::IrqInfo, &[], |body| body.u32(16).u32(0).u32(index).u32(0))?;
            let irqs =
                message::decode_irq_info(&reply.body).map_err(|malformed| self.malformed(malformed))?;
            self.vectors = irqs.count.min(2048) as u16; // what a table can hold
        }
        for index in 0..info.regions.min(6) {
            let bar = self.look_at_bar(index)?;
            self.bars.push(bar);
        }
        Ok(())
    }

    fn look_at_bar(&self, index: u32) -> Result<Option<ClientBar>> {
        let (mut region, mut file) = self.region(index, REGION_ROOM)?;
        if region.argsz > REGION_ROOM && region.argsz as usize <= message::MAX_TRANSFER {
            (region, file) = self.region(index, region.argsz)?;
        }
        if region.size == 0 {
            return Ok(None);
        }
        let mut register = [0; 4];
        self.read_config(0x10 + 4 * index as u16, &mut register)?;
        let kind = if register[0] & 1 != 0 { BarKind::Io } else { BarKind::Memory };
        let mut mapped = Vec::new();
        if let (Some(file), true) = (file, region.flags & VFIO_REGION_INFO_FLAG_MMAP != 0) {
            mapped = self.map_areas(&region, file)?;
        }
        Ok(Some(ClientBar { size: region.size, kind, mapped }))
    }

    fn region(&self, index: u32, room: u32) -> Result<(Region, Option<Descriptor>)> {
        let body = |body: Encoder| body.u32(room).u32(0).u32(index).u32(0).u64(0).u64(0);
        let mut reply = self.ask(Command::RegionInfo, &[], body)?;
        let region = message::decode_region(&reply.body).map_err(|malformed| self.malformed(malformed))?;
        if region.index != index {
            return Err(self.broke(format!("asked for region {index}, it described {}", region.index)));
        }
        Ok((region, reply.fds.pop()))
    }

    /// Maps the parts of a BAR that the server lets us map, none beyond the
    /// end of its file.
    fn map_areas(&self, region: &Region, file: Descriptor) -> Result<Vec<BarMapping>> {
        let whole = vec![(0, region.size)];
        let areas = region.areas.as_ref().unwrap_or(&whole);
        // Before the size is looked at, or it could change in between.
        let sealed = file.into_memory().and_then(|file| seal::seal(&file, self.trust).map(|()| file));
        let file = sealed.map_err(|unsealed| {
            self.fail(Error::Setup {
                device: self.peer.clone(),
                what: format!("the server could take away the register pages that it shares: {unsealed}"),
                fix: "have it share a memfd made with MFD_ALLOW_SEALING, or add ,allow-unsealed to the \
                      port's name"
                    .to_owned(),
            })
        })?;
        let end = fstat(&file).map_or(0, |stat| stat.st_size as u64);
        let mut mapped = Vec::new();
        for &(offset, len) in areas.iter().filter(|area| area.1 != 0) {
            let fits = offset.checked_add(len).is_some_and(|to| to <= region.size.min(u32::MAX.into()));
            let at = region
                .offset
                .checked_add(offset)
                .filter(|at| at.checked_add(len).is_some_and(|to| to <= end));
            let aligned = (offset | len | region.offset).is_multiple_of(PAGE);
            let (true, true, Some(at), true) = (fits, aligned, at, mapped.len() < MAX_AREAS) else {
                let index = region.index;
                return Err(self.broke(format!("region {index} has no {len:#x} bytes at {offset:#x} to map")));
            };
            mapped.push(BarMapping::new(Mapping::of_peer(&file, at, len as usize)?, offset as u32));
        }
        Ok(mapped)
    }

    fn bar(&self, index: usize) -> Result<&ClientBar> {
        let bar = self.bars.get(index).and_then(Option::as_ref);
        bar.ok_or_else(|| Error::NoBar { device: self.peer.clone(), index })
    }

    fn check(&self, index: usize, offset: u32, len: usize) -> Result<()> {
        let size = self.bar(index)?.size;
        let end = u64::from(offset) + len as u64;
        let (device, region) = (self.peer.clone(), format!("BAR {index} ({size:#x} bytes)"));
        let error = Error::OutOfRange { device, region, offset: offset.into(), len };
        if end <= size { Ok(()) } else { Err(error) }
    }

    fn read(&self, region: u32, offset: u64, data: &mut [u8]) -> Result<()> {
        let mut offset = offset;
        for chunk in data.chunks_mut(self.max_transfer) {
            let access = Access { offset, region, count: chunk.len() as u32 };
            let reply = self.ask(Command::RegionRead, &[], |body| body.access(access))?;
            let read = message::decode_read(&reply.body).map_err(|malformed| self.malformed(malformed))?;
            if read.len() != chunk.len() {
                return Err(self.broke(format!("asked for {} bytes, it sent {}", chunk.len(), read.len())));
            }
            chunk.copy_from_slice(read);
            offset += chunk.len() as u64;
        }
        Ok(())
    }

    fn write(&self, region: u32, offset: u64, data: &[u8]) -> Result<()> {
        let mut offset = offset;
        for chunk in data.chunks(self.max_transfer) {
            let access = Access { offset, region, count: chunk.len() as u32 };
            let body = |body: Encoder| body.access(access).bytes(chunk);
            // Not posted, though the protocol would allow it: PCI keeps writes to
            // a device in order, and a store to a mapped page overtakes a message.
            self.ask(Command::RegionWrite, &[], body)?;
            offset += chunk.len() as u64;
        }
        Ok(())
    }
}

impl Backend for Client {
    fn name(&self) -> String {
        self.peer.clone()
    }

    fn read_config(&self, offset: u16, data: &mut [u8]) -> Result<()> {
        self.read(CONFIG, offset.into(), data)
    }

    fn write_config(&self, offset: u16, data: &[u8]) -> Result<()> {
        self.write(CONFIG, offset.into(), data)
    }

    fn bar_layout(&self, index: usize) -> Result<BarLayout> {
        let ClientBar { size, kind, mapped } = self.bar(index)?;
        Ok(BarLayout { size: *size, kind: *kind, mapped: mapped.clone() })
    }

    fn read_bar(&self, index: usize, offset: u32, data: &mut [u8]) -> Result<()> {
        self.check(index, offset, data.len())?;
        self.read(index as u32, offset.into(), data)
    }

    fn write_bar(&self, index: usize, offset: u32, data: &[u8]) -> Result<()> {
        self.check(index, offset, data.len())?;
        self.write(index as u32, offset.into(), data)
    }

    fn addressing(&self) -> Addressing {
        Addressing::Virtual
    }

    fn map_dma(&self, range: &DmaRange<'_>) -> Result<()> {
        range.seal(&self.peer, self.trust)?;
        let access = flags::DMA_READ | flags::DMA_WRITE;
        let (offset, iova, len) = (range.fd_offset(), range.iova(), range.len() as u64);
        let body = |body: Encoder| body.u32(32).u32(access).u64(offset).u64(iova).u64(len);
        let mut link = self.lock()?;
        self.ask_locked(&mut link, Command::DmaMap, range.fd().as_slice(), body)?;
        link.ranges.insert(range);
        Ok(())
    }

    fn unmap_dma(&self, iova: u64, len: usize) -> Result<()> {
        let len = len as u64;
        let mut link = self.lock_always();
        // First: the memory goes whatever became of the connection and whatever the server
        // answers, and it may ask for it meanwhile.
        let is_known = link.ranges.remove(iova, len);
        self.sound()?;
        if !is_known {
            return Ok(()); // a map that was refused
        }
        let body = |body: Encoder| body.u32(24).u32(0).u64(iova).u64(len);
        match self.ask_locked(&mut link, Command::DmaUnmap, &[], body) {
            // It may go on using the file that it was given, on our behalf or not.
            Err(refused @ Error::Refused { .. }) => Err(self.fail(refused)),
            other => other.map(drop),
        }
    }

    fn interrupt_vectors(&self) -> u16 {
        self.vectors
    }

    fn set_interrupt(&self, vector: u16, event: Option<BorrowedFd<'_>>) -> Result<()> {
        // No file descriptor with the message: the vector is unwired.
        let how = VFIO_IRQ_SET_DATA_EVENTFD | VFIO_IRQ_SET_ACTION_TRIGGER;
        let (index, start) = (VFIO_PCI_MSIX_IRQ_INDEX, vector.into());
        let body = |body: Encoder| body.u32(20).u32(how).u32(index).u32(start).u32(1);
        self.ask(Command::SetIrqs, event.as_slice(), body).map(drop)
    }

    fn reset(&self) -> Result<()> {
        if !self.resettable {
            return Err(Error::no_reset(self.name()));
        }
        self.ask(Command::Reset, &[], |body| body).map(drop)
    }

    fn health(&self) -> Result<()> {
        self.sound()?;
        if self.is_memory_lost() {
            return Err(self.fail(Error::memory_lost(self.peer.clone())));
        }
        let mut fds = [PollFd::new(&self.stream, PollFlags::RDHUP)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let polled = poll(&mut fds, Some(&now));
        let gone = PollFlags::HUP | PollFlags::RDHUP | PollFlags::ERR;
        match polled {
            Ok(1..) if fds[0].revents().intersects(gone) => {
                Err(self.fail(Error::HungUp { peer: self.peer.clone() }))
            }
            _ => Ok(()),
        }
    }
}

/// Lets a client read `bytes` as all its server ever says: for fuzzing.
#[doc(hidden)]
pub fn feed(bytes: &[u8]) {
    use std::io::Write;
    let Ok((stream, mut server)) = UnixStream::pair() else { return };
    let _ = server.set_nonblocking(true);
    let _ = server.write(bytes);
    let _ = server.shutdown(std::net::Shutdown::Write);
    let Ok(client) = Client::over(stream, "vfio-user:fuzz".to_owned(), Duration::from_secs(1)) else {
        return;
    };
    let mut word = [0; 4];
    for index in 0..6 {
        let _ = client.bar_layout(index);
        let _ = client.write_bar(index, 0, &word);
        let _ = client.read_bar(index, 0, &mut word);
    }
    let _ = client.set_interrupt(0, None);
    let _ = client.unmap_dma(0, 4096);
    let _ = client.reset();
    let _ = client.health();
}
