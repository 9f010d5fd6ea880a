//! A virtual function from inside, as a device of its own: its registers, its mailbox, and its queues
//! in its own client's memory (datasheet 332464, chapters 7, 8 and 10). It learns what the physical
//! function wants of it, and gives and takes frames, through its slot.

mod queues;
mod said;
mod talk;

use regs::Access;
use regs::i40e::admin::{Descriptor, error, flag, opcode};
use regs::i40e::{Family, PFINT_ICR0};
use regs::iavf::*;
use regs::virtchnl::message::Select;
use regs::virtchnl::op;

use super::super::admin::{Message, VF_RECEIVE, VF_SEND};
use super::super::director::Director;
use super::super::firmware::Answer;
use super::super::host::{Counters, Host};
use super::super::lint::{Location, Rule};
use super::super::registers::RegisterFile;
use super::super::ring::Awaited;
use super::super::rx::Rx;
use super::super::statistics::{RX, TX};
use super::super::tx::Tx;
use super::slot::SharedSlot;
use crate::headers::parse;
use crate::lint::Broken;
use crate::{Chip, Dma, Interrupts, Pages, Wire};
use talk::Talk;
use wire::ethernet::EtherType;

/// The pages of BAR 0 that both sides see in memory: the tails of transmit and of receive queues. The
/// times between interrupts stand in the second, too.
pub const POLLED: [(u32, u32); 2] = [(QTX_TAIL1::at(0), 0x1000), (QRX_TAIL1::at(0), 0x1000)];

/// Bits of a time between interrupts.
const INTERVAL_MASK: u32 = 0xFFF;
/// Vectors of VFINT_ITRN1 for each of its times.
const PER_INTERVAL: usize = 16;
/// Registers that tell a driver of a reset, or that it writes when it has seen one.
const TELLS_OF_RESETS: [Id; 3] = [VFGEN_RSTAT::ID, VF_ATQLEN1::ID, VF_ARQLEN1::ID];
/// Frames that are received in a step.
const BURST: usize = 64;

/// The registers that keep what is written.
#[derive(Debug)]
struct Registers(Box<[u32]>);

impl RegisterFile for Registers {
    fn read(&self, offset: u32) -> u32 {
        self.0.get(offset as usize / 4).copied().unwrap_or(0)
    }

    fn write(&mut self, offset: u32, value: u32) {
        self.0.get_mut(offset as usize / 4).into_iter().for_each(|place| *place = value);
    }
}

/// A virtual function. `D` is its view of its client's memory, `P` the pages it shares with it.
pub struct Vf<D: Dma, P: Pages> {
    host: Host<D, P>,
    slot: SharedSlot,
    registers: Registers,
    generation: u64,
    /// Resets that were followed, and what was wanted of each queue when it was looked at.
    resets: u64,
    serials: [[u64; QUEUES]; 2],
    /// The driver cannot know of the last reset yet: it has looked at nothing that tells it.
    unseen_reset: bool,
    /// What the driver says and waits for.
    talk: Talk,
    /// The time of the last step.
    now_ns: u64,
    rx: Rx<D::Window>,
    tx: Tx<D::Window>,
    /// It has no filters of flows: descriptors that ask for some are refused.
    director: Director,
    messages: Option<Box<dyn Interrupts>>,
    /// Messages that the firmware carried, and those that it did not.
    sent: u64,
    refused: u64,
}

impl<D: Dma, P: Pages> Vf<D, P> {
    /// A virtual function with its slot.
    pub fn new(dma: D, pages: P, slot: SharedSlot) -> Vf<D, P> {
        let mut vf = Vf {
            generation: dma.generation(),
            host: Host { dma, pages, counters: Counters::default() },
            slot,
            registers: Registers(vec![0; BAR0_LEN as usize / 4].into()),
            resets: 0,
            serials: [[0; QUEUES]; 2],
            unseen_reset: false,
            talk: Talk::default(),
            now_ns: 0,
            rx: Rx::new(Family::default(), QUEUES as u16, QRX_TAIL1::REGISTER),
            tx: Tx::new(QUEUES as u16, QTX_TAIL1::REGISTER),
            director: Director::new(Family::default()),
            messages: None,
            sent: 0,
            refused: 0,
        };
        vf.reset_function();
        vf
    }

    /// Where interrupts go; without one they stay pending.
    pub fn set_interrupts(&mut self, messages: Option<Box<dyn Interrupts>>) {
        self.messages = messages;
    }

