//! The model of the XL710 driven by a hostile driver: any register, any command of the
//! firmware, any context and descriptor, memory that goes and comes, frames of any kind; and
//! beside it a virtual function whose driver is no better.
//!
//! What holds whatever is done: no panic, a step of bounded work, and accounts that
//! balance after it.

mod act;
mod parts;

pub use act::{Act, RegisterOffset};

use model::fixture::Memory;
use model::i40e::{I40e, SharedSlot};
use model::{Chip, Dma, FrameError, MAX_FRAME, Pages};
use regs::i40e::admin::{BUFFER as BUFFER_LEN, DESCRIPTOR, Descriptor, SMALL_BUFFER, flag, opcode};
use regs::i40e::context::{Field, rx, tx};
use regs::i40e::descriptor::{filter, tx as bits, tx_context};
use regs::i40e::*;

use parts::{Cable, Member, Tails};

/// Where the device sees memory, and how much there is.
const IOVA: u64 = 1 << 32;
const BYTES: usize = 256 << 10;
/// What lies where: the rings of the admin queue with a buffer of commands and one of events, the
/// contexts of queues, and their rings.
const SEND: u64 = IOVA;
const RECEIVE: u64 = IOVA + 0x1000;
const BUFFER: u64 = IOVA + 0x2000;
const EVENTS: u64 = IOVA + 0x3000;
const CONTEXTS: u64 = IOVA + 0x4000;
const RX_CONTEXTS: u64 = 0x1000;
const RINGS: u64 = IOVA + 0x8000;
const RING_BYTES: u64 = 0x1000;
/// Descriptors of the admin queue's rings.
const SIZE: u32 = 32;
/// Queues of each kind with a ring of their own.
const QUEUES: usize = 4;
/// The SEIDs of the model, and one that is nobody's.
const SEIDS: [u16; 8] = [390, 391, 288, 400, 401, 2, 16, 7];
/// What a step may do at most, as [`I40e::step`] has it: frames taken, and bytes sent. A budget of
/// 4 MiB, and one packet beyond, whose pieces of 64 bytes have long headers each; and frames of
/// virtual functions.
const FRAMES: usize = 64;
const SENT: usize = 10 << 20;
/// Acts of a run, and frames that may wait: a run is short.
const ACTS: usize = 256;
const WAITING: usize = 200;

/// How far the driver is in a queue, as it believes.
#[derive(Clone, Copy)]
struct Cursor {
    base: u64,
    size: u32,
}

/// A device, its memory and its wire.
pub struct Rig {
    chip: I40e<Memory, Tails>,
    memory: Memory,
    tails: Tails,
    cable: Cable,
    vf: Option<Member>,
    /// Transmit queues, then receive queues.
    cursors: [[Cursor; QUEUES]; 2],
    now_ns: u64,
}

impl Rig {
    /// After power-on, or ready to receive and send; with or without a virtual function.
    pub fn new(family: Family, up: bool, with_vf: bool) -> Rig {
        let (memory, tails) = (Memory::new(IOVA, BYTES), Tails::new());
        let slots: Vec<SharedSlot> = (0..2 * usize::from(with_vf)).map(|_| SharedSlot::default()).collect();
        // Bytes that an input lacks are zero: so are the addresses of most frames.
        let mac = [0; 6];
        let chip = I40e::with_vfs(family, memory.clone(), tails.clone(), mac, &slots);
        let vf = slots.into_iter().next().map(Member::new);
        let ring = |kind: usize, n: usize| Cursor {
            base: RINGS + RING_BYTES * (kind * QUEUES + n) as u64,
            size: 64,
        };
        let cursors = [0, 1].map(|kind| [0, 1, 2, 3].map(|n| ring(kind, n)));
        let mut rig = Rig { chip, memory, tails, cable: Cable::default(), vf, cursors, now_ns: 0 };
        rig.bring_up();
        if up {
            rig.chip.write(PFQF_CTL_0::AT, PFQF_CTL_0::FD_ENA);
            rig.segment(0, CONTEXTS, 4, true, true);
            for receive in [false, true] {
                rig.queue(receive, 0, 2, None);
                rig.enable(receive, 0, true, true);
            }
            rig.buffers(0, 60, 0x1_8000);
        }
        rig
    }

