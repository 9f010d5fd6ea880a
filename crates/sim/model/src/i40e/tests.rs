//! The device under a driver played by hand: commands of the firmware, contexts and rings, what
//! the linter says of mistakes, and that nothing a driver does makes the device fall over.

mod director;
mod link;
mod order;
mod queues;
mod timesync;
mod vfs;
mod x722;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use regs::i40e::admin::{Descriptor, bandwidth, error, flag, macvlan, opcode};
use regs::i40e::descriptor::{rx_high, tx, tx_context};
use regs::i40e::*;

use super::statistics::OF_MAIN;
use super::switch::{QUEUE_SET, VSI_SEID};
use super::{I40e, Rule, SharedSlot};
use crate::fixture::{Cable, Memory};
use crate::{Dma, Pages};

const BASE: u64 = 1 << 32;
const MAC: [u8; 6] = [2, 0x49, 0x58, 0, 0, 1];
/// Where the guest keeps what: admin rings and buffer, contexts, rings, buffers.
const SEND: u64 = BASE;
const RECEIVE: u64 = BASE + 0x1000;
const BUFFER: u64 = BASE + 0x2000;
const RX_RING: u64 = BASE + 0x4000;
const TX_RING: u64 = BASE + 0x5000;
const PAGES: u64 = BASE + 0x8000;
const DATA: u64 = BASE + 0x1_0000;
const CONTEXTS: u64 = BASE + 0x20_0000;
const SIZE: u32 = 32;

/// The tails' pages.
#[derive(Debug, Clone, Default)]
struct Tails(Arc<Mutex<HashMap<u32, u32>>>);

impl Pages for Tails {
    fn load(&self, offset: u32) -> u32 {
        self.0.lock().expect("nobody panics with it").get(&offset).copied().unwrap_or(0)
    }

    fn store(&self, offset: u32, value: u32) {
        self.0.lock().expect("nobody panics with it").insert(offset, value);
    }
}

struct Guest {
    chip: I40e<Memory, Tails>,
    memory: Memory,
    cable: Cable,
    next: u32,
    now_ns: u64,
}

impl Guest {
    /// A guest whose admin queues run, with an XL710.
    fn new() -> Guest {
        Guest::of(Family::Xl710)
    }

    /// Likewise with a chip of any family.
    fn of(family: Family) -> Guest {
        Guest::with_vfs(family, &[])
    }

    /// Likewise with virtual functions.
    fn with_vfs(family: Family, slots: &[SharedSlot]) -> Guest {
        let memory = Memory::new(BASE, 4 << 20);
        let chip = I40e::with_vfs(family, memory.clone(), Tails::default(), MAC, slots);
        let mut guest = Guest { chip, memory, cable: Cable::default(), next: 0, now_ns: 0 };
        guest.read_all(&[GLGEN_RSTAT::AT, GLNVM_ULD::AT]);
        for (registers, base) in [
            ([PF_ATQBAL::AT, PF_ATQBAH::AT, PF_ATQLEN::AT], SEND),
            ([PF_ARQBAL::AT, PF_ARQBAH::AT, PF_ARQLEN::AT], RECEIVE),
        ] {
            guest.chip.write(registers[0], base as u32);
            guest.chip.write(registers[1], (base >> 32) as u32);
            guest.chip.write(registers[2], SIZE | PF_ATQLEN::ENABLE);
        }
        guest.chip.write(PF_ARQT::AT, SIZE - 1);
        guest
    }

    /// Carries out a command with these bytes in its buffer.
    fn command(&mut self, mut command: Descriptor, data: &[u8], flags: u16) -> Descriptor {
        command.flags |= flags;
        command.datalen = data.len() as u16;
        if !data.is_empty() {
            command.set_address(BUFFER);
            assert!(self.memory.write(BUFFER, data));
        }
        let place = SEND + u64::from(self.next) * 32;
        for (at, word) in (0..).step_by(8).zip(command.words()) {
            self.memory.store(place + at, word);
        }
        self.next = (self.next + 1) % SIZE;
        self.chip.write(PF_ATQT::AT, self.next);
        let words = [0, 8, 16, 24].map(|at| self.memory.load(place + at));
        let answer = Descriptor::from_words(words);
        assert_eq!(answer.flags & (flag::DD | flag::CMP), flag::DD | flag::CMP, "answered");
        assert_eq!(self.chip.read(PF_ATQH::AT), self.next);
        answer
    }

