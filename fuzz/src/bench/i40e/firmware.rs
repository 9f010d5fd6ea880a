//! What changes what the XL710's firmware and registers say, and forges its events and interrupts.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use arbitrary::Arbitrary;
use bus::{Bar, Pci};
use model::Dma as _;
use regs::Register;
use regs::i40e::admin::{BUFFER, DESCRIPTOR, Descriptor, RESOURCE_TIME, flag, opcode};
use regs::i40e::context::{rx, tx};
use regs::i40e::*;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use testbed::inprocess::Handle;
use testbed::view::View;

use super::Act;
use crate::mailbox::{Beside, Observed};

/// Receive queues; the queue that programs filters for flows comes behind them.
pub(super) const QUEUES: usize = 2;
/// Descriptors of the admin queues.
const SIZE: u32 = 32;
/// Bad answers that wait for their command, at most.
const WAITING: usize = 32;
/// Where a context's base counts in so many bytes, and where a ring's does.
const CONTEXT_UNIT: u64 = 512;
const RING_UNIT: u64 = 128;

/// A kind of event: the link has changed.
const LINK: u8 = 2;

/// How an answer is none. Each command is answered: the driver waits for others, which the tests
/// of `testbed` do.
#[derive(Arbitrary, Debug, Clone)]
pub enum BadAnswer {
    /// It is refused.
    Error(u16),
    /// Other flags than it has.
    Flags(u16),
    /// It is another command's.
    Opcode(u16),
    /// Another number of bytes, few of them mostly.
    Length { low: u8, high: u8 },
    /// Other bytes among its parameters.
    Params { at: u8, bytes: [u8; 4] },
    /// Other bytes in the buffer.
    Bytes { at: u16, bytes: [u8; 8] },
    /// The same byte in the whole buffer.
    Fill(u8),
}

/// Registers that decide something while the port opens or runs. Not those that the driver waits for:
/// that they never change is for the tests of `testbed`.
const DECIDING: [Register; 12] = [
    PF_MDET_TX::REGISTER,
    PF_ARQH::REGISTER,
    PF_ARQLEN::REGISTER,
    PFLAN_QALLOC::REGISTER,
    PF_FUNC_RID::REGISTER,
    PFGEN_PORTNUM::REGISTER,
    GLNVM_GENS::REGISTER,
    GLGEN_RSTCTL::REGISTER,
    PFQF_FDALLOC::REGISTER,
    PFQF_CTL_0::REGISTER,
    PFQF_HLUT::REGISTER,
    GLQF_PCNT::REGISTER,
];

/// The commands of the driver.
const COMMANDS: [u16; 24] = [
    opcode::GET_VERSION,
    opcode::QUEUE_SHUTDOWN,
    opcode::REQUEST_RESOURCE,
    opcode::RELEASE_RESOURCE,
    opcode::LIST_FUNC_CAPABILITIES,
    opcode::MAC_ADDRESS_READ,
    opcode::CLEAR_PXE_MODE,
    opcode::GET_SWITCH_CONFIG,
    opcode::RX_CTL_REG_READ,
    opcode::RX_CTL_REG_WRITE,
    opcode::ADD_VSI,
    opcode::UPDATE_VSI,
    opcode::GET_VSI,
    opcode::ADD_VEB,
    opcode::DELETE_ELEMENT,
    opcode::ADD_MACVLAN,
    opcode::REMOVE_MACVLAN,
    opcode::SET_VSI_PROMISCUOUS,
    opcode::SET_MAC_CONFIG,
    opcode::RESTART_AN,
    opcode::GET_LINK_STATUS,
    opcode::SET_PHY_INT_MASK,
    opcode::NVM_READ,
    opcode::LLDP_STOP,
];

/// One of these registers, or a counter.
fn register(which: u8, n: u8) -> u32 {
    let counts =
        |register: &&Register| register.name.starts_with("GLPRT_") || register.name.starts_with("GLV_");
    let which = usize::from(which);
    let register = match which.checked_sub(64) {
        None => DECIDING[which % DECIDING.len()],
        Some(which) => {
            let counters = TABLE.iter().filter(counts);
            *counters.clone().nth(which % counters.count()).expect("it is one of them")
        }
    };
    register.at(usize::from(n) % register.len())
}

/// What it has to say.
pub(super) struct BadFirmware {
    /// The registers as they are.
    bar: Bar,
    handle: Handle,
    device: Weak<Observed>,
    /// Lies, each with its command and how many of these are answered as they should before.
    bad_answers: Vec<(u16, u8, BadAnswer)>,
    registers: HashMap<u32, u32>,
    /// A command had a lie for an answer, or a register.
    has_lied: bool,
    /// Of the queue of events: where it stood when the port was open, and where it stands.
    begin: u32,
    head: u32,
    /// The eventfds of interrupts.
    joined: Vec<OwnedFd>,
    now_ns: u64,
}

