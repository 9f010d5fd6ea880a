//! What stands around the model of the XL710: the pages that it shares, the wire, and a virtual
//! function with a mailbox of its own.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use model::fixture::{Bar, Memory};
use model::i40e::{POLLED, SharedSlot, Vf};
use model::{Chip, Dma, FrameError, MAX_FRAME, Pages, Wire};
use regs::i40e::admin::{BUFFER as BUFFER_LEN, DESCRIPTOR, Descriptor, flag, opcode};
use regs::iavf;

use super::act::Act;
use super::{BUFFER, IOVA, SEND, SIZE, large, put};

/// The pages that both sides see.
#[derive(Clone)]
pub(super) struct Tails(Arc<[AtomicU32]>);

impl Tails {
    pub fn new() -> Tails {
        let words: u32 = POLLED.iter().map(|(_, len)| len / 4).sum();
        Tails((0..words).map(|_| AtomicU32::new(0)).collect())
    }

    fn place(&self, offset: u32) -> Option<&AtomicU32> {
        let mut before = 0;
        for (first, len) in POLLED {
            if let Some(at) = offset.checked_sub(first).filter(|at| *at < len) {
                return self.0.get((before + at) as usize / 4);
            }
            before += len;
        }
        None
    }
}

impl Pages for Tails {
    fn load(&self, offset: u32) -> u32 {
        self.place(offset).map_or(0, |word| word.load(Ordering::Relaxed))
    }

    fn store(&self, offset: u32, value: u32) {
        self.place(offset).into_iter().for_each(|word| word.store(value, Ordering::Relaxed));
    }
}

/// The wire: frames that wait, and how much went by since the last step.
#[derive(Default)]
pub(super) struct Cable {
    pub to_host: VecDeque<(Vec<u8>, FrameError)>,
    fault: FrameError,
    pub taken: usize,
    pub sent: usize,
    pub backpressure: bool,
    pub dark: bool,
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

/// A virtual function, and its driver's memory: a mailbox at its start.
pub(super) struct Member {
    device: Vf<Memory, Bar>,
    memory: Memory,
}

impl Member {
    pub fn new(slot: SharedSlot) -> Member {
        let memory = Memory::new(IOVA, 0x4000);
        let mut member = Member { device: Vf::new(memory.clone(), Bar::default(), slot), memory };
        for (register, value) in [
            (iavf::VF_ATQBAL1::AT, SEND as u32),
            (iavf::VF_ATQBAH1::AT, (SEND >> 32) as u32),
            (iavf::VF_ATQLEN1::AT, SIZE | iavf::VF_ATQLEN1::ENABLE),
        ] {
            member.write(register, value);
        }
        member
    }

    fn write(&mut self, offset: u32, value: u32) {
        Chip::<Cable>::write(&mut self.device, offset, value);
    }

    /// What its driver does, or the device.
    pub fn act(&mut self, act: &Act, now_ns: u64) {
        match *act {
            Act::VfWrite { register, n, value } => {
                let register = &iavf::TABLE[usize::from(register) % iavf::TABLE.len()];
                self.write(register.at(usize::from(n) % register.len()), value);
            }
            Act::Message { kind, len, ref bytes } => self.send(kind % 32, len, bytes),
            Act::Vf(true) => Chip::<Cable>::reset(&mut self.device),
            _ => _ = Chip::step(&mut self.device, &mut Cable::default(), now_ns),
        }
    }

    /// Control frames that it has sent, which the card drops.
    pub fn control(&self) -> u64 {
        let drops = Chip::<Cable>::drops(&self.device);
        drops.iter().find(|(of, _)| *of == "tx_control").map_or(0, |(_, count)| *count)
    }

    /// Sends bytes, and those behind them in memory.
    fn send(&mut self, kind: u32, len: u16, bytes: &[u8]) {
        self.memory.write(BUFFER, bytes);
        let mut command = Descriptor::new(opcode::SEND_MSG_TO_PF);
        (command.cookie, command.datalen) = (kind.into(), len % (BUFFER_LEN as u16 + 2));
        command.flags = flag::BUF | flag::RD | large(command.datalen);
        command.set_address(BUFFER);
        let tail = Chip::<Cable>::read(&mut self.device, iavf::VF_ATQT1::AT) % SIZE;
        put(&self.memory, SEND + u64::from(tail) * DESCRIPTOR as u64, &command.words());
        self.write(iavf::VF_ATQT1::AT, (tail + 1) % SIZE);
    }
}