    /// As a reset leaves it.
    fn reset_function(&mut self) {
        self.await_queues(u32::MAX, u32::MAX, None);
        self.talk.reset(self.now_ns);
        let Vf { host, rx, tx, .. } = self;
        rx.queues.iter_mut().for_each(|queue| queue.ring.disable());
        tx.queues.iter_mut().for_each(|queue| queue.disable(&mut host.counters));
        for (first, len) in POLLED {
            (first..first + len).step_by(4).for_each(|at| host.pages.store(at, 0));
        }
        host.counters.interrupts.reset();
        host.counters.malicious = false;
        self.registers.0.fill(0);
    }

    /// Mappings have changed: rings are translated anew.
    #[cold]
    fn translate(&mut self) {
        let Vf { host, rx, tx, .. } = self;
        rx.queues.iter_mut().for_each(|queue| queue.ring.translate(host));
        tx.queues.iter_mut().for_each(|queue| queue.ring.translate(host));
    }

    /// Frames and messages of a step; frames moved.
    fn work(&mut self) -> usize {
        self.follow();
        let generation = self.host.dma.generation();
        if generation != self.generation {
            self.generation = generation;
            self.translate();
        }
        self.post_messages();
        let Vf { host, rx, tx, director, slot, talk, .. } = self;
        let pages = &host.pages;
        talk.check_tails(|n| pages.load(QTX_TAIL1::at(n)), &mut host.counters);
        for queue in rx.queues.iter_mut().filter(|queue| queue.ring.enabled) {
            queue.ring.poll(host);
        }
        let (frames, room) = {
            let mut slot = slot.lock();
            (slot.frames.received(BURST), slot.frames.has_room())
        };
        for frame in &frames {
            host.counters.rx_offered += 1;
            let headers = parse(frame, 1, |ethertype| ethertype == EtherType::VLAN);
            rx.take(host, director, frame, &headers, None);
        }
        rx.raise(host);
        let mut sent: Vec<Vec<u8>> = Vec::new();
        let taken = match room {
            true => tx.step(host, director, true, &mut |_, frame| {
                sent.push(frame.to_vec());
                false
            }),
            false => 0,
        };
        let mut slot = slot.lock();
        if frames.len() + taken > 0 {
            slot.statistics = host.counters.statistics.clone();
        }
        match slot.resets == self.resets {
            true => {
                slot.malicious |= std::mem::take(&mut host.counters.malicious);
                slot.frames.send(sent);
            }
            // What was sent before a reset does not leave after it.
            false => slot.frames.lost_by_reset += sent.len() as u64,
        }
        frames.len() + taken
    }

    /// Gives the driver the messages of the physical function, as far as it has lent descriptors.
    fn post_messages(&mut self) {
        while self.slot.lock().has_messages().1 && self.post_message() {}
    }

    /// Gives the driver one message; `false` when there is no other, or no descriptor for it: it waits.
    fn post_message(&mut self) -> bool {
        let Vf { host, slot, registers, .. } = self;
        let Some((place, lent)) = VF_RECEIVE.take(registers, &host.dma, &mut host.counters) else {
            return false;
        };
        let Some(message) = slot.lock().next_for_vf() else { return false };
        let opcode = opcode::SEND_MSG_TO_VF;
        let Some(event) = message.event(opcode, 0, &lent, &host.dma, &mut host.counters) else {
            host.counters.report(Rule::MessageLost, Location::Command(opcode), 0);
            return true;
        };
        if !VF_RECEIVE.put(registers, &host.dma, &mut host.counters, place, &event) {
            return false;
        }
        host.counters.interrupts.cause(PFINT_ICR0::ADMINQ);
        let pages = &host.pages;
        let tail = |n| pages.load(QTX_TAIL1::at(n));
        if self.talk.hears(&message, tail) == op::DISABLE_QUEUES {
            self.await_queues(u32::MAX, u32::MAX, None);
        }
        true
    }

    /// The driver moved the tail of the send queue.
    fn run_commands(&mut self) {
        let Some(size) = VF_SEND.moved(&self.registers, &mut self.host.counters) else { return };
        for _ in 0..size {
            let (registers, host) = (&mut self.registers, &mut self.host);
            let Some((place, mut command)) = VF_SEND.take(registers, &host.dma, &mut host.counters) else {
                return;
            };
            let answer = self.command(&command);
            command.flags |= flag::DD | flag::CMP;
            command.retval = answer.err().unwrap_or(0);
            command.flags |= if answer.is_err() { flag::ERR } else { 0 };
            self.host.counters.commands += 1;
            let (registers, host) = (&mut self.registers, &mut self.host);
            if !VF_SEND.put(registers, &host.dma, &mut host.counters, place, &command) {
                return;
            }
        }
    }

