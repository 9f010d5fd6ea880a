//! The virtio driver on a hostile device: the model answers for it while the
//! port comes up, and now and then goes on; in between anything is written to
//! the rings, and registers read as they like.

use port::{Offload, Options, Port as _, RxQueue as _, TxQueue as _};
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arbitrary::Arbitrary;
use bus::{Addressing, Backend, BarLayout, DmaRange, Error, Pci, Result};
use driver::virtio::{RxQueue, TxQueue, Virtio};
use memory::{Batch, DATA_ROOM, Dma, HEADROOM, Packet, Pool, TxOffload};
use model::virtio::Options as ModelOptions;
use model::{Dma as _, MAX_FRAME, Wire as _};
use regs::virtio::feature::{self, net};
use regs::virtio::pci::common::{DEVICE_STATUS, QUEUE_DESC, QUEUE_DEVICE, QUEUE_DRIVER, QUEUE_SELECT};
use regs::virtio::split::used;
use testbed::inprocess::{Handle, InProcess};
use testbed::view::{Access, View};
use testbed::wire::Cable;

/// Entries of a ring, and packets of the pool.
const RING: u16 = 16;
const PACKETS: usize = 64;

/// What the application or the device does next.
#[derive(Arbitrary, Debug)]
pub enum Act {
    /// The device does what it should.
    Step,
    /// The device uses some buffer: an entry, and the index behind it.
    Used {
        transmit: bool,
        slot: u8,
        id: u16,
        len: u32,
        by: u8,
    },
    /// The device writes any word of a queue's areas.
    Word {
        transmit: bool,
        area: u8,
        at: u8,
        word: u64,
    },
    /// The device's status reads as this, until it is zero.
    Status(u8),
    Recv {
        limit: u8,
    },
    Send {
        limit: u8,
    },
    Clean,
    Make {
        copies: u8,
        len: u16,
        segments: u8,
        flags: u8,
        lens: [u8; 3],
    },
    Free {
        count: u8,
    },
    Health,
}

/// What is known of the queues from what the driver wrote.
#[derive(Debug, Default)]
struct Seen {
    select: u16,
    /// Descriptor, driver and device area of each.
    areas: [[u64; 3]; 2],
    /// Reads as the status, unless zero.
    status: u8,
    /// Nobody waits for it any more.
    gone: bool,
}

/// The model, with its driver's memory and registers in somebody else's hands.
#[derive(Debug)]
struct Captive {
    inner: Pci,
    view: Mutex<View>,
    seen: Mutex<Seen>,
}

impl Captive {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn view(&self) -> MutexGuard<'_, View> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Backend for Captive {
    fn name(&self) -> String {
        "captive".to_owned()
    }

    fn read_config(&self, offset: u16, data: &mut [u8]) -> Result<()> {
        self.inner.read_config(offset, data)
    }

    fn write_config(&self, offset: u16, data: &[u8]) -> Result<()> {
        self.inner.write_config(offset, data)
    }

    fn bar_layout(&self, index: usize) -> Result<BarLayout> {
        self.inner.bar_layout(index)
    }

    fn read_bar(&self, index: usize, offset: u32, data: &mut [u8]) -> Result<()> {
        self.inner.read_bar(index, offset, data)?;
        let status = self.seen().status;
        if offset == DEVICE_STATUS && status != 0 {
            data[0] = status;
        }
        Ok(())
    }

    fn write_bar(&self, index: usize, offset: u32, data: &[u8]) -> Result<()> {
        let mut seen = self.seen();
        let value = data.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte));
        let select = usize::from(seen.select);
        match offset {
            QUEUE_SELECT => seen.select = value as u16,
            DEVICE_STATUS if value == 0 => seen.status = 0,
            QUEUE_DESC..QUEUE_DESC_END if select < 2 => {
                let (area, high) = ((offset - QUEUE_DESC) / 8, !offset.is_multiple_of(8));
                let place = &mut seen.areas[select][area as usize];
                *place = if high { *place & 0xFFFF_FFFF | value << 32 } else { value };
            }
            _ => {}
        }
        drop(seen);
        self.inner.write_bar(index, offset, data)
    }

    fn addressing(&self) -> Addressing {
        Addressing::Virtual
    }

    fn map_dma(&self, range: &DmaRange<'_>) -> Result<()> {
        let file =
            range.fd().expect("memory comes with its file").try_clone_to_owned().expect("a descriptor");
        let mapped = self.view().map(range.iova(), range.len() as u64, file, range.fd_offset(), Access::BOTH);
        mapped.expect("no two ranges overlap");
        self.inner.map_dma(range)
    }

    fn unmap_dma(&self, iova: u64, len: usize) -> Result<()> {
        self.view().unmap(iova, len as u64).expect("what is unmapped was mapped");
        self.inner.unmap_dma(iova, len)
    }

    fn interrupt_vectors(&self) -> u16 {
        self.inner.interrupt_vectors()
    }

    fn reset(&self) -> Result<()> {
        self.inner.reset()
    }

    fn health(&self) -> Result<()> {
        match self.seen().gone {
            true => Err(Error::HungUp { peer: self.name() }),
            false => self.inner.health(),
        }
    }
}

