//! A TAP interface (`tap:NAME`): the kernel's network stack at the other end of
//! the cable; Linux's `Documentation/networking/tuntap.rst`. An interface that is
//! not there yet is made and turned on, and goes away with the port; one that was
//! made before (`ip tuntap add mode tap user NAME …`) needs no privilege.
//!
//! One system call a packet, as there is no other way to move one: for tests,
//! management and slow links, not for speed. With `tap:NAME,gso` the kernel gives TCP segments
//! and UDP datagrams longer than a frame and checksums that are not filled in, as packets that ask for all of it
//! (`TxOffload`): for programs that let their packets' headers be completed later. Not here:
//! such segments on the way to the kernel, and vhost-net.

pub(crate) mod attach;
mod vnet;

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use memory::{Batch, DATA_ROOM, Packet, Pool, TxOffload};
use rustix::io::Errno;

use crate::counters::{RxCounters, TxCounters, port_stats};
use crate::frame::{Longest, TAG, check, fits, is_tagged, room};
use crate::link::{Interface, State};
use crate::medium::{MOST_QUEUES, queue_pairs};
use attach::AttachError;
use port::{
    Capabilities, Error, Feature, Features, Limits, Link, Options, Port, PortStats, Result, RxQueue, RxStats,
    Support, TxQueue, TxStats,
};

/// The longest frame this port is opened for, in bytes.
pub const MAX_FRAME: usize = SEGMENTS * DATA_ROOM - TAG - 1;
/// Buffers of the longest frame.
const SEGMENTS: usize = 5;
/// The longest segment that the kernel gives, in bytes, and its buffers.
const LONG: usize = HEADER + u16::MAX as usize;
const LONG_SEGMENTS: usize = (LONG + TAG + 1).div_ceil(DATA_ROOM);
/// What follows the name of an interface whose segments may be long, behind a comma.
const GSO: &str = "gso";
/// What an interface of ours is given.
const HEADER: usize = 14;

/// A TAP interface of which we are the device.
pub struct TapPort {
    name: String,
    interface: Interface,
    mac: [u8; 6],
    max_frame: usize,
    /// Whether the kernel gives segments longer than that.
    long: bool,
    longest: Longest,
    files: Vec<Arc<OwnedFd>>,
    rx: Vec<Option<Rx>>,
    tx: Vec<Option<Tx>>,
    rx_counters: Vec<Arc<RxCounters>>,
    tx_counters: Vec<Arc<TxCounters>>,
}

impl TapPort {
    /// Opens or makes the interface `interface`, which `,gso` may follow.
    ///
    /// # Errors
    /// [`Error::Setup`] when it may not be made or used, is somebody else's, or
    /// has fewer queues; [`Error::System`] for what the kernel says else.
    pub fn open(interface: &str, options: &Options) -> Result<TapPort> {
        let name = format!("tap:{interface}");
        let queues = queue_pairs(options)?;
        let (interface, suffix) = interface.split_once(',').unwrap_or((interface, ""));
        let long = is_long(suffix).map_err(|what| Error::setup(&name, what, "write gso, or nothing"))?;
        let files = files(&name, interface, queues, long)?;
        let (interface, state) = Interface::open(&name, interface)?;
        let max_frame = options.max_frame.min(MAX_FRAME);
        let state = turn_on(&name, &interface, state, max_frame)?;
        let mut port = TapPort {
            mac: opposite(state.mac),
            max_frame,
            long,
            longest: Longest::new(max_frame),
            rx_counters: (0..queues).map(|_| Arc::default()).collect(),
            tx_counters: (0..queues).map(|_| Arc::default()).collect(),
            rx: Vec::new(),
            tx: Vec::new(),
            files,
            interface,
            name,
        };
        for (n, file) in port.files.iter().enumerate() {
            let (counters, longest) = (port.tx_counters[n].clone(), port.longest.clone());
            port.tx.push(Some(Tx { file: file.clone(), longest, long, counters }));
            let counters = port.rx_counters[n].clone();
            port.rx.push(Some(Rx { file: file.clone(), max_frame, long, counters }));
        }
        Ok(port)
    }
}