    /// The admin queues run, and contexts have their places.
    fn bring_up(&mut self) {
        for (offset, value) in [
            (PF_ATQBAL::AT, SEND as u32),
            (PF_ATQBAH::AT, (SEND >> 32) as u32),
            (PF_ATQLEN::AT, SIZE | PF_ATQLEN::ENABLE),
            (PF_ARQBAL::AT, RECEIVE as u32),
            (PF_ARQBAH::AT, (RECEIVE >> 32) as u32),
            (PF_ARQLEN::AT, SIZE | PF_ARQLEN::ENABLE),
            (GLHMC_LANTXCNT::at(0), 2 * QUEUES as u32),
            (GLHMC_LANRXBASE::at(0), RX_CONTEXTS as u32 / 512),
            (GLHMC_LANRXCNT::at(0), 2 * QUEUES as u32),
        ] {
            self.chip.write(offset, value);
        }
        self.lend(8, BUFFER_LEN as u16);
    }

    /// A run: what the acts say, and a last look at the accounts.
    pub fn run(mut self, acts: &[Act]) {
        for act in acts.iter().take(ACTS) {
            self.act(act);
        }
        self.step(100_000);
    }

    fn act(&mut self, act: &Act) {
        match *act {
            Act::Write { ref place, value } => self.chip.write(place.offset(), value),
            Act::Read(ref place) => _ = self.chip.read(place.offset()),
            Act::Tail { receive, n, value } => self.tails.store(tail(receive, n.into()), value.into()),
            Act::Word { at, word } => self.memory.store(IOVA + u64::from(at) % (BYTES as u64 / 8) * 8, word),
            Act::Command { which, params, element, len, flags, fill } => {
                self.command(which, &params, element, len, flags, fill);
            }
            Act::Admin { words } => self.admin(&words),
            Act::Lend { count, len } => self.lend(count, len),
            Act::Segment { index, at, pages, direct, valid } => {
                self.segment(index, IOVA + u64::from(at % 80) * 4096, pages.into(), direct, valid);
            }
            Act::Queue { receive, n, size, change, on, announce } => {
                self.queue(receive, n.into(), size, change);
                self.enable(receive, n.into(), on, announce);
            }
            Act::Buffers { n, count, at } => self.buffers(n.into(), count, at),
            Act::Data { n, at, len, flags, skew } => self.data(n.into(), at, len.into(), flags, skew),
            Act::Transmit { n, words } => self.put(false, n.into(), words),
            Act::Cut { n, mss, len } => {
                let len = u64::from(len) << tx_context::TSO_LEN_SHIFT & tx_context::TSO_LEN_MASK;
                let mss = u64::from(mss) << tx_context::MSS_SHIFT & tx_context::MSS_MASK;
                self.put(false, n.into(), [0, bits::DTYPE_CONTEXT | tx_context::TSO | len | mss]);
            }
            Act::Filter { n, class, queue, high } => {
                let low = u64::from(class % 64) << filter::PCTYPE_SHIFT | u64::from(queue);
                self.put(false, n.into(), [low, high & !bits::DTYPE_MASK | bits::DTYPE_FILTER]);
            }
            Act::Store { at, ref headers } => _ = self.memory.write(place(at), &headers.bytes(100)),
            Act::Packet { ref headers, len } => self.frame(&headers.bytes(len), len.into(), u8::MAX),
            Act::Frame { ref head, len, fault } => self.frame(head, len.into(), fault),
            Act::Step(ns) => self.step(ns % 200_000_000),
            Act::Reset(0..64) => self.chip.write(GLGEN_RTRIG::AT, GLGEN_RTRIG::CORER),
            Act::Reset(64..128) => self.chip.reset(),
            Act::Reset(n) => {
                self.chip.write(PFGEN_CTRL::AT, PFGEN_CTRL::PFSWR);
                if n & 1 != 0 {
                    self.bring_up();
                }
            }
            Act::Map(len) => self.memory.map_only(len.into()),
            Act::Master(on) => self.chip.set_bus_master(on),
            Act::Light(on) => self.cable.dark = !on,
            Act::Backpressure(on) => self.cable.backpressure = on,
            _ => self.vf.iter_mut().for_each(|vf| vf.act(act, self.now_ns)),
        }
    }

    /// A command of the table in the admin queue, with an element's name in one of the places where
    /// commands have it.
    fn command(&mut self, which: u8, params: &[u8], element: u8, len: u16, flags: u8, fill: u64) {
        let (opcode, _) = opcode::TABLE[usize::from(which) % opcode::TABLE.len()];
        let mut command = Descriptor::new(opcode);
        command.set_param(0, params);
        let at = [0, 2, 4, 10, 16][usize::from(element >> 4) % 5];
        command.set_param(at, &SEIDS[usize::from(element) % SEIDS.len()].to_le_bytes());
        let by_register = [
            opcode::RX_CTL_REG_READ,
            opcode::RX_CTL_REG_WRITE,
            opcode::DEBUG_READ_REG,
            opcode::DEBUG_WRITE_REG,
        ];
        if by_register.contains(&opcode) {
            let register = &TABLE[fill as u16 as usize % TABLE.len()];
            command.set_param(4, &register.at((fill >> 16) as usize % register.len()).to_le_bytes());
            command.set_param(12, &params[..4]);
        }
        if len > 0 {
            command.datalen = len % (BUFFER_LEN as u16 + 2);
            command.flags = flag::BUF | flag::RD | large(command.datalen);
            command.set_address(BUFFER);
            put(&self.memory, BUFFER, &[fill, fill.rotate_left(16)]);
        }
        // Most have the flags that fit.
        command.flags ^=
            if flags < 16 { [flag::BUF, flag::RD, flag::LB, 0][usize::from(flags % 4)] } else { 0 };
        self.admin(&command.words());
    }