    fn plain(&mut self, opcode: u16) -> Descriptor {
        self.command(Descriptor::new(opcode), &[], 0)
    }

    /// Reads registers for what a driver waits for.
    fn read_all(&mut self, offsets: &[u32]) {
        offsets.iter().for_each(|offset| _ = self.chip.read(*offset));
    }

    /// Lends contexts' memory, and enables queue 0 of either kind over rings of 64.
    fn start(&mut self, rx: &[(context::Field, u64)], tx: &[(context::Field, u64)]) {
        let chip = &mut self.chip;
        chip.write(PFHMC_SDDATAHIGH::AT, (CONTEXTS >> 32) as u32);
        let kind =
            PFHMC_SDDATALOW::VALID | PFHMC_SDDATALOW::TYPE_DIRECT | 512 << PFHMC_SDDATALOW::BPCOUNT_SHIFT;
        chip.write(PFHMC_SDDATALOW::AT, CONTEXTS as u32 | kind);
        chip.write(PFHMC_SDCMD::AT, PFHMC_SDCMD::PMSDWR);
        chip.write(GLHMC_LANTXCNT::at(0), 1);
        chip.write(GLHMC_LANRXBASE::at(0), 8); // 4096 bytes
        chip.write(GLHMC_LANRXCNT::at(0), 1);
        let (mut words, mut sent) = ([0; 4], [0; 16]);
        let right_rx = [
            (context::rx::BASE, RX_RING / 128),
            (context::rx::QLEN, 64),
            (context::rx::DBUFF, 16),
            (context::rx::RXMAX, 1522),
            (context::rx::CRCSTRIP, 1),
        ];
        let right_tx = [
            (context::tx::BASE, TX_RING / 128),
            (context::tx::QLEN, 64),
            (context::tx::RDYLIST, QUEUE_SET.into()),
        ];
        right_rx.iter().chain(rx).for_each(|(field, value)| field.put(&mut words, *value));
        right_tx.iter().chain(tx).for_each(|(field, value)| field.put(&mut sent, *value));
        for (at, word) in (0..).step_by(8).zip(words) {
            self.memory.store(CONTEXTS + 4096 + at, word);
        }
        for (at, word) in (0..).step_by(8).zip(sent) {
            self.memory.store(CONTEXTS + at, word);
        }
        chip.write(QTX_CTL::at(0), QTX_CTL::PFVF_Q_PF);
        chip.write(GLLAN_TXPRE_QDIS::at(0), GLLAN_TXPRE_QDIS::CLEAR_QDIS);
        chip.write(QTX_ENA::at(0), QTX_ENA::QENA_REQ);
        chip.write(QRX_ENA::at(0), QRX_ENA::QENA_REQ);
        self.read_all(&[QTX_ENA::at(0), QRX_ENA::at(0)]);
    }

    /// Lends the contexts' memory page by page, the first ones where `words` say, and enables
    /// both queues anew.
    fn lend_pages(&mut self, words: &[u64]) {
        for n in 0..512 {
            let page = words.get(n as usize).copied().unwrap_or((CONTEXTS + 4096 * n) | 1);
            self.memory.store(PAGES + 8 * n, page);
        }
        let chip = &mut self.chip;
        chip.write(GLLAN_TXPRE_QDIS::at(0), GLLAN_TXPRE_QDIS::SET_QDIS);
        chip.write(QTX_ENA::at(0), 0);
        chip.write(QRX_ENA::at(0), 0);
        let kind = PFHMC_SDDATALOW::VALID | 512 << PFHMC_SDDATALOW::BPCOUNT_SHIFT;
        chip.write(PFHMC_SDDATALOW::AT, PAGES as u32 | kind);
        chip.write(PFHMC_SDCMD::AT, PFHMC_SDCMD::PMSDWR);
        chip.write(GLLAN_TXPRE_QDIS::at(0), GLLAN_TXPRE_QDIS::CLEAR_QDIS);
        chip.write(QTX_ENA::at(0), QTX_ENA::QENA_REQ);
        chip.write(QRX_ENA::at(0), QRX_ENA::QENA_REQ);
        self.read_all(&[QTX_ENA::at(0), QRX_ENA::at(0)]);
    }

