//! What a hostile driver of the XL710 does, and what its wire and its virtual function do.

use arbitrary::Arbitrary;
use regs::i40e::*;

use super::QUEUES;
use crate::headers::Headers;

/// A register: one of the table, one of the first queues, or any place.
#[derive(Arbitrary, Debug)]
pub enum RegisterOffset {
    Known { register: u16, n: u16 },
    Queue { of: u8, n: u8 },
    Any(u32),
}

impl RegisterOffset {
    /// Its offset in BAR 0, or just behind that.
    pub(super) fn offset(&self) -> u32 {
        match *self {
            RegisterOffset::Known { register, n } => {
                let register = &TABLE[usize::from(register) % TABLE.len()];
                register.at(usize::from(n) % register.len())
            }
            RegisterOffset::Queue { of, n } => {
                let registers = [
                    QTX_ENA::REGISTER,
                    QRX_ENA::REGISTER,
                    QTX_CTL::REGISTER,
                    QTX_HEAD::REGISTER,
                    QINT_RQCTL::REGISTER,
                    QINT_TQCTL::REGISTER,
                ];
                registers[usize::from(of) % registers.len()].at(usize::from(n) % QUEUES)
            }
            RegisterOffset::Any(offset) => (offset % (BAR0_LEN + 64)) & !3,
        }
    }
}

/// What a driver, or the wire, does next.
#[derive(Arbitrary, Debug)]
pub enum Act {
    Write {
        place: RegisterOffset,
        value: u32,
    },
    Read(RegisterOffset),
    /// A write of a queue's tail register.
    Tail {
        receive: bool,
        n: u8,
        value: u16,
    },
    /// Any word of memory.
    Word {
        at: u16,
        word: u64,
    },
    /// A command that there is, with a buffer if it has a length.
    Command {
        which: u8,
        params: [u8; 12],
        element: u8,
        len: u16,
        flags: u8,
        fill: u64,
    },
    /// A descriptor of the admin queue: anything.
    Admin {
        words: [u64; 4],
    },
    /// Descriptors for events.
    Lend {
        count: u8,
        len: u16,
    },
    /// Memory for contexts: a segment, or a page with the addresses of its pages.
    Segment {
        index: u8,
        at: u16,
        pages: u16,
        direct: bool,
        valid: bool,
    },
    /// A queue's context as it should be but for one field, and the queue enabled or disabled.
    Queue {
        receive: bool,
        n: u8,
        size: u8,
        change: Option<(u8, u64)>,
        on: bool,
        announce: bool,
    },
    /// Buffers for the device to fill.
    Buffers {
        n: u8,
        count: u8,
        at: u32,
    },
    /// A transmit descriptor of data, with some of the bits that mean something.
    Data {
        n: u8,
        at: u32,
        len: u16,
        flags: u8,
        skew: u8,
    },
    /// A transmit descriptor: anything.
    Transmit {
        n: u8,
        words: [u64; 2],
    },
    /// A transmit descriptor of a context that cuts the packet behind it.
    Cut {
        n: u8,
        mss: u16,
        len: u32,
    },
    /// A transmit descriptor that programs a filter with the packet behind it.
    Filter {
        n: u8,
        class: u8,
        queue: u8,
        high: u64,
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
        head: [u8; 16],
        len: u16,
        fault: u8,
    },
    Step(u32),
    /// Of the function, of the card, by power.
    Reset(u8),
    /// All but so many bytes of memory go.
    Map(u32),
    Master(bool),
    Light(bool),
    Backpressure(bool),
    /// The virtual function's driver writes a register.
    VfWrite {
        register: u8,
        n: u8,
        value: u32,
    },
    /// The virtual function's driver sends a message.
    Message {
        kind: u32,
        len: u16,
        bytes: [u8; 16],
    },
    /// The virtual function does some work, or is reset by its driver.
    Vf(bool),
}