    /// Puts a descriptor into the send queue, and rings.
    fn admin(&mut self, words: &[u64]) {
        let tail = self.chip.read(PF_ATQT::AT) % SIZE;
        put(&self.memory, SEND + u64::from(tail) * DESCRIPTOR as u64, words);
        self.chip.write(PF_ATQT::AT, (tail + 1) % SIZE);
    }

    fn lend(&mut self, count: u8, len: u16) {
        let tail = self.chip.read(PF_ARQT::AT) % SIZE;
        let count = u32::from(count) % SIZE;
        let mut lent = Descriptor { flags: flag::BUF | large(len), datalen: len, ..Descriptor::default() };
        lent.set_address(EVENTS);
        for n in 0..count {
            let n = (tail + n) % SIZE;
            put(&self.memory, RECEIVE + u64::from(n) * DESCRIPTOR as u64, &lent.words());
        }
        self.chip.write(PF_ARQT::AT, (tail + count) % SIZE);
    }

    fn segment(&mut self, index: u8, at: u64, pages: u32, direct: bool, valid: bool) {
        let set = |on: bool, bit: u32| if on { bit } else { 0 };
        let count = pages << PFHMC_SDDATALOW::BPCOUNT_SHIFT & PFHMC_SDDATALOW::BPCOUNT_MASK;
        let kind = set(direct, PFHMC_SDDATALOW::TYPE_DIRECT) | set(valid, PFHMC_SDDATALOW::VALID);
        self.chip.write(PFHMC_SDDATAHIGH::AT, (at >> 32) as u32);
        self.chip.write(PFHMC_SDDATALOW::AT, at as u32 | count | kind);
        self.chip.write(PFHMC_SDCMD::AT, PFHMC_SDCMD::PMSDWR | u32::from(index % 4));
    }

    /// Writes a context.
    fn queue(&mut self, receive: bool, n: usize, size: u8, change: Option<(u8, u64)>) {
        let n = n % QUEUES;
        let cursor = &mut self.cursors[usize::from(receive)][n];
        let size = u64::from(size % 9) * context::RING_MULTIPLE;
        cursor.size = (size as u32).max(1);
        let (table, fields, at): (&[Field], Vec<(Field, u64)>, u64) = if receive {
            let fields = [
                (rx::BASE, cursor.base / 128),
                (rx::QLEN, size),
                (rx::DBUFF, 16),
                (rx::RXMAX, 9728),
                (rx::CRCSTRIP, 1),
                (rx::L2TSEL, 1),
            ];
            (rx::TABLE, fields.into(), CONTEXTS + RX_CONTEXTS + (n * rx::LEN) as u64)
        } else {
            let fields =
                [(tx::BASE, cursor.base / 128), (tx::QLEN, size), (tx::FD_ENA, 1), (tx::RDYLIST, 21)];
            (tx::TABLE, fields.into(), CONTEXTS + (n * tx::LEN) as u64)
        };
        let mut words = [0; tx::LEN / 8];
        fields.iter().for_each(|(field, value)| field.put(&mut words, *value));
        if let Some((which, value)) = change {
            table[usize::from(which) % table.len()].put(&mut words, value);
        }
        put(&self.memory, at, if receive { &words[..rx::LEN / 8] } else { &words });
    }

    fn enable(&mut self, receive: bool, n: usize, on: bool, announce: bool) {
        let n = n % QUEUES;
        if receive {
            return self.chip.write(QRX_ENA::at(n), if on { QRX_ENA::QENA_REQ } else { 0 });
        }
        if announce {
            let told = if on { GLLAN_TXPRE_QDIS::CLEAR_QDIS } else { GLLAN_TXPRE_QDIS::SET_QDIS };
            self.chip.write(GLLAN_TXPRE_QDIS::at(0), told | n as u32);
        }
        self.chip.write(QTX_CTL::at(n), QTX_CTL::PFVF_Q_PF);
        self.chip.write(QTX_ENA::at(n), if on { QTX_ENA::QENA_REQ } else { 0 });
    }

