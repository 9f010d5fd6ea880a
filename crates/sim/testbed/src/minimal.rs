//! A minimal 82599: as little device as a driver can be measured on; and a minimal XL710
//! likewise ([`xl710`]).
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

mod registers;
mod rings;
pub mod xl710;

use std::io;

use model::ixgbe::eeprom::{Config, Eeprom};
use model::{Chip, Pages};
use regs::ixgbe::descriptor::{rx_high, rx_legacy, tx};
use regs::ixgbe::{
    ANLP1, CTRL, EEC, EERD, LINKS, MSCA, RAH, RAL, RDBAH, RDBAL, RDH, RDLEN, RDRXCTL, RDT, RXCTRL, RXDCTL,
    SECRXSTAT, SECTXSTAT, SRRCTL, SRRCTL_ALIAS, TDBAH, TDBAL, TDH, TDLEN, TDT, TDWBAH, TDWBAL, TXDCTL,
};
use wire::MacAddress;
use wire::ethernet::{self, EtherType};

use crate::device::{Device, Edge, Parts, PolledPages, Vectors};
use crate::ixgbe;
use crate::view::{BarPages, Trust, View};
use crate::wire::Cable;
use rings::{DESCRIPTOR, LONGEST, Layout, Rings, Setup};

/// Queue pairs that are looked at.
const QUEUES: usize = 16;
/// Nanoseconds from one look at the slow registers to the next.
const PERIOD_NS: u64 = 200_000;

/// Its descriptors (7.1.6, 7.2.3).
#[derive(Debug)]
struct Descriptors;

impl Layout for Descriptors {
    const RECEIVED: u64 = rx_high::DD | rx_high::EOP;
    const LENGTH_SHIFT: u32 = rx_high::LENGTH_SHIFT;
    const LEGACY: u64 = rx_legacy::DD | rx_legacy::EOP;
    const LAST: (u64, u64) = (tx::EOP, tx::EOP);
    const REPORT: u64 = tx::RS;
    const DONE: u64 = tx::DD;
}

/// The device: what its registers hold, and its rings.
#[derive(Debug)]
pub struct Minimal {
    pages: BarPages,
    eeprom: Eeprom,
    mac: [u8; 6],
    rings: Rings<Descriptors>,
    /// When to look at the slow registers next.
    upkeep_at_ns: u64,
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
pub fn open(mac: [u8; 6], frames: Vec<Vec<u8>>, cable: Cable) -> io::Result<Device> {
    let shape = ixgbe::shape(DEVICE);
    let view = View::new(Trust::Peer);
    let pages = BarPages::new(ixgbe::REGISTERS)?;
    let chip = Box::new(Minimal::new(view.clone(), pages.clone(), mac, frames));
    let polled = Some(PolledPages { pages, areas: vec![(0, ixgbe::REGISTERS)] });
    let edge = Edge::new(cable, None);
    Ok(Device::new(Parts { chip, shape, view, polled, vectors: Vectors::default(), edge, faults: None }))
}

impl Minimal {
    fn new(view: View, pages: BarPages, mac: [u8; 6], frames: Vec<Vec<u8>>) -> Minimal {
        let eeprom = Eeprom::new(&Config { mac, device_id: DEVICE, ..Config::default() });
        let rings = Rings::new(view, pages.clone(), frames);
        let mut minimal = Minimal { pages, eeprom, mac, rings, upkeep_at_ns: 0 };
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
            self.rings.clear();
            self.power_on();
        }
    }

    fn follow_receive(&mut self) {
        let Minimal { pages, rings, .. } = self;
        let receiving = pages.load(RXCTRL::AT) & RXCTRL::RXEN != 0;
        let on = |n: usize| receiving && pages.load(RXDCTL::at(n)) & RXDCTL::ENABLE != 0;
        rings.rx.retain(|ring| on(ring.queue));
        for queue in (0..QUEUES).filter(|&n| on(n)) {
            let base = address(pages, RDBAH::at(queue), RDBAL::at(queue));
            let (len, head) = (pages.load(RDLEN::at(queue)).into(), pages.load(RDH::at(queue)));
            // Memory does not know that a register has two places; a driver writes to one of them.
            let split = pages.load(SRRCTL::at(queue)) | pages.load(SRRCTL_ALIAS::at(queue));
            let legacy = split & SRRCTL::DESCTYPE_MASK == SRRCTL::DESCTYPE_LEGACY;
            let tail_at = RDT::at(queue);
            rings.add_rx(Setup {
                queue,
                base,
                len,
                bytes: DESCRIPTOR,
                tail_at,
                head,
                write_back: None,
                legacy,
            });
        }
        for ring in rings.rx.iter_mut().filter(|ring| ring.published != ring.head) {
            ring.published = ring.head;
            pages.store(RDH::at(ring.queue), ring.head);
        }
    }

    fn follow_transmit(&mut self) {
        let Minimal { pages, rings, .. } = self;
        let on = |n: usize| pages.load(TXDCTL::at(n)) & TXDCTL::ENABLE != 0;
        rings.tx.retain(|ring| on(ring.queue));
        for queue in (0..QUEUES).filter(|&n| on(n)) {
            let base = address(pages, TDBAH::at(queue), TDBAL::at(queue));
            let (len, head) = (pages.load(TDLEN::at(queue)).into(), pages.load(TDH::at(queue)));
            let wanted = pages.load(TDWBAL::at(queue)) & TDWBAL::HEAD_WB_EN != 0;
            let write_back = wanted.then(|| address(pages, TDWBAH::at(queue), TDWBAL::at(queue)) & !3);
            let tail_at = TDT::at(queue);
            rings.add_tx(Setup {
                queue,
                base,
                len,
                bytes: DESCRIPTOR,
                tail_at,
                head,
                write_back,
                legacy: false,
            });
        }
        for ring in rings.tx.iter_mut().filter(|ring| ring.published != ring.head) {
            ring.published = ring.head;
            pages.store(TDH::at(ring.queue), ring.head);
        }
    }

    #[inline]
    fn step_some(&mut self, only: Option<usize>, now_ns: u64) -> usize {
        if now_ns >= self.upkeep_at_ns {
            self.upkeep_at_ns = now_ns + PERIOD_NS;
            self.upkeep();
        }
        let moved = self.rings.step(only);
        if moved == 0 {
            self.follow_reset();
        }
        moved as usize
    }
}

/// The address that two registers have.
fn address(pages: &BarPages, high: u32, low: u32) -> u64 {
    u64::from(pages.load(high)) << 32 | u64::from(pages.load(low))
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

impl Chip<Edge> for Minimal {
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
    fn step(&mut self, _edge: &mut Edge, now_ns: u64) -> usize {
        self.step_some(None, now_ns)
    }

    #[inline]
    fn step_queue(&mut self, _edge: &mut Edge, now_ns: u64, queue: usize) -> usize {
        self.step_some(Some(queue), now_ns)
    }

    fn reset(&mut self) {
        self.rings.clear();
        self.power_on();
    }

    fn counters(&mut self) -> Vec<(&'static str, u64)> {
        self.rings.counters()
    }

    fn drops(&self) -> Vec<(&'static str, u64)> {
        self.rings.drops()
    }
}
