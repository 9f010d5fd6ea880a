//! An interface of the kernel through packet sockets and their mapped rings
//! (`af_packet:NAME`): packet(7), Linux's `Documentation/networking/
//! packet_mmap.rst`. `TPACKET_V3` to receive, in blocks that the kernel hands
//! over when they are full or a millisecond old; `TPACKET_V2` frames to send,
//! past the queueing disciplines.
//!
//! Works on any interface and copies each packet once each way. The kernel's own
//! stack sees what is received, too, and answers it if it has an address there.
//! Frames come as they were on the wire: VLAN tags are put back, and checksums
//! that a sender on this machine left open are filled in. Not here: segments
//! larger than a frame (turn the sender's off: `ethtool -K NAME tso off gso off`),
//! hardware timestamps, busy polling.

mod rx;
mod socket;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
mod tx;

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use crate::capabilities::{AF_PACKET, lacking};
use crate::counters::{RxCounters, TxCounters, port_stats};
use crate::frame::{Longest, TAG};
use crate::link::{Interface, State};
use crate::medium::{MOST_QUEUES, queue_pairs};
use port::{
    Capabilities, Counter, Error, Feature, Features, Limits, Link, Options, Port, PortStats, Reason, Result,
    RxQueue, Support, TxQueue,
};

pub(crate) use socket::PacketSocket;

use rx::Rx;
use tx::Tx;

/// The longest frame this port is opened for, in bytes.
pub const MAX_FRAME: usize = 16_000;

/// An interface opened through packet sockets.
pub struct AfPacketPort {
    name: String,
    interface: Interface,
    mac: [u8; 6],
    max_frame: usize,
    longest: Longest,
    /// The receive queues' sockets, which the queues hold as well.
    sockets: Vec<Arc<PacketSocket>>,
    rx: Vec<Option<Rx>>,
    tx: Vec<Option<Tx>>,
    rx_counters: Vec<Arc<RxCounters>>,
    tx_counters: Vec<Arc<TxCounters>>,
    promiscuous: bool,
    timestamps: bool,
    drops: u64,
    freezes: u64,
}

impl AfPacketPort {
    /// Opens the interface `interface`. Its frames still reach the kernel's stack.
    ///
    /// # Errors
    /// [`Error::Setup`] when there is no such interface, it is down or may not be
    /// used; [`Error::System`] when the kernel refuses a ring.
    pub fn open(interface: &str, options: &Options) -> Result<AfPacketPort> {
        let name = format!("af_packet:{interface}");
        let (interface, state) = Interface::open(&name, interface)?;
        needs_up(&name, &state)?;
        let max_frame = options.max_frame.min(MAX_FRAME).min(state.max_frame());
        let mut port = AfPacketPort {
            mac: state.mac,
            max_frame,
            longest: Longest::new(max_frame),
            sockets: Vec::new(),
            rx: Vec::new(),
            tx: Vec::new(),
            rx_counters: Vec::new(),
            tx_counters: Vec::new(),
            promiscuous: false,
            timestamps: options.timestamps,
            drops: 0,
            freezes: 0,
            interface,
            name,
        };
        for _ in 0..queue_pairs(options)? {
            port.add_rx(options)?;
            port.add_tx(options)?;
        }
        port.spread()?;
        if options.promiscuous {
            port.set_promiscuous(true)?;
        }
        Ok(port)
    }

    /// A receive queue; nothing gets in before somebody takes it.
    fn add_rx(&mut self, options: &Options) -> Result<()> {
        let socket = Arc::new(PacketSocket::open().map_err(|source| self.refused(source))?);
        let counters = Arc::new(RxCounters::default());
        // Queues that are not in a group yet would each get every packet.
        let shut = socket.shut().and_then(|()| socket.set(libc::PACKET_IGNORE_OUTGOING, 1));
        shut.map_err(|source| self.failed("setting up a packet socket", source))?;
        let rx = Rx::new(&socket, options, self.max_frame + TAG, counters.clone());
        let rx = rx.map_err(|source| self.failed("making a receive ring", source))?;
        socket.bind(self.interface.index, true).map_err(|source| self.failed("binding a socket", source))?;
        self.rx.push(Some(rx));
        self.rx_counters.push(counters);
        self.sockets.push(socket);
        Ok(())
    }

    fn add_tx(&mut self, options: &Options) -> Result<()> {
        let socket = PacketSocket::open().map_err(|source| self.refused(source))?;
        let counters = Arc::new(TxCounters::default());
        socket.bind(self.interface.index, false).map_err(|source| self.failed("binding a socket", source))?;
        let tx =
            Tx::new(socket, options.tx_ring, self.max_frame + TAG, self.longest.clone(), counters.clone());
        self.tx.push(Some(tx.map_err(|source| self.failed("making a transmit ring", source))?));
        self.tx_counters.push(counters);
        Ok(())
    }