    fn buffers(&mut self, n: usize, count: u8, at: u32) {
        for k in 0..u32::from(count % 128) {
            // One of nine is behind the memory that there is.
            let buffer = u64::from(at.wrapping_add(k * 2048)) % (BYTES + BYTES / 8) as u64;
            self.put(true, n, [IOVA + buffer, 0]);
        }
    }

    fn data(&mut self, n: usize, at: u32, len: u64, flags: u8, skew: u8) {
        use bits::*;
        let kinds = [EOP, RS, IL2TAG1, DUMMY, IIPT_IPV6, IIPT_IPV4, L4T_TCP, L4T_SCTP];
        let set = |(n, bit): (usize, u64)| if flags >> n & 1 != 0 { bit } else { 0 };
        let flags: u64 = kinds.into_iter().enumerate().map(set).sum();
        // Lengths as [`Headers`] without a tag and without options has them, unless they are askew.
        let network = if flags & IIPT_MASK == IIPT_IPV6 { 10 } else { 5 };
        let transport = if flags & L4T_MASK == L4T_TCP { 5 } else { 2 };
        let lengths = 7 << MACLEN_SHIFT
            | (network ^ u64::from(skew & 15)) << IPLEN_SHIFT
            | (transport ^ u64::from(skew >> 6)) << L4LEN_SHIFT;
        let buffer = IOVA + u64::from(at) % (BYTES + BYTES / 8) as u64;
        self.put(false, n, [buffer, ICRC | flags | lengths | len << SIZE_SHIFT & SIZE_MASK]);
    }

    /// Writes a descriptor where the tail is, as far as the driver knows the ring, and moves on.
    fn put(&mut self, receive: bool, n: usize, words: [u64; 2]) {
        let n = n % QUEUES;
        let Cursor { base, size } = self.cursors[usize::from(receive)][n];
        let at = self.tails.load(tail(receive, n)) % size;
        put(&self.memory, base + 16 * u64::from(at), &words);
        self.tails.store(tail(receive, n), (at + 1) % size);
    }

    fn frame(&mut self, head: &[u8], len: usize, fault: u8) {
        let fault = match fault {
            0 => FrameError::Crc,
            1 => FrameError::Symbol,
            _ => FrameError::None,
        };
        let mut frame = head.to_vec();
        frame.resize(len % (MAX_FRAME + 1), 0x5A);
        if self.cable.to_host.len() < WAITING {
            self.cable.to_host.push_back((frame, fault));
        }
    }

    fn step(&mut self, ns: u32) {
        self.now_ns += u64::from(ns);
        (self.cable.taken, self.cable.sent) = (0, 0);
        self.chip.step(&mut self.cable, self.now_ns);
        assert!(self.cable.taken <= FRAMES, "{} frames in a step", self.cable.taken);
        assert!(self.cable.sent <= SENT, "{} bytes in a step", self.cable.sent);
        self.balance();
    }

    /// Offered is delivered or lost by name. With virtual functions some of what the function
    /// receives was never on the wire, and some losses are of what they sent.
    fn balance(&mut self) {
        let counters = Chip::<Cable>::counters(&mut self.chip);
        let count = |name: &str| counters.iter().find(|(of, _)| *of == name).map_or(0, |(_, count)| *count);
        let drops = *self.chip.drops();
        let (offered, received) =
            (count("rx_offered"), count("rx_packets") + count("rx_for_vfs") + drops.rx());
        match self.vf {
            None => assert_eq!(offered, received, "{drops:?}"),
            Some(_) => assert!(offered <= received, "{offered} of {received}: {drops:?}"),
        }
        let control = self.vf.as_ref().map_or(0, Member::control);
        let of_vfs = drops.tx_spoofed + drops.tx_no_vsi + control;
        assert_eq!(count("tx_offered") + of_vfs, count("tx_packets") + drops.tx(), "{drops:?}");
    }
}

/// The flag that a long buffer needs.
fn large(len: u16) -> u16 {
    if usize::from(len) > SMALL_BUFFER { flag::LB } else { 0 }
}

fn tail(receive: bool, n: usize) -> u32 {
    if receive { QRX_TAIL::at(n % QUEUES) } else { QTX_TAIL::at(n % QUEUES) }
}

fn put(memory: &Memory, at: u64, words: &[u64]) {
    (at..).step_by(8).zip(words).for_each(|(at, word)| memory.store(at, *word));
}

fn place(at: u32) -> u64 {
    IOVA + u64::from(at) % BYTES as u64
}
