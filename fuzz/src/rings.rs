//! The virtio model driven by a hostile driver: any register, any
//! descriptor in either layout, tables, commands, memory that goes and comes.
//!
//! What holds whatever is done: no panic, a step of bounded work, and accounts that
//! balance after it.

use std::collections::VecDeque;

use arbitrary::Arbitrary;
use model::fixture::Memory;
use model::virtio::pci::{BAR_BYTES, Function};
use model::virtio::{Notify, Options};
use model::{Dma, FrameError, MAX_FRAME, Wire};
use regs::virtio::device::status;
use regs::virtio::feature;
use regs::virtio::packed::descriptor as packed;
use regs::virtio::pci::common::*;
use regs::virtio::split::{available, descriptor as split};

use crate::headers::Headers;

/// Where the device sees memory, and how much there is.
const IOVA: u64 = 0x1000_0000;
const BYTES: usize = 256 << 10;
/// Each queue has so much of it, by default.
const QUEUE_BYTES: u64 = 0x1000;
const QUEUES: u16 = 5;
/// What a step may do at most: frames taken from the wire, and bytes sent: a
/// budget of 4 MiB, and one packet beyond, whose pieces have headers each.
const FRAMES: usize = 64;
const SENT: usize = 6 << 20;
/// Acts of a run, and frames that may wait: a run is short.
const ACTS: usize = 256;
const WAITING: usize = 400;

/// What the driver, or the wire, does next.
#[derive(Arbitrary, Debug)]
pub enum Act {
    Write {
        offset: u16,
        width: u8,
        value: u64,
    },
    Read {
        offset: u16,
        width: u8,
    },
    /// Status, features, queues, as they should be; `skip` leaves out steps.
    BringUp {
        features: u64,
        size: u8,
        skip: u8,
    },
    /// A queue at a place of its own.
    Queue {
        n: u8,
        size: u16,
        places: [u16; 3],
        enable: bool,
    },
    /// Any word of memory.
    Word {
        at: u16,
        word: u64,
    },
    /// A chain of some descriptors is made available, with flags that fit and
    /// some that are asked for.
    Offer {
        n: u8,
        count: u8,
        at: u32,
        len: u32,
        flags: u8,
        writable: u8,
    },
    /// One descriptor of a ring, as it stands.
    Descriptor {
        n: u8,
        index: u8,
        at: u32,
        len: u16,
        flags: u16,
        last: u16,
    },
    /// The available index, or the wrap bits, go ahead.
    Ahead {
        n: u8,
        by: u8,
    },
    Kick(u8),
    /// A header and packet in memory, for a buffer to refer to.
    Store {
        at: u32,
        head: [u8; 12],
        headers: Headers,
    },
    /// A command in memory, and a chain that holds it.
    Command {
        at: u32,
        class: u8,
        code: u8,
        data: [u8; 16],
        len: u16,
        answer: bool,
    },
    Packet {
        headers: Headers,
        len: u16,
    },
    Frame {
        head: [u8; 16],
        len: u16,
        fault: u8,
    },
    Step(u8),
    Reset,
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
        assert!((60..=MAX_FRAME).contains(&frame.len()), "a frame of {} bytes", frame.len());
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

/// How far the driver is in a queue, as it believes.
#[derive(Clone, Copy, Default)]
struct Cursor {
    descriptors: u64,
    driver: u64,
    size: u16,
    index: u16,
    wrapped: bool,
}

/// A device, its memory and its wire.
pub struct Rings {
    function: Function<Memory>,
    memory: Memory,
    cable: Cable,
    cursors: [Cursor; QUEUES as usize],
    is_packed: bool,
}

impl Rings {
    /// After power-on, or ready to receive and send; `way` says which.
    pub fn new(way: u8) -> Rings {
        let memory = Memory::new(IOVA, BYTES);
        let notify = if way & 4 == 0 { Notify::Polled } else { Notify::Wanted };
        let options =
            Options { pairs: 2, queue_size: 64, features: Options::ALL, notify, ..Options::default() };
        let function = Function::new(memory.clone(), &options, 4);
        let cursors = [Cursor::default(); QUEUES as usize];
        let mut rings = Rings { function, memory, cable: Cable::default(), cursors, is_packed: way & 2 != 0 };
        if way & 1 != 0 {
            rings.bring_up(if way & 8 == 0 { u64::MAX } else { 0 }, 4, 0);
        }
        rings
    }

