//! The model of the 82599 driven by a hostile driver: any register, any
//! descriptor, memory that goes and comes back, frames of any kind.
//!
//! What holds whatever is done: no panic, a step of bounded work, and accounts that
//! balance after it.

use std::collections::VecDeque;

use arbitrary::Arbitrary;
use model::fixture::{Bar, Memory};
use model::ixgbe::{Ixgbe, Options};
use model::{FrameError, MAX_FRAME, Pages, Wire};
use regs::ixgbe::*;

use crate::headers::Headers;

/// Where the device sees memory, and how much there is.
const IOVA: u64 = 0x1000_0000;
const BYTES: usize = 256 << 10;
/// Time enough for the link to come up.
const LINK_NS: u64 = 10_000_000;
/// What a step may do at most, as [`Ixgbe::step`] has it: frames taken, and
/// bytes sent. The longest packet is 256 KiB, and at most as much in headers
/// for each of its segments.
const FRAMES: usize = 64;
const SENT: usize = 5 << 20;
/// Acts of a run, and frames that may wait: a run is short.
const ACTS: usize = 256;
const WAITING: usize = 200;

/// A register: one of the table, one of the first queues, or any place.
#[derive(Arbitrary, Debug)]
pub enum RegisterOffset {
    Known { register: u16, n: u8 },
    Queue { page: u8, n: u8, word: u8 },
    Any(u32),
}

impl RegisterOffset {
    fn offset(&self) -> u32 {
        match *self {
            RegisterOffset::Known { register, n } => {
                let register = &TABLE[usize::from(register) % TABLE.len()];
                register.at(usize::from(n) % register.len())
            }
            RegisterOffset::Queue { page, n, word } => {
                let page = [0x1000, 0x6000, 0xD000][usize::from(page) % 3];
                page + u32::from(n % 4) * 0x40 + u32::from(word % 16) * 4
            }
            RegisterOffset::Any(offset) => offset % (BAR0_LEN + 64),
        }
    }
}

/// What the driver, or the wire, does next.
#[derive(Arbitrary, Debug)]
pub enum Act {
    /// An access that the model hears of.
    Write {
        place: RegisterOffset,
        value: u32,
    },
    /// A store to a page that both sides see.
    Page {
        place: RegisterOffset,
        value: u32,
    },
    Read(RegisterOffset),
    /// Any word of memory.
    Word {
        at: u16,
        word: u64,
    },
    /// A receive ring is handed over, or taken back.
    RxRing {
        n: u8,
        at: u16,
        len: u8,
        srrctl: u32,
        control: u32,
        on: bool,
    },
    /// A transmit ring is handed over, or taken back.
    TxRing {
        n: u8,
        at: u16,
        len: u8,
        control: u32,
        on: bool,
    },
    /// Buffers for the device to fill.
    Buffers {
        n: u8,
        count: u8,
        at: u32,
    },
    /// A transmit descriptor: of data, with some of the bits that mean something.
    Data {
        n: u8,
        at: u32,
        len: u16,
        flags: u8,
        payload: Option<u16>,
    },
    /// A transmit descriptor: anything.
    Descriptor {
        n: u8,
        words: [u64; 2],
    },
    /// A transmit descriptor: of a context whose lengths fit common headers.
    Context {
        n: u8,
        mss: u16,
        tcp: bool,
        v6: bool,
    },
    /// Headers in memory, for a packet to begin with.
    Store {
        at: u32,
        headers: Headers,
    },
    /// A frame with headers comes.
    Packet {
        headers: Headers,
        len: u16,
    },
    /// A frame comes: some bytes, and the same one behind.
    Frame {
        head: Vec<u8>,
        len: u16,
        fault: u8,
    },
    Step(u32),
    /// The function is reset.
    Reset,
    /// All but so many bytes of memory go.
    Map(u32),
    Light(bool),
    Backpressure(bool),
}

/// The wire: frames that wait, and how much went by since the last step.
#[derive(Default)]
struct Cable {
    to_host: VecDeque<(Vec<u8>, FrameError)>,
    fault: FrameError,
    taken: usize,
    sent: usize,
    backpressure: bool,
    dark: bool,
}

