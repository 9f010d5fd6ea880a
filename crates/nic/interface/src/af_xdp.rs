//! An interface of the kernel through AF_XDP sockets (`af_xdp:NAME`): Linux's
//! `Documentation/networking/af_xdp.rst`, linux/if_xdp.h. A small program of ours
//! at the interface redirects what its queues receive to our sockets, past the
//! kernel's stack. Where a port has fewer queues than the interface, each takes
//! several of those.
//!
//! Packets lie in memory that the kernel knows (the UMEM), which is a [`Pool`] of
//! this port's own: received packets are handed out without a copy, and sent ones
//! are copied only when they came from elsewhere. Program and sockets each take
//! the best way the interface has: `native` or `generic` (after the kernel has
//! made a packet of its own), `zerocopy` or `copy`; [`Capabilities::driver`]
//! tells. Over a veth pair, where the other end leaves checksums open, they are
//! filled in. Not here: frames in several buffers, offloads, busy polling.
//!
//! [`Pool`]: memory::Pool

mod bpf;
mod program;
mod ring;
mod rx;
mod several;
mod socket;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
mod tx;
mod umem;

use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use memory::Dma;

use crate::af_packet::{PacketSocket, needs_up};
use crate::counters::{RxCounters, TxCounters, port_stats};
use crate::frame::{Longest, TAG};
use crate::link::{Interface, RX_DROPPED, State};
use crate::medium::{MOST_QUEUES, queue_pairs};
use port::{
    Capabilities, Counter, Error, Feature, Features, Limits, Link, Options, Port, PortStats, Reason, Result,
    RxQueue, Support, TxQueue,
};

use program::{Attachment, Mode};
use rx::Rx;
use several::Several;
use socket::{Copy, XdpSocket};
use tx::Tx;

/// The longest frame this port is opened for, in bytes, without a tag: a buffer
/// less what the kernel keeps in front.
pub const MAX_FRAME: usize = umem::DATA_ROOM - TAG;

/// The kind of an interface that is one end of a virtual cable.
const VETH: &str = "veth";
/// The kind of a TAP interface.
const TUN: &str = "tun";
/// The driver of Linux's for virtio's network devices.
const VIRTIO: &str = "virtio_net";

/// Whether an interface, in whose driver the program runs, counts each frame whose redirection
/// fails among those that it dropped (Linux 6.18): `veth_xdp_rcv`, `tun_xdp_act` (since 6.8), and
/// virtio_net's `receive_small`, `receive_mergeable` and `virtnet_receive_xsk_buf`.
fn counts_failed_redirects(kind: &str, driver: Option<&str>) -> bool {
    matches!(kind, VETH | TUN) || driver == Some(VIRTIO)
}

/// An interface opened through AF_XDP sockets.
pub struct AfXdpPort {
    name: String,
    interface: Interface,
    mac: [u8; 6],
    max_frame: usize,
    longest: Longest,
    /// Redirects packets to us while it lives.
    attachment: Option<Attachment>,
    ways: Ways,
    sockets: Vec<Arc<XdpSocket>>,
    rx: Vec<Option<Several>>,
    tx: Vec<Option<Tx>>,
    rx_counters: Vec<Arc<RxCounters>>,
    tx_counters: Vec<Arc<TxCounters>>,
    /// What comes may be from a stack that left checksums to its device.
    open_checksums: bool,
    /// The interface counts what a socket had no room for as well.
    counts_twice: bool,
    /// Frames that the interface dropped and no socket counted.
    dropped_elsewhere: u64,
    /// Has the interface receive every frame.
    promiscuous: Option<PacketSocket>,
}

/// What was chosen.
#[derive(Debug, Clone, Copy)]
struct Ways {
    mode: Mode,
    copy: Copy,
}

impl fmt::Display for Ways {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "af_xdp ({}, {})", self.mode, self.copy)
    }
}

impl AfXdpPort {
    /// Opens all queues of the interface `interface`, with buffers in memory
    /// of `dma`. Behind the name may stand `,generic` or `,copy`, which leave out
    /// what is better.
    ///
    /// # Errors
    /// [`Error::Setup`] when there is no such interface, it is down, in use, has
    /// fewer queues, or may not be used; [`Error::System`] for what the kernel
    /// says else.
    pub fn open(interface: &str, dma: &Dma, options: &Options) -> Result<AfXdpPort> {
        let name = format!("af_xdp:{interface}");
        let (interface, suffix) = interface.split_once(',').unwrap_or((interface, ""));
        let best = ways_of(&name, suffix)?;
        let (interface, state) = Interface::open(&name, interface)?;
        needs_up(&name, &state)?;
        let queues = queue_pairs(options)?;
        enough_queues(&name, &state, queues)?;
        let max_frame = options.max_frame.min(MAX_FRAME).min(state.max_frame());
        let attachment =
            program::attach(interface.index, queues.max(state.rx_queues), best.mode == Mode::Native)
                .map_err(|fault| fault.explain(&name))?;
        let mut port = AfXdpPort {
            mac: state.mac,
            max_frame,
            longest: Longest::new(max_frame),
            ways: Ways { mode: attachment.mode(), copy: best.copy },
            sockets: Vec::new(),
            rx: Vec::new(),
            tx: Vec::new(),
            rx_counters: Vec::new(),
            tx_counters: Vec::new(),
            promiscuous: None,
            open_checksums: state.kind == VETH,
            counts_twice: attachment.mode() == Mode::Native
                && counts_failed_redirects(&state.kind, interface.driver.as_deref()),
            dropped_elsewhere: 0,
            attachment: Some(attachment),
            interface,
            name,
        };
        // A device cannot reach a buffer across pages that lie apart.
        let may_be_zero = port.ways.mode == Mode::Native && best.copy == Copy::Zero && is_huge(dma);
        for queue in 0..queues {
            let (rx, tx) = port.pair(queue, dma, may_be_zero, options).map_err(Refused::into_inner)?;
            port.rx.push(Some(Several::new(rx)));
            port.tx.push(Some(tx));
        }
        port.share_out(queues..state.rx_queues, dma, may_be_zero, options)?;
        if options.promiscuous {
            port.set_promiscuous(true)?;
        }
        Ok(port)
    }