    /// Puts descriptors from the start of the transmit ring, and rings.
    fn transmit(&mut self, descriptors: &[[u64; 2]]) {
        for (at, words) in (TX_RING..).step_by(16).zip(descriptors) {
            self.memory.store(at, words[0]);
            self.memory.store(at + 8, words[1]);
        }
        self.chip.write(QTX_TAIL::at(0), descriptors.len() as u32);
        self.step();
    }

    fn step(&mut self) {
        self.now_ns += 1_000_000;
        self.chip.step(&mut self.cable, self.now_ns);
    }

    fn broke(&self, rule: Rule) -> u64 {
        self.chip.lint().count(rule)
    }
}

#[test]
fn commands_are_answered_and_unknown_ones_refused() {
    let mut guest = Guest::new();
    let version = guest.plain(opcode::GET_VERSION);
    assert_eq!((version.retval, version.param16(8), version.param16(12)), (0, 6, 1));
    let refused = guest.plain(0x0BAD);
    assert_eq!((refused.retval, refused.flags & flag::ERR), (error::ESRCH, flag::ERR));
    assert_eq!(guest.broke(Rule::AdminUnknownCommand), 1);
    for _ in 0..2 * SIZE {
        assert_eq!(guest.plain(opcode::GET_VERSION).retval, 0, "round the ring");
    }
    let few = guest.command(Descriptor::new(opcode::LIST_FUNC_CAPABILITIES), &[0; 32], flag::BUF);
    assert_eq!((few.retval, few.datalen), (error::ENOMEM, 224), "it says how much there is");
}

#[test]
fn arguments_that_make_no_sense_are_refused_and_reported() {
    let mut guest = Guest::new();
    let mut filters = Descriptor::new(opcode::ADD_MACVLAN);
    filters.set_param(2, &(VSI_SEID | macvlan::SEID_VALID).to_le_bytes());
    filters.set_param(0, &3u16.to_le_bytes());
    let answer = guest.command(filters, &[0; 2 * macvlan::LEN], flag::BUF | flag::RD);
    assert_eq!(answer.retval, error::EINVAL, "more filters than bytes");
    filters.set_param(2, &7u16.to_le_bytes());
    assert_eq!(guest.command(filters, &[0; 48], flag::BUF | flag::RD).retval, error::ENOENT, "no such VSI");
    let mut register = Descriptor::new(opcode::RX_CTL_REG_WRITE);
    register.set_param(4, &PFGEN_CTRL::AT.to_le_bytes());
    assert_eq!(guest.command(register, &[], 0).retval, error::EINVAL);
    let mut limit = Descriptor::new(opcode::CONFIGURE_VSI_BW_LIMIT);
    limit.set_param(0, &VSI_SEID.to_le_bytes());
    for (units, answer) in [(0, 0), (800, 0), (801, error::EINVAL)] {
        limit.set_param(bandwidth::LIMIT, &u16::to_le_bytes(units));
        assert_eq!(guest.command(limit, &[], 0).retval, answer, "{units} times 50 Mbit/s");
    }
    assert_eq!(guest.broke(Rule::AdminArgumentInvalid), 4);
    // Flags that do not fit the buffer.
    let switch = Descriptor::new(opcode::GET_SWITCH_CONFIG);
    assert_eq!(guest.command(switch, &[0; 512], 0).retval, error::EINVAL);
    assert_eq!(guest.command(switch, &[0; 1024], flag::BUF).retval, 0);
    assert_eq!(guest.broke(Rule::AdminFlagsWrong), 2);
    let mut far = switch;
    far.set_address(0x1000);
    far.datalen = 64;
    let answer = {
        far.flags = flag::BUF;
        let place = SEND + u64::from(guest.next) * 32;
        (0..).step_by(8).zip(far.words()).for_each(|(at, word)| guest.memory.store(place + at, word));
        guest.next += 1;
        guest.chip.write(PF_ATQT::AT, guest.next);
        guest.memory.load(place) >> 48
    };
    assert_eq!((answer as u16, guest.broke(Rule::AdminBufferUnmapped)), (error::BAD_ADDR, 1));
}