    /// Makes several queues one group, over which the kernel spreads the flows by
    /// their hash. The group's number is one that nobody else has.
    fn spread(&self) -> Result<()> {
        let Some((first, others)) = self.sockets.split_first().filter(|(_, others)| !others.is_empty())
        else {
            return Ok(());
        };
        let unique = (libc::PACKET_FANOUT_HASH | libc::PACKET_FANOUT_FLAG_UNIQUEID) << 16;
        let group = first.set(libc::PACKET_FANOUT, unique).and_then(|()| first.fanout());
        let group = group.map_err(|source| self.failed("making a fanout group", source))? & 0xFFFF;
        let join = |socket: &Arc<PacketSocket>| {
            socket.set(libc::PACKET_FANOUT, group | libc::PACKET_FANOUT_HASH << 16)
        };
        others.iter().try_for_each(join).map_err(|source| self.failed("joining a fanout group", source))
    }

    fn failed(&self, doing: &'static str, source: io::Error) -> Error {
        Error::System { port: self.name.clone(), doing, source }
    }

    fn refused(&self, source: io::Error) -> Error {
        match source.raw_os_error() {
            Some(libc::EPERM) => lacking(&self.name, "a packet socket", AF_PACKET, AF_PACKET),
            Some(libc::EAFNOSUPPORT) => {
                let what = "this kernel has no packet sockets".to_owned();
                Error::setup(&self.name, what, "modprobe af_packet, or a kernel with CONFIG_PACKET")
            }
            _ => self.failed("opening a packet socket", source),
        }
    }
}

/// The interface's name in a port's, without what is asked of it behind a comma.
pub(crate) fn interface_of(port: &str) -> &str {
    let name = port.split_once(':').map_or(port, |(_, name)| name);
    name.split_once(',').map_or(name, |(name, _)| name)
}

/// An interface that is down cannot be used, and it is not ours to turn on.
pub(crate) fn needs_up(port: &str, state: &State) -> Result<()> {
    if state.is_up() {
        return Ok(());
    }
    let name = interface_of(port);
    Err(Error::setup(port, "the interface is down".to_owned(), format!("ip link set {name} up")))
}

impl Port for AfPacketPort {
    fn name(&self) -> &str {
        &self.name
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            driver: "af_packet (TPACKET_V3)".to_owned(),
            rx_queues: self.rx_counters.len(),
            tx_queues: self.tx_counters.len(),
            max_frame: self.max_frame,
            limits: Limits {
                rx_queues: MOST_QUEUES,
                tx_queues: MOST_QUEUES,
                max_frame: MAX_FRAME,
                ..Limits::default()
            },
            features: Features::from([
                (Feature::Scatter, Support::On),
                (Feature::Interrupts, Support::On),
                (Feature::KernelTimestamps, Support::on_if(self.timestamps)),
            ]),
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
        for socket in &self.sockets {
            let counted = socket.statistics().unwrap_or_default(); // reading sets them to zero
            self.drops += u64::from(counted.drops);
            self.freezes += u64::from(counted.freezes);
        }
        let kernel = [
            Counter {
                name: "tp_drops",
                value: self.drops,
                loss: Some(Reason::RxKernelRing),
                what: "frames beyond the rings",
            },
            Counter::of("tp_freezes", self.freezes, "times a ring was full"),
        ];
        let others = kernel.into_iter().chain(self.interface.counters());
        port_stats(self.rx_counters.iter().map(|b| &**b), self.tx_counters.iter().map(|b| &**b), others)
    }

    /// From now on packets come to it: what nobody receives is not lost.
    fn rx_queue(&mut self, index: usize) -> Option<Box<dyn RxQueue>> {
        let rx = self.rx.get_mut(index)?.take()?;
        if let Err(error) = self.sockets[index].let_in() {
            tracing::warn!("{}: queue {index} receives nothing: {error}", self.name);
        }
        Some(Box::new(rx))
    }

    fn tx_queue(&mut self, index: usize) -> Option<Box<dyn TxQueue>> {
        Some(Box::new(self.tx.get_mut(index)?.take()?))
    }

    fn set_promiscuous(&mut self, on: bool) -> Result<()> {
        if on == self.promiscuous {
            return Ok(());
        }
        let set = self.sockets[0].set_promiscuous(self.interface.index, on);
        set.map_err(|source| self.failed("changing promiscuous mode", source))?;
        self.promiscuous = on;
        Ok(())
    }

    fn health(&self) -> Result<()> {
        let state = self.interface.health()?;
        self.longest.set(self.max_frame.min(state.max_frame()));
        Ok(())
    }

    fn stop(&mut self) -> Result<()> {
        let shut = self.sockets.iter().try_for_each(|socket| socket.shut());
        shut.map_err(|source| self.failed("stopping to receive", source))
    }
}

/// Tells the kernel that a socket's ring has something for it, without waiting;
/// `sendmsg`, which a confined program may call, unlike `sendto`.
pub(crate) fn kick(socket: impl AsFd) -> rustix::io::Result<usize> {
    let none = &mut rustix::net::SendAncillaryBuffer::default();
    rustix::net::sendmsg(socket, &[], none, rustix::net::SendFlags::DONTWAIT)
}
