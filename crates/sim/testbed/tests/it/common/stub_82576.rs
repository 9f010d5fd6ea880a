//! An 82576 of which there is no model: registers that keep what is written, a device that
//! fills the buffers of one ring and reports those of another as sent. Just enough of
//! its datasheet (revision 2.87) for the driver to come up and to move packets.
#![allow(dead_code, clippy::unwrap_used)]

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{JoinHandle, spawn};

use bus::config_space::{BarType, ConfigSpace};
use bus::vfio_user::server::{DmaAccess, RegionInfo, Served, serve_stream};
use bus::{Ids, Kind};
use model::Dma as _;
use regs::igb::*;
use regs::ixgbe::descriptor::{rx_high, tx};
use testbed::view::{Access, View};

/// Bytes of a frame that is received.
const FRAME: usize = 100;

struct Stub {
    config: ConfigSpace,
    registers: Vec<u32>,
    memory: View,
    rx_head: u32,
    tx_head: u32,
}

/// The device, which a test steps and a thread serves.
#[derive(Clone)]
pub struct Served82576(Arc<Mutex<Stub>>);

/// Serves one client until dropped.
pub struct ServingStub {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Served82576 {
    pub fn new() -> Served82576 {
        let ids = Ids {
            vendor: 0x8086,
            device: 0x10C9,
            revision: 1,
            class: 0x02_0000,
            subsystem_vendor: 0x8086,
            subsystem: 1,
        };
        let config = ConfigSpace::new(ids).with_bar(0, BarType::Memory64, BAR0_LEN.into());
        let registers = vec![0; BAR0_LEN as usize / 4];
        let stub = Stub { config, registers, memory: View::default(), rx_head: 0, tx_head: 0 };
        Served82576(Arc::new(Mutex::new(stub)))
    }

    pub fn serve(&self, stream: UnixStream) -> ServingStub {
        let (stop, mut device) = (Arc::new(AtomicBool::new(false)), self.clone());
        let stopped = stop.clone();
        let thread = spawn(move || _ = serve_stream(&stream, &mut device, &stopped));
        ServingStub { stop, thread: Some(thread) }
    }

    fn lock(&self) -> MutexGuard<'_, Stub> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fills some buffers and sends some packets.
    pub fn step(&self) {
        self.lock().step();
    }
}

impl Drop for ServingStub {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

impl Stub {
    fn get(&self, at: u32) -> u32 {
        self.registers[at as usize / 4]
    }

    fn put(&mut self, at: u32, value: u32) {
        self.registers[at as usize / 4] = value;
    }

    /// The descriptor at `n`, if there is such a ring: where, and its words.
    fn descriptor(&self, [low, high, len]: [u32; 3], n: u32) -> Option<(u64, [u64; 2])> {
        let at = u64::from(self.get(low)) | u64::from(self.get(high)) << 32;
        let at = at + u64::from(n) * 16;
        let mut bytes = [[0; 8]; 2];
        let [first, second] = &mut bytes;
        let read = n < self.get(len) / 16 && self.memory.read(at, first) && self.memory.read(at + 8, second);
        read.then(|| (at, bytes.map(u64::from_le_bytes)))
    }

    fn step(&mut self) {
        let rx = [RDBAL::at(0), RDBAH::at(0), RDLEN::at(0)];
        for _ in 0..8 {
            let Some((at, [buffer, _])) = self.descriptor(rx, self.rx_head) else { break };
            if self.rx_head == self.get(RDT::at(0)) || self.get(RCTL::AT) & RCTL::RXEN == 0 {
                break;
            }
            self.memory.write(buffer, &[0x5A; FRAME]);
            let done = rx_high::DD | rx_high::EOP | (FRAME as u64) << rx_high::LENGTH_SHIFT;
            self.memory.write(at, &[0; 8]);
            self.memory.write(at + 8, &done.to_le_bytes());
            self.rx_head = (self.rx_head + 1) % (self.get(RDLEN::at(0)) / 16).max(1);
        }
        let ring = [TDBAL::at(0), TDBAH::at(0), TDLEN::at(0)];
        for _ in 0..8 {
            let Some((at, [_, high])) = self.descriptor(ring, self.tx_head) else { break };
            if self.tx_head == self.get(TDT::at(0)) {
                break;
            }
            self.memory.write(at + 8, &(high | tx::DD).to_le_bytes());
            self.tx_head = (self.tx_head + 1) % (self.get(TDLEN::at(0)) / 16).max(1);
        }
    }

    fn reset(&mut self) {
        self.registers.fill(0);
        (self.rx_head, self.tx_head) = (0, 0);
    }
}

impl Served for Served82576 {
    fn read_config(&mut self, offset: u16, data: &mut [u8]) {
        self.lock().config.read(offset, data);
    }

    fn write_config(&mut self, offset: u16, data: &[u8]) {
        self.lock().config.write(offset, data);
    }

    fn regions(&self) -> Vec<RegionInfo> {
        vec![RegionInfo { bar: 0, size: BAR0_LEN.into(), kind: Kind::Memory, shared: None }]
    }

    fn read_bar(&mut self, _: usize, offset: u64, data: &mut [u8]) {
        let (device, at) = (self.lock(), offset as u32 & !3);
        let word = match at {
            EEC::AT => EEC::AUTO_RD,
            STATUS::AT => STATUS::LU,
            _ if at == RAL::at(0) => 0x3412_0002,
            _ if at == RAH::at(0) => 0x7856,
            _ if at == TDH::at(0) => device.tx_head,
            _ => device.get(at % BAR0_LEN),
        };
        data.fill(0);
        let len = data.len().min(4);
        data[..len].copy_from_slice(&word.to_le_bytes()[..len]);
    }

    fn write_bar(&mut self, _: usize, offset: u64, data: &[u8]) {
        let (mut device, at) = (self.lock(), offset as u32 & !3);
        let mut word = [0; 4];
        let len = data.len().min(4);
        word[..len].copy_from_slice(&data[..len]);
        let value = u32::from_le_bytes(word);
        match at {
            CTRL::AT if value & CTRL::RST != 0 => device.reset(),
            MDIC::AT => device.put(at, value | MDIC::R),
            _ => device.put(at % BAR0_LEN, value),
        }
    }

    fn map_dma(
        &mut self,
        iova: u64,
        len: u64,
        fd: Option<OwnedFd>,
        offset: u64,
        access: DmaAccess,
    ) -> io::Result<()> {
        let access = Access { read: access.read, write: access.write };
        match fd {
            Some(file) => self.lock().memory.map(iova, len, file, offset, access),
            None => self.lock().memory.map_unreachable(iova, len),
        }
    }

    fn unmap_dma(&mut self, iova: u64, len: u64) -> io::Result<()> {
        self.lock().memory.unmap(iova, len)
    }

    fn interrupt_vectors(&self) -> u16 {
        10
    }

    fn set_interrupt(&mut self, _: u16, _: Option<OwnedFd>) {}

    fn reset(&mut self) {
        self.lock().reset();
    }

    fn disconnected(&mut self) {
        let mut device = self.lock();
        device.memory.clear();
        device.reset();
    }
}