impl Wire for Cable {
    fn receive(&mut self, frame: &mut [u8]) -> Option<usize> {
        let (bytes, fault) = self.to_host.pop_front()?;
        frame[..bytes.len()].copy_from_slice(&bytes);
        (self.fault, self.taken) = (fault, self.taken + 1);
        Some(bytes.len())
    }

    fn transmit(&mut self, frame: &[u8]) {
        assert!(frame.len() <= MAX_FRAME, "a frame of {} bytes", frame.len());
        self.sent += frame.len();
    }

    fn frame_error(&self) -> FrameError {
        self.fault
    }

    fn has_backpressure(&self) -> bool {
        self.backpressure
    }

    fn is_up(&self) -> bool {
        !self.dark
    }
}

/// A device, its memory and its wire.
pub struct Rig {
    chip: Ixgbe<Memory, Bar>,
    memory: Memory,
    bar: Bar,
    cable: Cable,
    now_ns: u64,
}

impl Rig {
    /// After power-on, or ready to receive and send.
    pub fn new(up: bool) -> Rig {
        let (memory, bar) = (Memory::new(IOVA, BYTES), Bar::default());
        let chip = Ixgbe::new(memory.clone(), bar.clone(), &Options::default());
        let mut rig = Rig { chip, memory, bar, cable: Cable::default(), now_ns: 0 };
        rig.step(LINK_NS as u32);
        if up {
            for (offset, value) in [
                (FCTRL::AT, FCTRL::BAM | FCTRL::UPE | FCTRL::MPE),
                (RXCSUM::AT, RXCSUM::PCSD | RXCSUM::IPPCSE),
                (RXCTRL::AT, RXCTRL::RXEN),
                (DMATXCTL::AT, DMATXCTL::TE | 0x8100 << DMATXCTL::VT_SHIFT),
            ] {
                rig.chip.write(offset, value);
            }
            rig.rx_ring(0, 0, 8, SRRCTL::DESCTYPE_ADV_ONE_BUFFER | 2, 0);
            rig.buffers(0, 60, 0x1_0000);
            rig.tx_ring(0, 0x4000, 8, 0);
        }
        rig
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
            Act::Write { ref place, value } => self.chip.write(place.offset() & !3, value),
            Act::Page { ref place, value } => self.bar.store(place.offset() & !3, value),
            Act::Read(ref place) => _ = self.chip.read(place.offset() & !3),
            Act::Word { at, word } => self.memory.store(IOVA + u64::from(at) % (BYTES as u64 / 8) * 8, word),
            Act::RxRing { n, control, on: false, .. } => {
                self.chip.write(RXDCTL::at(usize::from(n) % RDT::COUNT), control & !RXDCTL::ENABLE);
            }
            Act::RxRing { n, at, len, srrctl, control, .. } => {
                self.rx_ring(n.into(), at, len, srrctl, control)
            }
            Act::TxRing { n, control, on: false, .. } => {
                self.chip.write(TXDCTL::at(usize::from(n) % TDT::COUNT), control & !TXDCTL::ENABLE);
            }
            Act::TxRing { n, at, len, control, .. } => self.tx_ring(n.into(), at, len, control),
            Act::Buffers { n, count, at } => self.buffers(n.into(), count, at),
            Act::Data { n, at, len, flags, payload } => {
                self.data(n.into(), at, len.into(), flags, payload.map(u64::from))
            }
            Act::Descriptor { n, words } => self.descriptor(usize::from(n) % TDT::COUNT, words),
            Act::Context { n, mss, tcp, v6 } => self.context(n.into(), mss, tcp, v6),
            Act::Store { at, ref headers } => {
                let at = IOVA + u64::from(at) % BYTES as u64;
                model::Dma::write(&self.memory, at, &headers.bytes(100));
            }
            Act::Packet { ref headers, len } => self.frame(&headers.bytes(len), len.into(), u8::MAX),
            Act::Frame { ref head, len, fault } => self.frame(head, len.into(), fault),
            Act::Step(ns) => self.step(ns % 1_000_000),
            Act::Reset => self.chip.reset(),
            Act::Map(len) => self.memory.map_only(len.into()),
            Act::Light(on) => self.cable.dark = !on,
            Act::Backpressure(on) => self.cable.backpressure = on,
        }
    }

    fn rx_ring(&mut self, n: usize, at: u16, len: u8, srrctl: u32, control: u32) {
        let n = n % RDT::COUNT;
        self.chip.write(RDBAL::at(n), IOVA as u32 + u32::from(at) * 4);
        self.chip.write(RDLEN::at(n), u32::from(len) * 128);
        self.chip.write(SRRCTL::at(n), srrctl);
        self.chip.write(RXDCTL::at(n), RXDCTL::ENABLE | control);
    }

    fn tx_ring(&mut self, n: usize, at: u16, len: u8, control: u32) {
        let n = n % TDT::COUNT;
        self.chip.write(TDBAL::at(n), IOVA as u32 + u32::from(at) * 4);
        self.chip.write(TDLEN::at(n), u32::from(len) * 128);
        self.chip.write(TXDCTL::at(n), TXDCTL::ENABLE | control);
    }

    fn buffers(&mut self, n: usize, count: u8, at: u32) {
        let n = n % RDT::COUNT;
        for k in 0..u32::from(count) {
            let buffer = IOVA + u64::from(at.wrapping_add(k * 2048)) % BYTES as u64;
            self.put(RDBAL::at(n), RDLEN::at(n), RDT::at(n), [buffer, 0]);
        }
    }

    fn descriptor(&mut self, n: usize, words: [u64; 2]) {
        self.put(TDBAL::at(n), TDLEN::at(n), TDT::at(n), words);
    }

    fn data(&mut self, n: usize, at: u32, len: u64, flags: u8, payload: Option<u64>) {
        use descriptor::tx::*;
        let bits = [EOP, RS, TSE, IXSM, TXSM, VLE, CC];
        let set = |(n, bit): (usize, u64)| if flags >> n & 1 != 0 { bit } else { 0 };
        let flags: u64 = bits.into_iter().enumerate().map(set).sum();
        let payload = payload.unwrap_or(len) << PAYLEN_SHIFT;
        // One of nine is behind the memory that there is.
        let buffer = IOVA + u64::from(at) % (BYTES + BYTES / 8) as u64;
        self.descriptor(n % TDT::COUNT, [buffer, DEXT | DTYP_DATA | IFCS | flags | payload | len]);
    }

    /// Lengths as [`Headers`] without a tag and without options has them.
    fn context(&mut self, n: usize, mss: u16, tcp: bool, v6: bool) {
        use descriptor::{tx, tx_context_high as high, tx_context_low as low};
        let (l3, l4) = (if v6 { 40 } else { 20 }, if tcp { 20 } else { 8 });
        let kind = if tcp { high::L4T_TCP } else { 0 } | if v6 { 0 } else { high::IPV4 };
        let sizes = l4 << high::L4LEN_SHIFT | u64::from(mss) << high::MSS_SHIFT;
        let words = [l3 | 14 << low::MACLEN_SHIFT, tx::DEXT | tx::DTYP_CONTEXT | kind | sizes];
        self.descriptor(n % TDT::COUNT, words);
    }

    /// Writes a descriptor where the tail is, if that is in memory, and moves on.
    fn put(&mut self, base: u32, len: u32, tail: u32, words: [u64; 2]) {
        let (base, size, at) = (self.bar.load(base), self.bar.load(len) / 16, self.bar.load(tail));
        for (word, offset) in words.into_iter().zip([0, 8]) {
            let place = u64::from(base & !127) + u64::from(at) * 16 + offset;
            if (IOVA..IOVA + BYTES as u64).contains(&place) {
                self.memory.store(place, word);
            }
        }
        // The tail may be anything: a write may have put it there.
        self.bar.store(tail, at.checked_add(1).filter(|next| *next < size).unwrap_or(0));
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

    /// Offered is delivered, lost by name or waiting.
    fn balance(&mut self) {
        let (totals, drops) = (self.chip.totals(), *self.chip.drops());
        let (rx, tx) = self.chip.offered();
        let waiting = self.chip.waiting() as u64;
        assert_eq!(rx, totals.rx_packets + drops.rx() + waiting, "{drops:?}");
        assert_eq!(tx, totals.tx_packets + drops.tx(), "{drops:?}");
    }
}
