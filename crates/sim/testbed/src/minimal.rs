//! A minimal 82599: as little device as a driver can be measured on.
//!
//! The whole BAR is memory that is polled; nothing is trapped. The device moves
//! descriptors as the datasheet says (7.1.6, 7.2.3) and looks at every other
//! register now and then, enough that a driver's initialisation comes to an end.
//! Received packets are taken in turn from a few and copied into the driver's
//! buffers; what is sent is counted by its descriptors and not read.
//!
//! The full model (`model::ixgbe`) filters, classifies, checks and lints, and on
//! two cores a fast driver waits for it. Here it does not, so that the driver is
//! what is measured. What this device does not do: anything with the content of
//! a packet, interrupts, statistics registers, a second buffer for a packet, and
//! tell a driver what it did wrong. A ring that a driver takes back may be
//! touched once more, in the step that is under way.

use std::io;

use model::ixgbe::eeprom::{Config, Eeprom};
use model::{Chip, Dma, Pages, Window as _};
use regs::ixgbe::descriptor::{rx_high, tx};
use regs::ixgbe::{
    ANLP1, CTRL, EEC, EERD, LINKS, MSCA, RAH, RAL, RDBAH, RDBAL, RDH, RDLEN, RDRXCTL, RDT, RXCTRL, RXDCTL,
    SECRXSTAT, SECTXSTAT, TDBAH, TDBAL, TDH, TDLEN, TDT, TDWBAH, TDWBAL, TXDCTL,
};
use wire::MacAddress;
use wire::ethernet::{self, EtherType};

use crate::device::{Device, Parts, PolledPages, Vectors};
use crate::ixgbe;
use crate::view::{BarPages, Trust, View, Window};
use crate::wire::Cable;

/// Queue pairs that are looked at.
const QUEUES: usize = 16;
/// Packets moved for a queue in one step, at most.
const BURST: u32 = 64;
/// The longest frame it gives, in bytes: what fits a driver's buffer.
const LONGEST: usize = 2048;
/// Nanoseconds from one look at the slow registers to the next.
const PERIOD_NS: u64 = 200_000;

/// A ring that its driver has handed over.
#[derive(Debug)]
struct Ring {
    /// The queue's number.
    queue: usize,
    window: Window,
    mask: u32,
    head: u32,
    /// The head as the register has it: written seldom, since the doorbell
    /// stands on the same cache line.
    published: u32,
    /// Where the head is to be written to memory, for transmit.
    write_back: Option<u64>,
}

impl Ring {
    /// How many descriptors the driver has handed over, as the tail says.
    #[inline(always)]
    fn waiting(&self, tail: u32) -> u32 {
        tail.wrapping_sub(self.head) & self.mask
    }
}

/// The device.
#[derive(Debug)]
pub struct Minimal {
    view: View,
    pages: BarPages,
    eeprom: Eeprom,
    mac: [u8; 6],
    rx: Vec<Ring>,
    tx: Vec<Ring>,
    frames: Vec<Vec<u8>>,
    /// The frame that is received next.
    next: usize,
    /// When to look at the slow registers next.
    upkeep_at_ns: u64,
    rx_packets: u64,
    tx_packets: u64,
    unreachable: u64,
}

/// Its PCI device id.
pub const DEVICE: u16 = ixgbe::DEVICE_KX4;

/// A minimal device with this address, a backplane adapter that has no module or PHY for a
/// driver to look for. It gives `frames` (without CRC, 2,048 bytes at
/// most) over and over; [`outline`] makes one. Of no frames at all it gives one of
/// 60 bytes.
///
/// # Errors
/// What making its shared pages says.
pub fn open(mac: [u8; 6], mut frames: Vec<Vec<u8>>, cable: Cable) -> io::Result<Device> {
    frames.iter_mut().for_each(|frame| frame.truncate(LONGEST));
    if frames.is_empty() {
        frames.push(outline(model::MIN_FRAME));
    }
    let shape = ixgbe::shape(DEVICE);
    let view = View::new(Trust::Peer);
    let pages = BarPages::new(ixgbe::REGISTERS)?;
    let chip = Box::new(Minimal::new(view.clone(), pages.clone(), mac, frames));
    let polled = Some(PolledPages { pages, areas: vec![(0, ixgbe::REGISTERS)] });
    Ok(Device::new(Parts { chip, shape, view, polled, vectors: Vectors::default(), cable, faults: None }))
}