/// Whether segments may be long by what stands behind an interface's name; or what is wrong with
/// that.
pub(crate) fn is_long(suffix: &str) -> std::result::Result<bool, String> {
    match suffix.split(',').find(|word| !["", GSO].contains(word)) {
        None => Ok(suffix.split(',').any(|word| word == GSO)),
        Some(wrong) => Err(format!("{wrong:?} is nothing that a TAP interface can do")),
    }
}

/// A file for each queue.
fn files(port: &str, interface: &str, queues: usize, long: bool) -> Result<Vec<Arc<OwnedFd>>> {
    if interface.is_empty() || interface.len() > 15 {
        let what = format!("{interface:?} cannot be an interface: names have 1 to 15 bytes");
        return Err(Error::setup(port, what, "choose another name"));
    }
    let open = |several| attach::open(interface, several, long).map(Arc::new);
    // One that was made for a single queue opens in no other way.
    let first = match open(true) {
        Err(AttachError::Interface(error)) if queues == 1 && error.raw_os_error() == Some(libc::EINVAL) => {
            open(false)
        }
        first => first,
    };
    let mut files = vec![first.map_err(|fault| refused(port, interface, fault))?];
    for _ in 1..queues {
        files.push(open(true).map_err(|fault| refused(port, interface, fault))?);
    }
    Ok(files)
}

fn refused(port: &str, interface: &str, fault: AttachError) -> Error {
    match fault {
        AttachError::Device(source) => no_device(port, source),
        AttachError::Interface(source) => no_interface(port, interface, source),
    }
}

/// Why the device node cannot be opened. A control group that keeps a container from it says
/// EPERM, the node's own permissions say EACCES.
fn no_device(port: &str, source: io::Error) -> Error {
    let (what, fix) = match source.raw_os_error() {
        Some(libc::EACCES) => (
            "this user may not open /dev/net/tun: its permissions",
            "run as root, or, as most systems have it: sudo chmod 666 /dev/net/tun",
        ),
        Some(libc::EPERM) => (
            "this container may not open /dev/net/tun",
            "start it with the device, as docker does with --device /dev/net/tun",
        ),
        Some(libc::ENOENT | libc::ENODEV | libc::ENXIO) => ("there is no /dev/net/tun", "modprobe tun"),
        _ => return Error::System { port: port.to_owned(), doing: "opening /dev/net/tun", source },
    };
    Error::setup(port, what.to_owned(), fix)
}

/// Why there is no such interface for us.
fn no_interface(port: &str, interface: &str, source: io::Error) -> Error {
    let made = format!("ip tuntap add mode tap user $USER multi_queue name {interface}");
    let (what, fix) = match source.raw_os_error() {
        Some(libc::EPERM) => (
            "making an interface, or using another's, needs CAP_NET_ADMIN",
            format!("run as root, or: {made}"),
        ),
        Some(libc::EBUSY) => ("another process has the interface", "choose another name".to_owned()),
        Some(libc::E2BIG) => ("the interface has no more queues", "ask for fewer with --queues".to_owned()),
        Some(libc::EINVAL) => return another_kind(port, interface, &made),
        _ => {
            return Error::System { port: port.to_owned(), doing: "making the interface", source };
        }
    };
    Error::setup(port, what.to_owned(), fix)
}

/// What an interface is that the kernel has and does not give us as a TAP. It is somebody's: nobody
/// is told to remove it.
fn another_kind(port: &str, interface: &str, made: &str) -> Error {
    let kind = Interface::open(port, interface).map(|(_, state)| state.kind).unwrap_or_default();
    let (what, fix) = match kind.as_str() {
        "tun" => (
            format!("{interface} is a TUN interface, or a TAP that was made for one queue"),
            format!("choose another name, or ask for one queue; with several it is made by: {made}"),
        ),
        "" => (format!("{interface} is another interface, no TAP"), "choose another name".to_owned()),
        kind => (
            format!("{interface} is an interface of another kind, {kind}, no TAP"),
            "choose another name".to_owned(),
        ),
    };
    Error::setup(port, what, fix)
}

