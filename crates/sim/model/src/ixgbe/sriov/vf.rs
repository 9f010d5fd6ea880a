//! A virtual function from inside, as a device of its own (82599 datasheet rev. 3.4, section 8.3):
//! its registers, its side of the mailbox, and its queues in its own client's memory. Those are the
//! queues of a pool: their registers are the physical function's by another place, so they are a
//! whole receive and transmit side of an [`Ixgbe`] of its own, whose other registers the slot sets
//! as the pool's are. What its linter finds at a ring names the physical function's register.

use regs::Access;
use regs::ixgbe::{
    self, DMATXCTL, EIAC, EIAM, EICR, EICS, EIMC, EIMS, EITR, FCTRL, GPIE, IVAR, MRQC, RXCTRL,
};
use regs::ixgbevf::*;

use super::SHARED;
use super::slot::{Settings, SharedSlot};
use crate::ixgbe::lint::{Register, Rule};
use crate::ixgbe::{Ixgbe, Options};
use crate::lint::Broken;
use crate::{Chip, Dma, Interrupts, Pages, Wire};

/// The pages of BAR 0 that both sides see in memory: receive rings and transmit rings, and what is
/// counted.
pub const POLLED: [(u32, u32); 2] = [(VFRDBAL::at(0), 0x1000), (VFTDBAL::at(0), 0x1000)];

/// How far the registers of transmit rings are from where the physical function has them.
const TX_SHIFT: u32 = ixgbe::TDBAL::at(0) - VFTDBAL::at(0);
const _: () = assert!(ixgbe::RDBAL::at(0) == VFRDBAL::at(0) && ixgbe::RXDCTL::at(1) == VFRXDCTL::at(1));
/// Bytes of one ring's registers, and where the physical function has counters in them.
const LINE: u32 = VFRDBAL::REGISTER.stride;
const RX_COUNTERS: u32 = ixgbe::QPRC::at(0) - ixgbe::RDBAL::at(0);
const TX_COUNTERS: u32 = ixgbe::QPTC_ALIAS::at(0) - ixgbe::TDBAL::at(0);
/// Frames that are received in a step.
const BURST: usize = 64;

/// Shared pages, by the physical function's places of the rings' registers.
struct RingPages<P>(P);

impl<P> RingPages<P> {
    /// Where a virtual function has such a register.
    fn place(offset: u32) -> Option<u32> {
        let lines = LINE * QUEUES as u32;
        let (rx, tx) = (offset.wrapping_sub(ixgbe::RDBAL::at(0)), offset.wrapping_sub(ixgbe::TDBAL::at(0)));
        match (rx < lines, tx < lines) {
            (true, _) if rx % LINE < RX_COUNTERS => Some(offset),
            (_, true) if tx % LINE != TX_COUNTERS => Some(offset - TX_SHIFT),
            _ => None,
        }
    }
}

impl<P: Pages> Pages for RingPages<P> {
    fn load(&self, offset: u32) -> u32 {
        RingPages::<P>::place(offset).map_or(0, |at| self.0.load(at))
    }

    fn store(&self, offset: u32, value: u32) {
        if let Some(at) = RingPages::<P>::place(offset) {
            self.0.store(at, value);
        }
    }
}

/// The frames of a step, as a wire.
#[derive(Default)]
struct Frames {
    received: std::vec::IntoIter<Vec<u8>>,
    sent: Vec<Vec<u8>>,
}

impl Wire for Frames {
    fn receive(&mut self, frame: &mut [u8]) -> Option<usize> {
        let next = self.received.next()?;
        let len = next.len().min(frame.len());
        frame[..len].copy_from_slice(&next[..len]);
        Some(len)
    }

    fn transmit(&mut self, frame: &[u8]) {
        self.sent.push(frame.to_vec());
    }
}

/// A virtual function. `D` is its view of its client's memory, `P` the pages it shares with it.
pub struct Vf<D: Dma, P: Pages> {
    queues: Ixgbe<D, RingPages<P>>,
    slot: SharedSlot,
    /// Resets that were followed.
    resets: u64,
    settings: Settings,
    /// VFPSRTYPE and VTIVAR_MISC.
    split: u32,
    mailbox_vector: u32,
    /// Multicast frames received.
    multicast: u64,
}

