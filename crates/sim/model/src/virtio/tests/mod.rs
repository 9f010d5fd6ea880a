//! The model against the driver's side of its queues, split and packed.

mod control;
mod hostile;
mod rx;
mod tx;

use std::sync::{Arc, Mutex};

use regs::virtio::device::status;
use regs::virtio::feature::{self, net};
use regs::virtio::pci::common;

use super::lint::Rule;
use super::pci::Function;
use super::{Notify, Options};
use crate::Interrupts;
use crate::fixture::guest::{Side, readable, writable};
use crate::fixture::{Cable, Memory};

pub(super) const IOVA: u64 = 0x10_0000;
const BYTES: usize = 1 << 20;
pub(super) const SIZE: u16 = 16;
/// Where buffers begin, behind the queues.
pub(super) const BUFFERS: u64 = IOVA + 0x1_0000;

#[derive(Clone, Default)]
pub(super) struct Raised(Arc<Mutex<Vec<u16>>>);

impl Interrupts for Raised {
    fn raise(&mut self, vector: u16) {
        self.0.lock().unwrap().push(vector);
    }
}

impl Raised {
    pub fn take(&self) -> Vec<u16> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// A device that a driver has brought up: queues, memory, cable.
pub(super) struct Rig {
    pub function: Function<Memory>,
    pub memory: Memory,
    pub cable: Cable,
    pub raised: Raised,
    pub rx: Side,
    pub tx: Side,
    pub control: Side,
    pub is_packed: bool,
}

pub(super) const BASE: u64 = feature::VERSION_1 | feature::ACCESS_PLATFORM | feature::INDIRECT_DESC;

impl Rig {
    pub fn options() -> Options {
        Options { pairs: 2, queue_size: 64, features: Options::ALL, ..Options::default() }
    }

    pub fn new(features: u64) -> Rig {
        Rig::with(Rig::options(), features)
    }

    pub fn with(options: Options, features: u64) -> Rig {
        let memory = Memory::new(IOVA, BYTES);
        let raised = Raised::default();
        let mut function = Function::new(memory.clone(), &options, 8);
        function.set_interrupts(Some(Box::new(raised.clone())));
        let is_packed = features & feature::RING_PACKED != 0;
        let side = |n: u64| {
            let mut side = Side::new(&memory, IOVA + 0x1000 * n, SIZE, is_packed);
            side.in_order = features & feature::IN_ORDER != 0;
            side
        };
        let (rx, tx, control) = (side(0), side(1), side(2));
        let cable = Cable::default();
        let mut rig = Rig { function, memory, cable, raised, rx, tx, control, is_packed };
        rig.bring_up(BASE | features);
        rig
    }

    /// As section 3.1.1 has it.
    pub fn bring_up(&mut self, features: u64) {
        self.write8(common::DEVICE_STATUS, 0);
        assert_eq!(self.read(common::DEVICE_STATUS, 1), 0);
        self.write8(common::DEVICE_STATUS, status::ACKNOWLEDGE);
        self.write8(common::DEVICE_STATUS, status::ACKNOWLEDGE | status::DRIVER);
        for half in 0..2 {
            self.write32(common::DRIVER_FEATURE_SELECT, half);
            self.write32(common::DRIVER_FEATURE, (features >> (32 * half)) as u32);
        }
        let ok = status::ACKNOWLEDGE | status::DRIVER | status::FEATURES_OK;
        self.write8(common::DEVICE_STATUS, ok);
        assert_eq!(self.read(common::DEVICE_STATUS, 1), u64::from(ok));
        self.set_up(0, &self.rx.clone());
        self.set_up(1, &self.tx.clone());
        if let Some(index) = self.function.net().control_queue() {
            self.set_up(index, &self.control.clone());
        }
        self.write16(common::CONFIG_MSIX_VECTOR, 7);
        self.write8(common::DEVICE_STATUS, ok | status::DRIVER_OK);
        self.step();
    }