/// Turns the interface on for frames of our size; where we may not, it has to be
/// on already.
fn turn_on(port: &str, interface: &Interface, state: State, max_frame: usize) -> Result<State> {
    let mtu = (state.max_frame() != max_frame).then_some(max_frame.saturating_sub(HEADER) as u32);
    match interface.turn_on(mtu) {
        Ok(()) => interface.look(),
        Err(error) if error.raw_os_error() == Some(libc::EPERM) && state.is_up() => {
            tracing::debug!("{port}: cannot change the interface ({error}); it is up already");
            Ok(state)
        }
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => {
            let name = port.trim_start_matches("tap:").trim_end_matches(GSO);
            let what = "the interface is down, and turning it on needs CAP_NET_ADMIN".to_owned();
            Err(Error::setup(port, what, format!("run as root, or: sudo ip link set {name} up")))
        }
        Err(source) => {
            Err(Error::System { port: port.to_owned(), doing: "turning the interface on", source })
        }
    }
}

/// Our address at the other end of the cable: the interface's own is the
/// kernel's, and from itself it takes nothing.
fn opposite(mac: [u8; 6]) -> [u8; 6] {
    let [first, .., last] = mac;
    [first & !1 | 2, mac[1], mac[2], mac[3], mac[4], last ^ 1]
}

impl Port for TapPort {
    fn name(&self) -> &str {
        &self.name
    }

    fn keeps_flows(&self) -> bool {
        self.files.len() == 1
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            driver: "tap".to_owned(),
            rx_queues: self.files.len(),
            tx_queues: self.files.len(),
            max_frame: if self.long { LONG } else { self.max_frame },
            limits: Limits {
                rx_queues: MOST_QUEUES,
                tx_queues: MOST_QUEUES,
                max_frame: if self.long { LONG } else { MAX_FRAME },
                ..Limits::default()
            },
            features: Features::from([(Feature::Scatter, Support::On), (Feature::Interrupts, Support::On)]),
            firmware: Vec::new(),
        }
    }

    fn mac(&self) -> [u8; 6] {
        self.mac
    }

    fn link(&self) -> Link {
        self.interface.link()
    }

    fn stats(&mut self) -> PortStats {
        let (rx, tx) = (self.rx_counters.iter().map(|b| &**b), self.tx_counters.iter().map(|b| &**b));
        port_stats(rx, tx, self.interface.counters())
    }

    fn rx_queue(&mut self, index: usize) -> Option<Box<dyn RxQueue>> {
        Some(Box::new(self.rx.get_mut(index)?.take()?))
    }

    fn tx_queue(&mut self, index: usize) -> Option<Box<dyn TxQueue>> {
        Some(Box::new(self.tx.get_mut(index)?.take()?))
    }

    /// A TAP interface gives its device everything; less is not to be had.
    fn set_promiscuous(&mut self, on: bool) -> Result<()> {
        match on {
            true => Ok(()),
            false => {
                let operation = "receiving only what is addressed to the port";
                Err(Error::Unsupported { port: self.name.clone(), operation })
            }
        }
    }

    fn health(&self) -> Result<()> {
        let state = self.interface.health()?;
        self.longest.set(self.max_frame.min(state.max_frame()));
        Ok(())
    }

    fn stop(&mut self) -> Result<()> {
        let Some(file) = self.files.first() else { return Ok(()) };
        let stopped = attach::shut(file.as_fd());
        stopped.map_err(|source| Error::System {
            port: self.name.clone(),
            doing: "stopping to receive",
            source,
        })
    }
}