#[test]
fn an_admin_queue_that_cannot_work_stops_and_is_reported_once() {
    let mut guest = Guest::new();
    guest.chip.write(PF_ATQBAL::AT, SEND as u32 + 8);
    guest.chip.write(PF_ATQLEN::AT, SIZE | PF_ATQLEN::ENABLE);
    guest.chip.write(PF_ATQT::AT, 1);
    assert_eq!((guest.broke(Rule::AdminQueueInvalid), guest.broke(Rule::AdminQueueOff)), (1, 1));
    assert_eq!(guest.chip.read(PF_ATQH::AT), 0, "no command was taken");
    guest.chip.write(PF_ATQBAL::AT, 0);
    guest.chip.write(PF_ATQBAH::AT, 0);
    for _ in 0..3 {
        guest.chip.write(PF_ATQT::AT, 1);
    }
    assert_eq!(guest.broke(Rule::AdminRingUnmapped), 1);
    assert_eq!(guest.chip.read(PF_ATQLEN::AT) & PF_ATQLEN::CRIT, PF_ATQLEN::CRIT);
}

/// What the drivers of Linux and DPDK ask before they use a port.
#[test]
fn a_function_is_told_its_vsi_its_share_and_its_ports() {
    let mut guest = Guest::new();
    let switch = guest.command(Descriptor::new(opcode::GET_SWITCH_CONFIG), &[0; 512], flag::BUF);
    let answer = |guest: &Guest, at: u64| guest.memory.load(BUFFER + at);
    assert_eq!((switch.retval, answer(&guest, 0)), (0, 0x1_0001), "one element, and no more of them");
    assert_eq!(answer(&guest, 16) >> 16 & 0xFFFF, u64::from(VSI_SEID));
    let mut share = Descriptor::new(opcode::CONFIGURE_VSI_TC_BW);
    share.set_param(0, &VSI_SEID.to_le_bytes());
    assert_eq!(guest.command(share, &[0; 32], flag::BUF | flag::RD).retval, 0);
    assert_eq!(answer(&guest, 16), u64::from(QUEUE_SET), "the queue set of the first class");
    assert_eq!(guest.command(share, &[0; 16], flag::BUF | flag::RD).retval, error::EINVAL, "no room for it");
    share.opcode = opcode::QUERY_VSI_BW_CONFIG;
    assert_eq!(guest.command(share, &[0; 64], flag::BUF).retval, 0);
    assert_eq!((answer(&guest, 0), answer(&guest, 16)), (1, u64::from(QUEUE_SET)));
    let mut ports = Descriptor::new(opcode::DEBUG_READ_REG);
    let disabled = [0, 1, 2, 3].map(|n| {
        ports.set_param(4, &PRTGEN_CNF::at(n).to_le_bytes());
        guest.command(ports, &[], 0).param32(12)
    });
    assert_eq!(disabled, [0, 1, 1, 1], "one port of four");
    assert!(guest.chip.read(GLPCI_CNF2::AT) >> GLPCI_CNF2::MSI_X_VF_N_SHIFT >= 2, "DPDK takes 2 from it");
    ports.set_param(4, &PFINT_ICR0::AT.to_le_bytes());
    assert_eq!(guest.command(ports, &[], 0).retval, error::EINVAL, "reading would clear it");
}

