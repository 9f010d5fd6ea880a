//! The virtio model as a PCI function, found and driven by its registers alone,
//! in this process and over vfio-user.

use std::os::fd::{AsFd, OwnedFd};

use crate::common::limit::{Limit, until};
use bus::{Bar, DmaRange, Mapping, Pci};
use regs::virtio::device::{self, status};
use regs::virtio::feature::{self, net};
use regs::virtio::packed::descriptor as packed;
use regs::virtio::pci::{CAPABILITY_VENDOR, capability, common};
use regs::virtio::split::{available, descriptor as split, used};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{pread, pwrite};
use testbed::inprocess::{Handle, InProcess};
use testbed::serve::{Endpoint, Options as ServeOptions, Serving};
use testbed::wire::Cable;
use testbed::{vfio_user, virtio};

const IOVA: u64 = 0x40_0000;
const BYTES: usize = 0x1_0000;
const SIZE: u16 = 8;

/// How a function is reached, and how it is made to go on.
enum Reached {
    Here(Handle),
    Served(Serving, #[expect(dead_code, reason = "keeps the socket's folder")] tempfile::TempDir),
}

fn options() -> virtio::Options {
    virtio::Options::with_mac([2, 0, 0, 0, 0, 0x42])
}

fn reach(served: bool) -> (Pci, Reached) {
    // What is sent comes back.
    let cable = Cable::open(&"loop".parse().unwrap()).unwrap();
    let device = virtio::open(&options(), cable);
    if !served {
        let (pci, handle) = InProcess::new(device);
        return (pci, Reached::Here(handle));
    }
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("nic");
    let serving = vfio_user::bind(vec![Endpoint { socket: socket.clone(), device }])
        .unwrap()
        .serve(ServeOptions::default())
        .unwrap();
    (Pci::connect(&socket).unwrap(), Reached::Served(serving, folder))
}

impl Reached {
    fn until(&self, what: &str, done: impl Fn() -> bool) {
        until(what, || {
            if let Reached::Here(handle) = self {
                handle.step(0);
            }
            done()
        });
    }

    fn report(&self) -> testbed::DeviceReport {
        match self {
            Reached::Here(handle) => handle.report(),
            Reached::Served(serving, _) => serving.report().endpoints.remove(0).device,
        }
    }
}

/// Memory that the device sees, written and read through its file.
struct Memory {
    file: OwnedFd,
    mapping: Mapping,
}

impl Memory {
    fn new(pci: &Pci) -> Memory {
        let file = rustix::fs::memfd_create("test", rustix::fs::MemfdFlags::ALLOW_SEALING).unwrap();
        rustix::fs::ftruncate(&file, BYTES as u64).unwrap();
        let mapping = Mapping::new(&file, 0, BYTES).unwrap();
        // SAFETY: the mapping is ours alone, and lives until after the range was
        // unmapped, in `close`.
        let range = unsafe { DmaRange::new(mapping.base(), BYTES, IOVA, Some((file.as_fd(), 0))) };
        pci.map_dma(&range).unwrap();
        Memory { file, mapping }
    }

    fn put(&self, at: u64, data: &[u8]) {
        assert_eq!(pwrite(&self.file, data, at).unwrap(), data.len());
    }

    fn bytes(&self, at: u64, len: usize) -> Vec<u8> {
        let mut data = vec![0; len];
        assert_eq!(pread(&self.file, &mut data, at).unwrap(), len);
        data
    }

