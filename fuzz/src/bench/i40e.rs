//! The driver of the XL710 on a hostile device: the model is its firmware and its registers, and
//! what these say is changed on the way; the rings, the events of the firmware and the
//! interrupts are nobody's but the fuzzer's.
//!
//! Opening takes a hundred commands, and a queue that goes waits for 50 ms. So a port stays open:
//! after a run an honest device brings both rings to where they began, by which it is seen that
//! the driver bears with what came before, and filters are those from the beginning. A port of
//! which that cannot be had is closed by a device that is pulled out, which takes no time.

mod firmware;

use std::sync::Arc;

use arbitrary::Arbitrary;
use bus::Pci;
use driver::i40e::{I40e, RxQueue, TxQueue};
use memory::{Batch, Dma, Packet, Pool};
use port::{Completion, Filters as _, Flow, FlowTarget, Options, Port as _, Transport};
use port::{RxQueue as _, TxQueue as _};
use regs::i40e::descriptor::{rx_high, tx};
use testbed::i40e;
use testbed::inprocess::InProcess;
use testbed::wire::Cable;
use wire::ip::Addresses;

use super::{JUMBO, Layout, PACKETS, Pair, RING, Run, most_segments};
use crate::mailbox::Observed;
pub use firmware::BadAnswer;
use firmware::{BadFirmware, SharedFirmware};

/// Bytes of an honest frame.
const FRAME: usize = 60;
/// Packets that an honest device is given or gives at a time, so that the pool suffices.
const AT_ONCE: u32 = RING / 4;

/// What happens next.
#[derive(Arbitrary, Debug)]
pub enum Act {
    /// The application or the device does something at the rings.
    Ring(super::Act),
    /// A register reads otherwise from now on.
    Register { register: u8, n: u8, value: u32 },
    /// The answer to one of the next commands of a kind is a lie.
    Answer { command: u8, skip: u8, bad: BadAnswer },
    /// The firmware tells something: what, with how many bytes; its head says so, or something else.
    Event { kind: u8, len: u16, flags: u16, head: u8, bytes: [u8; 8] },
    /// The eventfds of interrupts are signalled, or spoilt.
    Interrupt { how: u8 },
    /// The application uses the port.
    Use(Use),
}

/// How the application uses the port.
#[derive(Arbitrary, Debug, Clone, Copy)]
pub enum Use {
    Link,
    Count,
    Health,
    Look,
    Arm,
    Disarm,
    Change(Change),
}

/// What the application changes.
#[derive(Arbitrary, Debug, Clone, Copy)]
pub enum Change {
    AddMac(u16),
    RemoveMac(u16),
    Vlan(u16, bool),
    Promiscuous(bool),
    AllMulticast(bool),
    FlowQueue(u16),
    Stop,
    AddFlow(u16),
    RemoveFlow(u16),
}

/// Its descriptors (332464, chapter 8).
struct Descriptors;

impl Layout for Descriptors {
    const RX_DONE: u64 = rx_high::DD;
    const RX_END: u64 = rx_high::EOF;
    const RX_ERROR: u64 = rx_high::RXE;
    const RX_LENGTH_SHIFT: u32 = rx_high::LENGTH_SHIFT;
    const TX_LAST: u64 = tx::EOP | tx::RS;

    fn sent(high: u64) -> u64 {
        high | tx::DTYPE_DONE
    }

    fn bytes(high: u64) -> Option<u64> {
        match high & tx::DTYPE_MASK {
            tx::DTYPE_DATA => Some((high & tx::SIZE_MASK) >> tx::SIZE_SHIFT),
            tx::DTYPE_CONTEXT => None,
            other => panic!("a descriptor of type {other}: {high:#x}"),
        }
    }
}

/// An open port and its queues.
struct Opened {
    device: Arc<Observed>,
    port: Used,
    rx: RxQueue,
    tx: TxQueue,
    _others: Vec<RxQueue>,
}