impl Minimal {
    fn new(view: View, pages: BarPages, mac: [u8; 6], frames: Vec<Vec<u8>>) -> Minimal {
        let eeprom = Eeprom::new(&Config { mac, device_id: DEVICE, ..Config::default() });
        let mut minimal = Minimal {
            view,
            pages,
            eeprom,
            mac,
            rx: Vec::new(),
            tx: Vec::new(),
            frames,
            next: 0,
            upkeep_at_ns: 0,
            rx_packets: 0,
            tx_packets: 0,
            unreachable: 0,
        };
        minimal.power_on();
        minimal
    }

    /// The registers that do not begin at zero (8.2.3).
    fn power_on(&mut self) {
        self.pages.clear(0, ixgbe::REGISTERS);
        let [a, b, c, d, e, f] = self.mac;
        let values = [
            (EEC::AT, self.eeprom.read(EEC::ID).unwrap_or(0)),
            (RDRXCTL::AT, RDRXCTL::DMAIDONE),
            (LINKS::AT, LINKS::LINK_UP | LINKS::LINK_SPEED_10G | LINKS::MAC_LINK_STAT),
            (ANLP1::AT, ANLP1::AN_STATE_MASK),
            (SECRXSTAT::AT, SECRXSTAT::SECRX_RDY),
            (SECTXSTAT::AT, SECTXSTAT::SECTX_RDY),
            (RAL::at(0), u32::from_le_bytes([a, b, c, d])),
            (RAH::at(0), RAH::AV | u32::from(u16::from_le_bytes([e, f]))),
        ];
        values.iter().for_each(|&(at, value)| self.pages.store(at, value));
    }

    /// Answers what a driver waits for, and follows its queues.
    #[cold]
    fn upkeep(&mut self) {
        self.follow_reset();
        let word = self.pages.load(EERD::AT);
        if word & EERD::START != 0 {
            self.eeprom.write(EERD::ID, word);
            self.pages.store(EERD::AT, self.eeprom.read(EERD::ID).unwrap_or(0));
        }
        let command = self.pages.load(MSCA::AT);
        if command & MSCA::MDI_COMMAND != 0 {
            self.pages.store(MSCA::AT, command & !MSCA::MDI_COMMAND); // nobody answers there
        }
        self.follow_receive();
        self.follow_transmit();
    }

    /// Drivers wait no longer than some microseconds for a reset to begin.
    #[inline]
    fn follow_reset(&mut self) {
        if self.pages.load(CTRL::AT) & (CTRL::RST | CTRL::LRST) != 0 {
            (self.rx, self.tx) = (Vec::new(), Vec::new());
            self.power_on();
        }
    }

    fn follow_receive(&mut self) {
        let pages = &self.pages;
        let receiving = pages.load(RXCTRL::AT) & RXCTRL::RXEN != 0;
        let on = |n: usize| receiving && pages.load(RXDCTL::at(n)) & RXDCTL::ENABLE != 0;
        self.rx.retain(|ring| on(ring.queue));
        for n in (0..QUEUES).filter(|&n| on(n)) {
            if !self.rx.iter().any(|ring| ring.queue == n) {
                let base = u64::from(pages.load(RDBAH::at(n))) << 32 | u64::from(pages.load(RDBAL::at(n)));
                let head = pages.load(RDH::at(n));
                self.rx.extend(ring(&self.view, n, base, pages.load(RDLEN::at(n)), head));
            }
        }
        for ring in self.rx.iter_mut().filter(|ring| ring.published != ring.head) {
            ring.published = ring.head;
            pages.store(RDH::at(ring.queue), ring.head);
        }
    }

    fn follow_transmit(&mut self) {
        let pages = &self.pages;
        let on = |n: usize| pages.load(TXDCTL::at(n)) & TXDCTL::ENABLE != 0;
        self.tx.retain(|ring| on(ring.queue));
        for n in (0..QUEUES).filter(|&n| on(n)) {
            if !self.tx.iter().any(|ring| ring.queue == n) {
                let base = u64::from(pages.load(TDBAH::at(n))) << 32 | u64::from(pages.load(TDBAL::at(n)));
                let head = pages.load(TDH::at(n));
                let made = ring(&self.view, n, base, pages.load(TDLEN::at(n)), head);
                let low = pages.load(TDWBAL::at(n));
                let address = u64::from(pages.load(TDWBAH::at(n))) << 32 | u64::from(low & !3);
                let write_back = (low & TDWBAL::HEAD_WB_EN != 0).then_some(address);
                self.tx.extend(made.map(|ring| Ring { write_back, ..ring }));
            }
        }
        for ring in self.tx.iter_mut().filter(|ring| ring.published != ring.head) {
            ring.published = ring.head;
            pages.store(TDH::at(ring.queue), ring.head);
        }
    }