impl<D: Dma, P: Pages> Vf<D, P> {
    /// A virtual function with its slot.
    pub fn new(dma: D, pages: P, slot: SharedSlot) -> Vf<D, P> {
        let mut queues = Ixgbe::new(dma, RingPages(pages), &Options::default());
        queues.link.hold_up();
        let settings = Settings::default();
        let mut vf = Vf { queues, slot, resets: 0, settings, split: 0, mailbox_vector: 0, multicast: 0 };
        vf.reset_queues();
        vf
    }

    /// Where interrupts go; without one they stay pending.
    pub fn set_interrupts(&mut self, messages: Option<Box<dyn Interrupts>>) {
        self.queues.set_interrupts(messages);
    }

    /// As a reset leaves its queues and interrupts.
    fn reset_queues(&mut self) {
        self.queues.reset_as_pool();
        // Virtual functions have MSI-X alone (7.3.1.3), each vector masked by itself.
        let interrupts = &mut self.queues.host.counters.interrupts;
        interrupts.write(GPIE::ID, 0, GPIE::MULTIPLE_MSIX | GPIE::EIAME, self.queues.now_ns);
        (self.split, self.mailbox_vector) = (0, 0);
        self.set_up();
    }

    /// Sets the registers behind the queues as the pool's are: all frames that come are for it.
    fn set_up(&mut self) {
        let Settings { hash, key, table, shared, .. } = &self.settings;
        let registers = &mut self.queues.registers;
        for (at, value) in SHARED.into_iter().zip(shared).filter(|_| self.settings.queues > 0) {
            registers.write(at, *value);
        }
        for (n, rate) in self.settings.rates.into_iter().enumerate().take(self.settings.queues.into()) {
            registers.set_rate(n, rate);
        }
        registers.write(FCTRL::AT, FCTRL::UPE | FCTRL::MPE | FCTRL::BAM);
        registers.write(ixgbe::VLNCTRL::AT, registers.read(ixgbe::VLNCTRL::AT) & !ixgbe::VLNCTRL::VFE);
        registers.write(RXCTRL::AT, RXCTRL::RXEN);
        registers.write(DMATXCTL::AT, registers.read(DMATXCTL::AT) | DMATXCTL::TE);
        let spread = 1 << (self.split >> VFPSRTYPE::RQPL_SHIFT).min(3);
        let mask = u8::min(spread, self.settings.queues.max(1)) - 1;
        let mode = if *hash != 0 && mask > 0 { hash & !MRQC::MRQE_MASK | MRQC::MRQE_RSS } else { 0 };
        registers.write(MRQC::AT, mode);
        for (n, word) in key.iter().enumerate() {
            registers.write(ixgbe::RSSRK::at(n), *word);
        }
        for (n, word) in table.iter().enumerate() {
            registers.write(ixgbe::RETA::at(n), word & u32::from_ne_bytes([mask; 4]));
        }
        self.queues.stale = true;
    }

    /// Does what the physical function wants since it was looked at.
    fn follow(&mut self) {
        let (reset, changed, event) = {
            let mut slot = self.slot.lock();
            let reset = slot.resets != std::mem::replace(&mut self.resets, slot.resets);
            let changed = std::mem::take(&mut slot.stale);
            self.settings = slot.settings;
            (reset, changed, std::mem::take(&mut slot.mailbox.event))
        };
        match (reset, changed) {
            (true, _) => self.reset_queues(),
            (false, true) => self.set_up(),
            _ => {}
        }
        let vector = self.mailbox_vector;
        if event && vector & VTIVAR_MISC::VALID != 0 {
            let vector = (vector & VTIVAR_MISC::VECTOR_MASK) as u8;
            self.queues.host.counters.interrupts.cause_vector(vector);
        }
    }