/// A port, and what was done with it.
struct Used {
    port: I40e,
    counters: Vec<u64>,
    /// What was changed in a run.
    changes: Vec<Change>,
    /// Filters for flows that were added or removed in it.
    flows: usize,
}

/// A card, and the port on it if it is open.
pub struct Bench {
    pci: Pci,
    dma: Dma,
    firmware: SharedFirmware,
    opened: Option<Opened>,
    pools: [Pool; 2],
    jumbo: bool,
    head: bool,
}

impl Bench {
    /// A card with this device id, whose port is opened with frames of several buffers, with head
    /// write-back.
    pub fn new(device_id: u16, jumbo: bool, head: bool) -> Bench {
        let cable = Cable::open(&"sink".parse().expect("a wire")).expect("a wire");
        let options = i40e::Options { device_id, ..i40e::Options::with_mac(testbed::ixgbe::mac(0)) };
        let card = i40e::open(&options, cable).expect("a model");
        let (pci, handle) = InProcess::new(card);
        let firmware = SharedFirmware::new(BadFirmware::new(&pci, handle));
        let dma = crate::dma::space();
        let pool = || Pool::new(&dma, PACKETS).unwrap_or_else(|error| panic!("{error}"));
        let pools = [pool(), pool()];
        Bench { pci, dma, firmware, opened: None, pools, jumbo, head }
    }

    /// A run on a port that is open.
    pub fn run(&mut self, acts: &[Act]) {
        if self.opened.is_none() {
            let opened = self.open();
            self.opened = Some(opened.unwrap_or_else(|error| panic!("an honest device: {error}")));
        }
        self.act(acts);
    }

    /// A run that begins with bad answers while the port opens. It opens, or says why not.
    pub fn run_opening(&mut self, acts: &[Act]) {
        self.close();
        acts.iter().for_each(|act| self.firmware.prepare(act));
        self.opened = self.open().ok();
        self.act(acts);
        self.close();
    }

    fn open(&mut self) -> driver::Result<Opened> {
        crate::dma::space();
        self.pci.reset().unwrap_or_else(|error| panic!("{error}"));
        let device = Observed::unmapped(self.pci.clone());
        self.firmware.begin(&device);
        device.set_beside(Box::new(self.firmware.clone()));
        let options = Options {
            rx_queues: firmware::QUEUES,
            tx_queues: 1,
            rx_ring: RING as usize,
            tx_ring: RING as usize,
            max_frame: if self.jumbo { JUMBO } else { 1514 },
            completion: if self.head { Completion::Head } else { Completion::Report },
            interrupts: true,
            link_wait_ms: 0,
            ..Options::default()
        };
        let (port, mut rx, mut tx) = I40e::open(Pci::new(device.clone()), &self.dma, options)?.split();
        port.link();
        self.firmware.opened();
        let (tx, others) = (tx.remove(0), rx.split_off(1));
        let rx = rx.remove(0);
        let port = Used { port, counters: Vec::new(), changes: Vec::new(), flows: 0 };
        Ok(Opened { device, port, rx, tx, _others: others })
    }

    /// The device is pulled out, and the port closed. Every buffer is back in its pool then.
    fn close(&mut self) {
        if let Some(opened) = &self.opened {
            opened.device.pull_out();
        }
        self.opened = None;
        self.firmware.be_honest();
        self.pools
            .iter_mut()
            .for_each(|pool| assert_eq!(pool.available(), pool.capacity(), "a buffer is lost"));
    }