    /// Sends a message; the firmware has next to no other command for virtual functions.
    fn command(&mut self, command: &Descriptor) -> Answer {
        let sent = match command.opcode {
            opcode::SEND_MSG_TO_PF => self.send(command),
            opcode::QUEUE_SHUTDOWN => return Ok(()),
            other => {
                self.host.counters.report(Rule::AdminUnknownCommand, Location::Command(other), 0);
                Err(error::EPERM)
            }
        };
        *if sent.is_ok() { &mut self.sent } else { &mut self.refused } += 1;
        sent
    }

    /// Sends a message to the physical function.
    fn send(&mut self, command: &Descriptor) -> Answer {
        let Vf { host, slot, talk, resets, now_ns, .. } = self;
        let message = Message::of(command, &host.dma, &mut host.counters)?;
        let mut shared = slot.lock();
        // Likewise one of before a reset.
        if shared.resets != *resets || !shared.tell_pf(message.clone()) {
            return Err(error::EBUSY);
        }
        drop(shared);
        if let Some(Select { rx, tx, .. }) = talk.says(&message, *now_ns, &mut host.counters) {
            self.await_queues(rx, tx, Some(Awaited::Stop));
        }
        Ok(())
    }

    /// Times between interrupts are written to a page that nobody looks at but here.
    fn take_intervals(&mut self) {
        for n in 0..VFINT_ITRN1::COUNT {
            let written = self.host.pages.load(VFINT_ITRN1::at(n));
            let units = written & INTERVAL_MASK;
            let counters = &mut self.host.counters;
            counters.interrupts.set_interval(n % PER_INTERVAL + 1, n / PER_INTERVAL, units as u16);
            if written != units {
                let place = Location::VfRegister(VFINT_ITRN1::ID, n as u16);
                counters.report(Rule::IntervalInvalid, place, written.into());
            }
        }
    }

    /// A register of the hash, which the physical function sees as its own.
    fn hash_register(&self, id: Id, n: usize, value: Option<u32>) -> u32 {
        let mut slot = self.slot.lock();
        slot.stale |= value.is_some();
        let place = match id {
            VFQF_HENA::ID => slot.hash.classes.get_mut(n),
            VFQF_HKEY::ID => slot.hash.key.get_mut(n),
            _ => slot.hash.table.get_mut(n),
        };
        let Some(place) = place else { return 0 };
        value.into_iter().for_each(|value| *place = value);
        *place
    }

    /// What a register reads that is not in a page.
    fn value(&mut self, offset: u32, id: Id, n: usize) -> u32 {
        match id {
            VFGEN_RSTAT::ID => self.slot.lock().state,
            VFINT_ICR01::ID => self.host.counters.interrupts.take_causes(),
            VFINT_DYN_CTL01::ID => self.host.counters.interrupts.read_control(0),
            VFINT_DYN_CTLN1::ID => self.host.counters.interrupts.read_control(n + 1),
            VFQF_HENA::ID | VFQF_HKEY::ID | VFQF_HLUT::ID => self.hash_register(id, n, None),
            _ => self.registers.read(offset),
        }
    }

    /// Acts on the write of a register that is not in a page.
    fn act(&mut self, offset: u32, id: Id, n: usize, value: u32) {
        let interrupts = &mut self.host.counters.interrupts;
        match id {
            VFINT_DYN_CTL01::ID => return interrupts.control(0, value),
            VFINT_DYN_CTLN1::ID => {
                interrupts.control(n + 1, value);
                return self.talk.check_vector(n + 1, value, &mut self.host.counters);
            }
            VFINT_ICR0_ENA1::ID => interrupts.set_wanted(value),
            VFINT_ITR01::ID => interrupts.set_interval(0, n, value as u16 & 0xFFF),
            VFQF_HENA::ID | VFQF_HKEY::ID | VFQF_HLUT::ID => {
                self.hash_register(id, n, Some(value));
                return;
            }
            _ => {}
        }
        self.registers.write(offset, value);
        self.unseen_reset &= !TELLS_OF_RESETS.contains(&id);
        match id {
            // The physical function turned the queue off between two steps of the driver.
            VF_ARQT1::ID if self.unseen_reset => {}
            VF_ATQT1::ID if self.unseen_reset => self.talk.check_unseen(self.now_ns, &mut self.host.counters),
            VF_ATQLEN1::ID => {
                VF_SEND.check(&self.registers, &mut self.host.counters);
                if value & VF_ATQLEN1::ENABLE != 0 {
                    self.talk.check_enabled(&mut self.host.counters);
                    self.take_tails_from_now();
                }
            }
            VF_ARQLEN1::ID => VF_RECEIVE.check(&self.registers, &mut self.host.counters),
            VF_ATQT1::ID => self.run_commands(),
            VF_ARQT1::ID if VF_RECEIVE.moved(&self.registers, &mut self.host.counters).is_some() => {
                self.post_messages();
            }
            _ => {}
        }
    }
}