    /// Frames of a step; how many moved.
    fn work(&mut self, now_ns: u64) -> usize {
        let Settings { queues, may_send, links, .. } = self.settings;
        let (received, room) = {
            let mut slot = self.slot.lock();
            (slot.frames.received(BURST), slot.frames.has_room())
        };
        self.multicast += received.iter().filter(|frame| is_multicast(frame)).count() as u64;
        let wait = !received.is_empty() && self.queues.rx.active.len() < queues.into();
        let mut frames = Frames { received: received.into_iter(), sent: Vec::new() };
        let may_send = may_send && room && links & ixgbe::LINKS::LINK_UP != 0;
        let (moved, looked) = self.queues.step_as_pool(&mut frames, may_send, wait, now_ns);
        let mut slot = self.slot.lock();
        match slot.resets == self.resets {
            true => slot.frames.send(frames.sent),
            // What was sent before a reset does not leave after it.
            false => slot.frames.lost_by_reset += frames.sent.len() as u64,
        }
        drop(slot);
        if looked {
            self.show_counters();
        }
        moved
    }

    /// The counters, which lie in the polled pages and do not clear (8.3.5.7). Bytes count CRCs.
    fn show_counters(&mut self) {
        let totals = self.queues.totals();
        let with_crc = |bytes: u64, packets: u64| (bytes + 4 * packets) & ((1 << 36) - 1);
        let (rx, tx) =
            (with_crc(totals.rx_bytes, totals.rx_packets), with_crc(totals.tx_bytes, totals.tx_packets));
        let pages = &self.queues.host.pages.0;
        for (at, value) in [
            (VFGPRC::AT, totals.rx_packets),
            (VFGPTC::AT, totals.tx_packets),
            (VFGORC_LSB::AT, rx),
            (VFGORC_MSB::AT, rx >> 32),
            (VFGOTC_LSB::AT, tx),
            (VFGOTC_MSB::AT, tx >> 32),
            (VFMPRC::AT, self.multicast),
        ] {
            pages.store(at, value as u32);
        }
    }

    fn report(&mut self, rule: Rule, register: Register, value: u32) {
        self.queues.report(rule, register, value.into());
    }

    /// The physical function's interrupt register that does what one of these does.
    fn interrupt_register(id: Id) -> Option<ixgbe::Id> {
        Some(match id {
            VTEICR::ID => EICR::ID,
            VTEICS::ID => EICS::ID,
            VTEIMS::ID => EIMS::ID,
            VTEIMC::ID => EIMC::ID,
            VTEIAC::ID => EIAC::ID,
            VTEIAM::ID => EIAM::ID,
            VTIVAR::ID => IVAR::ID,
            VTEITR::ID => EITR::ID,
            _ => return None,
        })
    }

    /// What an interrupt register takes: a virtual function has few vectors.
    fn interrupt_value(id: Id, value: u32) -> u32 {
        match id {
            VTIVAR::ID => value & u32::from_ne_bytes([(VTIVAR::VALID | VTIVAR_MISC::VECTOR_MASK) as u8; 4]),
            VTEITR::ID => value,
            _ => value & ((1 << VECTORS) - 1),
        }
    }

    /// Where the physical function has a register of a ring.
    fn ring_register(offset: u32) -> Option<u32> {
        let tx = offset.wrapping_add(TX_SHIFT);
        [offset, tx].into_iter().find(|at| RingPages::<P>::place(*at) == Some(offset))
    }

    fn read_kept(&mut self, id: Id, n: usize) -> u32 {
        match id {
            VFLINKS::ID => self.settings.links,
            VFFRTIMER::ID => (self.queues.now_ns / 1000) as u32,
            VFMAILBOX::ID => self.slot.lock().mailbox.read_by_vf(),
            VFMBMEM::ID => self.slot.lock().mailbox.memory[n],
            VFPSRTYPE::ID => self.split,
            VTIVAR_MISC::ID => self.mailbox_vector,
            _ => 0,
        }
    }