    fn close(self, pci: &Pci) {
        pci.unmap_dma(IOVA, BYTES).unwrap();
        drop(self.mapping);
    }
}

/// The capabilities of virtio's: type, offset in configuration space.
fn capabilities(pci: &Pci) -> Vec<(u8, u16)> {
    let read = |at: u16| {
        let mut byte = [0];
        pci.read_config(at, &mut byte).unwrap();
        byte[0]
    };
    let (mut at, mut found) = (u16::from(read(0x34)), Vec::new());
    let mut limit = Limit::rounds(48, "the end of the list of capabilities");
    while at != 0 {
        limit.check();
        if read(at) == CAPABILITY_VENDOR {
            found.push((read(at + capability::CFG_TYPE), at));
        }
        at = read(at + 1).into();
    }
    found
}

fn word(pci: &Pci, at: u16) -> u32 {
    let mut data = [0; 4];
    pci.read_config(at, &mut data).unwrap();
    u32::from_le_bytes(data)
}

/// Where a structure lies in BAR 0.
fn structure(pci: &Pci, kind: u8) -> u32 {
    let (_, at) = capabilities(pci).into_iter().find(|found| found.0 == kind).unwrap();
    word(pci, at + capability::OFFSET)
}

#[test]
fn the_function_says_what_it_is() {
    for served in [false, true] {
        let (pci, way) = reach(served);
        assert_eq!(word(&pci, 0), u32::from(device::NET_MODERN) << 16 | u32::from(device::VENDOR));
        let kinds: Vec<u8> = capabilities(&pci).iter().map(|found| found.0).collect();
        assert_eq!(kinds, [1, 2, 3, 4, 5]);
        let bar = pci.bar(0).unwrap();
        let config = structure(&pci, capability::TYPE_DEVICE);
        let mac: Vec<u8> = (0..6).map(|at| bar.read8(config + at)).collect();
        assert_eq!(mac, options().model.mac);
        // Through the window in configuration space as well (4.1.4.9).
        let (_, window) = capabilities(&pci)[4];
        pci.write_config(window + capability::BAR, &[0]).unwrap();
        pci.write_config(window + capability::OFFSET, &config.to_le_bytes()).unwrap();
        pci.write_config(window + capability::LENGTH, &1u32.to_le_bytes()).unwrap();
        assert_eq!(word(&pci, window + capability::PCI_CFG_DATA) as u8, mac[0]);
        let queues = structure(&pci, capability::TYPE_COMMON) + common::NUM_QUEUES;
        assert_eq!(bar.read16(queues), 9);
        assert_eq!(way.report().findings, []);
    }
}

/// Brings up the first pair, with its queues at the begin of memory.
fn bring_up(bar: &Bar, features: u64) {
    let known = status::ACKNOWLEDGE | status::DRIVER;
    bar.write8(common::DEVICE_STATUS, 0);
    assert_eq!(bar.read8(common::DEVICE_STATUS), 0);
    bar.write8(common::DEVICE_STATUS, status::ACKNOWLEDGE);
    bar.write8(common::DEVICE_STATUS, known);
    for half in 0..2 {
        bar.write32(common::DRIVER_FEATURE_SELECT, half);
        bar.write32(common::DRIVER_FEATURE, (features >> (32 * half)) as u32);
    }
    bar.write8(common::DEVICE_STATUS, known | status::FEATURES_OK);
    assert_ne!(bar.read8(common::DEVICE_STATUS) & status::FEATURES_OK, 0);
    for queue in 0..2u16 {
        bar.write16(common::QUEUE_SELECT, queue);
        bar.write16(common::QUEUE_SIZE, SIZE);
        bar.write16(common::QUEUE_MSIX_VECTOR, queue);
        assert_eq!(bar.read16(common::QUEUE_MSIX_VECTOR), queue);
        let base = IOVA + 0x1000 * u64::from(queue);
        for (n, at) in
            [common::QUEUE_DESC, common::QUEUE_DRIVER, common::QUEUE_DEVICE].into_iter().enumerate()
        {
            let address = base + 0x400 * n as u64;
            bar.write32(at, address as u32);
            bar.write32(at + 4, (address >> 32) as u32);
        }
        bar.write16(common::QUEUE_ENABLE, 1);
        assert_eq!(bar.read16(common::QUEUE_ENABLE), 1);
    }
    bar.write8(common::DEVICE_STATUS, known | status::FEATURES_OK | status::DRIVER_OK);
}

/// Makes one buffer of a queue available.
fn offer(memory: &Memory, queue: u64, at: u64, len: u32, write: u16, is_packed: bool) {
    let base = 0x1000 * queue;
    let head = [&(IOVA + at).to_le_bytes()[..], &len.to_le_bytes()].concat();
    let tail = if is_packed { [0, write | packed::AVAIL] } else { [write, 0] };
    memory.put(base, &[&head[..], &tail.map(u16::to_le_bytes).concat()].concat());
    if !is_packed {
        memory.put(base + 0x400 + available::INDEX as u64, &1u16.to_le_bytes());
    }
}

/// What the device wrote to a queue's first buffer, once it has used it.
fn written(memory: &Memory, queue: u64, is_packed: bool) -> Option<u32> {
    let base = 0x1000 * queue;
    let (done, at) = if is_packed {
        let flags = memory.bytes(base + packed::FLAGS as u64, 2);
        (flags[1] & 0x80 != 0, base + packed::LEN as u64)
    } else {
        let index = memory.bytes(base + 0x800 + used::INDEX as u64, 2);
        (index == [1, 0], base + 0x800 + (used::RING + used::ENTRY_LEN) as u64)
    };
    let len = memory.bytes(at, 4);
    done.then(|| u32::from_le_bytes([len[0], len[1], len[2], len[3]]))
}

#[test]
fn a_frame_goes_out_and_comes_back() {
    for (served, is_packed) in [(false, false), (false, true), (true, false), (true, true)] {
        let (pci, way) = reach(served);
        pci.set_bus_master(true).unwrap();
        let memory = Memory::new(&pci);
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap();
        pci.set_interrupt(0, Some(event.as_fd())).unwrap();
        let bar = pci.bar(0).unwrap();
        let ring = if is_packed { feature::RING_PACKED } else { 0 };
        bring_up(&bar, feature::VERSION_1 | feature::ACCESS_PLATFORM | net::MRG_RXBUF | ring);
        let mut frame = vec![0x5A; 100];
        frame[..6].copy_from_slice(&options().model.mac);
        memory.put(0x8000, &[&[0; 12][..], &frame].concat());
        offer(&memory, 0, 0x4000, 2048, split::WRITE, is_packed);
        offer(&memory, 1, 0x8000, 112, 0, is_packed);
        way.until("the frame to come back", || written(&memory, 0, is_packed).is_some());
        assert_eq!(written(&memory, 0, is_packed), Some(112));
        assert_eq!(written(&memory, 1, is_packed), Some(0));
        assert_eq!(memory.bytes(0x4000 + 12, 100), frame);
        assert_eq!(memory.bytes(0x4000 + 10, 2), [1, 0], "one buffer");
        way.until("the interrupt", || rustix::io::read(&event, &mut [0; 8]).is_ok());
        bar.write8(common::DEVICE_STATUS, 0);
        way.until("the reset", || bar.read8(common::DEVICE_STATUS) == 0);
        memory.close(&pci);
        let report = way.report();
        assert_eq!((report.findings, report.odd_accesses), (Vec::new(), 0));
        assert_eq!((report.counters["rx_packets"], report.counters["tx_packets"]), (1, 1));
        assert!(report.drops.is_empty());
    }
}

#[test]
fn without_bus_mastering_nothing_moves() {
    let (pci, way) = reach(false);
    let memory = Memory::new(&pci);
    let bar = pci.bar(0).unwrap();
    bring_up(&bar, feature::VERSION_1 | feature::ACCESS_PLATFORM);
    offer(&memory, 1, 0x8000, 112, 0, false);
    let Reached::Here(handle) = &way else { unreachable!() };
    (0..10).for_each(|_| _ = handle.step(0));
    assert_eq!(written(&memory, 1, false), None);
    assert_eq!(way.report().findings[0].rule, "RingUnmapped");
    pci.set_bus_master(true).unwrap();
    way.until("the frame to go", || written(&memory, 1, false).is_some());
    memory.close(&pci);
}

#[test]
fn memory_that_goes_is_touched_no_more_and_may_come_back() {
    let (pci, way) = reach(false);
    pci.set_bus_master(true).unwrap();
    let memory = Memory::new(&pci);
    let bar = pci.bar(0).unwrap();
    bring_up(&bar, feature::VERSION_1 | feature::ACCESS_PLATFORM);
    let Reached::Here(handle) = &way else { unreachable!() };
    handle.step(0);
    memory.close(&pci);
    (0..10).for_each(|_| _ = handle.step(0));
    let memory = Memory::new(&pci);
    memory.put(0x8000, &[0; 112]);
    offer(&memory, 1, 0x8000, 112, 0, false);
    way.until("the frame to go", || written(&memory, 1, false).is_some());
    memory.close(&pci);
}