/// A receive queue.
#[derive(Debug)]
struct Rx {
    file: Arc<OwnedFd>,
    max_frame: usize,
    long: bool,
    counters: Arc<RxCounters>,
}

/// Frames looked at in one call at most, those that are lost included.
const MAX_FRAMES: usize = 2 * Batch::MAX;

impl Rx {
    /// Reads the next frame into as many buffers as the longest one takes, and the header in front
    /// of it, if there are such.
    fn read(
        &self,
        header: &mut [u8; vnet::LEN],
        buffers: &mut [Option<Packet>],
    ) -> rustix::io::Result<usize> {
        if let [Some(one)] = buffers {
            return rustix::io::read(&*self.file, &mut one[..]);
        }
        if self.long {
            return self.read_long(header, buffers);
        }
        let mut parts: [IoSliceMut<'_>; SEGMENTS] = std::array::from_fn(|_| IoSliceMut::new(&mut []));
        let mut count = 0;
        for (part, buffer) in parts.iter_mut().zip(buffers.iter_mut().flatten()) {
            *part = IoSliceMut::new(&mut buffer[..]);
            count += 1;
        }
        rustix::io::readv(&*self.file, &mut parts[..count])
    }

    fn read_long(
        &self,
        header: &mut [u8; vnet::LEN],
        buffers: &mut [Option<Packet>],
    ) -> rustix::io::Result<usize> {
        let mut parts: [IoSliceMut<'_>; LONG_SEGMENTS + 1] =
            std::array::from_fn(|_| IoSliceMut::new(&mut []));
        parts[0] = IoSliceMut::new(header);
        let mut count = 1;
        for (part, buffer) in parts[1..].iter_mut().zip(buffers.iter_mut().flatten()) {
            *part = IoSliceMut::new(&mut buffer[..]);
            count += 1;
        }
        let len = rustix::io::readv(&*self.file, &mut parts[..count])?;
        Ok(len.saturating_sub(vnet::LEN))
    }

    /// Buffers that the longest frame takes, and a byte more: the kernel cuts frames
    /// off where the buffers end, and one that was cut must be seen to be too long.
    fn buffer_count(&self) -> usize {
        if self.long {
            return LONG_SEGMENTS;
        }
        (self.max_frame + TAG + 1).div_ceil(DATA_ROOM)
    }

    /// As many empty buffers as the longest frame takes, at full length.
    fn buffers(&self, pool: &mut Pool) -> Option<[Option<Packet>; LONG_SEGMENTS]> {
        let count = self.buffer_count();
        let mut chain = room(pool, count * DATA_ROOM)?;
        let mut buffers = [const { None }; LONG_SEGMENTS];
        for place in &mut buffers[..count] {
            let rest = chain.split_next();
            let set = chain.set_len(DATA_ROOM);
            debug_assert!(set.is_ok(), "a fresh buffer has its whole data room");
            *place = Some(chain);
            match rest {
                Some(rest) => chain = rest,
                None => break,
            }
        }
        Some(buffers)
    }

    /// Makes `len` bytes in buffers a packet; what is not needed goes back.
    fn packet(&self, header: &[u8; vnet::LEN], buffers: &mut [Option<Packet>], len: usize) -> Option<Packet> {
        let (mut whole, mut left): (Option<Packet>, usize) = (None, len);
        for place in buffers.iter_mut().take(len.div_ceil(DATA_ROOM).max(1)) {
            let mut part = place.take()?;
            let here = left.min(DATA_ROOM);
            part.set_len(here).ok()?;
            left -= here;
            match &mut whole {
                Some(whole) => whole.append(part),
                None => whole = Some(part),
            }
        }
        let mut packet = whole?;
        if len < HEADER || self.long && vnet::apply(header, &mut packet).is_none() {
            self.counters.malformed.add(1);
            return None;
        }
        let is_cut = packet.tx_offload().has(TxOffload::SEGMENT);
        if !is_cut && !fits(len, is_tagged(&packet), self.max_frame) {
            self.counters.oversize.add(1);
            return None;
        }
        Some(packet)
    }
}

impl RxQueue for Rx {
    fn recv(&mut self, pool: &mut Pool, batch: &mut Batch) -> usize {
        let (mut packets, mut bytes) = (0, 0);
        for _ in 0..MAX_FRAMES {
            if batch.room() == 0 {
                break;
            }
            let Some(mut buffers) = self.buffers(pool) else {
                self.counters.no_buffer.add(1);
                break;
            };
            let mut header = [0; vnet::LEN];
            let read = self.read(&mut header, &mut buffers[..self.buffer_count()]);
            if let Ok(len) = read
                && let Some(packet) = self.packet(&header, &mut buffers, len)
            {
                (packets, bytes) = (packets + 1, bytes + len);
                let full = batch.push(packet);
                debug_assert!(full.is_none(), "there was room");
            }
            buffers.iter_mut().filter_map(Option::take).for_each(|packet| pool.free(packet));
            if read.is_err_and(|errno| errno != Errno::INTR) {
                break; // nothing there, or the interface is gone
            }
        }
        self.counters.burst(packets, bytes);
        packets
    }

    fn stats(&self) -> RxStats {
        self.counters.stats()
    }

    /// The file itself: readable when a frame is there.
    fn arm(&mut self) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_fd())
    }
}