    pub fn set_up(&mut self, index: u16, side: &Side) {
        self.write16(common::QUEUE_SELECT, index);
        self.write16(common::QUEUE_SIZE, side.place.size);
        self.write16(common::QUEUE_MSIX_VECTOR, index);
        let place = side.place;
        for (at, address) in [
            (common::QUEUE_DESC, place.descriptors),
            (common::QUEUE_DRIVER, place.driver),
            (common::QUEUE_DEVICE, place.device),
        ] {
            self.write32(at, address as u32);
            self.write32(at + 4, (address >> 32) as u32);
        }
        self.write16(common::QUEUE_ENABLE, 1);
    }

    pub fn read(&mut self, offset: u32, len: usize) -> u64 {
        let mut data = [0; 8];
        self.function.read(offset, &mut data[..len]);
        u64::from_le_bytes(data)
    }

    pub fn write8(&mut self, offset: u32, value: u8) {
        self.function.write(offset, &[value]);
    }

    pub fn write16(&mut self, offset: u32, value: u16) {
        self.function.write(offset, &value.to_le_bytes());
    }

    pub fn write32(&mut self, offset: u32, value: u32) {
        self.function.write(offset, &value.to_le_bytes());
    }

    pub fn kick(&mut self, index: u16) {
        self.write16(0x3000 + 4 * u32::from(index), index);
    }

    pub fn step(&mut self) -> usize {
        let mut moved = 0;
        for _ in 0..4 {
            moved += self.function.step(&mut self.cable, 0);
        }
        moved
    }

    pub fn count(&self, rule: Rule) -> u64 {
        self.function.net().lint().count(rule)
    }

    pub fn is_clean(&self) -> bool {
        let lint = self.function.net().lint();
        lint.iter().for_each(|finding| eprintln!("{finding}"));
        lint.is_empty()
    }

    pub fn needs_reset(&mut self) -> bool {
        self.read(common::DEVICE_STATUS, 1) as u8 & status::NEEDS_RESET != 0
    }

    /// Puts bytes into memory.
    pub fn put(&self, address: u64, data: &[u8]) {
        assert!(crate::Dma::write(&self.memory, address, data));
    }