    /// Opens the interface's other queues, as far as it uses them, and gives each to
    /// one of ours. To send, ours are enough.
    fn share_out(
        &mut self,
        others: Range<usize>,
        dma: &Dma,
        may_be_zero: bool,
        options: &Options,
    ) -> Result<()> {
        for queue in others {
            let (rx, _) = match self.pair(queue, dma, may_be_zero, options) {
                Err(Refused::NoQueue(_)) => break,
                opened => opened.map_err(Refused::into_inner)?,
            };
            let turn = queue % self.rx.len();
            if let Some(ours) = &mut self.rx[turn] {
                ours.add(rx);
            }
        }
        for ours in self.rx.iter_mut().flatten() {
            ours.complete().map_err(|errno| Error::System {
                port: self.name.clone(),
                doing: "watching several queues",
                source: errno.into(),
            })?;
        }
        tracing::info!("{}: {}, {} queues of the interface", self.name, self.ways, self.sockets.len());
        Ok(())
    }

    /// A queue pair of the interface's: its memory and its socket.
    fn pair(
        &mut self,
        queue: usize,
        dma: &Dma,
        may_be_zero: bool,
        options: &Options,
    ) -> std::result::Result<(Rx, Tx), Refused> {
        let explain = |fault: socket::StepError| {
            let no_queue = fault.is_no_queue();
            let error = fault.explain(&self.name, queue as u32);
            if no_queue { Refused::NoQueue(error) } else { Refused::Error(error) }
        };
        let (memory, pool, staging) = umem::of(dma, options.rx_ring, options.tx_ring)?;
        let (socket, rx_rings, tx_rings) =
            XdpSocket::open(&memory, options.rx_ring, options.tx_ring).map_err(explain)?;
        let copy = socket.bind(self.interface.index, queue as u32, may_be_zero).map_err(explain)?;
        if copy == Copy::Copied {
            self.ways.copy = copy;
        }
        let socket = Arc::new(socket);
        let (rx_counters, tx_counters) = (Arc::new(RxCounters::default()), Arc::new(TxCounters::default()));
        // Buffers are there before the first packet is.
        let traits = rx::Traits { max_frame: self.max_frame, open_checksums: self.open_checksums };
        let rx = Rx::new((queue as u32, socket.clone()), rx_rings, memory, pool, traits, rx_counters.clone());
        let (longest, counters) = (self.longest.clone(), tx_counters.clone());
        let tx = Tx::new(socket.clone(), tx_rings, memory, staging, longest, counters);
        self.rx_counters.push(rx_counters);
        self.tx_counters.push(tx_counters);
        self.sockets.push(socket);
        Ok((rx, tx))
    }

    /// Takes the frames that the sockets counted as lost out of those that the interface says
    /// it dropped, where it counts them as well ([`counts_failed_redirects`]).
    ///
    /// A socket counts before the interface does, and was asked later: so none is told twice,
    /// but one may be told late. The counter must not go back meanwhile.
    fn count_once(&mut self, interface: &mut [Counter], sockets: u64) {
        let dropped = interface.iter_mut().find(|counter| counter.name == RX_DROPPED);
        if let Some(dropped) = dropped.filter(|_| self.counts_twice) {
            let elsewhere = dropped.value.saturating_sub(sockets);
            self.dropped_elsewhere = self.dropped_elsewhere.max(elsewhere);
            dropped.value = self.dropped_elsewhere;
        }
    }

    fn failed(&self, doing: &'static str, source: io::Error) -> Error {
        Error::System { port: self.name.clone(), doing, source }
    }
}

/// Why a queue could not be opened.
enum Refused {
    /// The interface does not use it.
    NoQueue(Error),
    Error(Error),
}

impl Refused {
    fn into_inner(self) -> Error {
        match self {
            Refused::NoQueue(error) | Refused::Error(error) => error,
        }
    }
}