impl BadFirmware {
    /// Of a device that is the model behind a handle.
    pub fn new(pci: &Pci, handle: Handle) -> BadFirmware {
        let bar = pci.bar(0).unwrap_or_else(|error| panic!("{error}"));
        let (bad_answers, registers, joined) = (Vec::new(), HashMap::new(), Vec::new());
        let device = Weak::new();
        BadFirmware {
            bar,
            handle,
            device,
            bad_answers,
            registers,
            has_lied: false,
            begin: 0,
            head: 0,
            joined,
            now_ns: 0,
        }
    }

    fn address(&self, low: u32, high: u32) -> u64 {
        u64::from(self.bar.read32(low)) | u64::from(self.bar.read32(high)) << 32
    }

    /// Lies in the answer of a command.
    fn bad(&mut self, n: u32, memory: &View) {
        let place = self.address(PF_ATQBAL::AT, PF_ATQBAH::AT) + u64::from(n) * DESCRIPTOR as u64;
        let mut answer = read(memory, place);
        let Some(first) = self.bad_answers.iter().position(|(opcode, ..)| *opcode == answer.opcode) else {
            return;
        };
        if let Some(fewer) = self.bad_answers[first].1.checked_sub(1) {
            self.bad_answers[first].1 = fewer;
            return;
        }
        let (_, _, bad) = self.bad_answers.remove(first);
        self.has_lied = true;
        let buffer = if answer.flags & flag::BUF != 0 { answer.address() } else { 0 };
        match bad {
            BadAnswer::Error(error) => (answer.retval, answer.flags) = (error % 32, answer.flags | flag::ERR),
            BadAnswer::Flags(flags) => answer.flags = flags,
            BadAnswer::Opcode(opcode) => answer.opcode = opcode,
            BadAnswer::Length { low, high } => {
                answer.datalen =
                    if high < 128 { u16::from(low / 4) } else { u16::from_le_bytes([low, high]) };
            }
            BadAnswer::Params { at, bytes } => answer.set_param(usize::from(at) % 13, &bytes),
            BadAnswer::Bytes { at, bytes } => {
                _ = memory.write(buffer + u64::from(at) % BUFFER as u64, &bytes)
            }
            BadAnswer::Fill(byte) => _ = memory.write(buffer, &[byte; BUFFER]),
        }
        // A resource that is in use is waited for, as long as the answer says.
        if answer.opcode == opcode::REQUEST_RESOURCE {
            answer.set_param(RESOURCE_TIME, &[0; 4]);
        }
        answer.flags |= flag::DD;
        write(memory, place, &answer);
    }
}

fn read(memory: &View, place: u64) -> Descriptor {
    let mut bytes = [0; DESCRIPTOR];
    memory.read(place, &mut bytes);
    let mut words = [0; DESCRIPTOR / 8];
    words.iter_mut().zip(bytes.as_chunks().0).for_each(|(word, eight)| *word = u64::from_le_bytes(*eight));
    Descriptor::from_words(words)
}

fn write(memory: &View, place: u64, descriptor: &Descriptor) {
    let bytes: Vec<u8> = descriptor.words().iter().flat_map(|word| word.to_le_bytes()).collect();
    memory.write(place, &bytes);
}

/// Firmware that the device and whoever has it know.
#[derive(Clone)]
pub(super) struct SharedFirmware(Arc<Mutex<BadFirmware>>);

impl SharedFirmware {
    pub fn new(firmware: BadFirmware) -> SharedFirmware {
        SharedFirmware(Arc::new(Mutex::new(firmware)))
    }

    fn get(&self) -> MutexGuard<'_, BadFirmware> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Of this device from now on.
    pub fn begin(&self, device: &Arc<Observed>) {
        let mut firmware = self.get();
        (firmware.device, firmware.has_lied) = (Arc::downgrade(device), false);
        firmware.joined.clear();
    }

    /// The port is open.
    pub fn opened(&self) {
        let mut firmware = self.get();
        firmware.begin = firmware.bar.read32(PF_ARQH::AT) % SIZE;
        firmware.head = firmware.begin;
    }

    /// Gives no more bad answers; whether it gave one to a command.
    pub fn be_honest(&self) -> bool {
        let mut firmware = self.get();
        firmware.bad_answers.clear();
        firmware.registers.clear();
        std::mem::take(&mut firmware.has_lied)
    }

    /// Will lie as an act says.
    pub fn prepare(&self, act: &Act) {
        let mut firmware = self.get();
        match *act {
            Act::Register { register: which, n, value } => {
                firmware.has_lied = true;
                firmware.registers.insert(register(which, n), value);
            }
            Act::Answer { command, skip, ref bad } => {
                let opcode = COMMANDS[usize::from(command) % COMMANDS.len()];
                firmware.bad_answers.push((opcode, skip % 16, bad.clone()));
                firmware.bad_answers.truncate(WAITING);
            }
            _ => {}
        }
    }