const QUEUE_DESC_END: u32 = QUEUE_DEVICE + 8;
const _: () = assert!(QUEUE_DRIVER == QUEUE_DESC + 8 && QUEUE_DEVICE == QUEUE_DRIVER + 8);

thread_local! {
    /// What takes most of a run's time to make, and is as new when a run has ended: devices
    /// by their features, which their drivers reset, and the pool, all of whose buffers are
    /// home and zero.
    static DEVICES: RefCell<HashMap<u64, (Arc<Captive>, Handle)>> = RefCell::default();
    static POOL: RefCell<Option<Pool>> = const { RefCell::new(None) };
}

/// A device with these features and with no frame on its wire.
fn device(features: u64) -> (Arc<Captive>, Handle) {
    if let Some(idle) = DEVICES.with_borrow_mut(|devices| devices.remove(&features)) {
        return idle;
    }
    let model = ModelOptions { pairs: 1, queue_size: RING, features, ..ModelOptions::default() };
    let options = testbed::virtio::Options { model, ..testbed::virtio::Options::default() };
    let cable = Cable::open(&"loop".parse().expect("a wire")).expect("a wire");
    let (inner, model) = InProcess::new(testbed::virtio::open(&options, cable));
    (Arc::new(Captive { inner, view: Mutex::default(), seen: Mutex::default() }), model)
}

fn pool(dma: &Dma) -> Pool {
    let idle = POOL.with_borrow_mut(Option::take);
    idle.unwrap_or_else(|| Pool::new(dma, PACKETS).unwrap_or_else(|error| panic!("{error}")))
}

/// Zeroes all buffers, which are in their pool.
fn wipe(pool: &mut Pool) {
    let all: Vec<Packet> = std::iter::from_fn(|| pool.alloc()).collect();
    for mut packet in all {
        packet.push_front(HEADROOM).expect("the headroom is free");
        packet.set_len(HEADROOM + DATA_ROOM).expect("the buffer is as long");
        packet.fill(0);
        pool.free(packet);
    }
}

/// An open port and its device.
pub struct Prison {
    features: u64,
    device: Arc<Captive>,
    model: Handle,
    port: Virtio,
    rx: Vec<RxQueue>,
    tx: Vec<TxQueue>,
    pool: Pool,
    held: Vec<Packet>,
    is_packed: bool,
    /// In the end each queue waits for what it gave the device to send, 100 ms at most: in
    /// few runs, or nearly all time would go there.
    waits: bool,
}

impl Prison {
    /// Opens a port; `way` says with which features. Nothing that needs the
    /// control queue is among them, for nobody would answer.
    pub fn open(way: u8) -> Prison {
        let pick = |bit: u8, feature: u64| if way & bit != 0 { feature } else { 0 };
        let features = feature::VERSION_1
            | feature::ACCESS_PLATFORM
            | net::MAC
            | net::GUEST_CSUM
            | pick(1, feature::RING_PACKED)
            | pick(2, feature::EVENT_IDX)
            | pick(4, feature::IN_ORDER)
            | pick(8, net::MRG_RXBUF)
            | pick(16, feature::INDIRECT_DESC)
            | pick(32, net::CSUM | net::HOST_TSO4 | net::HOST_USO);
        let (device, model) = device(features);
        let dma = crate::dma::space();
        let options = Options {
            rx_ring: RING.into(),
            tx_ring: RING.into(),
            rx_checksum: if way & 64 != 0 { Offload::On } else { Offload::Off },
            tx_checksum: if way & 32 != 0 { Offload::On } else { Offload::Off },
            ..Options::default()
        };
        let opened = Virtio::open(Pci::new(device.clone()), &dma, options);
        let (port, rx, tx) = opened.unwrap_or_else(|error| panic!("{error}")).split();
        let pool = pool(&dma);
        let (is_packed, waits) = (way & 1 != 0, way & 0xE0 == 0x80);
        Prison { features, device, model, port, rx, tx, pool, held: Vec::new(), is_packed, waits }
    }