    fn act(&mut self, acts: &[Act]) {
        let Some(mut opened) = self.opened.take() else { return };
        let memory = opened.device.memory();
        let (rings, head) = self.firmware.rings(&memory);
        let device = Pair::<Descriptors>::new(memory.clone(), rings, head, self.firmware.tails());
        let (pools, segments) = (&mut self.pools, most_segments(self.jumbo));
        let Opened { port, rx, tx, .. } = &mut opened;
        let mut run = Run { device, rx, tx, pools, held: Vec::new(), segments };
        run.recv(1); // gives the device its first buffers
        for act in acts {
            match act {
                Act::Ring(act) => run.act(act),
                Act::Event { kind, len, flags, head, bytes } => {
                    self.firmware.tell(&memory, [*kind, *head], [*len, *flags], bytes);
                }
                Act::Interrupt { how } => self.firmware.interrupt(*how),
                Act::Use(Use::Arm) => _ = run.rx.arm(),
                Act::Use(Use::Disarm) => run.rx.disarm(),
                Act::Use(how) => port.act(*how),
                Act::Register { .. } | Act::Answer { .. } => self.firmware.prepare(act),
            }
        }
        run.free_all();
        if !port.is_as_before(self.firmware.be_honest()) {
            self.opened = Some(opened);
            return self.close();
        }
        run.drain();
        self.firmware.drain(&memory, || _ = port.port.link());
        self.opened = Some(opened);
    }
}

/// Filters for flows that are added or removed in a run, at most: the driver waits for the device to
/// count each.
const FLOWS: usize = 4;

impl Used {
    fn act(&mut self, how: Use) {
        match how {
            Use::Link => _ = self.port.link(),
            Use::Count => self.count(),
            Use::Health => _ = self.port.health(),
            Use::Look => _ = (self.port.mac(), self.port.capabilities(), self.port.stats()),
            Use::Change(change) if change.is_flow() && self.flows >= FLOWS => {}
            Use::Change(change) => {
                self.flows += usize::from(change.is_flow());
                if change.make(&mut self.port).is_ok() {
                    self.changes.push(change);
                }
            }
            Use::Arm | Use::Disarm => {}
        }
    }

    /// No counter goes back.
    fn count(&mut self) {
        let counters = self.port.counters();
        self.counters.resize(counters.len(), 0);
        for (counter, last) in counters.iter().zip(&mut self.counters) {
            assert!(counter.value >= *last, "{}: {} after {last}", counter.name, counter.value);
            *last = counter.value;
        }
    }

    /// Takes back what was changed; whether all is as before. A device that gave bad answers may have filters that
    /// the driver does not know of, and is told anew what is received.
    fn is_as_before(&mut self, misbehaved: bool) -> bool {
        let Used { port, changes, flows, .. } = self;
        let is_known = !misbehaved || *flows == 0;
        *flows = 0;
        let undone = is_known && changes.drain(..).rev().all(|change| change.undo(port).is_ok());
        undone && (!misbehaved || restore(port).is_ok())
    }
}

impl Change {
    fn is_flow(self) -> bool {
        matches!(self, Change::AddFlow(_) | Change::RemoveFlow(_))
    }

    fn make(self, port: &mut I40e) -> port::Result<()> {
        match self {
            Change::AddMac(n) => port.add_mac(address(n)),
            Change::RemoveMac(n) => port.remove_mac(address(n)).map(drop),
            Change::Vlan(n, on) => port.set_vlan(n & 0xFFF, on),
            Change::Promiscuous(on) => port.set_promiscuous(on),
            Change::AllMulticast(on) => port.set_all_multicast(on),
            Change::FlowQueue(entry) => port.set_flow_queues(&[flow_queue(entry, true)]),
            Change::Stop => port.stop(),
            Change::AddFlow(n) if n & 1 == 0 => port.add_flow(&flow(n), FlowTarget::Drop),
            Change::AddFlow(n) => port.add_flow(&flow(n), FlowTarget::Queue(0)),
            Change::RemoveFlow(n) => port.remove_flow(&flow(n)).map(drop),
        }
    }

    /// Takes it back.
    fn undo(self, port: &mut I40e) -> port::Result<()> {
        match self {
            Change::AddMac(n) | Change::RemoveMac(n) => port.remove_mac(address(n)).map(drop),
            Change::Vlan(n, _) => port.set_vlan(n & 0xFFF, false),
            Change::Promiscuous(_) => port.set_promiscuous(Options::default().promiscuous),
            Change::AllMulticast(_) => port.set_all_multicast(false),
            Change::FlowQueue(entry) => port.set_flow_queues(&[flow_queue(entry, false)]),
            Change::Stop => port.start(),
            // The queue that programs filters for flows stays.
            Change::AddFlow(n) | Change::RemoveFlow(n) => port.remove_flow(&flow(n)).map(drop),
        }
    }
}