    /// Tells an event, of a kind and with where its head is then; its length and flags.
    pub fn tell(&self, memory: &View, [kind, head]: [u8; 2], [len, flags]: [u16; 2], bytes: &[u8; 8]) {
        let mut firmware = self.get();
        let ring = firmware.address(PF_ARQBAL::AT, PF_ARQBAH::AT);
        let place = ring + u64::from(firmware.head % SIZE) * DESCRIPTOR as u64;
        let mut event = read(memory, place);
        memory.write(event.address(), bytes);
        event.opcode = match kind % 4 {
            0 => opcode::SEND_MSG_TO_PF,
            1 => u16::from_le_bytes([bytes[0], bytes[1]]),
            LINK.. => opcode::GET_LINK_STATUS,
        };
        (event.datalen, event.cookie) = (len, u64::from_le_bytes(*bytes));
        event.flags = if kind & 128 != 0 { flags } else { flag::DD };
        write(memory, place, &event);
        // Most heads are right.
        firmware.head = if kind & 64 != 0 { head.into() } else { (firmware.head + 1) % SIZE };
        let told = firmware.head;
        firmware.registers.insert(PF_ARQH::AT, told);
    }

    /// Signals interrupts, fills their eventfds, or makes these wait.
    pub fn interrupt(&self, how: u8) {
        for event in &self.get().joined {
            // Who writes here does not wait.
            set_waiting(event, false);
            match how % 4 {
                0 => _ = rustix::io::write(event, &(u64::MAX - 1).to_ne_bytes()),
                1 => {}
                _ => _ = bus::eventfd::signal(event),
            }
            set_waiting(event, how & 128 != 0);
        }
    }

    /// Brings the queue of events to where it was when the port was opened, after one by which the
    /// link is asked for anew.
    pub fn drain(&self, memory: &View, mut look: impl FnMut()) {
        self.tell(memory, [LINK, 0], [0, 0], &[0; 8]);
        look();
        let (ring, begin) = {
            let mut firmware = self.get();
            firmware.head = firmware.begin;
            let head = firmware.head;
            firmware.registers.insert(PF_ARQH::AT, head);
            (firmware.address(PF_ARQBAL::AT, PF_ARQBAH::AT), firmware.begin)
        };
        look();
        let place = ring + u64::from(begin) * DESCRIPTOR as u64;
        let lent = read(memory, place);
        write(memory, place, &Descriptor { flags: lent.flags & !flag::DD, ..lent });
        look();
        self.be_honest();
    }

    /// Where the rings of the first receive and the first transmit queue are, by their contexts, and
    /// where the head of the latter is written to.
    pub fn rings(&self, memory: &View) -> ([u64; 2], Option<u64>) {
        let firmware = self.get();
        let segment = firmware.address(PFHMC_SDDATALOW::AT, PFHMC_SDDATAHIGH::AT) & !0xFFF;
        let context = |base: u32| -> Vec<u64> {
            let mut bytes = [0; tx::LEN];
            let place = segment + u64::from(firmware.bar.read32(base)) * CONTEXT_UNIT;
            assert!(memory.read(place, &mut bytes), "contexts are mapped");
            bytes.as_chunks().0.iter().map(|eight| u64::from_le_bytes(*eight)).collect()
        };
        let [of_rx, of_tx] = [GLHMC_LANRXBASE::at(0), GLHMC_LANTXBASE::at(0)].map(context);
        let rings = [rx::BASE.of(&of_rx) * RING_UNIT, tx::BASE.of(&of_tx) * RING_UNIT];
        (rings, (tx::HEAD_WB_ENA.of(&of_tx) != 0).then(|| tx::HEAD_WB_ADDR.of(&of_tx)))
    }

    /// What tells the doorbells of those queues.
    pub fn tails(&self) -> impl Fn() -> [u32; 2] + 'static {
        let bar = self.get().bar.clone();
        move || [QRX_TAIL::at(0), QTX_TAIL::at(0)].map(|register| bar.read32(register))
    }
}

fn set_waiting(event: &OwnedFd, waits: bool) {
    let Ok(flags) = fcntl_getfl(event) else { return };
    let _ = fcntl_setfl(event, if waits { flags - OFlags::NONBLOCK } else { flags | OFlags::NONBLOCK });
}

impl Beside for SharedFirmware {
    fn has_read(&mut self, offset: u32, data: &mut [u8]) {
        if let Some(value) = self.get().registers.get(&offset) {
            data.iter_mut().zip(value.to_le_bytes()).for_each(|(to, from)| *to = from);
        }
    }

    fn was_written(&mut self, offset: u32, data: &[u8], memory: &View) {
        let mut firmware = self.get();
        let value = data.first_chunk().map_or(0, |word| u32::from_le_bytes(*word));
        match lookup(offset) {
            Some((PF_ATQT::ID, _)) => firmware.bad((value + SIZE - 1) % SIZE, memory),
            // It goes when its driver closes it, for which the driver else waits.
            Some((QRX_ENA::ID | QTX_ENA::ID, _)) if value == 0 => {
                firmware.device.upgrade().into_iter().for_each(|device| device.pull_out());
            }
            // Filters for flows are programmed by an honest device.
            Some((QTX_TAIL::ID, QUEUES)) => {
                firmware.now_ns += 1_000_000;
                firmware.handle.step(firmware.now_ns);
            }
            _ => {}
        }
    }

    fn was_joined(&mut self, event: OwnedFd) {
        self.get().joined.push(event);
    }
}