impl From<Error> for Refused {
    fn from(error: Error) -> Refused {
        Refused::Error(error)
    }
}

/// The best way that the words behind an interface's name leave.
fn ways_of(port: &str, suffix: &str) -> Result<Ways> {
    let mut best = Ways { mode: Mode::Native, copy: Copy::Zero };
    for word in suffix.split(',').filter(|word| !word.is_empty()) {
        match word {
            "generic" => best.mode = Mode::Generic,
            "copy" => best.copy = Copy::Copied,
            _ => {
                let what = format!("{word:?} is no way to use an interface");
                return Err(Error::setup(port, what, "write generic, copy, or nothing"));
            }
        }
    }
    Ok(best)
}

fn enough_queues(port: &str, state: &State, queues: usize) -> Result<()> {
    let most = state.rx_queues.max(state.tx_queues);
    if queues <= most {
        return Ok(());
    }
    let what = format!("the interface has {most} queues, not {queues}");
    Err(Error::setup(port, what, format!("ask for at most {most} with --queues")))
}

/// Whether memory of `dma` is made of hugepages.
fn is_huge(dma: &Dma) -> bool {
    // As large as the packet memory may be, so that it is cut from the same cloth.
    dma.alloc(memory::backing::HUGE_PAGE).is_ok_and(|region| region.is_huge())
}

impl Port for AfXdpPort {
    fn name(&self) -> &str {
        &self.name
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            driver: self.ways.to_string(),
            rx_queues: self.rx.len(),
            tx_queues: self.tx.len(),
            max_frame: self.max_frame,
            limits: Limits {
                rx_queues: MOST_QUEUES,
                tx_queues: MOST_QUEUES,
                max_frame: MAX_FRAME,
                ..Limits::default()
            },
            features: Features::from([(Feature::Interrupts, Support::On)]),
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
        let mut interface = self.interface.counters();
        let mut kernel = XDP_COUNTERS.map(|(name, loss, what)| Counter { name, value: 0, loss, what });
        for counted in self.sockets.iter().filter_map(|socket| socket.statistics()) {
            let values = [
                counted.rx_dropped,
                counted.rx_ring_full.unwrap_or(0),
                counted.rx_invalid_descs,
                counted.tx_invalid_descs,
                counted.rx_fill_ring_empty_descs.unwrap_or(0),
            ];
            kernel.iter_mut().zip(values).for_each(|(counter, value)| counter.value += value);
        }
        let in_sockets = kernel.iter().filter(|counter| counter.loss == Some(Reason::RxKernelRing));
        self.count_once(&mut interface, in_sockets.map(|counter| counter.value).sum());
        let (rx, tx) = (self.rx_counters.iter().map(|b| &**b), self.tx_counters.iter().map(|b| &**b));
        port_stats(rx, tx, kernel.into_iter().chain(interface))
    }

    /// From now on packets come to it: what nobody receives goes to the kernel.
    fn rx_queue(&mut self, index: usize) -> Option<Box<dyn RxQueue>> {
        let rx = self.rx.get_mut(index)?.take()?;
        for (queue, socket) in rx.sockets() {
            let added = self.attachment.as_ref().map(|attachment| attachment.add(queue, socket));
            if let Some(Err(error)) = added {
                tracing::warn!("{}: queue {queue} goes to the kernel: {error}", self.name);
            }
        }
        Some(Box::new(rx))
    }

    fn tx_queue(&mut self, index: usize) -> Option<Box<dyn TxQueue>> {
        Some(Box::new(self.tx.get_mut(index)?.take()?))
    }

    /// By a packet socket, which has the right request and receives nothing.
    fn set_promiscuous(&mut self, on: bool) -> Result<()> {
        if !on {
            self.promiscuous = None;
        } else if self.promiscuous.is_none() {
            let index = self.interface.index;
            let socket = PacketSocket::open().and_then(|socket| {
                socket.set_promiscuous(index, true)?;
                Ok(socket)
            });
            let failed = |source| self.failed("changing promiscuous mode", source);
            self.promiscuous = Some(socket.map_err(failed)?);
        }
        Ok(())
    }

    fn health(&self) -> Result<()> {
        let state = self.interface.health()?;
        self.longest.set(self.max_frame.min(state.max_frame()));
        Ok(())
    }

    /// Takes the program away: packets go to the kernel's stack again.
    fn stop(&mut self) -> Result<()> {
        self.attachment = None;
        Ok(())
    }
}

/// Counters of the sockets (`struct xdp_statistics`): name, why frames were lost, what.
const XDP_COUNTERS: [(&str, Option<Reason>, &str); 5] = [
    ("xdp_rx_dropped", Some(Reason::RxKernelRing), "frames too long for a buffer, or without one"),
    ("xdp_rx_ring_full", Some(Reason::RxKernelRing), "frames beyond the receive ring"),
    ("xdp_rx_invalid", Some(Reason::RxMalformed), "buffers the kernel refused"),
    ("xdp_tx_invalid", Some(Reason::TxRefused), "frames to send that the kernel refused"),
    ("xdp_fill_ring_empty", None, "times the fill ring was empty"),
];