    /// Fills buffers (7.1.6): data first, then the write-back that shows it.
    #[inline]
    fn receive(&mut self) -> u32 {
        let mut moved = 0;
        let done = rx_high::DD | rx_high::EOP;
        for ring in &mut self.rx {
            let tail = self.pages.load(RDT::at(ring.queue));
            let burst = ring.waiting(tail).min(BURST);
            for _ in 0..burst {
                let at = ring.head as usize * 16;
                let buffer = ring.window.load(at);
                let frame = &self.frames[self.next];
                self.next = if self.next + 1 < self.frames.len() { self.next + 1 } else { 0 };
                self.unreachable += u64::from(!self.view.write(buffer, frame));
                ring.window.store(at, 0);
                ring.window.store_release(at + 8, done | (frame.len() as u64) << rx_high::LENGTH_SHIFT);
                ring.head = (ring.head + 1) & ring.mask;
            }
            moved += burst;
        }
        self.rx_packets += u64::from(moved);
        moved
    }

    /// Takes what was handed over and reports it as asked (7.2.3.5).
    #[inline]
    fn transmit(&mut self) -> u32 {
        let mut moved = 0;
        for ring in &mut self.tx {
            let tail = self.pages.load(TDT::at(ring.queue));
            let burst = ring.waiting(tail).min(2 * BURST);
            for _ in 0..burst {
                let at = ring.head as usize * 16 + 8;
                let word = ring.window.load(at);
                self.tx_packets += u64::from(word & tx::EOP != 0);
                if word & tx::RS != 0 && ring.write_back.is_none() {
                    ring.window.store_release(at, tx::DD);
                }
                ring.head = (ring.head + 1) & ring.mask;
            }
            if let (Some(address), 1..) = (ring.write_back, burst) {
                self.unreachable += u64::from(!self.view.write(address, &ring.head.to_le_bytes()));
            }
            moved += burst;
        }
        moved
    }
}

/// The ring at `base`, if it is one: a power of two of descriptors in memory
/// that the device can reach.
fn ring(view: &View, queue: usize, base: u64, len: u32, head: u32) -> Option<Ring> {
    let count = len / 16;
    let window = view.window(base, u64::from(len)).filter(|_| count.is_power_of_two())?;
    let (mask, head) = (count - 1, head & (count - 1));
    Some(Ring { queue, window, mask, head, published: head, write_back: None })
}

/// A packet in outline, of `len` bytes: broadcast, IPv4, and nothing else.
pub fn outline(len: usize) -> Vec<u8> {
    let mut frame = vec![0; len.clamp(model::MIN_FRAME, LONGEST)];
    if let Some(mut header) = ethernet::Header::of_mut(&mut frame) {
        header.set_dst(MacAddress::BROADCAST);
        header.set_src(MacAddress([2, 0, 0, 0, 0, 0]));
        header.set_ethertype(EtherType::IPV4);
    }
    frame
}

impl Chip<Cable> for Minimal {
    fn name(&self) -> &'static str {
        "82599-minimal"
    }

    fn read(&mut self, offset: u32) -> u32 {
        self.pages.load(offset)
    }

    fn write(&mut self, offset: u32, value: u32) {
        self.pages.store(offset, value);
    }

    #[inline]
    fn step(&mut self, _cable: &mut Cable, now_ns: u64) -> usize {
        if now_ns >= self.upkeep_at_ns {
            self.upkeep_at_ns = now_ns + PERIOD_NS;
            self.upkeep();
        }
        let moved = self.receive() + self.transmit();
        if moved == 0 {
            self.follow_reset();
        }
        moved as usize
    }

    fn reset(&mut self) {
        (self.rx, self.tx) = (Vec::new(), Vec::new());
        self.power_on();
    }

    fn counters(&mut self) -> Vec<(&'static str, u64)> {
        vec![("rx_packets", self.rx_packets), ("tx_packets", self.tx_packets)]
    }

    fn drops(&self) -> Vec<(&'static str, u64)> {
        vec![("rx_unreachable", self.unreachable)]
    }
}