/// A transmit queue.
#[derive(Debug)]
struct Tx {
    file: Arc<OwnedFd>,
    longest: Longest,
    long: bool,
    counters: Arc<TxCounters>,
}

/// The header of a frame that is whole.
const WHOLE: [u8; vnet::LEN] = [0; vnet::LEN];
/// Buffers of a frame that can be written.
const PARTS: usize = 16;

impl Tx {
    fn write(&self, packet: &Packet) -> rustix::io::Result<usize> {
        if packet.next().is_none() && !self.long {
            return rustix::io::write(&*self.file, packet);
        }
        if packet.segments().nth(PARTS).is_some() {
            return Err(Errno::MSGSIZE);
        }
        let mut parts = [IoSlice::new(&[]); PARTS + 1];
        let mut count = usize::from(self.long);
        if self.long {
            parts[0] = IoSlice::new(&WHOLE);
        }
        for (part, segment) in parts[count..].iter_mut().zip(packet.segments()) {
            *part = IoSlice::new(segment);
            count += 1;
        }
        rustix::io::writev(&*self.file, &parts[..count])
    }
}

impl TxQueue for Tx {
    fn send(&mut self, pool: &mut Pool, batch: &mut Batch) -> usize {
        let (offered, longest) = (batch.len(), self.longest.read());
        let (mut packets, mut bytes) = (0, 0);
        while let Some(packet) = batch.first() {
            if let Some(len) = check(packet, longest, &self.counters) {
                match self.write(packet) {
                    Ok(_) => (packets, bytes) = (packets + 1, bytes + len),
                    Err(Errno::INTR) => continue,
                    // No room, the interface is down (EIO) or gone: they stay.
                    Err(Errno::AGAIN | Errno::NOBUFS | Errno::IO | Errno::BADFD) => break,
                    Err(_) => self.counters.refused.add(1),
                }
            }
            batch.pop_front().into_iter().for_each(|packet| pool.free(packet));
        }
        self.counters.burst(packets, bytes, batch.len());
        offered - batch.len()
    }

    fn clean(&mut self, _pool: &mut Pool) -> usize {
        0 // the kernel copied what was written
    }

    fn stats(&self) -> TxStats {
        self.counters.stats()
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_other_end_is_another_host() {
        // A group's bit, which no interface has, is cleared; ours is set.
        assert_eq!(super::opposite([0, 0x11, 0x22, 0x33, 0x44, 0x55]), [2, 0x11, 0x22, 0x33, 0x44, 0x54]);
        assert_eq!(super::opposite([3, 1, 1, 1, 1, 0]), [2, 1, 1, 1, 1, 1]);
    }
}