    fn write_kept(&mut self, id: Id, n: usize, value: u32) {
        match id {
            VFCTRL::ID if value & VFCTRL::RST != 0 => {
                self.slot.lock().reset_by_vf();
                self.follow();
            }
            VFMAILBOX::ID => self.slot.lock().mailbox.write_by_vf(value),
            VFMBMEM::ID => {
                let mut slot = self.slot.lock();
                slot.mailbox.memory[n] = value;
                let held = slot.mailbox.writers().0;
                drop(slot);
                if !held {
                    self.report(Rule::MailboxNotHeld, Register::Unknown(id.at(n)), value);
                }
            }
            VFPSRTYPE::ID => {
                self.split = value;
                self.set_up();
            }
            VTIVAR_MISC::ID => self.mailbox_vector = value,
            _ => {}
        }
    }
}

/// Whether a frame is to several, but not to all.
fn is_multicast(frame: &[u8]) -> bool {
    frame.first_chunk::<6>().is_some_and(|to| to[0] & 1 != 0 && *to != [0xFF; 6])
}

impl<D, P, W> Chip<W> for Vf<D, P>
where
    D: Dma<Window: Send> + Send,
    P: Pages + Send,
    W: Wire,
{
    fn name(&self) -> &'static str {
        "82599-vf"
    }

    fn read(&mut self, offset: u32) -> u32 {
        self.follow();
        let Some((id, n)) = lookup(offset) else {
            self.report(Rule::UnknownRegister, Register::Unknown(offset), 0);
            return 0;
        };
        let now = self.queues.now_ns;
        if let Some(of_pf) = Vf::<D, P>::interrupt_register(id) {
            return self.queues.host.counters.interrupts.read(of_pf, n, now).unwrap_or(0);
        }
        if POLLED.iter().any(|&(first, len)| offset.wrapping_sub(first) < len) {
            self.show_counters();
            let ring = Vf::<D, P>::ring_register(offset).filter(|_| id.access != Access::RO);
            return match ring {
                Some(at) => self.queues.read(at),
                None => self.queues.host.pages.0.load(offset),
            };
        }
        self.read_kept(id, n)
    }

    fn write(&mut self, offset: u32, value: u32) {
        self.follow();
        let Some((id, n)) = lookup(offset) else {
            return self.report(Rule::UnknownRegister, Register::Unknown(offset), value);
        };
        if id.access == Access::RO {
            return self.report(Rule::ReadOnlyWritten, Register::Unknown(offset), value);
        }
        let now = self.queues.now_ns;
        if let Some(of_pf) = Vf::<D, P>::interrupt_register(id) {
            let value = Vf::<D, P>::interrupt_value(id, value);
            let interrupts = &mut self.queues.host.counters.interrupts;
            interrupts.write(of_pf, n, value, now);
            // DPDK's driver unmasks all vectors before it maps any.
            let broken = interrupts.violation().filter(|rule| *rule != Rule::InterruptWithoutVector);
            broken.into_iter().for_each(|rule| self.report(rule, Register::Unknown(offset), value));
        } else if let Some(at) = Vf::<D, P>::ring_register(offset) {
            self.queues.write(at, value);
        } else {
            self.write_kept(id, n, value);
        }
    }

    fn odd(&mut self, offset: u32, len: usize) {
        Chip::<W>::odd(&mut self.queues, offset, len);
    }

    fn set_bus_master(&mut self, on: bool) {
        self.queues.set_bus_master(on);
    }

    fn step(&mut self, _wire: &mut W, now_ns: u64) -> usize {
        self.follow();
        self.work(now_ns)
    }

    fn reset(&mut self) {
        self.slot.lock().reset_by_vf();
        self.follow();
        self.queues.host.dma.forget();
    }

    fn counters(&mut self) -> Vec<(&'static str, u64)> {
        Chip::<W>::counters(&mut self.queues)
    }

    fn drops(&self) -> Vec<(&'static str, u64)> {
        let slot = self.slot.lock();
        let own = [
            ("tx_spoofed", slot.spoofed),
            ("rx_vf_full", slot.frames.full),
            ("vf_reset", slot.frames.lost_by_reset),
        ];
        let others = self.queues.drops().iter().filter(|(name, _)| own.iter().all(|(own, _)| own != name));
        others.chain(own).collect()
    }

    fn findings(&self) -> Vec<Broken> {
        self.queues.lint().findings().broken()
    }
}