    /// A packet in memory at `at`, without anything asked for.
    pub fn packet(&self, at: u64, frame: &[u8]) -> usize {
        self.put(at, &[&[0; 12][..], frame].concat());
        12 + frame.len()
    }
}

/// Some bytes that differ from place to place, for everybody.
pub(super) fn frame(len: usize) -> Vec<u8> {
    let mut frame: Vec<u8> = (0..len).map(|n| (n * 7 + n / 256) as u8).collect();
    frame[..6].fill(0xFF);
    frame[12..14].copy_from_slice(&[0x88, 0xB5]);
    frame
}

/// Split and packed, each with and without what a ring cares for.
pub(super) const RINGS: [u64; 8] = [
    0,
    feature::EVENT_IDX,
    feature::IN_ORDER,
    feature::EVENT_IDX | feature::IN_ORDER,
    feature::RING_PACKED,
    feature::RING_PACKED | feature::EVENT_IDX,
    feature::RING_PACKED | feature::IN_ORDER,
    feature::RING_PACKED | feature::EVENT_IDX | feature::IN_ORDER,
];

#[test]
fn a_driver_that_does_right_is_not_found_fault_with() {
    for ring in RINGS {
        let mut rig = Rig::new(ring | net::MRG_RXBUF | net::CTRL_VQ | net::MQ);
        assert!(rig.is_clean());
        assert_eq!(rig.read(common::NUM_QUEUES, 2), 5);
        assert!(!rig.needs_reset());
        assert!(!rig.rx.wants_kick() || ring & feature::EVENT_IDX != 0, "it is polled");
    }
}

#[test]
fn interrupts_come_as_they_are_wanted() {
    for ring in RINGS {
        let mut rig = Rig::new(ring);
        let events = ring & feature::EVENT_IDX != 0;
        let send = |rig: &mut Rig, times: usize| {
            for _ in 0..times {
                let len = rig.packet(BUFFERS, &frame(60));
                rig.tx.offer(&[readable(BUFFERS, len)]);
            }
            rig.step();
            rig.tx.take_batch();
            rig.raised.take()
        };
        if events {
            rig.tx.want_interrupt_after(2);
            assert_eq!(send(&mut rig, 2), [], "{ring:#x}");
            assert_eq!(send(&mut rig, 1), [1], "{ring:#x}");
            rig.tx.want_interrupt_after(20);
            for _ in 0..20 {
                assert_eq!(send(&mut rig, 1), [], "{ring:#x}");
            }
            assert_eq!(send(&mut rig, 1), [1], "{ring:#x}");
        } else {
            rig.tx.want_interrupts(true);
            assert_eq!(send(&mut rig, 3), [1], "one for a burst");
            rig.tx.want_interrupts(false);
            assert_eq!(send(&mut rig, 3), []);
        }
    }
}

#[test]
fn a_device_that_wants_notifications_sleeps_until_then() {
    for ring in RINGS {
        let options = Options { notify: Notify::Wanted, ..Rig::options() };
        let mut rig = Rig::with(options, ring);
        let len = rig.packet(BUFFERS, &frame(60));
        rig.tx.offer(&[readable(BUFFERS, len)]);
        assert_eq!(rig.step(), 0, "asleep {ring:#x}");
        rig.kick(1);
        assert_eq!(rig.step(), 1, "{ring:#x}");
        rig.tx.offer(&[readable(BUFFERS, len)]);
        assert_eq!(rig.step(), 0, "asleep again {ring:#x}");
        rig.kick(1);
        assert_eq!(rig.step(), 1, "{ring:#x}");
        rig.rx.offer(&[writable(BUFFERS, 2048)]);
        rig.kick(0);
        rig.cable.send(&frame(60));
        assert!(rig.step() > 0);
        assert!(rig.rx.take().is_some());
        assert!(rig.is_clean());
    }
}

#[test]
fn the_link_changes_the_configuration() {
    let mut rig = Rig::new(net::STATUS);
    assert_eq!(rig.read(0x2006, 2), 1);
    let before = rig.read(common::CONFIG_GENERATION, 1);
    rig.cable.unplugged = true;
    rig.step();
    assert_eq!(rig.read(0x2006, 2), 0);
    assert_ne!(rig.read(common::CONFIG_GENERATION, 1), before);
    assert_eq!(rig.raised.take(), [7]);
    assert_eq!(rig.read(0x1000, 1), 2, "the interrupt status says so");
    assert_eq!(rig.read(0x1000, 1), 0, "once");
    rig.cable.send(&frame(60));
    rig.step();
    assert_eq!(rig.function.net().drops().rx_link_down, 1);
}

#[test]
fn a_reset_takes_everything_back() {
    let mut rig = Rig::new(feature::RING_PACKED | net::CTRL_VQ);
    rig.rx.offer(&[writable(BUFFERS, 2048)]);
    rig.write8(common::DEVICE_STATUS, 0);
    assert_eq!(rig.read(common::DEVICE_STATUS, 1), 0);
    rig.cable.send(&frame(60));
    rig.step();
    assert!(rig.rx.take().is_none());
    assert_eq!(rig.function.net().drops().rx_not_running, 1);
    rig.write16(common::QUEUE_SELECT, 0);
    assert_eq!((rig.read(common::QUEUE_ENABLE, 2), rig.read(common::QUEUE_SIZE, 2)), (0, 64));
    // And it works again, as a split one this time.
    rig.rx = Side::new(&rig.memory, IOVA, SIZE, false);
    rig.tx = Side::new(&rig.memory, IOVA + 0x1000, SIZE, false);
    rig.put(IOVA, &[0; 0x2000]);
    rig.bring_up(BASE);
    rig.rx.offer(&[writable(BUFFERS, 2048)]);
    rig.cable.send(&frame(60));
    rig.step();
    assert_eq!(rig.rx.take(), Some((0, 72)));
    assert!(rig.is_clean());
}