/// Tells the firmware anew what is received.
fn restore(port: &mut I40e) -> port::Result<()> {
    port.stop()?;
    port.start()?;
    port.set_promiscuous(Options::default().promiscuous)
}

/// One of some addresses.
fn address(n: u16) -> [u8; 6] {
    let [high, low] = n.to_be_bytes();
    [2, 9, 9, 9, high, low]
}

/// An entry of the table that spreads flows, with its queue or with another one.
fn flow_queue(entry: u16, other: bool) -> (usize, usize) {
    let entry = usize::from(entry);
    (entry, (entry + usize::from(other)) % firmware::QUEUES)
}

/// One of a few flows.
fn flow(n: u16) -> Flow {
    let (src, dst) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
    let transport = match n >> 1 & 1 {
        0 => Transport::Other,
        _ => Transport::Udp { src: n >> 2, dst: 9 },
    };
    Flow { addresses: Addresses::V4 { src, dst }, transport }
}

impl Run<'_, Descriptors, RxQueue, TxQueue> {
    /// The device does as it should until both rings are where they began. Whatever it did
    /// before, the driver goes on, and every buffer is in its pool or in the receive ring.
    fn drain(&mut self) {
        self.drain_tx();
        self.drain_rx();
        let [own, other] = self.pools.each_mut().map(|pool| pool.capacity() - pool.available());
        assert_eq!((own, other), (RING as usize - 1, 0), "buffers that are not in their pools");
    }

    fn drain_tx(&mut self) {
        loop {
            for at in 0..RING {
                let [low, high] = self.device.read(self.device.tx_ring, at);
                self.device.write(self.device.tx_ring, at, [low, Descriptors::sent(high)]);
            }
            let tail = self.device.tx_tail();
            self.device.write_head(tail);
            assert_eq!(self.tx.clean(&mut self.pools[0]), 0, "all was sent");
            if tail == 0 {
                return;
            }
            let mut batch = Batch::with_limit((RING - tail).min(AT_ONCE) as usize);
            while batch.room() > 0 {
                assert!(batch.push(self.frame()).is_none());
            }
            let count = batch.len();
            assert_eq!(self.tx.send(&mut self.pools[0], &mut batch), count, "there is room");
        }
    }

    fn frame(&mut self) -> Packet {
        let mut packet = self.pools[0].alloc().expect("every buffer is back in its pool");
        packet.set_len(FRAME).expect("it fits");
        packet.set_tx_offload(memory::TxOffload::default());
        packet
    }

    fn drain_rx(&mut self) {
        // All that the device has comes back, and the ring is where its tail was.
        let whole = rx_high::DD | rx_high::EOF | (FRAME as u64) << rx_high::LENGTH_SHIFT;
        let tail = self.device.rx_tail();
        (0..RING).for_each(|at| self.device.write(self.device.rx_ring, at, [0, whole]));
        while self.take(RING / 2) > 0 {}
        self.device.rx_head = tail;
        let last = RING - AT_ONCE;
        let mut ahead = (last + RING - tail) % RING;
        while ahead > 0 {
            let count = ahead.min(AT_ONCE);
            self.device.fill(count as u8, 0, whole);
            assert_eq!(self.take(count), count, "whole frames are received");
            ahead -= count;
        }
        // So many that the ring is filled up.
        self.device.fill(AT_ONCE as u8, 0, whole);
        assert_eq!(self.take(AT_ONCE), AT_ONCE, "whole frames are received");
    }

    /// Receives as many packets at most, and lets them go.
    fn take(&mut self, limit: u32) -> u32 {
        let mut batch = Batch::with_limit(limit as usize);
        let count = self.rx.recv(&mut self.pools[0], &mut batch);
        batch.drain().for_each(|packet| self.pools[0].free(packet));
        count as u32
    }
}