impl<D, P, W> Chip<W> for Vf<D, P>
where
    D: Dma<Window: Send> + Send,
    P: Pages + Send,
    W: Wire,
{
    fn name(&self) -> &'static str {
        "xl710-vf"
    }

    fn read(&mut self, offset: u32) -> u32 {
        self.follow();
        let Some((id, n)) = lookup(offset) else {
            self.host.counters.report(Rule::UnknownRegister, Location::Offset(offset), 0);
            return 0;
        };
        if POLLED.iter().any(|&(first, len)| offset.wrapping_sub(first) < len) {
            return self.host.pages.load(offset);
        }
        let value = self.value(offset, id, n);
        if TELLS_OF_RESETS.contains(&id) {
            self.talk.note_read(id, value, std::mem::take(&mut self.unseen_reset));
        }
        value
    }

    fn write(&mut self, offset: u32, value: u32) {
        self.follow();
        let Some((id, n)) = lookup(offset) else {
            return self.host.counters.report(Rule::UnknownRegister, Location::Offset(offset), value.into());
        };
        if matches!(id.access, Access::RO | Access::RC) {
            let place = Location::VfRegister(id, n as u16);
            return self.host.counters.report(Rule::WriteToReadOnly, place, value.into());
        }
        if POLLED.iter().any(|&(first, len)| offset.wrapping_sub(first) < len) {
            return self.host.pages.store(offset, value);
        }
        if value & id.reserved != 0 {
            let place = Location::VfRegister(id, n as u16);
            self.host.counters.report(Rule::ReservedBitsWritten, place, value.into());
        }
        self.act(offset, id, n, value);
    }

    fn odd(&mut self, offset: u32, _len: usize) {
        self.host.counters.report(Rule::OddAccess, Location::Offset(offset), 0);
    }

    fn set_bus_master(&mut self, on: bool) {
        if self.host.counters.dma_off == on {
            self.host.counters.dma_off = !on;
            self.translate();
        }
    }

    fn step(&mut self, _wire: &mut W, now_ns: u64) -> usize {
        self.now_ns = self.now_ns.max(now_ns);
        let moved = self.work();
        if self.host.counters.interrupts.waits() {
            self.take_intervals();
        }
        if let Some(messages) = &mut self.messages {
            self.host.counters.interrupts.poll(now_ns, &mut |vector| messages.raise(vector));
        }
        moved
    }

    fn reset(&mut self) {
        self.slot.lock().reset_by_vf();
        self.follow();
        self.talk = Talk::default();
        self.host.dma.forget();
    }

    fn counters(&mut self) -> Vec<(&'static str, u64)> {
        let counters = &self.host.counters;
        let statistics = &counters.statistics;
        vec![
            ("rx_offered", counters.rx_offered),
            ("rx_packets", statistics.packets[RX]),
            ("rx_bytes", statistics.bytes[RX]),
            ("tx_offered", counters.tx_offered),
            ("tx_packets", statistics.packets[TX]),
            ("tx_bytes", statistics.bytes[TX]),
            ("commands", counters.commands),
            ("messages", self.sent),
            ("messages_refused", self.refused),
        ]
    }

    fn drops(&self) -> Vec<(&'static str, u64)> {
        let slot = self.slot.lock();
        let own = [
            ("tx_spoofed", slot.refused),
            ("tx_control", slot.control),
            ("rx_vf_full", slot.frames.full),
            ("vf_reset", slot.frames.lost_by_reset),
        ];
        let others =
            self.host.counters.drops.iter().filter(|(name, _)| own.iter().all(|(own, _)| own != name));
        others.chain(own).collect()
    }

    fn findings(&self) -> Vec<Broken> {
        self.host.counters.lint.broken()
    }
}
