//! A mailbox, or an admin queue, by hand: what no driver of ours would send.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use bus::{Bar, Pci};
use memory::{Attachment, Dma, Region};
use regs::i40e::admin::{BUFFER, Descriptor, SMALL_BUFFER, flag, opcode};
use regs::i40e::reset_state;
use regs::iavf::*;
use regs::virtchnl::message::{Resources, Version};
use regs::virtchnl::{op, status};

use super::limit::{Limit, until};

/// Descriptors of each ring.
const SIZE: u32 = 32;
/// Where the receive ring, the buffer of commands and those of events are.
const RECEIVE: usize = 4096;
const COMMAND: usize = 2 * 4096;
const EVENTS: usize = 3 * 4096;

/// Registers of a pair of rings: low and high half of the address, length, tail.
#[derive(Clone, Copy)]
struct Registers {
    send: [u32; 4],
    receive: [u32; 4],
}

const VF: Registers = Registers {
    send: [VF_ATQBAL1::AT, VF_ATQBAH1::AT, VF_ATQLEN1::AT, VF_ATQT1::AT],
    receive: [VF_ARQBAL1::AT, VF_ARQBAH1::AT, VF_ARQLEN1::AT, VF_ARQT1::AT],
};
const PF: Registers = {
    use regs::i40e::*;
    Registers {
        send: [PF_ATQBAL::AT, PF_ATQBAH::AT, PF_ATQLEN::AT, PF_ATQT::AT],
        receive: [PF_ARQBAL::AT, PF_ARQBAH::AT, PF_ARQLEN::AT, PF_ARQT::AT],
    }
};

/// A mailbox by hand.
pub struct Raw {
    pub bar: Bar,
    registers: Registers,
    region: Region,
    next: u32,
    next_event: u32,
    _attachment: Attachment,
    _pci: Pci,
}

impl Raw {
    /// A virtual function's, which is hosted.
    pub fn open(pci: &Pci, dma: &Dma) -> Raw {
        let raw = Raw::unstarted(pci, dma, VF);
        until("the host", || raw.bar.read32(VFGEN_RSTAT::AT) == reset_state::ACTIVE);
        raw.started()
    }

    /// The physical function's.
    pub fn open_pf(pci: &Pci, dma: &Dma) -> Raw {
        Raw::unstarted(pci, dma, PF).started()
    }

    fn unstarted(pci: &Pci, dma: &Dma, registers: Registers) -> Raw {
        pci.set_bus_master(true).unwrap();
        let bar = pci.bar(0).unwrap();
        let attachment = dma.attach(pci).unwrap();
        let region = dma.alloc(EVENTS + SIZE as usize * BUFFER).unwrap();
        let (next, next_event) = (0, 0);
        Raw { bar, registers, region, next, next_event, _attachment: attachment, _pci: pci.clone() }
    }

    /// Enables both queues, with all buffers lent but one.
    fn started(self) -> Raw {
        for n in 0..SIZE {
            self.lend(n);
        }
        let (bar, region) = (&self.bar, &self.region);
        for ([low, high, len, _], at) in [(self.registers.send, 0), (self.registers.receive, RECEIVE)] {
            bar.write32(low, region.iova(at) as u32);
            bar.write32(high, (region.iova(at) >> 32) as u32);
            bar.write32(len, SIZE | VF_ATQLEN1::ENABLE);
        }
        bar.write32(self.registers.receive[3], SIZE - 1);
        self
    }

    /// Gives a buffer for an event.
    fn lend(&self, n: u32) {
        let mut lent =
            Descriptor { flags: flag::BUF | flag::LB, datalen: BUFFER as u16, ..Descriptor::default() };
        lent.set_address(self.region.iova(EVENTS + n as usize * BUFFER));
        self.put(RECEIVE, n, &lent);
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        assert!(at.is_multiple_of(8) && at + 8 <= self.region.len());
        // SAFETY: aligned and inside the region, which is mapped as long as `self`; the device accesses it
        // as atomic words, too.
        unsafe { self.region.ptr().add(at).cast().as_ref() }
    }

    fn put(&self, ring: usize, n: u32, descriptor: &Descriptor) {
        for (word, value) in descriptor.words().into_iter().enumerate() {
            self.word(ring + n as usize * 32 + 8 * word).store(value, Ordering::Release);
        }
    }