    /// A run: what the acts say, and a last look at the accounts.
    pub fn run(mut self, acts: &[Act]) {
        for act in acts.iter().take(ACTS) {
            self.act(act);
        }
        self.step();
    }

    fn act(&mut self, act: &Act) {
        match *act {
            Act::Write { offset, width, value } => self.write(offset.into(), width, value),
            Act::Read { offset, width } => {
                let mut data = [0; 16];
                let len = usize::from(width) % 17;
                self.function.read(u32::from(offset) % (BAR_BYTES + 8), &mut data[..len]);
            }
            Act::BringUp { features, size, skip } => self.bring_up(features, size, skip),
            Act::Queue { n, size, places, enable } => {
                let places = places.map(|at| IOVA + u64::from(at) * 4);
                self.queue(n.into(), size, places, enable);
            }
            Act::Word { at, word } => self.memory.store(IOVA + u64::from(at) % (BYTES as u64 / 8) * 8, word),
            Act::Offer { n, count, at, len, flags, writable } => {
                self.offer(n, count, at, len, flags, writable)
            }
            Act::Descriptor { n, index, at, len, flags, last } => {
                self.describe(n, index.into(), place(at), len.into(), flags, last);
            }
            Act::Ahead { n, by } => self.ahead(n, by.into()),
            Act::Kick(n) => self.set(0x3000 + 4 * u32::from(n % 8), 2, u64::from(n % 8)),
            Act::Store { at, head, ref headers } => {
                self.memory.write(place(at), &[&head[..], &headers.bytes(100)].concat());
            }
            Act::Command { at, class, code, data, len, answer } => {
                let command = [&[class % 8, code % 8], &data[..]].concat();
                self.memory.write(place(at), &command);
                let n = 4;
                self.describe(n, 0, place(at), u32::from(len) % 2048, split::NEXT, 1);
                self.describe(n, 1, place(at), 1, if answer { split::WRITE } else { 0 }, 1);
                self.ahead(n, 1);
            }
            Act::Packet { ref headers, len } => self.frame(&headers.bytes(len), len.into(), u8::MAX),
            Act::Frame { head, len, fault } => self.frame(&head, len.into(), fault),
            Act::Step(count) => (0..count % 8).for_each(|_| self.step()),
            Act::Reset => self.function.reset(),
            Act::Map(len) => self.memory.map_only(len.into()),
            Act::Light(on) => self.cable.dark = !on,
            Act::Backpressure(on) => self.cable.backpressure = on,
        }
    }

    fn write(&mut self, offset: u32, width: u8, value: u64) {
        let len = [1, 2, 4, 8][usize::from(width) % 4];
        self.set(offset % (BAR_BYTES + 8), len, value);
    }

    fn set(&mut self, offset: u32, len: usize, value: u64) {
        self.function.write(offset, &value.to_le_bytes()[..len]);
    }

    fn bring_up(&mut self, features: u64, size: u8, skip: u8) {
        let wanted = feature::VERSION_1 | feature::ACCESS_PLATFORM;
        let packed = if self.is_packed { feature::RING_PACKED } else { 0 };
        let features = (features | wanted) & (Options::ALL & !feature::RING_PACKED) | packed;
        if skip & 1 == 0 {
            self.set(DEVICE_STATUS, 1, 0);
            let known = status::ACKNOWLEDGE | status::DRIVER;
            self.set(DEVICE_STATUS, 1, known.into());
        }
        for half in 0..2 {
            self.set(DRIVER_FEATURE_SELECT, 4, half);
            self.set(DRIVER_FEATURE, 4, features >> (32 * half));
        }
        let ok = status::ACKNOWLEDGE | status::DRIVER | status::FEATURES_OK;
        self.set(DEVICE_STATUS, 1, ok.into());
        if skip & 2 == 0 {
            self.memory.write(IOVA, &[0; QUEUES as usize * QUEUE_BYTES as usize]);
            for n in 0..QUEUES {
                let at = IOVA + QUEUE_BYTES * u64::from(n);
                self.queue(n, 1 << (size % 7), [at, at + 0x400, at + 0x800], true);
            }
        }
        self.set(DEVICE_STATUS, 1, (ok | status::DRIVER_OK).into());
        let mut data = [0; 1];
        self.function.read(DEVICE_STATUS, &mut data);
    }