    /// One run. Every buffer is back in its pool after it.
    pub fn run(mut self, acts: &[Act]) {
        self.recv(1); // gives the device its first buffers
        for act in acts {
            self.act(act);
            let held: usize = self.held.iter().map(|packet| packet.segments().count()).sum();
            let free = self.pool.available();
            assert!(held + free <= PACKETS, "{held} held and {free} free of {PACKETS}");
        }
        let mut seen = self.device.seen();
        (seen.status, seen.gone) = (0, !self.waits);
        drop(seen);
        let Prison { features, device, model, port, rx, tx, held, mut pool, .. } = self;
        drop((rx, tx, port, held));
        assert_eq!(pool.available(), PACKETS, "a buffer is lost");
        wipe(&mut pool);
        *device.seen() = Seen::default();
        model.with_cable(|cable| while cable.receive(&mut [0; MAX_FRAME]).is_some() {});
        POOL.with_borrow_mut(|place| *place = Some(pool));
        DEVICES.with_borrow_mut(|devices| devices.insert(features, (device, model)));
    }

    fn act(&mut self, act: &Act) {
        match *act {
            Act::Step => _ = self.model.step(0),
            Act::Used { transmit, slot, id, len, by } => self.forge_used(transmit, slot, id, len, by),
            Act::Word { transmit, area, at, word } => {
                let areas = self.device.seen().areas[usize::from(transmit)];
                let place = areas[usize::from(area) % 3] + 8 * u64::from(at % (2 * RING as u8));
                // Beyond the end of a small area may be anything, or nothing.
                if area % 3 != 1 || at < 4 {
                    self.device.view().write(place, &word.to_le_bytes());
                }
            }
            Act::Status(status) => self.device.seen().status = status,
            Act::Recv { limit } => self.recv(limit.into()),
            Act::Send { limit } => self.send(limit.into()),
            Act::Clean => _ = self.tx[0].clean(&mut self.pool),
            Act::Make { copies, len, segments, flags, lens } => {
                let [l2_len, l3_len, l4_len] = lens;
                let offload = TxOffload { flags, l2_len, l3_len, l4_len, segment_size: len, vlan: len };
                (0..=copies % 16).for_each(|_| self.make(len.into(), segments, offload));
            }
            Act::Free { count } => {
                let count = usize::from(count).min(self.held.len());
                self.held.drain(..count).for_each(|packet| self.pool.free(packet));
            }
            Act::Health => _ = self.port.health(),
        }
    }

    fn forge_used(&self, transmit: bool, slot: u8, id: u16, len: u32, by: u8) {
        let [ring, _, device] = self.device.seen().areas[usize::from(transmit)];
        let (view, slot) = (self.device.view(), u64::from(slot) % u64::from(RING));
        if self.is_packed {
            let flags = [0_u16, 0x8080, 0x8082, 0x0002, 0x0080, 0x8000][usize::from(by) % 6];
            let word = u64::from(flags) << 48 | u64::from(id % (RING + 2)) << 32 | u64::from(len % 4096);
            view.write(ring + 16 * slot + 8, &word.to_le_bytes());
            return;
        }
        let entry = [u32::from(id % (RING + 2)), len % 4096].map(u32::to_le_bytes).concat();
        view.write(device + used::RING as u64 + 8 * slot, &entry);
        let mut index = [0; 2];
        view.read(device + used::INDEX as u64, &mut index);
        let index = u16::from_le_bytes(index).wrapping_add(u16::from(by % 24));
        view.write(device + used::INDEX as u64, &index.to_le_bytes());
    }

    fn recv(&mut self, limit: usize) {
        let mut batch = Batch::with_limit(limit);
        let received = self.rx[0].recv(&mut self.pool, &mut batch);
        assert_eq!(received, batch.len());
        for mut packet in batch.drain() {
            assert!(packet.segments().all(|segment| segment.len() <= DATA_ROOM));
            packet.fill(0x5A);
            let _ = (packet.packet_type(), packet.l4_checksum());
            self.held.push(packet);
        }
    }

    fn send(&mut self, limit: usize) {
        let mut batch = Batch::with_limit(limit);
        let count = batch.room().min(self.held.len());
        self.held.drain(..count).for_each(|packet| assert!(batch.push(packet).is_none()));
        let taken = self.tx[0].send(&mut self.pool, &mut batch);
        assert_eq!(taken + batch.len(), count);
        let left: Vec<Packet> = batch.drain().collect();
        self.held.splice(..0, left);
    }

    fn make(&mut self, len: usize, segments: u8, offload: TxOffload) {
        let Some(mut packet) = self.pool.alloc() else { return };
        let _ = packet.set_len(len % (DATA_ROOM + 8));
        for _ in 0..segments % 20 {
            let Some(mut next) = self.pool.alloc() else { break };
            let _ = next.set_len(len % 2049);
            packet.append(next);
        }
        packet.set_tx_offload(offload);
        self.held.push(packet);
    }
}