    fn get(&self, ring: usize, n: u32) -> Descriptor {
        let word = |word: usize| self.word(ring + n as usize * 32 + 8 * word).load(Ordering::Acquire);
        Descriptor::from_words([word(0), word(1), word(2), word(3)])
    }

    /// Sends a command as it is; the firmware's answer.
    pub fn command(&mut self, command: &Descriptor) -> u16 {
        self.put(0, self.next, command);
        let n = self.next;
        self.ring_doorbell();
        until("the firmware", || self.get(0, n).flags & flag::DD != 0);
        self.get(0, n).retval
    }

    /// Has the firmware look at one more descriptor, whatever is there.
    pub fn ring_doorbell(&mut self) {
        self.next = (self.next + 1) % SIZE;
        self.bar.write32(self.registers.send[3], self.next);
    }

    /// Sends a message to the physical function; the firmware's answer.
    pub fn tell(&mut self, kind: u32, bytes: &[u8]) -> u16 {
        let mut command = Descriptor::new(opcode::SEND_MSG_TO_PF);
        command.cookie = kind.into();
        self.send(command, bytes)
    }

    /// Sends a message to a virtual function, likewise.
    pub fn tell_vf(&mut self, vf: u32, kind: u32, status: i32, bytes: &[u8]) -> u16 {
        let mut command = Descriptor::new(opcode::SEND_MSG_TO_VF);
        command.cookie = u64::from(kind) | u64::from(status as u32) << 32;
        command.set_param(0, &vf.to_le_bytes());
        self.send(command, bytes)
    }

    fn send(&mut self, mut command: Descriptor, bytes: &[u8]) -> u16 {
        (command.datalen, command.flags) = (bytes.len() as u16, flag::SI);
        if !bytes.is_empty() {
            let large = if bytes.len() > SMALL_BUFFER { flag::LB } else { 0 };
            command.flags |= flag::BUF | flag::RD | large;
            command.set_address(self.region.iova(COMMAND));
            for (at, eight) in (COMMAND..).step_by(8).zip(bytes.chunks(8)) {
                let mut word = [0; 8];
                word[..eight.len()].copy_from_slice(eight);
                self.word(at).store(u64::from_le_bytes(word), Ordering::Release);
            }
        }
        self.command(&command)
    }

    /// The next event, and its bytes.
    pub fn event(&mut self) -> Option<(Descriptor, Vec<u8>)> {
        let n = self.next_event;
        let event = self.get(RECEIVE, n);
        if event.flags & flag::DD == 0 {
            return None;
        }
        let buffer = EVENTS + n as usize * BUFFER;
        let words = (0..usize::from(event.datalen).div_ceil(8)).map(|word| buffer + 8 * word);
        let bytes = words.flat_map(|at| self.word(at).load(Ordering::Acquire).to_le_bytes());
        let bytes = bytes.take(event.datalen.into()).collect();
        self.lend(n);
        self.bar.write32(self.registers.receive[3], n);
        self.next_event = (n + 1) % SIZE;
        Some((event, bytes))
    }

    /// The next message that came: kind, status, bytes.
    fn take(&mut self) -> Option<(u32, i32, Vec<u8>)> {
        let (event, bytes) = self.event()?;
        Some((event.cookie as u32, (event.cookie >> 32) as i32, bytes))
    }

    /// Sends a message and waits for its answer.
    pub fn ask(&mut self, kind: u32, bytes: &[u8]) -> (i32, Vec<u8>) {
        assert_eq!(self.tell(kind, bytes), 0);
        let mut limit = Limit::time("an answer");
        loop {
            limit.check();
            match self.take() {
                Some((told, status, bytes)) if told == kind => return (status, bytes),
                Some((told, ..)) => assert_eq!(told, op::EVENT),
                None => thread::yield_now(),
            }
        }
    }

    pub fn resources(&mut self) -> Resources {
        assert_eq!(self.ask(op::VERSION, &Version { major: 1, minor: 1 }.encode()).0, status::SUCCESS);
        let (status, bytes) = self.ask(op::GET_VF_RESOURCES, &u32::MAX.to_le_bytes());
        assert_eq!(status, status::SUCCESS);
        Resources::decode(&bytes).unwrap()
    }
}