    fn queue(&mut self, n: u16, size: u16, places: [u64; 3], enable: bool) {
        let n = n % QUEUES;
        self.set(QUEUE_SELECT, 2, n.into());
        self.set(QUEUE_SIZE, 2, size.into());
        for (at, address) in [QUEUE_DESC, QUEUE_DRIVER, QUEUE_DEVICE].into_iter().zip(places) {
            self.set(at, 4, address);
            self.set(at + 4, 4, address >> 32);
        }
        self.set(QUEUE_ENABLE, 2, enable.into());
        let [descriptors, driver, _] = places;
        self.cursors[usize::from(n)] =
            Cursor { descriptors, driver, size: size.max(1), index: 0, wrapped: false };
    }

    fn offer(&mut self, n: u8, count: u8, at: u32, len: u32, flags: u8, writable: u8) {
        let cursor = self.cursors[usize::from(n % QUEUES as u8)];
        let count = u16::from(count % 8) + 1;
        let head = if cursor.size == 0 { 0 } else { cursor.index % cursor.size };
        for k in 0..count {
            let next = if k + 1 < count { split::NEXT } else { 0 };
            let write = if writable >> k & 1 != 0 { split::WRITE } else { 0 };
            let table = if flags >> k & 1 != 0 { split::INDIRECT } else { 0 };
            let at = place(at.wrapping_add(u32::from(k) * 2048));
            self.describe(
                n,
                head.wrapping_add(k),
                at,
                len % 80_000,
                next | write | table,
                head.wrapping_add(k + 1),
            );
        }
        if self.is_packed {
            return self.ahead(n, count);
        }
        let slot = cursor.driver + (available::RING as u64) + 2 * u64::from(head);
        self.memory.write(slot, &head.to_le_bytes());
        self.ahead(n, 1);
    }

    /// Writes a descriptor, in a packed ring with the bits that it has there now.
    fn describe(&mut self, n: u8, index: u16, address: u64, len: u32, flags: u16, last: u16) {
        let cursor = self.cursors[usize::from(n % QUEUES as u8)];
        let index = if cursor.size == 0 { 0 } else { index % cursor.size };
        let at = cursor.descriptors + 16 * u64::from(index);
        let (third, fourth) = if self.is_packed {
            let past = cursor.size != 0 && index < cursor.index % cursor.size;
            let wrapped = cursor.wrapped != past;
            (last, flags | if wrapped { packed::USED } else { packed::AVAIL })
        } else {
            (flags, last)
        };
        let head = [&address.to_le_bytes()[..], &len.to_le_bytes()].concat();
        self.memory.write(at, &[&head[..], &third.to_le_bytes(), &fourth.to_le_bytes()].concat());
    }

    fn ahead(&mut self, n: u8, by: u16) {
        let cursor = &mut self.cursors[usize::from(n % QUEUES as u8)];
        let size = cursor.size.max(1);
        if self.is_packed {
            let ahead = cursor.index % size + by % size;
            cursor.wrapped ^= ahead >= size;
            cursor.index = ahead % size;
            return;
        }
        cursor.index = cursor.index.wrapping_add(by);
        let (at, index) = (cursor.driver + available::INDEX as u64, cursor.index);
        self.memory.write(at, &index.to_le_bytes());
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

    fn step(&mut self) {
        (self.cable.taken, self.cable.sent) = (0, 0);
        self.function.step(&mut self.cable, 0);
        assert!(self.cable.taken <= FRAMES, "{} frames in a step", self.cable.taken);
        assert!(self.cable.sent <= SENT, "{} bytes in a step", self.cable.sent);
        self.balance();
    }

    /// Offered is delivered, lost by name or waiting.
    fn balance(&self) {
        let net = self.function.net();
        let (totals, drops) = (net.totals(), net.drops());
        let (rx, waiting) = (totals.rx_offered, net.waiting() as u64);
        assert_eq!(rx, totals.rx_packets + drops.rx() + waiting, "{drops:?}");
        assert_eq!(totals.tx_offered, totals.tx_packets + drops.tx(), "{drops:?}");
    }
}

fn place(at: u32) -> u64 {
    IOVA + u64::from(at) % BYTES as u64
}
