//! The device under a driver played by hand: commands of the firmware, contexts and rings, what
//! the linter says of mistakes, and that nothing a driver does makes the device fall over.

mod director;
mod link;
mod order;
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
use super::{I40e, Rule};
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
        let memory = Memory::new(BASE, 4 << 20);
        let chip = I40e::with_vfs(family, memory.clone(), Tails::default(), MAC, &[]);
        let mut guest = Guest { chip, memory, cable: Cable::default(), next: 0, now_ns: 0 };
        guest.look(&[GLGEN_RSTAT::AT, GLNVM_ULD::AT]);
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
    fn look(&mut self, offsets: &[u32]) {
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
        self.look(&[QTX_ENA::at(0), QRX_ENA::at(0)]);
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
        self.look(&[QTX_ENA::at(0), QRX_ENA::at(0)]);
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
fn a_frame_is_received_and_one_is_sent() {
    let mut guest = Guest::new();
    guest.start(&[], &[]);
    assert_eq!(guest.chip.queues(), (1, 1));
    for n in 0..8 {
        guest.memory.store(RX_RING + 16 * n, DATA + 2048 * n);
    }
    guest.chip.write(QRX_TAIL::at(0), 8);
    let frame: Vec<u8> = MAC.iter().copied().chain((6..100).map(|n| n as u8)).collect();
    guest.cable.send(&frame);
    guest.step();
    let status = guest.memory.load(RX_RING + 8);
    assert_eq!(status & (rx_high::DD | rx_high::EOF), rx_high::DD | rx_high::EOF);
    assert_eq!((status & rx_high::LENGTH_MASK) >> rx_high::LENGTH_SHIFT, 100);
    assert_eq!(guest.memory.bytes(DATA, 100), frame);
    assert!(guest.memory.write(DATA + 0x8000, &frame));
    guest.transmit(&[[DATA + 0x8000, tx::EOP | tx::RS | tx::ICRC | 100 << tx::SIZE_SHIFT]]);
    assert_eq!(guest.cable.from_host, [frame]);
    assert_eq!(guest.memory.load(TX_RING + 8), tx::DTYPE_DONE);
    let packets = [GLPRT_UPRCL::at(0), GLPRT_UPTCL::at(0), GLV_UPRCL::at(OF_MAIN), GLV_UPTCL::at(OF_MAIN)];
    for _ in 0..2 {
        assert_eq!(packets.map(|offset| guest.chip.read(offset)), [1; 4], "reading does not clear");
    }
    // What no filter wants passes the port, and is none of the VSI's.
    guest.cable.send(&[&[2; 12][..], &[0; 60]].concat());
    guest.step();
    assert_eq!(packets.map(|offset| guest.chip.read(offset)), [2, 1, 1, 1]);
    assert!(guest.chip.lint().is_empty(), "{}", guest.chip.lint());
    // Without a descriptor a frame is lost, and counted.
    (0..9).for_each(|_| guest.cable.send(&[&MAC[..], &[0; 60]].concat()));
    guest.step();
    assert_eq!(guest.chip.drops().rx_no_descriptor, 2);
    assert_eq!(guest.chip.read(GLV_RDPC::at(OF_MAIN)), 2);
}

/// What a mistake in a context breaks, and whether the queue runs nevertheless.
#[test]
fn contexts_are_checked_when_a_queue_is_enabled() {
    use context::{rx, tx};
    for (field, value, rule, runs) in [
        (rx::BASE, 0, Rule::RingBaseInvalid, false),
        (rx::QLEN, 40, Rule::RingLengthInvalid, false),
        (rx::QLEN, 8191, Rule::RingLengthInvalid, false),
        (rx::DBUFF, 7, Rule::BufferSizeInvalid, false),
        (rx::RXMAX, 9729, Rule::RxMaxInvalid, true),
        (rx::SHOWIV, 1, Rule::InnerTagStripped, true),
        (rx::BASE, 1 << 40, Rule::RingUnmapped, true),
    ] {
        let mut guest = Guest::new();
        guest.start(&[(field, value)], &[]);
        assert_eq!(guest.broke(rule), 1, "{rule:?}");
        assert_eq!(guest.chip.queues(), (usize::from(runs), 1), "{rule:?}");
        let error = guest.chip.read(PFHMC_ERRORINFO::AT) & PFHMC_ERRORINFO::ERROR_DETECTED;
        assert_eq!(error == 0, runs, "{rule:?}: the error is told");
    }
    let mut guest = Guest::new();
    guest.start(&[], &[(tx::RDYLIST, 1)]);
    assert_eq!(guest.broke(Rule::QueueSetWrong), 1);
    guest.chip.write(QTX_ENA::at(0), 0);
    assert_eq!(guest.broke(Rule::TxDisableUnannounced), 1);
    guest.chip.write(QTX_ENA::at(1), QTX_ENA::QENA_REQ);
    assert_eq!(guest.broke(Rule::ContextUnreachable), 1, "there is one context");
    guest.chip.write(QRX_ENA::at(5), QRX_ENA::QENA_REQ);
    assert_eq!(guest.broke(Rule::ContextNotOfVsi), 1);
}

#[test]
fn descriptors_that_make_no_sense_are_reported_and_their_packet_lost() {
    let data = |len: u64, bits: u64| [DATA, len << tx::SIZE_SHIFT | tx::ICRC | bits];
    let cut = |mss: u64, len: u64| {
        let bits = tx::DTYPE_CONTEXT | tx_context::TSO;
        [0, bits | mss << tx_context::MSS_SHIFT | len << tx_context::TSO_LEN_SHIFT]
    };
    let lengths = 7 << tx::MACLEN_SHIFT | 5 << tx::IPLEN_SHIFT | 5 << tx::L4LEN_SHIFT;
    let udp_of_20 = tx::L4T_UDP | tx::IIPT_IPV4_CSUM | lengths;
    let end = tx::EOP | tx::RS;
    let nine: Vec<[u64; 2]> = (0..9).map(|n| data(20, if n == 8 { end } else { 0 })).collect();
    for (descriptors, rule, stops, lost) in [
        (vec![data(0, end)], Rule::ZeroLengthDescriptor, true, 1),
        (vec![data(16, end)], Rule::TxLengthInvalid, true, 1),
        (vec![data(9725, end)], Rule::TxLengthInvalid, true, 1),
        (vec![data(60, end | 5)], Rule::UnsupportedDescriptor, true, 1),
        (vec![data(60, tx::RS), data(60, end)], Rule::ReportWithoutEnd, true, 1),
        (vec![data(60, 0), cut(100, 1), data(60, end)], Rule::ContextInsidePacket, true, 1),
        (nine, Rule::TooManyBuffers, true, 1),
        (vec![cut(63, 6), data(60, end)], Rule::TsoInvalid, true, 1),
        (vec![[1 << 50, 60 << tx::SIZE_SHIFT | end]], Rule::BufferUnmapped, false, 1),
        (vec![data(60, end | tx::L4T_UDP | tx::IIPT_IPV4)], Rule::HeaderLengthsWrong, false, 0),
        // UDP's header has no options.
        (vec![cut(100, 6), data(60, end | udp_of_20)], Rule::HeaderLengthsWrong, false, 1),
        (vec![data(60, end | tx::L4T_UDP | tx::IIPT_IPV4)], Rule::TransportLengthWrong, false, 0),
    ] {
        let mut guest = Guest::new();
        guest.start(&[], &[]);
        guest.transmit(&descriptors);
        assert!(guest.broke(rule) >= 1, "{rule:?}: {}", guest.chip.lint());
        let drops = guest.chip.drops();
        assert_eq!(drops.tx(), lost, "{rule:?}");
        // A queue that was stopped sends nothing until it is enabled anew; others go on.
        let sent = guest.cable.from_host.len();
        let tail = descriptors.len() as u32;
        guest.memory.store(TX_RING + 16 * u64::from(tail), DATA);
        guest.memory.store(TX_RING + 16 * u64::from(tail) + 8, 60 << tx::SIZE_SHIFT | end);
        guest.chip.write(QTX_TAIL::at(0), tail + 1);
        guest.step();
        assert_eq!(guest.cable.from_host.len(), sent + usize::from(!stops), "{rule:?}");
        let told = |guest: &mut Guest| guest.chip.read(PF_MDET_TX::AT);
        assert_eq!(told(&mut guest), u32::from(stops), "{rule:?}");
        let causes = guest.chip.read(PFINT_ICR0::AT);
        assert_eq!(causes & PFINT_ICR0::MAL_DETECT != 0, stops, "{rule:?}");
        guest.chip.write(PF_MDET_TX::AT, PF_MDET_TX::VALID);
        assert_eq!(told(&mut guest), 0, "{rule:?}");
        for (announcement, request) in
            [(GLLAN_TXPRE_QDIS::SET_QDIS, 0), (GLLAN_TXPRE_QDIS::CLEAR_QDIS, QTX_ENA::QENA_REQ)]
        {
            guest.chip.write(GLLAN_TXPRE_QDIS::at(0), announcement);
            guest.chip.write(QTX_ENA::at(0), request);
        }
        guest.chip.write(QTX_TAIL::at(0), 0);
        let sent = guest.cable.from_host.len();
        guest.transmit(&[data(60, end)]);
        assert_eq!(guest.cable.from_host.len(), sent + 1, "{rule:?}");
    }
}

/// Its context is in memory that the device does not access.
#[test]
fn a_queue_does_not_start_without_bus_mastering() {
    let mut guest = Guest::new();
    guest.start(&[], &[]);
    guest.chip.write(QRX_ENA::at(0), 0);
    guest.chip.set_bus_master(false);
    guest.chip.write(QRX_ENA::at(0), QRX_ENA::QENA_REQ);
    assert_eq!(guest.chip.read(QRX_ENA::at(0)) & QRX_ENA::QENA_STAT, 0);
    assert!(guest.broke(Rule::BusMasterOff) > 0);
    guest.chip.set_bus_master(true);
    guest.chip.write(QRX_ENA::at(0), QRX_ENA::QENA_REQ);
    assert_ne!(guest.chip.read(QRX_ENA::at(0)) & QRX_ENA::QENA_STAT, 0);
}

#[test]
fn tails_are_checked_and_a_queue_off_is_not_looked_at() {
    let mut guest = Guest::new();
    guest.chip.write(PF_ATQLEN::AT, 0);
    guest.chip.write(PF_ATQT::AT, 3);
    assert_eq!(guest.broke(Rule::AdminQueueOff), 1);
    guest.chip.write(PF_ATQLEN::AT, SIZE | PF_ATQLEN::ENABLE);
    guest.chip.write(PF_ATQT::AT, SIZE);
    assert_eq!(guest.broke(Rule::AdminTailOutOfRange), 1);
    guest.start(&[], &[]);
    guest.chip.write(QTX_TAIL::at(0), 64);
    guest.step();
    assert_eq!(guest.broke(Rule::TailOutOfRange), 1);
    guest.chip.write(QRX_TAIL::at(0), 9);
    guest.step();
    guest.chip.write(QRX_TAIL::at(0), 8);
    guest.step();
    assert_eq!(guest.broke(Rule::TailPassedHead), 1);
    guest.chip.write(PFGEN_CTRL::AT, PFGEN_CTRL::PFSWR);
    assert_eq!((guest.broke(Rule::ResetWithQueuesEnabled), guest.chip.queues()), (1, (0, 0)));
    assert_eq!(guest.chip.read(PFGEN_CTRL::AT), 0, "the reset is done");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever is written to registers, with whatever in memory, the device goes on: frames
    /// that come are delivered or lost by a name, and packets likewise.
    #[test]
    fn no_driver_makes_the_device_fall_over(
        writes in prop::collection::vec((0..TABLE.len(), any::<prop::sample::Index>(), any::<u32>(), 0..8u32), 1..200),
        words in prop::collection::vec(any::<u64>(), 64),
        paged in any::<bool>(),
        x722 in any::<bool>(),
    ) {
        let mut guest = Guest::of(if x722 { Family::X722 } else { Family::Xl710 });
        guest.chip.write(PFQF_CTL_0::AT, PFQF_CTL_0::FD_ENA);
        guest.start(&[], &[(context::tx::FD_ENA, 1)]);
        if paged {
            guest.lend_pages(&words);
        }
        // Commands, descriptors and contexts of nonsense, some of it with real addresses.
        for (n, word) in (0..).zip(&words) {
            let address = if n % 4 == 0 { DATA + word % 4096 } else { *word };
            for place in [RX_RING, CONTEXTS, CONTEXTS + 4096, BUFFER] {
                guest.memory.store(place + 8 * n, address);
            }
            guest.memory.store(TX_RING + 8 * n, director::descriptor_word(n % 4, *word).unwrap_or(address));
            guest.memory.store(SEND + 8 * n, command_word(n % 4, *word));
        }
        assert!(guest.memory.write(DATA, &director::answer()));
        for (row, n, value, kind) in writes {
            let register = &TABLE[row];
            let offset = register.at(n.index(register.len()));
            // Small numbers are tails and lengths that could be.
            let value = if kind < 4 { value % 70 } else { value };
            guest.chip.write(offset, value);
            guest.chip.read(offset);
            guest.chip.write(QTX_TAIL::at(0), value % 64);
            guest.chip.write(PF_ATQT::AT, value % SIZE);
            // What was stopped goes on.
            if kind == 7 {
                guest.chip.write(QTX_ENA::at(0), 0);
                guest.chip.write(QTX_ENA::at(0), QTX_ENA::QENA_REQ);
            }
            guest.cable.send(&[&MAC[..], &[kind as u8; 80]].concat());
            guest.cable.send(&director::answered());
            guest.step();
        }
        guest.chip.write(PFGEN_CTRL::AT, PFGEN_CTRL::PFSWR);
        let (counters, drops) = (&guest.chip.host.counters, guest.chip.drops());
        let [received, sent] = counters.statistics.packets;
        prop_assert_eq!(counters.rx_offered, received + drops.rx());
        prop_assert_eq!(counters.tx_offered, sent + drops.tx());
    }
}

/// A word of a command, `at` of four: with an opcode that there is and lengths, elements and
/// addresses that could be, half of the time.
fn command_word(at: u64, word: u64) -> u64 {
    let (opcode, _) = opcode::TABLE[(word >> 8) as usize % opcode::TABLE.len()];
    match at {
        0 => word & 0xFFFF_0FFF_0000_FFFF | u64::from(opcode) << 16,
        2 if word & 3 == 1 => (u64::from(VSI_SEID) * 0x1_0001_0000) | word & 0xFFFF_0000_0000_000F,
        2 if word & 3 == 3 => {
            let register = &TABLE[(word >> 8) as usize % TABLE.len()];
            u64::from(register.at((word >> 24) as usize % register.len())) << 32
        }
        3 if word & 3 == 1 => BUFFER.rotate_left(32),
        3 if word & 3 == 3 => word >> 32 << 32 & (0x1F << 32),
        _ => word,
    }
}

/// What is sent counts for a step's bound, not only what is read; and a queue that had no turn is
/// the first in the next step.
#[test]
fn queues_take_turns_at_the_bytes_of_a_step() {
    const LEN: u64 = 16_000;
    let mut guest = Guest::new();
    guest.start(&[], &[]);
    // Each queue has the same ring of packets that are cut into the smallest segments.
    let headers = 7 << tx::MACLEN_SHIFT | 5 << tx::IPLEN_SHIFT | 5 << tx::L4LEN_SHIFT;
    let kind = tx::IIPT_IPV4_CSUM | tx::L4T_TCP | tx::EOP | LEN << tx::SIZE_SHIFT;
    let cut = tx::DTYPE_CONTEXT | tx_context::TSO | 64 << tx_context::MSS_SHIFT;
    let ring = [[0, cut | (LEN - 54) << tx_context::TSO_LEN_SHIFT], [DATA, headers | kind]];
    for (at, words) in (TX_RING..).step_by(16).zip(ring.iter().cycle().take(64)) {
        guest.memory.store(at, words[0]);
        guest.memory.store(at + 8, words[1]);
    }
    guest.chip.write(GLHMC_LANTXCNT::at(0), 4);
    for n in 1..4 {
        for at in (0..context::tx::LEN as u64).step_by(8) {
            let word = guest.memory.load(CONTEXTS + at);
            guest.memory.store(CONTEXTS + context::tx::LEN as u64 * n + at, word);
        }
        let n = n as usize;
        guest.chip.write(QTX_CTL::at(n), QTX_CTL::PFVF_Q_PF);
        guest.chip.write(GLLAN_TXPRE_QDIS::at(0), GLLAN_TXPRE_QDIS::CLEAR_QDIS | n as u32);
        guest.chip.write(QTX_ENA::at(n), QTX_ENA::QENA_REQ);
    }
    let served = |guest: &mut Guest| [0, 1, 2, 3].map(|n| guest.chip.read(QTX_HEAD::at(n)) != 0);
    let fill = |guest: &mut Guest| {
        for n in 0..4 {
            // All descriptors but one.
            let head = guest.chip.read(QTX_HEAD::at(n));
            guest.chip.write(QTX_TAIL::at(n), (head + 63) % 64);
        }
    };
    fill(&mut guest);
    guest.step();
    assert_eq!(served(&mut guest), [true, true, true, false], "{}", guest.chip.lint());
    fill(&mut guest);
    guest.step();
    assert!(served(&mut guest)[3]);
}

/// Contexts may lie in single pages, whose addresses a page has.
#[test]
fn contexts_are_found_in_pages_too() {
    let mut guest = Guest::new();
    guest.start(&[], &[]);
    guest.lend_pages(&[]);
    assert_eq!((guest.chip.queues(), guest.chip.read(PFHMC_ERRORINFO::AT)), ((1, 1), 0));
    let mut guest = Guest::new();
    guest.start(&[], &[]);
    guest.lend_pages(&[0, 0]);
    assert_eq!(guest.chip.queues(), (0, 0), "pages that are none");
    assert_eq!(guest.broke(Rule::ContextUnreachable), 2);
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

/// Linux's driver asks for a report on every fourth packet, and leaves the tail where it was.
#[test]
fn a_head_is_written_without_being_asked_for_and_a_tail_of_before_does_not_count() {
    const HEAD: u64 = PAGES + 64;
    let mut guest = Guest::new();
    guest.start(&[], &[(context::tx::HEAD_WB_ENA, 1), (context::tx::HEAD_WB_ADDR, HEAD)]);
    let packet = [DATA, tx::EOP | 60 << tx::SIZE_SHIFT];
    guest.transmit(&[packet]);
    assert_eq!((guest.cable.from_host.len(), guest.memory.load(HEAD)), (1, 0), "nothing asks, nobody waits");
    guest.chip.write(QINT_TQCTL::at(0), QINT_TQCTL::CAUSE_ENA | 1);
    guest.transmit(&[packet; 3]);
    assert_eq!((guest.cable.from_host.len(), guest.memory.load(HEAD)), (3, 3), "an interrupt is due");
    for (announcement, request) in
        [(GLLAN_TXPRE_QDIS::SET_QDIS, 0), (GLLAN_TXPRE_QDIS::CLEAR_QDIS, QTX_ENA::QENA_REQ)]
    {
        // As Linux does: what was told before is not read back.
        let old = guest.chip.read(GLLAN_TXPRE_QDIS::at(0));
        guest.chip.write(GLLAN_TXPRE_QDIS::at(0), old | announcement);
        guest.chip.write(QTX_ENA::at(0), request);
    }
    guest.step();
    assert_eq!((guest.cable.from_host.len(), guest.chip.read(QTX_TAIL::at(0))), (3, 0));
    assert!(guest.chip.lint().is_empty(), "{}", guest.chip.lint());
}
