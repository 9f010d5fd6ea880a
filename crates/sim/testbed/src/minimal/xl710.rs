//! A minimal XL710: its firmware, registers and contexts of queues are the model's
//! (`model::i40e`), so that a driver comes up on it; its packets are moved as the datasheet
//! says (332464, chapter 8) and by nothing else. As of the minimal 82599 no register is trapped:
//! all are looked at now and then.
//!
//! What this device does not do is what the minimal 82599 does not: anything with the content
//! of a packet, interrupts, statistics, and tell a driver what it did wrong.

use std::io;

use model::i40e::{HandedRing, I40e, POLLED, QUEUES};
use model::{Chip, Pages};
use regs::Register;
use regs::i40e::descriptor::{rx_high, tx};
use regs::i40e::{
    BAR0_LEN, GLNVM_SRCTL, PF_ARQT, PF_ATQT, PFGEN_CTRL, PFHMC_SDCMD, QRX_ENA, QRX_TAIL, QTX_ENA, QTX_HEAD,
    QTX_TAIL, TABLE, lookup,
};

use super::registers::PolledRegisters;
use super::rings::{Layout, Rings, Setup};
use crate::device::{Device, Edge, Parts, PolledPages, Vectors};
use crate::function::Memory;
use crate::i40e;
use crate::view::{BarPages, Trust, View};
use crate::wire::Cable;

/// Nanoseconds from one look at the registers, and at what the firmware has to do, to the next.
const PERIOD_NS: u64 = 200_000;

/// The descriptors of the XL710, for rings that know none.
struct Descriptors;

impl Layout for Descriptors {
    const RECEIVED: u64 = rx_high::DD | rx_high::EOF;
    const LENGTH_SHIFT: u32 = rx_high::LENGTH_SHIFT;
    const LAST: (u64, u64) = (tx::DTYPE_MASK | tx::EOP, tx::DTYPE_DATA | tx::EOP);
    const REPORT: u64 = tx::RS;
    const DONE: u64 = tx::DTYPE_DONE;
}

/// Registers by which the chip is told to do something with what others say.
const COMMANDS: [Register; 7] = [
    PF_ATQT::REGISTER,
    PF_ARQT::REGISTER,
    PFHMC_SDCMD::REGISTER,
    GLNVM_SRCTL::REGISTER,
    QTX_ENA::REGISTER,
    QRX_ENA::REGISTER,
    PFGEN_CTRL::REGISTER,
];

/// The device: the model's firmware and registers, and rings that are moved here.
struct Minimal {
    chip: I40e<Memory, BarPages>,
    pages: BarPages,
    registers: PolledRegisters,
    rings: Rings<Descriptors>,
    /// When to look at what is not packets next.
    upkeep_at_ns: u64,
}

/// A minimal device with this address, an adapter with QSFP+ cages whose link is up. It gives
/// `frames` as the minimal 82599 does ([`super::open`]), to every receive queue.
///
/// # Errors
/// What making its shared pages says.
pub fn open(mac: [u8; 6], frames: Vec<Vec<u8>>, cable: Cable) -> io::Result<Device> {
    let view = View::new(Trust::Peer);
    let pages = BarPages::new(BAR0_LEN)?;
    let chip = I40e::new(Memory::without_faults(view.clone()), pages.clone(), mac);
    let rings = Rings::new(view.clone(), pages.clone(), frames);
    let registers = PolledRegisters::new(pages.clone(), TABLE, &COMMANDS, is_polled);
    let mut chip = Box::new(Minimal { chip, pages: pages.clone(), registers, rings, upkeep_at_ns: 0 });
    chip.show();
    let polled = Some(PolledPages { pages, areas: vec![(0, BAR0_LEN)] });
    let shape = i40e::shape(i40e::DEVICE_QSFP);
    let edge = Edge::new(cable, None);
    Ok(Device::new(Parts { chip, shape, view, polled, vectors: Vectors::default(), edge, faults: None }))
}

/// Whether a register is one that is looked at: those of queues that there are not are none, and
/// heads and tails belong to the rings.
fn is_polled(at: u32) -> bool {
    let is_tail = POLLED.iter().any(|&(first, len)| at.wrapping_sub(first) < len);
    let is_none = |(id, n): (regs::i40e::Id, usize)| {
        id == QTX_HEAD::ID || id.len() == QTX_HEAD::COUNT && n >= QUEUES.into()
    };
    !is_tail && !lookup(at).is_some_and(is_none)
}

/// How the driver has set a ring up.
fn setup(ring: HandedRing, tail_at: u32) -> Setup {
    let HandedRing { queue, iova, size, bytes, head, write_back } = ring;
    let len = u64::from(size) * bytes as u64;
    Setup { queue, base: iova, len, bytes, tail_at, head, write_back, legacy: false }
}

impl Minimal {
    /// Takes over the rings that run, and lets go of those that do not.
    fn follow(&mut self) {
        let Minimal { chip, pages, rings, .. } = self;
        let (rx, tx): (Vec<_>, Vec<_>) = (chip.rx_rings().collect(), chip.tx_rings().collect());
        rings.rx.retain(|ring| rx.iter().any(|handed| handed.queue == ring.queue));
        rings.tx.retain(|ring| tx.iter().any(|handed| handed.queue == ring.queue));
        let rx = rx.into_iter().map(|ring| setup(ring, QRX_TAIL::at(ring.queue)));
        let tx = tx.into_iter().map(|ring| setup(ring, QTX_TAIL::at(ring.queue)));
        rx.for_each(|setup| rings.add_rx(setup));
        tx.for_each(|setup| rings.add_tx(setup));
        // How far a queue has come is known here alone.
        for ring in rings.tx.iter_mut().filter(|ring| ring.published != ring.head) {
            ring.published = ring.head;
            pages.store(QTX_HEAD::at(ring.queue), ring.head);
        }
    }

    /// Hands what the driver wrote to the chip, and shows what that says. What rings run the chip
    /// has no news of by itself.
    #[cold]
    fn upkeep(&mut self, now_ns: u64) {
        let has_written = self.registers.take(|at, value| self.chip.write(at, value));
        self.chip.attend(true, now_ns);
        self.follow();
        if has_written || self.rings.rx.is_empty() && self.rings.tx.is_empty() {
            self.show();
        }
    }

    fn show(&mut self) {
        let Minimal { chip, registers, .. } = self;
        registers.show(|at| chip.read(at));
    }

    #[inline]
    fn step_some(&mut self, only: Option<usize>, now_ns: u64) -> usize {
        if now_ns >= self.upkeep_at_ns {
            self.upkeep_at_ns = now_ns + PERIOD_NS;
            self.upkeep(now_ns);
        }
        self.rings.step(only) as usize
    }
}

impl Chip<Edge> for Minimal {
    fn name(&self) -> &'static str {
        "xl710-minimal"
    }

    fn read(&mut self, offset: u32) -> u32 {
        self.pages.load(offset)
    }

    fn write(&mut self, offset: u32, value: u32) {
        self.pages.store(offset, value);
    }

    fn set_bus_master(&mut self, on: bool) {
        self.chip.set_bus_master(on);
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
        self.chip.reset();
        self.rings.clear();
        self.show();
    }

    fn counters(&mut self) -> Vec<(&'static str, u64)> {
        self.rings.counters()
    }

    fn drops(&self) -> Vec<(&'static str, u64)> {
        self.rings.drops()
    }
}