/// The tail of its own queue had the firmware take the same command again, without end.
#[test]
fn the_firmware_writes_registers_of_set_up_and_no_others() {
    let mut guest = Guest::new();
    let with = |opcode, offset: u32, value: u32| {
        let mut command = Descriptor::new(opcode);
        command.set_param(4, &offset.to_le_bytes());
        command.set_param(12, &value.to_le_bytes());
        command
    };
    for (offset, value) in [
        (PF_ATQT::AT, guest.next + 1),
        (PF_ARQT::AT, 1),
        (PF_ATQLEN::AT, 0),
        (PFGEN_CTRL::AT, PFGEN_CTRL::PFSWR),
        (GLGEN_RTRIG::AT, GLGEN_RTRIG::GLOBR),
        (QTX_ENA::at(0), QTX_ENA::QENA_REQ),
        (QRX_TAIL::at(0), 1),
    ] {
        let answer = guest.command(with(opcode::DEBUG_WRITE_REG, offset, value), &[], 0);
        assert_eq!(answer.retval, error::EINVAL, "{offset:#x}");
    }
    assert_eq!(guest.command(with(opcode::DEBUG_WRITE_REG, VSI_TSR::at(7), 5), &[], 0).retval, 0);
    assert_eq!(guest.command(with(opcode::DEBUG_READ_REG, VSI_TSR::at(7), 0), &[], 0).param32(12), 5);
}

#[test]
fn the_lldp_agent_has_heard_nothing_until_it_is_stopped() {
    let mut guest = Guest::new();
    let ask =
        |guest: &mut Guest| guest.command(Descriptor::new(opcode::LLDP_GET_MIB), &[0; 128], flag::BUF).retval;
    assert_eq!(ask(&mut guest), error::ENOENT);
    assert_eq!(guest.plain(opcode::LLDP_STOP).retval, 0);
    assert_eq!((ask(&mut guest), guest.plain(opcode::LLDP_STOP).retval), (error::EPERM, error::EPERM));
}

/// What is raised, in order.
#[derive(Debug, Clone, Default)]
struct Raised(Arc<Mutex<Vec<u16>>>);

impl crate::Interrupts for Raised {
    fn raise(&mut self, vector: u16) {
        self.0.lock().expect("nobody panics with it").push(vector);
    }
}

#[test]
fn a_reset_of_the_card_is_told_by_an_interrupt() {
    for (trigger, kind) in [(GLGEN_RTRIG::CORER, 1), (GLGEN_RTRIG::GLOBR, 2)] {
        let mut guest = Guest::new();
        let raised = Raised::default();
        guest.chip.set_interrupts(Some(Box::new(raised.clone())));
        guest.start(&[], &[]);
        guest.chip.write(PFINT_ICR0_ENA::AT, PFINT_ICR0::GRST);
        guest.chip.write(PFINT_DYN_CTL0::AT, PFINT_DYN_CTL0::INTENA | PFINT_DYN_CTL0::ITR_INDX_NONE);
        guest.chip.write(GLGEN_RTRIG::AT, trigger);
        guest.step();
        assert_eq!(*raised.0.lock().expect("whole"), [0]);
        assert_eq!(guest.chip.read(PFINT_ICR0::AT), PFINT_ICR0::GRST | PFINT_ICR0::INTEVENT);
        let status = kind << GLGEN_RSTAT::RESET_TYPE_SHIFT;
        assert_eq!(
            (guest.chip.read(GLGEN_RSTAT::AT), guest.chip.queues()),
            (status | 1, (1, 1)),
            "asked for"
        );
        assert_eq!(guest.plain(opcode::GET_VERSION).retval, 0, "until then all goes on");
        guest.now_ns += 100_000_000;
        guest.step();
        let after =
            (guest.chip.queues(), guest.chip.read(PF_ATQLEN::AT), guest.chip.read(PFINT_ICR0_ENA::AT));
        assert_eq!((guest.chip.read(GLGEN_RSTAT::AT), after), (status, ((0, 0), 0, 0)));
        guest.chip.reset();
        assert_eq!(guest.chip.read(GLGEN_RSTAT::AT), 0, "power-on is no reset of the card");
    }
}
